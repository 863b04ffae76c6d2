/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batches of a loader, raw, on standard output, for programs that train on them
 * (accuracy_images.py): `--dataset SPEC` and any option of the loader.
 *
 * For each batch: two uint64, rows and bytes of a picture; the pictures; an int64 label for each.
 * The end of an epoch is a batch of no rows. In the byte order of the machine.
 */
#include <unistd.h>

#include "stream.h"

static void put(const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes) {
        ssize_t written = write(STDOUT_FILENO, at, bytes);
        if (written <= 0)
            bench_die("standard output", "cannot be written");
        at += written;
        bytes -= (size_t)written;
    }
}

static void put_batch(const stk_batch *batch)
{
    const uint64_t count = stk_batch_count(batch);
    stk_tensor image = {.struct_size = sizeof image}, label = {.struct_size = sizeof label};

    if (stk_batch_find(batch, "image", &image) != STK_OK || image.layout != STK_FIXED)
        bench_die("dataset", "has no field 'image' of one size: give --transforms that make it so");
    if (stk_batch_find(batch, "label", &label) != STK_OK || label.dtype != STK_INT64)
        bench_die("dataset", "has no field 'label' of int64");
    uint64_t bytes = stk_dtype_size(image.dtype);
    for (uint32_t i = 1; i < image.rank; i++)
        bytes *= (uint64_t)image.shape[i];
    const uint64_t head[] = {count, bytes};
    put(head, sizeof head);
    put(image.data, count * bytes);
    put(label.data, count * sizeof(int64_t));
}

int main(int argc, char **argv)
{
    static const uint64_t end[2];
    struct bench_stream stream;
    stk_loader_options options;
    stk_error err;

    bench_known(argc, argv,
                "dataset transforms epochs batch_size num_workers prefetch_factor shuffle seed "
                "drop_last memory_budget");
    stk_loader_options_init(&options);
    options.epochs = 1;
    bench_loader_options(argc, argv, &options);
    if (!options.epochs)
        bench_die("epochs", "must be 1 at least");
    bench_stream_open(&stream, bench_text(argc, argv, "dataset", "digits:"), &options);
    for (uint64_t epoch = 0; epoch < options.epochs;) {
        stk_batch *batch = NULL;
        stk_status status = stk_loader_next(stream.loader, -1, &batch, &err);

        bench_check(status, &err);
        if (status == STK_OK && stk_batch_count(batch))
            put_batch(batch);
        if (status == STK_EOS) {
            put(end, sizeof end);
            epoch++;
        }
        stk_batch_release(&batch);
    }
    bench_stream_close(&stream);
    return 0;
}
