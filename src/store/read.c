/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a range and waiting for it: a fetcher of one transfer. */
#include <errno.h>

#include "store/fetch.h"

/* A read that opens something fails after this long, its retries included, so that a storage that
 * hangs is named instead of waited for. */
#define READ_PATIENCE_NS UINT64_C(120000000000)

typedef struct waiter {
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t cond;
    bool ended;
    uint64_t due_ns; /* when the fetcher is to be pumped */
} waiter;

static void note_end(void *user, stk__transfer *list)
{
    waiter *w = user;

    (void)list;
    /* Signalled under the mutex: the waiter cannot return, and take `w` away, before this has let
     * it go. */
    pthread_mutex_lock(&w->mutex);
    w->ended = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

static void note_due(void *user, uint64_t due_ns)
{
    waiter *w = user;

    pthread_mutex_lock(&w->mutex);
    w->due_ns = STK_MIN(w->due_ns, due_ns);
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

static void wait_for(waiter *w, stk__fetcher *fetcher)
{
    pthread_mutex_lock(&w->mutex);
    while (!w->ended) {
        if (stk__cond_wait_until(&w->cond, &w->mutex, w->due_ns) || w->ended)
            continue;
        w->due_ns = UINT64_MAX;
        pthread_mutex_unlock(&w->mutex);
        stk__fetcher_pump(fetcher);
        note_due(w, stk__fetcher_due(fetcher));
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
}

/* Fill in status and `got` of the transfer. */
static stk_status run(stk_store *store, stk__transfer *t)
{
    waiter w = {.mutex = PTHREAD_MUTEX_INITIALIZER, .due_ns = UINT64_MAX};
    const stk__fetcher_options options = {
        .retries = STK__FETCH_RETRIES, .ended = note_end, .sooner = note_due, .user = &w};
    stk__fetcher *fetcher;

    t->status = stk__fetcher_create(store->context, &options, &fetcher);
    if (t->status != STK_OK)
        return t->status;
    stk__cond_init(&w.cond);
    stk__fetcher_add(fetcher, t);
    stk__fetcher_pump(fetcher);
    wait_for(&w, fetcher);
    stk__fetcher_destroy(&fetcher);
    pthread_cond_destroy(&w.cond);
    pthread_mutex_destroy(&w.mutex);
    return t->status;
}

static stk_status name_failure(stk_store *store, const stk__transfer *read, stk_error *err)
{
    const char *reason = read->system_error > 0 ? strerrordesc_np(read->system_error) : NULL;
    const stk_status status = read->status;
    stk_object_info info = {.struct_size = sizeof info};

    if (!err)
        return status;
    if (status == STK_ETRUNCATED && stk_store_stat(store, read->key, NULL, &info, NULL) == STK_OK)
        return stk__fail_at(
            err, status, STK_STAGE_STORE, read->key, read->offset,
            "'%.200s' ends too early: it holds %llu bytes, and %llu were wanted from byte "
            "%llu on; fetch it again if it was cut short",
            read->key, (unsigned long long)info.size, (unsigned long long)read->length,
            (unsigned long long)read->offset);
    /* Looking at it names the link that leads out. */
    if (read->system_error == EXDEV) {
        stk_status seen = stk_store_stat(store, read->key, NULL, &info, err);
        if (seen != STK_OK)
            return seen;
    }
    if (status == STK_EKIND && !reason)
        reason = "not a regular file";
    return stk__fail_at(err, status, STK_STAGE_STORE, read->key, read->offset,
                        "cannot read %llu bytes of '%.200s' from byte %llu on: %s%s",
                        (unsigned long long)read->length, read->key,
                        (unsigned long long)read->offset, reason ? reason : stk_status_text(status),
                        stk_status_fault(status) != STK_FAULT_MACHINE ? ""
                                                                      : "; trying again may help");
}

stk_status stk_store_read(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                          void *data, stk_error *err)
{
    if (!store || (!data && length))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "stk_store_read: an argument is NULL");
    STK_TRY(stk__context_check(store->context, err));
    STK_TRY(stk__key_check(key, err));
    stk_error named;
    stk_error_init(&named);
    stk__transfer t = {.store = store,
                       .key = key,
                       .offset = offset,
                       .length = length,
                       .data = data,
                       .error = &named,
                       .deadline_ns = stk__now_ns() + READ_PATIENCE_NS};
    const stk_status status = run(store, &t);
    if (status == STK_OK)
        return STK_OK;
    if (named.status != status)
        return name_failure(store, &t, err);
    if (err)
        *err = named;
    return status;
}
