/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"

int stk__unnamed_open(const char *folder)
{
    char name[PATH_MAX];

    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    snprintf(name, sizeof name, "%.4000s/stoker-XXXXXX", folder);
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        stk__remove_path(name);
    return fd;
}

int stk__unnamed_write(int fd, const void *data, uint64_t bytes, uint64_t at)
{
    const char *from = data;

    while (bytes > 0) {
        const ssize_t n = pwrite(fd, from, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        from += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

int stk__unnamed_read(int fd, void *data, uint64_t bytes, uint64_t at)
{
    char *to = data;

    while (bytes > 0) {
        const ssize_t n = pread(fd, to, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO; /* nobody else has it */
        to += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}
