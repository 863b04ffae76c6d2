/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of SquashFS is opened and a file of it read while the n-th allocation fails, for every n
 * until all succeed: STK_ENOMEM or success, the right bytes, nothing left behind.
 */
#include "support/faulty_context.h"
#include "support/objects.h"
#include "support/squash_tree.h"

#define FOLDER TESTS_DIR "/golden/store/squashfs"

static const struct {
    const char *key, *file, *parts;
    uint32_t seed;
} programs[] = {
    {"gzip.sqfs", "above", "t4097", 4},    {"zstd.sqfs", "blocks", "t20000", 5},
    {"lz4.sqfs", "above", "t4097", 4},     {"xz.sqfs", "above", "t4097", 4},
    {"large.sqfs", "large", "t300000", 0}, {"many.sqfs", "z", "t10", 300},
};

/* An image, and what its file holds. */
typedef struct given {
    stk_store *store;
    size_t which;
    const uint8_t *bytes, *wanted;
    uint64_t size, length;
} given;

static stk_status use(void *user, stk_error *err)
{
    const given *g = user;
    stk__squashfs *image = NULL;
    stk__codec_state *codecs = NULL;
    squash_list found = {0};
    const char *reason = NULL;
    uint8_t *out = malloc(g->length);

    assert_non_null(out);
    stk_status status = stk__squashfs_open(g->store, programs[g->which].key, g->size,
                                           &(uint64_t){0}, squash_note, &found, &image, err);
    if (status == STK_OK)
        status = stk__codec_state_create(g->store->context, &codecs, err);
    if (status == STK_OK)
        status = squash_read(image, codecs, g->bytes,
                             squash_find(&found, programs[g->which].file)->entry.inode, 0,
                             g->length, out, &reason);
    if (status == STK_OK)
        assert_memory_equal(out, g->wanted, g->length);
    stk__codec_state_destroy(&codecs);
    stk__squashfs_close(&image);
    free(found.list);
    free(out);
    return status;
}

static void test_allocations(void **state)
{
    for (size_t i = 0; i < STK_COUNT(programs); i++)
        for (int for_good = 0; for_good < 2; for_good++) {
            faults f = {.left = FAULTS_NONE, .for_good = for_good};
            stk_context *ctx = faulty_context(&f);
            given g = {.which = i};
            stk_error err;
            assert_ok(stk_store_open(ctx, FOLDER, &g.store, NULL, 0, &err), &err);
            uint8_t *bytes = test_get(g.store, programs[i].key, &g.size);
            uint8_t *wanted = squash_content(programs[i].seed, programs[i].parts, &g.length);
            g.bytes = bytes;
            g.wanted = wanted;
            assert_true(faulty_each(&f, programs[i].key, 1000, use, &g) > 10);
            free(bytes);
            free(wanted);
            stk_store_close(&g.store);
            stk_context_destroy(&ctx);
            assert_int_equal(f.held, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
