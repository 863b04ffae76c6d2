/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a folder is a group of Zarr, and one of packed pictures. */
#include "dataset/packed.h"

static const char *const names[] = {"zarr.json", ".zgroup"};

bool stk__packed_is_metadata(const char *name, size_t length)
{
    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (length == strlen(names[i]) && memcmp(name, names[i], length) == 0)
            return true;
    return false;
}

stk_status stk__packed_is_group(stk_store *store, bool *out, stk_error *err)
{
    stk__presence is = STK__IS_NOTHING;

    stk__store_expect(store, names, STK_COUNT(names));
    for (size_t i = 0; i < STK_COUNT(names) && is != STK__IS_OBJECT; i++)
        STK_TRY(stk__store_look(store, names[i], &is, err));
    *out = is == STK__IS_OBJECT;
    return STK_OK;
}

int stk__packed_recognise(stk_context *ctx, const char *url)
{
    stk_group *group = NULL;
    stk__json attributes = {0};

    stk_status status = stk_group_open(ctx, url, &group, NULL);
    const char *text = group ? stk_group_attributes(group) : "";
    if (group)
        status = stk__json_parse(ctx, text, strlen(text), "attributes", &attributes, NULL);
    const bool is = json_object_get(attributes.value, STK__PACKED_MARK);
    stk__json_drop(ctx, &attributes);
    stk_group_close(&group);
    return is ? 2 : stk__dataset_unsure(status);
}
