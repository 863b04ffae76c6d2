/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed pictures that have shapes of their own: one range of `bytes` each, which is a PPM. It goes
 * through the decoder as any picture, which gives the rows and columns of the box that is wanted
 * and computes nothing.
 */
#include "dataset/packed.h"

#include <inttypes.h>
#include <stdio.h>

#include "codec/image/image.h"

#define CHANNELS    3
#define COST_NS     2000.0 /* of preparing a picture: to begin, and of each byte */
#define PIXEL_NS    0.2
#define MOST_SIDE   INT64_C(9999999) /* of a PPM that is read */
#define MOST_PIXELS INT64_C(0x40000000)

static stk_status wrong_row(stk_error *err, const char *array, uint64_t row, const char *what)
{
    char text[160];

    snprintf(text, sizeof text, "%s, of picture %" PRIu64, what, row);
    return stk__packed_wrong(err, array, text);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static stk_status read_integers(stk__packed_set *d, const char *path, int64_t width, int64_t **out,
                                stk_error *err)
{
    stk_array *array = NULL;
    void *values = NULL;

    if (!stk__packed_has(d, path))
        return stk__packed_wrong(err, path, "is missing");
    stk_status status = stk__packed_column(d, path, width, &array, &values, err);
    if (status == STK_OK && stk_array_get_info(array)->dtype != STK_INT64)
        status = stk__packed_wrong(err, path, "is not of int64");
    stk_array_close(&array);
    *out = values;
    return status;
}

static stk_status open_bytes(stk__packed_set *d, stk_error *err)
{
    STK_TRY(stk_group_array(d->group, "bytes", NULL, &d->bytes, err));
    const stk_array_info *info = stk_array_get_info(d->bytes);
    if (info->rank != 1 || info->dtype != STK_UINT8)
        return stk__packed_wrong(err, "bytes", "is no uint8 of one dimension");
    if (!stk__array_is_plain(d->bytes) || info->shard_shape[0] != info->chunk_shape[0])
        return stk__packed_wrong(err, "bytes",
                                 "is compressed, or in shards, where pictures are to "
                                 "lie as they are");
    return STK_OK;
}

/* How many rows there are, `offset` says. */
static stk_status count_rows(stk__packed_set *d, stk_error *err)
{
    stk_array *array = NULL;

    if (!stk__packed_has(d, "offset"))
        return stk__packed_wrong(err, "offset", "is missing");
    STK_TRY(stk_group_array(d->group, "offset", NULL, &array, err));
    const stk_array_info *info = stk_array_get_info(array);
    d->rows = info->rank == 1 ? (uint64_t)info->shape[0] : 0;
    stk_array_close(&array);
    return d->rows ? STK_OK : stk__packed_wrong(err, "offset", "has no rows");
}

stk_status stk__packed_ragged_open(stk__packed_set *d, stk_error *err)
{
    STK_TRY(open_bytes(d, err));
    STK_TRY(count_rows(d, err));
    const uint64_t all = (uint64_t)stk_array_get_info(d->bytes)->shape[0];
    d->picture_bytes = STK_MAX(all / d->rows, 1); /* in the mean */
    STK_TRY(read_integers(d, "offset", 0, &d->offsets, err));
    return read_integers(d, "shape", CHANNELS, &d->shapes, err);
}

static uint64_t pixel_bytes(const stk__packed_set *d, uint64_t row)
{
    return (uint64_t)d->shapes[3 * row] * (uint64_t)d->shapes[3 * row + 1] * CHANNELS;
}

static size_t head_of(const stk__packed_set *d, uint64_t row, char head[STK__PPM_HEAD])
{
    return stk__ppm_head((uint32_t)d->shapes[3 * row + 1], (uint32_t)d->shapes[3 * row], head);
}

/* One row against `bytes` and the row before it, which ends at *end. */
static stk_status check_row(const stk__packed_set *d, uint64_t row, uint64_t *end, stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(d->bytes);
    const int64_t *shape = &d->shapes[3 * row], offset = d->offsets[row];
    char head[STK__PPM_HEAD];

    if (shape[2] != CHANNELS || shape[0] < 1 || shape[1] < 1 || shape[0] > MOST_SIDE ||
        shape[1] > MOST_SIDE || shape[1] > MOST_PIXELS / shape[0])
        return wrong_row(err, "shape", row, "has no height and width of 3 channels, or too large");
    const uint64_t first = head_of(d, row, head), bytes = pixel_bytes(d, row);
    if (offset < 0 || (uint64_t)offset < first || (uint64_t)offset - first < *end)
        return wrong_row(err, "offset", row, "begins within the picture before it");
    if ((uint64_t)offset > (uint64_t)info->shape[0] ||
        bytes > (uint64_t)info->shape[0] - (uint64_t)offset)
        return wrong_row(err, "offset", row, "leads beyond the end of 'bytes'");
    const uint64_t chunk = (uint64_t)info->chunk_shape[0];
    *end = (uint64_t)offset + bytes;
    if (((uint64_t)offset - first) / chunk != (*end - 1) / chunk)
        return wrong_row(err, "offset", row, "leads from one chunk of 'bytes' to the next");
    return STK_OK;
}

stk_status stk__packed_ragged_check(const stk__packed_set *d, stk_error *err)
{
    uint64_t end = 0;

    for (uint64_t i = 0; i < d->base.size; i++)
        STK_TRY(check_row(d, stk__packed_row(d, i), &end, err));
    return STK_OK;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static stk_status ragged_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    const stk__packed_set *d = (const stk__packed_set *)dataset;
    const uint64_t chunk = (uint64_t)stk_array_get_info(d->bytes)->chunk_shape[0];
    char head[STK__PPM_HEAD];

    for (size_t i = 0; i < n; i++) {
        const uint64_t row = stk__packed_row(d, indices[i]), bytes = pixel_bytes(d, row);
        const uint64_t first = (uint64_t)d->offsets[row] - head_of(d, row, head);
        const stk_need need = {.object = first / chunk,
                               .offset = first % chunk,
                               .length = (uint64_t)d->offsets[row] + bytes - first};
        STK_TRY(stk__array_unchanged(d->bytes, need.object, false, err));
        STK_TRY(to->add(to, i, &need));
        to->bytes(to, i, 0, need.length);
        to->cost(to, i, COST_NS + PIXEL_NS * (double)bytes);
    }
    return STK_OK;
}

static size_t ragged_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                            size_t size)
{
    const stk__packed_set *d = (const stk__packed_set *)dataset;
    char none[1]; /* of a caller that asks for the length */

    *store = stk__array_store(d->bytes);
    return stk__array_key(d->bytes, object, size ? key : none, size);
}

static void ragged_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__packed_set *d = (const stk__packed_set *)dataset;
    char head[STK__PPM_HEAD];

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        const uint64_t row = stk__packed_row(d, s->index);
        const size_t length = head_of(d, row, head);
        if (s->needs[0].size < length || memcmp(s->needs[0].data, head, length) != 0) {
            s->status = STK_EFORMAT;
            s->reason = "what lies in 'bytes' before the offset is no PPM of the picture's shape; "
                        "pack it again";
            continue;
        }
        s->values[0].data = s->needs[0].data;
        s->values[0].size = s->needs[0].size;
        memcpy(s->values[1].out, &d->labels[row], sizeof *d->labels);
        s->values[1].data = s->values[1].out;
        s->values[1].size = sizeof *d->labels;
    }
}

const stk_dataset_ops stk__packed_ragged = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "images",
    .doc = "Pictures of their own shapes that need no decoding, in Zarr.",
    .close = stk__packed_close,
    .locate = ragged_locate,
    .object = ragged_object,
    .prepare = ragged_prepare,
    .describe = stk__packed_describe,
};
