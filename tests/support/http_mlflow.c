/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MLflow's tracking server, as far as a logger uses it [MLflow REST API 2.0]: experiments, runs,
 * batches with their limits, and values kept once for each metric, step, time and value, as its
 * data base keeps them. What was there already is counted.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/http_mlflow.h"
#include "support/http_s3.h"

#define API "/api/2.0/mlflow/"

struct http_mlflow {
    pthread_mutex_t lock; /* guards `state` */
    json_t *state;        /* {"experiments": {name: id}, "runs": {id: run}, "repeated": N} */
};

http_mlflow *http_mlflow_create(void)
{
    http_mlflow *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    m->state = json_pack("{s:{}, s:{}, s:i}", "experiments", "runs", "repeated", 0);
    if (m->state)
        return m;
    http_mlflow_destroy(m);
    return NULL;
}

void http_mlflow_destroy(http_mlflow *m)
{
    if (!m)
        return;
    json_decref(m->state);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void say(http_text *out, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);

    out->failed |= !text;
    http_text_add(out, "%s", text ? text : "");
    free(text);
    json_decref(value);
}

void http_mlflow_dump(http_mlflow *m, http_text *out)
{
    pthread_mutex_lock(&m->lock);
    say(out, json_incref(m->state));
    pthread_mutex_unlock(&m->lock);
}

/* ---- Answers: each gives what is said, of which NULL is an error that was put together ---- */

static json_t *fail(http_answer *a, int status, const char *code, const char *message)
{
    a->status = status;
    say(&a->text, json_pack("{s:s, s:s}", "error_code", code, "message", message));
    return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static json_t *make_experiment(http_mlflow *m, const json_t *asked, http_answer *a)
{
    json_t *all = json_object_get(m->state, "experiments");
    char id[16];

    if (json_object_get(all, text_of(asked, "name")))
        return fail(a, 400, "RESOURCE_ALREADY_EXISTS", "the experiment exists");
    snprintf(id, sizeof id, "%zu", json_object_size(all) + 1);
    json_object_set_new(all, text_of(asked, "name"), json_string(id));
    return json_pack("{s:s}", "experiment_id", id);
}

static json_t *find_experiment(http_mlflow *m, const http_request *request, http_answer *a)
{
    http_text value = {0};
    const char *name = http_s3_value(request, "experiment_name", &value);
    json_t *id = json_object_get(json_object_get(m->state, "experiments"), name ? name : "");
    json_t *said = id ? json_pack("{s:{s:O, s:s}}", "experiment", "experiment_id", id, "name", name)
                      : fail(a, 404, "RESOURCE_DOES_NOT_EXIST", "no such experiment");

    http_text_free(&value);
    return said;
}

static json_t *run_said(const char *id, json_t *run)
{
    json_t *experiment = json_object_get(run, "experiment");
    char uri[128];

    snprintf(uri, sizeof uri, "mlflow-artifacts:/%s/%s/artifacts", json_string_value(experiment),
             id);
    return json_pack("{s:{s:s, s:O, s:s}}", "info", "run_id", id, "experiment_id", experiment,
                     "artifact_uri", uri);
}

/* Values of a list under their keys. */
static void add_pairs(json_t *to, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        json_object_set(to, text_of(pair, "key"), json_object_get(pair, "value"));
    }
}

static json_t *make_run(http_mlflow *m, const json_t *asked)
{
    json_t *all = json_object_get(m->state, "runs");
    char id[33];

    snprintf(id, sizeof id, "%032zx", json_object_size(all) + 1);
    json_t *run =
        json_pack("{s:O, s:s, s:s, s:{}, s:{}, s:{}, s:{}}", "experiment",
                  json_object_get(asked, "experiment_id"), "name", text_of(asked, "run_name"),
                  "status", "RUNNING", "tags", "params", "metrics", "times");
    add_pairs(json_object_get(run, "tags"), json_object_get(asked, "tags"));
    json_object_set_new(all, id, run);
    return json_pack("{s:o}", "run", run_said(id, run));
}

/* Of one filter: tags.`NAME` = 'VALUE'. */
static json_t *search_runs(http_mlflow *m, const json_t *asked)
{
    const char *filter = text_of(asked, "filter"), *id;
    char name[128] = "", value[128] = "";
    json_t *found = json_array(), *run;

    if (sscanf(filter, "tags.`%127[^`]` = '%127[^']'", name, value) == 2)
        json_object_foreach(json_object_get(m->state, "runs"), id,
                            run) if (strcmp(text_of(json_object_get(run, "tags"), name), value) ==
                                     0) json_array_append_new(found, run_said(id, run));
    return json_pack("{s:o}", "runs", found);
}

static bool name_is_good(const char *name)
{
    const size_t length = strlen(name);

    return length > 0 && length <= 250 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. :/") ==
               length;
}

/* What is wrong with a batch; NULL: nothing is. */
static const char *batch_fault(const json_t *run, const json_t *asked, size_t bytes)
{
    static const struct {
        const char *name;
        size_t most;
    } lists[] = {{"metrics", 1000}, {"params", 100}, {"tags", 100}};
    size_t all = 0;

    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        const json_t *list = json_object_get(asked, lists[k].name);
        const size_t n = json_array_size(list);
        if ((all += n) > 1000 || n > lists[k].most)
            return "too many in a batch";
        for (size_t i = 0; i < n; i++)
            if (!name_is_good(text_of(json_array_get(list, i), "key")))
                return "invalid name";
    }
    const json_t *params = json_object_get(asked, "params");
    for (size_t i = 0; i < json_array_size(params); i++) {
        const json_t *pair = json_array_get(params, i);
        const json_t *old = json_object_get(json_object_get(run, "params"), text_of(pair, "key"));
        if (json_string_length(json_object_get(pair, "value")) > 6000)
            return "the value of a param is too long";
        if (old && !json_equal(old, json_object_get(pair, "value")))
            return "changing param values is not allowed";
        for (size_t k = 0; k < i; k++)
            if (strcmp(text_of(json_array_get(params, k), "key"), text_of(pair, "key")) == 0)
                return "duplicate parameter keys";
    }
    return bytes > 1000000 ? "a request of more than 1 MB" : NULL;
}

/* Under "NAME step": the value. Under "NAME step time value", in `times`: that it is there. */
static void add_metric(http_mlflow *m, const json_t *run, const json_t *metric)
{
    json_t *metrics = json_object_get(run, "metrics"), *times = json_object_get(run, "times");
    json_t *value = json_object_get(metric, "value");
    char place[400], whole[800];
    char *text = json_dumps(value, JSON_ENCODE_ANY);

    snprintf(place, sizeof place, "%s %" JSON_INTEGER_FORMAT, text_of(metric, "key"),
             json_integer_value(json_object_get(metric, "step")));
    snprintf(whole, sizeof whole, "%s %" JSON_INTEGER_FORMAT " %s", place,
             json_integer_value(json_object_get(metric, "timestamp")), text ? text : "");
    free(text);
    if (json_object_get(times, whole))
        json_object_set_new(
            m->state, "repeated",
            json_integer(json_integer_value(json_object_get(m->state, "repeated")) + 1));
    else if (json_object_get(metrics, place)) /* another value of one step */
        json_object_set_new(metrics, place, json_string("twice"));
    else
        json_object_set(metrics, place, value);
    json_object_set_new(times, whole, json_true());
}

static json_t *log_batch(http_mlflow *m, const json_t *run, const json_t *asked, size_t bytes,
                         http_answer *a)
{
    const char *fault = batch_fault(run, asked, bytes);
    const json_t *metrics = json_object_get(asked, "metrics");

    if (fault)
        return fail(a, 400, "INVALID_PARAMETER_VALUE", fault);
    for (size_t i = 0; i < json_array_size(metrics); i++)
        add_metric(m, run, json_array_get(metrics, i));
    add_pairs(json_object_get(run, "params"), json_object_get(asked, "params"));
    add_pairs(json_object_get(run, "tags"), json_object_get(asked, "tags"));
    return json_object();
}

/* What is about a run that is there. */
static json_t *about_run(http_mlflow *m, const http_request *request, const char *what,
                         const json_t *asked, http_answer *a)
{
    http_text value = {0};
    const char *id = asked ? text_of(asked, "run_id") : http_s3_value(request, "run_id", &value);
    json_t *run = json_object_get(json_object_get(m->state, "runs"), id ? id : "");
    json_t *said = NULL;

    if (!run)
        said = fail(a, 404, "RESOURCE_DOES_NOT_EXIST", "no such run");
    else if (strcmp(what, "runs/log-batch") == 0)
        said = log_batch(m, run, asked, request->body_length, a);
    else if (strcmp(what, "runs/get") == 0)
        said = json_pack("{s:o}", "run", run_said(id, run));
    else if (json_object_set(run, "status", json_object_get(asked, "status")) == 0)
        said = json_object();
    http_text_free(&value);
    return said;
}

static json_t *answer(http_mlflow *m, const http_request *request, const char *what,
                      const json_t *asked, http_answer *a)
{
    static const char *const known[] = {"runs/log-batch", "runs/update", "runs/get"};

    if (strcmp(what, "experiments/get-by-name") == 0)
        return find_experiment(m, request, a);
    if (asked && strcmp(what, "experiments/create") == 0)
        return make_experiment(m, asked, a);
    if (asked && strcmp(what, "runs/create") == 0)
        return make_run(m, asked);
    if (asked && strcmp(what, "runs/search") == 0)
        return search_runs(m, asked);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(what, known[i]) == 0 && (asked || i == 2))
            return about_run(m, request, what, asked, a);
    return fail(a, 404, "ENDPOINT_NOT_FOUND", what);
}

bool http_mlflow_answer(http_server *server, const http_request *request, http_answer *a)
{
    json_t *asked = NULL;

    if (!server->mlflow || strncmp(request->path, API, strlen(API)) != 0)
        return false;
    if (request->body_length > 0)
        asked = json_loadb(request->body, request->body_length, 0, NULL);
    a->status = 200;
    http_text_add(&a->lines, "Content-Type: application/json\r\n");
    pthread_mutex_lock(&server->mlflow->lock);
    json_t *said = answer(server->mlflow, request, request->path + strlen(API), asked, a);
    if (said)
        say(&a->text, said);
    pthread_mutex_unlock(&server->mlflow->lock);
    json_decref(asked);
    return true;
}
