/* SPDX-License-Identifier: Apache-2.0 */
/* Packing pictures, and opening them, while the n-th allocation fails. */
#include "torture/convert/faulty_conversion.h"
#include "torture/dataset/opening.h"
#include "unit/convert/tree.h"

static bool run(const char *from, const char *to, bool ragged, int64_t n, bool for_good)
{
    stk_convert_options common;
    stk_convert_packed_options own;

    stk_convert_options_init(&common);
    stk_options_init(stk_option_table_find("packed"), &own, sizeof own);
    common.num_workers = 0;
    common.checkpoint = 2;
    common.on_error = 1;
    own.shard_size = 4096;
    own.size = ragged ? NULL : "48";
    own.short_side = ragged ? 48 : 0;
    return faulty_conversion(from, to, "packed", &common, &own, n, for_good);
}

static void convert(bool ragged)
{
    char folder[256], from[300], spec[340], whole[320], to[320];
    int64_t n;

    test_folder(folder);
    snprintf(from, sizeof from, "%s/from", folder);
    tree_add(folder, "base_420.jpg", "from/a/base.jpg");
    tree_add(folder, "rgb_8.png", "from/a/rgb.png");
    tree_add(folder, "grey.jpg", "from/b/grey.jpg");
    test_write(folder, "from/b/none.jpg", "none", 4); /* left out */
    snprintf(spec, sizeof spec, "images:%s?index=none", from);
    snprintf(whole, sizeof whole, "%s/whole.zarr", folder);
    assert_true(run(spec, whole, ragged, INT64_MAX, false));
    for (int for_good = 0; for_good < 2; for_good++) {
        for (n = 0;; n = fault_next(n)) {
            snprintf(to, sizeof to, "%s/to%d-%lld.zarr", folder, for_good, (long long)n);
            assert_true(n < 20000);
            if (run(spec, to, ragged, n, for_good))
                break;
            if (access(to, F_OK) == 0)
                test_folder_remove(to);
        }
        assert_in_range(n, 50, 20000);
        tree_equal(whole, to);
        test_folder_remove(to);
        /* And go on from what is left by each. */
        snprintf(to, sizeof to, "%s/on%d.zarr", folder, for_good);
        for (n = 0; !run(spec, to, ragged, n, for_good); n += 7)
            assert_true(n < 20000);
        tree_equal(whole, to);
        /* And once more where all of it is done. */
        for (n = 0; !run(spec, to, ragged, n, for_good); n = fault_next(n))
            assert_true(n < 20000);
        tree_equal(whole, to);
    }
    snprintf(spec, sizeof spec, "images:%s", whole);
    torture(spec);
    test_folder_remove(folder);
}

static void test_one_size(void **state)
{
    convert(false);
}

static void test_short_side(void **state)
{
    convert(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_size),
        cmocka_unit_test(test_short_side),
    };

    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
