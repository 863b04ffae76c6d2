/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of HDF5 that no other format has, by the values that a file gives them [HDF5
 * H5Zszip.c, H5Znbit.c, H5Zscaleoffset.c; HDFGroup/hdf5_plugins]. What the values say of elements
 * must be what comes to the filter: its decoded size is known before.
 */
#include "codec/config.h"

#define MAX_VALUES 32

enum { LITTLE, BIG };

/* szip [H5Zpublic.h, szlib.h] */
enum { SZIP_MASK, SZIP_BLOCK, SZIP_BITS, SZIP_LINE, SZIP_VALUES };
#define SZIP_MSB      16u
#define SZIP_PREDICTS 32u
#define SZIP_LINE_MAX 4096

/* n-bit: the first four, then those of a number */
enum {
    NBIT_COUNT,
    NBIT_FULL,
    NBIT_ELEMENTS,
    NBIT_CLASS,
    NBIT_SIZE,
    NBIT_ORDER,
    NBIT_PRECISION,
    NBIT_OFFSET,
    NBIT_VALUES
};
#define NBIT_NUMBER 1u

enum {
    SCALE_TYPE,
    SCALE_FACTOR,
    SCALE_ELEMENTS,
    SCALE_CLASS,
    SCALE_SIZE,
    SCALE_SIGN,
    SCALE_ORDER,
    SCALE_HAS_FILL,
    SCALE_FILL,
    SCALE_VALUES = SCALE_FILL + 2
};
enum { SCALE_DECIMAL = 0, SCALE_INTEGER = 2 };

enum { SHUFFLE_ELEMENT = 2, SHUFFLE_BLOCK, SHUFFLE_MODE, SHUFFLE_VALUES };

static stk_status unlike(stk__builder *b)
{
    return stk__config_wrong(b, "values", "is of other elements than the chunk's");
}

/* Whether the elements that come are so many of so many bytes. */
static bool is_like(const stk__builder *b, uint64_t count, uint64_t size)
{
    uint64_t bytes;

    return b->fixed && stk__mul_size(count, size, &bytes) && bytes == b->size;
}

stk_status stk__config_szip(stk__builder *b, const struct json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    struct stk__szip_step *s = &step.u.szip;
    uint32_t v[MAX_VALUES];

    STK_TRY(stk__config_values(b, config, SZIP_VALUES, v, MAX_VALUES, NULL));
    uint32_t bits = v[SZIP_BITS], block = v[SZIP_BLOCK], line = v[SZIP_LINE];
    if (block < 2 || block > STK__SZIP_BLOCK || block % 2 || line < 1 || line > SZIP_LINE_MAX ||
        bits < 1 || (bits > 24 && bits != 32 && bits != 64))
        return stk__config_wrong(b, "values", "are not those of szip");
    s->line = line;
    s->block = block;
    s->planes = bits > 24 ? (uint8_t)(bits / 8) : 0;
    s->bits = s->planes ? 8 : (uint8_t)bits;
    s->sample = s->bits > 16 ? 4 : s->bits > 8 ? 2 : 1;
    s->msb = (v[SZIP_MASK] & SZIP_MSB) != 0;
    s->predicts = (v[SZIP_MASK] & SZIP_PREDICTS) != 0;
    step.block = s->planes ? b->size : 0;
    return stk__chain_push(b, &step);
}

stk_status stk__config_nbit(stk__builder *b, const struct json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    struct stk__nbit_step *n = &step.u.nbit;
    uint32_t v[MAX_VALUES];
    size_t count;

    STK_TRY(stk__config_values(b, config, NBIT_ELEMENTS, v, MAX_VALUES, &count));
    if (v[NBIT_FULL])
        return STK_OK; /* elements without gaps are stored as they are */
    if (count < NBIT_VALUES || v[NBIT_CLASS] != NBIT_NUMBER)
        return stk__chain_refuse(b, STK_EKIND,
                                 "is read of numbers alone; write the dataset with deflate");
    uint32_t size = v[NBIT_SIZE], precision = v[NBIT_PRECISION], offset = v[NBIT_OFFSET];
    if (!is_like(b, v[NBIT_ELEMENTS], size))
        return unlike(b);
    if (size > 8 || !precision || precision > 8 * size || offset > 8 * size - precision ||
        v[NBIT_ORDER] > BIG)
        return stk__config_wrong(b, "values", "are not those of numbers of 1 to 8 bytes");
    n->count = v[NBIT_ELEMENTS];
    n->size = (uint8_t)size;
    n->precision = (uint8_t)precision;
    n->offset = (uint8_t)offset;
    n->big = v[NBIT_ORDER] == BIG;
    return stk__chain_push(b, &step);
}

stk_status stk__config_scaleoffset(stk__builder *b, const struct json_t *config,
                                   const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    struct stk__scaleoffset_step *s = &step.u.scaleoffset;
    uint32_t v[MAX_VALUES];
    size_t count;

    STK_TRY(stk__config_values(b, config, SCALE_FILL, v, MAX_VALUES, &count));
    uint32_t size = v[SCALE_SIZE];
    s->real = v[SCALE_CLASS] == 1;
    if (v[SCALE_CLASS] > 1 || v[SCALE_TYPE] != (s->real ? SCALE_DECIMAL : SCALE_INTEGER))
        return stk__chain_refuse(b, STK_EKIND,
                                 "is read of integers and of floats with decimal places; write the "
                                 "dataset with deflate");
    if (!is_like(b, v[SCALE_ELEMENTS], size))
        return unlike(b);
    bool sized =
        s->real ? size == 4 || size == 8 : size == 1 || size == 2 || size == 4 || size == 8;
    if (!sized || v[SCALE_ORDER] > BIG ||
        (v[SCALE_HAS_FILL] && count < SCALE_FILL + (size > 4 ? 2u : 1u)))
        return stk__config_wrong(b, "values", "are not those of numbers of 1 to 8 bytes");
    if (!s->real && v[SCALE_FACTOR] == 8 * size)
        return STK_OK; /* all bits are kept */
    s->count = v[SCALE_ELEMENTS];
    s->factor = (int32_t)v[SCALE_FACTOR];
    s->size = (uint8_t)size;
    s->big = v[SCALE_ORDER] == BIG;
    s->has_fill = v[SCALE_HAS_FILL] != 0;
    s->fill = v[SCALE_FILL] | (uint64_t)v[SCALE_FILL + 1] << 32;
    return stk__chain_push(b, &step);
}

stk_status stk__config_hdf5_lz4(stk__builder *b, const struct json_t *config,
                                const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    uint32_t v[MAX_VALUES];

    STK_TRY(stk__config_values(b, config, 0, v, MAX_VALUES, NULL));
    step.u.blocks.size = v[0];
    return stk__chain_push(b, &step);
}

stk_status stk__config_bitshuffle(stk__builder *b, const struct json_t *config,
                                  const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    uint32_t v[MAX_VALUES];

    STK_TRY(stk__config_values(b, config, SHUFFLE_BLOCK, v, MAX_VALUES, NULL));
    uint32_t mode = v[SHUFFLE_MODE];
    if (!v[SHUFFLE_ELEMENT] || v[SHUFFLE_ELEMENT] > b->size || v[SHUFFLE_BLOCK] % 8)
        return stk__config_wrong(b, "values", "are not those of bitshuffle");
    if (mode != STK__BITSHUFFLE_PLAIN && mode != STK__BITSHUFFLE_LZ4 &&
        mode != STK__BITSHUFFLE_ZSTD)
        return stk__chain_refuse(b, STK_EKIND,
                                 "compresses its blocks by neither LZ4 nor Zstandard; write the "
                                 "dataset with one of them");
    step.u.blocks.element = v[SHUFFLE_ELEMENT];
    step.u.blocks.size = v[SHUFFLE_BLOCK];
    step.u.blocks.mode = (uint8_t)mode;
    step.block = 2 * b->size;
    return stk__chain_push(b, &step);
}
