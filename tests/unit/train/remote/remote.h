/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of remote loggers share: a server, a folder, a logger, and what the server holds. */
#ifndef STK_TESTS_UNIT_TRAIN_REMOTE_REMOTE_H
#define STK_TESTS_UNIT_TRAIN_REMOTE_REMOTE_H

#include "support/support.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "support/http_server.h"
#include "train/remote/mlflow.h"

typedef struct world {
    stk_context *context;
    http_server *server;
    char folder[256], said[4096]; /* said: messages but those of INFO */
    char seen[128];               /* Authorization of the last request */
    pthread_mutex_t lock;         /* guards `said` */
    stk__mlflow_options options;
} world;

static inline void world_hear(void *user, stk_message_level level, const char *text)
{
    world *w = user;

    if (level < STK_MESSAGE_WARNING)
        return;
    pthread_mutex_lock(&w->lock);
    const size_t used = strlen(w->said);
    snprintf(w->said + used, sizeof w->said - used, "%s\n", text);
    pthread_mutex_unlock(&w->lock);
}

static inline void world_see(void *user, const http_request *request, http_fault *fault)
{
    world *w = user;

    (void)fault;
    if (!http_header(request, "Authorization", w->seen, sizeof w->seen))
        w->seen[0] = 0;
}

static inline int world_open(void **state)
{
    stk_context_options options;
    world *w = calloc(1, sizeof *w);
    stk_error err;

    assert_non_null(w);
    pthread_mutex_init(&w->lock, NULL);
    stk_context_options_init(&options);
    options.on_message = world_hear;
    options.on_message_user = w;
    assert_ok(stk_context_create(&options, &w->context, &err), &err);
    w->server = http_server_start(
        &(http_server_options){.seed = 1, .mlflow = true, .seen = world_see, .user = w});
    assert_non_null(w->server);
    test_folder(w->folder);
    stk_options_init(stk__logger_mlflow.options, &w->options, sizeof w->options);
    w->options.tracking_uri = http_server_url(w->server);
    w->options.experiment_name = "digits";
    *state = w;
    return 0;
}

static inline int world_close(void **state)
{
    world *w = *state;

    http_server_stop(&w->server);
    stk_context_destroy(&w->context);
    test_folder_remove(w->folder);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return 0;
}

static inline stk_logger *world_logger(world *w)
{
    stk_logger *logger = NULL;
    stk_error err;

    assert_ok(stk__logger_mlflow.open(w->context, &w->options, w->folder, &logger, &err), &err);
    return logger;
}

/* `n` lines of two metrics each, from step `from` on. */
static inline void world_log(stk_logger *logger, int64_t from, int64_t n)
{
    stk_error err;

    for (int64_t i = from; i < from + n; i++) {
        const stk_metric metrics[] = {{"train/loss", 1.0 / (double)(i + 1)}, {"lr", 0.5}};
        assert_ok(logger->ops->log_metrics(logger, metrics, 2, i, 1000 + (double)i, &err), &err);
    }
}

static inline void world_end(stk_logger *logger)
{
    stk_error err;

    assert_ok(logger->ops->finalize(logger, &err), &err);
    logger->ops->close(logger);
}

/* Send later what is in the folder of the run. */
static inline stk_logger_synced world_sync(world *w, const char *run)
{
    stk_logger_synced synced = {.struct_size = sizeof synced};
    stk_error err;

    assert_ok(stk__logger_mlflow.sync(w->context, &w->options, run, &synced, &err), &err);
    return synced;
}

/* What the server holds; to be dropped. */
static inline json_t *world_state(world *w)
{
    char *text = http_server_mlflow(w->server);
    json_t *state = json_loads(text, 0, NULL);

    assert_non_null(state);
    free(text);
    return state;
}

/* The one run that the server has, which has every metric of `n` lines once. */
static inline const json_t *world_run(const json_t *state, int64_t n)
{
    json_t *runs = json_object_get(state, "runs");
    char name[64];

    assert_int_equal(json_object_size(runs), 1);
    const json_t *run = json_object_iter_value(json_object_iter(runs));
    const json_t *metrics = json_object_get(run, "metrics");
    assert_int_equal(json_object_size(metrics), 2 * n);
    for (int64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "train/loss %lld", (long long)i);
        assert_true(json_real_value(json_object_get(metrics, name)) == 1.0 / (double)(i + 1));
        snprintf(name, sizeof name, "lr %lld", (long long)i);
        assert_true(json_real_value(json_object_get(metrics, name)) == 0.5);
    }
    return run;
}

static inline int64_t world_repeated(const json_t *state)
{
    return json_integer_value(json_object_get(state, "repeated"));
}

#endif
