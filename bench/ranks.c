/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `ranks`: ResNet-18 on pictures of 32x32 (3x3 stem, no max-pool, 10 classes), SGD with
 * momentum, trained by all processes that mpirun started, or by one. The pictures are made up, in
 * the thread of the step. Steps are timed from the fifth on. Rank 0 prints the samples of all ranks
 * a second, and what share of the time collectives took, hidden behind the backward pass or not.
 */
#include "folder.h"
#include "join.h"
#include "training.h"

enum { WARM = 5 };

static struct {
    double began, seconds, opened, ended;
    uint64_t steps; /* that were timed */
    stk_trainer_times before;
} timed = {.before = {.struct_size = sizeof timed.before}};

static stk_status on_train_batch_end(stk_callback *self, stk_trainer *trainer, const stk_moment *at,
                                     stk_error *err)
{
    (void)self, (void)err;
    if (at->global_step < WARM)
        return STK_OK;
    timed.ended = bench_now();
    if (!timed.opened) {
        timed.opened = timed.ended;
        stk_trainer_get_times(trainer, &timed.before);
        return STK_OK;
    }
    timed.steps++;
    if (timed.ended - timed.opened >= timed.seconds)
        stk_trainer_should_stop(trainer);
    return STK_OK;
}

static stk_callback_ops stopwatch = {.name = "stopwatch", .on_train_batch_end = on_train_batch_end};

static void print(const stk_trainer *trainer, uint64_t ranks, uint64_t rows, uint64_t threads)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    const double wall = timed.ended - timed.opened, samples = (double)(timed.steps * rows * ranks);

    stk_trainer_get_times(trainer, &times);
    printf("{\"workload\": \"W10-ranks\", \"peer\": \"stoker\", \"version\": \"stoker %s\", "
           "\"config\": {\"ranks\": %llu, \"threads\": %llu, \"batch\": %llu}, "
           "\"samples_per_s\": %.2f, \"first_batch_s\": %.3f, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %.0f, \"comm_share\": %.4f, \"comm_hidden_share\": %.4f}\n",
           stk_version(), (unsigned long long)ranks, (unsigned long long)threads,
           (unsigned long long)rows, samples / wall, timed.opened - timed.began,
           bench_peak_rss_mib(), samples, (double)(times.comm - timed.before.comm) * 1e-9 / wall,
           (double)(times.comm_hidden - timed.before.comm_hidden) * 1e-9 / wall);
}

int main(int argc, char **argv)
{
    static const int64_t shape[] = {32, 32, 3};
    struct bench_folder folder;
    stk_context *context;
    stk_model_builder *builder;
    stk_optimizer_options optimizer;
    stk_model_options model;
    stk_loader_options loader;
    stk_trainer_options options;
    stk_dataset *dataset;
    stk_trainer *trainer;
    stk_error err;

    timed.began = bench_now();
    bench_known(argc, argv, "seconds threads batch_size strategy");
    timed.seconds = bench_number(argc, argv, "seconds", 5);
    bench_check(stk_context_create(NULL, &context, &err), &err);
    stk_collectives *ranks = bench_join(context);
    bench_check(stk_dataset_open(context, "synthetic:?shape=32x32x3&size=1000000", &dataset, &err),
                &err);
    stk_loader_options_init(&loader);
    loader.batch_size = (uint64_t)bench_number(argc, argv, "batch_size", 64);
    loader.num_workers = 0;
    loader.transforms = "normalize(cifar10)";
    bench_check(stk_model_builder_create(context, shape, 3, &builder, &err), &err);
    bench_check(stk_model_builder_add(builder, "resnet18(num_classes=10, stem=cifar)", &err), &err);
    stk_model_options_init(&model);
    model.threads = (uint64_t)bench_number(argc, argv, "threads", 1);
    stk_optimizer_options_init(&optimizer);
    optimizer.name = STK_SGD;
    optimizer.lr = 0.05;
    optimizer.momentum = 0.9;
    optimizer.weight_decay = 5e-4;
    bench_folder_open(&folder, NULL);
    stk_trainer_options_init(&options);
    options.default_root_dir = folder.path;
    options.max_epochs = 1;
    options.enable_checkpointing = false;
    options.strategy = bench_text(argc, argv, "strategy", "auto");
    bench_check(stk_trainer_create(context, &options, &trainer, &err), &err);
    if (ranks)
        bench_check(stk_trainer_set_strategy(trainer, stk_collectives_strategy(ranks), &err), &err);
    bench_quiet(trainer, false);
    bench_add_callback(trainer, &stopwatch);
    const stk_model_parts parts = {
        .struct_size = sizeof parts, .builder = builder, .model = &model, .optimizer = &optimizer};
    bench_fit(trainer, context, &parts, dataset, &loader);
    const stk_strategy *s = ranks ? stk_collectives_strategy(ranks) : NULL;
    if (!s || s->rank == 0)
        print(trainer, s ? s->world_size : 1, loader.batch_size, model.threads);
    stk_trainer_destroy(&trainer);
    stk_dataset_close(&dataset);
    stk_model_builder_destroy(&builder);
    if (ranks)
        stk_collectives_close(&ranks);
    stk_context_destroy(&context);
    bench_folder_close(&folder);
    return 0;
}
