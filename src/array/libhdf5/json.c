/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of frames -> members of a JSON object. */
#include <inttypes.h>

#include "array/hdf5/netcdf.h"
#include "array/libhdf5/child.h"

#include "base/text.h"

static void add_number(stk__text *to, stk_dtype dtype, const void *value)
{
    int64_t n = 0;
    uint64_t u = 0;

    switch (dtype) {
    case STK_INT64:
        memcpy(&n, value, sizeof n);
        stk__text_add(to, "%" PRId64, n);
        return;
    case STK_UINT64:
        memcpy(&u, value, sizeof u);
        stk__text_add(to, "%" PRIu64, u);
        return;
    default:
        if (stk__dtype_is_float(dtype))
            stk__text_add_real(to, stk__element_as_double(value, dtype));
        else
            stk__text_add(to, "%" PRId64, (int64_t)stk__element_as_double(value, dtype));
    }
}

static bool is_number(uint32_t type)
{
    return type > STK_DTYPE_NONE && type < STK_COMPLEX64;
}

static bool add_values(stk__wire_in *in, uint32_t type, uint64_t count, stk__text *to)
{
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        if (i)
            stk__text_put(to, ", ", 2);
        if (type == STK__WIRE_TEXT) {
            stk__text_add_json(to, stk__wire_text(in));
        } else {
            const void *value = stk__wire_take(in, stk_dtype_size((stk_dtype)type));
            if (value)
                add_number(to, (stk_dtype)type, value);
        }
    }
    return stk__wire_end(in);
}

bool stk__libhdf5_attribute(stk__wire_in *in, stk__text *object, bool *skipped)
{
    const char *name = stk__wire_text(in);
    const uint32_t type = stk__wire_u32(in);
    const uint64_t count = stk__wire_u64(in);
    const bool scalar = stk__wire_u8(in) != 0;

    *skipped = type == STK__WIRE_OTHER && !stk__netcdf_keeps(name);
    if (type == STK__WIRE_OTHER)
        return stk__wire_end(in);
    if (stk__netcdf_keeps(name))
        return !in->bad;
    if (in->bad || !*name || (type != STK__WIRE_TEXT && !is_number(type)) || count > in->left ||
        (scalar && count != 1))
        return false;
    if (object->length > 1)
        stk__text_put(object, ", ", 2);
    stk__text_add_json(object, name);
    stk__text_put(object, ": ", 2);
    /* NetCDF knows no difference between one value and a list of one. */
    const bool list = count != 1;
    if (list)
        stk__text_put(object, "[", 1);
    const bool good = add_values(in, type, count, object);
    if (list)
        stk__text_put(object, "]", 1);
    return good;
}
