/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/lookers.h"

#define MAX_CREW         16u
#define TELL_AFTER_NS    UINT64_C(500000000) /* what takes less is not worth a bar */
#define TELL_INTERVAL_NS UINT64_C(200000000)

typedef struct crew {
    void (*work)(void *);
    void *argument;
    pthread_mutex_t mutex; /* guards `running` */
    pthread_cond_t ended;
    uint32_t running;
} crew;

uint32_t stk__lookers(const stk_context *ctx)
{
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(ctx, &cores);
    return STK_MIN(4 * cores.usable, MAX_CREW);
}

static void crew_main(void *argument)
{
    crew *c = argument;

    c->work(c->argument);
    pthread_mutex_lock(&c->mutex);
    c->running--;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->mutex);
}

void stk__lookers_run(stk_context *ctx, uint32_t threads, void (*work)(void *), void *argument,
                      const char *what, const atomic_uint_fast64_t *done, uint64_t total)
{
    crew c = {.work = work, .argument = argument, .mutex = PTHREAD_MUTEX_INITIALIZER};
    stk__thread members[MAX_CREW] = {{0}};
    uint32_t started = 0;
    bool told = false;

    threads = STK_MIN(threads, MAX_CREW);
    stk__cond_init(&c.ended);
    c.running = threads > 1 ? threads : 0;
    while (threads > 1 && started < threads &&
           stk__thread_start(ctx, &members[started], "stk-list", crew_main, &c, NULL) == STK_OK)
        started++;
    if (started == 0)
        work(argument);
    uint64_t when = stk__now_ns() + TELL_AFTER_NS;
    pthread_mutex_lock(&c.mutex);
    if (threads > 1)
        c.running -= threads - started;
    while (c.running) {
        if (stk__cond_wait_until(&c.ended, &c.mutex, when))
            continue;
        pthread_mutex_unlock(&c.mutex);
        stk__progress(ctx, what, atomic_load_explicit(done, memory_order_relaxed), total);
        told = true;
        when = stk__now_ns() + TELL_INTERVAL_NS;
        pthread_mutex_lock(&c.mutex);
    }
    pthread_mutex_unlock(&c.mutex);
    for (uint32_t i = 0; i < started; i++)
        stk__thread_join(&members[i]);
    if (told) {
        uint64_t all = atomic_load_explicit(done, memory_order_relaxed);
        stk__progress(ctx, what, all, total ? total : all);
    }
    pthread_cond_destroy(&c.ended);
    pthread_mutex_destroy(&c.mutex);
}
