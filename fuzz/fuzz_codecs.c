/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> one codec, a size, and what that codec is to decode to it. Errors are fine; memory
 * beyond the output, another size, or a prefix that differs from the whole are not.
 */
#include "fuzz_chain.h"

#define SCALE                                                                                      \
    "{\"id\": \"fixedscaleoffset\", \"dtype\": \"<f4\", \"astype\": \"<f2\", "                     \
    "\"scale\": 3, \"offset\": 1}"

static const char *const codecs[] = {
    "{\"id\": \"zstd\"}",
    "{\"id\": \"lz4\"}",
    "{\"id\": \"blosc\"}",
    "{\"id\": \"gzip\"}",
    "{\"id\": \"zlib\"}",
    "{\"id\": \"deflate\"}",
    "{\"id\": \"bz2\"}",
    "{\"id\": \"lzma\"}",
    "{\"id\": \"lzma\", \"format\": 2}",
    "{\"id\": \"lzma\", \"format\": 0}",
    "{\"id\": \"lzma\", \"format\": 3, \"filters\": [{\"id\": 33, \"preset\": 9}]}",
    "{\"id\": \"crc32c\"}",
    "{\"id\": \"crc32\"}",
    "{\"id\": \"adler32\"}",
    "{\"id\": \"fletcher32\"}",
    "{\"id\": \"packbits\"}",
    "{\"id\": \"shuffle\", \"elementsize\": 8}",
    "{\"id\": \"delta\", \"dtype\": \"<f4\", \"astype\": \"<i2\"}",
    SCALE,
    "{\"id\": \"astype\", \"decode_dtype\": \">u2\", \"encode_dtype\": \"<f8\"}",
    "{\"id\": \"astype\", \"decode_dtype\": \"<i8\", \"encode_dtype\": \">f2\"}",
};

static void run(stk_context *ctx, stk__codec_state *state, const char *text, int64_t shape,
                const uint8_t *in, size_t length)
{
    stk__chain_spec spec;
    stk__chain *chain = NULL;
    json_error_t error;
    stk_error err;

    json_t *config = json_loads(text, 0, &error);
    FUZZ_CHECK(config);
    stk__chain_spec_init(&spec);
    spec.itemsize = spec.swap_size = 8;
    spec.rank = 1;
    spec.shape = &shape;
    spec.compressor = config;
    FUZZ_CHECK(stk__chain_create(ctx, &spec, &chain, &err) == STK_OK);
    json_decref(config);
    uint64_t size = stk__chain_size(chain);
    uint8_t *out = malloc(size);
    const char *reason = NULL;
    FUZZ_CHECK(out);
    stk_status status = stk__chain_decode(chain, state, in, length, out, size, &reason);
    FUZZ_CHECK(status == STK_OK || reason[0]);
    for (uint64_t needed = 1; needed < size; needed = needed * 4 + 3) {
        stk_status part = fuzz_decode(chain, state, in, length, needed, status ? NULL : out);
        FUZZ_CHECK(status != STK_OK || part == STK_OK);
    }
    free(out);
    stk__chain_destroy(&chain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk_context *ctx;
    static stk__codec_state *state;
    stk_error err;

    if (!ctx) {
        FUZZ_CHECK(stk_context_create(NULL, &ctx, &err) == STK_OK);
        FUZZ_CHECK(stk__codec_state_create(ctx, &state, &err) == STK_OK);
    }
    if (size < 3)
        return 0;
    run(ctx, state, codecs[data[0] % STK_COUNT(codecs)], 1 + data[1] + (data[2] % 64) * 256,
        data + 3, size - 3);
    return 0;
}
