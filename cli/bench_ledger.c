/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run goes: the parts of an epoch, and what its waits were for. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define NS   1e-9
#define LINE 8192

static const stk_stage_stats *stage(const stk_loader_stats *stats, const char *name)
{
    static const stk_stage_stats none;

    for (int i = 0; i < STK_LOADER_STAGES; i++)
        if (stats->stages[i].name && strcmp(stats->stages[i].name, name) == 0)
            return &stats->stages[i];
    return &none;
}

void bench_ledger_subtract(stk_waits *now, const stk_waits *then)
{
    now->batches -= then->batches;
    now->total_ns -= then->total_ns;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        now->parts_ns[i] -= then->parts_ns[i];
}

void bench_ledger_figures(const stk_loader_stats *then, const stk_loader_stats *now, stk_figures *f)
{
    const stk_stage_stats *a = stage(then, "prepare"), *b = stage(now, "prepare");
    stk_waits waits = now->waits;

    f->prepare_busy = NS * (double)(b->busy_ns - a->busy_ns);
    f->prepare_wait_in = NS * (double)(b->wait_in_ns - a->wait_in_ns);
    f->prepare_wait_out = NS * (double)(b->wait_out_ns - a->wait_out_ns);
    f->bytes_read = now->request_bytes - then->request_bytes;
    f->read_failures = stage(now, "read")->failures - stage(then, "read")->failures;
    f->bytes_needed = now->needed_bytes - then->needed_bytes;
    f->bytes_decoded = now->chunk_bytes_decoded - then->chunk_bytes_decoded;
    f->bytes_taken = b->bytes - a->bytes;
    f->num_workers = (int64_t)now->workers;
    f->io_depth = (int64_t)now->io_depth;
    f->budget_bytes = now->memory_budget;
    f->budget_wait = NS * (double)(now->budget_wait_ns - then->budget_wait_ns);
    f->read_floor = NS * now->read_latency_ns;
    f->read_transfer_share = now->read_transfer_share;
    bench_ledger_subtract(&waits, &then->waits);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        f->waits[i] = NS * (double)waits.parts_ns[i];
}

/* One "ledger" event; what is neither step nor wait is other. */
static void write_ledger(stk_log *log, const char *first, uint64_t now_ns, uint64_t wall_ns,
                         uint64_t step_ns, const stk_waits *waited)
{
    char waits[1024], line[2048], step[32], wait[32], other[32];
    const uint64_t known = step_ns + waited->total_ns;

    stk_number_format(NS * (double)step_ns, step);
    stk_number_format(NS * (double)waited->total_ns, wait);
    stk_number_format(wall_ns > known ? NS * (double)(wall_ns - known) : 0, other);
    stk_waits_format(waited, waits, sizeof waits);
    snprintf(line, sizeof line,
             "\"parts\": {\"step\": %s, \"data_wait\": %s, \"other\": %s}, \"wait\": {%s}", step,
             wait, other, waits);
    stk_log_event(log, "ledger", first, now_ns, wall_ns, line);
}

static void add_waits(stk_waits *to, const stk_waits *more)
{
    to->batches += more->batches;
    to->total_ns += more->total_ns;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        to->parts_ns[i] += more->parts_ns[i];
}

void bench_ledger_epoch(struct bench_ledger *ledger, stk_log *log, const stk_loader *loader,
                        bool start, uint64_t epoch, uint64_t now_ns)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    char first[48];

    stk_loader_get_stats(loader, &stats);
    if (start) {
        ledger->begin_ns = now_ns;
        ledger->step_ns = 0;
        ledger->waits = stats.waits;
        return;
    }
    bench_ledger_subtract(&stats.waits, &ledger->waits);
    const uint64_t wall_ns = now_ns - ledger->begin_ns;
    snprintf(first, sizeof first, "\"epoch\": %" PRIu64, epoch);
    write_ledger(log, first, now_ns, wall_ns, ledger->step_ns, &stats.waits);
    ledger->all.wall_ns += wall_ns;
    ledger->all.step_ns += ledger->step_ns;
    add_waits(&ledger->all.waits, &stats.waits);
}

void bench_ledger_verdict(stk_log *log, const struct bench_ledger *ledger, const stk_figures *f)
{
    char line[LINE];
    stk_verdict verdict = {.struct_size = sizeof verdict};

    if (log && ledger && ledger->all.wall_ns)
        write_ledger(log, NULL, 0, ledger->all.wall_ns, ledger->all.step_ns, &ledger->all.waits);
    if (f->steps == 0)
        return;
    stk_figures_format(f, line, sizeof line);
    stk_log_event(log, "figures", NULL, 0, STK_NO_DURATION, line);
    stk_judge(f, &verdict);
    stk_verdict_format(&verdict, line, sizeof line);
    stk_log_event(log, "verdict", NULL, 0, STK_NO_DURATION, line);
}

stk_status bench_ledger_trace(stk_context *context, const struct bench_task *task, stk_trace **out,
                              stk_error *err)
{
    const struct bench_setting *setting = task->setting;
    char path[BENCH_PATH];

    *out = NULL;
    if (!setting->bench.trace || task->rank != 0 || task->repeat > 1)
        return STK_OK;
    /* Further settings have files of their own. */
    if (setting->number > 1)
        snprintf(path, sizeof path, "%s.%" PRIu64, setting->bench.trace, setting->number);
    else
        snprintf(path, sizeof path, "%s", setting->bench.trace);
    return stk_trace_open(context, path, setting->bench.trace_every, out, err);
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Parts of less than this share are left out. */
#define LEAST 0.005

void bench_ledger_print(FILE *out, size_t width, const struct bench_row *row)
{
    const stk_figures *f = &row->judged;
    bool used[STK_WAIT_PARTS] = {false};
    char text[2048];
    stk_verdict verdict = {.struct_size = sizeof verdict};
    double all = 0;

    for (int i = 0; i < STK_WAIT_PARTS; i++)
        all += f->waits[i];
    /* The verdict's figure: what of it the loader does not know was waited for outside it. */
    stk_judge(f, &verdict);
    const double waited = verdict.lost_share * f->wall;
    const double outside = waited > all ? waited - all : 0;
    if (all <= 0 || waited < LEAST * f->wall)
        return;
    all += outside;
    int n = snprintf(text, sizeof text, "Of the waits (%.1f %% of the time) were for",
                     100 * verdict.lost_share);
    for (const char *part = " "; n > 0 && (size_t)n < sizeof text; part = ", ") {
        int most = -1;
        for (int i = 0; i < STK_WAIT_PARTS; i++)
            if (!used[i] && (most < 0 || f->waits[i] > f->waits[most]))
                most = i;
        if (most < 0 || f->waits[most] < LEAST * all)
            break;
        used[most] = true;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %.1f %%", part,
                      stk_wait_text((stk_wait)most), 100 * f->waits[most] / all);
    }
    if (n > 0 && (size_t)n < sizeof text && outside >= LEAST * all)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%s the thread of the step itself, outside the loader, %.1f %%",
                      n > 0 && text[n - 1] == '%' ? "," : "", 100 * outside / all);
    if (n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ".");
    cli_paragraph(out, width, 0, text);
}
