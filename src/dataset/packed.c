/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images: of packed pictures, arrays of a group of Zarr. Where the bytes of `image` lie, and
 * whether its objects are still the same, the windows of an array know (window.c): a picture is a
 * window of one step. What is read is handed to the transforms where it lies: nothing is decoded,
 * and a checksum is all that is computed.
 */
#include "dataset/packed.h"

#include <stdio.h>

#include "dataset/images.h"
#include "dataset/widen.h"

#define VERSION     1
#define BLOCK_BYTES (UINT64_C(4) << 20) /* of neighbours that are read together */
#define LOCATED     64u                 /* samples that are located at a time */
#define CRC_BYTES   4
#define COPY_NS     1000.0 /* of preparing a picture: to begin, and of each byte */
#define BYTE_NS     0.15

static const stk__window_variable *image_of(const stk__packed_set *d)
{
    return &((const stk__window *)d->windows)->variables[0];
}

void stk__packed_close(stk_dataset *dataset)
{
    stk__packed_set *d = (stk__packed_set *)dataset;
    stk_context *ctx = d->base.context;

    stk_dataset_close(&d->windows);
    stk_array_close(&d->bytes);
    stk__free(ctx, d->offsets);
    stk__free(ctx, d->shapes);
    stk_group_close(&d->group);
    stk__json_drop(ctx, &d->attributes);
    stk__free(ctx, d->classes);
    stk__free(ctx, d->labels);
    stk__free(ctx, d->kept);
    stk__free(ctx, d->fill);
    stk__free(ctx, d->maps);
    stk__free(ctx, d);
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open packed pictures");
}

stk_status stk__packed_wrong(stk_error *err, const char *array, const char *what)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, array, STK_NO_OFFSET,
                        "packed pictures: the array '%s' %s; pack them again, or read arrays of "
                        "other shapes with array:",
                        array, what);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

bool stk__packed_has(const stk__packed_set *d, const char *path)
{
    const stk_node *node;

    for (size_t i = 0; (node = stk_group_node(d->group, i)); i++)
        if (node->is_array && strcmp(node->path, path) == 0)
            return true;
    return false;
}

stk_status stk__packed_column(stk__packed_set *d, const char *path, int64_t width,
                              stk_array **array, void **out, stk_error *err)
{
    stk_array_options options;
    uint64_t bytes = 0;

    stk_array_options_init(&options);
    options.missing = d->marked;
    STK_TRY(stk_group_array(d->group, path, &options, array, err));
    const stk_array_info *info = stk_array_get_info(*array);
    if (info->rank != (width ? 2 : 1) || (uint64_t)info->shape[0] != d->rows ||
        (width && info->shape[1] != width)) {
        char what[128];
        snprintf(what, sizeof what, "has not %lld for each of the %llu pictures",
                 (long long)(width ? width : 1), (unsigned long long)d->rows);
        return stk__packed_wrong(err, path, what);
    }
    if (!info->itemsize || !stk__shape_bytes(info->shape, info->rank, info->itemsize, &bytes) ||
        bytes > stk__memory_left(d->base.context) / 2)
        return stk__packed_wrong(err, path, "does not fit what is left of memory_limit");
    *out = stk__alloc_buffer(d->base.context, bytes);
    if (!*out)
        return no_memory(err);
    return stk_array_read(*array, NULL, *out, bytes, NULL, -1, err);
}

static stk_status read_labels(stk__packed_set *d, stk_error *err)
{
    stk_array *array = NULL;
    void *values = NULL;
    uint64_t bytes = 0;

    if (!stk__packed_has(d, "label"))
        return stk__packed_wrong(err, "label", "is missing");
    if (!stk__mul_size(d->rows, sizeof *d->labels, &bytes) ||
        bytes > stk__memory_left(d->base.context) / 4)
        return stk__packed_wrong(err, "label", "does not fit what is left of memory_limit");
    stk_status status = stk__packed_column(d, "label", 0, &array, &values, err);
    if (status == STK_OK) {
        stk__dataset_widen_fn *widen = stk__widen_c(stk_array_get_info(array)->dtype);
        d->labels = stk__alloc(d->base.context, bytes);
        if (!widen)
            status = stk__packed_wrong(err, "label", "holds no integers");
        else if (!d->labels)
            status = no_memory(err);
        else
            widen(values, d->rows, d->labels);
    }
    stk_array_close(&array);
    stk__free(d->base.context, values);
    return status;
}

/* The rows of the pictures that were not left out when they were packed. */
static stk_status list_kept(stk__packed_set *d, const uint8_t *kept, stk_error *err)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < d->rows; i++)
        count += kept[i] != 0;
    d->base.size = count;
    if (count == d->rows)
        return STK_OK;
    if (!count)
        return stk__packed_wrong(err, "kept", "says that no picture is sound");
    d->kept = stk__calloc(d->base.context, count, sizeof *d->kept);
    if (!d->kept)
        return no_memory(err);
    count = 0;
    for (uint64_t i = 0; i < d->rows; i++)
        if (kept[i])
            d->kept[count++] = i;
    return STK_OK;
}

static stk_status read_kept(stk__packed_set *d, stk_error *err)
{
    stk_array *array = NULL;
    void *values = NULL;

    d->base.size = d->rows;
    if (!stk__packed_has(d, "kept"))
        return STK_OK;
    d->marked = false; /* none that was left out, and it is all fill value */
    stk_status status = stk__packed_column(d, "kept", 0, &array, &values, err);
    if (status == STK_OK && stk_array_get_info(array)->itemsize != 1)
        status = stk__packed_wrong(err, "kept", "is of no uint8");
    if (status == STK_OK)
        status = list_kept(d, values, err);
    stk_array_close(&array);
    stk__free(d->base.context, values);
    return status;
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static stk_status check_image(stk__packed_set *d, stk_error *err)
{
    const stk__window_variable *v = image_of(d);
    const stk_array_info *info = v->info;

    if (info->rank != 4 || info->dtype != STK_UINT8)
        return stk__packed_wrong(err, "image",
                                 "is no uint8 of [pictures, height, width, channels]");
    if (info->shape[3] != 1 && info->shape[3] != 3 && info->shape[3] != 4)
        return stk__packed_wrong(err, "image", "has not 1, 3 or 4 channels");
    for (uint32_t i = 1; i < 4; i++)
        if (info->chunk_shape[i] != info->shape[i])
            return stk__packed_wrong(err, "image", "is in chunks that cut pictures");
    if (!stk__shape_bytes(info->shape + 1, 3, 1, &d->picture_bytes) ||
        d->picture_bytes > stk__memory_left(d->base.context) / 4)
        return stk__packed_wrong(err, "image",
                                 "has pictures that do not fit a quarter of what is "
                                 "left of memory_limit");
    d->rows = (uint64_t)info->shape[0];
    d->chunk_rows = (uint64_t)info->chunk_shape[0];
    return STK_OK;
}

/* Whether a chunk is its pictures as they are, and what is behind them. */
static bool is_raw(stk__packed_set *d)
{
    const char *codecs = image_of(d)->info->codecs;

    d->plain = image_of(d)->plain;
    d->checked = strcmp(codecs, "crc32c") == 0 || strcmp(codecs, "sharding_indexed(crc32c)") == 0;
    return d->plain || d->checked || image_of(d)->fixed;
}

/* A picture of the fill value. */
static stk_status make_fill(stk__packed_set *d, stk_error *err)
{
    const stk_array_info *info = image_of(d)->info;
    const stk__need none = {.kind = STK__NEED_FILL};
    stk__box box = {.shape = {1, info->shape[1], info->shape[2], info->shape[3]},
                    .step = {1, 1, 1, 1}};
    int64_t strides[STK_ARRAY_MAX_RANK];

    d->fill = stk__alloc_buffer(d->base.context, d->picture_bytes);
    if (!d->fill)
        return no_memory(err);
    stk__array_strides(info->rank, box.shape, info->itemsize, strides);
    stk__array_copy(image_of(d)->array, &box, &none, NULL, d->fill, strides);
    return STK_OK;
}

/* Where the store has all objects in memory, pictures are taken from there. */
static stk_status map_objects(stk__packed_set *d, stk_error *err)
{
    const stk__window_variable *v = image_of(d);
    stk_store *store = stk__array_store(v->array);
    char key[STK_MAX_OBJECT_KEY];

    const void *first;
    uint64_t size = 0;
    stk__array_key(v->array, 0, key, sizeof key);
    if (!STK__STORE_HAS(store->ops, map) || !is_raw(d) ||
        store->ops->map(store, key, &first, &size) != STK_OK)
        return STK_OK;
    if (!stk__mul_size(v->num_objects, sizeof *d->maps, &size) ||
        size > stk__memory_left(d->base.context) / 4)
        return stk__packed_wrong(err, "image",
                                 "has more objects than memory_limit leaves room for");
    d->maps = stk__calloc(d->base.context, v->num_objects, sizeof *d->maps);
    if (!d->maps)
        return no_memory(err);
    for (uint64_t i = 0; i < v->num_objects; i++) {
        const void *data = NULL;
        stk__array_key(v->array, i, key, sizeof key);
        if (store->ops->map(store, key, &data, &d->maps[i].size) != STK_OK) {
            stk__free(d->base.context, d->maps);
            d->maps = NULL;
            return STK_OK;
        }
        d->maps[i].data = data;
    }
    return STK_OK;
}

/* A shard of which nothing is there was lost, where stoker convert wrote them all. */
static stk_status check_missing(const stk__packed_set *d, stk_error *err)
{
    const bool all = json_object_get(d->attributes.value, STK__PACKED_MARK) != NULL;
    const stk__window_variable *v = image_of(d);
    const uint64_t in = (uint64_t)v->info->shard_shape[0] / d->chunk_rows;
    char key[STK_MAX_OBJECT_KEY];

    for (uint64_t first = 0; v->lengths && first < v->num_chunks; first += in) {
        uint64_t i = first;
        while (i < STK_MIN(first + in, v->num_chunks) && v->lengths[i] == STK__WINDOW_ABSENT)
            i++;
        if (i < STK_MIN(first + in, v->num_chunks))
            continue;
        stk__array_key(v->array, first / in, key, sizeof key);
        if (all)
            return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                                "packed pictures: %.300s is missing, and the %llu pictures in it "
                                "are lost; pack them again",
                                key, (unsigned long long)((i - first) * d->chunk_rows));
        stk__message(d->base.context, STK_MESSAGE_WARNING,
                     "packed pictures: %.300s is missing: the %llu pictures in it read as the fill "
                     "value; pack them again if they are not all of one colour",
                     key, (unsigned long long)((i - first) * d->chunk_rows));
    }
    return STK_OK;
}

static stk_status open_pictures(stk__packed_set *d, const char *url, stk_error *err)
{
    stk__window_options options;

    if (!stk__packed_has(d, "image"))
        return stk__packed_has(d, "bytes") ? stk__packed_ragged_open(d, err)
                                           : stk__packed_wrong(err, "image", "is missing");
    stk_options_init(&stk__window_table, &options, sizeof options);
    options.variables = "image";
    options.scale = false;
    STK_TRY(stk__window_open(d->base.context, url, &options, &d->windows, err));
    STK_TRY(check_image(d, err));
    STK_TRY(make_fill(d, err));
    STK_TRY(map_objects(d, err));
    return check_missing(d, err);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static stk_status read_attributes(stk__packed_set *d, stk_error *err)
{
    stk_context *ctx = d->base.context;
    const char *text = stk_group_attributes(d->group);
    const json_t *classes;

    STK_TRY(stk__json_parse(ctx, text, strlen(text), "attributes", &d->attributes, err));
    const json_t *version = json_object_get(d->attributes.value, STK__PACKED_MARK);
    d->marked = version;
    if (version && json_integer_value(version) != VERSION)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_DATASET,
                         "packed pictures: the attribute '" STK__PACKED_MARK
                         "' of the group is no %d: a later "
                         "version wrote it; read it with that",
                         VERSION);
    classes = json_object_get(d->attributes.value, "classes");
    const size_t n = json_array_size(classes);
    if (!n)
        return STK_OK;
    d->classes = stk__calloc(ctx, n, sizeof(const char *));
    if (!d->classes)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        d->classes[i] = json_string_value(json_array_get(classes, i));
        if (!d->classes[i])
            return stk__fail(err, STK_EFORMAT, STK_STAGE_DATASET,
                             "packed pictures: entry %zu of the attribute 'classes' of the group "
                             "is no text",
                             i);
    }
    d->base.classes = d->classes;
    d->base.num_classes = (uint32_t)n;
    return STK_OK;
}

static void fill_head(stk__packed_set *d, const stk_dataset_ops *ops)
{
    const stk_dataset head = d->base;

    if (d->bytes) {
        d->fields[0] = stk__images_field("image", 3, false);
    } else {
        const int64_t *sides = image_of(d)->info->shape;
        const int64_t shape[] = {sides[1], sides[2], sides[3], -1};
        d->fields[0] = stk__field("image", STK_UINT8, shape, true);
    }
    d->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&d->base, ops, head.context, head.size, d->fields, 2);
    uint64_t print = d->base.fingerprint;
    if (d->windows)
        print = stk__fingerprint(print, &d->windows->fingerprint, sizeof d->windows->fingerprint);
    if (d->bytes)
        print = stk__fingerprint(print, d->shapes, 3 * d->rows * sizeof *d->shapes);
    print = stk__fingerprint(print, d->labels, d->rows * sizeof *d->labels);
    if (d->kept)
        print = stk__fingerprint(print, d->kept, head.size * sizeof *d->kept);
    for (uint32_t i = 0; i < head.num_classes; i++)
        print = stk__fingerprint(print, d->classes[i], strlen(d->classes[i]) + 1);
    d->base.fingerprint = print;
    d->base.classes = head.classes;
    d->base.num_classes = head.num_classes;
    d->base.block_size =
        STK_MIN(STK_MAX(BLOCK_BYTES / d->picture_bytes, STK_MAX(d->chunk_rows, 1)), d->base.size);
    d->base.worker_bytes = ops->decode ? d->windows->worker_bytes : 0;
    d->base.decoded_bytes = ops->decode ? d->windows->decoded_bytes : 0;
    d->base.held_bytes = d->rows * (sizeof *d->labels + (d->kept ? sizeof *d->kept : 0) +
                                    (d->bytes ? 4 * sizeof *d->shapes : 0));
    d->base.cost_ns = COPY_NS + BYTE_NS * (double)d->picture_bytes;
}

static stk_status open_all(stk__packed_set *d, const char *url, stk_error *err)
{
    STK_TRY(stk_group_open(d->base.context, url, &d->group, err));
    STK_TRY(read_attributes(d, err));
    STK_TRY(open_pictures(d, url, err));
    STK_TRY(read_labels(d, err));
    STK_TRY(read_kept(d, err));
    return d->bytes ? stk__packed_ragged_check(d, err) : STK_OK;
}

stk_status stk__packed_open(stk_context *ctx, const char *url, stk_dataset **out, stk_error *err)
{
    stk__packed_set *d = stk__calloc(ctx, 1, sizeof *d);

    if (!d)
        return no_memory(err);
    d->base.context = ctx;
    d->crc32c = stk__codec_crc32c_of(ctx);
    const stk_status status = open_all(d, url, err);
    if (status != STK_OK) {
        stk__packed_close(&d->base);
        return status;
    }
    fill_head(d, d->bytes    ? &stk__packed_ragged
                 : is_raw(d) ? &stk__packed_pictures
                             : &stk__packed_decoded);
    *out = &d->base;
    return STK_OK;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Passes on where windows lie, as what is not to be decoded. */
typedef struct passing {
    stk_locator seam;
    stk_locator *to;
    size_t first; /* sample of the call that it began with */
    bool decodes;
} passing;

static stk_status pass_need(stk_locator *seam, size_t i, const stk_need *need)
{
    const passing *p = (const passing *)seam;
    stk_need own = *need;

    own.in_place = false;
    if (!p->decodes)
        own.decoded = own.wanted = 0;
    return p->to->add(p->to, p->first + i, &own);
}

static stk_status packed_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    const stk__packed_set *d = (const stk__packed_set *)dataset;
    passing p = {.seam = stk__locator_of_needs(pass_need),
                 .to = to,
                 .decodes = dataset->ops->decode != NULL};
    uint64_t rows[LOCATED];

    if (d->maps)
        return STK_OK;
    for (; p.first < n; p.first += LOCATED) {
        const size_t count = STK_MIN(LOCATED, n - p.first);
        for (size_t i = 0; i < count; i++)
            rows[i] = stk__packed_row(d, indices[p.first + i]);
        STK_TRY(d->windows->ops->locate(d->windows, rows, count, &p.seam, err));
    }
    return STK_OK;
}

static size_t packed_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                            size_t size)
{
    stk__packed_set *d = (stk__packed_set *)dataset;

    return d->windows->ops->object(d->windows, object, store, key, size);
}

static stk_status packed_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                                void *out, void *worker, const char **reason)
{
    stk__packed_set *d = (stk__packed_set *)dataset;

    return d->windows->ops->decode(d->windows, need, data, out, worker, reason);
}

static stk_status packed_worker_open(stk_dataset *dataset, void **worker)
{
    stk__packed_set *d = (stk__packed_set *)dataset;

    return d->windows->ops->worker_open(d->windows, worker);
}

static void packed_worker_close(stk_dataset *dataset, void *worker)
{
    stk__packed_set *d = (stk__packed_set *)dataset;

    d->windows->ops->worker_close(d->windows, worker);
}

static void set_bad(stk_sample *s, stk_status status, const char *reason)
{
    s->status = status;
    s->reason = reason;
}

/* What would be read of a row, in memory; a slice of another size where it is not all there. */
static stk_slice mapped_slice(const stk__packed_set *d, uint64_t row)
{
    const stk__window_variable *v = image_of(d);
    const uint64_t chunk = row / d->chunk_rows;
    const stk_slice *map = &d->maps[row / (uint64_t)v->info->shard_shape[0]];
    uint64_t offset = v->offsets ? v->offsets[chunk] : 0, length = d->picture_bytes;

    if (d->plain)
        offset = row % d->chunk_rows * d->picture_bytes;
    else
        length = v->lengths[chunk];
    if (offset > map->size || length > map->size - offset)
        return (stk_slice){map->data, 0};
    return (stk_slice){(const char *)map->data + offset, length};
}

/* The bytes of a picture in its chunk; NULL: the sample is bad. */
static const void *find_picture(const stk__packed_set *d, stk_sample *s, uint64_t row)
{
    const stk__window_variable *v = image_of(d);
    const uint64_t chunk = row / d->chunk_rows, all = d->chunk_rows * d->picture_bytes;

    if (!d->plain && v->lengths[chunk] == STK__WINDOW_ABSENT)
        return d->fill;
    const stk_slice slice = d->maps ? mapped_slice(d, row) : s->needs[0];
    if (!slice.data)
        return d->fill;
    if (d->plain && slice.size == d->picture_bytes)
        return slice.data;
    if (d->plain || slice.size != all + (d->checked ? CRC_BYTES : 0)) {
        set_bad(s, STK_EFORMAT, "its chunk has another number of bytes than its shape asks for");
        return NULL;
    }
    const uint8_t *bytes = slice.data;
    if (d->checked && d->crc32c(0, bytes, all) != stk__little_endian(bytes + all, CRC_BYTES)) {
        set_bad(s, STK_ECHECKSUM, "its bytes do not match their checksum; copy it again");
        return NULL;
    }
    return bytes + row % d->chunk_rows * d->picture_bytes;
}

static void packed_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__packed_set *d = (const stk__packed_set *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        const uint64_t row = stk__packed_row(d, s->index);
        const void *picture = find_picture(d, s, row);
        if (!picture)
            continue;
        s->values[0].data = picture;
        s->values[0].size = d->picture_bytes;
        s->values[1].data = &d->labels[row];
        s->values[1].size = sizeof *d->labels;
    }
}

stk_status stk__packed_describe(stk_dataset *dataset,
                                void (*line)(void *user, const char *name, const char *value),
                                void *user, stk_error *err)
{
    const stk__packed_set *d = (const stk__packed_set *)dataset;
    const char *transforms = json_string_value(json_object_get(d->attributes.value, "transforms"));
    const int64_t *shape = d->fields[0].shape;
    const unsigned long long size = d->base.size;
    char text[160];

    (void)err;
    if (d->bytes)
        snprintf(text, sizeof text, "%llu, each of its own shape", size);
    else
        snprintf(text, sizeof text, "%llu of %lld x %lld x %lld bytes, %s", size,
                 (long long)shape[0], (long long)shape[1], (long long)shape[2],
                 d->checked                            ? "with checksums"
                 : d->base.ops == &stk__packed_decoded ? "compressed"
                                                       : "as they are");
    line(user, "packed pictures", text);
    if (transforms && *transforms)
        line(user, "made by", transforms);
    if (d->kept) {
        snprintf(text, sizeof text, "%llu, broken in the source", d->rows - size);
        line(user, "left out", text);
    }
    return STK_OK;
}

#define PACKED                                                                                     \
    .struct_size = sizeof(stk_dataset_ops), .name = "images",                                      \
    .doc = "Pictures that need no decoding, in Zarr.", .close = stk__packed_close,                 \
    .locate = packed_locate, .object = packed_object, .prepare = packed_prepare,                   \
    .describe = stk__packed_describe

const stk_dataset_ops stk__packed_pictures = {PACKED};

/* Chunks that are compressed are decoded as those of windows. */
const stk_dataset_ops stk__packed_decoded = {PACKED, .decode = packed_decode,
                                             .worker_open = packed_worker_open,
                                             .worker_close = packed_worker_close};
