/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict from the ledger of waits: the parts are put together into causes, and the cause that
 * most was waited for is the limit. Storage is judged as one cause first and then told apart, so
 * that a limit that shows in three of its parts does not lose to one that shows in one.
 */
#include "measure/verdict.h"

#include <stdio.h>

#define MIB (1024.0 * 1024.0)

typedef enum cause { STORAGE, WORK, BUDGET, ORDERING, TURN, CAUSES } cause;

/* To which cause a part belongs; parts without a cause: CAUSES. */
static const uint8_t cause_of[STK_WAIT_PARTS] = {
    [STK_WAIT_READ_SLOT] = STORAGE,
    [STK_WAIT_STORAGE_LATENCY] = STORAGE,
    [STK_WAIT_STORAGE_TRANSFER] = STORAGE,
    [STK_WAIT_RETRY] = STORAGE,
    [STK_WAIT_WORKER] = WORK,
    [STK_WAIT_DECODE_ENTROPY] = WORK,
    [STK_WAIT_DECODE] = WORK,
    [STK_WAIT_TRANSFORM] = WORK,
    [STK_WAIT_COLLATE] = WORK,
    [STK_WAIT_MEMORY_BUDGET] = BUDGET,
    [STK_WAIT_ORDERING] = ORDERING,
    [STK_WAIT_STARTUP] = TURN,
    [STK_WAIT_EPOCH_TURN] = TURN,
    [STK_WAIT_OTHER] = CAUSES,
};

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* Seconds that the workers of one rank need for a step. */
static double work_of_step(const stk__case *v)
{
    return ratio(v->f->prepare_busy, STK_MAX(v->workers, 1.0) * (double)v->f->steps);
}

/* Factor in samples/s when nothing but step and workers limit. */
static double best_of(const stk__case *v)
{
    return stk__gain_to(v, STK_MAX(v->step, work_of_step(v)), 0);
}

static double in_flight(const stk__case *v)
{
    return ratio(v->f->read_seconds, v->f->wall);
}

/* Whether as many reads are under way as there may be. */
static bool is_full(const stk__case *v)
{
    return in_flight(v) >= STK_JUDGE_READ * (double)v->f->io_depth;
}

static void say_reads(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    stk__verdict_say(out,
                     " (%.1f MB/s, %.0f reads a second of %.3g KiB and %.3g ms each, %.1f of "
                     "io_depth %lld under way).",
                     ratio((double)f->bytes_read, f->wall) / 1e6,
                     ratio((double)f->requests, f->wall),
                     ratio((double)f->bytes_read, (double)f->requests) / 1024, MS * f->read_latency,
                     in_flight(v), (long long)f->io_depth);
    stk__verdict_say_waits(out, v);
}

/* ---- Storage --------------------------------------------------------------------------------- */

static void judge_retries(const stk__case *v, stk_verdict *out)
{
    out->limit = STK_LIMIT_RETRIES;
    stk__verdict_say(out, "Storage fails: batches wait for reads that are tried again");
    say_reads(v, out);
    stk__verdict_say(out, " No setting mends that; look at the network and the server.");
}

static void judge_bandwidth(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    /* Chunks are needed whole; of what comes out of them samples may take little. */
    const double vain = STK_MAX(ratio((double)f->bytes_read, (double)f->bytes_needed),
                                ratio((double)f->bytes_decoded, (double)f->bytes_taken));

    out->limit = STK_LIMIT_BANDWIDTH;
    if (vain >= STK_JUDGE_OVER_READ) {
        out->limit = STK_LIMIT_OVER_READ;
        out->gain = STK_MIN(vain, best_of(v));
        stk__verdict_say(out, "Too much is read: %.1f bytes for each one that samples need", vain);
        say_reads(v, out);
        stk__verdict_say(out,
                         " Chunks of the shape that samples have ('stoker chunks') would save up "
                         "to %.0f %% of it.",
                         100 * (1 - 1 / vain));
        stk__verdict_advise_chunks(v, out);
        return;
    }
    const bool remote = stk__network_counts(v);
    stk__verdict_say(
        out, "The bandwidth of the %s is the limit: reads take longer the more is under way",
        remote ? "network" : "storage");
    say_reads(v, out);
    stk__verdict_say(
        out,
        " More reads at once do not help; fewer bytes do: a compressed format, smaller pictures "
        "('stoker convert'), cache: encoded or decoded where it fits, or %s.",
        remote ? "cache+URL, which keeps on a local disk what was read once" : "nearer storage");
    stk__verdict_say_network(v, out);
    stk__verdict_say_store(v, true, out);
    if (!f->no_step)
        stk__verdict_say(out, " No wait at all would be %.2fx the samples/s.", best_of(v));
}

static void judge_latency(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;
    const double best = best_of(v), depth = (double)f->io_depth,
                 each = ratio((double)f->bytes_read, (double)f->requests);
    const bool full = is_full(v);

    out->limit = STK_LIMIT_LATENCY;
    if (full && depth >= STK_JUDGE_DEPTH && each < STK_JUDGE_SMALL_READ) {
        out->limit = STK_LIMIT_SMALL_READS;
        out->gain = best;
        stk__verdict_say(out, "Many small reads: each waits for the storage whatever its size");
        say_reads(v, out);
        stk__verdict_say(out, " Samples packed into few large files let one read serve many.");
        return;
    }
    stk__verdict_say(out,
                     "The latency of the storage is the limit: each read takes %.3g ms however few "
                     "are under way",
                     MS * (f->read_floor > 0 ? f->read_floor : f->read_latency));
    say_reads(v, out);
    stk__verdict_say_store(v, false, out);
    stk__verdict_say_network(v, out);
    if (full && stk__network_counts(v) && depth >= (double)f->network.connections) {
        stk__verdict_advise_connections(v, best, out);
    } else if (full && depth > 0) {
        /* Of a read that is alone its bytes are known: so many of them fill the link. */
        const double most = depth > 1 || f->read_transfer_share <= 0
                                ? best
                                : STK_MIN(best, 1 / f->read_transfer_share);
        double value = stk__verdict_double(depth, depth * most);
        if (stk__network_counts(v)) /* no more of them are ever under way */
            value = STK_MIN(value, (double)f->network.connections);
        stk__verdict_advise(out, "io_depth", value);
        out->gain = STK_MIN(value / depth, most);
    } else if (f->prefetch > 0) {
        const double value = stk__verdict_double((double)f->prefetch, (double)f->prefetch * best);
        stk__verdict_say(out, " Reads do not fill io_depth: too few are planned ahead.");
        stk__verdict_advise(out, "prefetch_factor", value);
        out->gain = STK_MIN(value / (double)f->prefetch, best);
    }
}

/* Whether more bytes make reads slower. What waits for a slot waits for the reads that hold it. */
static bool is_bandwidth(const stk__case *v)
{
    const stk_figures *f = v->f;
    const double *w = f->waits, slot = w[STK_WAIT_READ_SLOT];
    const double transfer = w[STK_WAIT_STORAGE_TRANSFER] + slot * f->read_transfer_share;

    /* Reads that wait for a connection take longer the more there are, too: the line through those
     * that have one tells. */
    if (stk__network_counts(v))
        return stk__network_shares(v);
    return transfer >= (f->io_depth > 1 ? STK_JUDGE_TRANSFER : STK_JUDGE_ALONE) *
                           (slot + w[STK_WAIT_STORAGE_LATENCY] + w[STK_WAIT_STORAGE_TRANSFER]);
}

static void judge_storage(const stk__case *v, stk_verdict *out)
{
    const double *w = v->f->waits, slot = w[STK_WAIT_READ_SLOT];
    /* What waits for a slot waits for the reads that hold it, and some of those fail. */
    const double vain =
        slot * STK_MIN(1.0, ratio((double)v->f->read_failures, (double)v->f->requests));

    if (stk__judge_network(v, is_bandwidth(v), best_of(v), out)) {
        say_reads(v, out);
        stk__verdict_say_network(v, out);
        return;
    }
    if (w[STK_WAIT_RETRY] + vain >
        slot - vain + w[STK_WAIT_STORAGE_LATENCY] + w[STK_WAIT_STORAGE_TRANSFER])
        judge_retries(v, out);
    else if (is_bandwidth(v))
        judge_bandwidth(v, out);
    else
        judge_latency(v, out);
}

/* ---- The others ------------------------------------------------------------------------------ */

static void judge_budget(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    out->limit = STK_LIMIT_BUDGET;
    stk__verdict_say(out,
                     "The memory budget is the limit: planning waits %.0f %% of the time "
                     "because %.0f MiB are full.",
                     100 * STK_MIN(1.0, ratio(f->budget_wait, f->wall)),
                     (double)f->budget_bytes / MIB);
    stk__verdict_say_waits(out, v);
    stk__verdict_advise(out, "memory_budget", 2 * (double)f->budget_bytes);
    out->gain = STK_MIN(2.0, best_of(v));
}

static void judge_ordering(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    out->limit = STK_LIMIT_STRAGGLERS;
    stk__verdict_say(out,
                     "Stragglers are the limit: batches are finished and wait behind one whose "
                     "slowest sample is "
                     "not (waits: p95 %.3g ms, median %.3g ms).",
                     MS * f->wait.p95, MS * f->wait.p50);
    stk__verdict_say_waits(out, v);
    if (f->prefetch > 0)
        stk__verdict_advise(out, "prefetch_factor", 2.0 * (double)f->prefetch);
    out->gain = STK_MIN(2.0, best_of(v));
}

static void judge_turn(const stk__case *v, stk_verdict *out)
{
    const stk_figures *f = v->f;

    out->limit = STK_LIMIT_TURN;
    stk__verdict_say(out,
                     "The turn of the epoch is the limit: its first batch takes %.3g ms, because "
                     "nothing is ahead of it.",
                     MS * STK_MAX(f->epoch_turn, f->wait.max));
    stk__verdict_say_waits(out, v);
    if (!f->persistent_workers) {
        snprintf(out->knob, sizeof out->knob, "persistent_workers");
        snprintf(out->value, sizeof out->value, "true");
    } else {
        stk__verdict_say(out, " Longer epochs, or epochs that are not cut short, would spread it.");
    }
    out->gain = best_of(v);
}

static const struct rule {
    stk_limit limit; /* as which it is named next to a greater one */
    void (*judge)(const stk__case *v, stk_verdict *out);
} rules[CAUSES] = {
    [STORAGE] = {STK_LIMIT_STORAGE, judge_storage},
    [WORK] = {STK_LIMIT_CORES, stk__say_cores},
    [BUDGET] = {STK_LIMIT_BUDGET, judge_budget},
    [ORDERING] = {STK_LIMIT_STRAGGLERS, judge_ordering},
    [TURN] = {STK_LIMIT_TURN, judge_turn},
};

/* Reads that do not fill io_depth while planning waits could have come earlier: what they
 * are waited for is the budget's. */
static void blame_budget(const stk__case *v, double seconds[CAUSES])
{
    const stk_figures *f = v->f;

    if (f->budget_wait < STK_JUDGE_READ * f->wall || is_full(v) || is_bandwidth(v))
        return;
    seconds[BUDGET] += seconds[STORAGE];
    seconds[STORAGE] = 0;
}

/* A batch that is late because one of its reads was tried again, or shared the network with those
 * of the next, is no straggler by its work. */
static void blame_network(const stk__case *v, double seconds[CAUSES])
{
    if (!stk__network_fails(v) && !stk__network_shares(v))
        return;
    seconds[STORAGE] += seconds[ORDERING];
    seconds[ORDERING] = 0;
}

bool stk__judge_waits(const stk__case *v, stk_verdict *out)
{
    static const char *const names[CAUSES] = {"storage", "preparation", "the memory budget",
                                              "stragglers", "the turn of the epoch"};
    double seconds[CAUSES + 1] = {0}, all = 0;
    int first = 0, second = -1;

    for (int i = 0; i < STK_WAIT_PARTS; i++)
        seconds[cause_of[i]] += v->f->waits[i];
    blame_budget(v, seconds);
    blame_network(v, seconds);
    for (int i = 0; i < CAUSES; i++) {
        all += seconds[i];
        if (seconds[i] > seconds[first])
            first = i;
    }
    /* Time that the loader knows nothing of is not its: the thread of the step did not run. */
    if (!(all > 0) || all + seconds[CAUSES] < STK_JUDGE_KNOWN * v->wait * (double)v->f->steps)
        return false;
    for (int i = 0; i < CAUSES; i++)
        if (i != first && seconds[i] >= STK_JUDGE_SECOND * all &&
            (second < 0 || seconds[i] > seconds[second]))
            second = i;
    rules[first].judge(v, out);
    /* Where no core is left, the thread of the step too waits for one when its batch is ready. */
    const bool cores = out->limit == STK_LIMIT_CORES || out->limit == STK_LIMIT_DECODE;
    out->limit_share =
        v->lost * (seconds[first] + (cores ? seconds[CAUSES] : 0)) / (all + seconds[CAUSES]);
    if (second >= 0) {
        out->second = rules[second].limit;
        stk__verdict_say(out, " Next to it, %.0f %% of the waits are for %s.",
                         100 * seconds[second] / all, names[second]);
    }
    return true;
}
