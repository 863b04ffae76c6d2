/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM: first ask the command to stop, then stop. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "cli.h"

/* Written with both signals blocked, read by the handler. */
static volatile sig_atomic_t caught;
static void (*volatile callback)(void *user);
static void *volatile callback_user;

static void handle(int signal_number)
{
    int before = errno;

    if (caught)
        _exit(128 + signal_number);
    caught = signal_number;
    if (callback)
        callback(callback_user);
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
}

void cli_on_interrupt(void (*run)(void *user), void *user)
{
    sigset_t both, before;

    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &both, &before);
    callback = run;
    callback_user = user;
    if (run && caught)
        run(user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int cli_interrupted(void)
{
    return caught ? 128 + caught : 0;
}
