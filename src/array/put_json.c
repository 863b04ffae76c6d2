/* SPDX-License-Identifier: Apache-2.0 */
/* What arrays say of themselves, as whole objects. */
#include "array/room.h"

stk_status stk__array_put_json(stk_store *store, const char *key, const json_t *value,
                               stk_error *err)
{
    char *text = stk__json_text(store->context, value, true);

    if (!text)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory to write %s", key);
    stk_status status = stk_store_put(store, key, text, strlen(text), NULL, err);
    stk__free(store->context, text);
    return status;
}
