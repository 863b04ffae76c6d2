/* SPDX-License-Identifier: Apache-2.0 */
/* What the arrays of joined files must have in common, and how their coordinates go on. */
#include <stdio.h>
#include <stdlib.h>

#include "array/concat.h"
#include "array/skipping.h"

#include "base/text.h"

/* Attributes that say what stored values mean; the last ones of times are compared by what they
 * say. */
static const char *const meaning[] = {"scale_factor", "add_offset", "_FillValue", "missing_value",
                                      "_Unsigned",    "units",      "calendar"};
#define OF_TIMES 2

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
                        "array.concat: %.200s has no dimension '%.64s', but: %s", a->metadata_key,
                        name, bytes);
}

bool stk__concat_has(const stk_array *a, const char *name)
{
    uint32_t d = 0;

    if (!a->names)
        return stk__concat_dimension(a, name, &d, NULL) == STK_OK;
    while (d < a->rank && !(a->names[d] && strcmp(a->names[d], name) == 0))
        d++;
    return d < a->rank;
}

static bool same_attributes(const stk_array *a, const stk_array *b, size_t count,
                            const char **which)
{
    for (size_t i = 0; i < count; i++) {
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

/* Chunks encoded alike, of one shape; along the dimension it may be another where a shorter one has
 * the first elements of a longer one. Those of one run follow from the shape. */
static bool same_chunks(const stk_array *a, const stk_array *b, uint32_t dimension)
{
    const char *one = stk__array_codecs(a), *two = stk__array_codecs(b);

    if (a->manifest != b->manifest || a->order != b->order || a->fortran != b->fortran)
        return false;
    if ((one || two) && (!one || !two || strcmp(one, two) != 0))
        return false;
    const bool any = stk__concat_runs(a, dimension);
    for (uint32_t d = 0; a->manifest != STK__MANIFEST_ONE && d < a->rank; d++)
        if (a->levels[0].shape[d] != b->levels[0].shape[d] && !(any && d == dimension))
            return false;
    return true;
}

/* Whether the elements of both mean the same, whatever their chunks. */
static stk_status alike_but_chunks(const stk_array *first, const stk_array *other,
                                   uint32_t dimension, bool *converts, stk_error *err)
{
    bool alike = true;
    const char *which;
    char text[96];

    if (other->rank != first->rank)
        return differs(first, other, "another number of dimensions", err);
    if (strcmp(other->type.name, first->type.name) != 0 ||
        other->type.big_endian != first->type.big_endian)
        return differs(first, other, "another type or byte order", err);
    if (!same_shape(first, other, dimension))
        return differs(first, other, "other dimensions", err);
    if (memcmp(other->fill, first->fill, first->type.itemsize) != 0)
        return differs(first, other, "another fill value", err);
    const bool times = stk__concat_times(first, other, &alike);
    if (same_attributes(first, other, STK_COUNT(meaning) - (times ? OF_TIMES : 0), &which)) {
        *converts |= times && !alike;
        return STK_OK;
    }
    snprintf(text, sizeof text, "another '%s'", which);
    return differs(first, other, text, err);
}

stk_status stk__concat_same(const stk_array *first, const stk_array *other, uint32_t dimension,
                            bool *converts, stk_error *err)
{
    STK_TRY(alike_but_chunks(first, other, dimension, converts, err));
    if (*converts || same_chunks(first, other, dimension))
        return STK_OK;
    return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, other->metadata_key, STK_NO_OFFSET,
                        "%.300s has other chunks or codecs than %.300s, so they do not make one "
                        "array; give both the same, as 'stoker convert FILE NEW.nc --chunks' does",
                        other->metadata_key, first->metadata_key);
}

stk_status stk__concat_equal(stk_array *first, stk_array *other, stk_error *err)
{
    stk_context *ctx = first->context;
    bool converts = false;

    STK_TRY(alike_but_chunks(first, other, first->rank, &converts, err));
    if (converts)
        return differs(first, other, "another 'units'", err);
    if (first->bytes == 0 || first->bytes > STK__CONCAT_COMPARED || stk__type_varies(&first->type))
        return STK_OK;
    char *values = stk__alloc(ctx, 2 * first->bytes);
    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to compare files");
    stk_status status = stk_array_read(first, NULL, values, first->bytes, NULL, -1, err);
    if (status == STK_OK)
        status = stk_array_read(other, NULL, values + first->bytes, first->bytes, NULL, -1, err);
    if (status == STK_OK && memcmp(values, values + first->bytes, first->bytes) != 0)
        status = differs(first, other, "other values", err);
    stk__free(ctx, values);
    return status;
}

/* ---- Coordinates ---- */

typedef struct end {
    int64_t key;
    char text[STK__DATE_TEXT];
} end;

static stk_status read_end(stk_array *a, const stk__coordinate *c, int64_t at, end *out,
                           stk_error *err)
{
    unsigned char value[16];
    const int64_t one = 1;

    STK_TRY(stk_array_read(a, &(stk_array_box){&at, &one, NULL}, value, a->type.itemsize, NULL, -1,
                           err));
    stk__coordinate_keys(c, a, value, 1, &out->key);
    if (stk_array_time_text(a, value, out->text, sizeof out->text) == 0)
        (void)stk_array_value_text(a, value, out->text, sizeof out->text);
    return STK_OK;
}

static stk_status step(stk__concat_ends *ends, const stk_array *a, const end *next, stk_error *err)
{
    const int direction = next->key > ends->last ? 1 : -1;

    if (ends->any && (next->key == ends->last || (ends->direction && direction != ends->direction)))
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%.300s: the coordinate comes to %s behind the %s of what stands "
                            "before it; files are joined in the order of their names: rename them, "
                            "or list them in theirs, as a.nc,b.nc",
                            a->metadata_key, next->text, ends->text);
    if (ends->any)
        ends->direction = direction;
    ends->any = true;
    ends->last = next->key;
    memcpy(ends->text, next->text, sizeof ends->text);
    return STK_OK;
}

/* Instants of two calendars do not compare, nor do dates and numbers. */
static stk_status same_meaning(const stk__concat_ends *ends, const stk_array *a,
                               const stk__coordinate *c, stk_error *err)
{
    const stk__coordinate *before = &ends->meaning;

    if (!ends->any ||
        (before->is_time == c->is_time && (!c->is_time || before->calendar == c->calendar)))
        return STK_OK;
    return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "%.300s: the coordinate has %s than that of the file before it, so they do "
                        "not make one array; convert one of them, or join others",
                        a->metadata_key,
                        before->is_time && c->is_time ? "another calendar"
                        : c->is_time                  ? "dates rather"
                                                      : "numbers without dates rather");
}

/* Units that are not read, as "months since", are of plain numbers while they stay the same. False:
 * the values are not to be compared. */
static bool take_meaning(stk__concat_ends *ends, const stk_array *a, stk__coordinate *out)
{
    const char *text = stk_array_text(a, "units");
    char units[sizeof ends->units] = "";
    double none[1];

    if (a->rank != 1)
        return false;
    if (stk__coordinate_init(a, out, NULL) != STK_OK) {
        if (!stk__array_numbers(&a->type, none, 0, none))
            return false;
        *out = (stk__coordinate){.down = 1, .scale = 1};
        snprintf(units, sizeof units, "%s", text ? text : "");
    }
    const bool same = !ends->any || strcmp(units, ends->units) == 0;
    memcpy(ends->units, units, sizeof units);
    return same;
}

stk_status stk__concat_follow(stk__concat_ends *ends, stk_array *a, stk_error *err)
{
    stk__coordinate c;
    end first, last;

    if (ends->unknown || a->bytes == 0)
        return STK_OK;
    if (!take_meaning(ends, a, &c)) {
        ends->unknown = true;
        return STK_OK;
    }
    STK_TRY(same_meaning(ends, a, &c, err));
    STK_TRY(read_end(a, &c, 0, &first, err));
    STK_TRY(read_end(a, &c, a->shape[0] - 1, &last, err));
    if (first.key == STK__COORDINATE_NONE || last.key == STK__COORDINATE_NONE) {
        ends->unknown = true;
        return STK_OK;
    }
    STK_TRY(step(ends, a, &first, err));
    ends->meaning = c;
    return a->shape[0] > 1 ? step(ends, a, &last, err) : STK_OK;
}
