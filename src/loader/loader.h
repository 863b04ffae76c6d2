/* samples -> batches, in order */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_LOADER_H
#define STK_SRC_LOADER_LOADER_H

#include <stoker/loader.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "loader/budget.h"
#include "loader/calls.h"
#include "loader/order.h"
#include "loader/pool.h"
#include "loader/reads.h"
#include "loader/stall.h"
#include "loader/units.h"
#include "store/store.h"
#include "transform/transform.h"

/*
 * How a sample goes through here. A *step* is one batch of this rank being made: its rows are
 * located (plan.c), their reads admitted in order of position under the budget and sent (read.c),
 * prepared by workers into the *slab* of the step (work.c), and the finished slab is handed out in
 * order as a batch (deliver.c). Steps are numbered from 0 without regard to epochs: the *serial*.
 * All of them live in a ring of `num_steps` records; `num_slabs` slabs go round between the
 * consumer and the oldest steps, so that reads may be planned farther ahead than batches.
 *
 * One mutex, ring->lock, guards all that is marked (L); it is never held over I/O, a dataset, a
 * transform or a log. The buffer pool and the cache have locks of their own, taken with (L) free.
 */

enum {
    STK__MAX_FIELDS = 16,
    STK__TASK_ROWS = 512,
    STK__PREPARE_ROWS = 32,
    STK__REPLACE_TRIES = 16
};

typedef struct stk__ring stk__ring;
typedef struct stk__step stk__step;
typedef struct stk__worker stk__worker;

/* ---- Slabs and batches (ring.c) ---- */

/* What one field of a batch is, before and after the transforms. */
typedef struct stk__column {
    stk_field field;         /* as delivered */
    int32_t source;          /* field of the dataset, or one of the below */
    uint64_t source_bytes;   /* of one sample of the dataset's field; 0 when not FIXED */
    uint64_t row_bytes;      /* of one row of the slab; 0 when not FIXED */
    uint64_t staged_bytes;   /* of one sample on its way to the pipeline */
    stk_header header;       /* as delivered */
    stk__pipeline *pipeline; /* NULL: none */
    bool decodes;            /* the pipeline begins with an encoded picture */
    uint32_t ragged;         /* number among the fields that are not FIXED */
} stk__column;

enum { STK__COLUMN_INDEX = -1, STK__COLUMN_LABEL_MIXED = -2, STK__COLUMN_MIX = -3 };

struct stk_batch {
    stk__ring *ring;
    bool held; /* (L) by the consumer */
    /* Poisoned while it is not held, in a build with AddressSanitizer: functions of a batch read
     * it, so that the use of one that was given back is found where it happens. */
    _Alignas(8) char guard[8];
    uint64_t epoch, step, count;
    void *data[STK__MAX_FIELDS]; /* of each column */
    uint64_t *offsets[STK__MAX_FIELDS];
    void *ragged; /* from the pool: values of the ragged columns; NULL: none */
    uint64_t *positions;
    char *memory;    /* the slab itself */
    stk_batch *next; /* (L) among the free */
};

/* Outlives the loader while batches are held. */
struct stk__ring {
    stk_context *ctx;
    pthread_mutex_t lock;    /* (L) */
    pthread_cond_t finished; /* the consumer waits for a batch */
    pthread_cond_t work;     /* workers wait for rows or for room to plan */
    pthread_cond_t watch;    /* the watch over the caller's thread waits for the end */
    uint32_t references;     /* (L) the loader and each held batch */
    stk_loader *loader;      /* (L) NULL once it is gone */
    stk__column columns[STK__MAX_FIELDS];
    stk_field fields[STK__MAX_FIELDS]; /* the columns' fields in a row, for the caller */
    uint32_t num_columns, num_ragged;
    uint64_t rows; /* most rows of a batch */
    uint64_t slab_bytes;
    bool locked_memory;
    stk_batch *slabs;
    uint32_t made;                          /* slabs; those given up have no memory */
    uint32_t num_slabs, num_free, num_held; /* (L) */
    stk_batch *free;                        /* (L) */
    stk__pool pool;                         /* of read buffers and ragged values */
    stk_state state; /* order options; epoch and step are filled in for each batch */
};

/* Bytes that one slab of these columns takes. */
uint64_t stk__slab_bytes(const stk__column *columns, uint32_t n, uint64_t rows);
stk_status stk__ring_create(stk_context *ctx, const stk__column *columns, uint32_t n, uint64_t rows,
                            uint32_t slabs, bool lock_memory, stk__ring **out, stk_error *err);
/* Give up free slabs until `slabs` are left. (L) free. */
void stk__ring_shrink(stk__ring *ring, uint32_t slabs);
/* The consumer gets it, or has given it back. */
void stk__batch_guard(stk_batch *batch, bool held);
stk__batch_field stk__batch_field_of(const stk__column *column, void *data);
/* Give up one reference; frees when it was the last. */
void stk__ring_unref(stk__ring *ring);

/* ---- Steps ---- */

/* A need of a row, waiting for its unit. */
struct stk__need_entry {
    stk_need need;
    stk__unit *unit;              /* NULL: no read (cached) or given back */
    struct stk__need_entry *next; /* (L) the next that waits for the unit */
    stk__step *step;
    uint32_t row;
};

typedef struct stk__row {
    uint64_t index, position;
    stk__need_entry *needs;
    stk_slice *slices; /* parallel to needs: what prepare() reads */
    uint32_t num_needs;
    uint32_t pending;      /* (L) units still to come */
    uint16_t tries;        /* substitutes drawn */
    uint8_t stage;         /* of the failure */
    uint32_t bad_need;     /* (L) the need that failed */
    bool bad;              /* a hole in the batch, or the failure of it */
    bool admitted;         /* the planner's: it asks for nothing any more */
    bool wants_substitute; /* (L) */
    bool located;          /* the planner's: the substitute was drawn */
    stk_status status;
    const char *reason;
    const void *decoded; /* blob of the decoded cache, or NULL */
    float cost;
    uint64_t wanted, left; /* bytes, where they do not fit the budget, and what was left for them */
    uint64_t reserve; /* bytes of the pool that decoding it wants beyond the room of decoding */
    bool reserved;    /* (L) it has them */
} stk__row;

/* Needs of a row that got a substitute: those of the step are in use and cannot move. */
typedef struct stk__extra {
    struct stk__extra *next;
    stk_slice *slices;
    stk__need_entry needs[];
} stk__extra;

/* One line for the quarantine log. */
typedef struct stk__bad_sample {
    uint64_t position, index, offset, object;
    uint64_t wanted, left; /* bytes, where they do not fit the budget */
    uint32_t need;         /* the need that failed */
    bool has_object;
    stk_status status;
    uint8_t stage;
    bool replaced;
    const char *reason;
    char key[STK_ERROR_KEY];
    struct stk__bad_sample *next;
} stk__bad_sample;

/* ---- Where a wait went (stall.h, stall.c) ---- */

/* Planning stands still for want of memory, or goes on. (L) held. */
void stk__stall_starve_locked(stk_loader *loader);
void stk__stall_feed_locked(stk_loader *loader, uint64_t now_ns);
/* Nothing is ahead any more. (L) held. */
void stk__stall_cold_locked(stk_loader *loader);
/* The same, and it was for want of memory. (L) held. */
void stk__stall_widened_locked(stk_loader *loader);
/* A task has ended that was the last of its step. (L) held. */
void stk__stall_task_locked(stk__worker *worker, uint64_t start_ns, uint64_t end_ns);
/* Divide the wait for a step that is handed out. (L) held. */
void stk__stall_settle_locked(stk_loader *loader, const stk__step *step, uint64_t asked_ns,
                              uint64_t got_ns);
/* A call that gave no batch. (L) free. */
void stk__stall_in_vain(stk_loader *loader, uint64_t asked_ns, bool turn);

struct stk__step {
    stk_loader *loader;
    uint64_t serial, epoch, step;
    stk_batch *slab; /* (L) NULL: not its turn yet */
    uint32_t num_rows;
    uint32_t admitted; /* rows whose reads were sent; the planner's */
    uint32_t done;     /* (L) rows prepared or given up */
    bool complete;     /* (L) the slab may be handed out */
    bool has_costs;
    bool has_units; /* (L) some row was tied to a read */
    bool has_holes; /* (L) some row is bad */
    stk__row *rows;
    uint64_t *positions, *indices;   /* scratch of planning */
    uint32_t *ready;                 /* (L) ring of rows that wait for a worker */
    uint32_t ready_first, num_ready; /* (L) from the first on, round the end */
    stk__need_entry *needs;          /* of all rows, in order; fixed while any row waits */
    stk_slice *slices;
    uint32_t num_needs, room_needs;
    stk__extra *extras;
    uint64_t *ragged_bound, *ragged_size, *ragged_at; /* [row * num_ragged + field] */
    void *ragged;                                     /* from the pool */
    bool reserved;        /* the planner's: that room was found, or never will be */
    stk__bad_sample *bad; /* (L) in no order until delivery */
    uint32_t num_bad;     /* (L) also those there was no memory to note */
    uint64_t planned_ns;
    uint64_t room_ns;     /* (L) room was found after planning stood still; 0: it did not */
    uint64_t complete_ns; /* (L) */
    stk__path path;       /* (L) */
};

/* A row has all its bytes, or has failed: hand it to the workers. (L) held. */
void stk__row_ready_locked(stk__step *step, uint32_t row);

/* ---- Planning (locate.c, plan.c) ---- */

typedef struct stk__planner {
    bool busy;         /* (L) a thread is planning: what follows is its own */
    uint64_t since_ns; /* (L) when it began; 0: none does */
    bool sends;        /* (L) the last round sent reads */
    bool blocked;      /* (L) the budget is full: wait for a buffer to come back */
    stk__order_epoch order;
    stk__want *wants;          /* of one round */
    stk__need_entry **entries; /* by the tag of a want */
    stk__request *requests;
    uint32_t *by_tag; /* the request whose oldest want has the tag */
    uint32_t num_wants, room;
    uint64_t round_cost;                     /* bytes of the pool that the wants may take */
    uint32_t *seen;                          /* wants of the round by range; UINT32_MAX: none */
    uint32_t seen_room;                      /* a power of two */
    uint32_t *map;                           /* row of each index handed to locate() */
    uint64_t rows, cache_hits, cache_misses; /* so far */
    struct {
        uint64_t rows, busy_ns, cache_hits, cache_misses, positions;
    } shown;               /* (L) the same as of the last round */
    uint64_t admit_serial; /* the step whose rows are being admitted */
    uint64_t passed;       /* (L) steps before it are admitted: it may lag behind */
    uint32_t num_replace;  /* (L) rows in all steps that want one, or were put back */
    uint64_t wanted;       /* (L) bytes of the pool that a row waits for, and that it never has */
    bool waits_late;       /* (L) a row that was put back waits for what later rows may hold */
    bool again;            /* (L) a row came to be one of those in the round at hand */
    bool reserving;        /* (L) a row has its reserve: one at a time */
} stk__planner;

/* Fill the record of a step (locate.c): its samples, their needs, and room for ragged values. The
 * record is the planner's own until it is published. */
void stk__step_locate(stk_loader *loader, stk__step *step, uint64_t serial);
/* Draw a substitute for a bad row and locate it. */
stk_status stk__row_locate_substitute(stk_loader *loader, stk__step *step, uint32_t row);
void stk__row_fail(stk__row *row, stk_status status, const char *reason);
/* The reason of ragged values that do not fit: compare pointers. */
extern const char stk__ragged_too_large[];
/* Whether a round of planning could do something now. (L) held. */
bool stk__can_plan_locked(stk_loader *loader);
/* Plan some steps and send their reads. (L) held; let go inside, held again at the end. */
void stk__plan_round_locked(stk_loader *loader);
void stk__planner_destroy(stk_loader *loader);

/* ---- Work (work.c) ---- */

struct stk__worker {
    stk_loader *loader;
    uint32_t number; /* UINT32_MAX: the consumer's thread */
    stk__thread thread;
    stk_sample *samples; /* [STK__PREPARE_ROWS] */
    stk_value *values;   /* [STK__PREPARE_ROWS * fields of the dataset] */
    char *staging;       /* decoded samples on their way to a transform */
    char *scratch;       /* of the transforms */
    stk__step *step;     /* of the task at hand */
    uint32_t rows[STK__TASK_ROWS], num_rows;
    uint32_t num_bad;   /* rows of the task that failed, here or before */
    stk__row *reserved; /* the row of the task that has a reserve, or NULL */
    uint64_t indices[STK__TASK_ROWS];
    const void **sources; /* [STK__PREPARE_ROWS] of a pipeline run; so the next three */
    void **targets;
    uint64_t *run_positions, *run_epochs;
    stk_status statuses[STK__PREPARE_ROWS];
    const char *reasons[STK__PREPARE_ROWS];
    uint64_t
        memory[STK__PREPARE_ROWS]; /* bytes: a reserve, then what one wants that is too large */
    stk_slice encoded[STK__PREPARE_ROWS]; /* instead of sources, where the pipeline decodes */
    stk__decoding *decoding;              /* NULL: no pipeline decodes */
    stk__decode_times shown;              /* (L) of it, counted in the loader's so far */
    uint32_t tasks;                       /* (L) taken so far */
    uint64_t ended_ns;                    /* (L) of the last task */
    bool timed;                           /* the task at hand is divided by stamps */
    uint64_t mark_ns;                     /* of the last stamp */
    double work[STK__WORK_PARTS], all_work[STK__WORK_PARTS]; /* of the task, ns; running sums */
    const stk__unit *last_unit; /* of the task's rows, the one that was ready last */
    uint64_t *blob_head;        /* sizes of the fields of a decoded sample */
    stk_slice *blob;
    /* What it is doing, for the watchdog. */
    atomic_uint_fast64_t since_ns, sample;
    atomic_bool decodes; /* `sample` is the object that it decodes a part of */
};

stk_status stk__worker_init(stk__worker *worker, stk_loader *loader, uint32_t number);
void stk__worker_release(stk__worker *worker);
/* Bytes that a worker takes. */
uint64_t stk__worker_bytes(const stk_loader *loader);
/* Take the rows of a task: of the oldest step that has any. (L) held. */
bool stk__task_take_locked(stk_loader *loader, stk__worker *worker);
/* Whether there is a row to take or a step to plan. (L) held. */
bool stk__work_left_locked(stk_loader *loader);
/* Prepare the task at hand, account for it. (L) free; held at the end. */
void stk__task_run(stk_loader *loader, stk__worker *worker);
void stk__worker_main(void *worker);
/* The step's last row is done: make a batch of its slab (finish.c). (L) held; let go inside, held
 * at the end.
 */
void stk__step_finish_locked(stk_loader *loader, stk__step *step, stk__worker *worker);

/* ---- The loader (make.c, loader.c, deliver.c) ---- */

struct stk_loader {
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader_options options;
    char *quarantine_path;
    int quarantine; /* descriptor, or -1 */
    stk__order order;
    stk__ring *ring;
    stk__batch_pipeline *batch_pipeline;
    uint64_t staging_row; /* bytes of one sample before the transforms */
    bool decodes;         /* some column does; the room is made */
    stk__decode_room decode_room;
    stk__decode_times decode;          /* (L) of all workers */
    uint64_t decode_each, decode_most; /* its bytes: of a thread, and of one large picture */
    uint32_t prepare_rows;             /* samples that the dataset prepares at a time */
    uint64_t scratch_bytes;
    uint64_t batch_scratch_bytes;
    char *batch_scratch;         /* under finish_lock */
    pthread_mutex_t finish_lock; /* guards batch_scratch */
    stk__step *steps;            /* ring of records, serial modulo num_steps */
    uint32_t num_steps;
    uint64_t row_room;    /* rows that a record has room for */
    uint32_t depth;       /* batches ahead of the consumer */
    uint64_t horizon;     /* steps that reads are planned ahead of those */
    uint64_t first;       /* (L) serial of the oldest step not delivered */
    uint64_t located_end; /* (L) steps before it are located */
    uint64_t slab_end;    /* (L) steps before it have a slab */
    uint64_t plan_limit;  /* (L) serial not to plan past */
    bool eos_pending; /* the end of the epoch before `first` is still to be told; the consumer's */
    bool draining;    /* (L) no new work: a reset or the end is near */
    bool stopping;    /* (L) threads are to end */
    atomic_bool canceled;
    uint32_t tasks; /* (L) tasks at work */
    stk__planner planner;
    uint32_t io_depth; /* concurrent reads */
    stk__reads reads;
    stk__units units;
    stk__cache *cache;
    stk__worker *workers;
    uint32_t num_workers;   /* threads */
    uint32_t running;       /* (L) of them alive */
    uint64_t abandon_ns;    /* a thread that has not ended so long after it was told to is left */
    bool late;              /* (L) rows were put back: later ones must not hold memory meanwhile */
    bool own;               /* dataset and transforms are built in: calls of them end */
    stk__thread watcher;    /* of the caller's thread, where there are no workers */
    stk__worker self;       /* the consumer's own, for num_workers 0 */
    uint64_t near_until_ns; /* until then it helps with the batch it waits for alone */
    double mean_row_ns;     /* (L) running mean of preparing a row */
    uint64_t prepared, prepared_bytes, prepare_busy_ns; /* (L) */
    uint64_t wait_in_ns, wait_out_ns;                   /* (L) of all workers */
    uint64_t delivered;                                 /* (L) */
    stk__stalls stalls;                                 /* (L) */
    stk_bad_samples bad;                                /* (L) delivered so far, in order */
    const char *bad_reasons[STK_BAD_REASONS];           /* (L) those of the first of each kind */
    uint64_t bad_epoch, bad_in_epoch;                   /* the consumer's */
    uint64_t max_errors;                                /* of an epoch */
    uint64_t most_row;    /* bytes of the pool that the reads of one sample may take */
    uint64_t most_ragged; /* bytes of the ragged values of a step */
    uint64_t fixed_bytes; /* slabs, steps, scratch */
    stk__parts parts;     /* of the budget */
    uint64_t wide;        /* bytes of the pool that samples were met to want; 0: none beyond it */
};

static inline stk__step *stk__step_at(stk_loader *loader, uint64_t serial)
{
    return &loader->steps[serial % loader->num_steps];
}

/* Attach free slabs to the oldest steps without one. (L) held. */
void stk__attach_slabs_locked(stk_loader *loader);
/* Free what steps from `from` on to `to` hold. (make.c) */
void stk__steps_release(stk_loader *loader, uint32_t from, uint32_t to);
/* Everything of a loader but its threads; *num columns are made even on failure. (make.c) */
stk_status stk__loader_build(stk_loader *loader, stk__column *columns, uint32_t *num,
                             stk_error *err);
/* Free all but batches that are held. No thread is left. */
void stk__loader_free(stk_loader *loader, stk__column *columns, uint32_t num_columns);
stk_status stk__loader_options_check(const stk_loader_options *options, stk_error *err);
/* Stop, drop all planned steps and go on at `serial`. (L) free. */
void stk__loader_reset(stk_loader *loader, uint64_t serial);
stk_status stk__loader_start_threads(stk_loader *loader, stk_error *err);
/* False: one does not end, and what it uses is left to it. */
bool stk__loader_stop_threads(stk_loader *loader);
/* The serial that planning must not reach now. (L) held, or no thread yet. */
uint64_t stk__plan_limit(const stk_loader *loader);

/* ---- A sample that is too large for its share (widen.c) ---- */

/* Nothing moves: a row waits for bytes that the pool does not have, or that later rows hold. (L)
 * held. */
bool stk__stuck_locked(stk_loader *loader);
/* Divide the budget anew and go on with the first step. The consumer's; (L) free. */
stk_status stk__loader_widen(stk_loader *loader, stk_error *err);
/* A row wants `wanted` bytes to be decoded: how many there can be for it. (L) free. */
void stk__row_measure(stk_loader *loader, stk__row *row, uint64_t wanted);
/* A row is to be admitted again. (L) held. */
void stk__row_plan_again_locked(stk_loader *loader, stk__row *row);
/* If they can be had the row is put back, to be admitted again with a reserve. (L) held. */
bool stk__row_put_back_locked(stk_loader *loader, stk__row *row);
/* Take the reserve of a row, for which the pool has room; or give it back, if the row has it, and
 * tell the planner. (L) free. */
void stk__row_reserve(stk_loader *loader, stk__row *row);
void stk__row_return(stk_loader *loader, stk__row *row);
void stk__row_unreserve(stk_loader *loader, stk__row *row);

/* ---- Bad samples (bad.c) ---- */

/* The option max_errors as a count. */
stk_status stk__bad_limit(stk_loader *loader, stk_error *err);
/* Note a bad sample of a step for the log and for max_errors. (L) held. */
void stk__note_bad_locked(stk__step *step, uint32_t row, bool replaced);
/* Judge the bad samples of a batch that is about to be delivered, and free them. */
stk_status stk__bad_settle(stk_loader *loader, const stk_batch *batch, stk__bad_sample *list,
                           uint32_t n, stk_error *err);

/* ---- State (state.c) ---- */

/* The order options of a loader as a state; epoch and step are 0. */
void stk__state_of(const stk_loader *loader, stk_state *out);
/* Whether a state is one of this loader's, and the serial of its next step. */
stk_status stk__state_check(const stk_loader *loader, const stk_state *state, uint64_t *serial,
                            stk_error *err);

#endif
