/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zfp [LLNL/zfp 1.0] through libzfp: blocks of 4^n numbers as planes of bits. A stream has no end
 * of its own, and the library reads as far as its bits lead; so it reads from a copy with zeros
 * behind it, as long as any block can be, and a stream that led beyond its end is found out then.
 */
#include "codec/zfp.h"
#include "codec/compile.h"
#include "codec/state.h"

#define WORD       8 /* bytes that the library reads at a time */
#define BLOCK_SIDE 4
#define BLOCK_MORE 128 /* bits besides those of its numbers: exponent, tests of planes */

static const stk__reasons reasons = STK__REASONS("zfp");

/* ---- How far a decode can read ---- */

uint64_t stk__zfp_room(const struct stk__zfp_step *z)
{
    uint64_t blocks = 1, values = 1, bits, room;

    for (uint32_t d = 0; d < z->rank; d++) {
        if (!stk__mul_size(blocks, (z->shape[d] + BLOCK_SIDE - 1) / BLOCK_SIDE, &blocks))
            return 0;
        values *= BLOCK_SIDE;
    }
    /* Each plane gives a bit for every number; on the way through all planes each number becomes
     * significant once, which takes up to three bits more. */
    uint64_t planes = STK_MIN(z->max_precision, 8u * z->size);
    bits = STK_MAX(STK_MIN(values * (planes + 3) + BLOCK_MORE, (uint64_t)z->max_bits),
                   (uint64_t)z->min_bits);
    if (!stk__mul_size(blocks, bits, &room) ||
        !stk__add_size(room / 8, ZFP_HEADER_MAX_BITS / 8 + 3 * WORD, &room) || room > INT64_MAX)
        return 0;
    return room / WORD * WORD;
}

bool stk__zfp_take(struct stk__zfp_step *z, const zfp_stream *stream, const zfp_field *field,
                   uint64_t count, uint32_t size)
{
    const size_t shape[] = {field->nx, field->ny, field->nz, field->nw};
    uint64_t has = 1;

    z->rank = 0;
    for (size_t d = 0; d < STK_COUNT(shape) && shape[d]; d++) {
        z->shape[z->rank++] = shape[d];
        if (!stk__mul_size(has, shape[d], &has))
            return false;
    }
    z->type = (uint8_t)field->type;
    z->size = (uint8_t)zfp_type_size(field->type);
    z->min_bits = stream->minbits;
    z->max_bits = stream->maxbits;
    z->max_precision = stream->maxprec;
    z->min_exponent = stream->minexp;
    return z->rank && has == count && z->size == size;
}

/* ---- Streams ---- */

typedef struct reader {
    bitstream *bits;
    zfp_stream *stream;
    zfp_field *field;
} reader;

static void close_reader(reader *r)
{
    if (r->field)
        zfp_field_free(r->field);
    if (r->stream)
        zfp_stream_close(r->stream);
    if (r->bits)
        stream_close(r->bits);
}

static bool open_reader(reader *r, void *data, uint64_t size)
{
    r->bits = stream_open(data, size);
    r->stream = zfp_stream_open(r->bits);
    r->field = zfp_field_alloc();
    return r->bits && r->stream && r->field;
}

static void configure(const reader *r, const struct stk__zfp_step *z)
{
    r->field->type = (zfp_type)z->type;
    r->field->nx = (size_t)z->shape[0];
    r->field->ny = z->rank > 1 ? (size_t)z->shape[1] : 0;
    r->field->nz = z->rank > 2 ? (size_t)z->shape[2] : 0;
    r->field->nw = z->rank > 3 ? (size_t)z->shape[3] : 0;
    (void)zfp_stream_set_params(r->stream, z->min_bits, z->max_bits, z->max_precision,
                                z->min_exponent);
}

/* A header in front of the chunk must not lead further than the configuration would. */
static bool read_header(const reader *r, const struct stk__zfp_step *z)
{
    struct stk__zfp_step own;

    if (!zfp_read_header(r->stream, r->field, ZFP_HEADER_FULL) ||
        !stk__zfp_take(&own, r->stream, r->field, z->count, z->size))
        return false;
    uint64_t room = stk__zfp_room(&own);
    return room && room <= z->room;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    const struct stk__zfp_step *z = &step->u.zfp;
    uint64_t size = z->count * z->size;
    bool apart = (uintptr_t)pass->out % z->size != 0; /* the library stores whole numbers */
    stk_status status = STK_OK;
    reader r = {0};

    if (!pass->length)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (pass->length > z->room)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    uint8_t *data = stk__scratch(state, STK__SCRATCH_BLOCK, step->block);
    if (!data)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    memcpy(data, pass->in, pass->length);
    memset(data + pass->length, 0, z->room - pass->length);
    uint8_t *out = apart ? data + z->room : pass->out;
    if (!open_reader(&r, data, z->room))
        status = stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    else if (z->headed && !read_header(&r, z))
        status = stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    if (status == STK_OK) {
        if (!z->headed)
            configure(&r, z);
        zfp_field_set_pointer(r.field, out);
        uint64_t taken = zfp_decompress(r.stream, r.field);
        if (!taken)
            status = stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
        else if (!stk__chain_holds(taken <= z->room) ||
                 taken > (pass->length + WORD - 1) / WORD * WORD)
            status = stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    }
    close_reader(&r);
    if (status == STK_OK && apart)
        memcpy(pass->out, out, size);
    pass->got = size;
    return status;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    *out = step->u.zfp.room;
    return *out != 0;
}

const stk__codec_ops stk__codec_zfp = {
    .name = "zfp", .reasons = &reasons, .decode = decode, .bound = bound};
const stk__codec_ops stk__codec_zfpy = {
    .name = "zfpy", .reasons = &reasons, .decode = decode, .bound = bound};
const stk__codec_ops stk__codec_hdf5_zfp = {
    .name = "hdf5.zfp", .reasons = &reasons, .decode = decode, .bound = bound};
