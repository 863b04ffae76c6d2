/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `save`: for how many steps the save of a checkpoint of 500 MB and more stops the
 * training of the model that it is of: an MLP of three layers of 4,608, Adam, batches of 64.
 * `blocked_steps` is the time that stk_trainer_save() takes over the median step; the first save of
 * a run, which has its memory taken in the background, and the median of the others.
 */
#include "folder.h"
#include "training.h"

enum { EVERY = 8, SAVES = 4, STEPS = EVERY * (SAVES + 1), MOST = STEPS };

static struct {
    double steps[MOST], saves[SAVES], last;
    int num_steps, num_saves;
    char path[4200];
} seen;

static stk_status on_train_batch_end(stk_callback *self, stk_trainer *trainer, const stk_moment *at,
                                     stk_error *err)
{
    stk_status status = STK_OK;
    const double now = bench_now();

    (void)self;
    if (seen.last > 0 && seen.num_steps < MOST)
        seen.steps[seen.num_steps++] = now - seen.last;
    if (at->global_step % EVERY == 0 && seen.num_saves < SAVES) {
        status = stk_trainer_save(trainer, seen.path, false, NULL, err);
        seen.saves[seen.num_saves++] = bench_now() - now;
    }
    seen.last = bench_now();
    return status;
}

static stk_callback_ops saver = {.name = "saver", .on_train_batch_end = on_train_batch_end};

static void fit(stk_context *context, const char *folder)
{
    static const int64_t shape[] = {28, 28, 1};
    stk_model_builder *builder;
    stk_model_options model;
    stk_optimizer_options optimizer;
    stk_loader_options loader;
    stk_trainer_options options;
    stk_trainer *trainer;
    stk_dataset *dataset;
    stk_error err;

    bench_check(stk_dataset_open(context, "digits:?size=4096", &dataset, &err), &err);
    bench_check(stk_model_builder_create(context, shape, 3, &builder, &err), &err);
    bench_check(stk_model_builder_add(builder,
                                      "flatten, linear(4608), relu, linear(4608), relu, "
                                      "linear(4608), relu, linear(10)",
                                      &err),
                &err);
    stk_model_options_init(&model);
    model.input_layout = 1;
    stk_optimizer_options_init(&optimizer);
    optimizer.name = STK_ADAM;
    stk_loader_options_init(&loader);
    loader.batch_size = 64;
    loader.transforms = "normalize(mnist)";
    stk_trainer_options_init(&options);
    options.max_steps = STEPS;
    options.default_root_dir = folder;
    options.logger = "false";
    bench_check(stk_trainer_create(context, &options, &trainer, &err), &err);
    bench_quiet(trainer, false);
    bench_add_callback(trainer, &saver);
    const stk_model_parts parts = {
        .struct_size = sizeof parts, .builder = builder, .model = &model, .optimizer = &optimizer};
    bench_fit(trainer, context, &parts, dataset, &loader);
    stk_trainer_destroy(&trainer);
    stk_model_builder_destroy(&builder);
    stk_dataset_close(&dataset);
}

int main(int argc, char **argv)
{
    struct bench_folder folder;
    stk_context *context;
    stk_error err;

    bench_known(argc, argv, "root");
    bench_folder_open(&folder, bench_text(argc, argv, "root", NULL));
    snprintf(seen.path, sizeof seen.path, "%s/saved.safetensors", folder.path);
    bench_check(stk_context_create(NULL, &context, &err), &err);
    fit(context, folder.path);
    FILE *f = fopen(seen.path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        bench_die(seen.path, "was not written");
    const double bytes = (double)ftell(f), first = seen.saves[0];
    fclose(f);
    const double step = bench_percentile(seen.steps, (size_t)seen.num_steps, 50);
    const double later = bench_percentile(seen.saves + 1, (size_t)seen.num_saves - 1, 50);
    printf(
        "{\"workload\": \"save\", \"peer\": \"stoker\", \"version\": \"stoker %s\", \"mb\": %.0f, "
        "\"step_ms\": %.2f, \"first_save_ms\": %.2f, \"save_ms\": %.2f, \"first_blocked_steps\": "
        "%.3f, \"blocked_steps\": %.3f}\n",
        stk_version(), bytes * 1e-6, step * 1e3, first * 1e3, later * 1e3, first / step,
        later / step);
    stk_context_destroy(&context);
    bench_folder_close(&folder);
    return 0;
}
