/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed pictures are what zarr-python reads, and those that it packed are read here
 * (scripts/check_packed.py), where python3 has it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "support/support.h"

#define SCRIPT TESTS_DIR "/../scripts/check_packed.py"

static void test_packed(void **state)
{
    const char *binary = test_binary();
    const char *python = binary ? test_python("numpy, zarr") : NULL;
    char command[1400], folder[256];

    (void)state;
    if (!python)
        skip();
    test_folder(folder);
    snprintf(command, sizeof command, "'%s' '%s' '%s' '%s' >&2", python, SCRIPT, binary, folder);
    const int status = system(command);
    test_folder_remove(folder);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
