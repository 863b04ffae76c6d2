/* SPDX-License-Identifier: Apache-2.0 */
/* Long calls of the library: the interpreter is free meanwhile, and Ctrl-C ends them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "native.h"

enum { LOOK_MS = 50, CANCEL_MS = 5 };

typedef struct job {
    void (*work)(void *user);
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended; /* guarded by `lock` */
} job;

static void *run_job(void *argument)
{
    job *j = argument;

    j->work(j->user);
    pthread_mutex_lock(&j->lock);
    j->has_ended = true;
    pthread_cond_signal(&j->ended);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* Signals are for the thread that waits. */
static int start(job *j, pthread_t *thread)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, NULL, run_job, j);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static bool wait_for_job(job *j, int ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    while (!j->has_ended &&
           pthread_cond_clockwait(&j->ended, &j->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    const bool ended = j->has_ended;
    pthread_mutex_unlock(&j->lock);
    return ended;
}

/* A call that has just begun may not hear the first cancel. */
static void cancel_job(job *j, void (*cancel)(void *user))
{
    Py_BEGIN_ALLOW_THREADS
    do
        cancel(j->user);
    while (!wait_for_job(j, CANCEL_MS));
    Py_END_ALLOW_THREADS
}

bool stk_py_run(void (*work)(void *user), void *user, void (*cancel)(void *user))
{
    job j = {work, user, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    pthread_t thread;

    /* Handlers of Python run in the main thread alone. */
    if (gettid() != getpid() || start(&j, &thread)) {
        Py_BEGIN_ALLOW_THREADS
        work(user);
        Py_END_ALLOW_THREADS
        return true;
    }
    bool ended = false, raised = PyErr_CheckSignals() != 0;
    while (!ended && !raised) {
        Py_BEGIN_ALLOW_THREADS
        ended = wait_for_job(&j, LOOK_MS);
        Py_END_ALLOW_THREADS
        raised = PyErr_CheckSignals() != 0;
    }
    if (!ended)
        cancel_job(&j, cancel);
    pthread_join(thread, NULL);
    return !raised;
}
