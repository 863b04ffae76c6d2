/* SPDX-License-Identifier: Apache-2.0 */
/* Folders by their files: whose they are without a prefix. */
#include <stdio.h>
#include <sys/stat.h>

#include "dataset/dataset.h"
#include "support/support.h"

static const struct {
    const stk_dataset_ops *kind;
    const char *file, *hidden;
} kinds[] = {
    {&stk__dataset_parquet, "train-00000-of-00001.parquet", ".train-00000-of-00001.parquet"},
    {&stk__dataset_arrow, "data-00000-of-00001.arrow", ".data-00000-of-00001.arrow"},
    {&stk__dataset_webdataset, "train-000000.tar", ".train-000000.tar"},
    {&stk__dataset_images, "a.jpg", ".a.jpg"},
};

static void test_folders(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], inner[300];

    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        test_folder(folder);
        snprintf(inner, sizeof inner, "%s/data", folder);
        assert_int_equal(mkdir(inner, 0700), 0);
        test_write(folder, kinds[i].hidden, "x", 1);
        test_write(folder, "README.md", "x", 1);
        assert_int_equal(kinds[i].kind->recognise(ctx, folder), 0);
        test_write(inner, kinds[i].file, "x", 1);
        /* It is none of the others'. */
        for (size_t k = 0; k < STK_COUNT(kinds); k++) {
            assert_int_equal(kinds[k].kind->recognise(ctx, folder), k == i ? 2 : 0);
            assert_int_equal(kinds[k].kind->recognise(ctx, inner), k == i ? 1 : 0);
        }
        assert_int_equal(kinds[i].kind->recognise(ctx, "/no/such/folder"), 0);
        test_folder_remove(folder);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folders)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
