/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a bench for programs. */
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON and CSV --------------------------------------------------------------------------- */

/* One figure of a row by its name, in base units. */
struct figure {
    const char *name;
    double value;
};

/* Of a run of any kind; of a training as many more. */
#define FIGURES 96

/* Of a whole training, behind the others. */
static size_t list_training(const struct bench_row *row, struct figure *list)
{
    const stk_bench_training *t = &row->row.result->training;
    const struct figure all[] = {
        {"total_seconds", t->seconds},
        {"epochs", (double)t->epochs},
        {"epoch_seconds_mean", t->epoch_mean},
        {"epoch_loss_last", t->last_loss},
        {"accuracy", t->accuracy},
        {"evaluated_loss", t->evaluated_loss},
        {"speed_up", row->row.speed_up},
        {"speed_up_least", row->row.speed_up_least},
        {"speed_up_most", row->row.speed_up_most},
        {"pairs", (double)row->row.pairs},
        {"peak_rss_bytes", (double)t->peak_bytes},
    };

    _Static_assert(sizeof all / sizeof *all <= FIGURES, "room for all figures");
    memcpy(list, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t list_figures(const struct bench_row *row, bool trainings, struct figure *list)
{
    const stk_bench_result *r = row->row.result;
    const stk_figures *f = row->row.figures;
    const stk_network *n = &row->row.judged->network;
    const struct figure all[] = {
        {"samples_per_s", f->samples_per_s},
        {"samples_per_s_least", row->row.least},
        {"samples_per_s_most", row->row.most},
        {"runs", (double)row->row.runs},
        {"wait_mean", f->wait.mean},
        {"wait_p50", f->wait.p50},
        {"wait_p95", f->wait.p95},
        {"wait_p99", f->wait.p99},
        {"wait_max", f->wait.max},
        {"first_wait", f->first_wait},
        {"step_share", f->step_share},
        {"epoch_turn", f->epoch_turn},
        {"step_stretch", f->step_stretch},
        {"step_time", f->step_time},
        {"cpu_s_per_1000", f->cpu_s_per_1000},
        {"peak_bytes", (double)f->peak_bytes},
        {"budget_bytes", (double)f->budget_bytes},
        {"stoker_peak_bytes", (double)r->stoker_peak_bytes},
        {"leak_bytes_per_epoch", f->leak_bytes_per_epoch},
        {"allocations_per_step", (double)f->allocations_per_step_times_1000 / 1000},
        {"bytes_read", (double)f->bytes_read},
        {"requests", (double)f->requests},
        {"cached_share", f->cached_share},
        {"samples", (double)f->samples},
        {"steps", (double)f->steps},
        {"wall", f->wall},
        {"setup", r->setup},
        {"all_reduce", r->all_reduce},
        {"all_reduce_most", r->all_reduce_most},
        {"ceiling_samples_per_s", f->ceiling_samples_per_s},
        {"other_cores", r->other_cores},
        {"events", (double)r->events},
        {"delivered", (double)r->delivered},
        {"bad_samples", (double)r->bad_samples},
        {"pictures", (double)f->pictures},
        {"decode_seconds", f->decode_seconds},
        {"resize_seconds", f->resize_seconds},
        {"prepare_seconds", f->prepare_busy},
        {"entropy_share", f->entropy_share},
        {"read_transfer_share", f->read_transfer_share},
        {"bytes_needed", (double)f->bytes_needed},
        {"net_reads", (double)n->reads},
        {"net_bytes", (double)n->bytes},
        {"net_requests", (double)n->requests},
        {"net_retries", (double)n->retries},
        {"net_twice", (double)n->twice},
        {"net_throttled", (double)n->throttled},
        {"net_late", (double)n->late},
        {"net_connects", (double)n->connects},
        {"net_turn", (double)n->turn_ns * 1e-9},
        {"net_vain", (double)(n->throttled_ns + n->again_ns) * 1e-9},
        {"net_connect", (double)n->connect_ns * 1e-9},
        {"net_first_byte", (double)n->first_ns * 1e-9},
        {"net_body", (double)n->body_ns * 1e-9},
        {"net_transfer_share", n->transfer_share},
#define WAIT(NAME, name, text) {"wait_" #name, row->row.judged->waits[STK_WAIT_##NAME]},
        STK_WAIT_LIST(WAIT)
#undef WAIT
    };
    const size_t count = sizeof all / sizeof *all;

    _Static_assert(sizeof all / sizeof *all <= FIGURES, "room for all figures");
    memcpy(list, all, sizeof all);
    return trainings ? count + list_training(row, list + count) : count;
}

/* NULL where it is empty, which is null in JSON. */
static const char *some(const char *text)
{
    return *text ? text : NULL;
}

static void json_rung(FILE *out, const struct bench_row *row)
{
    if (!row->row.ended || !row->setting.rung)
        return;
    fprintf(out, ", \"rung\": %" PRIu64 ", \"measure\": ", row->setting.rung);
    cli_json_string(out, row->setting.measure);
    cli_json_member_number(out, "factor", row->row.factor);
    cli_json_member_number(out, "share", row->row.share);
}

static void json_row(FILE *out, const struct bench_rows *rows, const struct bench_row *row)
{
    const stk_bench_result *result = row->row.result;
    struct figure list[2 * FIGURES];

    fputs("{\"label\": ", out);
    cli_json_string(out, row->setting.label);
    fprintf(out, ", \"status\": \"%s\"", stk_status_name(result->status));
    cli_json_member_text(out, "error", result->status < 0 ? some(result->error.text) : NULL);
    fprintf(out, ", \"check\": \"%s\", \"options\": %s", result->check_failed ? "failed" : "good",
            row->setting.options_json);
    size_t figures = row->row.ended ? list_figures(row, rows->summary.trainings, list) : 0;
    for (size_t k = 0; k < figures; k++) {
        cli_json_member_number(out, list[k].name, list[k].value);
    }
    json_rung(out, row);
    bench_trainings_json(out, row);
    if (row->row.ended) {
        cli_json_member_text(out, "limit", stk_limit_name(row->verdict.limit));
        cli_json_member_text(out, "knob", some(row->verdict.knob));
        cli_json_member_text(out, "value", some(row->verdict.value));
        cli_json_member_number(out, "gain", row->verdict.gain);
        cli_json_member_number(out, "lost_share", row->verdict.lost_share);
        cli_json_member_number(out, "limit_share", row->verdict.limit_share);
        cli_json_member_text(out, "verdict", some(row->verdict.text));
    }
    cli_json_member_text(out, "bad", some(result->bad));
    cli_json_member_text(out, "log", result->log_written ? rows->log : NULL);
    fputc('}', out);
}

void bench_json(FILE *out, const struct bench_rows *rows)
{
    const size_t best = rows->summary.best, base = rows->summary.baseline;

    fputs("{\"settings\": [\n", out);
    for (size_t i = 0; i < rows->n; i++) {
        json_row(out, rows, &rows->rows[i]);
        fputs(i + 1 < rows->n ? ",\n" : "\n", out);
    }
    fputs("]", out);
    cli_json_member_text(out, "best", best < rows->n ? rows->rows[best].setting.label : NULL);
    cli_json_member_text(out, "baseline", base < rows->n ? rows->rows[base].setting.label : NULL);
    if (best < rows->n) {
        fputs(rows->summary.trainings ? ", \"speed_up_total_seconds\": "
                                      : ", \"speed_up_samples_per_s_without_setup\": ",
              out);
        cli_json_number(out, rows->summary.trainings ? rows->rows[best].row.speed_up
                                                     : rows->summary.speed_up);
    }
    fputs("}\n", out);
}

void bench_csv(FILE *out, const struct bench_rows *rows)
{
    struct figure list[2 * FIGURES];
    size_t figures = list_figures(&rows->rows[0], rows->summary.trainings, list);

    fputs("label,status", out);
    for (size_t k = 0; k < figures; k++)
        fprintf(out, ",%s", list[k].name);
    fputs(",limit,verdict\n", out);
    for (size_t i = 0; i < rows->n; i++) {
        const struct bench_row *row = &rows->rows[i];
        const bool ended = row->row.ended;
        cli_csv_string(out, row->setting.label);
        fprintf(out, ",%s", stk_status_name(row->row.result->status));
        list_figures(row, rows->summary.trainings, list);
        for (size_t k = 0; k < figures; k++) {
            char number[32] = "";
            if (ended)
                stk_number_format(list[k].value, number);
            fprintf(out, ",%s", number);
        }
        fprintf(out, ",%s,", ended ? stk_limit_name(row->verdict.limit) : "");
        cli_csv_string(out, ended ? row->verdict.text : row->row.result->error.text);
        fputc('\n', out);
    }
}
