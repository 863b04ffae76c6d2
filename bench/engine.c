/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `engine`: samples of 784 bytes that cost nothing to make, so what remains is the loader
 * itself. `engine_us_per_batch` is the CPU time of the whole process over the batches of the
 * window.
 */
#include "stream.h"

int main(int argc, char **argv)
{
    struct bench_stream stream;
    struct bench_window window;
    stk_loader_options options;

    bench_known(argc, argv,
                "dataset seconds batch_size num_workers prefetch_factor memory_budget shuffle");
    stk_loader_options_init(&options);
    options.batch_size = 256;
    options.num_workers = 1;
    options.shuffle = STK_SHUFFLE_FULL;
    options.epochs = 0;
    bench_loader_options(argc, argv, &options);

    bench_stream_open(
        &stream, bench_text(argc, argv, "dataset", "synthetic:?shape=784&label=false"), &options);
    bench_measure(&stream, bench_number(argc, argv, "seconds", 5), 100 * options.batch_size,
                  &window);
    bench_print("engine", &options, &window);
    printf(", \"engine_us_per_batch\": %.3f, \"wall_us_per_batch\": %.3f, \"gb_per_s\": %.3f, "
           "\"allocations\": %llu}\n",
           window.cpu_s / (double)window.batches * 1e6, window.wall / (double)window.batches * 1e6,
           window.samples_per_s * 784 / 1e9, (unsigned long long)window.allocations);
    bench_stream_close(&stream);
    return 0;
}
