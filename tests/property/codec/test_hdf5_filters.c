/* SPDX-License-Identifier: Apache-2.0 */
/* n-bit, scale-offset, LZ4 and bitshuffle of random shapes, packed here bit by bit as HDF5's
 * sources say, decode to the values that they were packed from. */
#include "codec/codec.h"

#include <jansson.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>

#include "support/support.h"

enum { MOST = 700, ROUNDS = 400 };

static uint8_t encoded[16 * MOST + 64], want[8 * MOST], out[8 * MOST];

typedef struct bits {
    uint8_t *to;
    uint64_t at;
} bits;

static void put_bits(bits *b, uint64_t x, unsigned count)
{
    for (unsigned i = count; i-- > 0; b->at++) {
        uint8_t bit = (uint8_t)(1u << (7 - b->at % 8));
        b->to[b->at / 8] = (uint8_t)(x >> i & 1 ? b->to[b->at / 8] | bit : b->to[b->at / 8] & ~bit);
    }
}

static uint64_t mask(unsigned count)
{
    return count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static void put_big(uint8_t *to, uint64_t x, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (uint8_t)(x >> (8 * (count - 1 - i)));
}

static void put_value(uint8_t *to, uint64_t x, unsigned size, bool big)
{
    for (unsigned i = 0; i < size; i++)
        to[big ? size - 1 - i : i] = (uint8_t)(x >> (8 * i));
}

static void check(stk_context *ctx, stk__codec_state *state, const char *name, const char *values,
                  unsigned size, int64_t count, uint64_t length)
{
    static const stk_dtype dtypes[] = {
        [1] = STK_UINT8, [2] = STK_UINT16, [4] = STK_UINT32, [8] = STK_UINT64};
    const char *reason = NULL;
    stk__chain *chain = NULL;
    stk__chain_spec spec;
    stk_error err;
    json_t *codecs =
        json_pack("[{s:s,s:{s:s}},{s:s,s:{s:o}}]", "name", "bytes", "configuration", "endian",
                  "little", "name", name, "configuration", "values", json_loads(values, 0, NULL));

    assert_non_null(codecs);
    stk__chain_spec_init(&spec);
    spec.key = name;
    spec.dtype = dtypes[size];
    spec.itemsize = spec.swap_size = size;
    spec.rank = 1;
    spec.shape = &count;
    spec.codecs = codecs;
    assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
    json_decref(codecs);
    assert_true(length <= stk__chain_bound(chain));
    memset(out, 0xcc, sizeof out);
    stk_status status =
        stk__chain_decode(chain, state, encoded, length, out, stk__chain_size(chain), &reason);
    if (status != STK_OK || memcmp(out, want, (size_t)count * size) != 0)
        fail_msg("%s %s: %s", name, values, status ? reason : "other values");
    assert_int_equal(out[stk__chain_size(chain)], 0xcc);
    stk__chain_destroy(&chain);
}

static void nbit(stk_context *ctx, stk__codec_state *state, uint64_t *seed)
{
    unsigned size = 1u << test_random(seed) % 4, total = 8 * size;
    unsigned precision = 1 + (unsigned)(test_random(seed) % total);
    unsigned offset = (unsigned)(test_random(seed) % (total - precision + 1));
    bool big = test_random(seed) % 2;
    int64_t count = 1 + (int64_t)(test_random(seed) % (MOST - 1));
    bits b = {encoded, 0};
    char values[128];

    for (int64_t i = 0; i < count; i++) {
        uint64_t x = test_random(seed) & mask(precision);
        put_bits(&b, x, precision);
        put_value(want + i * size, x << offset, size, big);
    }
    snprintf(values, sizeof values, "[8,0,%lld,1,%u,%d,%u,%u]", (long long)count, size, big,
             precision, offset);
    check(ctx, state, "hdf5.nbit", values, size, count,
          (b.at + 7) / 8 + test_random(seed) % 2); /* the library may count one more */
}

static void scaleoffset(stk_context *ctx, stk__codec_state *state, uint64_t *seed)
{
    unsigned size = 1u << test_random(seed) % 4, count_bits;
    bool big = test_random(seed) % 2, has_fill = test_random(seed) % 2;
    int64_t count = 1 + (int64_t)(test_random(seed) % (MOST - 1));
    uint64_t least = test_random(seed), fill = test_random(seed) & mask(8 * size);
    bits b = {encoded + 21, 0};
    char values[160];

    count_bits = (unsigned)(test_random(seed) % (8 * size));
    memset(encoded, 0, 21);
    put_value(encoded, count_bits, 4, false);
    encoded[4] = 8;
    put_value(encoded + 5, least, 8, false);
    for (int64_t i = 0; i < count; i++) {
        uint64_t x = count_bits ? test_random(seed) & mask(count_bits) : 0;
        bool is_fill = has_fill && x == (count_bits ? mask(count_bits) : 0);
        put_bits(&b, x, count_bits);
        put_value(want + i * size, is_fill ? fill : x + least, size, big);
    }
    snprintf(values, sizeof values, "[2,0,%lld,0,%u,0,%d,%d,%llu,%llu]", (long long)count, size,
             big, has_fill, (unsigned long long)(fill & UINT32_MAX),
             (unsigned long long)(fill >> 32));
    check(ctx, state, "hdf5.scaleoffset", values, size, count, 21 + (b.at + 7) / 8);
}

static void lz4(stk_context *ctx, stk__codec_state *state, uint64_t *seed)
{
    int64_t count = 1 + (int64_t)(test_random(seed) % (MOST - 1));
    uint64_t block = 1 + test_random(seed) % 400, at = 12;
    bool noisy = test_random(seed) % 2;
    char values[32];

    for (int64_t i = 0; i < count; i++)
        want[i] = (uint8_t)(noisy ? test_random(seed) : (uint64_t)i / 50);
    put_big(encoded, (uint64_t)count, 8);
    put_big(encoded + 8, block, 4);
    for (uint64_t done = 0; done < (uint64_t)count; done += block) {
        int n = (int)STK_MIN(block, (uint64_t)count - done);
        int stored = LZ4_compress_default((const char *)want + done, (char *)encoded + at + 4, n,
                                          LZ4_compressBound(n));
        if (stored <= 0 || stored >= n) { /* as it is */
            stored = n;
            memcpy(encoded + at + 4, want + done, (size_t)n);
        }
        put_big(encoded + at, (uint64_t)stored, 4);
        at += 4 + (uint64_t)stored;
    }
    snprintf(values, sizeof values, "[%llu]", (unsigned long long)block);
    check(ctx, state, "hdf5.lz4", values, 1, count, at);
}

/* Plane 8 * byte + bit has that bit of each element, the first element lowest. */
static void planes_of(const uint8_t *from, uint8_t *to, uint64_t count, unsigned size)
{
    memset(to, 0, count * size);
    for (uint64_t i = 0; i < count; i++)
        for (unsigned bit = 0; bit < 8 * size; bit++)
            if (from[i * size + bit / 8] >> bit % 8 & 1)
                to[(bit * count + i) / 8] |= (uint8_t)(1u << i % 8);
}

static void bitshuffle(stk_context *ctx, stk__codec_state *state, uint64_t *seed)
{
    static uint8_t planes[8 * MOST];
    unsigned size = 1u << test_random(seed) % 4;
    int64_t count = 1 + (int64_t)(test_random(seed) % (MOST - 1));
    uint64_t block = 8 * (1 + test_random(seed) % 40), at = 0;
    bool compressed = test_random(seed) % 2;
    char values[64];

    for (int64_t i = 0; i < count; i++)
        put_value(want + i * size, (uint64_t)i * 3 + test_random(seed) % 5, size, false);
    if (compressed) {
        put_big(encoded, (uint64_t)count * size, 8);
        put_big(encoded + 8, block * size, 4);
        at = 12;
    }
    uint64_t done = 0;
    while ((uint64_t)count - done >= 8) {
        uint64_t n = STK_MIN(block, ((uint64_t)count - done) / 8 * 8);
        planes_of(want + done * size, planes, n, size);
        if (compressed) {
            int stored = LZ4_compress_default((const char *)planes, (char *)encoded + at + 4,
                                              (int)(n * size), LZ4_compressBound((int)(n * size)));
            assert_true(stored > 0);
            put_big(encoded + at, (uint64_t)stored, 4);
            at += 4 + (uint64_t)stored;
        } else {
            memcpy(encoded + at, planes, n * size);
            at += n * size;
        }
        done += n;
    }
    uint64_t rest = ((uint64_t)count - done) * size;
    memcpy(encoded + at, want + done * size, rest);
    snprintf(values, sizeof values, "[0,4,%u,%llu,%d]", size, (unsigned long long)block,
             compressed ? 2 : 0);
    check(ctx, state, "hdf5.bitshuffle", values, size, count, at + rest);
}

static void run(stk_instructions instructions)
{
    void (*const filters[])(stk_context *, stk__codec_state *, uint64_t *) = {nbit, scaleoffset,
                                                                              lz4, bitshuffle};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__codec_state *state = NULL;
    uint64_t seed = 7;
    stk_error err;

    stk_context_options_init(&options);
    options.instructions = instructions;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (int i = 0; i < ROUNDS; i++)
        for (size_t f = 0; f < STK_COUNT(filters); f++)
            filters[f](ctx, state, &seed);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

static void test_fast(void **unused)
{
    run(STK_INSTRUCTIONS_ALL);
}

static void test_plain(void **unused)
{
    run(STK_INSTRUCTIONS_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fast), cmocka_unit_test(test_plain)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
