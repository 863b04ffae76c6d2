/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/store.h>

#include "measure/read.h"

static stk_context *ctx;
static stk_report *report;
static stk_error err;

static int set_up(void **state)
{
    ctx = test_context();
    return stk_report_create(ctx, &report, &err) == STK_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    stk_report_destroy(&report);
    stk_context_destroy(&ctx);
    return 0;
}

/* Feed text in pieces of `piece` bytes. */
static stk_status take(const char *text, size_t piece)
{
    size_t n = strlen(text);

    stk_status status = stk__report_begin(report, "log", &err);
    for (size_t i = 0; i < n && status == STK_OK; i += piece)
        status = stk__report_feed(report, text + i, STK_MIN(piece, n - i), &err);
    return status == STK_OK ? stk__report_end(report, &err) : status;
}

#define RUN      "{\"event\": \"run start\", \"time\": 100.0, \"locals\": {\"batch_size\": 8}}\n"
#define START(t) "{\"event\": \"training start\", \"batch\": 0, \"time\": " t "}\n"
#define END(t, d)                                                                                  \
    "{\"event\": \"training end\", \"batch\": 0, \"time\": " t ", \"duration\": " d "}\n"

static const stk_report_run *run_at(uint64_t i)
{
    const stk_report_run *run = stk_report_run_at(report, i);

    assert_non_null(run);
    return run;
}

/* Torn and foreign pieces are counted to the byte, and what stands behind them is read, however the
 * bytes are cut. */
static void test_pieces(void **state)
{
    const char *text = RUN "\n\n" START("101.0") "{\"event\": \"trai" START("101.5")
        END("102.0", "0.5") "garbage here\n" START("103.25") "[1, 2]\n{\"other\": 1}\n" END(
            "104.0", "0.75") "{\"event\": \"training st";

    for (size_t piece = 1; piece < 200; piece++) {
        if (piece > 1) {
            tear_down(NULL);
            assert_int_equal(set_up(NULL), 0);
        }
        assert_ok(take(text, piece), &err);
        const stk_report_file *f = stk_report_file_at(report, 0);
        assert_int_equal(f->bytes, strlen(text));
        assert_int_equal(f->objects, 6);
        assert_int_equal(f->foreign, 1);
        assert_int_equal(f->dropped_bytes, strlen("{\"event\": \"trai") + strlen("garbage here") +
                                               strlen("[1, 2]") +
                                               strlen("{\"event\": \"training st"));
        assert_int_equal(f->dropped_pieces, 4);
        assert_int_equal(f->notebook_lost, 1);
        assert_true(f->truncated);
        assert_int_equal(run_at(0)->wait.n, 1);
        assert_true(run_at(0)->wait.mean == 1.25);
        assert_int_equal(run_at(0)->steps, 2);
    }
}

static void test_refused(void **state)
{
    char *zeros = calloc(1, 5 << 20);

    assert_non_null(zeros);
    assert_fails(take("", 1), STK_EFORMAT, &err, "is empty");
    tear_down(NULL), set_up(NULL);
    assert_fails(take("\n \n", 1), STK_EFORMAT, &err, "blanks alone");
    tear_down(NULL), set_up(NULL);
    assert_fails(take("a,b\n1,2\n", 3), STK_EFORMAT, &err, "holds no event");
    tear_down(NULL), set_up(NULL);
    assert_fails(take("{\"a\": 1}\n{\"b\": 2}\n", 7), STK_EFORMAT, &err, "no \"event\"");
    tear_down(NULL), set_up(NULL);
    /* A file that is no log is given up early. */
    memset(zeros, 'x', (5 << 20) - 1);
    assert_fails(take(zeros, 1 << 20), STK_EFORMAT, &err, "holds no event");
    assert_true(stk_report_file_at(report, 0)->bytes < 5 << 20);
    free(zeros);
    tear_down(NULL), set_up(NULL);
    assert_fails(stk_report_read(report, "/nowhere/log", &err), STK_ENOENT, &err, "no such file");
    assert_fails(stk_report_read(report, "/tmp", &err), STK_EINVAL, &err, "it is a folder");
}

/* The wall clock is set back by an hour between two steps: time goes on, and the wait across is not
 * counted. */
/* A log is an object of any store; one that is read in pieces is whole. */
static void test_elsewhere(void **state)
{
    stk_store *store = NULL;
    char *text = NULL, key[64];
    size_t length = 0;

    (void)state;
    FILE *all = open_memstream(&text, &length);
    assert_non_null(all);
    fputs(RUN, all);
    for (int i = 0; i < 4000; i++)
        fprintf(all, "{\"event\": \"training start\", \"batch\": %d, \"time\": %d.0}\n", i,
                101 + i);
    fclose(all);
    assert_ok(stk_store_open(ctx, "mem://logs", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "a/run.jsonl", text, length, NULL, &err), &err);
    assert_ok(stk_report_read(report, "mem://logs/a/run.jsonl", &err), &err);
    assert_int_equal(stk_report_runs(report), 1);
    const stk_report_file *file = stk_report_file_at(report, 0);
    assert_int_equal(file->bytes, length);
    assert_int_equal(file->objects, 4001);
    assert_fails(stk_report_read(report, "mem://logs/a", &err), STK_EINVAL, &err, "is a folder");
    assert_fails(stk_report_read(report, "mem://logs/none.jsonl", &err), STK_ENOENT, &err, "none");
    assert_int_equal(stk_report_runs(report), 1);
    stk_store_close(&store);
    free(text);
}

static void test_clock(void **state)
{
    const char *text = RUN START("5000.0") END("5001.0", "1.0") START("5001.5") END("5002.5", "1.0")
        START("1403.0") END("1404.0", "1.0") START("1404.25") END("1405.25", "1.0");

    assert_ok(take(text, 64), &err);
    const stk_report_file *f = stk_report_file_at(report, 0);
    assert_int_equal(f->clock_steps, 1);
    assert_true(fabs(f->clock_back - 3599.5) < 1e-9);
    assert_int_equal(run_at(0)->wait.n, 2);
    assert_true(fabs(run_at(0)->wait.mean - (0.5 + 0.25) / 2) < 1e-9);
    assert_true(fabs(run_at(0)->total - (4902.5 + 2.25)) < 1e-6);
}

/* Two processes write into one log; each event goes to the run of its process. */
static void test_ranks(void **state)
{
    static const char *const text =
        "{\"event\": \"run start\", \"time\": 1, \"rank\": 0, \"world_size\": 2, \"time_ns\": 0, "
        "\"pid\": 7}\n"
        "{\"event\": \"run start\", \"time\": 1, \"rank\": 1, \"world_size\": 2, \"time_ns\": 0, "
        "\"pid\": 8}\n"
        "{\"event\": \"training end\", \"time\": 2, \"duration\": 0.5, \"time_ns\": 1000000000, "
        "\"pid\": 7}\n"
        "{\"event\": \"training end\", \"time\": 2, \"duration\": 0.5, \"time_ns\": 1000000000, "
        "\"pid\": 8}\n"
        "{\"event\": \"training start\", \"time\": 3, \"time_ns\": 1500000000, \"pid\": 8}\n"
        "{\"event\": \"training start\", \"time\": 3, \"time_ns\": 1250000000, \"pid\": 7}\n";

    assert_ok(take(text, 100), &err);
    assert_int_equal(stk_report_runs(report), 2);
    /* By the monotonic clock; the notebook's by the other. */
    assert_true(run_at(0)->wait.mean == 0.25 && run_at(1)->wait.mean == 0.5);
    assert_true(run_at(0)->wait_notebook.mean == 1.0);
    assert_int_equal(run_at(1)->rank, 1);
    assert_false(run_at(0)->published);
}

/* Names that no reader knows: bars, series, a ledger; escapes and long names are kept in bounds. */
static void test_generic(void **state)
{
    static const char *const text = RUN
        "{\"event\": \"validation end\", \"time\": 103.0, \"duration\": 2.0}\n"
        "{\"event\": \"system\", \"time\": 101.0, \"cpu_cores\": 1.5, \"memory\": {\"anon_bytes\": "
        "1000}}\n"
        "{\"event\": \"system\", \"time\": 101.005, \"cpu_cores\": 2.5, \"memory\": "
        "{\"anon_bytes\": 3000}}\n"
        "{\"event\": \"ledger\", \"epoch\": 0, \"time\": 102, \"wait\": {\"decode\": 1.0, "
        "\"retry\": 0.25}}\n"
        "{\"event\": \"ledger\", \"epoch\": 1, \"time\": 104, \"wait\": {\"decode\": 0.5}}\n"
        "{\"event\": \"ledger\", \"epoch\": 1, \"time\": 105, \"wait\": {\"decode\": 0.5}}\n"
        "{\"event\": \"ledger\", \"time\": 105, \"wait\": {\"decode\": 2.0}}\n"
        "{\"event\": \"training start\", \"batch\": 0, \"time\": 105, \"ready\": 3}\n"
        "{\"event\": \"pace\", \"time\": 105, \"steps\": 80, \"wait\": 0.5, \"num_workers\": 2}\n"
        "{\"event\": \"a name that is much longer than the forty-seven bytes that are kept of "
        "it\", "
        "\"time\": 105}\n"
        "{\"event\": \"verdict\", \"time\": 106, \"limit\": \"storage\", \"lost_share\": 0.5, "
        "\"knob\": \"io_depth\", \"value\": 32, \"gain\": 2, \"text\": \"Because.\"}\n";
    uint64_t n;

    assert_ok(take(text, 50), &err);
    const stk_report_run *run = run_at(0);
    const stk_report_bar *bars = stk_report_bars(report, &n);
    assert_int_equal(n, 1);
    assert_string_equal(run->rows[bars[0].row], "validation");
    assert_true(bars[0].start == 1.0 && bars[0].length == 2.0f);
    assert_int_equal(run->num_series, 7);
    assert_string_equal(run->series[1].group, "system.memory");
    assert_string_equal(run->series[1].name, "anon_bytes");
    assert_true(run->series[1].sum[100] == 4000 && run->series[1].count[100] == 2);
    assert_string_equal(run->series[2].group, "ledger.wait");
    assert_true(run->series[2].ledger && run->series[2].n == 2);
    assert_true(run->series[2].sum[0] == 1 && run->series[2].sum[1] == 1);
    /* That of the whole run is not added to those of its epochs. */
    assert_string_equal(run->series[4].group, "ledger total.wait");
    assert_true(run->series[4].sum[0] == 2 && run->series[4].n == 1);
    assert_string_equal(run->series[5].group, "queue");
    assert_string_equal(run->series[5].name, "ready");
    /* Of a pace the lines are what it came to, not what it saw. */
    assert_string_equal(run->series[6].name, "num_workers");
    assert_true(run->verdict_logged);
    assert_int_equal(run->verdict->limit, STK_LIMIT_STORAGE);
    assert_string_equal(run->verdict->value, "32");
    bool unknown = false;
    for (uint64_t i = 0; i < run->num_counts; i++)
        unknown |= !run->counts[i].known && strlen(run->counts[i].name) == STK_REPORT_NAME - 1;
    assert_true(unknown);
}

/* The rungs of a ladder, and a rate that the writer gave. */
static void test_rungs(void **state)
{
    assert_ok(take("{\"event\": \"run start\", \"time\": 1, \"rung\": 3, \"measure\": "
                   "\"io_depth=32\"}\n"
                   "{\"event\": \"figures\", \"time\": 2, \"samples_per_s\": 250.5}\n"
                   "{\"event\": \"run start\", \"time\": 3}\n"
                   "{\"event\": \"run end\", \"time\": 4, \"duration\": 1}\n",
                   30),
              &err);
    assert_int_equal(run_at(0)->rung, 3);
    assert_string_equal(run_at(0)->measure, "io_depth=32");
    assert_true(run_at(0)->steady_samples_per_s == 250.5);
    assert_int_equal(run_at(1)->rung, -1);
    assert_string_equal(run_at(1)->measure, "");
    assert_true(isnan(run_at(1)->steady_samples_per_s));
}

/* What a whole training came to; what is no number is unknown. */
static void test_trained(void **state)
{
    const char log[] =
        "{\"event\": \"run start\", \"time\": 1, \"label\": \"a\"}\n"
        "{\"event\": \"training epoch\", \"time\": 2, \"loss\": 0.5}\n"
        "{\"event\": \"trained\", \"time\": 3, \"tested\": true, \"seconds\": 8, \"loss\": 0.25, "
        "\"accuracy\": 0.75, \"evaluated_loss\": 0.125, \"peak_bytes\": 1048576}\n"
        "{\"event\": \"run start\", \"time\": 4, \"label\": \"b\"}\n"
        "{\"event\": \"trained\", \"time\": 5, \"seconds\": 4, \"loss\": null, \"accuracy\": 2}\n"
        "{\"event\": \"run start\", \"time\": 6, \"label\": \"c\"}\n"
        "{\"event\": \"trained\", \"time\": 7, \"seconds\": 0}\n";
    const stk_report_comparison *all;

    (void)state;
    assert_ok(take(log, 40), &err);
    const stk_report_run *a = run_at(0), *b = run_at(1);
    assert_true(a->training_seconds == 8 && a->training_loss == 0.25 && a->accuracy == 0.75);
    assert_true(a->peak_bytes == 1048576 && a->tested && a->evaluated_loss == 0.125);
    assert_true(!b->tested && isnan(b->evaluated_loss));
    /* All of its events are known. */
    for (uint64_t i = 0; i < a->num_counts; i++)
        assert_true(a->counts[i].known);
    assert_int_equal(a->num_counts, 3);
    assert_true(b->training_seconds == 4 && isnan(b->training_loss) && isnan(b->accuracy));
    assert_true(isnan(run_at(2)->training_seconds));
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_true(all->trainings && all->num_groups == 3);
    assert_true(all->groups[1]->training == 4 && all->groups[1]->speed_up == 2);
    assert_true(isnan(all->groups[2]->speed_up));
}

static void note(void *user, const char *line)
{
    char *text = user;

    snprintf(text + strlen(text), 256 - strlen(text), "%s|", line);
}

/* Each run is compared with the baseline's of the same round; the baseline has no workers, wherever
 * it is. */
static void test_rounds(void **state)
{
    static const double seconds[3][2] = {{4, 8}, {4, 4}, {2, 6}};
    const stk_report_comparison *all;
    char log[4096] = "", notes[256] = "";

    (void)state;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++)
            snprintf(log + strlen(log), sizeof log - strlen(log),
                     "{\"event\": \"run start\", \"time\": %d, \"label\": \"%s\", \"locals\": "
                     "{\"num_workers\": %d}}\n"
                     "{\"event\": \"epoch start\", \"epoch\": 0, \"time\": %d}\n"
                     "{\"event\": \"training epoch\", \"time\": %d, \"loss\": 0.5}\n"
                     "{\"event\": \"trained\", \"time\": %d, \"seconds\": %g}\n%s",
                     100 * k + 10 * i, i ? "none" : "two", i ? 0 : 2, 100 * k + 10 * i + 1,
                     100 * k + 10 * i + 2, 100 * k + 10 * i + 3, seconds[k][i],
                     k ? "{\"event\": \"run end\", \"time\": 500}\n" : "");
    assert_ok(take(log, 64), &err);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_true(all->trainings && all->num_groups == 2);
    const stk_report_group *two = all->groups[0], *none = all->groups[1];
    assert_true(two->baseline == none && none->baseline == none);
    assert_true(none->training == 6 && none->shown == 5 && none->speed_up == 1);
    assert_true(two->training == 4 && two->training_least == 2 && two->training_most == 4);
    assert_true(two->shown == 0 && two->pairs == 3);
    assert_true(two->speed_up == 2 && two->speed_up_least == 1 && two->speed_up_most == 3);
    assert_true(run_at(0)->num_epochs == 1 && run_at(0)->epochs[0].loss == 0.5);
    stk_report_notes(report, 0, note, notes);
    assert_string_equal(
        notes, "two lacks its \"run end\": it was interrupted, or the log is not complete.|"
               "none lacks its \"run end\": it was interrupted, or the log is not complete.|");
    *notes = 0;
    stk_report_notes(report, 1, note, notes);
    assert_string_equal(notes, "");
}

/* A run of a bench of trainings, in a log. */
static void add_trained(char *log, size_t size, const char *label, int repeat, double seconds)
{
    const size_t used = strlen(log);

    snprintf(
        log + used, size - used,
        "{\"event\": \"run start\", \"time\": 1, \"label\": \"num_workers=%s\", \"repeat\": %d, "
        "\"locals\": {\"num_workers\": %s}}\n"
        "{\"event\": \"trained\", \"time\": 2, \"seconds\": %g}\n"
        "{\"event\": \"run end\", \"time\": 2}\n",
        label, repeat, label, seconds);
}

/* A round is told by its number, wherever runs are missing, and each log has rounds of its own. */
static void test_logs_of_trainings(void **state)
{
    const stk_report_comparison *all;
    char before[4096] = "", after[4096] = "";

    (void)state;
    add_trained(before, sizeof before, "2", 1, 4);
    add_trained(before, sizeof before, "0", 1, 8);
    add_trained(before, sizeof before, "0", 2, 80); /* the other one of this round failed */
    add_trained(before, sizeof before, "2", 3, 4);
    add_trained(before, sizeof before, "0", 3, 8);
    add_trained(after, sizeof after, "0", 1, 1);
    add_trained(after, sizeof after, "2", 1, 2);
    /* The same bench once more, into the same log. */
    add_trained(after, sizeof after, "0", 1, 3);
    add_trained(after, sizeof after, "2", 1, 6);
    assert_ok(take(before, 64), &err);
    assert_ok(take(after, 64), &err);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_true(all->trainings && all->num_groups == 4);
    const stk_report_group *const *g = all->groups;
    assert_true(g[0]->baseline == g[1] && g[1]->baseline == g[1]);
    assert_true(g[2]->baseline == g[2] && g[3]->baseline == g[2]);
    assert_true(g[0]->pairs == 2 && g[0]->speed_up_least == 2 && g[0]->speed_up_most == 2);
    assert_true(g[3]->pairs == 2 && g[3]->speed_up_least == 0.5 && g[3]->speed_up_most == 0.5);
    /* Before against after are other pairs. */
    assert_int_equal(all->num_pairs, 2);
    assert_true(all->pairs[0]->a == g[1] && all->pairs[0]->b == g[2]);
}

/* Of repeated runs one stands for all, with its verdict: that of the median rate. */
static void test_run_that_is_shown(void **state)
{
    static const double rates[] = {100, 300, 200, 150};
    const stk_report_comparison *all;
    char log[4096] = "";

    (void)state;
    for (int i = 0; i < 4; i++)
        snprintf(log + strlen(log), sizeof log - strlen(log),
                 "{\"event\": \"run start\", \"time\": %d, \"label\": \"a\"}\n"
                 "{\"event\": \"figures\", \"time\": %d, \"samples_per_s\": %g}\n"
                 "{\"event\": \"run end\", \"time\": %d}\n",
                 10 * i + 1, 10 * i + 2, rates[i], 10 * i + 3);
    assert_ok(take(log, 64), &err);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_int_equal(all->num_groups, 1);
    assert_int_equal(all->groups[0]->shown, 3);
    assert_null(all->groups[0]->baseline);
}

/* Many bars: in bounds, in order, and nothing of their time is lost. */
static void test_bars(void **state)
{
    double sum = 0, kept = 0;
    uint64_t n, count = 0;
    char line[160];

    assert_ok(stk__report_begin(report, "log", &err), &err);
    assert_ok(stk__report_feed(report, RUN, strlen(RUN), &err), &err);
    for (int i = 0; i < 300000; i++) {
        int length = snprintf(line, sizeof line,
                              "{\"event\": \"get-batch end\", \"time\": %.3f, \"pid\": %d, "
                              "\"duration\": 0.25}\n",
                              101 + i * 0.5, i % 3);
        sum += 0.25;
        assert_ok(stk__report_feed(report, line, (size_t)length, &err), &err);
    }
    assert_ok(stk__report_end(report, &err), &err);
    const stk_report_bar *bars = stk_report_bars(report, &n);
    assert_true(n > 1000 && n <= STK__BARS_KEPT);
    for (uint64_t i = 0; i < n; i++) {
        count += bars[i].count;
        kept += (double)bars[i].busy;
        if (i && bars[i].lane == bars[i - 1].lane)
            assert_true(bars[i].start >= bars[i - 1].start);
    }
    assert_int_equal(count, 300000);
    assert_true(fabs(kept - sum) < 1e-3 * sum);
    assert_int_equal(run_at(0)->get_batch.n, 300000);
    assert_true(fabs(run_at(0)->get_batch.mean - 0.25) < 1e-12);
}

/* Beyond the budget percentiles are within the width of a bucket, and mean and extremes exact. */
static void test_sketch(void **state)
{
    stk__values exact = {0}, sketch = {0};
    uint64_t plenty = 1 << 20, little = 1000, seed = 11;
    stk_spread a, b;

    for (int i = 0; i < 50000; i++) {
        double value = exp((double)(test_random(&seed) % 20000) / 2000 - 8);
        assert_int_equal(stk__values_add(ctx, &exact, value, &plenty), STK_OK);
        assert_int_equal(stk__values_add(ctx, &sketch, value, &little), STK_OK);
    }
    assert_true(sketch.over && !exact.over);
    assert_int_equal(little, 1000);
    stk__values_spread(&exact, &a);
    stk__values_spread(&sketch, &b);
    assert_true(fabs(b.p50 / a.p50 - 1) < 0.02 && fabs(b.p95 / a.p95 - 1) < 0.02);
    assert_true(fabs(b.mean / a.mean - 1) < 1e-9 && a.max == b.max && a.min == b.min);
    stk_report_histogram h;
    stk__values_histogram(&sketch, &h);
    uint64_t n = h.beyond;
    for (int i = 0; i < STK_REPORT_BINS; i++)
        n += h.bins[i];
    assert_int_equal(n, 50000);
    stk__values_release(ctx, &exact, &plenty);
    stk__values_release(ctx, &sketch, &little);
    assert_int_equal(plenty, 1 << 20);
}

static void test_compare(void **state)
{
    /* t tables: t(0.975; 1) = 12.706, t(0.975; 10) = 2.228, t(0.975; 1000) = 1.962 */
    assert_true(fabs(stk__student_quantile(0.975, 1) - 12.7062047) < 1e-5);
    assert_true(fabs(stk__student_quantile(0.975, 10) - 2.2281389) < 1e-6);
    assert_true(fabs(stk__student_quantile(0.975, 1000) - 1.9623391) < 1e-6);
    double same[] = {2, 2, 2}, more[] = {4, 4, 4}, one[] = {3}, zero[] = {0, 0, 0};
    stk_ratio r = {.struct_size = sizeof r};
    stk__ratio_of(same, 3, more, 3, &r);
    assert_true(fabs(r.ratio - 2) < 1e-12 && r.real && fabs(r.low - 2) < 1e-12);
    stk__ratio_of(same, 3, same, 3, &r);
    assert_true(r.ratio == 1 && !r.real);
    stk__ratio_of(one, 1, more, 3, &r);
    assert_true(isfinite(r.ratio) && isnan(r.low) && r.sureness == STK_SURE_NOT);
    stk__ratio_of(zero, 3, more, 3, &r);
    assert_true(isnan(r.ratio) && isnan(r.p) && !r.real);
    stk__ratio_of(NULL, 0, more, 3, &r);
    assert_true(isnan(r.ratio));
    /* Within runs: variance of log(mean) = 2/3 / 4 / 2^2 = 1/24 each, 6 degrees, t(0.975; 6)
     * = 2.4469 */
    stk_report_run a = {.seconds_per_step = 2, .num_blocks = 4, .blocks = {1, 2, 3, 2}};
    stk_report_run b = {.seconds_per_step = 4, .num_blocks = 4, .blocks = {2, 4, 6, 4}};
    stk__ratio_within(&a, &b, &r);
    assert_true(r.ratio == 2 && r.sureness == STK_SURE_WITHIN && fabs(r.freedom - 6) < 1e-9);
    assert_true(fabs(r.low - 0.986871513) < 1e-6 && fabs(r.high - 4.053212548) < 1e-6 && !r.real);
    a.num_blocks = 1;
    stk__ratio_within(&a, &b, &r);
    assert_true(r.ratio == 2 && isnan(r.low) && r.sureness == STK_SURE_NOT);
}

#define LABELLED(label)  "{\"event\": \"run start\", \"time\": 100.0, \"label\": \"" label "\"}\n"
#define EPOCH(what, t)   "{\"event\": \"epoch " what "\", \"epoch\": 0, \"time\": " t "}\n"
#define RUN_END(t)       "{\"event\": \"run end\", \"time\": " t "}\n"
#define HALF(start, end) START(start) END(end, "0.5")
#define EPOCH_END(t)     EPOCH("end", t) RUN_END(t)
/* Two steps of half a second, and a wait between them. */
#define STEPS(label, start, end, last)                                                             \
    LABELLED(label) EPOCH("start", "100.0") HALF("100.0", "100.5") HALF(start, end) EPOCH_END(last)

/* Runs of one setting are one group; the others are compared with the first. */
static void test_groups(void **state)
{
    const stk_report_comparison *all;

    assert_ok(take(STEPS("slow", "102.5", "103.0", "103.0") STEPS("fast", "101.0", "101.5", "101.5")
                       STEPS("slow", "104.5", "105.0", "105.0"),
                   4096),
              &err);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_int_equal(all->num_groups, 2);
    assert_string_equal(all->names[1], "fast");
    const stk_report_group *slow = all->groups[0], *fast = all->groups[1];
    assert_string_equal(slow->name, "slow");
    assert_int_equal(slow->count, 2);
    assert_int_equal(slow->runs[1], 2);
    assert_true(fabs(slow->wait - 3) < 1e-9 && fabs(fast->wait - 0.5) < 1e-9);
    assert_ptr_equal(all->by_wait[0], fast);
    assert_int_equal(all->num_pairs, 1);
    assert_ptr_equal(all->pairs[0]->a, slow);
    /* Steps of 2 x 0.5 s with 2 s and 4 s of wait (their geometric mean) against 0.5 s. */
    assert_true(fabs(all->pairs[0]->per_step->ratio - 1.5 / sqrt(3 * 5)) < 1e-9);
    assert_non_null(strstr(all->pairs[0]->text, "fast is 2.58x faster than slow"));
    assert_int_equal(all->num_rungs, 0);
    /* Another log, whose settings are compared with those of the first that are called the same. */
    assert_ok(take(STEPS("fast", "101.0", "101.5", "101.5") STEPS("new", "101.0", "101.5", "101.5"),
                   4096),
              &err);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_int_equal(all->num_groups, 4);
    assert_int_equal(all->num_pairs, 1);
    assert_int_equal(all->unmatched, 1);
    assert_string_equal(all->pairs[0]->b->name, "log: fast");
    assert_non_null(strstr(all->pairs[0]->text, "takes the time of"));
}

/* The charts' numbers: a script may hold them, and bars are as they were read. */
static void test_charts(void **state)
{
    const stk_report_comparison *all;
    const char *json;
    size_t length;

    assert_int_equal(stk_report_charts(report, &json, &length, &err), STK_EINVAL);
    assert_null(json);
    assert_ok(take(STEPS("</script>\xc3\xa9\xf0\x9f\x98\x80\xff", "102.5", "103.0", "103.0"), 4096),
              &err);
    assert_ok(stk_report_compare(report, &all, &err), &err);
    assert_ok(stk_report_charts(report, &json, &length, &err), &err);
    assert_int_equal(length, strlen(json));
    assert_non_null(strstr(json, "\"name\":\"\\u003c/script\\u003e\\u00e9\\ud83d\\ude00\\ufffd\""));
    /* Two steps: at 0 and 2.5 s, each 0.5 s long: 0, 2 x 500000, 2500000, 2 x 500000 as varints. */
    assert_non_null(strstr(json, "{\"n\":2,\"d\":\"AMCEPaDLmAHAhD0=\"}"));
    assert_non_null(strstr(json, "\"length\":3,"));
    /* Another log is not compared yet. */
    assert_ok(take(STEPS("b", "101.0", "101.5", "101.5"), 4096), &err);
    assert_int_equal(stk_report_charts(report, &json, &length, &err), STK_EINVAL);
}

/* Blocks hold all full ones of equal size, at least half of the most. */
static void test_blocks(void **state)
{
    stk__blocks b = {0};
    double sum = 0;

    for (int i = 0; i < 1000; i++)
        stk__blocks_add(&b, i);
    assert_true(b.n > STK_REPORT_BLOCKS / 2 - 1 && b.n <= STK_REPORT_BLOCKS);
    for (uint64_t i = 0; i < b.n; i++)
        sum += b.sum[i];
    double m = (double)(b.n * b.size);
    assert_true(sum == m * (m - 1) / 2 && m + (double)b.filled == 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_pieces),
        TEST(test_refused),
        TEST(test_elsewhere),
        TEST(test_clock),
        TEST(test_ranks),
        TEST(test_generic),
        TEST(test_rungs),
        TEST(test_bars),
        TEST(test_sketch),
        TEST(test_compare),
        TEST(test_groups),
        TEST(test_blocks),
        TEST(test_trained),
        TEST(test_rounds),
        TEST(test_charts),
        TEST(test_logs_of_trainings),
        TEST(test_run_that_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
