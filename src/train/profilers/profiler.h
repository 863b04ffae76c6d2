/* calls, layers, events -> a profile */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_PROFILERS_PROFILER_H
#define STK_SRC_TRAIN_PROFILERS_PROFILER_H

#include <pthread.h>
#include <stdatomic.h>

#include <stoker/profiler.h>

#include "base/base.h"
#include "base/probe.h"
#include "base/text.h"
#include "train/profilers/peaks.h"

#define STK__PROFILE_STRATEGY "[Strategy]SingleDeviceStrategy"

enum {
    STK__PROFILE_DEPTH = 64,    /* calls within each other */
    STK__PROFILE_CALLS = 16384, /* places in the tree; more are none of ours */
    STK__PROFILE_RECENT = 64,   /* calls whose median is known */
    STK__TRACE_LOADERS = 16,    /* loaders that have lanes of their own */
    STK__PROFILE_SIZES = 16     /* numbers of rows of a batch that are told apart */
};

enum { STK__PROFILE_SIMPLE = 1, STK__PROFILE_ADVANCED = 2, STK__PROFILE_TRACE = 4 };

/* What the breakdown of a batch is made of. */
enum stk__profile_role {
    STK__ROLE_NONE,
    STK__ROLE_NEXT,
    STK__ROLE_BATCH,
    STK__ROLE_FORWARD,
    STK__ROLE_BACKWARD,
    STK__ROLE_OPTIMIZER,
    STK__ROLE_EVALUATE
};

/* An action under its whole name. */
typedef struct stk__profile_entry {
    char *owner, *what; /* as given */
    char *name;         /* "owner.what" */
    uint64_t calls, total_ns, own_ns;
    uint32_t running; /* calls that have not ended */
    bool layer;       /* a pass of one */
    enum stk__profile_role role;
} stk__profile_entry;

/* A place in the tree of calls: an action called by another. Place 0 is the root. */
typedef struct stk__profile_call {
    uint32_t entry;
    uint32_t parent, first, last, next; /* 0: none */
    uint32_t cursor;                    /* the child that was called last */
    uint64_t calls, total_ns, inner_ns; /* `inner_ns`: of its children */
} stk__profile_call;

typedef struct stk__profile_frame {
    uint32_t call;
    uint64_t start_ns;
} stk__profile_frame;

/* Calls of one pass of a layer. */
typedef struct stk__profile_counts {
    stk_profile_pass pass;                /* those that count */
    uint64_t left_out;                    /* the others */
    uint64_t recent[STK__PROFILE_RECENT]; /* ns of the last that count, in a ring */
} stk__profile_counts;

/* A layer of the model; behind them the loss and the optimizer. */
typedef struct stk__profile_layer {
    char *name, *kind;
    char *owner;       /* "[Layer]conv1 (Conv2d)" */
    uint64_t features; /* or channels, of a row of its output */
    stk__profile_counts passes[2];
} stk__profile_layer;

/* Which batches count for the times of layers, and what those took. */
typedef struct stk__profile_steady {
    bool counting;  /* the batch at hand does */
    uint64_t steps; /* of the optimizer, so far */
    uint64_t rows[STK__PROFILE_SIZES], num_rows;
    uint64_t batches, left_out;
    uint64_t ns[STK_PROFILE_PARTS];
} stk__profile_steady;

/* One event of a trace. */
enum stk__trace_kind {
    STK__TRACE_CALL,    /* entry; of a batch: a = epoch, b = batch, c = rows */
    STK__TRACE_LAYER,   /* entry; a = flops, b = bytes */
    STK__TRACE_SAMPLE,  /* lane = worker; a = epoch, b = position, c = count */
    STK__TRACE_READ,    /* a = bytes, b = samples, c = status */
    STK__TRACE_BATCH,   /* a = epoch, b = step, c = rows */
    STK__TRACE_DELIVER, /* likewise */
    STK__TRACE_BAD      /* a = index, b = position, c = status */
};

typedef struct stk__trace_event {
    uint64_t start_ns, end_ns, a, b, c;
    uint16_t kind,
        loader;    /* `loader`: number of a loader that is at work; STK__TRACE_LOADERS: none */
    uint32_t lane; /* worker, entry */
} stk__trace_event;

_Static_assert(sizeof(stk__trace_event) == 48, "what the option max_events says of it");

/* A loader that was heard of. What it is for is known when it has delivered a batch. */
typedef struct stk__trace_loader {
    _Atomic(const void *) loader;
    atomic_uint_fast32_t phase; /* stk_phase; 0: not known */
    uint32_t dataloader_idx;    /* set before `phase` */
} stk__trace_loader;

typedef struct stk__trace {
    stk__trace_event *events;
    size_t room;
    atomic_size_t count; /* that happened; those beyond `room` are lost */
    stk__probe probe;
    bool listening;
    pthread_t trainer; /* its thread */
    stk__trace_loader loaders[STK__TRACE_LOADERS];
} stk__trace;

struct stk_profile {
    stk_context *ctx;
    stk_trainer *trainer; /* NULL: it was destroyed first, and nothing is left to write */
    bool installed;
    stk_profile_options options;
    uint32_t kinds;
    char *texts[4];

    stk__profile_entry *entries;
    size_t num_entries, entry_room;
    stk__profile_call *calls;
    size_t num_calls, call_room;
    stk__profile_frame frames[STK__PROFILE_DEPTH];
    uint32_t depth;
    stk__profile_layer *layers;
    size_t num_layers, layer_room; /* with the loss and the optimizer; 0: there is no model */
    stk_model *model;              /* that the probe is in; only ever compared */
    uint64_t optimizer_bytes;      /* that a step touches at least */
    stk__profile_steady steady;
    stk__peaks_key peaks_key; /* set when a model is seen */
    stk__peaks peaks;         /* 0: unknown */
    bool sought_peaks;        /* they were found, or cannot be */

    stk_task task; /* of what is recorded; STK_TASK_NONE: nothing yet */
    uint64_t begin_ns, last_ns, task_begin_ns;

    stk_profile_batch *batches, batch; /* `batch`: at hand */
    size_t num_batches, batch_room;
    uint64_t next_ns; /* when it was asked for */
    uint64_t batch_size;

    stk__trace trace;
    stk_error trouble; /* the first; status 0: none */
    char *files[3];
    size_t num_files;
};

/* The first thing that went wrong while recording is said when the profile is finished. */
void stk__profile_trouble(stk_profile *p, stk_status status, const char *text);
/* "FIT", "fit": of what is recorded. */
const char *stk__profile_stage(const stk_profile *p, bool capitals);
/* The process among those that train together. */
uint64_t stk__profile_rank(const stk_profile *p);
/* Nanoseconds of the task. */
uint64_t stk__profile_span(const stk_profile *p);

/* The tree (calls.c). */
void stk__profile_start(void *user, const char *owner, const char *what);
void stk__profile_stop(void *user, const char *owner, const char *what);
/* A call that began and ended. Its place; 0 where there is none. */
uint32_t stk__profile_add(stk_profile *p, const char *owner, const char *what, uint64_t start_ns,
                          uint64_t end_ns);
void stk__profile_calls_reset(stk_profile *p);

/* Layers of a model, its loss and optimizer (layers.c). */
void stk__profile_layers_watch(stk_profile *p);
void stk__profile_layers_reset(stk_profile *p);
void stk__profile_layers_release(stk_profile *p);
/*
 * Take or measure the machine's peaks for what was recorded, where a model was; a layer with more
 * products a second is the peak. When no task is at work: a loader that reads ahead would take
 * cores and memory from what is measured.
 */
void stk__profile_find_peaks(stk_profile *p);
/* A step of the optimizer. */
void stk__profile_optimizer(stk_profile *p, uint64_t ns);
/* A summary's figures -> its text (diagnosis.c). */
void stk__profile_diagnose(const stk_profile *p, const char *config, stk_profile_summary *summary);

/* Which batches count (steady.c). An action of a role begins or ends. */
void stk__profile_steady_start(stk_profile *p, enum stk__profile_role role);
void stk__profile_steady_stop(stk_profile *p, enum stk__profile_role role, uint64_t ns);

/* Tables (simple.c, advanced.c, table.c). */
void stk__profile_simple(const stk_profile *p, stk__text *out);
void stk__profile_advanced(const stk_profile *p, stk__text *out);
/* Layers by the time they take, then by their types; nothing where there is no model. */
void stk__profile_table(const stk_profile *p, stk__text *out);
/* Python's format(value, ".5"). */
void stk__profile_number(double value, char text[32]);

/* The trace (trace.c, trace_write.c). */
stk_status stk__trace_open(stk_profile *p, stk_error *err);
void stk__trace_listen(stk_profile *p);
void stk__trace_stop(stk_profile *p);
void stk__trace_close(stk_profile *p);
void stk__trace_add(stk_profile *p, const stk__trace_event *event);
stk_status stk__trace_write(const stk_profile *p, const char *path, stk_error *err);

#endif
