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
    size_t names = 0;

    fuzz_room room = fuzz_open("mem://cifar");
    const uint8_t *meta = fuzz_take(&data, &size, &names);
    if (names)
        fuzz_put(room.store, "batches.meta.txt", meta, names);
    /* Two records and as many bytes more as the input's last one says. */
    size_t length = size ? 2 * RECORD + data[size - 1] % 4 : 0;
    uint8_t *records = malloc(length + 1);
    FUZZ_CHECK(records != NULL);
    for (size_t i = 0; i < length; i++)
        records[i] = data[i % size];
    fuzz_put(room.store, "test_batch.bin", records, length);
    free(records);
    fuzz_ready(&room);
    fuzz_dataset(room.ctx, "cifar10:mem://cifar?split=test");
    fuzz_dataset(room.ctx, "cifar10:slow+mem://cifar?split=test");
    fuzz_dataset(room.ctx, "cifar10:mem://cifar");
    fuzz_close(&room);
    return 0;
}
