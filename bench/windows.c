/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `windows` (W6b of the peers): float32 (1024, 256, 256) in zstd chunks of (16, 64, 64) ->
 * batches of 32 windows of (4, 64, 64). `--dataset` with a stride of 1 and `--shuffle true` is the
 * peers' random windows; `--shuffle block` an epoch that reads each chunk once.
 */
#include "stream.h"

int main(int argc, char **argv)
{
    struct bench_stream stream;
    struct bench_window window;
    stk_loader_options options;
    stk_loader_stats stats = {.struct_size = sizeof stats};

    bench_known(argc, argv,
                "dataset seconds batch_size num_workers prefetch_factor cache memory_budget "
                "io_depth shuffle shuffle_buffer streams warm");
    stk_loader_options_init(&options);
    options.batch_size = 32;
    options.num_workers = 2;
    options.epochs = 0;
    bench_loader_options(argc, argv, &options);

    bench_stream_open(&stream, bench_text(argc, argv, "dataset", ""), &options);
    bench_measure(&stream, bench_number(argc, argv, "seconds", 5),
                  (uint64_t)bench_number(argc, argv, "warm", 96), &window);
    stk_loader_get_stats(stream.loader, &stats);
    bench_print("W6b-array-windows", &options, &window);
    /* Of all samples since the beginning: needed when planned, decoded when read. */
    printf(", \"chunks_per_sample\": %.4f, \"decodes_per_sample\": %.4f, \"allocations\": %llu}\n",
           (double)stats.chunks_needed / (double)stats.stages[0].items,
           (double)stats.chunks_decoded / (double)stats.stages[2].items,
           (unsigned long long)window.allocations);
    bench_stream_close(&stream);
    return 0;
}
