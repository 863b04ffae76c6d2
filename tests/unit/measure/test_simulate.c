/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders whose rate is known in closed form, and what may never be the other way round. */
#include <math.h>
#include <string.h>

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

#define BATCH 10
#define STEPS 100

/* A run of samples of `prepare` seconds, each alike, beside steps of `step` that sleep. */
static stk_figures planted(double prepare, double step)
{
    return (stk_figures){.struct_size = sizeof(stk_figures),
                         .steps = STEPS,
                         .samples = (uint64_t)STEPS * BATCH,
                         .batch_size = BATCH,
                         .num_workers = 1,
                         .io_depth = 4,
                         .prefetch = 2,
                         .step_time = step,
                         .step_stretch = 1,
                         .wall = 1,
                         .prepare_busy = prepare * STEPS * BATCH,
                         .budget_bytes = UINT64_C(1) << 30,
                         .bytes_taken = (uint64_t)STEPS * BATCH * 1000,
                         .ranks = 1};
}

/* Each sample needs a read of that many seconds and bytes. */
static void plant_reads(stk_figures *f, double latency, uint64_t bytes)
{
    f->requests = f->samples;
    f->bytes_read = f->samples * bytes;
    f->read_latency = latency;
    f->read_seconds = latency * (double)f->samples;
}

static stk_prediction predict_recording(const stk_recording *recording, const char *text)
{
    stk_prediction out = {.struct_size = sizeof out};
    stk_what_if what;

    stk_what_if_init(&what);
    if (text)
        assert_ok(stk_what_if_parse(ctx, text, &what, &err), &err);
    assert_ok(stk_predict(ctx, recording, text ? &what : NULL, &out, &err), &err);
    return out;
}

static stk_prediction predict(const stk_figures *f, const char *text)
{
    const stk_recording recording = {.struct_size = sizeof recording, .figures = f};

    return predict_recording(&recording, text);
}

/* ---- Closed forms ---- */

static void test_workers(void **state)
{
    stk_figures f = planted(1e-3, 1e-3);

    /* Ten samples of a millisecond by so many workers, or the step: whichever takes longer. */
    assert_near(predict(&f, NULL).samples_per_s, 1000, 0.001);
    assert_near(predict(&f, "num_workers=4").samples_per_s, 4000, 0.001);
    assert_near(predict(&f, "num_workers=16").samples_per_s, 10000, 0.001);
    assert_near(predict(&f, "num_workers=16").wait.p99, 0, 0);
    assert_near(predict(&f, "num_workers=4,train_step_time=20ms").samples_per_s, 500, 0.001);
    /* Without workers they take turns with the step. */
    const stk_prediction alone = predict(&f, "num_workers=0");
    assert_near(alone.samples_per_s, BATCH / (BATCH * 1e-3 + 1e-3), 0.001);
    assert_near(alone.wait.p50, BATCH * 1e-3, 0.001);
    assert_near(alone.wait.p95, BATCH * 1e-3, 0.001);
    assert_near(alone.base_samples_per_s, 1000, 0.001);
}

static void test_batches(void **state)
{
    stk_figures f = planted(1e-3, 50e-3);

    /* A longer batch fills a step that it was too short for. */
    assert_near(predict(&f, NULL).samples_per_s, 200, 0.001);
    assert_near(predict(&f, "batch_size=40").samples_per_s, 800, 0.001);
    assert_near(predict(&f, "batch_size=100").samples_per_s, 1000, 0.001);
}

static void test_reads(void **state)
{
    stk_figures f = planted(0, 1e-6);

    plant_reads(&f, 10e-3, 1000);
    assert_near(predict(&f, NULL).samples_per_s, 4 / 10e-3, 0.01);
    assert_near(predict(&f, "io_depth=16").samples_per_s, 16 / 10e-3, 0.01);
    assert_near(predict(&f, "io_depth=16,connections=2").samples_per_s, 2 / 10e-3, 0.01);
    assert_near(predict(&f, "latency=20ms").samples_per_s, 4 / 20e-3, 0.01);
    /* The link is the limit: a thousand bytes a sample. */
    assert_near(predict(&f, "io_depth=64,bandwidth=300kB/s").samples_per_s, 300, 0.01);
    /* With nothing ahead, each batch waits for its reads, four at a time. */
    assert_near(predict(&f, "num_workers=0").wait.p50, 3 * 10e-3, 0.01);
    /* Two reads for each sample, and one for every four. */
    f.requests *= 2;
    assert_near(predict(&f, NULL).samples_per_s, 2 / 10e-3, 0.01);
    f.requests /= 8;
    assert_near(predict(&f, NULL).samples_per_s, 16 / 10e-3, 0.02);
}

/* A read is admitted for a quarter more than its bytes, and then takes what its buffer does. */
static void test_pool(void **state)
{
    stk_figures f = planted(0, 1e-6);

    (void)state;
    plant_reads(&f, 10e-3, 1 << 20);
    f.io_depth = 64;
    assert_near(predict(&f, "memory_budget=5MiB").samples_per_s, 4 / 10e-3, 0.02);
    assert_near(predict(&f, "memory_budget=8MiB").samples_per_s, 7 / 10e-3, 0.02);
    /* Of 1.05 MiB buffers are of 1.25. */
    plant_reads(&f, 10e-3, 1101005);
    assert_near(predict(&f, "memory_budget=8MiB").samples_per_s, 6 / 10e-3, 0.02);
}

/* Reads that fail are sent again, after 7.5 ms on average. */
static void test_retries(void **state)
{
    stk_figures f = planted(0, 1e-6);

    plant_reads(&f, 100e-3, 1000);
    const double whole = predict(&f, NULL).samples_per_s;
    f.requests *= 2;
    f.read_failures = f.requests / 2;
    const double half = predict(&f, NULL).samples_per_s;
    assert_true(half < 0.55 * whole);
    assert_true(half > 0.30 * whole);
}

static void test_cores(void **state)
{
    stk_figures f = planted(1e-3, 1e-6);

    f.cpu_s = f.prepare_busy; /* it computes */
    f.usable_cores = 16;
    assert_near(predict(&f, "num_workers=4").samples_per_s, 4000, 0.001);
    assert_near(predict(&f, "num_workers=4,cores=2").samples_per_s, 2000, 0.001);
    assert_near(predict(&f, "num_workers=4,cores=1.5").samples_per_s, 1500, 0.001);
    assert_near(predict(&f, "num_workers=4,cores=2").cpu_cores, 2, 0.02);
    /* Half of it sleeps. All eight compute on two cores, for 2 ms, then all sleep. */
    f.cpu_s = f.prepare_busy / 2;
    assert_near(predict(&f, "num_workers=8,cores=2").samples_per_s, 8 / 2.5e-3, 0.02);
    /* A step that computes shares one core with the worker: all work in turn. */
    f = planted(1e-3, 10e-3);
    f.cpu_s = f.prepare_busy;
    f.usable_cores = f.compute_cores = 1;
    f.spin = true;
    assert_near(predict(&f, NULL).samples_per_s, BATCH / (BATCH * 1e-3 + 10e-3), 0.01);
    assert_true(predict(&f, NULL).step_stretch > 1.5);
    assert_near(predict(&f, "cores=2").step_stretch, 1, 0.001);
    /* Ranks share them, too, and their turns take 0.7 of what the other computes: of one rank. */
    assert_near(predict(&f, "ranks=2").samples_per_s, BATCH / (BATCH * 1e-3 + 10e-3) / 2.7, 0.02);
}

/* A sample that waited for its core was recorded as longer than it is. */
static void test_contention(void **state)
{
    stk_figures f = planted(2e-3, 1e-6);

    f.cpu_s = f.prepare_busy / 2;
    f.runnable_s = f.prepare_busy / 2;
    f.usable_cores = 1;
    f.num_workers = 2;
    f.samples_per_s = 1000;
    assert_near(predict(&f, NULL).samples_per_s, 1000, 0.02);
    assert_near(predict(&f, "cores=4").samples_per_s, 2000, 0.02);
    /* What waited for other programs would do so again. */
    f.usable_cores = 4;
    assert_near(predict(&f, NULL).samples_per_s, 1000, 0.02);
    assert_near(predict(&f, "num_workers=1").samples_per_s, 500, 0.02);
}

/* Memory for two batches and three reads: no more are under way, whatever the depth. */
static void test_budget(void **state)
{
    stk_figures f = planted(0, 1e-6);
    char text[64];

    plant_reads(&f, 10e-3, 1000000);
    f.io_depth = 64;
    const double free = predict(&f, NULL).samples_per_s;
    assert_near(free, 64 / 10e-3, 0.1);
    snprintf(text, sizeof text, "memory_budget=%d", 3 * BATCH * 1256 + 3 * 1250320 + 1000);
    assert_near(predict(&f, text).samples_per_s, 3 / 10e-3, 0.05);
}

/* Eight steps of an epoch, nothing ahead at its turn: the first waits for its read each time. */
static void test_turns(void **state)
{
    stk_figures f = planted(0, 5e-3);
    stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .epoch_steps = 8, .turns = true};

    f.io_depth = 512;
    f.prefetch = 8;
    plant_reads(&f, 40e-3, 1000);
    assert_near(predict_recording(&recording, NULL).samples_per_s, 8 * BATCH / (8 * 5e-3 + 40e-3),
                0.01);
    recording.turns = false;
    assert_near(predict_recording(&recording, NULL).samples_per_s, BATCH / 5e-3, 0.01);
}

/* Where a worker makes batches alone, one is as late as all of its samples. */
static void test_whole_batches(void **state)
{
    stk_figures f = planted(1e-3, 1e-3);
    stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .whole_batches = true};

    assert_near(predict_recording(&recording, NULL).samples_per_s, 1000, 0.001);
    assert_near(predict_recording(&recording, "num_workers=3").samples_per_s, 3000, 0.01);
    assert_near(predict_recording(&recording, "num_workers=0").samples_per_s,
                BATCH / (BATCH * 1e-3 + 1e-3), 0.001);
}

static void test_cache(void **state)
{
    stk_figures f = planted(0, 1e-6);
    stk_recording recording = {.struct_size = sizeof recording, .figures = &f, .epoch_steps = 10};

    plant_reads(&f, 10e-3, 1000);
    /* All that an epoch reads is kept: nothing is read any more. */
    assert_true(predict_recording(&recording, "cache=encoded").samples_per_s > 1e5);
    /* Half of it is. */
    const stk_prediction half = predict_recording(&recording, "cache=encoded,memory_budget=140000");
    assert_near(half.samples_per_s, 2 * 4 / 10e-3, 0.1);
    /* How much there is has to be known. */
    stk_prediction out = {.struct_size = sizeof out};
    stk_what_if what;
    stk_what_if_init(&what);
    recording.epoch_steps = 0;
    assert_ok(stk_what_if_parse(ctx, "cache=encoded", &what, &err), &err);
    assert_int_equal(stk_predict(ctx, &recording, &what, &out, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "has not ended an epoch"));
}

/* ---- Distributions ---- */

#define RECORDS 2000

/* One sample in fifty takes long: its mean says nothing of the waits. */
static void test_stragglers(void **state)
{
    float prepare[RECORDS];
    stk_figures f = planted(1e-3, 10e-3);
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .prepare = prepare, .num_prepare = RECORDS};

    for (int i = 0; i < RECORDS; i++)
        prepare[i] = i % 50 == 7 ? 100e-3f : 0;
    f.prepare_busy = 2e-3 * (double)f.samples;
    f.num_workers = 4;
    const stk_prediction even = predict(&f, NULL), late = predict_recording(&recording, NULL);
    assert_false(even.recorded);
    assert_true(late.recorded);
    assert_near(even.wait.p99, 0, 0);
    assert_true(late.wait.p99 > 10e-3);
    assert_true(late.low <= late.samples_per_s && late.samples_per_s <= late.high);
}

/* Reads of 100 kB over a link, some at once; the rest of each is a latency that varies. */
static void test_link(void **state)
{
    stk_recorded_read reads[256];
    double free = 0, now = 0;

    for (int i = 0; i < 256; i++) {
        now += i % 8 == 7 ? 30e-3 : 0;
        free = STK_MAX(free, now) + 100e3 / 50e6;
        reads[i] = (stk_recorded_read){
            .start = now, .seconds = (float)(free - now + 5e-3 + 1e-4 * (i % 3)), .bytes = 100e3};
    }
    assert_near(stk__link_of(reads, 256), 50e6, 0.01);
    for (int i = 0; i < 256; i++)
        reads[i].seconds = (float)(5e-3 + 1e-3 * (i % 3));
    assert_true(isinf(stk__link_of(reads, 256)));
    assert_true(isinf(stk__link_of(reads, 1)));
}

#define DEPTH 16

/* A link that 16 reads at a time keep full, each sent when another has ended, of one or two times
 * 100 kB; the process stands still for 20 ms now and then, and ends late what had come meanwhile.
 */
static void plant_full_link(stk_recorded_read *reads, int n, double bandwidth, double latency)
{
    double free = 0, ends[DEPTH] = {0};

    for (int i = 0; i < n; i++) {
        const double start = ends[i % DEPTH] + 1e-5, bytes = i % 3 ? 200e3 : 100e3;
        free = STK_MAX(free, start) + bytes / bandwidth;
        double end = free + latency;
        if (fmod(end, 0.2) < 20e-3)
            end += 20e-3 - fmod(end, 0.2) + 1e-6 * i;
        ends[i % DEPTH] = end;
        reads[i] = (stk_recorded_read){
            .start = start, .seconds = (float)(end - start), .bytes = (float)bytes};
    }
}

static void test_full_link(void **state)
{
    stk_recorded_read reads[512];
    float rests[512];
    double sum = 0;

    (void)state;
    plant_full_link(reads, 512, 80e6, 1e-3);
    const double bandwidth = stk__link_of(reads, 512);
    assert_near(bandwidth, 80e6, 0.005);
    /* What is off of it does not add up to the whole of a read, 33 ms. */
    for (double off = 0.97; off < 1.04; off += 0.03) {
        stk__link_rests(reads, 512, off * bandwidth, rests);
        sum = 0;
        for (int i = 0; i < 512; i++)
            sum += (double)rests[i] / 512;
        assert_true(sum > 0.3e-3 && sum < 8e-3);
    }
    /* The same pace of a latency, where those who send are no faster: there is no link. */
    for (int i = 0; i < 512; i++)
        reads[i] = (stk_recorded_read){
            .start = i < DEPTH ? 0 : 1e-3 * i, .seconds = 4.5e-3f, .bytes = 100e3f};
    assert_true(isinf(stk__link_of(reads, 512)));
}

/* What reads took on a narrow link says nothing of fewer at a time: the link gives what it gave. */
static void test_narrow(void **state)
{
    static stk_recorded_read reads[1024];
    stk_figures f = planted(0, 1e-6);
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .reads = reads, .num_reads = 1024};
    double seconds = 0, bytes = 0;

    (void)state;
    plant_full_link(reads, 1024, 80e6, 0.2e-3);
    for (int i = 0; i < 1024; i++) {
        seconds += (double)reads[i].seconds;
        bytes += (double)reads[i].bytes;
    }
    plant_reads(&f, seconds / 1024, (uint64_t)(bytes / 1024));
    f.io_depth = DEPTH;
    const double full = 80e6 / (bytes / 1024);
    assert_near(predict_recording(&recording, NULL).samples_per_s, full, 0.03);
    assert_near(predict_recording(&recording, "io_depth=64").samples_per_s, full, 0.03);
    /* Two at a time keep it full but for the times that the process stands. */
    assert_near(predict_recording(&recording, "io_depth=2").samples_per_s, 0.9 * full, 0.1);
    assert_near(predict_recording(&recording, "bandwidth=40MB/s").samples_per_s, full / 2, 0.03);
}

/* The advice of a verdict, simulated: four sleeping workers, of which eight do twice as much. */
static void test_verdict(void **state)
{
    float prepare[RECORDS];
    stk_figures f = planted(4e-3, 1e-3);
    const stk_recording recording = {
        .struct_size = sizeof recording, .figures = &f, .prepare = prepare, .num_prepare = RECORDS};
    stk_verdict bound = {.struct_size = sizeof bound}, v = bound;

    for (int i = 0; i < RECORDS; i++)
        prepare[i] = 4e-3f;
    f.num_workers = 4;
    f.usable_cores = 16;
    f.samples_per_s = 1000;
    f.wall = STEPS * 10e-3;
    f.wait = (stk_spread){.n = STEPS, .mean = 9e-3, .p50 = 9e-3, .p95 = 9e-3, .p99 = 9e-3};
    f.cpu_s = 0.01 * f.prepare_busy;
    f.runnable_s = 1e-6;
    stk_judge(&f, &bound);
    assert_string_equal(bound.knob, "num_workers");
    assert_true(bound.gain_high == 0);
    stk_judge_recording(ctx, &recording, &v);
    assert_int_equal(v.limit, bound.limit);
    assert_string_equal(v.value, bound.value);
    assert_near(v.gain, predict_recording(&recording, "num_workers=8").samples_per_s / 1000, 1);
    assert_true(v.gain_low > 1 && v.gain_low <= v.gain && v.gain <= v.gain_high);
    assert_non_null(strstr(v.text, "simulated with the recorded times"));
}

/* ---- What may not be the other way round ---- */

static void random_records(float *prepare, stk_recorded_read *reads)
{
    uint32_t word = 12345;

    for (int i = 0; i < RECORDS; i++) {
        word = word * 1664525 + 1013904223;
        prepare[i] = (float)((word >> 8) % 1000) * 2e-6f;
        reads[i] = (stk_recorded_read){.start = i * 1e-3,
                                       .seconds = (float)((word >> 12) % 100) * 1e-4f + 1e-3f,
                                       .bytes = (float)((word >> 4) % 10000)};
    }
}

static double rate_of(const stk_recording *recording, const char *name, int value)
{
    char text[64];

    snprintf(text, sizeof text, "%s=%d", name, value);
    return predict_recording(recording, text).samples_per_s;
}

static void test_monotone(void **state)
{
    static const char *const names[] = {"num_workers", "io_depth", "prefetch_factor", "connections",
                                        "cores"};
    static float prepare[RECORDS];
    static stk_recorded_read reads[RECORDS];
    stk_figures f = planted(1e-3, 2e-3);
    const stk_recording recording = {.struct_size = sizeof recording,
                                     .figures = &f,
                                     .prepare = prepare,
                                     .num_prepare = RECORDS,
                                     .reads = reads,
                                     .num_reads = RECORDS};

    random_records(prepare, reads);
    plant_reads(&f, 6e-3, 5000);
    f.cpu_s = 0.7 * f.prepare_busy;
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        double last = 0;
        for (int value = 1; value <= 64; value *= 2) {
            const double rate = rate_of(&recording, names[i], value);
            /* Windows of other lengths see other records. */
            if (rate < 0.98 * last)
                fail_msg("%s=%d: %.6g samples/s after %.6g", names[i], value, rate, last);
            last = rate;
        }
    }
    assert_true(rate_of(&recording, "io_depth", 64) > 1.5 * rate_of(&recording, "io_depth", 1));
}

static void test_same_bits(void **state)
{
    static float prepare[RECORDS];
    static stk_recorded_read reads[RECORDS];
    stk_figures f = planted(1e-3, 2e-3);
    const stk_recording recording = {.struct_size = sizeof recording,
                                     .figures = &f,
                                     .prepare = prepare,
                                     .num_prepare = RECORDS,
                                     .reads = reads,
                                     .num_reads = RECORDS};

    random_records(prepare, reads);
    plant_reads(&f, 6e-3, 5000);
    f.read_failures = f.requests / 10;
    const stk_prediction a = predict_recording(&recording, "num_workers=3,ranks=2"),
                         b = predict_recording(&recording, "num_workers=3,ranks=2");
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.low < a.high);
}

/* ---- Texts, and what nobody should believe ---- */

static void test_names(void **state)
{
    stk_what_if what;
    char text[256];

    stk_what_if_init(&what);
    assert_int_equal(stk_what_if_format(&what, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_ok(stk_what_if_parse(ctx, "num-workers=8,io_depth=32,bandwidth=100MB/s,latency=5ms",
                                &what, &err),
              &err);
    assert_int_equal(what.num_workers, 8);
    assert_true(what.latency == 5e-3);
    assert_true(isnan(what.cores));
    stk_what_if_format(&what, text, sizeof text);
    assert_string_equal(text, "num_workers=8,io_depth=32,latency=5ms,bandwidth=100MB/s");
    assert_int_equal(stk_what_if_parse(ctx, "num_workrs=8", &what, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "num_workers"));
    assert_int_equal(stk_what_if_parse(ctx, "num_workers", &what, &err), STK_EINVAL);
    assert_int_equal(stk_what_if_parse(ctx, "num_workers=-2", &what, &err), STK_EINVAL);
    assert_int_equal(stk_what_if_parse(ctx, "", &what, &err), STK_EINVAL);
    assert_int_equal(what.num_workers, 8);
}

/* Numbers, or a refusal. */
static void assert_answer(stk_status status, const stk_prediction *out)
{
    if (status == STK_OK)
        assert_true(isfinite(out->samples_per_s) && isfinite(out->wait.p99));
    else
        assert_true(status == STK_ELIMIT || status == STK_EINVAL);
}

static void test_hostile(void **state)
{
    static const double values[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e-300, 1e300};
    float prepare[] = {NAN, INFINITY, -1, 1e30f};
    const stk_recorded_read reads[] = {
        {NAN, NAN, NAN}, {INFINITY, -1, -1}, {-1e300, 1e30f, INFINITY}, {1, 1e-30f, 1e30f}};
    stk_prediction out = {.struct_size = sizeof out};

    for (size_t i = 0; i < STK_COUNT(values); i++) {
        stk_figures f = planted(1e-3, 1e-3);
        const stk_recording recording = {.struct_size = sizeof recording,
                                         .figures = &f,
                                         .prepare = prepare,
                                         .num_prepare = STK_COUNT(prepare),
                                         .reads = reads,
                                         .num_reads = STK_COUNT(reads),
                                         .steps = prepare,
                                         .num_steps = STK_COUNT(prepare),
                                         .epoch_steps = UINT64_MAX,
                                         .turns = true};
        plant_reads(&f, 1e-3, 1000);
        f.wall = f.cpu_s = f.prepare_wait_in = f.runnable_s = f.other_cores = values[i];
        f.read_seconds = f.read_transfer_share = f.step_stretch = f.samples_per_s = values[i];
        f.usable_cores = UINT32_MAX;
        f.spin = i % 2;
        assert_answer(stk_predict(ctx, &recording, NULL, &out, &err), &out);
        f.requests = UINT64_MAX;
        assert_answer(stk_predict(ctx, &recording, NULL, &out, &err), &out);
        f.batch_size = f.samples = UINT64_MAX;
        f.num_workers = f.io_depth = f.prefetch = INT64_MAX;
        f.ranks = UINT32_MAX;
        assert_int_equal(stk_predict(ctx, &recording, NULL, &out, &err), STK_ELIMIT);
    }
}

static void test_refusals(void **state)
{
    stk_figures f = planted(1e-3, 1e-3);
    const stk_recording recording = {.struct_size = sizeof recording, .figures = &f};
    stk_prediction out = {.struct_size = sizeof out};
    stk_what_if what;

    stk_what_if_init(&what);
    what.latency = 1e-3; /* of which read? */
    assert_int_equal(stk_predict(ctx, &recording, &what, &out, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "no reads"));
    stk_what_if_init(&what);
    what.num_workers = 1 << 20;
    assert_int_equal(stk_predict(ctx, &recording, &what, &out, &err), STK_EINVAL);
    f.samples = 0;
    assert_int_equal(stk_predict(ctx, &recording, NULL, &out, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "--log FILE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_workers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_contention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stragglers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_narrow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_verdict, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_monotone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
