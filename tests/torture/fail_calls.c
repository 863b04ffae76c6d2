/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded system calls on files that fail: the FAIL_AT-th of those that can fail as FAIL_HOW says
 * (eintr, short, eio, enospc), and with FAIL_FOR_EVER all after it. Counted on the page that
 * descriptor 198 maps, so that the children of the command count with it. Pipes and sockets are
 * left alone, and so is what the C library calls by itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNTER_FD 198

/* The names below are to stand before the C library's. */
#pragma GCC visibility push(default)

static atomic_long *calls;
static long fail_at;
static int for_ever;
static enum { NONE, INTERRUPTED, SHORT, BROKEN, FULL } how;

__attribute__((constructor)) static void begin(void)
{
    static const char *const names[] = {"", "eintr", "short", "eio", "enospc"};
    const char *at = getenv("FAIL_AT"), *kind = getenv("FAIL_HOW");

    fail_at = at ? atol(at) : 0;
    for_ever = getenv("FAIL_FOR_EVER") != NULL;
    for (int i = 1; kind && i < 5; i++)
        if (strcmp(kind, names[i]) == 0)
            how = i;
    void *page = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, COUNTER_FD, 0);
    calls = page == MAP_FAILED ? NULL : page;
}

static int strikes(void)
{
    if (!calls)
        return 0;
    long call = atomic_fetch_add(calls, 1) + 1;
    return fail_at && (for_ever ? call >= fail_at : call == fail_at);
}

static int is_file(int fd)
{
    struct stat st;
    int before = errno;
    int file =
        fd > 2 && syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISREG(st.st_mode);

    errno = before;
    return file;
}

/* Nonzero: the call fails with this error. */
static int error_of(int writes)
{
    switch (how) {
    case INTERRUPTED:
        return strikes() ? EINTR : 0;
    case BROKEN:
        return strikes() ? EIO : 0;
    case FULL:
        return writes && strikes() ? ENOSPC : 0;
    default:
        return 0;
    }
}

/* What is left of a transfer: less than asked for where it is cut short. */
static ssize_t transfer(long call, int fd, const void *data, size_t size, off_t offset, int writes)
{
    int error = is_file(fd) ? error_of(writes) : 0;

    if (error) {
        errno = error;
        return -1;
    }
    if (how == SHORT && size > 1 && is_file(fd) && strikes())
        size = (size + 1) / 2;
    return syscall(call, fd, data, size, offset);
}

ssize_t read(int fd, void *data, size_t size)
{
    return transfer(SYS_read, fd, data, size, 0, 0);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    return transfer(SYS_pread64, fd, data, size, offset, 0);
}

ssize_t pread64(int fd, void *data, size_t size, off_t offset)
{
    return transfer(SYS_pread64, fd, data, size, offset, 0);
}

ssize_t write(int fd, const void *data, size_t size)
{
    return transfer(SYS_write, fd, data, size, 0, 1);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return transfer(SYS_pwrite64, fd, data, size, offset, 1);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return transfer(SYS_pwrite64, fd, data, size, offset, 1);
}

/* Calls that nothing interrupts and that do all or nothing. */
static long whole(long result, int error)
{
    if (error)
        errno = error;
    return error ? -1 : result;
}

#define WHOLE(writes, call)                                                                        \
    int error = how == BROKEN || how == FULL ? error_of(writes) : 0;                               \
    return (int)whole(error ? 0 : (call), error)

/* These are interrupted where storage is far away. */
#define SYNC(call)                                                                                 \
    int error = how == SHORT ? 0 : error_of(1);                                                    \
    return (int)whole(error ? 0 : (call), error)

int fsync(int fd)
{
    SYNC(syscall(SYS_fsync, fd));
}

int syncfs(int fd)
{
    SYNC(syscall(SYS_syncfs, fd));
}

/* What is interrupted has closed it all the same. */
int close(int fd)
{
    const int interrupted = how == INTERRUPTED && is_file(fd) && strikes();
    const long result = syscall(SYS_close, fd);

    return (int)whole(result, interrupted && result == 0 ? EINTR : 0);
}

int ftruncate(int fd, off_t length)
{
    WHOLE(1, syscall(SYS_ftruncate, fd, length));
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    WHOLE(1, syscall(SYS_fallocate, fd, mode, offset, length));
}

int rename(const char *from, const char *to)
{
    WHOLE(1, syscall(SYS_rename, from, to));
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    WHOLE(1, syscall(SYS_renameat, from_fd, from, to_fd, to));
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    WHOLE(1, syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    WHOLE(1, syscall(SYS_linkat, from_fd, from, to_fd, to, flags));
}

int link(const char *from, const char *to)
{
    WHOLE(1, syscall(SYS_link, from, to));
}

int unlink(const char *path)
{
    WHOLE(0, syscall(SYS_unlink, path));
}

int unlinkat(int fd, const char *path, int flags)
{
    WHOLE(0, syscall(SYS_unlinkat, fd, path, flags));
}

int mkdir(const char *path, mode_t mode)
{
    WHOLE(1, syscall(SYS_mkdir, path, mode));
}

int mkdirat(int fd, const char *path, mode_t mode)
{
    WHOLE(1, syscall(SYS_mkdirat, fd, path, mode));
}

static int open_at(int fd, const char *path, int flags, mode_t mode)
{
    WHOLE(flags & O_CREAT, syscall(SYS_openat, fd, path, flags, mode));
}

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode = va_arg(arguments, mode_t);                                                          \
        va_end(arguments);                                                                         \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_at(fd, path, flags, mode);
}
