/* figures -> what limits, what it costs, what to change */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_VERDICT_H
#define STK_SRC_MEASURE_VERDICT_H

#include "measure/measure.h"

#define MS 1e3

/* What a training thread does in addition to stepping and waiting (verdict_beside.c). */
typedef enum stk__beside {
    STK__BESIDE_TRANSFER,
    STK__BESIDE_VALIDATION,
    STK__BESIDE_CALLBACKS,
    STK__BESIDE_LOGGING,
    STK__BESIDE_CHECKPOINT,
    STK__BESIDES
} stk__beside;

/* What the cases look at, worked out once. */
typedef struct stk__case {
    const stk_figures *f;
    double step, wait; /* of one step, seconds */
    double beside;     /* what the training thread does in addition, likewise */
    double lost;       /* share of the wall time in waits */
    double workers;    /* threads of one rank */
    double ranks;
    bool own;             /* it is a loader of the library: its caches and formats help */
    bool watched;         /* what its workers do is known */
    double free_cores;    /* cores for the workers of one rank, without the step's */
    double busy, starved; /* shares of the workers' time: at work, waiting for reads */
    double cpu;           /* share of all usable cores that work */
    const stk_sweep_point *self, *others; /* of the sweep it belongs to; NULL: it is alone */
    size_t num_others;
    bool trainings;                 /* the sweep is of whole trainings: its rates are factors */
    stk_context *ctx;               /* memory to simulate with */
    const stk_recording *recording; /* that advice is simulated with; NULL: it is not */
} stk__case;

/* Append to the paragraph. */
void stk__verdict_say(stk_verdict *out, const char *format, ...) STK_PRINTF(2, 3);
void stk__verdict_say_waits(stk_verdict *out, const stk__case *v);
void stk__verdict_advise(stk_verdict *out, const char *knob, double value);
/* `from` doubled until it is `least` or as much as is ever advised. */
double stk__verdict_double(double from, double least);
/* Which chunks would suit the samples, where that is known. */
void stk__verdict_advise_chunks(const stk__case *v, stk_verdict *out);
/* Factor in samples/s when the wait of a step shrinks to `wait` and the step to `step`. */
double stk__gain_to(const stk__case *v, double step, double wait);
/* Workers of a rank that the rule of thumb leaves; a step that sleeps computes elsewhere. */
double stk__workers_advised(const stk__case *v);
/* The verdict where preparation limits: more workers, less decoding or less work
 * (verdict_cores.c). */
void stk__say_cores(const stk__case *v, stk_verdict *out);
/* What the waits were for tells (verdict_waits.c); false where it is not known. */
bool stk__judge_waits(const stk__case *v, stk_verdict *out);

/* ---- Over the network (verdict_network.c) ---- */

/* Whether that is where the reads went. */
bool stk__network_counts(const stk__case *v);
/* Whether the server throttles. */
bool stk__network_throttles(const stk_network *network);
/* Whether reads share a bandwidth that more at once do not make more of. */
bool stk__network_shares(const stk__case *v);
/* Whether requests that fail or are throttled cost much of the time of the reads. */
bool stk__network_fails(const stk__case *v);
/* The verdict where they do, or where reads wait for a connection and the `bandwidth` is not what
 * they would wait for then; `best` is the gain where nothing is waited for. False: neither. */
bool stk__judge_network(const stk__case *v, bool bandwidth, double best, stk_verdict *out);
/* Which parts a read had, as a sentence; nothing where they went elsewhere. */
void stk__verdict_say_network(const stk__case *v, stk_verdict *out);
/* How many are to be under way to be `factor` times as fast, as a setting. */
void stk__verdict_advise_connections(const stk__case *v, double factor, stk_verdict *out);

/* What the reads say of their store, as a sentence; `queues`: they take longer the more there are
 * (storage.c). */
void stk__verdict_say_store(const stk__case *v, bool queues, stk_verdict *out);

/* Seconds of all that is neither a step nor its wait. */
double stk__beside_sum(const stk_figures *f);
/* The verdict where one of them takes more than the waits; false where none does. */
bool stk__judge_beside(const stk__case *v, stk_verdict *out);
/* " validation 8.0 %, callbacks ...": those worth a word; nothing where none is. */
void stk__beside_say_shares(const stk__case *v, stk_verdict *out);
/* The best setting of the sweep that differs in `knob` alone ("": in any one) and gave more than
 * this one; NULL: none did (verdict_sweep.c). */
const stk_sweep_point *stk__sweep_better(const stk__case *v, const char *knob);
/* Whether the sweep has a setting that differs in this value alone. */
bool stk__sweep_has(const stk__case *v, const char *knob, const char *value);
/* Compare the advice, or that there is none, with what the sweep has measured; true: a sentence
 * about it was said. */
bool stk__sweep_settle(const stk__case *v, stk_verdict *out);
/* Put what the advised setting gives when it is simulated into `out`; false: it cannot be
 * (verdict_simulate.c). */
bool stk__verdict_simulate(const stk__case *v, stk_verdict *out);
/* One that costs much next to another limit. */
void stk__beside_remark(const stk__case *v, stk_verdict *out);

/* What answers with `latency` s alone, and does `overlap` times as many reads a second with many
 * under way (0: unknown). Pure. */
stk_storage stk__storage_of(double latency, double overlap);

#endif
