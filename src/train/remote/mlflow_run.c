/* SPDX-License-Identifier: Apache-2.0 */
/* The run of a journal on a server: found, or made [MLflow REST API 2.0]. */
#include <inttypes.h>
#include <stdio.h>

#include "train/remote/mlflow_room.h"

#define EXPERIMENT "lightning_logs"
#define ID_TAG     "stoker.journal"

#define RUNS_CREATE "/api/2.0/mlflow/runs/create"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a request to MLflow");
}

/* ---- Requests -------------------------------------------------------------------------------- */

stk_status stk__mlflow_ask(stk__mlflow *m, const char *method, const char *target, stk__text *body,
                           const stk_store_call *call, stk__json *answer, int *code, stk_error *err)
{
    stk__http_exchange x = {.method = method,
                            .target = target,
                            .most = STK__MLFLOW_ANSWER,
                            .body = body ? body->bytes : NULL,
                            .body_length = body ? body->length : 0,
                            .body_type = "application/json"};

    *code = 0;
    if (body && body->failed) {
        stk__text_release(body);
        return no_memory(err);
    }
    stk_status status = stk__http_services.call(m->service, &x, call, err);
    *code = x.code;
    if (status == STK_OK && answer)
        status = stk__json_parse(m->ctx, x.text ? x.text : "", x.got, target, answer, err);
    stk__http_services.release(m->service, &x);
    if (body)
        stk__text_release(body);
    return status;
}

static stk_status strange(const stk__mlflow *m, const char *what, stk_error *err)
{
    return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                     "'%.200s' answers with no %s: is it an MLflow server?", m->place.server.url,
                     what);
}

/* A text of an answer, in a place of its own. One with blanks is none. */
static bool take_text(const json_t *value, char *to, size_t size)
{
    const char *text = json_is_string(value) ? json_string_value(value) : NULL;

    if (!text || !*text || strlen(text) >= size || strpbrk(text, " \t\r\n"))
        return false;
    snprintf(to, size, "%s", text);
    return true;
}

static const json_t *at(const json_t *value, const char *first, const char *second)
{
    const json_t *inner = json_object_get(value, first);

    return second ? json_object_get(inner, second) : inner;
}

/* ---- The experiment -------------------------------------------------------------------------- */

static stk_status make_experiment(stk__mlflow *m, const char *name, const stk_store_call *call,
                                  stk_error *err)
{
    stk__text body = {.ctx = m->ctx};
    stk__json answer = {0};
    int code;

    stk__text_add(&body, "{\"name\": ");
    stk__text_add_json(&body, name);
    if (m->place.artifact_location && m->place.artifact_location[0]) {
        stk__text_add(&body, ", \"artifact_location\": ");
        stk__text_add_json(&body, m->place.artifact_location);
    }
    stk__text_add(&body, "}");
    stk_status status = stk__mlflow_ask(m, "POST", "/api/2.0/mlflow/experiments/create", &body,
                                        call, &answer, &code, err);
    if (status == STK_OK && !take_text(at(answer.value, "experiment_id", NULL), m->mark.experiment,
                                       sizeof m->mark.experiment))
        status = strange(m, "experiment", err);
    stk__json_drop(m->ctx, &answer);
    return status;
}

static stk_status find_experiment(stk__mlflow *m, const stk_store_call *call, stk_error *err)
{
    const char *name = m->place.experiment;
    stk__text target = {.ctx = m->ctx};
    stk__json answer = {0};
    int code;

    stk__text_add(&target, "/api/2.0/mlflow/experiments/get-by-name?experiment_name=");
    stk__text_add_percent(&target, name, strlen(name), false);
    stk_status status =
        target.failed ? no_memory(err)
                      : stk__mlflow_ask(m, "GET", target.bytes, NULL, call, &answer, &code, err);
    stk__text_release(&target);
    if (status == STK_ENOENT)
        return make_experiment(m, name, call, err);
    if (status == STK_OK && !take_text(at(answer.value, "experiment", "experiment_id"),
                                       m->mark.experiment, sizeof m->mark.experiment))
        status = strange(m, "experiment", err);
    stk__json_drop(m->ctx, &answer);
    return status;
}

/* ---- The run --------------------------------------------------------------------------------- */

static bool take_run(stk__mlflow *m, const json_t *run)
{
    const json_t *uri = at(run, "info", "artifact_uri");

    if (!take_text(at(run, "info", "run_id"), m->mark.run, sizeof m->mark.run))
        return false;
    take_text(at(run, "info", "experiment_id"), m->mark.experiment, sizeof m->mark.experiment);
    if (!take_text(uri, m->mark.artifacts, sizeof m->mark.artifacts))
        snprintf(m->mark.artifacts, sizeof m->mark.artifacts, "unknown");
    return true;
}

/* One that this journal has begun: the answer to that may have been lost. */
static stk_status search_run(stk__mlflow *m, const stk_store_call *call, stk_error *err)
{
    stk__text body = {.ctx = m->ctx};
    stk__json answer = {0};
    int code;

    stk__text_add(&body, "{\"experiment_ids\": [");
    stk__text_add_json(&body, m->mark.experiment);
    stk__text_add(&body, "], \"filter\": \"tags.`" ID_TAG "` = '%s'\", \"max_results\": 1}", m->id);
    const stk_status status =
        stk__mlflow_ask(m, "POST", "/api/2.0/mlflow/runs/search", &body, call, &answer, &code, err);
    if (status == STK_OK)
        take_run(m, json_array_get(at(answer.value, "runs", NULL), 0));
    stk__json_drop(m->ctx, &answer);
    return status;
}

static stk_status get_run(stk__mlflow *m, const stk_store_call *call, stk_error *err)
{
    stk__text target = {.ctx = m->ctx};
    stk__json answer = {0};
    int code;

    stk__text_add(&target, "/api/2.0/mlflow/runs/get?run_id=");
    stk__text_add_percent(&target, m->place.run_id, strlen(m->place.run_id), false);
    stk_status status =
        target.failed ? no_memory(err)
                      : stk__mlflow_ask(m, "GET", target.bytes, NULL, call, &answer, &code, err);
    stk__text_release(&target);
    if (status == STK_OK && !take_run(m, at(answer.value, "run", NULL)))
        status = strange(m, "run", err);
    stk__json_drop(m->ctx, &answer);
    return status;
}

static stk_status make_run(stk__mlflow *m, const stk_store_call *call, stk_error *err)
{
    stk__text body = {.ctx = m->ctx};
    stk__json answer = {0};
    int code;

    stk__text_add(&body, "{\"experiment_id\": ");
    stk__text_add_json(&body, m->mark.experiment);
    if (m->place.run_name && m->place.run_name[0]) {
        stk__text_add(&body, ", \"run_name\": ");
        stk__text_add_json(&body, m->place.run_name);
    }
    stk__text_add(&body, ", \"start_time\": %" PRId64 ", \"tags\": [", (int64_t)(m->started * 1e3));
    stk__text_add(&body, "{\"key\": \"" ID_TAG "\", \"value\": \"%s\"}, ", m->id);
    stk__text_add(&body, "{\"key\": \"mlflow.source.name\", \"value\": \"stoker\"}, "
                         "{\"key\": \"stoker.folder\", \"value\": ");
    stk__text_add_json(&body, m->place.folder);
    stk__text_add(&body, "}]}");
    stk_status status = stk__mlflow_ask(m, "POST", RUNS_CREATE, &body, call, &answer, &code, err);
    if (status == STK_OK && !take_run(m, at(answer.value, "run", NULL)))
        status = strange(m, "run", err);
    stk__json_drop(m->ctx, &answer);
    return status;
}

/* ---- The journal's beginning ------------------------------------------------------------------
 */

static stk_status copy_text(stk__mlflow *m, size_t i, const char **text, stk_error *err)
{
    if (!*text || !**text) {
        *text = NULL;
        return STK_OK;
    }
    stk__free(m->ctx, m->texts[i]);
    m->texts[i] = stk__strdup(m->ctx, *text);
    *text = m->texts[i];
    return m->texts[i] ? STK_OK : no_memory(err);
}

/* What is not said otherwise, the journal says. */
static stk_status take_options(stk__mlflow *m, const json_t *options, stk_error *err)
{
    const struct {
        const char *name, **text;
    } own[] = {{"experiment_name", &m->place.experiment},
               {"run_name", &m->place.run_name},
               {"run_id", &m->place.run_id},
               {"artifact_location", &m->place.artifact_location},
               {"tracking_uri", &m->place.server.url}};

    for (size_t i = 0; i < STK_COUNT(own); i++)
        if (!*own[i].text) {
            *own[i].text = json_string_value(json_object_get(options, own[i].name));
            STK_TRY(copy_text(m, i, own[i].text, err));
        }
    if (!m->place.experiment)
        m->place.experiment = EXPERIMENT;
    if (m->place.server.url)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "tracking_uri", STK_NO_OFFSET,
                        "mlflow: which server? Say tracking_uri=http://HOST:PORT");
}

static stk_status read_start(stk__mlflow *m, stk_error *err)
{
    stk__run_journal_line line;
    const char *text;
    size_t length;

    stk_status status = stk__run_journal_next(&m->reader, UINT64_MAX, &text, &length, err);
    if (status == STK_OK)
        status = stk__run_journal_take(m->ctx, text, length, &line, err);
    if (status < 0)
        return status;
    if (status == STK_EOS || line.kind != STK__RUN_JOURNAL_START) {
        if (status == STK_OK)
            stk__run_journal_line_release(m->ctx, &line);
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, m->place.journal, STK_NO_OFFSET,
                            "'%.300s' is no journal of a run: its first line is another",
                            m->place.journal);
    }
    snprintf(m->id, sizeof m->id, "%s", line.text);
    m->started = line.time;
    status = take_options(m, line.options, err);
    stk__run_journal_line_release(m->ctx, &line);
    return status;
}

/* ---- Its life ---------------------------------------------------------------------------------
 */

void stk__mlflow_close(stk__mlflow **mlflow)
{
    stk__mlflow *m = *mlflow;

    *mlflow = NULL;
    if (!m)
        return;
    if (m->service)
        stk__http_services.close(m->service);
    stk__run_journal_close(&m->reader);
    for (size_t i = 0; i < STK_COUNT(m->texts); i++)
        stk__free(m->ctx, m->texts[i]);
    stk__free(m->ctx, m);
}

stk_status stk__mlflow_open(stk_context *ctx, const stk__mlflow_place *place, stk__mlflow **out,
                            stk_error *err)
{
    stk__mlflow *m = stk__calloc(ctx, 1, sizeof *m);

    *out = NULL;
    if (!m)
        return no_memory(err);
    m->ctx = ctx;
    m->reader.fd = -1;
    m->place = *place;
    const char **texts[] = {&m->place.experiment,        &m->place.run_name,   &m->place.run_id,
                            &m->place.artifact_location, &m->place.server.url, &m->place.folder,
                            &m->place.journal,           &m->place.mark};
    stk_status status = STK_OK;
    for (size_t i = 0; i < STK_COUNT(texts) && status == STK_OK; i++)
        status = copy_text(m, i, texts[i], err);
    if (status == STK_OK)
        status = stk__run_journal_open(ctx, m->place.journal, 0, &m->reader, err);
    if (status == STK_OK)
        status = read_start(m, err);
    if (status == STK_OK)
        status = stk__http_services.open(ctx, &m->place.server, &m->service, err);
    if (status == STK_OK)
        status = stk__run_journal_mark_read(ctx, m->place.mark, &m->mark, err);
    m->place.server = (stk__http_service_options){.url = m->place.server.url};
    if (status != STK_OK) {
        stk__mlflow_close(&m);
        return status;
    }
    /* The mark of another journal, or of another server, says nothing of this one. */
    if (strcmp(m->mark.id, m->id) != 0 || strcmp(m->mark.uri, m->place.server.url) != 0)
        m->mark = (stk__run_journal_mark){.offset = 0};
    *out = m;
    return STK_OK;
}

stk_status stk__mlflow_begin(stk__mlflow *m, const stk_store_call *call, stk_error *err)
{
    if (m->mark.run[0])
        return STK_OK;
    snprintf(m->mark.id, sizeof m->mark.id, "%s", m->id);
    if (snprintf(m->mark.uri, sizeof m->mark.uri, "%s", m->place.server.url) >=
        (int)sizeof m->mark.uri)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "the address of the server is longer "
                         "than %zu bytes",
                         sizeof m->mark.uri - 1);
    if (m->place.run_id) {
        STK_TRY(get_run(m, call, err));
    } else {
        STK_TRY(find_experiment(m, call, err));
        STK_TRY(search_run(m, call, err));
        if (!m->mark.run[0])
            STK_TRY(make_run(m, call, err));
    }
    stk__run_journal_seek(&m->reader, m->mark.offset);
    return stk__run_journal_mark_write(m->ctx, m->place.mark, &m->mark, err);
}

const stk__mlflow_sent *stk__mlflow_counts(const stk__mlflow *m)
{
    return &m->sent;
}

const stk__mlflow_place *stk__mlflow_where(const stk__mlflow *m)
{
    return &m->place;
}

uint64_t stk__mlflow_offset(const stk__mlflow *m)
{
    return m->mark.offset;
}

bool stk__mlflow_page(const stk__mlflow *m, char *text, size_t size)
{
    return m->mark.run[0] &&
           snprintf(text, size, "%s/#/experiments/%s/runs/%s", m->place.server.url,
                    m->mark.experiment, m->mark.run) < (int)size;
}
