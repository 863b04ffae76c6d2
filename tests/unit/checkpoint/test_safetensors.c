/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: what may stand in a header, and what is written. */
#include "checkpoint/safetensors/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "support/support.h"

static stk_status parse_text(stk_context *ctx, const char *text, size_t length,
                             stk__safetensors *out, stk_error *err)
{
    char *json = stk__alloc(ctx, length + 1);

    assert_non_null(json);
    memcpy(json, text, length);
    stk_error_init(err);
    return stk__safetensors_parse(ctx, json, length, "file", out, err);
}

/* ---- Headers that are right ---- */

static void test_header(void **state)
{
    static const char text[] =
        " \n{\"b\":{\"shape\":[2,3],\"data_offsets\":[4,28],\"dtype\":\"F32\"} ,\t"
        "\"__metadata__\":{\"k\":\"v\",\"\\u00e9\\ud83d\\ude00\\n\\\"\":\"\"},"
        "\"a\\/\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[28,28]},"
        "\"one\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[28,29]}}   ";
    stk_context *ctx = test_context();
    stk__safetensors s;
    stk_error err;

    assert_ok(parse_text(ctx, text + 2, sizeof text - 3, &s, &err), &err);
    assert_int_equal(s.num_tensors, 4);
    assert_int_equal(s.data_bytes, 29);
    assert_string_equal(s.tensors[0].name, "a/");
    assert_int_equal(s.tensors[0].dtype, STK_BFLOAT16);
    assert_string_equal(s.tensors[1].name, "b");
    assert_int_equal(s.tensors[1].rank, 2);
    assert_int_equal(s.tensors[1].shape[1], 3);
    assert_int_equal(s.begins[1], 4);
    assert_int_equal(s.tensors[1].bytes, 24);
    assert_string_equal(s.tensors[2].name, "none");
    assert_int_equal(s.tensors[3].bytes, 1);
    assert_ptr_equal(stk__safetensors_find(&s, "one"), &s.tensors[3]);
    assert_null(stk__safetensors_find(&s, "two"));
    assert_string_equal(stk__safetensors_find_text(&s, "k"), "v");
    assert_string_equal(stk__safetensors_find_text(&s, "\xc3\xa9\xf0\x9f\x98\x80\n\""), "");
    assert_null(stk__safetensors_find_text(&s, "a/"));
    stk__safetensors_release(&s);

    /* What the reader of Python takes for none, and answers with the tensor. */
    static const char null[] = "{\"__metadata__\" : null ,\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                               "\"data_offsets\":[0,1]}}";
    assert_ok(parse_text(ctx, null, sizeof null - 1, &s, &err), &err);
    assert_int_equal(s.num_texts, 0);
    assert_non_null(stk__safetensors_find(&s, "a"));
    stk__safetensors_release(&s);

    assert_ok(parse_text(ctx, "{}", 2, &s, &err), &err);
    assert_int_equal(s.num_tensors, 0);
    assert_null(stk__safetensors_find(&s, ""));
    assert_null(stk__safetensors_find_text(&s, ""));
    stk__safetensors_release(&s);
    stk_context_destroy(&ctx);
}

/* ---- Headers that are refused ---- */

#define T(offsets) "\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[" offsets "]"

static const struct {
    const char *json, *message;
    stk_status status;
} bad[] = {
    {"", "does not begin with '{'", STK_EFORMAT},
    {" {}", "does not begin with '{'", STK_EFORMAT},
    {"[]", "does not begin with '{'", STK_EFORMAT},
    {"{", "'\"' is missing", STK_EFORMAT},
    {"{}x", "something follows", STK_EFORMAT},
    {"{}{}", "something follows", STK_EFORMAT},
    {"{\"a\"}", "':' is missing", STK_EFORMAT},
    {"{\"a\":1}", "'{' is missing", STK_EFORMAT},
    {"{\"a\":{}}", "'\"' is missing", STK_EFORMAT},
    {"{\"a\":{" T("0,2") "}", "',' or '}' is missing", STK_EFORMAT},
    {"{\"a\":{" T("0,2") "},}", "'\"' is missing", STK_EFORMAT},
    {"{\"a\":{" T("0,2") ",\"x\":1}}", "unknown member 'x'", STK_EFORMAT},
    {"{\"a\":{" T("0,2") ",\"dtype\":\"U8\"}}", "has 'dtype' twice", STK_EFORMAT},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2]}}", "not all of dtype", STK_EFORMAT},
    {"{\"a\":{" T("0,2") "},\"a\":{" T("2,4") "}}", "two tensors have the name 'a'", STK_EFORMAT},
    {"{\"a\":{" T("0,2") "},\"\\u0061\":{" T("2,4") "}}", "two tensors have the name", STK_EFORMAT},
    {"{\"a\":{" T("0,2") "},\"b\":{" T("1,3") "}}", "overlaps", STK_EFORMAT},
    {"{\"a\":{" T("0,2") "},\"b\":{" T("3,5") "}}", "hole", STK_EFORMAT},
    {"{\"a\":{" T("1,3") "}}", "hole", STK_EFORMAT},
    {"{\"a\":{" T("2,0") "}}", "do not fit its shape", STK_EFORMAT},
    {"{\"a\":{" T("0,3") "}}", "do not fit its shape", STK_EFORMAT},
    {"{\"a\":{" T("0,18446744073709551616") "}}", "too large", STK_EFORMAT},
    {"{\"a\":{" T("18446744073709551614,18446744073709551616") "}}", "too large", STK_EFORMAT},
    {"{\"a\":{" T("18446744073709551613,18446744073709551615") "}}", "hole", STK_EFORMAT},
    {"{\"a\":{" T("-1,1") "}}", "whole number", STK_EFORMAT},
    {"{\"a\":{" T("0,2.0") "}}", "whole number", STK_EFORMAT},
    {"{\"a\":{" T("0,2e0") "}}", "whole number", STK_EFORMAT},
    {"{\"a\":{" T("0,02") "}}", "whole number", STK_EFORMAT},
    {"{\"a\":{" T("0") "}}", "',' is missing", STK_EFORMAT},
    {"{\"a\":{" T("0,2,3") "}}", "']' is missing", STK_EFORMAT},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,16],\"data_offsets\":[0,0]}}",
     "do not fit", STK_EFORMAT},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}",
     "do not fit", STK_EFORMAT},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808,0],\"data_offsets\":[0,0]}}",
     "too large", STK_EFORMAT},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[[2]],\"data_offsets\":[0,2]}}", "whole number",
     STK_EFORMAT},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
     "more than 8 dimensions", STK_EKIND},
    {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", "'F8_E4M3'",
     STK_EKIND},
    {"{\"__metadata__\":{\"a\":1}}", "'\"' is missing", STK_EFORMAT},
    {"{\"__metadata__\":{\"a\":{}}}", "'\"' is missing", STK_EFORMAT},
    {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", "two texts", STK_EFORMAT},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", "comes twice", STK_EFORMAT},
    {"{\"__metadata__\":null,\"__metadata__\":null}", "comes twice", STK_EFORMAT},
    {"{\"__metadata__\":nul}", "'{' is missing", STK_EFORMAT},
    {"{\"__metadata__\":nullx}", "',' or '}' is missing", STK_EFORMAT},
    {"{\"__metadata__\":{\"a\":null}}", "'\"' is missing", STK_EFORMAT},
    {"{\"a\":null}", "'{' is missing", STK_EFORMAT},
    {"{\"a", "does not end", STK_EFORMAT},
    {"{\"a\nb\":{}}", "does not end", STK_EFORMAT},
    {"{\"\\x41\":{}}", "unknown escape", STK_EFORMAT},
    {"{\"\\u12\":{}}", "unknown escape", STK_EFORMAT},
    {"{\"\\u0000\":{}}", "no text can have", STK_EFORMAT},
    {"{\"\\udc00\":{}}", "no text can have", STK_EFORMAT},
    {"{\"\\ud800\":{}}", "surrogate", STK_EFORMAT},
    {"{\"\\ud800\\u0041\":{}}", "surrogate", STK_EFORMAT},
    {"{\"\xff\":{}}", "not UTF-8", STK_EFORMAT},
    {"{\"\xc0\xaf\":{}}", "not UTF-8", STK_EFORMAT},
    {"{\"\xed\xa0\x80\":{}}", "not UTF-8", STK_EFORMAT},
    {"{\"\xf4\x90\x80\x80\":{}}", "not UTF-8", STK_EFORMAT},
};

static void test_bad_headers(void **state)
{
    stk_context *ctx = test_context();
    stk__safetensors s;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        assert_fails(parse_text(ctx, bad[i].json, strlen(bad[i].json), &s, &err), bad[i].status,
                     &err, bad[i].message);
        assert_non_null(strstr(err.text, "'file'"));
        stk__safetensors_release(&s);
    }
    /* A header that ends within: every beginning of a good one. */
    static const char good[] = "{\"__metadata__\":{\"k\":\"\\u00e9\"},\"a\":{" T("0,2") "}}";
    for (size_t n = 0; n < sizeof good - 1; n++) {
        assert_int_equal(parse_text(ctx, good, n, &s, &err), STK_EFORMAT);
        stk__safetensors_release(&s);
    }
    /* A NUL is no end. */
    assert_int_equal(parse_text(ctx, "{}\0", 3, &s, &err), STK_EFORMAT);
    stk__safetensors_release(&s);
    stk_context_destroy(&ctx);
}

/* Nesting that would exhaust the stack of a recursive parser. */
static void test_deep_header(void **state)
{
    stk_context *ctx = test_context();
    size_t n = 1u << 20;
    stk__safetensors s;
    stk_error err;

    char *text = malloc(n);
    assert_non_null(text);
    memset(text, '[', n);
    memcpy(text, "{\"a\":{\"shape\":", 14);
    assert_int_equal(parse_text(ctx, text, n, &s, &err), STK_EFORMAT);
    stk__safetensors_release(&s);
    free(text);
    stk_context_destroy(&ctx);
}

/* ---- Files ---- */

static void put_le64(uint8_t *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void write_file(const char *folder, uint64_t length, const char *json, const char *data,
                       char path[300])
{
    uint8_t bytes[4096];

    put_le64(bytes, length);
    memcpy(bytes + 8, json, strlen(json));
    memcpy(bytes + 8 + strlen(json), data, strlen(data));
    test_write(folder, "x.safetensors", bytes, 8 + strlen(json) + strlen(data));
    snprintf(path, 300, "%s/x.safetensors", folder);
}

static void test_files(void **state)
{
    static const char json[] = "{\"a\":{" T("0,2") "}}";
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk__safetensors_file f;
    stk_error err;

    test_folder(folder);
    write_file(folder, sizeof json - 1, json, "xy", path);
    assert_ok(stk__safetensors_file_open(ctx, path, &f, &err), &err);
    stk__safetensors_file_close(&f);
    write_file(folder, sizeof json - 1, json, "x", path);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_ETRUNCATED, &err, "cut off");
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "; copy it again"));
    write_file(folder, sizeof json - 1, json, "xyz", path);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_EFORMAT, &err,
                 "1 bytes that belong to no tensor");
    write_file(folder, sizeof json + 9, json, "xy", path);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_ETRUNCATED, &err,
                 "ends in its header");
    write_file(folder, UINT64_MAX, json, "xy", path);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_EFORMAT, &err, "100000000");
    write_file(folder, 0, "", "", path);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_ETRUNCATED, &err, "8 bytes");
    test_write(folder, "x.safetensors", "", 0);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_ETRUNCATED, &err, "empty");
    test_write(folder, "x.safetensors", "PK\3\4 and a lot more", 19);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_EKIND, &err, "zip");
    test_write(folder, "x.safetensors", "\x80\x02}q\x01 and a lot more", 20);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_EKIND, &err, "pickle");
    assert_fails(stk__safetensors_file_open(ctx, folder, &f, &err), STK_EFORMAT, &err, "folder");
    snprintf(path, sizeof path, "%s/none", folder);
    assert_fails(stk__safetensors_file_open(ctx, path, &f, &err), STK_ENOENT, &err, path);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Data at any byte is given aligned. */
static void test_alignment(void **state)
{
    static const char json[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]},"
                               "\"c\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[9,13]}}";
    stk_context *ctx = test_context();
    static const char *const wanted[] = {"a", "BCDEFGHI", "jkJK"};
    char folder[256], path[300];
    uint8_t *data = NULL, *moved = NULL;
    stk__safetensors_file f;
    stk_error err;

    test_folder(folder);
    write_file(folder, sizeof json - 1, json, "aBCDEFGHIjkJK", path);
    assert_ok(stk__safetensors_file_open(ctx, path, &f, &err), &err);
    assert_ok(stk__safetensors_file_load(&f, path, &data, &moved, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        const stk_state_tensor *t = &f.parsed.tensors[i];
        assert_int_equal((uintptr_t)t->data % stk_dtype_size(t->dtype), 0);
        assert_memory_equal(t->data, wanted[i], t->bytes);
    }
    stk__safetensors_file_close(&f);
    stk__free(ctx, data);
    stk__free(ctx, moved);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Writing ---- */

static void test_head(void **state)
{
    double d[2] = {1, 2};
    uint8_t u[3] = {1, 2, 3};
    uint16_t h[1] = {7};
    const stk_state_tensor tensors[] = {
        {"u\"\\\n", STK_UINT8, 1, {3}, u, 3}, {"h", STK_BFLOAT16, 2, {1, 1}, h, 2},
        {"d", STK_FLOAT64, 1, {2}, d, 16},    {"none", STK_FLOAT32, 2, {4, 0}, NULL, 0},
        {"one", STK_FLOAT64, 0, {0}, d, 8},
    };
    const stk__checkpoint_text texts[] = {{"k", "{\"a\": \"\\b\"}\n"}, {"e", ""}};
    stk_context *ctx = test_context();
    stk__safetensors_head head = {.text.ctx = ctx};
    stk__safetensors s;
    stk_error err;

    assert_ok(stk__safetensors_head_make(&head, tensors, 5, texts, 2, &err), &err);
    assert_int_equal(head.text.length % 64, 0);
    assert_int_equal(head.data_bytes, 29);
    assert_ok(parse_text(ctx, head.text.bytes + 8, head.text.length - 8, &s, &err), &err);
    assert_int_equal(s.num_tensors, 5);
    assert_int_equal(s.num_texts, 2);
    assert_string_equal(stk__safetensors_find_text(&s, "k"), texts[0].text);
    assert_string_equal(stk__safetensors_find_text(&s, "e"), "");
    for (size_t i = 0; i < 5; i++) {
        const stk_state_tensor *t = stk__safetensors_find(&s, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->rank, tensors[i].rank);
        assert_memory_equal(t->shape, tensors[i].shape, t->rank * sizeof t->shape[0]);
        assert_int_equal(t->bytes, tensors[i].bytes);
        assert_int_equal(s.begins[t - s.tensors] % stk_dtype_size(t->dtype), 0);
    }
    stk__safetensors_release(&s);
    assert_ok(stk__safetensors_head_make(&head, NULL, 0, NULL, 0, &err), &err);
    assert_ok(parse_text(ctx, head.text.bytes + 8, head.text.length - 8, &s, &err), &err);
    assert_int_equal(s.num_tensors + s.num_texts, 0);
    stk__safetensors_release(&s);
    stk__safetensors_head_release(&head);
    stk_context_destroy(&ctx);
}

static void test_bad_tensors(void **state)
{
    float f[4] = {0};
    const struct {
        stk_state_tensor tensor;
        const char *message;
    } cases[] = {
        {{NULL, STK_FLOAT32, 1, {4}, f, 16}, "has no name"},
        {{"", STK_FLOAT32, 1, {4}, f, 16}, "has no name"},
        {{"\xff", STK_FLOAT32, 1, {4}, f, 16}, "not UTF-8"},
        {{"__metadata__", STK_FLOAT32, 1, {4}, f, 16}, "__metadata__"},
        {{"c", STK_COMPLEX128, 1, {1}, f, 16}, "complex128"},
        {{"n", STK_DTYPE_NONE, 1, {4}, f, 16}, "cannot hold"},
        {{"b", STK_FLOAT32, 1, {4}, f, 12}, "12 bytes"},
        {{"m", STK_FLOAT32, 1, {-4}, f, 16}, "shape"},
        {{"r", STK_FLOAT32, 9, {4}, f, 16}, "shape"},
        {{"d", STK_FLOAT32, 1, {4}, NULL, 16}, "shape"},
        {{"twice", STK_FLOAT32, 1, {4}, f, 16}, "two tensors have the name 'twice'"},
    };
    stk_context *ctx = test_context();
    stk__safetensors_head head = {.text.ctx = ctx};
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_state_tensor tensors[2] = {cases[i].tensor, {"twice", STK_FLOAT32, 1, {4}, f, 16}};
        assert_fails(stk__safetensors_head_make(&head, tensors, 2, NULL, 0, &err), STK_EINVAL, &err,
                     cases[i].message);
    }
    const stk__checkpoint_text twice[] = {{"a", "x"}, {"a", "y"}}, raw[] = {{"a", "\xff"}};
    assert_fails(stk__safetensors_head_make(&head, NULL, 0, twice, 2, &err), STK_EINVAL, &err,
                 "two texts");
    assert_fails(stk__safetensors_head_make(&head, NULL, 0, raw, 1, &err), STK_EINVAL, &err,
                 "text 'a' is not UTF-8");
    stk__safetensors_head_release(&head);
    stk_context_destroy(&ctx);
}

static void test_dtypes(void **state)
{
    static const char *const names[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16",
                                        "I8",  "U8",  "U16", "U32",  "U64", "BOOL"};
    static const size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 2, 4, 8, 1};

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk_dtype dtype = stk__safetensors_dtype_parse(names[i]);
        assert_int_equal(stk_dtype_size(dtype), sizes[i]);
        assert_string_equal(stk__safetensors_dtype_name(dtype), names[i]);
    }
    assert_int_equal(stk__safetensors_dtype_parse("f32"), STK_DTYPE_NONE);
    assert_null(stk__safetensors_dtype_name(STK_COMPLEX128));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),      cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_deep_header), cmocka_unit_test(test_files),
        cmocka_unit_test(test_alignment),   cmocka_unit_test(test_head),
        cmocka_unit_test(test_bad_tensors), cmocka_unit_test(test_dtypes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
