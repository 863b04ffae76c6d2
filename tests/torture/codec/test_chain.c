/* SPDX-License-Identifier: Apache-2.0 */
/* Chains compiled, encoded and decoded while the n-th allocation fails, for every n until all
 * succeed; then with one state, no allocation at all from the second chunk on. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "torture/codec/chain_faults.h"

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

static stk_status there_and_back(const stk__chain *chain, stk__codec_state *state,
                                 const void *unused)
{
    const char *reason = NULL;
    uint64_t length;

    (void)unused;
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

static void test_chains(void **unused)
{
    static const int64_t shape[] = {COUNT / 10, 10};
    stk__chain_spec spec;

    for (int i = 0; i < COUNT; i++)
        memcpy(chunk + 4 * i, &(int32_t){i * i / 7}, 4);
    for (size_t c = 0; c < STK_COUNT(chains); c++) {
        json_t *codecs = codecs_of(chains[c]);
        stk__chain_spec_init(&spec);
        spec.key = chains[c];
        spec.dtype = STK_INT32;
        spec.itemsize = spec.swap_size = 4;
        spec.rank = 2;
        spec.shape = shape;
        spec.codecs = codecs;
        chain_torture(&spec, there_and_back, NULL);
        chain_steady(&spec, there_and_back, NULL);
        json_decref(codecs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
