/* the parts of a loader together, and what moves all of them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_PARTS_H
#define STK_SRC_LOADER_PARTS_H

#include "loader/bad.h"
#include "loader/budget.h"
#include "loader/calls.h"
#include "loader/finish.h"
#include "loader/keep.h"
#include "loader/order.h"
#include "loader/pace.h"
#include "loader/planner.h"
#include "loader/reads.h"
#include "loader/ring.h"
#include "loader/stall.h"
#include "loader/steps.h"
#include "loader/units.h"
#include "loader/workers.h"

/* Each part guards its own members, as its header says; the parts point at each other. What is
 * here besides is the consumer's: one thread at a time is in a call of the loader. */
struct stk_loader {
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader_options options;
    stk__order order;
    stk__budget budget;
    stk__column *columns; /* what a batch is to be; the ring has a copy */
    uint32_t num_columns;
    stk__ring *ring;
    stk__steps steps;
    stk__keeping keeping;
    stk__reads reads;
    stk__units units;
    stk__planner planner;
    stk__finisher finisher;
    stk__workers workers;
    stk__stalls stalls;
    stk__bad bad;
    stk__watch watch;
    stk__pace pace;     /* of num_workers and io_depth, where they are auto */
    uint32_t depth;     /* (L) reads under way at each store at most */
    bool own;           /* dataset and transforms are built in: calls of them end */
    bool eos_pending;   /* the end of the epoch before the first step is still to be told */
    uint64_t delivered; /* batches, under the ring's lock */
    uint64_t asked_ns;  /* since when the consumer has waited, over several calls; 0: it does not */
    uint64_t watched_ns; /* when it was last said who is stuck */
    uint64_t abandon_ns; /* a thread that has not ended so long after it was told to is left */
    atomic_bool canceled;
    uint64_t look_ns; /* so often the consumer looks whether more memory is wanted */
};

/* ---- Making (make.c) ---- */

stk_status stk__loader_options_check(const stk_loader_options *options, stk_error *err);
/* The order and the columns; then everything of a loader but its threads, those two included.
 * stk__loader_free() is due even on failure. */
stk_status stk__loader_outline(stk_loader *loader, stk_error *err);
/* After the first: bytes of memory_budget that it would hold, or needs where they are too few. */
/* Have so many at work, at least one and as far as there are records for them, with what they have
 * ahead. Batches are not given up again. The consumer's thread; (L) free. */
void stk__loader_move(stk_loader *loader, uint32_t workers);
uint64_t stk__loader_need(stk_loader *loader);
/* Bytes of a block, where with more memory or less samples may be read by blocks; 0: never. */
uint64_t stk__loader_block(const stk_loader *loader);
stk_status stk__loader_build(stk_loader *loader, stk_error *err);
/* Free all but batches that are held. No thread is left. */
void stk__loader_free(stk_loader *loader);

/* ---- Starting and stopping (threads.c) ---- */

stk_status stk__loader_start(stk_loader *loader, stk_error *err);
/* Stop all threads and drop what is planned. False: one does not end, and what it uses is left to
 * it. */
bool stk__loader_stop(stk_loader *loader);
/* The same in two parts: no thread begins anything from now on (L held); wait for their end. */
void stk__loader_ending_locked(stk_loader *loader);
bool stk__loader_end(stk_loader *loader);
/* Drop all planned steps and go on at `serial`. (L) free. */
void stk__loader_reset(stk_loader *loader, uint64_t serial);
/* Plan as far as the options allow from the first step on. (L) held, or no thread yet. */
void stk__loader_limit_locked(stk_loader *loader);
/* Divide the budget anew for a row that waits for more, and go on with the first step: nothing is
 * at work, so that nothing is waited for. The consumer's; (L) held, let go inside. */
stk_status stk__loader_widen_locked(stk_loader *loader, stk_error *err);

/* ---- State (state.c) ---- */

/* What decides the order and values of a loader, as a state of its beginning. */
void stk__state_of(const stk_dataset *dataset, const stk__order *order,
                   const stk_loader_options *options, stk_loader_state *out);
/* Whether a state belongs to the order of a loader whose own is `own`. STK_EMISMATCH names the
 * first thing that differs. */
stk_status stk__state_same(const stk_loader_state *saved, const stk_loader_state *own,
                           stk_error *err);
/* Whether its values are the same, too; if not that is a message of the context `warn`, or without
 * one STK_EMISMATCH. */
stk_status stk__state_same_values(const stk_loader_state *saved, const stk_loader_state *own,
                                  stk_context *warn, stk_error *err);

#endif
