/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files of the file store by key, least recently used first to go. Files in use are pinned.
 * When the process has no descriptor left, idle ones are closed and fewer are kept from then on;
 * when all that are left are in use, the read waits until one is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include "store/file.h"
#include "store/url.h"

#define MIN_OPEN    4
#define CLOSE_BATCH 8 /* idle files closed at once when descriptors have run out */

void stk__file_cache_init(stk__file_store *store)
{
    struct rlimit limit;

    store->limit = STK__FILE_MAX_OPEN;
    /* A quarter of what the process may have: others need descriptors too. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < STK__FILE_MAX_OPEN)
        store->limit = STK_MAX((uint32_t)(limit.rlim_cur / 4), MIN_OPEN);
    for (size_t i = STK__FILE_MAX_OPEN; i-- > 0;) {
        store->entries[i].fd = -1;
        store->entries[i].older = store->free_entries;
        store->free_entries = &store->entries[i];
    }
}

void stk__file_cache_release(stk__file_store *store)
{
    for (size_t i = 0; i < STK__FILE_MAX_OPEN; i++) {
        if (store->entries[i].fd >= 0)
            close(store->entries[i].fd);
        stk__free(store->base.context, store->entries[i].key);
    }
}

static uint64_t hash_of(const char *key)
{
    return XXH3_64bits(key, strlen(key));
}

static void link_newest(stk__file_store *store, stk__file_entry *entry)
{
    entry->newer = NULL;
    entry->older = store->newest;
    if (store->newest)
        store->newest->newer = entry;
    else
        store->oldest = entry;
    store->newest = entry;
}

static void unlink_use(stk__file_store *store, stk__file_entry *entry)
{
    if (entry->newer)
        entry->newer->older = entry->older;
    else
        store->newest = entry->older;
    if (entry->older)
        entry->older->newer = entry->newer;
    else
        store->oldest = entry->newer;
}

static stk__file_entry *find_locked(stk__file_store *store, const char *key, uint64_t hash)
{
    stk__file_entry *entry = store->buckets[hash % STK__FILE_BUCKETS];

    while (entry && (entry->hash != hash || strcmp(entry->key, key) != 0))
        entry = entry->next;
    return entry;
}

static void list_locked(stk__file_store *store, stk__file_entry *entry)
{
    stk__file_entry **bucket = &store->buckets[entry->hash % STK__FILE_BUCKETS];

    entry->next = *bucket;
    *bucket = entry;
    entry->listed = true;
    link_newest(store, entry);
}

static void unlist_locked(stk__file_store *store, stk__file_entry *entry)
{
    stk__file_entry **at = &store->buckets[entry->hash % STK__FILE_BUCKETS];

    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    entry->listed = false;
    unlink_use(store, entry);
}

static void pin_locked(stk__file_store *store, stk__file_entry *entry)
{
    if (entry->pins++ == 0)
        store->num_idle--;
    if (store->newest != entry) {
        unlink_use(store, entry);
        link_newest(store, entry);
    }
}

/* Give an unlisted entry back; returns its descriptor, to be closed. */
static int free_locked(stk__file_store *store, stk__file_entry *entry)
{
    int fd = entry->fd;

    entry->fd = -1;
    entry->pins = 0;
    entry->older = store->free_entries;
    store->free_entries = entry;
    store->num_used--;
    return fd;
}

int stk__file_drop_locked(stk__file_store *store, stk__file_entry *entry)
{
    if (--entry->pins > 0)
        return -1;
    if (!entry->listed)
        return free_locked(store, entry);
    store->num_idle++;
    return -1;
}

bool stk__file_available_locked(const stk__file_store *store)
{
    return store->num_idle > 0 || store->num_used < store->limit;
}

/* Take the idle file used longest ago out; returns its descriptor, or -1 when none is idle. */
static int evict_locked(stk__file_store *store)
{
    stk__file_entry *entry = store->oldest;

    if (store->num_idle == 0)
        return -1;
    while (entry->pins)
        entry = entry->newer;
    unlist_locked(store, entry);
    store->num_idle--;
    return free_locked(store, entry);
}

/* Close some idle files after descriptors ran out, and keep fewer from now on. False: none was
 * idle. */
static bool give_up_idle(stk__file_store *store)
{
    int fds[CLOSE_BATCH];
    size_t n = 0;

    pthread_mutex_lock(&store->mutex);
    while (n < CLOSE_BATCH && (fds[n] = evict_locked(store)) >= 0)
        n++;
    store->limit = STK_MAX(STK_MIN(store->limit, store->num_used), 1u);
    pthread_mutex_unlock(&store->mutex);
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    return n > 0;
}

static void wait_locked(stk__file_store *store, stk_read *read)
{
    read->driver[1] = NULL;
    read->driver[2] = store; /* marks it as waiting */
    if (store->last_waiting)
        store->last_waiting->driver[1] = read;
    else
        store->waiting = read;
    store->last_waiting = read;
    atomic_fetch_add(&store->num_waiting, 1);
}

/*
 * Open a regular file. O_NONBLOCK keeps a FIFO from waiting for its writer; it is taken off again,
 * since io_uring would otherwise fail a read rather than wait for it. Returns 0, an errno, or -1
 * for something that is not a file.
 */
static int open_regular(const stk__file_store *store, const char *key, int *fd, struct stat *st)
{
    do
        *fd = stk__file_open_below(&store->base, key, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0)
        return errno == ENXIO ? -1 : errno;
    int error = fstat(*fd, st) < 0 ? errno : 0;
    if (!error && !S_ISREG(st->st_mode))
        error = S_ISDIR(st->st_mode) ? EISDIR : -1;
    if (!error && fcntl(*fd, F_SETFL, 0) < 0)
        error = errno;
    if (!error)
        return 0;
    close(*fd);
    *fd = -1;
    return error;
}

/* Open the file of a reserved entry. No lock is held: the entry is this thread's alone until it is
 * listed. */
static int fill_entry(stk__file_store *store, stk__file_entry *entry, const char *key,
                      uint64_t hash)
{
    size_t length = strlen(key) + 1;
    struct stat st;

    if (length > entry->key_room) {
        size_t room = (size_t)stk__round_up(length, 64);
        char *grown = stk__realloc(store->base.context, entry->key, room);
        if (!grown)
            return ENOMEM;
        entry->key = grown;
        entry->key_room = room;
    }
    memcpy(entry->key, key, length);
    entry->hash = hash;
    atomic_store_explicit(&entry->mode, STK__FILE_NOWAIT, memory_order_relaxed);
    int error = open_regular(store, key, &entry->fd, &st);
    if (!error) {
        entry->device = st.st_dev;
        entry->inode = st.st_ino;
    }
    return error;
}

/*
 * Get an entry to open a file with, or have the read wait for one. `fd` is to be closed by the
 * caller if it is not negative. Called and returns with the mutex held.
 */
static stk__file_entry *reserve_locked(stk__file_store *store, stk_read *read, int *fd)
{
    *fd = -1;
    if (store->num_used >= store->limit && (*fd = evict_locked(store)) < 0) {
        wait_locked(store, read);
        return NULL;
    }
    stk__file_entry *entry = store->free_entries;
    store->free_entries = entry->older;
    entry->pins = 1;
    entry->listed = false;
    store->num_used++;
    return entry;
}

/* After opening failed: tells whether to try again, wait (STK_EAGAIN), or fail. */
static stk_status after_failure(stk__file_store *store, stk_read *read, stk__file_entry *entry,
                                int error, bool *again)
{
    bool out_of_fds = error == EMFILE || error == ENFILE;
    stk_status status = error < 0 ? STK_EKIND : stk__aio_status(error);

    *again = false;
    pthread_mutex_lock(&store->mutex);
    free_locked(store, entry);
    pthread_mutex_unlock(&store->mutex);
    if (!out_of_fds)
        return status;
    if (give_up_idle(store)) {
        *again = true;
        return STK_OK;
    }
    pthread_mutex_lock(&store->mutex);
    if (store->num_idle > 0) {
        *again = true;
        status = STK_OK;
    } else if (store->num_used > 0) {
        wait_locked(store, read);
        status = STK_EAGAIN;
    }
    pthread_mutex_unlock(&store->mutex);
    return status;
}

stk_status stk__file_take(stk__file_store *store, stk_read *read, stk__file_entry **out,
                          int *system_error)
{
    const char *key = read->key;

    pthread_mutex_lock(&store->mutex);
    /* Neither under way nor waiting: a cancel() that comes already now finds nothing. */
    read->driver[0] = read->driver[2] = NULL;
    stk__file_entry *entry = store->newest;
    if (entry && strcmp(entry->key, key) == 0) {
        pin_locked(store, entry);
        pthread_mutex_unlock(&store->mutex);
        *out = entry;
        return STK_OK;
    }
    uint64_t hash = hash_of(key);
    for (;;) {
        int old = -1;
        if ((entry = find_locked(store, key, hash)))
            pin_locked(store, entry);
        stk__file_entry *reserved = entry ? NULL : reserve_locked(store, read, &old);
        pthread_mutex_unlock(&store->mutex);
        if (old >= 0)
            close(old);
        *out = entry;
        if (entry)
            return STK_OK;
        if (!reserved)
            return STK_EAGAIN;

        bool again = false;
        int error = key[0] && stk__key_check(key, NULL) == STK_OK ? 0 : EINVAL;
        if (!error)
            error = fill_entry(store, reserved, key, hash);
        if (error) {
            *system_error = error > 0 ? error : 0;
            stk_status status = after_failure(store, read, reserved, error, &again);
            if (!again)
                return status;
            pthread_mutex_lock(&store->mutex);
            continue;
        }
        pthread_mutex_lock(&store->mutex);
        if (!(entry = find_locked(store, key, hash))) {
            list_locked(store, reserved);
            pthread_mutex_unlock(&store->mutex);
            *out = reserved;
            return STK_OK;
        }
        /* Another thread was faster; its descriptor serves both. */
        pin_locked(store, entry);
        int spare = free_locked(store, reserved);
        pthread_mutex_unlock(&store->mutex);
        close(spare);
        *out = entry;
        return STK_OK;
    }
}

stk__file_entry *stk__file_take_open(stk__file_store *store, const char *key)
{
    pthread_mutex_lock(&store->mutex);
    stk__file_entry *entry = store->newest;
    if (entry && strcmp(entry->key, key) != 0)
        entry = find_locked(store, key, hash_of(key));
    if (entry)
        pin_locked(store, entry);
    pthread_mutex_unlock(&store->mutex);
    return entry;
}

void stk__file_forget(stk__file_store *store, const char *key, const struct stat *st)
{
    uint64_t hash = hash_of(key);
    int fd = -1;

    pthread_mutex_lock(&store->mutex);
    stk__file_entry *entry = find_locked(store, key, hash);
    if (entry && !(st && st->st_dev == entry->device && st->st_ino == entry->inode)) {
        unlist_locked(store, entry);
        if (entry->pins == 0) {
            store->num_idle--;
            fd = free_locked(store, entry);
        }
    }
    pthread_mutex_unlock(&store->mutex);
    if (fd >= 0)
        close(fd);
}

bool stk__file_try_again(stk__file_store *store, int error)
{
    return error == EINTR || ((error == EMFILE || error == ENFILE) && give_up_idle(store));
}

int stk__file_open_key(stk__file_store *store, const char *key, int flags)
{
    int fd;

    do
        fd = stk__file_open_below(&store->base, key, flags);
    while (fd < 0 && stk__file_try_again(store, errno));
    return fd;
}
