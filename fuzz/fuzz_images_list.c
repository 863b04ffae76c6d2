/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List files of pictures. The first byte says of which kind, the rest is the list. What must hold
 * whatever it says: every key that comes out stays below its folder, every file has a line and a
 * label, names are numbered without holes in their order; nothing is left behind.
 */
#include "dataset/images.h"
#include "fuzz_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_key(const stk__images_table *t, uint64_t i)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_error err;

    size_t length = stk__images_key(t, i, key, sizeof key);
    FUZZ_CHECK(length > 0 && length < sizeof key && length == strlen(key));
    FUZZ_CHECK(key[0] != '/' && stk__key_check(key, &err) == STK_OK);
}

static void check(const stk__images_table *t, const stk__images_labels *l, const uint64_t *lines)
{
    FUZZ_CHECK(t->num_files > 0 && t->num_folders == 1 && t->folders[0].count == t->num_files);
    for (uint64_t i = 0; i < t->num_files; i++) {
        check_key(t, i);
        FUZZ_CHECK(lines[i] > (i ? lines[i - 1] : 0));
        if (l->names.count)
            FUZZ_CHECK(l->labels[i] >= 0 && l->labels[i] < l->names.count);
    }
    for (uint32_t c = 0; c < l->names.count; c++) {
        FUZZ_CHECK(l->names.list[c][0]);
        FUZZ_CHECK(c == 0 || strcmp(l->names.list[c - 1], l->names.list[c]) < 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"list.csv", "list.tsv", "list.txt"};
    stk__images_table table;
    stk__images_labels labels;
    uint64_t *lines = NULL;
    bool absolute = false;
    stk_error err;

    if (size == 0)
        return 0;
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);
    /* Of just this size, so that a sanitizer sees the first byte read beyond it. */
    char *text = malloc(size > 1 ? size - 1 : 1);
    FUZZ_CHECK(text);
    memcpy(text, data + 1, size - 1);
    stk_error_init(&err);
    stk_status status = stk__images_parse_list(ctx, names[data[0] % 3], text, size - 1, &table,
                                               &labels, &lines, &absolute, &err);
    free(text);
    if (status == STK_OK) {
        check(&table, &labels, lines);
        stk__free(ctx, lines);
        stk__images_release_labels(ctx, &labels);
        stk__images_release(&table);
    } else {
        FUZZ_CHECK(err.text[0] && status != STK_EINTERNAL && !lines && !labels.labels);
    }
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
