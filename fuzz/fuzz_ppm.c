/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> header and rows of a PPM, as fuzz_png.c has it. What is read is one form alone, so that
 * a picture that is taken is said again by its sides.
 */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__image_decoder *decoder = fuzz_image(data, size, STK__IMAGE_PPM);
    char head[STK__PPM_HEAD];
    stk__image_info info;
    const char *reason;

    if (decoder) {
        FUZZ_CHECK(stk__image_peek(data, size, NULL, &info, &reason) == STK_OK);
        const size_t length = stk__ppm_head(info.width, info.height, head);
        FUZZ_CHECK(length < sizeof head && length <= size && memcmp(data, head, length) == 0);
    }
    fuzz_image_done(&decoder);
    return 0;
}
