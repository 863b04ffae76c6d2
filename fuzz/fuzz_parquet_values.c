/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encodings of Parquet. Input: a byte that chooses one, a byte of the width, a byte of the
 * count, encoded values. Each gets memory of just the size it asks for.
 */
#include "codec/parquet.h"
#include "fuzz_support.h"

#define STRINGS_ROOM 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk__codec_state *codecs;

static void try_strings(unsigned which, const uint8_t *data, size_t size, uint64_t count)
{
    uint32_t *lengths = malloc(2 * count * sizeof *lengths + 1);
    const stk__parquet_strings out = {malloc((count + 1) * sizeof(uint32_t)), malloc(STRINGS_ROOM),
                                      STRINGS_ROOM};
    uint64_t bytes = 0;

    FUZZ_CHECK(lengths && out.offsets && out.bytes);
    const char *wrong =
        which == 0   ? stk__parquet_strings_plain(data, size, &out, count)
        : which == 1 ? stk__parquet_strings_lengths(codecs, data, size, &out, count)
                     : stk__parquet_strings_prefixes(codecs, data, size, lengths, &out, count);
    for (uint64_t i = 0; i < count && !wrong; i++)
        FUZZ_CHECK(out.offsets[i] <= out.offsets[i + 1]);
    if (!wrong) {
        FUZZ_CHECK(!out.offsets[0] && out.offsets[count] <= STRINGS_ROOM);
        (void)fuzz_sum(out.bytes, out.offsets[count]);
    }
    if (which == 2 && !wrong)
        FUZZ_CHECK(!stk__parquet_strings_size(codecs, data, size, lengths, count, &bytes) &&
                   bytes == out.offsets[count]);
    free(lengths);
    free(out.offsets);
    free(out.bytes);
}

static void try_numbers(unsigned which, unsigned width, const uint8_t *data, size_t size,
                        uint64_t count)
{
    uint8_t *out = malloc(count * 8 + 1);
    stk__parquet_runs runs;
    uint64_t used = 0;

    FUZZ_CHECK(out);
    if (which == 0) {
        if (!stk__parquet_levels(codecs, data, size, width, out, count))
            for (uint64_t i = 0; i < count; i++)
                FUZZ_CHECK(out[i] <= width);
    } else if (which == 1) {
        const char *wrong = stk__parquet_runs_begin(&runs, codecs, data, size, width % 40);
        for (uint64_t i = 0; i < count && !wrong; i += 7)
            wrong = stk__parquet_runs_take(&runs, (uint32_t *)(void *)out, STK_MIN(7, count - i));
    } else if (which == 2) {
        const char *wrong =
            stk__parquet_delta(codecs, data, size, width % 2 ? 4 : 8, out, count, &used);
        FUZZ_CHECK(wrong || used <= size);
    } else {
        (void)stk__parquet_booleans(data, size, out, count);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const unsigned which = data[0] % 7, width = data[1];
    const uint64_t count = data[2];
    stk_context *ctx = fuzz_context();
    FUZZ_CHECK(stk__codec_state_create(ctx, &codecs, NULL) == STK_OK);
    /* Of just this size. */
    uint8_t *in = malloc(size - 2);
    FUZZ_CHECK(in);
    memcpy(in, data + 3, size - 3);
    if (which < 3)
        try_strings(which, in, size - 3, count);
    else
        try_numbers(which - 3, width, in, size - 3, count);
    free(in);
    stk__codec_state_destroy(&codecs);
    stk_context_destroy(&ctx);
    return 0;
}
