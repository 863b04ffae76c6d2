/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> header and rows of a JPEG. The box, the scale and the height of the strips come from the
 * last bytes. Whatever the file holds: no crash, no leak, the limits hold, and a region that is
 * decoded twice, in strips of different heights, ends the same. Vector instructions change nothing.
 * Of a whole picture the baseline decoder takes none that libjpeg refuses, and refuses none that
 * libjpeg takes but those with a code that does not exist.
 */
#include "codec/image/room.h"
#include "fuzz_image.h"
#include "jpeg_mutator.h"

static stk_context *plain; /* without vector instructions */

static void without_vectors(const uint8_t *data, size_t size, stk_status expected, uint64_t hash)
{
    stk__image_limits limits = {FUZZ_PIXELS, FUZZ_MEMORY, FUZZ_SCANS, FUZZ_BLOCKS};
    stk__image_decoder *decoder = NULL;
    stk_context_options options;
    uint64_t own;

    stk_context_options_init(&options);
    options.instructions = STK_INSTRUCTIONS_PLAIN;
    if (!plain)
        FUZZ_CHECK(stk_context_create(&options, &plain, NULL) == STK_OK);
    FUZZ_CHECK(stk__image_decoder_create(plain, &limits, 3, &decoder, NULL) == STK_OK);
    decoder->by = STK__JPEG_BY_BASELINE;
    FUZZ_CHECK(fuzz_decode(decoder, data, size, NULL, 1, 5, &own) == expected && own == hash);
    stk__image_decoder_destroy(&decoder);
}

static bool has_impossible_code(stk__image_decoder *decoder, const uint8_t *data, size_t size)
{
    stk__image_region region;
    stk__image_rows rows;
    const char *reason = "";

    stk_status status = stk__image_decoder_begin(decoder, data, size, NULL, 1, &region, &reason);
    while (status == STK_OK)
        status = stk__image_decoder_rows(decoder, 0, &rows, &reason);
    return status == STK_EFORMAT && strstr(reason, "impossible code");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t ns, own, other;
    const char *reason;

    stk__image_decoder *decoder = fuzz_image(data, size, STK__IMAGE_JPEG);
    if (decoder) {
        stk_status status = stk__image_entropy_time(decoder, data, size, &ns, &reason);
        FUZZ_CHECK(fuzz_sound(status, reason));
        decoder->by = STK__JPEG_BY_BASELINE;
        status = fuzz_decode(decoder, data, size, NULL, 1, 0, &own);
        without_vectors(data, size, status, own);
        bool impossible = has_impossible_code(decoder, data, size);
        decoder->by = STK__JPEG_BY_LIBRARY;
        stk_status library = fuzz_decode(decoder, data, size, NULL, 1, 0, &other);
        FUZZ_CHECK((status == STK_OK) == (library == STK_OK) || (status != STK_OK && impossible));
    }
    fuzz_image_done(&decoder);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return fuzz_jpeg_mutate(data, size, most, seed);
}
