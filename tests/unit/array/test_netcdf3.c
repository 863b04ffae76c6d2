/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NetCDF-3: the files of the specification, attributes, records cut into pieces, damage of every
 * byte and cut-off ends, and what is refused by name. That values of other writers read equal is
 * golden/array/packs.
 */
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "unit/array/packed.h"
#include "unit/dataset/windows.h"

#define FILES "mem://pack/files/"

static int set_up(void **state)
{
    return open_pack("netcdf3");
}

/* ---- The files of the specification ---- */

static const uint8_t empty[32] = {'C', 'D', 'F', 1};
/* netcdf { dimensions: dim = 5; variables: short vx(dim); data: vx = 3, 1, 4, 1, 5; } */
static const uint8_t tiny[92] =
    "CDF\1\0\0\0\0\0\0\0\x0a\0\0\0\1\0\0\0\3dim\0\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\x0b\0\0\0\1"
    "\0\0\0\2vx\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3\0\0\0\x0c\0\0\0\x50"
    "\0\3\0\1\0\4\0\1\0\5\x80\1";

static void test_specification(void **state)
{
    static const int16_t wanted[5] = {3, 1, 4, 1, 5};
    int16_t out[5] = {0};
    stk_array *a = NULL;
    stk_group *g = NULL;
    stk_error err;

    test_put(store, "tiny.nc", tiny, sizeof tiny);
    test_put(store, "empty.nc", empty, sizeof empty);
    for (int named = 0; named < 2; named++) {
        assert_ok(stk_array_open(context, named ? "mem://pack/tiny.nc/vx" : "mem://pack/tiny.nc",
                                 NULL, &a, &err),
                  &err);
        assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
        assert_memory_equal(out, wanted, sizeof out);
        const stk_array_info *info = stk_array_get_info(a);
        assert_string_equal(info->format, "netcdf 3");
        assert_string_equal(info->dimension_names[0], "dim");
        assert_int_equal(*(const int16_t *)info->fill_value, -32767);
        stk_array_close(&a);
    }
    assert_ok(stk_group_open(context, "mem://pack/empty.nc", &g, &err), &err);
    assert_null(stk_group_node(g, 0));
    stk_group_close(&g);
    assert_fails(stk_array_open(context, "mem://pack/empty.nc", NULL, &a, &err), STK_EMISMATCH,
                 &err, "0 variables");
    assert_fails(stk_array_open(context, "mem://pack/tiny.nc/v", NULL, &a, &err), STK_ENOENT, &err,
                 "it has: vx");
    assert_fails(stk_group_open(context, "mem://pack/tiny.nc/vx", &g, &err), STK_EMISMATCH, &err,
                 "array");
}

/* A writer that could not go back left the number of records open. */
static void test_streaming(void **state)
{
    uint64_t size;
    uint8_t *data = test_get(store, "files/alone_i2.nc", &size);
    stk_array *a = NULL;
    stk_error err;

    memset(data + 4, 0xff, 4);
    test_put(store, "streaming.nc", data, size);
    assert_ok(stk_array_open(context, "mem://pack/streaming.nc/v", NULL, &a, &err), &err);
    assert_int_equal(stk_array_get_info(a)->shape[0], 5);
    stk_array_close(&a);
    free(data);
}

static void test_attributes(void **state)
{
    stk_group *g = NULL;
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_group_open(context, FILES "classic.nc", &g, &err), &err);
    assert_string_equal(stk_group_attributes(g),
                        "{\"title\": \"a file of the tests\", \"numbers\": [1.5, NaN]}");
    assert_ok(stk_group_array(g, "fixed_i2", NULL, &a, &err), &err);
    assert_string_equal(stk_array_get_info(a)->attributes,
                        "{\"_FillValue\": 7, \"units\": \"K\", \"scale_factor\": "
                        "0.10000000149011612}");
    assert_int_equal(*(const int16_t *)stk_array_get_info(a)->fill_value, 7);
    stk_array_close(&a);
    stk_group_close(&g);
    assert_ok(stk_array_open(context, FILES "cdf5.nc/record_i8", NULL, &a, &err), &err);
    assert_string_equal(stk_array_get_info(a)->format, "cdf 5");
    assert_true(*(const int64_t *)stk_array_get_info(a)->fill_value == -9223372036854775806);
    stk_array_close(&a);
}

/* ---- Records ---- */

#define RECORDS 6
#define ROWS    31
#define COLUMNS 701 /* doubles: a record is cut into pieces of 11 rows */

static uint8_t *put_word(uint8_t *at, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        *at++ = (uint8_t)(word >> (24 - 8 * i));
    return at;
}

static uint8_t *put_variable(uint8_t *at, char name, uint32_t rank, uint32_t type, uint32_t begin)
{
    at = put_word(at, 1);
    *at = (uint8_t)name;
    at = put_word(at + 4, rank);
    for (uint32_t d = 0; d < rank; d++)
        at = put_word(at, d);
    at += 8; /* no attributes */
    at = put_word(put_word(at, type), 0);
    return put_word(at, begin);
}

/* Records of ROWS x COLUMNS doubles, and of 1 short that is padded. */
static void put_records(void)
{
    const size_t record = ROWS * COLUMNS * 8 + 4, size = 256 + RECORDS * record;
    uint8_t *file = calloc(1, size), *at = file + 4;

    assert_non_null(file);
    memcpy(file, "CDF\1", 4);
    at = put_word(put_word(put_word(at, RECORDS), 0x0a), 3);
    for (uint32_t d = 0; d < 3; d++) {
        at = put_word(at, 1);
        *at = (uint8_t)("tyx"[d]);
        at = put_word(at + 4, d == 0 ? 0 : d == 1 ? ROWS : COLUMNS);
    }
    at = put_word(put_word(at + 8, 0x0b), 2);
    at = put_variable(at, 'v', 3, 6, 256);
    at = put_variable(at, 's', 1, 3, 256 + ROWS * COLUMNS * 8);
    assert_true(at < file + 256);
    for (uint32_t i = 0; i < RECORDS * ROWS * COLUMNS; i++) {
        const double value = i;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint8_t *to = file + 256 + i / (ROWS * COLUMNS) * record + i % (ROWS * COLUMNS) * 8;
        put_word(put_word(to, (uint32_t)(bits >> 32)), (uint32_t)bits);
    }
    test_put(store, "records.nc", file, size);
    free(file);
}

static void test_pieces(void **state)
{
    const uint64_t size = RECORDS * ROWS * COLUMNS;
    double *out = malloc(size * sizeof *out);
    stk_array *a = NULL;
    uint64_t seed = 5;
    stk_error err;

    put_records();
    assert_ok(stk_array_open(context, "mem://pack/records.nc/v", NULL, &a, &err), &err);
    const stk_array_info *info = stk_array_get_info(a);
    assert_int_equal(info->chunk_shape[0], 1);
    assert_int_equal(info->chunk_shape[1], 11);
    assert_int_equal(info->num_chunks, RECORDS * 3);
    for (int turn = 0; turn < 50; turn++) {
        int64_t start[3], shape[3];
        for (int d = 0; d < 3; d++) {
            start[d] = (int64_t)(test_random(&seed) % (uint64_t)info->shape[d]);
            shape[d] = 1 + (int64_t)(test_random(&seed) % (uint64_t)(info->shape[d] - start[d]));
        }
        const uint64_t n = (uint64_t)(shape[0] * shape[1] * shape[2]);
        assert_ok(
            stk_array_read(a, &(stk_array_box){start, shape, NULL}, out, n * 8, NULL, -1, &err),
            &err);
        for (uint64_t i = 0; i < n; i++) {
            const int64_t x = (int64_t)i % shape[2], y = (int64_t)i / shape[2] % shape[1],
                          t = (int64_t)i / shape[2] / shape[1];
            assert_true(out[i] ==
                        (double)(((start[0] + t) * ROWS + start[1] + y) * COLUMNS + start[2] + x));
        }
    }
    stk_array_close(&a);
    free(out);
}

/* Windows take pieces whole: the last of a record ends with it, also at the end of the file. */
static void test_windows(void **state)
{
    stk_tensor data = {.struct_size = sizeof data};
    stk_loader_options o = window_options();

    put_records();
    stk_dataset *d = open_windows(context, "array:mem://pack/records.nc/v?window=t:1");
    o.batch_size = RECORDS;
    delivery b = first_batch(d, &o);
    const double *values = field_of(&b, "data", &data);
    for (int64_t i = 0; i < (int64_t)RECORDS * ROWS * COLUMNS; i++)
        assert_true(values[i] == (double)i);
    close_batch(&b);
    stk_dataset_close(&d);
}

/* ---- Damage ---- */

/* It opens and reads, or says why not. */
static void use(const char *url)
{
    stk_group *g = NULL;
    const stk_node *node;
    stk_error err;

    stk_error_init(&err);
    if (stk_group_open(context, url, &g, &err) != STK_OK)
        assert_true(err.text[0]);
    for (size_t i = 0; g && (node = stk_group_node(g, i)); i++) {
        stk_array *a = NULL;
        stk_error_init(&err);
        stk_status status = stk_group_array(g, node->path, NULL, &a, &err);
        const stk_array_info *info = a ? stk_array_get_info(a) : NULL;
        if (status == STK_OK && info->bytes < 65536) {
            char *out = malloc(info->bytes + 1);
            assert_non_null(out);
            status = stk_array_read(a, NULL, out, info->bytes, NULL, -1, &err);
            free(out);
        }
        assert_true(status == STK_OK || err.text[0]);
        stk_array_close(&a);
    }
    stk_group_close(&g);
}

static void test_damaged(void **state)
{
    static const char *const names[] = {"files/scipy1.nc", "files/alone_i1.nc"};
    stk_array *a = NULL;
    stk_error err;
    uint64_t size;

    for (size_t k = 0; k < STK_COUNT(names); k++) {
        uint8_t *data = test_get(store, names[k], &size);
        for (uint64_t i = 0; i < size; i++) {
            const uint8_t was = data[i];
            data[i] ^= (uint8_t)(1u << (i % 8));
            test_put(store, "damaged.nc", data, size);
            use("mem://pack/damaged.nc");
            data[i] = was;
            test_put(store, "cut.nc", data, i);
            use("mem://pack/cut.nc");
        }
        free(data);
    }
    test_put(store, "cut.nc", tiny, 89);
    assert_fails(stk_array_open(context, "mem://pack/cut.nc/vx", NULL, &a, &err), STK_ETRUNCATED,
                 &err, "cut.nc");
    test_put(store, "cut.nc", tiny, 79);
    assert_fails(stk_array_open(context, "mem://pack/cut.nc/vx", NULL, &a, &err), STK_ETRUNCATED,
                 &err, "goes on behind");
    uint8_t *data = test_get(store, "files/scipy1.nc", &size);
    test_put(store, "cut.nc", data, size - 8);
    assert_fails(stk_array_open(context, "mem://pack/cut.nc/a", NULL, &a, &err), STK_ETRUNCATED,
                 &err, "3 records");
    free(data);
}

/* What one byte of `tiny` makes of it. */
static void test_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t byte;
        stk_status status;
        const char *says;
    } cases[] = {
        {3, 3, STK_EFORMAT, "1, 2 or 5"},
        {11, 0x0b, STK_EFORMAT, "tag of another"},
        {12, 0x7f, STK_EFORMAT, "more entries"},
        {16, 0x7f, STK_EFORMAT, "longer than the file"},
        {19, 0, STK_EFORMAT, "empty"},
        {52, 0x7f, STK_ELIMIT, "at most 32"},
        {59, 9, STK_EFORMAT, "dimension that there is not"},
        {71, 7, STK_EKIND, "type 7"},
        {71, 0, STK_EKIND, "type 0"},
        {76, 0xff, STK_ETRUNCATED, "bytes"},
    };
    uint8_t data[sizeof tiny];
    stk_array_options options;
    stk_array *a = NULL;
    stk_error err;

    stk_array_options_init(&options);
    options.format = "netcdf3";
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        memcpy(data, tiny, sizeof data);
        data[cases[i].at] = cases[i].byte;
        test_put(store, "bad.nc", data, sizeof data);
        stk_error_init(&err);
        assert_fails(stk_array_open(context, "mem://pack/bad.nc/vx", &options, &a, &err),
                     cases[i].status, &err, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specification), cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_attributes),    cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_windows),       cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, set_up, close_packs);
}
