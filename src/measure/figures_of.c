/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a loader and of a trainer, by what they tell everybody: their counts and times. */
#include <stdio.h>

#include <stoker/loader.h>
#include <stoker/trainer.h>

#include "base/sized.h"
#include "base/tiers.h"
#include "measure/figures.h"

bool stk__figures_begin(stk_context *ctx, const stk_loader_options *options, stk_figures *f)
{
    stk_cores cores = {.struct_size = sizeof cores};

    f->ranks = 1;
    f->spin = true;
    f->cached_share = -1;
    f->step_stretch = 1; /* how long it takes alone is not known */
    f->batch_size = options->batch_size;
    f->pin_memory = options->pin_memory;
    f->persistent_workers = options->persistent_workers;
    stk_context_cores(ctx, &cores);
    f->usable_cores = cores.all_usable;
    f->compute_cores = cores.compute;
    return cores.all_usable == cores.online;
}

static void take_pictures(stk_figures *f, const stk_loader_stats *then, const stk_loader_stats *now)
{
    f->pictures = now->pictures - then->pictures;
    f->picture_pixels = now->picture_pixels - then->picture_pixels;
    f->bad_samples = now->bad_samples - then->bad_samples;
    f->decode_seconds = stk__seconds(now->decode_ns - then->decode_ns);
    f->resize_seconds = stk__seconds(now->resize_ns - then->resize_ns);
}

/* What is needed is counted as it is planned, which is ahead of the samples, by all of an epoch
 * where it fits: it is told for as many rows as were prepared. */
static void take_shared(stk_figures *f, const stk_loader_stats *then, const stk_loader_stats *now)
{
    const stk_stage_stats *a = then->stages, *b = now->stages;
    const uint64_t planned = b[STK_LOADER_ORDER].items - a[STK_LOADER_ORDER].items,
                   prepared = b[STK_LOADER_PREPARE].items - a[STK_LOADER_PREPARE].items,
                   needed = now->chunks_needed - then->chunks_needed;

    f->chunks_needed =
        planned ? (uint64_t)((double)needed * (double)prepared / (double)planned) : needed;
    f->chunks_decoded = now->chunks_decoded - then->chunks_decoded;
    f->chunk_seconds = stk__seconds(now->chunk_decode_ns - then->chunk_decode_ns);
}

/* Both structs have the size of this version. */
static void take_loader(stk_figures *f, const stk_loader_stats *then, const stk_loader_stats *now)
{
    const stk_stage_stats *a = &then->stages[STK_LOADER_PREPARE],
                          *b = &now->stages[STK_LOADER_PREPARE];
    stk_waits waits = now->waits;

    f->prepare_busy = stk__seconds(b->busy_ns - a->busy_ns);
    f->prepare_wait_in = stk__seconds(b->wait_in_ns - a->wait_in_ns);
    f->prepare_wait_out = stk__seconds(b->wait_out_ns - a->wait_out_ns);
    f->bytes_read = now->request_bytes - then->request_bytes;
    f->read_failures =
        now->stages[STK_LOADER_READ].failures - then->stages[STK_LOADER_READ].failures;
    f->bytes_needed = now->needed_bytes - then->needed_bytes;
    f->bytes_decoded = now->chunk_bytes_decoded - then->chunk_bytes_decoded;
    take_shared(f, then, now);
    f->claims = now->claims;
    f->bytes_taken = b->bytes - a->bytes;
    f->num_workers = (int64_t)now->workers;
    f->io_depth = (int64_t)now->io_depth;
    f->budget_bytes = now->memory_budget;
    f->budget_wait = stk__seconds(now->budget_wait_ns - then->budget_wait_ns);
    f->read_floor = now->read_latency_ns / 1e9;
    f->read_transfer_share = now->read_transfer_share;
    stk__waits_subtract(&waits, &then->waits);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        f->waits[i] = stk__seconds(waits.parts_ns[i]);
    f->requests = now->requests - then->requests;
    f->read_seconds =
        stk__seconds(now->stages[STK_LOADER_READ].busy_ns - then->stages[STK_LOADER_READ].busy_ns);
    f->tiers = now->tiers;
    stk__tiers_subtract(&f->tiers, &then->tiers);
    if (f->requests)
        f->read_latency = f->read_seconds / (double)f->requests;
    if (now->workers)
        f->prefetch = (int64_t)STK_MAX(now->depth / now->workers, UINT64_C(1));
    f->network = now->network;
    stk__network_subtract(&f->network, &then->network);
    take_pictures(f, then, now);
}

void stk__figures_of_loader(const stk_loader_stats *then, const stk_loader_stats *now,
                            stk_figures *figures)
{
    stk_loader_stats a = {0}, b = {0};
    stk_figures f = {0};

    stk__sized_copy(&a, sizeof a, then);
    stk__sized_copy(&b, sizeof b, now);
    stk__sized_copy(&f, sizeof f, figures);
    take_loader(&f, &a, &b);
    stk__sized_write(figures, &f);
}

void stk__figures_of_waits(const stk_waits *waits, uint64_t samples, double wall, stk_figures *f)
{
    const double steps = (double)waits->batches;

    f->wall = wall;
    f->steps = waits->batches;
    f->samples = samples;
    if (f->steps == 0 || f->wall <= 0)
        return;
    f->wait.n = f->steps;
    f->wait.sum = stk__seconds(waits->total_ns);
    f->wait.mean = f->wait.sum / steps;
    const double step = f->wall > f->wait.sum ? f->wall - f->wait.sum : 0;
    f->step_time = step / steps;
    f->step_share = step / f->wall;
    f->samples_per_s = (double)samples / f->wall;
}

/* ---- Trainers -------------------------------------------------------------------------------- */

static void take_trainer_loader(stk_figures *f, const stk_trainer *trainer)
{
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};

    stk_trainer_get_loader_stats(trainer, &begin, &end);
    take_loader(f, &begin, &end);
    /* Workers that are busy are taken to compute. */
    f->cpu_s = f->prepare_busy;
}

/* The parts of the trainer's time. What is neither step nor wait is next to them; `other`, as the
 * setup, is not part of the window. */
static void take_times(stk_figures *f, const stk_trainer_times *times)
{
    const double steps = (double)times->steps;

    f->steps = times->steps;
    f->samples = times->samples;
    f->wall = stk__seconds(times->wall - times->other);
    f->transfer_s = stk__seconds(times->transfer);
    f->validation_s = stk__seconds(times->validation);
    f->callbacks_s = stk__seconds(times->callbacks);
    f->logging_s = stk__seconds(times->logging);
    f->checkpoint_s = stk__seconds(times->checkpoint);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        f->waits[i] = stk__seconds(times->waits.parts_ns[i]);
    if (times->optimizer_steps) {
        f->optimizer_steps = times->optimizer_steps;
        f->optimizer_time = stk__seconds(times->optimizer) / (double)times->optimizer_steps;
    }
    if (times->steps == 0 || f->wall <= 0)
        return;
    f->step_time = stk__seconds(times->step) / steps;
    f->wait.n = times->steps;
    f->wait.sum = stk__seconds(times->data_wait);
    f->wait.mean = f->wait.sum / steps;
    f->step_share = stk__seconds(times->step) / f->wall;
    f->samples_per_s = (double)times->samples / f->wall;
    if (times->samples)
        f->cpu_s_per_1000 = 1000 * f->cpu_s / (double)times->samples;
}

static void take_chunks(void *user, const char *name, const char *value)
{
    stk_figures *f = user;

    if (!f->chunks[0] && strcmp(name, "advised chunks") == 0)
        snprintf(f->chunks, sizeof f->chunks, "%.*s", (int)strcspn(value, " "), value);
}

void stk__figures_advise_chunks(stk_dataset *dataset, stk_figures *f)
{
    const double read = STK_JUDGE_OVER_READ * (double)f->bytes_needed,
                 decoded = STK_JUDGE_OVER_READ * (double)f->bytes_taken;

    if (((double)f->bytes_read >= read || (double)f->bytes_decoded >= decoded) &&
        f->bytes_decoded && stk_dataset_describe(dataset, take_chunks, f, NULL) != STK_OK)
        f->chunks[0] = 0;
}

void stk__figures_of_trainer(const stk_trainer *trainer, const stk_loader_source *train,
                             stk_figures *figures)
{
    const stk_trainer_options *options = stk_trainer_get_options(trainer);
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_trainer_info info = {.struct_size = sizeof info};
    stk_loader_source source = {0};
    stk_loader_options l = {0};
    stk_figures f = {.struct_size = sizeof f,
                     .val_every = options->check_val_every_n_epoch,
                     .log_every = options->log_every_n_steps};

    stk_trainer_get_times(trainer, &times);
    stk_trainer_get_info(trainer, &info);
    f.max_epochs = info.max_epochs > 0 ? (uint64_t)info.max_epochs : 0;
    if (train)
        stk__sized_copy(&source, sizeof source, train);
    if (source.options)
        stk__sized_copy(&l, sizeof l, source.options);
    stk__figures_begin(stk_trainer_context(trainer), &l, &f);
    take_trainer_loader(&f, trainer);
    take_times(&f, &times);
    if (source.dataset)
        stk__figures_advise_chunks(source.dataset, &f);
    stk__sized_write(figures, &f);
}
