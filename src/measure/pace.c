/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers and reads of a loader move while it runs. Pure. */
#include "measure/pace.h"

#include <math.h>

#define STEPS          5    /* of a window while something is tried */
#define STEPS_AT_FIRST 2    /* until two of them tell how steps scatter */
#define SECONDS        0.02 /* at least: of shorter ones noise is all there is */
#define CALM_SECONDS   1.0  /* of a window while nothing is; */
#define CALM_SHARE     0.1 /* at first so much of all before: what is ahead hides what is to come */
#define AGAIN          3   /* s in a row that say that the load is another one, at first */
#define AGAIN_MOST     384
#define LEAST_SHARE    0.1 /* of the wait: it is for workers; or for bytes, and workers are not it */
/* Steps that scatter are looked at for longer. Errors are standard errors, as shares. */
#define ERROR      0.1  /* between two rates that are compared, at most; */
#define PROMISE    0.5  /* of what a trial may gain: of the rate before it, where that is more */
#define FEW        2    /* pairs of windows that tell of it: it may be twice as large */
#define TOO_EARLY  2    /* times as large as was thought: what was judged by it is tried again */
#define MOST_STEPS 1000 /* that are looked at; then it is judged all the same */

typedef enum knob { WORKERS, DEPTH, HALF, FEWER, KNOBS } knob; /* HALF, FEWER: of the workers */
typedef enum phase { WATCH, SKIP, TRY, PUT_BACK } phase;

typedef struct state {
    stk__pace_limits limits;
    uint32_t now[2], before[2]; /* workers, depth */
    phase phase;
    knob tried;
    bool useless[KNOBS];        /* it was tried and gave nothing */
    stk__pace_seen all;         /* windows since the last change, without what was ahead of it; */
    double last, steps_of_last; /* the last of them, s of a step; of 0 steps: there is none */
    double scatter;             /* square of a step's error, as a share, times */
    double known;               /* pairs of windows that tell of it */
    double rate_before;         /* steps/s, before what is tried; */
    double steps_before;        /* that say so */
    double cause_before;        /* share of the time that it is to take away */
    double judged;  /* 1 / a step's error up to which all that was judged stands; 0: nothing was */
    double usual;   /* steps/s, since nothing is to be done; 0: something is */
    double seconds; /* of all windows */
    stk__pace_seen odd; /* windows in a row that differ from it; */
    uint32_t again;     /* how many seconds of them are enough */
    double soonest;     /* seconds at which what was put back may tell of another load */
    bool back;          /* something was put back, and what came of it is not known yet */
} state;

_Static_assert(sizeof(state) <= STK__PACE_STATE, "a loader has room for the state");

/* ---- What was seen --------------------------------------------------------------------------- */

static double seconds_of(const stk__pace_seen *seen)
{
    return seen->wait + seen->steps * seen->step;
}

static double rate_of(const stk__pace_seen *seen)
{
    const double seconds = seconds_of(seen);

    return seconds > 0 ? seen->steps / seconds : 0;
}

static double wait_share(const stk__pace_seen *seen)
{
    const double seconds = seconds_of(seen);

    return seconds > 0 ? seen->wait / seconds : 0;
}

/* ---- How well it is known ---------------------------------------------------------------------
 */

/* Begin anew. What is known of the scatter stays. */
static void turn(state *s)
{
    s->all = (stk__pace_seen){0};
}

/* Something was changed: what comes is not to be held against what was. */
static void cut(state *s)
{
    turn(s);
    s->steps_of_last = 0;
}

static void add(stk__pace_seen *all, const stk__pace_seen *seen)
{
    all->steps += seen->steps;
    all->step += (seen->step - all->step) * seen->steps / all->steps;
    all->wait += seen->wait;
    all->wait_reads += seen->wait_reads;
    all->wait_transfer += seen->wait_transfer;
    all->wait_work += seen->wait_work;
}

/* How far two windows, one after the other, are from each other says how steps scatter (mean square
 * of successive differences; J. von Neumann, 1941), also where the load drifts. */
static void join(state *s, const stk__pace_seen *seen)
{
    const double mean = seconds_of(seen) / seen->steps;

    add(&s->all, seen);
    if (s->steps_of_last > 0) {
        const double off = (mean - s->last) * rate_of(&s->all);
        s->scatter += off * off / (1 / s->steps_of_last + 1.0 / seen->steps);
        s->known++;
    }
    s->last = mean;
    s->steps_of_last = seen->steps;
}

/* The error of a step; INFINITY: nothing tells of it. That of the mean of n of them is sqrt(1 / n)
 * of it. */
static double step_error(const state *s)
{
    return s->known > 0 ? (1 + FEW / s->known) * sqrt(s->scatter / s->known) : INFINITY;
}

/* Windows that were thought to be of another load. */
static void join_odd(state *s)
{
    join(s, &s->odd);
    s->odd = (stk__pace_seen){0};
}

/* Whether the rate is known well enough to try what may gain so much. */
static bool is_known(const state *s, double gain)
{
    return s->all.steps >= MOST_STEPS ||
           step_error(s) / sqrt(s->all.steps) <= STK_MAX(ERROR / 2, gain * PROMISE);
}

/* ---- What to try ------------------------------------------------------------------------------
 */

static bool may(const state *s, knob k)
{
    const uint32_t most = k == DEPTH ? s->limits.depth_most : s->limits.workers_most;

    if (s->useless[k])
        return false;
    return k >= HALF ? s->now[0] > s->limits.workers_least : s->now[k] < most;
}

/* Seconds that are waited for what a change gives more of. */
static double cause_of(knob k, const stk__pace_seen *seen)
{
    return k == DEPTH ? seen->wait_reads : seen->wait_work;
}

/* Whether it may be worth it. What is waited for too little to be kept is not tried; fewer workers
 * are where these take the cores from each other, and not where bytes are late. */
static bool promises(knob k, const stk__pace_seen *seen)
{
    return k < HALF ? cause_of(k, seen) >= STK__PACE_GAIN * seconds_of(seen)
                    : cause_of(k, seen) >= LEAST_SHARE * seen->wait &&
                          seen->wait_transfer < LEAST_SHARE * seen->wait;
}

/* What is waited for most and can be had more of; when workers cannot, fewer may be as fast: too
 * many take the cores from each other, or from the step. KNOBS: nothing, or little is waited. */
static knob choose(const state *s, const stk__pace_seen *seen)
{
    if (wait_share(seen) <= STK__PACE_WAITS)
        return KNOBS;
    const knob first = seen->wait_reads > seen->wait_work ? DEPTH : WORKERS,
               order[] = {first, first == DEPTH ? WORKERS : DEPTH, HALF, FEWER};

    for (size_t i = 0; i < STK_COUNT(order); i++) {
        const knob k = order[i];
        if (may(s, k) && promises(k, seen) && (k < HALF || !may(s, WORKERS)))
            return k;
    }
    return KNOBS;
}

/* So many times as many as the wait says, in powers of two. */
static uint32_t more(uint32_t now, double share, uint32_t most_times, uint32_t most)
{
    uint32_t times = 2;

    while (times < most_times && times * (1 - share) < 1)
        times *= 2;
    return now > most / times ? most : STK_MAX(now, 1u) * times;
}

/* Half of them; then, where that was too few, one or a quarter less. */
static uint32_t fewer(const state *s, knob k)
{
    const uint32_t n = s->now[0];

    return STK_MAX(k == HALF ? n / 2 : n - STK_MAX(n / 4, 1u), s->limits.workers_least);
}

static const char *begin_trial(state *s, knob k)
{
    static const char *const why[KNOBS] = {"the step waits for workers",
                                           "the step waits for reads to begin or to be answered",
                                           "more workers give no more: whether fewer do",
                                           "more workers give no more: whether fewer do"};
    const bool again = s->tried == k;
    const double rate = rate_of(&s->all), share = wait_share(&s->all);

    s->tried = k;
    memcpy(s->before, s->now, sizeof s->before);
    /* Fewer and fewer are held against what the first of them were. */
    s->rate_before = k >= HALF && again ? STK_MAX(s->rate_before, rate) : rate;
    s->steps_before = s->all.steps;
    s->cause_before = cause_of(k, &s->all) * rate / s->all.steps;
    s->usual = 0;
    cut(s);
    if (k == WORKERS)
        s->now[0] = more(s->now[0], share, 4, s->limits.workers_most);
    else if (k == DEPTH)
        s->now[1] = more(s->now[1], share, 16, s->limits.depth_most);
    else
        s->now[0] = fewer(s, k);
    s->phase = SKIP;
    return why[k];
}

/* ---- Phases -----------------------------------------------------------------------------------
 */

static void try_all(state *s)
{
    for (size_t k = 0; k < KNOBS; k++)
        s->useless[k] = false;
    s->judged = 0;
}

/* Nothing is known of the load that it has become. */
static void meet_other(state *s)
{
    s->soonest = 2 * s->seconds + s->again;
    s->again = STK_MIN(4 * s->again, (uint32_t)AGAIN_MOST);
    s->odd = (stk__pace_seen){0};
    s->usual = s->scatter = s->known = 0;
    s->back = false;
    try_all(s);
    cut(s);
}

/* Whether windows differ from what is usual for so long that the load has become another one. Where
 * they come back to it, or are on its other side, it is as it was, and scatters more than was
 * known. */
static bool is_other(state *s, const stk__pace_seen *seen)
{
    const double off = rate_of(seen) / s->usual - 1;
    const bool odd = fabs(off) > STK__PACE_OTHER;

    if (s->odd.steps && (!odd || (off > 0) != (rate_of(&s->odd) > s->usual)))
        join_odd(s);
    if (!odd)
        return false;
    add(&s->odd, seen);
    return seconds_of(&s->odd) >= s->again;
}

/* Whether it is not as it was before what was put back: then the load became another one within the
 * trial, or in the window before, and what was compared were two loads. */
static bool was_other(state *s)
{
    const double off = fabs(rate_of(&s->all) / s->rate_before - 1);
    const bool back = s->back;

    s->back = false;
    return back && s->seconds >= s->soonest && off > STK__PACE_OTHER;
}

static const char *watch(state *s)
{
    if (s->known > 0 && step_error(s) * s->judged > TOO_EARLY)
        try_all(s);
    const knob k = choose(s, &s->all);
    const double share = wait_share(&s->all);
    if (!is_known(s, k < HALF ? share / (1 - share) : 0))
        return NULL;
    if (was_other(s)) {
        meet_other(s);
        return NULL;
    }
    if (k < KNOBS)
        return begin_trial(s, k);
    if (s->usual <= 0)
        s->usual = rate_of(&s->all);
    turn(s);
    return NULL;
}

static const char *look(state *s, const stk__pace_seen *seen)
{
    if (s->usual > 0 && is_other(s, seen))
        meet_other(s);
    if (!s->odd.steps) {
        join(s, seen);
        return watch(s);
    }
    /* Where there is something to be tried it is not waited for until the load is another one. */
    if (choose(s, &s->odd) == KNOBS)
        return NULL;
    join_odd(s);
    return watch(s);
}

/* A change is kept where the steps are faster; where they are as fast with fewer workers; or where
 * something else is waited for now, which comes next: then noise may hide that it is no slower. */
static bool is_better(const state *s, double error)
{
    const double rate = rate_of(&s->all), cause = cause_of(s->tried, &s->all) * rate / s->all.steps;

    if (s->tried >= HALF)
        return rate >= s->rate_before * (1 - STK__PACE_ALIKE + error);
    if (cause < s->cause_before / 2)
        return rate >= s->rate_before * (1 - STK__PACE_GAIN);
    return rate >= s->rate_before * (1 + STK__PACE_GAIN);
}

/* Faster with more, or slower with fewer by more than the error: that they go on, or back, costs
 * little where it is wrong. The other way round takes its time: some steps that are not slow say
 * little of those that are. */
static bool is_safe(const state *s, double error)
{
    const double ratio = rate_of(&s->all) / s->rate_before;

    return s->tried >= HALF ? ratio < 1 - STK__PACE_ALIKE - error : ratio >= 1 + STK__PACE_GAIN;
}

static const char *judge(state *s, const stk__pace_seen *seen)
{
    join(s, seen);
    const double share = sqrt(1 / s->steps_before + 1.0 / s->all.steps),
                 error = step_error(s) * share;
    if (!is_safe(s, error) && s->all.steps < MOST_STEPS) {
        if (error > ERROR)
            return NULL;
        s->judged = STK_MAX(s->judged, share / ERROR);
    }
    s->phase = WATCH;
    if (is_better(s, error)) {
        /* What gave nothing may have waited for this. */
        if (s->tried < HALF)
            s->useless[s->tried == WORKERS ? DEPTH : WORKERS] = false;
        /* Fewer are as fast: to try more again would go to and fro for ever. */
        s->useless[WORKERS] |= s->tried >= HALF;
        return watch(s);
    }
    const uint32_t less = s->now[0];
    s->now[0] = s->before[0];
    s->now[1] = s->before[1];
    s->useless[s->tried] = true;
    /* One less may be half of them. */
    s->useless[FEWER] |= s->tried == HALF && fewer(s, FEWER) == less;
    s->phase = PUT_BACK;
    s->back = true;
    cut(s);
    return "put back: it gave no more";
}

/* ---- The policy -------------------------------------------------------------------------------
 */

static void put_want(const state *s, const char *why, stk__pace_want *out)
{
    const bool calm = s->phase == WATCH && s->usual > 0;

    *out = (stk__pace_want){
        .workers = s->now[0],
        .depth = s->now[1],
        .steps = s->known > 0 || s->phase == SKIP ? STEPS : STEPS_AT_FIRST,
        .seconds =
            calm ? STK_MAX(SECONDS, STK_MIN(CALM_SHARE * s->seconds, CALM_SECONDS)) : SECONDS,
        .calm = calm,
        .why = why};
}

static void begin(void *user, const stk__pace_limits *limits, uint32_t workers, uint32_t depth,
                  stk__pace_want *first)
{
    state *s = user;

    *s = (state){.limits = *limits, .now = {workers, depth}, .phase = SKIP, .again = AGAIN};
    /* What is there at first was made while nobody asked for it. */
    s->tried = KNOBS;
    put_want(s, NULL, first);
}

static void next(void *user, const stk__pace_seen *seen, stk__pace_want *out)
{
    const char *why = NULL;
    state *s = user;

    s->seconds += seconds_of(seen);
    switch (s->phase) {
    case SKIP: /* batches that were ahead before the change */
        s->phase = s->tried == KNOBS ? WATCH : TRY;
        break;
    case PUT_BACK:
        s->phase = WATCH;
        break;
    case TRY:
        why = judge(s, seen);
        break;
    default:
        why = look(s, seen);
    }
    put_want(s, why, out);
}

const stk__pace_policy stk__pace_policy_table = {
    .state_bytes = sizeof(state),
    .begin = begin,
    .next = next,
};
