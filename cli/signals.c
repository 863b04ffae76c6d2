/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM: first ask the command to stop, then stop. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "cli.h"

static volatile sig_atomic_t caught;
/* Changed while no handler is at work, which may be on another thread. */
static void (*_Atomic callback)(void *user);
static void *callback_user;
static void (*_Atomic last)(void);
static atomic_int handling;

static void handle(int signal_number)
{
    int before = errno;

    if (caught) {
        void (*end)(void) = last;
        if (end)
            end();
        _exit(128 + signal_number);
    }
    caught = signal_number;
    atomic_fetch_add(&handling, 1);
    void (*run)(void *user) = callback;
    if (run)
        run(callback_user);
    atomic_fetch_sub(&handling, 1);
    errno = before;
}

void cli_signals_install(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    /* One of the two at a time: the handler of the first is never inside that of the other. */
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A file beyond the limit of sizes is a failed write, which is reported. */
    signal(SIGXFSZ, SIG_IGN);
}

void cli_signals_take(int signal_number)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(signal_number, &action, NULL);
}

void cli_signals_forget(void)
{
    caught = 0;
}

void cli_on_interrupt(void (*run)(void *user), void *user)
{
    sigset_t both, before;

    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &both, &before);
    callback = NULL;
    while (atomic_load(&handling))
        sched_yield();
    callback_user = user;
    callback = run;
    if (run && caught)
        run(user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_on_exit_at_once(void (*run)(void))
{
    last = run;
}

static void *watch(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

void cli_signals_watch(void)
{
    static bool watched;
    sigset_t others, before;
    pthread_t thread;

    if (watched)
        return;
    sigfillset(&others);
    sigdelset(&others, SIGINT);
    sigdelset(&others, SIGTERM);
    sigdelset(&others, SIGUSR1); /* where it was taken */
    pthread_sigmask(SIG_SETMASK, &others, &before);
    /* Without it a signal waits for the end of a pass. */
    watched = pthread_create(&thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (watched)
        pthread_detach(thread);
}

void cli_signals_ignore_pipe(void)
{
    signal(SIGPIPE, SIG_IGN);
}

int cli_interrupted(void)
{
    return caught ? 128 + caught : 0;
}

bool cli_is_interrupted(void *unused)
{
    (void)unused;
    return caught != 0;
}
