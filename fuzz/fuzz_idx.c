/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX files of `mnist:`. Input: a byte whose bits say whether the images (1) and the labels (2) are
 * taken as gzip; two bytes of length; the images; the labels.
 */
#include "fuzz_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t images = 0;

    if (size < 1)
        return 0;
    fuzz_room room = fuzz_open("mem://idx");
    int packed = *data++;
    size--;
    const uint8_t *first = fuzz_take(&data, &size, &images);
    fuzz_put(room.store, packed & 1 ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte",
             first, images);
    fuzz_put(room.store, packed & 2 ? "train-labels-idx1-ubyte.gz" : "train-labels-idx1-ubyte",
             data, size);
    fuzz_ready(&room);
    fuzz_dataset(room.ctx, "mnist:mem://idx");
    /* Without the store's memory: by ranges. */
    fuzz_dataset(room.ctx, "mnist:slow+mem://idx");
    fuzz_close(&room);
    return 0;
}
