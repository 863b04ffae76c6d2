/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/records/example.h"

enum { EXAMPLE_FEATURES = 1, SEQUENCE_LISTS = 2 };
enum { MAP_ENTRY = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { LIST_FEATURE = 1, LIST_VALUE = 1 };

/* ---- Entries --------------------------------------------------------------------------------- */

static bool is_bytes(const stk__proto_field *f, uint32_t number)
{
    return f->number == number && f->wire == STK__PROTO_BYTES;
}

/* One entry of a map. A writer gives the value once; one that comes in two parts is refused, as it
 * does not lie in one place. */
static stk__example_fault take_entry(stk__proto_cursor entry, stk__feature *feature)
{
    stk__proto_field f;
    stk__proto_scanned found;
    bool valued = false;

    feature->name = "";
    feature->name_length = 0;
    feature->data = (stk__proto_cursor){entry.end, entry.end};
    while ((found = stk__proto_next(&entry, &f)) == STK__PROTO_FOUND) {
        if (is_bytes(&f, ENTRY_KEY)) {
            feature->name = (const char *)f.data.at;
            feature->name_length = (size_t)(f.data.end - f.data.at);
        } else if (is_bytes(&f, ENTRY_VALUE)) {
            if (valued)
                return STK__EXAMPLE_DAMAGED;
            feature->data = f.data;
            valued = true;
        }
    }
    return found == STK__PROTO_END ? STK__EXAMPLE_GOOD : STK__EXAMPLE_DAMAGED;
}

static stk__example_fault walk_map(stk__proto_cursor map, bool is_list, uint32_t *entries,
                                   stk__feature_fn *each, void *user)
{
    stk__feature feature = {.is_list = is_list};
    stk__proto_field f;
    stk__proto_scanned found;

    while ((found = stk__proto_next(&map, &f)) == STK__PROTO_FOUND) {
        if (!is_bytes(&f, MAP_ENTRY))
            continue;
        if (++*entries > STK__EXAMPLE_MAX_ENTRIES)
            return STK__EXAMPLE_ENTRIES;
        stk__example_fault fault = take_entry(f.data, &feature);
        if (fault == STK__EXAMPLE_GOOD)
            fault = each(user, &feature);
        if (fault != STK__EXAMPLE_GOOD)
            return fault;
    }
    return found == STK__PROTO_END ? STK__EXAMPLE_GOOD : STK__EXAMPLE_DAMAGED;
}

stk__example_fault stk__example_walk(const void *data, uint64_t length, stk__feature_fn *each,
                                     void *user)
{
    stk__proto_cursor c = {data, (const uint8_t *)data + length};
    stk__proto_field f;
    stk__proto_scanned found;
    uint32_t entries = 0;

    while ((found = stk__proto_next(&c, &f)) == STK__PROTO_FOUND) {
        if (!is_bytes(&f, EXAMPLE_FEATURES) && !is_bytes(&f, SEQUENCE_LISTS))
            continue;
        const stk__example_fault fault =
            walk_map(f.data, f.number == SEQUENCE_LISTS, &entries, each, user);
        if (fault != STK__EXAMPLE_GOOD)
            return fault;
    }
    return found == STK__PROTO_END ? STK__EXAMPLE_GOOD : STK__EXAMPLE_DAMAGED;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Takes a value of a list: a field LIST_VALUE. */
typedef stk__example_fault value_fn(void *user, const stk__proto_field *value);

/* The kind of a Feature, the last that is given, and where in it the lists of this kind begin:
 * one of another kind in front of it counts no more. */
static stk__example_fault find_kind(stk__proto_cursor *feature, stk__feature_kind *kind)
{
    stk__proto_cursor c = *feature;
    stk__proto_field f;
    stk__proto_scanned found;

    *kind = STK__FEATURE_NONE;
    for (const uint8_t *at = c.at; (found = stk__proto_next(&c, &f)) == STK__PROTO_FOUND;
         at = c.at) {
        if (f.number > STK__FEATURE_INT64 || f.wire != STK__PROTO_BYTES)
            continue;
        if (*kind != f.number)
            feature->at = at;
        *kind = (stk__feature_kind)f.number;
    }
    return found == STK__PROTO_END ? STK__EXAMPLE_GOOD : STK__EXAMPLE_DAMAGED;
}

static stk__example_fault walk_list(stk__proto_cursor list, value_fn *each, void *user)
{
    stk__example_fault fault = STK__EXAMPLE_GOOD;
    stk__proto_field f;
    stk__proto_scanned found;

    while ((found = stk__proto_next(&list, &f)) == STK__PROTO_FOUND) {
        if (f.number == LIST_VALUE)
            fault = each(user, &f);
        if (fault != STK__EXAMPLE_GOOD)
            return fault;
    }
    return found == STK__PROTO_END ? STK__EXAMPLE_GOOD : STK__EXAMPLE_DAMAGED;
}

/* The values of one Feature. `wanted` NONE: of any kind, which is set; a Feature without a list has
 * no values. */
static stk__example_fault walk_feature(stk__proto_cursor feature, stk__feature_kind *wanted,
                                       value_fn *each, void *user)
{
    stk__example_fault fault = STK__EXAMPLE_GOOD;
    stk__feature_kind kind = STK__FEATURE_NONE;
    stk__proto_field f;

    fault = find_kind(&feature, &kind);
    if (fault != STK__EXAMPLE_GOOD || kind == STK__FEATURE_NONE)
        return fault;
    if (*wanted != STK__FEATURE_NONE && *wanted != kind)
        return STK__EXAMPLE_KIND;
    *wanted = kind;
    while (fault == STK__EXAMPLE_GOOD && stk__proto_next(&feature, &f) == STK__PROTO_FOUND)
        if (is_bytes(&f, kind))
            fault = walk_list(f.data, each, user);
    return fault;
}

/* The values of a feature of `features`, or of all those of a FeatureList. */
static stk__example_fault walk_values(const stk__feature *feature, stk__feature_kind *wanted,
                                      uint64_t *steps, value_fn *each, void *user)
{
    stk__example_fault fault = STK__EXAMPLE_GOOD;
    stk__proto_cursor list = feature->data;
    stk__proto_field f;
    stk__proto_scanned found;

    *steps = 1;
    if (!feature->is_list)
        return walk_feature(list, wanted, each, user);
    *steps = 0;
    while ((found = stk__proto_next(&list, &f)) == STK__PROTO_FOUND) {
        if (!is_bytes(&f, LIST_FEATURE))
            continue;
        ++*steps;
        fault = walk_feature(f.data, wanted, each, user);
        if (fault != STK__EXAMPLE_GOOD)
            return fault;
    }
    return found == STK__PROTO_END ? STK__EXAMPLE_GOOD : STK__EXAMPLE_DAMAGED;
}

/* ---- Counting -------------------------------------------------------------------------------- */

typedef struct counting {
    stk__feature_kind kind;
    uint64_t count;
} counting;

static stk__example_fault count_value(void *user, const stk__proto_field *value)
{
    counting *c = user;
    const stk__proto_cursor *data = &value->data;
    const uint64_t length = (uint64_t)(data->end - data->at);

    if (c->kind == STK__FEATURE_BYTES) {
        c->count += value->wire == STK__PROTO_BYTES;
    } else if (c->kind == STK__FEATURE_FLOAT) {
        if (value->wire == STK__PROTO_BYTES && length % sizeof(float))
            return STK__EXAMPLE_DAMAGED;
        c->count += value->wire == STK__PROTO_32      ? 1
                    : value->wire == STK__PROTO_BYTES ? length / sizeof(float)
                                                      : 0;
    } else if (value->wire == STK__PROTO_VARINT) {
        c->count++;
    } else if (value->wire == STK__PROTO_BYTES) {
        for (const uint8_t *at = data->at; at < data->end; at++)
            c->count += *at < 0x80; /* the last byte of a varint */
    }
    return STK__EXAMPLE_GOOD;
}

stk__example_fault stk__feature_look(const stk__feature *feature, stk__feature_values *out)
{
    counting c = {STK__FEATURE_NONE, 0};

    *out = (stk__feature_values){STK__FEATURE_NONE, 0, 0};
    /* The kind is known before the first value is taken. */
    const stk__example_fault fault = walk_values(feature, &c.kind, &out->steps, count_value, &c);
    out->kind = c.kind;
    out->count = c.count;
    return fault;
}

/* ---- Copying --------------------------------------------------------------------------------- */

static stk__example_fault put_floats(void *user, const stk__proto_field *value)
{
    stk__feature_room *to = user;
    const uint64_t length = (uint64_t)(value->data.end - value->data.at);

    if (value->wire != STK__PROTO_BYTES && value->wire != STK__PROTO_32)
        return STK__EXAMPLE_GOOD;
    if (length % sizeof(float))
        return STK__EXAMPLE_DAMAGED;
    if (length / sizeof(float) > to->room - to->used)
        return STK__EXAMPLE_MORE;
    if (length)
        memcpy((float *)to->out + to->used, value->data.at, length); /* little-endian, as here */
    to->used += length / sizeof(float);
    return STK__EXAMPLE_GOOD;
}

stk__example_fault stk__feature_floats(const stk__feature *feature, stk__feature_room *to)
{
    stk__feature_kind kind = STK__FEATURE_FLOAT;
    uint64_t steps;

    return walk_values(feature, &kind, &steps, put_floats, to);
}

/* Put one integer where the type holds it. */
#define PUT(type, least, most)                                                                     \
    do {                                                                                           \
        if (value < (least) || value > (most))                                                     \
            return STK__EXAMPLE_RANGE;                                                             \
        ((type *)to->out)[to->used++] = (type)value;                                               \
        return STK__EXAMPLE_GOOD;                                                                  \
    } while (0)

static stk__example_fault put_narrow(stk__feature_room *to, int64_t value)
{
    switch (to->dtype) {
    case STK_INT8:
        PUT(int8_t, INT8_MIN, INT8_MAX);
    case STK_INT16:
        PUT(int16_t, INT16_MIN, INT16_MAX);
    case STK_INT32:
        PUT(int32_t, INT32_MIN, INT32_MAX);
    case STK_UINT8:
        PUT(uint8_t, 0, UINT8_MAX);
    case STK_UINT16:
        PUT(uint16_t, 0, UINT16_MAX);
    case STK_UINT32:
        PUT(uint32_t, 0, (int64_t)UINT32_MAX);
    default:
        return STK__EXAMPLE_RANGE;
    }
}

static inline stk__example_fault put_integer(stk__feature_room *to, uint64_t bits)
{
    int64_t value;

    if (to->used == to->room)
        return STK__EXAMPLE_MORE;
    memcpy(&value, &bits, sizeof value);
    if (to->dtype != STK_INT64)
        return put_narrow(to, value);
    ((int64_t *)to->out)[to->used++] = value;
    return STK__EXAMPLE_GOOD;
}

static stk__example_fault put_integers(void *user, const stk__proto_field *value)
{
    stk__example_fault fault = STK__EXAMPLE_GOOD;
    stk__proto_cursor c = value->data;
    stk__feature_room *to = user;
    uint64_t bits = 0;

    if (value->wire == STK__PROTO_VARINT)
        return put_integer(to, value->value);
    if (value->wire != STK__PROTO_BYTES)
        return STK__EXAMPLE_GOOD;
    while (c.at < c.end && fault == STK__EXAMPLE_GOOD) {
        if (!stk__proto_varint(&c, &bits))
            return STK__EXAMPLE_DAMAGED;
        fault = put_integer(to, bits);
    }
    return fault;
}

stk__example_fault stk__feature_integers(const stk__feature *feature, stk__feature_room *to)
{
    stk__feature_kind kind = STK__FEATURE_INT64;
    uint64_t steps;

    return walk_values(feature, &kind, &steps, put_integers, to);
}

typedef struct only {
    stk__proto_cursor data;
    uint64_t count;
} only;

static stk__example_fault take_bytes(void *user, const stk__proto_field *value)
{
    only *o = user;

    if (value->wire != STK__PROTO_BYTES)
        return STK__EXAMPLE_GOOD;
    if (o->count++)
        return STK__EXAMPLE_MORE;
    o->data = value->data;
    return STK__EXAMPLE_GOOD;
}

stk__example_fault stk__feature_bytes(const stk__feature *feature, const void **data,
                                      uint64_t *length)
{
    stk__feature_kind kind = STK__FEATURE_BYTES;
    only o = {{NULL, NULL}, 0};
    uint64_t steps;

    const stk__example_fault fault = walk_values(feature, &kind, &steps, take_bytes, &o);
    if (fault != STK__EXAMPLE_GOOD)
        return fault;
    if (!o.count)
        return STK__EXAMPLE_FEWER;
    *data = o.data.at;
    *length = (uint64_t)(o.data.end - o.data.at);
    return STK__EXAMPLE_GOOD;
}
