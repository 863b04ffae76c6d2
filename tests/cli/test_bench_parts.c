/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `stoker bench` that can be looked at by themselves: the table, merged hashes, the sum of
 * ranks. */
#include "unit/bench/plan.h"

#include <stdlib.h>
#include <string.h>

#include "../../cli/bench_cost.c"
#include "../../cli/bench_hash.c"
#include "../../cli/bench_json.c"
#include "../../cli/bench_ladder.c"
#include "../../cli/bench_ledger.c"
#include "../../cli/bench_network.c"
#include "../../cli/bench_report.c"
#include "../../cli/bench_sweep.c"
#include "../../cli/bench_trainings.c"
#include "../../cli/output.c"
#include "../../cli/table.c"
#include "../../cli/text.c"

/* What the reports ask of the rest of the command. */
void cli_error(const char *format, ...)
{
}

void cli_console_log(void *user, stk_message_level level, const char *message)
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

/* ---- Rows ------------------------------------------------------------------------------------ */

static planned plan;
static struct bench_plan shown;
static struct bench_rows rows;

stk_bench_setting bench_setting(const struct bench_plan *p, size_t i)
{
    stk_bench_setting setting = {.struct_size = sizeof setting};

    stk_bench_plan_get(p->settings, i, &setting);
    return setting;
}

static void show(const char *yaml, const double *rates)
{
    plan = plan_of(yaml, NULL);
    for (size_t i = 0; i < stk_bench_plan_count(plan.plan); i++)
        if (rates[i] > 0)
            plan_add_rate(&plan, i, rates[i], (int64_t[]){0, 1, 2, 4, 0}[i]);
        else
            plan_add(&plan, i, 0, STK_EIO, &(stk_figures){.struct_size = sizeof(stk_figures)});
    shown.settings = plan.plan;
    assert_true(bench_rows_make(&shown, stk_bench_plan_count(plan.plan), "", &rows));
}

static void end_show(void)
{
    free(rows.rows);
    plan_end(&plan);
}

static void print_rungs(FILE *out)
{
    bench_json(out, &rows);
}

static void print_ladder(FILE *out)
{
    bench_ladder_print(out, 0, &rows);
}

/* Rungs of 100, 200 and 800 samples a second; one between them failed, and a ceiling is none. */
static const char ladder[] = "loader: {seed: [1, 2, 3, 4]}\nbench: {ladder: true, ceiling: true}\n";

static void test_ladder(void **state)
{
    show(ladder, (const double[]){100, 200, 0, 800, 9000});
    char *text = printed(print_rungs);
    assert_non_null(strstr(text, "\"rung\": 1, \"measure\": \"at first\", \"factor\": null, "
                                 "\"share\": null"));
    /* The last digits are the libc's. */
    assert_non_null(strstr(text, "\"rung\": 2, \"measure\": \"seed=2\", \"factor\": 2, \"share\": "
                                 "0.3333333333333"));
    assert_non_null(strstr(text, "\"rung\": 4, \"measure\": \"seed=4\", \"factor\": 4, \"share\": "
                                 "0.6666666666666"));
    assert_null(strstr(text, "\"measure\": \"seed=3\""));
    free(text);
    text = printed(print_ladder);
    assert_non_null(strstr(text, "8.00x in all"));
    assert_non_null(strstr(text, "seed=4"));
    assert_null(strstr(text, "seed=3"));
    free(text);
    end_show();
    /* Next to nothing in all is not divided, */
    show(ladder, (const double[]){100, 200, 0, 102, 9000});
    text = printed(print_rungs);
    assert_non_null(strstr(text, "\"seed=4\", \"factor\": 0.51, \"share\": null"));
    free(text);
    end_show();
    /* and one rung alone is no ladder. */
    show(ladder, (const double[]){0, 0, 0, 100, 9000});
    text = printed(print_ladder);
    assert_string_equal(text, "");
    free(text);
    end_show();
}

/* `--spin --num-workers 0,1,2,4`: no worker gives more, and the ceiling less than all. */
static const char sweep[] =
    "loader: {num_workers: [0, 1, 2, 4], batch_size: 64}\nbench: {ceiling: true}\n";

static void print_sweep(FILE *out)
{
    bench_sweep_print(out, 0, &rows);
    print_ceiling(out, 0, row_of(&rows, rows.summary.best));
}

static void test_sweep(void **state)
{
    show(sweep, (const double[]){1600, 1440, 1400, 1300, 1700});
    char *text = printed(print_sweep);
    assert_non_null(strstr(text, "No gain from num_workers 0 on: 1600 samples/s with 0, 1440 "
                                 "samples/s with 1"));
    assert_null(strstr(text, "impossible"));
    free(text);
    end_show();
    /* Workers help up to two; more than there would be without data is none. */
    show(sweep, (const double[]){500, 1000, 1600, 1590, 1500});
    text = printed(print_sweep);
    assert_non_null(strstr(text, "No gain from num_workers 2 on"));
    assert_non_null(strstr(text, "106.7"));
    assert_non_null(strstr(text, "impossible"));
    free(text);
    end_show();
}

/* The waits that the verdict names are those that the ledger divides. */
static void print_waits(FILE *out)
{
    bench_ledger_print(out, 0, &rows.rows[0]);
}

static void test_one_figure_of_waits(void **state)
{
    stk_figures f = rate_of(1600, 0);

    f.waits[STK_WAIT_WORKER] = 0.125 * f.wall;
    plan = plan_of("loader: {batch_size: 64}\n", NULL);
    plan_add(&plan, 0, 0, STK_OK, &f);
    shown.settings = plan.plan;
    assert_true(bench_rows_make(&shown, 1, "", &rows));
    assert_non_null(strstr(rows.rows[0].verdict.text, "50.0 % of the time"));
    char *text = printed(print_waits);
    assert_string_equal(
        text, "Of the waits (50.0 % of the time) were for a free worker 25.0 %, the thread "
              "of the step itself,\noutside the loader, 75.0 %.\n");
    free(text);
    end_show();
    /* Where the parts are more than the verdict's figure, that is the one that is said. */
    f.waits[STK_WAIT_WORKER] = 0.75 * f.wall;
    plan = plan_of("loader: {batch_size: 64}\n", NULL);
    plan_add(&plan, 0, 0, STK_OK, &f);
    shown.settings = plan.plan;
    assert_true(bench_rows_make(&shown, 1, "", &rows));
    text = printed(print_waits);
    assert_non_null(
        strstr(text, "Of the waits (50.0 % of the time) were for a free worker 100.0 %"));
    free(text);
    end_show();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_short_numbers),
        cmocka_unit_test(test_paragraph),
        cmocka_unit_test(test_hashes_are_merged_by_position),
        cmocka_unit_test(test_ladder),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_one_figure_of_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
