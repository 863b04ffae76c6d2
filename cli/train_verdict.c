/* SPDX-License-Identifier: Apache-2.0 */
/* What limited a training: the trainer's times and its loader's counts as figures of the verdict.
 */
#include <string.h>

#include "bench.h"
#include "train.h"

#define NS 1e-9

void train_judge(stk_context *context, const stk_trainer *trainer, stk_verdict *out)
{
    stk_figures f = {.struct_size = sizeof f,
                     .ranks = 1,
                     .spin = true,
                     .cached_share = -1,
                     .persistent_workers = true};
    stk_loader_stats begin, end;
    stk_trainer_times times;
    stk_cores cores;

    stk_trainer_get_times(trainer, &times);
    stk_trainer_get_loader_stats(trainer, &begin, &end);
    stk_context_cores(context, &cores);
    bench_ledger_figures(&begin, &end, &f);
    bench_cost_figures(&begin, &end, &f);
    f.usable_cores = cores.usable;
    f.compute_cores = cores.compute;
    f.steps = times.steps;
    f.samples = times.samples;
    f.wall = NS * (double)times.wall;
    f.requests = end.requests - begin.requests;
    for (int i = 0; i < STK_LOADER_STAGES; i++)
        if (end.stages[i].name && !strcmp(end.stages[i].name, "read"))
            f.read_seconds = NS * (double)(end.stages[i].busy_ns - begin.stages[i].busy_ns);
    if (f.requests)
        f.read_latency = f.read_seconds / (double)f.requests;
    if (end.workers)
        f.prefetch = (int64_t)(end.depth / end.workers);
    /* Workers that are busy are taken to compute. */
    f.cpu_s = f.prepare_busy;
    f.step_stretch = 1;
    if (times.steps == 0 || times.wall == 0) {
        stk_judge(&f, out);
        return;
    }
    f.step_time = NS * (double)(times.wall - times.data_wait) / (double)times.steps;
    f.wait.n = times.steps;
    f.wait.mean = NS * (double)times.data_wait / (double)times.steps;
    f.wait.sum = NS * (double)times.data_wait;
    f.step_share = 1 - f.wait.sum / f.wall;
    f.samples_per_s = (double)times.samples / f.wall;
    f.cpu_s_per_1000 = 1000 * f.cpu_s / (double)(times.samples ? times.samples : 1);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        f.waits[i] = NS * (double)times.waits.parts_ns[i];
    stk_judge(&f, out);
}
