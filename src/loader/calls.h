/* a loader calls what outsiders may write -> who is in such a call, and for how long */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_CALLS_H
#define STK_SRC_LOADER_CALLS_H

#include <stoker/loader.h>

#include "base/base.h"

struct stk__planner;
struct stk__ring;
struct stk__steps;

/* The calling thread is in a function of a loader's dataset, transform or store. */
typedef struct stk__call {
    const struct stk__ring *ring; /* of the loader */
    const struct stk__call *outer;
} stk__call;

void stk__call_begin(stk__call *call, const struct stk__ring *ring);
void stk__call_end(const stk__call *call);
/* STK_EINVAL where the calling thread is in such a function of this loader: it would wait for
 * itself. */
stk_status stk__call_check(const struct stk__ring *ring, const char *function, stk_error *err);
/* Whether a dataset and the transforms of the ring's columns are built in. */
bool stk__calls_are_own(const struct stk__ring *ring, const stk_dataset *dataset);

/* What a thread is doing, written by it and read by any. */
typedef struct stk__doing {
    atomic_uint_fast64_t since_ns, sample; /* since_ns 0: nothing */
    atomic_bool decodes;                   /* `sample` is the object that it decodes a part of */
} stk__doing;

void stk__doing_begin(stk__doing *doing, bool decodes, uint64_t sample, uint64_t now_ns);
void stk__doing_sample(stk__doing *doing, uint64_t sample);
void stk__doing_end(stk__doing *doing);
/* Say it, and for how long; returns the length, 0: nothing. */
size_t stk__doing_describe(const stk__doing *doing, const char *who, uint64_t now_ns, char *text,
                           size_t size);

/* The watch over the caller's own thread, where that does the work of workers: it says when a call
 * in there does not end. */
typedef struct stk__watch {
    struct stk__ring *ring;
    const struct stk__steps *steps;
    const struct stk__planner *planner;
    const stk__doing *doing; /* of the caller's thread */
    uint64_t every_ns;
    bool stopping; /* (L) */
    stk__thread thread;
} stk__watch;

/* Start it where it does not run; the first members are filled in. */
stk_status stk__watch_start(stk__watch *watch, stk_error *err);
/* (L) free. */
void stk__watch_stop(stk__watch *watch);

#endif
