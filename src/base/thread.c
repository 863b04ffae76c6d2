/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "base/numa.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

static void *thread_main(void *argument)
{
    stk__thread *thread = argument;

    pthread_setname_np(pthread_self(), thread->name);
    /* The kernel may round a sleep up by the slack, 50 us unless told otherwise: 5 % of a
     * millisecond. */
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    stk__place_thread(thread->context);
    thread->run(thread->argument);
    return NULL;
}

stk_status stk__thread_start(stk_context *ctx, stk__thread *thread, const char *name,
                             void (*run)(void *), void *argument, stk_error *err)
{
    sigset_t all, before;

    thread->context = ctx;
    thread->run = run;
    thread->argument = argument;
    snprintf(thread->name, sizeof thread->name, "%s", name);
    /* Signals belong to the threads of the program. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread->handle, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread->started = error == 0;
    if (error)
        return stk__fail(
            err, STK_ETHREAD, STK_STAGE_NONE,
            "could not start the thread %s: %s; fewer workers, or a higher limit of processes "
            "(ulimit -u), may help",
            name, error == EAGAIN ? "too many threads or too little memory" : "refused");
    return STK_OK;
}

void stk__thread_background(void)
{
    const struct sched_param none = {0};

    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

void stk__thread_join(stk__thread *thread)
{
    if (!thread->started)
        return;
    pthread_join(thread->handle, NULL);
    thread->started = false;
}

void stk__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool stk__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t when_ns)
{
    if (when_ns == UINT64_MAX) {
        pthread_cond_wait(cond, mutex);
        return true;
    }
    struct timespec t = {.tv_sec = (time_t)(when_ns / 1000000000u),
                         .tv_nsec = (long)(when_ns % 1000000000u)};
    return pthread_cond_timedwait(cond, mutex, &t) != ETIMEDOUT;
}
