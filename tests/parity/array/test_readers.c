/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that zarr-python, tensorstore and zarrs write are read equal
 * (scripts/check_array_reader.py), and those of h5py and netCDF4 (scripts/check_hdf5_reader.py,
 * scripts/check_netcdf3_reader.py, which holds references against fsspec and zarr-python, too), and
 * files that xarray writes are joined as it joins them (scripts/check_joined.py),
 * where python3 has them: ./dev test sees to that. Without them the goldens alone are held to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "support/support.h"

static void run_script(const char *name)
{
    const char *binary = test_binary();
    char command[1200];

    if (!binary)
        skip();
    snprintf(command, sizeof command, "python3 '%s/../scripts/%s' '%s'", TESTS_DIR, name, binary);
    int status = system(command);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) /* said by the script */
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_readers(void **state)
{
    run_script("check_array_reader.py");
}

static void test_hdf5(void **state)
{
    run_script("check_hdf5_reader.py");
}

static void test_netcdf3(void **state)
{
    run_script("check_netcdf3_reader.py");
}

static void test_joined(void **state)
{
    run_script("check_joined.py");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readers), cmocka_unit_test(test_hdf5),
                                       cmocka_unit_test(test_netcdf3),
                                       cmocka_unit_test(test_joined)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
