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
                              &p->stalls.starve_begin_ns, &p->stalls.starve_end_ns};
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
        stk__stall_settle_locked(&p->stalls, &p->window, step, asked, got);
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
    stk__stall_settle_locked(&p->stalls, &p->window, step, 100, 1007);
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
    stk__stall_settle_locked(&p->stalls, &p->window, step, 880, 1007);
    assert_int_equal(parts[STK_WAIT_ORDERING], 100);
    assert_int_equal(parts[STK_WAIT_OTHER], 14);

    /* Asked when all was done: nothing but the call. */
    stk__stall_settle_locked(&p->stalls, &p->window, step, 2000, 2001);
    assert_int_equal(parts[STK_WAIT_OTHER], 15);
    stk__stall_cold_locked(&p->stalls);
    stk__stall_settle_locked(&p->stalls, &p->window, step, 0, 5000);
    assert_int_equal(parts[STK_WAIT_EPOCH_TURN], 5000);
    free(p);
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
        cmocka_unit_test(test_line),          cmocka_unit_test(test_steady),
        cmocka_unit_test(test_pipelines),     cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
