/* SPDX-License-Identifier: Apache-2.0 */
/* Types of a file -> elements of the library. libhdf5 converts the rest: order, precision, padding.
 */
#include <stdio.h>

#include "program.h"

hid_t number_type(uint32_t dtype)
{
    switch (dtype) {
    case STK_BOOL:
    case STK_INT8:
        return H5Tcopy(H5T_NATIVE_INT8);
    case STK_UINT8:
        return H5Tcopy(H5T_NATIVE_UINT8);
    case STK_INT16:
        return H5Tcopy(H5T_NATIVE_INT16);
    case STK_UINT16:
        return H5Tcopy(H5T_NATIVE_UINT16);
    case STK_INT32:
        return H5Tcopy(H5T_NATIVE_INT32);
    case STK_UINT32:
        return H5Tcopy(H5T_NATIVE_UINT32);
    case STK_INT64:
        return H5Tcopy(H5T_NATIVE_INT64);
    case STK_UINT64:
        return H5Tcopy(H5T_NATIVE_UINT64);
    case STK_FLOAT32:
        return H5Tcopy(H5T_NATIVE_FLOAT);
    case STK_FLOAT64:
        return H5Tcopy(H5T_NATIVE_DOUBLE);
    default:
        return -1;
    }
}

hid_t text_type(size_t size)
{
    const hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, size);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

/* ---- Numbers ---- */

static bool number(uint32_t dtype, element *out)
{
    out->type = dtype;
    out->memory = number_type(dtype);
    out->itemsize = H5Tget_size(out->memory);
    return out->memory >= 0;
}

static bool integer_of(hid_t type, const char *path, element *out)
{
    static const uint32_t types[2][4] = {{STK_UINT8, STK_UINT16, STK_UINT32, STK_UINT64},
                                         {STK_INT8, STK_INT16, STK_INT32, STK_INT64}};
    const size_t size = H5Tget_size(type);

    if (size > 8)
        return fail(STK_EKIND, "'%.200s' holds integers of %zu bytes, and at most 8 are read", path,
                    size);
    const int i = size <= 1 ? 0 : size <= 2 ? 1 : size <= 4 ? 2 : 3;
    return number(types[H5Tget_sign(type) == H5T_SGN_2][i], out);
}

/* Bits have no order that numbers would have; as many as a number has. */
static bool bits_of(hid_t type, const char *path, element *out)
{
    const size_t size = H5Tget_size(type);
    const hid_t memory = size == 1   ? H5T_NATIVE_B8
                         : size == 2 ? H5T_NATIVE_B16
                         : size == 4 ? H5T_NATIVE_B32
                         : size == 8 ? H5T_NATIVE_B64
                                     : -1;

    if (memory < 0)
        return fail(STK_EKIND, "'%.200s' holds fields of %zu bytes of bits", path, size);
    if (!integer_of(type, path, out))
        return false;
    H5Tclose(out->memory);
    out->memory = H5Tcopy(memory);
    return true;
}

/* Floats of two bytes are none of the compiler's: they are told by their fields. */
static bool short_float_of(hid_t type, element *out)
{
    static const struct {
        uint32_t dtype;
        size_t exponent_at, exponent, fraction;
    } known[] = {{STK_FLOAT16, 10, 5, 10}, {STK_BFLOAT16, 7, 8, 7}};
    size_t sign, at, exponent, fraction_at, fraction;

    if (H5Tget_size(type) != 2 ||
        H5Tget_fields(type, &sign, &at, &exponent, &fraction_at, &fraction) < 0)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (sign != 15 || at != known[i].exponent_at || exponent != known[i].exponent ||
            fraction_at != 0 || fraction != known[i].fraction)
            continue;
        out->type = known[i].dtype;
        out->itemsize = 2;
        out->memory = H5Tcopy(type);
        return H5Tset_order(out->memory, H5T_ORDER_LE) >= 0;
    }
    return false;
}

static bool float_of(hid_t type, element *out)
{
    if (short_float_of(type, out))
        return true;
    return number(H5Tget_size(type) <= 4 ? STK_FLOAT32 : STK_FLOAT64, out);
}

static bool enumeration_of(hid_t type, const char *path, element *out)
{
    const hid_t base = H5Tget_super(type);
    const bool done = base >= 0 && integer_of(base, path, out);

    H5Tclose(base);
    return done;
}

/* ---- Texts and records ---- */

static bool text_of(hid_t type, element *out)
{
    out->utf8 = H5Tget_cset(type) == H5T_CSET_UTF8;
    out->varies = H5Tis_variable_str(type) > 0;
    out->type = out->varies && out->utf8 ? STK__WIRE_UNICODE : STK__WIRE_TEXT;
    out->memory = H5Tcopy(type);
    if (out->varies)
        return out->memory >= 0;
    out->itemsize = H5Tget_size(type);
    return H5Tset_strpad(out->memory, H5T_STR_NULLPAD) >= 0;
}

/* Two floats that h5py and others call complex. */
static bool complex_of(hid_t type, element *out)
{
    bool is = H5Tget_nmembers(type) == 2;
    size_t size = 0;

    for (unsigned i = 0; is && i < 2; i++) {
        static const char *const names[] = {"r", "i"};
        const hid_t member = H5Tget_member_type(type, i);
        char *name = H5Tget_member_name(type, i);
        is = name && strcmp(name, names[i]) == 0 && H5Tget_class(member) == H5T_FLOAT &&
             (i == 0 || H5Tget_size(member) == size);
        size = H5Tget_size(member);
        H5free_memory(name);
        H5Tclose(member);
    }
    if (!is || (size != 4 && size != 8))
        return false;
    out->type = size == 4 ? STK_COMPLEX64 : STK_COMPLEX128;
    out->itemsize = 2 * size;
    out->memory = H5Tcreate(H5T_COMPOUND, 2 * size);
    const hid_t part = size == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
    return H5Tinsert(out->memory, "r", 0, part) >= 0 &&
           H5Tinsert(out->memory, "i", size, part) >= 0;
}

/* A record without anything that points elsewhere is bytes. */
static bool record_of(hid_t type, const char *path, element *out)
{
    if (H5Tget_class(type) == H5T_COMPOUND && complex_of(type, out))
        return true;
    for (int i = 0; H5Tget_class(type) == H5T_COMPOUND && i < H5Tget_nmembers(type); i++) {
        const hid_t member = H5Tget_member_type(type, (unsigned)i);
        const H5T_class_t class = H5Tget_class(member);
        H5Tclose(member);
        if (class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM &&
            class != H5T_BITFIELD && class != H5T_OPAQUE)
            return fail(STK_EKIND,
                        "'%.200s' holds records of more than numbers: only those of numbers are "
                        "read, as bytes",
                        path);
    }
    out->type = STK__WIRE_RAW;
    out->itemsize = H5Tget_size(type);
    out->memory = H5Tcopy(type);
    return out->memory >= 0;
}

bool element_of(hid_t type, const char *path, element *out)
{
    *out = (element){.memory = -1};
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        return integer_of(type, path, out);
    case H5T_BITFIELD:
        return bits_of(type, path, out);
    case H5T_ENUM:
        return enumeration_of(type, path, out);
    case H5T_FLOAT:
        return float_of(type, out);
    case H5T_STRING:
        return text_of(type, out);
    case H5T_OPAQUE:
    case H5T_COMPOUND:
        return record_of(type, path, out);
    case H5T_REFERENCE:
        return fail(STK_EKIND, "'%.200s' holds references, which are not read", path);
    case H5T_VLEN:
        return fail(STK_EKIND, "'%.200s' holds lists of any length, which are not read", path);
    case H5T_ARRAY:
        return fail(STK_EKIND, "'%.200s' holds arrays as elements, which are not read", path);
    default:
        return fail(STK_EKIND, "'%.200s' holds elements of a class that is not read", path);
    }
}
