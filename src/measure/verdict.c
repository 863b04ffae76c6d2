/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: which of the plain cases a setting is, what that costs, and what to change. The
 * cases of the table in stk_judge() are asked in order; the first that fits is the answer. What the
 * waits were for decides where it is known (verdict_waits.c); without it, as for logs of other
 * programs, what the workers did.
 *
 * Expected gains are factors in samples/s of the steady state (wait + step of one step; setup is
 * not in it). They are bounds: other limits may show before they are reached.
 */
#include "measure/verdict.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/sized.h"

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static stk__case look(const stk_figures *f)
{
    stk__case v = {.f = f, .step = f->step_time, .wait = f->wait.mean};
    double threads = f->prepare_busy + f->prepare_wait_in + f->prepare_wait_out;

    v.ranks = STK_MAX(1.0, (double)f->ranks);
    v.workers = STK_MAX(0.0, (double)f->num_workers);
    v.beside = stk__beside_sum(f);
    v.lost = STK_MIN(1.0, ratio(v.wait, v.wait + v.step + v.beside));
    v.own = f->budget_bytes > 0;
    v.watched = threads > 0;
    v.free_cores = (double)f->usable_cores / v.ranks - (f->spin ? (double)f->compute_cores : 0);
    v.busy = ratio(f->prepare_busy, threads);
    v.starved = ratio(f->prepare_wait_in, threads);
    /* cpu_s leaves the step's own work out. */
    v.cpu = ratio(f->cpu_s * v.ranks / STK_MAX(f->wall, 1e-9) + f->other_cores,
                  (double)f->usable_cores);
    if (f->spin)
        v.cpu += ratio(f->step_share * f->compute_cores * v.ranks, (double)f->usable_cores);
    return v;
}

void stk__verdict_say(stk_verdict *out, const char *format, ...)
{
    size_t used = strlen(out->text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(out->text + used, sizeof out->text - used, format, arguments);
    va_end(arguments);
}

void stk__verdict_advise(stk_verdict *out, const char *knob, double value)
{
    snprintf(out->knob, sizeof out->knob, "%s", knob);
    snprintf(out->value, sizeof out->value, "%.0f", value);
}

double stk__verdict_double(double from, double least)
{
    double value = STK_MAX(from, 1.0);

    while (value < least && value < STK_JUDGE_MOST_DEPTH)
        value *= 2;
    return value;
}

void stk__verdict_advise_chunks(const stk__case *v, stk_verdict *out)
{
    const char *chunks = v->f->chunks;

    if (!chunks[0])
        return;
    snprintf(out->knob, sizeof out->knob, "chunks");
    snprintf(out->value, sizeof out->value, "%.31s", chunks);
}

/*
 * No setting gets more out of the cores than they have: a step takes at least the CPU time of its
 * work, its own and the loader's of all ranks, divided by the cores that other programs leave.
 */
static double cores_bound(const stk__case *v)
{
    const stk_figures *f = v->f;
    const double own =
        f->spin ? ratio(v->step, STK_MAX(f->step_stretch, 1.0)) * f->compute_cores : 0;
    const double work = (ratio(f->cpu_s, (double)f->steps) + own) * v->ranks;
    const double least = ratio(work, STK_MAX((double)f->usable_cores - f->other_cores, 1.0));

    return STK_MAX(1.0, ratio(v->wait + v->step + v->beside, least));
}

/* Too few steps for any share of them to be one. */
static void say_few(const stk__case *v, stk_verdict *out)
{
    if (v->f->steps < STK_JUDGE_STEPS)
        stk__verdict_say(out, " Only %.0f step%s: take no figure of so few for granted.",
                         (double)v->f->steps, v->f->steps == 1 ? "" : "s");
}

/* The last sentence: what to change, what it gives, and which ratio that is. */
static void say_advice(stk_verdict *out, const stk__case *v)
{
    if (out->knob[0] && v->f->usable_cores && out->gain > 1)
        out->gain = STK_MIN(out->gain, cores_bound(v));
    if (stk__sweep_settle(v, out) || !out->knob[0] || !out->value[0])
        return;
    const bool simulated = stk__verdict_simulate(v, out);
    if (simulated && out->gain < STK_JUDGE_ALIKE) {
        stk__verdict_say(out,
                         " %s %s would be the next to try, but simulated with the recorded times "
                         "it gives %.2fx the samples/s.",
                         out->knob, out->value, out->gain);
        out->knob[0] = out->value[0] = 0;
        out->gain = 1;
        out->gain_low = out->gain_high = 0;
        return;
    }
    stk__verdict_say(out, " Set %s to %s", out->knob, out->value);
    if (simulated)
        stk__verdict_say(out,
                         ": simulated with the recorded times %.2fx the samples/s (%.2fx to %.2fx; "
                         "%.0f instead of %.0f, steady state, setup left out)",
                         out->gain, out->gain_low, out->gain_high, v->f->samples_per_s * out->gain,
                         v->f->samples_per_s);
    else if (out->gain > 1.005)
        stk__verdict_say(
            out, ": up to %.2fx the samples/s (%.0f instead of %.0f, steady state, setup left out)",
            out->gain, v->f->samples_per_s * out->gain, v->f->samples_per_s);
    stk__verdict_say(out, ".");
}

/* Factor in samples/s when the wait of a step shrinks to `wait` and the step to `step`. */
double stk__gain_to(const stk__case *v, double step, double wait)
{
    return STK_MAX(1.0, ratio(v->wait + v->step + v->beside, step + wait + v->beside));
}

/* Workers of a rank that the rule of thumb leaves; a step that sleeps computes elsewhere. */
double stk__workers_advised(const stk__case *v)
{
    return (double)stk__cores_workers(v->f->usable_cores, v->f->spin ? v->f->compute_cores : 1,
                                      (uint32_t)v->ranks);
}

/* What of this loader wants a core, all ranks together; and how many of them the rule leaves. */
static void say_threads(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double workers = v->workers * v->ranks;

    stk__verdict_say(out, "%.0f worker%s", workers, workers == 1 ? "" : "s");
    if (f->io_threads)
        stk__verdict_say(out, " and %.0f reading threads", (double)f->io_threads * v->ranks);
    stk__verdict_say(out, " on %u usable core%s", f->usable_cores, f->usable_cores == 1 ? "" : "s");
    if (v->ranks > 1)
        stk__verdict_say(out, " (all ranks together)");
}

void stk__verdict_say_waits(stk_verdict *out, const stk__case *v)
{
    if (v->f->no_step)
        stk__verdict_say(out, " There is no step: this is the loader's own rate.");
    else
        stk__verdict_say(out, " The step waits %.1f %% of the time.", 100 * v->lost);
}

static bool judge_oversubscribed(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    double advised = stk__workers_advised(v);

    const double share =
        ratio(v->step, v->step + v->wait + v->beside) * (1 - 1 / STK_MAX(f->step_stretch, 1.0));

    /* A step that sleeps has no core to lose, and what is waited for may cost more. */
    if (!f->spin || f->step_stretch <= STK_JUDGE_STRETCH || v->workers <= advised ||
        share < STK_JUDGE_STRETCHED * v->lost)
        return false;
    /* Where next to nothing is waited for, a slower step may as well be other programs'. */
    if (v->lost < STK_JUDGE_WAIT && f->other_cores >= STK_JUDGE_DISTURBED)
        return false;
    out->limit = STK_LIMIT_OVERSUBSCRIBED;
    out->limit_share = share;
    stk__verdict_advise(out, "num_workers", advised);
    out->gain = stk__gain_to(v, ratio(v->step, f->step_stretch), v->wait);
    stk__verdict_say(out,
                     "Oversubscribed: while the loader runs the step takes %.2fx the time it takes "
                     "alone (%.3g ms a step). ",
                     f->step_stretch, MS * v->step);
    say_threads(v, out);
    stk__verdict_say(out, " leave the step too little: the rule is to keep 1-2 cores free per "
                          "rank, here ");
    if (v->ranks > 1)
        stk__verdict_say(out, "%.0f workers a rank, %.0f in all, at most.", advised,
                         advised * v->ranks);
    else
        stk__verdict_say(out, "%.0f worker%s at most.", advised, advised == 1 ? "" : "s");
    return true;
}

/* A step that sleeps is longer than alone only where its thread wakes late, for want of a core: all
 * are busy, or a quota of them is used up. */
static bool judge_late(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double share = (1 - v->lost) * (1 - 1 / STK_MAX(f->step_stretch, 1.0));

    if (f->spin || f->no_step || f->step_stretch <= STK_JUDGE_STRETCH || v->cpu < STK_JUDGE_BUSY ||
        v->lost < STK_JUDGE_WAIT || v->workers < 1 || share < STK_JUDGE_STRETCHED * v->lost)
        return false;
    const stk_verdict empty = *out;
    /* Waits for a core come on top; others are not what limits. */
    if (!stk__judge_waits(v, out) ||
        (out->limit != STK_LIMIT_CORES && out->limit != STK_LIMIT_DECODE)) {
        *out = empty;
        stk__say_cores(v, out);
    }
    out->limit_share += share;
    stk__verdict_say(out,
                     " And the step itself gets its core late: it takes %.2fx the time it takes "
                     "alone.",
                     f->step_stretch);
    return true;
}

static bool judge_step(const stk__case *v, stk_verdict *out)
{
    if (v->lost >= STK_JUDGE_WAIT)
        return false;
    out->limit = STK_LIMIT_STEP;
    /* Where the rest is more than the steps, too few steps to judge it or many small parts. */
    const bool most = v->step >= v->beside;
    stk__verdict_say(
        out,
        "%s ran %.1f %% of the time and waited %.1f %%. The loader keeps up; %s more than %.2fx.",
        most ? "The step is the limit: it" : "The step does not wait for data: it",
        100 * ratio(v->step, v->step + v->wait + v->beside), 100 * v->lost,
        stk__sweep_better(v, "") ? "only shorter steps, as others in this sweep had, can give"
                                 : "no setting of it can give",
        stk__gain_to(v, v->step, 0));
    stk__beside_say_shares(v, out);
    if (v->f->step_stretch <= STK_JUDGE_STRETCH)
        return true;
    stk__verdict_say(out,
                     " But the step takes %.2fx the time it takes alone: ", v->f->step_stretch);
    if (v->f->other_cores >= STK_JUDGE_DISTURBED)
        stk__verdict_say(out,
                         "other programs keep %.1f of %u usable cores busy, so measure again "
                         "without them.",
                         v->f->other_cores, v->f->usable_cores);
    else
        stk__verdict_say(out, "cheaper preparation%s would give it back.",
                         v->own ? ", or caches that hold prepared samples (cache: decoded)," : "");
    return true;
}

static bool judge_one_core(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    /* What the storage takes for a step with as many reads at once as there may be. */
    const double storage = ratio(f->read_seconds, (double)f->steps * (double)f->io_depth);
    if (f->num_workers != 0 || storage >= STK_JUDGE_STORAGE * v->wait)
        return false;
    double advised = stk__workers_advised(v);
    /* What is not work is waiting for storage: no core does it, and ahead of time it overlaps with
     * all else. */
    double work = STK_MIN(v->wait, ratio(f->prepare_busy, (double)f->steps));
    double reading = f->requests ? v->wait - work : 0;
    work = v->wait - reading;
    double cores = STK_MAX(1.0, STK_MIN(advised, v->free_cores));
    double next = STK_MAX(STK_MAX(v->step, work / cores), storage);
    out->limit = STK_LIMIT_ONE_CORE;
    out->limit_share = v->lost;
    stk__verdict_advise(out, "num_workers", advised);
    out->gain = stk__gain_to(v, v->step, next - v->step);
    stk__verdict_say(
        out, "One core does all the work: with num_workers 0 each batch is read and prepared in "
             "the thread of the "
             "step, ");
    if (f->no_step)
        stk__verdict_say(out, "and there is no step next to it (%.3g ms a batch", MS * v->wait);
    else
        stk__verdict_say(out, "which waits %.1f %% of the time (%.3g ms for a step of %.3g ms",
                         100 * v->lost, MS * v->wait, MS * v->step);
    if (reading >= STK_JUDGE_READ * v->wait)
        stk__verdict_say(out, "; %.0f %% of that is waiting for storage, as nothing is read ahead",
                         100 * reading / v->wait);
    stk__verdict_say(out, "). %u core%s usable, %.0f %% of that in use.", f->usable_cores,
                     f->usable_cores == 1 ? " is" : "s are", 100 * STK_MIN(1.0, v->cpu));
    return true;
}

static bool judge_storage(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    if (v->starved < STK_JUDGE_READ)
        return false;
    double in_flight = ratio(f->read_seconds, f->wall);
    double workers_bound = STK_MAX(v->step, ratio(f->prepare_busy, v->workers * (double)f->steps));
    double best = stk__gain_to(v, STK_MAX(v->step, workers_bound), 0);
    out->limit = STK_LIMIT_STORAGE;
    stk__verdict_say(
        out,
        "Storage is the limit: the workers wait for reads %.0f %% of their time (%.1f MB/s, %.0f "
        "reads a second of "
        "%.3g ms each, %.1f of io_depth %lld in flight).",
        100 * v->starved, ratio((double)f->bytes_read, f->wall) / 1e6,
        ratio((double)f->requests, f->wall), MS * f->read_latency, in_flight,
        (long long)f->io_depth);
    stk__verdict_say_waits(out, v);
    if (f->io_depth > 0 && in_flight >= STK_JUDGE_BUSY * (double)f->io_depth) {
        stk__verdict_advise(out, "io_depth", 2.0 * (double)f->io_depth);
    } else if (f->prefetch > 0) {
        stk__verdict_say(out, " Reads do not fill io_depth: too few are planned ahead.");
        stk__verdict_advise(out, "prefetch_factor", 2.0 * (double)f->prefetch);
    }
    out->gain = out->knob[0] ? STK_MIN(2.0, best) : 1;
    return true;
}

static bool judge_cores(const stk__case *v, stk_verdict *out)
{
    if (v->busy < STK_JUDGE_BUSY && v->cpu < STK_JUDGE_BUSY)
        return false;
    stk__say_cores(v, out);
    return true;
}

static void judge_unknown(const stk__case *v, stk_verdict *out)
{
    out->limit = STK_LIMIT_UNKNOWN;
    stk__verdict_say(
        out,
        "No single limit: the workers work %.0f %% and wait for reads %.0f %% of their time, and "
        "%.0f %% of %u usable "
        "cores are in use.",
        100 * v->busy, 100 * v->starved, 100 * STK_MIN(1.0, v->cpu), v->f->usable_cores);
    stk__verdict_say_waits(out, v);
    if (v->f->prefetch > 0 && v->f->wait.p95 > 4 * v->f->wait.p50) {
        stk__verdict_advise(out, "prefetch_factor", 2.0 * (double)v->f->prefetch);
        stk__verdict_say(
            out, " Waits are uneven (p95 %.3g ms, median %.3g ms): more batches ahead smooth them.",
            MS * v->f->wait.p95, MS * v->f->wait.p50);
    }
}

/* What is worth saying whatever limits. */
static void say_remarks(const stk_figures *f, stk_verdict *out)
{
    if (f->pin_memory && !f->device)
        stk__verdict_say(out, " pin_memory cannot help: nothing is copied to a device.");
    if (f->optimizer_steps && f->optimizer_steps < f->steps)
        stk__verdict_say(out,
                         " The optimizer steps after every %.3g batches on average and takes %.3g "
                         "ms of the last one's step: that batch is longer by design.",
                         (double)f->steps / (double)f->optimizer_steps, MS * f->optimizer_time);
    if (f->leak_bytes_per_epoch > 0)
        stk__verdict_say(out, " Memory grows by %.1f MiB every epoch without end: a leak.",
                         f->leak_bytes_per_epoch / (1024.0 * 1024.0));
}

/* Before all else: data that is not trained on is worse than data that is late. */
static bool judge_bad(const stk_figures *f, stk_verdict *out)
{
    const double all = (double)f->samples + (double)f->bad_samples;

    if (!f->bad_samples)
        return false;
    if (!f->samples) {
        out->limit = STK_LIMIT_UNKNOWN;
        stk__verdict_say(out,
                         "All %.0f samples are bad: every batch was empty, and nothing was "
                         "measured. The first reasons are below.",
                         all);
        return true;
    }
    stk__verdict_say(
        out, "%.0f of the %.0f samples measured (%.1f %%) are bad and were left out or replaced. ",
        (double)f->bad_samples, all, 100 * ratio((double)f->bad_samples, all));
    return false;
}

static void judge_case(const stk__case *v, stk_verdict *out)
{
    static bool (*const cases[])(const stk__case *, stk_verdict *) = {
        judge_oversubscribed, judge_late,       stk__judge_beside, judge_step,
        judge_one_core,       stk__judge_waits, judge_storage,     judge_cores,
    };
    const stk_figures *f = v->f;

    *out = (stk_verdict){
        .struct_size = sizeof *out, .lost_share = v->lost, .second = STK_LIMIT_UNKNOWN, .gain = 1};
    if (judge_bad(f, out))
        return;
    if (f->steps == 0) {
        out->limit = STK_LIMIT_UNKNOWN;
        stk__verdict_say(out, "Nothing was measured.");
        return;
    }
    for (size_t i = 0; i <= STK_COUNT(cases); i++) {
        if (i == STK_COUNT(cases))
            judge_unknown(v, out);
        else if (cases[i](v, out))
            break;
    }
    say_advice(out, v);
    stk__beside_remark(v, out);
    say_few(v, out);
    say_remarks(f, out);
}

void stk_judge_recording(stk_context *context, const stk_recording *recording, stk_verdict *out)
{
    stk_recording taken = {0};
    stk_figures known = {0};
    stk_verdict verdict = {.struct_size = sizeof verdict};

    stk__sized_copy(&taken, sizeof taken, recording);
    stk__sized_copy(&known, sizeof known, taken.figures);
    stk__case v = look(&known);
    v.ctx = context;
    v.recording = taken.num_prepare ? &taken : NULL;
    judge_case(&v, &verdict);
    stk__sized_write(out, &verdict);
}

static void judge_beside(const stk_figures *figures, bool trainings, const stk_sweep_point *self,
                         const stk_sweep_point *others, size_t n, stk_verdict *out)
{
    stk_figures known = {0};
    stk_verdict verdict = {.struct_size = sizeof verdict};

    stk__sized_copy(&known, sizeof known, figures);
    stk__case v = look(&known);
    v.self = self;
    v.others = others;
    v.num_others = n;
    v.trainings = trainings;
    judge_case(&v, &verdict);
    stk__sized_write(out, &verdict);
}

void stk_judge(const stk_figures *figures, stk_verdict *out)
{
    judge_beside(figures, false, NULL, NULL, 0, out);
}

void stk__judge_sweep(const stk_figures *figures, const stk_sweep_point *self,
                      const stk_sweep_point *others, size_t n, stk_verdict *out)
{
    judge_beside(figures, false, self, others, n, out);
}

void stk__judge_trainings(const stk_figures *figures, const stk_sweep_point *others, size_t n,
                          stk_verdict *out)
{
    const stk_sweep_point self = {.samples_per_s = 1, .least = 1, .most = 1};

    judge_beside(figures, true, &self, others, n, out);
}

const char *stk_limit_name(stk_limit limit)
{
    switch (limit) {
    case STK_LIMIT_STEP:
        return "step";
    case STK_LIMIT_ONE_CORE:
        return "one core";
    case STK_LIMIT_CORES:
        return "cores";
    case STK_LIMIT_STORAGE:
        return "storage";
    case STK_LIMIT_OVERSUBSCRIBED:
        return "oversubscribed";
    case STK_LIMIT_WORKERS:
        return "workers";
    case STK_LIMIT_DECODE:
        return "decode";
    case STK_LIMIT_LATENCY:
        return "storage latency";
    case STK_LIMIT_BANDWIDTH:
        return "storage bandwidth";
    case STK_LIMIT_SMALL_READS:
        return "small reads";
    case STK_LIMIT_OVER_READ:
        return "over-read";
    case STK_LIMIT_RETRIES:
        return "retries";
    case STK_LIMIT_BUDGET:
        return "memory budget";
    case STK_LIMIT_STRAGGLERS:
        return "stragglers";
    case STK_LIMIT_TURN:
        return "epoch turn";
    case STK_LIMIT_TRANSFER:
        return "transfer";
    case STK_LIMIT_VALIDATION:
        return "validation";
    case STK_LIMIT_CALLBACKS:
        return "callbacks";
    case STK_LIMIT_LOGGING:
        return "logging";
    case STK_LIMIT_CHECKPOINT:
        return "checkpoints";
    case STK_LIMIT_THROTTLED:
        return "throttling";
    case STK_LIMIT_CONNECTIONS:
        return "connections";
    case STK_LIMIT_UNKNOWN:
        break;
    }
    return "unknown";
}
