/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/object.h"

#include <stdio.h>

#define LOAD_PIECE (UINT64_C(8) << 20) /* bytes of one read while an object is loaded */

stk_status stk__object_find(stk_store *store, const char *key, stk__object *object, bool *found,
                            stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    *found = false;
    if (strlen(key) >= sizeof object->key)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "a name of %zu bytes is too long: at most %zu", strlen(key),
                            sizeof object->key - 1);
    stk_status status = stk_store_stat(store, key, NULL, &info, err);
    if (status == STK_ENOENT) {
        stk_error_init(err);
        return STK_OK;
    }
    if (status != STK_OK)
        return status;
    if (info.is_folder)
        return STK_OK;
    memset(object, 0, sizeof *object);
    snprintf(object->key, sizeof object->key, "%s", key);
    object->size = info.size;
    object->identity = info.identity;
    object->mtime_ns = info.mtime_ns;
    *found = true;
    return STK_OK;
}

stk_status stk__object_unchanged(stk_store *store, const stk__object *object, stk__watched_file *w,
                                 const char *who, stk_error *err)
{
    const stk_object_info was = {.struct_size = sizeof was,
                                 .size = object->size,
                                 .identity = object->identity,
                                 .mtime_ns = object->mtime_ns};

    return object->owned ? STK_OK
                         : stk__watched_look(w, who, "file", store, object->key, &was, err);
}

stk_status stk__object_map(stk_store *store, stk__object *object, stk_error *err)
{
    const void *data = NULL;
    uint64_t size = 0;

    /* A table of an older program may end before this function. */
    if (object->data || !STK__STORE_HAS(store->ops, map))
        return STK_OK;
    stk_status status = store->ops->map(store, object->key, &data, &size);
    if (status == STK_ENOTSUP)
        return STK_OK;
    if (status != STK_OK)
        return stk__fail_at(err, status, STK_STAGE_DATASET, object->key, STK_NO_OFFSET,
                            "%s could not be mapped: %s", object->key, stk_status_text(status));
    if (size != object->size)
        return stk__fail_at(err, STK_ECHANGED, STK_STAGE_DATASET, object->key, STK_NO_OFFSET,
                            "%s changed from %llu to %llu bytes while it was opened; open it "
                            "again when no program writes it",
                            object->key, (unsigned long long)object->size,
                            (unsigned long long)size);
    object->data = data;
    return STK_OK;
}

stk_status stk__object_load(stk_store *store, stk__object *object, stk_error *err)
{
    stk_context *ctx = store->context;

    STK_TRY(stk__object_map(store, object, err));
    if (object->data)
        return STK_OK;
    uint64_t left = stk__memory_left(ctx);
    if (object->size > left)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, object->key, STK_NO_OFFSET,
                            "%s has %llu bytes and %llu of memory_limit are left; read it from an "
                            "unpacked file, or raise memory_limit",
                            object->key, (unsigned long long)object->size,
                            (unsigned long long)left);
    unsigned char *data = stk__alloc_buffer(ctx, object->size);
    if (!data)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, object->key, STK_NO_OFFSET,
                            "no memory for the %llu bytes of %s", (unsigned long long)object->size,
                            object->key);
    for (uint64_t at = 0; at < object->size; at += LOAD_PIECE) {
        uint64_t length = STK_MIN(LOAD_PIECE, object->size - at);
        stk_status status = stk_store_read(store, object->key, at, length, data + at, err);
        if (status != STK_OK) {
            stk__free(ctx, data);
            return status;
        }
    }
    object->data = object->owned = data;
    return STK_OK;
}

stk_status stk__object_read(stk_store *store, const stk__object *object, uint64_t offset,
                            uint64_t length, void *data, stk_error *err)
{
    if (!object->data)
        return stk_store_read(store, object->key, offset, length, data, err);
    if (offset > object->size || length > object->size - offset)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, object->key, object->size,
                            "%s ends after %llu bytes; copy or download it again", object->key,
                            (unsigned long long)object->size);
    memcpy(data, object->data + offset, length);
    return STK_OK;
}

stk_status stk__object_locate(const stk__object *object, uint64_t first, uint64_t step,
                              uint64_t length, const uint64_t *indices, size_t n, stk_locator *to)
{
    for (size_t i = 0; !object->data && i < n; i++) {
        stk_need need = {.object = 0, .offset = first + indices[i] * step, .length = length};
        STK_TRY(to->add(to, i, &need));
    }
    return STK_OK;
}

uint64_t stk__object_held(const stk__object *object)
{
    return object->owned ? object->size : 0;
}

void stk__object_release(stk_context *ctx, stk__object *object)
{
    stk__free(ctx, object->owned);
    object->owned = NULL;
    object->data = NULL;
}

size_t stk__object_copy_key(char *to, size_t size, const char *key)
{
    return (size_t)snprintf(to, size, "%s", key);
}

const char *stk__object_name(const char *key, size_t *length)
{
    size_t end = strlen(key);

    if (end && key[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && key[begin - 1] != '/')
        begin--;
    *length = end - begin;
    return key + begin;
}
