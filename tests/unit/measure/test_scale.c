/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks whose rate is known in closed form, and what may never be the other way round. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "measure/scale.h"
#include "measure/simulate.h"
#include "unit/measure/near.h"

static stk_context *ctx;
static stk_error err;

static int set_up(void **state)
{
    ctx = test_context();
    return 0;
}

static int tear_down(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

/* ---- Formulas ---- */

#define MINUTE 60.0
#define HOUR   3600.0

static void test_all_reduce(void **state)
{
    (void)state;
    assert_true(stk__scale_all_reduce(STK__COLLECTIVE_TREE, 1, 1e9, 1, 1e9) == 0);
    assert_near(stk__scale_all_reduce(STK__COLLECTIVE_TREE, 2, 1e9, 1e-3, 1e9), 2e-3 + 1, 1e-12);
    assert_near(stk__scale_all_reduce(STK__COLLECTIVE_TREE, 1000, 0, 1e-3, 1e9), 20e-3, 1e-12);
    assert_near(stk__scale_all_reduce(STK__COLLECTIVE_RING, 1000, 0, 1e-3, 1e9), 1.998, 1e-12);
    assert_near(stk__scale_all_reduce(STK__COLLECTIVE_RING, 4, 4e9, 0, 1e9), 6, 1e-12);
    assert_true(stk__scale_all_reduce(STK__COLLECTIVE_RING, 4, 4e9, 0, (double)NAN) == 0);
}

/* What Daly's paper gives for its figures 3, 4 and 5: a checkpoint of 5 minutes. */
static void test_interval(void **state)
{
    (void)state;
    assert_near(stk__scale_interval(24 * HOUR, 5 * MINUTE), 117 * MINUTE, 0.005);
    assert_near(stk__scale_interval(6 * HOUR, 5 * MINUTE), 57 * MINUTE, 0.01);
    assert_near(stk__scale_interval(15 * MINUTE, 5 * MINUTE), 9.1 * MINUTE, 0.01);
    assert_near(stk__scale_interval(60, 120), 60, 1e-12);
    assert_near(stk__scale_interval_first(24 * HOUR, 5 * MINUTE), 120 * MINUTE, 1e-12);
    assert_true(stk__scale_interval(HOUR, 0) == 0);
}

/* Nothing is lost less than with the interval that is said to be best: by formula and simulation,
 * whose failures know nothing of it. */
static void test_failures(void **state)
{
    static const struct {
        double mtbf, checkpoint, restart;
    } cases[] = {{24 * HOUR, 5 * MINUTE, 10 * MINUTE},
                 {6 * HOUR, 5 * MINUTE, 10 * MINUTE},
                 {15 * MINUTE, 5 * MINUTE, 10 * MINUTE},
                 {HOUR, 1, 0}};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const double m = cases[i].mtbf, c = cases[i].checkpoint, r = cases[i].restart,
                     best = stk__scale_interval(m, c), least = stk__scale_lost(m, c, r, best);
        double simulated = 0;
        for (double by = 0.25; by < 5; by *= 2) {
            const double lost = stk__scale_lost(m, c, r, by * best);
            const double seen = stk__scale_simulate_lost(m, c, r, by * best, 200000, 1u << 22, 3);
            assert_near(1 - seen, 1 - lost, 0.02);
            assert_true(by == 1 || lost > least);
            if (by == 1)
                simulated = seen;
        }
        for (double by = 0.25; by < 5; by *= 16)
            assert_true(stk__scale_simulate_lost(m, c, r, by * best, 200000, 1u << 22, 3) >
                        simulated);
    }
    /* Without failures in sight a checkpoint is all that is lost. */
    assert_near(stk__scale_lost(1e15, 1, 60, 99), 0.01, 1e-6);
    assert_near(stk__scale_simulate_lost(1e15, 1, 60, 99, 100, 100, 1), 0.01, 1e-9);
    /* Nothing ever gets done. */
    assert_true(stk__scale_lost(1, 1000, 0, 1) > 0.999);
    assert_true(stk__scale_simulate_lost(1, 1000, 0, 1, 100, 1000, 1) == 1);
    assert_true(stk__scale_simulate_lost(1, 0, 1000, 1, 100, 1000, 1) > 0.9);
}

/* ---- Ranks ---- */

#define BATCH 10
#define STEPS 4096

static float steps[STEPS];

/* A step of 10 ms that sleeps, and samples that are no matter. */
static stk_figures planted(void)
{
    return (stk_figures){.struct_size = sizeof(stk_figures),
                         .steps = STEPS,
                         .samples = (uint64_t)STEPS * BATCH,
                         .batch_size = BATCH,
                         .num_workers = 4,
                         .io_depth = 4,
                         .prefetch = 2,
                         .step_time = 10e-3,
                         .step_stretch = 1,
                         .wall = 41,
                         .prepare_busy = 20e-6 * STEPS * BATCH,
                         .budget_bytes = UINT64_C(1) << 30,
                         .bytes_taken = (uint64_t)STEPS * BATCH * 1000,
                         .ranks = 1};
}

static stk_scaled predict_of(const stk_figures *f, uint64_t num_steps, const char *text)
{
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = f, .steps = steps, .num_steps = num_steps};
    stk_scaled out = {.struct_size = sizeof out};
    uint64_t ranks[STK_SCALE_RANKS];
    stk_what_if what;
    stk_scale scale;
    size_t n;

    stk_scale_init(&scale);
    stk_what_if_init(&what);
    assert_ok(stk_scale_parse(ctx, text, &scale, &what, ranks, &n, &err), &err);
    assert_ok(stk_predict_scale(ctx, &recording, &what, &scale, &out, &err), &err);
    assert_int_equal(out.ranks, ranks[0]);
    return out;
}

static stk_scaled predict(const char *text)
{
    const stk_figures f = planted();

    return predict_of(&f, 0, text);
}

static void test_even_steps(void **state)
{
    (void)state;
    /* All alike, and nothing between them: nothing is lost. */
    const stk_scaled free = predict("ranks=1024");
    assert_near(free.efficiency, 1, 1e-9);
    assert_near(free.samples_per_s, 1024 * 1000.0, 1e-6);
    assert_int_equal(free.machines, 128);
    assert_true(free.behind < 1e-9 && free.comm == 0);
    /* An all-reduce of 2 * 10 * 50 us + 2 * 1023/1024 * 10 MB / 10 GB/s after each. */
    const double comm = 1e-3 + 2e-3 * 1023 / 1024;
    const stk_scaled s = predict("ranks=1024,alpha=50us,beta=10GB/s,gradients=10MB");
    assert_near(s.comm, comm, 1e-9);
    assert_near(s.comm_wait, comm, 1e-9);
    assert_near(s.efficiency, 10e-3 / (10e-3 + comm), 1e-6);
    assert_near(s.step, 10e-3, 1e-6);
    assert_near(s.one_per_s, 1000, 1e-6);
    /* Behind a fifth of the step two of the three milliseconds are hidden. */
    const stk_scaled hidden =
        predict("ranks=1024,alpha=50us,beta=10GB/s,gradients=10MB,overlap=0.2");
    assert_near(hidden.comm_wait, comm - 2e-3, 1e-6);
    assert_near(hidden.efficiency, 10e-3 / (8e-3 + comm), 1e-6);
    assert_true(predict("ranks=8,alpha=50us,overlap=1").comm_wait == 0);
    /* Where ranks share cores, what each of them does for it takes its turn: four to a core. */
    const double alone = predict("ranks=8,cores=8,alpha=50us").comm;
    assert_near(predict("ranks=8,cores=2,alpha=50us").comm, 4 * alone, 1e-9);
    assert_near(predict("ranks=64,per_machine=2,cores=2,alpha=50us").comm, 2 * alone, 1e-9);
    /* One slow step of all: 1 - 0.999^64 of them. */
    const stk_scaled slow = predict("ranks=64,slow_share=0.001,slow_factor=3");
    assert_near(slow.efficiency, 10 / (10 + 20 * (1 - pow(0.999, 64))), 1e-6);
    assert_near(slow.behind, 20e-3 * (1 - pow(0.999, 64)), 1e-6);
}

/* Steps that take twice as long one time in a hundred: the slowest of N does so 1 - 0.99^N of the
 * time. */
static void test_uneven_steps(void **state)
{
    stk_figures f = planted();
    double mean = 0;

    (void)state;
    for (uint64_t i = 0; i < STEPS; i++) {
        uint32_t words[4];
        stk__draw(5, i, 0, STK_DRAW_DATA, words, 4);
        steps[i] = words[0] % 100 == 0 ? 20e-3F : 10e-3F;
        mean += (double)steps[i] / STEPS;
    }
    f.step_time = mean;
    for (double n = 1; n <= 1024; n *= 4) {
        char text[64];
        snprintf(text, sizeof text, "ranks=%.0f", n);
        const stk_scaled s = predict_of(&f, STEPS, text);
        const double slowest = 10e-3 * (2 - pow(0.99, n));
        assert_near(s.samples_per_s / n, BATCH / slowest, 0.06);
        assert_near(s.step + s.wait + s.behind + s.comm_wait, n * BATCH / s.samples_per_s, 0.01);
    }
}

/* Ranks do not have their long steps together: they begin at different places of the records. */
static void test_places(void **state)
{
    const stk_figures f = planted();
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .steps = steps, .num_steps = 3};
    stk__simulated one = {0};
    double waits[STK__SIMULATED_STEPS];
    stk__stages stages;
    stk__setting set;

    (void)state;
    for (int i = 0; i < 3; i++)
        steps[i] = i == 2 ? 40e-3F : 10e-3F;
    one.waits = waits;
    assert_ok(stk__stages_of(ctx, &recording, &stages, &err), &err);
    stk__setting_of(&recording, &stages, &set);
    set.ranks = 3;
    set.meets = true;
    assert_ok(stk__simulate(&stages, &set, 0, &one, &err), &err);
    assert_near(one.samples_per_s, 3 * BATCH / 40e-3, 0.02);
    stk__stages_release(&stages);
}

/* More ranks are never more efficient, and no rank is faster for it. */
static void test_monotone(void **state)
{
    static const char *const others[] = {
        "",
        ",alpha=20us,beta=1GB/s,gradients=100MB",
        ",alpha=1ms,collective=ring",
        ",per_machine=4,cores=4",
        ",slow_share=0.0001,slow_factor=2",
        ",mtbf=50000h,checkpoint=30s,restart=5m,alpha=20us",
    };
    const stk_figures f = planted();

    (void)state;
    for (uint64_t i = 0; i < STEPS; i++)
        steps[i] = 8e-3F + 4e-6F * (float)(i * 7919 % 1000);
    for (size_t k = 0; k < STK_COUNT(others); k++) {
        double efficiency = 1.02, lost = 0, comm = 0;
        for (uint64_t n = 1; n <= 4096; n *= 4) {
            char text[128];
            snprintf(text, sizeof text, "ranks=%llu%s", (unsigned long long)n, others[k]);
            const stk_scaled s = predict_of(&f, STEPS, text);
            if (!(s.efficiency <= efficiency * 1.01))
                fail_msg("%s: efficiency %.4g is more than %.4g", text, s.efficiency, efficiency);
            assert_true(s.efficiency > 0 && s.comm >= comm && s.lost_share >= lost);
            assert_true(s.useful_per_s <= s.samples_per_s);
            efficiency = s.efficiency;
            lost = s.lost_share;
            comm = s.comm;
        }
    }
}

/* 160 cores for 8 accelerators carry 8 loaders of 18 workers; 8 cores do not. */
static void test_machine(void **state)
{
    stk_figures f = planted();

    (void)state;
    f.prepare_busy = 17e-3 * (double)f.samples;
    f.cpu_s = f.prepare_busy;
    f.usable_cores = 160;
    f.num_workers = 18;
    const stk_scaled enough = predict_of(&f, 0, "ranks=8,cores=160");
    assert_near(enough.efficiency, 1, 0.02);
    assert_near(enough.one_per_s, 1000, 0.02);
    const stk_scaled few = predict_of(&f, 0, "ranks=8,cores=80");
    assert_near(few.samples_per_s, 80 / 17e-3, 0.03);
    assert_true(few.wait > 0.5e-3);
    /* Twice the machines have twice the cores. */
    assert_near(predict_of(&f, 0, "ranks=16,cores=80").samples_per_s, 2 * few.samples_per_s, 0.03);
}

/* Steps that compute take turns on cores, and those cost something; steps of accelerators do not.
 */
static void test_turns(void **state)
{
    stk_figures f = planted();
    char text[64];

    (void)state;
    f.usable_cores = 2;
    assert_near(predict_of(&f, 0, "ranks=8,cores=2").efficiency, 1, 1e-9);
    f.spin = true;
    f.compute_cores = 1;
    /* Next to nothing but steps: half a core for each of four, a quarter for each of eight. */
    f.prepare_busy = 0;
    assert_near(predict_of(&f, 0, "ranks=2,cores=2").efficiency, 1, 0.01);
    assert_near(predict_of(&f, 0, "ranks=4,cores=2").efficiency, 0.5 / 1.35, 0.02);
    const stk_scaled eight = predict_of(&f, 0, "ranks=8,cores=2");
    assert_near(eight.efficiency, 0.25 / 1.525, 0.02);
    /* Three on two cores: two have half a core each, and the third waits for them; a quota has no
     * cores to keep to. */
    assert_near(predict_of(&f, 0, "ranks=3,cores=2").efficiency, 0.5 / 1.35, 0.02);
    assert_near(predict_of(&f, 0, "ranks=3,cores=1.5").efficiency, 1 / 3.55, 0.02);
    assert_near(predict_of(&f, 0, "ranks=3,cores=2.5").efficiency, 1 / 1.85, 0.02);
    double last = 0;
    for (int quarters = 1; quarters <= 32; quarters++) {
        snprintf(text, sizeof text, "ranks=8,cores=%d.%02d", quarters / 4, quarters % 4 * 25);
        const double rate = predict_of(&f, 0, text).samples_per_s;
        assert_true(rate >= last * (1 - 1e-9));
        last = rate;
        text[6] = '1';
        assert_near(predict_of(&f, 0, text).efficiency, 1, 1e-6);
    }
    /* Cores of which others took a little are as many all the same. */
    f.other_cores = 0.05;
    assert_near(predict_of(&f, 0, "ranks=3").efficiency, 0.5 / 1.35, 0.04);
    assert_near(predict_of(&f, 0, "ranks=1").efficiency, 1, 1e-6);
    f.other_cores = 0;
    /* It is what the step does not take, nor its data. */
    assert_near(eight.behind, 0.525 * 40e-3, 0.02);
    /* So do workers, 10 ms a batch beside a step of as much: of four ranks each of two has 40 ms of
     * a core for both, and 0.7 of the other's 20. */
    f.prepare_busy = f.cpu_s = 1e-3 * (double)f.samples;
    f.num_workers = 1;
    const stk_scaled data = predict_of(&f, 0, "ranks=4,cores=2");
    assert_near(data.samples_per_s, 4 * BATCH / 54e-3, 0.02);
    assert_near(data.efficiency, 10.0 / 54, 0.02);
    f.prepare_busy = f.cpu_s = 0;
    /* What a step waits for is no longer for it. */
    assert_near(predict_of(&f, 0, "ranks=8,cores=2,alpha=50ms").behind, eight.behind, 0.02);
}

/* Steps that compute are longer where more cores do: those of all cores by the factor, fewer by
 * their share of it; those of accelerators are not. */
static void test_contention(void **state)
{
    stk_figures f = planted();

    (void)state;
    f.usable_cores = 4;
    assert_near(predict_of(&f, 0, "ranks=4,cores=4,contention=1.5").efficiency, 1, 1e-9);
    f.spin = true;
    f.compute_cores = 1;
    f.prepare_busy = 0;
    assert_near(predict_of(&f, 0, "ranks=4,cores=4,contention=1.5").efficiency, 1 / 1.5, 0.01);
    assert_near(predict_of(&f, 0, "ranks=3,cores=4,contention=1.3").efficiency, 1 / 1.2, 0.01);
    assert_near(predict_of(&f, 0, "ranks=1,cores=4,contention=1.3").efficiency, 1, 0.01);
    /* They share the cores besides. */
    const stk_scaled eight = predict_of(&f, 0, "ranks=8,cores=4,contention=1.5");
    assert_near(eight.efficiency, 0.5 / 1.5 / 1.35, 0.02);
    assert_near(eight.step, 30e-3, 0.02);
}

static stk_prediction what_if_of(const stk_figures *f, uint64_t num_steps, const char *text)
{
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = f, .steps = steps, .num_steps = num_steps};
    stk_prediction out = {.struct_size = sizeof out};
    stk_what_if what;

    stk_what_if_init(&what);
    assert_ok(stk_what_if_parse(ctx, text, &what, &err), &err);
    assert_ok(stk_predict(ctx, &recording, &what, &out, &err), &err);
    return out;
}

/* Ranks of one machine are the same ranks, whoever is asked: steps that sleep, steps that compute,
 * and workers that do, whose steps are all alike or long at times. */
static void test_what_if(void **state)
{
    static const struct {
        bool spin, uneven;
        double prepare; /* s of a worker for a sample */
    } rows[] = {{false, false, 20e-6}, {false, true, 20e-6}, {true, false, 0},
                {true, true, 0},       {true, false, 1e-3},  {true, true, 1e-3}};
    char text[64];

    (void)state;
    for (uint64_t i = 0; i < STEPS; i++)
        steps[i] = i % 16 == 3 ? 20e-3F : 10e-3F;
    for (size_t k = 0; k < STK_COUNT(rows); k++) {
        stk_figures f = planted();
        f.usable_cores = 2;
        f.spin = rows[k].spin;
        f.compute_cores = 1;
        f.num_workers = 1;
        f.prepare_busy = f.cpu_s = rows[k].prepare * (double)f.samples;
        f.step_time = rows[k].uneven ? 10.625e-3 : 10e-3;
        const uint64_t n = rows[k].uneven ? STEPS : 0;
        for (int ranks = 1; ranks <= 8; ranks++) {
            snprintf(text, sizeof text, "ranks=%d,cores=2", ranks);
            const stk_prediction p = what_if_of(&f, n, text);
            /* Of the long steps of one fewer are drawn. */
            assert_near(p.samples_per_s, predict_of(&f, n, text).samples_per_s / ranks,
                        ranks == 1 && rows[k].uneven ? 0.03 : 1e-9);
            assert_true(p.low <= p.samples_per_s && p.samples_per_s <= p.high);
        }
        const stk_prediction one = what_if_of(&f, n, "ranks=1");
        assert_true(one.samples_per_s == one.base_samples_per_s);
        /* What was recorded of several ranks has their turns. */
        f.ranks = 4;
        const stk_prediction same = what_if_of(&f, n, "ranks=4");
        assert_true(same.samples_per_s == same.base_samples_per_s);
    }
}

static void test_storage(void **state)
{
    stk_figures f = planted();

    (void)state;
    f.requests = f.samples;
    f.bytes_read = f.samples * 100000;
    f.read_latency = 1e-3;
    f.read_seconds = 1e-3 * (double)f.samples;
    f.io_depth = 64;
    /* 16 ranks want 100 MB/s each. */
    assert_near(predict_of(&f, 0, "ranks=16").efficiency, 1, 0.01);
    assert_near(predict_of(&f, 0, "ranks=16,storage=800MB/s").samples_per_s, 8000, 0.03);
    assert_near(predict_of(&f, 0, "ranks=64,storage=800MB/s").samples_per_s, 8000, 0.03);
    assert_near(predict_of(&f, 0, "ranks=4,storage=800MB/s").efficiency, 1, 0.01);
    /* One rank has the storage to itself. */
    const stk_scaled many = predict_of(&f, 0, "ranks=256,storage=800MB/s");
    assert_near(many.one_per_s, 1000, 0.03);
    assert_near(many.efficiency, 8000 / 256e3, 0.05);
}

/* A job of 16,384 accelerators that fail once in 50,677 hours each is interrupted 419 times in 54
 * days. */
static void test_failing(void **state)
{
    (void)state;
    const stk_scaled s = predict("ranks=16384,mtbf=50677h,checkpoint=10s,restart=10m");
    assert_near(54 * 24 * HOUR / s.mtbf, 419, 0.001);
    assert_near(s.interval_first, sqrt(2 * 10 * s.mtbf), 1e-9);
    assert_true(s.lost_share > 0.05 && s.lost_share < 0.1);
    assert_near(s.lost_simulated, s.lost_share, 0.1);
    assert_near(s.useful_per_s, s.samples_per_s * (1 - s.lost_share), 1e-9);
    /* Without checkpoints nothing is kept: there is no interval to simulate. */
    assert_true(isnan(predict("ranks=16384,mtbf=50677h,restart=10m").lost_simulated));
    const stk_scaled none = predict("ranks=16384");
    assert_true(isinf(none.mtbf) && none.lost_share == 0 && none.interval == 0);
    assert_true(none.useful_per_s == none.samples_per_s);
}

/* ---- What is asked for ---- */

static void test_halves(void **state)
{
    static const char *const bad[][2] = {
        {"ranks=8,gradients=1MB", "scale.gradients changes nothing without beta"},
        {"ranks=8,gradients=1MB,alpha=1us", "scale.gradients changes nothing"},
        {"ranks=8,beta=1GB/s", "scale.beta changes nothing without gradients"},
        {"ranks=8,overlap=0.5", "scale.overlap changes nothing without alpha or beta"},
        {"ranks=8,slow_share=0.5", "scale.slow_share changes nothing without slow_factor"},
        {"ranks=8,slow_factor=2", "scale.slow_factor changes nothing without slow_share"},
        {"ranks=8,mtbf=5h", "scale.mtbf changes nothing without checkpoint or restart"},
        {"ranks=8,checkpoint=5s", "scale.checkpoint changes nothing without mtbf"},
        {"ranks=8,restart=5s", "scale.restart changes nothing without mtbf"}};
    const stk_figures f = planted();
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .steps = steps, .num_steps = 0};
    stk_scaled out = {.struct_size = sizeof out};
    uint64_t ranks[STK_SCALE_RANKS];
    stk_what_if what;
    stk_scale scale;
    size_t n;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        stk_scale_init(&scale);
        stk_what_if_init(&what);
        assert_ok(stk_scale_parse(ctx, bad[i][0], &scale, &what, ranks, &n, &err), &err);
        assert_fails(stk_predict_scale(ctx, &recording, &what, &scale, &out, &err), STK_EINVAL,
                     &err, bad[i][1]);
    }
}

static void test_parse(void **state)
{
    uint64_t ranks[STK_SCALE_RANKS];
    stk_what_if what;
    stk_scale scale;
    size_t n;

    (void)state;
    stk_scale_init(&scale);
    stk_what_if_init(&what);
    assert_ok(stk_scale_parse(ctx, "ranks=8,64,1024,alpha=20us,beta=10GB/s,cores=160,mtbf=2h",
                              &scale, &what, ranks, &n, &err),
              &err);
    assert_int_equal(n, 3);
    assert_int_equal(ranks[2], 1024);
    assert_int_equal(scale.ranks, 8);
    assert_near(scale.alpha, 20e-6, 1e-12);
    assert_near(scale.beta, 10e9, 1e-12);
    assert_near(scale.mtbf, 7200, 1e-12);
    assert_near(what.cores, 160, 1e-12);
    assert_int_equal(what.ranks, STK_AUTO);
    static const char *const bad[][2] = {{"ranks", "is no name=value"},
                                         {"8", "is no name=value"},
                                         {"alpha=1,8", "is no name=value"},
                                         {"ranks=8,x", "scale.ranks: 'x' is not allowed"},
                                         {"ranks=0", "scale.ranks: '0' is out of range"},
                                         {"alfa=1", "did you mean 'alpha'"},
                                         {"num_worker=4", "did you mean 'num_workers'"},
                                         {"ranks=8,alpha=1,alpha=1", "'alpha' is given twice"},
                                         {"num_workers=-3", "what_if.num_workers"}};
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_fails(stk_scale_parse(ctx, bad[i][0], &scale, &what, ranks, &n, &err), STK_EINVAL,
                     &err, bad[i][1]);
    /* What failed changed nothing. */
    assert_int_equal(scale.ranks, 8);
    const stk_figures f = planted();
    const stk_recording recording = {.struct_size = sizeof recording, .figures = &f};
    stk_scaled out = {.struct_size = sizeof out};
    stk_scale_init(&scale);
    scale.overlap = 7;
    assert_fails(stk_predict_scale(ctx, &recording, NULL, &scale, &out, &err), STK_EINVAL, &err,
                 "scale.overlap");
    stk_scale_init(&scale);
    scale.storage = 1e6;
    assert_fails(stk_predict_scale(ctx, &recording, NULL, &scale, &out, &err), STK_EINVAL, &err,
                 "scale.storage changes nothing");
}

/* The same arguments give the same bits. */
static void test_again(void **state)
{
    (void)state;
    const char *text = "ranks=64,alpha=20us,mtbf=1000h,checkpoint=3s";
    const stk_scaled a = predict(text), b = predict(text);
    assert_memory_equal(&a, &b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_reduce, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interval, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_even_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_uneven_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_monotone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_contention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_if, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_storage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_halves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_again, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
