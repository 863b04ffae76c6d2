/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of several ranks, side by side.
 *
 *   match   the steps that all have, by epoch and batch
 *   clocks  ranks leave a collective together, so ends differ by what their clocks do
 *   own     until a rank is ready for the others: its wait, and its step without collectives
 *   skew    from the first that is ready to the last; who is last, and what that costs
 */
#include "measure/ranks.h"

#include <math.h>

#include "measure/measure.h"

#define DRIFT_STEPS 32    /* fewer say nothing of how a clock goes */
#define DRIFT_SPAN  60.0  /* s, likewise */
#define CLOCK_TICK  1e-6  /* s that times of a log are whole numbers of */
#define STUDENT_7   2.365 /* of STK__STRAGGLES_BLOCK - 1 degrees of freedom, 95 % two-sided */

typedef struct side {
    stk_context *ctx;
    const stk__rank_steps *in;
    stk_report_rank *ranks;
    stk_report_world *out;
    uint64_t n;      /* ranks */
    uint64_t steps;  /* that all have */
    uint32_t *index; /* [steps][n] of marks */
    double *own;     /* [steps][n] */
    double *scratch; /* [max(n, steps)] */
} side;

static const stk__mark *mark_of(const side *s, uint64_t step, uint64_t rank)
{
    return &s->in[rank].marks->marks[s->index[step * s->n + rank]];
}

double stk__value_at(double *values, uint64_t n, double share)
{
    stk__doubles_sort(values, n);
    return values[(uint64_t)(share * (double)(n - 1))];
}

/* ---- Match ----------------------------------------------------------------------------------- */

static bool is_before(const stk__mark *a, const stk__mark *b)
{
    return a->epoch < b->epoch || (a->epoch == b->epoch && a->batch < b->batch);
}

/* The steps of all, in one pass: marks whose number goes back are left out. */
static void match(side *s, uint64_t *at)
{
    const stk__marks *first = s->in[0].marks;
    const stk__mark *last = NULL;

    for (size_t i = 0; i < first->n; i++) {
        const stk__mark *wanted = &first->marks[i];
        uint32_t *index = &s->index[s->steps * s->n];
        uint64_t found = 1;
        /* How long the first step was waited for is not known. */
        if ((last && !is_before(last, wanted)) || isnan(wanted->wait))
            continue;
        last = wanted;
        index[0] = (uint32_t)i;
        for (uint64_t r = 1; r < s->n; r++) {
            const stk__marks *m = s->in[r].marks;
            while (at[r] < m->n && is_before(&m->marks[at[r]], wanted))
                at[r]++;
            if (at[r] == m->n || is_before(wanted, &m->marks[at[r]]) || isnan(m->marks[at[r]].wait))
                break;
            index[r] = (uint32_t)at[r];
            found++;
        }
        s->steps += found == s->n;
    }
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* By how much the end of a step is later on the clock of a rank than on the first one's. */
static double apart(const side *s, uint64_t step, uint64_t rank)
{
    return (s->in[rank].origin - s->in[0].origin) +
           (mark_of(s, step, rank)->end - mark_of(s, step, 0)->end);
}

static double median_apart(const side *s, uint64_t rank, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++)
        s->scratch[k - from] = apart(s, k, rank);
    return stk__value_at(s->scratch, to - from, 0.5);
}

/* Medians of both halves give the line that most ends are on. */
static void line_up(const side *s, uint64_t rank)
{
    stk_report_rank *r = &s->ranks[rank];
    const uint64_t half = s->steps / 2;
    const double from = mark_of(s, 0, 0)->end, to = mark_of(s, s->steps - 1, 0)->end;
    const double early = mark_of(s, half / 2, 0)->end,
                 late = mark_of(s, half + (s->steps - half) / 2, 0)->end;

    r->offset = median_apart(s, rank, 0, s->steps);
    r->drift = 0;
    if (s->steps >= DRIFT_STEPS && to - from >= DRIFT_SPAN && late > early) {
        const double first = median_apart(s, rank, 0, half);
        r->drift = (median_apart(s, rank, half, s->steps) - first) / (late - early);
        r->offset = first - r->drift * early;
    }
    for (uint64_t k = 0; k < s->steps; k++)
        s->scratch[k] = fabs(apart(s, k, rank) - r->offset - r->drift * mark_of(s, k, 0)->end);
    r->scatter = STK_MAX(stk__value_at(s->scratch, s->steps, 0.95), CLOCK_TICK);
}

/*
 * Ends that are late by chance, as where there are more threads than cores, are so one by one;
 * those of ranks that wait for nobody drift apart, so that from one to the next they are near.
 */
static bool returns(const side *s, uint64_t rank)
{
    const stk_report_rank *r = &s->ranks[rank];

    if (s->steps < STK__MEETS_MANY || r->scatter > s->out->cycle)
        return false;
    for (uint64_t k = 0; k < s->steps; k++)
        s->scratch[k] = fabs(apart(s, k, rank) - r->offset - r->drift * mark_of(s, k, 0)->end);
    const double off = stk__value_at(s->scratch, s->steps, 0.5);
    for (uint64_t k = 1; k < s->steps; k++)
        s->scratch[k - 1] = fabs(apart(s, k, rank) - apart(s, k - 1, rank));
    return stk__value_at(s->scratch, s->steps - 1, 0.5) >= STK__MEETS_AGAIN * off;
}

static void line_up_all(side *s)
{
    s->out->meets = s->steps >= STK__MEETS_STEPS;
    if (!s->out->meets)
        return;
    for (uint64_t r = 0; r < s->n; r++) {
        line_up(s, r);
        s->out->meets &=
            (s->ranks[r].scatter <= STK__MEETS_NEAR * s->out->cycle || returns(s, r)) &&
            fabs(s->ranks[r].drift) <= STK__MEETS_DRIFT;
    }
    for (uint64_t r = 0; r < s->n && !s->out->meets; r++)
        s->ranks[r].offset = s->ranks[r].drift = s->ranks[r].scatter = NAN;
}

/* ---- Means ----------------------------------------------------------------------------------- */

static double step_of(const stk__mark *m)
{
    return m->end - m->begin;
}

static void average(side *s)
{
    const double by = 1 / (double)s->steps;

    for (uint64_t r = 0; r < s->n; r++) {
        stk_report_rank *to = &s->ranks[r];
        to->wait = to->step = to->comm = to->comm_wait = 0;
        for (uint64_t k = 0; k < s->steps; k++) {
            const stk__mark *m = mark_of(s, k, r);
            to->wait += (double)m->wait * by;
            to->step += step_of(m) * by;
            to->comm += (double)m->comm * by;
            to->comm_wait += (double)m->comm_wait * by;
        }
        s->out->cycle += (to->wait + to->step) / (double)s->n;
    }
}

/* What collectives take of the time, where all logs say it. */
static void share_comm(side *s)
{
    stk_report_world *out = s->out;
    double comm = 0, waited = 0;

    out->comm_alone = 0;
    for (uint64_t k = 0; k < s->steps; k++) {
        double least = INFINITY;
        for (uint64_t r = 0; r < s->n; r++)
            least = fmin(least, (double)mark_of(s, k, r)->comm_wait);
        out->comm_alone += least / (double)s->steps;
    }
    for (uint64_t r = 0; r < s->n; r++) {
        comm += s->ranks[r].comm / (double)s->n;
        waited += s->ranks[r].comm_wait / (double)s->n;
    }
    out->comm_share = comm / out->cycle;
    out->comm_overlap = comm > 0 ? STK_MAX(1 - waited / comm, 0.0) : (double)NAN;
    if (isnan(waited))
        out->comm_share = out->comm_overlap = out->comm_alone = NAN;
}

/* ---- Skew ------------------------------------------------------------------------------------ */

/*
 * Ranks that meet wait for each other inside their steps. Where logs say how long, the rest is
 * their own; else the shortest step is the one that waited for nobody.
 */
static void work_out_own(side *s)
{
    const bool known = isfinite(s->out->comm_alone);

    for (uint64_t k = 0; k < s->steps; k++) {
        double least = INFINITY;
        for (uint64_t r = 0; r < s->n; r++)
            least = fmin(least, step_of(mark_of(s, k, r)));
        for (uint64_t r = 0; r < s->n; r++) {
            const stk__mark *m = mark_of(s, k, r);
            const double step = known           ? step_of(m) - (double)m->comm_wait
                                : s->out->meets ? least
                                                : step_of(m);
            s->own[k * s->n + r] = (double)m->wait + STK_MAX(step, 0.0);
        }
    }
}

/* One step: its skew goes to `skew`. Beyond the median, which is returned, others waited. */
static double take_step(side *s, uint64_t step, double *skew)
{
    const double *own = &s->own[step * s->n];
    uint64_t last = 0;

    for (uint64_t r = 1; r < s->n; r++)
        last = own[r] > own[last] ? r : last;
    memcpy(s->scratch, own, s->n * sizeof *own);
    const double median = stk__value_at(s->scratch, s->n, 0.5), first = s->scratch[0];
    *skew = own[last] - first;
    if (own[last] > first)
        s->ranks[last].last_share += 1 / (double)s->steps;
    s->ranks[last].cost += (own[last] - median) / (double)s->steps;
    s->out->lost_share += (own[last] - median) / (double)s->steps / s->out->cycle;
    return median;
}

/* Whether a rank is behind the median in most blocks of steps, by Student's t. */
static bool beyond_chance(const side *s, uint64_t rank, const double *medians)
{
    double mean = 0, squares = 0;

    if (s->steps < 2 * STK__STRAGGLES_BLOCK)
        return false;
    for (uint64_t b = 0; b < STK__STRAGGLES_BLOCK; b++) {
        const uint64_t from = b * s->steps / STK__STRAGGLES_BLOCK,
                       to = (b + 1) * s->steps / STK__STRAGGLES_BLOCK;
        double block = 0;
        for (uint64_t k = from; k < to; k++)
            block += (s->own[k * s->n + rank] - medians[k]) / (double)(to - from);
        const double off = block - mean;
        mean += off / (double)(b + 1);
        squares += off * (block - mean);
    }
    const double deviation = sqrt(squares / (STK__STRAGGLES_BLOCK - 1));
    return mean > STUDENT_7 * deviation / sqrt(STK__STRAGGLES_BLOCK);
}

static void find_slowest(side *s, const double *medians)
{
    stk_report_world *out = s->out;
    uint64_t slowest = 0;

    for (uint64_t r = 0; r < s->n; r++) {
        for (uint64_t k = 0; k < s->steps; k++)
            s->ranks[r].own += s->own[k * s->n + r] / (double)s->steps;
        if (s->ranks[r].own > s->ranks[slowest].own)
            slowest = r;
    }
    for (uint64_t r = 0; r < s->n; r++)
        s->scratch[r] = s->ranks[r].own;
    const double median = stk__value_at(s->scratch, s->n, 0.5);
    for (uint64_t r = 0; r < s->n; r++)
        s->ranks[r].behind = s->ranks[r].own - median;
    out->slowest = (int64_t)slowest;
    if (s->ranks[slowest].behind < STK__STRAGGLES * out->cycle ||
        !beyond_chance(s, slowest, medians))
        return;
    out->straggler = out->slowest;
    out->cause = STK_STRAGGLING_UNKNOWN;
}

/* Steps of the middle of the run, on the clock of the first rank. */
static stk_status tell_lined(side *s)
{
    const uint64_t steps = s->out->meets ? STK_MIN(s->steps, STK_REPORT_LINED) : 0,
                   from = (s->steps - steps) / 2;
    stk_report_lined *lined = stk__calloc(s->ctx, STK_MAX(steps * s->n, 1), sizeof *lined);

    s->out->lined = lined;
    if (!lined)
        return STK_ENOMEM;
    for (uint64_t k = from; k < from + steps; k++)
        for (uint64_t r = 0; r < s->n; r++) {
            const stk__mark *m = mark_of(s, k, r);
            const double ahead = s->ranks[r].offset + s->ranks[r].drift * mark_of(s, k, 0)->end,
                         by = s->in[r].origin - s->in[0].origin - ahead;
            lined[s->out->num_lined++] =
                (stk_report_lined){.rank = r,
                                   .epoch = m->epoch,
                                   .batch = m->batch,
                                   .asked = m->begin - (double)m->wait + by,
                                   .begin = m->begin + by,
                                   .end = m->end + by,
                                   .comm_wait = (double)m->comm_wait};
        }
    return STK_OK;
}

static stk_status compare(side *s)
{
    double *values = stk__calloc(s->ctx, 2 * s->steps, sizeof *values);

    s->own = stk__calloc(s->ctx, s->steps * s->n, sizeof *s->own);
    if (!values || !s->own) {
        stk__free(s->ctx, values);
        return STK_ENOMEM;
    }
    double *medians = values + s->steps;
    average(s);
    share_comm(s);
    line_up_all(s);
    work_out_own(s);
    for (uint64_t r = 0; r < s->n; r++)
        s->ranks[r].own = s->ranks[r].last_share = s->ranks[r].cost = 0;
    for (uint64_t k = 0; k < s->steps; k++)
        medians[k] = take_step(s, k, &values[k]);
    find_slowest(s, medians);
    stk_spread_of(values, s->steps, &s->out->skew);
    stk__free(s->ctx, values);
    return tell_lined(s);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void unknown(side *s)
{
    stk_report_world *out = s->out;

    out->struct_size = sizeof *out;
    out->num_ranks = s->n;
    out->comm_share = out->comm_overlap = out->comm_alone = NAN;
    out->slowest = out->straggler = -1;
    for (uint64_t r = 0; r < s->n; r++) {
        stk_report_rank *to = &s->ranks[r];
        to->struct_size = sizeof *to;
        to->offset = to->drift = to->scatter = to->wait = to->step = to->comm = to->comm_wait =
            to->own = to->behind = to->last_share = to->cost = NAN;
    }
}

stk_status stk__ranks_compare(stk_context *ctx, const stk__rank_steps *steps, uint64_t n,
                              stk_report_rank *ranks, stk_report_world *out)
{
    side s = {.ctx = ctx, .in = steps, .ranks = ranks, .out = out, .n = n};
    const uint64_t most = STK_MAX(steps[0].marks->n, 1);
    uint64_t *at = stk__calloc(ctx, n, sizeof *at);
    stk_status status = STK_ENOMEM;

    unknown(&s);
    s.index = stk__calloc(ctx, most * n, sizeof *s.index);
    s.scratch = stk__calloc(ctx, STK_MAX(n, most), sizeof *s.scratch);
    if (at && s.index && s.scratch) {
        match(&s, at);
        out->steps = s.steps;
        status = s.steps ? compare(&s) : STK_OK;
    }
    stk__free(ctx, at);
    stk__free(ctx, s.index);
    stk__free(ctx, s.own);
    stk__free(ctx, s.scratch);
    return status;
}
