/* SPDX-License-Identifier: Apache-2.0 */
/* A loader of Python for those who look on: 'stoker top'. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "native.h"

/* One that is gone sooner is seen by nobody, and opening a sheet costs as much as some batches. */
#define OLD_SECONDS 1

static int64_t now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

void stk_py_live_begin(stk_py_live *live, const char *name, const stk_loader_options *options)
{
    *live = (stk_py_live){.born = now_seconds()};
    if (options->world_size > 1)
        snprintf(live->label, sizeof live->label, "rank %" PRIu64 " of %" PRIu64 ", %.80s",
                 options->rank, options->world_size, name);
    else
        snprintf(live->label, sizeof live->label, "%.100s", name);
}

void stk_py_live_look(stk_py_live *live, stk_context *context)
{
    stk_error err;

    if (live->tried || now_seconds() - live->born <= OLD_SECONDS)
        return;
    live->tried = true;
    /* Nobody has asked for it: what fails is a loader that cannot be looked at. */
    Py_BEGIN_ALLOW_THREADS(void)
    !stk_live_open(context, "python", live->label, &live->open, &err);
    Py_END_ALLOW_THREADS
}

void stk_py_live_end(stk_py_live *live)
{
    stk_live *ended = live->open;

    live->open = NULL;
    live->tried = true;
    Py_BEGIN_ALLOW_THREADS
    stk_live_close(&ended);
    Py_END_ALLOW_THREADS
}
