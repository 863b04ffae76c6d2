/* SPDX-License-Identifier: Apache-2.0 */
/* Paths below a folder, by openat2() and part by part: what one opens the other opens. */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "support/support.h"

typedef int open_fn(int folder, const char *path, int flags, mode_t mode);
static open_fn *const ways[] = {stk__open_beneath, stk__open_beneath_by_parts};

static void link_to(const char *folder, const char *name, const char *target)
{
    char path[4600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

/* 0, or the errno of opening. */
static int opens(open_fn *way, int root, const char *path)
{
    char byte = 0;
    int fd = way(root, path, O_RDONLY, 0);

    if (fd < 0)
        return errno;
    ssize_t n = read(fd, &byte, 1);
    close(fd);
    assert_true(n < 0 || (n == 1 && byte == 'x')); /* a folder, or the one file there is inside */
    return 0;
}

static void test_ways(void **state)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {{"", 0},
                 {".", 0},
                 {"in/file", 0},
                 {"./in//file", 0},
                 {"in/../in/file", 0},
                 {"in/deep/../file", 0},
                 {"again", 0},
                 {"folder/file", 0},
                 {"in/deep/up/file", 0},
                 {"in/deep/chain", 0},
                 {"none", ENOENT},
                 {"in/none/file", ENOENT},
                 {"in/file/x", ENOTDIR},
                 {"dangling", ENOENT},
                 {"loop", ELOOP},
                 {"..", EXDEV},
                 {"/etc/passwd", EXDEV},
                 {"in/../../x", EXDEV},
                 {"out", EXDEV},
                 {"out/secret", EXDEV},
                 {"outside", EXDEV},
                 {"hidden", EXDEV},
                 {"in/deep/far", EXDEV},
                 {"absolute", EXDEV}};
    char folder[256], root_path[300], target[320];

    (void)state;
    test_folder(folder);
    snprintf(root_path, sizeof root_path, "%s/root", folder);
    test_write(folder, "secret", "s", 1);
    test_write(folder, "root/in/file", "x", 1);
    test_write(folder, "root/in/deep/file", "x", 1);
    link_to(root_path, "again", "in/file");
    link_to(root_path, "folder", "in");
    link_to(root_path, "in/deep/up", "../../in");
    link_to(root_path, "in/deep/chain", "up/../again");
    link_to(root_path, "dangling", "nothing");
    link_to(root_path, "loop", "loop");
    link_to(root_path, "out", "..");
    link_to(root_path, "outside", "../secret");
    link_to(root_path, "hidden", "in/../../root/in/file"); /* out, and in again */
    link_to(root_path, "in/deep/far", "../../../secret");
    snprintf(target, sizeof target, "%s/in/file", root_path);
    link_to(root_path, "absolute", target);
    int root = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    for (size_t way = 0; way < 2; way++)
        for (size_t i = 0; i < STK_COUNT(cases); i++)
            if (opens(ways[way], root, cases[i].path) != cases[i].error)
                fail_msg("%zu: '%s' gives %d", way, cases[i].path,
                         opens(ways[way], root, cases[i].path));
    close(root);
    test_folder_remove(folder);
}

static void test_stat_and_message(void **state)
{
    char folder[256], path[4200];
    struct stat st;
    stk_error err;

    (void)state;
    test_folder(folder);
    test_write(folder, "root/in/file", "abc", 3);
    test_write(folder, "secret", "s", 1);
    snprintf(path, sizeof path, "%s/root", folder);
    link_to(path, "in/far", "../../secret");
    link_to(path, "near", "in/far");
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(stk__stat_beneath(root, "in/file", &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(stk__stat_beneath(root, "near", &st), -1);
    assert_int_equal(errno, EXDEV);
    assert_fails(stk__beneath_fail(root, "near", STK_STAGE_STORE, &err), STK_EACCES, &err,
                 "link 'in/far' leads out");
    assert_non_null(strstr(err.text, "follow_links=true"));
    assert_fails(stk__beneath_fail(root, "in/../../x", STK_STAGE_STORE, &err), STK_EACCES, &err,
                 "path 'in/../../x' leads out");
    /* Too long for one call, whatever it means. */
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = 0;
    for (size_t way = 0; way < 2; way++) {
        assert_int_equal(ways[way](root, path, O_RDONLY, 0), -1);
        assert_int_equal(errno, ENAMETOOLONG);
    }
    close(root);
    test_folder_remove(folder);
}

/* Files can be made, and a last part that is a link out is not written through. */
static void test_create(void **state)
{
    char folder[256], path[300];

    (void)state;
    test_folder(folder);
    test_write(folder, "root/in/file", "x", 1);
    snprintf(path, sizeof path, "%s/root", folder);
    link_to(path, "trap", "../made");
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t way = 0; way < 2; way++) {
        const char *name = way ? "in/new1" : "in/new0";
        int fd = ways[way](root, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(ways[way](root, "trap", O_WRONLY | O_CREAT, 0600), -1);
        assert_int_equal(errno, EXDEV);
    }
    snprintf(path, sizeof path, "%s/made", folder);
    assert_int_equal(access(path, F_OK), -1);
    close(root);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_stat_and_message),
        cmocka_unit_test(test_create),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
