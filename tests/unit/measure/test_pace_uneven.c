/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the workers of a loader move where samples take unevenly long: with a model of a loader whose
 * workers take rows one after the other and whose batches are handed out in order.
 */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>

#include "measure/pace.h"

#define MOST   8  /* workers */
#define RING   64 /* batches */
#define STEPS  8000
#define SEEDS  20
#define FACTOR 2 /* batches ahead for each worker */

/* ---- Loads ------------------------------------------------------------------------------------
 */

/* Seconds. A row takes `delay`, or `tail` more with a probability of `share`; without a tail it is
 * exponential, or, with a shape, what W. Pareto found of incomes, whose variance has no bound. */
typedef struct load {
    const char *name;
    uint32_t batch;
    double step, delay, share, tail, shape;
    double worst;        /* share of the best fixed setting that each run has to end with */
    double cores, crowd; /* more workers take turns, and each is so much slower; 0: they sleep */
} load;

static const load loads[] = {
    {"2 % of rows take 100 ms more", 8, 4e-3, 1e-3, 0.02, 0.1, 0, 0.6, 0, 0},
    {"1 % of rows take 50 ms more", 32, 10e-3, 1e-3, 0.01, 0.05, 0, 0.95, 0, 0},
    {"exponential", 4, 3e-3, 10e-3, 0, 0, 0, 0.95, 0, 0},
    {"exponential, a longer step", 4, 10e-3, 10e-3, 0, 0, 0, 0.95, 0, 0},
    {"0.5 % of rows take 200 ms more", 16, 8e-3, 1e-3, 0.005, 0.2, 0, 0.5, 0, 0},
    {"batches of one", 1, 3e-3, 2e-3, 0.05, 0.1, 0, 0.55, 0, 0},
    {"two cores, uneven", 8, 4e-3, 1e-3, 0.02, 0.1, 0, 0.55, 2, 0.5},
};

static double uniform(uint64_t *draws)
{
    uint64_t x = (*draws += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static double draw(const load *l, uint64_t *draws)
{
    const double u = uniform(draws);

    if (l->shape > 0)
        return l->delay * pow(1 - u, -1 / l->shape);
    if (l->tail > 0)
        return l->delay + (u < l->share ? l->tail : 0);
    return -l->delay * log(1 - u);
}

/* ---- A loader of them -------------------------------------------------------------------------
 */

typedef struct model {
    const load *load;
    uint64_t draws, next_row;
    uint32_t workers, ahead;
    double free_at[MOST];             /* s, when each worker is */
    double complete[RING], out[RING]; /* of batches, the latter when they were handed out */
} model;

static void move(model *m, uint32_t workers, double now)
{
    for (uint32_t i = m->workers; i < workers; i++)
        m->free_at[i] = now;
    m->workers = workers;
    /* What there is room for is not given up again. */
    m->ahead = STK_MAX(m->ahead, FACTOR * workers);
}

/* How much longer a row takes of so many workers. */
static double turns(const load *l, uint32_t workers)
{
    const double each = l->cores > 0 ? STK_MAX(workers / l->cores, 1.0) : 1;

    return each * (1 + l->crowd * (each - 1));
}

/* Rows that were begun until now, and all of batch b: when it is complete. */
static double work(model *m, uint64_t b, double now)
{
    for (;; m->next_row++) {
        const uint64_t of = m->next_row / m->load->batch;
        uint32_t first = 0;

        for (uint32_t i = 1; i < m->workers; i++)
            if (m->free_at[i] < m->free_at[first])
                first = i;
        const double room = of >= m->ahead ? m->out[(of - m->ahead) % RING] : 0,
                     start = STK_MAX(m->free_at[first], room);
        if (of >= b + m->ahead || (of > b && start > now))
            return m->complete[b % RING];
        m->free_at[first] = start + draw(m->load, &m->draws) * turns(m->load, m->workers);
        double *complete = &m->complete[of % RING];
        *complete = m->next_row % m->load->batch == 0 ? m->free_at[first]
                                                      : STK_MAX(*complete, m->free_at[first]);
    }
}

/* Steps/s of so many workers that do not move. */
static double rate_of(const load *l, uint32_t workers)
{
    model m = {.load = l, .draws = 7};
    double now = 0, begun = 0;

    move(&m, workers, 0);
    for (uint64_t b = 0; b < STEPS; b++) {
        now = STK_MAX(now, work(&m, b, now));
        m.out[b % RING] = now;
        if (b == STEPS / 10)
            begun = now;
        now += l->step;
    }
    return (STEPS - STEPS / 10) / (now - begun);
}

typedef struct moved {
    uint32_t workers;
    uint64_t changes, last; /* the step of the last one */
} moved;

static moved run(const load *l, uint64_t seed, uint64_t steps)
{
    const stk__pace_limits limits = {1, MOST, 64, 64};
    model m = {.load = l, .draws = seed * 1000003};
    char state[STK__PACE_STATE];
    stk__pace_seen seen = {.step = l->step};
    stk__pace_want want;
    double now = 0, begun = 0;
    moved out = {0};

    move(&m, 1, 0);
    stk__pace_policy_table.begin(state, &limits, 1, 64, &want);
    for (uint64_t b = 0; b < steps; b++, now += l->step) {
        const double asked = now;
        now = STK_MAX(now, work(&m, b, now));
        m.out[b % RING] = now;
        seen.steps++;
        seen.wait += now - asked;
        if (seen.steps < want.steps || now - begun < want.seconds)
            continue;
        seen.wait_work = seen.wait;
        seen.workers = m.workers;
        seen.depth = 64;
        stk__pace_policy_table.next(state, &seen, &want);
        if (want.workers != m.workers) {
            out.changes++;
            out.last = b;
            move(&m, want.workers, now);
        }
        seen = (stk__pace_seen){.step = l->step};
        begun = now;
    }
    out.workers = m.workers;
    return out;
}

/* ---- Tests ------------------------------------------------------------------------------------
 */

/* From one worker it comes to what the best fixed number gives, in all but few runs, and stays
 * there. */
static void test_settles(void **state)
{
    (void)state;
    for (size_t i = 0; i < STK_COUNT(loads); i++) {
        const load *l = &loads[i];
        double rates[MOST + 1] = {0}, best = 0, sum = 0;
        for (uint32_t w = 1; w <= MOST; w++)
            best = STK_MAX(best, rates[w] = rate_of(l, w));
        assert_true(rates[1] < 0.65 * best);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            const moved end = run(l, seed, STEPS);
            const double share = rates[end.workers] / best;
            sum += share;
            if (!(share >= l->worst) || end.changes > 16)
                fail_msg("%s, seed %d: %u workers, %.2f of the best, %d changes", l->name,
                         (int)seed, end.workers, share, (int)end.changes);
        }
        if (!(sum / SEEDS >= 0.95))
            fail_msg("%s: %.3f of the best", l->name, sum / SEEDS);
    }
}

/* Where waits have no bound it is tried again ever more seldom. */
static void test_bounded(void **state)
{
    const load l = {"unbounded", 4, 5e-3, 1e-3, 0, 0, 1.5, 0, 0, 0};

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const uint64_t some = run(&l, seed, 20000).changes, all = run(&l, seed, 200000).changes;
        if (all > 60 || all - some > 45)
            fail_msg("%d changes, of them %d in the first tenth", (int)all, (int)some);
    }
}

/* Windows of so many seconds a step, of which 8 ms are the step and the rest is waited for workers.
 */
static void tell(char *state, stk__pace_want *want, const double *cycles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double wait = want->steps * (cycles[i] - 8e-3);
        const stk__pace_seen seen = {.steps = want->steps,
                                     .step = 8e-3,
                                     .wait = wait,
                                     .wait_work = wait,
                                     .workers = want->workers,
                                     .depth = 1};
        stk__pace_policy_table.next(state, &seen, want);
    }
}

/* How many of them, by twos, until there are so many workers. */
static int tell_until(char *state, stk__pace_want *want, const double *cycles, uint32_t workers)
{
    int windows = 0;

    for (; want->workers != workers && windows < 1000; windows++)
        tell(state, want, &cycles[windows % 2], 1);
    return windows;
}

static void begin(char *state, uint32_t most, stk__pace_want *want)
{
    stk__pace_policy_table.begin(state, &(stk__pace_limits){1, most, 1, 1}, 1, 1, want);
}

/* How long is looked before a trial follows from how far windows are from each other. */
static void test_looks_for_longer(void **state)
{
    const double even[] = {12e-3, 12e-3, 12e-3}, uneven[] = {8e-3, 8e-3, 16e-3},
                 next[] = {8e-3, 16e-3};
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    begin(policy, 2, &want);
    assert_true(want.steps == 5);
    tell(policy, &want, even, 1);
    assert_true(want.steps == 2);
    tell(policy, &want, even + 1, 2);
    assert_int_equal(want.workers, 2);
    begin(policy, 2, &want);
    tell(policy, &want, uneven, 3);
    assert_true(want.workers == 1 && !want.calm && want.steps == 5);
    /* Two windows of five steps that are 2/3 of their mean from each other: a step is off by 1.05
     * of it. A quarter, half of what may be gained, takes 18 steps, and some as few windows tell of
     * it. */
    assert_in_range(tell_until(policy, &want, next, 2), 6, 6);
}

/* A rate is that of all windows, whatever a step took in each of them. */
static void test_joins(void **state)
{
    const stk__pace_seen seen[] = {
        {.steps = 5}, {.steps = 2, .step = 19e-3}, {.steps = 2, .step = 1e-3}};
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    begin(policy, 4, &want);
    for (size_t i = 0; i < STK_COUNT(seen); i++) {
        stk__pace_seen s = seen[i];
        s.wait = s.wait_work = s.steps * (20e-3 - s.step);
        s.workers = s.depth = 1;
        stk__pace_policy_table.next(policy, &s, &want);
    }
    /* Half of the time is waited: twice as many. */
    assert_int_equal(want.workers, 2);
}

/* What was put back by steps that happened to be even is tried again when they are not, by far. */
static void test_too_early(void **state)
{
    const double even[] = {10e-3, 10e-3, 10e-3, 10e-3, 10e-3, 10e-3, 10e-3},
                 uneven[] = {10e-3, 40e-3}, less[] = {10e-3, 11e-3};
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    for (int slightly = 0; slightly < 2; slightly++) {
        begin(policy, 2, &want);
        tell(policy, &want, even, 3);
        assert_int_equal(want.workers, 2);
        tell(policy, &want, even, 2); /* what was ahead, and the trial */
        assert_int_equal(want.workers, 1);
        tell(policy, &want, even, 7);
        assert_true(want.workers == 1 && want.calm);
        if (slightly)
            assert_int_equal(tell_until(policy, &want, less, 2), 1000);
        else
            assert_in_range(tell_until(policy, &want, uneven, 2), 2, 20);
    }
}

/* Some workers fewer have to be as fast for certain; it is told after 1,000 steps at most, of those
 * before and of those since. */
static void test_fewer(void **state)
{
    const double uneven[] = {10e-3, 14e-3}, slower[] = {14.2e-3, 10.2e-3}, wild[] = {9e-3, 200e-3};
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    stk__pace_policy_table.begin(policy, &(stk__pace_limits){1, 2, 1, 1}, 2, 1, &want);
    assert_in_range(tell_until(policy, &want, uneven, 1), 27, 27);
    assert_in_range(tell_until(policy, &want, slower, 2), 9, 10);
    stk__pace_policy_table.begin(policy, &(stk__pace_limits){1, 2, 1, 1}, 2, 1, &want);
    assert_in_range(tell_until(policy, &want, wild, 1), 195, 205);
}

/* What is waited for a twentieth of the time is left as it is. */
static void test_little(void **state)
{
    const double little[] = {8.3e-3, 8.3e-3}, more[] = {8.5e-3, 8.5e-3};
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    stk__pace_policy_table.begin(policy, &(stk__pace_limits){1, 2, 1, 1}, 2, 1, &want);
    assert_int_equal(tell_until(policy, &want, little, 1), 1000);
    assert_in_range(tell_until(policy, &want, more, 1), 1, 2);
}

/* Of another load nothing is known: that the one before scattered does not count. */
static void test_another(void **state)
{
    const double uneven[] = {60e-3, 20e-3}, even[] = {10e-3, 10e-3};
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    begin(policy, 2, &want);
    for (int i = 0; i < 2000 && !(want.workers == 1 && want.calm); i++)
        tell(policy, &want, &uneven[i % 2], 1);
    assert_true(want.workers == 1 && want.calm);
    /* Three seconds of 50 ms each, and two looks. */
    assert_in_range(tell_until(policy, &want, even, 2), 60, 66);
}

/* A window that is as none before is waited for, and then counts; one that waits for what may be
 * tried counts at once. */
static void test_odd(void **state)
{
    const double calm[] = {8e-3, 8e-3, 8e-3, 8e-3, 8e-3, 8e-3}, late = 16e-3;
    char policy[STK__PACE_STATE];
    stk__pace_want want;

    (void)state;
    begin(policy, 2, &want);
    tell(policy, &want, calm, 6);
    assert_true(want.calm && want.workers == 1);
    assert_in_range(tell_until(policy, &want, (const double[]){late, late}, 2), 1, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_looks_for_longer),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_too_early),
        cmocka_unit_test(test_another),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_fewer),
        cmocka_unit_test(test_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
