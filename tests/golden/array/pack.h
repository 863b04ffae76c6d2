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

#endif
