/* Files of a container, as fuzz targets take them through its store. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_FUZZ_CONTAINED_H
#define STK_FUZZ_CONTAINED_H

#include "fuzz_support.h"

#define FUZZ_FILES 64
#define FUZZ_BYTES (UINT64_C(1) << 20) /* of a file that is read as a whole */
#define FUZZ_PARTS 4

typedef struct fuzz_listing {
    char keys[FUZZ_FILES][512];
    stk_object_info infos[FUZZ_FILES];
    size_t count;
} fuzz_listing;

static inline stk_status fuzz_note(void *user, const char *key, const stk_object_info *info)
{
    fuzz_listing *l = user;

    if (l->count < FUZZ_FILES && strlen(key) < sizeof l->keys[0]) {
        strcpy(l->keys[l->count], key);
        l->infos[l->count++] = *info;
    }
    return STK_OK;
}

/* In parts before the whole is read and after it, and without waiting: what comes is the same. */
static inline void fuzz_read_file(stk_store *store, const char *key, uint64_t size)
{
    const uint64_t bytes = size < FUZZ_BYTES ? size : FUZZ_BYTES, skip = size - bytes;
    unsigned char *whole = malloc(bytes + 1), *part = malloc(bytes + 1), *early = malloc(bytes + 1);
    bool came[FUZZ_PARTS];
    stk_error err;

    FUZZ_CHECK(whole && part && early);
    for (uint64_t i = 0; i < FUZZ_PARTS; i++) {
        const uint64_t from = bytes * i / FUZZ_PARTS, length = bytes * (i + 1) / FUZZ_PARTS - from;
        came[i] = stk_store_read(store, key, skip + from, length, early + from, &err) == STK_OK;
    }
    if (stk_store_read(store, key, skip, bytes, whole, &err) == STK_OK && bytes) {
        for (uint64_t i = 0; i < FUZZ_PARTS; i++) {
            const uint64_t from = bytes * i / FUZZ_PARTS;
            FUZZ_CHECK(!came[i] || memcmp(early + from, whole + from,
                                          bytes * (i + 1) / FUZZ_PARTS - from) == 0);
        }
        const uint64_t from = bytes / 3, length = bytes - from;
        if (stk_store_read(store, key, skip + from, length, part, &err) == STK_OK)
            FUZZ_CHECK(memcmp(part, whole + from, length) == 0);
        if (store->ops->read_now(store, key, skip, bytes, part) == STK_OK)
            FUZZ_CHECK(memcmp(part, whole, bytes) == 0);
    }
    FUZZ_CHECK(stk_store_read(store, key, size, 1, part, &err) != STK_OK);
    free(whole);
    free(part);
    free(early);
}

/* Open a container by its URL, list and look at all that it holds, and read the files. */
static inline void fuzz_container(stk_context *ctx, const char *url)
{
    static fuzz_listing l;
    stk_store *store = NULL;
    stk_error err;
    char key[64];

    stk_error_init(&err);
    if (stk_store_open(ctx, url, &store, key, sizeof key, &err) != STK_OK) {
        FUZZ_CHECK(!store && err.text[0] && err.status != STK_EINTERNAL);
        return;
    }
    l.count = 0;
    FUZZ_CHECK(stk_store_list(store, "", NULL, fuzz_note, &l, &err) == STK_OK);
    for (size_t i = 0; i < l.count; i++) {
        stk_object_info info = {.struct_size = sizeof info};
        FUZZ_CHECK(stk_store_stat(store, l.keys[i], NULL, &info, &err) == STK_OK);
        FUZZ_CHECK(info.is_folder == l.infos[i].is_folder && info.size == l.infos[i].size);
        if (info.is_folder)
            FUZZ_CHECK(stk_store_list(store, l.keys[i], NULL, fuzz_note, &l, &err) == STK_OK);
        else
            fuzz_read_file(store, l.keys[i], info.size);
    }
    FUZZ_CHECK(stk_store_describe(store, "", fuzz_line, &err, &err) == STK_OK ||
               err.status == STK_EFORMAT);
    stk_store_close(&store);
}

#endif
