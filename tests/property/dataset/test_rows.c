/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random tables, as chunks of a group, as an npz file stored and deflated. Every row comes once
 * with its own values, and which comes when is the same for any workers, cache, budget and form.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/window.h"
#include "support/support.h"
#include "support/zips.h"

#define ROUNDS    120
#define MAX_ROWS  60
#define MAX_FIELD 4
#define MAX_ROW   (5 * 4 * 8)

typedef struct column {
    stk_dtype dtype;
    uint32_t rank;
    int64_t shape[3], chunk[3];
    const char *codec;
    size_t row; /* bytes */
    unsigned char values[MAX_ROWS * MAX_ROW];
} column;

static uint64_t seed = 20261128;
static column columns[MAX_FIELD];
static uint32_t num_columns;
static int64_t rows;

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(test_random(&seed) % (uint64_t)(high - low + 1));
}

static void make_model(void)
{
    static const stk_dtype types[] = {STK_UINT8, STK_INT16, STK_FLOAT32, STK_FLOAT64, STK_UINT64};
    static const char *const codecs[] = {"none", "zstd", "gzip", "blosc"};

    rows = pick(1, MAX_ROWS);
    num_columns = (uint32_t)pick(1, MAX_FIELD);
    for (uint32_t c = 0; c < num_columns; c++) {
        column *col = &columns[c];
        col->dtype = types[pick(0, 4)];
        col->rank = (uint32_t)pick(1, 3);
        col->codec = codecs[pick(0, 3)];
        col->row = stk_dtype_size(col->dtype);
        for (uint32_t d = 0; d < col->rank; d++) {
            col->shape[d] = d ? pick(1, 6 - d) : rows;
            col->chunk[d] = pick(1, d ? col->shape[d] : 20);
            col->row *= d ? (size_t)col->shape[d] : 1;
        }
        for (size_t i = 0; i < (size_t)rows * col->row; i++)
            col->values[i] = (unsigned char)test_random(&seed);
    }
    /* The first says which row it is, and becomes the label. */
    column *y = &columns[0];
    *y = (column){.dtype = STK_INT16,
                  .rank = 1,
                  .shape = {rows},
                  .chunk = {pick(1, 20)},
                  .codec = codecs[pick(0, 3)],
                  .row = 2};
    for (int16_t i = 0; i < rows; i++)
        memcpy(y->values + 2 * i, &i, 2);
}

static const char *name_of(uint32_t c, char name[16])
{
    snprintf(name, 16, c ? "f%u" : "y", c);
    return name;
}

static void write_zarr(stk_context *ctx, uint32_t c)
{
    const column *col = &columns[c];
    const int64_t start[3] = {0};
    char url[32], name[16];
    stk_array_writer_options o;
    stk_array_writer *writer;
    stk_error err;

    stk_array_writer_options_init(&o);
    o.dtype = col->dtype;
    o.rank = col->rank;
    o.shape = col->shape;
    o.chunk_shape = col->chunk;
    o.codec = col->codec;
    snprintf(url, sizeof url, "mem://g/%s", name_of(c, name));
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, col->shape, col->values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

static void write_npy(stk_store *store, uint32_t c)
{
    static unsigned char file[128 + MAX_ROWS * MAX_ROW];
    const column *col = &columns[c];
    const char kind = col->dtype == STK_INT16                                  ? 'i'
                      : col->dtype == STK_FLOAT32 || col->dtype == STK_FLOAT64 ? 'f'
                                                                               : 'u';
    char shape[64] = "", key[32], name[16];
    stk_error err;

    for (uint32_t d = 0; d < col->rank; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld,",
                 (long long)col->shape[d]);
    memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
    memset(file + 10, ' ', 118);
    const int n = snprintf((char *)file + 10, 118,
                           "{'descr': '<%c%zu', 'fortran_order': False, 'shape': (%s), }", kind,
                           stk_dtype_size(col->dtype), shape);
    file[10 + n] = ' ';
    file[127] = '\n';
    memcpy(file + 128, col->values, (size_t)rows * col->row);
    snprintf(key, sizeof key, "%s.npy", name_of(c, name));
    assert_ok(stk_store_put(store, key, file, 128 + (size_t)rows * col->row, NULL, &err), &err);
}

static void write_all(stk_context *ctx)
{
    stk_store *from = NULL, *to = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://from", &from, NULL, 0, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://z", &to, NULL, 0, &err), &err);
    for (uint32_t c = 0; c < num_columns; c++) {
        write_zarr(ctx, c);
        write_npy(from, c);
    }
    assert_ok(stk_group_consolidate(ctx, "mem://g", NULL, &err), &err);
    zip_all(from, to, "s.npz", false);
    zip_all(from, to, "d.npz", true);
    stk_store_close(&from);
    stk_store_close(&to);
}

/* What may not matter, at random. */
static void choose_speed(stk_loader_options *o)
{
    o->num_workers = pick(0, 3);
    o->cache = (int32_t)pick(0, 3);
    o->memory_budget = (uint64_t)pick(4, 24) << 20;
    if (o->cache)
        o->memory_budget = 32 << 20;
    o->io_depth = pick(1, 4);
}

static void check_row(const stk_batch *batch, uint64_t i, int64_t row)
{
    for (uint32_t c = 1; c < num_columns; c++) {
        stk_tensor t = {.struct_size = sizeof t};
        char name[16];
        assert_int_equal(stk_batch_find(batch, name_of(c, name), &t), STK_OK);
        assert_memory_equal((const char *)t.data + i * columns[c].row,
                            columns[c].values + (size_t)row * columns[c].row, columns[c].row);
    }
}

/* The rows of an epoch in their order. */
static void deliver(stk_context *ctx, const char *spec, const stk_loader_options *o, int64_t *order)
{
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_status status;
    int64_t n = 0;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    assert_int_equal(dataset->size, rows);
    assert_int_equal(dataset->num_fields, num_columns);
    assert_ok(stk_loader_create(dataset, o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        stk_tensor label = {.struct_size = sizeof label};
        assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
        for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
            const int64_t row = ((const int64_t *)label.data)[i];
            assert_true(n < rows && row >= 0 && row < rows);
            check_row(batch, i, row);
            order[n++] = row;
        }
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    assert_int_equal(n, rows);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

static void test_order(void **state)
{
    static const char *const specs[] = {"hdf5:mem://g", "npz:mem://z/s.npz", "npz:mem://z/d.npz",
                                        "hdf5:slow+mem://g", "hdf5:mem://g"};

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t order[STK_COUNT(specs)][MAX_ROWS];
        uint8_t seen[MAX_ROWS] = {0};
        stk_context *ctx = test_context();
        stk_loader_options o;
        make_model();
        write_all(ctx);
        stk_loader_options_init(&o);
        o.batch_size = (uint64_t)pick(1, 9);
        o.shuffle = (int32_t)pick(0, 2);
        o.seed = (uint64_t)pick(0, 1000);
        o.block_size = o.shuffle == STK_SHUFFLE_BLOCK ? (uint64_t)pick(1, 12) : 0;
        o.epochs = 1;
        for (size_t i = 0; i < STK_COUNT(specs); i++) {
            choose_speed(&o);
            deliver(ctx, specs[i], &o, order[i]);
            assert_memory_equal(order[i], order[0], (size_t)rows * sizeof order[0][0]);
        }
        for (int64_t i = 0; i < rows; i++)
            assert_int_equal(seen[order[0][i]]++, 0);
        stk_context_destroy(&ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
