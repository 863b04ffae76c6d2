/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing objects so that a power cut leaves the old one or the new one: temporary name in the same
 * folder, write, fsync, rename, fsync of the folder. After a failed fsync the kernel may have
 * dropped the pages and call them clean: it is never tried again, the file is discarded.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "store/file.h"
#include "store/url.h"

#define NAME_TRIES 64

typedef struct file_put {
    stk_put base;
    stk__file_store *store;
    int folder, fd;
    stk_status failed;                   /* of an earlier write: nothing may be committed */
    char temporary[STK__TEMPORARY_ROOM]; /* name in `folder` */
    const char *name;                    /* final name in `folder`; points into `key` */
    char key[];
} file_put;

static void release(file_put *put)
{
    stk_context *ctx = put->store->base.context;

    if (put->fd >= 0)
        close(put->fd);
    if (put->folder >= 0)
        close(put->folder);
    stk__free(ctx, put);
}

static void put_abandon(stk_put *base)
{
    file_put *put = (file_put *)base;

    /* In a child it is the parent's file still. */
    if (stk__context_forked(put->store->base.context))
        return;
    stk__remove_file(put->folder, put->temporary);
    release(put);
}

static stk_status put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    file_put *put = (file_put *)base;
    const char *at = data;

    STK_TRY(stk__context_check(put->store->base.context, err));
    while (length > 0) {
        ssize_t n = write(put->fd, at, STK_MIN(length, (size_t)STK__AIO_MAX_CALL));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            put->failed = stk__file_fail(put->store, err, "write", put->key, errno);
            return put->failed;
        }
        at += n;
        length -= (size_t)n;
    }
    return STK_OK;
}

/* Some file systems have no fsync() for folders and keep them safe by themselves. */
static int sync_folder(int fd)
{
    int result = stk__sync(fd);

    return result < 0 && (errno == EINVAL || errno == EOPNOTSUPP) ? 0 : result;
}

/* All steps but the last clean-up; the descriptor is closed and -1 afterwards. */
static stk_status make_durable(file_put *put, stk_error *err)
{
    if (put->failed != STK_OK)
        return stk__fail_at(err, put->failed, STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                            "'%.300s' is not written: an earlier part of it could not be",
                            put->key);
    if (stk__sync(put->fd) < 0)
        return stk__file_fail(put->store, err, "make durable", put->key, errno);
    const int held = stk__temporary_hold(put->fd);
    /* The descriptor is gone also when a signal came, and the bytes are safe. */
    const bool closed = close(put->fd) == 0 || errno == EINTR;
    put->fd = -1;
    const int renamed = closed ? renameat(put->folder, put->temporary, put->folder, put->name) : -1;
    stk__temporary_release(held);
    if (renamed < 0)
        return stk__file_fail(put->store, err, closed ? "give its name to" : "make durable",
                              put->key, errno);
    put->temporary[0] = 0;
    if (sync_folder(put->folder) < 0)
        return stk__file_fail(put->store, err, "make durable the folder of", put->key, errno);
    return STK_OK;
}

static stk_status put_commit(stk_put *base, stk_error *err)
{
    file_put *put = (file_put *)base;

    STK_TRY(stk__context_check(put->store->base.context, err));
    stk_status status = make_durable(put, err);

    if (put->temporary[0])
        stk__remove_file(put->folder, put->temporary);
    stk__file_forget(put->store, put->key, NULL);
    release(put);
    return status;
}

static const stk_put_ops put_ops = {
    .struct_size = sizeof(stk_put_ops),
    .write = put_write,
    .commit = put_commit,
    .abandon = put_abandon,
};

/* Open a folder of a key; with `make`, made durably in `parent` when there is none. -1: errno. */
static int enter_folder(stk__file_store *store, int parent, const char *path, bool make)
{
    const char *slash = strrchr(path, '/');
    int fd = stk__file_open_key(store, path, O_RDONLY | O_DIRECTORY);

    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(parent, slash ? slash + 1 : path, 0777) < 0 && errno != EEXIST)
        return -1;
    if (sync_folder(parent) < 0)
        return -1;
    return stk__file_open_key(store, path, O_RDONLY | O_DIRECTORY);
}

/* Open the folder of a key, whose '/' are cut meanwhile; `name` is what follows the last. -1:
 * errno. */
static int open_folder(stk__file_store *store, char *key, bool make, const char **name)
{
    int folder = stk__file_open_key(store, "", O_RDONLY | O_DIRECTORY);

    *name = key;
    for (char *slash; folder >= 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
        if (slash == *name)
            continue;
        *slash = 0;
        int inner = enter_folder(store, folder, key, make);
        int error = errno;
        *slash = '/';
        close(folder);
        errno = error;
        folder = inner;
    }
    return folder;
}

/* Remove what killed writers left in the folder, once for each folder that is remembered. */
static void sweep(stk__file_store *store, int folder)
{
    struct stat st;

    if (fstat(folder, &st) < 0)
        return;
    const uint64_t hash = ((uint64_t)st.st_ino * UINT64_C(0x9e3779b97f4a7c15) ^ st.st_dev) | 1;
    pthread_mutex_lock(&store->mutex);
    uint64_t *place = &store->swept[(hash >> 32) % STK__FILE_SWEPT];
    const bool known = *place == hash;
    *place = hash;
    pthread_mutex_unlock(&store->mutex);
    if (!known)
        stk__temporary_sweep(folder);
}

/* A file of a name nobody has, locked. errno on failure. */
static stk_status open_temporary(file_put *put)
{
    errno = EEXIST;
    for (int i = 0; put->fd < 0 && errno == EEXIST && i < NAME_TRIES; i++) {
        stk__temporary_name(put->temporary);
        put->fd = stk__file_create(put->store, put->folder, put->temporary);
        if (put->fd >= 0 && !stk__temporary_claim(put->fd)) {
            close(put->fd);
            put->fd = -1;
            errno = EEXIST;
        }
    }
    return put->fd < 0 ? stk__aio_status(errno) : STK_OK;
}

static stk_status check_name(const char *key, stk_error *err)
{
    STK_TRY(stk__key_check(key, err));
    size_t length = strlen(key);
    if (length == 0 || key[length - 1] == '/' || (length == 1 && key[0] == '.') ||
        (length > 1 && memcmp(key + length - 2, "/.", 2) == 0))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "'%.200s' names no object: a file name is needed", key);
    return STK_OK;
}

stk_status stk__file_put(stk_store *base, const char *key, stk_put **out, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;

    *out = NULL;
    STK_TRY(stk__context_check(base->context, err));
    STK_TRY(check_name(key, err));
    size_t length = strlen(key) + 1;
    file_put *put = stk__alloc(base->context, sizeof *put + length);
    if (!put)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", key);
    *put = (file_put){.base.ops = &put_ops, .store = store, .fd = -1, .folder = -1};
    memcpy(put->key, key, length);
    put->folder = open_folder(store, put->key, true, &put->name);
    if (put->folder >= 0)
        sweep(store, put->folder);
    if (put->folder < 0 || open_temporary(put) != STK_OK) {
        stk_status status = stk__file_fail(store, err, "write", key, errno);
        release(put);
        return status;
    }
    *out = &put->base;
    return STK_OK;
}

stk_status stk__file_remove(stk_store *base, const char *key, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;
    char copy[STK_MAX_OBJECT_KEY];
    stk_status status = STK_OK;
    const char *name;

    STK_TRY(stk__context_check(base->context, err));
    STK_TRY(check_name(key, err));
    memcpy(copy, key, strlen(key) + 1);
    int folder = open_folder(store, copy, false, &name);
    if (folder < 0)
        return stk__file_fail(store, err, "remove", key, errno);
    if (stk__remove_file(folder, name) < 0)
        status = stk__file_fail(store, err, "remove", key, errno);
    else if (sync_folder(folder) < 0)
        status = stk__file_fail(store, err, "make durable the folder of", key, errno);
    close(folder);
    stk__file_forget(store, key, NULL);
    return status;
}
