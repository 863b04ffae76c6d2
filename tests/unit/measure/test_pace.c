/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the workers and reads of a loader move: on loads whose rate is known in closed form, from
 * wrong starts, with noise, and when the load becomes another one.
 */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#include "base/json.h"
#include "measure/pace.h"

#define BATCH  16
#define SETTLE 100 /* steps, after which nothing is to be changed any more */

/* ---- Loads ------------------------------------------------------------------------------------
 */

typedef struct load {
    double prepare, read, step; /* s of a worker, of a read, of a step */
    double cores;               /* that prepare, where it computes; 0: it sleeps */
    double bandwidth;           /* reads/s; 0: no limit */
    double crowd;               /* with more workers than cores each is so much slower */
} load;

static double work_seconds(const load *l, uint32_t workers)
{
    double at_once = workers;

    if (l->cores > 0 && at_once > l->cores)
        at_once = l->cores / (1 + l->crowd * (at_once / l->cores - 1));
    return BATCH * l->prepare / at_once;
}

static double read_seconds(const load *l, uint32_t depth)
{
    const double by_latency = BATCH * l->read / depth,
                 by_bytes = l->bandwidth > 0 ? BATCH / l->bandwidth : 0;

    return STK_MAX(by_latency, by_bytes);
}

/* Seconds of a step with its wait. */
static double cycle(const load *l, uint32_t workers, uint32_t depth)
{
    return STK_MAX(STK_MAX(work_seconds(l, workers), read_seconds(l, depth)), l->step);
}

static stk__pace_seen see(const load *l, const stk__pace_want *now, double noise, uint64_t *draws)
{
    const double off = 1 + noise * ((double)((*draws)++ * 7919 % 101) / 50 - 1),
                 all = STK_MAX(cycle(l, now->workers, now->depth) * off, l->step),
                 work = work_seconds(l, now->workers), read = read_seconds(l, now->depth);
    uint32_t steps = now->steps;

    while (steps * all < now->seconds)
        steps++;
    stk__pace_seen seen = {.steps = steps,
                           .step = l->step,
                           .wait = steps * (all - l->step),
                           .workers = now->workers,
                           .depth = now->depth};
    if (work >= read)
        seen.wait_work = seen.wait;
    else if (l->bandwidth > 0 && BATCH / l->bandwidth >= BATCH * l->read / now->depth)
        seen.wait_transfer = seen.wait;
    else
        seen.wait_reads = seen.wait;
    return seen;
}

/* ---- A loader of them -------------------------------------------------------------------------
 */

typedef struct paced {
    char state[STK__PACE_STATE];
    stk__pace_limits limits;
    stk__pace_want want;
    uint64_t steps, changes, last_change, draws; /* last_change: the step of it */
} paced;

static paced begin(uint32_t workers, uint32_t depth)
{
    paced p = {.limits = {1, 16, 1, 256}};

    assert_true(stk__pace_policy_table.state_bytes <= sizeof p.state);
    stk__pace_policy_table.begin(p.state, &p.limits, workers, depth, &p.want);
    return p;
}

static void run(paced *p, const load *l, uint64_t steps, double noise)
{
    const uint64_t end = p->steps + steps;

    while (p->steps < end) {
        const stk__pace_seen seen = see(l, &p->want, noise, &p->draws);
        p->steps += seen.steps;
        stk__pace_policy_table.next(p->state, &seen, &p->want);
        assert_true(p->want.workers >= 1 && p->want.workers <= 16);
        assert_true(p->want.depth >= 1 && p->want.depth <= 256);
        const bool changed = p->want.workers != seen.workers || p->want.depth != seen.depth;
        assert_true(changed == (p->want.why != NULL));
        if (changed) {
            p->changes++;
            p->last_change = p->steps;
        }
    }
}

static double best_cycle(const load *l)
{
    double best = INFINITY;

    for (uint32_t w = 1; w <= 16; w *= 2)
        for (uint32_t d = 1; d <= 256; d *= 4)
            best = STK_MIN(best, cycle(l, w, d));
    return best;
}

static const load loads[] = {
    {.prepare = 1e-3, .step = 10e-3},
    {.prepare = 4e-3, .step = 10e-3},
    {.prepare = 10e-3, .step = 5e-3},
    {.prepare = 0.1e-3, .step = 20e-3},
    {.prepare = 2e-3, .step = 0},
    {.prepare = 1e-3, .step = 8e-3, .cores = 4},
    {.prepare = 4e-3, .step = 8e-3, .cores = 4},
    {.prepare = 4e-3, .step = 8e-3, .cores = 4, .crowd = 0.3},
    {.prepare = 3e-3, .step = 8e-3, .cores = 2, .crowd = 0.5},
    {.prepare = 2e-3, .step = 30e-3, .cores = 8},
    {.prepare = 0.1e-3, .read = 10e-3, .step = 10e-3},
    {.prepare = 0.1e-3, .read = 50e-3, .step = 10e-3},
    {.prepare = 1e-3, .read = 20e-3, .step = 5e-3},
    {.prepare = 4e-3, .read = 20e-3, .step = 10e-3},
    {.prepare = 2e-3, .read = 100e-3, .step = 20e-3},
    {.prepare = 0.5e-3, .read = 5e-3, .step = 10e-3, .bandwidth = 1000},
    {.prepare = 0.5e-3, .read = 5e-3, .step = 10e-3, .bandwidth = 4000},
    {.prepare = 2e-3, .read = 10e-3, .step = 4e-3, .cores = 4, .crowd = 0.2},
    {.prepare = 6e-3, .read = 60e-3, .step = 50e-3, .cores = 6},
    {.prepare = 0.01e-3, .read = 1e-3, .step = 1e-3},
};

static const uint32_t starts[][2] = {{1, 1}, {1, 64}, {16, 1}, {16, 256}, {2, 16}, {5, 3}};

/* Whatever it starts from it comes to what the best fixed setting gives, and stays there. */
static void settle(double noise, double least)
{
    _Static_assert(STK_COUNT(loads) == 20, "twenty loads");
    for (size_t i = 0; i < STK_COUNT(loads); i++)
        for (size_t k = 0; k < STK_COUNT(starts); k++) {
            const load *l = &loads[i];
            paced p = begin(starts[k][0], starts[k][1]);
            run(&p, l, SETTLE, noise);
            const double rate = best_cycle(l) / cycle(l, p.want.workers, p.want.depth);
            if (!(rate >= least))
                fail_msg("load %zu from %u, %u: %u workers, depth %u: %.2f of the best", i,
                         starts[k][0], starts[k][1], p.want.workers, p.want.depth, rate);
            run(&p, l, 20000, noise);
            if (p.last_change > SETTLE + 10)
                fail_msg("load %zu from %u, %u: changed at step %llu", i, starts[k][0],
                         starts[k][1], (unsigned long long)p.last_change);
            assert_true(p.changes <= 12);
        }
}

static void test_settles(void **state)
{
    (void)state;
    settle(0, 0.95);
}

static void test_settles_with_noise(void **state)
{
    (void)state;
    settle(0.02, 0.93);
}

/* What is fixed does not move, whatever is waited for. */
static void test_fixed(void **state)
{
    paced p = {.limits = {2, 2, 1, 256}};

    (void)state;
    stk__pace_policy_table.begin(p.state, &p.limits, 2, 4, &p.want);
    for (uint64_t i = 0; i < 200; i++) {
        const stk__pace_seen seen = see(&loads[13], &p.want, 0, &p.draws);
        stk__pace_policy_table.next(p.state, &seen, &p.want);
        assert_int_equal(p.want.workers, 2);
    }
}

/* Windows of steps that wait for workers half of the time. */
static void tell(paced *p, uint32_t windows, double rate)
{
    for (uint32_t i = 0; i < windows; i++) {
        const double seconds = STK_MAX(p->want.steps / rate, p->want.seconds);
        const stk__pace_seen seen = {.steps = (uint32_t)ceil(seconds * rate),
                                     .step = 0.5 / rate,
                                     .wait = seconds / 2,
                                     .wait_work = seconds / 2,
                                     .workers = p->want.workers,
                                     .depth = p->want.depth};
        stk__pace_policy_table.next(p->state, &seen, &p->want);
        p->changes += p->want.workers != seen.workers;
    }
}

/* Where fewer came to as much as more, these are not tried again, though they were better once, as
 * noise can have it: it would go to and fro. */
static void test_not_to_and_fro(void **state)
{
    paced p = {.limits = {4, 8, 1, 1}};

    (void)state;
    stk__pace_policy_table.begin(p.state, &p.limits, 4, 1, &p.want);
    tell(&p, 3, 100); /* what was there at first, and two looks: they tell whether steps scatter */
    assert_int_equal(p.want.workers, 8);
    tell(&p, 2, 110); /* what was ahead, and the trial: kept, and half of them are tried */
    assert_int_equal(p.want.workers, 4);
    tell(&p, 2, 109);
    tell(&p, 100, 110);
    assert_int_equal(p.want.workers, 4);
    assert_int_equal(p.changes, 2);
    /* Once the load is another one, three windows long, they are. */
    tell(&p, 4, 50);
    assert_int_equal(p.want.workers, 8);
}

/* A window of steps that wait for half of the time, of that so much for workers. */
static void tell_both(paced *p, double rate, double work)
{
    const double wait = p->want.steps / rate / 2;
    const stk__pace_seen seen = {.steps = p->want.steps,
                                 .step = 0.5 / rate,
                                 .wait = wait,
                                 .wait_work = wait * work,
                                 .wait_reads = wait * (1 - work),
                                 .workers = p->want.workers,
                                 .depth = p->want.depth};

    stk__pace_policy_table.next(p->state, &seen, &p->want);
}

/* More workers give nothing as long as reads are too few: once there are more of these, they are
 * tried again. Steps that a disturbance makes slower are no reason to put them back. */
static void test_one_behind_the_other(void **state)
{
    paced p = begin(1, 64);

    (void)state;
    for (int i = 0; i < 3; i++)
        tell_both(&p, 100, 0.8);
    assert_int_equal(p.want.workers, 2);
    tell_both(&p, 100, 0.6);
    tell_both(&p, 101, 0.6); /* no faster, and not for something else */
    assert_int_equal(p.want.workers, 1);
    tell_both(&p, 100, 0.8);
    tell_both(&p, 100, 0.8);
    assert_int_equal(p.want.depth, 128);
    tell_both(&p, 110, 1);
    tell_both(&p, 110, 1); /* kept, and workers are tried again */
    assert_int_equal(p.want.depth, 128);
    assert_int_equal(p.want.workers, 2);
    tell_both(&p, 106, 0);
    tell_both(&p, 106, 0); /* reads are what is waited for now */
    assert_int_equal(p.want.workers, 2);
    assert_int_equal(p.want.depth, 256);
}

/* Windows at 100 steps/s that wait for such shares of the time. */
static void tell_waits(paced *p, uint32_t windows, double work, double transfer)
{
    for (uint32_t i = 0; i < windows; i++) {
        const double seconds = p->want.steps / 100.0;
        const stk__pace_seen seen = {.steps = p->want.steps,
                                     .step = 0.01 * (1 - work - transfer),
                                     .wait = seconds * (work + transfer),
                                     .wait_work = seconds * work,
                                     .wait_transfer = seconds * transfer,
                                     .workers = p->want.workers,
                                     .depth = p->want.depth};
        stk__pace_policy_table.next(p->state, &seen, &p->want);
        p->changes += p->want.workers != seen.workers;
    }
}

/* What is waited for too little to be worth it is left as it is, whatever else is waited for. */
static void test_worth(void **state)
{
    paced p = begin(4, 64);

    (void)state;
    tell_waits(&p, 100, 0.045, 0.4);
    assert_int_equal(p.changes, 0);
    tell_waits(&p, 1, 0.055, 0.4);
    assert_int_equal(p.want.workers, 8);
}

/* Fewer workers are tried where they may take the cores from each other, not where bytes are late.
 */
static void test_late_bytes(void **state)
{
    paced p = begin(16, 64);

    (void)state;
    tell_waits(&p, 100, 0.3, 0.05);
    assert_int_equal(p.changes, 0);
    tell_waits(&p, 1, 0.3, 0.02);
    assert_int_equal(p.want.workers, 8);
}

/* Half of two is one less, too: what was put back is not tried under another name. */
static void test_fewer_once(void **state)
{
    paced p = {.limits = {1, 2, 1, 1}};

    (void)state;
    stk__pace_policy_table.begin(p.state, &p.limits, 2, 1, &p.want);
    tell(&p, 3, 100);
    assert_int_equal(p.want.workers, 1);
    tell(&p, 2, 60);
    assert_int_equal(p.want.workers, 2);
    tell(&p, 100, 100);
    assert_int_equal(p.changes, 2);
    /* Of three one less is another number than half of them. */
    p = (paced){.limits = {1, 3, 1, 1}};
    stk__pace_policy_table.begin(p.state, &p.limits, 3, 1, &p.want);
    tell(&p, 3, 100);
    assert_int_equal(p.want.workers, 1);
    tell(&p, 2, 60);
    assert_int_equal(p.want.workers, 3);
    tell(&p, 2, 100);
    assert_int_equal(p.want.workers, 2);
}

/* Where it is not as it was before what was put back the load became another one meanwhile, and all
 * is tried again: at once, and later ever more seldom. */
static void test_other_within_a_trial(void **state)
{
    paced p = {.limits = {1, 2, 1, 1}};

    (void)state;
    stk__pace_policy_table.begin(p.state, &p.limits, 1, 1, &p.want);
    tell(&p, 3, 100);
    assert_int_equal(p.want.workers, 2);
    tell(&p, 2, 30); /* of another load */
    assert_int_equal(p.want.workers, 1);
    tell(&p, 2, 15); /* that it is one is seen */
    tell(&p, 2, 15);
    assert_int_equal(p.want.workers, 2);
    /* What is put back ever again is not followed each time. */
    for (uint32_t windows = 1; windows < 400; windows += windows / 2 + 1) {
        p = (paced){.limits = {1, 2, 1, 1}};
        stk__pace_policy_table.begin(p.state, &p.limits, 1, 1, &p.want);
        for (uint32_t i = 0; i < 40000 / windows; i++)
            tell(&p, windows, i % 2 ? 100 : 20);
        assert_true(p.changes < 20);
    }
}

/* Looks are short at first, where what is ahead hides what is to come, and seldom later. */
static void test_looks(void **state)
{
    paced p = begin(4, 64);

    (void)state;
    tell_waits(&p, 12, 0, 0); /* 54 steps */
    assert_true(p.want.calm);
    assert_true(fabs(p.want.seconds - 0.054) < 1e-9);
    tell_waits(&p, 400, 0, 0);
    assert_true(p.want.seconds == 1);
    /* Three short ones that differ make no other load; three seconds of them do. */
    p = (paced){.limits = {1, 2, 1, 1}};
    stk__pace_policy_table.begin(p.state, &p.limits, 2, 1, &p.want);
    tell(&p, 3, 100);
    tell(&p, 2, 60);
    tell(&p, 2, 100);
    assert_int_equal(p.changes, 2);
    tell(&p, 4, 60);
    assert_int_equal(p.changes, 2);
    tell(&p, 40, 60);
    assert_true(p.changes > 2);
}

/* Another program takes cores. */
static void test_neighbour(void **state)
{
    const load free = {.prepare = 4e-3, .step = 8e-3, .cores = 8, .crowd = 0.3};
    load taken = free;
    paced p = begin(1, 16);

    (void)state;
    taken.cores = 2;
    run(&p, &free, SETTLE, 0);
    assert_true(best_cycle(&free) / cycle(&free, p.want.workers, p.want.depth) >= 0.95);
    const uint64_t changes = p.changes;
    run(&p, &taken, 2000, 0);
    assert_true(p.changes > changes);
    /* Those that only take the cores from each other are sent to sleep. */
    assert_true(best_cycle(&taken) / cycle(&taken, p.want.workers, p.want.depth) >= 0.95);
    assert_true(p.want.workers <= 4);
}

/* A load that changes for ever is followed ever more slowly. */
static void test_bounded(void **state)
{
    const load a = {.prepare = 4e-3, .step = 2e-3, .cores = 8, .crowd = 0.3},
               b = {.prepare = 12e-3, .step = 2e-3, .cores = 2, .crowd = 0.3};
    paced p = begin(1, 16);

    (void)state;
    for (int i = 0; i < 2000; i++)
        run(&p, i % 2 ? &b : &a, 500, 0.02);
    assert_true(p.changes < 80);
    const uint64_t before = p.changes;
    for (int i = 0; i < 200; i++)
        run(&p, i % 2 ? &b : &a, 500, 0.02);
    assert_true(p.changes - before < 8);
}

/* ---- From a log -------------------------------------------------------------------------------
 */

static stk__pace_seen seen_of(const json_t *e)
{
    return (stk__pace_seen){.steps = (uint32_t)json_integer_value(json_object_get(e, "steps")),
                            .step = json_number_value(json_object_get(e, "step")),
                            .wait = json_number_value(json_object_get(e, "wait")),
                            .wait_reads = json_number_value(json_object_get(e, "wait_reads")),
                            .wait_transfer = json_number_value(json_object_get(e, "wait_transfer")),
                            .wait_work = json_number_value(json_object_get(e, "wait_work")),
                            .workers = (uint32_t)json_integer_value(json_object_get(e, "workers")),
                            .depth = (uint32_t)json_integer_value(json_object_get(e, "depth"))};
}

/* A line of the log, asked again: the same is wanted. */
static void replay(const json_t *e, char *policy, bool first)
{
    const json_t *limits = json_object_get(e, "limits");
    const stk__pace_seen seen = seen_of(e);
    stk__pace_want want;

    if (first) {
        const stk__pace_limits of = {(uint32_t)json_integer_value(json_array_get(limits, 0)),
                                     (uint32_t)json_integer_value(json_array_get(limits, 1)),
                                     (uint32_t)json_integer_value(json_array_get(limits, 2)),
                                     (uint32_t)json_integer_value(json_array_get(limits, 3))};
        stk__pace_policy_table.begin(policy, &of, seen.workers, seen.depth, &want);
    }
    stk__pace_policy_table.next(policy, &seen, &want);
    assert_int_equal(want.workers, json_integer_value(json_object_get(e, "num_workers")));
    assert_int_equal(want.depth, json_integer_value(json_object_get(e, "io_depth")));
    assert_string_equal(want.why ? want.why : "", json_string_value(json_object_get(e, "why")));
}

static void read_all(stk_context *ctx, const char *log)
{
    stk_loader_options options;
    stk_event_log *events = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch;
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = 4;
    options.epochs = 1;
    assert_ok(stk_event_log_open(ctx, log, &events, &err), &err);
    assert_ok(stk_dataset_open(ctx, "synthetic:?size=480&delay=1ms", &dataset, &err), &err);
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    while (stk_loader_next(loader, -1, &batch, &err) == STK_OK)
        stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    assert_ok(stk_event_log_close(&events, &err), &err);
}

static void test_replay(void **state)
{
    char folder[256], path[300], line[4096], policy[STK__PACE_STATE];
    stk_context *ctx = test_context();
    uint64_t lines = 0;
    stk_error err;

    (void)state;
    test_folder(folder);
    snprintf(path, sizeof path, "%s/log", folder);
    read_all(ctx, path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (!strstr(line, "\"event\": \"pace\""))
            continue;
        stk__json doc = {0};
        assert_ok(stk__json_parse(ctx, line, strlen(line), "log", &doc, &err), &err);
        replay(doc.value, policy, lines++ == 0);
        stk__json_drop(ctx, &doc);
    }
    fclose(file);
    /* 120 steps that only wait, of five at least. */
    assert_true(lines >= 3);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_settles_with_noise),
        cmocka_unit_test(test_worth),
        cmocka_unit_test(test_late_bytes),
        cmocka_unit_test(test_fewer_once),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_other_within_a_trial),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_not_to_and_fro),
        cmocka_unit_test(test_neighbour),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_one_behind_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
