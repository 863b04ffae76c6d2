/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a box: the threads of one read, and how it ends. */
#include "array/reading.h"

#define LARGE_BYTES  (UINT64_C(32) << 20) /* a destination of so many is past every cache soon */
#define HELPER_BYTES (UINT64_C(1) << 18)  /* bytes of a box for each more thread */

/*
 * Where a request costs little, as of a local file, more bytes in flight than keep the threads busy
 * only push each other out of the caches before they are decoded. Stores that are far away have a
 * gap worth reading in vain that is larger.
 */
#define NEAR_READ   (UINT64_C(1) << 19) /* bytes of one request */
#define NEAR_FLIGHT (UINT64_C(2) << 20) /* for each thread */

/* Remember the first failure and wake everybody. */
static void reading_fail(stk__reading *r, stk_status status, const stk_error *err)
{
    pthread_mutex_lock(&r->mutex);
    if (r->status == STK_OK) {
        r->status = status;
        r->error = *err;
    }
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->mutex);
}

static stk__slot_read *pop_ready_locked(stk__reading *r)
{
    stk__slot_read *s = r->ready;

    if (s) {
        r->ready = s->next;
        s->next = NULL;
    }
    return s;
}

static void give_back_locked(stk__reading *r, stk__slot_read *s)
{
    r->in_flight -= s->charged;
    s->charged = 0;
    s->next = r->free_slots;
    r->free_slots = s;
    r->active--;
}

static bool may_send_locked(const stk__reading *r)
{
    if (r->planning || r->next_request == r->num_requests)
        return false;
    return r->active == 0 || (r->active < r->depth && r->in_flight < r->capacity);
}

/* Use what has come. */
static void use(stk__reader *reader, stk__slot_read *slot)
{
    stk__reading *r = reader->reading;
    stk_error err;

    stk_error_init(&err);
    pthread_mutex_unlock(&r->mutex);
    stk_status status = stk__slot_use(reader, slot, &err);
    if (status != STK_OK)
        reading_fail(r, status, &err);
    pthread_mutex_lock(&r->mutex);
    give_back_locked(r, slot);
    /* Others wait only for the end, or for room in flight. */
    if (r->active == 0 || r->next_request < r->num_requests)
        pthread_cond_broadcast(&r->cond);
}

static void send(stk__reading *r)
{
    stk_error err;

    stk_error_init(&err);
    r->sending++;
    stk__slot_read *slot = stk__slot_take_locked(r);
    stk__request request = {0};
    if (slot)
        request = r->requests[r->next_request++];
    pthread_mutex_unlock(&r->mutex);
    stk_status status =
        slot ? stk__slot_send(slot, &request, &err)
             : stk__fail(&err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read chunks of an array");
    if (status != STK_OK)
        reading_fail(r, status, &err);
    pthread_mutex_lock(&r->mutex);
    r->sending--;
    if (r->sending == 0 && r->next_request == r->num_requests)
        pthread_cond_broadcast(&r->cond);
    if (status != STK_OK && slot)
        give_back_locked(r, slot);
}

static void plan(stk__reading *r)
{
    size_t num_requests = 0;
    stk_error err;

    stk_error_init(&err);
    r->planning = true;
    r->num_requests = r->next_request = 0;
    pthread_mutex_unlock(&r->mutex);
    stk_status status = stk__reading_plan(r, &num_requests, &err);
    if (status != STK_OK)
        reading_fail(r, status, &err);
    pthread_mutex_lock(&r->mutex);
    r->num_requests = num_requests;
    r->planning = false;
    pthread_cond_broadcast(&r->cond);
}

/* The fetcher has something to do earlier than it said. */
static void note_due(void *reading, uint64_t due_ns)
{
    stk__reading *r = reading;

    pthread_mutex_lock(&r->mutex);
    r->due_ns = STK_MIN(r->due_ns, due_ns);
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->mutex);
}

/* Sleep until something happens, the read takes too long or the fetcher is to be pumped. */
static void wait_locked(stk__reading *r)
{
    if (r->due_ns != UINT64_MAX && stk__now_ns() >= r->due_ns) {
        r->due_ns = UINT64_MAX;
        pthread_mutex_unlock(&r->mutex);
        stk__fetcher_pump(r->fetcher);
        note_due(r, stk__fetcher_due(r->fetcher));
        pthread_mutex_lock(&r->mutex);
        return;
    }
    (void)stk__cond_wait_until(&r->cond, &r->mutex, STK_MIN(r->deadline_ns, r->due_ns));
}

/* Whether the read is to end early: then it has its status. */
static bool ends_early_locked(stk__reading *r)
{
    if (r->status == STK_OK && r->stop)
        r->status = stk__fail(&r->error, STK_ECANCELED, STK_STAGE_ARRAY,
                              "the read of the array was canceled");
    if (r->status == STK_OK && r->deadline_ns != UINT64_MAX && stk__now_ns() >= r->deadline_ns)
        r->status = stk__fail(&r->error, STK_ETIMEDOUT, STK_STAGE_ARRAY,
                              "the read of the array took longer than it was given");
    return r->status != STK_OK;
}

/* What every thread of a reading does until there is nothing left or something failed. */
static void work(void *argument)
{
    stk__reader *reader = argument;
    stk__reading *r = reader->reading;

    pthread_mutex_lock(&r->mutex);
    while (!ends_early_locked(r)) {
        bool planned = r->next_request == r->num_requests;
        stk__slot_read *slot = pop_ready_locked(r);
        if (slot)
            use(reader, slot);
        else if (may_send_locked(r))
            send(r);
        else if (r->planning || r->sending > 0 || !planned || (r->active > 0 && !r->walks))
            wait_locked(r);
        else if (r->walks)
            plan(r);
        else
            break;
    }
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->mutex);
}

/* Wait for every transfer, which after a failure is canceled first. */
static void settle(stk__reading *r)
{
    if (r->status != STK_OK) /* no other thread of the reading is left */
        stk__fetcher_stop(r->fetcher, true);
    pthread_mutex_lock(&r->mutex);
    while (r->waiting > 0)
        pthread_cond_wait(&r->cond, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

static void list_reading(stk__reading *r, bool add)
{
    stk_array *a = r->array;

    pthread_mutex_lock(&a->mutex);
    if (add) {
        r->previous = NULL;
        r->next = a->readings;
        if (r->next)
            r->next->previous = r;
        a->readings = r;
    } else {
        *(r->previous ? &r->previous->next : &a->readings) = r->next;
        if (r->next)
            r->next->previous = r->previous;
    }
    pthread_mutex_unlock(&a->mutex);
}

void stk_array_cancel(stk_array *array)
{
    if (stk__context_forked(array->context))
        return;
    pthread_mutex_lock(&array->mutex);
    for (stk__reading *r = array->readings; r; r = r->next) {
        pthread_mutex_lock(&r->mutex);
        r->stop = true;
        pthread_cond_broadcast(&r->cond);
        pthread_mutex_unlock(&r->mutex);
    }
    pthread_mutex_unlock(&array->mutex);
}

static bool is_stopped(void *reading)
{
    stk__reading *r = reading;

    pthread_mutex_lock(&r->mutex);
    const bool stopped = ends_early_locked(r);
    pthread_mutex_unlock(&r->mutex);
    return stopped;
}

static stk_status run(stk__reading *r, uint32_t threads, stk_error *err)
{
    stk_context *ctx = r->array->context;
    stk_status status = STK_OK;
    stk__walk *walk = NULL;

    stk__reader *readers = stk__calloc(ctx, threads, sizeof *readers);
    if (!readers || stk__walk_create(r->array, r->box, false, &walk) != STK_OK) {
        stk__free(ctx, readers);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read an array");
    }
    for (uint32_t i = 0; i < threads && status == STK_OK; i++) {
        readers[i].reading = r;
        status = stk__state_take(r->array, &readers[i].state, err);
    }
    if (status == STK_OK) {
        status = stk__reading_add_walk(r, walk, err);
        walk = NULL;
    }
    if (status == STK_OK) {
        /* A helper that cannot be started is not missed: the caller does all. */
        for (uint32_t i = 1; i < threads; i++)
            if (stk__thread_start(ctx, &readers[i].thread, "stk-array", work, &readers[i], NULL) !=
                STK_OK)
                break;
        work(&readers[0]);
        for (uint32_t i = 1; i < threads; i++)
            stk__thread_join(&readers[i].thread);
        settle(r);
        status = r->status;
        if (status != STK_OK && err)
            *err = r->error;
    }
    for (uint32_t i = 0; i < threads; i++) {
        stk__state_give(r->array, readers[i].state);
        stk__free(ctx, readers[i].scratch);
    }
    stk__walk_destroy(&walk);
    stk__free(ctx, readers);
    return status;
}

static void drop_walks(stk__reading *r)
{
    for (stk__pending *p = r->walks, *next; p; p = next) {
        next = p->next;
        stk__walk_destroy(&p->walk);
        stk__free(r->array->context, p);
    }
    /* Indexes that were planned and not sent. */
    for (size_t i = r->next_request; i < r->num_requests; i++)
        if (r->requests[i].first == UINT32_MAX) {
            stk__need *need = &r->needs[r->requests[i].count];
            stk__walk *walk =
                need->kind == STK__NEED_INDEX ? (stk__walk *)(uintptr_t)need->skip : NULL;
            stk__walk_destroy(&walk);
        }
}

/* How many threads pay for a box, within the memory. */
static uint32_t choose_threads(const stk_array *a, uint64_t bytes)
{
    uint64_t threads = (uint64_t)STK_MAX(a->options.num_threads, 1);

    threads = STK_MIN(threads, bytes / HELPER_BYTES + 1);
    threads = STK_MIN(threads, a->levels[a->num_levels - 1].total);
    if (a->manifest != STK__MANIFEST_ONE)
        threads = STK_MIN(threads, a->options.memory / 2 /
                                       (a->decode_bytes + stk__chain_library(a->chain) + 1));
    return (uint32_t)STK_MAX(threads, 1);
}

static stk_status read_box(stk_array *a, const stk__box *box, uint64_t bytes, void *out,
                           const int64_t *strides, bool indexes_only, stk__texts *texts,
                           uint64_t deadline_ns, stk_error *err)
{
    uint32_t threads = texts ? 1 : choose_threads(a, bytes); /* what a chunk holds is not known */

    if (a->decode_bytes > a->options.memory && a->manifest != STK__MANIFEST_ONE)
        return stk__fail_at(err, STK_EBUDGET, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: a chunk, which takes %llu bytes to decode, does not fit the "
                            "memory of %llu; give the option memory more",
                            a->metadata_key, (unsigned long long)a->decode_bytes,
                            (unsigned long long)a->options.memory);
    stk__reading *r = stk__alloc(a->context, sizeof *r);
    if (!r)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read an array");
    memset(r, 0, offsetof(stk__reading, needs)); /* a plan is written before it is read */
    r->array = a;
    r->box = box;
    r->out = out;
    r->strides = strides;
    r->texts = texts;
    r->large = bytes >= LARGE_BYTES;
    r->indexes_only = indexes_only;
    r->deadline_ns = deadline_ns;
    stk__store_limits(stk__array_store(a), &r->limits);
    r->depth = r->limits.io_depth;
    uint64_t scratch = threads * a->decode_bytes;
    r->capacity = a->options.memory > scratch ? a->options.memory - scratch : 1;
    if (texts)
        r->capacity = STK_MIN(r->capacity, STK_MAX(a->options.memory / STK__TEXTS_READ, 1));
    if (r->limits.coalesce_gap < STK__ARRAY_FAR_GAP) {
        r->capacity = STK_MIN(r->capacity, threads * NEAR_FLIGHT);
        r->limits.max_read =
            r->limits.max_read ? STK_MIN(r->limits.max_read, NEAR_READ) : NEAR_READ;
    }
    if (r->limits.max_read == 0 || r->limits.max_read > r->capacity)
        r->limits.max_read = r->capacity;
    r->most_encoded = stk__array_most_encoded(a);
    if (r->most_encoded > r->limits.max_read)
        r->most_encoded = 0;
    stk_error_init(&r->error);
    pthread_mutex_init(&r->mutex, NULL);
    stk__cond_init(&r->cond);
    r->due_ns = UINT64_MAX;
    const stk__fetcher_options options = {.max_read = r->limits.max_read,
                                          .retries = STK__FETCH_RETRIES,
                                          .ended = stk__slots_ended,
                                          .sooner = note_due,
                                          .canceled = is_stopped,
                                          .user = r};
    stk_status status = stk__fetcher_create(a->context, &options, &r->fetcher);
    if (status == STK_OK) {
        list_reading(r, true);
        status = run(r, threads, err);
        list_reading(r, false);
        stk__fetcher_destroy(&r->fetcher);
    } else {
        stk__fail(err, status, STK_STAGE_ARRAY, "no memory to read an array");
    }
    drop_walks(r);
    stk__slots_free(r);
    pthread_cond_destroy(&r->cond);
    pthread_mutex_destroy(&r->mutex);
    stk__free(a->context, r);
    return status;
}

stk_status stk__array_load_indexes(stk_array *a, const stk__box *box, uint64_t deadline_ns,
                                   stk_error *err)
{
    if (a->num_levels < 2)
        return STK_OK;
    return read_box(a, box, 0, NULL, NULL, true, NULL, deadline_ns ? deadline_ns : UINT64_MAX, err);
}

stk_status stk__array_read_box(stk_array *a, const stk__box *box, uint64_t bytes, void *out,
                               const int64_t *strides, stk__texts *texts, uint64_t deadline_ns,
                               stk_error *err)
{
    return read_box(a, box, bytes, out, strides, false, texts, deadline_ns, err);
}

/* Whether a destination of these strides lies within its bytes. */
static stk_status check_strides(const stk_array *a, const stk__box *box, const int64_t *strides,
                                uint64_t out_bytes, stk_error *err)
{
    uint64_t end = a->type.itemsize, part;

    for (uint32_t d = 0; d < a->rank; d++) {
        if (box->shape[d] == 0)
            return STK_OK;
        if (strides[d] < 0 ||
            !stk__mul_size((uint64_t)strides[d], (uint64_t)(box->shape[d] - 1), &part) ||
            !stk__add_size(end, part, &end))
            end = UINT64_MAX;
    }
    if (end <= out_bytes)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "the strides reach beyond the %llu bytes of the destination",
                        (unsigned long long)out_bytes);
}

stk_status stk_array_read(stk_array *a, const stk_array_box *box, void *out, uint64_t out_bytes,
                          const int64_t *strides, int64_t timeout_ms, stk_error *err)
{
    int64_t own[STK_ARRAY_MAX_RANK];
    uint64_t bytes = 0;
    stk__box b;

    if (!a || (!out && out_bytes))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY, "stk_array_read: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    STK_TRY(stk__array_fixed(a, err));
    STK_TRY(stk__array_box(a, box, &b, err));
    if (!stk__shape_bytes(b.shape, a->rank, a->type.itemsize, &bytes) ||
        (!strides && bytes != out_bytes))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "the box has %llu bytes, and the destination has %llu",
                            (unsigned long long)bytes, (unsigned long long)out_bytes);
    if (strides)
        STK_TRY(check_strides(a, &b, strides, out_bytes, err));
    if (bytes == 0)
        return STK_OK;
    if (!strides)
        stk__array_strides(a->rank, b.shape, a->type.itemsize, own);
    uint64_t deadline =
        timeout_ms < 0 ? UINT64_MAX : stk__now_ns() + (uint64_t)timeout_ms * 1000000u;
    return read_box(a, &b, bytes, out, strides ? strides : own, false, NULL, deadline, err);
}
