/* SPDX-License-Identifier: Apache-2.0 */
/* Records -> the schema that suits them. */
#include <inttypes.h>

#include "base/bytes.h"
#include "base/text.h"
#include "codec/image/image.h"
#include "dataset/records/example_schema.h"

#define MOST_LEARNT 256u /* features of different names */

/* One feature, in the records that were looked at. */
typedef struct learnt {
    char name[STK__EXAMPLE_MAX_NAME + 1];
    stk__feature_kind kind; /* of the first record that has values; others are bad then */
    stk__feature now;       /* in the record `seen` - 1 */
    uint64_t seen, records; /* has values in so many */
    uint64_t least, most;   /* values */
    bool is_list, pictures; /* in feature_lists; its bytes begin as pictures, all of them */
} learnt;

struct stk__schema_learner {
    stk_context *ctx;
    uint64_t records;
    uint32_t count, unnamed; /* features whose names are no names of fields */
    bool full;
    learnt features[MOST_LEARNT];
};

stk__schema_learner *stk__schema_learn_begin(stk_context *ctx)
{
    stk__schema_learner *l = stk__calloc(ctx, 1, sizeof *l);

    if (l)
        l->ctx = ctx;
    return l;
}

void stk__schema_learn_end(stk__schema_learner **learner)
{
    if (*learner)
        stk__free((*learner)->ctx, *learner);
    *learner = NULL;
}

/* A name that a schema can say. */
static bool is_plain(const char *name, size_t length)
{
    if (length == 0 || length > STK__EXAMPLE_MAX_NAME || !stk__utf8_valid(name, length))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f || strchr(",=[](){}&?#%'\"", name[i]))
            return false;
    return true;
}

static stk__example_fault note(void *user, const stk__feature *feature)
{
    stk__schema_learner *l = user;
    learnt *found = NULL;

    for (uint32_t i = 0; i < l->count && !found; i++)
        if (strlen(l->features[i].name) == feature->name_length &&
            memcmp(l->features[i].name, feature->name, feature->name_length) == 0)
            found = &l->features[i];
    if (!found) {
        if (!is_plain(feature->name, feature->name_length)) {
            l->unnamed++;
            return STK__EXAMPLE_GOOD;
        }
        l->full = l->count == MOST_LEARNT;
        if (l->full)
            return STK__EXAMPLE_ENTRIES;
        found = &l->features[l->count++];
        memcpy(found->name, feature->name, feature->name_length);
        found->least = UINT64_MAX;
        found->pictures = true;
    }
    found->now = *feature;
    found->seen = l->records + 1;
    return STK__EXAMPLE_GOOD;
}

static void count(learnt *feature)
{
    const void *data = NULL;
    uint64_t length = 0;
    stk__feature_values values;

    if (stk__feature_look(&feature->now, &values) != STK__EXAMPLE_GOOD ||
        values.kind == STK__FEATURE_NONE || values.count == 0)
        return;
    if (feature->kind == STK__FEATURE_NONE)
        feature->kind = values.kind;
    if (values.kind != feature->kind)
        return;
    feature->records++;
    feature->is_list = feature->is_list || feature->now.is_list;
    feature->least = STK_MIN(feature->least, values.count);
    feature->most = STK_MAX(feature->most, values.count);
    if (values.kind == STK__FEATURE_BYTES && values.count == 1 &&
        stk__feature_bytes(&feature->now, &data, &length) == STK__EXAMPLE_GOOD &&
        stk__image_recognize(data, length) == STK__IMAGE_UNKNOWN)
        feature->pictures = false;
}

stk_status stk__schema_learn_offer(stk__schema_learner *learner, const void *record,
                                   uint64_t length, stk_error *err)
{
    const stk__example_fault fault = stk__example_walk(record, length, note, learner);

    if (fault == STK__EXAMPLE_ENTRIES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "tfrecord: the first records have more than %u features; give schema with "
                         "those that are to be fields",
                         MOST_LEARNT);
    if (fault != STK__EXAMPLE_GOOD)
        return STK_OK; /* it will be a bad sample */
    for (uint32_t i = 0; i < learner->count; i++)
        if (learner->features[i].seen == learner->records + 1)
            count(&learner->features[i]);
    learner->records++;
    return STK_OK;
}

/* ---- The schema ------------------------------------------------------------------------------ */

/* In place, as there are few. */
static void sort(learnt *features, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k && strcmp(features[k - 1].name, features[k].name) > 0; k--) {
            const learnt held = features[k];
            features[k] = features[k - 1];
            features[k - 1] = held;
        }
}

/* Why a feature is no field; NULL: it is one. */
static const char *why_left(const stk__schema_learner *l, const learnt *feature)
{
    if (feature->kind == STK__FEATURE_NONE)
        return "has no values";
    if (feature->kind != STK__FEATURE_BYTES)
        return NULL;
    if (feature->most > 1)
        return "has several values of bytes";
    return feature->records < l->records ? "is bytes that some records do not have" : NULL;
}

static bool is_taken(const stk__schema_learner *l, const char *name)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->features[i].name, name) == 0 && !why_left(l, &l->features[i]))
            return true;
    return false;
}

/* The usual name of a feature stays free where another feature has it, or has it as well. */
static bool keeps_name(const stk__schema_learner *l, const learnt *feature)
{
    const char *usual = stk__schema_usual_name(feature->name);

    if (usual == feature->name || strcmp(usual, feature->name) == 0)
        return false;
    for (uint32_t i = 0; i < l->count && &l->features[i] != feature; i++)
        if (!why_left(l, &l->features[i]) &&
            strcmp(stk__schema_usual_name(l->features[i].name), usual) == 0)
            return true;
    return is_taken(l, usual);
}

static void add_field(const stk__schema_learner *l, const learnt *feature, stk__text *to)
{
    const bool fixed =
        feature->records == l->records && feature->least == feature->most && !feature->is_list;

    if (keeps_name(l, feature))
        stk__text_add(to, "%s=", feature->name);
    stk__text_add(to, "%s:", feature->name);
    if (feature->kind == STK__FEATURE_BYTES) {
        stk__text_add(to, feature->pictures ? "image" : "bytes");
        return;
    }
    stk__text_add(to, feature->kind == STK__FEATURE_FLOAT ? "float32" : "int64");
    if (!fixed)
        stk__text_add(to, "[]");
    else if (feature->most > 1)
        stk__text_add(to, "[%" PRIu64 "]", feature->most);
}

stk_status stk__schema_learn_finish(stk__schema_learner *learner, stk__text *schema,
                                    stk__text *left, stk_error *err)
{
    uint32_t fields = 0;

    sort(learner->features, learner->count);
    for (uint32_t i = 0; i < learner->count; i++) {
        const learnt *feature = &learner->features[i];
        const char *why = why_left(learner, feature);
        if (!why && fields == STK__SCHEMA_MAX_FIELDS)
            why = "is one field too many";
        if (why) {
            stk__text_add(left, "%s%s %s", left->length ? ", " : "", feature->name, why);
            continue;
        }
        stk__text_add(schema, "%s", fields++ ? "," : "");
        add_field(learner, feature, schema);
    }
    if (learner->unnamed)
        stk__text_add(left, "%sfeatures whose names are no plain text", left->length ? ", " : "");
    if (schema->failed || left->failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tfrecord: no memory for the schema");
    if (!fields)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_DATASET,
                         "tfrecord: the records that were looked at (%" PRIu64
                         ") have no feature that can be a field; give schema",
                         learner->records);
    return STK_OK;
}
