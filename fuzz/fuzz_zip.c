/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip archives as stores. Input: an archive. Every folder is listed, every file is read as a whole,
 * in part and without waiting; what comes is the same each way.
 */
#include "fuzz_support.h"

#include <stdio.h>

#define MOST_FILES 64
#define MOST_BYTES (UINT64_C(1) << 20)

typedef struct listing {
    stk_store *store;
    char keys[MOST_FILES][512];
    stk_object_info infos[MOST_FILES];
    size_t count;
} listing;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk_status note(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;

    if (l->count < MOST_FILES && strlen(key) < sizeof l->keys[0]) {
        strcpy(l->keys[l->count], key);
        l->infos[l->count++] = *info;
    }
    return STK_OK;
}

static void read_file(stk_store *store, const char *key, uint64_t size)
{
    unsigned char *whole = malloc(size + 1), *part = malloc(size + 1);
    stk_error err;

    FUZZ_CHECK(whole && part);
    if (stk_store_read(store, key, 0, size, whole, &err) == STK_OK && size) {
        const uint64_t from = size / 3, length = size - from;
        if (stk_store_read(store, key, from, length, part, &err) == STK_OK)
            FUZZ_CHECK(memcmp(part, whole + from, length) == 0);
        if (store->ops->read_now(store, key, 0, size, part) == STK_OK)
            FUZZ_CHECK(memcmp(part, whole, size) == 0);
    }
    FUZZ_CHECK(stk_store_read(store, key, size, 1, part, &err) != STK_OK);
    free(whole);
    free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static listing l;
    fuzz_room room = fuzz_open("mem://z");
    stk_store *zip = NULL;
    stk_error err;
    char key[64];

    fuzz_put(room.store, "a.zip", data, size);
    stk_error_init(&err);
    if (stk_store_open(room.ctx, "zip:mem://z/a.zip!/", &zip, key, sizeof key, &err) == STK_OK) {
        l.count = 0;
        FUZZ_CHECK(stk_store_list(zip, "", NULL, note, &l, &err) == STK_OK);
        for (size_t i = 0; i < l.count; i++) {
            stk_object_info info = {.struct_size = sizeof info};
            FUZZ_CHECK(stk_store_stat(zip, l.keys[i], NULL, &info, &err) == STK_OK);
            FUZZ_CHECK(info.is_folder == l.infos[i].is_folder && info.size == l.infos[i].size);
            if (info.is_folder)
                FUZZ_CHECK(stk_store_list(zip, l.keys[i], NULL, note, &l, &err) == STK_OK);
            else if (info.size <= MOST_BYTES)
                read_file(zip, l.keys[i], info.size);
        }
        stk_store_close(&zip);
    } else {
        FUZZ_CHECK(!zip && err.text[0] && err.status != STK_EINTERNAL);
    }
    stk_store_close(&room.store);
    stk_context_destroy(&room.ctx);
    return 0;
}
