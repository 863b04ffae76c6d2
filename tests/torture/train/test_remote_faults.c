/* SPDX-License-Identifier: Apache-2.0 */
/* Journals of runs while the n-th allocation fails, for every n until all succeed: written, and
 * sent. What is there afterwards are whole lines, and each value once. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/faulty_context.h"
#include "support/http_server.h"
#include "support/text.h"
#include "train/remote/mlflow.h"

enum { MOST = 3000 };

typedef struct target {
    stk_context *context;
    const char *folder, *url, *run;
} target;

static stk_status write_one(void *user, stk_error *err)
{
    static const stk_hparam params[] = {{"lr", "0.1"}, {"a b", "c|d"}};
    const stk_logger_ops *const ops = &stk__logger_wandb;
    const target *t = user;
    void *options = malloc(ops->options->struct_size);
    stk_logger *logger = NULL;

    stk_options_init(ops->options, options, ops->options->struct_size);
    assert_ok(stk_options_set(ops->options, options, "tags", "a=b, c=d", err), err);
    assert_ok(stk_options_set(ops->options, options, "log_model", "all", err), err);
    stk_status status = ops->open(t->context, options, t->folder, &logger, err);
    free(options);
    assert_true((status == STK_OK) == (logger != NULL));
    if (!logger)
        return status;
    status = ops->log_hyperparams(logger, params, 2, err);
    for (int k = 0; k < 4 && status == STK_OK; k++) {
        const stk_metric metrics[] = {{"loss", k}, {"acc", k}};
        status = ops->log_metrics(logger, metrics, 2, k, 1, err);
    }
    test_write(logger->log_dir, "checkpoints/a.ckpt", "a", 1);
    if (status == STK_OK)
        status = ops->finalize(logger, err);
    ops->close(logger);
    return status;
}

static stk_status send_one(void *user, stk_error *err)
{
    const target *t = user;
    stk_logger_synced synced = {.struct_size = sizeof synced};
    stk__mlflow_options options;
    char mark[600];

    stk_options_init(stk__logger_mlflow.options, &options, sizeof options);
    options.tracking_uri = t->url;
    snprintf(mark, sizeof mark, "%s/mlflow.sent", t->run);
    unlink(mark);
    return stk__logger_mlflow.sync(t->context, &options, t->run, &synced, err);
}

/* Every line of a journal says something. */
static void check_lines(stk_context *ctx, const char *run)
{
    stk__run_journal_line line;
    char path[600];
    stk_error err;

    snprintf(path, sizeof path, "%s/wandb.jsonl", run);
    char *text = test_load(path, NULL);
    assert_non_null(text);
    for (char *at = text, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        assert_non_null(end);
        assert_ok(stk__run_journal_take(ctx, at, (size_t)(end - at), &line, &err), &err);
        assert_int_not_equal(line.kind, STK__RUN_JOURNAL_NOTHING);
        stk__run_journal_line_release(ctx, &line);
    }
    free(text);
}

static void journals(void **state)
{
    faults f = {.left = FAULTS_NONE};
    stk_context *ctx = faulty_context(&f);
    http_server *server = http_server_start(&(http_server_options){.seed = 1, .mlflow = true});
    char folder[256], run[400], path[500];
    target t = {.context = ctx, .folder = folder, .run = run};

    (void)state;
    assert_non_null(server);
    test_folder(folder);
    const int64_t n = faulty_each(&f, "a journal that is written", MOST, write_one, &t);
    assert_true(n > 10);
    for (int64_t i = 0; i <= n; i++) {
        snprintf(path, sizeof path, "%s/lightning_logs/version_%lld/wandb.jsonl", folder,
                 (long long)i);
        if (access(path, F_OK) != 0)
            continue;
        snprintf(run, sizeof run, "%s/lightning_logs/version_%lld", folder, (long long)i);
        check_lines(ctx, run);
    }
    t.url = http_server_url(server);
    faulty_each(&f, "a journal that is sent", MOST, send_one, &t);
    char *held = http_server_mlflow(server);
    assert_non_null(strstr(held, "\"loss 3\":3.0"));
    assert_null(strstr(held, "twice"));
    assert_null(strstr(held, "00000000000000000000000000000002")); /* one run alone */
    free(held);
    http_server_stop(&server);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(journals)};

    return cmocka_run_group_tests_name("remote_faults", tests, NULL, NULL);
}
