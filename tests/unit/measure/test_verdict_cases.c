/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every cause that a verdict knows, planted in figures: what it is called, what it says and what it
 * advises. The same figures go through a log, and the report says the same of them.
 */
#include "unit/measure/planted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure/figures.h"
#include "measure/measure.h"
#include "measure/read.h"

/* ---- The cases ------------------------------------------------------------------------------- */

static void step(stk_figures *f)
{
    *f = plant(0.010, 0.0001);
}

static void one_core(stk_figures *f)
{
    *f = plant(0.010, 0.030);
    f->num_workers = 0;
    f->prepare_busy = f->cpu_s = 1000 * 0.030;
}

/* Three workers, and a step that computes: all four cores. */
static void all_cores(stk_figures *f)
{
    *f = plant(0.010, 0.030);
    wait_for(f, STK_WAIT_WORKER, 1);
    f->spin = true;
    f->num_workers = 3;
    f->prepare_busy = f->cpu_s = 3 * f->wall;
}

static void decode_bound(stk_figures *f)
{
    all_cores(f);
    f->pictures = 64000;
    f->decode_seconds = 0.8 * f->prepare_busy;
}

static void few_workers(stk_figures *f)
{
    *f = plant(0.010, 0.030);
    wait_for(f, STK_WAIT_WORKER, 1);
}

static void threads_take_turns(stk_figures *f)
{
    all_cores(f);
    f->num_workers = 8;
    f->prepare_busy = 8 * f->wall;
    f->cpu_s = 3 * f->wall;
    f->runnable_s = 5 * f->wall;
}

/* 40 ms of a read however few, 8 at a time. */
static void far_store(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_READ_SLOT, 1);
    f->read_latency = f->read_floor = 0.040;
    f->requests = (uint64_t)(f->read_seconds / 0.040);
    f->bytes_read = f->bytes_needed = f->requests * 1000000;
}

static void ssd(stk_figures *f)
{
    far_store(f);
    f->read_latency = f->read_floor = 0.0005;
    f->requests = (uint64_t)(f->read_seconds / 0.0005);
}

/* 120 reads a second of 16 KiB, 8 in the queue of one head. */
static void disk(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_READ_SLOT, 1);
    f->requests = (uint64_t)(120 * f->wall);
    f->read_latency = f->read_floor = f->read_seconds / (double)f->requests;
    f->bytes_read = f->bytes_needed = f->requests * 16384;
}

/* The same, once the reads tell that they queue. */
static void disk_queue(stk_figures *f)
{
    disk(f);
    f->read_transfer_share = 0.8;
}

static void bandwidth(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_READ_SLOT, 1);
    f->read_transfer_share = 0.9;
}

static void small_files(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_READ_SLOT, 1);
    f->io_depth = 64;
    f->read_seconds = 60 * f->wall;
    f->bytes_read = f->bytes_needed = f->requests * 4096;
}

static void over_read(stk_figures *f)
{
    bandwidth(f);
    f->bytes_needed = f->bytes_read / 5;
}

static void over_decode(stk_figures *f)
{
    *f = plant(0.010, 0.030);
    wait_for(f, STK_WAIT_DECODE, 1);
    f->bytes_taken = 1000000;
    f->bytes_decoded = 7000000;
}

static void advised_chunks(stk_figures *f)
{
    over_decode(f);
    memcpy(f->chunks, "8x64x64", 8);
}

static void retries(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_RETRY, 1);
}

#define NET_MS UINT64_C(1000000)

/* What a read takes, in ms: its turn, tries in vain, first byte, bytes. */
static void over_network(stk_figures *f, uint64_t turn, uint64_t throttled, uint64_t again,
                         uint64_t first, uint64_t body)
{
    far_store(f);
    const uint64_t reads = f->requests;
    f->network = (stk_network){.reads = reads,
                               .bytes = f->bytes_read,
                               .requests = reads,
                               .turn_ns = reads * turn * NET_MS,
                               .throttled_ns = reads * throttled * NET_MS,
                               .again_ns = reads * again * NET_MS,
                               .first_ns = reads * first * NET_MS,
                               .body_ns = reads * body * NET_MS,
                               .connections = 64,
                               .window = 64};
}

static void far_server(stk_figures *f)
{
    over_network(f, 0, 0, 0, 36, 4);
}

static void some_connections(stk_figures *f)
{
    far_server(f);
    f->network.connections = f->network.window = 16;
}

static void near_server(stk_figures *f)
{
    over_network(f, 0, 0, 0, 9, 1);
    f->read_latency = f->read_floor = 0.010;
    f->read_seconds = 2 * f->wall;
    f->io_depth = 2;
}

/* All connections are in use: more of them is what lets more reads be under way. */
static void all_connections(stk_figures *f)
{
    far_server(f);
    f->network.connections = f->network.window = 8;
}

static void few_connections(stk_figures *f)
{
    over_network(f, 30, 0, 0, 9, 1);
    f->network.connections = f->network.window = 2;
}

static void narrow_network(stk_figures *f)
{
    few_connections(f);
    f->network.transfer_share = 0.8;
}

/* 100 kB in 36 ms are less than a connection alone brings; nothing tells how it was with fewer. */
static void shared_network(stk_figures *f)
{
    over_network(f, 10, 0, 0, 2, 36);
    f->network.bytes = f->bytes_read = f->bytes_needed = f->network.reads * 100000;
    f->waits[STK_WAIT_ORDERING] = f->waits[STK_WAIT_READ_SLOT];
}

static void throttling(stk_figures *f)
{
    over_network(f, 10, 15, 2, 12, 1);
    f->network.throttled = f->network.retries = f->network.reads / 10;
    f->network.window = 5;
}

/* Most of the time is waiting for a turn, as fewer are let through: no more connections help. */
static void lowered(stk_figures *f)
{
    over_network(f, 30, 2, 0, 7, 1);
    f->network.throttled = f->network.retries = f->network.reads / 10;
    f->network.window = 5;
}

static void throttled_batches(stk_figures *f)
{
    throttling(f);
    f->network.window = 64;
    f->waits[STK_WAIT_ORDERING] = f->waits[STK_WAIT_READ_SLOT];
    f->waits[STK_WAIT_READ_SLOT] = 0;
}

static void failing_server(stk_figures *f)
{
    over_network(f, 0, 0, 20, 19, 1);
    f->network.retries = f->network.reads / 2;
}

/* One of 20 is never answered, and given up after 400 ms. */
static void mute_server(stk_figures *f)
{
    over_network(f, 0, 0, 20, 19, 1);
    f->network.retries = f->network.late = f->network.reads / 20;
}

static void cached_store(stk_figures *f)
{
    few_connections(f);
    f->network.bytes = f->bytes_read / 3;
}

static void budget(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_MEMORY_BUDGET, 1);
    f->budget_wait = 0.7 * f->wall;
}

static void stragglers(stk_figures *f)
{
    *f = plant_waits();
    wait_for(f, STK_WAIT_ORDERING, 1);
}

static void turn(stk_figures *f)
{
    *f = plant_waits();
    f->persistent_workers = false;
    wait_for(f, STK_WAIT_EPOCH_TURN, 1);
}

static void oversubscribed(stk_figures *f)
{
    *f = plant(0.010, 0.001);
    f->spin = true;
    f->usable_cores = 20;
    f->num_workers = 24;
    f->io_threads = 64;
    f->step_stretch = 1.4;
}

/* Ranks that each take what one alone may have. */
static void ranks(stk_figures *f)
{
    oversubscribed(f);
    f->ranks = 8;
    f->usable_cores = 160;
    f->io_threads = 0;
}

/* Four workers of five cores: nothing to take away, and the step suffers all the same. */
static void stretched(stk_figures *f)
{
    *f = plant(0.010, 0.0001);
    f->spin = true;
    f->usable_cores = 5;
    f->num_workers = 4;
    f->step_stretch = 1.4;
}

static void pinned(stk_figures *f)
{
    step(f);
    f->pin_memory = true;
}

static void growing(stk_figures *f)
{
    step(f);
    f->leak_bytes_per_epoch = 5 * 1024 * 1024;
}

static void accumulating(stk_figures *f)
{
    step(f);
    f->optimizer_steps = f->steps / 4;
    f->optimizer_time = 0.003;
}

/* Half of the time is a trainer's own. */
static void beside(stk_figures *f)
{
    *f = plant(0.010, 0.001);
    f->spin = true;
    f->val_every = 1;
    f->log_every = 50;
    f->wall = 1000 * 0.022;
    f->samples_per_s = 64000 / f->wall;
}

static void validation(stk_figures *f)
{
    beside(f);
    f->validation_s = 11;
}

static void callbacks(stk_figures *f)
{
    beside(f);
    f->callbacks_s = 11;
}

static void logging(stk_figures *f)
{
    beside(f);
    f->logging_s = 11;
}

static void checkpoints(stk_figures *f)
{
    beside(f);
    f->checkpoint_s = 11;
}

static void transfer(stk_figures *f)
{
    beside(f);
    f->device = true;
    f->transfer_s = 11;
}

static const struct row {
    void (*plant)(stk_figures *f);
    stk_limit limit;
    const char *knob, *value, *says;
} rows[] = {
    {step, STK_LIMIT_STEP, "", "", "no setting of it can give more than 1.01x"},
    {one_core, STK_LIMIT_ONE_CORE, "num_workers", "3", "One core does all the work"},
    {all_cores, STK_LIMIT_CORES, "", "", "More workers do not help any more."},
    {decode_bound, STK_LIMIT_DECODE, "", "", "Decode-bound"},
    {few_workers, STK_LIMIT_WORKERS, "num_workers", "3", "Too few workers"},
    {threads_take_turns, STK_LIMIT_CORES, "num_workers", "3", "only take turns: 3 in all"},
    {far_store, STK_LIMIT_LATENCY, "io_depth", "32", "It answers like an object store."},
    {ssd, STK_LIMIT_LATENCY, "io_depth", "32", "It answers like an SSD."},
    {disk, STK_LIMIT_LATENCY, "io_depth", "32", "120 reads a second are what a hard disk gives"},
    {disk_queue, STK_LIMIT_BANDWIDTH, "", "", "120 reads a second are what a hard disk gives:"},
    {bandwidth, STK_LIMIT_BANDWIDTH, "", "", "a compressed format"},
    {small_files, STK_LIMIT_SMALL_READS, "", "", "packed into few large files"},
    {over_read, STK_LIMIT_OVER_READ, "", "", "5.0 bytes for each one"},
    {over_decode, STK_LIMIT_OVER_READ, "", "", "7.0 bytes of chunks"},
    {advised_chunks, STK_LIMIT_OVER_READ, "chunks", "8x64x64", "Set chunks to 8x64x64: up to "},
    {retries, STK_LIMIT_RETRIES, "", "", "tried again"},
    {far_server, STK_LIMIT_LATENCY, "io_depth", "32",
     "A read over the network takes 40 ms: 36 to the first byte, 4 for its bytes."},
    {some_connections, STK_LIMIT_LATENCY, "io_depth", "16", "36 to the first byte"},
    {near_server, STK_LIMIT_LATENCY, "io_depth", "8", "It answers like a network store."},
    {all_connections, STK_LIMIT_LATENCY, "connections", "32", "36 to the first byte"},
    {few_connections, STK_LIMIT_CONNECTIONS, "connections", "8", "wait 75 % of their time"},
    {narrow_network, STK_LIMIT_BANDWIDTH, "", "", "The bandwidth of the network is the limit"},
    {shared_network, STK_LIMIT_BANDWIDTH, "", "", "cache+URL"},
    {throttling, STK_LIMIT_THROTTLED, "connections", "5", "10 % of the requests are answered 429"},
    {lowered, STK_LIMIT_THROTTLED, "connections", "5", "are 80 % of the time of a read"},
    {throttled_batches, STK_LIMIT_THROTTLED, "connections", "3", "15 throttled"},
    {failing_server, STK_LIMIT_RETRIES, "", "", "50 % of the requests are sent again"},
    {mute_server, STK_LIMIT_RETRIES, "first_byte_timeout", "95ms", "5 % as no answer came in time"},
    {cached_store, STK_LIMIT_LATENCY, "io_depth", "32", "It answers like an object store."},
    {budget, STK_LIMIT_BUDGET, "memory_budget", "134217728", "waits 70 % of the time"},
    {stragglers, STK_LIMIT_STRAGGLERS, "prefetch_factor", "4", "Stragglers"},
    {turn, STK_LIMIT_TURN, "persistent_workers", "true", "turn of the epoch"},
    {oversubscribed, STK_LIMIT_OVERSUBSCRIBED, "num_workers", "18",
     "24 workers and 64 reading threads on 20 usable cores"},
    {ranks, STK_LIMIT_OVERSUBSCRIBED, "num_workers", "18",
     "192 workers on 160 usable cores (all ranks together)"},
    {ranks, STK_LIMIT_OVERSUBSCRIBED, "num_workers", "18", "18 workers a rank, 144 in all"},
    {stretched, STK_LIMIT_STEP, "", "", "the step takes 1.40x the time it takes alone"},
    {pinned, STK_LIMIT_STEP, "", "", "pin_memory cannot help"},
    {growing, STK_LIMIT_STEP, "", "", "5.0 MiB every epoch"},
    {accumulating, STK_LIMIT_STEP, "", "",
     "every 4 batches on average and takes 3 ms of the last one's step"},
    {validation, STK_LIMIT_VALIDATION, "check_val_every_n_epoch", "2",
     "Validation takes 50.0 % of the time"},
    {callbacks, STK_LIMIT_CALLBACKS, "callbacks", "", "Callbacks take 50.0 % of the time"},
    {logging, STK_LIMIT_LOGGING, "log_every_n_steps", "500", "Logging takes 50.0 % of the time"},
    {checkpoints, STK_LIMIT_CHECKPOINT, "every_n_train_steps", "",
     "Checkpoints take 50.0 % of the time"},
    {transfer, STK_LIMIT_TRANSFER, "pin_memory", "true", "Transfer takes 50.0 % of the time"},
};

static void check(const struct row *row, const stk_verdict *v)
{
    if (v->limit != row->limit || !strstr(v->text, row->says))
        print_message("%s: %s\n", stk_limit_name(row->limit), v->text);
    assert_int_equal(v->limit, row->limit);
    assert_string_equal(v->knob, row->knob);
    assert_string_equal(v->value, row->value);
    assert_non_null(strstr(v->text, row->says));
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk_figures f;
        rows[i].plant(&f);
        stk_verdict v = judge(&f);
        check(&rows[i], &v);
    }
}

/* All limits that there are have a case; `storage` is what is left where the waits are not known.
 */
static void test_every_limit(void **state)
{
    bool seen[STK_LIMIT_UNKNOWN + 1] = {[STK_LIMIT_STORAGE] = true, [STK_LIMIT_UNKNOWN] = true};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++)
        seen[rows[i].limit] = true;
    for (int i = 0; i <= STK_LIMIT_UNKNOWN; i++) {
        if (!seen[i])
            print_message("no case: %s\n", stk_limit_name((stk_limit)i));
        assert_true(seen[i]);
        assert_true(i == STK_LIMIT_UNKNOWN || strcmp(stk_limit_name((stk_limit)i), "unknown") != 0);
    }
}

/* ---- Through a log --------------------------------------------------------------------------- */

static void feed(stk_report *report, const char *text)
{
    stk_error err;

    assert_ok(stk__report_feed(report, text, strlen(text), &err), &err);
}

/* The report judges what it reads of the figures: none of them may be lost on the way. */
static void test_report(void **state)
{
    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk_context *ctx = test_context();
        stk_report *report;
        stk_figures f;
        stk_error err;
        char text[8192];

        rows[i].plant(&f);
        assert_ok(stk_report_create(ctx, &report, &err), &err);
        assert_ok(stk__report_begin(report, "log", &err), &err);
        feed(report, "{\"event\": \"run start\", \"time\": 1, \"time_ns\": 1, \"pid\": 7}\n"
                     "{\"event\": \"figures\", \"time\": 2, ");
        assert_in_range(stk__figures_format(&f, text, sizeof text), 1, sizeof text - 1);
        feed(report, text);
        feed(report, ", \"time_ns\": 2, \"pid\": 7}\n"
                     "{\"event\": \"run end\", \"time\": 3, \"time_ns\": 3, \"pid\": 7}\n");
        assert_ok(stk__report_end(report, &err), &err);
        const stk_verdict direct = judge(&f);
        const stk_verdict *read = stk_report_run_at(report, 0)->verdict;
        check(&rows[i], read);
        assert_string_equal(read->text, direct.text);
        assert_true(fabs(read->gain - direct.gain) < 1e-9);
        assert_true(fabs(read->limit_share - direct.limit_share) < 1e-9);
        stk_report_destroy(&report);
        stk_context_destroy(&ctx);
    }
}

/* A log that ends in the middle has no figures; the ledger of its epochs still tells. */
static void test_cut_log(void **state)
{
    static const struct {
        const char *part, *says;
        stk_limit limit;
    } parts[] = {{"read_slot", "its ledger allows", STK_LIMIT_LATENCY},
                 {"retry", "its ledger allows", STK_LIMIT_RETRIES},
                 {"memory_budget", "its ledger allows", STK_LIMIT_BUDGET},
                 {"ordering", "its ledger allows", STK_LIMIT_STRAGGLERS},
                 /* How many cores there were nobody knows. */
                 {"worker", "No single limit", STK_LIMIT_UNKNOWN}};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        stk_context *ctx = test_context();
        stk_report *report;
        stk_error err;
        char line[512];

        assert_ok(stk_report_create(ctx, &report, &err), &err);
        assert_ok(stk__report_begin(report, "log", &err), &err);
        feed(report, "{\"event\": \"run start\", \"time\": 0, \"locals\": {\"num_workers\": 2, "
                     "\"io_depth\": 8, \"prefetch_factor\": 2, \"memory_budget\": 1000}}\n"
                     "{\"event\": \"epoch start\", \"epoch\": 0, \"time\": 1}\n");
        for (int k = 0; k < 10; k++) {
            snprintf(line, sizeof line,
                     "{\"event\": \"training start\", \"batch\": %d, \"time\": %d}\n"
                     "{\"event\": \"training end\", \"batch\": %d, \"time\": %d.25, "
                     "\"duration\": 0.25}\n",
                     k, 2 + k, k, 2 + k);
            feed(report, line);
        }
        snprintf(line, sizeof line,
                 "{\"event\": \"ledger\", \"epoch\": 0, \"time\": 12, \"parts\": {\"step\": 2.5}, "
                 "\"wait\": {\"%s\": 6.5, \"decode\": 0.5, \"other\": 0.5}}\n{\"event\": \"traini",
                 parts[i].part);
        feed(report, line);
        assert_ok(stk__report_end(report, &err), &err);
        const stk_verdict *v = stk_report_run_at(report, 0)->verdict;
        assert_int_equal(v->limit, parts[i].limit);
        assert_non_null(strstr(v->text, parts[i].says));
        assert_true(v->lost_share > 0.74 && v->lost_share < 0.76);
        stk_report_destroy(&report);
        stk_context_destroy(&ctx);
    }
}

/* ---- Beside the steps ------------------------------------------------------------------------ */

static void test_beside(void **state)
{
    stk_figures f;
    stk_verdict v = {.struct_size = sizeof v};

    (void)state;
    /* Half of the validations, and a quarter of the time is the steps'. */
    validation(&f);
    v = judge(&f);
    assert_true(v.limit_share > 0.499 && v.limit_share < 0.501);
    assert_true(v.lost_share > 0.0454 && v.lost_share < 0.0455);
    assert_true(v.gain > 1.333 && v.gain < 1.334);
    assert_non_null(strstr(v.text, "the step ran 45.5 %"));
    /* Twice as rarely is advised as long as the epochs last. */
    f.max_epochs = 2;
    v = judge(&f);
    assert_string_equal(v.knob, "check_val_every_n_epoch");
    f.max_epochs = 1;
    v = judge(&f);
    assert_string_equal(v.knob, "limit_val_batches");
    assert_string_equal(v.value, "0.5");
    f.val_every = 0;
    v = judge(&f);
    assert_string_equal(v.knob, "val_check_interval");
    assert_string_equal(v.value, "");
    /* A tenth of the time is the threshold: 11 ms of steps and waits, and 1.22 beside them. */
    f.validation_s = 1.21;
    v = judge(&f);
    assert_int_not_equal(v.limit, STK_LIMIT_VALIDATION);
    f.validation_s = 1.23;
    assert_int_equal(judge(&f).limit, STK_LIMIT_VALIDATION);
    /* Where the step is the limit the others are told with it. */
    step(&f);
    f.validation_s = 0.5;
    f.callbacks_s = 0.2;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_STEP);
    assert_non_null(strstr(v.text, "it ran 92.6 % of the time"));
    assert_non_null(strstr(v.text, "The rest: validation 4.6 %, callbacks 1.9 %."));
    /* What the step waits for comes first where it is more. */
    all_cores(&f);
    f.validation_s = 8;
    v = judge(&f);
    assert_int_equal(v.limit, STK_LIMIT_CORES);
    assert_int_equal(v.second, STK_LIMIT_VALIDATION);
    assert_true(v.lost_share > 0.624 && v.lost_share < 0.626);
    assert_non_null(strstr(v.text, "Next to it, validation takes 16.7 % of the time."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),  cmocka_unit_test(test_every_limit),
        cmocka_unit_test(test_report), cmocka_unit_test(test_cut_log),
        cmocka_unit_test(test_beside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
