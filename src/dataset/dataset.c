/* SPDX-License-Identifier: Apache-2.0 */
/* What all datasets have in common: heads, fields, fingerprints, descriptions, the list of kinds.
 */
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/options.h"
#include "base/registry.h"
#include "base/table.h"
#include "dataset/join.h"
#include "dataset/packed.h"
#include "dataset/view.h"

uint64_t stk__fingerprint(uint64_t so_far, const void *data, size_t length)
{
    return XXH64(data, length, so_far);
}

/* Member by member: the bytes between the members of a struct are anything. */
static uint64_t fingerprint_field(uint64_t so_far, const stk_field *field)
{
    int64_t numbers[5] = {(int64_t)field->dtype, (int64_t)field->layout, (int64_t)field->rank,
                          field->picture, (int64_t)strlen(field->codec)};

    so_far = stk__fingerprint(so_far, field->name, strlen(field->name));
    so_far = stk__fingerprint(so_far, numbers, sizeof numbers);
    so_far = stk__fingerprint(so_far, field->codec, strlen(field->codec));
    return stk__fingerprint(so_far, field->shape, field->rank * sizeof *field->shape);
}

void stk__dataset_init(stk_dataset *dataset, const stk_dataset_ops *ops, stk_context *ctx,
                       uint64_t size, const stk_field *fields, uint32_t num_fields)
{
    uint64_t fingerprint = stk__fingerprint(0, ops->name, strlen(ops->name));

    fingerprint = stk__fingerprint(fingerprint, &size, sizeof size);
    for (uint32_t i = 0; i < num_fields; i++)
        fingerprint = fingerprint_field(fingerprint, &fields[i]);
    *dataset = (stk_dataset){
        .ops = ops,
        .context = ctx,
        .size = size,
        .fields = fields,
        .num_fields = num_fields,
        .fingerprint = fingerprint,
        .block_size = 1,
    };
}

stk_field stk__field(const char *name, stk_dtype dtype, const int64_t *shape, bool picture)
{
    stk_field field = {.struct_size = sizeof field,
                       .name = name,
                       .dtype = dtype,
                       .layout = STK_FIXED,
                       .picture = picture};

    while (field.rank < STK_MAX_RANK && shape[field.rank] >= 0) {
        field.shape[field.rank] = shape[field.rank];
        field.rank++;
    }
    return field;
}

uint64_t stk_field_bytes(const stk_field *field)
{
    uint64_t bytes = 0;

    if (!field || field->layout != STK_FIXED || field->rank > STK_MAX_RANK ||
        !stk__shape_bytes(field->shape, field->rank, stk_dtype_size(field->dtype), &bytes))
        return 0;
    return bytes;
}

/* ---- What outsiders may get wrong ---------------------------------------------------------- */

bool stk__dataset_is_own(const stk_dataset *dataset)
{
    while (stk__is_view(dataset))
        dataset = ((const stk__view *)dataset)->inner;
    if (stk__is_join(dataset))
        return stk__join_is_own((const stk__join *)dataset);
    return dataset->ops == &stk__synthetic_unlocated || dataset->ops == &stk__npy_folder ||
           dataset->ops == &stk__packed_pictures || dataset->ops == &stk__packed_decoded ||
           dataset->ops == &stk__packed_ragged ||
           stk__driver_is_builtin(STK_DRIVER_DATASET, dataset->ops);
}

static const char *wrong_with_field(const stk_dataset *d, uint32_t i)
{
    const stk_field *f = &d->fields[i];

    if (f->struct_size != sizeof *f)
        return "has a field without a struct_size";
    if (!f->name || !*f->name || !memchr(f->codec, 0, sizeof f->codec))
        return "has a field without a proper name";
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(d->fields[k].name, f->name) == 0)
            return "has two fields of one name";
    if (f->rank > STK_MAX_RANK || stk_dtype_size(f->dtype) == 0)
        return "has a field of no shape or type";
    if (f->layout != STK_FIXED && f->layout != STK_RAGGED && f->layout != STK_BYTES)
        return "has a field of no layout";
    for (uint32_t k = 0; k < f->rank; k++)
        if (f->shape[k] < -1)
            return "has a field of negative shape";
    if (f->layout == STK_FIXED && stk_field_bytes(f) == 0)
        return "has a field of fixed shape and no or too many bytes";
    return NULL;
}

static const stk__member members[] = {
    STK__MEMBER(stk_dataset_ops, close), STK__MEMBER(stk_dataset_ops, prepare),
    STK__MEMBER_WITH(stk_dataset_ops, object, locate),
    STK__MEMBER_WITH(stk_dataset_ops, locate, object),
    STK__MEMBER_WITH(stk_dataset_ops, locate, decode),
    STK__MEMBER_WITH(stk_dataset_ops, worker_open, worker_close),
    STK__MEMBER_WITH(stk_dataset_ops, worker_close, worker_open),
    /* Of a kind alone: other datasets have constructors of their own. */
    STK__MEMBER(stk_dataset_ops, open)};
static const stk__given_table table_of_kind = {.type = "stk_dataset_ops",
                                               .least = sizeof(stk_dataset_ops),
                                               .members = members,
                                               .num_members = STK_COUNT(members),
                                               .stage = STK_STAGE_DATASET};
static const stk__given_table table_of_one = {.type = "stk_dataset_ops",
                                              .least = sizeof(stk_dataset_ops),
                                              .members = members,
                                              .num_members = STK_COUNT(members) - 1,
                                              .stage = STK_STAGE_DATASET};

static const char *wrong_with(const stk_dataset *d)
{
    const char *wrong = NULL;

    if (!d->fields || d->num_fields == 0)
        return "has no fields";
    if (!d->classes && d->num_classes > 0)
        return "counts classes without naming them";
    if (!(d->cost_ns >= 0 && d->cost_ns < 1e18))
        return "has a cost_ns that is no time";
    for (uint32_t i = 0; !wrong && i < d->num_fields; i++)
        wrong = wrong_with_field(d, i);
    for (uint32_t i = 0; !wrong && d->classes && i < d->num_classes; i++)
        if (!d->classes[i])
            wrong = "has a class without a name";
    return wrong;
}

stk_status stk__dataset_check(const stk_dataset *dataset, stk_error *err)
{
    if (!dataset)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET, "no dataset");
    STK_TRY(stk__table_check(&table_of_one, dataset->ops, err));
    const char *wrong = dataset->context ? wrong_with(dataset) : "has no context";
    if (wrong)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "the dataset of kind '%.64s' %s; its driver is at fault",
                         dataset->ops->name, wrong);
    return STK_OK;
}

stk_status stk__dataset_failure(stk_status status, const char **reason)
{
    static const char *const reasons[] = {
        "the dataset gave STK_EOS, which is an answer: a function of a dataset gives STK_OK or a "
        "failure",
        "the dataset gave STK_EAGAIN, which is an answer: a function of a dataset gives STK_OK or "
        "a "
        "failure",
        "the dataset gave a status that stoker/base.h does not have"};

    if (status == STK_OK)
        return STK_OK;
    if (status < 0 && strcmp(stk_status_name(status), "STK_UNKNOWN") != 0)
        return status;
    *reason = reasons[status == STK_EOS ? 0 : status == STK_EAGAIN ? 1 : 2];
    return STK_EINVAL;
}

stk_status stk__dataset_said(stk_status status, stk_error *err)
{
    const char *reason = NULL;

    stk__dataset_failure(status, &reason);
    return reason ? stk__fail(err, STK_EINVAL, STK_STAGE_DATASET, "%s", reason) : status;
}

stk_dataset *stk_dataset_ref(stk_dataset *dataset)
{
    atomic_fetch_add(&dataset->shares, 1);
    return dataset;
}

void stk_dataset_close(stk_dataset **dataset)
{
    if (!dataset || !*dataset)
        return;
    if (stk__context_forked((*dataset)->context)) {
        *dataset = NULL;
        return;
    }
    if (atomic_fetch_sub(&(*dataset)->shares, 1) > 0) {
        *dataset = NULL;
        return;
    }
    stk_context *ctx = (*dataset)->context, *held = (*dataset)->holds_context ? ctx : NULL;
    void *created = (*dataset)->created ? *dataset : NULL;
    (*dataset)->ops->close(*dataset);
    if (created)
        stk__free(ctx, created);
    *dataset = NULL;
    if (held)
        stk__context_unref(held);
}

/* ---- Kinds --------------------------------------------------------------------------------- */

stk_status stk__dataset_kind_check(const void *table, stk_error *err)
{
    const stk_dataset_ops *ops = table;

    STK_TRY(stk__table_check(&table_of_kind, ops, err));
    return ops->options ? stk__options_check(ops->options, err) : STK_OK;
}

/* ---- Description --------------------------------------------------------------------------- */

#define SHOWN_CLASSES 10

typedef struct printer {
    void (*line)(void *user, const char *name, const char *value);
    void *user;
} printer;

static void print_number(const printer *to, const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, value);
    to->line(to->user, name, text);
}

/* As "image: uint8 28x28x1", "caption: bytes", "boxes: float32 ragged ?x4". */
static void print_field(const printer *to, const stk_field *field)
{
    static const char *const layouts[] = {"", " ragged", " bytes"};
    char text[256], name[256];
    int length =
        snprintf(text, sizeof text, "%s%s", stk_dtype_name(field->dtype),
                 (unsigned)field->layout < STK_COUNT(layouts) ? layouts[field->layout] : "");

    if (field->codec[0])
        length += snprintf(text + length, sizeof text - (size_t)length, " %.15s", field->codec);
    for (uint32_t i = 0; i < STK_MIN(field->rank, STK_MAX_RANK); i++)
        length += field->shape[i] < 0
                      ? snprintf(text + length, sizeof text - (size_t)length, "%s?", i ? "x" : " ")
                      : snprintf(text + length, sizeof text - (size_t)length, "%s%" PRId64,
                                 i ? "x" : " ", field->shape[i]);
    if (field->rank == 0 && field->layout == STK_FIXED)
        snprintf(text + length, sizeof text - (size_t)length, " scalar");
    snprintf(name, sizeof name, "field %s", field->name);
    to->line(to->user, name, text);
}

static void print_classes(const printer *to, const stk_dataset *dataset)
{
    char text[256];
    size_t length = (size_t)snprintf(text, sizeof text, "%u:", dataset->num_classes);
    uint32_t shown = STK_MIN(dataset->num_classes, SHOWN_CLASSES);

    for (uint32_t i = 0; i < shown && length < sizeof text; i++)
        length +=
            (size_t)snprintf(text + length, sizeof text - length, " %.16s", dataset->classes[i]);
    if (shown < dataset->num_classes && length < sizeof text)
        snprintf(text + length, sizeof text - length, " ...");
    to->line(to->user, "classes", text);
}

stk_status stk_dataset_describe(stk_dataset *dataset,
                                void (*line)(void *user, const char *name, const char *value),
                                void *user, stk_error *err)
{
    const printer to = {line, user};
    const stk_dataset *innermost = dataset;
    uint64_t bytes = 0;
    bool varies = false;
    char text[64];

    if (!dataset || !line)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "no dataset to describe or no function "
                         "to print with");
    STK_TRY(stk__context_check(dataset->context, err));
    while (stk__is_view(innermost))
        innermost = ((const stk__view *)innermost)->inner;
    line(user, "dataset", innermost->ops->name);
    print_number(&to, "samples", dataset->size);
    for (uint32_t i = 0; i < dataset->num_fields; i++) {
        print_field(&to, &dataset->fields[i]);
        varies |= dataset->fields[i].layout != STK_FIXED;
        bytes += stk_field_bytes(&dataset->fields[i]);
    }
    snprintf(text, sizeof text, "%" PRIu64 "%s", bytes, varies ? " and what varies" : "");
    line(user, "bytes per sample", text);
    if (dataset->classes && dataset->num_classes)
        print_classes(&to, dataset);
    if (dataset->block_size > 1)
        print_number(&to, "block size", dataset->block_size);
    snprintf(text, sizeof text, "%016" PRIx64, dataset->fingerprint);
    line(user, "fingerprint", text);
    return dataset->ops->describe
               ? stk__dataset_said(dataset->ops->describe(dataset, line, user, err), err)
               : STK_OK;
}

static void no_cost(stk_locator *self, size_t i, double nanoseconds)
{
}

static void no_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
}

stk_locator stk__locator_of_needs(stk_status (*add)(stk_locator *self, size_t i,
                                                    const stk_need *need))
{
    return (stk_locator){
        .struct_size = sizeof(stk_locator), .add = add, .cost = no_cost, .bytes = no_bytes};
}
