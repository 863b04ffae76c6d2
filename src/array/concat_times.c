/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of times whose files count them in units of their own, as xarray writes them ("days since
 * 2001-01-01" in the file of 2001), as one list in the units of the first. It is held in memory.
 */
#include "array/concat.h"
#include "array/coordinate.h"

#define MOST_BYTES (UINT64_C(1) << 26)

/* Times whose numbers another unit may take the place of. */
static bool take(const stk_array *a, stk__coordinate *out)
{
    return a->rank == 1 && a->type.itemsize <= sizeof(uint64_t) &&
           stk__coordinate_init(a, out, NULL) == STK_OK && out->is_time && !out->months &&
           out->scale == 1 && out->offset == 0;
}

bool stk__concat_times(const stk_array *first, const stk_array *other, bool *same)
{
    stk__coordinate one, two;

    if (!take(first, &one) || !take(other, &two) || one.calendar != two.calendar)
        return false;
    *same = one.origin == two.origin && one.up == two.up && one.down == two.down;
    return true;
}

static stk_status not_told(const stk_array *first, const stk_array *file, int64_t at,
                           const void *value, stk_error *err)
{
    const char *units = stk_array_text(first, "units");
    char text[STK__DATE_TEXT];

    if (stk_array_time_text(file, value, text, sizeof text) == 0)
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, file->metadata_key, STK_NO_OFFSET,
                            "%.200s: element %lld of the times is no date, which files with units "
                            "of their own need to be joined",
                            file->metadata_key, (long long)at);
    return stk__fail_at(
        err, STK_EMISMATCH, STK_STAGE_ARRAY, file->metadata_key, STK_NO_OFFSET,
        "%.200s: %s is not to be told as %s of '%.100s', the units of %.200s, which "
        "the joined times have; write the files with one unit that suits all, as "
        "'hours since 1900-01-01'",
        file->metadata_key, text, file->type.name, units ? units : "", first->metadata_key);
}

/* The times of one file, in the units of the first. */
static stk_status read_file(const stk_array *first, stk_array *file, char *out, stk_error *err)
{
    const size_t size = file->type.itemsize;
    stk__coordinate from, to;
    unsigned char value[8];

    STK_TRY(stk__coordinate_init(first, &to, err));
    STK_TRY(stk__coordinate_init(file, &from, err));
    STK_TRY(stk_array_read(file, NULL, out, file->bytes, NULL, -1, err));
    if (from.origin == to.origin && from.up == to.up && from.down == to.down)
        return STK_OK;
    for (int64_t i = 0; i < file->shape[0]; i++, out += size) {
        memcpy(value, out, size);
        if (!stk__coordinate_convert(&from, &to, file, out))
            return not_told(first, file, i, value, err);
    }
    return STK_OK;
}

stk_status stk__concat_times_read(stk_array *const *files, size_t count, int64_t elements,
                                  void **out, stk_error *err)
{
    const stk_array *first = files[0];
    stk_context *ctx = first->context;
    stk_status status = STK_OK;
    uint64_t bytes, at = 0;

    *out = NULL;
    if (!stk__mul_size((uint64_t)elements, first->type.itemsize, &bytes) || bytes > MOST_BYTES)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, first->metadata_key, STK_NO_OFFSET,
                            "%.200s: times whose files have units of their own are held in memory, "
                            "and these have more than 64 MiB; write the files with one unit",
                            first->metadata_key);
    char *values = stk__alloc(ctx, STK_MAX(bytes, 1));
    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for joined times");
    for (size_t i = 0; i < count && status == STK_OK; at += files[i++]->bytes)
        if (files[i]->bytes)
            status = read_file(first, files[i], values + at, err);
    if (status != STK_OK) {
        stk__free(ctx, values);
        return status;
    }
    *out = values;
    return STK_OK;
}
