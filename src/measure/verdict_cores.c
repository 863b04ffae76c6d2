/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdicts where preparation limits: decoding, too few workers, too much decoded, threads that
 * get no core, or all cores busy.
 */
#include "measure/verdict.h"

#include <stdio.h>

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* Pictures are cut and resized from this many times the side they are delivered with, */
#define PACKED_SIDE 2.0
/* and packing them again is worth it where it leaves no more than this share of the pixels. */
#define PACKED_PIXELS 0.7

/* Of the usable cores, that other programs keep busy: from there on they are the cause. */
#define OTHERS_SHARE 0.5

/* The side that pictures may be packed with; 0: that would not help, or it is not known. */
static double packed_side(const stk_figures *f)
{
    const double side = PACKED_SIDE * (double)f->picture_side;

    return f->pictures &&
                   side * side * (double)f->pictures <= PACKED_PIXELS * (double)f->picture_pixels
               ? side
               : 0;
}

/* All cores decode: only less to decode helps. */
static void judge_decode(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double side = packed_side(f);

    out->limit = STK_LIMIT_DECODE;
    stk__verdict_say(
        out,
        "Decode-bound: %.0f worker%s on %u usable core%s, busy %.0f %% of the time, spend %.0f %% "
        "of it "
        "decoding pictures (%.3g ms each",
        v->workers * v->ranks, v->workers * v->ranks == 1 ? "" : "s", f->usable_cores,
        f->usable_cores == 1 ? "" : "s", 100 * v->busy,
        100 * ratio(f->decode_seconds, f->prepare_busy),
        MS * ratio(f->decode_seconds, (double)f->pictures));
    if (f->entropy_share > 0)
        stk__verdict_say(out, ", about %.0f %% of that entropy decoding", 100 * f->entropy_share);
    stk__verdict_say(out, ").");
    stk__verdict_say_waits(out, v);
    if (side > 0)
        stk__verdict_say(out,
                         " Smaller pictures would help: 'stoker convert images:DIR OUT --max-side "
                         "%.0f' re-packs them once, with %.0f %% of the pixels that are decoded "
                         "now; so would augmentation on the device, or more cores.",
                         side,
                         100 * ratio(side * side * (double)f->pictures, (double)f->picture_pixels));
    else
        stk__verdict_say(out, " A cache of decoded pictures (cache: decoded) where they fit into "
                              "memory would help, or more cores.");
    if (!f->no_step)
        stk__verdict_say(out, " No wait at all would be %.2fx the samples/s.",
                         stk__gain_to(v, v->step, 0));
}

/* Workers that are busy and yet do not compute: they wait for something of their own. */
static bool workers_sleep(const stk__case *v)
{
    const stk_figures *f = v->f;

    return (f->runnable_s > 0 || v->cpu < STK_JUDGE_BUSY) &&
           ratio(f->cpu_s + f->runnable_s, f->prepare_busy) < STK_JUDGE_ASLEEP;
}

static void say_more_workers(const stk__case *v, stk_verdict *out, double advised)
{
    const stk_figures *f = v->f;

    out->limit = STK_LIMIT_WORKERS;
    stk__verdict_advise(out, "num_workers", advised);
    out->gain = STK_MIN(advised / STK_MAX(1.0, v->workers), stk__gain_to(v, v->step, 0));
    stk__verdict_say(out,
                     "Too few workers: %.0f busy %.0f %% of the time, while %.0f %% of %u usable "
                     "cores are in use.",
                     v->workers, 100 * v->busy, 100 * STK_MIN(1.0, v->cpu), f->usable_cores);
    if (workers_sleep(v))
        stk__verdict_say(out,
                         " They compute only %.0f %% of that and sleep the rest, so there may be "
                         "more of them than cores.",
                         100 * ratio(f->cpu_s, f->prepare_busy));
    stk__verdict_say_waits(out, v);
}

/* Most of what is decoded is in no sample: other chunks help more than other settings. */
static bool says_over_read(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double vain = ratio((double)f->bytes_decoded, (double)f->bytes_taken);

    if (!f->bytes_taken || vain < STK_JUDGE_OVER_READ)
        return false;
    out->limit = STK_LIMIT_OVER_READ;
    out->gain = STK_MIN(vain, stk__gain_to(v, v->step, 0));
    stk__verdict_say(out, "Too much is decoded: %.1f bytes of chunks for each one in a sample.",
                     vain);
    stk__verdict_say_waits(out, v);
    stk__verdict_say(out, " 'stoker chunks' names the chunk shape that suits the windows; shuffle: "
                          "block takes all windows of a chunk while it is there, and cache: "
                          "decoded keeps it.");
    stk__verdict_advise_chunks(v, out);
    return true;
}

/* Whether the loader knows of waits, but of few of them: the others were not for it. */
static bool waits_outside(const stk__case *v)
{
    double known = 0;

    for (int i = 0; i < STK_WAIT_PARTS; i++)
        known += v->f->waits[i];
    return known > 0 && known < STK_JUDGE_KNOWN * v->wait * (double)v->f->steps;
}

static void say_others(const stk__case *v, stk_verdict *out)
{
    if (v->f->other_cores >= STK_JUDGE_DISTURBED)
        stk__verdict_say(out, " Other programs keep %.1f of %u usable cores busy.",
                         v->f->other_cores, v->f->usable_cores);
}

/* Threads that have nothing to do most of the time, and come too late when they have. */
static bool says_idle(const stk__case *v, stk_verdict *out)
{
    if (v->workers < 1 || !v->watched || v->busy >= STK_JUDGE_IDLE || workers_sleep(v))
        return false;
    const bool outside = waits_outside(v);
    out->limit = STK_LIMIT_CORES;
    if (outside)
        stk__verdict_say(out, "The thread of the step comes too late: batches are ready and wait "
                              "until it gets a core.");
    else
        stk__verdict_say(
            out,
            "The workers come too late: %.0f worker%s work%s only %.0f %% of the time, and "
            "the step waits until they get a core.",
            v->workers * v->ranks, v->workers * v->ranks == 1 ? "" : "s",
            v->workers * v->ranks == 1 ? "s" : "", 100 * v->busy);
    stk__verdict_say_waits(out, v);
    say_others(v, out);
    if (outside) {
        stk__verdict_say(out, " Leave it one alone; the loader cannot help.");
    } else if (stk__sweep_has(v, "num_workers", "0")) {
        stk__verdict_say(out, " Leave them the cores alone.");
        stk__verdict_advise(out, "num_workers", 0);
    } else {
        stk__verdict_say(out, " Leave them the cores alone, or prepare in the thread of the step "
                              "(num_workers 0) where that is little work.");
    }
    return true;
}

static void say_busy(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    stk__verdict_say(out, "%s: ",
                     v->cpu >= STK_JUDGE_BUSY
                         ? "All cores are busy"
                         : "All workers are busy, and no core is left over for more");
    if (v->watched)
        stk__verdict_say(out, "%.0f worker%s work%s %.0f %% of the time, and ",
                         v->workers * v->ranks, v->workers * v->ranks == 1 ? "" : "s",
                         v->workers * v->ranks == 1 ? "s" : "", 100 * v->busy);
    stk__verdict_say(out, "%.0f %% of %u usable core%s in use.", 100 * STK_MIN(1.0, v->cpu),
                     f->usable_cores, f->usable_cores == 1 ? " is" : "s are");
    stk__verdict_say_waits(out, v);
}

static void say_less_work(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    stk__verdict_say(out, " Less work for each sample helps");
    if (f->cpu_s_per_1000 > 0)
        stk__verdict_say(out, " (%.3g CPU-seconds per 1,000 now)", f->cpu_s_per_1000);
    stk__verdict_say(out, ": %s, a cheaper transform, augmentation on the device%s, or more cores.",
                     v->own ? "smaller or packed samples (stoker convert)"
                            : "smaller samples, or prepared ones",
                     v->own ? ", cache: decoded where the samples fit into memory" : "");
}

void stk__say_cores(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double advised = stk__workers_advised(v);

    if (says_over_read(v, out) || says_idle(v, out))
        return;

    if (workers_sleep(v)) {
        say_more_workers(v, out, STK_MAX(advised, 2 * v->workers));
        return;
    }
    if (v->workers < advised && v->cpu < STK_JUDGE_BUSY) {
        say_more_workers(v, out, advised);
        return;
    }
    if (ratio(f->decode_seconds, f->prepare_busy) >= STK_JUDGE_DECODE) {
        judge_decode(v, out);
        return;
    }
    out->limit = STK_LIMIT_CORES;
    say_busy(v, out);
    say_others(v, out);
    /* Fewer threads would not get more of cores that others have. */
    if (f->other_cores >= OTHERS_SHARE * f->usable_cores) {
        stk__verdict_say(out, " Leave it the cores alone, or wait until they are done.");
        return;
    }
    if (v->workers * v->ranks > f->usable_cores) {
        stk__verdict_say(out, " More threads than cores only take turns: %.0f in all would do.",
                         advised * v->ranks);
        stk__verdict_advise(out, "num_workers", advised);
    } else if (!stk__sweep_better(v, "num_workers")) {
        stk__verdict_say(out, " More workers do not help any more.");
    }
    say_less_work(v, out);
    if (!f->no_step)
        stk__verdict_say(out, " No wait at all would be %.2fx the samples/s.",
                         stk__gain_to(v, v->step, 0));
}
