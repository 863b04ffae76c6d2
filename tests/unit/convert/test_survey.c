/* SPDX-License-Identifier: Apache-2.0 */
/* Surveys stay within the memory that the process may use, and wait for it. */
#include "tree.h"

typedef struct broken {
    int count;
    char reason[256];
} broken;

static void note(void *user, uint64_t index, const char *key, const char *reason)
{
    broken *b = user;

    (void)index;
    assert_non_null(strstr(key, ".jpg"));
    b->count++;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void survey(const char *folder, uint64_t memory_limit, uint64_t workers, stk_survey *found,
                   broken *b)
{
    stk_survey_options options;
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
    stk_survey_options_init(&options);
    options.num_workers = (int64_t)workers;
    *b = (broken){0};
    assert_ok(stk_survey_run(dataset, &options, NULL, note, b, found, &err), &err);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void test_memory(void **state)
{
    bytes b = tree_load(TESTS_DIR "/golden/images", "progressive_444.jpg");
    char folder[256], name[40], wanted[60], most[60];
    stk_survey all, found;
    stk__image_info info;
    const char *reason;
    broken seen;

    (void)state;
    assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
    test_folder(folder);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "a/%d.jpg", i);
        test_write(folder, name, b.data, b.size);
    }
    survey(folder, 0, 1, &all, &seen);
    assert_int_equal(all.pictures, 40);
    assert_int_equal(seen.count, 0);
    /* There is memory for one at a time: threads wait, and nothing else changes. */
    survey(folder, 2 * info.memory, 4, &found, &seen);
    assert_int_equal(found.pictures, 40);
    assert_int_equal(seen.count, 0);
    assert_true(found.mean[0] == all.mean[0] && found.std[2] == all.std[2]);
    /* For none: an error with both numbers. */
    survey(folder, 2 * info.memory - 2, 4, &found, &seen);
    assert_int_equal(seen.count, 40);
    snprintf(wanted, sizeof wanted, "takes %llu bytes", (unsigned long long)info.memory);
    snprintf(most, sizeof most, "memory_limit is %llu", (unsigned long long)info.memory - 1);
    assert_non_null(strstr(seen.reason, wanted));
    assert_non_null(strstr(seen.reason, most));
    free(b.data);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
