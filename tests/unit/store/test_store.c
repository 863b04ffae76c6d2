/* SPDX-License-Identifier: Apache-2.0 */
/* URLs, keys, and stores of a caller's own. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"
#include "store/url.h"

typedef struct fixture {
    stk_context *context;
    char folder[256];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->context = test_context();
    test_folder(f->folder);
    test_write(f->folder, "plain.bin", "0123456789", 10);
    test_write(f->folder, "a b%41.bin", "percent", 7);
    test_write(f->folder, "what?.bin", "question", 8);
    test_write(f->folder, "sub/inner.bin", "inner", 5);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    test_folder_remove(f->folder);
    stk_context_destroy(&f->context);
    free(f);
    return 0;
}

/* Open a URL made of `before`, the folder and `after`; check its key and read the text behind it.
 */
static void expect(fixture *f, const char *before, const char *after, const char *key,
                   const char *text)
{
    char url[600], got[64] = "?", data[64] = "";
    stk_store *store = NULL;
    stk_error err;

    snprintf(url, sizeof url, "%s%s%s", before, f->folder, after);
    assert_ok(stk_store_open(f->context, url, &store, got, sizeof got, &err), &err);
    assert_string_equal(got, key);
    if (text) {
        assert_ok(stk_store_read(store, got, 0, strlen(text), data, &err), &err);
        assert_string_equal(data, text);
    }
    stk_store_close(&store);
    assert_null(store);
}

static void refuse(fixture *f, const char *before, const char *after, stk_status status,
                   const char *part)
{
    char url[600], key[64];
    stk_store *store = NULL;
    stk_error err;

    snprintf(url, sizeof url, "%s%s%s", before, f->folder, after);
    assert_fails(stk_store_open(f->context, url, &store, key, sizeof key, &err), status, &err,
                 part);
    assert_null(store);
    assert_string_equal(key, "");
}

static void test_urls(void **state)
{
    fixture *f = *state;

    expect(f, "", "", "", NULL);
    expect(f, "", "/", "", NULL);
    expect(f, "file://", "", "", NULL);
    expect(f, "file:", "", "", NULL);
    expect(f, "file://localhost", "", "", NULL);
    expect(f, "", "/plain.bin", "plain.bin", "0123456789");
    expect(f, "file://", "/plain.bin", "plain.bin", "0123456789");
    expect(f, "file://", "/plain.bin?mmap=true", "plain.bin", "0123456789");
    expect(f, "", "/plain.bin?mmap=true", "plain.bin", "0123456789");
    expect(f, "slow+file://", "/plain.bin?latency=0", "plain.bin", "0123456789");
    expect(f, "slow+", "/plain.bin?latency=0&mmap=false", "plain.bin", "0123456789");
    expect(f, "slow+slow+", "/sub/inner.bin", "inner.bin", "inner");
    /* A plain path stands as it is; a URL is escaped. */
    expect(f, "", "/a b%41.bin", "a b%41.bin", "percent");
    expect(f, "file://", "/a%20b%2541.bin", "a b%41.bin", "percent");
    expect(f, "", "/what?.bin", "what?.bin", "question");
    expect(f, "file://", "/what%3f.bin", "what?.bin", "question");
}

static void test_relative_paths(void **state)
{
    fixture *f = *state;
    char before[512], key[64];
    stk_store *store = NULL;
    stk_error err;

    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->folder), 0);
    const char *const urls[] = {"plain.bin", "./plain.bin", "file:plain.bin", "slow+file:plain.bin",
                                "slow+plain.bin"};
    for (size_t i = 0; i < STK_COUNT(urls); i++) {
        assert_ok(stk_store_open(f->context, urls[i], &store, key, sizeof key, &err), &err);
        assert_string_equal(key, "plain.bin");
        stk_store_close(&store);
    }
    assert_ok(stk_store_open(f->context, "sub", &store, key, sizeof key, &err), &err);
    assert_int_equal(chdir(before), 0);
    /* An open store is its folder, wherever the process has gone. */
    assert_ok(stk_store_read(store, "inner.bin", 0, 5, before, &err), &err);
    stk_store_close(&store);
}

static void test_bad_urls(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    char key[64], tiny[4], longest[9000];
    stk_error err;

    refuse(f, "", "/none", STK_ENOENT, "does not exist");
    refuse(f, "", "/none/deeper", STK_ENOENT, "does not exist");
    refuse(f, "", "/plain.bin/x", STK_ENOENT, "");
    refuse(f, "slow+file://", "/none", STK_ENOENT, "does not exist");
    refuse(f, "file://machine", "", STK_EINVAL, "machine");
    refuse(f, "file://", "/a%2", STK_EINVAL, "%25");
    refuse(f, "file://", "/a%zz", STK_EINVAL, "%25");
    refuse(f, "file://", "/a%00b", STK_EINVAL, "00");
    refuse(f, "file://", "?latency=5ms", STK_EINVAL, "latency");
    refuse(f, "file://", "?mmap=perhaps", STK_EINVAL, "mmap");
    refuse(f, "slow+file://", "?latency=fast", STK_EINVAL, "latency");
    refuse(f, "slow+file://", "?latncy=5ms", STK_EINVAL, "latncy");
    refuse(f, "slow+file://", "?fail=2", STK_EINVAL, "fail");
    const struct {
        const char *url;
        stk_status status;
        const char *part;
    } cases[] = {
        {"ftp://host/x", STK_ENOTSUP, "file, mem, slow, cache, http, https, s3, gs, zip, squashfs"},
        {"tape+file:///x", STK_ENOTSUP,
         "file, mem, slow, cache, http, https, s3, gs, zip, squashfs"},
        {"", STK_EINVAL, "names no store"},
        {"slow+", STK_EINVAL, "names no store"},
        {"slow://x", STK_EINVAL, "slow+URL"},
        {"file://", STK_EINVAL, "three slashes"},
        {"nothing:here", STK_ENOENT, "nothing:here"}};
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        assert_fails(stk_store_open(f->context, cases[i].url, &store, key, sizeof key, &err),
                     cases[i].status, &err, cases[i].part);
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_true(stk_store_open(f->context, longest, &store, key, sizeof key, &err) < 0);
    snprintf(longest, sizeof longest, "%s/plain.bin", f->folder);
    assert_fails(stk_store_open(f->context, longest, &store, tiny, sizeof tiny, &err), STK_EINVAL,
                 &err, "too long");
    assert_fails(stk_store_open(f->context, longest, &store, NULL, 0, &err), STK_ENOENT, &err,
                 "not a folder");
    assert_fails(stk_store_open(NULL, "x", &store, NULL, 0, &err), STK_EINVAL, &err, "NULL");
    stk_store_close(&store);
    stk_store_close(NULL);
}

static void test_keys(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    stk_object_info info = {.struct_size = sizeof info};
    char longest[5000], data[8];
    stk_error err;

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    char url[300];
    snprintf(url, sizeof url, "%s/sub", f->folder);
    assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
    const char *const bad[] = {
        "/etc/passwd", "../plain.bin", "a/../../plain.bin", "..", "a/..", longest, NULL};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        assert_fails(stk_store_read(store, bad[i], 0, 1, data, &err), STK_EINVAL, &err, "key");
        assert_fails(stk_store_stat(store, bad[i], NULL, &info, &err), STK_EINVAL, &err, "key");
        if (bad[i]) /* below the public calls, where an index from outside may lead */
            assert_int_equal(store->ops->stat(store, bad[i], &stk__store_call_none, &info, NULL),
                             STK_EINVAL);
    }
    const char *const good[] = {"..x", "x..", "...", "a/..b/c", "./x"};
    for (size_t i = 0; i < STK_COUNT(good); i++)
        assert_int_equal(stk__key_check(good[i], NULL), STK_OK);
    assert_ok(stk_store_read(store, "./inner.bin", 0, 5, data, &err), &err);
    stk_store_close(&store);
}

/* ---- A store of the caller's own: the table as an older or smaller driver would fill it ---- */

static stk_status own_open(stk_context *context, const char *url, const void *options,
                           stk_store **out, stk_error *err);

static void own_close(stk_store *store)
{
    free(store);
}

static int told; /* calls of a driver */

/* A driver has an error to fill in, also where nobody will look at it. */
static void tell(stk_error *err)
{
    assert_non_null(err);
    stk_error_init(err);
    told++;
}

static stk_status own_submit(stk_store *store, stk_read *read)
{
    (void)store;
    memset(read->data, 'o', read->length);
    read->done(read, STK_OK);
    return STK_OK;
}

static void own_cancel(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
}

static stk_status own_stat(stk_store *store, const char *key, const stk_store_call *call,
                           stk_object_info *out, stk_error *err)
{
    (void)store, (void)key;
    tell(err);
    out->size = 100;
    return STK_OK;
}

static stk_store_ops own_ops = {
    .struct_size = offsetof(stk_store_ops, list),
    .name = "own",
    .open = own_open,
    .close = own_close,
    .submit = own_submit,
    .cancel = own_cancel,
    .stat = own_stat,
    .list = (void *)1, /* beyond struct_size: never to be called */
    .limits = (void *)1,
};

static stk_status own_open(stk_context *context, const char *url, const void *options,
                           stk_store **out, stk_error *err)
{
    (void)url;
    tell(err);
    *out = calloc(1, sizeof **out);
    **out = (stk_store){.ops = &own_ops, .context = context};
    return STK_OK;
}

static stk_status nothing(void *user, const char *key, const stk_object_info *info)
{
    (void)user, (void)key, (void)info;
    return STK_OK;
}

static void test_own_store(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    stk_store_limits limits;
    stk_store_ops broken = own_ops;
    char data[4] = "";
    stk_error err;

    assert_fails(stk_store_open(f->context, "own://x", &store, NULL, 0, &err), STK_ENOTSUP, &err,
                 "own://x");
    broken.submit = NULL;
    assert_fails(stk_driver_add(f->context, STK_DRIVER_STORE, &broken, &err), STK_EINVAL, &err,
                 "submit");
    assert_ok(stk_driver_add(f->context, STK_DRIVER_STORE, &own_ops, &err), &err);
    const char *const urls[] = {"own://x", "slow+own://x"};
    for (size_t i = 0; i < STK_COUNT(urls); i++) {
        assert_ok(stk_store_open(f->context, urls[i], &store, NULL, 0, &err), &err);
        assert_ok(stk_store_read(store, "any", 0, 3, data, &err), &err);
        assert_string_equal(data, "ooo");
        assert_fails(stk_store_list(store, "", NULL, nothing, NULL, &err), STK_ENOTSUP, &err,
                     "'own'");
        stk__store_limits(store, &limits);
        assert_true(limits.io_depth >= 1);
        stk_store_close(&store);
    }
}

/* ---- What its put() gives ---- */

static stk_put_ops put_ops;
static stk_put own_put = {.ops = &put_ops};
static char written[8];

static stk_status put_write(stk_put *put, const void *data, size_t length, stk_error *err)
{
    (void)put;
    tell(err);
    assert_true(length < sizeof written);
    memcpy(written, data, length);
    return STK_OK;
}

static stk_status put_commit(stk_put *put, stk_error *err)
{
    (void)put;
    tell(err);
    return STK_OK;
}

static void put_abandon(stk_put *put)
{
    (void)put;
}

static stk_status begin_put(stk_store *store, const char *key, const stk_store_call *call,
                            stk_put **out, stk_error *err)
{
    (void)store, (void)key;
    tell(err);
    *out = &own_put;
    return STK_OK;
}

static void test_tables_of_puts(void **state)
{
    static const char *const texts[] = {"stk_put_ops lacks write", "stk_put_ops lacks commit",
                                        "stk_put_ops lacks abandon", "struct_size", "is NULL"};
    const stk_put_ops whole = {.struct_size = sizeof whole,
                               .write = put_write,
                               .commit = put_commit,
                               .abandon = put_abandon};
    fixture *f = *state;
    stk_store_ops ops = own_ops;
    stk_store store = {.ops = &ops, .context = f->context};
    stk_error err;

    assert_fails(stk_store_put(&store, "key", "abc", 4, NULL, &err), STK_ENOTSUP, &err, "'own'");
    ops.struct_size = sizeof ops;
    ops.put = begin_put;
    put_ops = whole;
    assert_ok(stk_store_put(&store, "key", "abc", 4, NULL, &err), &err);
    assert_string_equal(written, "abc");
    for (int i = 0; i < 5; i++) {
        put_ops = whole;
        if (i == 0)
            put_ops.write = NULL;
        else if (i == 1)
            put_ops.commit = NULL;
        else if (i == 2)
            put_ops.abandon = NULL;
        else if (i == 3)
            put_ops.struct_size = 8;
        own_put.ops = i == 4 ? NULL : &put_ops;
        assert_fails(stk_store_put(&store, "key", "abc", 4, NULL, &err), STK_EINVAL, &err,
                     texts[i]);
    }
}

/* ---- What drivers are given ---- */

static stk_status own_list(stk_store *store, const char *prefix, const stk_store_call *call,
                           stk_list_fn *each, void *user, stk_error *err)
{
    tell(err);
    return STK_OK;
}

static stk_status own_remove(stk_store *store, const char *key, const stk_store_call *call,
                             stk_error *err)
{
    tell(err);
    return STK_OK;
}

static stk_status own_describe(stk_store *store, const char *key,
                               void (*line)(void *user, const char *name, const char *value),
                               void *user, stk_error *err)
{
    tell(err);
    return STK_OK;
}

static void no_line(void *user, const char *name, const char *value)
{
}

static void test_an_error_is_given(void **state)
{
    fixture *f = *state;
    stk_store_ops ops = own_ops;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    stk_put *put = NULL;
    stk_error err;

    put_ops = (stk_put_ops){.struct_size = sizeof put_ops,
                            .write = put_write,
                            .commit = put_commit,
                            .abandon = put_abandon};
    own_put.ops = &put_ops;
    ops.struct_size = sizeof ops;
    ops.limits = NULL;
    ops.list = own_list;
    ops.put = begin_put;
    ops.remove = own_remove;
    ops.describe = own_describe;
    assert_ok(stk_driver_add(f->context, STK_DRIVER_STORE, &own_ops, &err), &err);
    told = 0;
    assert_int_equal(stk_store_open(f->context, "own://x", &store, NULL, 0, NULL), STK_OK);
    store->ops = &ops;
    assert_int_equal(stk_store_stat(store, "key", NULL, &info, NULL), STK_OK);
    assert_int_equal(stk_store_list(store, "", NULL, nothing, NULL, NULL), STK_OK);
    assert_int_equal(stk_store_describe(store, "", no_line, NULL, NULL), STK_OK);
    assert_int_equal(stk_store_put(store, "key", "abc", 4, NULL, NULL), STK_OK);
    assert_int_equal(stk__store_put_begin(store, "key", &stk__store_call_none, &put, NULL), STK_OK);
    assert_int_equal(stk__store_put_commit(&put, NULL), STK_OK);
    assert_int_equal(stk__store_remove(store, "key", NULL), STK_OK);
    assert_int_equal(told, 10);
    stk_store_close(&store);
}

/* In a child of the process: a clear answer, and closing does not wait for threads that are not
 * there. */
static void test_after_fork(void **state)
{
    fixture *f = *state;
    const char *const before[] = {"", "slow+"};
    char url[300], data[4];
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(before); i++) {
        stk_store *store = NULL;
        int status = 0;
        snprintf(url, sizeof url, "%s%s", before[i], f->folder);
        assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
        assert_ok(stk_store_read(store, "plain.bin", 0, 4, data, &err), &err);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            bool right = stk_store_read(store, "plain.bin", 0, 4, data, &err) == STK_EFORK;
            stk_store_close(&store);
            _exit(right && !store ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        stk_store_close(&store);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A path has room for its end, and no byte more is written. */
static void test_decode_room(void **state)
{
    char to[8];
    stk_error err;

    for (size_t size = 1; size < sizeof to; size++) {
        memset(to, '#', sizeof to);
        if (size > 4) {
            assert_ok(stk__url_decode("a%20bc", 6, to, size, &err), &err);
            assert_string_equal(to, "a bc");
        } else {
            assert_fails(stk__url_decode("a%20bc", 6, to, size, &err), STK_EINVAL, &err, "longer");
        }
        assert_int_equal(to[size], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_urls),       TEST(test_relative_paths), TEST(test_bad_urls),
        TEST(test_keys),       TEST(test_own_store),      TEST(test_tables_of_puts),
        TEST(test_after_fork), TEST(test_decode_room),    TEST(test_an_error_is_given),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
