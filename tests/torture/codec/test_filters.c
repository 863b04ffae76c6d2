/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of HDF5's filters and of zfp decoded while the n-th allocation fails, for every n until
 * all succeed; then with one state, no allocation of Stoker's from the second chunk on. */
#include "codec/codec.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"
#include "support/support.h"

#define MOST 65536

typedef struct chunk {
    const json_t *codecs;
    stk_dtype dtype;
    uint32_t item, rank;
    int64_t shape[STK__CHAIN_MAX_RANK];
    uint8_t encoded[MOST], want[MOST];
    uint64_t length, size;
} chunk;

static uint64_t decode64(const char *text, uint8_t *out)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t n = 0;
    uint32_t word = 0, bits = 0;

    for (; *text && *text != '='; text++) {
        word = word << 6 | (uint32_t)(strchr(set, *text) - set);
        bits += 6;
        if (bits >= 8)
            out[n++] = (uint8_t)(word >> (bits -= 8));
    }
    return n;
}

static const char *text_of(const json_t *c, const char *key)
{
    return json_string_value(json_object_get(c, key));
}

static bool load(const json_t *cases, const char *name, chunk *out)
{
    const json_t *c;
    size_t i;

    json_array_foreach(cases, i, c)
    {
        if (strcmp(text_of(c, "name"), name) != 0)
            continue;
        const json_t *shape = json_object_get(c, "shape");
        out->codecs = json_object_get(c, "codecs");
        out->dtype = stk_dtype_parse(text_of(c, "dtype"));
        out->item = (uint32_t)json_integer_value(json_object_get(c, "itemsize"));
        out->rank = (uint32_t)json_array_size(shape);
        for (uint32_t d = 0; d < out->rank; d++)
            out->shape[d] = json_integer_value(json_array_get(shape, d));
        out->length = decode64(text_of(c, "encoded"), out->encoded);
        out->size = decode64(text_of(c, "decoded"), out->want);
        return true;
    }
    return false;
}

static stk_status compile(stk_context *ctx, const chunk *c, stk__chain **chain, stk_error *err)
{
    stk__chain_spec spec;

    stk__chain_spec_init(&spec);
    spec.dtype = c->dtype;
    spec.itemsize = spec.swap_size = c->item;
    spec.rank = c->rank;
    spec.shape = c->shape;
    spec.codecs = c->codecs;
    return stk__chain_create(ctx, &spec, chain, err);
}

static stk_status decode(const stk__chain *chain, stk__codec_state *state, const chunk *c)
{
    static uint8_t out[MOST];
    const char *reason;

    memset(out, 0, c->size);
    STK_TRY(stk__chain_decode(chain, state, c->encoded, c->length, out, c->size, &reason));
    assert_memory_equal(out, c->want, c->size);
    return STK_OK;
}

/* True when no allocation failed. */
static bool run(const chunk *c, int64_t n, bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__chain *chain = NULL;
    stk__codec_state *state = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = compile(ctx, c, &chain, &err);
    if (status == STK_OK)
        status = stk__codec_state_create(ctx, &state, &err);
    if (status == STK_OK)
        status = decode(chain, state, c);
    if (status != STK_OK)
        assert_int_equal(status, STK_ENOMEM);
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&chain);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return !fault_struck(&f);
}

static void steady(const chunk *c)
{
    stk_context *ctx = test_context();
    stk_memory_stats before = {.struct_size = sizeof before}, after = before;
    stk__codec_state *state = NULL;
    stk__chain *chain = NULL;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    assert_ok(compile(ctx, c, &chain, &err), &err);
    assert_int_equal(decode(chain, state, c), STK_OK);
    stk_context_memory(ctx, &before);
    for (int i = 0; i < 5; i++)
        assert_int_equal(decode(chain, state, c), STK_OK);
    stk_context_memory(ctx, &after);
    assert_int_equal(after.allocations, before.allocations);
    stk__chain_destroy(&chain);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

static void test_filters(void **unused)
{
    static const struct {
        const char *file, *name;
    } chunks[] = {
        {"hdf5.json", "fletcher32 shuffle deflate"},
        {"hdf5.json", "nbit 17"},
        {"hdf5.json", "scaleoffset shuffle deflate"},
        {"hdf5.json", "lz4 256"},
        {"hdf5.json", "bitshuffle zstd 0 203 <f4"},
        {"hdf5.json", "bitshuffle none 0 203 <f4"},
#ifdef STK_WITH_SZIP
        {"hdf5.json", "szip odd lines of doubles"},
#endif
#ifdef STK_WITH_ZFP
        {"hdf5.json", "zfp rate"},
        {"zfp.json", "zfp accuracy float64 (5, 6, 7)"},
        {"zfp.json", "zfpy precision int32 (9, 10)"},
#endif
    };
    static chunk c;
    json_error_t error;

    for (size_t i = 0; i < STK_COUNT(chunks); i++) {
        char path[512];
        snprintf(path, sizeof path, TESTS_DIR "/golden/codec/%s", chunks[i].file);
        json_t *cases = json_load_file(path, 0, &error);
        assert_non_null(cases);
        if (!load(cases, chunks[i].name, &c))
            fail_msg("%s is gone", chunks[i].name);
        for (int for_good = 0; for_good < 2; for_good++) {
            int64_t n = 0;
            while (!run(&c, n, for_good))
                assert_true(++n < 1000);
            assert_true(n >= 3);
        }
        steady(&c);
        json_decref(cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filters)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
