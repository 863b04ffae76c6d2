/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/crew.h"

#include <stdio.h>

#define WATCH_NS UINT64_C(100000000)

typedef struct member {
    stk__crew *crew;
    uint32_t number;
    stk__thread thread;
} member;

struct stk__crew {
    stk_context *context;
    uint32_t threads;
    member *members;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t
        changed;        /* for members: there is work, or the end; for the caller: one is done */
    stk__crew_fn *task; /* NULL: nothing is to be done */
    void *user;
    uint64_t next, count;
    uint32_t most, working;
    bool end;
    stk_error failure; /* status STK_OK: none */
};

static void note_failure_locked(stk__crew *c, const stk_error *err)
{
    if (c->failure.status == STK_OK)
        c->failure = *err;
    c->next = c->count;
}

/* Do tasks until there is none; with the lock. */
static void work_locked(stk__crew *c, uint32_t number)
{
    stk_error err;

    while (c->task && number < c->most && c->next < c->count) {
        const uint64_t task = c->next++;
        stk__crew_fn *const run = c->task;
        void *const user = c->user;
        c->working++;
        pthread_mutex_unlock(&c->lock);
        stk_error_init(&err);
        const stk_status status = run(user, number, task, &err);
        pthread_mutex_lock(&c->lock);
        c->working--;
        if (status != STK_OK)
            note_failure_locked(c, &err);
        if (!c->working && c->next == c->count)
            pthread_cond_broadcast(&c->changed);
    }
}

static void work(void *argument)
{
    member *m = argument;
    stk__crew *c = m->crew;

    stk__thread_background();
    pthread_mutex_lock(&c->lock);
    while (!c->end) {
        work_locked(c, m->number);
        if (!c->end)
            stk__cond_wait_until(&c->changed, &c->lock, UINT64_MAX);
    }
    pthread_mutex_unlock(&c->lock);
}

stk_status stk__crew_create(stk_context *ctx, uint32_t threads, stk__crew **out, stk_error *err)
{
    stk__crew *c = stk__calloc(ctx, 1, sizeof *c);
    stk_status status = STK_OK;
    char name[16];

    *out = c;
    if (c)
        c->members = stk__calloc(ctx, STK_MAX(threads, 1), sizeof *c->members);
    if (!c || !c->members) {
        stk__free(ctx, c);
        *out = NULL;
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for workers");
    }
    c->context = ctx;
    pthread_mutex_init(&c->lock, NULL);
    stk__cond_init(&c->changed);
    for (; status == STK_OK && c->threads < threads; c->threads += status == STK_OK) {
        member *m = &c->members[c->threads];
        *m = (member){.crew = c, .number = c->threads};
        snprintf(name, sizeof name, "convert %u", (unsigned)(c->threads % 1000));
        status = stk__thread_start(ctx, &m->thread, name, work, m, err);
    }
    if (status != STK_OK)
        stk__crew_destroy(out);
    return status;
}

void stk__crew_destroy(stk__crew **crew)
{
    stk__crew *c = *crew;

    if (!c)
        return;
    *crew = NULL;
    pthread_mutex_lock(&c->lock);
    c->end = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->threads; i++)
        stk__thread_join(&c->members[i].thread);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    stk__free(c->context, c->members);
    stk__free(c->context, c);
}

uint32_t stk__crew_size(const stk__crew *crew)
{
    return STK_MAX(crew->threads, 1);
}

/* Everything in the calling thread. */
static stk_status run_alone(uint64_t count, stk__crew_fn *task, stk__crew_watch_fn *watch,
                            void *user, stk_error *err)
{
    uint64_t last = stk__now_ns();

    for (uint64_t i = 0; i < count; i++) {
        STK_TRY(task(user, 0, i, err));
        if (stk__now_ns() - last < WATCH_NS)
            continue;
        STK_TRY(watch(user, err));
        last = stk__now_ns();
    }
    return STK_OK;
}

stk_status stk__crew_run(stk__crew *c, uint32_t most, uint64_t count, stk__crew_fn *task,
                         stk__crew_watch_fn *watch, void *user, stk_error *err)
{
    stk_error own;

    if (!c->threads)
        return run_alone(count, task, watch, user, err);
    pthread_mutex_lock(&c->lock);
    c->task = task;
    c->user = user;
    c->next = 0;
    c->count = count;
    c->most = most ? most : c->threads;
    stk_error_init(&c->failure);
    pthread_cond_broadcast(&c->changed);
    uint64_t due = stk__now_ns() + WATCH_NS;
    while (c->working || c->next < c->count) {
        if (stk__cond_wait_until(&c->changed, &c->lock, due) && stk__now_ns() < due)
            continue;
        pthread_mutex_unlock(&c->lock);
        stk_error_init(&own);
        const stk_status status = watch(user, &own);
        pthread_mutex_lock(&c->lock);
        if (status != STK_OK)
            note_failure_locked(c, &own);
        due = stk__now_ns() + WATCH_NS;
    }
    c->task = NULL;
    const stk_error failure = c->failure;
    pthread_mutex_unlock(&c->lock);
    if (failure.status != STK_OK && err)
        *err = failure;
    return failure.status;
}
