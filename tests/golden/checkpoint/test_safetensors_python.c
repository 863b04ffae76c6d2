/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of Python's safetensors (scripts/make_checkpoint_golden.py) are read here, and files
 * written here are read there, where the tests' Python has the package.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors/safetensors.h"
#include "support/support.h"

#define GOLDEN TESTS_DIR "/golden/safetensors/"
#define SCRIPT TESTS_DIR "/../scripts/make_checkpoint_golden.py"

/* ---- Element k is k modulo 100, of BOOL modulo 2 ---- */

static uint16_t to_half(unsigned k)
{
    unsigned exponent = 0;

    if (k == 0)
        return 0;
    while (k >> (exponent + 1))
        exponent++;
    return (uint16_t)((exponent + 15) << 10 | ((k << (10 - exponent)) & 0x3ff));
}

static void element(stk_dtype dtype, size_t k, uint8_t to[8])
{
    unsigned n = (unsigned)(k % 100);
    uint64_t whole = dtype == STK_BOOL ? k % 2 : n;
    uint32_t bits;
    double d = n;
    float f = (float)n;

    memset(to, 0, 8);
    switch (dtype) {
    case STK_FLOAT64:
        memcpy(to, &d, 8);
        break;
    case STK_FLOAT32:
        memcpy(to, &f, 4);
        break;
    case STK_BFLOAT16:
        memcpy(&bits, &f, 4);
        bits >>= 16;
        memcpy(to, &bits, 2);
        break;
    case STK_FLOAT16:
        whole = to_half(n);
        memcpy(to, &whole, 2);
        break;
    default:
        memcpy(to, &whole, 8);
    }
}

static void check_values(const stk_state_tensor *t)
{
    size_t width = stk_dtype_size(t->dtype);
    uint8_t wanted[8];

    for (size_t k = 0; k < t->bytes / width; k++) {
        element(t->dtype, k, wanted);
        assert_memory_equal((const uint8_t *)t->data + k * width, wanted, width);
    }
}

typedef struct loaded {
    stk__safetensors_file file;
    uint8_t *data, *moved;
} loaded;

static void load(stk_context *ctx, const char *name, loaded *l)
{
    char path[1024];
    stk_error err;

    snprintf(path, sizeof path, GOLDEN "%s", name);
    assert_ok(stk__safetensors_file_open(ctx, path, &l->file, &err), &err);
    assert_ok(stk__safetensors_file_load(&l->file, path, &l->data, &l->moved, &err), &err);
}

static void unload(stk_context *ctx, loaded *l)
{
    stk__safetensors_file_close(&l->file);
    stk__free(ctx, l->data);
    stk__free(ctx, l->moved);
}

/* ---- From Python ---- */

static void test_types(void **state)
{
    static const struct {
        const char *name;
        stk_dtype dtype;
    } types[] = {
        {"F64", STK_FLOAT64}, {"F32", STK_FLOAT32}, {"F16", STK_FLOAT16}, {"BF16", STK_BFLOAT16},
        {"I64", STK_INT64},   {"I32", STK_INT32},   {"I16", STK_INT16},   {"I8", STK_INT8},
        {"U8", STK_UINT8},    {"U16", STK_UINT16},  {"U32", STK_UINT32},  {"U64", STK_UINT64},
        {"BOOL", STK_BOOL},
    };
    stk_context *ctx = test_context();
    char name[16];
    loaded l;

    load(ctx, "types.safetensors", &l);
    assert_int_equal(l.file.parsed.num_tensors, STK_COUNT(types));
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        snprintf(name, sizeof name, "t.%s", types[i].name);
        const stk_state_tensor *t = stk__safetensors_find(&l.file.parsed, name);
        assert_non_null(t);
        assert_int_equal(t->dtype, types[i].dtype);
        assert_int_equal(t->rank, 2);
        assert_int_equal(t->shape[0], 3);
        assert_int_equal(t->shape[1], 5);
        assert_int_equal(t->bytes, 15 * stk_dtype_size(t->dtype));
        check_values(t);
    }
    assert_string_equal(stk__safetensors_find_text(&l.file.parsed, "format"), "pt");
    assert_string_equal(stk__safetensors_find_text(&l.file.parsed, "quotes \"\\"),
                        "line\nend\ttab");
    assert_string_equal(stk__safetensors_find_text(&l.file.parsed, "\xc3\xa9\xf0\x9f\x98\x80"),
                        "\xe6\x97\xa5\xe6\x9c\xac");
    assert_string_equal(stk__safetensors_find_text(&l.file.parsed, "empty"), "");
    unload(ctx, &l);
    stk_context_destroy(&ctx);
}

static void test_shapes(void **state)
{
    stk_context *ctx = test_context();
    loaded l;

    load(ctx, "shapes.safetensors", &l);
    const stk__safetensors *s = &l.file.parsed;
    assert_int_equal(s->num_tensors, 5);
    assert_int_equal(stk__safetensors_find(s, "scalar")->rank, 0);
    assert_int_equal(stk__safetensors_find(s, "scalar")->bytes, 4);
    assert_int_equal(stk__safetensors_find(s, "empty")->bytes, 0);
    assert_int_equal(stk__safetensors_find(s, "hollow")->shape[2], 3);
    assert_int_equal(stk__safetensors_find(s, "eight")->rank, 8);
    check_values(stk__safetensors_find(s, "eight"));
    unload(ctx, &l);
    load(ctx, "odd.safetensors", &l);
    check_values(stk__safetensors_find(&l.file.parsed, "a"));
    check_values(stk__safetensors_find(&l.file.parsed, "b"));
    unload(ctx, &l);
    load(ctx, "none.safetensors", &l);
    assert_int_equal(l.file.parsed.num_tensors, 0);
    unload(ctx, &l);
    stk_context_destroy(&ctx);
}

/* A checkpoint made by the description of its layout, with the hash of another program. */
static void test_layout_1(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint *c = NULL;
    stk_error err;

    assert_ok(stk__checkpoint_open(ctx, GOLDEN "layout_1.ckpt", &c, &err), &err);
    assert_int_equal(stk__checkpoint_count(c), 1);
    assert_string_equal(stk__checkpoint_find_text(c, STK__CHECKPOINT_EPOCH), "3");
    assert_string_equal(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP), "1200");
    assert_string_equal(stk__checkpoint_tensor(c, 0)->name, "layer.weight");
    check_values(stk__checkpoint_tensor(c, 0));
    stk__checkpoint_close(&c);
    stk_context_destroy(&ctx);
}

/* The same in parts: its files, and the file that becomes of them. */
static void test_parts_1(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], whole[300];
    stk__checkpoint *c = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(whole, sizeof whole, "%s/whole.ckpt", folder);
    assert_ok(stk_checkpoint_consolidate(ctx, GOLDEN "parts_1.ckpt", whole, NULL, &err), &err);
    const char *const files[] = {GOLDEN "parts_1.ckpt", whole};
    for (size_t i = 0; i < STK_COUNT(files); i++) {
        assert_ok(stk__checkpoint_open(ctx, files[i], &c, &err), &err);
        assert_int_equal(stk__checkpoint_count(c), 1);
        assert_string_equal(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP), "1200");
        assert_string_equal(stk__checkpoint_tensor(c, 0)->name, "layer.weight");
        check_values(stk__checkpoint_tensor(c, 0));
        stk__checkpoint_close(&c);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- To Python ---- */

static const struct {
    const char *name, *text;
} python_names[] = {
    {"float64", "F64"}, {"float32", "F32"}, {"float16", "F16"}, {"bfloat16", "BF16"},
    {"int64", "I64"},   {"int32", "I32"},   {"int16", "I16"},   {"int8", "I8"},
    {"uint8", "U8"},    {"uint16", "U16"},  {"uint32", "U32"},  {"uint64", "U64"},
    {"bool", "BOOL"},
};

/* The line that the script prints for tensor `i`. */
static void wanted_line(size_t i, const uint8_t *data, size_t bytes, char *line, size_t size)
{
    int at = snprintf(line, size, "t.%02zu|%s|3x5|", i, python_names[i].text);

    for (size_t k = 0; k < bytes; k++)
        at += snprintf(line + at, size - (size_t)at, "%02x", data[k]);
    snprintf(line + at, size - (size_t)at, "\n");
}

static void test_to_python(void **state)
{
    enum { TYPES = sizeof python_names / sizeof python_names[0] };
    static uint8_t data[TYPES][15 * 8];
    static char names[TYPES][8];
    stk_state_tensor tensors[TYPES + 1];
    const stk__checkpoint_text texts[] = {{"note \"\\", "a\tb \xe6\x97\xa5"}};
    stk__checkpoint_writer *writer = NULL;
    char folder[256], path[300], command[1024], line[1024], wanted[1024];
    stk_error err;

    const char *python = test_python("numpy, safetensors");
    if (!python)
        skip();
    stk_context *ctx = test_context();
    test_folder(folder);
    snprintf(path, sizeof path, "%s/x.ckpt", folder);
    for (size_t i = 0; i < TYPES; i++) {
        stk_dtype dtype = stk_dtype_parse(python_names[i].name);
        size_t width = stk_dtype_size(dtype);
        snprintf(names[i], sizeof names[i], "t.%02zu", i);
        for (size_t k = 0; k < 15; k++) {
            uint8_t one[8];
            element(dtype, k, one);
            memcpy(data[i] + k * width, one, width);
        }
        tensors[i] = (stk_state_tensor){names[i], dtype, 2, {3, 5}, data[i], 15 * width};
    }
    tensors[TYPES] = (stk_state_tensor){"u", STK_FLOAT32, 3, {2, 0, 3}, NULL, 0};
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    assert_ok(stk__checkpoint_save(writer, path, tensors, TYPES + 1, texts, 1, NULL, 0, NULL, &err),
              &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    stk__checkpoint_writer_destroy(&writer);
    snprintf(command, sizeof command, "'%s' '%s' --check '%s'", python, SCRIPT, path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "note \"\\=a\tb \xe6\x97\xa5\n");
    for (size_t i = 0; i < TYPES; i++) {
        wanted_line(i, data[i], tensors[i].bytes, wanted, sizeof wanted);
        assert_non_null(fgets(line, sizeof line, f));
        assert_string_equal(line, wanted);
    }
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "u|F32|2x0x3|\n");
    assert_null(fgets(line, sizeof line, f));
    assert_int_equal(pclose(f), 0);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_layout_1),  cmocka_unit_test(test_parts_1),
        cmocka_unit_test(test_to_python),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
