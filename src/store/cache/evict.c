/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes when a cache is full.
 *
 * Training reads a dataset in another order each epoch, and each sample once in an epoch. What was
 * read last is then what is needed last, so the usual rule, that the least recently used goes,
 * keeps what was just read and drops what is needed next: of a dataset twice as large as the cache
 * an eighth of the reads hit, and in the same order every epoch none. All that was read in an epoch
 * is as likely to be needed early in the next as anything else of it. So nothing of a store that is
 * open goes for another object of the same store: what came first stays, half of the reads hit, and
 * nothing is written in vain. What goes is, in this order,
 *
 *   1. older versions of objects;
 *   2. what was kept for stores that nobody has open, of the store that was open least recently;
 *   3. of this store, what was not used for rounds in which all else was read twice at least;
 *   4. of other open stores, what is more than an equal share of the cache, as long as this store
 *      has less than that.
 *
 * A cache may have a million files, so no eviction looks at all of them. A store has 256 folders,
 * among which hashes spread its files evenly: an eviction begins at the folder at which the last
 * one ended, looks at no more than so many files in vain, and takes what a store has from a sample
 * of its folders. What is used is then known a little too high: it is counted anew (room.c) when
 * that may be too much.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/cache/room.h"

#define BATCH   32    /* one part in so many of a cache goes at a time, */
#define MOST    4096  /* but no more files than that, unless they are needed */
#define LOOKS   20000 /* files that one eviction looks at, or passes over, for one reason */
#define SAMPLE  1024  /* files by which it is estimated what stores have */
#define SMALL   24576 /* bytes of a file whose map takes no block of its own */
#define FOLDERS 256   /* of a store */

/* The folder of a store in the cache. */
typedef struct kept_store {
    uint64_t store, bytes; /* `bytes`: an estimate */
    int64_t used_ns;       /* when it was opened or closed last */
    bool open;
} kept_store;

/* A file of one of its folders. */
typedef struct kept_file {
    XXH128_hash_t key;
    int64_t mtime_ns;
    uint64_t bytes;
    char name[56];
} kept_file;

typedef struct evicting {
    stk__cache_room *room;
    kept_store *stores;
    size_t num_stores, stores_room;
    kept_file *files; /* of one folder */
    size_t num_files, files_room;
    uint64_t excess; /* bytes that have to go, */
    uint64_t batch;  /* and those that may go with them */
    uint64_t gone, files_gone;
    uint64_t map;    /* of `gone`, what may not have been charged */
    uint64_t looked; /* at files, for the reason at hand */
    uint64_t counted;
} evicting;

/* ---- Walking --------------------------------------------------------------------------------- */

/* Called for each name in a folder, which is open as `folder`. */
typedef void entry_fn(evicting *e, int folder, const char *name, void *user);

static void each_entry(evicting *e, int above, const char *name, entry_fn *each, void *user)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

    if (!folder) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            each(e, fd, entry->d_name, user);
    closedir(folder);
}

static bool look(int folder, const char *name, uint64_t *bytes, int64_t *mtime_ns)
{
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return false;
    *bytes = stk__cache_file_bytes(&st);
    *mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return true;
}

static void count_file(evicting *e, int folder, const char *name, void *user)
{
    uint64_t bytes;
    int64_t mtime_ns;

    if (!look(folder, name, &bytes, &mtime_ns))
        return;
    *(uint64_t *)user += bytes;
    e->counted++;
}

static void count_folder(evicting *e, int folder, const char *name, void *user)
{
    each_entry(e, folder, name, count_file, user);
}

static bool is_store(const char *name, uint64_t *store)
{
    char *end;

    *store = strtoull(name, &end, 16);
    return strlen(name) == 16 && !*end;
}

static void count_store(evicting *e, int folder, const char *name, void *user)
{
    uint64_t store;

    if (is_store(name, &store))
        each_entry(e, folder, name, count_folder, user);
}

static void note_store(evicting *e, int folder, const char *name, void *user)
{
    kept_store store = {0}, *more;
    struct stat st;

    (void)user;
    if (!is_store(name, &store.store) || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    store.open = stk__cache_store_open(e->room, store.store);
    store.used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    more = stk__grow(e->room->ctx, e->stores, &e->stores_room, e->num_stores + 1, sizeof *more);
    if (!more)
        return;
    e->stores = more;
    e->stores[e->num_stores++] = store;
}

/* One of the folders of a store. -1: it has none of this number. */
static int open_folder(const evicting *e, uint64_t store, unsigned number)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char name[20], folder[4];

    snprintf(name, sizeof name, "%016llx", (unsigned long long)store);
    snprintf(folder, sizeof folder, "%02x", number % FOLDERS);
    const int above = openat(e->room->folder, name, flags);
    const int fd = above >= 0 ? openat(above, folder, flags) : -1;
    if (above >= 0)
        close(above);
    return fd;
}

static void in_folder(evicting *e, uint64_t store, unsigned number, entry_fn *each, void *user)
{
    const int fd = open_folder(e, store, number);

    if (fd < 0)
        return;
    each_entry(e, fd, ".", each, user);
    close(fd);
}

/* ---- Evicting -------------------------------------------------------------------------------- */

static bool enough(const evicting *e)
{
    return e->gone >= e->excess && (e->gone >= e->excess + e->batch || e->files_gone >= MOST);
}

static void evict(evicting *e, int folder, const char *name, uint64_t bytes)
{
    stk__cache_file_drop(folder, name);
    atomic_fetch_add(&e->room->evicted, 1);
    e->gone += bytes;
    e->files_gone++;
    /* The map of few pieces lies in the inode. */
    e->map += bytes > SMALL ? 4096 + bytes / 256 : 0;
    e->looked = 0;
}

static void note_file(evicting *e, int folder, const char *name, void *user)
{
    kept_file file = {0}, *more;
    uint64_t identity;

    (void)folder, (void)user;
    e->looked++;
    if (!stk__cache_name_parse(name, &file.key, &identity))
        return;
    memcpy(file.name, name, STK_MIN(strlen(name), sizeof file.name - 1));
    more = stk__grow(e->room->ctx, e->files, &e->files_room, e->num_files + 1, sizeof *more);
    if (!more)
        return;
    e->files = more;
    e->files[e->num_files++] = file;
}

static int by_key(const void *a, const void *b)
{
    const kept_file *x = a, *y = b;

    return memcmp(&x->key, &y->key, sizeof x->key);
}

/* Of each object of a folder but the version that was used last. */
static void evict_old(evicting *e, uint64_t store, unsigned number)
{
    const int folder = open_folder(e, store, number);

    if (folder < 0)
        return;
    e->num_files = 0;
    each_entry(e, folder, ".", note_file, NULL);
    if (e->num_files)
        qsort(e->files, e->num_files, sizeof *e->files, by_key);
    for (size_t i = 1; i < e->num_files; i++) {
        kept_file *x = &e->files[i - 1], *y = &e->files[i];
        if (!XXH128_isEqual(x->key, y->key) || !look(folder, x->name, &x->bytes, &x->mtime_ns) ||
            !look(folder, y->name, &y->bytes, &y->mtime_ns))
            continue;
        /* The newer one is looked at with the next. */
        if (x->mtime_ns > y->mtime_ns) {
            const kept_file newer = *x;
            *x = *y;
            *y = newer;
        }
        evict(e, folder, x->name, x->bytes);
    }
    close(folder);
}

static void evict_file(evicting *e, int folder, const char *name, void *user)
{
    uint64_t bytes;
    int64_t mtime_ns;

    (void)user;
    if (!enough(e) && look(folder, name, &bytes, &mtime_ns))
        evict(e, folder, name, bytes);
}

static void evict_unused(evicting *e, int folder, const char *name, void *user)
{
    uint64_t bytes;
    int64_t mtime_ns;

    (void)user;
    e->looked++;
    if (!enough(e) && look(folder, name, &bytes, &mtime_ns) &&
        mtime_ns < atomic_load(&e->room->unused_ns))
        evict(e, folder, name, bytes);
}

/* Go on through the folders of a store, from the one at which this opening is. */
static void evict_of(evicting *e, uint64_t store, entry_fn *each)
{
    e->looked = 0;
    for (unsigned i = 0; i < FOLDERS && !enough(e) && e->looked < LOOKS; i++)
        in_folder(e, store, e->room->at_folder++, each, NULL);
}

static void evict_versions(evicting *e)
{
    e->looked = 0;
    for (unsigned i = 0; i < FOLDERS && !enough(e) && e->looked < LOOKS; i++) {
        for (size_t k = 0; k < e->num_stores; k++)
            evict_old(e, e->stores[k].store, e->room->at_version);
        e->room->at_version++;
    }
}

/* Closed ones first, of those that which was open least recently. */
static int by_use(const void *a, const void *b)
{
    const kept_store *x = a, *y = b;

    if (x->open != y->open)
        return x->open - y->open;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/* What each store has, by some of its folders. */
static void estimate(evicting *e)
{
    unsigned folders = 0;

    for (e->counted = 0; folders < FOLDERS && e->counted < SAMPLE; folders++)
        for (size_t k = 0; k < e->num_stores; k++)
            in_folder(e, e->stores[k].store, e->room->at_folder + folders, count_file,
                      &e->stores[k].bytes);
    for (size_t k = 0; k < e->num_stores; k++)
        e->stores[k].bytes = e->stores[k].bytes / folders * FOLDERS;
}

/* What other open stores have beyond their share, as far as this one lacks of its own. */
static void evict_shares(evicting *e)
{
    const stk__cache_room *room = e->room;
    uint64_t open = 1, own = 0;

    for (size_t i = 0; i < e->num_stores; i++)
        open += e->stores[i].open && e->stores[i].store != room->store;
    if (open == 1)
        return;
    estimate(e);
    for (size_t i = 0; i < e->num_stores; i++)
        own += e->stores[i].store == room->store ? e->stores[i].bytes : 0;
    const uint64_t share = room->size / open;
    uint64_t missing = share - STK_MIN(own, share);
    for (size_t i = 0; i < e->num_stores && missing && !enough(e); i++) {
        const kept_store *store = &e->stores[i];
        const uint64_t wanted = e->excess, before = e->gone, batch = e->batch;
        if (!store->open || store->store == room->store || store->bytes <= share)
            continue;
        const uint64_t most = STK_MIN(missing, store->bytes - share);
        e->excess = STK_MIN(wanted, before + most);
        e->batch = STK_MIN(batch, before + most - e->excess);
        evict_of(e, store->store, evict_file);
        missing -= STK_MIN(missing, e->gone - before);
        e->excess = wanted;
        e->batch = batch;
    }
}

uint64_t stk__cache_evict(stk__cache_room *room, uint64_t excess, uint64_t *map)
{
    evicting e = {.room = room, .excess = excess, .batch = room->size / BATCH};

    each_entry(&e, room->folder, ".", note_store, NULL);
    if (e.num_stores) {
        evict_versions(&e);
        qsort(e.stores, e.num_stores, sizeof *e.stores, by_use);
        for (size_t i = 0; i < e.num_stores && !e.stores[i].open && !enough(&e); i++)
            evict_of(&e, e.stores[i].store, evict_file);
        if (!enough(&e))
            evict_of(&e, room->store, evict_unused);
        if (!enough(&e))
            evict_shares(&e);
    }
    stk__free(room->ctx, e.stores);
    stk__free(room->ctx, e.files);
    *map = e.map;
    return e.gone;
}

uint64_t stk__cache_count(stk__cache_room *room)
{
    evicting e = {.room = room};
    uint64_t used = 0;

    each_entry(&e, room->folder, ".", count_store, &used);
    return used;
}
