/* File systems that a test mounts for itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_MOUNTS_H
#define STK_TESTS_MOUNTS_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

static inline bool test_tell(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return good;
}

/* Mounts of this process alone: as root, or as the root of a user namespace. */
static inline bool test_own_mounts(void)
{
    char map[64];
    unsigned uid = geteuid(), gid = getegid();

    if (unshare(CLONE_NEWNS) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !test_tell("/proc/self/setgroups", "deny"))
        return false;
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (!test_tell("/proc/self/uid_map", map))
        return false;
    snprintf(map, sizeof map, "0 %u 1", gid);
    return test_tell("/proc/self/gid_map", map);
}

/* Mount a tmpfs of so many bytes, as "256k", where nobody else sees it. False: none may be. */
static inline bool test_mount_small(const char *path, const char *size)
{
    char options[40];

    snprintf(options, sizeof options, "size=%s", size);
    return test_own_mounts() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path, "tmpfs", 0, options) == 0;
}

#define MOUNTS_NONE 77 /* what a child says where it may mount nothing */

static inline int test_mounts_end(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline void test_mounts_good(int said)
{
    if (said == MOUNTS_NONE) {
        print_message("skipped: no file system may be mounted here\n");
        skip();
    }
    assert_int_equal(said, 0);
}

#endif
