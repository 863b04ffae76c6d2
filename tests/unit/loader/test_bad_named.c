/* SPDX-License-Identifier: Apache-2.0 */
/* With which object and offset a bad sample is told: its own, whatever came first, whatever it was
 * drawn for, wherever its bytes came from. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "unit/loader/run.h"

/* One line of the quarantine log. */
typedef struct told {
    uint64_t epoch, position, index;
    int64_t offset;
    char key[64], rest[600]; /* `rest`: from the stage on */
} told;

static size_t read_lines(const char *path, told *lines, size_t most)
{
    char line[2000];
    size_t n = 0;
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        assert_true(n < most);
        told *t = &lines[n++];
        const char *stage = strstr(line, "\"stage\"");
        assert_non_null(stage);
        snprintf(t->rest, sizeof t->rest, "%s", stage);
        assert_int_equal(sscanf(line,
                                "{\"epoch\": %" SCNu64 ", \"position\": %" SCNu64
                                ", \"index\": %" SCNu64 ", \"key\": \"%63[^\"]\", \"offset\": "
                                "%" SCNd64,
                                &t->epoch, &t->position, &t->index, t->key, &t->offset),
                         5);
    }
    fclose(f);
    assert_int_equal(unlink(path), 0);
    return n;
}

/* Samples that need one range or several: of those that fail by reading and those that fail by
 * being prepared, and of their substitutes, each is told with its own range, the first that is bad,
 * in whatever order they arrive. */
static void the_first_range_that_is_bad(void **state)
{
    static const stk_on_error modes[] = {STK_ON_ERROR_SKIP, STK_ON_ERROR_REPLACE};
    static told lines[4000];
    const counting_options c = {.size = 600,
                                .url = "slow+mem://counting?latency=200us&order=random",
                                .parts = 3,
                                .lost_every = 7,
                                .fail_every = 5,
                                .fail_with = STK_EFORMAT};
    char folder[256], path[300];
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &c);

    test_folder(folder);
    snprintf(path, sizeof path, "%s/q.jsonl", folder);
    for (int64_t workers = 0; workers < 3; workers++)
        for (size_t m = 0; m < 2; m++) {
            stk_loader_options o = base_options();
            size_t drawn = 0;
            o.shuffle = STK_SHUFFLE_NONE;
            o.on_error = modes[m];
            o.num_workers = workers;
            o.quarantine = path;
            stk_loader *loader = open_loader(dataset, &o);
            drain(loader, 1, false, NULL);
            stk_loader_destroy(&loader);
            const size_t n = read_lines(path, lines, STK_COUNT(lines));
            assert_in_range(n, 86 + 120 - 18, STK_COUNT(lines));
            for (size_t i = 0; i < n; i++) {
                const told *t = &lines[i];
                drawn += t->index != t->position;
                assert_string_equal(t->key, "data");
                if (t->offset != (int64_t)counting_bad_offset(&c, t->index))
                    fail_msg("sample %" PRIu64 " at %" PRIu64 ": offset %" PRId64 ", not %" PRIu64,
                             t->index, t->position, t->offset, counting_bad_offset(&c, t->index));
            }
            assert_true(m ? drawn > 50 : drawn == 0);
        }
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void copy_golden(const char *folder, const char *name)
{
    static char bytes[100000];
    char path[600], to[64];

    snprintf(path, sizeof path, "%s/golden/images/%s", TESTS_DIR, name);
    snprintf(to, sizeof to, "class/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    assert_in_range(size, 1, sizeof bytes - 1);
    fclose(f);
    test_write(folder, to, bytes, size);
}

/* A transform that takes none of them: what a decoded cache gives in later epochs is told as what
 * was read in the first. */
static void from_the_decoded_cache(void **state)
{
    enum { EPOCHS = 100 };
    static told lines[5 * EPOCHS];
    static const char *const names[] = {"base_420.jpg", "exif_6.jpg", "grey.jpg", "rgb_8.png"};
    char folder[256], path[300], key[64];
    stk_context *ctx = test_context();
    stk_dataset *dataset;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_error err;

    test_folder(folder);
    for (size_t i = 0; i < STK_COUNT(names); i++)
        copy_golden(folder, names[i]);
    snprintf(path, sizeof path, "images:%s", folder);
    assert_ok(stk_dataset_open(ctx, path, &dataset, &err), &err);
    snprintf(path, sizeof path, "%s/q.jsonl", folder);
    for (int64_t workers = 0; workers < 3; workers++) {
        stk_loader_options o = base_options();
        o.shuffle = STK_SHUFFLE_NONE;
        o.cache = STK_CACHE_DECODED;
        o.on_error = STK_ON_ERROR_SKIP;
        o.transforms = "random_crop(100)";
        o.num_workers = workers;
        o.quarantine = path;
        stk_loader *loader = open_loader(dataset, &o);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            stk_batch *batch;
            assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
            assert_int_equal(stk_batch_count(batch), 0);
            stk_batch_release(&batch);
            assert_int_equal(stk_loader_next(loader, -1, &batch, &err), STK_EOS);
        }
        stk_loader_get_stats(loader, &stats);
        /* With workers some epochs begin before the first has been decoded. */
        assert_in_range(stats.cache_hits, workers ? 1 : (EPOCHS - 1) * STK_COUNT(names),
                        EPOCHS * STK_COUNT(names));
        stk_loader_destroy(&loader);
        assert_int_equal(read_lines(path, lines, STK_COUNT(lines)), EPOCHS * STK_COUNT(names));
        for (size_t i = 0; i < EPOCHS * STK_COUNT(names); i++) {
            snprintf(key, sizeof key, "class/%s", names[i % STK_COUNT(names)]);
            assert_int_equal(lines[i].epoch, i / STK_COUNT(names));
            assert_string_equal(lines[i].key, key);
            assert_int_equal(lines[i].offset, 0);
            assert_string_equal(lines[i].rest, lines[i % STK_COUNT(names)].rest);
        }
    }
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_range_that_is_bad),
        cmocka_unit_test(from_the_decoded_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
