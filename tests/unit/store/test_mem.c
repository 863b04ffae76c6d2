/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

static stk_store *open_store(stk_context *context, const char *url)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(context, url, &store, NULL, 0, &err), &err);
    return store;
}

static void put_text(stk_store *store, const char *key, const char *text)
{
    stk_error err;

    assert_ok(stk_store_put(store, key, text, strlen(text), NULL, &err), &err);
}

static void expect_text(stk_store *store, const char *key, const char *text)
{
    char data[64] = "";
    stk_error err;

    assert_ok(stk_store_read(store, key, 0, strlen(text), data, &err), &err);
    assert_string_equal(data, text);
}

static void test_put_and_read(void **state)
{
    stk_context *context = test_context();
    stk_store *store = open_store(context, "mem://one"), *other = open_store(context, "mem://one");
    stk_store *apart = open_store(context, "mem://two");
    stk_object_info first = {.struct_size = sizeof first}, second = {.struct_size = sizeof second};
    char data[16];
    stk_error err;

    put_text(store, "a", "hello");
    expect_text(other, "a", "hello");
    assert_fails(stk_store_read(apart, "a", 0, 1, data, &err), STK_ENOENT, &err, "'a'");
    assert_ok(stk_store_read(store, "a", 1, 3, data, &err), &err);
    assert_memory_equal(data, "ell", 3);
    assert_ok(stk_store_read(store, "a", 5, 0, data, &err), &err);
    assert_fails(stk_store_read(store, "a", 3, 3, data, &err), STK_ETRUNCATED, &err,
                 "holds 5 bytes");
    assert_fails(stk_store_read(store, "a", UINT64_MAX, 3, data, &err), STK_ETRUNCATED, &err, "a");
    assert_ok(stk_store_stat(store, "a", NULL, &first, &err), &err);
    assert_int_equal(first.size, 5);
    put_text(other, "a", "jello");
    expect_text(store, "a", "jello");
    assert_ok(stk_store_stat(store, "a", NULL, &second, &err), &err);
    assert_true(first.identity != second.identity);
    assert_ok(store->ops->remove(store, "a", &stk__store_call_none, &err), &err);
    assert_fails(store->ops->remove(store, "a", &stk__store_call_none, &err), STK_ENOENT, &err,
                 "'a'");
    stk_store_close(&store);
    stk_store_close(&other);
    stk_store_close(&apart);
    /* Objects outlive the stores that made them. */
    store = open_store(context, "mem://two");
    put_text(store, "kept", "1");
    stk_store_close(&store);
    store = open_store(context, "mem://two");
    expect_text(store, "kept", "1");
    stk_store_close(&store);
    stk_context_destroy(&context);
}

static void test_map(void **state)
{
    stk_context *context = test_context();
    stk_store *store = open_store(context, "mem://m");
    const void *data = NULL;
    uint64_t size = 0;
    unsigned sum = 0;

    put_text(store, "x", "first");
    assert_int_equal(store->ops->map(store, "x", &data, &size), STK_OK);
    assert_int_equal(size, 5);
    for (size_t i = 0; i < 5 + 64; i++) /* readable beyond its end */
        sum += ((const unsigned char *)data)[i];
    assert_true(sum > 0);
    put_text(store, "x", "second");
    assert_memory_equal(data, "first", 5);
    expect_text(store, "x", "second");
    assert_int_equal(store->ops->map(store, "y", &data, &size), STK_ENOENT);
    stk_store_close(&store);
    stk_context_destroy(&context);
}

typedef struct listing {
    char text[512];
    unsigned stop_after;
} listing;

static stk_status note(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    size_t used = strlen(l->text);

    snprintf(l->text + used, sizeof l->text - used, "%s%s:%d ", key, info->is_folder ? "/" : "",
             (int)info->size);
    return l->stop_after && --l->stop_after == 0 ? STK_ECANCELED : STK_OK;
}

static void test_list_and_folders(void **state)
{
    stk_context *context = test_context();
    stk_store *store = open_store(context, "mem://l");
    const char *const keys[] = {"b/2", "a", "b/1", "a-b", "a/deep/er", "b0", "a/x", "\xc3\xa9"};
    listing all = {"", 0}, below = {"", 0}, some = {"", 2};
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(keys); i++)
        put_text(store, keys[i], "12");
    assert_ok(stk_store_list(store, "", NULL, note, &all, &err), &err);
    assert_string_equal(all.text, "a:2 a-b:2 a/:0 b/:0 b0:2 \xc3\xa9:2 ");
    assert_ok(stk_store_list(store, "a", NULL, note, &below, &err), &err);
    assert_string_equal(below.text, "a/deep/:0 a/x:2 ");
    assert_int_equal(stk_store_list(store, "", NULL, note, &some, &err), STK_ECANCELED);
    assert_string_equal(some.text, "a:2 a-b:2 ");
    assert_fails(stk_store_list(store, "c", NULL, note, &some, &err), STK_ENOENT, &err, "'c'");
    assert_ok(stk_store_stat(store, "b", NULL, &info, &err), &err);
    assert_true(info.is_folder);
    stk_store_close(&store);

    /* A folder of a space is a store too; an object in it is a key of that. */
    char key[64];
    assert_ok(stk_store_open(context, "mem://l/a", &store, key, sizeof key, &err), &err);
    assert_string_equal(key, "");
    expect_text(store, "x", "12");
    memset(&below, 0, sizeof below);
    assert_ok(stk_store_list(store, "", NULL, note, &below, &err), &err);
    assert_string_equal(below.text, "deep/:0 x:2 ");
    stk_store_close(&store);
    assert_ok(stk_store_open(context, "mem://l/a/deep/er", &store, key, sizeof key, &err), &err);
    assert_string_equal(key, "er");
    expect_text(store, key, "12");
    stk_store_close(&store);
    assert_fails(stk_store_open(context, "mem://l/none", &store, key, sizeof key, &err), STK_ENOENT,
                 &err, "none");
    assert_fails(stk_store_open(context, "mem://", &store, key, sizeof key, &err), STK_EINVAL, &err,
                 "mem://NAME");
    assert_fails(stk_store_open(context, "mem://l?x=1", &store, key, sizeof key, &err), STK_EINVAL,
                 &err, "x=1");
    stk_context_destroy(&context);
}

static void test_put_in_pieces(void **state)
{
    stk_context *context = test_context();
    stk_store *store = open_store(context, "mem://p");
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;
    stk_put *put;
    char data[8];

    assert_ok(store->ops->put(store, "big", &stk__store_call_none, &put, &err), &err);
    for (int i = 0; i < 5000; i++)
        assert_ok(put->ops->write(put, &i, sizeof i, &err), &err);
    assert_fails(stk_store_stat(store, "big", NULL, &info, &err), STK_ENOENT, &err, "big");
    assert_ok(put->ops->commit(put, &err), &err);
    for (int i = 0; i < 5000; i += 997) {
        int value;
        assert_ok(stk_store_read(store, "big", (uint64_t)i * sizeof i, sizeof i, &value, &err),
                  &err);
        assert_int_equal(value, i);
    }
    assert_ok(store->ops->put(store, "big", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, "xx", 2, &err), &err);
    put->ops->abandon(put);
    assert_ok(stk_store_stat(store, "big", NULL, &info, &err), &err);
    assert_int_equal(info.size, 5000 * sizeof(int));
    assert_ok(store->ops->put(store, "empty", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_ok(stk_store_read(store, "empty", 0, 0, data, &err), &err);
    assert_fails(store->ops->put(store, "a/", &stk__store_call_none, &put, &err), STK_EINVAL, &err,
                 "a/");
    assert_fails(stk_store_put(store, "", "x", 1, NULL, &err), STK_EINVAL, &err, "names no object");
    assert_fails(stk_store_put(store, "../x", "x", 1, NULL, &err), STK_EINVAL, &err, "..");
    stk_store_close(&store);
    stk_context_destroy(&context);
}

typedef struct racer {
    pthread_t thread;
    stk_store *store;
    bool wrong;
} racer;

#define LARGE 20000

/* Every copy is of one object, never of two. */
static void *read_often(void *argument)
{
    racer *r = argument;
    unsigned char *data = malloc(LARGE);

    for (int i = 0; i < 300; i++) {
        if (stk_store_read(r->store, "shared", 0, LARGE, data, NULL) != STK_OK)
            r->wrong = true;
        for (size_t k = 1; k < LARGE; k++)
            if (data[k] != data[0])
                r->wrong = true;
    }
    free(data);
    return NULL;
}

static void test_replace_while_read(void **state)
{
    stk_context *context = test_context();
    stk_store *store = open_store(context, "mem://r");
    unsigned char *data = malloc(LARGE);
    racer racers[2];
    char key[32];

    memset(data, 0, LARGE);
    assert_int_equal(stk_store_put(store, "shared", data, LARGE, NULL, NULL), STK_OK);
    for (int i = 0; i < 2; i++) {
        racers[i] = (racer){.store = store};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, read_often, &racers[i]), 0);
    }
    for (int i = 0; i < 300; i++) {
        memset(data, i, LARGE);
        assert_int_equal(stk_store_put(store, "shared", data, LARGE, NULL, NULL), STK_OK);
        snprintf(key, sizeof key, "other%d", i);
        assert_int_equal(stk_store_put(store, key, data, 10, NULL, NULL), STK_OK);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(racers[i].thread, NULL);
        assert_false(racers[i].wrong);
    }
    free(data);
    stk_store_close(&store);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_read),       cmocka_unit_test(test_map),
        cmocka_unit_test(test_list_and_folders),   cmocka_unit_test(test_put_in_pieces),
        cmocka_unit_test(test_replace_while_read),
    };

    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
