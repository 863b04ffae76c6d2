/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `tokens` (W4 of the peers): windows of 2,049 tokens at any place of 512 MiB of uint16 ->
 * int64 input and target of [16, 2048].
 */
#include "stream.h"

int main(int argc, char **argv)
{
    struct bench_stream stream;
    struct bench_window window;
    stk_loader_options options;

    bench_known(argc, argv,
                "dataset seconds batch_size num_workers prefetch_factor memory_budget io_depth");
    stk_loader_options_init(&options);
    options.batch_size = 16;
    options.num_workers = 2;
    options.shuffle = STK_SHUFFLE_FULL;
    bench_loader_options(argc, argv, &options);

    bench_stream_open(&stream, bench_text(argc, argv, "dataset", ""), &options);
    bench_measure(&stream, bench_number(argc, argv, "seconds", 5), 1600, &window);
    bench_print("W4-tokens", &options, &window);
    printf(", \"allocations\": %llu}\n", (unsigned long long)window.allocations);
    bench_stream_close(&stream);
    return 0;
}
