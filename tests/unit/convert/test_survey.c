/* SPDX-License-Identifier: Apache-2.0 */
/* Surveys stay within the memory that the process may use, and wait for it; limits of pictures. */
#include "tree.h"

typedef struct told {
    int broken, unread;
    char reason[256];
} told;

static void note(void *user, uint64_t index, const char *key, bool unread, const char *reason)
{
    told *t = user;

    (void)index;
    assert_non_null(strstr(key, ".jpg"));
    t->broken += !unread;
    t->unread += unread;
    snprintf(t->reason, sizeof t->reason, "%s", reason);
}

static void survey(const char *folder, uint64_t memory_limit, const stk_survey_options *options,
                   stk_survey *found, told *t)
{
    stk_context_options of_context;
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    char spec[400];
    stk_error err;

    stk_context_options_init(&of_context);
    of_context.memory_limit = memory_limit;
    assert_ok(stk_context_create(&of_context, &ctx, &err), &err);
    snprintf(spec, sizeof spec, "images:%s", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    *t = (told){0};
    assert_ok(stk_survey_run(dataset, options, NULL, note, t, found, &err), &err);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    assert_int_equal(t->broken, found->broken);
    assert_int_equal(t->unread, found->unread);
}

static bytes progressive(stk__image_info *info)
{
    bytes b = tree_load(TESTS_DIR "/golden/images", "progressive_444.jpg");
    const char *reason;

    assert_int_equal(stk__image_peek(b.data, b.size, NULL, info, &reason), STK_OK);
    return b;
}

#define PICTURES 40

static void write_pictures(const char *folder, const void *data, size_t size)
{
    char name[40];

    for (int i = 0; i < PICTURES; i++) {
        snprintf(name, sizeof name, "a/%d.jpg", i);
        test_write(folder, name, data, size);
    }
}

static void assert_said(const told *t, const char *what, uint64_t bytes, const char *part,
                        uint64_t most)
{
    char text[200];

    snprintf(text, sizeof text, "%s takes %llu bytes and %s of memory_limit is %llu", what,
             (unsigned long long)bytes, part, (unsigned long long)most);
    assert_non_null(strstr(t->reason, text));
}

static void test_decoding_memory(void **state)
{
    stk_survey_options options;
    stk__image_info info;
    bytes b = progressive(&info);
    stk_survey all = {.struct_size = sizeof all}, found = {.struct_size = sizeof found};
    char folder[256];
    told t;

    (void)state;
    test_folder(folder);
    write_pictures(folder, b.data, b.size);
    stk_survey_options_init(&options);
    options.num_workers = 1;
    survey(folder, 0, &options, &all, &t);
    assert_int_equal(all.pictures, PICTURES);
    assert_int_equal(t.broken + t.unread, 0);
    /* There is memory for one at a time: threads wait, and nothing else changes. */
    options.num_workers = 4;
    survey(folder, 2 * info.memory, &options, &found, &t);
    assert_int_equal(found.pictures, PICTURES);
    assert_int_equal(t.broken + t.unread, 0);
    assert_true(found.mean[0] == all.mean[0] && found.std[2] == all.std[2]);
    /* For none: not read, which is not broken, with both numbers. */
    survey(folder, 2 * info.memory - 2, &options, &found, &t);
    assert_int_equal(t.broken, 0);
    assert_int_equal(t.unread, PICTURES);
    assert_true(found.mean_width == 0 && found.jpeg == 0);
    assert_said(&t, "decoding it", info.memory, "half", info.memory - 1);
    free(b.data);
    test_folder_remove(folder);
}

/* Files are held whole, however long they are behind their pictures: within a quarter. */
static void test_file_memory(void **state)
{
    stk_survey_options options;
    stk__image_info info;
    bytes b = progressive(&info);
    stk_survey found = {.struct_size = sizeof found};
    char folder[256];
    told t;

    (void)state;
    const uint64_t size = info.memory, room = size + STK_TAIL + STK_CACHE_LINE;
    uint8_t *padded = calloc(1, size);
    assert_non_null(padded);
    memcpy(padded, b.data, b.size);
    test_folder(folder);
    write_pictures(folder, padded, size);
    stk_survey_options_init(&options);
    options.num_workers = 4;
    survey(folder, 4 * room, &options, &found, &t);
    assert_int_equal(t.broken + t.unread, 0);
    assert_int_equal(found.bytes, PICTURES * size);
    survey(folder, 4 * room - 4, &options, &found, &t);
    assert_int_equal(t.broken, 0);
    assert_int_equal(t.unread, PICTURES);
    assert_said(&t, "its file", room, "a quarter", room - 1);
    free(padded);
    free(b.data);
    test_folder_remove(folder);
}

/* What is beyond a limit is broken, and the limit named. */
static void test_limits(void **state)
{
    stk_survey_options options;
    stk__image_info info;
    bytes b = progressive(&info);
    stk_survey found = {.struct_size = sizeof found};
    char folder[256];
    told t;

    (void)state;
    test_folder(folder);
    write_pictures(folder, b.data, b.size);
    stk_survey_options_init(&options);
    options.max_blocks = info.blocks;
    options.max_pixels = (uint64_t)info.width * info.height;
    survey(folder, 0, &options, &found, &t);
    assert_int_equal(t.broken + t.unread, 0);
    options.max_blocks--;
    survey(folder, 0, &options, &found, &t);
    assert_int_equal(t.broken, PICTURES);
    assert_non_null(strstr(t.reason, "max_blocks"));
    options.max_blocks++;
    options.max_pixels--;
    survey(folder, 0, &options, &found, &t);
    assert_int_equal(t.broken, PICTURES);
    assert_non_null(strstr(t.reason, "max_pixels"));
    free(b.data);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoding_memory),
        cmocka_unit_test(test_file_memory),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
