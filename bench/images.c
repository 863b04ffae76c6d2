/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload `images` (W1 of the peers): the photographs of an ImageFolder -> decode, random resized
 * crop 224, random flip -> uint8 batches of 64. `--dataset` names another spec; `--transforms`
 * other transforms. The files lie in the page cache; each epoch reads them again.
 */
#include "stream.h"

#define TRANSFORMS "random_resized_crop(224), horizontal_flip"

int main(int argc, char **argv)
{
    struct bench_stream stream;
    struct bench_window window;
    stk_loader_options options;
    stk_loader_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    char spec[4096];

    bench_known(argc, argv,
                "dataset transforms seconds batch_size num_workers prefetch_factor cache "
                "memory_budget io_depth");
    snprintf(spec, sizeof spec, "images:%s/imagenet-sample?index=none", bench_data());
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.num_workers = 2;
    options.shuffle = STK_SHUFFLE_FULL;
    options.epochs = 0;
    options.drop_last = true;
    options.transforms = TRANSFORMS;
    bench_loader_options(argc, argv, &options);

    bench_stream_open(&stream, bench_text(argc, argv, "dataset", spec), &options);
    bench_measure(&stream, 0.5, 64, &window); /* warm */
    stk_loader_get_stats(stream.loader, &before);
    double first = window.first_batch_s;
    bench_measure(&stream, bench_number(argc, argv, "seconds", 5), 64, &window);
    stk_loader_get_stats(stream.loader, &after);
    window.first_batch_s = first;
    bench_print("W1-images", &options, &window);
    /* None is decoded of packed pictures of one size. */
    const uint64_t decoded = after.pictures - before.pictures;
    double pictures = decoded ? (double)decoded : 1;
    printf(", \"decode_us\": %.1f, \"rest_us\": %.1f, \"pixels\": %.0f, \"allocations\": %llu, "
           "\"gap_p99_ms\": %.2f}\n",
           (double)(after.decode_ns - before.decode_ns) / pictures / 1e3,
           (double)(after.resize_ns - before.resize_ns) / pictures / 1e3,
           (double)(after.picture_pixels - before.picture_pixels) / pictures,
           (unsigned long long)window.allocations, window.gap_p99_ms);
    bench_stream_close(&stream);
    return 0;
}
