/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datasets that a program or a plug-in makes: one block with a copy of all that it says of them.
 * Its structs may be of another version: what goes further in has the sizes of this one.
 */
#include "dataset/dataset.h"

#include "base/sized.h"

typedef struct created {
    stk_dataset base;
    const stk_dataset_ops *theirs;
    stk_dataset_ops ops; /* of `base` */
} created;

/* ---- Needs ---- */

typedef struct translator {
    stk_locator base;
    stk_locator *to;
    stk_error *err;
} translator;

static stk_status translate_add(stk_locator *self, size_t i, const stk_need *need)
{
    translator *t = (translator *)self;
    stk_need own = {.struct_size = sizeof own};

    if (need->struct_size == sizeof own)
        return t->to->add(t->to, i, need);
    STK_TRY(stk__sized_read(&own, sizeof own, need, "stk_need", STK_STAGE_DATASET, t->err));
    return t->to->add(t->to, i, &own);
}

static void translate_cost(stk_locator *self, size_t i, double nanoseconds)
{
    translator *t = (translator *)self;

    t->to->cost(t->to, i, nanoseconds);
}

static void translate_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    translator *t = (translator *)self;

    t->to->bytes(t->to, i, field, bytes);
}

static bool translate_same(stk_locator *self, size_t i, size_t like)
{
    translator *t = (translator *)self;

    return t->to->same(t->to, i, like);
}

static size_t translate_run(stk_locator *self, size_t i, size_t n)
{
    translator *t = (translator *)self;

    return t->to->run(t->to, i, n);
}

static stk_status translate_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                   stk_locator *to, stk_error *err)
{
    translator t = {.base = {.struct_size = sizeof t.base,
                             .add = translate_add,
                             .cost = translate_cost,
                             .bytes = translate_bytes,
                             .same = to->same ? translate_same : NULL,
                             .blocks = to->blocks,
                             .mixed = to->mixed,
                             .run = to->run ? translate_run : NULL},
                    .to = to,
                    .err = err};

    return ((created *)dataset)->theirs->locate(dataset, indices, n, &t.base, err);
}

/* ---- Making ---- */

static const char *copy_text(char **end, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = memcpy(*end, text, size);

    *end += size;
    return copy;
}

/* What the texts of a description take. */
static stk_status texts_size(const stk_dataset_info *info, size_t *size, stk_error *err)
{
    if ((info->num_fields && !info->fields) || (info->num_classes && !info->classes))
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "a dataset counts fields or classes without naming them");
    for (uint32_t i = 0; i < info->num_fields; i++) {
        stk_field field = {.struct_size = sizeof field};
        STK_TRY(stk__sized_read(&field, sizeof field, stk__sized_at(info->fields, i), "stk_field",
                                STK_STAGE_DATASET, err));
        *size += field.name ? strlen(field.name) + 1 : 0;
    }
    for (uint32_t i = 0; i < info->num_classes; i++)
        *size += info->classes[i] ? strlen(info->classes[i]) + 1 : 0;
    return STK_OK;
}

/* Copies of the fields, the classes and their texts, which begin at `room`. */
static void copy_lists(stk_dataset *dataset, const stk_dataset_info *info, void *room)
{
    stk_field *fields = room;
    const char **classes = (const char **)(fields + info->num_fields);
    char *end = (char *)(classes + info->num_classes);

    for (uint32_t i = 0; i < info->num_fields; i++) {
        stk__sized_copy(&fields[i], sizeof *fields, stk__sized_at(info->fields, i));
        if (fields[i].name)
            fields[i].name = copy_text(&end, fields[i].name);
    }
    for (uint32_t i = 0; i < info->num_classes; i++)
        classes[i] = info->classes[i] ? copy_text(&end, info->classes[i]) : NULL;
    dataset->fields = fields;
    dataset->num_fields = info->num_fields;
    dataset->classes = info->num_classes ? classes : NULL;
    dataset->num_classes = info->num_classes;
}

/* The rest, once the lists are there. */
static stk_status finish(created *made, const stk_dataset_ops *ops, const stk_dataset_info *info,
                         stk_error *err)
{
    stk_dataset *d = &made->base;
    const stk_dataset lists = *d;

    d->ops = ops;
    d->cost_ns = info->cost_ns;
    STK_TRY(stk__dataset_check(d, err));
    stk__dataset_init(d, ops, lists.context, info->size, lists.fields, lists.num_fields);
    d->fingerprint = info->fingerprint ? info->fingerprint : d->fingerprint;
    d->block_size = STK_MAX(info->block_size, 1);
    d->cost_ns = info->cost_ns;
    d->worker_bytes = info->worker_bytes;
    d->held_bytes = info->held_bytes;
    d->decoded_bytes = info->decoded_bytes;
    d->null_masks = info->null_masks;
    d->classes = lists.classes;
    d->num_classes = lists.num_classes;
    made->theirs = ops;
    stk__sized_copy(&made->ops, sizeof made->ops, ops);
    if (ops->locate)
        made->ops.locate = translate_locate;
    d->ops = &made->ops;
    d->holds_context = d->created = true;
    return STK_OK;
}

stk_status stk_dataset_create(stk_context *context, const stk_dataset_ops *ops, void *state,
                              const stk_dataset_info *info, stk_dataset **out, stk_error *err)
{
    stk_dataset_info own = {.struct_size = sizeof own};
    size_t size = sizeof(created);

    if (!out || !context || !info)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "no context, no description or no place for the dataset");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__sized_read(&own, sizeof own, info, "stk_dataset_info", STK_STAGE_DATASET, err));
    STK_TRY(texts_size(&own, &size, err));
    size += own.num_fields * sizeof *own.fields + own.num_classes * sizeof *own.classes;
    created *made = stk__calloc(context, 1, size);
    if (!made)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                         "no memory for a dataset of one's own");
    made->base.context = context;
    copy_lists(&made->base, &own, made + 1);
    const stk_status status = finish(made, ops, &own, err);
    if (status != STK_OK) {
        stk__free(context, made);
        return status;
    }
    made->base.state = state;
    stk__context_ref(context);
    *out = &made->base;
    return STK_OK;
}

void *stk_dataset_self(const stk_dataset *dataset)
{
    return dataset->state;
}

void stk_dataset_get_info(const stk_dataset *dataset, stk_dataset_info *out)
{
    const stk_dataset_info info = {.struct_size = sizeof info,
                                   .num_fields = dataset->num_fields,
                                   .fields = dataset->fields,
                                   .size = dataset->size,
                                   .fingerprint = dataset->fingerprint,
                                   .block_size = dataset->block_size,
                                   .cost_ns = dataset->cost_ns,
                                   .worker_bytes = dataset->worker_bytes,
                                   .held_bytes = dataset->held_bytes,
                                   .decoded_bytes = dataset->decoded_bytes,
                                   .classes = dataset->classes,
                                   .num_classes = dataset->num_classes,
                                   .null_masks = dataset->null_masks};

    stk__sized_write(out, &info);
}
