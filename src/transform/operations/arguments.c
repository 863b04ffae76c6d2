/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/operations/arguments.h"

#include "transform/picture.h"

const stk__items_kind stk__transform_items = {.stage = STK_STAGE_TRANSFORM,
                                              .list = "transforms",
                                              .item = "transform",
                                              .form = "name(argument, option=value)",
                                              .most = STK__MAX_TRANSFORMS};

const stk__items_kind stk__batch_transform_items = {.stage = STK_STAGE_TRANSFORM,
                                                    .list = "batch_transforms",
                                                    .item = "batch transform",
                                                    .form = "name(argument, option=value)",
                                                    .most = STK__MAX_TRANSFORMS};

stk_status stk__size_read(const char *who, const char *text, const char *example, int64_t *height,
                          int64_t *width, stk_error *err)
{
    const stk__numbers size = {.stage = STK_STAGE_TRANSFORM,
                               .who = who,
                               .argument = "size",
                               .text = text,
                               .min = 1,
                               .max = (double)STK__MAX_SIDE,
                               .whole = true,
                               .by_x = true};
    double sides[2];
    uint32_t count;

    if (!text)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: size is missing: say how many pixels stay, as in %s(%s)", who, who,
                         example);
    STK_TRY(stk__numbers_read(&size, sides, 2, &count, err));
    *height = (int64_t)sides[0];
    *width = (int64_t)sides[count - 1];
    return STK_OK;
}

bool stk__padding_any(const stk__padding *padding)
{
    return padding->left || padding->top || padding->right || padding->bottom;
}

stk_status stk__padding_read(const char *who, const char *text, stk__padding *out, stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = who,
                                  .argument = "padding",
                                  .text = text,
                                  .max = STK__MAX_PADDING,
                                  .whole = true};
    double v[4] = {0};
    uint32_t count = 0;

    *out = (stk__padding){0};
    if (!text)
        return STK_OK;
    STK_TRY(stk__numbers_read(&numbers, v, 4, &count, err));
    if (count == 3)
        return stk__numbers_refuse(&numbers,
                                   "has 3 numbers: give 1, 2 (left and right, top and bottom) or 4 "
                                   "(left, top, right, bottom)",
                                   err);
    int64_t left = (int64_t)v[0], top = (int64_t)v[count == 1 ? 0 : 1];
    *out = (stk__padding){.left = left, .top = top, .right = left, .bottom = top};
    if (count == 4) {
        out->right = (int64_t)v[2];
        out->bottom = (int64_t)v[3];
    }
    return STK_OK;
}
