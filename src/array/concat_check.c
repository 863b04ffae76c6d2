/* SPDX-License-Identifier: Apache-2.0 */
/* What the arrays of joined files must have in common, and how their coordinates go on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/concat.h"

#include "base/text.h"

/* Attributes that say what stored values mean. */
static const char *const meaning[] = {"scale_factor", "add_offset", "_FillValue", "missing_value",
                                      "units",        "calendar",   "_Unsigned"};

static stk_status differs(const stk_array *first, const stk_array *other, const char *what,
                          stk_error *err)
{
    return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, other->metadata_key, STK_NO_OFFSET,
                        "%.300s has %s than %.300s, so they do not make one array; convert one of "
                        "them, or join others",
                        other->metadata_key, what, first->metadata_key);
}

stk_status stk__concat_dimension(const stk_array *a, const char *name, uint32_t *dimension,
                                 stk_error *err)
{
    char *end;

    for (*dimension = 0; *dimension < a->rank; ++*dimension)
        if (a->names && a->names[*dimension] && strcmp(a->names[*dimension], name) == 0)
            return STK_OK;
    const unsigned long number = strtoul(name, &end, 10);
    if (end != name && !*end && name[0] != '-' && number < a->rank) {
        *dimension = (uint32_t)number;
        return STK_OK;
    }
    char bytes[256] = "";
    stk__text known = {.bytes = bytes, .room = sizeof bytes};
    for (uint32_t d = 0; d < a->rank; d++)
        stk__text_add(&known, "%s%s", d ? ", " : "",
                      a->names && a->names[d] ? a->names[d] : "(no name)");
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "concat", STK_NO_OFFSET,
                        "array.concat: %.200s has no dimension '%.64s', but: %s",
                        a->metadata_key, name, bytes);
}

static bool same_attributes(const stk_array *a, const stk_array *b, const char **which)
{
    for (size_t i = 0; i < STK_COUNT(meaning); i++) {
        const json_t *one = json_object_get(a->attributes.value, meaning[i]);
        const json_t *two = json_object_get(b->attributes.value, meaning[i]);
        *which = meaning[i];
        if (one != two && (!one || !two || !json_equal((json_t *)one, (json_t *)two)))
            return false;
    }
    return true;
}

/* The name of the dimension, and the sizes of all others. */
static bool same_shape(const stk_array *a, const stk_array *b, uint32_t dimension)
{
    for (uint32_t d = 0; d < a->rank; d++) {
        const char *one = a->names ? a->names[d] : NULL, *two = b->names ? b->names[d] : NULL;
        if ((one || two) && (!one || !two || strcmp(one, two) != 0))
            return false;
        if (d != dimension && a->shape[d] != b->shape[d])
            return false;
    }
    return true;
}

bool stk__concat_runs(const stk_array *a, uint32_t dimension)
{
    for (uint32_t d = 0; d < dimension; d++)
        if (a->levels[0].shape[d] != 1)
            return false;
    return a->order == 'C';
}

/* Chunks encoded alike, of one shape; along the dimension it may be another where they are as the
 * type says. Those of one run follow from the shape. */
static bool same_chunks(const stk_array *a, const stk_array *b, uint32_t dimension)
{
    const char *one = stk__array_codecs(a), *two = stk__array_codecs(b);

    if (a->manifest != b->manifest || a->order != b->order || a->fortran != b->fortran)
        return false;
    if ((one || two) && (!one || !two || strcmp(one, two) != 0))
        return false;
    const bool any = a->as_is && stk__concat_runs(a, dimension);
    for (uint32_t d = 0; a->manifest != STK__MANIFEST_ONE && d < a->rank; d++)
        if (a->levels[0].shape[d] != b->levels[0].shape[d] && !(any && d == dimension))
            return false;
    return true;
}

stk_status stk__concat_same(const stk_array *first, const stk_array *other, uint32_t dimension,
                            stk_error *err)
{
    char text[96];
    const char *which;

    if (other->rank != first->rank)
        return differs(first, other, "another number of dimensions", err);
    if (strcmp(other->type.name, first->type.name) != 0 ||
        other->type.big_endian != first->type.big_endian)
        return differs(first, other, "another type or byte order", err);
    if (!same_shape(first, other, dimension))
        return differs(first, other, "other dimensions", err);
    if (!same_chunks(first, other, dimension))
        return differs(first, other, "other chunks or codecs", err);
    if (memcmp(other->fill, first->fill, first->type.itemsize) != 0)
        return differs(first, other, "another fill value", err);
    if (same_attributes(first, other, &which))
        return STK_OK;
    snprintf(text, sizeof text, "another '%s'", which);
    return differs(first, other, text, err);
}

/* ---- Coordinates ---- */

static stk_status read_end(stk_array *a, int64_t at, double *out, stk_error *err)
{
    unsigned char value[16];
    const int64_t one = 1;

    *out = NAN;
    if (a->rank != 1 || a->type.itemsize > sizeof value || at < 0)
        return STK_OK;
    STK_TRY(stk_array_read(a, &(stk_array_box){&at, &one, NULL}, value, a->type.itemsize, NULL, -1,
                           err));
    if (!stk__array_numbers(&a->type, value, 1, out))
        *out = NAN;
    return STK_OK;
}

static stk_status step(stk__concat_ends *ends, const stk_array *a, double value, stk_error *err)
{
    const int direction = value > ends->last ? 1 : -1;

    if (ends->any && (value == ends->last || (ends->direction && direction != ends->direction)))
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%.300s: the coordinate comes to %.10g behind the %.10g of what stands "
                            "before it; files are joined in the order of their names: rename them, "
                            "or list them in theirs, as a.nc,b.nc",
                            a->metadata_key, value, ends->last);
    if (ends->any)
        ends->direction = direction;
    ends->any = true;
    ends->last = value;
    return STK_OK;
}

stk_status stk__concat_follow(stk__concat_ends *ends, stk_array *a, stk_error *err)
{
    double first, last;

    if (ends->unknown || a->bytes == 0)
        return STK_OK;
    STK_TRY(read_end(a, 0, &first, err));
    STK_TRY(read_end(a, a->shape[0] - 1, &last, err));
    if (isnan(first) || isnan(last)) {
        ends->unknown = true;
        return STK_OK;
    }
    STK_TRY(step(ends, a, first, err));
    return a->shape[0] > 1 ? step(ends, a, last, err) : STK_OK;
}
