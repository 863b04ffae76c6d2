/* SPDX-License-Identifier: Apache-2.0 */
/* What would be: the stages of a recording in another setting, simulated some times over. */
#include "measure/simulate.h"

#include <math.h>

#include "base/sized.h"

#define RUNS      5 /* of the model: in the order of the records, then of blocks of them */
#define RUNS_MOST STK__RANKS_RUNS
/* As far apart as 95 % of single runs are from their mean, by Student's t: of the degrees of RUNS,
 * and of those of RUNS_MOST. */
#define SPREAD      2.776
#define SPREAD_MOST 2.201

/* Of the rate, that what the model leaves out may be: wake-ups, locks. */
#define LEFT_OUT 0.02
#define SETTLE   8    /* tries of how much of the work waited for a core */
#define SETTLED  0.99 /* of the recorded rate */
#define UNSURE   4.0  /* times as fast as the other end of what is known: it is not known */

enum { CACHE_AUTO, CACHE_NONE, CACHE_ENCODED, CACHE_DECODED };

/* ---- Changes --------------------------------------------------------------------------------- */

static uint32_t chosen(int64_t wanted, uint32_t recorded)
{
    return wanted == STK_AUTO ? recorded : (uint32_t)wanted;
}

/* Times by a factor, so that their mean is `mean`; all alike where they were nothing. */
static void scale(float *values, uint64_t n, double mean)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    for (uint64_t i = 0; i < n; i++)
        values[i] = sum > 0 ? (float)(values[i] * (mean * (double)n / sum)) : (float)mean;
}

static stk_status change_storage(const stk_what_if *what, stk__stages *stages, stk_error *err)
{
    const bool asked = !isnan(what->latency) || !isnan(what->bandwidth);

    if (asked && !(stages->reads > 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "latency and bandwidth change nothing: the recorded run has no reads that "
                         "take time. Record one that reads from such a storage (slow+file:// with "
                         "latency and bandwidth)");
    stages->latency_asked = !isnan(what->latency);
    if (!isnan(what->latency))
        scale(stages->latency, stages->num_reads, what->latency);
    if (!isnan(what->bandwidth))
        stages->bandwidth = what->bandwidth;
    return STK_OK;
}

/* Bytes that a cache would keep of a sample. What is decoded for several samples counts in parts;
 * of ranges that are not decoded both kinds of cache keep the bytes. */
static double kept_bytes(const stk__stages *stages, int32_t cache)
{
    return cache == CACHE_DECODED && stages->decoded_bytes > 0 ? stages->decoded_bytes
                                                               : stages->reads * stages->read_bytes;
}

/* Half of the budget beyond two batches, as far as it goes for what an epoch reads. */
static stk_status change_cache(const stk_what_if *what, const stk_recording *recording,
                               const stk__stages *stages, stk__setting *set, stk_error *err)
{
    const bool decoded = what->cache == CACHE_DECODED;
    const double sample = kept_bytes(stages, what->cache);

    if (what->cache != CACHE_ENCODED && !decoded)
        return STK_OK;
    if (recording->epoch_steps == 0 || !(set->budget > 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "cache=%s cannot be predicted: the recorded run has not ended an "
                         "epoch, so how much there is to keep is not known. Record more steps, or "
                         "fewer samples",
                         decoded ? "decoded" : "encoded");
    if (decoded && !(sample > 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "cache=decoded cannot be predicted: the recorded run reads nothing that "
                         "takes time and decodes nothing that samples share, and what of its work "
                         "a cache would save was not recorded. Run it with the cache");
    const double epoch = (double)recording->epoch_steps * set->batch * set->ranks * sample,
                 room = STK_MAX(set->budget / 2 - 2 * set->batch * stages->sample_bytes, 0.0);
    set->hit_share = epoch > 0 ? STK_MIN(room / epoch, 1.0) : 0;
    set->cache_bytes = STK_MIN(room, epoch);
    set->caches = true;
    set->hit_saves = decoded && stages->decoded_bytes > 0 ? stages->beside : 0;
    return STK_OK;
}

stk_status stk__asked_check(const stk_option_table *table, const void *asked, void *tried,
                            stk_error *err)
{
    char text[512];

    for (size_t i = 0; i < table->count; i++) {
        stk_options_format(&table->options[i], asked, text, sizeof text);
        STK_TRY(stk_options_set(table, tried, table->options[i].name, text, err));
    }
    return STK_OK;
}

/* What holds no two batches no loader takes [loader/budget.c]. */
static stk_status check_budget(const stk_what_if *what, const stk__stages *stages,
                               const stk__setting *set, stk_error *err)
{
    const double batch = set->batch * stages->sample_bytes;

    if (set->whole_batches || !(what->memory_budget || what->batch_size) || !(set->budget > 0) ||
        set->budget >= 2 * batch)
        return STK_OK;
    return stk__fail(
        err, STK_EINVAL, STK_STAGE_MEASURE,
        "a memory_budget of %.0f bytes cannot be predicted: two batches of %.0f bytes "
        "do not fit, which a loader refuses. Raise memory_budget to more than %.0f, or "
        "lower batch_size",
        set->budget, batch, 2 * batch);
}

stk_status stk__setting_change(const stk_what_if *what, const stk_recording *recording,
                               stk__stages *stages, stk__setting *set, stk_error *err)
{
    const stk__setting before = *set;
    stk_what_if tried;

    stk_what_if_init(&tried);
    STK_TRY(stk__asked_check(&stk__what_if_option_table, what, &tried, err));
    set->workers = chosen(what->num_workers, set->workers);
    set->depth = chosen(what->io_depth, set->depth);
    set->connections = chosen(what->connections, set->connections);
    set->prefetch = chosen(what->prefetch_factor, set->prefetch);
    set->ranks = chosen(what->ranks, set->ranks);
    set->meets = set->ranks != before.ranks; /* as recorded they did what they did */
    if (what->batch_size) {
        /* An epoch has as many samples as before. */
        set->epoch_steps =
            (set->epoch_steps * set->batch + what->batch_size - 1) / what->batch_size;
        set->batch = (uint32_t)what->batch_size;
    }
    if (what->memory_budget)
        set->budget = (double)what->memory_budget;
    STK_TRY(check_budget(what, stages, set, err));
    if (!isnan(what->cores)) {
        set->cores = what->cores;
        set->quota = what->cores != floor(what->cores);
    }
    if (!isnan(what->train_step_time)) {
        scale(stages->steps, stages->num_steps, what->train_step_time);
        if (what->train_step_time > 0 && !(stages->mean_step > 0))
            set->compute = 0;
    }
    STK_TRY(change_storage(what, stages, err));
    STK_TRY(change_cache(what, recording, stages, set, err));
    return stk__setting_share(stages, &before, set, err);
}

/* ---- Predicting ------------------------------------------------------------------------------ */

/* What came of the runs of the model. */
typedef struct outcome {
    double rate, spread; /* samples/s of a rank, and how far apart the runs are */
    double cpu_cores, bytes, step_time, step_stretch;
    stk_spread wait;
} outcome;

static stk_status run_all(const stk__stages *stages, const stk__setting *set, double *waits,
                          outcome *out, stk_error *err)
{
    const int runs = set->meets ? RUNS_MOST : RUNS;
    double rates[RUNS_MOST], squares = 0;
    uint64_t n = 0;

    *out = (outcome){0};
    for (int i = 0; i < runs; i++) {
        stk__simulated one = {.waits = waits + n};
        STK_TRY(stk__simulate(stages, set, (uint64_t)i, &one, err));
        n += one.num_waits;
        rates[i] = one.samples_per_s / set->ranks;
        out->rate += rates[i] / runs;
        out->cpu_cores += one.cpu_cores / runs;
        out->step_time += one.step_time / runs;
        out->step_stretch += one.step_stretch / runs;
        out->bytes = STK_MAX(out->bytes, (one.slab_bytes + one.pool_bytes) / set->ranks);
    }
    for (int i = 0; i < runs; i++)
        squares += (rates[i] - out->rate) * (rates[i] - out->rate);
    out->spread = (set->meets ? SPREAD_MOST : SPREAD) * sqrt(squares / (runs - 1));
    if (set->meets && out->rate > 0) {
        const double by = stk__ranks_in_turn(stages, set, out->rate) / out->rate;
        out->rate *= by;
        out->spread *= by;
    }
    stk_spread_of(waits, n, &out->wait);
    return STK_OK;
}

static double spread_of(const outcome *o)
{
    return o->spread + LEFT_OUT * o->rate;
}

/* The interval: how runs differ, of the slowest and the fastest that it may be, and as far to the
 * side on which the model was off. */
static void put_rate(const outcome *base, const outcome *now, double measured, stk_prediction *out)
{
    const double off = base->rate > 0 && measured > 0 ? measured / base->rate : 1;

    out->samples_per_s = now->rate;
    out->base_samples_per_s = base->rate;
    out->low = STK_MAX(now[1].rate - spread_of(&now[1]), 0.0) * STK_MIN(off, 1.0);
    out->high = (now[2].rate + spread_of(&now[2])) * STK_MAX(off, 1.0);
}

stk_status stk__stages_settle(stk__stages *stages, const stk__setting *set, double measured,
                              double *waits, stk_error *err)
{
    double now = 1, least = stages->least_work, most = 1;

    for (int i = 0; i < SETTLE && least < 1 && measured > 0; i++) {
        stk__simulated one = {.waits = waits};
        STK_TRY(stk__simulate(stages, set, 0, &one, err));
        if (one.samples_per_s / set->ranks >= SETTLED * measured)
            least = now;
        else
            most = now;
        if (least >= most)
            break;
        const double next = (least + most) / 2;
        stk__stages_shorten(stages, next / now);
        now = next;
    }
    return STK_OK;
}

struct stk__predictor {
    stk_context *ctx;
    stk_recording recording;
    stk_figures figures;
    stk__stages stages;
    bool apart;       /* ranks do not meet */
    bool settled;     /* the stages are those of the recording, but for what work and reads take: */
    stk__stages kept; /* as they were, with the work */
    float *prepare;   /* of each sample in here */
    outcome base;
    double *waits; /* of all runs of the model */
};

/* The stages as they were recorded: they are not any more where another storage or step was asked
 * for. */
static stk_status settle(stk__predictor *p, stk_error *err)
{
    stk__setting set;

    if (p->settled) {
        p->stages = p->kept;
        memcpy(p->stages.prepare, p->prepare, p->stages.num_prepare * sizeof *p->prepare);
        return STK_OK;
    }
    stk__stages_release(&p->stages);
    STK_TRY(stk__stages_of(p->ctx, &p->recording, &p->stages, err));
    stk__setting_of(&p->recording, &p->stages, &set);
    STK_TRY(stk__stages_settle(&p->stages, &set, p->figures.samples_per_s, p->waits, err));
    if (!p->prepare)
        p->prepare = stk__calloc(p->ctx, p->stages.num_prepare, sizeof *p->prepare);
    if (!p->prepare)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to simulate");
    memcpy(p->prepare, p->stages.prepare, p->stages.num_prepare * sizeof *p->prepare);
    p->kept = p->stages;
    p->settled = true;
    return STK_OK;
}

static stk_status prepare(stk__predictor *p, const stk_recording *recording, stk_error *err)
{
    stk__setting set;

    p->recording.struct_size = sizeof p->recording;
    STK_TRY(stk__sized_read(&p->recording, sizeof p->recording, recording, "stk_recording",
                            STK_STAGE_MEASURE, err));
    stk__sized_copy(&p->figures, sizeof p->figures, p->recording.figures);
    p->waits = stk__calloc(p->ctx, RUNS_MOST * STK__SIMULATED_STEPS, sizeof *p->waits);
    if (!p->waits)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to simulate");
    STK_TRY(settle(p, err));
    stk__setting_of(&p->recording, &p->stages, &set);
    return run_all(&p->stages, &set, p->waits, &p->base, err);
}

stk_status stk__predictor_create(stk_context *ctx, const stk_recording *recording, bool apart,
                                 stk__predictor **out, stk_error *err)
{
    stk__predictor *p = stk__calloc(ctx, 1, sizeof *p);

    *out = NULL;
    if (!p)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to simulate");
    p->ctx = p->stages.ctx = ctx;
    p->apart = apart;
    const stk_status status = prepare(p, recording, err);
    if (status != STK_OK)
        stk__predictor_destroy(&p);
    *out = p;
    return status;
}

void stk__predictor_destroy(stk__predictor **predictor)
{
    stk__predictor *p = *predictor;

    *predictor = NULL;
    if (!p)
        return;
    stk__stages_release(&p->stages);
    stk__free(p->ctx, p->prepare);
    stk__free(p->ctx, p->waits);
    stk__free(p->ctx, p);
}

/* Work that is known within bounds: what is slowest and what is fastest. */
static stk_status run_bounds(stk__predictor *p, const stk__setting *set, outcome *now,
                             stk_error *err)
{
    stk__stages *stages = &p->stages;

    stk__stages_bound(stages, 1);
    STK_TRY(run_all(stages, set, p->waits, &now[1], err));
    stk__stages_bound(stages, -2);
    STK_TRY(run_all(stages, set, p->waits, &now[2], err));
    if (now[2].rate <= UNSURE * now[1].rate)
        return STK_OK;
    return stk__blocks_refuse(set, stk__setting_whole(stages, set),
                              "what is left of its work cannot be told closely enough", err);
}

/* now[0]; [1] and [2] are the slowest and the fastest that it may be. */
static stk_status simulate_change(stk__predictor *p, const stk_what_if *what, outcome *now,
                                  stk_error *err)
{
    stk__setting set;

    STK_TRY(settle(p, err));
    stk__setting_of(&p->recording, &p->stages, &set);
    p->settled = isnan(what->latency) && isnan(what->bandwidth) && isnan(what->train_step_time);
    STK_TRY(stk__setting_change(what, &p->recording, &p->stages, &set, err));
    p->settled = p->settled && p->stages.unsure == 0;
    set.meets = set.meets && !p->apart;
    STK_TRY(run_all(&p->stages, &set, p->waits, now, err));
    now[1] = now[2] = now[0];
    return p->stages.unsure > 0 ? run_bounds(p, &set, now, err) : STK_OK;
}

/* Memory beside the batches. Workers that are processes have it, each its own: an interpreter, the
 * dataset, what it computes with; without any the process of the step does what one of them would.
 */
static double bytes_beside(const stk__predictor *p, const stk_what_if *what)
{
    const double bytes = STK_MAX((double)p->figures.peak_bytes - p->base.bytes, 0.0);
    stk__setting set;

    stk__setting_of(&p->recording, &p->stages, &set);
    if (!what || !set.whole_batches || set.workers == 0)
        return bytes;
    return bytes * STK_MAX(chosen(what->num_workers, set.workers), 1u) / set.workers;
}

stk_status stk__predictor_ask(stk__predictor *p, const stk_what_if *what, stk_prediction *out,
                              stk_error *err)
{
    const double bytes = bytes_beside(p, what);
    outcome now[3] = {p->base, p->base, p->base};

    if (what)
        STK_TRY(simulate_change(p, what, now, err));
    put_rate(&p->base, now, p->figures.samples_per_s, out);
    out->wait = now->wait;
    out->cpu_cores = now->cpu_cores;
    out->peak_bytes = bytes + now->bytes;
    out->step_time = now->step_time;
    out->step_stretch = now->step_stretch;
    out->recorded = p->recording.num_prepare > 0;
    return STK_OK;
}

stk_status stk_predict(stk_context *context, const stk_recording *recording,
                       const stk_what_if *what_if, stk_prediction *out, stk_error *err)
{
    stk_prediction result = {.struct_size = sizeof result};
    stk__predictor *predictor;
    stk_what_if what;

    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__sized_check(out, "stk_prediction", STK_STAGE_MEASURE, err));
    stk_what_if_init(&what);
    if (what_if)
        STK_TRY(
            stk__sized_read(&what, sizeof what, what_if, "stk_what_if", STK_STAGE_MEASURE, err));
    STK_TRY(stk__predictor_create(context, recording, false, &predictor, err));
    const stk_status status = stk__predictor_ask(predictor, what_if ? &what : NULL, &result, err);
    stk__predictor_destroy(&predictor);
    if (status == STK_OK)
        stk__sized_write(out, &result);
    return status;
}
