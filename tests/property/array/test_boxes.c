/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random arrays, made here byte by byte (chunks, transposes, byte order, shards in shards, missing
 * chunks), and random boxes of them with steps and strides: what is read must be what a plain loop
 * over the elements gives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <stoker/array.h>

#include "support/support.h"

#define MAX_RANK   4
#define MAX_LEVELS 3
#define MAX_BYTES  65536
#define MAX_OBJECT 1200000
#define ROUNDS     600
#define BOXES      12

/* One random array. */
typedef struct model {
    uint32_t rank, size, levels;
    int64_t shape[MAX_RANK], chunk[MAX_LEVELS][MAX_RANK]; /* of each level, outermost first */
    int order[MAX_RANK];                                  /* a transpose in front of all */
    bool transposed, big, gzip, at_start, v2_keys, sparse;
    int type; /* in types[] */
    unsigned char values[4 * MAX_BYTES], fill[16];
} model;

/* `swap`: bytes that the other order reverses together; the fill value as text, of the bytes 7, 8,
 * 9, ... */
static const struct {
    const char *name, *fill;
    uint32_t size, swap;
} types[] = {
    {"uint8", "7", 1, 1},
    {"int8", "7", 1, 1},
    {"uint16", "2055", 2, 2},
    {"int16", "2055", 2, 2},
    {"float16", "\"0x0807\"", 2, 2},
    {"bfloat16", "\"0x0807\"", 2, 2},
    {"r24", "[7,8,9]", 3, 1},
    {"uint32", "168364039", 4, 4},
    {"int32", "168364039", 4, 4},
    {"float32", "\"0x0a090807\"", 4, 4},
    {"uint64", "1012478732780767239", 8, 8},
    {"int64", "1012478732780767239", 8, 8},
    {"float64", "\"0x0e0d0c0b0a090807\"", 8, 8},
    {"complex64", "[\"0x0a090807\",\"0x0e0d0c0b\"]", 8, 4},
    {"complex128", "[\"0x0e0d0c0b0a090807\",\"0x161514131211100f\"]", 16, 8},
};

static uint64_t seed = 20240607;

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(test_random(&seed) % (uint64_t)(high - low + 1));
}

static bool coin(void)
{
    return test_random(&seed) & 1;
}

static uint64_t count_of(const int64_t *shape, uint32_t rank)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < rank; d++)
        n *= (uint64_t)shape[d];
    return n;
}

static void make_model(model *m)
{
    memset(m, 0, sizeof *m);
    m->rank = (uint32_t)pick(0, MAX_RANK);
    m->type = (int)pick(0, (int64_t)(sizeof types / sizeof types[0]) - 1);
    m->size = types[m->type].size;
    m->levels = (uint32_t)pick(1, 3);
    m->transposed = m->rank > 1 && coin();
    m->big = types[m->type].swap > 1 && coin();
    m->gzip = coin();
    m->at_start = coin();
    m->v2_keys = coin();
    m->sparse = coin();
    for (uint32_t d = 0; d < m->rank; d++) {
        m->shape[d] = pick(1, 9);
        int64_t n = pick(1, 4);
        for (uint32_t l = m->levels; l-- > 0;) {
            m->chunk[l][d] = n;
            n *= pick(1, 2);
        }
        m->order[d] = (int)d;
    }
    for (uint32_t d = m->rank; m->transposed && d > 1; d--) {
        int other = (int)pick(0, d - 1), kept = m->order[d - 1];
        m->order[d - 1] = m->order[other];
        m->order[other] = kept;
    }
    uint64_t n = count_of(m->shape, m->rank);
    for (uint32_t i = 0; i < m->size; i++)
        m->fill[i] = (unsigned char)(7 + i);
    for (uint64_t i = 0; i < n * m->size; i++)
        m->values[i] = (unsigned char)test_random(&seed);
}

/* ---- Writing it, by the definitions ---- */

/* Element `at` of the array; what lies outside is noise. */
static void element(const model *m, const int64_t *at, unsigned char *out)
{
    uint64_t place = 0;

    for (uint32_t d = 0; d < m->rank; d++) {
        if (at[d] >= m->shape[d]) {
            memset(out, 0xee, m->size);
            return;
        }
        place = place * (uint64_t)m->shape[d] + (uint64_t)at[d];
    }
    const uint32_t swap = m->big ? types[m->type].swap : 1;
    for (uint32_t i = 0; i < m->size; i++)
        out[i - i % swap + swap - 1 - i % swap] = m->values[place * m->size + i];
}

/* The place of position `i` in an encoded box of `shape`, in the array's dimensions. */
static void unravel(const model *m, uint64_t i, const int64_t *shape, int64_t *at)
{
    for (uint32_t e = m->rank; e-- > 0;) {
        int d = m->order[e];
        at[d] = (int64_t)(i % (uint64_t)shape[d]);
        i /= (uint64_t)shape[d];
    }
}

static void set_fill(model *m, const int64_t *begin, const int64_t *shape)
{
    uint64_t n = count_of(shape, m->rank);

    for (uint64_t i = 0; i < n; i++) {
        int64_t at[MAX_RANK] = {0};
        uint64_t place = 0;
        bool inside = true;
        unravel(m, i, shape, at);
        for (uint32_t d = 0; d < m->rank; d++) {
            inside = inside && begin[d] + at[d] < m->shape[d];
            place = place * (uint64_t)m->shape[d] + (uint64_t)(begin[d] + at[d]);
        }
        if (inside)
            memcpy(m->values + place * m->size, m->fill, m->size);
    }
}

static uint64_t encode_leaf(const model *m, const int64_t *begin, unsigned char *out)
{
    static unsigned char raw[MAX_OBJECT];
    const int64_t *shape = m->chunk[m->levels - 1];
    uint64_t n = count_of(shape, m->rank);

    for (uint64_t i = 0; i < n; i++) {
        int64_t at[MAX_RANK] = {0};
        unravel(m, i, shape, at);
        for (uint32_t d = 0; d < m->rank; d++)
            at[d] += begin[d];
        element(m, at, raw + i * m->size);
    }
    if (!m->gzip) {
        memcpy(out, raw, n * m->size);
        return n * m->size;
    }
    z_stream z = {
        .next_in = raw, .avail_in = (uInt)(n * m->size), .next_out = out, .avail_out = MAX_OBJECT};
    assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    uint64_t length = z.total_out;
    deflateEnd(&z);
    return length;
}

/* Encode a chunk of a level. 0: it is missing. */
static uint64_t encode(model *m, uint32_t level, const int64_t *begin, unsigned char *out)
{
    if (m->sparse && test_random(&seed) % 4 == 0) {
        set_fill(m, begin, m->chunk[level]);
        return 0;
    }
    if (level + 1 >= m->levels || level + 1 >= MAX_LEVELS)
        return encode_leaf(m, begin, out);
    int64_t inner[MAX_RANK], at[MAX_RANK] = {0};
    for (uint32_t d = 0; d < m->rank; d++)
        inner[d] = m->chunk[level][d] / m->chunk[level + 1][d];
    uint64_t n = count_of(inner, m->rank), index_bytes = 16 * n;
    uint64_t end = m->at_start ? index_bytes : 0;
    uint64_t *index = calloc(n, 16);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = (k * 7 + 3) % n; /* in some other order; 7 may share a factor with n */
        if (n % 7 == 0)
            i = k;
        unravel(m, i, inner, at);
        for (uint32_t d = 0; d < m->rank; d++)
            at[d] = begin[d] + at[d] * m->chunk[level + 1][d];
        end += test_random(&seed) % 3; /* gaps are allowed */
        uint64_t length = encode(m, level + 1, at, out + end);
        index[2 * i] = length ? end : UINT64_MAX;
        index[2 * i + 1] = length ? length : UINT64_MAX;
        end += length;
    }
    memcpy(m->at_start ? out : out + end, index, index_bytes);
    free(index);
    return m->at_start ? end : end + index_bytes;
}

static int list_text(char *text, const int64_t *values, const int *order, uint32_t rank)
{
    int n = sprintf(text, "[");

    for (uint32_t d = 0; d < rank; d++)
        n += sprintf(text + n, "%s%lld", d ? "," : "", (long long)values[order[d]]);
    return n + sprintf(text + n, "]");
}

static void make_metadata(const model *m, char *text)
{
    static const int plain[MAX_RANK] = {0, 1, 2, 3};
    char *p = text;

    p += sprintf(p, "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":");
    p += list_text(p, m->shape, plain, m->rank);
    p += sprintf(p,
                 ",\"data_type\":\"%s\",\"fill_value\":%s,\"chunk_grid\":{\"name\":"
                 "\"regular\",\"configuration\":{\"chunk_shape\":",
                 types[m->type].name, types[m->type].fill);
    p += list_text(p, m->chunk[0], plain, m->rank);
    p += sprintf(p, "}},\"chunk_key_encoding\":%s,\"codecs\":[",
                 m->v2_keys ? "\"v2\""
                            : "{\"name\":\"default\",\"configuration\":{\"separator\":\".\"}}");
    if (m->transposed) {
        int64_t order[MAX_RANK];
        for (uint32_t d = 0; d < m->rank; d++)
            order[d] = m->order[d];
        p += sprintf(p, "{\"name\":\"transpose\",\"configuration\":{\"order\":");
        p += list_text(p, order, plain, m->rank);
        p += sprintf(p, "}},");
    }
    for (uint32_t l = 1; l < m->levels; l++) {
        p += sprintf(p,
                     "{\"name\":\"sharding_indexed\",\"configuration\":{\"index_location\":\"%s\","
                     "\"index_codecs\":[{\"name\":\"bytes\",\"configuration\":{\"endian\":"
                     "\"little\"}}],\"chunk_shape\":",
                     m->at_start ? "start" : "end");
        p += list_text(p, m->chunk[l], m->order, m->rank);
        p += sprintf(p, ",\"codecs\":[");
    }
    p += sprintf(p, "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"%s\"}}%s",
                 m->big ? "big" : "little",
                 m->gzip ? ",{\"name\":\"gzip\",\"configuration\":{\"level\":1}}" : "");
    for (uint32_t l = 1; l < m->levels; l++)
        p += sprintf(p, "]}}");
    sprintf(p, "]}");
}

static void write_model(model *m, stk_store *store, int round)
{
    static unsigned char object[MAX_OBJECT];
    char key[128], metadata[4096];
    int64_t count[MAX_RANK];
    stk_error err;

    make_metadata(m, metadata);
    snprintf(key, sizeof key, "%d/zarr.json", round);
    assert_ok(stk_store_put(store, key, metadata, strlen(metadata), NULL, &err), &err);
    for (uint32_t d = 0; d < m->rank; d++)
        count[d] = (m->shape[d] + m->chunk[0][d] - 1) / m->chunk[0][d];
    for (uint64_t i = 0; i < count_of(count, m->rank); i++) {
        int64_t at[MAX_RANK] = {0}, begin[MAX_RANK] = {0};
        uint64_t rest = i;
        int n = snprintf(key, sizeof key, "%d/%s", round, m->v2_keys ? (m->rank ? "" : "0") : "c");
        for (uint32_t d = m->rank; d-- > 0; rest /= (uint64_t)count[d])
            at[d] = (int64_t)(rest % (uint64_t)count[d]);
        for (uint32_t d = 0; d < m->rank; d++) {
            n += snprintf(key + n, sizeof key - (size_t)n, "%s%lld", d || !m->v2_keys ? "." : "",
                          (long long)at[d]);
            begin[d] = at[d] * m->chunk[0][d];
        }
        uint64_t length = encode(m, 0, begin, object);
        if (length)
            assert_ok(stk_store_put(store, key, object, length, NULL, &err), &err);
    }
}

/* ---- Reading it ---- */

static void check_box(const model *m, stk_array *a)
{
    static unsigned char out[32 * MAX_BYTES];
    int64_t start[MAX_RANK], shape[MAX_RANK], step[MAX_RANK], strides[MAX_RANK];
    stk_array_box box = {start, shape, step};
    uint64_t n = 1, bytes = m->size;
    bool strided = coin();
    stk_error err;

    for (uint32_t d = 0; d < m->rank; d++) {
        start[d] = pick(0, m->shape[d] - 1);
        step[d] = pick(1, 4);
        shape[d] = pick(1, (m->shape[d] - start[d] - 1) / step[d] + 1);
        n *= (uint64_t)shape[d];
    }
    for (uint32_t d = 0; d < m->rank; d++) { /* order F, with room between */
        strides[d] = (int64_t)bytes;
        bytes *= (uint64_t)shape[d];
        bytes += strided ? m->size * (uint64_t)pick(0, 2) : 0;
    }
    memset(out, 0xaa, bytes);
    if (strided)
        assert_ok(stk_array_read(a, &box, out, bytes, strides, -1, &err), &err);
    else
        assert_ok(stk_array_read(a, &box, out, n * m->size, NULL, -1, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i, place = 0, stride = 1, to = strided ? 0 : i * m->size;
        for (uint32_t d = m->rank; d-- > 0;) {
            uint64_t at = rest % (uint64_t)shape[d];
            rest /= (uint64_t)shape[d];
            place += (uint64_t)(start[d] + (int64_t)at * step[d]) * stride;
            stride *= (uint64_t)m->shape[d];
            to += strided ? at * (uint64_t)strides[d] : 0;
        }
        assert_memory_equal(out + to, m->values + place * m->size, m->size);
        memset(out + to, 0xaa, m->size); /* so that what is left shows what should not be there */
    }
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(out[i], 0xaa);
}

static void test_boxes(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    static model m;
    char url[128];
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://arrays", &store, NULL, 0, &err), &err);
    for (int round = 0; round < ROUNDS; round++) {
        stk_array *a = NULL;
        make_model(&m);
        write_model(&m, store, round);
        snprintf(url, sizeof url, "%smem://arrays/%d?num_threads=%d", round % 5 ? "" : "slow+",
                 round, 1 + round % 3);
        if (stk_array_open(ctx, url, NULL, &a, &err) != STK_OK)
            fail_msg("round %d: %s", round, err.text);
        for (int i = 0; i < BOXES; i++)
            check_box(&m, a);
        stk_array_close(&a);
        if (!m.sparse) { /* nothing is missing: the same must hold where that is an error */
            snprintf(url, sizeof url, "mem://arrays/%d?missing=error&memory=1MB", round);
            assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
            check_box(&m, a);
            stk_array_close(&a);
        }
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
