/* A clock of this process that a test sets forward: sanitizers and libraries see it as well. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_CLOCK_H
#define STK_TESTS_SUPPORT_CLOCK_H

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_llong ahead; /* seconds that the clock of this process is ahead */

int clock_gettime(clockid_t id, struct timespec *t)
{
    const int result = (int)syscall(SYS_clock_gettime, id, t);

    t->tv_sec += atomic_load(&ahead);
    return result;
}

#endif
