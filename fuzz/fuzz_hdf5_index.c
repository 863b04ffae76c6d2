/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> the index of a dataset's chunks, once as they are and once with the checksums made
 * right. Whatever they hold: an index that comes out is sound, and one that is made of it holds it
 * again.
 */
#include "fuzz_support.h"

#include "array/hdf5/sidecar.h"
#include "base/crc32c.h"

#define HEADER 40u
#define ROW    40u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const stk__sidecar_of of = {.file_bytes = 100000,
                                   .identity = 7,
                                   .dataset = 96,
                                   .fingerprint = 5,
                                   .most_chunks = 5000,
                                   .most_memory = FUZZ_MEMORY / 4};

static void check(const stk__hdf5_index *index)
{
    for (size_t i = 0; i < index->count; i++) {
        const stk__hdf5_chunk *c = &index->chunks[i];
        FUZZ_CHECK(c->number < of.most_chunks && (i == 0 || c[-1].number < c->number));
        FUZZ_CHECK(c->bytes > 0 && c->offset + c->bytes <= of.file_bytes);
        FUZZ_CHECK(stk__hdf5_index_find(index, c->number) == c);
    }
}

static void parse(stk_context *ctx, const uint8_t *data, size_t size)
{
    stk__hdf5_index index, again;
    uint64_t length = 0;
    void *made = NULL;

    if (stk__sidecar_parse(ctx, data, size, &of, &index) != STK_OK) {
        FUZZ_CHECK(!index.chunks && !index.count);
        return;
    }
    check(&index);
    FUZZ_CHECK(stk__sidecar_make(ctx, data, size, &of, &index, &made, &length) == STK_OK);
    FUZZ_CHECK(stk__sidecar_parse(ctx, made, length, &of, &again) == STK_OK);
    FUZZ_CHECK(length <= size + HEADER + ROW + index.count * sizeof *index.chunks);
    FUZZ_CHECK(again.count == index.count);
    FUZZ_CHECK(memcmp(again.chunks, index.chunks, index.count * sizeof *index.chunks) == 0);
    stk__free(ctx, again.chunks);
    stk__free(ctx, index.chunks);
    stk__free(ctx, made);
}

static void mend(uint8_t *data, size_t size)
{
    if (size < HEADER)
        return;
    const uint64_t rows = stk__little_endian(data + 12, 4);
    if (rows > (size - HEADER) / ROW)
        return;
    for (uint64_t i = 0; i < rows; i++) {
        uint8_t *row = data + HEADER + i * ROW;
        const uint64_t at = stk__little_endian(row + 16, 8), n = stk__little_endian(row + 24, 8);
        if (at > size || n > (size - at) / 24)
            continue;
        const uint32_t sum = stk__crc32c(0, data + at, (size_t)n * 24);
        memcpy(row + 32, &sum, sizeof sum);
    }
    uint32_t sum = stk__crc32c(0, data, 32);
    sum = stk__crc32c(sum, data + HEADER, (size_t)rows * ROW);
    memcpy(data + 32, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_context *ctx = fuzz_context();
    const uint64_t held = fuzz_held(ctx);
    uint8_t *mended = malloc(size + 1);

    FUZZ_CHECK(mended != NULL);
    parse(ctx, data, size);
    memcpy(mended, data, size);
    mend(mended, size);
    parse(ctx, mended, size);
    free(mended);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
