/* recorded stages of a loader, a setting -> what that setting would give */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_SIMULATE_H
#define STK_SRC_MEASURE_SIMULATE_H

#include "base/shares.h"
#include "measure/measure.h"

/*
 * A discrete-event model of the loader (docs/internals/loader.md) beside a step. Pure: no clock, no
 * I/O; the same records, setting and seed give the same bits.
 *
 *   recording --stages of it--> stages --with a setting and a seed--> waits, rate, cores, memory
 */

/* ---- What samples share (simulate_shared.c) ---------------------------------------------------
 */

/* Ranges that samples share, of which as many samples need one. */
typedef struct stk__shared_kind {
    double rows, needs;   /* samples of a range; ranges of a sample */
    double read, decoded; /* bytes of a range */
} stk__shared_kind;

/* What the recorded loader claimed of its budget, and how samples shared what was decoded for them:
 * how often it is decoded depends on how much of what the order picks from stays in the pool. */
typedef struct stk__sharing {
    stk_claims claims;
    double batch;   /* rows of the batch that these are of */
    double asked;   /* bytes for a sample, were they decoded for it alone */
    double once;    /* the same, were each decoded once for all; 0: not known, it stays as it was */
    double decoded; /* the same, as they were */
    double seconds; /* of a worker for a sample, on decoding them */
    double rows;    /* among which the order picks the next sample */
    double own;     /* s of a worker for a sample beside decoding them */
    double chunks;  /* that were decoded */
    stk__shared_kind kinds[STK_CLAIM_KINDS];
    uint32_t num_kinds;
    double found, stay; /* of the recorded setting: see stk__setting_found() */
} stk__sharing;

/* ---- Stages (simulate_stages.c) -------------------------------------------------------------- */

/* What a recording says of each stage, made free of what the recorded setting did to it. Seconds
 * and bytes. Arrays are in the order in which they were recorded. */
typedef struct stk__stages {
    stk_context *ctx;
    float *prepare; /* of a worker for a sample */
    uint64_t num_prepare;
    double mean_prepare;
    double beside; /* of `prepare`, what a worker does for a sample beside it: decoding what samples
                      share, planning */
    double cpu;    /* time of all threads but the step's for a sample; 0: not known */
    double least_work; /* as much of `prepare` is left at least where it waited for cores */
    double cpu_share;  /* of a worker's time that it computes; the rest it sleeps */
    double cpu_beside; /* CPU time of other threads for a sample */
    float *latency;    /* of a read, without its bytes on the link */
    float *bytes;      /* of a read */
    uint64_t num_reads;
    double reads;      /* of a sample; 0: it needs none, or none that takes time */
    double bandwidth;  /* of the link that all reads share, bytes/s; INFINITY: it is no limit */
    double fail_share; /* of the reads, which are tried again */
    float *steps;      /* of a step alone */
    uint64_t num_steps;
    double mean_step;
    double sample_bytes;  /* in a batch */
    double read_bytes;    /* mean of a read */
    double decoded_bytes; /* for a sample, of what samples share; 0: nothing is decoded */
    bool pictures;        /* transforms decode them */
    stk__sharing sharing;
    double unsure;       /* work may take so many times as long, or as short; 0: it is known */
    double unsure_reads; /* and so may a read */
    bool latency_asked;  /* reads take what was asked for */
} stk__stages;

/* What is simulated; numbers are those of one rank. */
typedef struct stk__setting {
    uint32_t workers, depth, prefetch, batch, ranks;
    uint32_t connections; /* reads under way at most, whatever `depth` is; 0: no limit */
    double cores;         /* that the ranks share */
    bool quota;           /* they are shares of more of them */
    uint32_t compute;     /* threads of a step that computes; 0: it sleeps */
    double budget;        /* bytes; 0: no limit */
    uint64_t epoch_steps; /* after which nothing is ahead; 0: prefetch runs on */
    double hit_share;     /* of the samples whose bytes the cache has */
    double hit_saves;     /* s of the work of such a sample */
    double cache_bytes;   /* that it takes */
    bool caches;          /* some of the budget is a cache's */
    double shared_bytes;  /* of the pool, that stays for other samples */
    bool whole_batches;   /* a worker makes a batch alone, as those of PyTorch do */
    bool helps;           /* the thread of the step helps while it waits, as rows are cheap */
    bool meets;           /* no rank begins a step before all have ended the one before */
    double meeting;       /* s that they stand together then */
    const double *others; /* s of a step of other machines, rising; of the slowest of `machines` */
    uint64_t num_others;  /* 0: there is no other machine */
    uint64_t machines;
} stk__setting;

/* Allocates; stk__stages_release() is due even on failure. */
stk_status stk__stages_of(stk_context *ctx, const stk_recording *recording, stk__stages *out,
                          stk_error *err);
void stk__stages_release(stk__stages *stages);
/*
 * (simulate.c) Work that waited for a core was recorded as longer than it is. What waited for
 * threads of its own loader waits in the model again, and has to be taken off; what waited for
 * other programs stays. So as much is taken off as makes the model as fast as the run was. `waits`
 * has room for STK__SIMULATED_STEPS.
 */
stk_status stk__stages_settle(stk__stages *stages, const stk__setting *set, double measured,
                              double *waits, stk_error *err);
/* What a worker takes becomes `by` times as long, its CPU time stays. */
void stk__stages_shorten(stk__stages *stages, double by);
#define STK__WHAT_WORKERS  1024 /* most of what may be asked for, as of the loader's options */
#define STK__WHAT_DEPTH    65536
#define STK__WHAT_PREFETCH 1024
#define STK__WHAT_BATCH    (1u << 24)
#define STK__WHAT_AHEAD    2 /* prefetch_factor where there were no workers to have one */
#define STK__HELP_SECONDS                                                                          \
    10e-6 /* rows that take less the step's thread prepares, too, while it                         \
             waits [loader/workers.c] */

/* (simulate_shared.c) What a buffer takes: sizes come in four classes for each power of two
 * [loader/pool.c]. */
double stk__buffer_of(double bytes);
/* What a read is admitted for, beside what it becomes [loader/budget.c]. */
double stk__read_of(double bytes);
/* Of figures, which have room for no more than what is known. */
void stk__sharing_of(const stk_figures *figures, stk__sharing *out);
/* Batches that a setting asks for, with the one at hand. */
uint32_t stk__setting_slabs(const stk__setting *set);
/* What each part of a rank's loader gets of the budget, which there is: as the loader divides it.
 */
stk__shares stk__setting_shares(const stk__stages *stages, const stk__setting *set);
/* The share of what rows need, beyond what is new to all, that they find in the pool, of all and of
 * each kind [STK_CLAIM_KINDS] (1: no order is gone through); and bytes that stay there for them.
 * STK_ENOMEM. */
stk_status stk__setting_found(const stk__stages *stages, const stk__setting *set, double *found,
                              double *of_kinds, double *stay, stk_error *err);
#define STK__RANKS_RUNS 12 /* of the model, where ranks meet: the slowest of many is rare */
/* (simulate_turns.c) Ranks of the core that has most of them; 1 where each has its own. What other
 * programs took of cores while it was recorded makes them no fewer. */
double stk__ranks_crowding(const stk__setting *set);
/* Samples/s of a rank whose steps meet those of the others, of `rate` that it would have if they
 * took no turns on their cores: less where steps compute and there are more ranks than cores. */
double stk__ranks_in_turn(const stk__stages *stages, const stk__setting *set, double rate);
/* (simulate_blocks.c) Whether blocks are read as a whole. */
bool stk__setting_whole(const stk__stages *stages, const stk__setting *set);
/* Work and reads take unsure^exponent times as long: 1 what is longest, from there -2 the least. */
void stk__stages_bound(stk__stages *stages, double exponent);
/* STK_EINVAL: it cannot be predicted, for a reason, and what to do. */
stk_status stk__blocks_refuse(const stk__setting *set, bool whole, const char *why, stk_error *err);
/* A setting that was `before` is `set` now: what it takes to decode and to read changes with what
 * stays in the pool, and there may be fewer workers. STK_EINVAL: what becomes of it was not
 * recorded. */
stk_status stk__setting_share(stk__stages *stages, const stk__setting *before, stk__setting *set,
                              stk_error *err);

/* The setting that was recorded. */
void stk__setting_of(const stk_recording *recording, const stk__stages *stages, stk__setting *out);
/* (simulate.c) The same with what shall be otherwise, in setting and stages. STK_EINVAL. */
stk_status stk__setting_change(const stk_what_if *what, const stk_recording *recording,
                               stk__stages *stages, stk__setting *set, stk_error *err);
/*
 * (simulate_link.c) The bytes a second of a link that carries reads one after the other, in the
 * order in which they were sent, that explain best how long they took; INFINITY where none does
 * better than no link. `reads` are in the order of their begin.
 */
double stk__link_of(const stk_recorded_read *reads, uint64_t n);
/* What is left of each, s, without its bytes and those before it on such a link. */
void stk__link_rests(const stk_recorded_read *reads, uint64_t n, double bandwidth, float *rests);

/* ---- One run of the model (simulate_run.c) --------------------------------------------------- */

#define STK__SIMULATED_STEPS   512        /* measured at most, of all ranks together */
#define STK__SIMULATED_ROWS    40000      /* samples and reads measured, where steps are so small */
#define STK__SIMULATED_LEAST   12         /* steps of a rank, however large they are */
#define STK__SIMULATED_RING    (1u << 21) /* samples, and reads, ahead that can be simulated */
#define STK__SIMULATED_ALL     (UINT64_C(1) << 23) /* samples and reads of a run of the model */
#define STK__SIMULATED_RANKS   256
#define STK__SIMULATED_WORKERS 65536 /* of all ranks */

typedef struct stk__simulated {
    double samples_per_s; /* of all ranks */
    double *waits; /* of the measured steps, s; room for STK__SIMULATED_STEPS, the caller's */
    uint64_t num_waits;
    /* Where ranks meet, s of this machine's slowest from one meeting to the next; NULL, or room as
     * of `waits`. */
    double *owns;
    uint64_t num_owns;
    double cpu_cores;    /* that the loaders kept busy, without the steps */
    double step_time;    /* mean of a step */
    double step_stretch; /* against the step alone */
    double slab_bytes;   /* of all ranks: batches, and the most that reads held */
    double pool_bytes;
} stk__simulated;

/* Records are taken in their order with seed 0, else in blocks of neighbours drawn by the seed.
 * STK_ENOMEM; STK_ELIMIT: more than can be simulated. */
stk_status stk__simulate(const stk__stages *stages, const stk__setting *setting, uint64_t seed,
                         stk__simulated *out, stk_error *err);

/* ---- Its events and cores (simulate_events.c) ------------------------------------------------ */

typedef struct stk__sim_event {
    double at;       /* s; of work on a core: when the shared clock of the cores is there */
    uint64_t order;  /* of two at the same time, the one that was added first */
    uint64_t number; /* of the read, the worker */
    uint32_t what, rank;
    double weight; /* threads that work on it; 0: it is no work on a core */
} stk__sim_event;

typedef struct stk__sim_heap {
    stk__sim_event *events;
    uint64_t room, n;
} stk__sim_heap;

/*
 * What happens next. Threads that compute share the cores in equal parts: each advances at the rate
 * of one core, or of its share where there are more threads than cores.
 */
typedef struct stk__sim_clock {
    stk_context *ctx;
    double now, shared;   /* shared: seconds that a thread that always computed would have had */
    double cores, weight; /* weight: threads that compute */
    uint64_t order;
    stk__sim_heap timed, computing;
} stk__sim_clock;

/* Something is due in `seconds`. STK_ENOMEM. */
stk_status stk__sim_after(stk__sim_clock *clock, double seconds, uint32_t what, uint32_t rank,
                          uint64_t number);
/* `threads` threads begin to compute for `seconds` each. STK_ENOMEM. */
stk_status stk__sim_compute(stk__sim_clock *clock, double seconds, double threads, uint32_t what,
                            uint32_t rank, uint64_t number);
/* Go on to the next event; false: there is none. */
bool stk__sim_next(stk__sim_clock *clock, stk__sim_event *out);
void stk__sim_release(stk__sim_clock *clock);

/* (what_if.c) Each of the texts that commas part is given to `take`, which may change it, until one
 * fails. STK_EINVAL where a name comes twice, STK_ENOMEM, or what `take` says. */
stk_status stk__asked_each(stk_context *ctx, const char *text,
                           stk_status (*take)(void *user, char *one, stk_error *err), void *user,
                           stk_error *err);

/* (simulate.c) What is asked for comes from a program: its numbers pass the same ranges as text
 * does. `tried` is a struct of the table's defaults, which is written to. STK_EINVAL. */
stk_status stk__asked_check(const stk_option_table *table, const void *asked, void *tried,
                            stk_error *err);

#endif
