/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait is conserved: whatever the stamps of a step are, and whatever the pipeline is, the parts
 * add up to the wait. And each part goes where it belongs: ways of a row that are planted stamp by
 * stamp.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/probe.h"
#include "loader/parts.h"
#include "store/trend.h"
#include "support/support.h"

#define ROUNDS    20000
#define PIPELINES 40
#define STEPS     4
#define ROWS      1024
#define ROW_BYTES 4096

static uint64_t seed = 20250311;

static uint64_t below(uint64_t n)
{
    return test_random(&seed) % n;
}

static bool coin(void)
{
    return below(2);
}

static uint64_t sum_of(const stk_waits *w)
{
    uint64_t sum = 0;

    for (int i = 0; i < STK_WAIT_PARTS; i++)
        sum += w->parts_ns[i];
    return sum;
}

/* ---- Stamps ---------------------------------------------------------------------------------- */

/* Nothing but what the ledger looks at. */
typedef struct planted {
    stk__stalls stalls;
    stk__steps window;
    stk__step steps[STEPS];
} planted;

static planted *plant(void)
{
    planted *p = calloc(1, sizeof *p);

    p->window = (stk__steps){.records = p->steps, .num = STEPS, .slab_end = STEPS};
    p->stalls.cold = STK_WAIT_PARTS;
    for (uint64_t i = 0; i < STEPS; i++)
        p->steps[i].serial = i;
    return p;
}

static void test_random_stamps(void **state)
{
    planted *p = plant();
    uint64_t total = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        stk__step *step = &p->steps[0];
        uint64_t *stamps[] = {&step->planned_ns,          &step->room_ns,
                              &step->complete_ns,         &step->path.queued_ns,
                              &step->path.first_ns,       &step->path.sent_ns,
                              &step->path.arrived_ns,     &step->path.start_ns,
                              &step->path.end_ns,         &p->steps[1].complete_ns,
                              &p->stalls.starve_begin_ns, &p->stalls.starve_end_ns,
                              &step->path.idle_ns,        &step->path.decoded_ns,
                              &p->stalls.idle_sum_ns};
        for (size_t i = 0; i < STK_COUNT(stamps); i++)
            *stamps[i] = below(8) ? 1000 + below(1000) : 0;
        if (below(8) == 0)
            p->stalls.starve_end_ns = UINT64_MAX;
        p->steps[1].complete = coin();
        for (int k = 0; k < STK__WORK_PARTS; k++)
            step->path.work[k] = coin() ? (double)below(1000) : 0;
        step->path.transfer = (double)below(101) / 100;
        p->stalls.alone = below(3) == 0;
        p->stalls.cold = below(16) ? STK_WAIT_PARTS : STK_WAIT_STARTUP;
        p->stalls.pending_ns = coin() ? below(500) : 0;
        uint64_t asked = 1000 + below(1000), got = asked + below(1000);
        total += got - asked + p->stalls.pending_ns;
        stk__stall_settle_locked(&p->stalls, &p->window, step, below(3000), asked, got);
        assert_int_equal(p->stalls.waits.total_ns, total);
        assert_int_equal(sum_of(&p->stalls.waits), total);
        assert_int_equal(p->stalls.pending_ns, 0);
    }
    assert_int_equal(p->stalls.waits.batches, ROUNDS);
    free(p);
}

/* A way with a stretch of a known length for each part. */
static void test_planted_way(void **state)
{
    planted *p = plant();
    stk__step *step = &p->steps[0];
    const uint64_t *parts = p->stalls.waits.parts_ns;

    (void)state;
    step->planned_ns = 50;
    p->stalls.starve_begin_ns = 100;
    p->stalls.starve_end_ns = 300;
    step->path = (stk__path){.queued_ns = 310,
                             .first_ns = 340,
                             .sent_ns = 390,
                             .arrived_ns = 790,
                             .transfer = 0.25,
                             .start_ns = 860,
                             .end_ns = 960,
                             .work = {1, 2, 1, 1}};
    step->complete_ns = 1000;
    stk__stall_settle_locked(&p->stalls, &p->window, step, 0, 100, 1007);
    assert_int_equal(parts[STK_WAIT_MEMORY_BUDGET], 200);
    assert_int_equal(parts[STK_WAIT_READ_SLOT], 30);
    assert_int_equal(parts[STK_WAIT_RETRY], 50);
    assert_int_equal(parts[STK_WAIT_STORAGE_LATENCY], 300);
    assert_int_equal(parts[STK_WAIT_STORAGE_TRANSFER], 100 + 20);
    assert_int_equal(parts[STK_WAIT_WORKER], 10 + 70);
    assert_int_equal(parts[STK_WAIT_DECODE], 40);
    assert_int_equal(parts[STK_WAIT_TRANSFORM], 20);
    assert_int_equal(parts[STK_WAIT_COLLATE], 20 + 40);
    assert_int_equal(parts[STK_WAIT_OTHER], 7);
    assert_int_equal(parts[STK_WAIT_ORDERING], 0);

    /* A later batch was complete at 900: from then on it is ordering that holds the consumer up. */
    p->steps[2].complete = true;
    p->steps[2].complete_ns = 900;
    stk__stall_settle_locked(&p->stalls, &p->window, step, 0, 880, 1007);
    assert_int_equal(parts[STK_WAIT_ORDERING], 100);
    assert_int_equal(parts[STK_WAIT_OTHER], 14);

    /* Asked when all was done: nothing but the call. */
    stk__stall_settle_locked(&p->stalls, &p->window, step, 0, 2000, 2001);
    assert_int_equal(parts[STK_WAIT_OTHER], 15);
    stk__stall_cold_locked(&p->stalls);
    stk__stall_settle_locked(&p->stalls, &p->window, step, 0, 0, 5000);
    assert_int_equal(parts[STK_WAIT_EPOCH_TURN], 5000);
    free(p);
}

/* Of a wait that began after the read was done, reads are the cause for as long as workers had
 * nothing to do: of 127 ns, of which 90 lie after its end. */
static void test_planted_idle(void **state)
{
    static const struct {
        uint64_t idle, planned, found; /* found: when the last idle worker found work */
        uint64_t reading;              /* what is told, ns */
    } cases[] = {
        {0, 310, 790, 0},     {90, 310, 790, 0},    {100, 310, 790, 10},
        {170, 310, 790, 80},  {1000, 310, 790, 80}, /* no more than what was done after the read */
        {1000, 770, 790, 20},                       /* it was planned late */
        {1000, 900, 790, 0},                        /* and while it was waited for */
        {1000, 310, 807, 80}, {1000, 310, 808, 0},  /* the worker was late */
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        planted *p = plant();
        stk__step *step = &p->steps[0];
        const uint64_t *parts = p->stalls.waits.parts_ns;
        p->stalls.idle_sum_ns = 5000;
        step->planned_ns = 50;
        step->path = (stk__path){.queued_ns = cases[i].planned,
                                 .first_ns = 340,
                                 .sent_ns = 390,
                                 .arrived_ns = 790,
                                 .transfer = 0.5,
                                 .idle_ns = cases[i].found,
                                 .start_ns = 860,
                                 .end_ns = 960,
                                 .work = {0, 1, 0, 0}};
        step->complete_ns = 1000;
        stk__stall_settle_locked(&p->stalls, &p->window, step, 5000 + cases[i].idle, 880, 1007);
        const uint64_t reading = parts[STK_WAIT_STORAGE_LATENCY] + parts[STK_WAIT_STORAGE_TRANSFER];
        assert_int_equal(reading, cases[i].reading);
        assert_int_equal(parts[STK_WAIT_STORAGE_TRANSFER], reading / 2);
        assert_int_equal(parts[STK_WAIT_DECODE] + parts[STK_WAIT_WORKER] + reading, 80);
        assert_int_equal(p->stalls.idle_sum_ns, 5000 + cases[i].idle);
        /* Since then nobody was idle; the sum is less where there are more of them. */
        stk__stall_settle_locked(&p->stalls, &p->window, step, 4000, 880, 1007);
        assert_int_equal(parts[STK_WAIT_STORAGE_LATENCY] + parts[STK_WAIT_STORAGE_TRANSFER],
                         reading);
        free(p);
    }
}

/* Who waits still counts, and more workers have less of it each. */
static void test_idle(void **state)
{
    stk__workers w = {.active = 2, .wait_in_ns = 50, .num_idle = 2, .idle_begins_ns = 100 + 200};

    (void)state;
    assert_int_equal(stk__workers_idle_locked(&w, 1000), (50 + 900 + 800) / 2);
    w.active = 5;
    assert_int_equal(stk__workers_idle_locked(&w, 1000), (50 + 900 + 800) / 5);
    w.active = 0;
    w.num_idle = 0;
    w.idle_begins_ns = 0;
    assert_int_equal(stk__workers_idle_locked(&w, 1000), 50);
}

/* ---- Latency and transfer -------------------------------------------------------------------- */

static void test_line(void **state)
{
    stk__trend line = {0}, flat = {0}, noisy = {0};

    (void)state;
    for (int i = 0; i < 500; i++) {
        double bytes = 65536.0 * (double)(1 + below(32));
        stk__trend_add(&line, bytes, 5e6 + bytes * 10);
        stk__trend_add(&flat, bytes, 5e6);
        stk__trend_add(&noisy, bytes, 1e6 + (double)below(9000000));
    }
    assert_true(line.slope > 9.999 && line.slope < 10.001);
    assert_true(flat.slope == 0);
    /* Noise is no transfer: less than a tenth of the mean. */
    assert_true(noisy.slope * 65536 * 16.5 < 0.1 * 5.5e6);
}

/* One start, then always about as many bytes under way, which say nothing of the time: a link that
 * is full, and a store that answers late whatever is asked. */
static void test_steady(void **state)
{
    (void)state;
    for (int depth = 4; depth <= 64; depth *= 2)
        for (int limited = 0; limited < 2; limited++) {
            const double each = 70e3, latency = 10e6, slope = limited ? 25 : 0;
            stk__trend trend = {0};
            for (int i = 1; i <= depth; i++)
                stk__trend_add(&trend, each * i, latency + slope * each * i);
            for (int i = 0; i < 20000; i++) {
                const double noise = 0.9 + (double)below(200000) / 1e6;
                stk__trend_add(&trend, each * depth * (0.9 + (double)below(200000) / 1e6),
                               (latency + slope * each * depth) * noise);
            }
            assert_true(limited ? trend.slope > 0.7 * slope && trend.slope < 1.3 * slope
                                : trend.slope * each * depth < 0.1 * latency);
        }
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

/* Waits by the loader's own stamps: of batches that were handed out. */
static void add_delivery(void *user, const stk__event *event)
{
    if (event->kind == STK__EVENT_DELIVER)
        *(uint64_t *)user += event->end_ns - event->start_ns;
}

/* What a call without a batch has added: to a turn at once, else to the batch that comes. */
static uint64_t added_in_vain(stk_loader *loader, stk_status status, const stk_loader_stats *before,
                              uint64_t pending)
{
    const int turn = STK_WAIT_EPOCH_TURN;
    stk_loader_stats now = {.struct_size = sizeof now};

    stk_loader_get_stats(loader, &now);
    if (status == STK_EAGAIN) {
        assert_int_equal(now.waits.total_ns, before->waits.total_ns);
        return loader->stalls.pending_ns - pending;
    }
    const uint64_t ns = now.waits.total_ns - before->waits.total_ns;
    assert_int_equal(now.waits.parts_ns[turn] - before->waits.parts_ns[turn], ns);
    return ns;
}

static void run_pipeline(stk_context *ctx)
{
    uint64_t waited = 0;
    const stk__probe probe = {.event = add_delivery, .user = &waited};
    stk_loader_options o;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    char store[150], spec[300];
    uint64_t outside = 0, batches = 0;

    snprintf(store, sizeof store,
             "slow+mem://x?read_bytes=%d&latency=%dus&jitter=%dus&bandwidth=%dMB/s&",
             (int)(1 + below(20000)), (int)below(400), (int)below(100), (int)(20 + below(400)));
    snprintf(spec, sizeof spec,
             "synthetic:%ssize=%d&shape=16x16x1&cpu=%dus&delay=%dus&tail_share=0.01&"
             "tail_delay=1ms%s",
             below(3) ? store : "?", (int)(20 + below(200)), (int)below(60), (int)below(60),
             coin() ? "&ragged=1..40" : "");
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 1 + below(32);
    o.num_workers = (int64_t)below(4);
    o.io_depth = (int64_t)(1 + below(16));
    o.prefetch_factor = (int64_t)(1 + below(3));
    o.persistent_workers = coin();
    o.memory_budget = coin() ? UINT64_C(4) << 20 : 0;
    o.retries = 20;
    o.epochs = 2;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    const int64_t timeout = coin() ? -1 : 1;
    assert_ok(stk__probe_add(ctx, &probe), &err);
    for (int ends = 0; ends < 2;) {
        stk_loader_get_stats(loader, &stats);
        const uint64_t pending = loader->stalls.pending_ns, start = stk__now_ns();
        stk_status status = stk_loader_next(loader, timeout, &batch, &err);
        outside += stk__now_ns() - start;
        if (status != STK_OK)
            waited += added_in_vain(loader, status, &stats, pending);
        if (status == STK_OK) {
            batches++;
            stk_batch_release(&batch);
        } else if (status == STK_EOS) {
            ends++;
        } else if (status != STK_EAGAIN) {
            assert_ok(status, &err);
        }
    }
    stk__probe_remove(ctx, &probe);
    stk_loader_get_stats(loader, &stats);
    assert_int_equal(stats.waits.batches, batches);
    /* What the loader's own stamps say, to the nanosecond. */
    assert_int_equal(stats.waits.total_ns, waited);
    assert_int_equal(sum_of(&stats.waits), waited);
    assert_true(waited <= outside);
    assert_true(stats.waits.parts_ns[STK_WAIT_STARTUP] > 0);
    assert_true(stats.read_transfer_share >= 0 && stats.read_transfer_share <= 1);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

static void test_pipelines(void **state)
{
    (void)state;
    for (int i = 0; i < PIPELINES; i++) {
        stk_context *ctx = test_context();
        run_pipeline(ctx);
        stk_context_destroy(&ctx);
    }
}

/* What is run, and what is looked at: from the batch `first` on. */
typedef struct planted_run {
    const char *spec;
    int64_t workers, depth;
    uint64_t step_ns;
    int first, steps;
} planted_run;

/* Shares of what is waited for; and of what workers waited, what it was for input and not for room.
 */
static double run_planted(const planted_run *r, double shares[STK_WAIT_PARTS])
{
    stk_context *ctx = test_context();
    stk_loader_stats before = {.struct_size = sizeof before}, stats = {.struct_size = sizeof stats};
    stk_loader_options o;
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, r->spec, &dataset, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 16;
    o.num_workers = r->workers;
    o.io_depth = r->depth;
    o.prefetch_factor = 1;
    o.shuffle = STK_SHUFFLE_FULL;
    o.retries = 90;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    for (int i = 0; i < r->steps; i++) {
        if (i == r->first)
            stk_loader_get_stats(loader, &before);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        stk_batch_release(&batch);
        stk__sleep_until(stk__now_ns() + r->step_ns, NULL);
    }
    stk_loader_get_stats(loader, &stats);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        shares[i] = (double)(stats.waits.parts_ns[i] - before.waits.parts_ns[i]) /
                    (double)(stats.waits.total_ns - before.waits.total_ns);
    const stk_stage_stats *now = &stats.stages[STK_LOADER_PREPARE],
                          *then = &before.stages[STK_LOADER_PREPARE];
    const double in = (double)(now->wait_in_ns - then->wait_in_ns),
                 out = (double)(now->wait_out_ns - then->wait_out_ns);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return in / (in + out);
}

/* The cause is what is full, in loaders whose stages are told apart by what they sleep. */
static void test_what_is_full(void **state)
{
    double w[STK_WAIT_PARTS];

    (void)state;
    /* A store that gives 16 samples in 20 ms, of which four workers make a batch in 12. */
    const planted_run narrow = {.spec = "synthetic:slow+mem://x?read_bytes=16384&latency=1ms&"
                                        "bandwidth=13MB/s&delay=3ms&shape=8x8x1",
                                .workers = 4,
                                .depth = 16,
                                .step_ns = 10000000,
                                .first = 40,
                                .steps = 70};
    assert_true(run_planted(&narrow, w) > 0.9);
    assert_true(w[STK_WAIT_READ_SLOT] + w[STK_WAIT_STORAGE_LATENCY] + w[STK_WAIT_STORAGE_TRANSFER] >
                0.8);
    /* Two workers that take 24 ms for what the store gives in 1. */
    const planted_run busy = {.spec = "synthetic:slow+mem://x?read_bytes=16384&latency=1ms&"
                                      "bandwidth=400MB/s&delay=3ms&shape=8x8x1",
                              .workers = 2,
                              .depth = 64,
                              .step_ns = 20000000,
                              .first = 10,
                              .steps = 30};
    run_planted(&busy, w);
    assert_true(w[STK_WAIT_WORKER] + w[STK_WAIT_DECODE] + w[STK_WAIT_TRANSFORM] +
                    w[STK_WAIT_COLLATE] >
                0.6);
    /* A step that is the limit: there is no room for more. */
    const planted_run ahead = {.spec = "synthetic:?shape=8x8x1",
                               .workers = 2,
                               .depth = 16,
                               .step_ns = 5000000,
                               .first = 5,
                               .steps = 30};
    assert_true(run_planted(&ahead, w) < 0.9);
    /* Reads of which most fail, and are waited for longer each time: batches behind are done. */
    char path[256], *rows = calloc(ROWS, ROW_BYTES), spec[300];
    const char *folder = test_folder(path);
    test_write(folder, "rows.raw", rows, (size_t)ROWS * ROW_BYTES);
    snprintf(spec, sizeof spec,
             "array:slow+file://%s/rows.raw?format=raw&dtype=uint8&shape=%dx%d&window=1x%d&"
             "latency=1ms&fail=0.7&fail_kind=timeout",
             folder, ROWS, ROW_BYTES, ROW_BYTES);
    const planted_run fails = {
        .spec = spec, .workers = 2, .depth = 16, .step_ns = 3000000, .first = 1, .steps = 24};
    run_planted(&fails, w);
    free(rows);
    test_folder_remove(folder);
    assert_true(w[STK_WAIT_RETRY] > 0.6);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(stk__wait_name(STK_WAIT_READ_SLOT), "read_slot");
    assert_string_equal(stk_wait_text(STK_WAIT_TRANSFORM), "transforms");
    assert_string_equal(stk__wait_name(STK_WAIT_PARTS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_stamps), cmocka_unit_test(test_planted_way),
        cmocka_unit_test(test_planted_idle),  cmocka_unit_test(test_idle),
        cmocka_unit_test(test_line),          cmocka_unit_test(test_steady),
        cmocka_unit_test(test_pipelines),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
