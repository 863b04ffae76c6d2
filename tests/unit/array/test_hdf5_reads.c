/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 files of stores that fail: what could not be read is that failure, never another and never a
 * fill value. */
#include "golden/array/pack.h"
#include "unit/array/faulty.h"

static const struct {
    const char *pack, *url, *expected;
} cases[] = {
    {"hdf5_chunks", "files/masks_old.h5/masks", "masks_old.masks/expected"},
    {"hdf5_chunks", "files/masks_new.h5/masks", "masks_new.masks/expected"},
    {"hdf5_chunks", "files/indexes_latest.h5/many_growing", "indexes_latest.many_growing/expected"},
    {"hdf5", "files/shared.h5/y", "shared.y/expected"},
    {"hdf5", "files/netcdf.h5/forecast/q", "netcdf.forecast.q/expected"},
    {"hdf5", "files/groups_old.h5/soft", "groups_old.soft/expected"},
};

static stk_status use(stk_context *ctx, size_t i, const char *expected, uint64_t bytes,
                      stk_error *err)
{
    char url[128], *out = malloc(bytes + 1);
    stk_array *a = NULL;

    assert_non_null(out);
    snprintf(url, sizeof url, "faulty://pack/%s?num_threads=1", cases[i].url);
    stk_status status = stk_array_open(ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_read(a, NULL, out, bytes, NULL, -1, err);
    if (status == STK_OK)
        assert_memory_equal(out, expected, bytes);
    stk_array_close(&a);
    free(out);
    return status;
}

static void test_failures(void **state)
{
    stk_context *ctx = test_context();
    stk_error err;

    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &faulty_ops, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_store *store = NULL;
        uint64_t bytes = 0;
        pack_load(ctx, cases[i].pack, &store);
        char *expected = pack_find(cases[i].pack, cases[i].expected, &bytes);
        for (int n = 0, failed = 1; failed; n++) {
            faulty_reset();
            faulty.fail_at = n;
            faulty.for_ever = n % 2;
            faulty.fail_with = STK_EACCES;
            const stk_status status = use(ctx, i, expected, bytes, &err);
            failed = atomic_load(&faulty.asked) > n;
            faulty_reset();
            if (status != STK_OK && status != STK_EACCES)
                fail_msg("%s, request %d: %s: %s", cases[i].url, n, stk_status_name(status),
                         err.text);
            assert_true(failed || status == STK_OK);
        }
        free(expected);
        stk_store_close(&store);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
