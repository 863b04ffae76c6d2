/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers and losses by themselves; layers.py runs this and PyTorch alternately.
 *   --work gelu, gelu_tanh, silu   forward and backward over `size` floats
 *   --work cross_entropy           loss and gradient of `rows` rows of `size` classes
 *   --work linear, linear_bf16     steps of three linear layers of 1,024, in float or bf16-mixed
 *   --work resnet18                steps of batches of `rows`: the first, with the model's making,
 *                                  and a later one
 * Prints one JSON object: medians of milliseconds, of the clock or, with --clock
 * cpu, of the processors' time of all threads.
 */
#include "nn/kernels.h"
#include "nn/parallel.h"
#include "training.h"

enum { MOST = 4096, GRAIN = 16384 };

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int32_t)(*state >> 32) / 2147483648.0;
}

static float *numbers(uint64_t n)
{
    uint64_t state = 1;
    float *x = calloc(n, sizeof *x);

    if (!x)
        bench_die("size", "no memory");
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)(3 * uniform(&state));
    return x;
}

static bool of_processors;

static double now(void)
{
    struct timespec t;

    clock_gettime(of_processors ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* Milliseconds of one call, again and again for `seconds`: the median. */
static double time_of(void (*once)(void *), void *user, double seconds)
{
    static double each[MOST];
    const double end = bench_now() + seconds;
    int n = 0;

    once(user);
    for (; n < MOST && (n < 3 || bench_now() < end); n++) {
        const double before = now();
        once(user);
        each[n] = (now() - before) * 1e3;
    }
    return median(each, n);
}

/* ---- Functions of an element ----------------------------------------------------------------- */

typedef struct elements {
    const stk__nn_kernels *k;
    const char *work;
    uint32_t threads;
    uint64_t n;
    float *x, *y, *dy, *dx;
} elements;

static void forward(void *user, uint64_t from, uint64_t to, uint32_t part)
{
    const elements *e = user;

    (void)part;
    if (strcmp(e->work, "silu") == 0)
        e->k->silu(e->y + from, e->x + from, to - from);
    else
        e->k->gelu(e->y + from, e->x + from, to - from, strcmp(e->work, "gelu_tanh") == 0);
}

static void backward(void *user, uint64_t from, uint64_t to, uint32_t part)
{
    const elements *e = user;

    (void)part;
    if (strcmp(e->work, "silu") == 0)
        e->k->silu_backward(e->dx + from, e->dy + from, e->x + from, to - from, false);
    else
        e->k->gelu_backward(e->dx + from, e->dy + from, e->x + from, to - from,
                            strcmp(e->work, "gelu_tanh") == 0, false);
}

static void elements_once(void *user)
{
    const elements *e = user;
    const stk__compute before = stk__compute_begin(e->threads);

    stk__parallel(e->threads, e->n, GRAIN, forward, user);
    stk__parallel(e->threads, e->n, GRAIN, backward, user);
    stk__compute_end(&before);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static stk_model *model_of(stk_context *context, const char *layers, const int64_t *shape,
                           uint32_t rank, uint32_t threads, uint32_t rows, int32_t precision)
{
    stk_model_options options;
    stk_model_builder *builder;
    stk_model *model;
    stk_error err;

    bench_check(stk_model_builder_create(context, shape, rank, &builder, &err), &err);
    bench_check(stk_model_builder_add(builder, layers, &err), &err);
    stk_model_options_init(&options);
    options.batch_size = rows;
    options.threads = threads;
    options.input_layout = rank == 3;
    options.precision = precision;
    bench_check(stk_model_create(builder, &options, &model, &err), &err);
    stk_model_builder_destroy(&builder);
    return model;
}

static void loss_once(void *user)
{
    const struct bench_step *run = user;
    stk_model_result result = {.struct_size = sizeof result};
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = run->rows,
                                   .dtype = STK_FLOAT32,
                                   .input = run->input,
                                   .target = run->labels};
    stk_error err;

    bench_check(stk_model_forward(run->model, &batch, true, &result, &err), &err);
}

static void step_once(void *user)
{
    bench_step(user, 1);
}

int main(int argc, char **argv)
{
    stk_context *context;
    stk_error err;

    bench_known(argc, argv, "work threads seconds size rows clock");
    const char *work = bench_text(argc, argv, "work", "gelu");
    const uint32_t threads = (uint32_t)bench_number(argc, argv, "threads", 1);
    const uint32_t rows = (uint32_t)bench_number(argc, argv, "rows", 64);
    const uint64_t size = (uint64_t)bench_number(argc, argv, "size", 1 << 20);
    const double seconds = bench_number(argc, argv, "seconds", 0.5);
    of_processors = strcmp(bench_text(argc, argv, "clock", "wall"), "cpu") == 0;
    bench_check(stk_context_create(NULL, &context, &err), &err);
    int64_t *labels = calloc(rows, sizeof *labels);
    for (uint32_t i = 0; labels && i < rows; i++)
        labels[i] = (int64_t)(i * 7 % 10);
    struct bench_step run = {.labels = labels, .rows = rows};
    printf("{\"work\": \"%s\", \"threads\": %u", work, threads);
    if (strcmp(work, "cross_entropy") == 0) {
        const int64_t shape[] = {(int64_t)size};
        run.input = numbers(rows * size);
        run.model = model_of(context, "flatten", shape, 1, threads, rows, STK_PRECISION_32_TRUE);
        printf(", \"ms\": %.4f}\n", time_of(loss_once, &run, seconds));
    } else if (strcmp(work, "resnet18") == 0 || strncmp(work, "linear", 6) == 0) {
        static const int64_t picture[] = {3, 32, 32}, row[] = {1024};
        const bool pictures = strcmp(work, "resnet18") == 0;
        const bool bf16 = strcmp(work, "linear_bf16") == 0;
        stk_optimizer_options options;
        stk_optimizer_options_init(&options);
        options.name = STK_SGD;
        options.momentum = 0.9;
        run.input = numbers(rows * (pictures ? UINT64_C(3072) : UINT64_C(1024)));
        const double began = now();
        run.model = model_of(context,
                             pictures ? "resnet18(num_classes=10, stem=cifar)"
                                      : "linear(1024), relu, linear(1024), relu, linear(1024)",
                             pictures ? picture : row, pictures ? 3 : 1, threads, rows,
                             bf16 ? STK_PRECISION_BF16_MIXED : STK_PRECISION_32_TRUE);
        bench_check(stk_optimizer_create(run.model, &options, NULL, 0, &run.optimizer, &err), &err);
        const double made = now();
        bench_step(&run, 0);
        const double first = now();
        printf(", \"made_ms\": %.1f, \"first_ms\": %.1f, \"ms\": %.4f}\n", (made - began) * 1e3,
               (first - made) * 1e3, time_of(step_once, &run, seconds));
        stk_optimizer_destroy(&run.optimizer);
    } else {
        const elements e = {stk__nn_kernels_of(context),
                            work,
                            threads,
                            size,
                            numbers(size),
                            numbers(size),
                            numbers(size),
                            numbers(size)};
        printf(", \"ms\": %.4f}\n", time_of(elements_once, (void *)(uintptr_t)&e, seconds));
        free(e.x), free(e.y), free(e.dx), free(e.dy);
    }
    free((void *)(uintptr_t)run.input);
    free(labels);
    stk_model_destroy(&run.model);
    stk_context_destroy(&context);
    return 0;
}
