/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures, labels and names -> what becomes of them, shards, and the arrays that hold them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/lines.h"
#include "codec/image/image.h"
#include "convert/packed.h"

#define MOST_SIDE    UINT64_C(16384)
#define LEAST_CHUNK  UINT64_C(16384)     /* bytes of a chunk of small pictures */
#define MOST_ROWS    (UINT64_C(1) << 18) /* of a shard, and of a group of shards */
#define RAGGED_ROWS  (UINT64_C(1) << 16) /* of a group */
#define MOST_SHARDS  UINT64_C(64)        /* of a group */
#define MOST_PICTURE (UINT64_C(1) << 31) /* bytes */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to lay out packed pictures");
}

/* ---- What becomes of a picture --------------------------------------------------------------- */

/* "256x256", or "256" for both. */
static stk_status read_size(stk__packed *p, const char *text, stk_error *err)
{
    const char *at = text;
    uint64_t height = 0, width = 0;

    bool good = stk__take_uint(&at, &height);
    width = height;
    if (good && *at)
        good = stk__take(&at, 'x') && stk__take_uint(&at, &width);
    if (!good || *at || !height || !width || height > MOST_SIDE || width > MOST_SIDE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "packed.size: '%.40s' is no size; write HEIGHTxWIDTH, from 1x1 to "
                         "%" PRIu64 "x%" PRIu64,
                         text, MOST_SIDE, MOST_SIDE);
    p->height = (int64_t)height;
    p->width = (int64_t)width;
    return STK_OK;
}

static stk_status make_pipeline(stk__packed *p, stk_error *err)
{
    const stk_field *field = &p->dataset->fields[p->image];
    stk_transform_header header = {
        .dtype = STK_UINT8, .rank = 3, .picture = true, .encoded = p->encoded};

    memcpy(header.shape, field->shape, 3 * sizeof *header.shape);
    const bool same = !p->encoded && header.shape[0] == p->height && header.shape[1] == p->width;
    if (same)
        return STK_OK;
    snprintf(p->transforms, sizeof p->transforms, "resize(%lld), center_crop(%lldx%lld)",
             (long long)STK_MAX(p->height, p->width), (long long)p->height, (long long)p->width);
    STK_TRY(stk__pipeline_create(p->context, p->transforms, &header, &p->pipeline, err));
    p->scratch = stk__pipeline_scratch(p->pipeline);
    return STK_OK;
}

/* The sides of the pictures where the options do not say them. */
static stk_status own_size(stk__packed *p, stk_error *err)
{
    const stk_field *field = &p->dataset->fields[p->image];

    p->height = field->shape[0];
    p->width = field->shape[1];
    if (!p->encoded && p->height > 0 && p->width > 0)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the pictures of %.200s differ in size: set packed.size, as 256x256, to have "
                     "them all of one, or packed.short_side, as 256, to keep their shapes",
                     p->job->source);
}

stk_status stk__packed_choose(stk__packed *p, stk_error *err)
{
    const char *size = p->own->size;
    const bool sized = size && *size;

    p->channels = p->dataset->fields[p->image].shape[2];
    p->short_side = p->own->short_side;
    p->ragged = p->short_side > 0;
    if (sized && p->ragged)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "packed.size makes all pictures of one size, packed.short_side keeps "
                         "their shapes; leave one of them out");
    if (p->ragged && p->channels != 3)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_OPTIONS,
                         "packed.short_side is for pictures of three channels, and those of %.200s "
                         "have %lld; set packed.size",
                         p->job->source, (long long)p->channels);
    if (p->ragged) {
        snprintf(p->transforms, sizeof p->transforms, "resize(%" PRIu64 ")", p->short_side);
        return STK_OK;
    }
    STK_TRY(sized ? read_size(p, size, err) : own_size(p, err));
    if (!stk__mul_size((uint64_t)p->height, (uint64_t)p->width, &p->picture_bytes) ||
        !stk__mul_size(p->picture_bytes, (uint64_t)p->channels, &p->picture_bytes) ||
        p->picture_bytes > MOST_PICTURE)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_OPTIONS,
                         "a picture of %lldx%lldx%lld bytes is too large; set a smaller "
                         "packed.size",
                         (long long)p->height, (long long)p->width, (long long)p->channels);
    return make_pipeline(p, err);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

uint64_t stk__packed_row_bytes(const stk__packed *p, uint64_t row)
{
    return p->ragged ? (uint64_t)p->sides[row].height * p->sides[row].width * (uint64_t)p->channels
                     : p->picture_bytes;
}

size_t stk__packed_head(const stk__packed *p, uint64_t row, char *out)
{
    char head[STK__PPM_HEAD];
    const size_t n = stk__ppm_head(p->sides[row].width, p->sides[row].height, head);

    if (out)
        memcpy(out, head, n);
    return n;
}

uint64_t stk__packed_first_row(const stk__packed *p, uint64_t shard)
{
    return p->ragged ? p->first_rows[shard] : STK_MIN(shard * p->shard_rows, p->rows);
}

uint64_t stk__packed_row_at(const stk__packed *p, uint64_t shard, uint64_t row)
{
    return p->ragged ? p->offsets[row] - shard * p->shard_bytes
                     : (row - stk__packed_first_row(p, shard)) * p->picture_bytes;
}

uint64_t stk__packed_groups(const stk__packed *p)
{
    return (p->rows - 1) / p->group_most + 1;
}

uint64_t stk__packed_shard_of(const stk__packed *p, uint64_t row)
{
    uint64_t low = 0, high = p->shards;

    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (stk__packed_first_row(p, middle) <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Shards of whole chunks, a chunk of one picture or of some small ones. */
static void lay_out_fixed(stk__packed *p)
{
    p->chunk_rows = STK_MIN(STK_MAX(LEAST_CHUNK / p->picture_bytes, 1), p->rows);
    const uint64_t most = STK_MIN(STK_MAX(p->own->shard_size / p->picture_bytes, 1), MOST_ROWS);
    const uint64_t chunks = STK_MAX(most / p->chunk_rows, 1);
    const uint64_t all = (p->rows - 1) / p->chunk_rows + 1;

    p->shard_rows = STK_MIN(chunks, all) * p->chunk_rows;
    p->shard_bytes = p->shard_rows * p->picture_bytes;
    p->shards = (p->rows - 1) / p->shard_rows + 1;
    p->total_bytes = p->rows * p->picture_bytes;
    p->group_most = STK_MIN(STK_MAX(MOST_ROWS / p->shard_rows, 1), MOST_SHARDS) * p->shard_rows;
}

/* One picture after the other, behind its head; one that the rest of a shard does not hold begins
 * the next, and so does the first of a group. The end of the last. */
static uint64_t place_rows(stk__packed *p)
{
    uint64_t at = 0, shard = 0;

    for (uint64_t row = 0; row < p->rows; row++) {
        const uint64_t head = stk__packed_head(p, row, NULL);
        const uint64_t bytes = head + stk__packed_row_bytes(p, row);
        if (at + bytes > (shard + 1) * p->shard_bytes || (row && row % RAGGED_ROWS == 0)) {
            p->first_rows[++shard] = row;
            at = shard * p->shard_bytes;
        }
        p->offsets[row] = at + head;
        at += bytes;
    }
    p->shards = shard + 1;
    return at;
}

static stk_status lay_out_ragged(stk__packed *p, stk_error *err)
{
    p->offsets = stk__calloc(p->context, p->rows, sizeof *p->offsets);
    p->first_rows = stk__calloc(p->context, p->rows + 1, sizeof *p->first_rows);
    if (!p->offsets || !p->first_rows)
        return no_memory(err);
    uint64_t bytes = 0;
    for (uint64_t row = 0; row < p->rows; row++)
        bytes += stk__packed_head(p, row, NULL) + stk__packed_row_bytes(p, row);
    /* Objects of one size, the last as full as the others: its end is stored as well. */
    const uint64_t largest = p->picture_bytes + STK__PPM_HEAD;
    const uint64_t parts = stk__divide_up(bytes, STK_MAX(p->own->shard_size, largest));
    p->shard_bytes = stk__divide_up(bytes, parts) + (parts > 1 ? largest : 0);
    const uint64_t end = place_rows(p);
    p->total_bytes = STK_MAX(end, 1);
    p->first_rows[p->shards] = p->rows;
    p->shard_bytes = STK_MIN(p->shard_bytes, p->total_bytes);
    p->shard_rows = 0;
    for (uint64_t i = 0; i < p->shards; i++)
        p->shard_rows = STK_MAX(p->shard_rows, p->first_rows[i + 1] - p->first_rows[i]);
    p->group_most = RAGGED_ROWS;
    return STK_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static const char *const image_names[] = {"sample", "height", "width", "channel"};
static const char *const byte_names[] = {"byte"};
static const char *const shape_names[] = {"sample", "side"};
static const stk_array_string no_text = {"", 0};
static const uint8_t black = 0;
static const int64_t nothing = -1; /* no label and no place: so no object of them is left out */
static const uint8_t whole = 1;

static size_t add_array(stk__packed *p, const char *path, stk_dtype dtype, const char *type,
                        const void *fill, const char *const *names, uint32_t rank,
                        const int64_t *shape, const int64_t *chunk, const int64_t *object)
{
    const size_t i = p->num_nodes++;
    int64_t *sides = p->sides_of[i];

    memcpy(sides, shape, rank * sizeof *sides);
    memcpy(sides + 4, chunk, rank * sizeof *sides);
    memcpy(sides + 8, object, rank * sizeof *sides);
    p->nodes[i] =
        (stk__target_node){.path = path,
                           .attributes = "{}",
                           .is_array = true,
                           .dtype = dtype,
                           .type_name = type,
                           .itemsize = dtype ? stk_dtype_size(dtype) : sizeof(stk_array_string),
                           .varies = !dtype,
                           .rank = rank,
                           .shape = sides,
                           .chunk_shape = sides + 4,
                           .object_shape = sides + 8,
                           .dimension_names = names,
                           .fill_value = fill};
    return i;
}

/* An array of one element, or a row of them, for each picture; an object for each group. */
static size_t add_column(stk__packed *p, const char *path, stk_dtype dtype, const char *type,
                         const void *fill, int64_t width)
{
    const int64_t rows = (int64_t)p->rows, object = (int64_t)STK_MIN(p->group_most, p->rows);

    return add_array(p, path, dtype, type, fill, shape_names, width ? 2 : 1,
                     (const int64_t[]){rows, width}, (const int64_t[]){object, width},
                     (const int64_t[]){object, width});
}

static void add_pixels(stk__packed *p)
{
    const int64_t rows = (int64_t)p->rows, bytes = (int64_t)p->shard_bytes;
    const int64_t shape[] = {rows, p->height, p->width, p->channels};
    const int64_t chunk[] = {(int64_t)p->chunk_rows, p->height, p->width, p->channels};
    const int64_t object[] = {(int64_t)p->shard_rows, p->height, p->width, p->channels};

    p->at.pixels = p->ragged ? add_array(p, "bytes", STK_UINT8, "uint8", &black, byte_names, 1,
                                         (const int64_t[]){(int64_t)p->total_bytes}, &bytes, &bytes)
                             : add_array(p, "image", STK_UINT8, "uint8", &black, image_names, 4,
                                         shape, chunk, object);
    p->nodes[p->at.pixels].whole = true; /* so that a shard that is not there was lost */
}

/* What the root says of the whole: classes, transforms, and of which data it is made. */
static stk_status make_attributes(stk__packed *p, stk_error *err)
{
    const stk_dataset *dataset = p->dataset;
    stk__text text = {.ctx = p->context};

    stk__text_add(&text, "{\"stoker_packed\": 1, \"layout\": \"%s\", \"transforms\": ",
                  p->ragged ? "ragged" : "fixed");
    stk__text_add_json(&text, p->transforms);
    stk__text_add(&text, ", \"source\": \"%016" PRIx64 "\"", dataset->fingerprint);
    if (dataset->num_classes)
        stk__text_add(&text, ", \"classes\": [");
    for (uint32_t i = 0; i < dataset->num_classes; i++) {
        if (i)
            stk__text_add(&text, ", ");
        stk__text_add_json(&text, dataset->classes[i]);
    }
    stk__text_add(&text, "%s}", dataset->num_classes ? "]" : "");
    p->attributes = text.bytes;
    return text.failed ? no_memory(err) : STK_OK;
}

stk_status stk__packed_lay_out(stk__packed *p, stk_error *err)
{
    if (p->ragged)
        STK_TRY(lay_out_ragged(p, err));
    else
        lay_out_fixed(p);
    STK_TRY(make_attributes(p, err));
    p->nodes[0] = (stk__target_node){.path = "",
                                     .attributes = p->attributes,
                                     .other = "other packed pictures (the source, size, "
                                              "short_side, shard_size, checksum or on_error has "
                                              "changed)"};
    p->num_nodes = 1;
    add_pixels(p);
    p->at.label = add_column(p, "label", STK_INT64, "int64", &nothing, 0);
    if (p->encoded)
        p->at.name = add_column(p, "name", STK_DTYPE_NONE, "string", &no_text, 0);
    if (p->skips)
        p->at.kept = add_column(p, "kept", STK_UINT8, "uint8", &whole, 0);
    if (p->ragged) {
        p->at.offset = add_column(p, "offset", STK_INT64, "int64", &nothing, 0);
        p->at.shape = add_column(p, "shape", STK_INT64, "int64", &nothing, 3);
    }
    return STK_OK;
}
