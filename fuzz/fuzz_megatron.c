/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron indexes of `tokens:`. Input: a byte of bits (1, 2: what becomes of documents; 4:
 * targets; 8: int32; 16: read by range; 32: a raw file of which each token 0 ends a document); two
 * bytes of length; the .idx; the .bin.
 */
#define FUZZ_NEEDS 16
#include "fuzz_support.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const modes[] = {"join", "mark", "split", "pack"};
    char spec[256];
    size_t length = 0;

    if (size < 1)
        return 0;
    const int bits = *data++;
    size--;
    fuzz_room room = fuzz_open("mem://megatron");
    const uint8_t *index = fuzz_take(&data, &size, &length);
    fuzz_put(room.store, "x.idx", index, length);
    fuzz_put(room.store, "x.bin", data, size);
    fuzz_ready(&room);
    snprintf(spec, sizeof spec,
             "tokens:%smem://megatron/x.bin?length=%d&documents=%s&target=%d%s%s%s",
             bits & 16 ? "slow+" : "", FUZZ_NEEDS, modes[bits & 3], bits >> 2 & 1,
             bits & 8 ? "&output=int32" : "", bits & 32 ? "&index=none&dtype=uint8" : "",
             bits & 32 && bits & 3 ? "&eod=0" : "");
    fuzz_dataset(room.ctx, spec);
    fuzz_close(&room);
    return 0;
}
