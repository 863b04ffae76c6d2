/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a folder: stat, list, and mapping of whole files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/beneath.h"
#include "base/files.h"
#include "store/file.h"
#include "store/url.h"

struct stk__file_map {
    stk__file_map *next; /* in its bucket */
    void *data;
    uint64_t size, length; /* of the file; of the mapping with its tail */
    char key[];
};

stk_status stk__file_fail(const stk__file_store *store, stk_error *err, const char *what,
                          const char *key, int system_error)
{
    const bool limit = system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG ||
                       system_error == EMFILE || system_error == ENFILE;
    const char *reason = strerrordesc_np(system_error);

    if (system_error == EXDEV && store)
        return stk__beneath_fail(store->root, key, STK_STAGE_STORE, err);
    return stk__fail_at(err, stk__aio_status(system_error), STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "cannot %s '%.300s': %s%s", what, key, reason ? reason : "unknown error",
                        limit ? stk__remedy_of_errno(system_error) : "");
}

int stk__file_root(const stk_store *store)
{
    return store->ops == &stk__store_file ? ((const stk__file_store *)store)->root : -1;
}

bool stk__file_follows(const stk_store *store)
{
    return store->ops == &stk__store_file && ((const stk__file_store *)store)->follow;
}

void stk__file_follow(stk_store *store)
{
    if (store->ops == &stk__store_file)
        ((stk__file_store *)store)->follow = true;
}

stk_status stk__file_name(stk_store *base, const char *key, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;

    if (base->ops != &stk__store_file)
        return STK_OK;
    store->named = stk__strdup(base->context, key);
    if (store->named)
        return STK_OK;
    return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", key);
}

/* The object that the URL named is the caller's choice, wherever it leads; all other names come
 * from what is read. */
static bool may_lead_out(const stk__file_store *store, const char *path)
{
    return store->follow || (store->named && strcmp(path, store->named) == 0);
}

int stk__file_open_below(const stk_store *base, const char *path, int flags)
{
    const stk__file_store *store = (const stk__file_store *)base;

    if (may_lead_out(store, path))
        return openat(store->root, path[0] ? path : ".", flags | O_CLOEXEC);
    return stk__open_beneath(store->root, path, flags, 0);
}

int stk__file_stat_below(const stk_store *base, const char *path, struct stat *st)
{
    const stk__file_store *store = (const stk__file_store *)base;

    if (may_lead_out(store, path))
        return fstatat(store->root, path, st, AT_EMPTY_PATH);
    return stk__stat_beneath(store->root, path, st);
}

uint64_t stk__file_identity(const struct stat *st)
{
    const uint64_t parts[3] = {
        (uint64_t)st->st_size,
        (uint64_t)((int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec),
        (uint64_t)st->st_ino};

    return XXH3_64bits(parts, sizeof parts);
}

/* Fill what is known of a file or folder; false for anything else. */
static bool describe(const struct stat *st, stk_object_info *out)
{
    out->is_folder = S_ISDIR(st->st_mode);
    out->size = out->is_folder ? 0 : (uint64_t)st->st_size;
    out->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    out->identity = stk__file_identity(st);
    return out->is_folder || S_ISREG(st->st_mode);
}

stk_status stk__file_stat(stk_store *base, const char *key, const stk_store_call *call,
                          stk_object_info *out, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;
    struct stat st;

    STK_TRY(stk__key_check(key, err));
    if (stk__file_stat_below(base, key, &st) < 0) {
        int error = errno;
        stk__file_forget(store, key, NULL);
        if (error == ENOENT || error == ENOTDIR)
            return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                                "'%.300s' does not exist; check its name", key);
        return stk__file_fail(store, err, "look at", key, error);
    }
    /* A file that was replaced under its name is opened anew by the next read. */
    stk__file_forget(store, key, &st);
    if (!describe(&st, out))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "'%.300s' is neither a file nor a folder, and cannot be read", key);
    return STK_OK;
}

/* One entry of a folder: STK_OK also for what is passed over. */
static stk_status list_one(const stk__file_store *store, int folder, const char *prefix,
                           const char *name, stk_list_fn *each, void *user, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_object_info info = {.struct_size = sizeof info};
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || stk__is_temporary(name))
        return STK_OK;
    int n = snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, prefix, STK_NO_OFFSET,
                            "the folder '%.200s' holds a path that is longer than %d bytes", prefix,
                            STK_MAX_OBJECT_KEY - 1);
    int looked = fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW);
    if (looked == 0 && S_ISLNK(st.st_mode))
        looked = stk__file_stat_below(&store->base, key, &st);
    if (looked < 0) {
        /* Gone meanwhile, or a link to nowhere: there is nothing to read. */
        if (errno == ENOENT || errno == ELOOP)
            return STK_OK;
        return stk__file_fail(store, err, "look at", key, errno);
    }
    return describe(&st, &info) ? each(user, key, &info) : STK_OK;
}

stk_status stk__file_list(stk_store *base, const char *prefix, const stk_store_call *call,
                          stk_list_fn *each, void *user, stk_error *err)
{
    stk__file_store *store = (stk__file_store *)base;
    char folder_key[STK_MAX_OBJECT_KEY];
    struct dirent *entry;
    stk_status status;

    STK_TRY(stk__key_check(prefix, err));
    size_t length = strlen(prefix);
    while (length > 0 && prefix[length - 1] == '/')
        length--;
    memcpy(folder_key, prefix, length);
    folder_key[length] = 0;
    int fd = stk__file_open_key(store, folder_key, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return stk__file_fail(store, err, "list", folder_key, errno);
    DIR *folder = fdopendir(fd);
    if (!folder) {
        status = stk__file_fail(store, err, "list", folder_key, errno);
        close(fd);
        return status;
    }
    do {
        errno = 0;
        entry = readdir(folder);
        if (entry)
            status = list_one(store, fd, folder_key, entry->d_name, each, user, err);
        else
            status = errno ? stk__file_fail(store, err, "list", folder_key, errno) : STK_OK;
    } while (entry && status == STK_OK);
    closedir(folder);
    return status;
}

/* ---- Mapping ---- */

/*
 * Map a file with readable bytes behind its end: memory is reserved first and the file laid over
 * its beginning. Hazard, and why this is never done unasked: when the file is truncated meanwhile,
 * touching the lost pages ends the process with SIGBUS.
 */
static stk_status map_file(stk__file_store *store, const char *key, stk__file_map *map)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct stat st;
    stk_status status = STK_OK;

    int fd = stk__file_open_key(store, key, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return stk__aio_status(errno);
    if (fstat(fd, &st) < 0) {
        status = stk__aio_status(errno);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        status = STK_ENOTSUP;
        goto out;
    }
    map->size = (uint64_t)st.st_size;
    map->length = stk__round_up(map->size + STK_TAIL, page);
    map->data =
        mmap(NULL, map->length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map->data == MAP_FAILED) {
        status = STK_ENOMEM;
        goto out;
    }
    if (map->size &&
        mmap(map->data, map->size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        status = stk__aio_status(errno);
        munmap(map->data, map->length);
    }
out:
    close(fd);
    return status;
}

static stk__file_map *find_map_locked(stk__file_store *store, const char *key, uint64_t hash)
{
    stk__file_map *map = store->maps[hash % STK__FILE_BUCKETS];

    while (map && strcmp(map->key, key) != 0)
        map = map->next;
    return map;
}

stk_status stk__file_map_object(stk_store *base, const char *key, const void **data, uint64_t *size)
{
    stk__file_store *store = (stk__file_store *)base;

    if (!store->mapping)
        return STK_ENOTSUP;
    STK_TRY(stk__key_check(key, NULL));
    size_t length = strlen(key) + 1;
    uint64_t hash = XXH3_64bits(key, length);
    pthread_mutex_lock(&store->mutex);
    stk__file_map *map = find_map_locked(store, key, hash);
    pthread_mutex_unlock(&store->mutex);
    if (!map) {
        stk__file_map *made = stk__alloc(base->context, sizeof *made + length);
        if (!made)
            return STK_ENOMEM;
        memcpy(made->key, key, length);
        stk_status status = map_file(store, key, made);
        if (status != STK_OK) {
            stk__free(base->context, made);
            return status;
        }
        pthread_mutex_lock(&store->mutex);
        map = find_map_locked(store, key, hash);
        if (!map) {
            map = made;
            made = NULL;
            map->next = store->maps[hash % STK__FILE_BUCKETS];
            store->maps[hash % STK__FILE_BUCKETS] = map;
        }
        pthread_mutex_unlock(&store->mutex);
        if (made) {
            munmap(made->data, made->length);
            stk__free(base->context, made);
        }
    }
    *data = map->data;
    *size = map->size;
    return STK_OK;
}

void stk__file_unmap_all(stk__file_store *store)
{
    for (size_t i = 0; i < STK__FILE_BUCKETS; i++) {
        for (stk__file_map *map = store->maps[i], *next; map; map = next) {
            next = map->next;
            munmap(map->data, map->length);
            stk__free(store->base.context, map);
        }
    }
}
