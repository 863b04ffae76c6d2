/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times are the dates that cftime makes of them, and windows selected by value are those of xarray
 * (scripts/check_selection.py), where python3 has them: ./dev test sees to that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "support/support.h"

#define SCRIPT TESTS_DIR "/../scripts/check_selection.py"

static void test_selection(void **state)
{
    const char *binary = test_binary();
    char command[1200];

    (void)state;
    if (!binary)
        skip();
    snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, binary);
    int status = system(command);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) /* said by the script */
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_selection)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
