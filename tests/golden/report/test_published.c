/* SPDX-License-Identifier: Apache-2.0 */
/* Logs as the published Python benchmark writes them against figures of numpy
 * (scripts/make_report_golden.py), and the published figures of its run fig2. */
#include "support/support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/report.h>

#include "measure/read.h"

#define NEAR(a, b, relative) assert_true(fabs((a) - (b)) <= (relative)*fabs((double)(b)) + 1e-9)

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/golden/report/%s", TESTS_DIR, name);
    return path;
}

static double figure(json_t *expected, const char *name)
{
    json_t *value = json_object_get(expected, name);

    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void check_run(const stk_report_run *run, json_t *e)
{
    NEAR(run->total, figure(e, "total"), 1e-12);
    NEAR(run->setup, figure(e, "setup"), 1e-12);
    assert_int_equal(run->get_batches, figure(e, "get_batches"));
    NEAR(run->get_batch.mean, figure(e, "get_mean"), 1e-12);
    NEAR(run->expected_starts, figure(e, "expected_starts"), 0);
    assert_int_equal(run->wait_notebook.n, figure(e, "waits_notebook"));
    assert_int_equal(run->wait.n, figure(e, "waits"));
    NEAR(run->wait_notebook.mean, figure(e, "wait_notebook"), 1e-12);
    NEAR(run->wait.mean, figure(e, "wait"), 1e-12);
    NEAR(run->wait_deviation, figure(e, "deviation"), 1e-9);
    NEAR(run->wait.p50, figure(e, "p50"), 1e-12);
    NEAR(run->wait.p95, figure(e, "p95"), 1e-12);
    NEAR(run->wait.p99, figure(e, "p99"), 1e-12);
    NEAR(run->wait.max, figure(e, "max"), 1e-12);
    NEAR(run->busy_share, figure(e, "busy"), 1e-12);
    json_t *epochs = json_object_get(e, "epochs"), *bins = json_object_get(e, "bins");
    assert_int_equal(run->num_epochs, json_array_size(epochs));
    for (size_t i = 0; i < run->num_epochs; i++)
        NEAR(run->epochs[i].duration, json_number_value(json_array_get(epochs, i)), 1e-12);
    for (size_t i = 0; i < STK_REPORT_BINS; i++)
        assert_int_equal(run->histogram.bins[i], json_integer_value(json_array_get(bins, i)));
    assert_int_equal(run->histogram.beyond, figure(e, "beyond"));
}

/* Objects that share a line, empty lines, neighbours out of order, events behind "run end". */
static void test_logs(void **state)
{
    static const char *const names[] = {"baseline", "workers", "many"};
    json_t *expected = json_load_file(path_of("expected.json"), 0, NULL);
    stk_context *ctx = test_context();
    stk_report *report;
    stk_error err;

    assert_non_null(expected);
    assert_ok(stk_report_create(ctx, &report, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.log", names[i]);
        json_t *e = json_object_get(expected, names[i]);
        assert_ok(stk_report_read(report, path_of(name), &err), &err);
        const stk_report_file *file = stk_report_file_at(report, i);
        assert_int_equal(file->objects, figure(e, "objects"));
        assert_int_equal(file->notebook_lost, figure(e, "notebook_lost"));
        assert_int_equal(file->dropped_bytes, 0);
        assert_int_equal(stk_report_runs(report), i + 1);
        const stk_report_run *run = stk_report_run_at(report, i);
        assert_true(run->published && run->ended && !run->headless && run->exact);
        assert_int_equal(run->get_starts, run->expected_starts);
        check_run(run, e);
    }
    json_decref(expected);
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
}

/* ---- fig2 ------------------------------------------------------------------------------------ */

struct writer {
    stk_report *report;
    double now;
};

static void emit(struct writer *w, const char *name, const char *more)
{
    char line[600];
    stk_error err;

    int n =
        snprintf(line, sizeof line, "{\"event\": \"%s\", \"time\": %.6f%s}\n", name, w->now, more);
    assert_ok(stk__report_feed(w->report, line, (size_t)n, &err), &err);
}

/* A batch of 4 samples, loaded one after the other in the time of its wait. */
static void load(struct writer *w, double wait, int *idx)
{
    /* What the mean of the published log lacks to a quarter of the wait is the loader's own. */
    double each = wait * 0.34576 / 1.3837412;
    char more[128];

    for (int i = 0; i < 4; i++) {
        snprintf(more, sizeof more, ", \"idx\": %d, \"pid\": 77", *idx);
        emit(w, "get-batch start", more);
        w->now += each;
        snprintf(more, sizeof more, ", \"idx\": %d, \"pid\": 77, \"duration\": %.9f", (*idx)++,
                 each);
        emit(w, "get-batch end", more);
    }
    w->now += wait - 4 * each;
}

static void train(struct writer *w, int batch)
{
    const double step = 0.1001;
    char more[96];

    snprintf(more, sizeof more, ", \"batch\": %d", batch);
    emit(w, "training start", more);
    w->now += step;
    snprintf(more, sizeof more, ", \"batch\": %d, \"duration\": %.4f", batch, step);
    emit(w, "training end", more);
}

static void write_fig2(struct writer *w, FILE *waits)
{
    char more[128];
    int idx = 0;

    emit(w, "run start",
         ", \"data_params\": \"{'batch_size': 4, 'shuffle': True}\", \"locals\": {\"source\": "
         "\"arraylake\", \"num_epochs\": 3, \"num_batches\": 500, \"batch_size\": 4, \"shuffle\": "
         "true, \"num_workers\": null, \"prefetch_factor\": null, \"persistent_workers\": null, "
         "\"pin_memory\": null, \"train_step_time\": 0.1, \"dask_threads\": 1}");
    double start = w->now;
    emit(w, "setup start", "");
    w->now += 4.18626;
    load(w, 1.38374, &idx);
    snprintf(more, sizeof more, ", \"duration\": %.6f", w->now - start);
    emit(w, "setup end", more);
    for (int epoch = 0; epoch < 3; epoch++) {
        double began = w->now, wait;
        snprintf(more, sizeof more, ", \"epoch\": %d", epoch);
        emit(w, "epoch start", more);
        for (int batch = 0; batch < 500; batch++) {
            assert_int_equal(fscanf(waits, "%lf", &wait), 1);
            load(w, wait, &idx);
            train(w, batch);
        }
        snprintf(more, sizeof more, ", \"epoch\": %d, \"duration\": %.6f", epoch, w->now - began);
        emit(w, "epoch end", more);
    }
    snprintf(more, sizeof more, ", \"duration\": %.6f", w->now - start);
    emit(w, "run end", more);
}

static void test_fig2(void **state)
{
    static const double epochs[] = {837.37, 749.52, 638.87};
    stk_context *ctx = test_context();
    FILE *waits = fopen(path_of("fig2.txt"), "r");
    struct writer w = {.now = 1710523476.1234567};
    stk_error err;

    assert_non_null(waits);
    assert_ok(stk_report_create(ctx, &w.report, &err), &err);
    assert_ok(stk__report_begin(w.report, "fig2", &err), &err);
    write_fig2(&w, waits);
    assert_ok(stk__report_end(w.report, &err), &err);
    fclose(waits);
    const stk_report_run *run = stk_report_run_at(w.report, 0);
    /* The published log has as many lines. */
    assert_int_equal(stk_report_file_at(w.report, 0)->objects, 15018);
    assert_int_equal(run->get_batches, 6004);
    assert_int_equal(run->expected_starts, 6004);
    assert_true(fabs(run->total - 2231.33) < 0.02);
    assert_true(fabs(run->setup - 5.57) < 0.005);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(run->epochs[i].duration - epochs[i]) < 0.005);
    assert_true(fabs(run->get_batch.mean - 0.34576) < 5e-5);
    assert_int_equal(run->wait.n, 1499);
    assert_true(fabs(run->wait.mean - 1.383495) < 2e-6);
    assert_true(fabs(run->wait_notebook.mean - 1.383495) < 2e-6);
    assert_true(fabs(run->wait.p50 - 1.299) < 1e-3);
    assert_true(fabs(run->wait.p95 - 1.891) < 1e-3);
    assert_true(fabs(run->wait.max - 5.85) < 1e-3);
    assert_true(fabs(100 * run->busy_share - 6.7) < 0.05);
    assert_int_equal(run->verdict->limit, STK_LIMIT_ONE_CORE);
    stk_report_destroy(&w.report);
    stk_context_destroy(&ctx);
}

/* ---- A log of our own ------------------------------------------------------------------------ */

static const stk_report_series *series_of(const stk_report_run *run, const char *group,
                                          const char *name)
{
    for (uint64_t i = 0; i < run->num_series; i++)
        if (strcmp(run->series[i].group, group) == 0 && strcmp(run->series[i].name, name) == 0)
            return &run->series[i];
    fail_msg("no series %s of %s", name, group);
    return NULL;
}

/* Sum of all parts of a group in an epoch. */
static double parts_of(const stk_report_run *run, const char *group, uint64_t epoch)
{
    double sum = 0;

    for (uint64_t i = 0; i < run->num_series; i++)
        if (strcmp(run->series[i].group, group) == 0)
            sum += run->series[i].sum[epoch];
    return sum;
}

/* Its parts add up to the epoch, those of the wait to the wait. */
static void test_ledger(void **state)
{
    stk_context *ctx = test_context();
    stk_report *report;
    stk_error err;

    assert_ok(stk_report_create(ctx, &report, &err), &err);
    assert_ok(stk_report_read(report, path_of("ledger.log"), &err), &err);
    assert_int_equal(stk_report_runs(report), 2);
    for (uint64_t r = 0; r < 2; r++) {
        const stk_report_run *run = stk_report_run_at(report, r);
        const stk_report_series *wait = series_of(run, "ledger.parts", "data wait");
        assert_true(!run->published && run->ended && run->verdict_logged);
        assert_int_equal(run->verdict->limit, STK_LIMIT_STORAGE);
        assert_string_equal(run->label, r ? "num_workers=4" : "num_workers=1");
        assert_int_equal(run->steps, 120);
        assert_int_equal(run->num_epochs, 3);
        assert_true(wait->ledger && wait->width == 1 && wait->n == 3);
        for (uint64_t e = 0; e < 3; e++) {
            NEAR(parts_of(run, "ledger.parts", e), run->epochs[e].duration, 1e-9);
            NEAR(parts_of(run, "ledger.wait", e), wait->sum[e], 1e-9);
            NEAR(series_of(run, "ledger.parts", "step")->sum[e], run->epochs[e].step, 1e-9);
        }
        assert_true(!series_of(run, "system.cpu", "process")->ledger);
        assert_true(series_of(run, "queue", "ready")->whole);
    }
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
}

/* ---- Welch ----------------------------------------------------------------------------------- */

static void test_welch(void **state)
{
    FILE *f = fopen(path_of("welch.txt"), "r");
    int n_a, n_b, cases = 0;

    assert_non_null(f);
    for (; fscanf(f, "%d %d", &n_a, &n_b) == 2; cases++) {
        double a[64], b[64], want[5];
        stk_ratio r = {.struct_size = sizeof r};
        for (int i = 0; i < n_a; i++)
            assert_int_equal(fscanf(f, "%lf", &a[i]), 1);
        for (int i = 0; i < n_b; i++)
            assert_int_equal(fscanf(f, "%lf", &b[i]), 1);
        for (int i = 0; i < 5; i++)
            assert_int_equal(fscanf(f, "%lf", &want[i]), 1);
        stk__ratio_of(a, (uint64_t)n_a, b, (uint64_t)n_b, &r);
        NEAR(r.ratio, want[0], 1e-9);
        NEAR(r.low, want[1], 1e-7);
        NEAR(r.high, want[2], 1e-7);
        NEAR(r.p, want[3], 1e-7);
        NEAR(r.freedom, want[4], 1e-9);
        assert_int_equal(r.sureness, STK_SURE_RUNS);
        assert_int_equal(r.real, want[1] > 1 || want[2] < 1);
    }
    assert_int_equal(cases, 4);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logs),
        cmocka_unit_test(test_fig2),
        cmocka_unit_test(test_ledger),
        cmocka_unit_test(test_welch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
