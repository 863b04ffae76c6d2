/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `tiny` (W3 of the peers): MNIST-shaped uint8 in memory -> shuffled, normalised float32
 * and label. Gzip files are inflated into memory when the dataset is opened; plain ones
 * (`--dataset`) are read as the loader's options say, `--cache encoded` for one. The warm-up is the
 * peers' 6400 samples, or with a cache one epoch.
 */
#include "stream.h"

int main(int argc, char **argv)
{
    struct bench_stream stream;
    struct bench_window window;
    stk_loader_options options;
    char spec[4096];

    bench_known(
        argc, argv,
        "dataset seconds batch_size num_workers prefetch_factor cache memory_budget io_depth");
    snprintf(spec, sizeof spec, "mnist:%s/mnist", bench_data());
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.num_workers = 2;
    options.shuffle = STK_SHUFFLE_FULL;
    options.epochs = 0;
    options.transforms = "normalize(mnist)";
    bench_loader_options(argc, argv, &options);

    bench_stream_open(&stream, bench_text(argc, argv, "dataset", spec), &options);
    stk_dataset_info info = {.struct_size = sizeof info};
    stk_dataset_get_info(stream.dataset, &info);
    uint64_t warm = options.cache == STK_CACHE_NONE ? 6400 : info.size;
    bench_measure(&stream, bench_number(argc, argv, "seconds", 5), warm, &window);
    bench_print("W3-tiny", &options, &window);
    printf(", \"allocations\": %llu}\n", (unsigned long long)window.allocations);
    bench_stream_close(&stream);
    return 0;
}
