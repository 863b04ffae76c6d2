/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets that a program or a plug-in makes: one block with a copy of all that it says of them. */
#include "dataset/dataset.h"

#include "base/sized.h"

static const char *copy_text(char **end, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = memcpy(*end, text, size);

    *end += size;
    return copy;
}

/* A copy of a dataset whose head, fields and classes have been checked; NULL without memory. */
static stk_dataset *copy_of(const stk_dataset *from)
{
    const size_t fields = from->num_fields * sizeof *from->fields;
    const size_t classes = from->num_classes * sizeof *from->classes;
    size_t texts = 0;

    for (uint32_t i = 0; i < from->num_classes; i++)
        texts += strlen(from->classes[i]) + 1;
    char *block = stk__calloc(from->context, 1, sizeof *from + fields + classes + texts);
    if (!block)
        return NULL;
    stk_dataset *copy = (stk_dataset *)block;
    stk_field *own = (stk_field *)(copy + 1);
    const char **names = (const char **)(own + from->num_fields);
    char *end = (char *)(names + from->num_classes);
    *copy = *from;
    memcpy(own, from->fields, fields);
    copy->fields = own;
    for (uint32_t i = 0; i < from->num_classes; i++)
        names[i] = copy_text(&end, from->classes[i]);
    copy->classes = from->num_classes ? names : NULL;
    return copy;
}

stk_status stk_dataset_create(stk_context *context, const stk_dataset_ops *ops, void *state,
                              const stk_dataset_info *info, stk_dataset **out, stk_error *err)
{
    stk_dataset_info given = {.struct_size = sizeof given};
    stk_dataset head;

    if (!out || !context || !info)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "no context, no description or no place for the dataset");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(
        stk__sized_read(&given, sizeof given, info, "stk_dataset_info", STK_STAGE_DATASET, err));
    head = (stk_dataset){.ops = ops,
                         .context = context,
                         .fields = given.fields,
                         .num_fields = given.num_fields,
                         .cost_ns = given.cost_ns,
                         .classes = given.classes,
                         .num_classes = given.num_classes};
    STK_TRY(stk__dataset_check(&head, err));
    stk__dataset_init(&head, ops, context, given.size, given.fields, given.num_fields);
    head.fingerprint = given.fingerprint ? given.fingerprint : head.fingerprint;
    head.block_size = STK_MAX(given.block_size, 1);
    head.cost_ns = given.cost_ns;
    head.worker_bytes = given.worker_bytes;
    head.held_bytes = given.held_bytes;
    head.classes = given.classes;
    head.num_classes = given.num_classes;
    head.holds_context = head.created = true;
    head.state = state;
    *out = copy_of(&head);
    if (!*out)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for a dataset of kind '%s'",
                         ops->name);
    stk__context_ref(context);
    return STK_OK;
}

void *stk_dataset_state(const stk_dataset *dataset)
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
                                   .classes = dataset->classes,
                                   .num_classes = dataset->num_classes};

    stk__sized_write(out, &info);
}
