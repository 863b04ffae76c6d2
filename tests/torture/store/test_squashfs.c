/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of SquashFS is opened and a file of it read while the n-th allocation fails, for every n
 * until all succeed: STK_ENOMEM or success, the right bytes, nothing left behind.
 */
#include "support/faults.h"
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

typedef struct image_bytes {
    const uint8_t *bytes, *wanted;
    uint64_t size, length;
} image_bytes;

static stk_status use(stk_store *store, size_t which, const image_bytes *given, stk_error *err)
{
    stk__squashfs *image = NULL;
    stk__codec_state *codecs = NULL;
    squash_list found = {0};
    const char *reason = NULL;
    uint8_t *out = malloc(given->length);

    assert_non_null(out);
    stk_status status = stk__squashfs_open(store, programs[which].key, given->size, squash_note,
                                           &found, &image, err);
    if (status == STK_OK)
        status = stk__codec_state_create(store->context, &codecs, err);
    if (status == STK_OK)
        status = squash_read(image, codecs, given->bytes,
                             squash_find(&found, programs[which].file)->entry.inode, 0,
                             given->length, out, &reason);
    if (status == STK_OK)
        assert_memory_equal(out, given->wanted, given->length);
    stk__codec_state_destroy(&codecs);
    stk__squashfs_close(&image);
    free(found.list);
    free(out);
    return status;
}

/* True when no allocation failed. */
static bool run(stk_store *store, faults *f, size_t which, int64_t n, const image_bytes *given)
{
    stk_error err;

    f->left = n;
    stk_error_init(&err);
    const stk_status status = use(store, which, given, &err);
    const bool all = !fault_struck(f);
    f->left = FAULTS_NONE;
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("%s, allocation %lld: %s: %s", programs[which].key, (long long)n,
                 stk_status_name(status), err.text);
    if (all)
        assert_int_equal(status, STK_OK);
    return all;
}

static void test_allocations(void **state)
{
    for (size_t i = 0; i < STK_COUNT(programs); i++)
        for (int for_good = 0; for_good < 2; for_good++) {
            faults f = {.left = FAULTS_NONE, .for_good = for_good};
            stk_context_options options;
            stk_context *ctx = NULL;
            stk_store *store = NULL;
            image_bytes given;
            int64_t n = 0;
            stk_error err;
            stk_context_options_init(&options);
            options.io_engine = STK_IO_THREADS;
            options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
            assert_ok(stk_context_create(&options, &ctx, &err), &err);
            assert_ok(stk_store_open(ctx, FOLDER, &store, NULL, 0, &err), &err);
            uint8_t *bytes = test_get(store, programs[i].key, &given.size);
            uint8_t *wanted = squash_content(programs[i].seed, programs[i].parts, &given.length);
            given.bytes = bytes;
            given.wanted = wanted;
            while (!run(store, &f, i, n, &given))
                assert_true(n++ < 1000);
            assert_true(n > 10);
            free(bytes);
            free(wanted);
            stk_store_close(&store);
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
