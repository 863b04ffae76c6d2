/* SPDX-License-Identifier: Apache-2.0 */
/* Writing TFRecord shards while the n-th allocation fails, for every n until all succeed. */
#include "torture/convert/faulty_conversion.h"

static void test_convert(void **state)
{
    char folder[256], to[320];
    stk_convert_options common;

    (void)state;
    stk_convert_options_init(&common);
    common.overwrite = true;
    test_folder(folder);
    snprintf(to, sizeof to, "tfrecord:%s?shard_size=1KiB", folder);
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!faulty_conversion("tfrecord:" TESTS_DIR
                                  "/golden/tfrecord/examples-{00000..00001}-of-00002?index=none",
                                  to, "tfrecord", &common, NULL, n, for_good))
            assert_true(n++ < 20000);
        assert_true(n > 20);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_convert)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
