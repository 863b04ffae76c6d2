/* positions -> rows with their needs, and the reads that bring them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_PLANNER_H
#define STK_SRC_LOADER_PLANNER_H

#include "base/base.h"
#include "dataset/dataset.h"
#include "loader/budget.h"
#include "loader/keep.h"
#include "loader/order.h"
#include "loader/reads.h"
#include "loader/stall.h"
#include "loader/steps.h"
#include "loader/units.h"

/*
 * Planning: which samples stand in a step, what they need, and which reads bring it. One thread at
 * a time plans, in rounds: as long as `busy` is set, all that is not marked is that thread's. Rows
 * are admitted in order of position, as many as the budget holds; a row that finds its bytes in the
 * cache, or on their way for another row, asks for nothing. When no row before it holds memory a
 * row is always admitted, if need be after the budget was divided anew, or it can never be: so the
 * budget cannot deadlock against the order.
 *
 * A picture that wants more than the room of decoding is known once its header was read, in the
 * middle of the work. Its row gives up what it has read and is put back: it is admitted again
 * together with a reserve of the pool, by which the room of decoding is larger for this row alone.
 * One row at a time has one.
 *
 * (L) is the ring's lock.
 */

enum { STK__REPLACE_TRIES = 16, STK__REASONS = 8 };

/* The reads of a round (round.c). */
typedef struct stk__round {
    stk__want *wants;
    stk__need_entry **entries; /* by the tag of a want */
    stk__request *requests;
    uint32_t *by_tag; /* the request whose oldest want has the tag */
    uint32_t num, room;
    uint64_t cost;      /* bytes of the pool that the wants may take */
    uint32_t *seen;     /* wants by range, where the dataset decodes; UINT32_MAX: none */
    uint32_t seen_room; /* a power of two */
} stk__round;

/*
 * Rows that their tasks read (now.c). As long as storage hardly ever lets anybody wait, as files in
 * memory do not, a row that wants one small range is ready as soon as it is located: its task reads
 * by read_now() of the store, right before it prepares the row, with neither a unit nor a buffer of
 * the pool. Whatever is not had at once is put back, and so read as all others are; where that is
 * more than a few rows in many, so are those that follow, until storage was calm for a while.
 */
enum { STK__NOW_BYTES = 32768 }; /* of ranges that a task holds at a time */

typedef struct stk__near {
    bool may;                /* the loader has use for it; fixed */
    bool now;                /* tasks read; the planner's, as the next four */
    uint64_t served, waited; /* ranges as of the last round */
    uint64_t calm;           /* ranges in a row that hardly ever waited */
    uint32_t relapses;       /* so often it was too slow after that */
    uint64_t tried, missed;  /* (L) rows lately, and those that were not had */
} stk__near;

typedef struct stk__planner {
    stk_context *ctx;
    stk_dataset *dataset;
    const stk__order *order;
    const stk__budget *budget;
    const stk__keeping *keeping;
    stk__ring *ring;
    stk__steps *steps;
    stk__units *units;
    stk__reads *reads;
    stk__stalls *stalls;
    bool replaces;     /* on_error: replace */
    bool blocks;       /* locate() is told so */
    bool decodes;      /* some column decodes pictures: rows may be put back */
    bool runs;         /* rows that need the same are taken as runs */
    bool late;         /* (L) rows were put back: later ones must not hold memory meanwhile */
    bool busy;         /* (L) a thread is planning: what follows is its own */
    uint64_t since_ns; /* (L) when it began; 0: none does */
    bool sends;        /* (L) the last round sent reads */
    stk__order_epoch epoch;
    stk__round round;
    char reasons[STK__REASONS][STK_ERROR_TEXT]; /* of failures of locate(), the first; "": none */
    uint32_t *map;                              /* row of each index handed to locate() */
    const stk__pad **pads; /* of each ragged field; NULL: it is not filled up */
    uint64_t *pad_most;    /* of each: the longest bound so far, of a step */
    uint64_t rows, cache_hits, cache_misses, cache_hit_bytes; /* so far */
    struct {
        uint64_t rows, busy_ns, cache_hits, cache_misses, cache_hit_bytes, positions;
    } shown;               /* (L) the same as of the last round */
    uint64_t admit_serial; /* the step whose rows are being admitted */
    uint32_t num_replace;  /* (L) rows in all steps that want one, or were put back */
    uint64_t wanted;       /* (L) bytes of the pool that a row waits for, and that it never has */
    bool waits_late;       /* (L) a row that was put back waits for what later rows may hold */
    bool again;            /* (L) a row came to be one of those in the round at hand */
    bool reserving;        /* (L) a row has its reserve: one at a time */
    stk__near near;
} stk__planner;

/* The first members are filled in. STK_ENOMEM; stk__planner_destroy() is due even then. */
stk_status stk__planner_init(stk__planner *planner);
void stk__planner_destroy(stk__planner *planner);
/* Whether a round of planning could do something now. (L) held. */
bool stk__can_plan_locked(const stk__planner *planner);
/* Plan some steps and send their reads. (L) held; let go inside, held again at the end. */
void stk__plan_round_locked(stk__planner *planner);
/* Plan from `serial` on; no step is in the making. (L) held. */
void stk__planner_reset_locked(stk__planner *planner, uint64_t serial);
/* Since when a thread plans; 0: none does. (L) held. */
uint64_t stk__planner_since_locked(const stk__planner *planner);

/* ---- Rows that are admitted again (again.c) ---- */

/* Nobody is at work on steps, and nothing is left to be done now. (L) held. */
bool stk__planner_quiet_locked(const stk__planner *planner);
/* Nothing moves: a row waits for bytes that the pool does not have, or that later rows hold. (L)
 * held. */
bool stk__planner_stuck_locked(const stk__planner *planner);
/* A row wants `wanted` bytes to be decoded: how many there can be for it. (L) free. */
void stk__row_measure(const stk__planner *planner, stk__row *row, uint64_t wanted);
/* A row is to be admitted again. (L) held. */
void stk__row_plan_again_locked(stk__planner *planner, stk__row *row);
/* If the bytes it wants can be had the row is put back. (L) held. */
bool stk__row_put_back_locked(stk__planner *planner, stk__row *row);
/* The task of a row could not have its bytes at once: it is put back. (L) held. */
void stk__row_read_late_locked(stk__planner *planner, stk__row *row);
/* Take the reserve of a row, for which the pool has room; or give it back, if the row has it, and
 * tell the planner. (L) free. */
void stk__row_reserve(stk__planner *planner, stk__row *row);
void stk__row_return(stk__planner *planner, stk__row *row);
void stk__row_unreserve(stk__planner *planner, stk__row *row);

/* ---- Rows that their tasks read (now.c) ---- */

/* Whether tasks shall read, as of what came of reads since the last round. (L) held. */
void stk__near_judge_locked(stk__planner *planner);
/* Whether the task of a row shall read it. */
bool stk__row_is_near(const stk__planner *planner, const stk__row *row);

/* ---- Within (round.c, locate.c) ---- */

/* Room for `wants` more of a row. STK_ENOMEM. */
stk_status stk__round_grow(stk__planner *planner, uint32_t wants);
/* Whether a want of the round is of the same range. */
bool stk__round_shares(const stk__round *round, const stk_need *need);
void stk__round_add(stk__round *round, stk__need_entry *entry);
/* Turn the wants of the round into reads; false: there is none. */
bool stk__round_send(stk__planner *planner);
void stk__round_release(stk_context *ctx, stk__round *round);

/* Fill the record of a step: its samples, their needs, and room for ragged values. The record is
 * the planner's own until it is published. */
void stk__step_locate(stk__planner *planner, stk__step *step, uint64_t serial);
/* Draw a substitute for a bad row and locate it. */
stk_status stk__row_locate_substitute(stk__planner *planner, stk__step *step, uint32_t row);
/* The reason of ragged values that do not fit: compare pointers. */
extern const char stk__ragged_too_large[];

#endif
