/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classic archives are what torchvision reads (scripts/check_torchvision.py), where python3 has
 * it: ./dev test sees to that.
 */
#include <sys/wait.h>

#include "golden/dataset/expected.h"

#define SCRIPT TESTS_DIR "/../scripts/check_torchvision.py"

static void test_archives(void **state)
{
    static expected e[1000];
    char folder[256], command[1200], path[300];
    stk_context *ctx = test_context();

    test_folder(folder);
    snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, folder);
    int status = system(command);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) /* said by the script */
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    const size_t n = expected_read(path, e, STK_COUNT(e));
    assert_true(n > 400);
    for (size_t i = 0; i < n; i++) {
        stk_dataset *d = NULL;
        expected_open(ctx, &e[i], folder, "", &d);
        expected_check(d, &e[i]);
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_archives)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
