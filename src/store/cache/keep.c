/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was read below is written to the files of the cache by a thread, behind those who read it.
 * Reading never waits for it: where it has too much to do, blocks are not kept. Nothing is synced:
 * a block that a power cut took has no sum, or not its own.
 */
#include <errno.h>
#include <unistd.h>

#include "store/cache/reading.h"

#define MOST_JOBS 64                   /* fetches that wait to be kept: each has a descriptor */
#define BESIDE    (UINT64_C(16) << 10) /* bytes that a file takes beside its blocks, at most */
#define FULL_NS                                                                                    \
    UINT64_C(30000000000) /* after a write that failed nothing is written for so long              \
                           */

#define ASK_NS UINT64_C(10000000000) /* in which a store below says what version it has */

/* 0 or errno. */
static int write_all(int fd, const void *data, uint64_t length, uint64_t offset)
{
    const uint8_t *at = data;

    while (length) {
        const ssize_t n = pwrite(fd, at, length, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        at += n;
        offset += (uint64_t)n;
        length -= (uint64_t)n;
    }
    return 0;
}

bool stk__cache_file_has(int fd, uint64_t first, uint64_t count)
{
    uint64_t sums[STK__CACHE_LOOKED] = {0};

    if (count > STK__CACHE_LOOKED ||
        pread(fd, sums, count * 8, (off_t)(STK__CACHE_HEAD + first * 8)) != (ssize_t)(count * 8))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (sums[i])
            return true;
    return false;
}

/* The blocks first, then their sums. 0 or errno. */
static int write_blocks(const stk__cache_fetch *f)
{
    const stk__cache_place *p = &f->place;
    uint64_t sums[STK__CACHE_LOOKED];

    int error = stk__cache_file_begin(f->fd, p);
    if (!error)
        error = write_all(f->fd, f->buffer, f->bytes, p->data_at + f->first * p->block);
    if (error)
        return error;
    for (uint64_t i = 0; i < f->count; i++)
        sums[i] = stk__cache_sum(p, f->first + i, f->buffer + i * p->block);
    return write_all(f->fd, sums, f->count * 8, STK__CACHE_HEAD + f->first * 8);
}

/*
 * Whether the bytes are of the version that they are kept as: which the answer said, or, where the
 * store below does not say that, as it is still there after they were read.
 */
static bool is_version(stk__cache_store *store, const stk__cache_fetch *f)
{
    const stk_store_call call = {
        .struct_size = sizeof call, .deadline_ns = stk__now_ns() + ASK_NS, .bare = true};
    stk_object_info info = {.struct_size = sizeof info};

    if (f->answered)
        return true;
    if (stk_store_stat(store->inner, f->key, &call, &info, NULL) != STK_OK)
        return false;
    const bool same = info.identity == f->place.identity && info.size == f->place.size;
    if (!same)
        stk__cache_forget_version(store, f->key_hash, &f->place);
    return same;
}

void stk__cache_not_begun(const stk__cache_fetch *f)
{
    struct stat st;

    if (f->fd >= 0 && fstat(f->fd, &st) == 0 && st.st_size == 0 && st.st_nlink == 1)
        stk__cache_file_remove(&f->store->room, f->place.name);
}

static void keep(stk__cache_store *store, stk__cache_fetch *f)
{
    stk__cache_room *room = &store->room;
    struct stat before, after;

    if (!is_version(store, f) || fstat(f->fd, &before) < 0 || before.st_nlink == 0 ||
        stk__now_ns() < store->full_ns || !stk__cache_room_take(room, f->bytes + BESIDE)) {
        atomic_fetch_add(&store->stats.not_kept, f->bytes);
        stk__cache_not_begun(f);
        return;
    }
    const int error = write_blocks(f);
    if (fstat(f->fd, &after) == 0 && after.st_blocks > before.st_blocks)
        stk__cache_room_charge(room,
                               stk__cache_file_bytes(&after) - stk__cache_file_bytes(&before));
    atomic_fetch_add(error ? &store->stats.not_kept : &store->stats.kept, f->bytes);
    if (!error || error == EAGAIN)
        return;
    stk__cache_room_warn(room, "write a file", error);
    store->full_ns = stk__now_ns() + FULL_NS;
}

static void keep_all(void *user)
{
    stk__cache_store *store = user;

    stk__thread_background();
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        while (!store->first_job && !store->stopping)
            pthread_cond_wait(&store->work, &store->mutex);
        stk__cache_fetch *f = store->first_job;
        if (!f)
            break;
        store->first_job = f->next_job;
        store->num_jobs--;
        pthread_mutex_unlock(&store->mutex);
        keep(store, f);
        stk__cache_fetch_unref(f);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
}

bool stk__cache_keep_locked(stk__cache_fetch *f)
{
    stk__cache_store *store = f->store;

    if (store->num_jobs == MOST_JOBS || store->stopping)
        return false;
    f->next_job = NULL;
    *(store->first_job ? &store->last_job->next_job : &store->first_job) = f;
    store->last_job = f;
    store->num_jobs++;
    pthread_cond_signal(&store->work);
    return true;
}

bool stk__cache_keeper_start(stk__cache_store *store)
{
    pthread_mutex_lock(&store->mutex);
    const bool started =
        !store->stopping &&
        (store->keeper.started || stk__thread_start(store->base.context, &store->keeper,
                                                    "stk-cache", keep_all, store, NULL) == STK_OK);
    pthread_mutex_unlock(&store->mutex);
    return started;
}

/* What waits to be kept is kept first. */
void stk__cache_keeper_end(stk__cache_store *store)
{
    pthread_mutex_lock(&store->mutex);
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->mutex);
    stk__thread_join(&store->keeper);
}
