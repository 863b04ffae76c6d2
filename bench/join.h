/* The processes of a benchmark program that mpirun started. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_JOIN_H
#define STK_BENCH_JOIN_H

#include <stoker/collectives.h>
#include <stoker/ranks.h>

#include "stream.h"

static inline const char *bench_look(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

/* The processes that mpirun started; NULL: this one is alone. */
static inline stk_collectives *bench_join(stk_context *context)
{
    stk_collectives_options options;
    stk_collectives *all;
    stk_ranks ranks = {.struct_size = sizeof ranks};
    stk_error err;

    bench_check(stk_ranks_detect(NULL, bench_look, NULL, &ranks, &err), &err);
    if (ranks.world_size == 1)
        return NULL;
    stk_collectives_options_init(&options);
    options.transport = getenv("OMPI_COMM_WORLD_RANK") ? "openmpi" : "mpich";
    bench_check(stk_collectives_open(context, &options, &all, &err), &err);
    return all;
}

#endif
