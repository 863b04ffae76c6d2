/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> header and rows of a PNG, as fuzz_jpeg.c has it. Checksums are made right first, so that
 * what is behind them is reached: half of the inputs are changed so.
 */
#include <stdlib.h>

#include <zlib.h>

#include "fuzz_image.h"

#define MARK_BYTES 8

/* Make the checksums of all chunks right, as far as the chunks go. */
static void mend(uint8_t *data, size_t size)
{
    for (size_t at = MARK_BYTES; size >= 12 && at <= size - 12;) {
        size_t length =
            (size_t)data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3];
        if (length > size - at - 12)
            return;
        uint32_t sum = (uint32_t)crc32(0, data + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__image_decoder *decoder;
    uint8_t *copy;

    if (size && data[size - 1] % 2) {
        decoder = fuzz_image(data, size, STK__IMAGE_PNG);
    } else {
        copy = malloc(size ? size : 1);
        FUZZ_CHECK(copy);
        memcpy(copy, data, size);
        mend(copy, size);
        decoder = fuzz_image(copy, size, STK__IMAGE_PNG);
        free(copy);
    }
    fuzz_image_done(&decoder);
    return 0;
}
