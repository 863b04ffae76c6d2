/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that speaks with the other ranks while the trainer's computes: it combines buckets of
 * gradients, and brings buckets of parameters. It makes one call at a time, in the order in which
 * the trainer gave them; the trainer's own calls come when none is with it. So the order of all
 * calls of a rank is that in which its trainer asked for them, however long each takes.
 */
#include "train/trainer.h"

enum { CALLS = 64 }; /* that wait: more than a pass has closed buckets, in most models */

typedef struct call {
    stk__overlap_kind kind;
    stk__gradient_bucket bucket;
} call;

struct stk__overlap {
    stk_trainer *t;
    stk__thread thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_work, done;
    call calls[CALLS];    /* the n'th ever given is at (n - 1) % CALLS */
    uint64_t given, made; /* so many, ever */
    bool ends;
    stk_status status; /* the first failure: the calls behind it are not made */
    stk_error err;
    uint64_t waited_from_ns; /* when the trainer began to wait for it; 0: it computes */
    uint64_t hidden_ns;      /* that are in no ledger yet */
};

static stk_status make_call(stk_trainer *t, const call *c, stk_error *err)
{
    return c->kind == STK__OVERLAP_GATHER ? stk__gather_bucket(t, &c->bucket, err)
                                          : stk__reduce_bucket(t, &c->bucket, err);
}

/* What of a call's time the trainer did not wait for. */
static uint64_t hidden_locked(const stk__overlap *o, uint64_t from_ns)
{
    const uint64_t now = stk__now_ns(), end = o->waited_from_ns ? o->waited_from_ns : now;

    return end > from_ns ? end - from_ns : 0;
}

static void make_one_locked(stk__overlap *o)
{
    const call next = o->calls[o->made % CALLS];
    const uint64_t from = stk__now_ns();

    if (o->status == STK_OK) {
        stk_error err;
        stk_error_init(&err);
        pthread_mutex_unlock(&o->lock);
        const stk_status status = make_call(o->t, &next, &err);
        pthread_mutex_lock(&o->lock);
        o->status = status;
        o->err = err;
        o->hidden_ns += hidden_locked(o, from);
    }
    o->made++;
    pthread_cond_broadcast(&o->done);
}

static void overlap_run(void *argument)
{
    stk__overlap *o = argument;

    pthread_mutex_lock(&o->lock);
    while (!o->ends || o->made < o->given) {
        if (o->made < o->given)
            make_one_locked(o);
        else
            pthread_cond_wait(&o->has_work, &o->lock);
    }
    pthread_mutex_unlock(&o->lock);
}

/* Until so many calls were made. Every call of a strategy has its deadline, and so has this. */
static void wait_locked(stk__overlap *o, uint64_t number)
{
    if (o->made >= number)
        return;
    o->waited_from_ns = stk__now_ns();
    while (o->made < number)
        pthread_cond_wait(&o->done, &o->lock);
    o->waited_from_ns = 0;
}

static void settle_locked(stk__overlap *o)
{
    wait_locked(o, o->given);
    o->t->ledger.comm_hidden_ns += o->hidden_ns;
    o->hidden_ns = 0;
}

static stk_status failure_locked(const stk__overlap *o, stk_error *err)
{
    if (o->status != STK_OK)
        *err = o->err;
    return o->status;
}

static void release(stk_context *ctx, stk__overlap *o)
{
    pthread_cond_destroy(&o->done);
    pthread_cond_destroy(&o->has_work);
    pthread_mutex_destroy(&o->lock);
    stk__free(ctx, o);
}

static stk_status start(stk_trainer *t, stk_error *err)
{
    stk__overlap *o = stk__calloc(t->ctx, 1, sizeof *o);

    if (!o)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for sums over ranks");
    o->t = t;
    pthread_mutex_init(&o->lock, NULL);
    stk__cond_init(&o->has_work);
    stk__cond_init(&o->done);
    const stk_status status =
        stk__thread_start(t->ctx, &o->thread, "stk-sums", overlap_run, o, err);
    if (status == STK_OK)
        t->ranks.overlap = o;
    else
        release(t->ctx, o);
    return status;
}

stk_status stk__overlap_begin(stk_trainer *t, stk_error *err)
{
    /* What lies on a device is the trainer's thread's, and calls go to its stream without waiting.
     */
    if (!t->ranks.strategy.any_thread || !t->host_memory)
        return STK_OK;
    if (!t->ranks.overlap)
        STK_TRY(start(t, err));
    stk__overlap *o = t->ranks.overlap;
    pthread_mutex_lock(&o->lock);
    /* Of a pass that has failed something may be left. */
    settle_locked(o);
    o->status = STK_OK;
    pthread_mutex_unlock(&o->lock);
    return STK_OK;
}

stk_status stk__overlap_give(stk_trainer *t, stk__overlap_kind kind,
                             const stk__gradient_bucket *bucket, uint64_t *number, stk_error *err)
{
    stk__overlap *o = t->ranks.overlap;
    const call next = {kind, *bucket};

    *number = 0;
    if (!o)
        return make_call(t, &next, err);
    pthread_mutex_lock(&o->lock);
    if (o->given >= CALLS)
        wait_locked(o, o->given - CALLS + 1);
    o->calls[o->given % CALLS] = next;
    *number = ++o->given;
    pthread_cond_signal(&o->has_work);
    pthread_mutex_unlock(&o->lock);
    return STK_OK;
}

stk_status stk__overlap_wait(stk_trainer *t, uint64_t number, stk_error *err)
{
    stk__overlap *o = t->ranks.overlap;

    if (!o)
        return STK_OK;
    pthread_mutex_lock(&o->lock);
    wait_locked(o, number);
    const stk_status status = failure_locked(o, err);
    pthread_mutex_unlock(&o->lock);
    return status;
}

void stk__overlap_settle(stk_trainer *t)
{
    stk_error ignored;

    (void)stk__overlap_end(t, &ignored);
}

stk_status stk__overlap_end(stk_trainer *t, stk_error *err)
{
    stk__overlap *o = t->ranks.overlap;

    if (!o)
        return STK_OK;
    pthread_mutex_lock(&o->lock);
    settle_locked(o);
    const stk_status status = failure_locked(o, err);
    pthread_mutex_unlock(&o->lock);
    return status;
}

void stk__overlap_stop(stk_trainer *t)
{
    stk__overlap *o = t->ranks.overlap;

    if (!o)
        return;
    t->ranks.overlap = NULL;
    pthread_mutex_lock(&o->lock);
    o->ends = true;
    pthread_cond_signal(&o->has_work);
    pthread_mutex_unlock(&o->lock);
    stk__thread_join(&o->thread);
    release(t->ctx, o);
}
