/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/kept.h"

#include <sys/stat.h>

#define TIMES 4 /* an index and its tables take at most so many times its bytes */

stk_status stk__kept_read(stk_context *ctx, stk_store *store, const char *key, void **data,
                          stk_object_info *info)
{
    *data = NULL;
    *info = (stk_object_info){.struct_size = sizeof *info};
    STK_TRY(stk_store_stat(store, key, NULL, info, NULL));
    if (info->is_folder)
        return STK_EFORMAT;
    if (info->size > stk__memory_left(ctx) / TIMES)
        return STK_ELIMIT;
    void *bytes = stk__alloc(ctx, info->size);
    if (!bytes)
        return STK_ENOMEM;
    const stk_status status = stk_store_read(store, key, 0, info->size, bytes, NULL);
    if (status == STK_OK)
        *data = bytes;
    else
        stk__free(ctx, bytes);
    return status;
}

stk_status stk__kept_write(stk_store *store, const char *key, bool own, const void *data,
                           uint64_t length, stk_error *err)
{
    struct stat st;

    if (!own && fstat(stk__file_root(store), &st) == 0 && !(st.st_mode & 0222))
        return stk__fail(err, STK_EACCES, STK_STAGE_DATASET, "the folder is read-only");
    return stk_store_put(store, key, data, length, NULL, err);
}
