/* SPDX-License-Identifier: Apache-2.0 */
/* Writing Parquet while the n-th allocation fails, for every n until all succeed; samples of plain
 * ranges, and of ranges that are decoded. */
#include "torture/convert/faulty_conversion.h"

static void fail_each(const char *from, const char *options)
{
    char folder[256], to[400];
    stk_convert_options common;

    stk_convert_options_init(&common);
    common.overwrite = true;
    test_folder(folder);
    snprintf(to, sizeof to, "parquet:%s?%s", folder, options);
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!faulty_conversion(from, to, "parquet", &common, NULL, n, for_good)) {
            n = fault_next(n);
            assert_true(n < 20000);
        }
        assert_true(n > 20);
    }
    test_folder_remove(folder);
}

static void test_samples(void **state)
{
    (void)state;
    fail_each("webdataset:" TESTS_DIR "/golden/parquet/samples.tar?index=none",
              "page_size=40&row_group_rows=4&shard_size=2KiB");
}

static void test_decoded(void **state)
{
    (void)state;
    fail_each("npz:" TESTS_DIR "/golden/rows/deflated.npz", "page_size=64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples),
                                       cmocka_unit_test(test_decoded)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
