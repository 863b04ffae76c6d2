/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: which of the plain cases a setting is, what that costs, and what to change. The
 * cases are asked in the order below; the first that fits is the answer.
 *
 *   oversubscribed  the step itself runs slower beside the loader, and more workers run than cores
 * are left over step            the step ran nearly all the time one core        num_workers 0:
 * step and preparation take turns, and nothing is read ahead storage         workers spend their
 * time waiting for reads workers         all workers are busy and cores are left over cores all
 * workers or all cores are busy and none is left over
 *
 * Expected gains are factors in samples/s of the steady state (wait + step of one step; setup is
 * not in it). They are bounds: other limits may show before they are reached.
 */
#include "measure/measure.h"

#include <stdarg.h>
#include <stdio.h>

#define MS 1e3

/* What the cases look at, worked out once. */
typedef struct view {
    const stk_figures *f;
    double step, wait; /* of one step, seconds */
    double lost;       /* share of the wall time in waits */
    double workers;    /* threads of one rank */
    double ranks;
    double free_cores;    /* cores for the workers of one rank, beside the step's */
    double busy, starved; /* shares of the workers' time: at work, waiting for reads */
    double cpu;           /* share of all usable cores that work */
} view;

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static view look(const stk_figures *f)
{
    view v = {.f = f, .step = f->step_time, .wait = f->wait.mean};
    double threads = f->prepare_busy + f->prepare_wait_in + f->prepare_wait_out;

    v.ranks = STK_MAX(1.0, (double)f->ranks);
    v.workers = STK_MAX(0.0, (double)f->num_workers);
    v.lost = STK_MIN(1.0, ratio(v.wait, v.wait + v.step));
    v.free_cores = (double)f->usable_cores / v.ranks - (f->spin ? (double)f->compute_cores : 0);
    v.busy = ratio(f->prepare_busy, threads);
    v.starved = ratio(f->prepare_wait_in, threads);
    /* cpu_s leaves the step's own work out. */
    v.cpu =
        ratio(f->cpu_s * v.ranks, f->wall * (double)f->usable_cores) +
        (f->spin ? ratio(f->step_share * f->compute_cores * v.ranks, (double)f->usable_cores) : 0);
    return v;
}

static void say(stk_verdict *out, const char *format, ...) STK_PRINTF(2, 3);

static void say(stk_verdict *out, const char *format, ...)
{
    size_t used = strlen(out->text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(out->text + used, sizeof out->text - used, format, arguments);
    va_end(arguments);
}

static void advise(stk_verdict *out, const char *knob, double value)
{
    snprintf(out->knob, sizeof out->knob, "%s", knob);
    snprintf(out->value, sizeof out->value, "%.0f", value);
}

/* The last sentence: what to change, what it gives, and which ratio that is. */
static void say_advice(stk_verdict *out, const view *v)
{
    if (!out->knob[0])
        return;
    say(out, " Set %s to %s", out->knob, out->value);
    if (out->gain > 1.005)
        say(out, ": up to %.2fx the samples/s (%.0f instead of %.0f, steady state, setup left out)",
            out->gain, v->f->samples_per_s * out->gain, v->f->samples_per_s);
    say(out, ".");
}

/* Factor in samples/s when the wait of a step shrinks to `wait` and the step to `step`. */
static double gain_to(const view *v, double step, double wait)
{
    return STK_MAX(1.0, ratio(v->wait + v->step, step + wait));
}

/* Workers that the rule of thumb leaves: cores of the rank less those of the step, or less one
 * where it sleeps. */
static double workers_advised(const view *v)
{
    double kept = STK_MAX(1.0, v->f->spin ? (double)v->f->compute_cores : 1.0);
    double left = (double)v->f->usable_cores / v->ranks - kept;

    return STK_MAX(1.0, (double)(uint64_t)STK_MAX(0.0, left));
}

static void say_waits(stk_verdict *out, const view *v)
{
    if (v->f->no_step)
        say(out, " There is no step: this is the loader's own rate.");
    else
        say(out, " The step waits %.1f %% of the time.", 100 * v->lost);
}

static bool judge_oversubscribed(const view *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    double advised = workers_advised(v);

    if (f->step_stretch <= STK_JUDGE_STRETCH || v->workers <= advised)
        return false;
    out->limit = STK_LIMIT_OVERSUBSCRIBED;
    advise(out, "num_workers", advised);
    out->gain = gain_to(v, ratio(v->step, f->step_stretch), v->wait);
    say(out,
        "Oversubscribed: beside the loader the step takes %.2fx the time it takes alone (%.3g ms a "
        "step). %.0f "
        "worker%s on %u usable core%s%s leave the step too little: the rule is to keep 1-2 cores "
        "free per rank, "
        "here %.0f worker%s at most.",
        f->step_stretch, MS * v->step, v->workers * v->ranks, v->workers * v->ranks == 1 ? "" : "s",
        f->usable_cores, f->usable_cores == 1 ? "" : "s",
        v->ranks > 1 ? " (all ranks together)" : "", advised, advised == 1 ? "" : "s a rank");
    return true;
}

static bool judge_step(const view *v, stk_verdict *out)
{
    if (v->lost >= STK_JUDGE_WAIT)
        return false;
    out->limit = STK_LIMIT_STEP;
    say(out,
        "The step is the limit: it ran %.1f %% of the time and waited %.1f %%. The loader keeps "
        "up; no setting of "
        "it can give more than %.2fx.",
        100 * (1 - v->lost), 100 * v->lost, gain_to(v, v->step, 0));
    if (v->f->step_stretch > STK_JUDGE_STRETCH)
        say(out,
            " But beside the loader the step takes %.2fx the time it takes alone: cheaper "
            "preparation, or caches "
            "that hold prepared samples (cache: decoded), would give it back.",
            v->f->step_stretch);
    return true;
}

static bool judge_one_core(const view *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    if (f->num_workers != 0)
        return false;
    double advised = workers_advised(v);
    /* What is not work is waiting for storage: no core does it, and ahead of time it overlaps with
     * all else. */
    double work = STK_MIN(v->wait, ratio(f->prepare_busy, (double)f->steps));
    double reading = f->requests ? v->wait - work : 0;
    work = v->wait - reading;
    double cores = STK_MAX(1.0, STK_MIN(advised, v->free_cores));
    double next = STK_MAX(v->step, work / cores);
    out->limit = STK_LIMIT_ONE_CORE;
    advise(out, "num_workers", advised);
    out->gain = gain_to(v, v->step, next - v->step);
    say(out, "One core does all the work: with num_workers 0 each batch is read and prepared in "
             "the thread of the "
             "step, ");
    if (f->no_step)
        say(out, "and there is no step beside it (%.3g ms a batch", MS * v->wait);
    else
        say(out, "which waits %.1f %% of the time (%.3g ms for a step of %.3g ms", 100 * v->lost,
            MS * v->wait, MS * v->step);
    if (reading >= STK_JUDGE_READ * v->wait)
        say(out, "; %.0f %% of that is waiting for storage, as nothing is read ahead",
            100 * reading / v->wait);
    say(out, "). %u core%s usable, %.0f %% of that in use.", f->usable_cores,
        f->usable_cores == 1 ? " is" : "s are", 100 * STK_MIN(1.0, v->cpu));
    return true;
}

static bool judge_storage(const view *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    if (v->starved < STK_JUDGE_READ)
        return false;
    double in_flight = ratio(f->read_seconds, f->wall);
    double workers_bound = STK_MAX(v->step, ratio(f->prepare_busy, v->workers * (double)f->steps));
    double best = gain_to(v, STK_MAX(v->step, workers_bound), 0);
    out->limit = STK_LIMIT_STORAGE;
    say(out,
        "Storage is the limit: the workers wait for reads %.0f %% of their time (%.1f MB/s, %.0f "
        "reads a second of "
        "%.3g ms each, %.1f of io_depth %lld in flight).",
        100 * v->starved, ratio((double)f->bytes_read, f->wall) / 1e6,
        ratio((double)f->requests, f->wall), MS * f->read_latency, in_flight,
        (long long)f->io_depth);
    say_waits(out, v);
    if (f->io_depth > 0 && in_flight >= STK_JUDGE_BUSY * (double)f->io_depth) {
        advise(out, "io_depth", 2.0 * (double)f->io_depth);
    } else if (f->prefetch > 0) {
        say(out, " Reads do not fill io_depth: too few are planned ahead.");
        advise(out, "prefetch_factor", 2.0 * (double)f->prefetch);
    }
    out->gain = out->knob[0] ? STK_MIN(2.0, best) : 1;
    return true;
}

static bool judge_cores(const view *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    double advised = workers_advised(v);
    bool room = v->workers < advised && v->cpu < STK_JUDGE_BUSY;

    if (v->busy < STK_JUDGE_BUSY && v->cpu < STK_JUDGE_BUSY)
        return false;
    if (room) {
        out->limit = STK_LIMIT_WORKERS;
        advise(out, "num_workers", advised);
        out->gain = STK_MIN(advised / STK_MAX(1.0, v->workers), gain_to(v, v->step, 0));
        say(out,
            "Too few workers: %.0f busy %.0f %% of the time, while %.0f %% of %u usable cores are "
            "in use.",
            v->workers, 100 * v->busy, 100 * STK_MIN(1.0, v->cpu), f->usable_cores);
        say_waits(out, v);
        return true;
    }
    out->limit = STK_LIMIT_CORES;
    say(out,
        "%s: %.0f worker%s work%s %.0f %% of the time, and %.0f %% of %u usable core%s in use.",
        v->cpu >= STK_JUDGE_BUSY ? "All cores are busy"
                                 : "All workers are busy, and no core is left over for more",
        v->workers * v->ranks, v->workers * v->ranks == 1 ? "" : "s",
        v->workers * v->ranks == 1 ? "s" : "", 100 * v->busy, 100 * STK_MIN(1.0, v->cpu),
        f->usable_cores, f->usable_cores == 1 ? " is" : "s are");
    say_waits(out, v);
    say(out,
        " Less work for each sample helps (%.3g CPU-seconds per 1,000 now): a cheaper transform, "
        "cache: decoded "
        "where the samples fit into memory, or more cores.",
        f->cpu_s_per_1000);
    if (!f->no_step)
        say(out, " No wait at all would be %.2fx the samples/s.", gain_to(v, v->step, 0));
    return true;
}

static void judge_unknown(const view *v, stk_verdict *out)
{
    out->limit = STK_LIMIT_UNKNOWN;
    say(out,
        "No single limit: the workers work %.0f %% and wait for reads %.0f %% of their time, and "
        "%.0f %% of %u usable "
        "cores are in use.",
        100 * v->busy, 100 * v->starved, 100 * STK_MIN(1.0, v->cpu), v->f->usable_cores);
    say_waits(out, v);
    if (v->f->prefetch > 0 && v->f->wait.p95 > 4 * v->f->wait.p50) {
        advise(out, "prefetch_factor", 2.0 * (double)v->f->prefetch);
        say(out, " Waits are uneven (p95 %.3g ms, median %.3g ms): more batches ahead smooth them.",
            MS * v->f->wait.p95, MS * v->f->wait.p50);
    }
}

static void say_leak(const stk_figures *f, stk_verdict *out)
{
    if (f->leak_bytes_per_epoch > 0)
        say(out, " Memory grows by %.1f MiB every epoch without end: a leak.",
            f->leak_bytes_per_epoch / (1024.0 * 1024.0));
}

void stk_judge(const stk_figures *figures, stk_verdict *out)
{
    static bool (*const cases[])(const view *, stk_verdict *) = {
        judge_oversubscribed, judge_step, judge_one_core, judge_storage, judge_cores,
    };
    view v = look(figures);

    *out = (stk_verdict){.struct_size = sizeof *out, .lost_share = v.lost, .gain = 1};
    if (figures->steps == 0) {
        out->limit = STK_LIMIT_UNKNOWN;
        say(out, "Nothing was measured.");
        return;
    }
    for (size_t i = 0; i <= STK_COUNT(cases); i++) {
        if (i == STK_COUNT(cases))
            judge_unknown(&v, out);
        else if (cases[i](&v, out))
            break;
    }
    say_advice(out, &v);
    say_leak(figures, out);
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
    case STK_LIMIT_UNKNOWN:
        break;
    }
    return "unknown";
}
