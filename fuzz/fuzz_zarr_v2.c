/* SPDX-License-Identifier: Apache-2.0 */
/* Zarr v2 arrays. Input: two bytes of length, a .zarray, the same for a .zattrs, the bytes of every
 * chunk. */
#include "zarr_support.h"
#include "zarr_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"0", "0.0", "1.0", "0/0", "0.0.0", NULL};
    size_t length = 0;

    fuzz_room room = fuzz_open("mem://z");
    const uint8_t *part = fuzz_take(&data, &size, &length);
    fuzz_put(room.store, ".zarray", part, length);
    part = fuzz_take(&data, &size, &length);
    if (length)
        fuzz_put(room.store, ".zattrs", part, length);
    zarr_put_chunks(room.store, keys, data, size);
    fuzz_ready(&room);
    zarr_array(room.ctx, "mem://z?memory=1MB&num_threads=1");
    fuzz_close(&room);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return fuzz_zarr_mutate(data, size, most, seed % 8 == 0, seed);
}
