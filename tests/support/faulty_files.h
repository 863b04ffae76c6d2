/* Calls on files that fail on purpose, in the program that includes this. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_FAULTY_FILES_H
#define STK_TESTS_FAULTY_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/faults.h"

static faults file_faults = {.left = FAULTS_NONE};

/* They stand before the C library's own: the static library calls these. */
#define FAULTY(call)                                                                               \
    if (fault_strikes(&file_faults)) {                                                             \
        errno = EIO;                                                                               \
        return -1;                                                                                 \
    }                                                                                              \
    return (int)(call)

ssize_t write(int fd, const void *data, size_t size)
{
    struct stat st;

    if (fd > 2 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fault_strikes(&file_faults)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
    FAULTY(syscall(SYS_fsync, fd));
}

int rename(const char *from, const char *to)
{
    FAULTY(syscall(SYS_rename, from, to));
}

int renameat(int from_folder, const char *from, int folder, const char *to)
{
    FAULTY(syscall(SYS_renameat, from_folder, from, folder, to));
}

int renameat2(int from_folder, const char *from, int folder, const char *to, unsigned flags)
{
    FAULTY(syscall(SYS_renameat2, from_folder, from, folder, to, flags));
}

int linkat(int from_folder, const char *from, int folder, const char *to, int flags)
{
    FAULTY(syscall(SYS_linkat, from_folder, from, folder, to, flags));
}

int unlinkat(int folder, const char *name, int flags)
{
    FAULTY(syscall(SYS_unlinkat, folder, name, flags));
}

int mkdir(const char *path, mode_t mode)
{
    FAULTY(syscall(SYS_mkdir, path, mode));
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    FAULTY(syscall(SYS_mkdirat, folder, name, mode));
}

#endif
