/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `resnet` (W10 of the peers): a whole training step of ResNet-18 on pictures of 32x32
 * (3x3 stem, no max-pool, 10 classes), batches of 64, SGD with momentum, on one fixed batch. The
 * window opens after five steps.
 */
#include "training.h"

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int32_t)(*state >> 32) / 2147483648.0;
}

int main(int argc, char **argv)
{
    static const int64_t shape[] = {3, 32, 32};
    const double began = bench_now();
    stk_model_plan plan = {.struct_size = sizeof plan};
    stk_optimizer_options optimizer_options;
    stk_model_options options;
    stk_context *context;
    stk_model_builder *builder;
    stk_optimizer *optimizer;
    stk_model *model;
    uint64_t state = 1, steps = 0;
    stk_error err;

    bench_known(argc, argv, "seconds threads batch layout precision");
    const size_t rows = (size_t)bench_number(argc, argv, "batch", 64);
    const char *layout = bench_text(argc, argv, "layout", "hwc");
    const char *precision = bench_text(argc, argv, "precision", "32-true");
    bench_check(stk_context_create(NULL, &context, &err), &err);
    bench_check(stk_model_builder_create(context, shape, 3, &builder, &err), &err);
    bench_check(stk_model_builder_add(builder, "resnet18(num_classes=10, stem=cifar)", &err), &err);
    stk_model_options_init(&options);
    options.batch_size = rows;
    options.threads = (uint64_t)bench_number(argc, argv, "threads", 1);
    options.input_layout = strcmp(layout, "hwc") == 0;
    options.precision =
        strcmp(precision, "bf16-mixed") == 0 ? STK_PRECISION_BF16_MIXED : STK_PRECISION_32_TRUE;
    bench_check(stk_model_create(builder, &options, &model, &err), &err);
    stk_optimizer_options_init(&optimizer_options);
    optimizer_options.name = STK_SGD;
    optimizer_options.lr = 0.05;
    optimizer_options.momentum = 0.9;
    optimizer_options.weight_decay = 5e-4;
    bench_check(stk_optimizer_create(model, &optimizer_options, NULL, 0, &optimizer, &err), &err);
    float *input = calloc(rows * 3 * 32 * 32, sizeof *input);
    int64_t *labels = calloc(rows, sizeof *labels);
    if (!input || !labels)
        bench_die("batch", "no memory");
    for (size_t i = 0; i < rows * 3 * 32 * 32; i++)
        input[i] = (float)(1.732 * uniform(&state));
    for (size_t i = 0; i < rows; i++)
        labels[i] = (int64_t)(i * 7 % 10);

    const struct bench_step run = {model, optimizer, input, labels, (uint32_t)rows};
    const double seconds = bench_number(argc, argv, "seconds", 5);
    bench_step(&run, 0);
    const double first = bench_now() - began;
    for (uint64_t i = 1; i < 5; i++)
        bench_step(&run, i);
    const double opened_cpu = bench_cpu(), opened = bench_now();
    double now = opened;
    for (; now - opened < seconds; now = bench_now())
        bench_step(&run, 5 + steps++);
    const double cpu = bench_cpu() - opened_cpu;
    stk_model_get_plan(model, &plan);
    const double wall = now - opened, samples = (double)(steps * rows);
    printf("{\"workload\": \"W10-resnet18\", \"peer\": \"stoker\", \"version\": \"stoker %s\", "
           "\"config\": {\"threads\": %llu, \"batch\": %zu}, \"samples_per_s\": %.2f, "
           "\"cpu_s_per_1000\": %.3f, \"first_batch_s\": %.4f, \"peak_rss_mib\": %.0f, "
           "\"n_samples\": %.0f, \"gflop_per_s\": %.1f, \"plan_mib\": %.1f}\n",
           stk_version(), (unsigned long long)options.threads, rows, samples / wall,
           cpu / samples * 1000, first, bench_peak_rss_mib(), samples,
           (double)plan.step_flops * samples / wall * 1e-9,
           (double)plan.peak_bytes / (1024 * 1024));
    free(input);
    free(labels);
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
    stk_model_builder_destroy(&builder);
    stk_context_destroy(&context);
    return 0;
}
