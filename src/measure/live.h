/* counters -> a page of memory that others read: what the files of live*.c share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_LIVE_H
#define STK_SRC_MEASURE_LIVE_H

#include <stoker/live.h>

#include "base/probe.h"
#include "measure/measure.h"

#define STK__LIVE_NAME    "stoker-live" /* of the memory */
#define STK__LIVE_MAGIC   "STKLIVE"
#define STK__LIVE_VERSION 1

/* The memory. `sequence` is odd while `state` is written [seqlock: Lameter 2005]. */
typedef struct stk__live_page {
    char magic[8];
    uint32_t version, bytes; /* bytes: of all of it */
    atomic_uint_fast64_t sequence;
    stk_live_state state;
} stk__live_page;

stk_context *stk__live_context(const stk_live *live);
/* Make the texts of a foreign state end, and its counts fit their arrays. */
void stk__live_tame(stk_live_state *state);
/* A state of the caller's size, tamed, as one of this version. */
void stk__live_take(stk_live_state *out, const stk_live_state *theirs);
/* Read the page of a descriptor: STK_EMISMATCH, STK_EAGAIN. It is not closed. */
stk_status stk__live_read_page(int fd, stk_live_state *out, stk_error *err);

/* ---- Looks (live_look.c) --------------------------------------------------------------------- */

typedef struct stk__live_slot {
    atomic_uint_fast64_t busy_ns, samples, index, end_ns;
} stk__live_slot;

/* What the listener counts. */
typedef struct stk__live_counts {
    atomic_uint_fast64_t samples, batches, epoch, bad;
    atomic_uint_fast64_t reads, read_ns, read_bytes, read_failures;
    stk__live_slot slots[STK_LIVE_WORKERS];
} stk__live_counts;

/* All that was known at one moment. */
typedef struct stk__live_look {
    uint64_t at_ns;
    uint64_t samples, batches, reads, read_ns, read_bytes;
    uint64_t cpu_ns, machine_ns;
    uint64_t busy_ns[STK_LIVE_WORKERS];
    uint64_t done;
    struct {
        const void *loader; /* only ever compared */
        uint64_t batches, wait_ns;
    } loaders[STK_LIVE_LOADERS]; /* at work then */
    uint32_t num_loaders;
    const void *loader; /* of `stats`, the one that gives batches; NULL: none */
    stk_loader_stats stats;
} stk__live_look;

#define STK__LIVE_LOOKS 8 /* of which rates are: half a second each */

typedef struct stk__live_watch {
    stk_context *ctx;
    stk__live_counts counts;
    stk__live_look looks[STK__LIVE_LOOKS];
    uint64_t num_looks;
    char what[64];                /* that is counted, */
    uint64_t what_ns, what_first; /* since when, and how much of it was done then */
    stk_live_state state;
} stk__live_watch;

void stk__live_event(stk__live_watch *watch, const stk__event *event);
/* Look once more: `state` is of now. One thread at a time. */
void stk__live_watch_look(stk__live_watch *watch, uint64_t now_ns);

#endif
