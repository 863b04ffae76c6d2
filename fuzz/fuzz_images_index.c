/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes -> the table of an index of `images:`, once as they are and once with the checksum made
 * right, as whoever writes an index can. Whatever they hold: no crash, no leak, and every table
 * that comes out is one that listing a tree could have given, whose bytes are those it came from.
 */
#include "dataset/images.h"
#include "fuzz_support.h"

#include <xxhash.h>

#define SUM_AT   16 /* the checksum in an index */
#define SUM_FROM 24 /* what it covers */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_key(const stk__images_table *t, uint64_t i)
{
    char key[STK_MAX_OBJECT_KEY];

    size_t length = stk__images_key(t, i, key, sizeof key);
    FUZZ_CHECK(length > 0 && length < sizeof key && length == strlen(key));
    for (const char *part = key; part; part = strchr(part, '/')) {
        part += part != key;
        FUZZ_CHECK(*part && *part != '/' && *part != '.');
    }
}

static void check_table(const stk__images_table *t)
{
    uint64_t files = 0;

    FUZZ_CHECK(t->num_folders > 0 && t->text[t->folders[0].path] == 0);
    for (uint64_t i = 0; i < t->num_folders; i++) {
        const char *path = t->text + t->folders[i].path;
        FUZZ_CHECK(t->folders[i].first == files);
        files += t->folders[i].count;
        FUZZ_CHECK(i == 0 || stk__images_compare_paths(t->text + t->folders[i - 1].path, path) < 0);
    }
    FUZZ_CHECK(files == t->num_files);
    for (uint64_t i = 0; i < t->num_files; i++) {
        FUZZ_CHECK(t->files[i].folder < t->num_folders && t->files[i].size <= INT64_MAX);
        check_key(t, i);
    }
}

static void parse(stk_context *ctx, const uint8_t *data, size_t size)
{
    stk__images_table t;
    uint64_t length = 0;
    void *again = NULL;

    if (stk__images_index_parse(ctx, data, size, &t) != STK_OK) {
        FUZZ_CHECK(!t.text && !t.folders && !t.files);
        return;
    }
    check_table(&t);
    FUZZ_CHECK(stk__images_index_make(&t, &again, &length) == STK_OK);
    FUZZ_CHECK(length == size && memcmp(again, data, size) == 0);
    stk__free(ctx, again);
    stk__images_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);

    parse(ctx, data, size);
    if (size >= SUM_FROM) {
        uint8_t *copy = malloc(size);
        FUZZ_CHECK(copy != NULL);
        memcpy(copy, data, size);
        uint64_t sum = XXH3_64bits(data + SUM_FROM, size - SUM_FROM);
        memcpy(copy + SUM_AT, &sum, sizeof sum);
        parse(ctx, copy, size);
        free(copy);
    }
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
