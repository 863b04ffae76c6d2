/* the steps of several ranks -> clocks lined up, skew, who is waited for and why */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_RANKS_H
#define STK_SRC_MEASURE_RANKS_H

#include "measure/read.h"

#define STK__MEETS_STEPS 8    /* fewer tell nothing of clocks */
#define STK__MEETS_NEAR  0.25 /* of a step, within which its end is everywhere, clocks lined up */
#define STK__MEETS_MANY  64   /* steps that tell late ends from ranks that drift apart */
#define STK__MEETS_AGAIN 0.5  /* of how far an end is off, that it is from the one before, then */
#define STK__MEETS_DRIFT                                                                           \
    1e-3 /* a clock that is set right gains or loses half of this [adjtimex(2): 500 ppm] */
#define STK__STRAGGLES       0.02 /* of the time that a rank is behind, from which on it matters */
#define STK__STRAGGLES_BLOCK 8    /* blocks of steps that have to agree that it is */

/* ---- Steps (ranks_steps.c) ------------------------------------------------------------------- */

typedef struct stk__rank_steps {
    const stk__marks *marks;
    double origin; /* wall clock of their time 0, s */
} stk__rank_steps;

/*
 * Line up the steps that all `n` ranks have, and work out what `out` and `ranks` say of them: all
 * but run, rank, name, world_size and the texts. `out->cause` is UNKNOWN where there is a
 * straggler; `out->lined` is the caller's, to be freed even on failure. Pure. STK_ENOMEM.
 */
stk_status stk__ranks_compare(stk_context *ctx, const stk__rank_steps *steps, uint64_t n,
                              stk_report_rank *ranks, stk_report_world *out);
/* The value at a share of the way; of an even number the median is the lower one. Sorts. */
double stk__value_at(double *values, uint64_t n, double share);

/* ---- Causes (ranks_cause.c) ------------------------------------------------------------------ */

/* What a rank's log says of its reads, its cores and its data. NaN where unknown. */
typedef struct stk__rank_parts {
    double wait, step;     /* s of a step; step without collectives */
    double storage, work;  /* of its wait: for reads, for workers */
    double read;           /* s of a read */
    double prepare;        /* s of a worker for a sample */
    double cpu;            /* s of cores for a sample */
    double read_bytes;     /* of a sample */
    double decoded_bytes;  /* likewise */
    double pixels;         /* likewise */
    double taken_bytes;    /* likewise, as delivered */
    double cores;          /* that it may use */
    double other_cores;    /* that other programs keep busy */
    double runnable_share; /* of the time, that a thread of it wanted a core and had none */
} stk__rank_parts;

void stk__rank_parts_of(const stk__run *run, const stk_report_rank *rank, stk__rank_parts *out);
/* Seconds waited for each part, over the epochs that have ended; false: there is no ledger
 * (report_judge.c). */
bool stk__run_waits(const stk__run *run, double waits[STK_WAIT_PARTS]);
/* "1.38 s", "5.1 ms". */
const char *stk__rank_seconds(char text[32], double value);
/* Why rank `who` of `n` is behind the others, by what it differs in from their median; and that in
 * words, a sentence and what to look at; `scratch` has room for `n`. Pure. */
stk_straggling stk__rank_cause(const stk__rank_parts *all, uint64_t n, uint64_t who,
                               double *scratch, char *text, size_t size);

/* ---- Worlds (report_ranks.c) ----------------------------------------------------------------- */

typedef struct stk__worlds stk__worlds;

/* Those of all runs; `names` are the runs'. stk__worlds_destroy() is due even on failure. */
stk_status stk__worlds_create(const stk_report *report, const char *const *names,
                              stk__worlds **out);
void stk__worlds_destroy(stk_context *ctx, stk__worlds *worlds);
const stk_report_world *const *stk__worlds_shown(const stk__worlds *worlds, uint64_t *n);

#endif
