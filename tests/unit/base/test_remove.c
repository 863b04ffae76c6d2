/* SPDX-License-Identifier: Apache-2.0 */
/* What removal refuses: anything but a plain name in the folder that was opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/files.h"
#include "support/support.h"

static bool there(const char *folder, const char *name)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void plain_names(void **state)
{
    static const char *const refused[] = {"",  ".", "..", "../victim", "in/x", "/etc/hostname",
                                          "a/"};
    char folder[256], path[400];

    test_folder(folder);
    test_write(folder, "victim", "v", 1);
    test_write(folder, "in/x", "x", 1);
    test_write(folder, "in/..x", "x", 1);
    snprintf(path, sizeof path, "%s/in", folder);
    int in = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(in >= 0);
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        assert_false(stk__is_plain_name(refused[i]));
        errno = 0;
        assert_int_equal(stk__remove_file(in, refused[i]), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(stk__remove_folder(in, refused[i]), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_true(there(folder, "victim") && there(folder, "in/x"));
    assert_int_equal(stk__remove_file(in, "..x"), 0);
    assert_int_equal(stk__remove_file(in, "..x"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(stk__remove_file(in, "x"), 0);
    close(in);
    snprintf(path, sizeof path, "%s/in/..", folder);
    assert_int_equal(stk__remove_folder_path(path), -1);
    assert_int_equal(errno, EINVAL);
    snprintf(path, sizeof path, "%s//in//", folder);
    assert_int_equal(stk__remove_folder_path(path), 0);
    assert_false(there(folder, "in"));
    snprintf(path, sizeof path, "%s/victim", folder);
    assert_int_equal(stk__remove_path(path), 0);
    assert_int_equal(stk__remove_path(path), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(stk__remove_path("/"), -1);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_names)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
