/* journal -> a run of an MLflow server */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_REMOTE_MLFLOW_H
#define STK_SRC_TRAIN_REMOTE_MLFLOW_H

#include "store/http/http.h"
#include "train/remote/remote.h"

typedef struct stk__mlflow_options {
    stk__logger_options folder; /* first */
    const char *tracking_uri, *experiment_name, *run_name, *run_id, *tags, *artifact_location;
    const char *token, *username, *password, *ca_file, *proxy;
    double timeout; /* seconds that the end of a run waits */
    int32_t log_model;
    bool allow_http;
} stk__mlflow_options;

/* What the journal of a run says of where it belongs, and what options say: those count more. */
typedef struct stk__mlflow_place {
    stk__http_service_options server;
    const char *experiment, *run_name, *run_id, *artifact_location;
    const char *folder;  /* of the run, for its files; a path or URL */
    const char *journal; /* path */
    const char *mark;    /* path or URL of the mark */
} stk__mlflow_place;

typedef struct stk__mlflow_sent {
    uint64_t metrics, params, tags, files;
    uint64_t refused; /* lines that the server refused for good */
    uint64_t damaged; /* lines that said nothing */
    uint64_t unsent;  /* files that are gone, too large, or of a server that takes none */
} stk__mlflow_sent;

stk__mlflow_place stk__mlflow_place_of(const stk__mlflow_options *options);
/* The `sync` of the logger (mlflow_sync.c). */
stk_status stk__mlflow_sync(stk_context *ctx, const void *options, const char *run,
                            stk_logger_synced *out, stk_error *err);

/*
 * What is logged goes by lines of the journal, in their order, as much as a request may hold. After
 * each answer the mark says how far it is. A request whose answer was lost is repeated as it was: a
 * server keeps one value of a metric, step and time, and the run is found by a tag with the id of
 * the journal, so nothing is there twice.
 *
 * One thread at a time.
 */
typedef struct stk__mlflow stk__mlflow;

/* All texts of `place` are copied. Does not ask the server. */
stk_status stk__mlflow_open(stk_context *ctx, const stk__mlflow_place *place, stk__mlflow **out,
                            stk_error *err);
void stk__mlflow_close(stk__mlflow **mlflow);
/* Send all lines that end within the first `end` bytes. On a failure what was sent is marked, and
 * the next call goes on behind it. Errors: those of HTTP. */
stk_status stk__mlflow_send(stk__mlflow *mlflow, uint64_t end, const stk_store_call *call,
                            stk_error *err);
/* Send a file of the run's folder as an artifact; STK_ENOENT: it is gone. */
stk_status stk__mlflow_send_file(stk__mlflow *mlflow, const char *name, const stk_store_call *call,
                                 stk_error *err);
const stk__mlflow_sent *stk__mlflow_counts(const stk__mlflow *mlflow);
/* Where it sends from and to, without secrets; lives as long. */
const stk__mlflow_place *stk__mlflow_where(const stk__mlflow *mlflow);
/* Bytes of the journal that are sent. */
uint64_t stk__mlflow_offset(const stk__mlflow *mlflow);
/* "http://HOST/#/experiments/1/runs/ID"; false: there is no run yet. */
bool stk__mlflow_page(const stk__mlflow *mlflow, char *text, size_t size);

#endif
