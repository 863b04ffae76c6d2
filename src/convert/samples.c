/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/samples.h"

#include "dataset/dataset.h"
#include "store/store.h"

#define PART                                                                                       \
    4 /* of the memory that is left is for the values of a group, and as much for its reads */

struct need_of {
    stk_need need;
    size_t sample;
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
    if (s->samples && s->values && s->indices && (s->bounds || !varying))
        return STK_OK;
    stk__samples_release(s);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for %zu samples", most);
}

void stk__samples_release(stk__samples *s)
{
    stk_context *ctx = s->dataset ? s->dataset->context : NULL;

    if (!ctx)
        return;
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

/* Room for the bytes of all needs, and where those of each are. */
static stk_status place_needs(stk__samples *s, stk_error *err)
{
    stk_context *ctx = s->dataset->context;
    uint64_t total = 0, at = 0;
    bool good = true;

    for (size_t i = 0; good && i < s->num_needs; i++)
        good = stk__add_size(total, s->needs[i].need.length, &total) &&
               stk__add_size(total, STK_TAIL, &total);
    stk__free(ctx, s->bytes);
    stk__free(ctx, s->slices);
    s->bytes = good && total <= stk__memory_left(ctx) / PART ? stk__alloc_buffer(ctx, total) : NULL;
    s->slices = stk__calloc(ctx, s->num_needs, sizeof *s->slices);
    if (!s->bytes || !s->slices)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the bytes of %zu reads",
                         s->num_needs);
    for (size_t i = 0; i < s->num_needs; i++) {
        uint64_t length = s->needs[i].need.length;
        s->slices[i] = (stk_slice){s->bytes + at, length};
        memset(s->bytes + at + length, 0, STK_TAIL);
        at += length + STK_TAIL;
    }
    return STK_OK;
}

static stk_status read_needs(stk__samples *s, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;

    for (size_t i = 0; i < s->num_needs; i++) {
        const stk_need *need = &s->needs[i].need;
        size_t length = s->dataset->ops->object(s->dataset, need->object, &store, key, sizeof key);
        if (length >= sizeof key)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                             "a path of %zu bytes is too long; at most %zu", length,
                             sizeof key - 1);
        STK_TRY(
            stk_store_read(store, key, need->offset, need->length, (void *)s->slices[i].data, err));
    }
    return STK_OK;
}

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
                                     .values = values};
        if (s->num_needs)
            s->samples[i].needs = s->slices + need;
        while (need < s->num_needs && s->needs[need].sample == i)
            need++;
        for (uint32_t f = 0; f < fields; f++) {
            const uint64_t room = room_of(s, i, f);
            values[f] = (stk_value){.out = out, .capacity = room, .size = room};
            if (s->dataset->fields[f].layout != STK_FIXED)
                values[f].size = 0;
            out += stk__round_up(room, STK_CACHE_LINE);
        }
    }
}

stk_status stk__samples_take(stk__samples *s, uint64_t first, size_t count, stk_error *err)
{
    locator l = {{sizeof(stk_locator), take_need, take_cost, take_bytes}, s};
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
            return stk__fail(err, sample->status, STK_STAGE_DATASET, "sample %llu is bad: %s",
                             (unsigned long long)sample->index,
                             sample->reason ? sample->reason : stk_status_text(sample->status));
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
