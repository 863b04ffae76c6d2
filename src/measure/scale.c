/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One machine is simulated, its ranks meeting after each step; what its slowest rank takes for a
 * step is what any other machine takes, and of those the slowest is drawn. Batches are made
 * meanwhile, so that a machine that waits for others waits less for its data: twice over.
 */
#include "measure/scale.h"

#include <math.h>

#include "base/sized.h"
#include "measure/simulate.h"

#define RUNS     STK__RANKS_RUNS
#define AGAIN    2      /* times that the other machines are drawn from the last outcome */
#define SEGMENTS 4000   /* between checkpoints that are simulated */
#define FAILURES 200000 /* at most, then */
#define SPACE    (RUNS * STK__SIMULATED_STEPS)

typedef struct scratch {
    double waits[STK__SIMULATED_STEPS]; /* of one run */
    double owns[SPACE], others[SPACE];
} scratch;

/* What the runs of the model came to, means. */
typedef struct outcome {
    double rate; /* samples/s of a rank */
    double step, wait;
    uint64_t num_owns;
} outcome;

static stk_status run_all(const stk__stages *stages, const stk__setting *set, scratch *space,
                          outcome *out, stk_error *err)
{
    *out = (outcome){0};
    for (uint64_t i = 0; i < RUNS; i++) {
        stk__simulated one = {.waits = space->waits, .owns = space->owns + out->num_owns};
        double wait = 0;
        STK_TRY(stk__simulate(stages, set, i, &one, err));
        for (uint64_t k = 0; k < one.num_waits; k++)
            wait += one.waits[k] / (double)one.num_waits;
        out->num_owns += one.num_owns;
        out->rate += one.samples_per_s / set->ranks / RUNS;
        out->step += one.step_time / RUNS;
        out->wait += wait / RUNS;
    }
    return STK_OK;
}

/* The machine beside as many others. */
static stk_status run_machines(const stk__stages *stages, stk__setting *set, scratch *space,
                               outcome *out, stk_error *err)
{
    STK_TRY(run_all(stages, set, space, out, err));
    for (int i = 0; i < AGAIN && set->machines > 1; i++) {
        memcpy(space->others, space->owns, out->num_owns * sizeof *space->others);
        stk__doubles_sort(space->others, out->num_owns);
        set->others = space->others;
        set->num_others = out->num_owns;
        STK_TRY(run_all(stages, set, space, out, err));
    }
    return STK_OK;
}

/* Ranks of a machine. */
static double here_of(const stk_scale *scale)
{
    return (double)STK_MIN(scale->ranks, scale->per_machine);
}

/* What cores that compute take from each other, memory, caches, the other half of a core, where
 * more of a machine's do than in the recorded run. */
static void contend(stk__stages *stages, const stk__setting *set, const stk_scale *scale)
{
    const double here = here_of(scale);

    if (!(set->compute > 0) || !isfinite(set->cores) || set->cores <= 1)
        return;
    const double by = 1 + (scale->contention - 1) * STK_MIN((here - 1) / (set->cores - 1), 1.0);
    for (uint64_t i = 0; i < stages->num_steps; i++)
        stages->steps[i] = (float)(stages->steps[i] * by);
    stages->mean_step *= by;
}

/* Any of the ranks may have a slow step. */
static double slowness(const stk_scale *scale, double step)
{
    const double none = pow(1 - scale->slow_share, (double)scale->ranks);

    return (1 - none) * (scale->slow_factor - 1) * step;
}

static void count_failures(const stk_scale *scale, stk_scaled *out)
{
    const double c = scale->checkpoint, r = scale->restart;

    out->useful_per_s = out->samples_per_s;
    out->mtbf = scale->mtbf / (double)scale->ranks;
    if (isnan(out->mtbf)) {
        out->mtbf = INFINITY;
        return;
    }
    out->interval_first = stk__scale_interval_first(out->mtbf, c);
    out->interval = stk__scale_interval(out->mtbf, c);
    out->lost_share = stk__scale_lost(out->mtbf, c, r, out->interval);
    out->lost_simulated =
        out->interval > 0
            ? stk__scale_simulate_lost(out->mtbf, c, r, out->interval, SEGMENTS, FAILURES, 1)
            : (double)NAN;
    out->useful_per_s *= 1 - out->lost_share;
}

/* One rank alone, then all of them. */
static stk_status predict(stk__stages *stages, stk__setting *set, const stk_scale *scale,
                          scratch *space, stk_scaled *out, stk_error *err)
{
    const double bandwidth = stages->bandwidth;
    outcome one, all;

    /* What all machines share the rank alone has to itself. fmin(): NaN is no limit. */
    stages->bandwidth = fmin(bandwidth, scale->storage);
    set->ranks = 1;
    STK_TRY(run_all(stages, set, space, &one, err));
    contend(stages, set, scale);
    set->ranks = (uint32_t)here_of(scale);
    out->ranks = scale->ranks;
    out->machines = (scale->ranks + scale->per_machine - 1) / scale->per_machine;
    stages->bandwidth = fmin(bandwidth, scale->storage / (double)out->machines);
    out->comm = stk__scale_all_reduce(scale->collective, (double)scale->ranks,
                                      (double)scale->gradients, scale->alpha, scale->beta) *
                STK_MAX(stk__ranks_crowding(set), here_of(scale) / set->cores);
    out->comm_wait = STK_MAX(out->comm - scale->overlap * stages->mean_step, 0.0);
    const double slow = slowness(scale, stages->mean_step);
    set->machines = out->machines;
    set->meets = true;
    set->meeting = out->comm_wait + slow;
    STK_TRY(run_machines(stages, set, space, &all, err));
    all.rate = stk__ranks_in_turn(stages, set, all.rate);
    out->one_per_s = one.rate;
    out->samples_per_s = all.rate * (double)scale->ranks;
    out->efficiency = one.rate > 0 ? all.rate / one.rate : 0;
    out->step = all.step;
    out->wait = all.wait;
    const double cycle = all.rate > 0 ? set->batch / all.rate : 0;
    out->behind = STK_MAX(cycle - all.step - all.wait - out->comm_wait, 0.0);
    count_failures(scale, out);
    return STK_OK;
}

static stk_status check_storage(const stk_scale *scale, const stk__stages *stages, stk_error *err)
{
    if (isnan(scale->storage) || stages->reads > 0)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                     "scale.storage changes nothing: the recorded run has no reads that take time. "
                     "Record one that reads from such a storage");
}

/* What says nothing without another is a mistake. */
static stk_status check_halves(const stk_scale *s, stk_error *err)
{
    const bool beta = !isnan(s->beta), fails = !isnan(s->mtbf);
    const struct {
        bool given, whole;
        const char *name, *lacks;
    } halves[] = {
        {s->gradients > 0, beta, "gradients", "beta, the bytes a second that a rank sends"},
        {beta, s->gradients > 0, "beta", "gradients, the bytes that are sent"},
        {s->overlap > 0, s->alpha > 0 || beta, "overlap", "alpha or beta: there is no all-reduce"},
        {s->slow_share > 0, s->slow_factor > 1, "slow_share", "slow_factor"},
        {s->slow_factor > 1, s->slow_share > 0, "slow_factor", "slow_share"},
        {fails, s->checkpoint > 0 || s->restart > 0, "mtbf", "checkpoint or restart"},
        {s->checkpoint > 0, fails, "checkpoint", "mtbf: what never fails needs none"},
        {s->restart > 0, fails, "restart", "mtbf: what never fails is not restarted"},
    };

    for (size_t i = 0; i < STK_COUNT(halves); i++)
        if (halves[i].given && !halves[i].whole)
            return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                             "scale.%s changes nothing without %s", halves[i].name,
                             halves[i].lacks);
    return STK_OK;
}

static stk_status work_out(stk__stages *stages, const stk_recording *recording,
                           const stk_what_if *what, const stk_scale *scale, scratch *space,
                           stk_scaled *out, stk_error *err)
{
    stk_figures f = {0};
    stk__setting set;

    stk__sized_copy(&f, sizeof f, recording->figures);
    stk__setting_of(recording, stages, &set);
    STK_TRY(stk__stages_settle(stages, &set, f.samples_per_s, space->waits, err));
    STK_TRY(stk__setting_change(what, recording, stages, &set, err));
    if (stages->unsure > 0)
        return stk__blocks_refuse(&set, stk__setting_whole(stages, &set),
                                  "many ranks ask for more than bounds of its work", err);
    STK_TRY(check_storage(scale, stages, err));
    STK_TRY(check_halves(scale, err));
    return predict(stages, &set, scale, space, out, err);
}

stk_status stk_predict_scale(stk_context *context, const stk_recording *recording,
                             const stk_what_if *what_if, const stk_scale *scale, stk_scaled *out,
                             stk_error *err)
{
    stk_scaled result = {.struct_size = sizeof result};
    stk_recording known = {.struct_size = sizeof known};
    stk_what_if what;
    stk_scale wanted, tried;
    stk__stages stages;

    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__sized_check(out, "stk_scaled", STK_STAGE_MEASURE, err));
    STK_TRY(
        stk__sized_read(&known, sizeof known, recording, "stk_recording", STK_STAGE_MEASURE, err));
    stk_what_if_init(&what);
    stk_scale_init(&wanted);
    if (what_if)
        STK_TRY(
            stk__sized_read(&what, sizeof what, what_if, "stk_what_if", STK_STAGE_MEASURE, err));
    STK_TRY(stk__sized_read(&wanted, sizeof wanted, scale, "stk_scale", STK_STAGE_MEASURE, err));
    stk_scale_init(&tried);
    STK_TRY(stk__asked_check(&stk__scale_option_table, &wanted, &tried, err));
    what.ranks = STK_AUTO;
    scratch *space = stk__calloc(context, 1, sizeof *space);
    stk_status status =
        space ? stk__stages_of(context, &known, &stages, err)
              : stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory to simulate");
    if (status == STK_OK)
        status = work_out(&stages, &known, &what, &wanted, space, &result, err);
    if (space)
        stk__stages_release(&stages);
    stk__free(context, space);
    if (status == STK_OK)
        stk__sized_write(out, &result);
    return status;
}
