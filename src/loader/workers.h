/* rows with their bytes -> values in the slabs */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_WORKERS_H
#define STK_SRC_LOADER_WORKERS_H

#include "loader/bad.h"
#include "loader/calls.h"
#include "loader/finish.h"
#include "loader/planner.h"
#include "transform/transform.h"

/*
 * Threads that plan, decode and prepare, and the record of the consumer, which does all that where
 * there are none. A *task* is some rows of one step: only the thread that took them touches them
 * until the task is over. A worker's own members need no lock; (L) is the ring's.
 */

enum { STK__TASK_ROWS = 512, STK__PREPARE_ROWS = 32 };

typedef struct stk__workers stk__workers;

/* What a worker reads itself (now.c). */
typedef struct stk__now {
    char *data;                        /* STK__NOW_BYTES; NULL: it never does */
    uint64_t object;                   /* that was read last: */
    stk_store *store;                  /* NULL: none was */
    char key[256];                     /* a longer one is not read here */
    uint64_t reads, missed, bytes, ns; /* of the task at hand */
} stk__now;

typedef struct stk__worker {
    stk__workers *team;
    uint32_t number; /* UINT32_MAX: the consumer's thread */
    stk__thread thread;
    stk_sample *samples; /* [STK__PREPARE_ROWS] */
    stk_value *values;   /* [STK__PREPARE_ROWS * fields of the dataset] */
    char *staging;       /* decoded samples on their way to a transform */
    char *scratch;       /* of the transforms */
    stk__step *step;     /* of the task at hand */
    uint32_t rows[STK__TASK_ROWS], num_rows;
    uint32_t run;       /* rows of the run that the only row of the task stands for; 0: none */
    uint32_t num_bad;   /* rows of the task that failed, here or before */
    stk__row *reserved; /* the row of the task that has a reserve, or NULL */
    uint64_t indices[STK__TASK_ROWS];
    stk_rows_field *many_fields; /* of a call for rows that need the same; so the next two */
    stk_status *many_statuses;
    const char **many_reasons;
    uint64_t *many_lines;
    const void **sources; /* [STK__PREPARE_ROWS] of a pipeline run; so the next three */
    void **targets;
    uint64_t *run_positions, *run_epochs;
    stk_status statuses[STK__PREPARE_ROWS];
    const char *reasons[STK__PREPARE_ROWS];
    uint64_t
        memory[STK__PREPARE_ROWS]; /* bytes: a reserve, then what one wants that is too large */
    stk_slice encoded[STK__PREPARE_ROWS]; /* instead of sources, where the pipeline decodes */
    stk__decoding *decoding;              /* NULL: no pipeline decodes */
    stk__decode_times shown;              /* (L) of it, counted in the team's so far */
    uint32_t tasks;                       /* (L) taken so far */
    bool timed;                           /* the task at hand is divided by stamps */
    uint64_t mark_ns;                     /* of the last stamp */
    uint64_t idle_ns;                     /* the team's, when the task was taken */
    double work[STK__WORK_PARTS], all_work[STK__WORK_PARTS]; /* of the task, ns; running sums */
    uint64_t *blob_head; /* sizes of the fields of a decoded sample */
    stk_slice *blob;
    void *state; /* of the dataset */
    stk__now now;
    stk__doing doing;
} stk__worker;

struct stk__workers {
    stk_context *ctx;
    stk_dataset *dataset;
    const stk__order *order;
    const stk__keeping *keeping;
    stk__ring *ring;
    stk__steps *steps;
    stk__units *units;
    stk__planner *planner;
    stk__finisher *finisher;
    stk__stalls *stalls;
    bool replaces;        /* on_error: replace */
    bool decodes;         /* some column does; the room is made */
    uint32_t many_rows;   /* that need the same the dataset prepares by one call, so many at most;
                             0: it does not */
    uint64_t staging_row; /* bytes of one sample before the transforms */
    uint64_t scratch_bytes;
    uint64_t now_bytes;    /* of what a worker reads itself at a time; 0: it never does */
    uint32_t prepare_rows; /* samples that the dataset prepares at a time */
    stk__decode_room decode_room;
    stk__worker *each;
    uint32_t num;           /* records, and threads at most */
    uint32_t started;       /* threads, of the first records; the consumer's */
    uint32_t active;        /* (L) of them at work; the others sleep until there are to be more */
    pthread_cond_t more;    /* there are */
    uint32_t running;       /* (L) of them alive */
    bool stopping;          /* (L) they are to end */
    stk__worker self;       /* the consumer's */
    uint64_t near_until_ns; /* until then the consumer helps with its first batch alone */
    double mean_row_ns;     /* (L) running mean of preparing a row */
    uint64_t prepared, prepare_busy_ns;  /* (L) */
    uint64_t reads, read_bytes, read_ns; /* (L) by the workers themselves */
    uint64_t wait_in_ns, wait_out_ns;    /* (L) of all workers */
    uint64_t idle_ns;                    /* (L) when the last that had waited for work found some */
    uint32_t num_idle;                   /* (L) of them that wait for it now, */
    uint64_t idle_begins_ns;             /* (L) since when: the sum */
    stk__decode_times decode;            /* (L) of all workers */
};

/* How long workers had nothing to do until now, as more was to be read, in the mean of those at
 * work; ns. It is less after there are to be more of them. (L) held. */
uint64_t stk__workers_idle_locked(const stk__workers *workers, uint64_t now_ns);
/* Bytes that a worker takes. */
uint64_t stk__worker_bytes(const stk__workers *workers);
/* Records of `num` workers, of which the first `active` are to be at work, and of the consumer; the
 * members before `each` are filled in.
 * STK_ENOMEM; stk__workers_release() is due even then. */
stk_status stk__workers_init(stk__workers *workers, uint32_t num, uint32_t active,
                             uint64_t decode_each, uint64_t decode_most);
/* Keep the first `num`. No thread runs. */
void stk__workers_shrink(stk__workers *workers, uint32_t num);
void stk__workers_release(stk__workers *workers);

/* Start the threads that are to be at work; on failure some may run. */
stk_status stk__workers_start(stk__workers *workers, stk_error *err);
/* From now on so many of the records are at work, 1 at least; as far as threads can be started.
 * Returns how many there are now. (L) free. */
uint32_t stk__workers_move(stk__workers *workers, uint32_t active);
/* Tell the threads to end, or that they may run again. (L) held. */
void stk__workers_stop_locked(stk__workers *workers, bool stop);
/* Wait for their end. False: not by `until`. (L) held. */
bool stk__workers_wait_locked(stk__workers *workers, uint64_t until);
void stk__workers_join(stk__workers *workers);

/* Rows of the task at hand. */
static inline uint32_t stk__task_rows(const stk__worker *worker)
{
    return worker->run ? worker->run : worker->num_rows;
}
/* Take the rows of a task: of the oldest step that has any. (L) held. */
bool stk__task_take_locked(stk__worker *worker);
/* Prepare the task at hand, account for it. (L) free; held at the end. */
void stk__task_run(stk__worker *worker);
/* A row failed in preparing. */
void stk__row_is_bad(stk__row *row, stk_status status, stk_stage stage, const char *reason);
/* How many rows that need the same can be prepared by one call, to such columns; 0: none can.
 * (many.c) */
uint32_t stk__many_rows(const stk_dataset *dataset, const stk__column *columns, uint32_t n,
                        bool in_order);
/* How many rows of a task from row `first` on need the same and are to be prepared by one call, a
 * run being one; 0: not this row. */
uint32_t stk__many_next(const stk__worker *worker, uint32_t first);
/* Prepare them: `n` rows, straight to their places. */
void stk__many_prepare(stk__worker *worker, const uint32_t *rows, uint32_t n);
/* Some rows of the run of a task are bad: give each its entry, which says so. (L) held. */
void stk__many_part_locked(stk__worker *worker);
/* Read the rows of a task that it has to read itself; of `most` as many as there is room for at a
 * time, which it returns. What cannot be had at once has the status STK_EAGAIN. (L) free. */
uint32_t stk__now_read(stk__worker *worker, const uint32_t *rows, uint32_t most);
/* What the task read is counted. (L) held. */
void stk__now_count_locked(stk__worker *worker);
/* A piece of work in the consumer's thread; false: there is none for it. `own`: dataset and
 * transforms are built in. (L) held; let go inside. */
bool stk__consumer_help_locked(stk__workers *workers, bool own);

#endif
