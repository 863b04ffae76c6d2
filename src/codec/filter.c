/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of numcodecs that turn numbers into numbers: astype, delta, fixedscaleoffset,
 * quantize, bitround. Their arithmetic is NumPy's: in the type of the numbers, integers in float64
 * where they are divided. One departure: delta of booleans is undone with exclusive or, which gives
 * back what was encoded; numcodecs adds, and loses it.
 */
#include <math.h>

#include "codec/kernels.h"
#include "codec/number.h"
#include "codec/state.h"

#define COUNT STK__WIDE_COUNT

static const stk__reasons reasons_of[] = {STK__REASONS("astype"), STK__REASONS("delta"),
                                          STK__REASONS("fixedscaleoffset"),
                                          STK__REASONS("quantize"), STK__REASONS("bitround")};

/* What a filter does to a block of numbers between their two types; `carry` (zeros at first) goes
 * from block to block. Gives the class of the result. */
typedef char work_fn(const stk__codec_step *step, char class, stk__wide *numbers, size_t count,
                     stk__wide *carry);

static void each_block(const stk__codec_step *step, stk__number from, stk__number to, work_fn *work,
                       const stk__codec_pass *pass, uint64_t count)
{
    stk__wide numbers, carry;

    memset(&carry, 0, sizeof carry);
    for (uint64_t at = 0; at < count; at += COUNT) {
        size_t n = (size_t)STK_MIN(COUNT, count - at);
        char class = stk__number_class(from);
        stk__number_load(from, pass->in + at * from.size, n, &numbers);
        class = work(step, class, &numbers, n, &carry);
        stk__number_store(to, class, &numbers, n, pass->out + at * to.size);
    }
}

/* Whole numbers, and not more than there is room for; a prefix may end within one. */
static stk_status count_stored(const stk__codec_step *step, stk__codec_pass *pass, uint64_t *count)
{
    uint64_t size = step->u.number.to.size;

    *count = pass->length / size;
    if ((pass->length % size && pass->needed == pass->capacity) ||
        *count > pass->capacity / step->u.number.from.size)
        return stk__pass_fail(pass, STK_EFORMAT, step->ops->reasons->longer);
    return STK_OK;
}

static stk_status decode_with(const stk__codec_step *step, stk__codec_pass *pass, work_fn *work)
{
    stk__number stored = step->u.number.to, given = step->u.number.from;
    uint64_t count;

    STK_TRY(count_stored(step, pass, &count));
    each_block(step, stored, given, work, pass, count);
    pass->got = count * given.size;
    return STK_OK;
}

static stk_status encode_with(const stk__codec_step *step, stk__codec_pass *pass, work_fn *work)
{
    stk__number stored = step->u.number.to, given = step->u.number.from;
    uint64_t count = pass->length / given.size;

    each_block(step, given, stored, work, pass, count);
    pass->got = count * stored.size;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    uint64_t given = step->u.number.from.size;

    return stk__mul_size(size / given, step->u.number.to.size, out);
}

static uint64_t prefix(const stk__codec_step *step, uint64_t needed)
{
    uint64_t given = step->u.number.from.size;

    return (needed + given - 1) / given * step->u.number.to.size;
}

/* Round every number to the precision of a float type. */
static void narrow(stk__number number, stk__wide *w, size_t count)
{
    if (number.size == 4)
        for (size_t i = 0; i < count; i++)
            w->f[i] = (float)w->f[i];
    else if (number.size == 2)
        for (size_t i = 0; i < count; i++)
            w->f[i] = stk__half_to_double(stk__double_to_half(w->f[i]));
}

/* ---- astype ---- */

static char keep(const stk__codec_step *step, char class, stk__wide *numbers, size_t count,
                 stk__wide *carry)
{
    return class;
}

static stk_status astype_decode(const stk__codec_step *step, stk__codec_state *state,
                                stk__codec_pass *pass)
{
    return decode_with(step, pass, keep);
}

static stk_status astype_encode(const stk__codec_step *step, stk__codec_state *state,
                                stk__codec_pass *pass)
{
    return encode_with(step, pass, keep);
}

/* ---- delta ---- */

static char to_double(char class, stk__wide *w, size_t count)
{
    if (class == 'i')
        for (size_t i = 0; i < count; i++)
            w->f[i] = (double)w->i[i];
    else if (class == 'u')
        for (size_t i = 0; i < count; i++)
            w->f[i] = (double)w->u[i];
    return 'f';
}

static char sum(const stk__codec_step *step, char class, stk__wide *w, size_t count,
                stk__wide *carry)
{
    stk__number number = step->u.number.from;

    if (number.kind == 'f') {
        to_double(class, w, count);
        narrow(number, w, count);
        /* Nothing before the first number: what leaves even a negative zero as it is. */
        double last = carry->u[1] ? carry->f[0] : -0.0;
        for (size_t i = 0; i < count; i++) {
            last += w->f[i];
            if (number.size == 4)
                last = (float)last;
            else if (number.size == 2)
                last = stk__half_to_double(stk__double_to_half(last));
            w->f[i] = last;
        }
        carry->f[0] = last;
        carry->u[1] = 1;
        return 'f';
    }
    uint64_t last = carry->u[0];
    for (size_t i = 0; i < count; i++)
        w->u[i] = last = number.kind == 'b' ? last ^ (w->u[i] & 1) : last + w->u[i];
    carry->u[0] = last;
    return class;
}

static char difference(const stk__codec_step *step, char class, stk__wide *w, size_t count,
                       stk__wide *carry)
{
    stk__number number = step->u.number.from;

    /* The first number stays: the one before it is taken for 0. */
    if (class == 'f') {
        for (size_t i = 0; i < count; i++) {
            double x = w->f[i];
            w->f[i] = x - carry->f[0];
            carry->f[0] = x;
        }
        narrow(number, w, count);
        return class;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t x = w->u[i];
        w->u[i] = number.kind == 'b' ? x ^ carry->u[0] : x - carry->u[0];
        carry->u[0] = x;
    }
    /* Differences live in the type of the numbers: they wrap there, before they are cast. */
    int shift = 64 - 8 * number.size;
    for (size_t i = 0; i < count && shift; i++)
        if (class == 'i')
            w->i[i] = (int64_t)(w->u[i] << shift) >> shift;
        else
            w->u[i] = w->u[i] << shift >> shift;
    return class;
}

static stk_status delta_decode(const stk__codec_step *step, stk__codec_state *state,
                               stk__codec_pass *pass)
{
    stk__number a = step->u.number.from, b = step->u.number.to;

    if (a.kind == 'f' || a.kind == 'b' || a.size != b.size || a.swap || b.swap)
        return decode_with(step, pass, sum);
    uint64_t count;
    STK_TRY(count_stored(step, pass, &count));
    state->kernels->sum(pass->in, pass->out, count, a.size);
    pass->got = count * a.size;
    return STK_OK;
}

static stk_status delta_encode(const stk__codec_step *step, stk__codec_state *state,
                               stk__codec_pass *pass)
{
    return encode_with(step, pass, difference);
}

/* ---- fixedscaleoffset ---- */

static char unscale(const stk__codec_step *step, char class, stk__wide *w, size_t count,
                    stk__wide *carry)
{
    stk__number stored = step->u.number.to;
    bool float64 = class != 'f' || stored.size == 8;
    double scale = step->u.number.scale, offset = step->u.number.offset;

    to_double(class, w, count);
    if (float64) {
        for (size_t i = 0; i < count; i++)
            w->f[i] = w->f[i] / scale + offset;
        return 'f';
    }
    stk__wide constants = {.f = {scale, offset}};
    narrow(stored, &constants, 2);
    for (size_t i = 0; i < count; i++)
        w->f[i] /= constants.f[0];
    narrow(stored, w, count);
    for (size_t i = 0; i < count; i++)
        w->f[i] += constants.f[1];
    narrow(stored, w, count);
    return 'f';
}

static char rescale(const stk__codec_step *step, char class, stk__wide *w, size_t count,
                    stk__wide *carry)
{
    stk__number given = step->u.number.from;

    if (class != 'f' && step->u.number.integers) {
        for (size_t i = 0; i < count; i++)
            w->u[i] = (w->u[i] - (uint64_t)step->u.number.int_offset) *
                      (uint64_t)step->u.number.int_scale;
        return class;
    }
    stk__wide constants = {.f = {step->u.number.scale, step->u.number.offset}};
    bool narrows = class == 'f';
    to_double(class, w, count);
    if (narrows)
        narrow(given, &constants, 2);
    for (size_t i = 0; i < count; i++)
        w->f[i] -= constants.f[1];
    if (narrows)
        narrow(given, w, count);
    for (size_t i = 0; i < count; i++)
        w->f[i] *= constants.f[0];
    if (narrows)
        narrow(given, w, count);
    for (size_t i = 0; i < count; i++)
        w->f[i] = nearbyint(w->f[i]);
    return 'f';
}

static stk_status scale_decode(const stk__codec_step *step, stk__codec_state *state,
                               stk__codec_pass *pass)
{
    return decode_with(step, pass, unscale);
}

static stk_status scale_encode(const stk__codec_step *step, stk__codec_state *state,
                               stk__codec_pass *pass)
{
    return encode_with(step, pass, rescale);
}

/* ---- quantize ---- */

static char quantize(const stk__codec_step *step, char class, stk__wide *w, size_t count,
                     stk__wide *carry)
{
    double scale = step->u.number.scale;
    stk__number given = step->u.number.from;

    for (size_t i = 0; i < count; i++)
        w->f[i] *= scale;
    narrow(given, w, count);
    for (size_t i = 0; i < count; i++)
        w->f[i] = nearbyint(w->f[i]) / scale;
    narrow(given, w, count);
    return 'f';
}

static stk_status quantize_encode(const stk__codec_step *step, stk__codec_state *state,
                                  stk__codec_pass *pass)
{
    return encode_with(step, pass, quantize);
}

/* ---- bitround ---- */

/* Round the fraction to nearest even [Klöwer et al. 2021, doi:10.1038/s43588-021-00156-2]. */
#define DEFINE_BITROUND(width)                                                                     \
    static void bitround##width(const stk__codec_pass *pass, uint32_t drop)                        \
    {                                                                                              \
        uint##width##_t mask = (uint##width##_t)(UINT64_MAX << drop);                              \
        uint##width##_t half = (uint##width##_t)((UINT64_C(1) << (drop - 1)) - 1);                 \
        for (uint64_t i = 0; i < pass->length / sizeof mask; i++) {                                \
            uint##width##_t x;                                                                     \
            memcpy(&x, pass->in + i * sizeof x, sizeof x);                                         \
            x = (uint##width##_t)((x + (x >> drop & 1) + half) & mask);                            \
            memcpy(pass->out + i * sizeof x, &x, sizeof x);                                        \
        }                                                                                          \
    }

DEFINE_BITROUND(16)
DEFINE_BITROUND(32)
DEFINE_BITROUND(64)

static stk_status bitround_encode(const stk__codec_step *step, stk__codec_state *state,
                                  stk__codec_pass *pass)
{
    uint32_t drop = step->u.bitround.bits - step->u.bitround.keep_bits;

    if (!step->u.bitround.size)
        return stk__pass_fail(pass, STK_EKIND,
                              "bitround is written for little-endian floats of 2, 4 and 8 bytes "
                              "alone; write the array without it");
    if (!drop)
        memcpy(pass->out, pass->in, pass->length);
    else if (step->u.bitround.size == 2)
        bitround16(pass, drop);
    else if (step->u.bitround.size == 4)
        bitround32(pass, drop);
    else
        bitround64(pass, drop);
    pass->got = pass->length;
    return STK_OK;
}

static bool same_size(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    *out = size;
    return true;
}

#define STK__FILTER(number, text, decoder, encoder)                                                \
    {                                                                                              \
        .name = text, .reasons = &reasons_of[number], .decode = decoder, .encode = encoder,        \
        .bound = bound, .prefix = prefix                                                           \
    }

const stk__codec_ops stk__codec_astype = STK__FILTER(0, "astype", astype_decode, astype_encode);
const stk__codec_ops stk__codec_delta = STK__FILTER(1, "delta", delta_decode, delta_encode);
const stk__codec_ops stk__codec_fixedscaleoffset =
    STK__FILTER(2, "fixedscaleoffset", scale_decode, scale_encode);
/* Stored in another type than it was given: a cast to decode. */
const stk__codec_ops stk__codec_quantize =
    STK__FILTER(3, "quantize", astype_decode, quantize_encode);
const stk__codec_ops stk__codec_bitround = {
    .name = "bitround", .reasons = &reasons_of[4], .encode = bitround_encode, .bound = same_size};
