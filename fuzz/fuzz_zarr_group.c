/* SPDX-License-Identifier: Apache-2.0 */
/* Consolidated metadata. Input: a byte (0: version 3, 1: version 2), the document. */
#include "zarr_support.h"
#include "zarr_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    fuzz_room room = fuzz_open("mem://z");
    fuzz_put(room.store, data[0] & 1 ? ".zmetadata" : "zarr.json", data + 1, size - 1);
    fuzz_ready(&room);
    zarr_group(room.ctx, "mem://z");
    fuzz_close(&room);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size < 1)
        return LLVMFuzzerMutate(data, size, most);
    return fuzz_json_part(data, size, most, 1, size - 1, false, &fuzz_zarr_words, seed);
}
