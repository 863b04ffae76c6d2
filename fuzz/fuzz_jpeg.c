/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> header and rows of a JPEG. The box, the scale and the height of the strips come from the
 * last bytes. Whatever the file holds: no crash, no leak, the limits hold, and a region that is
 * decoded twice, in strips of different heights, ends the same.
 */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t ns;
    const char *reason;

    stk__image_decoder *decoder = fuzz_image(data, size, STK__IMAGE_JPEG);
    if (decoder) {
        stk_status status = stk__image_entropy_time(decoder, data, size, &ns, &reason);
        fuzz_require(fuzz_sound(status, reason));
    }
    fuzz_image_done(&decoder);
    return 0;
}
