/* calls on files -> a record of them */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a run on files below one folder are recorded as they are made, by whatever part of
 * the library; what a file or folder is is told by its inode, so descriptors need no table.
 */
#ifndef STK_TESTS_POWERCUT_RECORD_H
#define STK_TESTS_POWERCUT_RECORD_H

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/support.h"

enum { CUT_OPS = 8192, CUT_NODES = 512, CUT_NAMES = 1024, CUT_CHANGES = 1024, CUT_NAME = 64 };

/* ---- The record ---- */

typedef enum cut_kind {
    CUT_CREATE, /* a file: node, in folder `to_folder` as `to` */
    CUT_MKDIR,
    CUT_DATA, /* a file's bytes at `offset` */
    CUT_SIZE, /* a file has `offset` bytes */
    CUT_SYNC,
    CUT_SYNC_ALL,
    CUT_RENAME,
    CUT_LINK,
    CUT_UNLINK,
    CUT_ACK
} cut_kind;

typedef struct cut_op {
    cut_kind kind;
    int node, from_folder, to_folder;
    char from[CUT_NAME], to[CUT_NAME];
    uint8_t *data;
    size_t length, offset;
    int ack;
} cut_op;

static struct {
    pthread_mutex_t lock;
    bool on;
    cut_op ops[CUT_OPS];
    size_t n;
    ino_t inode[CUT_NODES]; /* 0: gone. Node 0 is the folder itself */
    bool folder[CUT_NODES];
    int num_nodes;
    dev_t device;
} cut = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int cut_node_of(const struct stat *st)
{
    for (int i = cut.num_nodes - 1; i >= 0 && st->st_dev == cut.device; i--)
        if (cut.inode[i] == st->st_ino)
            return i;
    return -1;
}

static int cut_node_of_fd(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? cut_node_of(&st) : -1;
}

/* The folder in which a path ends, as a node, and its last name. -1: none of ours. */
static int cut_folder_of(int at, const char *path, char name[CUT_NAME])
{
    char one[4096], other[4096];
    struct stat st;

    snprintf(one, sizeof one, "%s", path);
    snprintf(other, sizeof other, "%s", path);
    if (fstatat(at, dirname(one), &st, 0) != 0)
        return -1;
    snprintf(name, CUT_NAME, "%s", basename(other));
    return cut_node_of(&st);
}

static int cut_node_at(int at, const char *path)
{
    struct stat st;

    return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? cut_node_of(&st) : -1;
}

static cut_op *cut_add(cut_kind kind, int node)
{
    assert_true(cut.n < CUT_OPS);
    cut.ops[cut.n] = (cut_op){.kind = kind, .node = node, .from_folder = -1, .to_folder = -1};
    return &cut.ops[cut.n++];
}

static int cut_new_node(const struct stat *st)
{
    assert_true(cut.num_nodes < CUT_NODES && st->st_dev == cut.device);
    cut.inode[cut.num_nodes] = st->st_ino;
    cut.folder[cut.num_nodes] = S_ISDIR(st->st_mode);
    return cut.num_nodes++;
}

/* A name of a node that is no longer: one without names may give its number to another. */
static void cut_forget(int node, nlink_t names)
{
    if (node > 0 && (cut.folder[node] || names <= 1))
        cut.inode[node] = 0;
}

/* ---- The calls: they stand before the C library's ---- */

/* Runs the call with the record locked, so that the order of the record is theirs. */
#define CUT_CALL(call, seen)                                                                       \
    pthread_mutex_lock(&cut.lock);                                                                 \
    long result = (call);                                                                          \
    int error = errno;                                                                             \
    if (result >= 0 && cut.on) {                                                                   \
        seen                                                                                       \
    }                                                                                              \
    pthread_mutex_unlock(&cut.lock);                                                               \
    errno = error;                                                                                 \
    return result

static void cut_opened(int at, const char *path, int fd, int flags)
{
    struct stat st;
    char name[CUT_NAME];

    if (!(flags & (O_CREAT | O_TRUNC)) || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    int node = cut_node_of(&st), folder = cut_folder_of(at, path, name);
    if (node >= 0 && (flags & O_TRUNC))
        cut_add(CUT_SIZE, node);
    if (node >= 0 || folder < 0)
        return;
    cut_op *op = cut_add(CUT_CREATE, cut_new_node(&st));
    op->to_folder = folder;
    memcpy(op->to, name, sizeof name);
}

static int cut_open_at(int at, const char *path, int flags, mode_t mode)
{
    CUT_CALL(syscall(SYS_openat, at, path, flags, mode),
             { cut_opened(at, path, (int)result, flags); });
}

/* The mode of a file that is not made is nobody's. */
#define CUT_MODE                                                                                   \
    va_list arguments;                                                                             \
    va_start(arguments, flags);                                                                    \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;                   \
    va_end(arguments);

int open(const char *path, int flags, ...)
{
    CUT_MODE
    return cut_open_at(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    CUT_MODE
    return cut_open_at(at, path, flags, mode);
}

static void cut_wrote(int fd, const void *data, size_t length, off_t end)
{
    int node = cut_node_of_fd(fd);

    if (node < 0 || cut.folder[node])
        return;
    cut_op *op = cut_add(CUT_DATA, node);
    op->data = malloc(length + 1);
    assert_non_null(op->data);
    memcpy(op->data, data, length);
    op->length = length;
    op->offset = (size_t)end - length;
}

ssize_t write(int fd, const void *data, size_t size)
{
    /* In several parts, so that there are moments between them. */
    size_t part = cut.on && size > 1500 && cut_node_of_fd(fd) > 0 ? 1500 : size;

    CUT_CALL(syscall(SYS_write, fd, data, part),
             { cut_wrote(fd, data, (size_t)result, lseek(fd, 0, SEEK_CUR)); });
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    CUT_CALL(syscall(SYS_pwrite64, fd, data, size, offset),
             { cut_wrote(fd, data, (size_t)result, offset + result); });
}

int ftruncate(int fd, off_t size)
{
    CUT_CALL(syscall(SYS_ftruncate, fd, size), {
        if (cut_node_of_fd(fd) > 0)
            cut_add(CUT_SIZE, cut_node_of_fd(fd))->offset = (size_t)size;
    });
}

static int cut_sync(long number, int fd)
{
    CUT_CALL(syscall(number, fd), {
        if (cut_node_of_fd(fd) >= 0)
            cut_add(CUT_SYNC, cut_node_of_fd(fd));
    });
}

int fsync(int fd)
{
    return cut_sync(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return cut_sync(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    CUT_CALL(0, {
        if (cut_node_of_fd(fd) >= 0)
            cut_add(CUT_SYNC_ALL, 0);
    });
}

/* rename() and link(), of nodes that are looked up before. */
static int cut_move(cut_kind kind, int at, const char *from, int to_at, const char *to,
                    unsigned flags)
{
    char old[CUT_NAME], new[CUT_NAME];
    struct stat over = {0};

    pthread_mutex_lock(&cut.lock);
    int node = cut.on ? cut_node_at(at, from) : -1;
    int replaced =
        node >= 0 && fstatat(to_at, to, &over, AT_SYMLINK_NOFOLLOW) == 0 ? cut_node_of(&over) : -1;
    long result = kind == CUT_RENAME ? syscall(SYS_renameat2, at, from, to_at, to, flags)
                                     : syscall(SYS_linkat, at, from, to_at, to, 0);
    int error = errno;
    /* Of two names of one file rename() leaves both. */
    if (result == 0 && node >= 0 && replaced != node) {
        cut_op *op = cut_add(kind, node);
        op->from_folder = cut_folder_of(at, from, old);
        op->to_folder = cut_folder_of(to_at, to, new);
        memcpy(op->from, old, sizeof old);
        memcpy(op->to, new, sizeof new);
        cut_forget(replaced, over.st_nlink);
    }
    pthread_mutex_unlock(&cut.lock);
    errno = error;
    return (int)result;
}

int rename(const char *from, const char *to)
{
    return cut_move(CUT_RENAME, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int at, const char *from, int to_at, const char *to)
{
    return cut_move(CUT_RENAME, at, from, to_at, to, 0);
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    return cut_move(CUT_RENAME, at, from, to_at, to, flags);
}

int link(const char *from, const char *to)
{
    return cut_move(CUT_LINK, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    return cut_move(CUT_LINK, at, from, to_at, to, 0);
}

int unlinkat(int at, const char *path, int flags)
{
    struct stat st = {0};
    char name[CUT_NAME];

    pthread_mutex_lock(&cut.lock);
    int node = cut.on && fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? cut_node_of(&st) : -1;
    long result = syscall(SYS_unlinkat, at, path, flags);
    int error = errno;
    if (result == 0 && node >= 0) {
        cut_op *op = cut_add(CUT_UNLINK, node);
        op->from_folder = cut_folder_of(at, path, name);
        memcpy(op->from, name, sizeof name);
        cut_forget(node, st.st_nlink);
    }
    pthread_mutex_unlock(&cut.lock);
    errno = error;
    return (int)result;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    struct stat st;
    char name[CUT_NAME];

    CUT_CALL(syscall(SYS_mkdirat, at, path, mode), {
        int folder = cut_folder_of(at, path, name);
        if (folder >= 0 && fstatat(at, path, &st, 0) == 0) {
            cut_op *op = cut_add(CUT_MKDIR, cut_new_node(&st));
            op->to_folder = folder;
            memcpy(op->to, name, sizeof name);
        }
    });
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

/* Record what is done below a folder, empty by now, from here to cut_end(). */
static void cut_begin(const char *folder)
{
    struct stat st;

    assert_int_equal(stat(folder, &st), 0);
    for (size_t i = 0; i < cut.n; i++)
        free(cut.ops[i].data);
    cut.n = 0;
    cut.num_nodes = 0;
    cut.device = st.st_dev;
    cut_new_node(&st);
    cut.on = true;
}

/* The caller has been told that something is safe. */
static void cut_ack(int what)
{
    pthread_mutex_lock(&cut.lock);
    cut_add(CUT_ACK, 0)->ack = what;
    pthread_mutex_unlock(&cut.lock);
}

static void cut_end(void)
{
    cut.on = false;
}

#endif
