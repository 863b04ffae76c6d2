/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three forms of zfp: `zfp` of Zarr v3, whose configuration says all [zarr-extensions
 * codecs/zfp]; `zfpy` of numcodecs, with a header of zfp's in front of each chunk; filter 32013 of
 * HDF5, whose values hold such a header [LLNL/H5Z-ZFP].
 */
#include <jansson.h>

#include "codec/bytes_order.h"
#include "codec/config.h"
#include "codec/zfp.h"

#define MAX_RANK   4
#define MAX_VALUES 8 /* the library's version, and words of a header */

static zfp_type type_of(const stk__builder *b)
{
    const stk__number n = b->number;

    if (n.swap || (n.size != 4 && n.size != 8))
        return zfp_type_none;
    if (n.kind == 'f')
        return n.size == 4 ? zfp_type_float : zfp_type_double;
    return n.kind != 'i' ? zfp_type_none : n.size == 4 ? zfp_type_int32 : zfp_type_int64;
}

/* Type and dimensions of the elements that come, the last dimension first. */
static stk_status describe(stk__builder *b, struct stk__zfp_step *z)
{
    zfp_type type = type_of(b);

    if (type == zfp_type_none || !b->fixed)
        return stk__chain_refuse(b, STK_EKIND,
                                 "is read of int32, int64, float32 and float64 alone; write the "
                                 "array with zstd");
    if (b->rank > MAX_RANK)
        return stk__chain_refuse(b, STK_EKIND,
                                 "has at most 4 dimensions; write the array with zstd");
    z->type = (uint8_t)type;
    z->size = b->number.size;
    z->count = b->size / z->size;
    z->rank = b->rank ? (uint8_t)b->rank : 1;
    z->shape[0] = 1;
    for (uint32_t d = 0; d < b->rank; d++)
        z->shape[d] = b->shape[b->rank - 1 - d];
    return STK_OK;
}

static stk_status push(stk__builder *b, stk__codec_step *step)
{
    struct stk__zfp_step *z = &step->u.zfp;

    z->room = stk__zfp_room(z);
    if (!z->room || !stk__add_size(z->room, b->size, &step->block))
        return stk__chain_refuse(b, STK_ELIMIT, "the chunk is too large; write smaller chunks");
    STK_TRY(stk__chain_push(b, step));
    stk__chain_to_bytes(b);
    return STK_OK;
}

/* ---- zfp ---- */

static stk_status set_expert(stk__builder *b, const json_t *config, struct stk__zfp_step *z)
{
    int64_t min_bits = -1, max_bits = -1, precision = -1, exponent = INT64_MAX;

    STK_TRY(stk__config_int(b, config, "minbits", 0, ZFP_MAX_BITS, &min_bits));
    STK_TRY(stk__config_int(b, config, "maxbits", 1, ZFP_MAX_BITS, &max_bits));
    STK_TRY(stk__config_int(b, config, "maxprec", 1, ZFP_MAX_PREC, &precision));
    STK_TRY(stk__config_int(b, config, "minexp", ZFP_MIN_EXP - 1, INT16_MAX, &exponent));
    if (min_bits < 0 || max_bits < min_bits || precision < 0 || exponent == INT64_MAX)
        return stk__config_wrong(b, "mode", "is expert, and not all that it takes is there");
    z->min_bits = (uint32_t)min_bits;
    z->max_bits = (uint32_t)max_bits;
    z->max_precision = (uint32_t)precision;
    z->min_exponent = (int32_t)exponent;
    return STK_OK;
}

static stk_status set_mode(stk__builder *b, const json_t *config, struct stk__zfp_step *z,
                           zfp_stream *stream)
{
    const char *mode = json_string_value(json_object_get(config, "mode"));
    int64_t precision = 0, unused = 0;
    double value = 0;
    bool whole = true;

    if (mode && !strcmp(mode, "expert"))
        return set_expert(b, config, z);
    if (mode && !strcmp(mode, "reversible")) {
        zfp_stream_set_reversible(stream);
    } else if (mode && !strcmp(mode, "fixed_rate")) {
        STK_TRY(stk__config_number(b, config, "rate", &value, &unused, &whole));
        if (value <= 0 || value > 8 * 8) /* bits of a number */
            return stk__config_wrong(b, "rate", "is not from 0 to 64");
        (void)zfp_stream_set_rate(stream, value, (zfp_type)z->type, z->rank, zfp_false);
    } else if (mode && !strcmp(mode, "fixed_precision")) {
        STK_TRY(stk__config_int(b, config, "precision", 1, ZFP_MAX_PREC, &precision));
        (void)zfp_stream_set_precision(stream, (unsigned)precision);
    } else if (mode && !strcmp(mode, "fixed_accuracy")) {
        STK_TRY(stk__config_number(b, config, "tolerance", &value, &unused, &whole));
        (void)zfp_stream_set_accuracy(stream, value);
    } else {
        return stk__config_wrong(b, "mode",
                                 "is not one of reversible, expert, fixed_rate, fixed_precision "
                                 "and fixed_accuracy");
    }
    zfp_stream_params(stream, &z->min_bits, &z->max_bits, &z->max_precision, &z->min_exponent);
    return STK_OK;
}

static stk_status no_memory(stk__builder *b)
{
    return stk__chain_refuse(b, STK_ENOMEM, "no memory for it");
}

stk_status stk__config_zfp(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};

    STK_TRY(describe(b, &step.u.zfp));
    zfp_stream *stream = zfp_stream_open(NULL);
    if (!stream)
        return no_memory(b);
    stk_status status = set_mode(b, config, &step.u.zfp, stream);
    zfp_stream_close(stream);
    return status == STK_OK ? push(b, &step) : status;
}

/* ---- zfpy ---- */

/* What is in front of a chunk says how it is compressed; as long as any way takes is the room. */
stk_status stk__config_zfpy(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    struct stk__zfp_step *z = &step.u.zfp;

    STK_TRY(describe(b, z));
    z->headed = true;
    z->max_bits = ZFP_MAX_BITS;
    z->max_precision = ZFP_MAX_PREC;
    return push(b, &step);
}

/* ---- HDF5's filter ---- */

/* The words are stored as a machine of either order wrote them. */
static bool read_header(const uint32_t *words, size_t count, bool swap, zfp_stream *stream,
                        zfp_field *field)
{
    uint64_t memory[MAX_VALUES / 2 + 3] = {0}; /* words of the library, and zeros behind */
    uint8_t *bytes = (uint8_t *)memory;

    for (size_t i = 0; i < count; i++)
        stk__bytes_store(bytes + 4 * i, words[i], 4, swap);
    bitstream *bits = stream_open(memory, sizeof memory);
    if (!bits)
        return false;
    zfp_stream_set_bit_stream(stream, bits);
    bool good = zfp_read_header(stream, field, ZFP_HEADER_FULL) != 0;
    stream_close(bits);
    return good;
}

stk_status stk__config_hdf5_zfp(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    struct stk__zfp_step *z = &step.u.zfp;
    uint32_t v[MAX_VALUES];
    size_t count;

    STK_TRY(stk__config_values(b, config, 2, v, MAX_VALUES, &count));
    zfp_stream *stream = zfp_stream_open(NULL);
    zfp_field *field = zfp_field_alloc();
    bool room = stream && field, good = false;
    if (room && b->fixed && b->number.size)
        good = (read_header(v + 1, count - 1, false, stream, field) ||
                read_header(v + 1, count - 1, true, stream, field)) &&
               stk__zfp_take(z, stream, field, b->size / b->number.size, b->number.size);
    if (field)
        zfp_field_free(field);
    if (stream)
        zfp_stream_close(stream);
    if (!room)
        return no_memory(b);
    if (!good)
        return stk__config_wrong(b, "values", "hold no header of zfp for the chunk's elements");
    z->count = b->size / z->size;
    return push(b, &step);
}
