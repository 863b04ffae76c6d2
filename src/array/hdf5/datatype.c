/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes -> NumPy's codes, or a name for what is none of our types [HDF5 format IV.A.2.d]. */
#include <stdio.h>

#include "array/hdf5/object.h"

#define MOST_DEPTH 8u /* of types in types */

enum { TIME = 2, BITFIELD = 4, COMPLEX = 11, VAX = 0x40, BIG = 1, SIGNED = 8 };

typedef struct type_head {
    uint8_t class_, version;
    uint32_t flags, size;
} type_head;

static stk_status read_type(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_fields *at,
                            uint32_t depth, stk__hdf5_type *out);

static stk_status cut_off(const stk__hdf5 *f, const stk__hdf5_message *m)
{
    return stk__hdf5_damaged(f, m->address, "a datatype is cut off");
}

/* A name with its end, in versions 1 and 2 padded to 8 bytes. */
static void skip_name(stk__hdf5_fields *at, uint8_t version)
{
    const uint8_t *zero = at->failed ? NULL : memchr(at->at, 0, (size_t)(at->end - at->at));

    if (!zero) {
        at->failed = true;
        return;
    }
    const uint64_t length = (uint64_t)(zero - at->at) + 1;
    stk__hdf5_skip(at, version < 3 ? stk__round_up(length, 8) : length);
}

static void read_integer(const type_head *h, stk__hdf5_fields *at, stk__hdf5_type *out)
{
    const uint64_t offset = stk__hdf5_field(at, 2), precision = stk__hdf5_field(at, 2);
    const bool sized = h->size == 1 || h->size == 2 || h->size == 4 || h->size == 8;

    out->big_endian = h->flags & BIG;
    out->is_signed = (h->flags & SIGNED) != 0;
    /* Bits around an unsigned number are zeros, so that it is the number of all bits. */
    if (!sized || offset != 0 || precision > 8 * (uint64_t)h->size || precision == 0)
        out->other = "integers that are not of 8, 16, 32 or 64 bits";
    else if (precision < 8 * (uint64_t)h->size && out->is_signed)
        out->other = "signed integers of fewer bits than they take";
    else
        snprintf(out->code, sizeof out->code, "%c%c%u", out->big_endian ? '>' : '<',
                 out->is_signed ? 'i' : 'u', h->size);
}

static void read_float(const type_head *h, stk__hdf5_fields *at, stk__hdf5_type *out)
{
    static const uint8_t ieee[3][8] = {{0, 16, 10, 5, 0, 10, 15, 0},
                                       {0, 32, 23, 8, 0, 23, 127, 0},
                                       {0, 64, 52, 11, 0, 52, 255, 3}};
    uint8_t is[8];

    for (unsigned i = 0; i < 2; i++) { /* offset, precision */
        const uint64_t bits = stk__hdf5_field(at, 2);
        is[i] = (uint8_t)STK_MIN(bits, 255);
    }
    for (unsigned i = 2; i < 6; i++) /* places and sizes of exponent and mantissa */
        is[i] = (uint8_t)stk__hdf5_field(at, 1);
    const uint64_t bias = stk__hdf5_field(at, 4);
    is[6] = (uint8_t)bias;
    is[7] = (uint8_t)STK_MIN(bias >> 8, 255);
    out->big_endian = h->flags & BIG;
    out->is_signed = true;
    const unsigned which = h->size == 2 ? 0 : h->size == 4 ? 1 : 2;
    if ((h->size != 2 && h->size != 4 && h->size != 8) || h->flags & VAX ||
        memcmp(is, ieee[which], sizeof is) != 0)
        out->other = "floats that are not those of IEEE 754 with 16, 32 or 64 bits";
    else
        snprintf(out->code, sizeof out->code, "%cf%u", out->big_endian ? '>' : '<', h->size);
}

static stk_status read_enum(const stk__hdf5 *f, const stk__hdf5_message *m, const type_head *h,
                            stk__hdf5_fields *at, uint32_t depth, stk__hdf5_type *out)
{
    stk__hdf5_type base;
    const uint32_t count = h->flags & 0xffff;

    STK_TRY(read_type(f, m, at, depth + 1, &base));
    if (base.size != h->size)
        return stk__hdf5_damaged(f, m->address, "an enum is of another size than its numbers");
    for (uint32_t i = 0; i < count && !at->failed; i++)
        skip_name(at, h->version);
    stk__hdf5_skip(at, (uint64_t)count * base.size);
    *out = base;
    if (base.class_ != STK__HDF5_INTEGER)
        out->other = "enums that are not of integers";
    return STK_OK;
}

static stk_status read_array(const stk__hdf5 *f, const stk__hdf5_message *m, const type_head *h,
                             stk__hdf5_fields *at, uint32_t depth)
{
    const uint64_t rank = stk__hdf5_field(at, 1);
    stk__hdf5_type base;

    stk__hdf5_skip(at, (h->version < 3 ? 3 + 4 * rank : 0) + 4 * rank);
    return read_type(f, m, at, depth + 1, &base);
}

/* Members are stepped over, as a compound may be the base of another type. */
static stk_status read_compound(const stk__hdf5 *f, const stk__hdf5_message *m, const type_head *h,
                                stk__hdf5_fields *at, uint32_t depth)
{
    const uint32_t count = h->flags & 0xffff;
    stk__hdf5_type base;

    for (uint32_t i = 0; i < count && !at->failed; i++) {
        skip_name(at, h->version);
        stk__hdf5_skip(at, h->version < 3 ? 4 : stk__hdf5_width(h->size));
        if (h->version == 1) /* dimensions of old arrays */
            stk__hdf5_skip(at, 28);
        STK_TRY(read_type(f, m, at, depth + 1, &base));
    }
    return STK_OK;
}

static stk_status read_vlen(const stk__hdf5 *f, const stk__hdf5_message *m, const type_head *h,
                            stk__hdf5_fields *at, uint32_t depth, stk__hdf5_type *out)
{
    stk__hdf5_type base;

    STK_TRY(read_type(f, m, at, depth + 1, &base));
    out->text = (h->flags & 15) == 1;
    out->base = base.class_;
    out->padding = (uint8_t)(h->flags >> 4 & 15);
    out->other = out->text ? "texts of variable length" : "lists of variable length";
    if (h->size != 8u + f->of_address)
        return stk__hdf5_damaged(f, m->address, "a type of variable length has another size");
    return STK_OK;
}

static stk_status read_class(const stk__hdf5 *f, const stk__hdf5_message *m, const type_head *h,
                             stk__hdf5_fields *at, uint32_t depth, stk__hdf5_type *out)
{
    switch (h->class_) {
    case STK__HDF5_INTEGER:
        read_integer(h, at, out);
        return STK_OK;
    case STK__HDF5_FLOAT:
        read_float(h, at, out);
        return STK_OK;
    case STK__HDF5_STRING:
        out->padding = (uint8_t)(h->flags & 15);
        snprintf(out->code, sizeof out->code, "|S%u", h->size);
        return STK_OK;
    case STK__HDF5_ENUM:
        return read_enum(f, m, h, at, depth, out);
    case STK__HDF5_ARRAY:
        out->other = "arrays as elements";
        return read_array(f, m, h, at, depth);
    case STK__HDF5_COMPOUND:
        out->other = "a compound type";
        return read_compound(f, m, h, at, depth);
    case STK__HDF5_VLEN:
        return read_vlen(f, m, h, at, depth, out);
    case STK__HDF5_REFERENCE:
        out->other = "references";
        return STK_OK;
    case STK__HDF5_OPAQUE:
        out->other = "opaque bytes";
        stk__hdf5_skip(at, h->flags & 0xff);
        return STK_OK;
    case TIME:
        out->other = "the type 'time'";
        stk__hdf5_skip(at, 2);
        return STK_OK;
    case BITFIELD:
        out->other = "a bit field";
        stk__hdf5_skip(at, 4);
        return STK_OK;
    case COMPLEX:
        out->other = "complex numbers";
        return read_type(f, m, at, depth + 1, &(stk__hdf5_type){0});
    default:
        return stk__hdf5_damaged(f, m->address, "a datatype is of no known class");
    }
}

static stk_status read_type(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_fields *at,
                            uint32_t depth, stk__hdf5_type *out)
{
    type_head h;

    *out = (stk__hdf5_type){0};
    if (depth > MOST_DEPTH)
        return stk__hdf5_refuse(f, m->address, "types in types of so many levels are not read");
    const uint8_t first = (uint8_t)stk__hdf5_field(at, 1);
    h.class_ = first & 15;
    h.version = first >> 4;
    h.flags = (uint32_t)stk__hdf5_field(at, 3);
    h.size = (uint32_t)stk__hdf5_field(at, 4);
    if (at->failed)
        return cut_off(f, m);
    if (h.size == 0 || h.version < 1 || h.version > 5)
        return stk__hdf5_damaged(f, m->address, "a datatype has no size or no known version");
    out->class_ = h.class_;
    out->size = h.size;
    STK_TRY(read_class(f, m, &h, at, depth, out));
    return at->failed ? cut_off(f, m) : STK_OK;
}

stk_status stk__hdf5_type_read(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_type *out)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);

    return read_type(f, m, &at, 0, out);
}

uint64_t stk__hdf5_bits(const stk__hdf5_type *type, const uint8_t *data)
{
    return type->big_endian ? stk__big_endian(data, type->size)
                            : stk__little_endian(data, type->size);
}
