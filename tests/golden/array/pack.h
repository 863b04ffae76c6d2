/* SPDX-License-Identifier: Apache-2.0 */
/* The .pack files of scripts/make_array_golden.py and make_hdf5_golden.py: many small files in one.
 */
#ifndef STK_TESTS_GOLDEN_ARRAY_PACK_H
#define STK_TESTS_GOLDEN_ARRAY_PACK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/array.h>

#include "support/support.h"

/* Put all files of a pack into mem://pack. */
static inline void pack_load(stk_context *ctx, const char *name, stk_store **store)
{
    char path[400], key[4096];
    stk_error err;
    uint32_t length;

    assert_ok(stk_store_open(ctx, "mem://pack", store, key, sizeof key, &err), &err);
    snprintf(path, sizeof path, TESTS_DIR "/golden/array/%s.pack", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    while (fread(&length, sizeof length, 1, f) == 1) {
        uint64_t size;
        assert_true(length < sizeof key);
        assert_int_equal(fread(key, 1, length, f), length);
        key[length] = 0;
        assert_int_equal(fread(&size, sizeof size, 1, f), 1);
        char *data = malloc(size + 1);
        assert_non_null(data);
        assert_int_equal(fread(data, 1, size, f), size);
        assert_ok(stk_store_put(*store, key, data, size, NULL, &err), &err);
        free(data);
    }
    fclose(f);
}

/* One file of a pack, in memory of malloc(). */
static inline char *pack_find(const char *name, const char *wanted, uint64_t *size)
{
    char path[400], key[4096];
    uint32_t length;
    char *data = NULL;

    snprintf(path, sizeof path, TESTS_DIR "/golden/array/%s.pack", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    while (!data && fread(&length, sizeof length, 1, f) == 1) {
        assert_true(length < sizeof key);
        assert_int_equal(fread(key, 1, length, f), length);
        key[length] = 0;
        assert_int_equal(fread(size, sizeof *size, 1, f), 1);
        if (strcmp(key, wanted) != 0) {
            assert_int_equal(fseek(f, (long)*size, SEEK_CUR), 0);
            continue;
        }
        data = malloc(*size + 1);
        assert_non_null(data);
        assert_int_equal(fread(data, 1, *size, f), *size);
    }
    fclose(f);
    assert_non_null(data);
    return data;
}

/* The arrays of a pack: `files` is what several are in. */
typedef struct pack_names {
    char list[300][64];
    size_t count;
} pack_names;

static inline stk_status pack_take_name(void *user, const char *key, const stk_object_info *info)
{
    pack_names *n = user;

    if (strncmp(key, "files", 5) == 0)
        return STK_OK;
    assert_true(info->is_folder && n->count < 300);
    snprintf(n->list[n->count++], 64, "%.63s", key);
    return STK_OK;
}

static inline void pack_list(stk_store *store, pack_names *out)
{
    stk_error err;

    out->count = 0;
    assert_ok(stk_store_list(store, "", NULL, pack_take_name, out, &err), &err);
}

#define PACK_PART 65536 /* bytes of a part of an array, and its end */

/* "expected", "about" or "path" of an array, into char[PACK_PART]. Returns its bytes. */
static inline uint64_t pack_read(stk_store *store, const char *name, const char *part, char *out)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[128];
    stk_error err;

    snprintf(key, sizeof key, "%s/%s", name, part);
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    assert_true(info.size < PACK_PART);
    assert_ok(stk_store_read(store, key, 0, info.size, out, &err), &err);
    out[info.size] = 0;
    return info.size;
}

/* A box of an array with steps; returns its elements. */
static inline uint64_t pack_draw_box(const stk_array_info *info, uint64_t *seed, int64_t *start,
                                     int64_t *shape, int64_t *step)
{
    uint64_t count = 1;

    for (uint32_t d = 0; d < info->rank; d++) {
        uint64_t n = (uint64_t)info->shape[d];
        start[d] = (int64_t)(test_random(seed) % (n + 1));
        step[d] = 1 + (int64_t)(test_random(seed) % 3);
        uint64_t most =
            start[d] == (int64_t)n ? 0 : (n - (uint64_t)start[d] - 1) / (uint64_t)step[d] + 1;
        shape[d] = (int64_t)(test_random(seed) % (most + 1));
        count *= (uint64_t)shape[d];
    }
    return count;
}

/* The number, in C order of the array, of element `i` of a box. */
static inline uint64_t pack_element(const stk_array_info *info, const stk_array_box *box,
                                    uint64_t i)
{
    uint64_t at = 0, stride = 1;

    for (uint32_t d = info->rank; d-- > 0;) {
        const uint64_t n = (uint64_t)box->shape[d];
        at += (uint64_t)(box->start[d] + (int64_t)(i % n) * box->step[d]) * stride;
        i /= n;
        stride *= (uint64_t)info->shape[d];
    }
    return at;
}

#endif
