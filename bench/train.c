/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `train` (W8 of the peers): 5 epochs of MNIST from its files, shuffled, an MLP
 * 784-128-64-10 with ReLU, Adam 1e-3, batches of 64; callbacks and loggers are the trainer's
 * defaults. `seconds` is the whole of stk_trainer_fit(); `startup_s` is from the start of the
 * program to the first step. `--mode compute` runs the step of the model alone on one fixed batch.
 */
#include "folder.h"
#include "training.h"

enum { EPOCHS = 5, ROWS = 64, FEATURES = 784, WARM = 50 };

static const char layers[] = "flatten, linear(128), relu, linear(64), relu, linear(10)";

struct run {
    stk_context *context;
    stk_model_builder *builder;
    stk_optimizer_options optimizer;
    stk_model_options model;
    double began, first; /* when the program and the first step began */
};

static void print_head(const struct run *run, const char *peer, double seconds, double cpu,
                       uint64_t steps, int64_t workers, uint64_t threads)
{
    const double samples = (double)steps * ROWS;

    printf("{\"workload\": \"W8-train\", \"peer\": \"%s\", \"version\": \"stoker %s\", "
           "\"config\": {\"workers\": %lld, \"threads\": %llu}, \"samples_per_s\": %.1f, "
           "\"cpu_s_per_1000\": %.6f, \"first_batch_s\": %.4f, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %.0f, \"seconds\": %.4f, \"us_per_step\": %.2f",
           peer, stk_version(), (long long)workers, (unsigned long long)threads, samples / seconds,
           cpu / samples * 1000, run->first - run->began, bench_peak_rss_mib(), samples, seconds,
           seconds / (double)steps * 1e6);
}

/* ---- The whole training ---------------------------------------------------------------------- */

static struct run *of_callback;

static stk_status on_train_start(stk_callback *self, stk_trainer *trainer, const stk_moment *at,
                                 stk_error *err)
{
    (void)self, (void)trainer, (void)at, (void)err;
    of_callback->first = bench_now();
    return STK_OK;
}

static stk_callback_ops first_step = {.name = "first_step", .on_train_start = on_train_start};

static void train(struct run *run, int argc, char **argv)
{
    char spec[4096], test_spec[4200];
    struct bench_folder folder;
    stk_dataset *dataset, *test;
    stk_loader_options loader, eval;
    stk_trainer_options options;
    stk_trainer *trainer;
    stk_module *module;
    stk_trainer_times times = {.struct_size = sizeof times};
    double loss = 0, accuracy = 0;
    stk_error err;

    bench_folder_open(&folder, bench_text(argc, argv, "root", NULL));
    snprintf(spec, sizeof spec, "mnist:%s/mnist", bench_data());
    const char *given = bench_text(argc, argv, "dataset", spec);
    snprintf(test_spec, sizeof test_spec, "%s%csplit=test", given, strchr(given, '?') ? '&' : '?');
    bench_check(stk_dataset_open(run->context, given, &dataset, &err), &err);
    bench_check(stk_dataset_open(run->context, test_spec, &test, &err), &err);
    stk_loader_options_init(&loader);
    loader.batch_size = ROWS;
    loader.shuffle = STK_SHUFFLE_FULL;
    loader.transforms = "normalize(mnist)";
    bench_loader_options(argc, argv, &loader);
    eval = loader;
    eval.shuffle = STK_SHUFFLE_NONE;
    eval.batch_size = 1000;
    stk_trainer_options_init(&options);
    options.max_epochs = (int64_t)bench_number(argc, argv, "epochs", EPOCHS);
    options.default_root_dir = folder.path;
    options.seed_everything = (int64_t)bench_number(argc, argv, "seed", 1);
    bench_check(stk_trainer_create(run->context, &options, &trainer, &err), &err);
    bench_quiet(trainer, false);
    of_callback = run;
    bench_add_callback(trainer, &first_step);
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = run->builder,
                                   .model = &run->model,
                                   .optimizer = &run->optimizer};
    bench_check(stk_model_module_create(run->context, &parts, &module, &err), &err);
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = &loader};
    const stk_loader_source test_source = {
        .struct_size = sizeof test_source, .dataset = test, .options = &eval};
    const stk_trainer_data data = {
        .struct_size = sizeof data, .train = &source, .test = &test_source, .num_test = 1};
    const double cpu = bench_cpu(), opened = bench_now();
    bench_check(stk_trainer_fit(trainer, module, &data, NULL, &err), &err);
    const double seconds = bench_now() - opened, used = bench_cpu() - cpu;
    stk_trainer_metric(trainer, "train_loss", &loss);
    stk_trainer_get_times(trainer, &times);
    bench_check(stk_trainer_test(trainer, module, &data, NULL, &err), &err);
    stk_trainer_metric(trainer, "test_acc", &accuracy);
    print_head(run, "stoker", seconds, used, times.steps, loader.num_workers, run->model.threads);
    printf(", \"startup_s\": %.4f, \"data_wait_share\": %.4f, \"last_loss\": %.5f, "
           "\"test_accuracy\": %.4f}\n",
           run->first - run->began, (double)times.data_wait / (double)times.wall, loss, accuracy);
    stk_trainer_destroy(&trainer);
    stk_module_destroy(&module);
    stk_dataset_close(&test);
    stk_dataset_close(&dataset);
    bench_folder_close(&folder);
}

/* ---- The step alone -------------------------------------------------------------------------- */

static float input[ROWS * FEATURES];
static int64_t labels[ROWS];

static void compute(struct run *run, double seconds)
{
    stk_model *model;
    stk_optimizer *optimizer;
    uint64_t steps = 0, random = 1;
    stk_error err;

    run->model.batch_size = ROWS;
    bench_check(stk_model_create(run->builder, &run->model, &model, &err), &err);
    bench_check(stk_optimizer_create(model, &run->optimizer, NULL, 0, &optimizer, &err), &err);
    for (size_t i = 0; i < ROWS * FEATURES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        input[i] = (float)(int32_t)(random >> 32) / 2147483648.0f;
    }
    for (size_t i = 0; i < ROWS; i++)
        labels[i] = (int64_t)(i % 10);
    run->first = bench_now();
    const struct bench_step one = {model, optimizer, input, labels, ROWS};
    for (uint64_t i = 0; i < WARM; i++)
        bench_step(&one, i);
    const double cpu = bench_cpu(), opened = bench_now();
    double now = opened;
    for (; now - opened < seconds; now = bench_now())
        bench_step(&one, WARM + steps++);
    print_head(run, "stoker", now - opened, bench_cpu() - cpu, steps, 0, run->model.threads);
    printf("}\n");
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
}

int main(int argc, char **argv)
{
    static const int64_t shape[] = {1, 28, 28}; /* one channel: both layouts are the same bytes */
    struct run run = {.began = bench_now()};
    stk_error err;

    bench_known(argc, argv,
                "mode dataset seconds epochs seed threads root num_workers prefetch_factor cache "
                "memory_budget");
    const char *mode = bench_text(argc, argv, "mode", "fit");
    bench_check(stk_context_create(NULL, &run.context, &err), &err);
    bench_check(stk_model_builder_create(run.context, shape, 3, &run.builder, &err), &err);
    bench_check(stk_model_builder_add(run.builder, layers, &err), &err);
    stk_model_options_init(&run.model);
    run.model.threads = (uint64_t)bench_number(argc, argv, "threads", 1);
    run.model.seed = (uint64_t)bench_number(argc, argv, "seed", 1);
    stk_optimizer_options_init(&run.optimizer);
    run.optimizer.name = STK_ADAM;
    run.optimizer.lr = 1e-3;
    if (strcmp(mode, "compute") == 0)
        compute(&run, bench_number(argc, argv, "seconds", 5));
    else if (strcmp(mode, "fit") == 0)
        train(&run, argc, argv);
    else
        bench_die(mode, "there is no such mode; there are fit and compute");
    stk_model_builder_destroy(&run.builder);
    stk_context_destroy(&run.context);
    return 0;
}
