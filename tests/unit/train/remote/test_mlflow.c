/* SPDX-License-Identifier: Apache-2.0 */
/* The logger mlflow against a tracking server of the tests: what is there, once, whatever fails. */
#include <fcntl.h>

#include "support/text.h"
#include "unit/train/remote/remote.h"

#define LINES      1700
#define CANARY     "canary-of-a-token"
#define LARGE_FILE (UINT64_C(80) << 20)

static void all_of_it(void **state)
{
    const stk_hparam params[] = {{"lr", "0.5"}, {"model", "mlp \"deep\""}};
    world *w = *state;
    stk_error err;

    w->options.run_name = "first";
    w->options.tags = "team=a, who=b c";
    w->options.log_model = STK__LOG_MODEL_TRUE;
    stk_logger *logger = world_logger(w);
    assert_ok(logger->ops->log_hyperparams(logger, params, 2, &err), &err);
    world_log(logger, 0, LINES);
    test_write(logger->log_dir, "checkpoints/last.ckpt", "weights", 7);
    world_end(logger);

    json_t *held = world_state(w);
    const json_t *run = world_run(held, LINES);
    assert_int_equal(world_repeated(held), 0);
    assert_string_equal(json_string_value(json_object_get(run, "name")), "first");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "FINISHED");
    const json_t *kept = json_object_get(run, "params");
    assert_int_equal(json_object_size(kept), 2);
    assert_string_equal(json_string_value(json_object_get(kept, "model")), "mlp \"deep\"");
    const json_t *tags = json_object_get(run, "tags");
    assert_string_equal(json_string_value(json_object_get(tags, "team")), "a");
    assert_string_equal(json_string_value(json_object_get(tags, "who")), "b c");
    assert_non_null(json_object_get(json_object_get(held, "experiments"), "digits"));
    json_decref(held);

    size_t length;
    char *file = http_server_get(w->server,
                                 "/api/2.0/mlflow-artifacts/artifacts/1/"
                                 "00000000000000000000000000000001/artifacts/checkpoints/last.ckpt",
                                 &length);
    assert_non_null(file);
    assert_int_equal(length, 7);
    free(file);
    /* As much as a request holds goes by one. */
    assert_true(http_server_counters(w->server).requests < 20);
    assert_string_equal(w->said, "");
}

/* The folder of the only run; the logger is closed. */
static void run_folder(const world *w, char path[512])
{
    snprintf(path, 512, "%s/lightning_logs/version_0", w->folder);
}

/* A server that fails a while: all is there at the end of the run, once, and nothing was lost. */
static void faulty(void **state)
{
    static const http_fault faults[] = {
        {.path = "*log-batch", .count = 1, .status = 503},
        {.path = "*runs/create", .count = 1, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD},
        {.path = "*experiments*", .count = 1, .cut = HTTP_CLOSE, .at = HTTP_WITHIN_HEAD},
        {.path = "*log-batch", .count = 1, .skip = 1, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD},
        {.path = "*runs/update", .count = 1, .status = 429},
        {.path = "*runs/search", .count = 1, .body = "no JSON"},
        {.path = "*runs/create", .count = 1, .body = "{}"},
    };
    world *w = *state;
    char run[512];

    for (size_t i = 0; i < STK_COUNT(faults); i++) {
        http_server_mend(w->server);
        assert_true(http_server_fault(w->server, &faults[i]) > 0);
        w->options.experiment_name = "digits";
        stk_logger *logger = world_logger(w);
        snprintf(run, sizeof run, "%s", logger->log_dir);
        world_log(logger, 0, LINES);
        world_end(logger);
        /* Sent when somebody asks, as often as it takes. */
        for (int tries = 0;; tries++) {
            stk_logger_synced synced = {.struct_size = sizeof synced};
            stk_error err;
            assert_true(tries < 4);
            if (stk__logger_mlflow.sync(w->context, &w->options, run, &synced, &err) == STK_OK)
                break;
        }
        json_t *held = world_state(w);
        const json_t *there = world_run(held, LINES);
        assert_string_equal(json_string_value(json_object_get(there, "status")), "FINISHED");
        json_decref(held);
        /* The next one has a server of its own. */
        http_server_stop(&w->server);
        w->server = http_server_start(&(http_server_options){.seed = 1, .mlflow = true});
        assert_non_null(w->server);
        w->options.tracking_uri = http_server_url(w->server);
    }
}

/* One that is not there costs a training nothing, and one warning. */
static void dead(void **state)
{
    world *w = *state;
    char run[512];

    http_server_listen(w->server, false);
    stk_logger *logger = world_logger(w);
    stk_error err;
    for (int i = 0; i < 10; i++) {
        world_log(logger, i * 100, 100);
        assert_ok(logger->ops->flush(logger, &err), &err);
    }
    world_end(logger);
    run_folder(w, run);
    assert_non_null(strstr(w->said, "nothing can be sent now; it is kept in"));
    assert_null(strstr(strstr(w->said, "nothing can be sent") + 1, "nothing can be sent"));
    assert_non_null(strstr(w->said, "are not sent; 'stoker report --sync mlflow"));
    http_server_listen(w->server, true);
    const stk_logger_synced synced = world_sync(w, run);
    assert_int_equal(synced.metrics, 2000);
    assert_int_equal(synced.bytes_before, 0);
    assert_string_not_equal(synced.page, "");
    json_t *held = world_state(w);
    world_run(held, 1000);
    assert_int_equal(world_repeated(held), 0);
    json_decref(held);
    /* Once more: there is nothing left, and nothing is asked. */
    const uint64_t before = http_server_counters(w->server).requests;
    const stk_logger_synced again = world_sync(w, run);
    assert_int_equal(again.metrics, 0);
    assert_int_equal(again.bytes_before, synced.bytes);
    assert_int_equal(http_server_counters(w->server).requests, before);
}

/* One that takes the request and says nothing: logging goes on beside it. */
static void silent(void **state)
{
    world *w = *state;
    stk_error err;

    http_server_fault(w->server,
                      &(http_fault){.path = "*", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
    w->options.timeout = 0;
    stk_logger *logger = world_logger(w);
    world_log(logger, 0, 500);
    assert_ok(logger->ops->flush(logger, &err), &err);
    while (http_server_counters(w->server).requests == 0)
        usleep(1000);
    world_log(logger, 500, 500);
    assert_ok(logger->ops->flush(logger, &err), &err);
    world_end(logger);
    http_server_mend(w->server);
    char run[512];
    run_folder(w, run);
    assert_int_equal(world_sync(w, run).metrics, 2000);
    json_t *held = world_state(w);
    world_run(held, 1000);
    json_decref(held);
}

/* The mark is lost, or a batch was taken whose answer was not: nothing is there twice. */
static void sent_again(void **state)
{
    world *w = *state;
    char run[512], mark[600];

    stk_logger *logger = world_logger(w);
    world_log(logger, 0, 800);
    world_end(logger);
    run_folder(w, run);
    snprintf(mark, sizeof mark, "%s/mlflow.sent", run);
    assert_int_equal(unlink(mark), 0);
    assert_int_equal(world_sync(w, run).metrics, 1600);
    json_t *held = world_state(w);
    world_run(held, 800);
    assert_int_equal(world_repeated(held), 1600);
    json_decref(held);
    /* One that is damaged says nothing. */
    test_write(run, "mlflow.sent", "broken", 6);
    assert_int_equal(world_sync(w, run).metrics, 1600);
    /* Another server has nothing of it. */
    http_server *first = w->server;
    w->server = http_server_start(&(http_server_options){.seed = 1, .mlflow = true});
    assert_non_null(w->server);
    w->options.tracking_uri = http_server_url(w->server);
    assert_int_equal(world_sync(w, run).metrics, 1600);
    held = world_state(w);
    world_run(held, 800);
    json_decref(held);
    http_server_stop(&first);
}

/* A run that goes on in its folder is the same run there. */
static void continued(void **state)
{
    world *w = *state;
    char run[512];

    stk_logger *logger = world_logger(w);
    world_log(logger, 0, 10);
    logger->ops->close(logger); /* without finalize(): it failed */
    json_t *held = world_state(w);
    assert_string_equal(json_string_value(json_object_get(world_run(held, 10), "status")),
                        "FAILED");
    json_decref(held);
    run_folder(w, run);
    /* Torn by the end of a process. */
    char path[600];
    snprintf(path, sizeof path, "%s/mlflow.jsonl", run);
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    fputs("{\"metrics\": [[\"lr\", 0.", f);
    fclose(f);
    w->options.folder.version = 0;
    logger = world_logger(w);
    world_log(logger, 10, 10);
    world_end(logger);
    held = world_state(w);
    assert_string_equal(json_string_value(json_object_get(world_run(held, 20), "status")),
                        "FINISHED");
    json_decref(held);
}

/* The run ends there as the task did. */
static void how_it_ended(void **state)
{
    static const struct {
        stk_status how;
        const char *status;
    } cases[] = {{STK_OK, "FINISHED"}, {STK_ECANCELED, "KILLED"}, {STK_EIO, "FAILED"}};
    world *w = *state;

    w->options.folder.version = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_logger *logger = world_logger(w);
        logger->ops->ended(logger, cases[i].how);
        world_end(logger);
        json_t *held = world_state(w);
        assert_string_equal(json_string_value(json_object_get(world_run(held, 0), "status")),
                            cases[i].status);
        json_decref(held);
    }
}

/* What a server will never take is left out and said; the rest of its batch is there. */
static void refused(void **state)
{
    const stk_hparam first[] = {{"lr", "0.5"}}, other[] = {{"lr", "0.25"}};
    world *w = *state;
    char run[512];
    stk_error err;

    w->options.tracking_uri = NULL;
    stk_logger *logger = world_logger(w);
    assert_ok(logger->ops->log_hyperparams(logger, first, 1, &err), &err);
    world_log(logger, 0, 5);
    assert_ok(logger->ops->log_hyperparams(logger, other, 1, &err), &err);
    world_log(logger, 5, 5);
    world_end(logger);
    run_folder(w, run);
    w->options.tracking_uri = http_server_url(w->server);
    /* The first goes before the second, so that the batch with it is at fault. */
    const stk_logger_synced synced = world_sync(w, run);
    assert_int_equal(synced.refused, 1);
    assert_int_equal(synced.metrics, 20);
    assert_non_null(strstr(w->said, "the server refuses it"));
    assert_non_null(strstr(w->said, "it says: 'changing param values is not allowed'"));
    json_t *held = world_state(w);
    const json_t *there = world_run(held, 10);
    assert_string_equal(json_string_value(json_object_get(json_object_get(there, "params"), "lr")),
                        "0.5");
    json_decref(held);
}

static stk_status sync_again(world *w, const char *run, stk_error *err)
{
    stk_logger_synced synced = {.struct_size = sizeof synced};

    return stk__logger_mlflow.sync(w->context, &w->options, run, &synced, err);
}

/* A token goes to the server alone. */
static void token(void **state)
{
    static const char *const names[] = {"mlflow.jsonl", "mlflow.sent", "hparams.yaml"};
    const stk_hparam params[] = {{"loggers", "mlflow(token=env:T)"}};
    world *w = *state;
    char run[512], path[600];
    stk_error err;

    http_server_token(w->server, CANARY);
    w->options.token = CANARY "x";
    stk_logger *logger = world_logger(w);
    assert_ok(logger->ops->log_hyperparams(logger, params, 1, &err), &err);
    world_log(logger, 0, 10);
    world_end(logger);
    run_folder(w, run);
    assert_non_null(strstr(w->said, "nothing can be sent now"));
    w->options.token = CANARY;
    assert_int_equal(world_sync(w, run).metrics, 20);
    json_t *held = world_state(w);
    world_run(held, 10);
    json_decref(held);
    assert_null(strstr(w->said, CANARY));
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", run, names[i]);
        char *text = test_load(path, NULL);
        assert_non_null(text);
        assert_null(strstr(text, CANARY));
        free(text);
    }
    /* A user and a password go likewise [RFC 7617]: the server takes any other scheme for wrong. */
    w->options.token = NULL;
    w->options.username = "me";
    w->options.password = "my " CANARY;
    test_write(run, "mlflow.sent", "", 0);
    assert_fails(sync_again(w, run, &err), STK_EACCES, &err, "401");
    assert_string_equal(w->seen, "Basic bWU6bXkgY2FuYXJ5LW9mLWEtdG9rZW4=");
    assert_null(strstr(err.text, CANARY));
    w->options.username = NULL;
    w->options.token = CANARY;
    /* Nor over plain http to another machine. */
    w->options.tracking_uri = "http://mlflow.invalid:5000";
    stk_logger_synced synced = {.struct_size = sizeof synced};
    assert_fails(stk__logger_mlflow.sync(w->context, &w->options, run, &synced, &err), STK_EINVAL,
                 &err, "over plain http, for all to read; use https");
    assert_null(strstr(err.text, CANARY));
    w->options.token = NULL;
    w->options.tracking_uri = "http://me:" CANARY "@127.0.0.1:5000";
    assert_fails(stk__logger_mlflow.open(w->context, &w->options, w->folder, &logger, &err),
                 STK_EINVAL, &err, "a user or a password in front of its host");
    assert_null(strstr(err.text, CANARY));
    snprintf(path, sizeof path, "%s/lightning_logs/version_1", w->folder);
    assert_int_equal(access(path, F_OK), -1); /* nothing was written with it */
}

/* A checkpoint of any size, in bounded memory. */
static void large_file(void **state)
{
    static const char end[] = "the end";
    world *w = *state;
    char run[512], path[700];
    stk_memory_stats before = {.struct_size = sizeof before}, after = before;
    size_t length;
    stk_error err;

    w->options.log_model = STK__LOG_MODEL_ALL;
    stk_logger *logger = world_logger(w);
    snprintf(run, sizeof run, "%s", logger->log_dir);
    test_write(run, "checkpoints/large.ckpt", "", 0);
    snprintf(path, sizeof path, "%s/checkpoints/large.ckpt", run);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, end, sizeof end, LARGE_FILE), sizeof end);
    close(fd);
    stk_context_memory(w->context, &before);
    assert_ok(logger->ops->flush(logger, &err), &err);
    world_end(logger);
    const stk_logger_synced synced = world_sync(w, run);
    assert_int_equal(synced.unsent, 0);
    char *got = http_server_get(w->server,
                                "/api/2.0/mlflow-artifacts/artifacts/1/"
                                "00000000000000000000000000000001/artifacts/checkpoints/large.ckpt",
                                &length);
    assert_int_equal(length, LARGE_FILE + sizeof end);
    assert_memory_equal(got + LARGE_FILE, end, sizeof end);
    free(got);
    stk_context_memory(w->context, &after);
    assert_true(after.peak_bytes - before.peak_bytes < LARGE_FILE / 4);
}

/* Pages and checkpoints as they are in the folder; one that is gone is no failure. */
static void files(void **state)
{
    world *w = *state;
    char run[512], path[700];
    size_t length;
    stk_error err;

    w->options.log_model = STK__LOG_MODEL_ALL;
    http_server_listen(w->server, false);
    stk_logger *logger = world_logger(w);
    snprintf(run, sizeof run, "%s", logger->log_dir);
    test_write(run, "checkpoints/a b=1.ckpt", "one", 3);
    assert_ok(logger->ops->flush(logger, &err), &err);
    test_write(run, "checkpoints/gone.ckpt", "two", 3);
    test_write(run, "checkpoints/.stoker-put-x", "three", 5);
    assert_ok(logger->ops->flush(logger, &err), &err);
    assert_ok(logger->ops->flush(logger, &err), &err);
    snprintf(path, sizeof path, "%s/checkpoints/gone.ckpt", run);
    assert_int_equal(unlink(path), 0);
    world_end(logger);
    test_write(run, "report.html", "page", 4);
    http_server_listen(w->server, true);
    const stk_logger_synced synced = world_sync(w, run);
    assert_int_equal(synced.files, 2);
    assert_int_equal(synced.unsent, 1);
    static const char *const names[] = {"checkpoints/a b=1.ckpt", "report.html"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        snprintf(path, sizeof path,
                 "/api/2.0/mlflow-artifacts/artifacts/1/00000000000000000000000000000001/artifacts/"
                 "%s",
                 names[i]);
        char *got = http_server_get(w->server, path, &length);
        assert_non_null(got);
        free(got);
    }
    /* Who logs, sends: nobody else does meanwhile. */
    w->options.folder.version = 0;
    logger = world_logger(w);
    stk_logger_synced other = {.struct_size = sizeof other};
    assert_fails(stk__logger_mlflow.sync(w->context, &w->options, run, &other, &err), STK_EBUSY,
                 &err, "is in use by another process");
    world_end(logger);
    test_write(w->folder, "empty/x", "", 0);
    snprintf(path, sizeof path, "%s/empty", w->folder);
    assert_fails(stk__logger_mlflow.sync(w->context, &w->options, path, &other, &err), STK_ENOENT,
                 &err, "has no journal: name the folder of a run");
    test_write(path, "mlflow.jsonl", "{}\n", 3);
    assert_fails(stk__logger_mlflow.sync(w->context, &w->options, path, &other, &err), STK_EFORMAT,
                 &err, "is no journal of a run: its first line is another");
}

/* The folder of a run may be in another store. */
static void elsewhere(void **state)
{
    world *w = *state;
    stk_logger *logger = NULL;
    stk_error err;

    w->options.tracking_uri = NULL;
    assert_ok(stk__logger_mlflow.open(w->context, &w->options, "mem://runs", &logger, &err), &err);
    world_log(logger, 0, 10);
    world_end(logger);
    w->options.tracking_uri = http_server_url(w->server);
    w->options.folder.version = 0;
    assert_int_equal(world_sync(w, "mem://runs/lightning_logs/version_0").metrics, 20);
    assert_int_equal(world_sync(w, "mem://runs/lightning_logs/version_0").metrics, 0);
    assert_ok(stk__logger_mlflow.open(w->context, &w->options, "mem://runs", &logger, &err), &err);
    world_log(logger, 10, 10);
    world_end(logger);
    json_t *held = world_state(w);
    world_run(held, 20);
    assert_int_equal(world_repeated(held), 0);
    json_decref(held);
    assert_string_equal(w->said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_it, world_open, world_close),
        cmocka_unit_test_setup_teardown(faulty, world_open, world_close),
        cmocka_unit_test_setup_teardown(dead, world_open, world_close),
        cmocka_unit_test_setup_teardown(silent, world_open, world_close),
        cmocka_unit_test_setup_teardown(sent_again, world_open, world_close),
        cmocka_unit_test_setup_teardown(continued, world_open, world_close),

        cmocka_unit_test_setup_teardown(how_it_ended, world_open, world_close),
        cmocka_unit_test_setup_teardown(refused, world_open, world_close),
        cmocka_unit_test_setup_teardown(token, world_open, world_close),
        cmocka_unit_test_setup_teardown(files, world_open, world_close),
        cmocka_unit_test_setup_teardown(large_file, world_open, world_close),
        cmocka_unit_test_setup_teardown(elsewhere, world_open, world_close),
    };

    return cmocka_run_group_tests_name("mlflow", tests, NULL, NULL);
}
