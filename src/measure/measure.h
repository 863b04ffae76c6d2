/* events -> figures, log, verdict */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_MEASURE_H
#define STK_SRC_MEASURE_MEASURE_H

#include <stoker/dataset.h>
#include <stoker/loader.h>
#include <stoker/measure.h>
#include <stoker/report.h>

#include "base/base.h"

/* ---- Numbers as JSON (number.c) ------------------------------------------------------------- */

#define STK__NUMBER 32 /* bytes of any number as text, with its end */

/* Append a decimal; returns the new end. */
char *stk__put_uint(char *at, uint64_t value);
/* Seconds of a count of nanoseconds, in the form that Python gives the nearest double; exact below
 * 10^6 s. */
char *stk__put_seconds(char *at, uint64_t ns);
/* Unix time in seconds of a count of microseconds, likewise. */
char *stk__put_wall(char *at, uint64_t us);

/* ---- Predicting (simulate.c) ----------------------------------------------------------------- */

/* A recording that many settings are predicted from: what is the same for all is simulated once.
 * What it points to outlives it. `what` NULL: as recorded. `apart`: other ranks than recorded go by
 * themselves, without meeting. Errors as of stk_predict(). */
typedef struct stk__predictor stk__predictor;
stk_status stk__predictor_create(stk_context *ctx, const stk_recording *recording, bool apart,
                                 stk__predictor **out, stk_error *err);
void stk__predictor_destroy(stk__predictor **predictor);
stk_status stk__predictor_ask(stk__predictor *predictor, const stk_what_if *what,
                              stk_prediction *out, stk_error *err);
/* (report_predict.c) Of run `i`, until another log is read. STK_EINVAL: it has no figures. */
stk_status stk__report_recording(const stk_report *report, uint64_t i, stk_recording *out,
                                 stk_error *err);

/* ---- Thinning (thin.c) ---------------------------------------------------------------------- */

/* Lets through `rate` items a second in the long run and a second's worth at once; counts the
 * others. No lock. */
typedef struct stk__thinner {
    uint64_t interval_ns;         /* 1 / rate */
    atomic_uint_fast64_t paid_ns; /* time up to which the items let through have used up the rate */
    atomic_uint_fast64_t dropped; /* not yet reported */
} stk__thinner;

void stk__thinner_init(stk__thinner *thinner, uint64_t rate);
/* How many of `n` items at `now_ns` may pass; the rest is counted as dropped. Any thread. */
uint64_t stk__thinner_pass(stk__thinner *thinner, uint64_t n, uint64_t now_ns);
/* Take the count of dropped items. */
uint64_t stk__thinner_take(stk__thinner *thinner);

/* ---- Whole lines to a file (writer.c) ------------------------------------------------------- */

/*
 * Appends lines from many threads. Each thread fills one of a few buffers; a buffer goes out as one
 * append of whole lines, when it is full, when a quarter of a second has passed, and at the end.
 * After a write that failed nothing more is written.
 */
typedef struct stk__writer stk__writer;

stk_status stk__writer_open(stk_context *ctx, const char *path, bool anew, stk__writer **out,
                            stk_error *err);
/* Writes what is left, joins, frees. The status of the first failure; the file ends with a whole
 * line. */
stk_status stk__writer_close(stk__writer **writer, stk_error *err);
/* Append one or more whole lines, '\n' included, that stay together when they fit a buffer. Any
 * thread. */
void stk__writer_put(stk__writer *writer, const char *lines, size_t length);
/* Write all that was put before the call. Any thread. */
void stk__writer_flush(stk__writer *writer);
/* From now on call `tick` four times a second, in the thread that writes, until the writer is
 * closed. It may put lines. */
void stk__writer_tick(stk__writer *writer, void (*tick)(void *user), void *user);

/* ---- Load of the machine (system.c) --------------------------------------------------------- */

/* What the kernel counted so far; 0 where it does not tell. */
typedef struct stk__system_counts {
    uint64_t process_ns, cgroup_ns, machine_ns; /* CPU time */
    uint64_t process_bytes, cgroup_bytes;       /* process: anonymous and shared memory */
    uint64_t asked, stored, written; /* bytes: of read calls; that storage gave; that it took */
} stk__system_counts;

typedef struct stk__system {
    const char *root;                     /* "" in front of /proc and /sys, but in tests */
    char cpu_file[512], memory_file[512]; /* of the cgroup; "": none */
    uint64_t at_ns;                       /* of `last` */
    stk__system_counts last;
} stk__system;

/* Busy time of all cores of the machine; anonymous and shared memory of this process. */
uint64_t stk__system_machine_ns(const stk__system *system);
uint64_t stk__system_process_bytes(const stk__system *system);

#define STK__SYSTEM_MEMBERS 512 /* bytes that they fit */

void stk__system_open(stk__system *system, const char *root, uint64_t now_ns);
/* Members of an event, in JSON: cores in use and bytes a second since the last call or the opening,
 * and bytes held now. */
void stk__system_members(stk__system *system, uint64_t now_ns, char *out, size_t size);

/* ---- Figures of what runs (figures_of.c) ---------------------------------------------------- */

/* What is known before anything runs, of a loop around a loader of `options` in this process. True:
 * the process may use every core of the machine. */
bool stk__figures_begin(stk_context *ctx, const stk_loader_options *options, stk_figures *figures);
/* Where more was read or decoded of chunks than samples need: which chunks would suit them. */
void stk__figures_advise_chunks(stk_dataset *dataset, stk_figures *figures);

/* ---- The event log (event_log.c) ------------------------------------------------------------- */

/* From here on leave out what there is much of: samples, reads, batches, the machine's load. Any
 * thread. `log` may be NULL. */
void stk__event_log_summarize(stk_event_log *log);
/* The events "figures" and "verdict" of a run, as a report reads them; nothing of a run without
 * steps. `log` may be NULL. */
void stk__event_log_verdict(stk_event_log *log, const stk_figures *figures);
/* The event "figures" without its braces. Returns the length, as snprintf(). */
int stk__figures_format(const stk_figures *figures, char *text, size_t size);

/* ---- What is predicted (what_if.c, scale_options.c) ------------------------------------------ */

extern const stk_option_table stk__what_if_option_table;
extern const stk_option_table stk__scale_option_table;

/* ---- Traces (trace.c) --------------------------------------------------------------------------
 */

/*
 * A trace for ui.perfetto.dev and Chrome: workers, reads, batches in the making and steps, with an
 * arrow from the samples that completed a batch to the batch and on to its step.
 */
typedef struct stk__event_trace stk__event_trace;

/* Begin a trace in the new file `path` (one that is there is replaced), of every `every`-th batch
 * of an epoch and as many of the reads. Like stk_event_log_open() otherwise. */
stk_status stk__event_trace_open(stk_context *context, const char *path, uint64_t every,
                                 stk__event_trace **out, stk_error *err);
/* A step took a batch. Times of CLOCK_MONOTONIC in ns. `trace` may be NULL. */
void stk__event_trace_step(stk__event_trace *trace, uint64_t epoch, uint64_t step,
                           uint64_t start_ns, uint64_t end_ns);
/* Write what is left and set *trace to NULL. Accepts NULL. */
stk_status stk__event_trace_close(stk__event_trace **trace, stk_error *err);

/* ---- Counters (counter.c)
 * --------------------------------------------------------------------------- */

/* What happened in a context while a counter listened. Times are sums over threads, in
 * nanoseconds. */
typedef struct stk__counts {
    uint64_t samples; /* prepared; what the log calls get-batch */
    uint64_t reads, read_ns;
} stk__counts;

typedef struct stk__counter stk__counter;

/* Begin to count. *out is the caller's, ended with stk__counter_close() before the context is
 * destroyed. */
stk_status stk__counter_open(stk_context *context, stk__counter **out, stk_error *err);
/* What was counted so far. Any thread. */
void stk__counter_get(const stk__counter *counter, stk__counts *out);
/* Stop and set *counter to NULL. Accepts NULL. */
void stk__counter_close(stk__counter **counter);

/* ---- What the system says (usage.c)
 * --------------------------------------------------------------- */

/* Of this process and its machine, since they were started. Counters only grow; 0 where the system
 * does not tell. */
typedef struct stk__usage {
    uint32_t io_threads;      /* threads of this process that do nothing but read */
    uint64_t memory_bytes;    /* anonymous and shared memory of this process, now */
    uint64_t cpu_ns;          /* CPU time of this process */
    uint64_t machine_busy_ns; /* CPU time of all processes of the machine */
    uint64_t runnable_ns; /* that the threads of this process that live wanted a core and had none
                           */
} stk__usage;

/* Ask the system. Any thread. Blocks for some hundred microseconds, more with many threads. */
void stk__usage_get(stk__usage *out);

/* ---- Statistics (spread.c) ------------------------------------------------------------------- */

/* Into rising order. Pure. */
void stk__doubles_sort(double *values, uint64_t n);

/*
 * The slope of memory that grows steadily over epochs, in bytes per epoch; 0 where it does not.
 *
 * `bytes[i]` was held at the end of epoch `epochs[i]`, in rising order. Steady: at least 5 values,
 * none below the one before, three quarters of the steps upwards, the later half growing at least
 * half as fast as the earlier, and a median of all pairwise slopes [Theil 1950, Sen 1968] of 64 KiB
 * or more. Memory that fills a cache and stays is none.
 */
double stk__memory_slope(const uint64_t *epochs, const uint64_t *bytes, uint64_t n);
/* `waits` becomes what was waited since `earlier`, an earlier look at the same. Pure. */
void stk__waits_subtract(stk_waits *waits, const stk_waits *earlier);

/* Likewise what was read over the network. Pure. */
void stk__network_subtract(stk_network *network, const stk_network *earlier);

/* ---- Figures and verdicts -------------------------------------------------------------------- */

struct stk_loader_source;
struct stk_trainer;

/*
 * What a loader did between two looks at it, as figures: workers, reads, waits, pictures. The other
 * members of `figures`, whose struct_size is set, stay as they are. Pure.
 */
void stk__figures_of_loader(const struct stk_loader_stats *then, const struct stk_loader_stats *now,
                            stk_figures *figures);
/* The time of a loop of `wall` seconds that took batches of `samples` in all: its waits, and what
 * is between them. `figures` has the size of this version. Pure. */
void stk__figures_of_waits(const stk_waits *waits, uint64_t samples, double wall,
                           stk_figures *figures);
/*
 * The last training of a trainer as figures, or the one at work so far; of what it does not know
 * (the step alone, memory, other programs) they say nothing. `train` is what it reads from, with
 * its dataset and options; NULL: unknown.
 *
 * Thread: the trainer's, in a hook, or when no task is at work. Blocks where the dataset is asked
 * which chunks would suit its samples better.
 */
void stk__figures_of_trainer(const struct stk_trainer *trainer,
                             const struct stk_loader_source *train, stk_figures *figures);
/* Whether two rates are the same as far as was measured: within STK_JUDGE_ALIKE, or of ranges that
 * overlap. Pure. */
bool stk__sweep_alike(const stk_sweep_point *a, const stk_sweep_point *b);
/*
 * Judge one setting next to others of its sweep. What was measured is quoted and not predicted: the
 * advice is a value of `others` that gave more, or none where the one advised, or one on the way to
 * it, gave no more. Pure.
 *
 * `self` is the setting's own rate; its knob and value are not looked at.
 */
void stk__judge_sweep(const stk_figures *figures, const stk_sweep_point *self,
                      const stk_sweep_point *others, size_t n, stk_verdict *out);
/* The same of a whole training: rates of `others` are how many times as fast they are. Pure. */
void stk__judge_trainings(const stk_figures *figures, const stk_sweep_point *others, size_t n,
                          stk_verdict *out);
/* The first of `n` points of one option, in the order of their values, after which none gives
 * more; n where the last one does, or there are fewer than three. Pure. */
size_t stk__sweep_saturation(const stk_sweep_point *points, size_t n);

#endif
