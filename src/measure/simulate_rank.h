/* a setting -> the state of its model. Inside src/measure only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_SIMULATE_RANK_H
#define STK_SRC_MEASURE_SIMULATE_RANK_H

#include "measure/simulate.h"

typedef struct stk__sim_read {
    uint64_t row_first, row_last; /* rows that need it, and maybe others between */
    uint64_t record;              /* of its bytes and latency */
    uint64_t next_again;          /* of those to be tried again; UINT64_MAX: none */
    uint64_t left; /* rows that need it and are not prepared; 1 more while it is open */
    int32_t tries;
    float held; /* bytes of the pool */
    bool done;
} stk__sim_read;

typedef struct stk__sim_row {
    float work;
    uint32_t pending, reads; /* still to come; all, from `read` on */
    uint64_t read;
} stk__sim_row;

typedef struct stk__sim_step {
    uint32_t ready_first, ready_end; /* of its rows in `ready` */
    uint32_t done;
    bool complete;
} stk__sim_step;

typedef struct stk__sim_worker {
    uint64_t serial;
    uint32_t n;     /* rows of the task at hand */
    uint32_t *rows; /* of them, in the step */
    double sleeps;  /* s, once it has computed */
} stk__sim_worker;

/* Where one goes through records, and how many are left of a block. */
typedef struct stk__sim_walk {
    uint64_t at, left;
} stk__sim_walk;

/* A loader and its step. Steps are numbered without regard to epochs, and so are their rows. */
typedef struct stk__sim_rank {
    uint32_t number;
    bool waiting, helping;   /* the step's thread waits; or prepares meanwhile */
    uint64_t first, ended;   /* steps before them were begun; have ended */
    uint64_t limit;          /* step not to plan past; UINT64_MAX: none */
    uint64_t admitted;       /* rows */
    uint64_t ready_from;     /* no step before it has a row that is ready */
    uint32_t records, slabs; /* steps ahead; of them with a slab */
    stk__sim_step *steps;    /* [records] */
    stk__sim_row *rows;      /* [row_room] */
    uint32_t *ready;         /* [row_room] */
    uint64_t row_room, read_room;
    stk__sim_read *reads;                /* [read_room] */
    uint64_t read_first, sent, read_end; /* reads before them are done with; were sent; were made */
    uint64_t again;                      /* first of those to be tried again */
    uint32_t under_way;
    bool open;                               /* rows may join the last read */
    double wanted;                           /* of a read, by the rows since the last */
    double pool_used, pool_most, pool_limit; /* bytes; limit 0: none */
    double promised;          /* bytes beyond that, until what was admitted together is sent */
    stk__sim_worker *workers; /* [workers + 1]; the last is the step's thread */
    uint32_t *idlers, idle, *task_rows;
    stk__sim_walk samples, bytes, step_times;
    uint64_t draws;
    double beside; /* CPU time of other threads that is due */
    bool beside_busy;
    double asked, began, alone;         /* s; of the step at hand */
    double window, step_sum, alone_sum; /* s; window: when the measured steps began */
    uint64_t measured;
} stk__sim_rank;

typedef struct stk__sim {
    const stk__stages *stages;
    const stk__setting *setting;
    uint64_t seed;
    stk__sim_clock clock;
    stk__sim_rank *ranks;
    uint32_t running;      /* ranks that have steps left to measure */
    uint32_t met;          /* ranks that have ended the step, where they meet */
    double met_at;         /* when they did last */
    uint32_t depth;        /* reads of a rank under way */
    uint32_t task_rows;    /* of a task */
    double read_cost;      /* bytes of the pool that a read is admitted for */
    double slab;           /* bytes of a batch */
    double decoded;        /* bytes that come of a read and are kept until it is done with */
    double link_free;      /* when the link has carried all that was asked of it */
    double loader_cpu;     /* s, of all ranks */
    double measured_cpu;   /* of it, what the measured steps of the first rank saw; until they have
                              ended, what went before them */
    uint64_t warm, wanted; /* steps before those that are measured; of a rank, that are */
    double *waits, *owns;
    uint64_t num_waits, num_owns;
    double rate, window; /* of the ranks that have ended: samples/s; the first one's seconds */
} stk__sim;

/* Work out what the setting comes to, and allocate; stk__sim_free() is due even on failure. */
stk_status stk__sim_make(stk__sim *m, stk_error *err);
void stk__sim_free(stk__sim *m);
/* A wait has ended, a step has: noted where they are measured. */
void stk__sim_note_wait(stk__sim *m, stk__sim_rank *r);
void stk__sim_note_step(stk__sim *m, stk__sim_rank *r);
/* All ranks have ended a step, so many s after the last meeting. */
void stk__sim_note_own(stk__sim *m, double seconds);
void stk__sim_figures(const stk__sim *m, stk__simulated *out);

#endif
