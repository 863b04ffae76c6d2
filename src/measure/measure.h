/* events -> figures, log, verdict */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_MEASURE_H
#define STK_SRC_MEASURE_MEASURE_H

#include <stoker/dataset.h>
#include <stoker/loader.h>
#include <stoker/measure.h>

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

stk_status stk__writer_open(stk_context *ctx, const char *path, stk__writer **out, stk_error *err);
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

#endif
