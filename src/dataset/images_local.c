/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of a local store and what is in them; nothing outside of the store's folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/beneath.h"
#include "dataset/images.h"

stk_status stk__images_system_fail(const stk_store *store, stk_error *err, const char *verb,
                                   const char *path, int error)
{
    const char *reason = strerrordesc_np(error);

    if (error == EXDEV)
        return stk__beneath_fail(stk__file_root(store), path, STK_STAGE_DATASET, err);
    return stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_DATASET, path, STK_NO_OFFSET,
                        "images: cannot %s '%.300s': %s", verb, path[0] ? path : ".",
                        reason ? reason : "unknown error");
}

stk_status stk__images_open_folder(const stk_store *store, const char *path, int *fd,
                                   stk__images_folder *out, uint64_t *device, stk_error *err)
{
    struct stat st;

    do
        *fd = stk__file_open_below(store, path, O_RDONLY | O_DIRECTORY);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0)
        return stk__images_system_fail(store, err, "list the folder", path, errno);
    if (fstat(*fd, &st) < 0) {
        int error = errno;
        close(*fd);
        *fd = -1;
        return stk__images_system_fail(store, err, "look at the folder", path, error);
    }
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    out->inode = st.st_ino;
    *device = st.st_dev;
    return STK_OK;
}

int stk__images_look_at(const stk_store *store, int folder, const char *name, const char *key,
                        struct stat *st)
{
    /* The names of a list are paths, and each part of one may be a link. */
    if (!strchr(name, '/')) {
        int result = fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW);
        if (result < 0 || !S_ISLNK(st->st_mode))
            return result;
    }
    return stk__file_stat_below(store, key, st);
}

stk_status stk__images_read_folder(int fd, const char *path, stk__images_entry_fn *each, void *user,
                                   uint64_t *entries, stk_error *err)
{
    stk_status status = STK_OK;

    *entries = 0;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int error = errno;
        close(fd);
        return stk__images_system_fail(NULL, err, "list the folder", path, error);
    }
    while (status == STK_OK) {
        errno = 0;
        const struct dirent *e = readdir(folder);
        if (!e) {
            if (errno)
                status = stk__images_system_fail(NULL, err, "list the folder", path, errno);
            break;
        }
        if (e->d_name[0] == '.')
            continue;
        /* A sum, since the order of entries means nothing. */
        *entries += XXH3_64bits_withSeed(e->d_name, strlen(e->d_name), e->d_ino);
        if (each)
            status = each(user, fd, e->d_name, e->d_type);
    }
    closedir(folder);
    return status;
}
