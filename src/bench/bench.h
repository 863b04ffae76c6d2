/* settings -> runs -> figures */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BENCH_BENCH_H
#define STK_SRC_BENCH_BENCH_H

#include <stoker/bench.h>

#include "base/base.h"
#include "measure/measure.h"

extern const stk_option_table stk__bench_option_table, stk__bench_source_option_table,
    stk__bench_python_option_table, stk__tune_option_table;

static inline double stk__bench_over(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* ---- The step (step.c) ---------------------------------------------------------------------- */

typedef struct stk__bench_step stk__bench_step;

/* The caller's own, or (`own` NULL) a simulated one of `seconds`: sleeping, or (spin) fixed work on
 * `threads` threads. `cancelled` ends its waits. */
stk_status stk__bench_step_create(stk_context *ctx, const stk_bench_step *own, double seconds,
                                  bool spin, uint32_t threads, const atomic_bool *cancelled,
                                  stk__bench_step **out, stk_error *err);
void stk__bench_step_destroy(stk__bench_step *step);
/* Find the amount of work and the time it takes alone. Nothing else of this program runs meanwhile.
 */
void stk__bench_step_calibrate(stk__bench_step *step);
/* Seconds of a step alone; 0: not known. */
double stk__bench_step_alone(const stk__bench_step *step);
/* One step. */
void stk__bench_step_run(stk__bench_step *step, const stk_batch *batch);
/* STK_OK, or why the caller's own has failed. */
stk_status stk__bench_step_failure(const stk__bench_step *step, stk_error *err);
/* CPU time of all steps so far. */
uint64_t stk__bench_step_cpu_ns(const stk__bench_step *step);

/* ---- The step's all-reduce (all_reduce.c) --------------------------------------------------- */

typedef struct stk__bench_all_reduce stk__bench_all_reduce;

/* Of `bytes`, over the ranks of `strategy`; 0 bytes: *out is NULL. */
stk_status stk__bench_all_reduce_create(stk_context *ctx, const stk_strategy *strategy,
                                        uint64_t bytes, stk__bench_all_reduce **out,
                                        stk_error *err);
void stk__bench_all_reduce_destroy(stk__bench_all_reduce *reduce);
/* Once in a step. `enough`: this rank need not go on; `ends`: it will not. */
stk_status stk__bench_all_reduce_run(stk__bench_all_reduce *reduce, bool enough, bool ends,
                                     stk_error *err);
/* Whether the last one was, for all ranks alike. */
bool stk__bench_all_reduce_over(const stk__bench_all_reduce *reduce);

/* ---- Processes (tree.c) --------------------------------------------------------------------- */

/* This process and all below it: CPU time, with that of children which ended; */
uint64_t stk__bench_tree_cpu_ns(void);
/* anonymous and shared memory, in which pages of several count once. */
uint64_t stk__bench_tree_bytes(void);

/* ---- Memory (memory.c) ---------------------------------------------------------------------- */

typedef struct stk__bench_memory stk__bench_memory;

/* Begin to sample the memory of this process, or (tree) of all below it, too, from a thread of its
 * own. NULL when that cannot be. */
stk__bench_memory *stk__bench_memory_start(stk_context *ctx, bool tree);
/* What the bench itself has taken since, and the epoch that runs. */
void stk__bench_memory_note(stk__bench_memory *memory, uint64_t own_bytes, uint64_t epoch);
/* Stop; the most held beyond the start, and the slope over the epochs. */
void stk__bench_memory_stop(stk__bench_memory *memory, uint64_t *peak, double *slope);
/* Room for values, without using memory before there are any; *room is their number. NULL: none.
 * Ended with munmap(). */
double *stk__bench_memory_reserve(uint64_t *room);

/* ---- Files (files.c) ------------------------------------------------------------------------ */

/* Share of the local files behind a spec that is in the page cache; < 0 where there are none. */
double stk__bench_files_cached(stk_context *ctx, const char *spec);
/* Ask the kernel to forget them. */
void stk__bench_files_drop(const char *spec);

/* ---- Hashes (hash.c) ------------------------------------------------------------------------ */

/* Tell the hashes of all rows of the loader's batches, in `epochs` epochs of `batches` (0: all). */
stk_status stk__bench_hash_epochs(stk_context *ctx, stk_loader *loader, uint64_t epochs,
                                  uint64_t batches, const stk_bench_setting *setting,
                                  stk_error *err);

/* ---- The ledger (ledger.c) ------------------------------------------------------------------ */

/* An epoch of the log: what it was spent on; and all those before. */
typedef struct stk__bench_ledger {
    uint64_t begin_ns, step_ns, reduce_ns;
    stk_waits waits; /* before it */
    stk_tiers tiers; /* likewise */
    struct {
        uint64_t wall_ns, step_ns, reduce_ns;
        stk_waits waits;
        stk_tiers tiers;
    } all;
} stk__bench_ledger;

/* An epoch begins, or ends with the event "ledger". `now` has what is known until now_ns. */
void stk__bench_ledger_epoch(stk__bench_ledger *ledger, stk_event_log *log,
                             const stk_loader_stats *now, bool start, uint64_t epoch,
                             uint64_t now_ns);
/* The "ledger" of all its epochs. */
void stk__bench_ledger_end(const stk__bench_ledger *ledger, stk_event_log *log);

/* ---- Pictures (pictures.c) ------------------------------------------------------------------- */

/* How large pictures leave the loader. */
void stk__bench_picture_side(const stk_loader *loader, stk_figures *f);
/* Where pictures were decoded: the share of it that is entropy decoding, from some of them. Blocks.
 */
void stk__bench_estimate_entropy(stk_dataset *dataset, stk_figures *f);

#endif
