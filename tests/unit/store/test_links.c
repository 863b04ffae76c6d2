/* SPDX-License-Identifier: Apache-2.0 */
/* Links in the folder of a store: within it, out of it, and what may be followed. */
#include <stdio.h>
#include <unistd.h>

#include "store/store.h"
#include "support/support.h"

static const char *path_in(const char *folder, const char *name, char path[400])
{
    snprintf(path, 400, "%s/%s", folder, name);
    return path;
}

static stk_status pass(void *user, const char *key, const stk_object_info *info)
{
    return STK_OK;
}

/* Keys go by links within the folder; out of it only where the URL says so, or names the link. */
static void test_links_out(void **state)
{
    stk_context *context = test_context();
    char folder[256], path[400], url[600], key[STK_MAX_OBJECT_KEY], data[4] = "";
    stk_object_info info = {.struct_size = sizeof info};
    stk_put *put = NULL;
    stk_store *other = NULL;
    stk_error err;

    (void)state;
    test_folder(folder);
    test_write(folder, "secret", "shh", 3);
    test_write(folder, "root/in/file", "file", 4);
    snprintf(url, sizeof url, "%s/root", folder);
    assert_int_equal(symlink("../secret", path_in(folder, "root/out", path)), 0);
    assert_int_equal(symlink("..", path_in(folder, "root/up", path)), 0);
    assert_int_equal(symlink("in", path_in(folder, "root/near", path)), 0);
    assert_ok(stk_store_open(context, url, &other, NULL, 0, &err), &err);
    assert_ok(stk_store_read(other, "near/file", 0, 4, data, &err), &err);
    assert_memory_equal(data, "file", 4);
    assert_fails(stk_store_read(other, "out", 0, 3, data, &err), STK_EACCES, &err, "link 'out'");
    assert_fails(stk_store_read(other, "up/secret", 0, 3, data, &err), STK_EACCES, &err,
                 "link 'up'");
    assert_fails(stk_store_stat(other, "up/secret", NULL, &info, &err), STK_EACCES, &err,
                 "link 'up'");
    assert_fails(stk_store_list(other, "", NULL, pass, NULL, &err), STK_EACCES, &err,
                 "follow_links=true");
    assert_fails(stk_store_list(other, "up", NULL, pass, NULL, &err), STK_EACCES, &err, "'up'");
    assert_fails(other->ops->put(other, "up/new", &stk__store_call_none, &put, &err), STK_EACCES,
                 &err, "link 'up'");
    assert_fails(other->ops->remove(other, "up/secret", &stk__store_call_none, &err), STK_EACCES,
                 &err, "link 'up'");
    stk_store_close(&other);
    snprintf(url, sizeof url, "%s/root?follow_links=true", folder);
    assert_ok(stk_store_open(context, url, &other, NULL, 0, &err), &err);
    assert_ok(stk_store_read(other, "up/secret", 0, 3, data, &err), &err);
    assert_memory_equal(data, "shh", 3);
    assert_ok(stk_store_list(other, "", NULL, pass, NULL, &err), &err);
    stk_store_close(&other);
    /* What the user names is what the user wants. */
    snprintf(url, sizeof url, "%s/root/out", folder);
    assert_ok(stk_store_open(context, url, &other, key, sizeof key, &err), &err);
    assert_ok(stk_store_read(other, key, 0, 3, data, &err), &err);
    assert_fails(stk_store_read(other, "up/secret", 0, 3, data, &err), STK_EACCES, &err, "'up'");
    stk_store_close(&other);
    snprintf(url, sizeof url, "%s/root?folow_links=true", folder);
    assert_fails(stk_store_open(context, url, &other, NULL, 0, &err), STK_EINVAL, &err,
                 "did you mean 'follow_links'?");
    test_folder_remove(folder);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_links_out)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
