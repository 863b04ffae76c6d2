/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of `cifar10:`. Input: two bytes of length, batches.meta.txt (none where empty), then
 * test_batch.bin. Records are of 3,073 bytes: what is there is repeated up to two of them and a
 * rest.
 */
#include "fuzz_support.h"

#define RECORD 3073

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[64];
    stk_store *store = NULL;
    stk_error err;
    size_t names = 0;

    stk_context *ctx = fuzz_context();
    const uint8_t *meta = fuzz_take(&data, &size, &names);
    FUZZ_CHECK(stk_store_open(ctx, "mem://cifar", &store, key, sizeof key, &err) == STK_OK);
    if (names)
        fuzz_put(store, "batches.meta.txt", meta, names);
    /* Two records and as many bytes more as the input's last one says. */
    size_t length = size ? 2 * RECORD + data[size - 1] % 4 : 0;
    uint8_t *records = malloc(length + 1);
    FUZZ_CHECK(records != NULL);
    for (size_t i = 0; i < length; i++)
        records[i] = data[i % size];
    fuzz_put(store, "test_batch.bin", records, length);
    free(records);
    uint64_t held = fuzz_held(ctx);
    fuzz_dataset(ctx, "cifar10:mem://cifar?split=test");
    fuzz_dataset(ctx, "cifar10:slow+mem://cifar?split=test");
    fuzz_dataset(ctx, "cifar10:mem://cifar");
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
