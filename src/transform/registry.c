/* SPDX-License-Identifier: Apache-2.0 */
/* What all transforms have, and what the caller's own must have. */
#include "transform/pipeline/pipeline.h"

#include "base/options.h"
#include "base/table.h"

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

static const stk__member members[] = {
    STK__MEMBER(stk_transform_ops, create), STK__MEMBER(stk_transform_ops, destroy),
    STK__MEMBER(stk_transform_ops, plan), STK__MEMBER(stk_transform_ops, apply)};
const stk__given_table stk__transform_table = {.type = "stk_transform_ops",
                                               .least = offsetof(stk_transform_ops, role),
                                               .members = members,
                                               .num_members = STK_COUNT(members),
                                               .stage = STK_STAGE_TRANSFORM};

stk_status stk__transform_kind_check(const void *table, stk_error *err)
{
    const stk_transform_ops *ops = table;

    STK_TRY(stk__table_check(&stk__transform_table, ops, err));
    if (ops->num_draws > STK__MAX_DRAWS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         "transform %s wants %u draws; %d are the most", ops->name, ops->num_draws,
                         STK__MAX_DRAWS);
    return ops->options ? stk__options_check(ops->options, err) : STK_OK;
}
