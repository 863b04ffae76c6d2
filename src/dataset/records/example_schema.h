/* "image:image,label:int64,tokens:int64[]" -> fields; an Example -> their values */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     schema  = entry { "," entry }
 *     entry   = [ field "=" ] feature ":" type [ "[" shape "]" ]
 *     type    = "bytes" | "image" | "float32" | "float" | "int64" or another type of integers |
 *               "raw_" and any type: numbers that lie, little-endian, in a value of bytes
 *     shape   = "" (of any number: ragged) | ".." N (ragged, of N at most) | N { ("," | "x") N }
 *
 * Without brackets a number is one. Without a name the field is called as its feature, but for the
 * names that everybody uses: image/encoded is `image`, image/class/label is `label`.
 */
#ifndef STK_SRC_DATASET_RECORDS_EXAMPLE_SCHEMA_H
#define STK_SRC_DATASET_RECORDS_EXAMPLE_SCHEMA_H

#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/records/example.h"

#define STK__SCHEMA_MAX_FIELDS 128u
#define STK__SCHEMA_MAX_VALUES (UINT64_C(1) << 31) /* of a field of fixed shape */

typedef enum stk__schema_form {
    STK__SCHEMA_BYTES,   /* one value of a bytes_list, as it is */
    STK__SCHEMA_RAW,     /* the same, as numbers */
    STK__SCHEMA_FLOATS,  /* of a float_list */
    STK__SCHEMA_INTEGERS /* of an int64_list */
} stk__schema_form;

typedef struct stk__schema_field {
    char *name, *feature;
    size_t feature_length;
    stk__schema_form form;
    stk_dtype dtype;
    bool image, ragged;
    uint64_t count; /* values; of ragged ones at most, 0: no bound */
    uint32_t rank;
    int64_t shape[STK_MAX_RANK];
    uint8_t pad[8];                     /* a value */
    char *reasons[STK__EXAMPLE_FAULTS]; /* of bad samples, by stk__example_fault */
} stk__schema_field;

typedef struct stk__schema {
    stk_context *ctx;
    uint32_t count;
    bool pads;
    stk__schema_field fields[STK__SCHEMA_MAX_FIELDS];
} stk__schema;

/* Read a schema. `pad` (NULL: none) is the value of what a field of fixed shape has too few of.
 * `out` is to be released, also on failure. Errors: STK_EINVAL, STK_ENOMEM. */
stk_status stk__schema_parse(stk_context *ctx, const char *text, const char *pad, stk__schema *out,
                             stk_error *err);
void stk__schema_release(stk__schema *schema);
/* The schema as text that parse() reads. */
void stk__schema_print(const stk__schema *schema, stk__text *out);
/* Fill `fields`, which has room for schema->count; their names are the schema's. */
void stk__schema_describe(const stk__schema *schema, stk_field *fields);
/* Bytes of the value of a ragged field, of a record of so many bytes, at most. */
uint64_t stk__schema_bound(const stk__schema_field *field, uint64_t record);

/* The values of a record (schema->count of them); else the status and reason
 * of the sample. The reasons live as long as the schema. Any thread. */
void stk__schema_take(const stk__schema *schema, const void *record, uint64_t length,
                      stk_sample *sample);

/* ---- Learning (example_learn.c) ---- */

typedef struct stk__schema_learner stk__schema_learner;
/* NULL: no memory. */
stk__schema_learner *stk__schema_learn_begin(stk_context *ctx);
void stk__schema_learn_end(stk__schema_learner **learner);
/* Look at a record. A damaged one says nothing. Errors: STK_ELIMIT: too many features, STK_ENOMEM.
 */
stk_status stk__schema_learn_offer(stk__schema_learner *learner, const void *record,
                                   uint64_t length, stk_error *err);
/*
 * Put what was learnt into `schema`, and into `left` which features are no fields, and why. Fields
 * come by the names of their features. Errors: STK_EFORMAT: there are none; STK_ENOMEM.
 */
stk_status stk__schema_learn_finish(stk__schema_learner *learner, stk__text *schema,
                                    stk__text *left, stk_error *err);
/* What a field is called whose feature is `feature`. */
const char *stk__schema_usual_name(const char *feature);

#endif
