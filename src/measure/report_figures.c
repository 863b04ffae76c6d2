/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a run -> its figures. */
#include "measure/read.h"

#include <math.h>

static double over(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static void time_figures(stk__run *run)
{
    stk_report_run *out = &run->out;
    double last = STK_MAX(run->last, isnan(run->end) ? -INFINITY : run->end);

    if (isnan(out->total))
        out->total = isfinite(last) ? last : NAN;
    out->epochs = run->epochs;
    out->epochs_total = 0;
    for (uint64_t i = 0; i < out->num_epochs; i++) {
        stk_report_epoch *epoch = &run->epochs[i];
        epoch->loss = i < run->num_losses ? run->losses[i] : (double)NAN;
        if (epoch->duration >= 0)
            out->epochs_total += epoch->duration;
        else if (i + 1 == out->num_epochs)
            out->epochs_total += STK_MAX(0.0, last - epoch->start);
    }
    if (out->num_epochs == 0 && out->steps)
        out->epochs_total = run->end - run->first_step;
}

static void wait_figures(stk__run *run)
{
    stk_report_run *out = &run->out;

    out->wait_deviation = stk__values_deviation(&run->wait);
    stk__values_histogram(&run->wait, &out->histogram);
    stk__values_spread(&run->wait, &out->wait);
    stk__values_spread(&run->notebook, &out->wait_notebook);
    out->exact = !run->wait.over && !run->notebook.over;
    out->epoch_turn = over(run->turn_sum, (double)run->turns);
}

static void step_figures(stk__run *run)
{
    stk_report_run *out = &run->out;
    double steps = (double)out->steps;

    out->step_sum = run->step_sum;
    out->step_mean = over(run->step_sum, steps);
    out->busy_share = over(run->step_sum, out->epochs_total);
    out->wait_share = over(out->wait.mean, out->wait.mean + out->step_mean);
    out->seconds_per_step = over(out->epochs_total, steps);
    out->steps_per_s = over(steps, out->epochs_total);
    out->samples_per_s = out->steps_per_s * out->batch_size;
    out->num_blocks = run->blocks.n;
    out->block_steps = run->blocks.size;
    for (uint64_t i = 0; i < run->blocks.n; i++)
        out->blocks[i] = run->blocks.sum[i] / (double)run->blocks.size;
    stk__values_spread(&run->get, &out->get_batch);
    out->get_per_step = over((double)(out->get_batches + out->get_dropped), steps);
}

static void show_places(stk_report_series *out, const stk__places *places)
{
    out->width = places->width;
    out->n = places->n;
    out->sum = places->sum;
    out->count = places->count;
}

void stk__run_figures(stk_report *report, stk__run *run)
{
    stk_report_run *out = &run->out;

    (void)report;
    out->label = run->label ? run->label : "";
    out->measure = run->measure ? run->measure : "";
    out->steady_samples_per_s =
        run->has_figures && run->figures.samples_per_s > 0 ? run->figures.samples_per_s : NAN;
    time_figures(run);
    wait_figures(run);
    step_figures(run);
    out->counts = run->counts;
    for (int i = 0; i < STK_REPORT_ROWS; i++)
        out->rows[i] = run->row_names[i][0] ? run->row_names[i] : NULL;
    for (uint64_t i = 0; i < out->num_series; i++) {
        run->series_out[i] = run->series[i]->out;
        show_places(&run->series_out[i], &run->series[i]->places);
    }
    out->series = run->series_out;
    show_places(&out->step_places, &run->steps);
    show_places(&out->wait_places, &run->waits);
    show_places(&out->get_places, &run->gets);
    stk__run_summary(run);
    if (!out->verdict_logged)
        stk__run_judge(run);
}
