/* SPDX-License-Identifier: Apache-2.0 */
/* What samples share, as memory and batches ahead change: held against a loader, a cache that is
 * simulated sample by sample, and closed forms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <stoker/loader.h>

#include "measure/simulate.h"
#include "unit/measure/near.h"

#define MIB (1024.0 * 1024.0)

static stk_context *ctx;
static stk_error err;

static int set_up(void **state)
{
    (void)state;
    ctx = test_context();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stk_context_destroy(&ctx);
    return 0;
}

/* ---- The budget, as a loader divides it -------------------------------------------------------
 */

/* 4,096 rows of 1,000 floats. */
static void write_rows(const char *folder)
{
    const size_t bytes = 128 + 4096u * 4000u;
    char *file = calloc(1, bytes);

    assert_non_null(file);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n = snprintf(file + 10, 118,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (4096, 1000), }");
    memset(file + 10 + n, ' ', (size_t)(117 - n));
    file[127] = '\n';
    test_write(folder, "rows.npy", file, bytes);
    free(file);
}

static stk_loader_stats stats_of(stk_dataset *dataset, const stk_loader_options *options)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_loader *loader;

    assert_ok(stk_loader_create(dataset, options, &loader, &err), &err);
    stk_loader_get_stats(loader, &stats);
    stk_loader_destroy(&loader);
    return stats;
}

/* From the claims of one loader what another one gets. */
static void expect_shares(const stk_claims *claims, const stk_loader_options *o,
                          const stk_loader_stats *is)
{
    const stk__stages stages = {.sharing = {.claims = *claims, .batch = 32}, .reads = 1};
    const stk__setting set = {.workers = (uint32_t)o->num_workers,
                              .depth = (uint32_t)o->io_depth,
                              .prefetch = (uint32_t)o->prefetch_factor,
                              .batch = (uint32_t)o->batch_size,
                              .budget = (double)o->memory_budget};
    const stk__shares shares = stk__setting_shares(&stages, &set);

    assert_int_equal(shares.workers, is->workers);
    if (o->batch_size == 32) {
        assert_int_equal(shares.slabs, is->depth + 1);
        assert_int_equal(shares.pool, is->pool_bytes);
        return;
    }
    /* Records of half as many rows are a little more than half as large. */
    assert_true(fabs((double)shares.slabs - (double)is->depth - 1) <= 1);
    assert_true(fabs((double)shares.pool / (double)is->pool_bytes - 1) < 0.05);
}

/* Whatever is asked of them; from 16 MiB on a worker takes more, as the loader reads otherwise. */
static void test_as_the_loader(void **state)
{
    static const uint64_t budgets[][4] = {{12000000, 1500000, 4000000, 8000000},
                                          {32000000, 17000000, 24000000, 64000000}};
    char folder[256], spec[300];
    stk_loader_options o;
    stk_dataset *dataset;

    (void)state;
    write_rows(test_folder(folder));
    snprintf(spec, sizeof spec, "npy:%s/rows.npy", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    for (size_t i = 0; i < STK_COUNT(budgets); i++) {
        stk_loader_options_init(&o);
        o.batch_size = 32;
        o.num_workers = 2;
        o.io_depth = 8;
        o.shuffle = STK_SHUFFLE_BLOCK;
        o.memory_budget = budgets[i][0];
        const stk_loader_stats one = stats_of(dataset, &o);
        assert_true(one.claims.mixed > 0 && one.claims.streams > 0 && one.claims.reads);
        for (size_t k = 0; k < 48; k++) {
            o.memory_budget = budgets[i][k % 4];
            o.num_workers = 1 + (int64_t)(k / 4 % 3);
            o.prefetch_factor = 1 + k / 12 % 2 * 5;
            o.batch_size = k / 24 ? 16 : 32;
            const stk_loader_stats is = stats_of(dataset, &o);
            expect_shares(&one.claims, &o, &is);
        }
    }
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
}

/* ---- A load -----------------------------------------------------------------------------------
 */

#define ROWS   64  /* of a block, which is a chunk of a MiB */
#define BLOCKS 100 /* of all */
#define HAND   16  /* at hand at a time */
#define BATCH  16
#define STEPS  100

/* A run that had room for all that was at hand: decoding took 64 ms a chunk, all else nothing. */
static stk_figures planted(void)
{
    stk_figures f = {.struct_size = sizeof f,
                     .steps = STEPS,
                     .samples = STEPS * BATCH,
                     .batch_size = BATCH,
                     .num_workers = 1,
                     .io_depth = 4,
                     .prefetch = 2,
                     .step_time = 1e-6,
                     .step_stretch = 1,
                     .wall = 2,
                     .ranks = 1,
                     .budget_bytes = UINT64_C(64) << 20,
                     .bytes_taken = (uint64_t)STEPS * BATCH * 1000,
                     .chunks_needed = STEPS * BATCH,
                     .chunks_decoded = STEPS * BATCH / ROWS,
                     .bytes_decoded = (uint64_t)STEPS * BATCH / ROWS << 20,
                     .claims = {.slab = BATCH * 1000,
                                .step = BATCH * 300,
                                .worker = 10000,
                                .fixed = 100000,
                                .most_read = 1200000,
                                .shared = (uint64_t)BLOCKS << 20,
                                .mixed_blocks = HAND,
                                .mixed = HAND * ROWS,
                                .samples = BLOCKS * ROWS,
                                .reads = true}};

    f.prepare_busy = f.chunk_seconds = 1e-3 * STEPS * BATCH;
    f.cpu_s = f.prepare_busy;
    f.usable_cores = 8;
    return f;
}

static stk_status try_predict(const stk_figures *f, const char *text, stk_prediction *out)
{
    const stk_recording recording = {.struct_size = sizeof recording, .figures = f};
    stk_what_if what;

    *out = (stk_prediction){.struct_size = sizeof *out};
    stk_what_if_init(&what);
    assert_ok(stk_what_if_parse(ctx, text, &what, &err), &err);
    return stk_predict(ctx, &recording, &what, out, &err);
}

static stk_prediction predict(const stk_figures *f, const char *text)
{
    stk_prediction out;

    assert_ok(try_predict(f, text, &out), &err);
    return out;
}

static stk_prediction predict_budget(const stk_figures *f, double mib)
{
    char text[64];

    snprintf(text, sizeof text, "memory_budget=%.0f", mib * MIB);
    return predict(f, text);
}

/* Decoded bytes for a sample with so much in the pool. */
static double decoded_with(const stk_figures *f, double pool)
{
    stk__stages stages = {.ctx = ctx,
                          .decoded_bytes = (double)f->bytes_decoded / (double)f->samples};
    const stk__sharing *s = &stages.sharing;
    double of_kinds[STK_CLAIM_KINDS], found, stay, least = 0, most = 1e12;
    stk__setting set = {.workers = 1, .depth = 4, .prefetch = 2, .batch = BATCH};

    stk__sharing_of(f, &stages.sharing);
    for (int i = 0; i < 100; i++) {
        set.budget = (least + most) / 2;
        if ((double)stk__setting_shares(&stages, &set).pool < pool)
            least = set.budget;
        else
            most = set.budget;
    }
    set.budget = most;
    assert_ok(stk__setting_found(&stages, &set, &found, of_kinds, &stay, &err), &err);
    return s->once + (s->asked - s->once) * (1 - found);
}

/* What is needed is counted ahead of the samples: it is of the rows that were planned meanwhile. */
static void test_counted_ahead(void **state)
{
    stk_loader_stats then = {.struct_size = sizeof then}, now = then;
    stk_figures f = {.struct_size = sizeof f};

    (void)state;
    then.chunks_needed = 10;
    now.chunks_needed = 10 + 2 * 2700;
    now.stages[STK_LOADER_ORDER].items = 2700;
    now.stages[STK_LOADER_PREPARE].items = 1000;
    now.chunks_decoded = 40;
    stk__figures_of_loader(&then, &now, &f);
    assert_true(f.chunks_needed == 2000 && f.chunks_decoded == 40);
    now.stages[STK_LOADER_ORDER].items = 0;
    stk__figures_of_loader(&then, &now, &f);
    assert_int_equal(f.chunks_needed, 2 * 2700);
}

/* ---- Sample by sample -------------------------------------------------------------------------
 */

static uint64_t draw(uint64_t *seed, uint64_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % n;
}

/* Rows of the blocks at hand, which streams have in equal parts, in any order; the streams in turn.
 */
static void order_rows(unsigned *of, size_t hands, size_t streams, uint64_t *seed)
{
    const size_t rows = HAND * ROWS / streams;
    unsigned part[HAND * ROWS];

    for (size_t hand = 0; hand < hands; hand++)
        for (size_t s = 0; s < streams; s++) {
            for (size_t i = 0; i < rows; i++)
                part[i] = (unsigned)((hand * HAND * ROWS + s * rows + i) / ROWS);
            for (size_t i = rows - 1; i > 0; i--) {
                const size_t k = draw(seed, i + 1);
                const unsigned was = part[i];
                part[i] = part[k];
                part[k] = was;
            }
            for (size_t i = 0; i < rows; i++)
                of[hand * HAND * ROWS + i * streams + s] = part[i];
        }
}

/*
 * A chunk is decoded where no planned row has it, and a row is planned as soon as the chunks of
 * those from the first that is not prepared to it fit. How many chunks are decoded for a sample,
 * with room for `room` of them.
 */
static double simulate_cache(size_t room, size_t streams)
{
    enum { HANDS = 50, ALL = HANDS * HAND * ROWS };
    static unsigned of[ALL], uses[HANDS * HAND];
    uint64_t seed = 7, decoded = 0;
    size_t live = 0, first = 0;

    memset(uses, 0, sizeof uses);
    order_rows(of, HANDS, streams, &seed);
    for (size_t i = 0; i < ALL; i++) {
        while (uses[of[i]] == 0 && live == room)
            live -= --uses[of[first++]] == 0;
        live += uses[of[i]]++ == 0 ? (decoded++, 1) : 0;
    }
    return (double)decoded / ALL;
}

static void test_sample_by_sample(void **state)
{
    (void)state;
    for (size_t streams = 1; streams <= 4; streams *= 2)
        for (size_t room = 2; room <= HAND; room += 2) {
            stk_figures f = planted();
            f.claims.streams = streams;
            const double wanted = simulate_cache(room, streams),
                         is = decoded_with(&f, (double)room * (MIB + 1192)) / MIB;
            print_message("%zu streams, room for %zu: %.3f decoded, %.3f predicted\n", streams,
                          room, wanted, is);
            /* Where there is room for few, streams and chunks may keep step with each other. */
            assert_true(fabs(is - wanted) < 0.02 + (room < HAND / 2 ? 0.1 : 0.03) * wanted);
        }
}

/* ---- Rates ------------------------------------------------------------------------------------
 */

/* A chunk is decoded once for its rows where all at hand fit: a millisecond a sample. */
static void test_budget(void **state)
{
    const stk_figures f = planted();

    (void)state;
    assert_near(predict(&f, "memory_budget=64MiB").samples_per_s, 1000, 0.01);
    assert_near(predict(&f, "memory_budget=1GiB").samples_per_s, 1000, 0.01);
    /* Half of them live: of two samples one decodes its chunk, which takes 64 ms. */
    const double half = predict_budget(&f, 9.0).samples_per_s;
    assert_near(half, 1000 / (1 + 63 * 0.5), 0.1);
    assert_true(predict_budget(&f, 4).samples_per_s < half);
    /* Those that wait to be decoded take the bytes that they are decoded from, too. */
    stk_figures read = f;
    read.bytes_read = read.chunks_decoded << 19;
    assert_true(predict_budget(&read, 9).samples_per_s < 0.9 * half);
    /* What stays there is memory that is taken. */
    assert_true(predict_budget(&f, 64).peak_bytes > predict_budget(&f, 4).peak_bytes + 8 * MIB);
    /* A run without the room is told what it would be with it. */
    stk_figures small = f;
    small.budget_bytes = (uint64_t)(9.0 * MIB);
    small.chunks_decoded = (uint64_t)(STEPS * BATCH * (1 + 63 * 0.5) / ROWS);
    small.bytes_decoded = small.chunks_decoded << 20;
    small.prepare_busy = small.chunk_seconds = 64e-3 * (double)small.chunks_decoded;
    small.cpu_s = small.prepare_busy;
    assert_near(predict(&small, "num_workers=1").samples_per_s, 1000 / (1 + 63 * 0.5), 0.02);
    assert_near(predict_budget(&small, 64).samples_per_s, 1000, 0.25);
    /* One that decoded less than is expected of it is taken to do so with a little less room. */
    small.chunks_decoded = small.chunks_decoded * 3 / 4;
    small.bytes_decoded = small.chunks_decoded << 20;
    small.prepare_busy = small.chunk_seconds = 64e-3 * (double)small.chunks_decoded;
    small.cpu_s = small.prepare_busy;
    const double less = predict(&small, "num_workers=1").samples_per_s;
    const double fewer = predict_budget(&small, 7.5).samples_per_s;
    assert_true(fewer < 0.95 * less);
    assert_true(fewer > 1.15 * predict_budget(&f, 7.5).samples_per_s);
}

/* What one question changes the next one does not know. */
static void test_asked_again(void **state)
{
    const stk_figures f = planted();
    const stk_recording recording = {.struct_size = sizeof recording, .figures = &f};
    stk__predictor *predictor;
    stk_what_if small, large;

    (void)state;
    stk_what_if_init(&small);
    large = small;
    small.memory_budget = UINT64_C(9) << 20;
    large.memory_budget = UINT64_C(64) << 20;
    assert_ok(stk__predictor_create(ctx, &recording, false, &predictor, &err), &err);
    for (int i = 0; i < 3; i++) {
        stk_prediction out = {.struct_size = sizeof out};
        assert_ok(stk__predictor_ask(predictor, i == 1 ? &small : &large, &out, &err), &err);
        const double wanted = predict_budget(&f, i == 1 ? 9 : 64).samples_per_s;
        assert_true(out.samples_per_s == wanted);
    }
    stk__predictor_destroy(&predictor);
}

/* Batches ahead take the room of what is shared. */
static void test_ahead(void **state)
{
    stk_figures f = planted();

    (void)state;
    f.claims.slab = (uint64_t)MIB;
    f.bytes_taken = STEPS * (uint64_t)MIB;
    f.budget_bytes = (uint64_t)(24 * MIB);
    const double few = predict(&f, "prefetch_factor=1").samples_per_s,
                 many = predict(&f, "prefetch_factor=16").samples_per_s;
    assert_near(few, 1000, 0.02);
    assert_true(many < 0.2 * few);
}

/* In one permutation of all samples only what planning looks over is found again. */
static void test_scattered(void **state)
{
    stk_figures f = planted();

    (void)state;
    f.claims.mixed = f.claims.mixed_blocks = 0;
    f.claims.scattered = true;
    f.claims.shared = UINT64_C(1000) << 20;
    f.claims.samples = 1000 * ROWS;
    f.budget_bytes = UINT64_C(1) << 30;
    f.chunks_decoded = f.chunks_needed;
    f.bytes_decoded = f.chunks_decoded << 20;
    f.prepare_busy = f.chunk_seconds = 64e-3 * (double)f.samples;
    f.cpu_s = f.prepare_busy;
    const double is = predict(&f, "num_workers=1").samples_per_s,
                 deep = predict(&f, "io_depth=64").samples_per_s;
    assert_near(is, 1000 / 64.0, 0.01);
    assert_true(deep > 1.02 * is);
    /* In order nothing is, whatever there is of memory; and where nothing is known. */
    f.claims.scattered = false;
    assert_near(predict_budget(&f, 9).samples_per_s, 1000 / 64.0, 0.01);
    f.claims = (stk_claims){0};
    assert_near(predict_budget(&f, 9).samples_per_s, 1000 / 64.0, 0.01);
}

/* ---- Blocks that are read whole, or page by page -------------------------------------------- */

/* Blocks of a MiB were decoded whole, a millisecond a sample; eight rows have the pages in common
 * that one needs. */
static stk_figures planted_blocks(void)
{
    stk_figures f = planted();

    f.claims.shared = 0;
    f.claims.block = (uint64_t)MIB;
    f.claims.whole = true;
    f.claims.kinds[0] =
        (stk_claim_kind){.rows = 8, .needs = 2, .read = 1 << 16, .decoded = 1 << 17};
    return f;
}

/* Nearly each page was decoded for each row, eight milliseconds, and `rest` for all else. */
static stk_figures planted_pages(double rest)
{
    stk_figures f = planted_blocks();

    f.claims.whole = false;
    f.budget_bytes = (uint64_t)MIB;
    f.chunks_decoded = 2 * f.samples;
    f.chunks_needed = f.chunks_decoded;
    f.bytes_decoded = f.chunks_decoded << 16;
    f.chunk_seconds = 8e-3 * (double)f.samples;
    f.prepare_busy = (8e-3 + rest) * (double)f.samples;
    f.cpu_s = f.prepare_busy;
    return f;
}

static void test_pages_of_blocks(void **state)
{
    const stk_figures f = planted_blocks();

    (void)state;
    assert_near(predict(&f, "memory_budget=1GiB").samples_per_s, 1000, 0.01);
    /* None is found: a byte takes from 0.4 to 1.25 of what it did, each range 4 us at most. */
    stk_prediction p = predict(&f, "memory_budget=1MiB");
    assert_near(p.samples_per_s, 1000 / sqrt(3.2 * 10.0), 0.06);
    assert_near(p.low, 1000 / 10.0, 0.08);
    assert_near(p.high, 1000 / 3.2, 0.08);
    assert_near(p.cpu_cores, 1, 0.02);
    /* The more are found the fewer are decoded. */
    assert_true(predict_budget(&f, 12).samples_per_s > 1.5 * p.samples_per_s);
    assert_true(predict_budget(&f, 24).low > predict_budget(&f, 12).low);
    /* A step that takes longer hides what is not known. */
    p = predict(&f, "memory_budget=1MiB,train_step_time=0.5");
    assert_near(p.samples_per_s, BATCH / 0.5, 0.02);
    assert_near(p.low, p.high, 0.06);
    /* In order each page is met in one run of rows. */
    stk_figures straight = f;
    straight.claims.mixed = straight.claims.mixed_blocks = 0;
    straight.claims.kinds[0].rows = 8;
    assert_near(predict(&straight, "memory_budget=1MiB").samples_per_s, 1000 / sqrt(0.5), 0.06);
}

static void test_blocks_of_pages(void **state)
{
    const stk_figures f = planted_pages(1e-4), slow = planted_pages(2e-3);
    stk_prediction p;

    (void)state;
    assert_near(predict(&f, "num_workers=1").samples_per_s, 1000 / 8.1, 0.02);
    p = predict(&f, "memory_budget=1GiB");
    assert_near(p.low, 1000 / 2.6, 0.08);
    assert_near(p.high, 1000 / 0.802, 0.08);
    assert_near(p.samples_per_s, 1000 / sqrt(2.6 * 0.802), 0.06);
    /* Where most is not decoding what is left of it is anybody's guess; unless the step hides it.
     */
    assert_int_equal(try_predict(&slow, "memory_budget=1GiB", &p), STK_EINVAL);
    assert_non_null(strstr(err.text, "measure once with memory_budget=1073741824"));
    p = predict(&slow, "memory_budget=1GiB,train_step_time=0.5");
    assert_near(p.samples_per_s, BATCH / 0.5, 0.02);
}

/* Bytes for a sample are known in either case. */
static void test_reads_of_blocks(void **state)
{
    stk_figures f = planted_blocks(), pages = planted_pages(1e-4);

    (void)state;
    f.requests = f.chunks_decoded;
    f.bytes_read = f.requests << 19;
    f.read_latency = 1e-3;
    f.read_seconds = 1e-3 * (double)f.requests;
    assert_near(predict(&f, "memory_budget=1MiB,bandwidth=1MB/s").samples_per_s, 1e6 / 65536, 0.06);
    pages.requests = pages.chunks_decoded;
    pages.bytes_read = pages.requests << 15;
    pages.read_latency = 1e-3;
    pages.read_seconds = 1e-3 * (double)pages.requests;
    assert_near(predict(&pages, "memory_budget=1GiB,bandwidth=1MB/s").samples_per_s, 1e6 / 8192,
                0.06);
    /* Where no link is known a read of fewer bytes may take less, or not. */
    stk_prediction p;
    assert_int_equal(try_predict(&f, "memory_budget=1MiB,io_depth=1", &p), STK_OK);
    assert_true(p.high > 1.5 * p.low);
    /* Two columns of a block of 64 rows. */
    assert_near(predict(&pages, "memory_budget=1GiB,latency=1,io_depth=1").samples_per_s, 32, 0.1);
}

static void test_refused(void **state)
{
    stk_figures f = planted_blocks();
    stk_prediction p;

    (void)state;
    f.claims.kinds[0].rows = 0;
    assert_int_equal(try_predict(&f, "memory_budget=9MiB", &p), STK_EINVAL);
    assert_non_null(strstr(err.text, "one by one"));
    assert_non_null(strstr(err.text, "does not say"));
    assert_non_null(strstr(err.text, "measure once with memory_budget=9437184"));
    f = planted_blocks();
    f.chunks_decoded = 15;
    assert_int_equal(try_predict(&f, "memory_budget=9MiB", &p), STK_EINVAL);
    assert_non_null(strstr(err.text, "too little"));
    f = planted_pages(1e-4);
    f.claims.kinds[0].rows = 0;
    assert_near(predict(&f, "memory_budget=9MiB").samples_per_s, 1000 / 8.1, 0.02);
    assert_int_equal(try_predict(&f, "memory_budget=1GiB", &p), STK_EINVAL);
    assert_non_null(strstr(err.text, "read whole"));
}

/* What waited for cores is no work: neither is it where more is decoded. */
static void test_without_cores(void **state)
{
    stk_figures f = planted();

    (void)state;
    f.usable_cores = 1;
    f.spin = true;
    f.compute_cores = 1;
    f.step_time = 32e-3;
    f.wall = STEPS * 32e-3;
    f.samples_per_s = 500;
    /* A sample and a step take a millisecond of the core, and each took two. */
    f.chunk_seconds = f.prepare_busy = 2e-3 * STEPS * BATCH;
    f.cpu_s = f.runnable_s = 1e-3 * STEPS * BATCH;
    f.step_stretch = 2;
    assert_near(predict(&f, "num_workers=1").samples_per_s, 500, 0.03);
    /* Half of them live: of two samples one decodes its chunk; the step is a small part. */
    assert_near(predict_budget(&f, 9.0).samples_per_s, 1000 / (2 + 63 * 0.5), 0.12);
}

/* Claims of a log are anybody's: each answer is a number, or a refusal. */
static void test_hostile(void **state)
{
    static const uint64_t values[] = {
        0, 1, 3, 1000, 1u << 20, UINT64_C(1) << 33, UINT64_C(1) << 62};
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < 40; i++) {
        stk_figures f = i % 2 ? planted_blocks() : planted_pages(1e-4);
        stk_claims *c = &f.claims;
        uint64_t *const all[] = {&c->slab,           &c->step,
                                 &c->fixed,          &c->block,
                                 &c->shared,         &c->mixed_blocks,
                                 &c->mixed,          &c->streams,
                                 &c->samples,        &c->kinds[0].rows,
                                 &c->kinds[0].needs, &c->kinds[0].read,
                                 &c->kinds[1].rows,  &c->kinds[1].decoded,
                                 &f.chunks_needed,   &f.chunks_decoded};
        stk_prediction out;
        for (int k = 0; k < 4; k++)
            *all[draw(&seed, STK_COUNT(all))] = values[draw(&seed, STK_COUNT(values))];
        c->scattered = i % 5 == 0;
        if (try_predict(&f, i % 3 ? "memory_budget=9MiB" : "memory_budget=1GiB", &out) == STK_OK)
            assert_true(isfinite(out.samples_per_s) && out.samples_per_s > 0 && out.low >= 0 &&
                        isfinite(out.high) && out.low <= out.high);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_as_the_loader),   TEST(test_counted_ahead),   TEST(test_sample_by_sample),
        TEST(test_budget),          TEST(test_asked_again),     TEST(test_ahead),
        TEST(test_scattered),       TEST(test_pages_of_blocks), TEST(test_blocks_of_pages),
        TEST(test_reads_of_blocks), TEST(test_refused),         TEST(test_without_cores),
        TEST(test_hostile)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
