/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a run as one: sums, and the slowest where all wait for it. */
#include <string.h>

#include "bench.h"

static double more_of(double a, double b)
{
    return a > b ? a : b;
}

static void add_rank(stk_figures *sum, const stk_figures *one)
{
    sum->samples_per_s += one->samples_per_s;
    sum->samples += one->samples;
    sum->cpu_s += one->cpu_s;
    sum->peak_bytes += one->peak_bytes;
    sum->bytes_read += one->bytes_read;
    sum->requests += one->requests;
    sum->leak_bytes_per_epoch += one->leak_bytes_per_epoch;
    /* Steps are in step: the slowest rank is what all wait for. */
    sum->wait.mean = more_of(sum->wait.mean, one->wait.mean);
    sum->wait.p50 = more_of(sum->wait.p50, one->wait.p50);
    sum->wait.p95 = more_of(sum->wait.p95, one->wait.p95);
    sum->wait.p99 = more_of(sum->wait.p99, one->wait.p99);
    sum->wait.max = more_of(sum->wait.max, one->wait.max);
    sum->first_wait = more_of(sum->first_wait, one->first_wait);
    sum->epoch_turn = more_of(sum->epoch_turn, one->epoch_turn);
    sum->step_stretch = more_of(sum->step_stretch, one->step_stretch);
    if (one->step_share < sum->step_share)
        sum->step_share = one->step_share;
    if (one->allocations_per_step_times_1000 > sum->allocations_per_step_times_1000)
        sum->allocations_per_step_times_1000 = one->allocations_per_step_times_1000;
}

void bench_sum(const struct bench_result *ranks, uint64_t n, struct bench_result *sum,
               stk_figures *judged)
{
    *sum = ranks[0];
    *judged = ranks[0].figures;
    for (uint64_t i = 1; i < n; i++) {
        const struct bench_result *one = &ranks[i];
        /* A rank that failed by itself says more than one that was stopped for it. */
        if (one->run.status < 0 && (sum->run.status >= 0 || sum->run.status == STK_ECANCELED ||
                                    sum->run.status == STK_ESYSTEM)) {
            sum->run.status = one->run.status;
            sum->run.error = one->run.error;
        }
        if (one->figures.wait.mean > judged->wait.mean)
            *judged = one->figures;
        add_rank(&sum->figures, &one->figures);
        sum->run.events += one->run.events;
        sum->run.delivered += one->run.delivered;
        sum->run.discarded_most += one->run.discarded_most;
        sum->run.bad_samples += one->run.bad_samples;
        /* Those of the first rank that has some stand for all. */
        if (!*sum->run.bad)
            memcpy(sum->run.bad, one->run.bad, sizeof sum->run.bad);
        sum->run.stoker_peak_bytes += one->run.stoker_peak_bytes;
        sum->run.check_failed |= one->run.check_failed;
        sum->run.interrupted |= one->run.interrupted;
        sum->run.log_failed |= one->run.log_failed;
    }
    stk_figures *f = &sum->figures;
    f->cpu_s_per_1000 = f->samples ? 1000 * f->cpu_s / (double)f->samples : 0;
    judged->samples_per_s = f->samples_per_s;
}
