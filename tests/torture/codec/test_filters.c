/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of HDF5's filters and of zfp decoded while the n-th allocation fails, for every n until
 * all succeed; then with one state, no allocation of Stoker's from the second chunk on. */
#include <stdio.h>

#include "golden/codec/cases.h"
#include "torture/codec/chain_faults.h"

typedef struct chunk {
    uint8_t encoded[CASE_MOST], want[CASE_MOST];
    uint64_t length, size;
} chunk;

static const json_t *find(const json_t *cases, const char *name)
{
    const json_t *c;
    size_t i;

    json_array_foreach(cases, i, c) if (strcmp(case_text(c, "name"), name) == 0) return c;
    fail_msg("%s is gone", name);
    return NULL;
}

static stk_status decode(const stk__chain *chain, stk__codec_state *state, const void *user)
{
    static uint8_t out[CASE_MOST];
    const chunk *c = user;
    const char *reason;

    memset(out, 0, c->size);
    STK_TRY(stk__chain_decode(chain, state, c->encoded, c->length, out, c->size, &reason));
    assert_memory_equal(out, c->want, c->size);
    return STK_OK;
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
        int64_t shape[STK__CHAIN_MAX_RANK];
        char path[512];
        snprintf(path, sizeof path, TESTS_DIR "/golden/codec/%s", chunks[i].file);
        json_t *cases = json_load_file(path, 0, &error);
        assert_non_null(cases);
        const json_t *found = find(cases, chunks[i].name);
        const stk__chain_spec spec = case_spec(found, shape);
        c.length = case_bytes(found, "encoded", c.encoded);
        c.size = case_bytes(found, "decoded", c.want);
        chain_torture(&spec, decode, &c);
        chain_steady(&spec, decode, &c);
        json_decref(cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filters)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
