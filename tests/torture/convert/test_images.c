/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion while the n-th allocation fails: a clear status, nothing held, and then it goes on. */
#include "torture/convert/faulty_conversion.h"
#include "unit/convert/tree.h"

/* One conversion. True when no allocation failed. */
static bool run(const char *spec, const char *to, const stk_converter_ops *converter, int64_t n,
                bool for_good, bool skip)
{
    stk_convert_options common;
    stk_convert_images_options own;

    stk_convert_options_init(&common);
    stk_options_init(stk_option_table_find("images"), &own, sizeof own);
    if (converter->options) {
        common.num_workers = 0;
        common.checkpoint = 3;
        common.on_error = skip;
    }
    own.max_side = 24;
    own.upright = true;
    return faulty_conversion(spec, to, converter->name, &common, &own, n, for_good);
}

/* Each time into what the last ones left, every `step`-th allocation; the end is what an
 * undisturbed conversion writes. Targets are `head` and a folder. */
static void convert_pictures(const char *head, int64_t step)
{
    char from[256], to[256], whole[256], spec[400], target[300];

    test_folder(from);
    test_folder(whole);
    tree_add(from, "base_420.jpg", "cat/base.jpg");
    tree_add(from, "progressive_grey.jpg", "cat/progressive.jpg");
    tree_add(from, "seven.jpg", "cat/seven.jpg");
    tree_add(from, "exif_6.jpg", "dog/six.jpg");
    tree_add(from, "rgb_8.png", "dog/rgb.png");
    test_write(from, "dog/broken.jpg", "broken", 6);
    snprintf(spec, sizeof spec, "images:%s?index=none", from);
    const stk_converter_ops *converter =
        ((const stk_converter_ops *)stk_driver_at(NULL, STK_DRIVER_CONVERTER, 0));
    assert_true(run(spec, whole, converter, INT64_MAX, false, true));
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        test_folder(to);
        snprintf(target, sizeof target, "%s%s", head, to);
        /* Begin anew each time, so that every allocation of a whole run fails once. */
        while (!run(spec, target, converter, n, for_good, true)) {
            test_folder_remove(to);
            test_folder(to);
            snprintf(target, sizeof target, "%s%s", head, to);
            n += step;
            assert_true(n < 100000);
        }
        assert_in_range(n, 50, 100000);
        tree_equal(whole, to);
        test_folder_remove(to);
        /* And go on from what is left by each. */
        test_folder(to);
        snprintf(target, sizeof target, "%s%s", head, to);
        for (n = 0; !run(spec, target, converter, n, for_good, true); n += 7 * step)
            assert_true(n < 100000);
        tree_equal(whole, to);
        test_folder_remove(to);
    }
    test_folder_remove(from);
    test_folder_remove(whole);
}

static void test_pictures(void **state)
{
    convert_pictures("", 1);
}

static void test_pictures_to_a_store(void **state)
{
    convert_pictures("slow+file:", 3);
}

static void test_idx(void **state)
{
    const stk_converter_ops *converter =
        ((const stk_converter_ops *)stk_driver_at(NULL, STK_DRIVER_CONVERTER, 1));
    char to[256];

    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        test_folder(to);
        while (!run("digits:?size=20", to, converter, n, for_good, false)) {
            n++;
            assert_true(n < 100000);
        }
        assert_true(n > 3);
        test_folder_remove(to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_pictures_to_a_store),
        cmocka_unit_test(test_idx),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
