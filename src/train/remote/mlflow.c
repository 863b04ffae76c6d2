/* SPDX-License-Identifier: Apache-2.0 */
/* The logger mlflow: a journal, and a thread that sends it. */
#include "base/options.h"
#include "base/url.h"
#include "train/remote/sender.h"

typedef struct mlflow_logger {
    stk__remote_logger remote;
    stk__sender *sender; /* NULL: no server was named */
    double timeout;
} mlflow_logger;

#define AT(member) offsetof(stk__mlflow_options, member)

static const stk_option rows[] = {
    STK__LOGGER_OPTIONS{
        "tracking_uri", STK_OPTION_STRING, AT(tracking_uri), NULL, 0, 0, NULL, "URL",
        "The server, http://HOST:PORT; none: the journal is kept, to be sent later."},
    {"experiment_name", STK_OPTION_STRING, AT(experiment_name), NULL, 0, 0, NULL, "NAME",
     "Experiment that the run belongs to, made where it is not there; the default is "
     "lightning_logs."},
    {"run_name", STK_OPTION_STRING, AT(run_name), NULL, 0, 0, NULL, "NAME",
     "Name of the run; the server makes one where none is given."},
    {"run_id", STK_OPTION_STRING, AT(run_id), NULL, 0, 0, NULL, "ID",
     "A run of the server that is gone on with, instead of a new one."},
    {"tags", STK_OPTION_STRING, AT(tags), NULL, 0, 0, NULL, "LIST",
     "Tags of the run, 'name=value, name=value'."},
    {"log_model", STK_OPTION_ENUM, AT(log_model), "false", 0, 0, STK__LOG_MODEL_WORDS, NULL,
     "Checkpoints of the run's folder as artifacts: those that are there at the end of a task, or "
     "all as they are saved."},
    {"artifact_location", STK_OPTION_STRING, AT(artifact_location), NULL, 0, 0, NULL, "URL",
     "Where the server keeps the artifacts of an experiment that is made here."},
    {"token", STK_OPTION_SECRET, AT(token), NULL, 0, 0, NULL, "env:NAME",
     "Token that the server asks for, as a bearer."},
    {"username", STK_OPTION_STRING, AT(username), NULL, 0, 0, NULL, "NAME",
     "User that the server asks for, where it asks for no token."},
    {"password", STK_OPTION_SECRET, AT(password), NULL, 0, 0, NULL, "env:NAME",
     "Password of the user."},
    {"allow_http", STK_OPTION_BOOL, AT(allow_http), "false", 0, 0, NULL, NULL,
     "The token or password may go over plain http to another machine."},
    {"ca_file", STK_OPTION_STRING, AT(ca_file), NULL, 0, 0, NULL, "FILE",
     "Certificates (PEM) that the server is verified by, instead of the system's."},
    {"proxy", STK_OPTION_STRING, AT(proxy), NULL, 0, 0, NULL, "URL",
     "Proxy of all requests; the environment is not looked at."},
    {"timeout", STK_OPTION_DURATION, AT(timeout), "10s", 0, 3600, NULL, NULL,
     "How long the end of a run waits for what is not sent yet."},
};

static const stk_option_table table = {
    .name = "mlflow",
    .doc = "Metrics to an MLflow server, by way of a journal.",
    .struct_size = sizeof(stk__mlflow_options),
    .options = rows,
    .count = STK_COUNT(rows),
};

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a logger");
}

stk__mlflow_place stk__mlflow_place_of(const stk__mlflow_options *o)
{
    return (stk__mlflow_place){.server = {.url = o->tracking_uri,
                                          .token = o->token,
                                          .user = o->username,
                                          .password = o->password,
                                          .ca_file = o->ca_file,
                                          .proxy = o->proxy,
                                          .allow_http = o->allow_http},
                               .experiment = o->experiment_name,
                               .run_name = o->run_name,
                               .run_id = o->run_id,
                               .artifact_location = o->artifact_location};
}

/* ---- The logger ------------------------------------------------------------------------------ */

static stk_status start_sender(mlflow_logger *l, const stk__mlflow_options *o, stk_error *err)
{
    stk_context *ctx = l->remote.base.context;
    const stk__run_journal_writer *journal = &l->remote.journal;
    stk__mlflow_place place = stk__mlflow_place_of(o);

    if (!o->tracking_uri || !o->tracking_uri[0])
        return STK_OK;
    char *mark = stk__url_below(ctx, journal->run.log_dir, STK__MLFLOW_MARK);
    place.folder = journal->run.log_dir;
    place.journal = journal->path;
    place.mark = mark;
    const stk_status status =
        mark ? stk__sender_create(ctx, &place, &l->sender, err) : no_memory(err);
    stk__free(ctx, mark);
    return status;
}

static stk_status mlflow_open(stk_context *ctx, const void *options, const char *root,
                              stk_logger **out, stk_error *err)
{
    const stk__mlflow_options *o = options;
    const stk__run_journal_option kept[] = {{"tracking_uri", o->tracking_uri},
                                            {"experiment_name", o->experiment_name},
                                            {"run_name", o->run_name},
                                            {"run_id", o->run_id},
                                            {"artifact_location", o->artifact_location}};

    *out = NULL;
    /* Before it is part of a file. */
    STK_TRY(stk__secret_refuse(o->tracking_uri ? o->tracking_uri : "", err));
    mlflow_logger *l = stk__calloc(ctx, 1, sizeof *l);
    if (!l)
        return no_memory(err);
    l->remote.base.ops = &stk__logger_mlflow;
    l->remote.base.context = ctx;
    l->timeout = o->timeout;
    stk_status status =
        stk__run_journal_writer_open(&l->remote.base, STK__MLFLOW_JOURNAL, &o->folder, root, kept,
                                     STK_COUNT(kept), o->tags, &l->remote.journal, err);
    l->remote.journal.log_model = o->log_model;
    if (status == STK_OK)
        status = start_sender(l, o, err);
    if (status != STK_OK) {
        stk__run_journal_writer_close(&l->remote.journal);
        stk__free(ctx, l);
        return status;
    }
    *out = &l->remote.base;
    return STK_OK;
}

/* What is on the disk may go. */
static stk_status settle(mlflow_logger *l, stk_status status)
{
    if (status == STK_OK && l->sender)
        stk__sender_publish(l->sender, l->remote.journal.size);
    return status;
}

static stk_status mlflow_flush(stk_logger *logger, stk_error *err)
{
    return settle((mlflow_logger *)logger, stk__remote_flush(logger, err));
}

static stk_status mlflow_finalize(stk_logger *logger, stk_error *err)
{
    return settle((mlflow_logger *)logger, stk__remote_finalize(logger, err));
}

static void mlflow_close(stk_logger *logger)
{
    mlflow_logger *l = (mlflow_logger *)logger;

    if (stk__remote_end(&l->remote))
        (void)settle(l, STK_OK);
    if (l->sender)
        stk__sender_destroy(&l->sender, l->timeout);
    else
        stk__remote_say_kept(&l->remote);
    stk__run_journal_writer_close(&l->remote.journal);
    stk__free(logger->context, l);
}

const stk_logger_ops stk__logger_mlflow = {
    .struct_size = sizeof(stk_logger_ops),
    .name = "mlflow",
    .doc = "Metrics to an MLflow server, by way of a journal.",
    .options = &table,
    .open = mlflow_open,
    .close = mlflow_close,
    .log_metrics = stk__remote_metrics,
    .log_hyperparams = stk__remote_params,
    .flush = mlflow_flush,
    .finalize = mlflow_finalize,
    .sync = stk__mlflow_sync,
    .ended = stk__remote_ended,
};
