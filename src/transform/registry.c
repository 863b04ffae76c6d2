/* SPDX-License-Identifier: Apache-2.0 */
/* What all transforms have; those of the caller's own, and the list of all. */
#include "transform/pipeline.h"

#include "base/options.h"

stk_status stk__transform_keep(stk_context *ctx, const char *who, const void *made, size_t size,
                               stk_transform **out, stk_error *err)
{
    *out = stk__alloc(ctx, size);
    if (!*out)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM, "%s: no memory", who);
    memcpy(*out, made, size);
    return STK_OK;
}

void stk__transform_free(stk_transform *transform)
{
    stk__free(transform->context, transform);
}

stk_status stk_context_add_transform(stk_context *context, const stk_transform_ops *ops,
                                     stk_error *err)
{
    if (!context || !ops)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "a transform needs a context and a table");
    STK_TRY(stk__context_check(context, err));
    if (ops->struct_size < sizeof *ops)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRANSFORM,
            "the table of a transform has struct_size %u, expected at least %zu: set it to sizeof",
            ops->struct_size, sizeof *ops);
    if (!ops->name || !*ops->name || !ops->create || !ops->destroy || !ops->plan || !ops->apply)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "transform %s lacks one of name, create, destroy, plan, apply",
                         ops->name ? ops->name : "without a name");
    if (ops->num_draws > STK__MAX_DRAWS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         "transform %s wants %u draws; %d are the most", ops->name, ops->num_draws,
                         STK__MAX_DRAWS);
    if (ops->options)
        STK_TRY(stk__options_check(ops->options, err));
    for (size_t i = 0; stk_transform_kind(context, i); i++)
        if (strcmp(stk_transform_kind(context, i)->name, ops->name) == 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "there is a transform %s already: give yours another name", ops->name);
    return stk__registry_add(context, STK__REGISTRY_TRANSFORM, ops, err);
}

const stk_transform_ops *stk_transform_kind(const stk_context *context, size_t i)
{
    return stk__registry_get(context, STK__REGISTRY_TRANSFORM, i);
}
