/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files of a folder: keys to folders and names; what makes them durable is
 * base/durable.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/options.h"
#include "store/file.h"
#include "store/url.h"

#define PIECE ((size_t)16 << 20) /* bytes between two looks at whether it is still wanted */

typedef struct file_put {
    stk_put base;
    stk__file_store *store;
    const stk_store_call *call;
    stk__durable file;
    const char *name; /* final name in the folder; points into `key` */
    char key[];
} file_put;

/* Fill `err` with the whole path: what is written is looked for by people. */
static stk_status fail_path(const stk__file_store *store, stk_error *err, const char *what,
                            const char *key, int system_error)
{
    char path[2 * STK_MAX_OBJECT_KEY];

    if (system_error == EXDEV)
        return stk__file_fail(store, err, what, key, system_error);
    const size_t length = strlen(store->path);
    const bool here = length == 0 || strcmp(store->path, ".") == 0;
    snprintf(path, sizeof path, "%s%s%s", here ? "" : store->path,
             here || store->path[length - 1] == '/' ? "" : "/", key);
    if (system_error == EEXIST)
        return stk__fail_at(err, STK_EEXIST, STK_STAGE_STORE, path, STK_NO_OFFSET,
                            "cannot write '%.300s': it exists already, or is being written, and is "
                            "not to be replaced",
                            path);
    stk_status status = system_error == EROFS ? STK_EACCES : stk__aio_status(system_error);
    stk__durable_fail(err, what, path, system_error);
    if (err) {
        err->status = status;
        err->stage = STK_STAGE_STORE;
    }
    return status;
}

static void release(file_put *put)
{
    if (put->file.folder >= 0)
        close(put->file.folder);
    stk__free(put->store->base.context, put);
}

static void put_abandon(stk_put *base)
{
    file_put *put = (file_put *)base;

    /* In a child it is the parent's file still. */
    if (stk__context_forked(put->store->base.context))
        return;
    stk__durable_abandon(&put->file);
    release(put);
}

static stk_status put_write(stk_put *base, const void *data, size_t length, stk_error *err)
{
    file_put *put = (file_put *)base;
    const char *at = data;

    STK_TRY(stk__context_check(put->store->base.context, err));
    do {
        const size_t n = STK_MIN(length, PIECE);
        STK_TRY(stk__store_call_check(put->call, put->key, err));
        int error = stk__durable_write(&put->file, at, n);
        if (error)
            return fail_path(put->store, err, put->file.step, put->key, error);
        at += n;
        length -= n;
    } while (length > 0);
    return STK_OK;
}

static stk_status put_commit(stk_put *base, stk_error *err)
{
    file_put *put = (file_put *)base;
    stk_status status = STK_OK;

    STK_TRY(stk__context_check(put->store->base.context, err));
    const bool failed = put->file.failed != 0;
    int error = stk__durable_commit(&put->file, put->name);
    if (failed)
        status =
            stk__fail_at(err, stk__aio_status(error), STK_STAGE_STORE, put->key, STK_NO_OFFSET,
                         "'%.300s' is not written: an earlier part of it could not be", put->key);
    else if (error)
        status = fail_path(put->store, err, put->file.step, put->key, error);
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

/* ---- Folders --------------------------------------------------------------------------------- */

/* Open a folder of a key; with `make`, made durably in `parent` when there is none. -1: errno. */
static int enter_folder(stk__file_store *store, int parent, const char *path, bool make)
{
    const char *slash = strrchr(path, '/');
    int fd = stk__file_open_key(store, path, O_RDONLY | O_DIRECTORY);

    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    errno = stk__durable_folder(store->calls, parent, slash ? slash + 1 : path);
    return errno ? -1 : stk__file_open_key(store, path, O_RDONLY | O_DIRECTORY);
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
        stk__durable_sweep(folder);
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

/* ---- The verbs ------------------------------------------------------------------------------- */

stk_status stk__file_put(stk_store *base, const char *key, const stk_store_call *call,
                         stk_put **out, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;
    int error;

    *out = NULL;
    STK_TRY(stk__context_check(base->context, err));
    STK_TRY(check_name(key, err));
    size_t length = strlen(key) + 1;
    file_put *put = stk__alloc(base->context, sizeof *put + length);
    if (!put)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to write '%.200s'", key);
    *put = (file_put){.base.ops = &put_ops, .store = store, .call = call};
    memcpy(put->key, key, length);
    int folder = open_folder(store, put->key, true, &put->name);
    if (folder < 0) {
        error = errno;
        put->file.folder = -1;
    } else {
        sweep(store, folder);
        do
            error = stk__durable_begin(&put->file, store->calls, folder, put->name, call->length,
                                       call->no_replace);
        while (error && stk__file_try_again(store, error));
    }
    if (error) {
        stk_status status = fail_path(store, err, "write", key, error);
        release(put);
        return status;
    }
    *out = &put->base;
    return STK_OK;
}

/* Open the folder that a key lies in, the key copied into `copy`; -1: `err`. */
static int folder_of(stk__file_store *store, const char *key, char copy[STK_MAX_OBJECT_KEY],
                     bool make, const char **name, const char *what, stk_status *status,
                     stk_error *err)
{
    *status = check_name(key, err);
    if (*status != STK_OK)
        return -1;
    memcpy(copy, key, strlen(key) + 1);
    int folder = open_folder(store, copy, make, name);
    if (folder < 0)
        *status = fail_path(store, err, what, key, errno);
    return folder;
}

stk_status stk__file_remove(stk_store *base, const char *key, const stk_store_call *call,
                            stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;
    char copy[STK_MAX_OBJECT_KEY];
    stk_status status;
    const char *name;

    STK_TRY(stk__context_check(base->context, err));
    int folder = folder_of(store, key, copy, false, &name, "remove", &status, err);
    if (folder < 0)
        return status;
    int error = stk__durable_remove(store->calls, folder, name);
    if (error)
        status = fail_path(store, err, "remove", key, error);
    close(folder);
    stk__file_forget(store, key, NULL);
    return status;
}

/* Whether a failure of link() says that there are no links here. */
static bool no_links(int error)
{
    return error == EPERM || error == EXDEV || error == EMLINK || error == ENOSYS ||
           error == EOPNOTSUPP;
}

stk_status stk__file_copy(stk_store *base, const char *from, const char *to,
                          const stk_store_call *call, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;
    char from_copy[STK_MAX_OBJECT_KEY], to_copy[STK_MAX_OBJECT_KEY];
    const char *from_name, *to_name;
    stk_status status;

    STK_TRY(stk__context_check(base->context, err));
    int from_folder = folder_of(store, from, from_copy, false, &from_name, "read", &status, err);
    if (from_folder < 0)
        return status;
    int folder = folder_of(store, to, to_copy, true, &to_name, "write", &status, err);
    if (folder >= 0) {
        int error = stk__durable_link(store->calls, from_folder, from_name, folder, to_name);
        if (no_links(error))
            status = stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, to, STK_NO_OFFSET,
                                  "the file system of '%.200s' has no hard links", to);
        else if (error)
            status = fail_path(store, err, "write", to, error);
        close(folder);
        stk__file_forget(store, to, NULL);
    }
    close(from_folder);
    return status;
}
