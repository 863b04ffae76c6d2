/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `synthetic:` that are more than a number: shapes and ranges of sizes. */
#include "dataset/synthetic.h"

/* A number of at most STK_SYNTHETIC_BYTES; moves *text behind it. */
static bool parse_number(const char **text, uint64_t *out)
{
    const char *p = *text;

    for (*out = 0; *p >= '0' && *p <= '9' && *out <= STK_SYNTHETIC_BYTES; p++)
        *out = *out * 10 + (uint64_t)(*p - '0');
    bool good = p != *text && *out <= STK_SYNTHETIC_BYTES;
    *text = p;
    return good;
}

stk_status stk__synthetic_shape(const char *text, stk_field *field, stk_error *err)
{
    int64_t shape[STK_MAX_RANK + 1];
    uint32_t rank = 0;
    const char *p = text;
    uint64_t bytes = 0, side = 0;
    bool good = true;

    for (bool more = true; more && good; p += more) {
        good = rank < STK_MAX_RANK && parse_number(&p, &side);
        if (good)
            shape[rank++] = (int64_t)side;
        more = *p == 'x';
    }
    shape[rank] = -1;
    good = good && *p == 0 && stk__shape_bytes(shape, rank, stk_dtype_size(field->dtype), &bytes) &&
           bytes > 0 && bytes <= STK_SYNTHETIC_BYTES;
    if (!good)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_OPTIONS, "shape", STK_NO_OFFSET,
            "shape=%.100s is no shape of 1 to %d dimensions and at most 1 GiB; give one as "
            "28x28x1",
            text, STK_MAX_RANK);
    *field = stk__field(rank == 3 ? "image" : "data", field->dtype, shape, rank == 3);
    return STK_OK;
}

stk_status stk__synthetic_span(const char *name, const char *text, uint64_t itemsize,
                               stk__span *out, stk_error *err)
{
    const char *p = text;
    bool good = parse_number(&p, &out->low);

    out->high = out->low;
    if (good && strncmp(p, "..", 2) == 0) {
        p += 2;
        good = parse_number(&p, &out->high);
    }
    if (!good || *p || out->high < out->low || out->high * itemsize > STK_SYNTHETIC_BYTES)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                            "%s=%.100s is no range of sizes; give one as 1..100, at most 1 GiB",
                            name, text);
    return STK_OK;
}
