/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and reads that move while a loader runs change nothing of what it delivers. */
#include <string.h>

#include "base/random.h"
#include "dataset/dataset.h"
#include "loader/parts.h"
#include "support/support.h"

#define SPEC "synthetic:slow+mem://pace?size=1500&read_bytes=512&latency=300us"

/* What came: each field of each batch, in their order. */
typedef struct delivered {
    uint64_t hash, batches, rows;
} delivered;

static void add(delivered *d, const void *bytes, size_t length)
{
    d->hash = stk__fingerprint(d->hash, bytes, length);
}

static void take(delivered *d, const stk_batch *batch)
{
    static const char *const fields[] = {"image", "label", "index"};
    const uint64_t count = stk_batch_count(batch),
                   at[] = {stk_batch_epoch(batch), stk_batch_step(batch)};

    add(d, at, sizeof at);
    add(d, stk_batch_positions(batch), count * sizeof(uint64_t));
    for (size_t f = 0; f < STK_COUNT(fields); f++) {
        stk_tensor t = {.struct_size = sizeof t};
        size_t bytes;
        assert_int_equal(stk_batch_find(batch, fields[f], &t), STK_OK);
        bytes = stk_dtype_size(t.dtype) * count;
        for (uint32_t k = 1; k < t.rank; k++)
            bytes *= (size_t)t.shape[k];
        add(d, t.data, bytes);
    }
    d->batches++;
    d->rows += count;
}

/* Between two batches so many workers and reads as a draw says, also more than there may be. */
static void move(stk_loader *loader, uint64_t seed, uint64_t draw)
{
    uint32_t words[4];
    stk__draw(seed, 0, draw, 0, words, 2);
    const uint32_t workers = words[0] % 12, depth = 1 + words[1] % 64;
    stk_loader_stats stats = {.struct_size = sizeof stats};

    const uint64_t depth_before = loader->ring->num_slabs - 1;
    stk__loader_move(loader, workers);
    stk__reads_move(&loader->reads, depth, loader->budget.io_depth);
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.workers >= 1 && stats.workers <= STK_MAX(workers, 1u));
    assert_true(stats.workers <= loader->workers.num);
    /* Two batches ahead for each, as many as there were for the most of them. */
    assert_int_equal(stats.depth, STK_MAX(depth_before, 2 * stats.workers));
}

static delivered run(const stk_loader_options *options, uint64_t seed)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch;
    delivered d = {.hash = UINT64_C(0xcbf29ce484222325)};
    stk_status status;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, SPEC, &dataset, &err), &err);
    assert_ok(stk_loader_create(dataset, options, &loader, &err), &err);
    for (uint64_t ends = 0; ends < 3;) {
        status = stk_loader_next(loader, -1, &batch, &err);
        ends += status == STK_EOS;
        if (status == STK_EOS)
            continue;
        assert_ok(status, &err);
        take(&d, batch);
        if (seed)
            move(loader, seed, d.batches);
        /* What is ahead is thrown away while some sleep. */
        if (d.batches == 20)
            assert_ok(stk_loader_set_epoch(loader, 1, &err), &err);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return d;
}

static void test_order(void **state)
{
    stk_loader_options options;

    (void)state;
    stk_loader_options_init(&options);
    options.batch_size = 16;
    options.epochs = 4;
    options.seed = 5;
    for (int persistent = 0; persistent < 2; persistent++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            options.shuffle = shuffle ? STK_SHUFFLE_FULL : STK_SHUFFLE_NONE;
            options.persistent_workers = persistent;
            options.num_workers = 1;
            options.io_depth = 4;
            const delivered fixed = run(&options, 0);
            assert_true(fixed.batches > 3 * 93 && fixed.rows > 3 * 1500);
            options.num_workers = options.io_depth = STK_AUTO;
            const delivered alone = run(&options, 0);
            assert_true(alone.hash == fixed.hash && alone.batches == fixed.batches);
            for (uint64_t seed = 1; seed < 4; seed++) {
                const delivered moved = run(&options, seed);
                assert_true(moved.hash == fixed.hash && moved.rows == fixed.rows);
            }
        }
}

/* What a loader is made of. */
typedef struct parts {
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader_options options;
    stk_error err;
} parts;

static parts begin(void)
{
    parts p = {.ctx = test_context()};

    stk_loader_options_init(&p.options);
    assert_ok(stk_dataset_open(p.ctx, SPEC, &p.dataset, &p.err), &p.err);
    return p;
}

static stk_loader *make(parts *p)
{
    stk_loader *loader = NULL;

    assert_ok(stk_loader_create(p->dataset, &p->options, &loader, &p->err), &p->err);
    return loader;
}

static void end(parts *p)
{
    stk_dataset_close(&p->dataset);
    stk_context_destroy(&p->ctx);
}

/* There are records for more workers than are at work, within the budget; a fixed number stays. */
static void test_limits(void **state)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    parts p = begin();

    (void)state;
    stk_loader *loader = make(&p);
    stk_loader_get_stats(loader, &stats);
    assert_true(loader->workers.num > stats.workers && loader->workers.num >= 4);
    assert_int_equal(loader->workers.started, stats.workers);
    assert_non_null(loader->pace.policy);
    const uint64_t depth = stats.depth, bytes = stats.memory_bytes;
    assert_int_equal(depth, 2 * stats.workers);
    stk__loader_move(loader, 1000);
    assert_int_equal(loader->workers.started, loader->workers.num);
    stk_loader_get_stats(loader, &stats);
    assert_int_equal(stats.depth, 2 * loader->workers.num);
    /* Batches take memory once they are there. */
    assert_true(stats.memory_bytes >= bytes + (stats.depth - depth) * stats.slab_bytes);
    assert_true(stats.memory_bytes <= stats.memory_budget);
    stk__loader_move(loader, 1);
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.workers == 1 && stats.depth == 2 * loader->workers.num);
    stk_loader_destroy(&loader);
    /* Of a small budget as many as there is room for. */
    p.options.memory_budget = 1 << 20;
    loader = make(&p);
    stk__loader_move(loader, 1000);
    stk_loader_get_stats(loader, &stats);
    assert_true(loader->workers.num > 1 && stats.depth < 2 * loader->workers.num);
    assert_true(stats.memory_peak <= stats.memory_budget);
    stk_loader_destroy(&loader);
    p.options.memory_budget = 0;
    p.options.num_workers = 3;
    p.options.io_depth = 5;
    loader = make(&p);
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.workers == 3 && stats.io_depth == 5 && loader->workers.num == 3);
    assert_null(loader->pace.policy);
    stk_loader_destroy(&loader);
    /* Without workers there is nothing to move. */
    p.options.num_workers = 0;
    p.options.io_depth = STK_AUTO;
    loader = make(&p);
    assert_null(loader->pace.policy);
    stk_loader_destroy(&loader);
    end(&p);
}

/* After the budget was divided anew for a large sample all batches that are there are counted, also
 * those that were made for workers that came later. */
static void test_widened(void **state)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    parts p = begin();

    (void)state;
    p.options.memory_budget = 32 << 20;
    stk_loader *loader = make(&p);
    stk__ring *ring = loader->ring;
    stk__loader_move(loader, loader->workers.num - 1);
    const uint32_t made = ring->num_slabs;
    assert_true(ring->made < ring->most);
    pthread_mutex_lock(&ring->lock);
    loader->planner.wanted = loader->budget.rest / 16 * 15;
    assert_ok(stk__loader_widen_locked(loader, &p.err), &p.err);
    pthread_mutex_unlock(&ring->lock);
    const stk__shares *now = &loader->budget.now;
    assert_true(now->spare_slabs > 0 && ring->num_slabs < made);
    assert_int_equal(ring->num_slabs, now->slabs + now->spare_slabs);
    assert_true(stk__loader_stop(loader)); /* nothing is read any more */
    stk_loader_get_stats(loader, &stats);
    assert_int_equal(stats.memory_bytes, now->fixed + ring->pool.held);
    stk_loader_destroy(&loader);
    end(&p);
}

/* What a policy is told: the median of what lies between two waits, and waits without those for a
 * start. */
static void test_seen(void **state)
{
    const stk__pace_limits limits = {1, 4, 1, 8};
    stk_waits waits = {.batches = 1, .total_ns = 1000000000};
    stk__pace_note note;
    stk__pace pace;
    uint64_t now = 1000000000;

    (void)state;
    stk__pace_begin(&pace, &limits, 2, 4);
    assert_true(pace.want.workers == 2 && pace.want.depth == 4 && pace.want.steps == 5);
    waits.parts_ns[STK_WAIT_STARTUP] = 900000000;
    waits.parts_ns[STK_WAIT_EPOCH_TURN] = 40000000;
    waits.parts_ns[STK_WAIT_READ_SLOT] = 10000000;
    waits.parts_ns[STK_WAIT_STORAGE_LATENCY] = 20000000;
    waits.parts_ns[STK_WAIT_WORKER] = 30000000;
    /* Steps of 10 ms, one of a second: a validation is no step. */
    for (int i = 0; i < 5; i++) {
        const bool due = stk__pace_step(&pace, now, now + 5000000);
        assert_true(due == (i == 4));
        now += 5000000 + (i == 2 ? 1000000000u : 10000000u);
    }
    stk__pace_ask(&pace, &waits, now, &note);
    assert_true(note.seen.steps == 5 && note.seen.workers == 2 && note.seen.depth == 4);
    assert_true(note.seen.step > 0.0099 && note.seen.step < 0.0101);
    assert_true(note.seen.wait > 0.0599 && note.seen.wait < 0.0601);
    assert_true(note.seen.wait_reads > 0.0299 && note.seen.wait_reads < 0.0301);
    assert_true(note.seen.wait_work > 0.0299 && note.seen.wait_work < 0.0301);
    /* The next ones are told by themselves. */
    for (int i = 0; i < 5; i++, now += 20000000)
        (void)stk__pace_step(&pace, now, now);
    stk__pace_ask(&pace, &waits, now, &note);
    assert_true(note.seen.steps == 5 && note.seen.wait == 0 && note.seen.wait_work == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_widened),
        cmocka_unit_test(test_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
