/* SPDX-License-Identifier: Apache-2.0 */
/* concat: datasets one behind the other. */
#include "dataset/join.h"

#include <inttypes.h>
#include <stdio.h>

#include "dataset/view.h"

typedef struct concat_options {
    uint32_t struct_size;
    int32_t classes;
} concat_options;

static const stk_option option_list[] = {
    {"classes", STK_OPTION_ENUM, offsetof(concat_options, classes), "check", 0, 0, STK_JOIN_CLASSES,
     NULL,
     "Where names of classes differ: an error, labels numbered anew by name, or labels as they are "
     "and no names."},
};

static const stk_option_table options_table = {"concat", "Datasets one behind the other.",
                                               sizeof(concat_options), option_list,
                                               STK_COUNT(option_list)};

/* The source that has an index: the last that begins at or before it. */
static uint32_t source_at(const stk__join *join, uint64_t index)
{
    uint32_t low = 0, high = join->num;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (join->starts[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void concat_map(const stk__join *join, const uint64_t *indices, uint32_t *source,
                       uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        source[i] = source_at(join, indices[i]);
        out[i] = indices[i] - join->starts[source[i]];
    }
}

static void concat_say(const stk__join *join, uint32_t source, char *text, size_t size)
{
    snprintf(text, size, "%.60s, samples %" PRIu64 ":%" PRIu64, join->sources[source]->ops->name,
             join->starts[source], join->starts[source + 1]);
}

/* Where each begins. The largest of their blocks is good for all: it has whole blocks of the
 * others, and parts of blocks at its ends alone. */
static stk_status lay(stk__join *join, stk_error *err)
{
    uint64_t total = 0, block = 0;

    join->starts = stk__calloc(join->base.context, join->num + UINT64_C(1), sizeof *join->starts);
    if (!join->starts)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "concat: no memory for its list");
    for (uint32_t s = 0; s < join->num; s++) {
        const stk_dataset *source = join->sources[s];
        block = STK_MAX(block, source->block_size);
        if (!stk__add_size(total, source->size, &total))
            return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                             "concat: more samples than 2^64 - 1");
        join->starts[s + 1] = total;
    }
    join->base.size = total;
    join->base.block_size = STK_MAX(block, 1);
    join->base.fingerprint =
        stk__fingerprint(join->base.fingerprint, join->starts, (join->num + 1) * sizeof total);
    snprintf(join->text, sizeof join->text, "%u datasets", join->num);
    return STK_OK;
}

static stk_status concat_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    const concat_options *o = options;
    stk__nested nested;
    stk__join *join = NULL;

    STK_TRY(stk__refuse_query(&options_table, url, err));
    STK_TRY(stk__nested_open(ctx, "concat", url, false, &nested, err));
    stk_status status =
        stk__join_create(&stk__dataset_concat, &nested, (stk__join_classes)o->classes, &join, err);
    stk__nested_release(&nested);
    STK_TRY(status);
    join->map = concat_map;
    join->say = concat_say;
    status = lay(join, err);
    if (status != STK_OK)
        stk__join_close(&join->base);
    else
        *out = &join->base;
    return status;
}

const stk_dataset_ops stk__dataset_concat = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "concat",
    .doc = "Datasets one behind the other, as concat:(SPEC),(SPEC).",
    .options = &options_table,
    .open = concat_open,
    .close = stk__join_close,
    .prepare = stk__join_prepare,
};
