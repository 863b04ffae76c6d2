/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers and reads of a loader move while it runs. Pure. */
#include "measure/pace.h"

#include <math.h>

#define STEPS        5    /* of a window while something is tried */
#define SECONDS      0.02 /* at least: of shorter ones noise is all there is */
#define CALM_SECONDS 1.0  /* of a window while nothing is; */
#define CALM_SHARE   0.1  /* at first so much of all before: what is ahead hides what is to come */
#define AGAIN        3    /* s in a row that say that the load is another one, at first */
#define AGAIN_MOST   384
#define LEAST_SHARE  0.1 /* of the wait: it is for workers; or for bytes, and workers are not it */

typedef enum knob { WORKERS, DEPTH, HALF, FEWER, KNOBS } knob; /* HALF, FEWER: of the workers */
typedef enum phase { WATCH, SKIP, TRY, PUT_BACK } phase;

typedef struct state {
    stk__pace_limits limits;
    uint32_t now[2], before[2]; /* workers, depth */
    phase phase;
    knob tried;
    bool useless[KNOBS]; /* it was tried and gave nothing */
    double rate_before;  /* steps/s, before what is tried */
    double cause_before; /* share of the time that it is to take away */
    double usual;        /* steps/s, since nothing is to be done; 0: something is */
    double seconds;      /* of all windows */
    double odd;          /* s in a row that differ from it; */
    uint32_t again;      /* how many are enough */
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
 * many take the cores from each other, or from the step. KNOBS: nothing. */
static knob choose(const state *s, const stk__pace_seen *seen)
{
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

static const char *begin_trial(state *s, knob k, const stk__pace_seen *seen)
{
    static const char *const why[KNOBS] = {"the step waits for workers",
                                           "the step waits for reads to begin or to be answered",
                                           "more workers give no more: whether fewer do",
                                           "more workers give no more: whether fewer do"};
    const bool again = s->tried == k;
    const double rate = rate_of(seen);

    s->tried = k;
    memcpy(s->before, s->now, sizeof s->before);
    /* Fewer and fewer are held against what the first of them were. */
    s->rate_before = k >= HALF && again ? STK_MAX(s->rate_before, rate) : rate;
    s->cause_before = cause_of(k, seen) * rate / seen->steps;
    s->usual = 0;
    if (k == WORKERS)
        s->now[0] = more(s->now[0], wait_share(seen), 4, s->limits.workers_most);
    else if (k == DEPTH)
        s->now[1] = more(s->now[1], wait_share(seen), 16, s->limits.depth_most);
    else
        s->now[0] = fewer(s, k);
    s->phase = SKIP;
    return why[k];
}

/* ---- Phases -----------------------------------------------------------------------------------
 */

/* Whether the load has become another one. */
static bool is_other(state *s, const stk__pace_seen *seen)
{
    const double rate = rate_of(seen);

    if (s->usual <= 0) {
        s->usual = rate;
        s->odd = 0;
        return false;
    }
    if (fabs(rate / s->usual - 1) <= STK__PACE_OTHER) {
        s->odd = 0;
        return false;
    }
    s->odd += seconds_of(seen);
    if (s->odd < s->again)
        return false;
    s->again = STK_MIN(4 * s->again, (uint32_t)AGAIN_MOST);
    s->usual = 0;
    s->odd = 0;
    return true;
}

static const char *watch(state *s, const stk__pace_seen *seen)
{
    if (wait_share(seen) > STK__PACE_WAITS) {
        const knob k = choose(s, seen);
        if (k < KNOBS)
            return begin_trial(s, k, seen);
    }
    if (is_other(s, seen))
        for (size_t k = 0; k < KNOBS; k++)
            s->useless[k] = false;
    return NULL;
}

/* A change is kept where the steps are faster; where they are as fast with fewer workers; or where
 * something else is waited for now, which comes next: then noise may hide that it is no slower. */
static bool is_better(const state *s, const stk__pace_seen *seen)
{
    const double rate = rate_of(seen), cause = cause_of(s->tried, seen) * rate / seen->steps;

    if (s->tried >= HALF)
        return rate >= s->rate_before * (1 - STK__PACE_ALIKE);
    if (cause < s->cause_before / 2)
        return rate >= s->rate_before * (1 - STK__PACE_GAIN);
    return rate >= s->rate_before * (1 + STK__PACE_GAIN);
}

static const char *judge(state *s, const stk__pace_seen *seen)
{
    s->phase = WATCH;
    if (is_better(s, seen)) {
        /* What gave nothing may have waited for this. */
        if (s->tried < HALF)
            s->useless[s->tried == WORKERS ? DEPTH : WORKERS] = false;
        /* Fewer are as fast: to try more again would go to and fro for ever. */
        s->useless[WORKERS] |= s->tried >= HALF;
        return watch(s, seen);
    }
    const uint32_t few = s->now[0];
    s->now[0] = s->before[0];
    s->now[1] = s->before[1];
    s->useless[s->tried] = true;
    /* One less may be half of them. */
    s->useless[FEWER] |= s->tried == HALF && fewer(s, FEWER) == few;
    s->phase = PUT_BACK;
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
        .steps = STEPS,
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
        why = watch(s, seen);
    }
    put_want(s, why, out);
}

const stk__pace_policy stk__pace_policy_table = {
    .state_bytes = sizeof(state),
    .begin = begin,
    .next = next,
};
