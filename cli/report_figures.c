/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of runs as a table, as JSON and as CSV. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "table.h"

size_t report_figures(const struct report_view *view, const stk_report_run *run,
                      struct report_figure *out)
{
    const stk_report_file *file = stk_report_file_at(view->report, run->file);
    bool waited = run->wait.n > 0, read_some = run->wait_notebook.n > 0;
    const struct report_figure list[] = {
        {"total", run->total},
        {"setup", run->setup},
        {"epochs", (double)run->num_epochs},
        {"epochs_total", run->epochs_total},
        {"steps", (double)run->steps},
        {"step_mean", run->step_mean},
        {"wait_mean_notebook", read_some ? run->wait_notebook.mean : NAN},
        {"wait_mean", waited ? run->wait.mean : NAN},
        {"wait_p50", waited ? run->wait.p50 : NAN},
        {"wait_p95", waited ? run->wait.p95 : NAN},
        {"wait_p99", waited ? run->wait.p99 : NAN},
        {"wait_max", waited ? run->wait.max : NAN},
        {"wait_deviation", waited ? run->wait_deviation : NAN},
        {"waits_notebook", (double)run->wait_notebook.n},
        {"waits", (double)run->wait.n},
        {"first_wait", run->first_wait},
        {"epoch_turn", run->epoch_turn},
        {"wait_share", run->wait_share},
        {"busy_share", run->busy_share},
        {"seconds_per_step", run->seconds_per_step},
        {"steps_per_s", run->steps_per_s},
        {"samples_per_s", run->samples_per_s},
        {"get_batch_mean", run->get_batch.n ? run->get_batch.mean : NAN},
        {"get_batch_p95", run->get_batch.n ? run->get_batch.p95 : NAN},
        {"get_batches", (double)run->get_batches},
        {"get_batch_starts", (double)run->get_starts},
        {"get_batch_starts_expected", run->expected_starts},
        {"get_batches_thinned", (double)run->get_dropped},
        {"get_batches_per_step", run->get_per_step},
        {"get_batch_busy", run->get_busy},
        {"reads", (double)run->reads},
        {"read_bytes", (double)run->read_bytes},
        {"read_seconds", run->read_seconds},
        {"read_failures", (double)run->read_failures},
        {"bad_samples", (double)run->bad_samples},
        {"training_seconds", run->training_seconds},
        {"training_loss", run->training_loss},
        {"accuracy", run->accuracy},
        {"evaluated_loss", run->evaluated_loss},
        {"peak_bytes", run->peak_bytes},
        {"predicted_samples_per_s", run->predicted ? run->predicted->samples_per_s : NAN},
        {"predicted_low", run->predicted ? run->predicted->low : NAN},
        {"predicted_high", run->predicted ? run->predicted->high : NAN},
        {"predicted_wait_p95", run->predicted ? run->predicted->wait.p95 : NAN},
        {"dropped_bytes_of_log", (double)file->dropped_bytes},
    };

    memcpy(out, list, sizeof list);
    return sizeof list / sizeof *list;
}

void report_seconds(char *text, size_t size, double value)
{
    char number[32];
    double by = fabs(value) >= 1 || value == 0 ? 1 : fabs(value) >= 1e-3 ? 1e3 : 1e6;

    if (!isfinite(value)) {
        snprintf(text, size, "-");
        return;
    }
    cli_short_number(number, sizeof number, value * by);
    snprintf(text, size, "%s %s", number, by == 1 ? "s" : by == 1e3 ? "ms" : "\xc2\xb5s");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool begins_group(const stk_report_run *run, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++)
        if (strcmp(run->series[i].group, run->series[k].group) == 0)
            return false;
    return run->series[k].ledger;
}

/* Sums over the epochs: "ledger.parts": {"step": ...}, ... */
static void json_ledger(const stk_report_run *run, FILE *out)
{
    const char *between = "";

    for (uint64_t k = 0; k < run->num_series; k++) {
        if (!begins_group(run, k))
            continue;
        fputs(between, out);
        cli_json_string(out, run->series[k].group);
        between = ": {";
        for (uint64_t i = k; i < run->num_series; i++) {
            const stk_report_series *s = &run->series[i];
            double sum = 0;
            if (strcmp(s->group, run->series[k].group) != 0)
                continue;
            for (uint32_t e = 0; e < s->n; e++)
                sum += s->sum[e];
            fputs(between, out);
            cli_json_string(out, s->name);
            fputs(": ", out);
            cli_json_number(out, sum);
            between = ", ";
        }
        fputc('}', out);
        between = ", ";
    }
}

static void json_settings(const stk_report_setting *settings, uint64_t n, FILE *out)
{
    for (uint64_t k = 0; k < n; k++) {
        fputs(k ? ", " : "", out);
        cli_json_string(out, settings[k].key);
        fputs(": ", out);
        cli_json_string(out, settings[k].value);
    }
}

static void json_run(const struct report_view *view, FILE *out, uint64_t i)
{
    const stk_report_run *run = stk_report_run_at(view->report, i);
    struct report_figure list[REPORT_FIGURES];

    fputs("{\"name\": ", out);
    cli_json_string(out, view->all->names[i]);
    cli_json_member_text(out, "log", stk_report_file_at(view->report, run->file)->name);
    cli_json_member_text(out, "label", run->label);
    fprintf(out,
            ", \"published\": %s, \"ended\": %s, \"exact\": %s, \"repeat\": %" PRId64
            ", \"rank\": %" PRId64,
            run->published ? "true" : "false", run->ended ? "true" : "false",
            run->exact ? "true" : "false", run->repeat, run->rank);
    size_t n = report_figures(view, run, list);
    for (size_t k = 0; k < n; k++) {
        cli_json_member_number(out, list[k].name, list[k].value);
    }
    fputs(", \"epoch_durations\": [", out);
    for (uint64_t k = 0; k < run->num_epochs; k++) {
        fputs(k ? ", " : "", out);
        cli_json_number(out, run->epochs[k].duration >= 0 ? run->epochs[k].duration : NAN);
    }
    fputs("], \"epoch_losses\": [", out);
    for (uint64_t k = 0; k < run->num_epochs && isfinite(run->training_seconds); k++) {
        fputs(k ? ", " : "", out);
        cli_json_number(out, run->epochs[k].loss);
    }
    fputs("], \"events\": {", out);
    for (uint64_t k = 0; k < run->num_counts; k++) {
        fputs(k ? ", " : "", out);
        cli_json_string(out, run->counts[k].name);
        fprintf(out, ": %" PRIu64, run->counts[k].count);
    }
    fputs("}, \"ledger\": {", out);
    json_ledger(run, out);
    fputc('}', out);
    if (run->num_curves)
        report_metrics_json(run, out);
    fputs(", \"settings\": {", out);
    json_settings(run->settings, run->num_settings, out);
    fprintf(out, "}, \"limit\": \"%s\", \"lost_share\": ", stk_limit_name(run->verdict->limit));
    cli_json_number(out, run->verdict->lost_share);
    cli_json_member_text(out, "knob", run->verdict->knob);
    cli_json_member_text(out, "value", run->verdict->value);
    cli_json_member_number(out, "gain", run->verdict->gain);
    if (run->verdict->gain_high > 0) {
        cli_json_member_number(out, "gain_low", run->verdict->gain_low);
        cli_json_member_number(out, "gain_high", run->verdict->gain_high);
    }
    cli_json_member_text(out, "verdict", run->verdict->text);
    if (*run->tiers)
        cli_json_member_text(out, "tiers", run->tiers);
    fputs(", \"machine\": {", out);
    json_settings(run->machine, run->num_machine, out);
    fputs("}}", out);
}

static void json_ratio(FILE *out, const char *name, const stk_ratio *r)
{
    static const char *const sure[] = {"none", "within one run each", "repeated runs"};

    fprintf(out, ", \"%s\": {\"ratio\": ", name);
    cli_json_number(out, r->ratio);
    cli_json_member_number(out, "low", r->low);
    cli_json_member_number(out, "high", r->high);
    cli_json_member_number(out, "p", r->p);
    fprintf(out, ", \"from\": \"%s\", \"n_a\": %" PRIu64 ", \"n_b\": %" PRIu64 ", \"real\": %s}",
            sure[r->sureness], r->n_a, r->n_b, r->real ? "true" : "false");
}

static void print_json(const struct report_view *view, FILE *out)
{
    fputs("{\"logs\": [", out);
    for (uint64_t i = 0; i < view->files; i++) {
        const stk_report_file *f = stk_report_file_at(view->report, i);
        fputs(i ? ",\n{\"log\": " : "\n{\"log\": ", out);
        cli_json_string(out, f->name);
        fprintf(out,
                ", \"bytes\": %" PRIu64 ", \"events\": %" PRIu64 ", \"other_objects\": %" PRIu64
                ", \"dropped_bytes\": %" PRIu64 ", \"notebook_lost\": %" PRIu64
                ", \"unordered\": %" PRIu64 ", \"clock_steps\": %" PRIu64 ", \"truncated\": %s}",
                f->bytes, f->objects, f->foreign, f->dropped_bytes, f->notebook_lost, f->unordered,
                f->clock_steps, f->truncated ? "true" : "false");
    }
    fputs("],\n\"runs\": [", out);
    for (uint64_t i = 0; i < view->runs; i++) {
        fputs(i ? ",\n" : "\n", out);
        json_run(view, out, i);
    }
    fputs("],\n\"in_order\": [", out);
    report_ladder_json(view, out);
    fputs("],\n\"worlds\": [", out);
    report_ranks_json(view, out);
    fputs("],\n\"grid\": [", out);
    report_grid_json(view, out);
    fputs("],\n\"what_if\": [", out);
    report_what_if_json(view, out);
    fputs("],\n\"scale\": [", out);
    report_scale_json(view, out);
    fputs("],\n\"comparisons\": [", out);
    for (uint64_t i = 0; i < view->all->num_pairs; i++) {
        const stk_report_pair *pair = view->all->pairs[i];
        fputs(i ? ",\n{\"a\": " : "\n{\"a\": ", out);
        cli_json_string(out, pair->a->name);
        cli_json_member_text(out, "b", pair->b->name);
        json_ratio(out, "seconds_per_step", pair->per_step);
        json_ratio(out, "wait_mean", pair->wait);
        json_ratio(out, "total", pair->total);
        cli_json_member_text(out, "text", pair->text);
        fputc('}', out);
    }
    fputs("]}\n", out);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void print_csv(const struct report_view *view, FILE *out)
{
    struct report_figure list[REPORT_FIGURES];
    char number[32];

    fputs("log,name,repeat,rank", out);
    size_t n = report_figures(view, stk_report_run_at(view->report, 0), list);
    for (size_t k = 0; k < n; k++)
        fprintf(out, ",%s", list[k].name);
    fputs(",epoch_durations,limit,verdict\n", out);
    for (uint64_t i = 0; i < view->runs; i++) {
        const stk_report_run *run = stk_report_run_at(view->report, i);
        cli_csv_string(out, stk_report_file_at(view->report, run->file)->name);
        fputc(',', out);
        cli_csv_string(out, view->all->names[i]);
        fprintf(out, ",%" PRId64 ",%" PRId64, run->repeat, run->rank);
        report_figures(view, run, list);
        for (size_t k = 0; k < n; k++) {
            stk_number_format(list[k].value, number);
            fprintf(out, ",%s", isfinite(list[k].value) ? number : "");
        }
        fputc(',', out);
        for (uint64_t k = 0; k < run->num_epochs; k++) {
            stk_number_format(run->epochs[k].duration, number);
            fprintf(out, "%s%s", k ? " " : "", number);
        }
        fprintf(out, ",%s,", stk_limit_name(run->verdict->limit));
        cli_csv_string(out, run->verdict->text);
        fputc('\n', out);
    }
}

/* ---- Table ----------------------------------------------------------------------------------- */

void report_cell_seconds(struct cli_table_row *row, double value)
{
    char text[48];

    report_seconds(text, sizeof text, value);
    cli_table_put(row, "%s", text);
}

void report_cell_share(struct cli_table_row *row, double share)
{
    cli_table_put(row, isfinite(share) ? "%.1f %%" : "-", round(1000 * share) / 10 + 0.0);
}

static void print_runs(const struct report_view *view, FILE *out, size_t width)
{
    static const char *const heads[][2] = {
        {"run", ""},    {"wait", "mean"}, {"", "notebook"},  {"", "p50"},          {"", "p95"},
        {"", "max"},    {"step", "mean"}, {"step", "share"}, {"samples", "/s"},    {"steps", ""},
        {"epochs", ""}, {"total", ""},    {"setup", ""},     {"get-batch", "mean"}};
    struct cli_table table = {0};
    bool predicted = false;

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (uint64_t i = 0; i < view->runs; i++)
        predicted |= stk_report_run_at(view->report, i)->predicted != NULL;
    if (predicted)
        cli_table_column(&table, "predicted", "samples/s");
    for (uint64_t i = 0; i < view->runs; i++) {
        const stk_report_run *run = stk_report_run_at(view->report, i);
        struct cli_table_row *row = cli_table_begin(&table, view->all->names[i]);
        bool any = run->wait.n > 0;
        report_cell_seconds(row, any ? run->wait.mean : NAN);
        report_cell_seconds(row, run->wait_notebook.n ? run->wait_notebook.mean : NAN);
        report_cell_seconds(row, any ? run->wait.p50 : NAN);
        report_cell_seconds(row, any ? run->wait.p95 : NAN);
        report_cell_seconds(row, any ? run->wait.max : NAN);
        report_cell_seconds(row, run->step_mean);
        report_cell_share(row, run->busy_share);
        cli_table_number(row, run->samples_per_s);
        cli_table_put(row, "%" PRIu64, run->steps);
        cli_table_put(row, "%" PRIu64, run->num_epochs);
        report_cell_seconds(row, run->total);
        report_cell_seconds(row, run->setup);
        report_cell_seconds(row, run->get_batch.n ? run->get_batch.mean : NAN);
        if (predicted)
            cli_table_number(row, run->predicted ? run->predicted->samples_per_s : NAN);
    }
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

struct lines {
    FILE *out;
    size_t width;
    const char *log;
};

static void print_note(void *user, const char *line)
{
    const struct lines *l = user;
    char text[768];

    snprintf(text, sizeof text, "%.200s: %s", l->log, line);
    cli_paragraph(l->out, l->width, 0, text);
}

#define VERDICTS_SHOWN 8

static void print_table(const struct report_view *view, FILE *out)
{
    size_t width = cli_terminal_width(out);
    char text[1900];

    if (view->all->trainings)
        report_trainings_print(view, out, width);
    print_runs(view, out, width);
    if (view->all->ladder)
        report_ladder_print(view, out, width);
    report_grid_print(view, out, width);
    report_ranks_print(view, out, width);
    if (view->num_predictions)
        report_what_if_print(view, out, width);
    report_scale_print(view, out, width);
    if (view->cli->quiet)
        return;
    for (uint64_t i = 0; i < view->all->num_groups && i < VERDICTS_SHOWN; i++) {
        const stk_report_group *g = view->all->groups[i];
        const stk_report_run *run = stk_report_run_at(view->report, g->shown);
        snprintf(text, sizeof text, "%s%s%s%s%s", view->all->num_groups > 1 ? g->name : "",
                 view->all->num_groups > 1 ? ": " : "", run->verdict->text, *run->tiers ? " " : "",
                 run->tiers);
        fputc('\n', out);
        cli_paragraph(out, width, 0, text);
    }
    /* Of the trainings of one log the table has the speed-ups. */
    const bool said = view->all->trainings && view->files == 1;
    for (uint64_t i = 0; i < view->all->num_pairs && !said; i++) {
        fputc('\n', out);
        cli_paragraph(out, width, 0, view->all->pairs[i]->text);
    }
    if (view->all->unmatched) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " setting%s of the later logs %s none of that name in the first: not "
                 "compared.",
                 view->all->unmatched, view->all->unmatched == 1 ? "" : "s",
                 view->all->unmatched == 1 ? "has" : "have");
        cli_paragraph(out, width, 0, text);
    }
    const stk_report_run *first = stk_report_run_at(view->report, 0);
    if (*first->machine_summary) {
        snprintf(text, sizeof text, "Machine: %s.", first->machine_summary);
        fputc('\n', out);
        cli_paragraph(out, width, 0, text);
    }
    for (uint64_t i = 0; i < view->files; i++) {
        struct lines lines = {out, width, stk_report_file_at(view->report, i)->name};
        stk_report_notes(view->report, i, print_note, &lines);
    }
}

void report_print(const struct report_view *view, FILE *out)
{
    if (view->cli->format == CLI_JSON)
        print_json(view, out);
    else if (view->cli->format == CLI_CSV)
        print_csv(view, out);
    else
        print_table(view, out);
}
