/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed pages [apache/parquet-format, Compression.md]: the codecs of chunks, and snappy. */
#include "codec/parquet.h"
#include "codec/state.h"
#include "codec/step.h"

#define HADOOP_HEAD 8 /* sizes of a block before and after decoding, the highest byte first */

static const stk__codec_step steps[STK__PARQUET_CODECS] = {
    [STK__PARQUET_GZIP] = {.ops = &stk__codec_gzip, .u.deflate.format = 'g'},
#ifdef STK_WITH_BROTLI
    [STK__PARQUET_BROTLI] = {.ops = &stk__codec_brotli},
#endif
    [STK__PARQUET_ZSTD] = {.ops = &stk__codec_zstd},
    [STK__PARQUET_LZ4] = {.ops = &stk__codec_lz4_block},
    [STK__PARQUET_LZ4_RAW] = {.ops = &stk__codec_lz4_block},
};

const char *stk__parquet_codec_name(uint32_t codec)
{
    static const char *const names[STK__PARQUET_CODECS] = {"none",   "snappy", "gzip", "lzo",
                                                           "brotli", "lz4",    "zstd", "lz4_raw"};

    return codec < STK__PARQUET_CODECS ? names[codec] : NULL;
}

bool stk__parquet_codec_known(uint32_t codec)
{
    return codec == STK__PARQUET_NONE || codec == STK__PARQUET_SNAPPY ||
           (codec < STK__PARQUET_CODECS && steps[codec].ops);
}

static stk_status decode(uint32_t codec, stk__codec_state *state, const uint8_t *in,
                         uint64_t length, uint8_t *out, uint64_t size, const char **reason)
{
    stk__codec_pass pass = {
        .in = in, .length = length, .out = out, .capacity = size, .needed = size};

    stk_status status = steps[codec].ops->decode(&steps[codec], state, &pass);
    *reason = pass.reason;
    if (status == STK_OK && pass.got != size) {
        *reason = "the page decompresses to fewer bytes than it says; fetch the object again";
        status = STK_EFORMAT;
    }
    return status;
}

/*
 * LZ4 as Hadoop frames it: blocks with their sizes in front. Some writers left the sizes out, which
 * is found where they do not fit: no block of ours would fit both.
 */
static bool decode_hadoop(stk__codec_state *state, const uint8_t *in, uint64_t length, uint8_t *out,
                          uint64_t size)
{
    const char *reason;

    while (length >= HADOOP_HEAD) {
        const uint64_t after = stk__big_endian(in, 4), before = stk__big_endian(in + 4, 4);
        in += HADOOP_HEAD;
        length -= HADOOP_HEAD;
        if (before > length || after > size ||
            decode(STK__PARQUET_LZ4, state, in, before, out, after, &reason) != STK_OK)
            return false;
        in += before;
        length -= before;
        out += after;
        size -= after;
    }
    return !length && !size;
}

stk_status stk__parquet_unpack(uint32_t codec, stk__codec_state *state, const void *in,
                               uint64_t length, void *out, uint64_t size, const char **reason)
{
    if (codec == STK__PARQUET_SNAPPY) {
        *reason = "the snappy data is damaged" STK__REASON_ENDING;
        return stk__snappy_decode(in, length, out, size) ? STK_OK : STK_EFORMAT;
    }
    if (codec == STK__PARQUET_LZ4 && decode_hadoop(state, in, length, out, size))
        return STK_OK;
    return decode(codec, state, in, length, out, size, reason);
}
