/* The bytes of files in images of SquashFS, as scripts/make_squashfs_golden.py makes them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_SQUASH_TREE_H
#define STK_TESTS_SUPPORT_SQUASH_TREE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/squashfs/squashfs.h"
#include "support/support.h"

/* The bytes that parts like "t4096,z100,n5" say, for the caller to free: text, zeros, noise. */
static inline uint8_t *squash_content(uint32_t seed, const char *parts, uint64_t *size)
{
    uint8_t *out = malloc(1);
    uint64_t room = 0;

    while (strcmp(parts, "-") != 0 && *parts) {
        char *end;
        const char kind = *parts;
        const uint64_t length = strtoull(parts + 1, &end, 10);
        uint32_t x = seed;
        out = realloc(out, room + length + 1);
        assert_non_null(out);
        for (uint64_t i = 0; i < length; i++) {
            x = x * 1664525u + 1013904223u;
            out[room + i] = kind == 'z'   ? 0
                            : kind == 't' ? (uint8_t)(97 + (i / 8 + seed * 7) % 26)
                                          : (uint8_t)(x >> 24);
        }
        room += length;
        parts = *end ? end + 1 : end;
    }
    *size = room;
    return out;
}

/* What was told of an image. */
typedef struct squash_found {
    char path[400];
    stk__squashfs_entry entry;
} squash_found;

typedef struct squash_list {
    squash_found *list;
    size_t count, room;
} squash_list;

static inline stk_status squash_note(void *user, const stk__squashfs_entry *entry, stk_error *err)
{
    squash_list *l = user;

    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->list = realloc(l->list, l->room * sizeof *l->list);
        assert_non_null(l->list);
    }
    squash_found *f = &l->list[l->count++];
    assert_true(strlen(entry->path) < sizeof f->path);
    snprintf(f->path, sizeof f->path, "%s", entry->path);
    f->entry = *entry;
    return STK_OK;
}

static inline const squash_found *squash_find(const squash_list *l, const char *path)
{
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->list[i].path, path))
            return &l->list[i];
    return NULL;
}

/* Bytes of a file from `offset` on, by its extents, decoded one after the other. */
static inline stk_status squash_read(const stk__squashfs *image, stk__codec_state *state,
                                     const uint8_t *bytes, uint64_t inode, uint64_t offset,
                                     uint64_t length, uint8_t *out, const char **reason)
{
    stk__container_run e;

    while (length) {
        stk__squashfs_find_run(image, inode, offset, &e);
        assert_true(e.length > 0);
        const uint64_t n = STK_MIN(e.length, length);
        assert_true(e.skip + e.length <= e.decoded);
        if (!e.stored) {
            memset(out, 0, n);
        } else if (e.raw) {
            memcpy(out, bytes + e.at + e.skip, n);
        } else {
            uint8_t *whole = malloc(e.decoded);
            assert_non_null(whole);
            const stk_status status =
                stk__squashfs_decode(image, state, &e, bytes + e.at, whole, reason);
            if (status == STK_OK)
                memcpy(out, whole + e.skip, n);
            free(whole);
            if (status != STK_OK)
                return status;
        }
        out += n;
        offset += n;
        length -= n;
    }
    return STK_OK;
}

#endif
