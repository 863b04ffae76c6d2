/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5's scale-offset filter [HDF5 H5Zscaleoffset.c]: how far each element is above the least one,
 * in as few bits as the greatest takes. Of floats it is a whole number of steps of 1 / 10^factor;
 * all bits set is the fill value, where one is defined.
 */
#include <math.h>

#include "codec/bit_reader.h"
#include "codec/step.h"

#define AT_LEAST 5  /* where the least element is: behind the bits and its own size */
#define HEADER   21 /* its last 8 bytes are not used */

static const stk__reasons reasons = STK__REASONS("hdf5.scaleoffset");

typedef struct packed {
    stk__bit_reader bits;
    unsigned count; /* bits of one element */
    uint64_t least; /* as an integer, or the bits of a float */
} packed;

/* A number of steps in the precision of the type, as the library computes. */
static inline uint64_t single_of(int32_t steps, float step, uint32_t least)
{
    float value;
    uint32_t bits;

    memcpy(&value, &least, sizeof value);
    value = (float)steps / step + value;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t double_of(int64_t steps, double step, uint64_t least)
{
    double value;

    memcpy(&value, &least, sizeof value);
    value = (double)steps / step + value;
    memcpy(&least, &value, sizeof least);
    return least;
}

static void unpack(const struct stk__scaleoffset_step *s, packed *p, uint8_t *out)
{
    const uint64_t fill = p->count ? UINT64_MAX >> (64 - p->count) : 0;
    const double step = pow(10.0, s->factor);

    for (uint64_t i = 0; i < s->count; i++) {
        uint64_t x = p->count ? stk__bits_take(&p->bits, p->count) : 0;
        if (s->has_fill && x == fill)
            x = s->fill;
        else if (!s->real)
            x += p->least;
        else if (s->size == sizeof(float))
            x = single_of((int32_t)x, (float)step, (uint32_t)p->least);
        else
            x = double_of((int64_t)x, step, p->least);
        stk__bytes_store(out + i * s->size, x, s->size, s->big);
    }
}

/* What takes all its bits is stored as it is. */
static void copy(const struct stk__scaleoffset_step *s, const uint8_t *in, uint8_t *out)
{
    for (uint64_t i = 0; i < s->count; i++, in += s->size, out += s->size)
        stk__bytes_store(out, stk__little_endian(in, s->size), s->size, s->big);
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    const struct stk__scaleoffset_step *s = &step->u.scaleoffset;
    const uint8_t *in = pass->in;
    uint64_t bytes = 0;

    if (pass->length < HEADER)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    uint64_t count = stk__little_endian(in, 4);
    unsigned least = in[AT_LEAST - 1];
    if (count > 8u * s->size || least > 8)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    if (!stk__bits_bytes(s->count, (unsigned)count, &bytes) || pass->length - HEADER < bytes)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (pass->length - HEADER > bytes + 1)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    packed p = {{in + HEADER, in + pass->length, 0},
                (unsigned)count,
                stk__little_endian(in + AT_LEAST, least)};
    if (count == 8u * s->size)
        copy(s, in + HEADER, pass->out);
    else
        unpack(s, &p, pass->out);
    pass->got = s->count * s->size;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, HEADER + 1, out);
}

const stk__codec_ops stk__codec_scaleoffset = {
    .name = "hdf5.scaleoffset", .reasons = &reasons, .decode = decode, .bound = bound};
