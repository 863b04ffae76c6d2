/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temporary name in the same folder, room for all of it, write, fsync, rename, fsync of the folder.
 * After a failed fsync the kernel may have dropped the pages and call them clean: it is never tried
 * again, the file is discarded.
 */
#include "base/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "base/options.h"

#define NAME_TRIES 64
#define PIECE      (UINT64_C(16) << 20) /* bytes of one write */
#define COPY_BYTES (UINT64_C(1) << 20)

/* ---- The system's calls ---- */

static int system_open(void *user, const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int system_allocate(void *user, int fd, uint64_t bytes)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
}

static ssize_t system_write(void *user, int fd, const void *data, size_t length)
{
    return write(fd, data, length);
}

static int system_fsync(void *user, int fd)
{
    return stk__sync(fd);
}

static int system_close(void *user, int fd)
{
    return close(fd);
}

static int system_rename(void *user, const char *from, const char *to)
{
    return rename(from, to);
}

static int system_link(void *user, const char *from, const char *to)
{
    return link(from, to);
}

static int system_unlink(void *user, const char *path)
{
    return stk__remove_path(path);
}

static int system_mkdir(void *user, const char *path, mode_t mode)
{
    return mkdir(path, mode);
}

const stk__file_calls stk__file_calls_system = {
    .open = system_open,
    .allocate = system_allocate,
    .write = system_write,
    .fsync = system_fsync,
    .close = system_close,
    .rename = system_rename,
    .link = system_link,
    .unlink = system_unlink,
    .mkdir = system_mkdir,
};

/* ---- Names and messages ---- */

struct stk__durable {
    stk_context *ctx;
    const stk__file_calls *calls;
    char *path, *folder, *temporary;
    int fd;
    bool failed; /* an earlier write: nothing may be committed */
};

stk_status stk__durable_fail(stk_error *err, const char *verb, const char *path, int system_error)
{
    const char *text = strerrordesc_np(system_error);
    char meant[STK__PATH_MEANT];

    stk_status status = system_error == EROFS ? STK_EACCES : stk__status_of_errno(system_error);
    return stk__fail_at(err, status, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "cannot %s '%.300s': %s%s", verb, path, text ? text : "unknown error",
                        system_error == ENOENT ? stk__nearest_path_said(path, meant)
                                               : stk__remedy_of_errno(system_error));
}

static stk_status no_memory(stk_error *err, const char *path)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "no memory to write '%.300s'", path);
}

char *stk__durable_folder_of(stk_context *ctx, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return stk__strdup(ctx, ".");
    size_t length = slash == path ? 1 : (size_t)(slash - path);
    char *folder = stk__alloc(ctx, length + 1);
    if (!folder)
        return NULL;
    memcpy(folder, path, length);
    folder[length] = 0;
    return folder;
}

/* A name in `folder` that nobody has, most probably. */
static char *temporary_name(stk_context *ctx, const char *folder)
{
    char name[STK__TEMPORARY_ROOM];

    stk__temporary_name(name);
    return stk__format(ctx, "%s/%s", folder, name);
}

stk_status stk__durable_sync_folder(const stk__file_calls *calls, const char *folder,
                                    stk_error *err)
{
    calls = calls ? calls : &stk__file_calls_system;
    int fd = calls->open(calls->user, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

    if (fd < 0)
        return stk__durable_fail(err, "open the folder", folder, errno);
    int error = calls->fsync(calls->user, fd) < 0 ? errno : 0;
    calls->close(calls->user, fd);
    /* Some file systems have none for folders and keep them safe by themselves. */
    if (error && error != EINVAL && error != EOPNOTSUPP)
        return stk__durable_fail(err, "make durable the folder", folder, error);
    return STK_OK;
}

/* ---- Folders ---- */

/* Make the folder `path`, whose parents are there. */
static stk_status make_one(stk_context *ctx, const stk__file_calls *calls, const char *path,
                           stk_error *err)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return STK_OK;
    if (calls->mkdir(calls->user, path, 0777) < 0 && errno != EEXIST)
        return stk__durable_fail(err, "make the folder", path, errno);
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return stk__durable_fail(err, "make the folder", path, ENOTDIR);
    char *parent = stk__durable_folder_of(ctx, path);
    if (!parent)
        return no_memory(err, path);
    stk_status status = stk__durable_sync_folder(calls, parent, err);
    stk__free(ctx, parent);
    return status;
}

stk_status stk__durable_folder(stk_context *ctx, const stk__file_calls *calls, const char *path,
                               stk_error *err)
{
    stk_status status = STK_OK;

    calls = calls ? calls : &stk__file_calls_system;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    char *copy = stk__alloc(ctx, length + 1);
    if (!copy)
        return no_memory(err, path);
    memcpy(copy, path, length);
    copy[length] = 0;
    for (size_t i = 1; i < length && status == STK_OK; i++) {
        if (copy[i] != '/' || copy[i - 1] == '/')
            continue;
        copy[i] = 0;
        status = make_one(ctx, calls, copy, err);
        copy[i] = '/';
    }
    if (status == STK_OK && length > 0)
        status = make_one(ctx, calls, copy, err);
    stk__free(ctx, copy);
    return status;
}

/* ---- Writing ---- */

static void release(stk__durable *file)
{
    stk_context *ctx = file->ctx;

    if (file->fd >= 0)
        file->calls->close(file->calls->user, file->fd);
    stk__free(ctx, file->temporary);
    stk__free(ctx, file->folder);
    stk__free(ctx, file->path);
    stk__free(ctx, file);
}

/* Make the temporary file. */
static stk_status open_temporary(stk__durable *file, stk_error *err)
{
    const stk__file_calls *calls = file->calls;
    int error = EEXIST;

    for (int i = 0; i < NAME_TRIES && error == EEXIST; i++) {
        stk__free(file->ctx, file->temporary);
        file->temporary = temporary_name(file->ctx, file->folder);
        if (!file->temporary)
            return no_memory(err, file->path);
        file->fd = calls->open(calls->user, file->temporary,
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        error = file->fd < 0 ? errno : 0;
        if (file->fd >= 0 && !stk__temporary_claim(file->fd)) {
            calls->close(calls->user, file->fd);
            file->fd = -1;
            error = EEXIST;
        }
    }
    if (error)
        return stk__durable_fail(err, "write", file->path, error);
    return STK_OK;
}

stk_status stk__durable_begin(stk_context *ctx, const stk__file_calls *calls, const char *path,
                              uint64_t bytes, stk__durable **out, stk_error *err)
{
    *out = NULL;
    stk__durable *file = stk__calloc(ctx, 1, sizeof *file);
    if (!file)
        return no_memory(err, path);
    file->ctx = ctx;
    file->calls = calls ? calls : &stk__file_calls_system;
    file->fd = -1;
    file->path = stk__strdup(ctx, path);
    file->folder = stk__durable_folder_of(ctx, path);
    stk_status status = file->path && file->folder ? STK_OK : no_memory(err, path);
    if (status == STK_OK)
        status = stk__durable_folder(ctx, file->calls, file->folder, err);
    if (status == STK_OK)
        status = open_temporary(file, err);
    if (status != STK_OK) {
        release(file);
        return status;
    }
    /* A disk without room says so before anything is written. Where it cannot set room aside the
     * writes will tell. */
    if (bytes > 0 && bytes <= INT64_MAX &&
        file->calls->allocate(file->calls->user, file->fd, bytes) < 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
        status = stk__durable_fail(err, "write", path, errno);
        stk__durable_abandon(&file);
        return status;
    }
    *out = file;
    return STK_OK;
}

stk_status stk__durable_write(stk__durable *file, const void *data, size_t length, stk_error *err)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n =
            file->calls->write(file->calls->user, file->fd, at, STK_MIN(length, (size_t)PIECE));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            file->failed = true;
            return stk__durable_fail(err, "write", file->path, n < 0 ? errno : ENOSPC);
        }
        at += n;
        length -= (size_t)n;
    }
    return STK_OK;
}

/* All steps but the last clean-up; `temporary` is NULL once the file has its name. */
static stk_status make_durable(stk__durable *file, stk_error *err)
{
    const stk__file_calls *calls = file->calls;

    if (file->failed)
        return stk__fail_at(err, STK_EIO, STK_STAGE_TRAIN, file->path, STK_NO_OFFSET,
                            "'%.300s' is not written: an earlier part of it could not be",
                            file->path);
    if (calls->fsync(calls->user, file->fd) < 0)
        return stk__durable_fail(err, "make durable", file->path, errno);
    const int held = stk__temporary_hold(file->fd);
    /* The descriptor is gone also when a signal came, and the bytes are safe. */
    const bool closed = calls->close(calls->user, file->fd) == 0 || errno == EINTR;
    file->fd = -1;
    const int renamed = closed ? calls->rename(calls->user, file->temporary, file->path) : -1;
    stk__temporary_release(held);
    if (renamed < 0)
        return stk__durable_fail(err, closed ? "give its name to" : "make durable", file->path,
                                 errno);
    stk__free(file->ctx, file->temporary);
    file->temporary = NULL;
    return stk__durable_sync_folder(calls, file->folder, err);
}

stk_status stk__durable_commit(stk__durable **file, stk_error *err)
{
    stk__durable *f = *file;
    stk_status status = make_durable(f, err);

    *file = NULL;
    if (f->temporary)
        f->calls->unlink(f->calls->user, f->temporary);
    release(f);
    return status;
}

void stk__durable_abandon(stk__durable **file)
{
    if (!*file)
        return;
    (*file)->calls->unlink((*file)->calls->user, (*file)->temporary);
    release(*file);
    *file = NULL;
}

/* ---- Other names, removal ---- */

static stk_status copy(stk_context *ctx, const stk__file_calls *calls, const char *path,
                       const char *name, stk_error *err)
{
    stk__durable *file = NULL;
    ssize_t n = 0;

    char *bytes = stk__alloc(ctx, COPY_BYTES);
    if (!bytes)
        return no_memory(err, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    stk_status status = fd < 0 ? stk__durable_fail(err, "read", path, errno) : STK_OK;
    if (status == STK_OK)
        status = stk__durable_begin(ctx, calls, name, 0, &file, err);
    while (status == STK_OK && (n = read(fd, bytes, COPY_BYTES)) != 0) {
        if (n < 0 && errno != EINTR)
            status = stk__durable_fail(err, "read", path, errno);
        else if (n > 0)
            status = stk__durable_write(file, bytes, (size_t)n, err);
    }
    if (status == STK_OK)
        status = stk__durable_commit(&file, err);
    stk__durable_abandon(&file);
    if (fd >= 0)
        close(fd);
    stk__free(ctx, bytes);
    return status;
}

/* One try of the hard link: 0 or errno. */
static int link_once(const stk__file_calls *calls, const char *path, const char *temporary,
                     const char *name)
{
    if (calls->link(calls->user, path, temporary) < 0)
        return errno;
    int error = calls->rename(calls->user, temporary, name) < 0 ? errno : 0;
    /* Nobody holds this name: a run that goes on from here may have removed it. */
    if (error == ENOENT)
        error = EEXIST;
    /* Of two names of one file rename() leaves both. */
    calls->unlink(calls->user, temporary);
    return error;
}

stk_status stk__durable_link(stk_context *ctx, const stk__file_calls *calls, const char *path,
                             const char *name, stk_error *err)
{
    int error = EEXIST;
    stk_status status = STK_OK;

    calls = calls ? calls : &stk__file_calls_system;
    char *folder = stk__durable_folder_of(ctx, name);
    if (!folder)
        return no_memory(err, name);
    status = stk__durable_folder(ctx, calls, folder, err);
    for (int i = 0; status == STK_OK && error == EEXIST && i < NAME_TRIES; i++) {
        char *temporary = temporary_name(ctx, folder);
        if (!temporary)
            status = no_memory(err, name);
        else
            error = link_once(calls, path, temporary, name);
        stk__free(ctx, temporary);
    }
    if (status == STK_OK) {
        switch (error) {
        case 0:
            status = stk__durable_sync_folder(calls, folder, err);
            break;
        case EPERM:
        case EXDEV:
        case EMLINK:
        case ENOSYS:
        case EOPNOTSUPP:
            status = copy(ctx, calls, path, name, err);
            break;
        default:
            status = stk__durable_fail(err, "write", name, error);
        }
    }
    stk__free(ctx, folder);
    return status;
}

stk_status stk__durable_remove(stk_context *ctx, const stk__file_calls *calls, const char *path,
                               stk_error *err)
{
    calls = calls ? calls : &stk__file_calls_system;
    if (calls->unlink(calls->user, path) < 0 && errno != ENOENT)
        return stk__durable_fail(err, "remove", path, errno);
    return STK_OK;
}

void stk__durable_sweep(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    stk__temporary_sweep(fd);
    close(fd);
}
