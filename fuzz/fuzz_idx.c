/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX files of `mnist:`. Input: a byte whose bits say whether the images (1) and the labels (2) are
 * taken as gzip; two bytes of length; the images; the labels.
 */
#include "fuzz_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[64];
    stk_store *store = NULL;
    stk_error err;
    size_t images = 0;

    if (size < 1)
        return 0;
    stk_context *ctx = fuzz_context();
    int packed = *data++;
    size--;
    const uint8_t *first = fuzz_take(&data, &size, &images);
    FUZZ_CHECK(stk_store_open(ctx, "mem://idx", &store, key, sizeof key, &err) == STK_OK);
    fuzz_put(store, packed & 1 ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte", first,
             images);
    fuzz_put(store, packed & 2 ? "train-labels-idx1-ubyte.gz" : "train-labels-idx1-ubyte", data,
             size);
    uint64_t held = fuzz_held(ctx);
    fuzz_dataset(ctx, "mnist:mem://idx");
    /* Without the store's memory: by ranges. */
    fuzz_dataset(ctx, "mnist:slow+mem://idx");
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
