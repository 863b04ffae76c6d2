/* SPDX-License-Identifier: Apache-2.0 */
/* An Example -> the values of the fields of a schema. */
#include "dataset/records/example_schema.h"

/* What was found of a record. */
typedef struct finding {
    const stk__schema *schema;
    uint32_t next;                              /* the field that the next entry is likely of */
    stk__feature found[STK__SCHEMA_MAX_FIELDS]; /* name NULL: not yet */
} finding;

static bool is_of(const stk__schema_field *field, const stk__feature *feature)
{
    return field->feature_length == feature->name_length &&
           memcmp(field->feature, feature->name, feature->name_length) == 0;
}

/* Records of one writer mostly have their features in one order. Several fields may be of one
 * feature. */
static stk__example_fault find(void *user, const stk__feature *feature)
{
    finding *f = user;
    const uint32_t count = f->schema->count;
    uint32_t last = count;

    for (uint32_t n = 0; n < count; n++) {
        const uint32_t i = f->next + n < count ? f->next + n : f->next + n - count;
        if (!is_of(&f->schema->fields[i], feature))
            continue;
        f->found[i] = *feature;
        last = i;
    }
    if (last < count)
        f->next = last + 1 < count ? last + 1 : 0;
    return STK__EXAMPLE_GOOD;
}

static void pad(const stk__schema_field *field, char *out, uint64_t from)
{
    const size_t size = stk_dtype_size(field->dtype);

    for (uint64_t i = from; i < field->count; i++)
        memcpy(out + i * size, field->pad, size);
}

/* Numbers of a list: of fixed shape into their place, ragged ones into the room of the loader. */
static stk__example_fault take_numbers(const stk__schema *schema, const stk__schema_field *field,
                                       const stk__feature *feature, stk_value *value)
{
    const size_t size = stk_dtype_size(field->dtype);
    const uint64_t room = value->capacity / size;
    stk__feature_room to = {value->out, field->dtype,
                            field->count ? STK_MIN(room, field->count) : room, 0};

    const stk__example_fault fault = field->form == STK__SCHEMA_FLOATS
                                         ? stk__feature_floats(feature, &to)
                                         : stk__feature_integers(feature, &to);
    if (fault != STK__EXAMPLE_GOOD)
        return fault;
    value->data = value->out;
    if (field->ragged) {
        value->size = to.used * size;
        return STK__EXAMPLE_GOOD;
    }
    if (to.used < field->count && !schema->pads)
        return STK__EXAMPLE_FEWER;
    pad(field, value->out, to.used);
    return STK__EXAMPLE_GOOD;
}

/* Bytes stay where they are. */
static stk__example_fault take_bytes(const stk__schema_field *field, const stk__feature *feature,
                                     stk_value *value)
{
    const uint64_t size = stk_dtype_size(field->dtype);
    uint64_t length = 0;

    const stk__example_fault fault = stk__feature_bytes(feature, &value->data, &length);
    if (fault != STK__EXAMPLE_GOOD)
        return fault;
    if (field->form == STK__SCHEMA_RAW) {
        if (length % size || (!field->ragged && length / size < field->count))
            return STK__EXAMPLE_FEWER;
        if (field->count && length / size > field->count)
            return STK__EXAMPLE_MORE;
    }
    value->size = length;
    return STK__EXAMPLE_GOOD;
}

static stk__example_fault take_missing(const stk__schema *schema, const stk__schema_field *field,
                                       stk_value *value)
{
    if (field->form == STK__SCHEMA_BYTES || (!field->ragged && !schema->pads))
        return STK__EXAMPLE_MISSING;
    value->data = value->out;
    if (field->ragged)
        value->size = 0;
    else
        pad(field, value->out, 0);
    return STK__EXAMPLE_GOOD;
}

static stk__example_fault take_field(const stk__schema *schema, const stk__schema_field *field,
                                     const stk__feature *feature, stk_value *value)
{
    if (!feature->name)
        return take_missing(schema, field, value);
    if (field->form == STK__SCHEMA_BYTES || field->form == STK__SCHEMA_RAW)
        return take_bytes(field, feature, value);
    return take_numbers(schema, field, feature, value);
}

static void fail(stk_sample *sample, stk__example_fault fault, const char *reason)
{
    static const stk_status statuses[STK__EXAMPLE_FAULTS] = {
        [STK__EXAMPLE_GOOD] = STK_OK,        [STK__EXAMPLE_DAMAGED] = STK_EFORMAT,
        [STK__EXAMPLE_ENTRIES] = STK_ELIMIT, [STK__EXAMPLE_MISSING] = STK_EFORMAT,
        [STK__EXAMPLE_KIND] = STK_EFORMAT,   [STK__EXAMPLE_FEWER] = STK_EFORMAT,
        [STK__EXAMPLE_MORE] = STK_EFORMAT,   [STK__EXAMPLE_RANGE] = STK_EFORMAT};

    sample->status = statuses[fault];
    sample->reason = reason;
}

void stk__schema_take(const stk__schema *schema, const void *record, uint64_t length,
                      stk_sample *sample)
{
    finding f;

    f.schema = schema;
    f.next = 0;
    for (uint32_t i = 0; i < schema->count; i++)
        f.found[i].name = NULL;
    stk__example_fault fault = stk__example_walk(record, length, find, &f);
    if (fault != STK__EXAMPLE_GOOD) {
        fail(sample, fault,
             fault == STK__EXAMPLE_ENTRIES
                 ? "the record has more than 65536 features"
                 : "the record is no tf.train.Example and no SequenceExample that is whole");
        return;
    }
    for (uint32_t i = 0; i < schema->count; i++) {
        const stk__schema_field *field = &schema->fields[i];
        fault = take_field(schema, field, &f.found[i], &sample->values[i]);
        if (fault != STK__EXAMPLE_GOOD) {
            fail(sample, fault, field->reasons[fault]);
            return;
        }
    }
}
