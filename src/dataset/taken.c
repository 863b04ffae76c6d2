/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/taken.h"

#include <inttypes.h>

/* ---- Needs ---- */

typedef struct taking {
    stk_locator seam;
    stk__taken *to;
} taking;

static stk_status take_need(stk_locator *self, size_t i, const stk_need *need)
{
    stk__taken *t = ((taking *)self)->to;

    (void)i;
    stk__taken_part *parts =
        stk__grow(t->dataset->context, t->parts, &t->room_parts, t->num_parts + 1, sizeof *parts);
    if (!parts)
        return STK_ENOMEM;
    t->parts = parts;
    parts[t->num_parts++] = (stk__taken_part){.need = *need};
    return STK_OK;
}

static void take_cost(stk_locator *self, size_t i, double nanoseconds)
{
    (void)self;
    (void)i;
    (void)nanoseconds;
}

static void take_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    stk__taken *t = ((taking *)self)->to;

    (void)i;
    if (field < t->dataset->num_fields)
        t->bounds[field] = bytes;
}

static void drop_parts(stk_context *ctx, stk__taken_part *parts, size_t *num)
{
    for (size_t i = 0; i < *num; i++)
        stk__free(ctx, parts[i].bytes);
    *num = 0;
}

/* The bytes of a part, if the sample before had them. */
static bool find_kept(stk__taken *t, stk__taken_part *part)
{
    for (size_t i = 0; i < t->num_kept; i++) {
        stk__taken_part *k = &t->kept[i];
        if (!k->bytes || k->need.object != part->need.object ||
            k->need.offset != part->need.offset || k->need.length != part->need.length ||
            k->need.decoded != part->need.decoded)
            continue;
        part->bytes = k->bytes;
        part->size = k->size;
        k->bytes = NULL;
        return true;
    }
    return false;
}

/* Memory of the opening for bytes of a file. */
static void *make_room(const stk__taken *t, uint64_t bytes)
{
    return bytes <= stk__memory_left(t->dataset->context)
               ? stk__alloc_buffer(t->dataset->context, bytes)
               : NULL;
}

static stk_status refuse_room(uint64_t index, uint64_t bytes, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                     "no memory to read sample %" PRIu64 ", which takes %" PRIu64
                     " bytes, while the dataset is opened; raise memory_limit",
                     index, bytes);
}

/* What is read becomes what it is decoded to. */
static stk_status decode_part(stk__taken *t, uint64_t index, stk__taken_part *part,
                              const stk_need *need, stk_error *err)
{
    stk_dataset *d = t->dataset;
    const char *reason = NULL;
    void *out = make_room(t, part->need.decoded);

    if (!out)
        return refuse_room(index, part->need.decoded, err);
    const stk_status status = stk__need_decode(d, need, part->bytes, out, t->worker, &reason);
    stk__free(d->context, part->bytes);
    part->bytes = out;
    part->size = part->need.decoded;
    return status == STK_OK
               ? STK_OK
               : stk__fail(err, status, STK_STAGE_DATASET, "sample %" PRIu64 " is not decoded: %s",
                           index, reason ? reason : stk_status_text(status));
}

static stk_status read_part(stk__taken *t, uint64_t index, stk__taken_part *part, stk_error *err)
{
    stk_dataset *d = t->dataset;

    part->bytes = make_room(t, part->need.length);
    if (!part->bytes)
        return refuse_room(index, part->need.length, err);
    stk_need need = part->need;
    const stk_status status = stk__need_read(d, &need, part->bytes, err);
    part->size = need.length;
    if (status == STK_ENOENT && part->need.optional) {
        stk__free(d->context, part->bytes);
        part->bytes = NULL;
        part->size = 0;
        return STK_OK;
    }
    STK_TRY(status);
    return need.decoded ? decode_part(t, index, part, &need, err) : STK_OK;
}

static stk_status read_parts(stk__taken *t, uint64_t index, stk_error *err)
{
    taking to = {.seam = {sizeof to.seam, take_need, take_cost, take_bytes}, .to = t};
    stk_dataset *d = t->dataset;

    STK_TRY(d->ops->locate(d, &index, 1, &to.seam, err));
    stk_slice *slices =
        stk__grow(d->context, t->slices, &t->room_slices, STK_MAX(t->num_parts, 1), sizeof *slices);
    if (!slices)
        return refuse_room(index, t->num_parts * sizeof *slices, err);
    t->slices = slices;
    for (size_t i = 0; i < t->num_parts; i++) {
        stk__taken_part *part = &t->parts[i];
        if (!find_kept(t, part))
            STK_TRY(read_part(t, index, part, err));
        slices[i] = (stk_slice){.data = part->bytes, .size = part->size};
    }
    return STK_OK;
}

/* ---- Values ---- */

/* Room for a value: of one that varies what the dataset says, or else all that was read. */
static uint64_t room_of(const stk__taken *t, uint32_t f)
{
    uint64_t bytes = 0;

    if (t->dataset->fields[f].layout == STK_FIXED)
        return stk_field_bytes(&t->dataset->fields[f]);
    if (t->bounds[f] != UINT64_MAX)
        return t->bounds[f];
    for (size_t i = 0; i < t->num_parts; i++)
        bytes += STK_MIN(t->parts[i].size, UINT64_MAX / 4 - bytes);
    return bytes;
}

static stk_status place_values(stk__taken *t, uint64_t index, stk_error *err)
{
    const uint32_t n = t->dataset->num_fields;
    uint64_t total = 0, at = 0;

    for (uint32_t f = 0; f < n; f++)
        if (room_of(t, f) > UINT64_MAX / 2 ||
            !stk__add_size(total, stk__round_up(room_of(t, f), STK_CACHE_LINE), &total))
            return refuse_room(index, UINT64_MAX, err);
    if (!t->out || total > t->room_out) {
        stk__free(t->dataset->context, t->out);
        t->out = make_room(t, total);
        t->room_out = t->out ? total : 0;
        if (!t->out)
            return refuse_room(index, total, err);
    }
    for (uint32_t f = 0; f < n; f++) {
        const uint64_t room = room_of(t, f);
        const bool fixed = t->dataset->fields[f].layout == STK_FIXED;
        t->values[f] = (stk_value){
            .out = t->out + at, .capacity = room, .data = t->out + at, .size = fixed ? room : 0};
        at += stk__round_up(room, STK_CACHE_LINE);
    }
    return STK_OK;
}

/* A sample that is a line is named by its file and line. */
static stk_status tell_bad(const stk__taken *t, const stk_sample *sample, stk_error *err)
{
    const char *reason = sample->reason ? sample->reason : stk_status_text(sample->status);
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;

    if (!sample->line || !t->num_parts || !t->dataset->ops->object ||
        t->dataset->ops->object(t->dataset, t->parts[0].need.object, &store, key, sizeof key) >=
            sizeof key)
        return stk__fail(err, sample->status, STK_STAGE_DATASET, "sample %" PRIu64 " is bad: %s",
                         sample->index, reason);
    return stk__fail_at(err, sample->status, STK_STAGE_DATASET, key, t->parts[0].need.offset,
                        "%.200s:%" PRIu64 ": %s", key, sample->line, reason);
}

stk_status stk__taken_read(stk__taken *t, uint64_t index, stk_error *err)
{
    stk_dataset *d = t->dataset;
    stk__taken_part *parts = t->kept;
    const size_t room = t->room_kept;

    drop_parts(d->context, t->kept, &t->num_kept);
    t->kept = t->parts;
    t->num_kept = t->num_parts;
    t->room_kept = t->room_parts;
    t->parts = parts;
    t->num_parts = 0;
    t->room_parts = room;
    for (uint32_t f = 0; f < d->num_fields; f++)
        t->bounds[f] = UINT64_MAX;
    if (d->ops->locate)
        STK_TRY(read_parts(t, index, err));
    STK_TRY(place_values(t, index, err));
    stk_sample sample = {.struct_size = sizeof sample,
                         .value_size = sizeof(stk_value),
                         .index = index,
                         .position = index,
                         .needs = t->num_parts ? t->slices : NULL,
                         .values = t->values,
                         .worker = t->worker};
    d->ops->prepare(d, &sample, 1);
    t->line = sample.line;
    return sample.status == STK_OK ? STK_OK : tell_bad(t, &sample, err);
}

/* ---- Making ---- */

stk_status stk__taken_open(stk__taken *t, stk_dataset *dataset, stk_error *err)
{
    stk_context *ctx = dataset->context;

    *t = (stk__taken){.dataset = dataset};
    t->values = stk__calloc(ctx, dataset->num_fields, sizeof *t->values);
    t->bounds = stk__calloc(ctx, dataset->num_fields, sizeof *t->bounds);
    stk_status status = t->values && t->bounds ? STK_OK : STK_ENOMEM;
    if (status == STK_OK && dataset->ops->worker_open)
        status = dataset->ops->worker_open(dataset, &t->worker);
    if (status != STK_OK)
        t->worker = NULL;
    return status == STK_OK ? STK_OK
                            : stk__fail(err, status, STK_STAGE_DATASET,
                                        "samples can't be read while the dataset is opened: %s",
                                        stk_status_text(status));
}

void stk__taken_close(stk__taken *t)
{
    stk_context *ctx = t->dataset ? t->dataset->context : NULL;

    if (!ctx)
        return;
    if (t->worker)
        t->dataset->ops->worker_close(t->dataset, t->worker);
    drop_parts(ctx, t->parts, &t->num_parts);
    drop_parts(ctx, t->kept, &t->num_kept);
    stk__free(ctx, t->parts);
    stk__free(ctx, t->kept);
    stk__free(ctx, t->slices);
    stk__free(ctx, t->values);
    stk__free(ctx, t->bounds);
    stk__free(ctx, t->out);
    *t = (stk__taken){0};
}

/* ---- Integers ---- */

static bool is_signed(stk_dtype dtype)
{
    return dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32 || dtype == STK_INT64;
}

bool stk__taken_is_integer(stk_dtype dtype)
{
    return is_signed(dtype) || dtype == STK_BOOL || dtype == STK_UINT8 || dtype == STK_UINT16 ||
           dtype == STK_UINT32 || dtype == STK_UINT64;
}

bool stk__taken_integer(stk_dtype dtype, const void *data, int64_t *out)
{
    const size_t size = stk_dtype_size(dtype);
    uint64_t bits = 0;

    memcpy(&bits, data, size);
    if (is_signed(dtype) && size < sizeof bits && bits >> (8 * size - 1))
        bits |= UINT64_MAX << (8 * size);
    *out = (int64_t)bits;
    return is_signed(dtype) || *out >= 0;
}
