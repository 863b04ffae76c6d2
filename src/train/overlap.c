/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that combines buckets over the ranks while the trainer's computes further gradients. It
 * takes them in the order in which they were closed, one call at a time; the trainer's own calls
 * come when none is with it.
 */
#include "train/trainer.h"

struct stk__overlap {
    stk_trainer *t;
    stk__thread thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_work, done;
    size_t closed, combined; /* buckets of this step */
    bool ends;
    stk_status status; /* the first failure: the buckets behind it are left as they are */
    stk_error err;
    uint64_t waited_from_ns; /* when the trainer began to wait for it; 0: it computes */
    uint64_t hidden_ns;      /* of this step */
};

/* What of a call's time the trainer did not wait for. */
static uint64_t hidden_locked(const stk__overlap *o, uint64_t from_ns)
{
    const uint64_t now = stk__now_ns(), end = o->waited_from_ns ? o->waited_from_ns : now;

    return end > from_ns ? end - from_ns : 0;
}

static void combine_one_locked(stk__overlap *o)
{
    const stk__gradient_bucket bucket = o->t->ranks.buckets[o->combined];
    const uint64_t from = stk__now_ns();

    if (o->status == STK_OK) {
        stk_error err;
        stk_error_init(&err);
        pthread_mutex_unlock(&o->lock);
        const stk_status status = stk__reduce_bucket(o->t, &bucket, &err);
        pthread_mutex_lock(&o->lock);
        o->status = status;
        o->err = err;
        o->hidden_ns += hidden_locked(o, from);
    }
    o->combined++;
    pthread_cond_broadcast(&o->done);
}

static void overlap_run(void *argument)
{
    stk__overlap *o = argument;

    pthread_mutex_lock(&o->lock);
    while (!o->ends || o->combined < o->closed) {
        if (o->combined < o->closed)
            combine_one_locked(o);
        else
            pthread_cond_wait(&o->has_work, &o->lock);
    }
    pthread_mutex_unlock(&o->lock);
}

/* Every call of a strategy has its deadline, and so has this. */
static void settle_locked(stk__overlap *o)
{
    o->waited_from_ns = stk__now_ns();
    while (o->combined < o->closed)
        pthread_cond_wait(&o->done, &o->lock);
    o->waited_from_ns = 0;
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
    if (!t->ranks.overlap)
        STK_TRY(start(t, err));
    stk__overlap *o = t->ranks.overlap;
    pthread_mutex_lock(&o->lock);
    /* Of a pass that has failed something may be left. */
    settle_locked(o);
    o->closed = o->combined = 0;
    o->hidden_ns = 0;
    o->status = STK_OK;
    pthread_mutex_unlock(&o->lock);
    return STK_OK;
}

void stk__overlap_push(stk_trainer *t, size_t num_buckets)
{
    stk__overlap *o = t->ranks.overlap;

    pthread_mutex_lock(&o->lock);
    o->closed = num_buckets;
    pthread_cond_signal(&o->has_work);
    pthread_mutex_unlock(&o->lock);
}

void stk__overlap_settle(stk_trainer *t)
{
    stk__overlap *o = t->ranks.overlap;

    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    settle_locked(o);
    pthread_mutex_unlock(&o->lock);
}

stk_status stk__overlap_end(stk_trainer *t, stk_error *err)
{
    stk__overlap *o = t->ranks.overlap;

    pthread_mutex_lock(&o->lock);
    settle_locked(o);
    const stk_status status = o->status;
    if (status != STK_OK)
        *err = o->err;
    t->ledger.comm_hidden_ns += o->hidden_ns;
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
