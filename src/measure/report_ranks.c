/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of several ranks -> which belong together, who is waited for, how far clocks are apart. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure/ranks.h"

#define TEXT         1400
#define CLOCKS       700
#define CLOCKS_SAID  6    /* ranks whose clock is told in words */
#define MISSING_SAID 16   /* ranks without a log that are named */
#define COMM_MATTERS 0.01 /* of the time, from which on collectives are worth words */

typedef struct world {
    stk_report_world shown;
    stk_report_rank *ranks;
    const stk_report_rank **shown_ranks;
    char text[TEXT], clocks[CLOCKS], cause[512];
} world;

/* Arrays have room for every run. */
struct stk__worlds {
    const stk_report *report;
    uint64_t num, made, num_ranks; /* made: worlds, whole or not; ranks that were given to them */
    int64_t *of;                   /* [runs] number of the world of a run; -1: none */
    world *worlds;
    const stk_report_world **shown;
    stk_report_rank *ranks; /* of all worlds, one world after the other */
    const stk_report_rank **shown_ranks;
};

static const stk_report_run *run_at(const stk__worlds *w, uint64_t i)
{
    return &w->report->runs[i]->out;
}

/* ---- Which belong together ------------------------------------------------------------------- */

static bool is_rank(const stk_report_run *run)
{
    return run->world_size > 1 && run->rank >= 0 && run->rank < run->world_size;
}

/* Whether a run may be one more rank of a world; *apart is how far their begins are apart. */
static bool fits(const stk__worlds *w, uint64_t number, uint64_t i, double *apart)
{
    const stk_report_run *run = run_at(w, i);

    *apart = INFINITY;
    for (uint64_t k = 0; k < i; k++) {
        const stk_report_run *other = run_at(w, k);
        if (w->of[k] != (int64_t)number)
            continue;
        if (other->rank == run->rank || other->world_size != run->world_size ||
            other->repeat != run->repeat || strcmp(other->label, run->label) != 0)
            return false;
        *apart = fmin(*apart, fabs(other->unix_time - run->unix_time));
    }
    return true;
}

static void assign(stk__worlds *w, uint64_t i)
{
    double nearest = INFINITY, apart;
    int64_t best = -1;

    for (uint64_t number = w->num; number-- > 0;)
        if (fits(w, number, i, &apart) && (best < 0 || apart < nearest)) {
            best = (int64_t)number;
            nearest = apart;
        }
    w->of[i] = best >= 0 ? best : (int64_t)w->num++;
}

/* ---- What is said ---------------------------------------------------------------------------- */

static size_t say_slowest(const world *w, char *text, size_t size)
{
    const stk_report_world *s = &w->shown;
    char skew[32], late[32], cost[32], behind[32];
    const stk_report_rank *r = w->shown_ranks[s->slowest];

    if (s->straggler < 0)
        return (size_t)snprintf(
            text, size,
            "No rank is behind the others: over %" PRIu64 " steps rank %" PRId64
            " takes longest, by less than %.0f %% of the time or within chance. From the first "
            "rank that is ready to the last it takes %s of a step on average (p95 %s), for which "
            "%.1f %% of the time %s.",
            s->steps, r->rank, 100 * STK__STRAGGLES, stk__rank_seconds(skew, s->skew.mean),
            stk__rank_seconds(late, s->skew.p95), 100 * s->lost_share,
            s->meets ? "is waited" : "would be waited if they met in each step");
    return (size_t)snprintf(
        text, size,
        "Rank %" PRId64 " is behind the others, by %s of a step of %s: it is ready last in %.0f %% "
        "of %" PRIu64 " steps, and the others %s %s of a step for it (%.1f %% of the time). %s",
        r->rank, stk__rank_seconds(behind, r->behind), stk__rank_seconds(late, s->cycle),
        100 * r->last_share, s->steps, s->meets ? "wait" : "would wait",
        stk__rank_seconds(cost, r->cost), 100 * r->cost / s->cycle, w->cause);
}

static void say_comm(const world *w, char *text, size_t size)
{
    const stk_report_world *s = &w->shown;
    char took[32], waited[32], alone[32];
    const double wait = s->comm_share * (1 - s->comm_overlap) * s->cycle;

    if (isnan(s->comm_share))
        snprintf(text, size,
                 " What collectives take the logs do not say: \"comm\" and \"comm_wait\" of "
                 "\"training end\".");
    else if (s->comm_share < COMM_MATTERS)
        snprintf(text, size, " Collectives take %.1f %% of the time.", 100 * s->comm_share);
    else
        snprintf(text, size,
                 " Collectives take %s of a step (%.1f %% of the time), of which %.0f %% are "
                 "behind what computes; of the %s that a step waits in them, %s are their own and "
                 "the rest is for ranks that come later.",
                 stk__rank_seconds(took, s->comm_share * s->cycle), 100 * s->comm_share,
                 100 * s->comm_overlap, stk__rank_seconds(waited, wait),
                 stk__rank_seconds(alone, s->comm_alone));
}

static void say_clocks(world *w)
{
    const stk_report_world *s = &w->shown;
    char offset[32], scatter[32];
    double worst = 0;
    size_t n = 0;

    if (!s->meets) {
        snprintf(w->clocks, sizeof w->clocks,
                 s->steps < STK__MEETS_STEPS
                     ? "Clocks: %" PRIu64 " common steps are too few to line them up by."
                     : "Clocks: the ranks do not end their %" PRIu64 " common steps together, so "
                       "they cannot be lined up by them; they are taken as they are.",
                 s->steps);
        return;
    }
    for (uint64_t i = 1; i < s->num_ranks; i++)
        worst = fmax(worst, w->ranks[i].scatter);
    n = (size_t)snprintf(w->clocks, sizeof w->clocks,
                         "Clocks, lined up by the ends of %" PRIu64 " steps, which all ranks reach "
                         "together (95 %% within %s):",
                         s->steps, stk__rank_seconds(scatter, worst));
    for (uint64_t i = 1; i < s->num_ranks && i <= CLOCKS_SAID && n < sizeof w->clocks; i++) {
        const stk_report_rank *r = &w->ranks[i];
        n += (size_t)snprintf(w->clocks + n, sizeof w->clocks - n, "%s rank %" PRId64 " %s%s",
                              i > 1 ? "," : "", r->rank, r->offset >= 0 ? "+" : "",
                              stk__rank_seconds(offset, r->offset));
        if (fabs(r->drift) >= 1e-6 && n < sizeof w->clocks)
            n += (size_t)snprintf(w->clocks + n, sizeof w->clocks - n, " and %+.0f ppm",
                                  1e6 * r->drift);
    }
    if (n < sizeof w->clocks)
        snprintf(w->clocks + n, sizeof w->clocks - n, "%s against rank %" PRId64 ".",
                 s->num_ranks > CLOCKS_SAID + 1 ? ", ..." : "", w->ranks[0].rank);
}

/* "The logs of 2 of 4 ranks are missing (1, 3). " */
static size_t say_missing(const world *w, char *text, size_t size)
{
    const stk_report_world *s = &w->shown;
    const uint64_t missing = s->world_size - s->num_ranks;
    uint64_t next = 0, said = 0;

    if (missing == 0)
        return 0;
    size_t n =
        (size_t)snprintf(text, size, "The logs of %" PRIu64 " of %" PRIu64 " ranks are missing (",
                         missing, s->world_size);
    for (uint64_t rank = 0; rank < s->world_size && said < MISSING_SAID; rank++) {
        if (next < s->num_ranks && (uint64_t)w->ranks[next].rank == rank)
            next++;
        else
            n += (size_t)snprintf(text + n, size - n, "%s%" PRIu64, said++ ? ", " : "", rank);
    }
    return n + (size_t)snprintf(text + n, size - n, "%s). ", said < missing ? ", ..." : "");
}

static void say(world *w)
{
    const stk_report_world *s = &w->shown;
    size_t n = say_missing(w, w->text, TEXT);

    if (s->slowest < 0) {
        snprintf(w->text + n, TEXT - n,
                 "The ranks have no step in common, by epoch and batch, that is logged from its "
                 "wait to its end: nothing to compare.");
    } else {
        n += say_slowest(w, w->text + n, TEXT - n);
        if (n < TEXT)
            say_comm(w, w->text + n, TEXT - n);
    }
    say_clocks(w);
}

/* ---- One world ------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
    const stk_report_rank *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

static stk_status find_cause(const stk__worlds *w, world *to)
{
    stk_report_world *s = &to->shown;
    stk_context *ctx = w->report->ctx;

    if (s->straggler < 0)
        return STK_OK;
    stk__rank_parts *parts = stk__calloc(ctx, s->num_ranks, sizeof *parts);
    double *scratch = stk__calloc(ctx, s->num_ranks, sizeof *scratch);
    for (uint64_t i = 0; i < s->num_ranks && parts && scratch; i++)
        stk__rank_parts_of(w->report->runs[to->ranks[i].run], &to->ranks[i], &parts[i]);
    if (parts && scratch)
        s->cause = stk__rank_cause(parts, s->num_ranks, (uint64_t)s->straggler, scratch, to->cause,
                                   sizeof to->cause);
    const bool known = parts && scratch;
    stk__free(ctx, parts);
    stk__free(ctx, scratch);
    return known ? STK_OK : STK_ENOMEM;
}

/* The runs of world `number`, by their ranks. */
static void gather(stk__worlds *w, uint64_t number, world *to)
{
    stk_report_world *s = &to->shown;

    to->ranks = w->ranks + w->num_ranks;
    to->shown_ranks = w->shown_ranks + w->num_ranks;
    for (uint64_t i = 0; i < w->report->num_runs; i++)
        if (w->of[i] == (int64_t)number) {
            to->ranks[s->num_ranks++] = (stk_report_rank){.run = i, .rank = run_at(w, i)->rank};
            s->world_size = (uint64_t)run_at(w, i)->world_size;
        }
    qsort(to->ranks, s->num_ranks, sizeof *to->ranks, by_rank);
    for (uint64_t i = 0; i < s->num_ranks; i++)
        to->shown_ranks[i] = &to->ranks[i];
}

static stk_status make_world(stk__worlds *w, uint64_t number, const char *const *names, world *to)
{
    stk_context *ctx = w->report->ctx;

    gather(w, number, to);
    const uint64_t n = to->shown.num_ranks;
    stk__rank_steps *steps = stk__calloc(ctx, n, sizeof *steps);
    if (!steps)
        return STK_ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        steps[i] = (stk__rank_steps){.marks = &w->report->runs[to->ranks[i].run]->marks,
                                     .origin = run_at(w, to->ranks[i].run)->unix_time};
    const stk_status status = stk__ranks_compare(ctx, steps, n, to->ranks, &to->shown);
    stk__free(ctx, steps);
    STK_TRY(status);
    to->shown.name = names[to->ranks[0].run];
    to->shown.ranks = to->shown_ranks;
    to->shown.text = to->text;
    to->shown.clocks = to->clocks;
    STK_TRY(find_cause(w, to));
    say(to);
    w->num_ranks += n;
    return STK_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

void stk__worlds_destroy(stk_context *ctx, stk__worlds *w)
{
    if (!w)
        return;
    for (uint64_t i = 0; w->worlds && i < w->made; i++)
        stk__free(ctx, (stk_report_lined *)w->worlds[i].shown.lined);
    stk__free(ctx, w->of);
    stk__free(ctx, w->worlds);
    stk__free(ctx, (void *)w->shown);
    stk__free(ctx, w->ranks);
    stk__free(ctx, (void *)w->shown_ranks);
    stk__free(ctx, w);
}

const stk_report_world *const *stk__worlds_shown(const stk__worlds *w, uint64_t *n)
{
    *n = w->num;
    return w->shown;
}

/* A rank whose fellows have no logs here is no world. */
static bool is_alone(const stk__worlds *w, uint64_t number)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < w->report->num_runs; i++)
        n += w->of[i] == (int64_t)number;
    return n < 2;
}

stk_status stk__worlds_create(const stk_report *report, const char *const *names, stk__worlds **out)
{
    const uint64_t runs = STK_MAX(report->num_runs, 1);
    stk_context *ctx = report->ctx;
    stk__worlds *w = *out = stk__calloc(ctx, 1, sizeof *w);

    if (!w)
        return STK_ENOMEM;
    w->report = report;
    w->of = stk__calloc(ctx, runs, sizeof *w->of);
    if (!w->of)
        return STK_ENOMEM;
    for (uint64_t i = 0; i < report->num_runs; i++) {
        w->of[i] = -1;
        if (is_rank(run_at(w, i)))
            assign(w, i);
    }
    const uint64_t all = w->num;
    w->num = 0;
    w->worlds = stk__calloc(ctx, STK_MAX(all, 1), sizeof *w->worlds);
    w->shown = stk__calloc(ctx, STK_MAX(all, 1), sizeof(const stk_report_world *));
    w->ranks = stk__calloc(ctx, runs, sizeof *w->ranks);
    w->shown_ranks = stk__calloc(ctx, runs, sizeof(const stk_report_rank *));
    if (!w->worlds || !w->shown || !w->ranks || !w->shown_ranks)
        return STK_ENOMEM;
    for (uint64_t i = 0; i < all; i++) {
        if (is_alone(w, i))
            continue;
        world *next = &w->worlds[w->made++];
        STK_TRY(make_world(w, i, names, next));
        w->shown[w->num++] = &next->shown;
    }
    return STK_OK;
}
