/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `stoker bench` that can be looked at by themselves: the table, merged hashes, the sum of
 * ranks. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "../../cli/bench_cost.c"
#include "../../cli/bench_hash.c"
#include "../../cli/bench_ladder.c"
#include "../../cli/bench_ledger.c"
#include "../../cli/bench_ranks.c"
#include "../../cli/bench_report.c"
#include "../../cli/bench_sweep.c"
#include "../../cli/output.c"
#include "../../cli/table.c"
#include "../../cli/text.c"

/* What the reports ask of the rest of the command. */
void cli_error(const char *format, ...)
{
}

void cli_console_log(void *user, stk_log_level level, const char *message)
{
    (void)user;
    (void)level;
    (void)message;
}

int cli_interrupted(void)
{
    return 0;
}

void cli_on_interrupt(void (*run)(void *user), void *user)
{
}

static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    print(out);
    fclose(out);
    return text;
}

static struct cli_table table;

static void fill_table(void)
{
    table = (struct cli_table){0};
    cli_table_column(&table, "setting", "");
    cli_table_column(&table, "wait", "ms");
    cli_table_column(&table, "a longer one", "");
    struct cli_table_row *row = cli_table_row(&table);
    strcpy(row->cells[0], "x=1");
    strcpy(row->cells[1], "1.25");
    strcpy(row->cells[2], "µ");
    row = cli_table_row(&table);
    strcpy(row->cells[0], "x=2");
    strcpy(row->note, "failed");
}

static void print_wide(FILE *out)
{
    cli_table_print(&table, 0, out);
}

static void print_narrow(FILE *out)
{
    cli_table_print(&table, 20, out);
}

static void test_table(void **state)
{
    fill_table();
    char *text = printed(print_wide);
    assert_string_equal(text, "setting  wait  a longer one\n"
                              "           ms              \n"
                              "x=1      1.25             µ\n"
                              "x=2      failed\n");
    free(text);
    /* What does not fit stands below, the first column repeated. */
    text = printed(print_narrow);
    assert_string_equal(text, "setting  wait\n"
                              "           ms\n"
                              "x=1      1.25\n"
                              "x=2      failed\n"
                              "\n"
                              "setting  a longer one\n"
                              "                     \n"
                              "x=1                 µ\n");
    free(text);
    cli_table_free(&table);
}

static void test_short_numbers(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.00"},      {1.234, "1.23"}, {12.34, "12.3"},      {123.4, "123"},
                 {9.999, "10.0"},  {99.96, "100"},  {0.05, "0.050"},      {0.00123, "0.0012"},
                 {1e6, "1000000"}, {-2.5, "-2.50"}, {0.000012, "0.00001"}};
    char text[32];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_short_number(text, sizeof text, cases[i].value);
        assert_string_equal(text, cases[i].text);
    }
}

static void print_paragraph(FILE *out)
{
    cli_paragraph(out, 12, 2, "one two three fourteenlongword  five");
}

static void test_paragraph(void **state)
{
    char *text = printed(print_paragraph);

    assert_string_equal(text, "  one two\n  three\n  fourteenlongword\n  five\n");
    free(text);
}

static FILE *file_of(const stk_bench_hash *rows, size_t n)
{
    FILE *f = tmpfile();

    assert_non_null(f);
    assert_int_equal(fwrite(rows, sizeof *rows, n, f), n);
    return f;
}

static void test_hashes_are_merged_by_position(void **state)
{
    const stk_bench_hash first[] = {{0, 0, 0, 7, 0xaa}, {0, 0, 9, 5, 0xcc}, {0, 10, 0, 1, 0xee}},
                         third[] = {{0, 0, 1, 6, 0xbb}, {0, 9, 10, 2, 0xdd}, {1, 0, 0, 3, 0xff}};
    FILE *parts[] = {file_of(first, 3), file_of(first, 0), file_of(third, 3)};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(bench_hash_merge(parts, 3, out), 0);
    fclose(out);
    assert_string_equal(text, "0 0 0 7 00000000000000aa\n0 0 1 6 00000000000000bb\n"
                              "0 0 9 5 00000000000000cc\n0 9 10 2 00000000000000dd\n"
                              "0 10 0 1 00000000000000ee\n1 0 0 3 00000000000000ff\n");
    free(text);
    for (int i = 0; i < 3; i++)
        fclose(parts[i]);
}

static void test_ranks_are_summed(void **state)
{
    struct bench_result ranks[2] = {0}, sum;
    stk_figures judged;

    for (int i = 0; i < 2; i++) {
        ranks[i].figures = (stk_figures){.samples_per_s = 100 + i,
                                         .samples = 1000,
                                         .cpu_s = 2,
                                         .peak_bytes = 10,
                                         .step_share = 0.5 - 0.1 * i,
                                         .step_stretch = 1 + i,
                                         .wait = {.mean = 0.1 * (i + 1), .p95 = 0.3}};
        ranks[i].run.events = ranks[i].run.delivered = 1000;
    }
    bench_sum(ranks, 2, &sum, &judged);
    assert_true(sum.figures.samples_per_s == 201);
    assert_true(sum.figures.cpu_s_per_1000 == 2);
    assert_int_equal(sum.figures.peak_bytes, 20);
    assert_true(sum.figures.step_share == 0.4);
    assert_true(sum.figures.step_stretch == 2);
    assert_true(sum.figures.wait.mean == 0.2);
    assert_int_equal(sum.run.delivered, 2000);
    /* The verdict is about the slowest rank, with the rate of all. */
    assert_true(judged.wait.mean == 0.2 && judged.samples_per_s == 201);
    /* What failed says more than what was stopped for it. */
    ranks[0].run.status = STK_ECANCELED;
    ranks[1].run.status = STK_EFORMAT;
    strcpy(ranks[1].run.error.text, "the reason");
    bench_sum(ranks, 2, &sum, &judged);
    assert_int_equal(sum.run.status, STK_EFORMAT);
    assert_string_equal(sum.run.error.text, "the reason");
}

/* Rungs of 100, 200 and 800 samples a second; one between them failed, and a ceiling is none. */
static struct bench_setting rungs[5] = {{.rung = 1, .measure = "at first"},
                                        {.rung = 2, .measure = "a=1"},
                                        {.rung = 3, .measure = "b=2"},
                                        {.rung = 4, .measure = "c=3"},
                                        {.free_data = true}};
static struct bench_row climbed[5];

static void make_ladder(double last)
{
    const double rates[] = {100, 200, 0, last, 9000};

    for (size_t i = 0; i < 5; i++) {
        climbed[i] = (struct bench_row){.setting = &rungs[i], .ended = i != 2};
        climbed[i].sum.figures.samples_per_s = rates[i];
        climbed[i].judged.struct_size = sizeof climbed[i].judged;
    }
}

static void print_rungs(FILE *out)
{
    for (size_t i = 0; i < 5; i++)
        bench_ladder_json(out, climbed, 5, i);
}

static void print_ladder(FILE *out)
{
    bench_ladder_print(out, 0, climbed, 5);
}

static void test_ladder(void **state)
{
    make_ladder(800);
    char *text = printed(print_rungs);
    assert_non_null(strstr(text, "\"rung\": 1, \"measure\": \"at first\", \"factor\": null, "
                                 "\"share\": null"));
    /* The last digits are the libc's. */
    assert_non_null(strstr(text, "\"rung\": 2, \"measure\": \"a=1\", \"factor\": 2, \"share\": "
                                 "0.3333333333333"));
    assert_non_null(strstr(text, "\"rung\": 4, \"measure\": \"c=3\", \"factor\": 4, \"share\": "
                                 "0.6666666666666"));
    assert_null(strstr(text, "b=2"));
    free(text);
    text = printed(print_ladder);
    assert_non_null(strstr(text, "8.00x in all"));
    assert_non_null(strstr(text, "c=3"));
    assert_null(strstr(text, "b=2"));
    free(text);
    /* Next to nothing in all is not divided, */
    make_ladder(102);
    text = printed(print_rungs);
    assert_non_null(strstr(text, "\"c=3\", \"factor\": 0.51, \"share\": null"));
    free(text);
    /* and one rung alone is no ladder. */
    climbed[0].ended = climbed[1].ended = false;
    text = printed(print_ladder);
    assert_string_equal(text, "");
    free(text);
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

/* `--spin --num-workers 0,1,2,4`: no worker gives more, and the ceiling less than all. */
static struct bench_setting swept[5];
static struct bench_row sweep[5];

static void make_sweep(const double *rates)
{
    static const int64_t workers[4] = {0, 1, 2, 4};

    memset(sweep, 0, sizeof sweep);
    memset(swept, 0, sizeof swept);
    for (int i = 0; i < 5; i++) {
        stk_figures f = {.struct_size = sizeof f,
                         .steps = 100,
                         .samples = 6400,
                         .samples_per_s = rates[i],
                         .ceiling_samples_per_s = rates[4],
                         .wall = 6400 / rates[i],
                         .step_time = 0.5 * 64 / rates[i],
                         .step_stretch = 1,
                         .usable_cores = 4,
                         .compute_cores = 1,
                         .ranks = 1};
        f.wait.mean = f.step_time;
        f.num_workers = i < 4 ? workers[i] : 0;
        f.prepare_busy = f.cpu_s = f.wall / 2;
        sweep[i].setting = &swept[i];
        sweep[i].judged = sweep[i].sum.figures = f;
        sweep[i].least = sweep[i].most = rates[i];
        sweep[i].runs = 1;
        sweep[i].ended = true;
        swept[i].free_data = i == 4;
        snprintf(swept[i].label, BENCH_LABEL, "cache=none num_workers=%d shuffle=true",
                 (int)f.num_workers);
    }
}

static void print_sweep(FILE *out)
{
    bench_sweep_print(out, 0, sweep, 5, extreme(sweep, 5, true));
    print_ceiling(out, 0, extreme(sweep, 5, true));
}

static void test_sweep(void **state)
{
    stk_verdict v = {.struct_size = sizeof v};

    (void)state;
    make_sweep((const double[]){1600, 1440, 1400, 1300, 1700});
    bench_judge(sweep, 5, 0, &v);
    assert_string_equal(v.knob, "");
    assert_non_null(
        strstr(v.text, "measured in this sweep: 1440 samples/s, no more than the 1600"));
    char *text = printed(print_sweep);
    assert_non_null(strstr(text, "No gain from num_workers 0 on: 1600 samples/s with 0, 1440 "
                                 "samples/s with 1"));
    assert_null(strstr(text, "impossible"));
    free(text);
    /* What "auto" became is no setting of its own where it was asked for, too. */
    snprintf(swept[3].label, BENCH_LABEL, "cache=none num_workers=auto shuffle=true");
    sweep[3].judged.num_workers = 1;
    text = printed(print_sweep);
    assert_non_null(strstr(text, "1440 samples/s with 1, 1400 samples/s with 2."));
    free(text);
    sweep[0].judged.num_workers = 1;
    snprintf(swept[0].label, BENCH_LABEL, "cache=none num_workers=auto shuffle=true");
    snprintf(swept[3].label, BENCH_LABEL, "cache=none num_workers=4 shuffle=true");
    sweep[3].judged.num_workers = 4;
    text = printed(print_sweep);
    assert_non_null(strstr(text, "No gain from num_workers 1 on: 1600 samples/s with 1, 1400"));
    free(text);
    /* Workers help up to two; more than there would be without data is none. */
    make_sweep((const double[]){500, 1000, 1600, 1590, 1500});
    bench_judge(sweep, 5, 0, &v);
    assert_string_equal(v.knob, "num_workers");
    assert_string_equal(v.value, "2");
    assert_true(v.gain > 3.19 && v.gain < 3.21);
    text = printed(print_sweep);
    assert_non_null(strstr(text, "No gain from num_workers 2 on"));
    assert_non_null(strstr(text, "106.7"));
    assert_non_null(strstr(text, "impossible"));
    free(text);
    /* Settings that differ in two options are no neighbours. */
    snprintf(swept[1].label, BENCH_LABEL, "cache=decoded num_workers=1 shuffle=true");
    snprintf(swept[2].label, BENCH_LABEL, "cache=decoded num_workers=2 shuffle=true");
    bench_judge(sweep, 5, 0, &v);
    assert_string_equal(v.value, "4");
    assert_true(bench_alike(&sweep[2], &sweep[3]) && !bench_alike(&sweep[0], &sweep[1]));
    sweep[0].most = 1001;
    sweep[1].least = 499;
    assert_true(bench_alike(&sweep[0], &sweep[1]));
}

/* The waits that the verdict names are those that the ledger divides. */
static void print_waits(FILE *out)
{
    bench_ledger_print(out, 0, &sweep[0]);
}

static void test_one_figure_of_waits(void **state)
{
    stk_verdict v = {.struct_size = sizeof v};

    (void)state;
    make_sweep((const double[]){1600, 1440, 1400, 1300, 1700});
    sweep[0].judged.waits[STK_WAIT_WORKER] = 0.125 * sweep[0].judged.wall;
    bench_judge(sweep, 1, 0, &v);
    assert_non_null(strstr(v.text, "50.0 % of the time"));
    char *text = printed(print_waits);
    assert_string_equal(
        text, "Of the waits (50.0 % of the time) were for a free worker 25.0 %, the thread "
              "of the step itself,\noutside the loader, 75.0 %.\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_short_numbers),
        cmocka_unit_test(test_paragraph),
        cmocka_unit_test(test_hashes_are_merged_by_position),
        cmocka_unit_test(test_ranks_are_summed),
        cmocka_unit_test(test_ladder),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_one_figure_of_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
