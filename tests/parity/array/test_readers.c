/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that zarr-python, tensorstore and zarrs write are read equal
 * (scripts/check_array_reader.py), where python3 has them: ./dev test sees to that. Without them
 * the goldens alone are held to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "support/support.h"

#define SCRIPT TESTS_DIR "/../scripts/check_array_reader.py"

static void test_readers(void **state)
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
