/* SPDX-License-Identifier: Apache-2.0 */
/* Blosc frames of every kind that c-blosc writes, against what went into them; and what c-blosc
 * makes of ours. */
#include "codec/codec.h"

#include <blosc.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

#define MOST (3 << 20)

static uint8_t data[MOST], out[MOST + 64], packed[MOST + BLOSC_MAX_OVERHEAD];

/* Numbers that grow slowly, with noise in the low byte: every inner codec makes something of it. */
static void fill(size_t size, size_t item, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] =
            (uint8_t)(i % item ? (i / item) >> (8 * (i % item) % 64) : test_random(&seed) & 15);
}

static stk__chain *compile(stk_context *ctx, const char *text, uint64_t size, uint32_t item,
                           bool big)
{
    int64_t shape = (int64_t)(size / item);
    stk__chain *chain = NULL;
    stk__chain_spec spec;
    json_error_t error;
    stk_error err;

    json_t *config = json_loads(text, 0, &error);
    assert_non_null(config);
    stk__chain_spec_init(&spec);
    spec.itemsize = spec.swap_size = item;
    spec.big_endian = big;
    spec.rank = 1;
    spec.shape = &shape;
    spec.compressor = config;
    assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
    json_decref(config);
    return chain;
}

/* BLOSC_ALWAYS_SPLIT is left out: small blocks written so are not read by c-blosc itself. */
static void check(stk_context *ctx, stk__codec_state *state, const char *cname, int level,
                  int shuffle, size_t item, size_t size, size_t block, int splits)
{
    const char *reason = NULL;

    fill(size, item, size + item);
    blosc_set_splitmode(splits);
    int n = blosc_compress_ctx(level, shuffle, item, size, data, packed, sizeof packed, cname,
                               block, 1);
    assert_true(n > 0);
    stk__chain *chain = compile(ctx, "{\"id\": \"blosc\"}", size, 1, false);
    memset(out, 0xee, size + 64);
    stk_status status = stk__chain_decode(chain, state, packed, (uint64_t)n, out, size, &reason);
    if (status != STK_OK || memcmp(out, data, size) || out[size] != 0xee)
        fail_msg("%s level %d shuffle %d item %zu size %zu block %zu: %s", cname, level, shuffle,
                 item, size, block, status ? reason : "differs");
    uint64_t needed = size / 3 + 1;
    memset(out, 0xee, size + 64);
    status =
        stk__chain_decode_prefix(chain, state, packed, (uint64_t)n, out, size, needed, &reason);
    if (status != STK_OK || memcmp(out, data, needed))
        fail_msg("%s level %d shuffle %d item %zu size %zu block %zu, first %llu bytes: %s", cname,
                 level, shuffle, item, size, block, (unsigned long long)needed, reason);
    stk__chain_destroy(&chain);
}

static const char *const names[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

static void test_frames(void **unused)
{
    static const size_t items[] = {1, 2, 3, 4, 7, 8, 12, 16, 17, 255};
    static const size_t sizes[] = {1, 17, 127, 128, 1000, 4099, 65536, 300007, MOST};
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    uint64_t seed = 5;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (size_t c = 0; c < STK_COUNT(names); c++)
        for (int shuffle = 0; shuffle < 3; shuffle++)
            for (size_t i = 0; i < STK_COUNT(items); i++)
                for (size_t s = 0; s < STK_COUNT(sizes); s++) {
                    size_t block = test_random(&seed) % 3 ? 0 : 128 + test_random(&seed) % 70000;
                    if (sizes[s] == MOST && (i % 3 || c == 2))
                        continue;
                    check(ctx, state, names[c], 1 + (int)(test_random(&seed) % 5), shuffle,
                          items[i], sizes[s], block, BLOSC_NEVER_SPLIT + (int)(s % 3));
                }
    check(ctx, state, "lz4", 0, 1, 4, 5000, 0, BLOSC_AUTO_SPLIT); /* a copy */
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

/* What we write, c-blosc reads. Of big-endian elements it reads the bytes as they lie. */
static void test_written(void **unused)
{
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    const char *reason = NULL;
    char text[128];
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (size_t c = 0; c < STK_COUNT(names); c++)
        for (int shuffle = -1; shuffle < 3; shuffle++)
            for (int big = 0; big < 2; big++) {
                uint64_t size = 80000, length;
                fill(size, 4, c);
                snprintf(text, sizeof text,
                         "{\"id\": \"blosc\", \"cname\": \"%s\", \"clevel\": 3, \"shuffle\": %d}",
                         names[c], shuffle);
                stk__chain *chain = compile(ctx, text, size, 4, big);
                assert_true(stk__chain_bound(chain) <= sizeof packed);
                assert_int_equal(stk__chain_encode(chain, state, data, size, packed, sizeof packed,
                                                   &length, &reason),
                                 STK_OK);
                assert_int_equal(blosc_decompress_ctx(packed, out, size, 1), size);
                for (size_t i = 0; i < size; i++)
                    assert_int_equal(out[i], data[big ? i ^ 3 : i]);
                memset(out, 0, size);
                assert_int_equal(
                    stk__chain_decode(chain, state, packed, length, out, size, &reason), STK_OK);
                assert_memory_equal(out, data, size);
                stk__chain_destroy(&chain);
            }
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

/* Frames of blosc 2 are told from damage. */
static void test_blosc2(void **unused)
{
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    stk__chain *chain = compile(ctx, "{\"id\": \"blosc\"}", 1000, 1, false);
    const char *reason = NULL;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    fill(1000, 1, 1);
    int n = blosc_compress_ctx(5, 1, 4, 1000, data, packed, sizeof packed, "lz4", 0, 1);
    packed[0] = 5;
    assert_int_equal(stk__chain_decode(chain, state, packed, (uint64_t)n, out, 1000, &reason),
                     STK_EKIND);
    assert_non_null(strstr(reason, "blosc 2"));
    stk__chain_destroy(&chain);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_frames),
                                       cmocka_unit_test(test_written),
                                       cmocka_unit_test(test_blosc2)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
