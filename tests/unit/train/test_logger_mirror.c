/* SPDX-License-Identifier: Apache-2.0 */
/* Logs in another store than a local folder: put at intervals and at the end. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/plugin.h>

#include "base/options.h"
#include "base/registry.h"
#include "store/url.h"
#include "support/support.h"
#include "train/loggers/loggers.h"
#include "train/loggers/mirror.h"
#include "train/loggers/run_folder.h"

/* The store of memory, whose put fails as often as is said here. */
static int failures;
static unsigned warnings;
static stk_store_ops flaky;

static stk_status flaky_put(stk_store *store, const char *key, const stk_store_call *call,
                            stk_put **out, stk_error *err)
{
    if (failures > 0) {
        failures--;
        return stk__fail(err, STK_EIO, STK_STAGE_STORE, "not now");
    }
    return stk__store_mem.put(store, key, call, out, err);
}

static stk_status flaky_open(stk_context *ctx, const char *url, const void *options,
                             stk_store **out, stk_error *err)
{
    char inner[256];

    (void)options;
    snprintf(inner, sizeof inner, "mem%s", url + strlen("flaky"));
    STK_TRY(stk__store_mem.open(ctx, inner, NULL, out, err));
    (*out)->ops = &flaky;
    return STK_OK;
}

static void count_warnings(void *user, stk_message_level level, const char *text)
{
    (void)user, (void)text;
    warnings += level == STK_MESSAGE_WARNING;
}

static stk_context *make_context(void)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    failures = 0;
    warnings = 0;
    stk_context_options_init(&options);
    options.on_message = count_warnings;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    flaky = stk__store_mem;
    flaky.name = "flaky";
    flaky.open = flaky_open;
    flaky.put = flaky_put;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &flaky, &err), &err);
    return ctx;
}

/* The text of an object; false where it is not there. */
static bool get(stk_context *ctx, const char *url, char *text, size_t size)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk_error err;

    text[0] = 0;
    if (stk_store_open(ctx, url, &store, key, sizeof key, &err) != STK_OK)
        return false;
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    assert_true(info.size < size);
    assert_ok(stk_store_read(store, key, 0, info.size, text, &err), &err);
    text[info.size] = 0;
    stk_store_close(&store);
    return true;
}

static void append(const stk__mirror *m, const char *text)
{
    FILE *f = fopen(m->path, "ab");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void paths(void **state)
{
    stk_context *ctx = make_context();

    (void)state;
    assert_true(stk__driver_names_store(ctx, "mem://a"));
    assert_true(stk__driver_names_store(ctx, "flaky://a"));
    assert_true(stk__driver_names_store(ctx, "slow+mem://a"));
    assert_true(stk__driver_names_store(ctx, "nostore://a"));
    assert_false(stk__driver_names_store(ctx, "logs"));
    assert_false(stk__driver_names_store(ctx, "/a/b:c"));
    assert_false(stk__driver_names_store(ctx, "a:b"));
    stk_context_destroy(&ctx);
}

static void intervals(void **state)
{
    stk_context *ctx = make_context();
    char text[64], folder[64];
    stk__mirror m;
    stk_error err;

    (void)state;
    assert_ok(stk__mirror_open(ctx, "flaky://a/run/log.txt", &m, &err), &err);
    snprintf(folder, sizeof folder, "%s", m.folder);
    append(&m, "one\n");
    stk__mirror_tick(&m);
    assert_false(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    /* Two intervals fail: one warning, and each is tried again. */
    failures = 2;
    for (int i = 0; i < 2; i++) {
        m.due_ns = 0;
        stk__mirror_tick(&m);
        assert_true(m.due_ns > stk__now_ns());
    }
    assert_int_equal(failures, 0);
    assert_int_equal(warnings, 1);
    assert_false(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    m.due_ns = 0;
    stk__mirror_tick(&m);
    assert_true(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    assert_string_equal(text, "one\n");
    append(&m, "two\n");
    assert_ok(stk__mirror_close(&m, &err), &err);
    assert_true(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    assert_string_equal(text, "one\ntwo\n");
    assert_int_not_equal(access(folder, F_OK), 0);

    /* One that is there is gone on with; where the end fails, the file stays and that is said. */
    assert_ok(stk__mirror_open(ctx, "flaky://a/run/log.txt", &m, &err), &err);
    append(&m, "three\n");
    snprintf(text, sizeof text, "%s", m.path);
    snprintf(folder, sizeof folder, "%s", m.folder);
    failures = 1;
    assert_fails(stk__mirror_close(&m, &err), STK_EIO, &err, "not now");
    assert_int_equal(warnings, 2);
    assert_int_equal(access(text, F_OK), 0);
    assert_int_equal(unlink(text), 0);
    assert_int_equal(rmdir(folder), 0);
    stk_context_destroy(&ctx);
}

static stk_logger *open_logger(stk_context *ctx, const stk_logger_ops *ops, int64_t version)
{
    stk__logger_options options;
    stk_logger *logger = NULL;
    stk_error err;

    stk_options_init(ops->options, &options, sizeof options);
    options.version = version;
    assert_ok(ops->open(ctx, &options, "mem://logs", &logger, &err), &err);
    return logger;
}

static void loggers(void **state)
{
    const stk_logger_ops *const kinds[] = {&stk__logger_csv, &stk__logger_tensorboard};
    const stk_metric metric = {"loss", 0.5}, other = {"acc", 1};
    const stk_hparam param = {"lr", "0.1"};
    stk_context *ctx = make_context();
    stk_logger *open[2];
    char text[1024];
    stk_error err;

    (void)state;
    for (int64_t run = 0; run < 2; run++) {
        open[0] = open_logger(ctx, kinds[0], STK_AUTO);
        assert_int_equal(open[0]->version, run);
        open[1] = open_logger(ctx, kinds[1], run);
        for (size_t i = 0; i < 2; i++) {
            assert_ok(open[i]->ops->log_hyperparams(open[i], &param, 1, &err), &err);
            assert_ok(open[i]->ops->log_metrics(open[i], &metric, 1, 0, 0, &err), &err);
            assert_ok(open[i]->ops->flush(open[i], &err), &err);
            assert_ok(open[i]->ops->log_metrics(open[i], &other, 1, 1, 0, &err), &err);
            open[i]->ops->close(open[i]);
        }
    }
    assert_true(get(ctx, "mem://logs/lightning_logs/version_1/metrics.csv", text, sizeof text));
    assert_string_equal(text, "acc,loss,step\n,0.5,0\n1,,1\n");
    assert_true(get(ctx, "mem://logs/lightning_logs/version_1/hparams.yaml", text, sizeof text));
    assert_string_equal(text, "lr: 0.1\n");
    /* A version that is there is gone on with. */
    open[0] = open_logger(ctx, kinds[0], 1);
    assert_ok(open[0]->ops->log_metrics(open[0], &metric, 1, 2, 0, &err), &err);
    open[0]->ops->close(open[0]);
    assert_true(get(ctx, "mem://logs/lightning_logs/version_1/metrics.csv", text, sizeof text));
    assert_string_equal(text, "acc,loss,step\n,0.5,0\n1,,1\n,0.5,2\n");
    assert_int_equal(warnings, 0);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths), cmocka_unit_test(intervals),
                                       cmocka_unit_test(loggers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
