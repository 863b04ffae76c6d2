/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A local folder that is written. Parts are files without a name of their own yet, told by number.
 * A group of them is made safe by one syncfs() of the file system, then gets its names, which a
 * second makes safe; so a name is that of a whole file after any kill or power cut, and a line of
 * the journal for a name.
 */
#include "convert/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/durable.h"
#include "base/url.h"

#define PARTS       STK__TARGET_OWN "-parts" /* and the suffix */
#define CHECK_BYTES 16384
#define FOLDER      (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

typedef struct folder_target {
    stk__target base;
    char *path;
    char parts_name[sizeof PARTS + STK__TARGET_SUFFIX];
    int root, parts; /* -1: not open */
    bool made;       /* the folder, by this run */
} folder_target;

static folder_target *of(stk__target *target)
{
    return (folder_target *)target;
}

/* The failure of a system call on a file of the folder, with errno and the remedy. */
static stk_status fail(const folder_target *t, const char *verb, const char *name, stk_error *err)
{
    int error = errno;
    char shown[200];
    const char *remedy = "";

    stk__copy_tail(shown, sizeof shown, name);
    if (error == ENOSPC || error == EDQUOT)
        remedy = "; free some space there and run the same again: what is complete is kept";
    else if (error == EFBIG)
        remedy = "; raise the limit of the size of files with 'ulimit -f' and run the same again";
    else if (error == EACCES || error == EPERM || error == EROFS)
        remedy = "; choose a folder that you may write";
    else if (error == EXDEV)
        remedy = "; all folders below the target must lie on one file system";
    else if (error == ENOTDIR || error == ELOOP)
        remedy = "; a link or a file lies where a folder belongs, and links are not followed";
    return stk__fail_at(err, error == EDQUOT ? STK_ENOSPC : stk__status_of_errno(error),
                        STK_STAGE_CONVERT, name, STK_NO_OFFSET, "could not %s %s%s: %s%s", verb,
                        name == t->path ? "" : "the target's file ", shown, strerror(error),
                        remedy);
}

/* ---- Parts --------------------------------------------------------------------------------- */

static void remove_parts(const folder_target *t)
{
    int fd = openat(t->parts, ".", FOLDER);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder && fd >= 0)
        close(fd);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (*entry->d_name >= '0' && *entry->d_name <= '9')
            stk__remove_file(t->parts, entry->d_name);
    closedir(folder);
}

static stk_status busy(const folder_target *t, stk_error *err)
{
    return stk__fail(err, STK_EBUSY, STK_STAGE_CONVERT,
                     "another conversion writes to %.200s; wait for its end, or stop it", t->path);
}

static stk_status folder_begin(stk__target *target, stk_error *err)
{
    folder_target *t = of(target);

    /* Other parts may be written, also by other machines, whose processes are not seen here. */
    if (!*target->suffix)
        stk__durable_sweep(t->root);
    if (mkdirat(t->root, t->parts_name, 0777) != 0 && errno != EEXIST)
        return fail(t, "write to the folder", t->path, err);
    t->parts = openat(t->root, t->parts_name, FOLDER | O_NOFOLLOW);
    if (t->parts < 0)
        return fail(t, "open", t->parts_name, err);
    if (*target->suffix && flock(t->parts, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(t->parts);
        t->parts = -1;
        return busy(t, err);
    }
    remove_parts(t);
    return STK_OK;
}

static void folder_close(stk__target *target)
{
    folder_target *t = of(target);
    stk_context *ctx = target->job->context;

    if (t->parts >= 0) {
        remove_parts(t);
        close(t->parts);
        stk__remove_folder(t->root, t->parts_name);
    }
    if (t->root >= 0 && t->made && !atomic_load(&t->base.kept)) {
        stk__remove_file(t->root, target->journal);
        stk__remove_folder_path(t->path);
    }
    if (t->root >= 0)
        close(t->root);
    stk__free(ctx, t->path);
    stk__free(ctx, t);
}

static void part_name(uint64_t number, char name[24])
{
    snprintf(name, 24, "%" PRIu64, number);
}

static void folder_drop(stk__target *target, uint64_t number)
{
    const folder_target *t = of(target);
    char name[24];

    part_name(number, name);
    stk__remove_file(t->parts, name);
}

/* Whether the file holds exactly these bytes. */
static bool holds(int fd, const uint8_t *data, uint64_t size)
{
    uint8_t back[CHECK_BYTES];
    uint64_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, back, sizeof back, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && at == size;
        if ((uint64_t)n > size - at || memcmp(back, data + at, (size_t)n) != 0)
            return false;
        at += (uint64_t)n;
    }
}

static stk_status folder_write(stk__target *target, uint64_t number, const char *name,
                               const void *data, uint64_t size, bool check, stk_error *err)
{
    const folder_target *t = of(target);
    stk__bytes bytes = {.data = (char *)data, .length = size};
    char part[24];
    stk_status status = STK_OK;

    (void)name;
    part_name(number, part);
    int fd = openat(t->parts, part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(t, "write a file into", t->path, err);
    if (stk__bytes_write(&bytes, fd) != 0)
        status = fail(t, "write a file into", t->path, err);
    else if (check && !holds(fd, data, size))
        status = stk__target_fail_check(target, err);
    /* The descriptor is gone also when a signal came; the sync that follows tells of the bytes. */
    if (close(fd) != 0 && errno != EINTR && status == STK_OK)
        status = fail(t, "write a file into", t->path, err);
    if (status != STK_OK)
        folder_drop(target, number);
    return status;
}

static stk_status folder_sync(stk__target *target, stk_error *err)
{
    const folder_target *t = of(target);

    return stk__sync_all(t->root) == 0 ? STK_OK
                                       : fail(t, "make safe what was written to", t->path, err);
}

/* ---- Names below the folder ------------------------------------------------------------------ */

/* Step into a folder, made where it is missing and `make`; a link is not followed. */
static int enter(int parent, const char *name, bool make)
{
    int fd = openat(parent, name, FOLDER | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(parent, name, 0777) != 0 && errno != EEXIST)
        return -1;
    return openat(parent, name, FOLDER | O_NOFOLLOW);
}

/* Open the folder in which `name` lies; *last, within `path`, is what it is called there. -1:
 * errno. Every way from a name to a file of the target leads through here. */
static int open_folder(const folder_target *t, const char *name, bool make,
                       char path[STK_MAX_OBJECT_KEY], const char **last)
{
    char *at = path, *slash;

    snprintf(path, STK_MAX_OBJECT_KEY, "%s", name);
    int fd = fcntl(t->root, F_DUPFD_CLOEXEC, 0);
    for (; fd >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
        *slash = 0;
        int inner = enter(fd, at, make), error = errno;
        close(fd);
        errno = error;
        fd = inner;
    }
    *last = at;
    return fd;
}

static stk_status folder_name(stk__target *target, uint64_t number, const char *name,
                              stk_error *err)
{
    const folder_target *t = of(target);
    char part[24], path[STK_MAX_OBJECT_KEY];
    const char *last;
    stk_status status = STK_OK;

    part_name(number, part);
    int fd = open_folder(t, name, true, path, &last);
    if (fd < 0)
        return fail(t, "make the folder of", name, err);
    if (renameat(t->parts, part, fd, last) != 0)
        status = fail(t, "give its name to", name, err);
    close(fd);
    return status;
}

static stk_status folder_size(stk__target *target, const char *name, uint64_t *size, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    const char *last;
    struct stat st;

    int fd = open_folder(of(target), name, false, path, &last);
    const bool found = fd >= 0 && fstatat(fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (found) {
        *size = (uint64_t)st.st_size;
        return S_ISREG(st.st_mode) ? STK_OK : STK_ENOENT;
    }
    /* Nothing is below a file, and no name leads through a link. */
    if (error == ENOENT || error == ENOTDIR || error == ELOOP)
        return STK_ENOENT;
    errno = error;
    return fail(of(target), "look at", name, err);
}

static stk_status folder_remove(stk__target *target, const char *name, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    const char *last;
    stk_status status = STK_OK;

    int fd = open_folder(of(target), name, false, path, &last);
    if (fd < 0)
        return STK_OK;
    if (stk__remove_file(fd, last) != 0 && errno != ENOENT)
        status = fail(of(target), "remove", name, err);
    close(fd);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Whether something that is not ours lies in the folder, and whether there is a journal. */
static stk_status look(folder_target *t, stk_error *err)
{
    int fd = openat(t->root, ".", FOLDER);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder) {
        stk_status status = fail(t, "list", t->path, err);
        if (fd >= 0)
            close(fd);
        return status;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (strcmp(name, t->base.journal) == 0)
            t->base.has_journal = true;
        else if (strncmp(name, STK__TARGET_PART, strlen(STK__TARGET_PART)) == 0)
            t->base.has_parts = true;
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !stk__is_temporary(name) &&
                 strncmp(name, STK__TARGET_OWN, strlen(STK__TARGET_OWN)) != 0)
            t->base.has_others = true;
    }
    closedir(folder);
    return STK_OK;
}

static const stk__target_ops folder_ops = {
    .begin = folder_begin,
    .write = folder_write,
    .name = folder_name,
    .drop = folder_drop,
    .sync = folder_sync,
    .size = folder_size,
    .remove = folder_remove,
    .close = folder_close,
};

static stk_status open_root(folder_target *t, stk_error *err)
{
    t->made = mkdir(t->path, 0777) == 0;
    if (!t->made && errno != EEXIST)
        return fail(t, "make the folder", t->path, err);
    t->root = open(t->path, FOLDER);
    if (t->root < 0)
        return fail(t, "open the folder", t->path, err);
    /* Parts share the folder, and lock files of their own. */
    if (flock(t->root, (*t->base.suffix ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK)
        return busy(t, err);
    return look(t, err);
}

stk_status stk__target_folder_open(const stk_conversion_job *job, const char *suffix,
                                   stk__target **out, stk_error *err)
{
    folder_target *t = stk__calloc(job->context, 1, sizeof *t);

    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the target");
    stk__target_init(&t->base, &folder_ops, job, suffix);
    t->root = t->parts = -1;
    snprintf(t->parts_name, sizeof t->parts_name, PARTS "%s", suffix);
    *out = &t->base;
    STK_TRY(stk__url_local(job->context, job->target, &t->path, err));
    return open_root(t, err);
}
