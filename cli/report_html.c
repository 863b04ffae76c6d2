/* SPDX-License-Identifier: Apache-2.0 */
/* The page: everything that is a number or a word is written here, charts are drawn by its script.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"

/* The style and the scripts as bytes, made by cmake/embed.cmake. */
#include "report_page.inc"

void report_put_seconds(FILE *out, double value)
{
    char text[48];

    report_seconds(text, sizeof text, value);
    fputs(text, out);
}

void report_put_share(FILE *out, double share)
{
    if (isfinite(share))
        fprintf(out, "%.1f %%", round(1000 * share) / 10 + 0.0); /* no "-0.0" */
    else
        fputs("-", out);
}

void report_put_amount(FILE *out, double value)
{
    if (!isfinite(value))
        fputs("-", out);
    else if (fabs(value) >= 100)
        fprintf(out, "%.0f", value);
    else
        fprintf(out, "%.3g", value);
}

void report_put_text(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    cli_html_string(out, text);
    fputs(after, out);
}

static void put_heads(struct cli_table *table, const char *const *heads, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cli_table_column(table, heads[i], "");
}

/* The head of a column, with what it means. */
static void put_column(FILE *out, const char head[2][CLI_TABLE_CELL])
{
    char word[2 * CLI_TABLE_CELL];

    snprintf(word, sizeof word, "%s%s%s", head[0], *head[1] ? " " : "", head[1]);
    fputs("<th role=\"columnheader\" scope=\"col\"", out);
    report_put_title(out, report_word(word));
    report_put_text(out, ">", word, "</th>");
}

void report_table_page(const struct cli_table *table, const char *name, FILE *out)
{
    /* A phone lays rows out otherwise: the roles stay. */
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: %s\"><table "
            "role=\"table\" class=\"%s\">\n<thead role=\"rowgroup\"><tr role=\"row\">",
            name, name);
    for (size_t c = 0; c < table->columns; c++)
        put_column(out, table->heads[c]);
    fputs("</tr></thead>\n<tbody role=\"rowgroup\">\n", out);
    for (size_t i = 0; i < table->rows; i++) {
        const struct cli_table_row *row = &table->row[i];
        fputs("<tr role=\"row\">", out);
        for (size_t c = 0; c < row->used; c++) {
            const bool link = c == 0 && row->link;
            fputs(c ? "<td role=\"cell\">" : "<td role=\"cell\"><bdi>", out);
            if (link)
                fprintf(out, "<a href=\"#run-%" PRIu64 "\" data-run=\"%" PRIu64 "\">",
                        row->link - 1, row->link - 1);
            cli_html_string(out, c == 0 && row->name ? row->name : row->cells[c]);
            fputs(link ? "</a>" : "", out);
            fputs(c ? "</td>" : "</bdi></td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* ---- The head -------------------------------------------------------------------------------- */

static void put_head(const struct report_view *view, FILE *out)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
          "<title>Where the time goes: ",
          out);
    cli_html_string(out, stk_report_file_at(view->report, 0)->name);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", report_page_css);
    fputs("<header>\n<h1>Where the time goes</h1>\n<p class=\"soft\">", out);
    for (uint64_t i = 0; i < view->files; i++) {
        const stk_report_file *f = stk_report_file_at(view->report, i);
        fputs(i ? "<br>" : "", out);
        cli_html_string(out, f->name);
        fprintf(out, ": %" PRIu64 " events, %" PRIu64 " run%s", f->objects, f->runs,
                f->runs == 1 ? "" : "s");
    }
    fputs("</p>\n</header>\n<main>\n", out);
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static void put_group(const struct report_view *view, struct cli_table *table,
                      const stk_report_group *g)
{
    const stk_report_run *run = stk_report_run_at(view->report, g->shown);
    struct cli_table_row *row = cli_table_begin(table, g->name);

    if (!row)
        return;
    row->link = g->shown + 1;
    cli_table_put(row, "%" PRIu64, g->count);
    report_cell_seconds(row, g->wait);
    report_cell_seconds(row, g->per_step);
    cli_table_number(row, g->rate);
    report_cell_share(row, g->busy_share);
    report_cell_seconds(row, g->total);
    cli_table_put(row, "%s", stk_limit_name(run->verdict->limit));
}

static void put_ratio(struct cli_table_row *row, const stk_ratio *r)
{
    if (isfinite(r->low))
        cli_table_put(row, "%.3g (%.3g to %.3g)", r->ratio, r->low, r->high);
    else
        cli_table_put(row, isfinite(r->ratio) ? "%.3g" : "-", r->ratio);
}

static void put_pairs(const struct report_view *view, FILE *out)
{
    static const char *const sure[] = {"too few runs", "one run each", "repeated runs"};
    static const char *const heads[] = {"setting",   "step and wait", "mean wait",
                                        "whole run", "from",          "real?"};
    struct cli_table table = {0};

    put_heads(&table, heads, sizeof heads / sizeof *heads);
    for (uint64_t i = 0; i < view->all->num_pairs; i++) {
        const stk_report_pair *p = view->all->pairs[i];
        struct cli_table_row *row = cli_table_begin(&table, p->b->name);
        put_ratio(row, p->per_step);
        put_ratio(row, p->wait);
        put_ratio(row, p->total);
        cli_table_put(row, "%s", sure[p->per_step->sureness]);
        cli_table_put(row, "%s",
                      p->per_step->sureness == STK_SURE_NOT ? "not known"
                      : p->per_step->real                   ? "yes"
                                                            : "may be chance");
    }
    fputs("<h3>Against the first</h3>\n<p class=\"soft\">Ratios, below 1 is better. Intervals of "
          "95 %: Welch's test on logarithms over repeated runs; with one run each over blocks of "
          "steps within them, which says nothing of how runs differ.</p>\n",
          out);
    report_table_page(&table, "pairs", out);
    cli_table_free(&table);
    for (uint64_t i = 0; i < view->all->num_pairs; i++) {
        report_put_text(out, "<p>", view->all->pairs[i]->text, "</p>\n");
    }
}

static void put_comparison(const struct report_view *view, FILE *out)
{
    static const char *const heads[] = {"setting",   "runs",     "mean wait", "step and wait",
                                        "samples/s", "step ran", "whole run", "limit"};
    struct cli_table table = {0};

    if (view->all->num_groups < 2)
        return;
    fputs("<section id=\"settings\" aria-labelledby=\"settings-title\">\n<h2 "
          "id=\"settings-title\">Settings by their wait</h2>\n<div id=\"compared\"></div>\n",
          out);
    put_heads(&table, heads, sizeof heads / sizeof *heads);
    for (uint64_t i = 0; i < view->all->num_groups; i++)
        put_group(view, &table, view->all->by_wait[i]);
    report_table_page(&table, "settings-by-wait", out);
    cli_table_free(&table);
    if (!view->all->ladder)
        report_ladder_page(view, out);
    if (view->all->num_pairs)
        put_pairs(view, out);
    fputs("</section>\n", out);
}

/* ---- One run --------------------------------------------------------------------------------- */

static void card(FILE *out, const char *name, const char *note, void (*put)(FILE *, double),
                 double value)
{
    fputs("<div><dt", out);
    report_put_title(out, report_word(name));
    fprintf(out, ">%s</dt><dd>", name);
    put(out, value);
    fprintf(out, "</dd><small>%s</small></div>\n", note);
}

static void put_cards(FILE *out, const stk_report_run *run)
{
    bool waited = run->wait.n > 0, samples = isfinite(run->samples_per_s);

    fputs("<dl class=\"cards\">\n", out);
    card(out, "Mean wait", "of a step for its batch", report_put_seconds,
         waited ? run->wait.mean : NAN);
    card(out, "Wait p95", "19 of 20 are shorter", report_put_seconds, waited ? run->wait.p95 : NAN);
    card(out, "Longest wait", "but the first", report_put_seconds, waited ? run->wait.max : NAN);
    card(out, "Step", "mean", report_put_seconds, run->step_mean);
    card(out, "Step ran", "of the epochs' time", report_put_share, run->busy_share);
    card(out, samples ? "Samples/s" : "Steps/s", "over the epochs", report_put_amount,
         samples ? run->samples_per_s : run->steps_per_s);
    card(out, "Whole run", "setup included", report_put_seconds, run->total);
    card(out, "Setup", "before the first epoch", report_put_seconds, run->setup);
    fputs("</dl>\n", out);
}

static void put_epochs(FILE *out, const stk_report_run *run)
{
    static const char *const heads[] = {"epoch",    "duration",   "steps",    "waits",
                                        "of steps", "first wait", "mean loss"};
    const bool losses = isfinite(run->training_seconds);
    struct cli_table table = {0};

    if (run->num_epochs == 0)
        return;
    put_heads(&table, heads, sizeof heads / sizeof *heads - !losses);
    for (uint64_t i = 0; i < run->num_epochs && i < 200; i++) {
        const stk_report_epoch *e = &run->epochs[i];
        struct cli_table_row *row = cli_table_row(&table);
        cli_table_put(row, "%" PRId64, e->number < 0 ? (int64_t)i : e->number);
        report_cell_seconds(row, e->duration >= 0 ? e->duration : NAN);
        cli_table_put(row, "%" PRIu64, e->steps);
        report_cell_seconds(row, e->wait);
        report_cell_seconds(row, e->step);
        report_cell_seconds(row, e->first_wait >= 0 ? e->first_wait : NAN);
        if (losses)
            cli_table_put(row, isfinite(e->loss) ? "%.6f" : "-", e->loss);
    }
    fputs("<details open><summary>Epochs</summary>", out);
    report_table_page(&table, "epochs", out);
    cli_table_free(&table);
    if (run->num_epochs > 200)
        fprintf(out, "<p class=\"soft\">The first 200 of %" PRIu64 ".</p>", run->num_epochs);
    fputs("</details>\n", out);
}

static void put_figures(const struct report_view *view, FILE *out, const stk_report_run *run)
{
    struct report_figure list[REPORT_FIGURES];
    char number[32];

    size_t n = report_figures(view, run, list);
    fputs("<details><summary>All figures</summary><p class=\"soft\">Seconds; as --format json and "
          "csv give them. wait_mean_notebook is what the published notebook computes: lines that "
          "are not one object are dropped, in the order of the file; wait_mean is from all events "
          "in the order of time. Percentiles are ",
          out);
    fprintf(out, "%s.</p><dl class=\"settings\">\n", run->exact ? "exact" : "within 2 %");
    for (size_t i = 0; i < n; i++) {
        stk_number_format(list[i].value, number);
        fputs("<div><dt", out);
        report_put_title(out, report_figure_word(list[i].name));
        fprintf(out, ">%s</dt><dd data-figure=\"%s\">%s</dd></div>\n", list[i].name, list[i].name,
                isfinite(list[i].value) ? number : "-");
    }
    fputs("</dl></details>\n", out);
}

static void put_counts(FILE *out, const stk_report_run *run)
{
    fputs("<details><summary>Events</summary><dl class=\"settings\">\n", out);
    for (uint64_t i = 0; i < run->num_counts; i++) {
        fputs("<div><dt>", out);
        cli_html_string(out, run->counts[i].name);
        fprintf(out, "%s</dt><dd>%" PRIu64 "</dd></div>\n",
                run->counts[i].known ? "" : " (not known to this report)", run->counts[i].count);
    }
    if (run->other_events)
        fprintf(out, "<div><dt>of other names</dt><dd>%" PRIu64 "</dd></div>\n", run->other_events);
    fputs("</dl>", out);
    if (isfinite(run->get_per_step))
        fprintf(out, "<p class=\"soft\">%.3g get-batch events a step%s.</p>", run->get_per_step,
                run->get_per_step > 1.5 ? ": one is a sample, not a batch" : "");
    fputs("</details>\n", out);
}

static void put_settings(FILE *out, const stk_report_run *run)
{
    if (run->num_settings == 0 && !run->data_params)
        return;
    fputs("<details><summary>Settings</summary>", out);
    if (run->data_params) {
        report_put_text(out, "<p class=\"soft\">Given: ", run->data_params, "</p>");
    }
    fputs("<dl class=\"settings\">\n", out);
    for (uint64_t i = 0; i < run->num_settings; i++) {
        fputs("<div><dt", out);
        report_put_title(out, report_option_word(run->settings[i].key));
        report_put_text(out, ">", run->settings[i].key, "</dt><dd>");
        cli_html_string(out, run->settings[i].value);
        fputs("</dd></div>\n", out);
    }
    fputs("</dl></details>\n", out);
}

/* What the figures are of. */
static void put_machine(FILE *out, const stk_report_run *run)
{
    if (!*run->machine_summary)
        return;
    report_put_text(out, "<details class=\"machine\"><summary>Machine: ", run->machine_summary,
                    "</summary><dl class=\"settings\">\n");
    for (uint64_t i = 0; i < run->num_machine; i++) {
        report_put_text(out, "<div><dt>", run->machine[i].key, "</dt><dd>");
        cli_html_string(out, run->machine[i].value);
        fputs("</dd></div>\n", out);
    }
    fputs("</dl></details>\n", out);
}

static void put_run(const struct report_view *view, FILE *out, uint64_t i)
{
    const stk_report_run *run = stk_report_run_at(view->report, i);
    char when[64] = "";
    time_t start =
        isfinite(run->unix_time) && fabs(run->unix_time) < 1e11 ? (time_t)run->unix_time : 0;
    struct tm utc;

    if (start && gmtime_r(&start, &utc))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &utc);
    fprintf(out,
            "<article id=\"run-%" PRIu64 "\" aria-labelledby=\"title-%" PRIu64
            "\" tabindex=\"-1\">\n<h2 id=\"title-%" PRIu64 "\"><bdi>",
            i, i, i);
    cli_html_string(out, view->all->names[i]);
    fputs("</bdi></h2>\n<p class=\"soft\">", out);
    if (*when)
        fprintf(out, "Started %s", when);
    if (run->repeat > 0)
        fprintf(out, "%srepeat %" PRId64, *when ? ", " : "", run->repeat);
    if (run->rank >= 0 && run->world_size > 1)
        fprintf(out, ", rank %" PRId64 " of %" PRId64, run->rank, run->world_size);
    report_put_text(out, "</p>\n<p class=\"verdict\">", run->verdict->text, "</p>\n");
    if (*run->tiers)
        report_put_text(out, "<p class=\"tiers\">", run->tiers, "</p>\n");
    put_machine(out, run);
    put_cards(out, run);
    fputs("<noscript><p>The charts need JavaScript; every figure is below.</p></noscript>\n"
          "<div class=\"charts\"></div>\n",
          out);
    report_metrics_page(run, out);
    put_epochs(out, run);
    put_settings(out, run);
    put_figures(view, out, run);
    put_counts(out, run);
    fputs("</article>\n", out);
}

/* ---- Around the runs ------------------------------------------------------------------------- */

static void put_picker(const struct report_view *view, FILE *out)
{
    if (view->runs < 2)
        return;
    fputs("<nav class=\"tools\" aria-label=\"Runs\" hidden><label for=\"pick\">Run</label><select "
          "id=\"pick\" "
          "autocomplete=\"off\">",
          out);
    for (uint64_t i = 0; i < view->runs; i++) {
        const stk_report_run *run = stk_report_run_at(view->report, i);
        fprintf(out, "<option value=\"%" PRIu64 "\">", i);
        cli_html_string(out, view->all->names[i]);
        if (run->repeat > 0)
            fprintf(out, ", repeat %" PRId64, run->repeat);
        if (run->world_size > 1)
            fprintf(out, ", rank %" PRId64, run->rank);
        fputs("</option>", out);
    }
    fputs("</select></nav>\n", out);
}

struct notes {
    FILE *out;
    bool any;
};

static void put_note(void *user, const char *line)
{
    struct notes *n = user;

    fputs(n->any ? "<li>" : "<section>\n<h2>About the log</h2>\n<ul>\n<li>", n->out);
    n->any = true;
    cli_html_string(n->out, line);
    fputs("</li>\n", n->out);
}

static void put_notes(const struct report_view *view, FILE *out)
{
    struct notes notes = {out, false};

    for (uint64_t i = 0; i < view->files; i++)
        stk_report_notes(view->report, i, put_note, &notes);
    if (notes.any)
        fputs("</ul>\n</section>\n", out);
}

const char *report_page_style(void)
{
    return (const char *)report_page_css;
}

/* ---- All ------------------------------------------------------------------------------------- */

void report_write_page(const struct report_view *view, FILE *out)
{
    put_head(view, out);
    report_contents_page(view, out);
    if (view->all->trainings)
        report_trainings_page(view, out);
    report_curves_page(view, out);
    if (view->all->ladder)
        report_ladder_page(view, out);
    report_ranks_page(view, out);
    if (view->num_predictions)
        report_what_if_page(view, out);
    report_scale_page(view, out);
    report_surface_page(view, out);
    put_comparison(view, out);
    put_picker(view, out);
    for (uint64_t i = 0; i < view->runs; i++)
        put_run(view, out, i);
    put_notes(view, out);
    report_words_page(out);
    fprintf(out,
            "</main>\n<footer class=\"soft\"><p>Made by stoker %s report. This page needs nothing "
            "but itself.</p></footer>\n<script type=\"application/json\" id=\"data\">",
            stk_version());
    fputs(view->charts, out);
    fputs("</script>\n<script type=\"application/json\" id=\"parts\">", out);
    report_parts_json(out);
    fprintf(out, "</script>\n<script>\n%s</script>\n", chart_min_js);
    fprintf(out, "<script>\n%s</script>\n<script>\n%s</script>\n<script>\n%s</script>\n",
            report_gantt_js, report_training_js, report_page_js);
    fputs("</body>\n</html>\n", out);
}
