/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place where files become durable: temporary name in the same folder, room for all of it,
 * write, fsync, rename, fsync of the folder. After a failed fsync the kernel may have dropped the
 * pages and call them clean: it is never tried again, the file is discarded.
 *
 * A writer holds a lock (flock) on its temporary file until it has its final name, so that what a
 * killed process left can be told from what a living one writes. A file that is to replace nothing
 * has its final name in its temporary one: whoever holds that file holds the name.
 */
#include "base/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/options.h"

#define TRIES 64                   /* for a temporary name that is free */
#define LOOKS 16                   /* at one that is held: by a writer, or by who sweeps */
#define PIECE (UINT64_C(16) << 20) /* bytes of one write */

/* ---- The system's calls ---------------------------------------------------------------------- */

static int system_open(void *user, int folder, const char *name, int flags, mode_t mode)
{
    return openat(folder, name, flags, mode);
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

/* Where rename() cannot refuse to replace, link() does. */
static int system_rename(void *user, int folder, const char *from, const char *to, bool keep)
{
    if (!keep)
        return renameat(folder, from, folder, to);
    int result = renameat2(folder, from, folder, to, RENAME_NOREPLACE);
    if (result == 0 || (errno != EINVAL && errno != ENOSYS))
        return result;
    if (linkat(folder, from, folder, to, 0) < 0)
        return -1;
    stk__remove_file(folder, from);
    return 0;
}

static int system_link(void *user, int from_folder, const char *from, int folder, const char *to)
{
    return linkat(from_folder, from, folder, to, 0);
}

static int system_unlink(void *user, int folder, const char *name)
{
    return stk__remove_file(folder, name);
}

static int system_mkdir(void *user, int folder, const char *name, mode_t mode)
{
    return mkdirat(folder, name, mode);
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

/* ---- Temporary names ------------------------------------------------------------------------- */

bool stk__is_temporary(const char *name)
{
    return strncmp(name, STK__TEMPORARY, sizeof STK__TEMPORARY - 1) == 0;
}

/* A name that is free, most probably. */
static void draw_name(char name[NAME_MAX + 1])
{
    static atomic_uint serial;

    snprintf(name, NAME_MAX + 1, STK__TEMPORARY "%08x%08x",
             (unsigned)stk__now_ns() ^ ((unsigned)getpid() << 16), atomic_fetch_add(&serial, 1));
}

/* Lock the file just made. False: another process has taken it for one that was left. */
static bool claim(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) < 0 || st.st_nlink > 0;
}

/* Remove an unfinished file that no living process holds. False: one does. */
static bool remove_left(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT;
    const bool left = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (left)
        stk__remove_file(folder, name);
    close(fd);
    return left;
}

void stk__durable_sweep(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir)))
        if (stk__is_temporary(entry->d_name))
            remove_left(folder, entry->d_name);
    if (dir)
        closedir(dir);
}

void stk__durable_sweep_path(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    stk__durable_sweep(fd);
    close(fd);
}

/* ---- Messages -------------------------------------------------------------------------------- */

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

/* ---- Writing --------------------------------------------------------------------------------- */

static int fail(stk__durable *file, const char *step, int error)
{
    file->step = step;
    return error;
}

static bool is_there(int folder, const char *name)
{
    struct stat st;

    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Make the temporary file and lock it: 0 or errno, EEXIST where the name is another's. */
static int open_temporary(stk__durable *file)
{
    const stk__file_calls *calls = file->calls;

    file->fd = calls->open(calls->user, file->folder, file->temporary,
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return errno;
    if (claim(file->fd))
        return 0;
    calls->close(calls->user, file->fd);
    file->fd = -1;
    return EEXIST;
}

/* The same under the temporary name of `name`: EEXIST where that is taken. */
static int open_named(stk__durable *file, const char *name)
{
    int error = EEXIST;

    snprintf(file->temporary, sizeof file->temporary, STK__TEMPORARY "%s", name);
    for (int i = 0, held = 0; i < TRIES && error == EEXIST && held < LOOKS; i++) {
        error = is_there(file->folder, name) ? -EEXIST : open_temporary(file);
        if (error == EEXIST && !remove_left(file->folder, file->temporary) && ++held < LOOKS)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    /* It may have got its name between the look and the lock. */
    if (error == 0 && is_there(file->folder, name)) {
        stk__durable_abandon(file);
        error = EEXIST;
    }
    return error < 0 ? -error : error;
}

/* A disk without room says so before anything is written. Where it cannot set room aside the writes
 * will tell. 0 or errno. */
static int set_aside(stk__durable *file, uint64_t bytes)
{
    const stk__file_calls *calls = file->calls;

    return bytes > 0 && bytes <= INT64_MAX && calls->allocate(calls->user, file->fd, bytes) < 0 &&
                   (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
               ? errno
               : 0;
}

int stk__durable_begin(stk__durable *file, const stk__file_calls *calls, int folder,
                       const char *name, uint64_t bytes, bool keep)
{
    int error = EEXIST;

    *file = (stk__durable){
        .calls = calls ? calls : &stk__file_calls_system, .folder = folder, .fd = -1, .keep = keep};
    if (keep && strlen(name) + sizeof STK__TEMPORARY <= sizeof file->temporary) {
        error = open_named(file, name);
    } else {
        for (int i = 0; i < TRIES && error == EEXIST; i++) {
            draw_name(file->temporary);
            error = open_temporary(file);
        }
        if (error == 0 && keep && is_there(folder, name)) {
            stk__durable_abandon(file);
            error = EEXIST;
        }
    }
    if (error)
        return fail(file, "write", error);
    error = set_aside(file, bytes);
    if (error)
        stk__durable_abandon(file);
    return error ? fail(file, "write", error) : 0;
}

/* Open and lock the unfinished file: 0 or errno, EEXIST where it got its name meanwhile. */
static int open_part(stk__durable *file)
{
    const stk__file_calls *calls = file->calls;
    struct stat held, named;
    int error = 0;

    file->fd = calls->open(calls->user, file->folder, file->temporary,
                           O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return errno;
    if (flock(file->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        error = EBUSY;
    else if (fstat(file->fd, &held) < 0)
        error = errno;
    else if (!S_ISREG(held.st_mode))
        error = EINVAL;
    else if (fstatat(file->folder, file->temporary, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
             named.st_ino != held.st_ino || named.st_dev != held.st_dev)
        error = EEXIST;
    if (error)
        stk__durable_leave(file);
    return error;
}

int stk__durable_resume(stk__durable *file, const stk__file_calls *calls, int folder,
                        const char *part, const char *name, uint64_t bytes, uint64_t *length)
{
    int error = EEXIST;

    *length = 0;
    *file = (stk__durable){
        .calls = calls ? calls : &stk__file_calls_system, .folder = folder, .fd = -1, .keep = true};
    for (int i = 0; i < TRIES && error == EEXIST && !is_there(folder, name); i++) {
        snprintf(file->temporary, sizeof file->temporary, "%s", part);
        error = open_part(file);
    }
    /* As above, between the look and the lock. */
    if (error == 0 && is_there(folder, name)) {
        stk__durable_abandon(file);
        error = EEXIST;
    }
    if (error)
        file->temporary[0] = 0;
    const off_t end = error ? 0 : lseek(file->fd, 0, SEEK_END);
    if (error == 0)
        error = end < 0 ? errno : set_aside(file, bytes);
    if (error) {
        stk__durable_leave(file);
        return fail(file, "write", error);
    }
    *length = (uint64_t)end;
    return 0;
}

void stk__durable_leave(stk__durable *file)
{
    file->temporary[0] = 0;
    stk__durable_abandon(file);
}

int stk__durable_write(stk__durable *file, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n =
            file->calls->write(file->calls->user, file->fd, at, STK_MIN(length, (size_t)PIECE));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            file->failed = n < 0 ? errno : ENOSPC;
            return fail(file, "write", file->failed);
        }
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

/* fsync() of a folder: names made in it since are safe. */
static int durable_sync(const stk__file_calls *calls, int folder)
{
    calls = calls ? calls : &stk__file_calls_system;
    /* Some file systems have none for folders and keep them safe by themselves. */
    return calls->fsync(calls->user, folder) < 0 && errno != EINVAL && errno != EOPNOTSUPP ? errno
                                                                                           : 0;
}

/* All steps but the last clean-up; `temporary` is empty once the file has its name. */
static int make_durable(stk__durable *file, const char *name)
{
    const stk__file_calls *calls = file->calls;

    if (file->failed)
        return fail(file, "write", file->failed);
    if (calls->fsync(calls->user, file->fd) < 0)
        return fail(file, "make durable", errno);
    /* The lock is held on while the file is closed, until it has its name. */
    const int held = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    /* The descriptor is gone also when a signal came, and the bytes are safe. */
    const bool closed = calls->close(calls->user, file->fd) == 0 || errno == EINTR;
    int error = closed ? 0 : errno;
    file->fd = -1;
    if (closed && calls->rename(calls->user, file->folder, file->temporary, name, file->keep) < 0)
        error = errno;
    if (held >= 0)
        close(held);
    if (error)
        return fail(file, closed ? "give its name to" : "make durable", error);
    file->temporary[0] = 0;
    error = durable_sync(calls, file->folder);
    return error ? fail(file, "make durable the folder of", error) : 0;
}

int stk__durable_commit(stk__durable *file, const char *name)
{
    int error = make_durable(file, name);

    stk__durable_abandon(file);
    return error;
}

void stk__durable_abandon(stk__durable *file)
{
    const stk__file_calls *calls = file->calls;

    if (file->temporary[0])
        calls->unlink(calls->user, file->folder, file->temporary);
    file->temporary[0] = 0;
    if (file->fd >= 0)
        calls->close(calls->user, file->fd);
    file->fd = -1;
}

/* ---- Other names, removal, folders ----------------------------------------------------------- */

stk_status stk__durable_sync_path(const char *folder, stk_error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return stk__durable_fail(err, "open the folder", folder, errno);
    int error = durable_sync(NULL, fd);
    close(fd);
    return error ? stk__durable_fail(err, "make durable the folder", folder, error) : STK_OK;
}

/* One try: 0 or errno. */
static int link_once(const stk__file_calls *calls, int from_folder, const char *from, int folder,
                     const char *name)
{
    char temporary[NAME_MAX + 1];

    draw_name(temporary);
    if (calls->link(calls->user, from_folder, from, folder, temporary) < 0)
        return errno;
    int error = calls->rename(calls->user, folder, temporary, name, false) < 0 ? errno : 0;
    /* Nobody holds this name: a run that goes on from here may have removed it. */
    if (error == ENOENT)
        error = EEXIST;
    /* Of two names of one file rename() leaves both. */
    calls->unlink(calls->user, folder, temporary);
    return error;
}

int stk__durable_link(const stk__file_calls *calls, int from_folder, const char *from, int folder,
                      const char *name)
{
    int error = EEXIST;

    calls = calls ? calls : &stk__file_calls_system;
    for (int i = 0; i < TRIES && error == EEXIST; i++)
        error = link_once(calls, from_folder, from, folder, name);
    return error ? error : durable_sync(calls, folder);
}

int stk__durable_remove(const stk__file_calls *calls, int folder, const char *name)
{
    calls = calls ? calls : &stk__file_calls_system;
    if (calls->unlink(calls->user, folder, name) < 0)
        return errno;
    return durable_sync(calls, folder);
}

int stk__durable_folder(const stk__file_calls *calls, int parent, const char *name)
{
    calls = calls ? calls : &stk__file_calls_system;
    if (calls->mkdir(calls->user, parent, name, 0777) < 0 && errno != EEXIST)
        return errno;
    return durable_sync(calls, parent);
}

/* Make one folder of a path, whose parent is there, and sync that. */
static int make_one(const stk__file_calls *calls, const char *path, const char *parent)
{
    struct stat st;

    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    int fd = calls->open(calls->user, AT_FDCWD, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    const char *slash = strrchr(path, '/');
    int error = stk__durable_folder(calls, fd, slash ? slash + 1 : path);
    calls->close(calls->user, fd);
    if (!error && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
        error = ENOTDIR;
    return error;
}

stk_status stk__durable_path(stk_context *ctx, const stk__file_calls *calls, const char *path,
                             stk_error *err)
{
    int error = 0;

    calls = calls ? calls : &stk__file_calls_system;
    size_t length = strlen(path), before = 0;
    while (length > 1 && path[length - 1] == '/')
        length--;
    char *copy = stk__strdup(ctx, path), *parent = stk__strdup(ctx, path);
    if (!copy || !parent)
        error = ENOMEM;
    for (size_t i = 1; i <= length && error == 0; i++) {
        if ((i < length && path[i] != '/') || path[i - 1] == '/')
            continue;
        /* "a/b" lies in "a", "a" in ".", "/a" in "/". */
        memcpy(copy, path, i);
        copy[i] = 0;
        memcpy(parent, before ? path : path[0] == '/' ? "/" : ".", before ? before : 1);
        parent[before ? before : 1] = 0;
        error = make_one(calls, copy, parent);
        before = i;
    }
    stk_status status = STK_OK;
    if (!copy || !parent)
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                              "no memory to write '%.300s'", path);
    else if (error)
        status = stk__durable_fail(err, "make the folder", copy, error);
    stk__free(ctx, parent);
    stk__free(ctx, copy);
    return status;
}
