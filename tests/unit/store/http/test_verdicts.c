/* SPDX-License-Identifier: Apache-2.0 */
/* Causes planted in a server: the verdict names each, and what it advises helps. */
#include "world.h"

#include <stdlib.h>

#include <stoker/bench.h>

enum { OBJECTS = 64, OBJECT = 65536, READ = 16384, BATCH = 8, TRIES = 3 };

static const struct row {
    const char *name;
    uint32_t latency_ms;
    uint64_t bandwidth_all;
    http_fault fault;
    const char *options; /* of the store */
    int64_t io_depth;
    stk_limit limit;
    const char *knob; /* NULL: nothing is advised */
    uint64_t batches;
} rows[] = {
    {"latency", 10, 0, {0}, "", 4, STK_LIMIT_LATENCY, "io_depth", 25},
    {"connections", 10, 0, {0}, "&connections=4", 32, STK_LIMIT_CONNECTIONS, "connections", 25},
    {"bandwidth", 2, 3000000, {0}, "", 32, STK_LIMIT_BANDWIDTH, NULL, 20},
    {"mute",
     2,
     0,
     {.chance = 0.1, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD},
     "&first_byte_timeout=400ms",
     32,
     STK_LIMIT_RETRIES,
     "first_byte_timeout",
     25},
    {"resets",
     5,
     0,
     {.chance = 0.3, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD},
     "",
     32,
     STK_LIMIT_RETRIES,
     NULL,
     25},
    {"throttling",
     20,
     0,
     {.above = 4, .status = 503},
     "&connections=8",
     32,
     STK_LIMIT_THROTTLED,
     "connections",
     12},
};

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    char path[32];

    f->context = test_context();
    f->server = http_server_start(&(http_server_options){.seed = 1, .s3 = true});
    assert_non_null(f->server);
    for (int i = 0; i < OBJECTS; i++) {
        snprintf(path, sizeof path, "/photographs/%02d", i);
        assert_true(http_server_put(f->server, path, f->bytes, OBJECT));
    }
    *state = f;
    return 0;
}

static stk_figures measure(fixture *f, const struct row *row, const char *options, int64_t io_depth)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    stk_loader_options loader;
    stk_bench_options bench;
    stk_bench *run = NULL;
    char dataset[400];
    stk_error err;

    snprintf(dataset, sizeof dataset,
             "synthetic:s3://photographs/?read_bytes=%d&shape=8x8x1&anonymous=true&endpoint=%s%s",
             READ, http_server_url(f->server), options);
    stk_loader_options_init(&loader);
    loader.batch_size = BATCH;
    loader.num_workers = 1;
    loader.shuffle = true;
    loader.io_depth = io_depth;
    loader.prefetch_factor = 2;
    stk_bench_options_init(&bench);
    bench.num_epochs = 1;
    bench.num_batches = row->batches;
    bench.warmup = 2;
    bench.train_step_time = 0;
    const stk_bench_setting setting = {
        .struct_size = sizeof setting, .dataset = dataset, .loader = &loader, .bench = &bench};
    assert_ok(stk_bench_create(f->context, &setting, &run, &err), &err);
    assert_ok(stk_bench_run(run, &result, &figures, &err), &err);
    stk_bench_destroy(&run);
    assert_int_equal(result.status, STK_OK);
    return figures;
}

/* Whether what is advised gives more. */
static bool helps(fixture *f, const struct row *row, const stk_verdict *v, double rate)
{
    char options[100];
    int64_t depth = row->io_depth;

    snprintf(options, sizeof options, "&%s=%s", v->knob, v->value);
    if (strcmp(v->knob, "io_depth") == 0) {
        depth = strtol(v->value, NULL, 10);
        options[0] = 0;
    }
    const stk_figures after = measure(f, row, options, depth);
    if (after.samples_per_s <= rate)
        print_message("%s: %s=%s gives %.0f samples/s instead of %.0f\n", row->name, v->knob,
                      v->value, after.samples_per_s, rate);
    return after.samples_per_s > rate;
}

static bool is_named(fixture *f, const struct row *row)
{
    stk_verdict v = {.struct_size = sizeof v};
    const stk_figures figures = measure(f, row, row->options, row->io_depth);

    stk_judge(&figures, &v);
    if (v.limit == row->limit && strcmp(v.knob, row->knob ? row->knob : "") == 0 &&
        strstr(v.text, "A read over the network takes "))
        return !row->knob || helps(f, row, &v, figures.samples_per_s);
    print_message("%s: %s: %s\n", row->name, stk_limit_name(v.limit), v.text);
    return false;
}

/* Other programs on the machine are a cause, too: it may have to be planted again. */
static void test_planted(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        http_fault fault = row->fault;
        bool named = false;

        fault.path = "/photographs/?*";
        http_server_mend(f->server);
        http_server_shape(f->server, row->latency_ms, 0, row->bandwidth_all);
        if (fault.cut || fault.status)
            assert_true(http_server_fault(f->server, &fault) > 0);
        for (int n = 0; n < TRIES && !named; n++)
            named = is_named(f, row);
        assert_true(named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_planted, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
