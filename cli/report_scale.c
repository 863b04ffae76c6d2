/* SPDX-License-Identifier: Apache-2.0 */
/* stoker report --scale: what the runs of a log would come to on many ranks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "report.h"

/* ---- Predicting ------------------------------------------------------------------------------ */

static stk_status predict(struct report_view *view, stk_context *context, const char *text,
                          stk_error *err)
{
    const size_t groups = (size_t)view->all->num_groups;
    uint64_t ranks[STK_SCALE_RANKS];
    stk_what_if what_if;
    stk_scale scale;
    size_t n;

    stk_scale_init(&scale);
    stk_what_if_init(&what_if);
    stk_status status = stk_scale_parse(context, text, &scale, &what_if, ranks, &n, err);
    for (size_t i = 0; i < groups * n && status == STK_OK; i++) {
        struct report_scaled *s = &view->scaled[view->num_scaled];
        *s = (struct report_scaled){.run = view->all->groups[i / n]->shown,
                                    .is = {.struct_size = sizeof s->is}};
        scale.ranks = ranks[i % n];
        status = stk_report_scale(view->report, s->run, &what_if, &scale, &s->is, err);
        view->num_scaled += status == STK_OK;
    }
    return status;
}

int report_scale(struct report_view *view, stk_context *context, const char *text)
{
    stk_error err;

    view->scaled =
        calloc((size_t)view->all->num_groups * STK_SCALE_RANKS + 1, sizeof *view->scaled);
    if (!view->scaled) {
        cli_error("no memory for the predictions");
        return CLI_FAILED;
    }
    const stk_status status = predict(view, context, text, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(view->cli, status, &err);
}

/* ---- Showing --------------------------------------------------------------------------------- */

static bool any_fails(const struct report_view *view)
{
    for (size_t i = 0; i < view->num_scaled; i++)
        if (isfinite(view->scaled[i].is.mtbf))
            return true;
    return false;
}

/* "12.3 h": what lies between failures is long. */
static void put_long(struct cli_table_row *row, double seconds)
{
    static const struct {
        double of;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
    char number[32];

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (isfinite(seconds) && seconds >= 2 * units[i].of) {
            cli_short_number(number, sizeof number, seconds / units[i].of);
            cli_table_put(row, "%s %s", number, units[i].unit);
            return;
        }
    report_cell_seconds(row, seconds);
}

static void put_scaled(struct cli_table *table, const stk_scaled *s, bool fails)
{
    char ranks[32];

    snprintf(ranks, sizeof ranks, "  %" PRIu64 " ranks", s->ranks);
    struct cli_table_row *row = cli_table_begin(table, ranks);
    if (!row)
        return;
    row->name = NULL;
    cli_table_put(row, "%" PRIu64, s->machines);
    cli_table_number(row, s->samples_per_s);
    report_cell_share(row, s->efficiency);
    report_cell_seconds(row, s->step);
    report_cell_seconds(row, s->wait);
    report_cell_seconds(row, s->behind);
    report_cell_seconds(row, s->comm);
    report_cell_seconds(row, s->comm_wait);
    if (!fails)
        return;
    put_long(row, s->mtbf);
    put_long(row, s->interval);
    report_cell_share(row, s->lost_share);
    report_cell_share(row, s->lost_simulated);
    cli_table_number(row, s->useful_per_s);
}

static struct cli_table table_of(const struct report_view *view)
{
    static const char *const heads[][2] = {
        {"scale", ""},         {"machines", ""},        {"samples", "/s"},       {"efficiency", ""},
        {"step", "mean"},      {"wait", "mean"},        {"slower", "ranks"},     {"all-reduce", ""},
        {"not", "hidden"},     {"between", "failures"}, {"checkpoint", "every"}, {"lost", ""},
        {"lost", "simulated"}, {"useful", "/s"}};
    const bool fails = any_fails(view);
    struct cli_table table = {0};

    for (size_t i = 0; i < (fails ? sizeof heads / sizeof *heads : 9); i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (size_t i = 0; i < view->num_scaled; i++) {
        const struct report_scaled *s = &view->scaled[i];
        if (i == 0 || s->run != view->scaled[i - 1].run)
            cli_table_begin(&table, view->all->names[s->run]);
        put_scaled(&table, &s->is, fails);
    }
    return table;
}

static const char about[] =
    "Scale: ranks that begin each step together, simulated on one machine with the recorded times; "
    "the slowest of the other machines is drawn from the same, the all-reduce is alpha and beta. "
    "Efficiency is against one rank that has a machine to itself.";
static const char of_failures[] =
    "The interval of checkpoints is Daly's (2006), for failures at a constant rate; lost is what "
    "checkpoints, restarts and repeated work take then, beside the same of simulated failures.";

void report_scale_print(const struct report_view *view, FILE *out, size_t width)
{
    if (view->num_scaled == 0)
        return;
    struct cli_table table = table_of(view);
    fputc('\n', out);
    cli_paragraph(out, width, 0, about);
    if (any_fails(view))
        cli_paragraph(out, width, 0, of_failures);
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

void report_scale_page(const struct report_view *view, FILE *out)
{
    if (view->num_scaled == 0)
        return;
    struct cli_table table = table_of(view);
    report_put_text(out, "<section id=\"scale\">\n<h2>Many ranks</h2>\n<p class=\"soft\">", about,
                    "</p>\n");
    if (any_fails(view))
        report_put_text(out, "<p class=\"soft\">", of_failures, "</p>\n");
    report_table_page(&table, "scale", out);
    fputs("</section>\n", out);
    cli_table_free(&table);
}

void report_scale_json(const struct report_view *view, FILE *out)
{
    for (size_t i = 0; i < view->num_scaled; i++) {
        const stk_scaled *s = &view->scaled[i].is;
        fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
        cli_json_string(out, view->all->names[view->scaled[i].run]);
        fprintf(out, ", \"ranks\": %" PRIu64 ", \"machines\": %" PRIu64, s->ranks, s->machines);
        cli_json_member_number(out, "samples_per_s", s->samples_per_s);
        cli_json_member_number(out, "one_per_s", s->one_per_s);
        cli_json_member_number(out, "efficiency", s->efficiency);
        cli_json_member_number(out, "step", s->step);
        cli_json_member_number(out, "wait", s->wait);
        cli_json_member_number(out, "behind", s->behind);
        cli_json_member_number(out, "comm", s->comm);
        cli_json_member_number(out, "comm_wait", s->comm_wait);
        cli_json_member_number(out, "mtbf", s->mtbf);
        cli_json_member_number(out, "interval", s->interval);
        cli_json_member_number(out, "interval_first", s->interval_first);
        cli_json_member_number(out, "lost_share", s->lost_share);
        cli_json_member_number(out, "lost_simulated", s->lost_simulated);
        cli_json_member_number(out, "useful_per_s", s->useful_per_s);
        fputc('}', out);
    }
}
