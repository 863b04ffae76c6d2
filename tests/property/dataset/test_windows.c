/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random arrays (chunks, shards, codecs, types, missing chunks; or raw files of either order and
 * byte order) and random windows of them, delivered by a loader of random options: every window
 * comes once, and holds what a plain loop over the elements gives.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/window.h"
#include "support/support.h"

#define MAX_RANK  4
#define MAX_BYTES 131072
#define ROUNDS    1500

typedef struct model {
    uint32_t rank, size;
    stk_dtype dtype;
    int64_t shape[MAX_RANK], chunk[MAX_RANK], shard[MAX_RANK];
    bool sharded, raw, big, fortran;
    const char *codec;
    unsigned char values[MAX_BYTES], fill[16];
} model;

static uint64_t seed = 20261122;
static model m;

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(test_random(&seed) % (uint64_t)(high - low + 1));
}

static bool coin(void)
{
    return test_random(&seed) & 1;
}

static void make_model(void)
{
    static const stk_dtype types[] = {STK_UINT8, STK_INT16, STK_FLOAT32, STK_FLOAT64, STK_UINT64};
    static const char *const codecs[] = {"none", "zstd", "gzip", "blosc"};
    uint64_t n = 1;

    memset(&m, 0, sizeof m);
    m.rank = (uint32_t)pick(1, MAX_RANK);
    m.dtype = types[pick(0, 4)];
    m.size = (uint32_t)stk_dtype_size(m.dtype);
    m.codec = codecs[pick(0, 3)];
    m.sharded = coin();
    m.raw = pick(0, 3) == 0;
    m.big = coin();
    m.fortran = coin();
    for (uint32_t d = 0; d < m.rank; d++) {
        m.shape[d] = pick(1, 11);
        m.chunk[d] = pick(1, 5);
        m.shard[d] = m.chunk[d] * pick(1, 3);
        n *= (uint64_t)m.shape[d];
    }
    for (uint64_t i = 0; i < n * m.size; i++)
        m.values[i] = (unsigned char)test_random(&seed);
    for (uint32_t i = 0; i < m.size && !m.raw; i++)
        m.fill[i] = (unsigned char)(3 + i);
    /* Most of it is fill value, now and then: chunks and shards are then left out. */
    for (uint64_t i = 0; coin() && i < n; i += (uint64_t)pick(1, 3))
        memcpy(m.values + i * m.size, m.fill, m.size);
    if (pick(0, 3) == 0)
        for (uint64_t i = 0; i < n; i++)
            if (i % 17)
                memcpy(m.values + i * m.size, m.fill, m.size);
}

static void shape_text(const int64_t *shape, uint32_t rank, char *text, size_t size)
{
    size_t at = 0;

    for (uint32_t d = 0; d < rank; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? "x" : "", (long long)shape[d]);
}

/* Element `i` in C order of the raw file's own place and byte order. */
static void write_raw(stk_context *ctx)
{
    static unsigned char bytes[MAX_BYTES];
    uint64_t n = 1;
    stk_store *store;
    stk_error err;

    for (uint32_t d = 0; d < m.rank; d++)
        n *= (uint64_t)m.shape[d];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i, place = i, stride = 1;
        int64_t at[MAX_RANK];
        for (uint32_t d = m.rank; d-- > 0;) {
            at[d] = (int64_t)(rest % (uint64_t)m.shape[d]);
            rest /= (uint64_t)m.shape[d];
        }
        if (m.fortran) {
            place = 0;
            for (uint32_t d = 0; d < m.rank; d++) {
                place += (uint64_t)at[d] * stride;
                stride *= (uint64_t)m.shape[d];
            }
        }
        for (uint32_t b = 0; b < m.size; b++)
            bytes[place * m.size + (m.big ? m.size - 1 - b : b)] = m.values[i * m.size + b];
    }
    assert_ok(stk_store_open(ctx, "mem://raw", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "a.bin", bytes, n * m.size, NULL, &err), &err);
    stk_store_close(&store);
}

static void write_zarr(stk_context *ctx, const char *url)
{
    stk_array_writer_options o = {.struct_size = sizeof o,
                                  .dtype = m.dtype,
                                  .rank = m.rank,
                                  .shape = m.shape,
                                  .chunk_shape = m.chunk,
                                  .shard_shape = m.sharded ? m.shard : NULL,
                                  .codec = m.codec,
                                  .level = STK_AUTO,
                                  .fill_value = m.fill};
    const int64_t start[MAX_RANK] = {0};
    stk_array_writer *writer;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, m.shape, m.values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

/* A spec of random windows; fills ranges, windows and strides. */
static void make_spec(const char *url, char *spec, size_t size, int64_t *begin, int64_t *end,
                      int64_t *window, int64_t *stride)
{
    char w[64], s[64], range[128] = "";
    size_t at = 0;

    for (uint32_t d = 0; d < m.rank; d++) {
        begin[d] = pick(0, m.shape[d] - 1);
        end[d] = pick(begin[d] + 1, m.shape[d]);
        if (coin())
            begin[d] = 0, end[d] = m.shape[d];
        window[d] = pick(1, end[d] - begin[d]);
        stride[d] = coin() ? window[d] : pick(1, window[d] + 2);
        at += (size_t)snprintf(range + at, sizeof range - at, "%s%u:%lld:%lld", d ? "," : "", d,
                               (long long)begin[d], (long long)end[d]);
    }
    shape_text(window, m.rank, w, sizeof w);
    shape_text(stride, m.rank, s, sizeof s);
    snprintf(spec, size, "array:%s%cwindow=%s&stride=%s&range=%s", url,
             strchr(url, '?') ? '&' : '?', w, s, range);
}

/* The window that begins at `start`, by a loop over its elements. */
static void expect(const int64_t *start, const int64_t *window, unsigned char *out)
{
    int64_t at[MAX_RANK] = {0};

    for (;;) {
        uint64_t place = 0;
        for (uint32_t d = 0; d < m.rank; d++)
            place = place * (uint64_t)m.shape[d] + (uint64_t)(start[d] + at[d]);
        memcpy(out, m.values + place * m.size, m.size);
        out += m.size;
        uint32_t d = m.rank;
        while (d-- > 0) {
            if (++at[d] < window[d])
                break;
            at[d] = 0;
        }
        if (d == UINT32_MAX)
            return;
    }
}

/* Starts by number, as docs/windows.md tells them: blocks in C order, in each its windows. */
static uint64_t list_starts(const stk__window *w, int64_t (*starts)[MAX_RANK], uint64_t room)
{
    uint64_t block[MAX_RANK] = {0}, n = 0;

    for (;;) {
        uint64_t at[MAX_RANK] = {0};
        for (;;) {
            assert_true(n < room);
            for (uint32_t d = 0; d < m.rank; d++)
                starts[n][d] = w->dims[d].begin +
                               (int64_t)(block[d] * w->dims[d].k + at[d]) * w->dims[d].stride;
            n++;
            uint32_t d = m.rank;
            while (d-- > 0) {
                uint64_t left = w->dims[d].n - block[d] * w->dims[d].k;
                if (++at[d] < (left < w->dims[d].k ? left : w->dims[d].k))
                    break;
                at[d] = 0;
            }
            if (d == UINT32_MAX)
                break;
        }
        uint32_t d = m.rank;
        while (d-- > 0) {
            if (++block[d] * w->dims[d].k < w->dims[d].n)
                break;
            block[d] = 0;
        }
        if (d == UINT32_MAX)
            return n;
    }
}

static stk_loader_options random_options(void)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = (uint64_t)pick(1, 9);
    o.shuffle = (int32_t)pick(0, 2);
    o.num_workers = pick(0, 2);
    o.cache = (int32_t)pick(0, 2);
    o.seed = (uint64_t)pick(0, 1000);
    o.memory_budget = (uint64_t)pick(4, 24) << 20;
    o.shuffle_buffer = (uint64_t)pick(1, 4);
    o.streams = (uint64_t)pick(1, 4);
    if (o.cache)
        o.memory_budget = 32 << 20;
    o.epochs = 2;
    return o;
}

static void check_round(stk_context *ctx, const char *spec, const int64_t *window,
                        uint64_t expected_size)
{
    static int64_t starts[20000][MAX_RANK];
    static unsigned char want[MAX_BYTES];
    static uint8_t seen[20000];
    const stk_loader_options o = random_options();
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    uint64_t bytes = m.size;

    for (uint32_t d = 0; d < m.rank; d++)
        bytes *= (uint64_t)window[d];
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    assert_int_equal(dataset->size, expected_size);
    const stk__window *w = (const stk__window *)dataset;
    assert_int_equal(list_starts(w, starts, 20000), expected_size);
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        uint64_t count = 0;
        memset(seen, 0, sizeof seen);
        stk_status status;
        while ((status = stk_loader_next(loader, 30000, &batch, &err)) != STK_EOS) {
            stk_tensor data = {.struct_size = sizeof data}, index = {.struct_size = sizeof index};
            assert_ok(status, &err);
            assert_int_equal(stk_batch_find(batch, "data", &data), STK_OK);
            assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
            assert_int_equal(data.dtype, m.dtype);
            for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
                uint64_t number = ((uint64_t *)index.data)[i];
                expect(starts[number], window, want);
                assert_memory_equal((char *)data.data + i * bytes, want, bytes);
                assert_int_equal(seen[number]++, 0);
                count++;
            }
            stk_batch_release(&batch);
        }
        assert_int_equal(count, expected_size);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

static void test_random_windows(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        stk_context *ctx = test_context();
        int64_t begin[MAX_RANK], end[MAX_RANK], window[MAX_RANK], stride[MAX_RANK];
        char url[512], spec[1024], shape[64];
        make_model();
        if (m.raw) {
            write_raw(ctx);
            shape_text(m.shape, m.rank, shape, sizeof shape);
            snprintf(url, sizeof url, "mem://raw/a.bin?format=raw&dtype=%s%c%u&shape=%s&order=%s",
                     m.big ? ">" : "<",
                     m.dtype == STK_INT16                               ? 'i'
                     : m.dtype == STK_FLOAT32 || m.dtype == STK_FLOAT64 ? 'f'
                                                                        : 'u',
                     m.size, shape, m.fortran ? "F" : "C");
        } else {
            snprintf(url, sizeof url, "mem://zarr");
            write_zarr(ctx, url);
        }
        for (int i = 0; i < 3; i++) {
            uint64_t size = 1;
            make_spec(url, spec, sizeof spec, begin, end, window, stride);
            for (uint32_t d = 0; d < m.rank; d++)
                size *= (uint64_t)((end[d] - begin[d] - window[d]) / stride[d] + 1);
            check_round(ctx, spec, window, size);
        }
        stk_context_destroy(&ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_windows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
