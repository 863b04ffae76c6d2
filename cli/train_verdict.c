/* SPDX-License-Identifier: Apache-2.0 */
/* A training as figures of the verdict: the trainer's times and its loader's counts. */
#include <string.h>

#include "bench.h"
#include "train.h"

#define NS 1e-9

static void loader_figures(const stk_trainer *trainer, const stk_loader_options *options,
                           stk_figures *f)
{
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};

    stk_trainer_get_loader_stats(trainer, &begin, &end);
    bench_ledger_figures(&begin, &end, f);
    bench_cost_figures(&begin, &end, f);
    f->batch_size = options->batch_size;
    f->pin_memory = options->pin_memory;
    f->persistent_workers = options->persistent_workers;
    f->requests = end.requests - begin.requests;
    for (int i = 0; i < STK_LOADER_STAGES; i++)
        if (end.stages[i].name && !strcmp(end.stages[i].name, "read"))
            f->read_seconds = NS * (double)(end.stages[i].busy_ns - begin.stages[i].busy_ns);
    if (f->requests)
        f->read_latency = f->read_seconds / (double)f->requests;
    if (end.workers)
        f->prefetch = (int64_t)(end.depth / end.workers);
    /* Workers that are busy are taken to compute. */
    f->cpu_s = f->prepare_busy;
}

/* The parts of the trainer's time, each where it belongs: what is neither step nor wait is beside
 * them. What is nobody's, as the setup, is not part of the window. */
static void time_figures(const stk_trainer_times *times, stk_figures *f)
{
    const double steps = (double)times->steps;

    f->steps = times->steps;
    f->samples = times->samples;
    f->wall = NS * (double)(times->wall - times->other);
    f->transfer_s = NS * (double)times->transfer;
    f->validation_s = NS * (double)times->validation;
    f->callbacks_s = NS * (double)times->callbacks;
    f->logging_s = NS * (double)times->logging;
    f->checkpoint_s = NS * (double)times->checkpoint;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        f->waits[i] = NS * (double)times->waits.parts_ns[i];
    if (times->steps == 0 || f->wall <= 0)
        return;
    f->step_time = NS * (double)times->step / steps;
    f->wait.n = times->steps;
    f->wait.sum = NS * (double)times->data_wait;
    f->wait.mean = f->wait.sum / steps;
    f->step_share = NS * (double)times->step / f->wall;
    f->samples_per_s = (double)times->samples / f->wall;
    if (times->samples)
        f->cpu_s_per_1000 = 1000 * f->cpu_s / (double)times->samples;
}

void train_figures(stk_context *context, const stk_trainer *trainer,
                   const struct train_config *config, stk_figures *out)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_cores cores = {.struct_size = sizeof cores};

    *out = (stk_figures){.struct_size = sizeof *out,
                         .ranks = 1,
                         .spin = true,
                         .cached_share = -1,
                         .step_stretch = 1, /* how long it takes alone is not known */
                         .val_every = config->trainer.check_val_every_n_epoch,
                         .log_every = config->trainer.log_every_n_steps};
    stk_trainer_get_times(trainer, &times);
    stk_context_cores(context, &cores);
    out->usable_cores = cores.usable;
    out->compute_cores = cores.compute;
    loader_figures(trainer, &config->loader, out);
    time_figures(&times, out);
}
