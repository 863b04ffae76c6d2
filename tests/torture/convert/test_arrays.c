/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of arrays while the n-th allocation fails: a clear status, nothing held, and then it
 * goes on. */
#include "torture/convert/faulty_conversion.h"
#include "unit/convert/arrays.h"

/* One conversion. True when no allocation failed. */
static bool run(const char *from, const char *to, int version, int64_t n, bool for_good)
{
    stk_convert_options common;
    stk_convert_arrays_options own;

    stk_convert_options_init(&common);
    stk_options_init(stk_option_table_find("arrays"), &own, sizeof own);
    common.num_workers = 0;
    common.memory_budget = 8 << 20;
    common.checkpoint = 3;
    own.chunks = "x:8,y:6";
    own.shards = version == 3 ? "x:16,y:12" : NULL;
    own.zarr_format = version - 1;
    own.astype = version == 3 ? "float64" : NULL;
    return faulty_conversion(from, to, version == 3 ? "zarr" : "zarr2", &common, &own, n, for_good);
}

static void make_source(const char *url)
{
    static const char *const names[] = {"x", "y"};
    const int64_t shape[2] = {16, 12}, chunk[2] = {5, 12};
    stk_context *ctx = test_context();
    stk_array_writer_options o;
    char path[400];
    stk_error err;

    arrays_options(&o, 2, shape, chunk, names);
    o.attributes = "{\"units\": \"K\", \"_FillValue\": 7}";
    snprintf(path, sizeof path, "%s/in/t", url);
    arrays_make(ctx, path, &o, 1);
    o.rank = 1;
    snprintf(path, sizeof path, "%s/x", url);
    arrays_make(ctx, path, &o, 2);
    assert_ok(stk_group_consolidate(ctx, url, "{\"a\": 1}", &err), &err);
    stk_context_destroy(&ctx);
}

static void convert(int version)
{
    char folder[256], from[300], whole[320], to[320], target[340];
    const char *head = version == 3 ? "zarr:" : "zarr2:";
    int64_t n;

    test_folder(folder);
    snprintf(from, sizeof from, "%s/from.zarr", folder);
    snprintf(whole, sizeof whole, "%s%s/whole", head, folder);
    make_source(from);
    assert_true(run(from, whole, version, INT64_MAX, false));
    snprintf(whole, sizeof whole, "%s/whole", folder);
    for (int for_good = 0; for_good < 2; for_good++) {
        /* Begin anew each time, so that every allocation of a whole run fails once. */
        for (n = 0;; n = fault_next(n)) {
            snprintf(to, sizeof to, "%s/to%d-%lld", folder, for_good, (long long)n);
            snprintf(target, sizeof target, "%s%s", head, to);
            assert_true(n < 20000);
            if (run(from, target, version, n, for_good))
                break;
            if (access(to, F_OK) == 0)
                test_folder_remove(to);
        }
        assert_in_range(n, 50, 20000);
        arrays_equal(whole, to);
        test_folder_remove(to);
        /* And go on from what is left by each. */
        snprintf(target, sizeof target, "%s%s/on%d", head, folder, for_good);
        for (n = 0; !run(from, target, version, n, for_good); n += 7)
            assert_true(n < 20000);
        snprintf(to, sizeof to, "%s/on%d", folder, for_good);
        arrays_equal(whole, to);
    }
    test_folder_remove(folder);
}

static void test_version_3(void **state)
{
    convert(3);
}

static void test_version_2(void **state)
{
    convert(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_3),
        cmocka_unit_test(test_version_2),
    };

    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
