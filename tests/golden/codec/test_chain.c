/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks written by zarr-python and numcodecs (scripts/make_codec_golden.py), decoded, and encoded
 * to the same bytes where there is one way to write them; chunks written by HDF5 and its filters
 * (scripts/make_hdf5_codec_golden.py) and by zfp (scripts/make_zfp_golden.py), decoded. */
#include <stdio.h>
#include <stdlib.h>

#include "golden/codec/cases.h"

#define ZARR       TESTS_DIR "/golden/codec/chains.json"
#define ZARR_CASES 250
#define HDF5       TESTS_DIR "/golden/codec/hdf5.json"
#define HDF5_CASES 170
#define ZFP        TESTS_DIR "/golden/codec/zfp.json"
#define ZFP_CASES  120

static stk__chain *compile(stk_context *ctx, const json_t *c)
{
    int64_t shape[STK__CHAIN_MAX_RANK];
    const stk__chain_spec spec = case_spec(c, shape);
    stk__chain *chain = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
    return chain;
}

static void check(stk_context *ctx, stk__codec_state *state, const json_t *c)
{
    static uint8_t encoded[CASE_MOST], want[CASE_MOST], out[2 * CASE_MOST];
    const char *name = case_text(c, "name"), *reason = NULL;
    size_t length = case_bytes(c, "encoded", encoded);
    size_t size = case_bytes(c, "decoded", want);
    stk__chain *chain = compile(ctx, c);
    uint64_t got;

    assert_int_equal(stk__chain_size(chain), size);
    stk_status status = stk__chain_decode(chain, state, encoded, length, out, size, &reason);
    if (status != STK_OK || memcmp(out, want, size))
        fail_msg("%s: %s", name, status ? reason : "other values");
    for (uint64_t needed = 1; needed <= size; needed = needed * 3 / 2 + 1) {
        memset(out, 0xcc, size);
        status =
            stk__chain_decode_prefix(chain, state, encoded, length, out, size, needed, &reason);
        if (status != STK_OK || memcmp(out, want, needed))
            fail_msg("%s, first %llu bytes: %s", name, (unsigned long long)needed,
                     status ? reason : "other values");
    }
    assert_true(stk__chain_bound(chain) <= sizeof out);
    if (stk__chain_encoded_size(chain) != STK__CHAIN_NO_SIZE)
        assert_int_equal(stk__chain_encoded_size(chain), length);
    if (json_is_true(json_object_get(c, "read"))) { /* such codecs are not written */
        stk__chain_destroy(&chain);
        return;
    }
    if (json_object_get(c, "source"))
        assert_int_equal(case_bytes(c, "source", want), size);
    status = stk__chain_encode(chain, state, want, size, out, sizeof out, &got, &reason);
    if (status != STK_OK)
        fail_msg("%s: %s", name, reason);
    if (json_is_true(json_object_get(c, "exact")) && (got != length || memcmp(out, encoded, got)))
        fail_msg("%s: encodes to other bytes", name);
    stk__chain_destroy(&chain);
}

/* Whether a list has a codec that this build lacks. */
static bool is_without(const json_t *c)
{
    const json_t *codec, *codecs = json_object_get(c, "codecs");
    size_t i;

#ifndef STK_WITH_ZFP
    if (strstr(case_text(c, "name"), "zfp"))
        return true;
#endif
    json_array_foreach(codecs, i, codec)
    {
        const char *name = json_string_value(json_object_get(codec, "name"));
#ifndef STK_WITH_SZIP
        if (!strcmp(name, "hdf5.szip"))
            return true;
#endif
        (void)name;
    }
    return false;
}

static void run(const char *file, size_t least, stk_instructions instructions)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__codec_state *state = NULL;
    json_error_t error;
    stk_error err;

    stk_context_options_init(&options);
    options.instructions = instructions;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    json_t *cases = json_load_file(file, 0, &error);
    assert_non_null(cases);
    assert_true(json_array_size(cases) >= least);
    for (size_t i = 0; i < json_array_size(cases); i++)
        if (!is_without(json_array_get(cases, i)))
            check(ctx, state, json_array_get(cases, i));
    json_decref(cases);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

static void test_fast(void **unused)
{
    run(ZARR, ZARR_CASES, STK_INSTRUCTIONS_ALL);
    run(HDF5, HDF5_CASES, STK_INSTRUCTIONS_ALL);
    run(ZFP, ZFP_CASES, STK_INSTRUCTIONS_ALL);
}

static void test_plain(void **unused)
{
    run(ZARR, ZARR_CASES, STK_INSTRUCTIONS_PLAIN);
    run(HDF5, HDF5_CASES, STK_INSTRUCTIONS_PLAIN);
    run(ZFP, ZFP_CASES, STK_INSTRUCTIONS_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fast), cmocka_unit_test(test_plain)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
