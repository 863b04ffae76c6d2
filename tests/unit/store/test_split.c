/* SPDX-License-Identifier: Apache-2.0 */
/* The longest prefix of a path that is an object, and the way on below it. */
#include "store/store.h"

#include <stdlib.h>

#include "support/support.h"

/* mem: whose stat() is counted. */
static stk_store_ops counted;
static int stats;

static stk_status counted_open(stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err)
{
    const stk_status status = stk__store_mem.open(ctx, url, options, out, err);

    if (status == STK_OK)
        (*out)->ops = &counted;
    return status;
}

static stk_status counted_stat(stk_store *store, const char *key, const stk_store_call *call,
                               stk_object_info *out, stk_error *err)
{
    stats++;
    return stk__store_mem.stat(store, key, call, out, err);
}

#define ROOTS 6

typedef struct fixture {
    stk_context *ctx;
    char folder[256];
    char roots[ROOTS][300]; /* URLs of folders that hold the same */
} fixture;

/* top.h5, sub/deep.h5, sub/a b.h5, and the folder sub/fold.h5 that holds x. */
static void fill(fixture *f, const char *root)
{
    static const char *const keys[] = {"top.h5", "sub/deep.h5", "sub/fold.h5/x", "sub/a b.h5"};
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->ctx, root, &store, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(keys); i++)
        assert_ok(stk_store_put(store, keys[i], keys[i], strlen(keys[i]), NULL, &err), &err);
    stk_store_close(&store);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_error err;

    f->ctx = test_context();
    test_folder(f->folder);
    counted = stk__store_mem;
    counted.name = "counted";
    counted.open = counted_open;
    counted.stat = counted_stat;
    assert_ok(stk_driver_add(f->ctx, STK_DRIVER_STORE, &counted, &err), &err);
    snprintf(f->roots[0], sizeof f->roots[0], "%s", f->folder);
    snprintf(f->roots[1], sizeof f->roots[1], "file://%s", f->folder);
    snprintf(f->roots[2], sizeof f->roots[2], "slow+%s", f->folder);
    snprintf(f->roots[3], sizeof f->roots[3], "mem://m");
    snprintf(f->roots[4], sizeof f->roots[4], "slow+mem://m");
    snprintf(f->roots[5], sizeof f->roots[5], "counted://m");
    fill(f, f->roots[0]);
    fill(f, f->roots[3]);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    test_folder_remove(f->folder);
    stk_context_destroy(&f->ctx);
    free(f);
    return 0;
}

/* What is opened of each path, in every store; `key` NULL: nothing. */
static const struct {
    const char *path, *key, *rest;
} paths[] = {
    {"top.h5", "top.h5", ""},
    {"top.h5/group", "top.h5", "group"},
    {"top.h5/group/array", "top.h5", "group/array"},
    {"top.h5/group/array/", "top.h5", "group/array"},
    {"top.h5//group//array", "top.h5", "group//array"},
    {"sub/deep.h5", "deep.h5", ""},
    {"sub/deep.h5/a", "deep.h5", "a"},
    {"sub/deep.h5/a/b/c/d/e", "deep.h5", "a/b/c/d/e"},
    {"sub//deep.h5/a", "deep.h5", "a"},
    /* A folder is one, whatever its name. */
    {"sub/fold.h5", "", ""},
    {"sub/fold.h5/", "", ""},
    {"sub/fold.h5/x", "x", ""},
    {"sub/fold.h5/x/y", "x", "y"},
    {"sub/fold.h5/none", NULL, NULL},
    {"sub/fold.h5/none/y", NULL, NULL},
    /* A slash at the end names a folder, and there is none. */
    {"top.h5/", NULL, NULL},
    {"sub/deep.h5/", NULL, NULL},
    {"none", NULL, NULL},
    {"none/group/array", NULL, NULL},
    {"sub/none/array", NULL, NULL},
    {"sub/none.h5/group/array/", NULL, NULL},
};

static void splits(void **state)
{
    fixture *f = *state;
    char url[400], key[STK_MAX_OBJECT_KEY], rest[STK_MAX_OBJECT_KEY];
    stk_error err;

    for (size_t r = 0; r < ROOTS; r++)
        for (size_t i = 0; i < STK_COUNT(paths); i++) {
            stk_store *store = NULL;
            snprintf(url, sizeof url, "%s/%s", f->roots[r], paths[i].path);
            stk_error_init(&err);
            stats = 0;
            const stk_status status =
                stk__store_split(f->ctx, url, &store, key, sizeof key, rest, sizeof rest, &err);
            assert_true(stats <= 1);
            assert_string_equal(key, paths[i].key ? paths[i].key : "");
            assert_string_equal(rest, paths[i].rest ? paths[i].rest : "");
            assert_int_equal(status, paths[i].key ? STK_OK : STK_ENOENT);
            assert_int_equal(store != NULL, paths[i].key != NULL);
            stk_store_close(&store);
            /* Who takes no rest names both parts. */
            const stk_status plain = stk_store_open(f->ctx, url, &store, key, sizeof key, &err);
            assert_int_equal(plain, paths[i].rest && !*paths[i].rest ? STK_OK : STK_ENOENT);
            if (paths[i].rest && *paths[i].rest) {
                assert_non_null(strstr(err.text, paths[i].key));
                assert_non_null(strstr(err.text, paths[i].rest));
                assert_string_equal(key, "");
                assert_null(store);
            }
            stk_store_close(&store);
        }
}

/* The query is of the store, and what is escaped in a URL is the name that it means. */
static void takes_queries(void **state)
{
    fixture *f = *state;
    char url[400], key[100], rest[8];
    stk_store *store = NULL;
    stk_error err;

    snprintf(url, sizeof url, "slow+file://%s/sub/a%%20b.h5/c%%20d?latency=0", f->folder);
    assert_ok(stk__store_split(f->ctx, url, &store, key, sizeof key, rest, sizeof rest, &err),
              &err);
    assert_string_equal(key, "a b.h5");
    assert_string_equal(rest, "c d");
    stk_store_close(&store);
    snprintf(url, sizeof url, "%s/top.h5/c?mmap=true", f->folder);
    assert_ok(stk__store_split(f->ctx, url, &store, key, sizeof key, rest, sizeof rest, &err),
              &err);
    assert_string_equal(rest, "c");
    stk_store_close(&store);
    snprintf(url, sizeof url, "%s/top.h5/c?mmap=perhaps", f->folder);
    assert_fails(stk__store_split(f->ctx, url, &store, key, sizeof key, rest, sizeof rest, &err),
                 STK_EINVAL, &err, "mmap");
    snprintf(url, sizeof url, "%s/top.h5/far too long", f->folder);
    assert_fails(stk__store_split(f->ctx, url, &store, key, sizeof key, rest, sizeof rest, &err),
                 STK_EINVAL, &err, "too long");
    assert_null(store);
    assert_string_equal(key, "");
    assert_fails(stk__store_split(f->ctx, url, &store, NULL, 0, rest, sizeof rest, &err),
                 STK_ENOENT, &err, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits), cmocka_unit_test(takes_queries)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
