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

/* A tensor may have the name of the line of a text, or of another tensor: each has a line of its
 * own.
 */
static void test_describe_alike(void **state)
{
    static const char *const names[] = {"__metadata__.a", "tensor.__metadata__.a", "tensor.x",
                                        "format", "tensor.format"};
    char header[1024], folder[256], path[300];
    uint8_t bytes[8 + sizeof header] = {0};
    stk_context *ctx = test_context();
    lines l = {{0}};
    stk_error err;
    int n = snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"text\"}");

    (void)state;
    for (int i = 0; i < 5; i++)
        n += snprintf(header + n, sizeof header - (size_t)n,
                      ",\"%s\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}",
                      names[i], i + 1, i * (i + 1) / 2, (i + 1) * (i + 2) / 2);
    header[n++] = '}';
    memcpy(bytes + 8, header, (size_t)n);
    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    test_folder(folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    test_write(folder, "a.safetensors", bytes, 8 + (size_t)n + 15);
    assert_ok(stk_checkpoint_describe(ctx, path, add_line, &l, &err), &err);
    assert_non_null(strstr(l.text, "\n__metadata__.a=text\n"));
    assert_non_null(strstr(l.text, "\ntensor.__metadata__.a=uint8 [1]\n"));
    assert_non_null(strstr(l.text, "\ntensor.tensor.__metadata__.a=uint8 [2]\n"));
    assert_non_null(strstr(l.text, "\ntensor.x=uint8 [3]\n"));
    assert_non_null(strstr(l.text, "\ntensor.format=uint8 [4]\n"));
    assert_non_null(strstr(l.text, "\ntensor.tensor.format=uint8 [5]\n"));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_like_a_pickle),
        cmocka_unit_test(test_describe_foreign),
        cmocka_unit_test(test_describe_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
