/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/samples.h"

#include "dataset/dataset.h"

#define PART                                                                                       \
    4 /* of the memory that is left is for the values of a group, and as much for its reads */

struct need_of {
    stk_need need;
    size_t sample;
};

/* What decode() made of a range. */
struct kept_of {
    uint64_t object, offset, length, decoded;
    uint8_t *bytes;
    bool used; /* by the group that is taken; else it goes with the next */
};

typedef struct locator {
    stk_locator base;
    stk__samples *to;
} locator;

static stk_status take_need(stk_locator *self, size_t i, const stk_need *need)
{
    stk__samples *s = ((locator *)self)->to;

    struct need_of *more =
        stk__grow(s->dataset->context, s->needs, &s->room_needs, s->num_needs + 1, sizeof *more);
    if (!more)
        return STK_ENOMEM;
    s->needs = more;
    s->needs[s->num_needs++] = (struct need_of){*need, i};
    return STK_OK;
}

static void take_cost(stk_locator *self, size_t i, double nanoseconds)
{
}

static void take_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    stk__samples *s = ((locator *)self)->to;

    if (s->bounds)
        s->bounds[i * s->dataset->num_fields + field] = bytes;
}

static bool is_varying(const stk_dataset *dataset)
{
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        if (dataset->fields[f].layout != STK_FIXED)
            return true;
    return false;
}

stk_status stk__samples_init(stk_dataset *dataset, size_t most, stk__samples *s, stk_error *err)
{
    stk_context *ctx = dataset->context;
    const bool varying = is_varying(dataset);
    uint64_t fields;

    *s = (stk__samples){.dataset = dataset, .most = most};
    s->samples = stk__calloc(ctx, most, sizeof *s->samples);
    s->indices = stk__calloc(ctx, most, sizeof *s->indices);
    if (stk__mul_size(most, dataset->num_fields, &fields)) {
        s->values = stk__calloc(ctx, fields, sizeof *s->values);
        s->bounds = varying ? stk__calloc(ctx, fields, sizeof *s->bounds) : NULL;
    }
    if (s->samples && s->values && s->indices && (s->bounds || !varying) &&
        (!dataset->ops->worker_open || dataset->ops->worker_open(dataset, &s->worker) == STK_OK))
        return STK_OK;
    s->worker = NULL;
    stk__samples_release(s);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for %zu samples", most);
}

void stk__samples_release(stk__samples *s)
{
    stk_context *ctx = s->dataset ? s->dataset->context : NULL;

    if (!ctx)
        return;
    if (s->worker)
        s->dataset->ops->worker_close(s->dataset, s->worker);
    for (size_t i = 0; i < s->num_kept; i++)
        stk__free(ctx, s->kept[i].bytes);
    stk__free(ctx, s->kept);
    stk__free(ctx, s->raw);
    stk__free(ctx, s->samples);
    stk__free(ctx, s->values);
    stk__free(ctx, s->indices);
    stk__free(ctx, s->bounds);
    stk__free(ctx, s->out);
    stk__free(ctx, s->needs);
    stk__free(ctx, s->slices);
    stk__free(ctx, s->bytes);
    *s = (stk__samples){0};
}

/* Room for the bytes of the needs that are not decoded, and where those of each are. */
static stk_status place_needs(stk__samples *s, stk_error *err)
{
    stk_context *ctx = s->dataset->context;
    uint64_t total = 0, at = 0;
    bool good = true;

    for (size_t i = 0; good && i < s->num_needs; i++)
        good = s->needs[i].need.decoded || (stk__add_size(total, s->needs[i].need.length, &total) &&
                                            stk__add_size(total, STK_TAIL, &total));
    stk__free(ctx, s->bytes);
    stk__free(ctx, s->slices);
    s->bytes = good && total <= stk__memory_left(ctx) / PART ? stk__alloc_buffer(ctx, total) : NULL;
    s->slices = stk__calloc(ctx, s->num_needs, sizeof *s->slices);
    if (!s->bytes || !s->slices)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the bytes of %zu reads",
                         s->num_needs);
    for (size_t i = 0; i < s->num_needs; i++) {
        const uint64_t length = s->needs[i].need.length;
        if (s->needs[i].need.decoded)
            continue;
        s->slices[i] = (stk_slice){s->bytes + at, length};
        memset(s->bytes + at + length, 0, STK_TAIL);
        at += length + STK_TAIL;
    }
    return STK_OK;
}

/* ---- Ranges that are decoded ----------------------------------------------------------------- */

/* Samples ask for their ranges in one order: the next is mostly the one behind the last found. */
static struct kept_of *find_kept(stk__samples *s, const stk_need *need)
{
    for (size_t i = 0; i < s->num_kept; i++) {
        const size_t at = (s->next_kept + i) % s->num_kept;
        struct kept_of *kept = &s->kept[at];
        if (kept->object == need->object && kept->offset == need->offset &&
            kept->length == need->length && kept->decoded == need->decoded) {
            s->next_kept = at + 1;
            return kept;
        }
    }
    return NULL;
}

/* What the group before did not need goes. */
static void drop_kept(stk__samples *s)
{
    size_t left = 0;

    for (size_t i = 0; i < s->num_kept; i++) {
        if (s->kept[i].used)
            s->kept[left++] = s->kept[i];
        else
            stk__free(s->dataset->context, s->kept[i].bytes);
    }
    for (size_t i = 0; i < left; i++)
        s->kept[i].used = false;
    s->num_kept = left;
    s->next_kept = 0;
}

static stk_status no_room(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a range that is decoded");
}

/* Room for `length` bytes of a range as it is read. */
static stk_status place_raw(stk__samples *s, uint64_t length, stk_error *err)
{
    stk_context *ctx = s->dataset->context;

    if (!s->raw || length > s->raw_room) {
        stk__free(ctx, s->raw);
        s->raw_room = 0;
        s->raw = length <= stk__memory_left(ctx) / PART && length <= UINT64_MAX - STK_TAIL
                     ? stk__alloc_buffer(ctx, length + STK_TAIL)
                     : NULL;
        if (!s->raw)
            return no_room(err);
        s->raw_room = length;
    }
    memset(s->raw + length, 0, STK_TAIL);
    return STK_OK;
}

static stk_status decode_need(stk__samples *s, const stk_need *need, uint8_t *to, stk_error *err)
{
    stk_need came = *need;
    const char *reason = NULL;

    STK_TRY(place_raw(s, need->length, err));
    STK_TRY(stk__need_read(s->dataset, &came, s->raw, err));
    const stk_status status = stk__need_decode(s->dataset, &came, s->raw, to, s->worker, &reason);
    if (status == STK_OK)
        return STK_OK;
    return stk__fail_at(err, status, STK_STAGE_DATASET, NULL, need->offset,
                        "what lies at byte %llu cannot be decoded: %s",
                        (unsigned long long)need->offset,
                        reason ? reason : stk_status_text(status));
}

/* The decoded bytes of a need, of an earlier sample or new. */
static stk_status keep_need(stk__samples *s, const stk_need *need, stk_slice *out, stk_error *err)
{
    stk_context *ctx = s->dataset->context;
    struct kept_of *kept = find_kept(s, need);

    if (!kept) {
        struct kept_of *more =
            stk__grow(ctx, s->kept, &s->room_kept, s->num_kept + 1, sizeof *more);
        if (!more)
            return no_room(err);
        s->kept = more;
        uint8_t *bytes = need->decoded <= stk__memory_left(ctx) / PART
                             ? stk__alloc_buffer(ctx, need->decoded + STK_TAIL)
                             : NULL;
        if (!bytes)
            return no_room(err);
        memset(bytes + need->decoded, 0, STK_TAIL);
        const stk_status status = decode_need(s, need, bytes, err);
        if (status != STK_OK) {
            stk__free(ctx, bytes);
            return status;
        }
        kept = &s->kept[s->num_kept++];
        *kept =
            (struct kept_of){need->object, need->offset, need->length, need->decoded, bytes, true};
        s->next_kept = s->num_kept;
    }
    kept->used = true;
    *out = (stk_slice){kept->bytes, need->decoded};
    return STK_OK;
}

static stk_status read_needs(stk__samples *s, stk_error *err)
{
    stk_error own;

    drop_kept(s);
    for (size_t i = 0; i < s->num_needs; i++) {
        stk_need *need = &s->needs[i].need;
        stk_error_init(&own);
        const stk_status status =
            need->decoded ? keep_need(s, need, &s->slices[i], &own)
                          : stk__need_read(s->dataset, need, (void *)s->slices[i].data, &own);
        if (status == STK_ENOENT && need->optional) {
            s->slices[i] = (stk_slice){NULL, 0};
            continue;
        }
        if (status != STK_OK && err)
            *err = own;
        STK_TRY(status);
    }
    return STK_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Bytes of room for a value of sample `i` of the group. */
static uint64_t room_of(const stk__samples *s, size_t i, uint32_t field)
{
    const stk_field *f = &s->dataset->fields[field];

    return f->layout == STK_FIXED ? stk_field_bytes(f)
                                  : s->bounds[i * s->dataset->num_fields + field];
}

/* Have room for the values of the group. */
static stk_status place_values(stk__samples *s, size_t count, stk_error *err)
{
    stk_context *ctx = s->dataset->context;
    uint64_t total = 0;
    bool good = true;

    for (size_t i = 0; good && i < count; i++)
        for (uint32_t f = 0; good && f < s->dataset->num_fields; f++) {
            const uint64_t room = room_of(s, i, f);
            good = room <= UINT64_MAX - STK_CACHE_LINE &&
                   stk__add_size(total, stk__round_up(room, STK_CACHE_LINE), &total);
        }
    if (good && total <= s->out_room && s->out)
        return STK_OK;
    stk__free(ctx, s->out);
    s->out = good && total <= stk__memory_left(ctx) / PART ? stk__alloc_buffer(ctx, total) : NULL;
    s->out_room = total;
    return s->out ? STK_OK
                  : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                              "no memory for the values of %zu samples", count);
}

static void set_values(stk__samples *s, uint64_t first, size_t count)
{
    uint32_t fields = s->dataset->num_fields;
    uint8_t *out = s->out;
    size_t need = 0;

    for (size_t i = 0; i < count; i++) {
        stk_value *values = s->values + i * fields;
        s->samples[i] = (stk_sample){.struct_size = sizeof(stk_sample),
                                     .value_size = sizeof(stk_value),
                                     .index = first + i,
                                     .position = first + i,
                                     .values = values,
                                     .worker = s->worker};
        if (s->num_needs)
            s->samples[i].needs = s->slices + need;
        while (need < s->num_needs && s->needs[need].sample == i)
            need++;
        for (uint32_t f = 0; f < fields; f++) {
            const uint64_t room = room_of(s, i, f);
            values[f] = (stk_value){.out = out, .capacity = room, .data = out, .size = room};
            if (s->dataset->fields[f].layout != STK_FIXED)
                values[f].size = 0;
            out += stk__round_up(room, STK_CACHE_LINE);
        }
    }
}

static stk_status fail_sample(const stk_sample *sample, stk_status status, const char *reason,
                              stk_error *err)
{
    return stk__fail(err, status, STK_STAGE_DATASET, "sample %llu is bad: %s",
                     (unsigned long long)sample->index, reason ? reason : stk_status_text(status));
}

/* Whether the dataset kept to what its fields promise, as a loader looks. */
static stk_status check_values(const stk_dataset *dataset, const stk_sample *sample, stk_error *err)
{
    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        const stk_field *field = &dataset->fields[f];
        const stk_value *value = &sample->values[f];
        if (!value->data && value->size)
            return fail_sample(sample, STK_EFORMAT, "it has no value", err);
        if (field->layout == STK_FIXED && value->size != stk_field_bytes(field))
            return fail_sample(sample, STK_EFORMAT, "its value has another size than the field",
                               err);
        if (field->layout != STK_FIXED && !*field->codec && value->size > value->capacity)
            return fail_sample(sample, STK_ELIMIT, "its value is larger than the dataset said",
                               err);
    }
    return STK_OK;
}

stk_status stk__samples_take(stk__samples *s, uint64_t first, size_t count, stk_error *err)
{
    locator l = {.base = {.struct_size = sizeof(stk_locator),
                          .add = take_need,
                          .cost = take_cost,
                          .bytes = take_bytes},
                 .to = s};
    stk_dataset *dataset = s->dataset;

    s->num_needs = 0;
    for (size_t i = 0; i < count; i++)
        s->indices[i] = first + i;
    if (s->bounds)
        memset(s->bounds, 0, count * dataset->num_fields * sizeof *s->bounds);
    if (dataset->ops->locate) {
        stk_status status = dataset->ops->locate(dataset, s->indices, count, &l.base, err);
        if (status == STK_ENOMEM)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for reads");
        STK_TRY(status);
        STK_TRY(place_needs(s, err));
        STK_TRY(read_needs(s, err));
    }
    STK_TRY(place_values(s, count, err));
    set_values(s, first, count);
    dataset->ops->prepare(dataset, s->samples, count);
    for (size_t i = 0; i < count; i++) {
        const stk_sample *sample = &s->samples[i];
        if (sample->status != STK_OK)
            return fail_sample(sample, sample->status, sample->reason, err);
        STK_TRY(check_values(dataset, sample, err));
    }
    return STK_OK;
}

stk_status stk__samples_take_group(stk__samples *samples, uint64_t first, size_t *count,
                                   stk_error *err)
{
    stk_status status = stk__samples_take(samples, first, *count, err);

    if (status == STK_ENOMEM && *count > 1) {
        *count = 1;
        status = stk__samples_take(samples, first, *count, err);
    }
    return status;
}

const void *stk__samples_value(const stk__samples *s, size_t i, uint32_t field)
{
    return s->values[i * s->dataset->num_fields + field].data;
}

uint64_t stk__samples_size(const stk__samples *s, size_t i, uint32_t field)
{
    return s->values[i * s->dataset->num_fields + field].size;
}
