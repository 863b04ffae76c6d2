/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recording says of each stage. Figures tell what the records alone do not: what a worker
 * does beside the samples, what of it computes, what others took of the cores, how many reads a
 * sample needs, what of a read its bytes took.
 */
#include "measure/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "base/sized.h"

#define NEAR_SECONDS                                                                               \
    100e-6 /* reads that take less are part of the work: nothing waits for them                    \
            */
#define MOST_SECONDS 1e6
#define MOST_FAILING 0.95
#define MOST_READS   1e6    /* of a sample */
#define LINK_SEEN    0.3    /* of a mean read, from which on figures alone tell of one */
#define BESIDE_MOST  200e-6 /* s of a worker for a sample, beyond preparing it twice */
#define LATE_SEEN    0.02   /* of the work, that threads had no core, which is worth a correction */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double within(double value, double least, double most)
{
    return value > least ? STK_MIN(value, most) : least; /* NaN is the least */
}

/* ---- Reads ----------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const stk_recorded_read *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

/* What the figures alone tell of reads. */
static void take_mean_read(const stk_figures *f, stk__stages *out)
{
    const double bytes = ratio((double)f->bytes_read, (double)f->requests),
                 under_way = ratio(f->read_seconds, f->wall),
                 carried = within(f->read_transfer_share, 0, 1) * f->read_latency;

    out->bytes[0] = (float)within(bytes, 0, 1e15);
    out->latency[0] = (float)within(f->read_latency, 0, MOST_SECONDS);
    if (f->read_transfer_share < LINK_SEEN || !(bytes > 0))
        return;
    out->latency[0] = (float)within(f->read_latency - carried, 0, MOST_SECONDS);
    out->bandwidth = STK_MAX(under_way, 1.0) * bytes / carried;
}

/* What is left of each read once its bytes are on a link of their own. */
static stk_status take_recorded_reads(const stk_recording *recording, double by, stk__stages *out)
{
    const uint64_t n = recording->num_reads;
    stk_recorded_read *reads = stk__calloc(out->ctx, n, sizeof *reads);

    if (!reads)
        return STK_ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        reads[i] = (stk_recorded_read){
            .start = within(recording->reads[i].start, -1e10, 1e10),
            .seconds = (float)within(recording->reads[i].seconds * by, 0, MOST_SECONDS),
            .bytes = (float)within(recording->reads[i].bytes, 0, 1e15)};
    qsort(reads, n, sizeof *reads, by_start);
    out->bandwidth = stk__link_of(reads, n);
    stk__link_rests(reads, n, out->bandwidth, out->latency);
    for (uint64_t i = 0; i < n; i++)
        out->bytes[i] = reads[i].bytes;
    stk__free(out->ctx, reads);
    return STK_OK;
}

static double mean_of(const float *values, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    return ratio(sum, (double)n);
}

/* Reads of a sample; those that take next to no time are part of its work. */
static stk_status take_reads(const stk_recording *recording, const stk_figures *f, stk__stages *out)
{
    const uint64_t n = recording->num_reads;
    const double requests = (double)f->requests, failed = (double)f->read_failures;

    out->bandwidth = INFINITY;
    if (f->requests == 0 || recording->whole_batches || f->read_latency < NEAR_SECONDS)
        return STK_OK;
    out->reads =
        within(ratio(requests - STK_MIN(failed, requests), (double)f->samples), 0, MOST_READS);
    out->fail_share = within(ratio(failed, requests), 0, MOST_FAILING);
    out->num_reads = STK_MAX(n, 1);
    out->latency = stk__calloc(out->ctx, out->num_reads, sizeof *out->latency);
    out->bytes = stk__calloc(out->ctx, out->num_reads, sizeof *out->bytes);
    if (!out->latency || !out->bytes)
        return STK_ENOMEM;
    /* Those over the network include the turn for a connection. */
    const double turn = ratio((double)f->network.turn_ns * 1e-9, f->read_seconds);
    if (n == 0)
        take_mean_read(f, out);
    else
        STK_TRY(
            take_recorded_reads(recording, f->network.reads ? within(1 - turn, 0.01, 1) : 1, out));
    out->read_bytes = mean_of(out->bytes, out->num_reads);
    return STK_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Seconds of a worker for a sample beside preparing it: planning, decoding what samples share. */
static double beside_of(const stk_figures *f, double mean, double reads)
{
    const double samples = (double)f->samples, own = mean * samples;
    const double *w = f->waits;
    double rest;

    if (f->num_workers > 0) {
        /* What workers were busy with is more than the samples where these share what is decoded.
         */
        rest = f->bytes_decoded ? f->prepare_busy - own : 0;
        if (f->prepare_wait_in + f->prepare_wait_out > 0)
            rest =
                (double)f->num_workers * f->wall - own - f->prepare_wait_in - f->prepare_wait_out;
    } else {
        const double storage = w[STK_WAIT_READ_SLOT] + w[STK_WAIT_STORAGE_LATENCY] +
                               w[STK_WAIT_STORAGE_TRANSFER] + w[STK_WAIT_RETRY];
        rest = f->wait.mean * (double)f->steps - own - (reads > 0 ? storage : 0);
    }
    /* Decoding what samples share may be all of the work. */
    return within(ratio(rest, samples), 0,
                  f->bytes_decoded ? MOST_SECONDS : 2 * mean + BESIDE_MOST);
}

void stk__stages_shorten(stk__stages *stages, double by)
{
    for (uint64_t i = 0; i < stages->num_prepare; i++)
        stages->prepare[i] *= (float)by;
    stages->mean_prepare *= by;
    stages->beside *= by;
    stages->sharing.seconds *= by;
    if (!(stages->cpu > 0) || !(stages->mean_prepare > 0)) {
        stages->cpu_share = 1;
        return;
    }
    stages->cpu_share = within(stages->cpu / stages->mean_prepare, 0, 1);
    stages->cpu_beside = within(stages->cpu - stages->mean_prepare, 0, MOST_SECONDS);
}

/* What of the work computes, and how much less it may be without the time that it had no core. */
static void divide_work(const stk_figures *f, stk__stages *out)
{
    const double samples = (double)f->samples, work = out->mean_prepare * samples;
    double least = work;

    out->cpu = within(ratio(f->cpu_s, samples), 0, MOST_SECONDS);
    if (out->cpu > 0 && f->runnable_s > LATE_SEEN * work)
        least = STK_MAX(STK_MIN(f->cpu_s, work), work - f->runnable_s);
    out->least_work = work > 0 ? within(least / work, 0.01, 1) : 1;
    stk__stages_shorten(out, 1);
}

static stk_status take_work(const stk_recording *recording, const stk_figures *f, stk__stages *out)
{
    const uint64_t n = recording->num_prepare;

    out->num_prepare = STK_MAX(n, 1);
    out->prepare = stk__calloc(out->ctx, out->num_prepare, sizeof *out->prepare);
    if (!out->prepare)
        return STK_ENOMEM;
    out->prepare[0] = (float)within(ratio(f->prepare_busy, (double)f->samples), 0, MOST_SECONDS);
    for (uint64_t i = 0; i < n; i++)
        out->prepare[i] = (float)within(recording->prepare[i], 0, MOST_SECONDS);
    const double more = recording->whole_batches
                            ? 0
                            : beside_of(f, mean_of(out->prepare, out->num_prepare), out->reads);
    for (uint64_t i = 0; i < out->num_prepare; i++)
        out->prepare[i] += (float)more;
    out->beside = more;
    out->mean_prepare = mean_of(out->prepare, out->num_prepare);
    divide_work(f, out);
    return STK_OK;
}

/* A step that computes takes longer the less it has of its cores: as it is alone. */
static stk_status take_steps(const stk_recording *recording, const stk_figures *f, stk__stages *out)
{
    const uint64_t n = recording->num_steps;
    const double by = f->spin ? STK_MAX(f->step_stretch, 1.0) : 1;

    out->num_steps = STK_MAX(n, 1);
    out->steps = stk__calloc(out->ctx, out->num_steps, sizeof *out->steps);
    if (!out->steps)
        return STK_ENOMEM;
    out->steps[0] = (float)within(f->step_time / by, 0, MOST_SECONDS);
    for (uint64_t i = 0; i < n; i++)
        out->steps[i] = (float)within(recording->steps[i] / by, 0, MOST_SECONDS);
    out->mean_step = mean_of(out->steps, out->num_steps);
    return STK_OK;
}

stk_status stk__stages_of(stk_context *ctx, const stk_recording *recording, stk__stages *out,
                          stk_error *err)
{
    stk_figures f = {0};

    *out = (stk__stages){.ctx = ctx};
    stk__sized_copy(&f, sizeof f, recording->figures);
    if (f.samples == 0 || f.steps == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "there are no figures of samples and steps to predict from: record a run "
                         "by 'stoker bench --log FILE' or 'stoker train --log FILE'");
    stk_status status = take_reads(recording, &f, out);
    if (status == STK_OK)
        status = take_work(recording, &f, out);
    if (status == STK_OK)
        status = take_steps(recording, &f, out);
    stk__sharing_of(&f, &out->sharing);
    out->pictures = f.pictures > 0;
    out->decoded_bytes = within(ratio((double)f.bytes_decoded, (double)f.samples), 0, 1e15);
    out->sample_bytes = within(ratio((double)f.bytes_taken, (double)f.samples), 0, 1e15);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_MEASURE, "no memory for the recorded times");
    double of_kinds[STK_CLAIM_KINDS];
    stk__setting set;
    stk__setting_of(recording, out, &set);
    return stk__setting_found(out, &set, &out->sharing.found, of_kinds, &out->sharing.stay, err);
}

void stk__stages_release(stk__stages *stages)
{
    stk__free(stages->ctx, stages->prepare);
    stk__free(stages->ctx, stages->latency);
    stk__free(stages->ctx, stages->bytes);
    stk__free(stages->ctx, stages->steps);
}

/* ---- The setting ----------------------------------------------------------------------------- */

void stk__setting_of(const stk_recording *recording, const stk__stages *stages, stk__setting *out)
{
    stk_figures f = {0};

    stk__sized_copy(&f, sizeof f, recording->figures);
    *out = (stk__setting){
        .workers = (uint32_t)within((double)f.num_workers, 0, STK__WHAT_WORKERS),
        .depth = (uint32_t)within((double)f.io_depth, 1, STK__WHAT_DEPTH),
        .prefetch = (uint32_t)within((double)f.prefetch, 1, STK__WHAT_PREFETCH),
        .batch = (uint32_t)within((double)f.batch_size, 1, STK__WHAT_BATCH),
        .ranks = (uint32_t)within(f.ranks, 1, STK__SIMULATED_RANKS),
        .cores = f.usable_cores ? STK_MAX(f.usable_cores - f.other_cores, 1.0) : INFINITY,
        .compute = f.spin && !f.no_step ? STK_MAX(f.compute_cores, 1) : 0,
        .budget = (double)f.budget_bytes,
        .epoch_steps = recording->turns ? recording->epoch_steps : 0,
        .whole_batches = recording->whole_batches,
        .helps = !recording->whole_batches && stages->mean_prepare < STK__HELP_SECONDS};
    if (f.num_workers == 0 && f.prefetch == 0)
        out->prefetch = STK__WHAT_AHEAD;
    out->connections = (uint32_t)within((double)f.network.connections, 0, STK__WHAT_DEPTH);
    out->caches = f.claims.caches;
    out->shared_bytes = stages->sharing.stay;
}
