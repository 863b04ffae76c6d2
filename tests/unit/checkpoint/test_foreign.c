/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of safetensors that another program wrote. */
#include <stoker/checkpoint.h>

#include "support/support.h"

typedef struct lines {
    char text[8192];
} lines;

static void add_line(void *user, const char *name, const char *value)
{
    lines *l = user;
    size_t at = strlen(l->text);

    snprintf(l->text + at, sizeof l->text - at, "%s=%s\n", name, value);
}

/* A header of 640 bytes begins as a pickle does: 80 02. */
static void test_header_like_a_pickle(void **state)
{
    static const char header[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    uint8_t bytes[8 + 640 + 1] = {0x80, 2};
    stk_context *ctx = test_context();
    char folder[256], path[300];
    lines l = {{0}};
    stk_error err;

    (void)state;
    memset(bytes + 8, ' ', 640);
    memcpy(bytes + 8, header, sizeof header - 1);
    test_folder(folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    test_write(folder, "a.safetensors", bytes, sizeof bytes);
    assert_ok(stk_checkpoint_describe(ctx, path, add_line, &l, &err), &err);
    assert_non_null(strstr(l.text, "\nw=uint8 [1]\n"));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Texts of another's file have names that lines have, too. */
static void test_describe_foreign(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"tensors\":{\"dtype\":\"U8\",\"shape\":[1],"
        "\"data_offsets\":[0,1]}}";
    uint8_t bytes[8 + sizeof header] = {sizeof header - 1};
    stk_context *ctx = test_context();
    char folder[256], path[300];
    lines l = {{0}};
    stk_error err;

    (void)state;
    memcpy(bytes + 8, header, sizeof header - 1);
    test_folder(folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    test_write(folder, "a.safetensors", bytes, sizeof bytes);
    assert_ok(stk_checkpoint_describe(ctx, path, add_line, &l, &err), &err);
    assert_non_null(strstr(l.text, "\nformat=safetensors\n"));
    assert_non_null(strstr(l.text, "\n__metadata__.format=pt\n"));
    assert_null(strstr(l.text, "\nformat=pt\n"));
    assert_non_null(strstr(l.text, "\ntensors=1\n"));
    assert_non_null(strstr(l.text, "\ntensor.tensors=uint8 [1]\n"));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_like_a_pickle),
        cmocka_unit_test(test_describe_foreign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
