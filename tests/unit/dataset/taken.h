/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a record by a schema as a dataset does. */
#ifndef STK_TESTS_TAKEN_H
#define STK_TESTS_TAKEN_H

#include "dataset/records/example_schema.h"
#include "support/examples.h"

enum { ROOM = 64 }; /* values of a field */

/* The values of one record. */
typedef struct taken {
    stk_sample sample;
    stk_value values[8];
    int64_t room[8][ROOM];
} taken;

static stk_context *context;

static inline int open_context(void **state)
{
    context = test_context();
    *state = NULL;
    return 0;
}

static inline int close_context(void **state)
{
    (void)state;
    stk_context_destroy(&context);
    return 0;
}

/* Read a record, which is freed, by a schema. */
static inline void take_with(const char *text, const char *pad, proto_bytes *record, taken *out)
{
    static stk__schema schema;
    stk_error err;

    assert_ok(stk__schema_parse(context, text, pad, &schema, &err), &err);
    assert_true(schema.count <= 8);
    memset(out, 0, sizeof *out);
    out->sample = (stk_sample){.struct_size = sizeof out->sample,
                               .value_size = sizeof *out->values,
                               .values = out->values};
    for (uint32_t i = 0; i < schema.count; i++) {
        stk_field fields[8];
        stk__schema_describe(&schema, fields);
        const uint64_t bytes = stk_field_bytes(&fields[i]);
        const uint64_t room =
            bytes ? bytes : STK_MIN(stk__schema_bound(&schema.fields[i], record->size), 8 * ROOM);
        assert_true(room <= sizeof out->room[i]);
        memset(out->room[i], 0xee, sizeof out->room[i]);
        out->values[i] = (stk_value){out->room[i], room, NULL, bytes};
    }
    /* Of just its size, so that a sanitizer sees what is read beyond. */
    uint8_t *copy = malloc(record->size ? record->size : 1);
    assert_non_null(copy);
    if (record->size)
        memcpy(copy, record->data, record->size);
    stk__schema_take(&schema, copy, record->size, &out->sample);
    for (uint32_t i = 0; i < schema.count; i++)
        if (out->sample.status == STK_OK && out->values[i].data != out->room[i]) {
            assert_true(out->values[i].size <= sizeof out->room[i]);
            memcpy(out->room[i], out->values[i].data, out->values[i].size);
        }
    if (out->sample.reason) { /* which ends with the schema */
        static char reason[400];
        snprintf(reason, sizeof reason, "%s", out->sample.reason);
        out->sample.reason = reason;
    }
    free(copy);
    free_bytes(record);
    stk__schema_release(&schema);
}

static inline void take(const char *text, proto_bytes *record, taken *out)
{
    take_with(text, NULL, record, out);
    if (out->sample.status != STK_OK)
        fail_msg("%s", out->sample.reason);
}

static inline void refuse(const char *text, proto_bytes *record, stk_status status,
                          const char *part)
{
    taken t;

    take_with(text, NULL, record, &t);
    assert_int_equal(t.sample.status, status);
    assert_non_null(t.sample.reason);
    if (!strstr(t.sample.reason, part))
        fail_msg("'%s' is not in '%s'", part, t.sample.reason);
}

/* An Example of the entries of a map, which are freed. */
static inline proto_bytes example_of(proto_bytes *entries)
{
    proto_bytes e = {NULL, 0};

    put_message(&e, 1, entries);
    return e;
}

static inline void put_one(proto_bytes *map, const char *name, int64_t value)
{
    proto_bytes f = {NULL, 0};

    put_integers(&f, &value, 1, true);
    put_entry(map, name, &f);
}

#endif
