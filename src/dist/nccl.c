/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on the memory of a device. The MPI begins them: its frames say that all ranks make the same
 * call, as for those of the host's memory, and only then NCCL gets it, which puts it on the stream
 * of the device and returns. So ranks that differ are named before NCCL could hang in it.
 *
 * What is on a stream cannot be waited for with a deadline, so a thread watches it: an event stands
 * behind each call, and where none of them has passed for too long, or NCCL says that something has
 * failed, the communicator is aborted. Its work ends then, and whoever waits for the stream goes
 * on, with memory that has anything in it. Hence the order: first the failure is written down,
 * which stk__nccl_check() finds, and then is aborted.
 *
 * The communicator does not block: what a call comes to is asked for until its deadline. Aborting
 * it may (nccl#829, nccl#1013), so that is the thread's, which is left behind where it comes to no
 * end.
 */
#include "dist/nccl.h"

#include <inttypes.h>
#include <stdio.h>

enum { DEPTH = 64 /* calls that the device has not done yet */ };

#define LOOK_NS   UINT64_C(10000000)    /* how often the thread looks */
#define ABORT_MIN UINT64_C(5000000000)  /* an abort has as long as a call, but at least and at */
#define ABORT_MAX UINT64_C(30000000000) /* most so long */

/* A call that the device has. */
typedef struct given {
    stk_event *event; /* behind it */
    uint64_t number;
    char what[80];
} given;

struct stk__nccl {
    stk_context *ctx;
    stk_collectives *c; /* for the caller's thread */
    stk_device *device;
    stk__nccl_library library;
    uint64_t timeout_ns;
    char who[160]; /* "rank 0 of 2 (node7)" */

    pthread_mutex_t lock; /* guards the rest, and all calls of the communicator */
    pthread_cond_t moved; /* a call was given or has ended, or it is over */
    void *comm;           /* NULL: aborted or destroyed */
    given calls[DEPTH];
    uint64_t first, next; /* calls of the device: from, to; their places are modulo DEPTH */
    uint64_t since_ns;    /* since when the first of them is the first */
    stk_status status;    /* STK_OK: nothing has failed */
    char why[STK_ERROR_TEXT];
    bool ends, over; /* the thread is to end; it has */
    bool left;       /* it is left behind, and frees this */
    stk__thread watcher;
};

static void destroy_events(stk__nccl *n)
{
    for (size_t i = 0; i < DEPTH; i++) {
        if (n->calls[i].event)
            n->device->ops->event_destroy(n->calls[i].event);
        n->calls[i].event = NULL;
    }
}

static void release(stk__nccl *n)
{
    stk_context *ctx = n->ctx;

    destroy_events(n);
    pthread_cond_destroy(&n->moved);
    pthread_mutex_destroy(&n->lock);
    stk__free(ctx, n);
    stk__context_unref(ctx);
}

/* ---- What has failed ------------------------------------------------------------------------- */

/* What a result of NCCL is in words. */
static void say_result(const stk__nccl *n, const char *what, int result, char *text, size_t size)
{
    const char *last = n->library.GetLastError(NULL);

    snprintf(text, size, "NCCL, %s: %s: %.120s%s%.300s", n->who, what,
             n->library.GetErrorString(result), last && *last ? "; it says: " : "",
             last ? last : "");
}

/* It is over, and stk__nccl_check() says so from here on; the thread aborts. */
static void fail_locked(stk__nccl *n, stk_status status, const char *text)
{
    if (n->status == STK_OK) {
        n->status = status;
        snprintf(n->why, sizeof n->why, "%s", text);
    }
    pthread_cond_broadcast(&n->moved);
}

static stk_status check(stk__nccl *n, stk_error *err)
{
    pthread_mutex_lock(&n->lock);
    const stk_status status =
        n->status == STK_OK ? STK_OK : stk__fail(err, n->status, STK_STAGE_TRAIN, "%s", n->why);
    pthread_mutex_unlock(&n->lock);
    return status;
}

stk_status stk__nccl_check(const stk_collectives *c, stk_error *err)
{
    return c->nccl ? check(c->nccl, err) : STK_OK;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Calls that the device has done are no longer waited for. */
static stk_status take_done_locked(stk__nccl *n, stk_error *err)
{
    while (n->first != n->next) {
        const stk_status status =
            n->device->ops->event_query(n->calls[n->first % DEPTH].event, err);
        if (status != STK_OK)
            return status < 0 ? status : STK_OK;
        n->first++;
        n->since_ns = stk__now_ns();
        pthread_cond_broadcast(&n->moved);
    }
    return STK_OK;
}

/* The calls on the stream, and what NCCL says of them. */
static stk_status look_locked(stk__nccl *n, char *text, size_t size)
{
    int result = STK__NCCL_SUCCESS;
    stk_error err;

    stk_error_init(&err);
    const stk_status status = take_done_locked(n, &err);
    if (status != STK_OK) {
        snprintf(text, size, "%s: %.400s", n->who, err.text);
        return status;
    }
    const given *call = &n->calls[n->first % DEPTH];
    const int asked = n->library.CommGetAsyncError(n->comm, &result);
    result = asked == STK__NCCL_SUCCESS ? result : asked;
    if (result != STK__NCCL_SUCCESS && result != STK__NCCL_IN_PROGRESS) {
        say_result(n, n->first == n->next ? "between calls" : call->what, result, text, size);
        return STK_EIO;
    }
    if (n->first == n->next || stk__now_ns() - n->since_ns < n->timeout_ns)
        return STK_OK;
    snprintf(text, size,
             "%s: call %" PRIu64 " (%s) has not ended for %.3g s, and was aborted: all ranks began "
             "it, so the device or the process of one of them hangs, or the network between them; "
             "NCCL_DEBUG=WARN has NCCL say more, collectives.collective_timeout is the time",
             n->who, call->number, call->what, stk__seconds(n->timeout_ns));
    return STK_ETIMEDOUT;
}

static void watch(void *argument)
{
    stk__nccl *n = argument;
    char text[STK_ERROR_TEXT];

    pthread_mutex_lock(&n->lock);
    while (!n->ends && n->status == STK_OK) {
        const bool idle = n->first == n->next;
        const stk_status status = idle ? STK_OK : look_locked(n, text, sizeof text);
        if (status != STK_OK)
            fail_locked(n, status, text);
        else
            stk__cond_wait_until(&n->moved, &n->lock, idle ? UINT64_MAX : stk__now_ns() + LOOK_NS);
    }
    void *comm = n->comm;
    n->comm = NULL;
    pthread_mutex_unlock(&n->lock);
    if (comm)
        n->library.CommAbort(comm);
    pthread_mutex_lock(&n->lock);
    n->over = true;
    const bool left = n->left;
    pthread_cond_broadcast(&n->moved);
    pthread_mutex_unlock(&n->lock);
    if (left)
        release(n);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* What NCCL has begun goes on in a thread of its own: wait until it is where it belongs. */
static stk_status settle(stk__nccl *n, int result, const char *what, stk_error *err)
{
    const uint64_t start = stk__now_ns();
    char text[STK_ERROR_TEXT];

    for (uint64_t waited = 0; result == STK__NCCL_IN_PROGRESS && waited < n->timeout_ns;
         waited = stk__now_ns() - start) {
        stk__pause_after(waited);
        pthread_mutex_lock(&n->lock);
        const bool over = n->status != STK_OK;
        const int asked = over ? STK__NCCL_SUCCESS : n->library.CommGetAsyncError(n->comm, &result);
        pthread_mutex_unlock(&n->lock);
        if (over)
            return check(n, err);
        result = asked == STK__NCCL_SUCCESS ? result : asked;
    }
    if (result == STK__NCCL_SUCCESS)
        return STK_OK;
    if (result == STK__NCCL_IN_PROGRESS)
        snprintf(text, sizeof text,
                 "NCCL, %s: %s has come to no end for %.3g s: a rank is not there, or the network "
                 "between them lets nothing through; NCCL_DEBUG=WARN has NCCL say more, "
                 "collectives.collective_timeout is the time",
                 n->who, what, stk__seconds(n->timeout_ns));
    else
        say_result(n, what, result, text, sizeof text);
    pthread_mutex_lock(&n->lock);
    fail_locked(n, result == STK__NCCL_IN_PROGRESS ? STK_ETIMEDOUT : STK_EIO, text);
    pthread_mutex_unlock(&n->lock);
    return check(n, err);
}

/* A place for one more call; the thread ends a wait that is too long. */
static stk_status need_place(stk__nccl *n, stk_error *err)
{
    stk_status status = STK_OK;

    pthread_mutex_lock(&n->lock);
    if (n->status == STK_OK)
        status = take_done_locked(n, err);
    while (status == STK_OK && n->status == STK_OK && n->next - n->first == DEPTH)
        stk__cond_wait_until(&n->moved, &n->lock, UINT64_MAX);
    pthread_mutex_unlock(&n->lock);
    return status == STK_OK ? check(n, err) : status;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static stk_status check_work(const stk__nccl_work *w, stk_error *err)
{
    const bool combines = w->call == STK__CALL_REDUCE || w->call == STK__CALL_REDUCE_SCATTER;
    const bool real = w->dtype == STK_FLOAT16 || w->dtype == STK_BFLOAT16 ||
                      w->dtype == STK_FLOAT32 || w->dtype == STK_FLOAT64;

    if (combines && (stk__nccl_type(w->dtype) < 0 || (w->op == STK_COMBINE_MEAN && !real)))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "NCCL does not combine elements of type %s%s: it does the integers of 8, "
                         "32 and 64 bits, but for their mean, and float16, bfloat16, float32 and "
                         "float64",
                         stk_dtype_name(w->dtype), w->op == STK_COMBINE_MEAN ? " by mean" : "");
    return STK_OK;
}

/* Parts that differ in size: a group of calls, each of one part. */
static int begin_uneven(const stk__nccl *n, const stk__nccl_work *w, void *stream)
{
    const stk__nccl_library *l = &n->library;
    const size_t itemsize = stk_dtype_size(w->dtype);
    char *part = w->buffer;

    int result = l->GroupStart();
    if (result != STK__NCCL_SUCCESS)
        return result;
    for (uint64_t r = 0; r < n->c->strategy.world_size; r++) {
        int one = STK__NCCL_SUCCESS;
        if (w->counts[r] && w->call == STK__CALL_REDUCE_SCATTER)
            one = l->Reduce(part, part, w->counts[r], stk__nccl_type(w->dtype), stk__nccl_op(w->op),
                            (int)r, n->comm, stream);
        else if (w->counts[r])
            one = l->Broadcast(part, part, w->counts[r] * itemsize, STK__NCCL_INT8, (int)r, n->comm,
                               stream);
        if (one != STK__NCCL_SUCCESS && one != STK__NCCL_IN_PROGRESS && result == STK__NCCL_SUCCESS)
            result = one;
        part += w->counts[r] * itemsize;
    }
    /* A group that has begun is ended in any case. */
    const int ended = l->GroupEnd();
    return result == STK__NCCL_SUCCESS ? ended : result;
}

static int begin_parts(const stk__nccl *n, const stk__nccl_work *w, void *stream)
{
    const stk_strategy *s = &n->c->strategy;
    const size_t itemsize = stk_dtype_size(w->dtype), bytes = w->counts[0] * itemsize;
    char *own = (char *)w->buffer + s->rank * bytes;

    for (uint64_t r = 1; r < s->world_size; r++)
        if (w->counts[r] != w->counts[0])
            return begin_uneven(n, w, stream);
    return w->call == STK__CALL_REDUCE_SCATTER
               ? n->library.ReduceScatter(w->buffer, own, w->counts[0], stk__nccl_type(w->dtype),
                                          stk__nccl_op(w->op), n->comm, stream)
               : n->library.AllGather(own, w->buffer, bytes, STK__NCCL_INT8, n->comm, stream);
}

/* All in place, as NCCL allows. */
static int begin_locked(const stk__nccl *n, const stk__nccl_work *w)
{
    void *stream = stk__device_native(n->device, w->stream);

    switch (w->call) {
    case STK__CALL_REDUCE:
        return n->library.AllReduce(w->buffer, w->buffer, w->count, stk__nccl_type(w->dtype),
                                    stk__nccl_op(w->op), n->comm, stream);
    case STK__CALL_BROADCAST:
        return n->library.Broadcast(w->buffer, w->buffer, w->count, STK__NCCL_INT8, 0, n->comm,
                                    stream);
    default:
        return begin_parts(n, w, stream);
    }
}

/* Mark the place of the stream that is behind a call. */
static stk_status mark(stk__nccl *n, const stk__nccl_work *w, const char *what, stk_error *err)
{
    stk_status status = STK_OK;

    pthread_mutex_lock(&n->lock);
    given *call = &n->calls[n->next % DEPTH];
    if (n->status == STK_OK)
        status = n->device->ops->event_record(call->event, w->stream, err);
    if (status != STK_OK)
        fail_locked(n, status, err ? err->text : "an event could not be recorded");
    if (n->status == STK_OK) {
        call->number = n->c->number;
        snprintf(call->what, sizeof call->what, "%s", what);
        if (n->first == n->next) {
            n->since_ns = stk__now_ns();
            pthread_cond_broadcast(&n->moved);
        }
        n->next++;
    }
    pthread_mutex_unlock(&n->lock);
    return check(n, err);
}

stk_status stk__nccl_call(stk_collectives *c, const stk__nccl_work *w, stk_error *err)
{
    stk__nccl *n = c->nccl;
    char what[80];

    if (!n)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "this lies in the memory of a device, and none is attached: what the host "
                         "cannot read goes over NCCL, by attach() of the strategy");
    STK_TRY(check_work(w, err));
    STK_TRY(need_place(n, err));
    STK_TRY(stk__exchange(c, (stk__rank_call)(w->call | STK__CALL_ON_DEVICE), (uint32_t)w->op,
                          (uint32_t)w->dtype, w->count, NULL, 0, err));
    if (w->count == 0)
        return STK_OK;
    stk__describe_call(&c->frames[c->strategy.world_size], what, sizeof what);
    pthread_mutex_lock(&n->lock);
    const int result = n->status == STK_OK ? begin_locked(n, w) : STK__NCCL_SUCCESS;
    pthread_mutex_unlock(&n->lock);
    STK_TRY(settle(n, result, what, err));
    return mark(n, w, what, err);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* All ranks are here and leave together; the thread ends what takes too long. */
static void leave(stk__nccl *n)
{
    stk_error ignored;

    stk_error_init(&ignored);
    pthread_mutex_lock(&n->lock);
    while (n->status == STK_OK && n->first != n->next)
        stk__cond_wait_until(&n->moved, &n->lock, UINT64_MAX);
    const int result = n->status == STK_OK ? n->library.CommFinalize(n->comm) : STK__NCCL_SUCCESS;
    pthread_mutex_unlock(&n->lock);
    if (settle(n, result, "ncclCommFinalize", &ignored) != STK_OK || check(n, &ignored) != STK_OK)
        return;
    pthread_mutex_lock(&n->lock);
    void *comm = n->comm;
    n->comm = NULL;
    pthread_mutex_unlock(&n->lock);
    /* Of what is finalized nothing is waited for. */
    if (comm)
        n->library.CommDestroy(comm);
}

/* End the thread, which aborts what is left, and all else. An abort that does not come back is left
 * behind with it: the device is about to close, of which it has nothing then. */
static void end(stk__nccl *n)
{
    const uint64_t grace = STK_MAX(ABORT_MIN, STK_MIN(n->timeout_ns, ABORT_MAX));
    const uint64_t until = stk__now_ns() + grace;
    stk_context *ctx = n->ctx;
    char who[sizeof n->who];
    bool in_time = true;

    memcpy(who, n->who, sizeof who);
    pthread_mutex_lock(&n->lock);
    n->ends = true;
    pthread_cond_broadcast(&n->moved);
    while (!n->over && in_time)
        in_time = stk__cond_wait_until(&n->moved, &n->lock, until);
    const bool over = n->over;
    if (!over) {
        destroy_events(n);
        pthread_detach(n->watcher.handle);
        n->left = true; /* `n` is the thread's once it is unlocked */
    }
    pthread_mutex_unlock(&n->lock);
    if (over) {
        stk__thread_join(&n->watcher);
        release(n);
        return;
    }
    stk__message(ctx, STK_MESSAGE_ERROR,
                 "NCCL, %s: aborting its calls has come to no end for %.3g s: the thread stk-nccl "
                 "is left behind, and this process should end",
                 who, stk__seconds(grace));
}

void stk__nccl_detach(stk_collectives *c)
{
    stk__nccl *n = c->nccl;

    if (!n)
        return;
    c->nccl = NULL;
    if (c->health == STK__HEALTH_GOOD)
        leave(n);
    end(n);
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* Whether NCCL is wanted for a device, and can be had. */
static stk_status choose(const stk_collectives *c, const stk_device *device, bool *wanted,
                         stk_error *err)
{
    const char *wish = c->nccl_wish, *name = device->ops->name;
    const bool never = strcmp(wish, "never") == 0, host = stk__device_is_host(device);

    *wanted = !host;
    if (strcmp(wish, "auto") != 0 && strcmp(wish, "always") != 0 && !never && !strchr(wish, '/'))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "nccl", STK_NO_OFFSET,
                            "collectives.nccl: there is no '%.100s'; there are auto, always, never "
                            "and paths of libraries, which have a slash",
                            wish);
    if (host && (never || strcmp(wish, "auto") == 0))
        return STK_OK;
    if (host)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "nccl", STK_NO_OFFSET,
                            "collectives.nccl: NCCL carries what lies in the memory of GPUs, and "
                            "that of '%s' is the host's, which %s carries: leave the option out",
                            name, c->ops->name);
    if (never || !stk__device_has_native(device))
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "nccl", STK_NO_OFFSET,
                            "collectives.nccl: %s, and nothing else carries what lies in the "
                            "memory of '%s': %s",
                            never ? "never" : "NCCL takes no streams of this device", name,
                            never ? "leave the option at auto"
                                  : "its table lacks stream_native; train in one process");
    return STK_OK;
}

/* What each rank brings to the call that begins NCCL. */
typedef struct joining {
    int32_t version;
    stk__nccl_id id; /* rank 0's counts */
} joining;

static stk_status check_versions(stk_collectives *c, stk_error *err)
{
    char theirs[32], first[32];
    joining one, zero;

    memcpy(&zero, c->frames[0].data, sizeof zero);
    for (uint64_t r = 1; r < c->strategy.world_size; r++) {
        memcpy(&one, c->frames[r].data, sizeof one);
        if (one.version == zero.version)
            continue;
        stk__nccl_version_text(one.version, theirs, sizeof theirs);
        stk__nccl_version_text(zero.version, first, sizeof first);
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                         "rank %" PRIu64 " (%s) has NCCL %s, and rank 0 (%s) %s: install the same "
                         "one on all machines",
                         r, c->hosts[r], theirs, c->hosts[0], first);
    }
    return STK_OK;
}

static stk_status join(stk__nccl *n, stk_error *err)
{
    stk__nccl_config config = {
        .size = sizeof config, .magic = STK__NCCL_MAGIC, .version = STK__NCCL_LEAST, .blocking = 0};
    joining own = {.version = n->library.version};
    stk_collectives *c = n->c;
    const stk_strategy *s = &c->strategy;

    if (s->rank == 0)
        STK_TRY(settle(n, n->library.GetUniqueId(&own.id), "ncclGetUniqueId", err));
    STK_TRY(stk__exchange(c, STK__CALL_JOIN, 0, 0, 0, &own, sizeof own, err));
    STK_TRY(check_versions(c, err));
    memcpy(&own, c->frames[0].data, sizeof own);
    pthread_mutex_lock(&n->lock);
    const int result =
        n->library.CommInitRankConfig(&n->comm, (int)s->world_size, own.id, (int)s->rank, &config);
    pthread_mutex_unlock(&n->lock);
    return settle(n, result, "ncclCommInitRankConfig", err);
}

static stk_status create(stk_collectives *c, stk_device *device, const stk__nccl_library *library,
                         stk__nccl **out, stk_error *err)
{
    const stk_strategy *s = &c->strategy;
    stk__nccl *n = stk__calloc(c->ctx, 1, sizeof *n);
    stk_status status = STK_OK;

    *out = NULL;
    if (!n)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for NCCL's calls");
    n->ctx = stk__context_ref(c->ctx);
    n->c = c;
    n->device = device;
    n->timeout_ns = c->timeout_ns;
    snprintf(n->who, sizeof n->who, "rank %" PRIu64 " of %" PRIu64 " (%s)", s->rank, s->world_size,
             c->hosts[s->rank]);
    pthread_mutex_init(&n->lock, NULL);
    stk__cond_init(&n->moved);
    n->library = *library;
    for (size_t i = 0; i < DEPTH && status == STK_OK; i++)
        status = device->ops->event_create(device, &n->calls[i].event, err);
    if (status == STK_OK)
        status = stk__thread_start(n->ctx, &n->watcher, "stk-nccl", watch, n, err);
    if (status != STK_OK)
        release(n);
    *out = status == STK_OK ? n : NULL;
    return status;
}

stk_status stk__nccl_attach(stk_collectives *c, stk_device *device, stk_error *err)
{
    stk__nccl_library library;
    stk__nccl *n = NULL;
    char version[32];
    bool wanted;

    if (c->nccl)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a device is attached to these ranks already: detach() it first");
    STK_TRY(choose(c, device, &wanted, err));
    if (!wanted)
        return STK_OK;
    STK_TRY(stk__nccl_load(strchr(c->nccl_wish, '/') ? c->nccl_wish : NULL, &library, err));
    STK_TRY(create(c, device, &library, &n, err));
    const stk_status status = join(n, err);
    if (status != STK_OK) {
        end(n);
        return status;
    }
    c->nccl = n;
    stk__nccl_version_text(library.version, version, sizeof version);
    if (c->strategy.rank == 0)
        stk__message(c->ctx, STK_MESSAGE_INFO, "NCCL %s carries what lies in the memory of %s",
                     version, device->ops->name);
    return STK_OK;
}
