/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

#define MAX_LEVELS  4096
#define CHECK_BYTES 16384
#define FOLDER      (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

stk_status stk__target_fail(const stk__target *target, const char *verb, const char *name,
                            stk_error *err)
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
                        STK_STAGE_CONVERT, name, STK_NO_OFFSET, "could not %s %s%s%s: %s%s", verb,
                        *name == '/' || name == target->path ? "" : "the target's file ", shown, "",
                        strerror(error), remedy);
}

/* ---- Opening ------------------------------------------------------------------------------- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether `folder` is `above` or lies somewhere in it. */
static bool lies_in(int folder, const struct stat *above)
{
    struct stat here, before = {0};
    bool found = false;
    int fd = fcntl(folder, F_DUPFD_CLOEXEC, 0);

    for (int level = 0; fd >= 0 && level < MAX_LEVELS; level++) {
        if (fstat(fd, &here) != 0 || (level > 0 && same_file(&here, &before)))
            break;
        found = same_file(&here, above);
        if (found)
            break;
        before = here;
        int parent = openat(fd, "..", FOLDER);
        close(fd);
        fd = parent;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

static stk_status check_source(const stk__target *target, const char *source, stk_error *err)
{
    struct stat from, to;
    const char *wrong = NULL;
    int fd = source ? open(source, FOLDER) : -1;

    if (fd < 0)
        return STK_OK;
    if (fstat(fd, &from) == 0 && fstat(target->root, &to) == 0) {
        if (same_file(&from, &to))
            wrong = "is the folder that is read";
        else if (lies_in(target->root, &from))
            wrong = "lies in the folder that is read";
        else if (lies_in(fd, &to))
            wrong = "holds the folder that is read";
    }
    close(fd);
    if (wrong)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the target %.200s %s; choose a folder next to it", target->path, wrong);
    return STK_OK;
}

/* Whether something that is not ours lies in the folder, and whether there is a journal. */
static stk_status look(stk__target *target, bool *foreign, stk_error *err)
{
    int fd = openat(target->root, ".", FOLDER);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    *foreign = false;
    if (!folder) {
        stk_status status = stk__target_fail(target, "list", target->path, err);
        if (fd >= 0)
            close(fd);
        return status;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (strcmp(name, STK__TARGET_JOURNAL) == 0)
            target->has_journal = true;
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                 strncmp(name, STK__TARGET_OWN, strlen(STK__TARGET_OWN)) != 0)
            *foreign = true;
    }
    closedir(folder);
    return STK_OK;
}

static stk_status check_target(stk__target *target, const char *source, bool overwrite,
                               stk_error *err)
{
    bool foreign;

    STK_TRY(check_source(target, source, err));
    if (flock(target->root, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return stk__fail(err, STK_EBUSY, STK_STAGE_CONVERT,
                         "another conversion writes to %.200s; wait for its end, or stop it",
                         target->path);
    STK_TRY(look(target, &foreign, err));
    if (foreign && !target->has_journal && !overwrite)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the target %.200s is not empty and no conversion began it; choose a new "
                         "folder, or set overwrite to write among what is there",
                         target->path);
    return STK_OK;
}

stk_status stk__target_open(stk_context *ctx, const char *path, const char *source, bool overwrite,
                            stk__target *target, stk_error *err)
{
    *target = (stk__target){.context = ctx, .path = path, .root = -1, .parts = -1};
    target->made = mkdir(path, 0777) == 0;
    if (!target->made && errno != EEXIST)
        return stk__target_fail(target, "make the folder", path, err);
    target->root = open(path, FOLDER);
    if (target->root < 0)
        return stk__target_fail(target, "open the folder", path, err);
    return check_target(target, source, overwrite, err);
}

/* ---- Parts --------------------------------------------------------------------------------- */

static void remove_parts(const stk__target *target)
{
    int fd = openat(target->parts, ".", FOLDER);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder && fd >= 0)
        close(fd);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (*entry->d_name >= '0' && *entry->d_name <= '9')
            stk__remove_file(target->parts, entry->d_name);
    closedir(folder);
}

stk_status stk__target_begin(stk__target *target, stk_error *err)
{
    if (mkdirat(target->root, STK__TARGET_PARTS, 0777) != 0 && errno != EEXIST)
        return stk__target_fail(target, "write to the folder", target->path, err);
    target->parts = openat(target->root, STK__TARGET_PARTS, FOLDER | O_NOFOLLOW);
    if (target->parts < 0)
        return stk__target_fail(target, "open", STK__TARGET_PARTS, err);
    remove_parts(target);
    return STK_OK;
}

void stk__target_close(stk__target *target)
{
    if (target->parts >= 0) {
        remove_parts(target);
        close(target->parts);
        stk__remove_folder(target->root, STK__TARGET_PARTS);
    }
    if (target->root >= 0 && target->made && !target->kept) {
        stk__remove_file(target->root, STK__TARGET_JOURNAL ".new");
        stk__remove_file(target->root, STK__TARGET_JOURNAL);
        stk__remove_folder_path(target->path);
    }
    if (target->root >= 0)
        close(target->root);
    target->root = target->parts = -1;
}

static void part_name(uint64_t number, char name[24])
{
    snprintf(name, 24, "%" PRIu64, number);
}

bool stk__target_put(int fd, const void *data, uint64_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t n = write(fd, at, STK_MIN(size, (uint64_t)1 << 30));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        size -= (uint64_t)n;
    }
    return true;
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

stk_status stk__target_write(const stk__target *target, uint64_t number, const void *data,
                             uint64_t size, bool check, stk_error *err)
{
    char name[24];
    stk_status status = STK_OK;

    part_name(number, name);
    int fd = openat(target->parts, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return stk__target_fail(target, "write a file into", target->path, err);
    if (!stk__target_put(fd, data, size))
        status = stk__target_fail(target, "write a file into", target->path, err);
    else if (check && !holds(fd, data, size))
        status = stk__fail_at(err, STK_EIO, STK_STAGE_CONVERT, target->path, STK_NO_OFFSET,
                              "what was read back from %.200s is not what was written; look at "
                              "its disk before you trust it",
                              target->path);
    /* The descriptor is gone also when a signal came; the sync that follows tells of the bytes. */
    if (close(fd) != 0 && errno != EINTR && status == STK_OK)
        status = stk__target_fail(target, "write a file into", target->path, err);
    if (status != STK_OK)
        stk__target_drop(target, number);
    return status;
}

void stk__target_drop(const stk__target *target, uint64_t number)
{
    char name[24];

    part_name(number, name);
    stk__remove_file(target->parts, name);
}

stk_status stk__target_sync(const stk__target *target, stk_error *err)
{
    return stk__sync_all(target->root) == 0
               ? STK_OK
               : stk__target_fail(target, "make safe what was written to", target->path, err);
}

/* ---- Names below the folder ------------------------------------------------------------------ */

/* Step into a folder, made where it is missing and `make`; a link is not followed. */
static int enter(int parent, const char *name, bool make)
{
    if (!stk__is_plain_name(name)) {
        errno = EINVAL;
        return -1;
    }
    int fd = openat(parent, name, FOLDER | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(parent, name, 0777) != 0 && errno != EEXIST)
        return -1;
    return openat(parent, name, FOLDER | O_NOFOLLOW);
}

/* Open the folder in which `name` lies; *last, within `path`, is what it is called there. -1:
 * errno. Every way from a name to a file of the target leads through here. */
static int open_folder(const stk__target *target, const char *name, bool make,
                       char path[STK_MAX_OBJECT_KEY], const char **last)
{
    char *at = path, *slash;

    if (snprintf(path, STK_MAX_OBJECT_KEY, "%s", name) >= STK_MAX_OBJECT_KEY ||
        strncmp(name, STK__TARGET_OWN, strlen(STK__TARGET_OWN)) == 0) {
        errno = EINVAL;
        return -1;
    }
    int fd = fcntl(target->root, F_DUPFD_CLOEXEC, 0);
    for (; fd >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
        *slash = 0;
        int inner = enter(fd, at, make), error = errno;
        close(fd);
        errno = error;
        fd = inner;
    }
    if (fd >= 0 && !stk__is_plain_name(at)) {
        close(fd);
        errno = EINVAL;
        fd = -1;
    }
    *last = at;
    return fd;
}

stk_status stk__target_name(stk__target *target, uint64_t number, const char *name, stk_error *err)
{
    char part[24], path[STK_MAX_OBJECT_KEY];
    const char *last;
    stk_status status = STK_OK;

    part_name(number, part);
    int fd = open_folder(target, name, true, path, &last);
    if (fd < 0)
        return stk__target_fail(target, "make the folder of", name, err);
    if (renameat(target->parts, part, fd, last) != 0)
        status = stk__target_fail(target, "give its name to", name, err);
    close(fd);
    target->kept |= status == STK_OK;
    return status;
}

static bool size_in(int folder, const char *name, uint64_t *size)
{
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    *size = (uint64_t)st.st_size;
    return true;
}

bool stk__target_size(const stk__target *target, const char *name, uint64_t *size)
{
    char path[STK_MAX_OBJECT_KEY];
    const char *last;

    int fd = open_folder(target, name, false, path, &last);
    if (fd < 0)
        return false;
    bool there = size_in(fd, last, size);
    close(fd);
    return there;
}

stk_status stk__target_remove(const stk__target *target, const char *name, uint64_t size,
                              stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    const char *last;
    uint64_t is;
    stk_status status = STK_OK;

    int fd = open_folder(target, name, false, path, &last);
    if (fd < 0)
        return STK_OK;
    if (size_in(fd, last, &is) && is == size && stk__remove_file(fd, last) != 0 && errno != ENOENT)
        status = stk__target_fail(target, "remove", name, err);
    close(fd);
    return status;
}

/* ---- Files of our own ------------------------------------------------------------------------ */

stk_status stk__target_remove_own(const stk__target *target, const char *name, stk_error *err)
{
    if (stk__remove_file(target->root, name) == 0 || errno == ENOENT)
        return STK_OK;
    return stk__target_fail(target, "remove", name, err);
}

int stk__target_open_own(const stk__target *target, const char *name, int flags)
{
    return openat(target->root, name, flags | O_CLOEXEC | O_NOFOLLOW, 0666);
}

stk_status stk__target_replace_own(const stk__target *target, const char *name, stk_error *err)
{
    char fresh[64];

    snprintf(fresh, sizeof fresh, "%s.new", name);
    if (renameat(target->root, fresh, target->root, name) != 0 || stk__sync(target->root) != 0)
        return stk__target_fail(target, "replace", name, err);
    return STK_OK;
}
