/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `overhead`: what the trainer itself costs a step, with a module that computes nothing:
 * the time of a fit over that of the same loader read alone. One row with the defaults (bar,
 * summary, checkpoint, loggers; a terminal's bar that goes nowhere), one with `barebones`, and with
 * `--profiler NAMES` one under profilers. Medians of the rounds.
 */
#include <stoker/profiler.h>

#include "folder.h"
#include "training.h"

enum { ROUNDS = 64 };

static float weights[8];

static stk_status training_step(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                                stk_loss *loss, stk_error *err)
{
    (void)module, (void)at;
    loss->value.value = 1;
    if (stk_trainer_get_options(trainer)->barebones)
        return STK_OK;
    return stk_trainer_log(trainer, "train_loss", 1.0, STK_ON_STEP | STK_PROG_BAR, 0, err);
}

static stk_status backward(stk_module *module, const stk_loss *loss, double scale, stk_error *err)
{
    (void)module, (void)loss, (void)scale, (void)err;
    return STK_OK;
}

static stk_status optimizer_step(stk_module *module, const stk_moment *at, stk_error *err)
{
    (void)module, (void)at, (void)err;
    return STK_OK;
}

static stk_status state(stk_module *module, uint32_t kinds, stk_state_visit *visit, void *user,
                        stk_error *err)
{
    const stk_state_tensor tensor = {"weights", STK_FLOAT32, 1, {8}, weights, sizeof weights};

    (void)module;
    return kinds & STK_STATE_PARAMETER ? visit(user, STK_STATE_PARAMETER, &tensor, err) : STK_OK;
}

static const stk_module_ops ops = {.struct_size = sizeof ops,
                                   .name = "Empty",
                                   .training_step = training_step,
                                   .backward = backward,
                                   .optimizer_step = optimizer_step,
                                   .state = state};

struct run {
    stk_context *context;
    stk_dataset *dataset;
    stk_loader_options loader;
    uint64_t steps;
    struct bench_folder folder;
};

/* Seconds of reading the epoch alone. */
static double loader_alone(const struct run *run)
{
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    bench_check(stk_loader_create(run->dataset, &run->loader, &loader, &err), &err);
    const double began = bench_now();
    for (uint64_t i = 0; i < run->steps; i++) {
        bench_check(stk_loader_next(loader, -1, &batch, &err), &err);
        stk_batch_release(&batch);
    }
    const double seconds = bench_now() - began;
    stk_loader_destroy(&loader);
    return seconds;
}

/* Seconds of the fit's epoch, as its ledger says. */
static double fit(const struct run *run, bool barebones, const char *profiler)
{
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = run->dataset, .options = &run->loader};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &source};
    stk_module module = {&ops};
    stk_trainer_options options;
    stk_profile_options profile_options;
    stk_profile *profile = NULL;
    stk_trainer_times times = {.struct_size = sizeof times};
    stk_trainer *trainer;
    stk_error err;

    stk_trainer_options_init(&options);
    options.max_epochs = 1;
    options.default_root_dir = run->folder.path;
    options.barebones = barebones;
    bench_check(stk_trainer_create(run->context, &options, &trainer, &err), &err);
    bench_quiet(trainer, true);
    if (profiler) {
        stk_profile_options_init(&profile_options);
        profile_options.profiler = profiler;
        bench_check(stk_profile_create(trainer, &profile_options, &profile, &err), &err);
    }
    bench_check(stk_trainer_fit(trainer, &module, &data, NULL, &err), &err);
    stk_trainer_get_times(trainer, &times);
    bench_check(stk_profile_close(&profile, &err), &err);
    stk_trainer_destroy(&trainer);
    return (double)times.wall * 1e-9;
}

static void print_rows(const struct run *run, double *defaults, double *barebones, double *profiled,
                       double *alone, size_t rounds)
{
    const double to_us = 1e6 / (double)run->steps;

    printf("{\"workload\": \"overhead\", \"peer\": \"stoker\", \"version\": \"stoker %s\", "
           "\"steps\": %llu, \"loader_us\": %.4f, \"defaults_us\": %.4f, \"barebones_us\": %.4f",
           stk_version(), (unsigned long long)run->steps,
           bench_percentile(alone, rounds, 50) * to_us,
           bench_percentile(defaults, rounds, 50) * to_us,
           bench_percentile(barebones, rounds, 50) * to_us);
    if (profiled)
        printf(", \"profiled_us\": %.4f", bench_percentile(profiled, rounds, 50) * to_us);
    printf("}\n");
}

int main(int argc, char **argv)
{
    double alone[ROUNDS], defaults[ROUNDS], barebones[ROUNDS], profiled[ROUNDS];
    struct run run;
    char spec[128];
    stk_error err;

    bench_known(argc, argv, "steps seconds rounds profiler");
    run.steps = (uint64_t)bench_number(argc, argv, "steps", 200000);
    const char *profiler = bench_text(argc, argv, "profiler", NULL);
    const double seconds = bench_number(argc, argv, "seconds", 5), began = bench_now();
    const size_t most = (size_t)bench_number(argc, argv, "rounds", ROUNDS);
    size_t rounds = 0;

    bench_folder_open(&run.folder, NULL);
    snprintf(spec, sizeof spec, "synthetic:?size=%llu&shape=1x1x1", (unsigned long long)run.steps);
    bench_check(stk_context_create(NULL, &run.context, &err), &err);
    bench_check(stk_dataset_open(run.context, spec, &run.dataset, &err), &err);
    stk_loader_options_init(&run.loader);
    run.loader.batch_size = 1;
    run.loader.num_workers = 0;
    do {
        alone[rounds] = loader_alone(&run);
        defaults[rounds] = fit(&run, false, NULL) - alone[rounds];
        barebones[rounds] = fit(&run, true, NULL) - alone[rounds];
        if (profiler)
            profiled[rounds] = fit(&run, false, profiler) - alone[rounds];
        rounds++;
    } while (rounds < 3 || (bench_now() - began < seconds && rounds < most && rounds < ROUNDS));
    print_rows(&run, defaults, barebones, profiler ? profiled : NULL, alone, rounds);
    stk_dataset_close(&run.dataset);
    stk_context_destroy(&run.context);
    bench_folder_close(&run.folder);
    return 0;
}
