/* SPDX-License-Identifier: Apache-2.0 */
/* Planted figures on both sides of each threshold. */
#include "measure/measure.h"
#include "unit/measure/planted.h"

static void test_decode(void **state)
{
    stk_figures f = plant(0.010, 0.020);

    (void)state;
    f.usable_cores = 2;
    f.pictures = 64000;
    f.decode_seconds = 0.501 * f.prepare_busy;
    f.entropy_share = 0.7;
    f.picture_side = 224;
    f.picture_pixels = f.pictures * 1000 * 1000;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_DECODE);
    assert_string_equal(stk_limit_name(v.limit), "decode");
    assert_non_null(strstr(v.text, "about 70 % of that entropy decoding"));
    assert_non_null(strstr(v.text, "--max-side 448' re-packs them once, with 20 % of the pixels"));
    /* Pictures that are small already, or of a size that is not known, are not to be packed. */
    f.picture_pixels = f.pictures * 448 * 448;
    assert_null(strstr(judge(&f).text, "--max-side"));
    f.picture_pixels = f.pictures * 600 * 600;
    assert_non_null(strstr(judge(&f).text, "--max-side"));
    f.picture_pixels = 0;
    assert_null(strstr(judge(&f).text, "--max-side"));
    f.decode_seconds = 0.499 * f.prepare_busy;
    assert_int_equal(judge(&f).limit, STK_LIMIT_CORES);
    /* Nothing is said of what is not known. */
    f.decode_seconds = f.prepare_busy;
    f.entropy_share = 0;
    assert_null(strstr(judge(&f).text, "entropy"));
    /* A step that never waits is not slowed by decoding. */
    f = plant(0.010, 0);
    f.pictures = 1;
    f.decode_seconds = f.prepare_busy;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
}

static void test_step_threshold(void **state)
{
    stk_figures below = plant(0.010, 0.010 * 0.049 / 0.951);
    stk_figures above = plant(0.010, 0.010 * 0.051 / 0.949);

    stk_verdict v = judge(&below);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    assert_string_equal(v.knob, "");
    assert_true(v.lost_share > 0.0489 && v.lost_share < 0.0491);
    assert_int_not_equal(judge(&above).limit, STK_LIMIT_STEP);
}

/* Two steps, which are a hundredth of the time: nothing is the limit by so few. */
static void test_few_steps(void **state)
{
    stk_figures f = plant(0.010, 0);

    (void)state;
    assert_non_null(strstr(judge(&f).text, "The step is the limit"));
    f.validation_s = 2 * f.wall;
    f.steps = 2;
    const char *text = judge(&f).text;
    assert_null(strstr(text, "is the limit"));
    assert_non_null(strstr(text, "does not wait for data"));
    assert_non_null(strstr(text, "validation"));
}

static void test_one_core(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    f.num_workers = 0;
    f.prepare_busy = 1000 * 0.030;
    f.cpu_s = f.prepare_busy;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_ONE_CORE);
    assert_string_equal(v.knob, "num_workers");
    /* One of four cores is kept for the step. */
    assert_string_equal(v.value, "3");
    /* 40 ms a step become 10: work of 30 ms on three cores. */
    assert_true(v.gain > 3.99 && v.gain < 4.01);
    assert_non_null(strstr(v.text, "75.0 %"));
    assert_null(strstr(v.text, "waiting for storage"));
    f.num_workers = 1;
    assert_int_not_equal(judge(&f).limit, STK_LIMIT_ONE_CORE);
}

static void test_one_core_on_slow_storage(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    f.num_workers = 0;
    f.requests = 1000;
    f.prepare_busy = 1000 * 0.010;
    f.cpu_s = f.prepare_busy;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_ONE_CORE);
    assert_non_null(strstr(v.text, "67 % of that is waiting for storage"));
    /* 40 ms a step become 10: reads overlap, and 10 ms of work spread over three cores. */
    assert_true(v.gain > 3.99 && v.gain < 4.01);
    f.prepare_busy = 1000 * 0.0151;
    v = judge(&f);
    assert_null(strstr(v.text, "waiting for storage"));
}

static void test_storage_threshold(void **state)
{
    stk_figures f = plant(0.010, 0.030);
    double threads = 2 * f.wall;

    f.requests = 64000;
    f.read_latency = 0.005;
    f.read_seconds = 7.9 * f.wall;
    f.bytes_read = 64000 * 784;
    f.cpu_s = 0.1 * f.wall;
    f.prepare_wait_in = 0.51 * threads;
    f.prepare_busy = 0.49 * threads;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_STORAGE);
    assert_string_equal(v.knob, "io_depth");
    assert_string_equal(v.value, "16");
    assert_true(v.gain > 1.9 && v.gain <= 2);
    /* Reads that do not fill io_depth want more planned ahead. */
    f.read_seconds = 2 * f.wall;
    v = judge(&f);
    assert_string_equal(v.knob, "prefetch_factor");
    assert_string_equal(v.value, "4");
    f.prepare_wait_in = 0.49 * threads;
    f.prepare_busy = 0.51 * threads;
    assert_int_equal(judge(&f).limit, STK_LIMIT_UNKNOWN);
}

static void test_cores_threshold(void **state)
{
    stk_figures f = plant(0.010, 0.030);
    double threads = 3 * f.wall;

    f.num_workers = 3;
    f.prepare_busy = 0.81 * threads;
    f.prepare_wait_in = 0.19 * threads;
    f.cpu_s = f.prepare_busy;
    f.cpu_s_per_1000 = 1.5;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_string_equal(v.knob, "");
    assert_non_null(strstr(v.text, "1.5 CPU-seconds per 1,000"));
    assert_non_null(strstr(v.text, "4.00x"));
    f.prepare_busy = 0.79 * threads;
    f.prepare_wait_in = 0.21 * threads;
    f.cpu_s = f.prepare_busy;
    assert_int_equal(judge(&f).limit, STK_LIMIT_UNKNOWN);
    /* The same from the side of the cores: 80 % of four. */
    f.cpu_s = 3.21 * f.wall;
    assert_int_equal(judge(&f).limit, STK_LIMIT_CORES);
    f.cpu_s = 3.19 * f.wall;
    assert_int_equal(judge(&f).limit, STK_LIMIT_UNKNOWN);
}

/* Caches and formats of the library are for its own loaders; what workers did may not be known. */
static void test_cores_of_another_loader(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    (void)state;
    f.usable_cores = 2;
    assert_null(strstr(judge(&f).text, "convert"));
    assert_null(strstr(judge(&f).text, "cache"));
    f.budget_bytes = 64 << 20;
    assert_non_null(strstr(judge(&f).text, "packed samples (stoker convert)"));
    assert_non_null(strstr(judge(&f).text, "cache: decoded"));
    assert_null(strstr(judge(&f).text, "CPU-seconds"));
    f.prepare_busy = 0;
    const stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_non_null(strstr(v.text, "All cores are busy: 100 % of 2 usable cores"));
    assert_null(strstr(v.text, "2 workers"));
}

/* A step that the loader stretches and yet never waits for. */
static void test_stretched_by_another_loader(void **state)
{
    stk_figures f = plant(0.010, 0);

    (void)state;
    f.step_stretch = 1.5;
    assert_non_null(strstr(judge(&f).text, "cheaper preparation would give it back."));
    f.budget_bytes = 64 << 20;
    assert_non_null(strstr(judge(&f).text, "(cache: decoded), would give it back."));
}

static void test_too_few_workers(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    f.cpu_s = 2 * f.wall;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_WORKERS);
    assert_string_equal(v.value, "3");
    assert_true(v.gain > 1.499 && v.gain < 1.501);
    /* With three there is none left to add. */
    f.num_workers = 3;
    f.prepare_busy = 3 * f.wall;
    f.cpu_s = 3 * f.wall;
    assert_int_equal(judge(&f).limit, STK_LIMIT_CORES);
}

static void test_oversubscribed_threshold(void **state)
{
    stk_figures f = plant(0.010, 0.001);

    f.spin = true;
    f.num_workers = 4;
    f.step_stretch = 1.11;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_OVERSUBSCRIBED);
    assert_string_equal(v.knob, "num_workers");
    assert_string_equal(v.value, "3");
    assert_non_null(strstr(v.text, "1-2 cores"));
    assert_non_null(strstr(v.text, "1.11x"));
    /* 11 ms become 0.010 / 1.11 + 0.001. */
    assert_true(v.gain > 1.098 && v.gain < 1.100);
    f.step_stretch = 1.09;
    assert_int_not_equal(judge(&f).limit, STK_LIMIT_OVERSUBSCRIBED);
    /* As many workers as the rule allows: something else stretches the step. */
    f.step_stretch = 1.5;
    f.num_workers = 3;
    assert_int_not_equal(judge(&f).limit, STK_LIMIT_OVERSUBSCRIBED);
}

static void test_ranks_share_the_cores(void **state)
{
    stk_figures f = plant(0.010, 0.001);

    f.spin = true;
    f.ranks = 2;
    f.num_workers = 2;
    f.step_stretch = 1.3;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_OVERSUBSCRIBED);
    assert_string_equal(v.value, "1");
    assert_non_null(strstr(v.text, "4 workers on 4 usable cores (all ranks together)"));
}

static void test_leak_is_said(void **state)
{
    stk_figures f = plant(0.010, 0.0001);

    assert_null(strstr(judge(&f).text, "leak"));
    f.leak_bytes_per_epoch = 3 * 1024 * 1024;
    assert_non_null(strstr(judge(&f).text, "3.0 MiB every epoch"));
}

static void test_no_step(void **state)
{
    stk_figures f = plant(1e-6, 0.030);

    f.no_step = true;
    f.num_workers = 3;
    f.prepare_busy = 3 * f.wall;
    f.cpu_s = 3 * f.wall;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_non_null(strstr(v.text, "the loader's own rate"));
    assert_null(strstr(v.text, "The step waits"));
    assert_null(strstr(v.text, "No wait at all"));
}

static void test_latency(void **state)
{
    stk_figures f = plant_waits();

    (void)state;
    wait_for(&f, STK_WAIT_READ_SLOT, 0.8);
    wait_for(&f, STK_WAIT_STORAGE_LATENCY, 0.2);
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_LATENCY);
    assert_string_equal(stk_limit_name(v.limit), "storage latency");
    /* 40 ms shall become 10: four times as many reads. */
    assert_string_equal(v.knob, "io_depth");
    assert_string_equal(v.value, "32");
    assert_true(v.gain > 3.99 && v.gain < 4.01);
    assert_true(v.limit_share > 0.749 && v.limit_share < 0.751);
    assert_int_equal(v.second, STK_LIMIT_UNKNOWN);
    /* Reads that do not fill io_depth: the plan or the budget holds them back. */
    f.read_seconds = 2 * f.wall;
    v = judge(&f);
    assert_string_equal(v.knob, "prefetch_factor");
    assert_string_equal(v.value, "8");
    f.budget_wait = 0.6 * f.wall;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_BUDGET);
    assert_string_equal(v.knob, "memory_budget");
    assert_string_equal(v.value, "134217728");
}

static void test_small_reads(void **state)
{
    stk_figures f = plant_waits();

    (void)state;
    wait_for(&f, STK_WAIT_READ_SLOT, 1);
    f.io_depth = 64;
    f.read_seconds = 60 * f.wall;
    f.bytes_read = f.requests * 65000;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_SMALL_READS);
    assert_non_null(strstr(v.text, "few large files"));
    f.bytes_read = f.requests * 66000;
    assert_int_equal(judge(&f).limit, STK_LIMIT_LATENCY);
}

static void test_bandwidth(void **state)
{
    stk_figures f = plant_waits();

    (void)state;
    wait_for(&f, STK_WAIT_READ_SLOT, 1);
    f.read_transfer_share = 0.31;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_BANDWIDTH);
    assert_string_equal(v.knob, "");
    f.bytes_needed = f.bytes_read / 4;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_OVER_READ);
    assert_non_null(strstr(v.text, "4.0 bytes for each one"));
    /* Chunks that are needed whole, of which samples take little. */
    f.bytes_needed = f.bytes_read;
    f.bytes_taken = 1000000;
    f.bytes_decoded = 1990000;
    assert_int_equal(judge(&f).limit, STK_LIMIT_BANDWIDTH);
    f.bytes_decoded = 5000000;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_OVER_READ);
    assert_non_null(strstr(v.text, "5.0 bytes for each one"));
    f.read_transfer_share = 0.29;
    assert_int_equal(judge(&f).limit, STK_LIMIT_LATENCY);
}

/* One read at a time takes what its own bytes take: more at once share the link, up to filling it.
 */
static void test_read_alone(void **state)
{
    stk_figures f = plant_waits();

    (void)state;
    wait_for(&f, STK_WAIT_READ_SLOT, 1);
    f.io_depth = 1;
    f.read_seconds = f.wall;
    f.read_transfer_share = 0.4;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_LATENCY);
    assert_string_equal(v.knob, "io_depth");
    assert_true(v.gain > 2.49 && v.gain < 2.51);
    f.read_transfer_share = 0.51;
    assert_int_equal(judge(&f).limit, STK_LIMIT_BANDWIDTH);
    /* No worker reads faster. */
    f.read_transfer_share = 0;
    f.num_workers = 0;
    assert_int_equal(judge(&f).limit, STK_LIMIT_LATENCY);
    f.read_seconds = 0.1 * f.wall;
    assert_int_equal(judge(&f).limit, STK_LIMIT_ONE_CORE);
}

/* Reads that wait for a slot which failing ones hold. */
static void test_retries_in_the_slots(void **state)
{
    stk_figures f = plant_waits();

    (void)state;
    wait_for(&f, STK_WAIT_READ_SLOT, 0.8);
    wait_for(&f, STK_WAIT_RETRY, 0.1);
    wait_for(&f, STK_WAIT_STORAGE_LATENCY, 0.1);
    f.read_failures = f.requests * 49 / 100;
    assert_int_equal(judge(&f).limit, STK_LIMIT_LATENCY);
    f.read_failures = f.requests * 51 / 100;
    assert_int_equal(judge(&f).limit, STK_LIMIT_RETRIES);
}

static void test_other_waits(void **state)
{
    static const struct {
        stk_wait part;
        stk_limit limit;
        const char *knob;
    } rows[] = {{STK_WAIT_RETRY, STK_LIMIT_RETRIES, ""},
                {STK_WAIT_MEMORY_BUDGET, STK_LIMIT_BUDGET, "memory_budget"},
                {STK_WAIT_ORDERING, STK_LIMIT_STRAGGLERS, "prefetch_factor"},
                {STK_WAIT_EPOCH_TURN, STK_LIMIT_TURN, "persistent_workers"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stk_figures f = plant_waits();
        f.persistent_workers = false;
        wait_for(&f, rows[i].part, 0.7);
        wait_for(&f, STK_WAIT_WORKER, 0.26);
        wait_for(&f, STK_WAIT_OTHER, 0.04);
        stk_verdict v = judge(&f);
        assert_int_equal(v.limit, rows[i].limit);
        assert_string_equal(v.knob, rows[i].knob);
        assert_true(v.limit_share > 0.524 && v.limit_share < 0.526);
        assert_int_equal(v.second, STK_LIMIT_CORES);
        assert_non_null(strstr(v.text, "27 % of the waits are for preparation"));
    }
}

static void test_waits_for_workers(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    (void)state;
    wait_for(&f, STK_WAIT_WORKER, 1);
    assert_int_equal(judge(&f).limit, STK_LIMIT_WORKERS);
    /* Cores that other programs hold are no cores for more workers. */
    f.num_workers = 1;
    f.prepare_busy = f.cpu_s = f.wall;
    f.other_cores = 2.5;
    assert_int_equal(judge(&f).limit, STK_LIMIT_CORES);
    /* What a ready batch waits for is then a core, too. */
    stk_figures late = f;
    wait_for(&late, STK_WAIT_OTHER, 0.3);
    wait_for(&late, STK_WAIT_MEMORY_BUDGET, 0.1);
    stk_verdict cores = judge(&late);
    assert_int_equal(cores.limit, STK_LIMIT_CORES);
    assert_true(cores.limit_share > 0.696 && cores.limit_share < 0.697);
    /* Fewer threads would not get more of what others have; of what they leave they would. */
    late.num_workers = 8;
    late.prepare_busy = 8 * f.wall;
    late.runnable_s = 6.5 * f.wall;
    late.cpu_s = 1.5 * f.wall;
    cores = judge(&late);
    assert_int_equal(cores.limit, STK_LIMIT_CORES);
    assert_string_equal(cores.knob, "");
    assert_non_null(strstr(cores.text, "Other programs keep 2.5 of 4 usable cores busy. Leave it "
                                       "the cores alone"));
    late.other_cores = 1.9;
    late.cpu_s = 2.1 * f.wall;
    cores = judge(&late);
    assert_int_equal(cores.limit, STK_LIMIT_CORES);
    assert_string_equal(cores.knob, "num_workers");
    assert_non_null(strstr(cores.text, "keep 1.9 of 4 usable cores busy. More threads than cores"));
    /* Workers that sleep may be more than there are cores. */
    f.other_cores = 0;
    f.num_workers = 8;
    f.prepare_busy = 8 * f.wall;
    f.cpu_s = 0.5 * f.wall;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_WORKERS);
    assert_string_equal(v.value, "16");
    assert_non_null(strstr(v.text, "sleep the rest"));
    /* Workers that have little to do and are waited for do not get a core. */
    f = plant(0.010, 0.030);
    wait_for(&f, STK_WAIT_WORKER, 1);
    f.prepare_busy = f.cpu_s = 0.39 * 2 * f.wall;
    f.prepare_wait_out = 0.61 * 2 * f.wall;
    f.other_cores = 1.5;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_non_null(strstr(v.text, "Other programs keep 1.5 of 4 usable cores busy"));
    f.prepare_busy = f.cpu_s = 0.41 * 2 * f.wall;
    f.prepare_wait_out = 0.59 * 2 * f.wall;
    assert_int_equal(judge(&f).limit, STK_LIMIT_WORKERS);
    /* Waits that the loader knows nothing of do not decide. */
    f = plant_waits();
    wait_for(&f, STK_WAIT_ORDERING, 0.4);
    assert_int_not_equal(judge(&f).limit, STK_LIMIT_STRAGGLERS);
}

/* A step that sleeps, in a process whose quota of the cores is used up. */
static void test_late_step(void **state)
{
    stk_figures f = plant(0.010, 0);

    (void)state;
    f.step_stretch = 2;
    f.cpu_s = 4 * f.wall;
    f.prepare_busy = 2 * f.wall;
    /* Next to nothing is waited for: the step is the limit, whatever made it longer. */
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    assert_non_null(strstr(v.text, "2.00x the time it takes alone"));
    f.wait.mean = 0.0006;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_true(v.limit_share > 0.471 && v.limit_share < 0.472);
    assert_non_null(strstr(v.text, "gets its core late"));
    /* Waits for a core come on top. */
    f.wait.mean = 0.010;
    f.waits[STK_WAIT_WORKER] = 0.010 * (double)f.steps;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_true(v.limit_share > 0.749 && v.limit_share < 0.751);
    f.waits[STK_WAIT_WORKER] = 0;
    f.waits[STK_WAIT_STORAGE_LATENCY] = 0.010 * (double)f.steps;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_true(v.limit_share > 0.249 && v.limit_share < 0.251);
    f.waits[STK_WAIT_STORAGE_LATENCY] = f.wait.mean = 0;
    /* With cores left over something else made it longer. */
    f.cpu_s = 3 * f.wall;
    assert_int_equal(judge(&f).limit, STK_LIMIT_STEP);
    f.cpu_s = 4 * f.wall;
    f.step_stretch = 1.09;
    assert_int_equal(judge(&f).limit, STK_LIMIT_STEP);
}

/* Chunks of which samples take little. */
static void test_over_decode(void **state)
{
    stk_figures f = plant(0.010, 0.030);

    (void)state;
    wait_for(&f, STK_WAIT_DECODE, 1);
    f.bytes_taken = 1000000;
    f.bytes_decoded = 1990000;
    assert_int_equal(judge(&f).limit, STK_LIMIT_WORKERS);
    f.bytes_decoded = 2500000;
    stk_verdict v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_OVER_READ);
    assert_non_null(strstr(v.text, "2.5 bytes of chunks for each one in a sample"));
    assert_true(v.gain > 2.49 && v.gain < 2.51);
}

static void test_pinned(void **state)
{
    stk_figures f = plant(0.010, 0);

    (void)state;
    assert_null(strstr(judge(&f).text, "pin_memory"));
    f.pin_memory = true;
    assert_non_null(strstr(judge(&f).text, "pin_memory cannot help"));
    f.device = true;
    assert_null(strstr(judge(&f).text, "pin_memory"));
}

static void test_format(void **state)
{
    stk_figures f = plant_waits();
    char text[4096], part[16];
    stk_waits waits = {0};

    (void)state;
    wait_for(&f, STK_WAIT_RETRY, 0.5);
    int n = stk__figures_format(&f, text, sizeof text);
    assert_int_equal(n, strlen(text));
    assert_non_null(strstr(text, "\"wait_retry\": 15.0"));
    assert_non_null(strstr(text, "\"pin_memory\": false"));
    assert_int_equal(stk__figures_format(&f, part, sizeof part), n);
    stk_verdict v = judge(&f);
    n = stk_verdict_format(&v, text, sizeof text);
    assert_int_equal(n, strlen(text));
    assert_non_null(strstr(text, "\"limit\": \"retries\""));
    waits.parts_ns[STK_WAIT_DECODE] = 2500000000;
    stk_waits_format(&waits, text, sizeof text);
    assert_non_null(strstr(text, "\"decode\": 2.5, \"transform\": 0.0"));
}

static void test_nothing_measured(void **state)
{
    stk_figures f = {.struct_size = sizeof f};
    stk_verdict v = judge(&f);

    assert_int_equal(v.limit, STK_LIMIT_UNKNOWN);
    assert_string_equal(v.text, "Nothing was measured.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency),
        cmocka_unit_test(test_small_reads),
        cmocka_unit_test(test_bandwidth),
        cmocka_unit_test(test_retries_in_the_slots),
        cmocka_unit_test(test_other_waits),
        cmocka_unit_test(test_waits_for_workers),
        cmocka_unit_test(test_late_step),
        cmocka_unit_test(test_over_decode),
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_step_threshold),
        cmocka_unit_test(test_few_steps),
        cmocka_unit_test(test_one_core),
        cmocka_unit_test(test_read_alone),
        cmocka_unit_test(test_one_core_on_slow_storage),
        cmocka_unit_test(test_storage_threshold),
        cmocka_unit_test(test_cores_threshold),
        cmocka_unit_test(test_cores_of_another_loader),
        cmocka_unit_test(test_stretched_by_another_loader),
        cmocka_unit_test(test_too_few_workers),
        cmocka_unit_test(test_oversubscribed_threshold),
        cmocka_unit_test(test_ranks_share_the_cores),
        cmocka_unit_test(test_leak_is_said),
        cmocka_unit_test(test_no_step),
        cmocka_unit_test(test_nothing_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
