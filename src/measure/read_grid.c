/* SPDX-License-Identifier: Apache-2.0 */
/* Events "grid setting" of a tuning -> what is known of each setting of its grid. */
#include "measure/read.h"

#include <math.h>

static const stk__json_range rates = {0, 1e15};

static double number_of(const stk__log_line *line, const char *key, stk__json_range range)
{
    const stk__json_member *m = stk__line_find(line, key);
    double value = NAN;

    if (m)
        (void)stk__json_member_real(m, range, &value);
    return value;
}

/* -1: it is not known. */
static int64_t count_of(const stk__log_line *line, const char *key)
{
    const stk__json_member *m = stk__line_find(line, key);
    int64_t value = -1;

    if (m)
        (void)stk__json_member_whole(m, STK__WHOLE_MAX, &value);
    return value;
}

static bool is_true(const stk__log_line *line, const char *key)
{
    const stk__json_member *m = stk__line_find(line, key);

    return m && m->kind == STK__JSON_TRUE;
}

static stk_report_grid_setting setting_of(const stk__log_line *line, uint64_t file, int64_t number)
{
    return (stk_report_grid_setting){.struct_size = sizeof(stk_report_grid_setting),
                                     .file = file,
                                     .setting = (uint64_t)number,
                                     .num_workers = count_of(line, "num_workers"),
                                     .io_depth = count_of(line, "io_depth"),
                                     .prefetch_factor = count_of(line, "prefetch_factor"),
                                     .auto_workers = is_true(line, "auto_workers"),
                                     .auto_depth = is_true(line, "auto_depth"),
                                     .allowed = is_true(line, "allowed"),
                                     .front = is_true(line, "front"),
                                     .best = is_true(line, "best"),
                                     .runs = (uint64_t)STK_MAX(count_of(line, "runs"), 0),
                                     .samples_per_s = number_of(line, "samples_per_s", rates),
                                     .least = number_of(line, "least", rates),
                                     .most = number_of(line, "most", rates),
                                     .predicted = number_of(line, "predicted_samples_per_s", rates),
                                     .wait_share = number_of(line, "wait_share", STK__RANGE_SHARE),
                                     .wait = number_of(line, "wait_mean", STK__RANGE_DURATION),
                                     .cpu_cores = number_of(line, "cpu_cores", STK__RANGE_FACTOR),
                                     .peak_bytes = number_of(line, "peak_bytes", STK__RANGE_COUNT),
                                     .cost = number_of(line, "cost_per_million", rates)};
}

stk_status stk__report_grid_add(stk_report *report, const stk__log_line *line)
{
    const int64_t number = count_of(line, "setting");
    stk__grid *grid = &report->grid;

    if (number < 0)
        return STK_OK;
    /* All of them are written again as more is known: from the first on, in their order. */
    if (number == 0)
        grid->n = grid->first;
    if (grid->n == STK__GRID_MAX) {
        report->files[report->num_files - 1].grid_left_out++;
        return STK_OK;
    }
    stk_report_grid_setting *settings =
        stk__grow(report->ctx, grid->settings, &grid->room, grid->n + 1, sizeof *settings);
    if (!settings)
        return STK_ENOMEM;
    grid->settings = settings;
    settings[grid->n++] = setting_of(line, report->num_files - 1, number);
    return STK_OK;
}

uint64_t stk_report_grid_settings(const stk_report *report)
{
    return report->grid.n;
}

const stk_report_grid_setting *stk_report_grid_setting_at(const stk_report *report, uint64_t i)
{
    return i < report->grid.n ? &report->grid.settings[i] : NULL;
}
