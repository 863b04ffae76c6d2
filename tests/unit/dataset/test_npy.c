/* SPDX-License-Identifier: Apache-2.0 */
/* npy: files written by NumPy (scripts/make_npy_golden.py), hostile headers. */
#include "array/npy/npy.h"
#include "dataset/dataset.h"

#include <stdio.h>
#include <unistd.h>

#include "samples.h"
#include "support/text.h"

#define GOLDEN TESTS_DIR "/golden/npy/"

static stk_status open_path(stk_context *ctx, const char *path, const char *query,
                            stk_dataset **out, stk_error *err)
{
    char spec[1200];

    snprintf(spec, sizeof spec, "npy:%s%s", path, query);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

static stk_status open_golden(stk_context *ctx, const char *name, const char *query,
                              stk_dataset **out, stk_error *err)
{
    char path[1024];

    snprintf(path, sizeof path, GOLDEN "%s.npy", name);
    return open_path(ctx, path, query, out, err);
}

/* ---- What NumPy writes ------------------------------------------------------------------------
 */

/* A half that is a small integer, to double: IEEE 754 binary16 without subnormals. */
static double of_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double value = exponent ? (1024 + (h & 1023)) / 1024.0 : 0;

    for (; exponent > 15; exponent--)
        value *= 2;
    for (; exponent && exponent < 15; exponent++)
        value /= 2;
    return h >> 15 ? -value : value;
}

/* Element `k` of type `dtype` at `data` as a double; *imaginary where it has such a part. */
static double element(const unsigned char *data, stk_dtype dtype, size_t k, double *imaginary)
{
    const void *at = data + k * stk_dtype_size(dtype);
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f[2];
        double d[2];
    } v;

    memcpy(&v, at, stk_dtype_size(dtype));
    *imaginary = 0;
    switch (dtype) {
    case STK_BOOL:
    case STK_UINT8:
        return v.u8;
    case STK_INT8:
        return v.i8;
    case STK_UINT16:
        return v.u16;
    case STK_INT16:
        return v.i16;
    case STK_UINT32:
        return v.u32;
    case STK_INT32:
        return v.i32;
    case STK_UINT64:
        return (double)v.u64;
    case STK_INT64:
        return (double)v.i64;
    case STK_FLOAT16:
        return of_half(v.u16);
    case STK_FLOAT32:
        return v.f[0];
    case STK_FLOAT64:
        return v.d[0];
    case STK_COMPLEX64:
        *imaginary = v.f[1];
        return v.f[0];
    case STK_COMPLEX128:
        *imaginary = v.d[1];
        return v.d[0];
    default:
        fail_msg("type %d", (int)dtype);
        return 0;
    }
}

/* What the script says that element `k` is. */
static double expected(stk_dtype dtype, size_t k, double *imaginary)
{
    *imaginary = dtype == STK_COMPLEX64 || dtype == STK_COMPLEX128 ? (double)k : 0;
    if (dtype == STK_BOOL)
        return (double)(k % 2);
    if (dtype == STK_UINT8)
        return (double)(3 * k % 256);
    if (dtype == STK_UINT16 || dtype == STK_UINT32 || dtype == STK_UINT64)
        return (double)(3 * k);
    return 3 * (double)k - 10;
}

/* All samples of a dataset hold the elements in turn. */
static void check_values(stk_dataset *d, stk_dtype dtype, size_t each, bool needs)
{
    samples *s = samples_range(d, 0, d->size);

    assert_int_equal(d->fields[0].dtype, dtype);
    assert_int_equal(stk_field_bytes(&d->fields[0]), each * stk_dtype_size(dtype));
    assert_int_equal(s->located, needs ? d->size : 0);
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = 0; j < each; j++) {
            double im, expected_im;
            double re = element(s->data[i], dtype, j, &im);
            assert_true(re == expected(dtype, i * each + j, &expected_im));
            assert_true(im == expected_im);
        }
    samples_free(s);
}

static void test_types(void **state)
{
    stk_context *ctx = test_context();
    stk_error err;

    for (int t = STK_BOOL; t < STK_DTYPE_COUNT; t++)
        for (int big = 0; big < 2; big++)
            for (int memory = 0; memory < 2; memory++) {
                char name[64];
                stk_dataset *d = NULL;
                if (t == STK_BFLOAT16 || (big && stk_dtype_size(t) == 1))
                    continue;
                snprintf(name, sizeof name, "%s_%s", big ? "big" : "little", stk_dtype_name(t));
                assert_ok(open_golden(ctx, name, memory ? "?memory=true" : "", &d, &err), &err);
                assert_int_equal(d->size, 5);
                assert_int_equal(d->num_fields, 1);
                assert_string_equal(d->fields[0].name, "data");
                assert_false(d->fields[0].picture);
                check_values(d, t, 3, !memory);
                stk_dataset_close(&d);
            }
    stk_context_destroy(&ctx);
}

static void test_forms(void **state)
{
    static const struct {
        const char *name;
        stk_dtype dtype;
        uint64_t size;
        size_t each;
        uint32_t rank;
    } cases[] = {
        {"version_1", STK_INT32, 5, 3, 1}, {"version_2", STK_INT32, 5, 3, 1},
        {"version_3", STK_INT32, 5, 3, 1}, {"datetime", STK_INT64, 5, 3, 1},
        {"timedelta", STK_INT64, 5, 3, 1}, {"fortran_1d", STK_INT32, 15, 1, 0},
        {"picture", STK_UINT8, 2, 60, 3},  {"rank_8", STK_INT32, 3, 5, 7},
    };
    stk_context *ctx = test_context();
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_dataset *d = NULL;
        assert_ok(open_golden(ctx, cases[i].name, "", &d, &err), &err);
        bool picture = !strcmp(cases[i].name, "picture");
        assert_int_equal(d->size, cases[i].size);
        assert_int_equal(d->fields[0].rank, cases[i].rank);
        assert_int_equal(d->fields[0].picture, picture);
        assert_string_equal(d->fields[0].name, picture ? "image" : "data");
        check_values(d, cases[i].dtype, cases[i].each, true);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    static const struct {
        const char *name, *query;
        stk_status status;
        const char *part;
    } cases[] = {
        {"object", "", STK_EKIND, "Python objects (dtype |O)"},
        {"structured", "", STK_EKIND, "records"},
        {"unicode", "", STK_EKIND, "texts"},
        {"bytes", "", STK_EKIND, "texts"},
        {"void", "", STK_EKIND, "bfloat16"},
        {"longdouble", "", STK_EKIND, "f16"},
        {"fortran", "", STK_EKIND, "ascontiguousarray"},
        {"rank_9", "", STK_EKIND, "more than 8 dimensions"},
        {"scalar", "", STK_EFORMAT, "single number"},
        {"empty", "", STK_EFORMAT, "(0, 3)"},
        {"hollow", "", STK_EFORMAT, "(3, 0)"},
        {"absent", "", STK_ENOENT, "absent"},
        {"little_int32", "?labels=labels_short.npy", STK_EFORMAT, "(4,)"},
        {"little_int32", "?labels=little_complex64.npy", STK_EFORMAT, "complex64"},
        {"little_int32", "?labels=scalar.npy", STK_EFORMAT, "of shape ()"},
        {"little_int32", "?labels=labels_huge.npy", STK_EFORMAT, "label 4"},
        {"little_int32", "?labels=absent.npy", STK_ENOENT, "absent.npy"},
        {"little_int32", "?labels=" GOLDEN "absent.npy", STK_ENOENT, "absent.npy"},
    };
    stk_context *ctx = test_context();
    stk_memory_stats stats = {.struct_size = sizeof stats};
    stk_error err;

    stk_context_memory(ctx, &stats);
    uint64_t before = stats.bytes;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_dataset *d = NULL;
        assert_fails(open_golden(ctx, cases[i].name, cases[i].query, &d, &err), cases[i].status,
                     &err, cases[i].part);
        assert_null(d);
    }
    stk_context_memory(ctx, &stats);
    assert_int_equal(stats.bytes, before);
    stk_context_destroy(&ctx);
}

static void check_labels(stk_context *ctx, const char *query, int64_t scale, int64_t add)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(open_golden(ctx, "little_float32", query, &d, &err), &err);
    assert_int_equal(d->num_fields, 2);
    assert_string_equal(d->fields[1].name, "label");
    assert_int_equal(d->fields[1].dtype, STK_INT64);
    samples *s = samples_range(d, 0, 5);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(s->label[i], scale == 1 ? i % 3 : i * scale + add);
    samples_free(s);
    stk_dataset_close(&d);
}

/* Labels of any type and shape are the values of their file. */
static void check_same(stk_context *ctx, const char *file, stk_dtype dtype)
{
    stk_dataset *d = NULL, *alone = NULL;
    char query[80];
    stk_error err;

    snprintf(query, sizeof query, "?labels=%s.npy", file);
    assert_ok(open_golden(ctx, "little_uint8", query, &d, &err), &err);
    assert_ok(open_golden(ctx, file, "", &alone, &err), &err);
    const stk_field *label = &d->fields[1], *value = &alone->fields[0];
    assert_int_equal(label->dtype, dtype);
    assert_int_equal(label->rank, value->rank);
    const size_t n = stk_field_bytes(label) / stk_dtype_size(dtype);
    samples *s = samples_range(d, 0, d->size), *t = samples_range(alone, 0, alone->size);
    for (uint64_t i = 0; i < d->size; i++) {
        assert_int_equal(s->values[2 * i + 1].size, stk_field_bytes(label));
        for (size_t k = 0; k < n; k++)
            assert_true(stk__element_as_double((const char *)s->values[2 * i + 1].data +
                                                   k * stk_dtype_size(dtype),
                                               dtype) ==
                        stk__element_as_double(t->data[i] + k * stk_dtype_size(value->dtype),
                                               value->dtype));
    }
    samples_free(s);
    samples_free(t);
    stk_dataset_close(&d);
    stk_dataset_close(&alone);
}

static void test_labels_of_any_type(void **state)
{
    stk_context *ctx = test_context();

    check_same(ctx, "little_float16", STK_FLOAT32);
    check_same(ctx, "big_float16", STK_FLOAT32);
    check_same(ctx, "big_float32", STK_FLOAT32);
    check_same(ctx, "little_float64", STK_FLOAT64);
    check_same(ctx, "big_float64", STK_FLOAT64);
    check_same(ctx, "little_int32", STK_INT64);
    check_same(ctx, "big_uint16", STK_INT64);
    check_same(ctx, "labels_float", STK_FLOAT32);
    stk_context_destroy(&ctx);
}

static void test_labels(void **state)
{
    stk_context *ctx = test_context();

    check_labels(ctx, "?labels=labels_uint8.npy", 1, 0);
    check_labels(ctx, "?labels=labels_column.npy", 1, 0);
    check_labels(ctx, "?labels=labels_int32_big.npy", 1000, -2000);
    check_labels(ctx, "?labels=" GOLDEN "labels_int32_big.npy", 1000, -2000);
    stk_context_destroy(&ctx);
}

/* Labels of a byte take eight in memory, which is asked for before. */
static void test_labels_in_memory(void **state)
{
    static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (%07d,), }\n";
    char folder[256], path[300], file[128] = "\x93NUMPY\1\0";
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(path, sizeof path, "%s/x.npy", test_folder(folder));
    stk_context_options_init(&options);
    options.memory_limit = 32 << 20;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    for (int count = 2 << 20; count <= 4 << 20; count += 2 << 20) {
        const int length = snprintf(file + 10, sizeof file - 10, dict, count);
        file[8] = (char)length;
        test_write(folder, "x.npy", file, 10 + (size_t)length);
        assert_int_equal(truncate(path, 10 + length + count), 0);
        const bool fits = count == 2 << 20;
        assert_int_equal(open_path(ctx, path, "?labels=x.npy", &d, &err), fits ? 0 : STK_ELIMIT);
        assert_true(fits || strstr(err.text, "4194304 labels do not fit"));
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Headers ----------------------------------------------------------------------------------
 */

/* Measure and parse a version 1 header of this text, in memory of just its size. */
static stk_status parse(const char *text, uint64_t extra, bool trailing, stk__npy_header *h,
                        stk_error *err)
{
    size_t length = strlen(text);
    unsigned char *data = calloc(1, 12 + length);
    uint64_t header = 0;

    assert_non_null(data);
    memcpy(data, "\x93NUMPY\1\0", 8);
    data[8] = (unsigned char)length;
    data[9] = (unsigned char)(length >> 8);
    memcpy(data + 10, text, length);
    stk_error_init(err);
    stk_status status = stk__npy_measure(data, STK_MIN(10 + length + extra, STK_NPY_PREAMBLE),
                                         10 + length + extra, "x.npy", &header, err);
    if (status == STK_OK) {
        assert_int_equal(header, 10 + length);
        unsigned char *exact = malloc(header);
        memcpy(exact, data, header);
        status = stk__npy_parse(exact, header, header + extra, trailing, "x.npy", h, err);
        free(exact);
    }
    free(data);
    return status;
}

static void test_grammar(void **state)
{
    static const char *const good[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
        "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "{'descr': '=f4', 'fortran_order': False, 'shape': (2L, 3L)}\n",
        " { 'fortran_order' : False , 'descr' : 'f4' , 'shape' : ( 2 , 3 , ) , } \n",
    };
    static const struct {
        const char *text;
        stk_status status;
        const char *part;
    } bad[] = {
        {"", STK_EFORMAT, "'{'"},
        {"{}", STK_EFORMAT, "descr"},
        {"{'descr': '<f4', 'fortran_order': False}", STK_EFORMAT, "shape"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", STK_EFORMAT,
         "one each"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", STK_EFORMAT,
         "one each"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", STK_EFORMAT, "0 or more"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", STK_EFORMAT, "','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,}", STK_EFORMAT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", STK_EFORMAT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [6]}", STK_EFORMAT, "'('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2*3,)}", STK_EFORMAT, "','"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}", STK_EFORMAT, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x", STK_EFORMAT, "spaces"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", STK_EFORMAT, "'}'"},
        {"{'descr': '<f4', 'fortran_order': False 'shape': (6,)}", STK_EFORMAT, "','"},
        {"{'descr': '<f4\\x41', 'fortran_order': False, 'shape': (6,)}", STK_EFORMAT, "word"},
        {"{'descr': '<f4", STK_EFORMAT, "closing quote"},
        {"{'descr': __import__('os'), 'fortran_order': False, 'shape': (6,)}", STK_EFORMAT,
         "quoted"},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': (6,)}", STK_EKIND, "<f3"},
        {"{'descr': '', 'fortran_order': False, 'shape': (6,)}", STK_EKIND, "unknown"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,)}", STK_EKIND, "records"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", STK_EKIND, "pickles"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", STK_EFORMAT,
         "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
         STK_EFORMAT, "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", STK_EFORMAT,
         "more bytes than can be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2)}", STK_EFORMAT,
         "more bytes than can be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693951,)}",
         STK_ETRUNCATED, "ends after"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", STK_ETRUNCATED, "(7,)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", STK_EFORMAT, "allow_trailing"},
    };
    stk__npy_header h;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(good); i++) {
        assert_ok(parse(good[i], 24, false, &h, &err), &err);
        assert_int_equal(h.dtype, STK_FLOAT32);
        assert_int_equal(h.rank, 2);
        assert_int_equal(h.shape[0], 2);
        assert_int_equal(h.shape[1], 3);
        assert_int_equal(h.bytes, 24);
        assert_int_equal(h.offset, 10 + strlen(good[i]));
    }
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_fails(parse(bad[i].text, 24, false, &h, &err), bad[i].status, &err, bad[i].part);
    assert_ok(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", 24, true, &h, &err),
              &err);
    assert_int_equal(h.bytes, 20);
    /* An end anywhere in a good text is refused. */
    for (size_t n = 0; n + 1 < strlen(good[1]); n++) {
        char cut[128];
        memcpy(cut, good[1], n);
        cut[n] = 0;
        assert_true(parse(cut, 24, true, &h, &err) < 0);
    }
}

static void test_preamble(void **state)
{
    static const struct {
        unsigned char bytes[13];
        uint64_t length, size;
        stk_status status;
    } cases[] = {
        {"", 0, 0, STK_EFORMAT},
        {"\x93NUM", 4, 4, STK_ETRUNCATED},
        {"\x93NUMPZ\1\0\0\0\0\0", 12, 100, STK_EFORMAT},
        {"\x89PNG\r\n\x1a\n\0\0\0\0", 12, 100, STK_EFORMAT},
        {"\x93NUMPY\0\0\1\0\0\0", 12, 100, STK_EKIND},
        {"\x93NUMPY\4\0\1\0\0\0", 12, 100, STK_EKIND},
        {"\x93NUMPY\1\1\1\0\0\0", 12, 100, STK_EKIND},
        {"\x93NUMPY\2\0\xff\xff\xff\xff", 12, UINT64_MAX, STK_ELIMIT},
        {"\x93NUMPY\2\0\1\0\1\0", 12, UINT64_MAX, STK_ELIMIT},
        {"\x93NUMPY\1\0\x5b\0\0\0", 12, 100, STK_ETRUNCATED},
        {"\x93NUMPY\1\0\x5a\0\0\0", 12, 100, STK_OK},
        {"\x93NUMPY\3\0\x58\0\0\0", 12, 100, STK_OK},
        {"\x93NUMPY\2\0\0\0\1\0", 12, UINT64_MAX, STK_OK},
    };
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        uint64_t header = 0;
        stk_error_init(&err);
        stk_status status = stk__npy_measure(cases[i].bytes, cases[i].length, cases[i].size,
                                             "x.npy", &header, &err);
        if (status != cases[i].status)
            fail_msg("case %zu: %s", i, stk_status_name(status));
        if (status == STK_OK)
            assert_true(header == 100 || header == 12 + STK_NPY_TEXT_MAX);
        else
            assert_non_null(strstr(err.text, "x.npy"));
    }
}

/* ---- Files ------------------------------------------------------------------------------------
 */

static unsigned char *golden(const char *name, size_t *size)
{
    char path[1024];

    snprintf(path, sizeof path, GOLDEN "%s.npy", name);
    unsigned char *data = test_load(path, size);
    assert_non_null(data);
    return data;
}

static void test_lengths(void **state)
{
    stk_context *ctx = test_context();
    size_t size;
    unsigned char *data = golden("little_int32", &size);
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/x.npy", folder);
    for (size_t n = 0; n < size; n++) {
        test_write(folder, "x.npy", data, n);
        stk_status status = open_path(ctx, path, "?allow_trailing=true", &d, &err);
        assert_true(status == STK_ETRUNCATED || (n == 0 && status == STK_EFORMAT));
        assert_non_null(strstr(err.text, "x.npy"));
    }
    memset(data + size, 7, 3);
    test_write(folder, "x.npy", data, size + 3);
    assert_fails(open_path(ctx, path, "", &d, &err), STK_EFORMAT, &err, "allow_trailing=true");
    assert_int_equal(err.offset, size);
    assert_ok(open_path(ctx, path, "?allow_trailing=true", &d, &err), &err);
    check_values(d, STK_INT32, 3, true);
    /* Shortened after it was opened: the samples at the end are bad, the others good. */
    test_write(folder, "x.npy", data, size - 13);
    samples *s = samples_range(d, 0, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(stk_status_fault(s->sample[i].status) == STK_FAULT_SAMPLE, i >= 3);
    samples_free(s);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    free(data);
    stk_context_destroy(&ctx);
}

/* The fingerprint goes with the content and not with the place; one bit of the data changes it. */
static void test_fingerprint(void **state)
{
    stk_context *ctx = test_context();
    size_t size;
    unsigned char *data = golden("little_int32", &size);
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(open_golden(ctx, "little_int32", "", &d, &err), &err);
    uint64_t fingerprint = d->fingerprint;
    stk_dataset_close(&d);
    test_folder(folder);
    snprintf(path, sizeof path, "%s/copy.npy", folder);
    test_write(folder, "copy.npy", data, size);
    assert_ok(open_path(ctx, path, "", &d, &err), &err);
    assert_int_equal(d->fingerprint, fingerprint);
    stk_dataset_close(&d);
    data[size - 1] ^= 1;
    test_write(folder, "copy.npy", data, size);
    assert_ok(open_path(ctx, path, "", &d, &err), &err);
    assert_true(d->fingerprint != fingerprint);
    stk_dataset_close(&d);
    /* A path alone is enough. */
    assert_ok(stk_dataset_open(ctx, path, &d, &err), &err);
    assert_string_equal(d->ops->name, "npy");
    stk_dataset_close(&d);
    test_folder_remove(folder);
    free(data);
    stk_context_destroy(&ctx);
}

static void test_mapped(void **state)
{
    stk_context *ctx = test_context();
    size_t size, labels_size;
    unsigned char *data = golden("big_float64", &size);
    unsigned char *labels = golden("labels_uint8", &labels_size);
    char key[64];
    stk_store *store = NULL;
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://npy", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "x.npy", data, size, NULL, &err), &err);
    assert_ok(stk_store_put(store, "y.npy", labels, labels_size, NULL, &err), &err);
    assert_ok(open_path(ctx, "mem://npy/x.npy", "?labels=y.npy", &d, &err), &err);
    assert_int_equal(d->num_fields, 2);
    check_values(d, STK_FLOAT64, 3, false);
    stk_dataset_close(&d);
    stk_store_close(&store);
    free(data);
    free(labels);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_labels_of_any_type),
        cmocka_unit_test(test_labels_in_memory),
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_preamble),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
