/* SPDX-License-Identifier: Apache-2.0 */
/* Chains compiled, encoded and decoded while the n-th allocation fails, for every n until all
 * succeed; then with one state, no allocation at all from the second chunk on. */
#include "codec/codec.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"
#include "support/support.h"

#define COUNT 3000
#define SIZE  ((uint64_t)COUNT * 4)

static const char *const chains[] = {
    "[\"bytes\"]",
    "[{\"name\": \"transpose\", \"configuration\": {\"order\": [1, 0]}}, \"bytes\", \"zstd\"]",
    "[\"bytes\", \"gzip\", \"crc32c\"]",
    "[\"bytes\", \"numcodecs.lz4\", \"zstd\", \"numcodecs.bz2\"]",
    "[\"bytes\", {\"name\": \"numcodecs.lzma\", \"configuration\": {\"preset\": 0}}]",
    "[{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"<i4\"}}, \"bytes\", "
    "{\"name\": "
    "\"blosc\", \"configuration\": {\"cname\": \"zstd\", \"shuffle\": \"bitshuffle\"}}]",
};

static json_t *codecs_of(const char *text)
{
    json_error_t error;
    json_t *list = json_loads(text, 0, &error);

    assert_non_null(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *name = json_array_get(list, i);
        if (json_is_string(name) && !strcmp(json_string_value(name), "bytes"))
            json_array_set_new(
                list, i,
                json_pack("{s:s, s:{s:s}}", "name", "bytes", "configuration", "endian", "big"));
    }
    return list;
}

static uint8_t chunk[SIZE], out[SIZE], encoded[2 * SIZE + 8192];

static stk_status there_and_back(const stk__chain *chain, stk__codec_state *state)
{
    const char *reason = NULL;
    uint64_t length;

    memset(out, 0, SIZE);
    assert_true(stk__chain_bound(chain) <= sizeof encoded);
    STK_TRY(
        stk__chain_encode(chain, state, chunk, SIZE, encoded, sizeof encoded, &length, &reason));
    STK_TRY(stk__chain_decode_prefix(chain, state, encoded, length, out, SIZE, SIZE / 8, &reason));
    assert_memory_equal(out, chunk, SIZE / 8);
    STK_TRY(stk__chain_decode(chain, state, encoded, length, out, SIZE, &reason));
    assert_memory_equal(out, chunk, SIZE);
    return STK_OK;
}

/* True when no allocation failed. */
static bool run(const json_t *codecs, int64_t n, bool for_good)
{
    static const int64_t shape[] = {COUNT / 10, 10};
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__chain *chain = NULL;
    stk__codec_state *state = NULL;
    stk__chain_spec spec;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk__chain_spec_init(&spec);
    spec.dtype = STK_INT32;
    spec.itemsize = spec.swap_size = 4;
    spec.rank = 2;
    spec.shape = shape;
    spec.codecs = codecs;
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk__chain_create(ctx, &spec, &chain, &err);
    if (status == STK_OK)
        status = stk__codec_state_create(ctx, &state, &err);
    if (status == STK_OK)
        status = there_and_back(chain, state);
    if (status != STK_OK)
        assert_int_equal(status, STK_ENOMEM);
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&chain);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return !fault_struck(&f);
}

static void test_allocations(void **unused)
{
    for (int i = 0; i < COUNT; i++)
        memcpy(chunk + 4 * i, &(int32_t){i * i / 7}, 4);
    for (size_t c = 0; c < STK_COUNT(chains); c++) {
        json_t *codecs = codecs_of(chains[c]);
        for (int for_good = 0; for_good < 2; for_good++) {
            int64_t n = 0;
            while (!run(codecs, n, for_good))
                assert_true(++n < 1000);
            assert_true(n >= 3);
        }
        json_decref(codecs);
    }
}

static void test_steady(void **unused)
{
    static const int64_t shape[] = {COUNT / 10, 10};
    stk_context *ctx = test_context();
    stk_memory_stats before = {.struct_size = sizeof before}, after = before;
    stk__codec_state *state = NULL;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (size_t c = 0; c < STK_COUNT(chains); c++) {
        json_t *codecs = codecs_of(chains[c]);
        stk__chain *chain = NULL;
        stk__chain_spec spec;
        stk__chain_spec_init(&spec);
        spec.dtype = STK_INT32;
        spec.itemsize = spec.swap_size = 4;
        spec.rank = 2;
        spec.shape = shape;
        spec.codecs = codecs;
        assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
        assert_int_equal(there_and_back(chain, state), STK_OK);
        stk_context_memory(ctx, &before);
        for (int i = 0; i < 5; i++)
            assert_int_equal(there_and_back(chain, state), STK_OK);
        stk_context_memory(ctx, &after);
        if (after.allocations != before.allocations)
            fail_msg("%s: %llu allocations", chains[c],
                     (unsigned long long)(after.allocations - before.allocations));
        stk__chain_destroy(&chain);
        json_decref(codecs);
    }
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_steady)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
