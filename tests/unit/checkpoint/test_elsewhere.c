/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in another store than a local folder: found, verified and read through it. */
#include <string.h>

#include <stoker/store.h>

#include "checkpoint/checkpoint.h"
#include "store/store.h"
#include "support/over_mem.h"
#include "support/support.h"

static void save(stk_context *ctx, const char *path, const char *step)
{
    const float values[4] = {1, 2, 3, 4};
    stk_state_tensor tensor = {.name = "w", .dtype = STK_FLOAT32, .rank = 1, .shape = {4}};
    const stk__checkpoint_text text = {STK__CHECKPOINT_STEP, step};
    stk__checkpoint_writer *writer = NULL;
    stk_error err;

    tensor.data = (void *)values;
    tensor.bytes = sizeof values;
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    assert_ok(stk__checkpoint_save(writer, path, &tensor, 1, &text, 1, NULL, 0, NULL, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    stk__checkpoint_writer_destroy(&writer);
}

static void newest(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint *checkpoint = NULL;
    stk_store *store = NULL;
    char path[256];
    stk_error err;

    (void)state;
    assert_fails(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = "mem://runs"}, path,
                                        sizeof path, &err),
                 STK_ENOENT, &err, "no checkpoint");
    save(ctx, "mem://runs/logs/version_9/checkpoints/a.ckpt", "70");
    save(ctx, "mem://runs/logs/version_10/checkpoints/a.ckpt", "5");
    save(ctx, "mem://runs/logs/version_10/checkpoints/b.ckpt", "6");
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = "mem://runs"}, path,
                                     sizeof path, &err),
              &err);
    assert_string_equal(path, "mem://runs/logs/version_10/checkpoints/b.ckpt");
    assert_ok(stk__checkpoint_open(ctx, path, &checkpoint, &err), &err);
    assert_string_equal(stk__checkpoint_find_text(checkpoint, STK__CHECKPOINT_STEP), "6");
    const float *values = stk__checkpoint_find(checkpoint, "w")->data;
    assert_true(values[0] == 1 && values[3] == 4);
    stk__checkpoint_close(&checkpoint);

    /* Of the runs of one folder: no other's below it. */
    save(ctx, "mem://many/logs/x.ckpt", "98");
    save(ctx, "mem://many/logs/own/version_99/checkpoints/a.ckpt", "99");
    save(ctx, "mem://many/logs/version_1/checkpoints/a.ckpt", "3");
    assert_ok(stk__checkpoint_newest(ctx,
                                     &(stk__newest_where){.runs = "mem://many/logs",
                                                          .other = "mem://many/checkpoints",
                                                          .goes_on = true},
                                     path, sizeof path, &err),
              &err);
    assert_string_equal(path, "mem://many/logs/version_1/checkpoints/a.ckpt");

    /* One that is damaged is passed over. */
    assert_ok(stk_store_open(ctx, "mem://runs", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "logs/version_10/checkpoints/c.ckpt", "cut", 3, NULL, &err),
              &err);
    assert_ok(stk_store_put(store, "logs/version_10/checkpoints/b.ckpt", "cut", 3, NULL, &err),
              &err);
    stk_store_close(&store);
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = "mem://runs/logs"}, path,
                                     sizeof path, &err),
              &err);
    assert_string_equal(path, "mem://runs/logs/version_10/checkpoints/a.ckpt");
    assert_fails(stk__checkpoint_open(ctx, "mem://runs/none.ckpt", &checkpoint, &err), STK_ENOENT,
                 &err, NULL);
    assert_fails(stk__checkpoint_open(ctx, "mem://runs/logs", &checkpoint, &err), STK_EFORMAT, &err,
                 "folder");
    stk_context_destroy(&ctx);
}

/* ---- A store that fails to read for a while ---- */

static stk_status failure;
static stk_store_ops flaky;

static stk_status flaky_open(stk_context *ctx, const char *url, const void *options,
                             stk_store **out, stk_error *err)
{
    return test_open_over_mem(&flaky, ctx, url, out, err);
}

static stk_status flaky_stat(stk_store *store, const char *key, const stk_store_call *call,
                             stk_object_info *out, stk_error *err)
{
    if (failure && strstr(key, "b.ckpt"))
        return stk__fail(err, failure, STK_STAGE_STORE, "not now");
    return stk__store_mem.stat(store, key, call, out, err);
}

/* What may pass ends the search: an older checkpoint is none to go on from. What is gone does not.
 */
static void storage_fails(void **state)
{
    static const stk_status ends[] = {STK_EIO, STK_EACCES, STK_ETIMEDOUT, STK_ECANCELED};
    stk_context *ctx = test_context();
    char path[256];
    stk_error err;

    (void)state;
    flaky = stk__store_mem;
    flaky.name = "flaky";
    flaky.open = flaky_open;
    flaky.stat = flaky_stat;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &flaky, &err), &err);
    save(ctx, "mem://runs/logs/version_0/a.ckpt", "5");
    save(ctx, "mem://runs/logs/version_0/b.ckpt", "6");
    for (size_t i = 0; i < STK_COUNT(ends); i++) {
        failure = ends[i];
        assert_fails(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = "flaky://runs"}, path,
                                            sizeof path, &err),
                     ends[i], &err, "not now");
    }
    failure = STK_ETRUNCATED;
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = "flaky://runs"}, path,
                                     sizeof path, &err),
              &err);
    assert_string_equal(path, "flaky://runs/logs/version_0/a.ckpt");
    failure = STK_OK;
    assert_ok(stk__checkpoint_newest(ctx,
                                     &(stk__newest_where){.runs = "slow+flaky://runs?latency=0"},
                                     path, sizeof path, &err),
              &err);
    assert_string_equal(path, "slow+flaky://runs/logs/version_0/b.ckpt?latency=0");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(newest), cmocka_unit_test(storage_fails)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
