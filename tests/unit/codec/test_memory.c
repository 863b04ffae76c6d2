/* SPDX-License-Identifier: Apache-2.0 */
/* What decoding holds follows from the metadata, is bounded, and does not pile up from chunk to
 * chunk, whatever the chunks claim. */
#include "codec/codec.h"

#include <jansson.h>
#include <string.h>

#include "support/support.h"

enum { SIZE = 4096 };
#define MIB (UINT64_C(1) << 20)

static uint64_t used(const stk_context *ctx, bool peak)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_context_memory(ctx, &stats);
    return peak ? stats.peak_bytes : stats.bytes;
}

static stk_context *limited(uint64_t limit)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = limit;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

static stk_status compile(stk_context *ctx, const char *filters, const char *compressor,
                          stk__chain **chain, stk_error *err)
{
    static const int64_t shape = SIZE;
    json_t *list = filters ? json_loads(filters, 0, NULL) : NULL;
    json_t *one = compressor ? json_loads(compressor, 0, NULL) : NULL;
    stk__chain_spec spec;

    assert_true((!filters || list) && (!compressor || one));
    stk__chain_spec_init(&spec);
    spec.key = "a/.zarray";
    spec.dtype = STK_UINT8;
    spec.rank = 1;
    spec.shape = &shape;
    spec.filters = list;
    spec.compressor = one;
    stk_error_init(err);
    stk_status status = stk__chain_create(ctx, &spec, chain, err);
    json_decref(list);
    json_decref(one);
    return status;
}

/* Small chunks that claim large dictionaries, each another one. */
static void test_dictionaries(void **unused)
{
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    stk__chain *usual = NULL, *wide = NULL;
    uint8_t chunk[SIZE], out[SIZE], encoded[2 * SIZE + 8192];
    const char *reason = NULL;
    uint64_t length = 0;
    stk_error err;

    memset(chunk, 7, sizeof chunk);
    assert_ok(compile(ctx, NULL, "{\"id\": \"lzma\", \"format\": 2}", &usual, &err), &err);
    assert_ok(compile(ctx, NULL, "{\"id\": \"lzma\", \"format\": 2, \"preset\": 9}", &wide, &err),
              &err);
    assert_in_range(stk__chain_library(usual), 8 * MIB, 10 * MIB);
    assert_in_range(stk__chain_library(wide), 64 * MIB, 67 * MIB);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    assert_int_equal(
        stk__chain_encode(usual, state, chunk, SIZE, encoded, sizeof encoded, &length, &reason),
        STK_OK);
    stk__codec_state_destroy(&state);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    const uint64_t before = used(ctx, false);
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t dictionary = (2u + i % 2) << (25 - i / 2); /* sizes that .lzma knows */
        memcpy(encoded + 1, &dictionary, 4);
        stk_status status = stk__chain_decode(wide, state, encoded, length, out, SIZE, &reason);
        if (dictionary > 64u << 20) {
            assert_int_equal(status, STK_ELIMIT);
        } else {
            assert_int_equal(status, STK_OK);
            assert_memory_equal(out, chunk, SIZE);
        }
        /* What is kept for the next chunk is bounded, and told. */
        assert_true(used(ctx, false) - before <= 17 * MIB);
        assert_true(stk__codec_state_held(state) <= 18 * MIB);
    }
    uint32_t dictionary = 64u << 20; /* more than this array's preset */
    memcpy(encoded + 1, &dictionary, 4);
    assert_int_equal(stk__chain_decode(usual, state, encoded, length, out, SIZE, &reason),
                     STK_ELIMIT);
    assert_non_null(strstr(reason, "preset in the metadata"));
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&usual);
    stk__chain_destroy(&wide);
    stk_context_destroy(&ctx);
}

/* An array whose codec cannot be run within the memory is refused when it is opened. */
static void test_refused(void **unused)
{
    static const char widening[] =
        "[{\"id\": \"astype\", \"decode_dtype\": \"|u1\", \"encode_dtype\": \"<f8\"},"
        " {\"id\": \"astype\", \"decode_dtype\": \"|u1\", \"encode_dtype\": \"<f8\"},"
        " {\"id\": \"astype\", \"decode_dtype\": \"|u1\", \"encode_dtype\": \"<f8\"}]";
    stk_context *ctx = limited(64 * MIB);
    stk__chain *chain = NULL;
    stk_error err;

    assert_fails(compile(ctx, NULL, "{\"id\": \"lzma\", \"preset\": 9}", &chain, &err), STK_ELIMIT,
                 &err, "quarter of memory_limit");
    assert_ok(compile(ctx, NULL, "{\"id\": \"lzma\"}", &chain, &err), &err);
    stk__chain_destroy(&chain);
    /* Filters that make a chunk eight times as large each. */
    assert_fails(compile(ctx, widening, NULL, &chain, &err), STK_ELIMIT, &err,
                 "STK__CHAIN_MAX_GROWTH");
    assert_ok(compile(ctx,
                      "[{\"id\": \"astype\", \"decode_dtype\": \"|u1\", \"encode_dtype\": "
                      "\"<f8\"}]",
                      "{\"id\": \"zstd\"}", &chain, &err),
              &err);
    assert_int_equal(stk__chain_stages(chain), 8 * SIZE);
    stk__chain_destroy(&chain);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dictionaries),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
