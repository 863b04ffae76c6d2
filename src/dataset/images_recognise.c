/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a folder is one of pictures, or of packed ones. */
#include "dataset/images.h"
#include "dataset/packed.h"
#include "dataset/recognise.h"

static bool is_picture(const char *key, size_t length)
{
    return stk__images_kind(key, length) >= STK__IMAGES_JPEG;
}

int stk__images_recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;
    bool group = false;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    if (status == STK_OK && !key[0])
        status = stk__packed_is_group(store, &group, NULL);
    int sure = stk__dataset_unsure(status);
    if (store && sure == 0 && !key[0] && !group)
        sure = stk__folder_recognise(store, is_picture);
    stk_store_close(&store);
    return group ? stk__packed_recognise(ctx, url) : sure;
}
