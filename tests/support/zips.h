/* Archives of tests/golden/store/zip in memory, and such of all that a store holds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_ZIPS_H
#define STK_TESTS_SUPPORT_ZIPS_H

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "support/support.h"

#define ZIPS TESTS_DIR "/golden/store/zip"

/* All bytes of an archive, for the caller to free. */
static inline void *zip_bytes(const char *name, size_t *size)
{
    char path[512], *data = malloc(1 << 20);

    snprintf(path, sizeof path, ZIPS "/%s.zip", name);
    FILE *f = fopen(path, "rb");
    assert_true(f && data);
    *size = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

/* Keep an archive under a key of a store. */
static inline void zip_put(stk_store *store, const char *key, const char *name)
{
    size_t size;
    void *data = zip_bytes(name, &size);
    stk_error err;

    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
    free(data);
}

/* An archive being made. */
typedef struct zip_writer {
    stk_store *from;
    bool deflates;
    unsigned char *members, *directory;
    size_t members_length, directory_length, count;
} zip_writer;

static inline void zip_append(unsigned char **to, size_t *length, const void *data, size_t size)
{
    *to = realloc(*to, *length + size + 1);
    assert_non_null(*to);
    memcpy(*to + *length, data, size);
    *length += size;
}

static inline void zip_number(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* Raw deflate; more than there was where it does not get smaller. */
static inline size_t zip_deflate(const void *data, size_t size, unsigned char *out, size_t room)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)data;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static inline stk_status zip_add(void *user, const char *key, const stk_object_info *info)
{
    zip_writer *w = user;
    unsigned char local[30] = "PK\3\4", entry[46] = "PK\1\2";
    stk_error err;

    if (info->is_folder)
        return stk_store_list(w->from, key, NULL, zip_add, w, &err);
    unsigned char *data = malloc(info->size + 1), *packed = malloc(info->size + 1000);
    assert_true(data && packed);
    assert_ok(stk_store_read(w->from, key, 0, info->size, data, &err), &err);
    const size_t stored =
        w->deflates ? zip_deflate(data, info->size, packed, info->size + 1000) : info->size;
    zip_number(local + 8, w->deflates ? 8 : 0, 2);
    zip_number(local + 14, crc32(0, data, (unsigned)info->size), 4);
    zip_number(local + 18, stored, 4);
    zip_number(local + 22, info->size, 4);
    zip_number(local + 26, strlen(key), 2);
    memcpy(entry + 10, local + 8, 20);
    zip_number(entry + 42, w->members_length, 4);
    zip_append(&w->members, &w->members_length, local, sizeof local);
    zip_append(&w->members, &w->members_length, key, strlen(key));
    zip_append(&w->members, &w->members_length, w->deflates ? packed : data, stored);
    zip_append(&w->directory, &w->directory_length, entry, sizeof entry);
    zip_append(&w->directory, &w->directory_length, key, strlen(key));
    w->count++;
    free(data);
    free(packed);
    return STK_OK;
}

/* Put all that a store holds under a key of another as an archive. */
static inline void zip_all(stk_store *from, stk_store *to, const char *key, bool deflates)
{
    zip_writer w = {.from = from, .deflates = deflates};
    unsigned char end[22] = "PK\5\6";
    stk_error err;

    assert_ok(stk_store_list(from, "", NULL, zip_add, &w, &err), &err);
    zip_number(end + 8, w.count, 2);
    zip_number(end + 10, w.count, 2);
    zip_number(end + 12, w.directory_length, 4);
    zip_number(end + 16, w.members_length, 4);
    zip_append(&w.members, &w.members_length, w.directory, w.directory_length);
    zip_append(&w.members, &w.members_length, end, sizeof end);
    assert_ok(stk_store_put(to, key, w.members, w.members_length, NULL, &err), &err);
    free(w.members);
    free(w.directory);
}

#endif
