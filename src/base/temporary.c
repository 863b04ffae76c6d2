/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files that are being written. A writer holds a lock on its file until it has its final
 * name, so that what a killed process left can be told from what a living one writes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/files.h"

void stk__temporary_name(char name[STK__TEMPORARY_ROOM])
{
    static atomic_uint serial;

    snprintf(name, STK__TEMPORARY_ROOM, STK__TEMPORARY "%08x%08x",
             (unsigned)stk__now_ns() ^ ((unsigned)getpid() << 16), atomic_fetch_add(&serial, 1));
}

bool stk__temporary_claim(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) < 0 || st.st_nlink > 0;
}

int stk__temporary_hold(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void stk__temporary_release(int held)
{
    int error = errno;

    if (held >= 0)
        close(held);
    errno = error;
}

void stk__temporary_sweep(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        if (!stk__is_temporary(entry->d_name))
            continue;
        int left = openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (left < 0)
            continue;
        if (flock(left, LOCK_EX | LOCK_NB) == 0)
            stk__remove_file(folder, entry->d_name);
        close(left);
    }
    if (dir)
        closedir(dir);
}

int stk__sync(int fd)
{
    int result;

    do
        result = fsync(fd);
    while (result < 0 && errno == EINTR);
    return result;
}

int stk__sync_all(int fd)
{
    int result;

    do
        result = syncfs(fd);
    while (result < 0 && errno == EINTR);
    return result;
}

bool stk__is_temporary(const char *name)
{
    return strncmp(name, STK__TEMPORARY, sizeof STK__TEMPORARY - 1) == 0;
}
