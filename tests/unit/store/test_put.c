/* SPDX-License-Identifier: Apache-2.0 */
/* Whole objects: what replaces nothing, what is canceled, and by URL into any store. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/durable.h"
#include "checkpoint/checkpoint.h"
#include "store/store.h"
#include "support/support.h"

static const stk_store_call keep = {.struct_size = sizeof keep, .no_replace = true};

static unsigned entries(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.' || stk__is_temporary(entry->d_name);
    closedir(folder);
    return n;
}

static void check_text(stk_store *store, const char *key, const char *text)
{
    char data[16] = "";
    stk_error err;

    assert_ok(stk_store_read(store, key, 0, strlen(text), data, &err), &err);
    assert_string_equal(data, text);
}

/* What is there is not replaced, whether it was there at the begin or only at the end. */
static void check_no_replace(stk_store *store, bool claims)
{
    stk_put *first = NULL, *second = NULL;
    stk_error err;

    assert_ok(stk__store_put_begin(store, "a", &keep, &first, &err), &err);
    assert_ok(first->ops->write(first, "first", 5, &err), &err);
    if (claims)
        assert_fails(stk__store_put_begin(store, "a", &keep, &second, &err), STK_EEXIST, &err,
                     "exists already");
    assert_ok(stk_store_put(store, "a", "other", 5, NULL, &err), &err);
    assert_fails(stk__store_put_commit(&first, &err), STK_EEXIST, &err, "a");
    check_text(store, "a", "other");
    assert_fails(stk_store_put(store, "a", "third", 5, &keep, &err), STK_EEXIST, &err, "a");
    check_text(store, "a", "other");
    assert_ok(stk__store_put_begin(store, "b", &keep, &first, &err), &err);
    stk__store_put_abandon(&first);
    assert_ok(stk_store_put(store, "b", "whole", 5, &keep, &err), &err);
    check_text(store, "b", "whole");
}

typedef struct sweeper {
    const char *path;
    atomic_bool ends;
} sweeper;

static void *sweep(void *argument)
{
    sweeper *s = argument;

    while (!atomic_load(&s->ends))
        stk__durable_sweep_path(s->path);
    return NULL;
}

/* A name is free although another thread looks for what was left just then, and holds the new file
 * for a moment. */
static void test_swept(void **state)
{
    char folder[256], key[32];
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    pthread_t threads[2];
    stk_error err;

    test_folder(folder);
    sweeper s = {.path = folder};
    assert_ok(stk_store_open(ctx, folder, &store, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sweep, &s), 0);
    for (int i = 0; i < 2000; i++) {
        stk_put *put = NULL;
        snprintf(key, sizeof key, "%d", i);
        assert_ok(stk__store_put_begin(store, key, &keep, &put, &err), &err);
        stk__store_put_abandon(&put);
    }
    atomic_store(&s.ends, true);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_no_replace(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    char folder[256];
    stk_error err;

    test_folder(folder);
    assert_ok(stk_store_open(ctx, folder, &store, NULL, 0, &err), &err);
    check_no_replace(store, true);
    assert_int_equal(entries(folder), 2);
    stk_store_close(&store);
    test_folder_remove(folder);
    assert_ok(stk_store_open(ctx, "mem://keep", &store, NULL, 0, &err), &err);
    check_no_replace(store, false);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* A name that a killed process had begun is free again. */
static void test_killed(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk_put *put = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/sub/name", folder);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stk_context *own = test_context();
        _exit(stk_put_open(own, path, &keep, &put, &err) == STK_OK ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(stk_put_open(ctx, path, &keep, &put, &err), &err);
    assert_ok(put->ops->write(put, "whole", 5, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    snprintf(path, sizeof path, "%s/sub", folder);
    assert_int_equal(entries(path), 1);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static bool yes(void *user)
{
    return true;
}

static stk_status count(void *user, const char *key, const stk_object_info *info)
{
    ++*(int *)user;
    return STK_OK;
}

/* A call that is not wanted any more ends, of any store, and leaves nothing. */
static void test_canceled(void **state)
{
    static const stk_store_call late = {.struct_size = sizeof late, .deadline_ns = 1},
                                canceled = {.struct_size = sizeof canceled, .canceled = yes};
    const stk_store_call *const calls[] = {&late, &canceled};
    const stk_status ends[] = {STK_ETIMEDOUT, STK_ECANCELED};
    stk_object_info info = {.struct_size = sizeof info};
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_put *put = NULL;
    char folder[256];
    stk_error err;
    int n = 0;

    test_folder(folder);
    test_write(folder, "x", "x", 1);
    assert_ok(stk_store_open(ctx, folder, &store, NULL, 0, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_fails(stk_store_stat(store, "x", calls[i], &info, &err), ends[i], &err, "x");
        assert_int_equal(stk_store_list(store, "", calls[i], count, &n, &err), ends[i]);
        assert_fails(stk_store_put(store, "y", "y", 1, calls[i], &err), ends[i], &err, "y");
        stk_store_call later = {.struct_size = sizeof later};
        assert_ok(stk__store_put_begin(store, "y", &later, &put, &err), &err);
        later = *calls[i];
        assert_fails(put->ops->write(put, "y", 1, &err), ends[i], &err, "y");
        stk__store_put_abandon(&put);
    }
    assert_int_equal(n, 0);
    assert_int_equal(entries(folder), 1);
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Another's store: mem under its own name, which opens its root alone --------------------- */

static struct {
    unsigned puts;
} heard;

static stk_status bucket_put(stk_store *store, const char *key, const stk_store_call *call,
                             stk_put **out, stk_error *err)
{
    heard.puts++;
    return stk__store_mem.put(store, key, call, out, err);
}

static stk_store_ops bucket;

static stk_status bucket_open(stk_context *ctx, const char *url, const void *options,
                              stk_store **out, stk_error *err)
{
    if (strcmp(url, "bucket://b/") != 0)
        return stk__fail(err, STK_ENOENT, STK_STAGE_STORE, "no bucket '%s'", url);
    return stk__store_mem.open(ctx, "mem://b", NULL, out, err);
}

static void test_outsider(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = NULL;
    stk_store *store = NULL;
    stk_put *put = NULL;
    stk_error err;
    float weight[4] = {1, 2, 3, 4};
    const stk_state_tensor tensor = {"w", STK_FLOAT32, 1, {4}, weight, sizeof weight};
    stk_object_info info = {.struct_size = sizeof info};

    bucket = stk__store_mem;
    bucket.name = "bucket";
    bucket.open = bucket_open;
    bucket.put = bucket_put;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &bucket, &err), &err);
    assert_ok(stk_put_open(ctx, "bucket://b/runs/1/profile%20a.json", NULL, &put, &err), &err);
    assert_ok(put->ops->write(put, "{", 1, &err), &err);
    assert_ok(put->ops->write(put, "}", 1, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    for (int i = 0; i < 2; i++) {
        const char *const old = "bucket://b/runs/1/0.safetensors";
        const char *const path = i ? "bucket://b/runs/1/1.safetensors" : old;
        assert_ok(stk__checkpoint_save(writer, path, &tensor, 1, NULL, 0, &old, i, NULL, &err),
                  &err);
        assert_ok(stk__checkpoint_link(writer, path, "bucket://b/runs/last.safetensors", &err),
                  &err);
    }
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    stk__checkpoint_writer_destroy(&writer);
    assert_ok(stk_store_open(ctx, "mem://b", &store, NULL, 0, &err), &err);
    check_text(store, "runs/1/profile a.json", "{}");
    assert_ok(stk_store_stat(store, "runs/1/1.safetensors", NULL, &info, &err), &err);
    const uint64_t size = info.size;
    assert_ok(stk_store_stat(store, "runs/last.safetensors", NULL, &info, &err), &err);
    assert_int_equal(info.size, size);
    assert_fails(stk_store_stat(store, "runs/1/0.safetensors", NULL, &info, &err), STK_ENOENT, &err,
                 "0.safetensors");
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Bytes that are all there, by URL. */
static void test_bytes(void **state)
{
    stk_context *ctx = NULL;
    stk_store *store = NULL;
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    assert_ok(stk_context_create(NULL, &ctx, &err), &err);
    assert_ok(stk_put_bytes(ctx, "mem://bytes/runs/a", "whole", 5, NULL, &err), &err);
    assert_ok(stk_put_bytes(ctx, "mem://bytes/runs/none", NULL, 0, &keep, &err), &err);
    assert_fails(stk_put_bytes(ctx, "mem://bytes/runs/a", "other", 5, &keep, &err), STK_EEXIST,
                 &err, "a");
    assert_fails(stk_put_bytes(ctx, "mem://bytes/b", NULL, 1, NULL, &err), STK_EINVAL, &err,
                 "stk_put_bytes: an argument is NULL");
    assert_fails(stk_put_bytes(ctx, NULL, "x", 1, NULL, &err), STK_EINVAL, &err, "NULL");
    assert_ok(stk_store_open(ctx, "mem://bytes", &store, NULL, 0, &err), &err);
    check_text(store, "runs/a", "whole");
    assert_ok(stk_store_stat(store, "runs/none", NULL, &info, &err), &err);
    assert_int_equal(info.size, 0);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_replace), cmocka_unit_test(test_swept),
        cmocka_unit_test(test_killed),     cmocka_unit_test(test_canceled),
        cmocka_unit_test(test_outsider),   cmocka_unit_test(test_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
