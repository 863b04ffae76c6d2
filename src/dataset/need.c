/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/dataset.h"

#include "store/store.h"

stk_status stk__need_read(stk_dataset *dataset, stk_need *need, void *to, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    const size_t length = dataset->ops->object(dataset, need->object, &store, key, sizeof key);
    if (length >= sizeof key)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "a path of %zu bytes is too long; at most %zu", length, sizeof key - 1);
    if (need->up_to) {
        STK_TRY(stk_store_stat(store, key, NULL, &info, err));
        need->length = STK_MIN(need->length, info.size - STK_MIN(info.size, need->offset));
    }
    return stk_store_read(store, key, need->offset, need->length, to, err);
}

stk_status stk__need_decode(stk_dataset *dataset, const stk_need *need, const void *data, void *out,
                            void *worker, const char **reason)
{
    stk_need whole = *need;

    whole.wanted = 0; /* another sample may need more of it */
    whole.in_place = false;
    return dataset->ops->decode(dataset, &whole, data, out, worker, reason);
}
