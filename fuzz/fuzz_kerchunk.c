/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of references, followed wherever they lead in memory. Input: the document. */
#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const arrays[] = {"", "a", "rows", "sub/b", "whole"};
    unsigned char bytes[256];
    char url[128];

    fuzz_room room = fuzz_open("mem://f");
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    fuzz_put(room.store, "parts.bin", bytes, sizeof bytes);
    fuzz_put(room.store, "half.bin", bytes, 48);
    fuzz_put(room.store, "r.json", data, size);
    fuzz_ready(&room);
    zarr_group(room.ctx, "mem://f/r.json?format=kerchunk");
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        snprintf(url, sizeof url, "mem://f/r.json/%s?format=kerchunk", arrays[i]);
        zarr_array(room.ctx, url);
    }
    fuzz_close(&room);
    return 0;
}
