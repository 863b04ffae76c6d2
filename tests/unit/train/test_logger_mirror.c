/* SPDX-License-Identifier: Apache-2.0 */
/* Logs in another store than a local folder: put at intervals and at the end. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stoker/plugin.h>

#include "base/options.h"
#include "base/url.h"
#include "store/mirror.h"
#include "support/over_mem.h"
#include "support/support.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"
#include "train/remote/remote.h"

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
    return test_open_over_mem(&flaky, ctx, url, out, err);
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

static void append(const stk_mirror *m, const char *text)
{
    FILE *f = fopen(stk_mirror_path(m), "ab");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void paths(void **state)
{
    static const struct {
        const char *url, *below; /* NULL: not elsewhere */
        bool elsewhere;
    } rows[] = {
        {"mem://a", "mem://a/50%25 of %3F", true},
        {"mem://a/", "mem://a/50%25 of %3F", true},
        {"flaky://a?x=1", "flaky://a/50%25 of %3F?x=1", true},
        {"slow+mem://a/b?latency=1ms", "slow+mem://a/b/50%25 of %3F?latency=1ms", true},
        {"slow+/a/b?latency=1ms", "slow+/a/b/50% of ??latency=1ms", true},
        {"nostore://a", "nostore://a/50%25 of %3F", true},
        {"file:///a", "file:///a/50%25 of %3F", false},
        {"logs", "logs/50% of ?", false},
        {"logs?", "logs?/50% of ?", false},
        {"/a/b:c", "/a/b:c/50% of ?", false},
        {"a:b", "a:b/50% of ?", false},
        {"Mem:a", "Mem:a/50% of ?", false},
    };
    stk_context *ctx = make_context();
    char *path = NULL;
    stk_error err;
    size_t length;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        assert_int_equal(stk__url_elsewhere(ctx, rows[i].url), rows[i].elsewhere);
        path = stk__url_below(ctx, rows[i].url, "50% of ?");
        assert_string_equal(path, rows[i].below);
        const char *name = stk__url_name(ctx, path, &length);
        assert_memory_equal(name, "50%", 3);
        assert_true(name[length] == 0 || name[length] == '?');
        stk__free(ctx, path);
    }
    assert_ok(stk__url_local(ctx, "file:///a%20b", &path, &err), &err);
    assert_string_equal(path, "/a b");
    stk__free(ctx, path);
    assert_ok(stk__url_local(ctx, "mem://a%20b", &path, &err), &err);
    assert_string_equal(path, "mem://a%20b");
    stk__free(ctx, path);
    stk_context_destroy(&ctx);
}

static void intervals(void **state)
{
    stk_context *ctx = make_context();
    char text[64], folder[64];
    stk_mirror *m;
    stk_error err;

    (void)state;
    assert_ok(stk_mirror_open(ctx, "flaky://a/run/log.txt", &m, &err), &err);
    snprintf(folder, sizeof folder, "%s", m->folder);
    append(m, "one\n");
    assert_ok(stk_mirror_flush(m, false, &err), &err);
    assert_false(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    /* Two intervals fail: one warning, and each is tried again. */
    failures = 2;
    for (int i = 0; i < 2; i++) {
        m->due_ns = 0;
        assert_ok(stk_mirror_flush(m, false, &err), &err);
        const uint64_t now = stk__now_ns();
        assert_true(m->due_ns > now && m->due_ns <= now + STK__MIRROR_NS);
    }
    assert_int_equal(failures, 0);
    assert_int_equal(warnings, 1);
    assert_false(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    m->due_ns = 0;
    assert_ok(stk_mirror_flush(m, false, &err), &err);
    assert_true(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    assert_string_equal(text, "one\n");
    /* What has not grown is not put again; what has, is at once where that is asked for. */
    failures = 1;
    m->due_ns = 0;
    assert_ok(stk_mirror_flush(m, true, &err), &err);
    append(m, "two\n");
    assert_fails(stk_mirror_flush(m, true, &err), STK_EIO, &err, "not now");
    assert_ok(stk_mirror_flush(m, true, &err), &err);
    assert_true(get(ctx, "mem://a/run/log.txt", text, sizeof text));
    assert_string_equal(text, "one\ntwo\n");
    failures = 1;
    assert_ok(stk_mirror_close(&m, &err), &err);
    assert_null(m);
    assert_int_equal(failures, 1);
    failures = 0;
    assert_int_not_equal(access(folder, F_OK), 0);

    /* One that is there is gone on with; where the end fails, the file stays and that is said. */
    assert_ok(stk_mirror_open(ctx, "flaky://a/run/log.txt", &m, &err), &err);
    append(m, "three\n");
    snprintf(text, sizeof text, "%s", m->path);
    snprintf(folder, sizeof folder, "%s", m->folder);
    failures = 1;
    assert_fails(stk_mirror_close(&m, &err), STK_EIO, &err, "not now");
    assert_int_equal(warnings, 2);
    assert_int_equal(access(text, F_OK), 0);
    assert_int_equal(unlink(text), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_fails(stk_mirror_open(ctx, "mem://a/run", &m, &err), STK_EINVAL, &err, "is a folder");
    assert_null(m);
    assert_ok(stk_mirror_close(&m, &err), &err);
    stk_context_destroy(&ctx);
}

/* A path is the file itself, also as a URL. */
static void local(void **state)
{
    stk_context *ctx = make_context();
    char folder[256], url[300];
    stk_mirror *m;
    stk_error err;

    (void)state;
    test_folder(folder);
    snprintf(url, sizeof url, "file://%s/log", folder);
    assert_ok(stk_mirror_open(ctx, url, &m, &err), &err);
    assert_string_equal(stk_mirror_path(m), url + strlen("file://"));
    append(m, "one\n");
    assert_ok(stk_mirror_flush(m, true, &err), &err);
    assert_ok(stk_mirror_close(&m, &err), &err);
    assert_int_equal(access(url + strlen("file://"), F_OK), 0);
    test_folder_remove(folder);
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

/* The end of a task says that a log could not be put, and fails nothing; close() puts what is there
 * in any case. */
static void ends(void **state)
{
    const stk_logger_ops *const kinds[] = {&stk__logger_csv, &stk__logger_tensorboard,
                                           &stk__logger_wandb};
    const stk_metric metric = {"loss", 0.5};
    stk_context *ctx = make_context();
    char text[1024];
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const size_t size = kinds[i]->options->struct_size;
        stk__logger_options *options = calloc(1, size); /* first of those of each */
        stk_logger *logger = NULL;
        assert_non_null(options);
        stk_options_init(kinds[i]->options, options, size);
        options->version = 7;
        assert_ok(kinds[i]->open(ctx, options, "flaky://ends", &logger, &err), &err);
        free(options);
        assert_ok(logger->ops->log_metrics(logger, &metric, 1, 0, 0, &err), &err);
        failures = 1;
        assert_ok(logger->ops->finalize(logger, &err), &err);
        assert_int_equal(failures, 0);
        assert_int_equal(warnings, i + 1);
        assert_ok(logger->ops->finalize(logger, &err), &err);
        assert_ok(logger->ops->log_metrics(logger, &metric, 1, 1, 0, &err), &err);
        logger->ops->close(logger);
    }
    assert_true(get(ctx, "mem://ends/lightning_logs/version_7/metrics.csv", text, sizeof text));
    assert_string_equal(text, "loss,step\n0.5,0\n0.5,1\n");
    stk_context_destroy(&ctx);
}

/* Lines that the disk refuses do not take those with them that it has. */
static void full_disk(void **state)
{
    const stk_metric metric = {"loss", 0.5};
    stk_context *ctx = make_context();
    struct rlimit before, full;
    char text[1024];
    stk_error err;

    (void)state;
    stk_logger *logger = open_logger(ctx, &stk__logger_csv, 3);
    assert_ok(logger->ops->log_metrics(logger, &metric, 1, 0, 0, &err), &err);
    assert_ok(logger->ops->flush(logger, &err), &err);
    assert_ok(logger->ops->log_metrics(logger, &metric, 1, 1, 0, &err), &err);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = strlen("loss,step\n0.5,0\n");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    logger->ops->close(logger);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(get(ctx, "mem://logs/lightning_logs/version_3/metrics.csv", text, sizeof text));
    assert_string_equal(text, "loss,step\n0.5,0\n");
    stk_context_destroy(&ctx);
}

/* Options of a URL stay at its end, and the last number is the last. */
static void folders(void **state)
{
    stk_context *ctx = make_context();
    stk__run_folder run;
    stk_logger logger;
    char text[64];
    stk_put *put;
    stk_error err;

    (void)state;
    const stk__logger_options options = {
        .struct_size = sizeof options, .name = "a", .version = STK_AUTO};
    const char *const root = "slow+mem://runs?latency=0";
    for (int i = 0; i < 2; i++) {
        assert_ok(stk__run_folder_open(ctx, &options, root, &run, &logger, &err), &err);
        assert_string_equal(run.log_dir, i ? "slow+mem://runs/a/version_1?latency=0"
                                           : "slow+mem://runs/a/version_0?latency=0");
        stk__run_folder_release(ctx, &run);
    }
    assert_true(get(ctx, "mem://runs/a/version_1/hparams.yaml", text, sizeof text));
    assert_ok(stk_put_open(ctx, "mem://runs/a/version_999999999/x", NULL, &put, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_fails(stk__run_folder_open(ctx, &options, root, &run, &logger, &err), STK_ELIMIT, &err,
                 "no number left");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths),   cmocka_unit_test(intervals),
                                       cmocka_unit_test(loggers), cmocka_unit_test(local),
                                       cmocka_unit_test(ends),    cmocka_unit_test(full_disk),
                                       cmocka_unit_test(folders)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
