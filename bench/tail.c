/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `tail` (W9 of the peers): 5 % of the samples take 50 ms, the others 1 ms; 64 kB each,
 * batches of 16. First with a consumer of 10 ms a batch: how long it waits. Then with none: the
 * share of total work / workers that the rate reaches, where the total work is that of the very
 * samples delivered. The loader is not told which samples are slow.
 */
#include <errno.h>
#include <stdatomic.h>

#include "stream.h"

#define FLOATS      16384
#define SIZE        (1u << 16)
#define SLOW_NS     50000000
#define FAST_NS     1000000
#define CONSUMER_NS 10000000
#define MAX_WAITS   (1 << 20)

static atomic_uint_fast64_t busy_ns; /* what the sleeps took in fact */

/* One in twenty by a hash of the index (splitmix64's finish). */
static long cost_ns(uint64_t index)
{
    uint64_t x = index + 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % 20 ? FAST_NS : SLOW_NS;
}

static void pause_ns(long ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);
        stk_value *value = stk_sample_value(sample, 0);
        float *out = value->out;
        double start = bench_now();

        pause_ns(cost_ns(sample->index));
        for (size_t k = 0; k < FLOATS; k++)
            out[k] = (float)sample->index;
        value->data = out;
        atomic_fetch_add(&busy_ns, (uint64_t)((bench_now() - start) * 1e9));
    }
}

static void nothing_to_close(stk_dataset *dataset)
{
    (void)dataset;
}

static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                    .name = "tail",
                                    .doc = "heavy tail of delays",
                                    .close = nothing_to_close,
                                    .prepare = prepare};

static void check_batch(stk_batch *batch)
{
    const uint64_t *index;
    stk_tensor x = {.struct_size = sizeof x}, at = {.struct_size = sizeof at};

    bench_check(stk_batch_field(batch, 0, &x), NULL);
    bench_check(stk_batch_find(batch, "index", &at), NULL);
    index = at.data;
    for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
        if (((float *)x.data)[i * FLOATS] != (float)index[i])
            bench_die("tail", "a sample holds another sample's values");
    }
}

/* Nominal seconds of work in a batch. */
static double batch_work(stk_batch *batch)
{
    double work = 0;
    stk_tensor at = {.struct_size = sizeof at};

    bench_check(stk_batch_find(batch, "index", &at), NULL);
    for (uint64_t i = 0; i < stk_batch_count(batch); i++)
        work += (double)cost_ns(((uint64_t *)at.data)[i]) * 1e-9;
    return work;
}

int main(int argc, char **argv)
{
    static double waits[MAX_WAITS];
    static stk_field field = {.struct_size = sizeof field,
                              .name = "x",
                              .dtype = STK_FLOAT32,
                              .rank = 1,
                              .shape = {FLOATS}};
    const stk_dataset_info info = {.struct_size = sizeof info,
                                   .fields = &field,
                                   .num_fields = 1,
                                   .size = SIZE,
                                   .fingerprint = 9,
                                   .cost_ns = 3.45e6};
    struct bench_stream s = {0};
    struct bench_window window = {0};
    stk_loader_options options;
    stk_error err;
    size_t n = 0;

    bench_known(argc, argv, "seconds num_workers prefetch_factor batch_size memory_budget");
    double seconds = bench_number(argc, argv, "seconds", 5);
    stk_loader_options_init(&options);
    options.batch_size = 16;
    options.num_workers = 2;
    options.shuffle = STK_SHUFFLE_FULL;
    options.epochs = 0;
    bench_loader_options(argc, argv, &options);
    bench_check(stk_context_create(NULL, &s.context, &err), &err);
    bench_check(stk_dataset_create(s.context, &ops, NULL, &info, &s.dataset, &err), &err);
    s.created = bench_now();
    bench_check(stk_loader_create(s.dataset, &options, &s.loader, &err), &err);

    stk_batch *batch = bench_stream_next(&s);
    window.first_batch_s = bench_now() - s.created;
    check_batch(batch);
    stk_batch_release(&batch);
    for (int i = 0; i < 10; i++)
        bench_stream_skip(&s);

    double cpu = bench_cpu(), opened = bench_now(), now = opened;
    for (; now - opened < seconds && n < MAX_WAITS; now = bench_now()) {
        double asked = bench_now();

        batch = bench_stream_next(&s);
        waits[n++] = (bench_now() - asked) * 1e3;
        window.samples += stk_batch_count(batch);
        stk_batch_release(&batch);
        pause_ns(CONSUMER_NS);
    }
    window.samples_per_s = (double)window.samples / (now - opened);
    window.cpu_s_per_1000 = (bench_cpu() - cpu) / (double)window.samples * 1000;

    /* The consumer is free now: what it finds ready is not counted. */
    for (int i = 0; i < 64; i++)
        bench_stream_skip(&s);
    double work = 0;
    uint64_t free_samples = 0, busy = atomic_load(&busy_ns);
    opened = now = bench_now();
    for (; now - opened < seconds; now = bench_now()) {
        batch = bench_stream_next(&s);
        work += batch_work(batch);
        free_samples += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    double workers = options.num_workers > 0 ? (double)options.num_workers : 1;
    double room = workers * (now - opened);
    busy = atomic_load(&busy_ns) - busy;

    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += waits[i];
    bench_print("W9-tail", &options, &window);
    printf(", \"wait_ms\": %.3f, \"wait_p95_ms\": %.3f, ", sum / (double)n,
           bench_percentile(waits, n, 95));
    printf("\"wait_max_ms\": %.3f, \"free_samples_per_s\": %.2f, \"throughput_share\": %.4f, "
           "\"busy_share\": %.4f}\n",
           waits[n - 1], (double)free_samples / (now - opened), work / room,
           (double)busy * 1e-9 / room);
    stk_loader_destroy(&s.loader);
    stk_dataset_close(&s.dataset);
    stk_context_destroy(&s.context);
    return 0;
}
