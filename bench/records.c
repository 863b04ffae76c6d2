/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `records`: the samples of any dataset as they are, in batches: `--dataset SPEC` and
 * options of the loader. `--mode index`: the dataset is opened again and again; milliseconds.
 * `--mode once`: it is opened and read to its end, again and again; samples a second of both.
 */
#include "stream.h"

#define MOST 1000

static int open_often(const char *spec, double seconds)
{
    static double ms[MOST];
    stk_dataset_info info = {.struct_size = sizeof info};
    stk_context *context;
    stk_error err;
    size_t n = 0;

    bench_check(stk_context_create(NULL, &context, &err), &err);
    for (double begin = bench_now(); n < MOST && (n == 0 || bench_now() - begin < seconds); n++) {
        const double start = bench_now();
        stk_dataset *dataset = NULL;
        bench_check(stk_dataset_open(context, spec, &dataset, &err), &err);
        stk_dataset_get_info(dataset, &info);
        stk_dataset_close(&dataset);
        ms[n] = (bench_now() - start) * 1e3;
    }
    printf(
        "{\"workload\": \"records-index\", \"peer\": \"stoker\", \"config\": {\"records\": %llu}, "
        "\"index_ms\": %.3f, \"peak_rss_mib\": %.1f}\n",
        (unsigned long long)info.size, bench_percentile(ms, n, 50), bench_peak_rss_mib());
    stk_context_destroy(&context);
    return 0;
}

static int read_often(const char *spec, const stk_loader_options *options, double seconds)
{
    const double cpu = bench_cpu(), begin = bench_now();
    uint64_t samples = 0;
    double end = begin;

    for (; end - begin < seconds; end = bench_now()) {
        struct bench_stream stream;
        stk_batch *batch;
        stk_error err;
        bench_stream_open(&stream, spec, options);
        while (stk_loader_next(stream.loader, -1, &batch, &err) == STK_OK) {
            samples += stk_batch_count(batch);
            stk_batch_release(&batch);
        }
        bench_stream_close(&stream);
    }
    printf(
        "{\"workload\": \"records-once\", \"peer\": \"stoker\", \"config\": {\"workers\": %lld}, "
        "\"samples_per_s\": %.2f, \"cpu_s_per_1000\": %.4f, \"peak_rss_mib\": %.1f, "
        "\"n_samples\": %llu}\n",
        (long long)options->num_workers, (double)samples / (end - begin),
        (bench_cpu() - cpu) / (double)samples * 1e3, bench_peak_rss_mib(),
        (unsigned long long)samples);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench_stream stream;
    struct bench_window window;
    stk_loader_options options;

    bench_known(argc, argv,
                "dataset mode seconds batch_size num_workers prefetch_factor cache memory_budget "
                "io_depth shuffle shuffle_buffer streams warm");
    const char *spec = bench_text(argc, argv, "dataset", "digits:");
    const double seconds = bench_number(argc, argv, "seconds", 5);
    const char *mode = bench_text(argc, argv, "mode", "read");
    if (strcmp(mode, "index") == 0)
        return open_often(spec, seconds);
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.num_workers = 2;
    options.epochs = 0;
    options.drop_last = true;
    bench_loader_options(argc, argv, &options);
    if (strcmp(mode, "once") == 0) {
        options.epochs = 1;
        options.drop_last = false;
        return read_often(spec, &options, seconds);
    }

    bench_stream_open(&stream, spec, &options);
    bench_measure(&stream, 0.5, (uint64_t)bench_number(argc, argv, "warm", 1024), &window);
    const double first = window.first_batch_s;
    bench_measure(&stream, seconds, 64, &window);
    window.first_batch_s = first;
    bench_print("records", &options, &window);
    printf(", \"allocations\": %llu}\n", (unsigned long long)window.allocations);
    bench_stream_close(&stream);
    return 0;
}
