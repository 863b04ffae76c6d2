/* SPDX-License-Identifier: Apache-2.0 */
/* The callers' side: clients, and exchanges as they are sent, canceled and waited for. */
#include <stdio.h>

#include "store/http/room.h"

#define NAMES_KEPT     300                /* seconds */
#define CANCEL_LOOK_NS UINT64_C(20000000) /* how often a waiting caller is asked */

static uint64_t as_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

static void free_client(stk__http_client *client)
{
    stk_context *ctx = client->context;

    stk__http_tries_free(client);
    if (client->loop)
        stk__http_loop_put(client->loop);
    pthread_cond_destroy(&client->idle);
    stk__free(ctx, client->ca_file);
    stk__free(ctx, client->proxy);
    stk__free(ctx, client);
    stk__context_unref(ctx);
}

static stk_status check_endpoint(const char *endpoint, stk_error *err)
{
    const char *host = strstr(endpoint, "://");

    if ((strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0) ||
        !host[3] || strpbrk(host + 3, "/?#@ \\"))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.200s' names no server; write http://HOST:PORT/PATH or "
                         "https://HOST/PATH",
                         endpoint);
    return STK_OK;
}

stk_status stk__http_client_open(stk_context *ctx, const char *endpoint,
                                 const stk__http_options *options, const stk__http_hooks *hooks,
                                 void *user, stk__http_client **out, stk_error *err)
{
    const size_t length = strlen(endpoint);
    const char *const ca_file = options->ca_file, *const proxy = options->proxy;

    *out = NULL;
    STK_TRY(check_endpoint(endpoint, err));
    stk__http_client *client = stk__calloc(ctx, 1, sizeof *client + length + 1);
    if (!client)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", endpoint);
    client->context = stk__context_ref(ctx);
    client->options = *options;
    client->hooks = hooks ? *hooks : (stk__http_hooks){0};
    client->user = user;
    client->connect_ns = as_ns(options->connect_timeout);
    client->first_byte_ns = as_ns(options->first_byte_timeout);
    client->stall_ns = as_ns(options->stall_timeout);
    client->names_kept = NAMES_KEPT;
    memcpy(client->endpoint, endpoint, length + 1);
    stk__cond_init(&client->idle);
    client->ca_file = ca_file && *ca_file ? stk__strdup(ctx, ca_file) : NULL;
    client->proxy = proxy && *proxy ? stk__strdup(ctx, proxy) : NULL;
    client->options.ca_file = client->ca_file;
    client->options.proxy = client->proxy;
    stk_status status = STK_OK;
    if ((ca_file && *ca_file && !client->ca_file) || (proxy && *proxy && !client->proxy))
        status = STK_ENOMEM;
    if (status == STK_OK) {
        status = stk__http_loop_get(ctx, &client->loop, err);
        if (status != STK_OK) {
            free_client(client);
            return status;
        }
        client->host = stk__http_host_get(client->loop, endpoint,
                                          (uint32_t)STK_MAX(options->connections, UINT64_C(1)));
        status = client->host ? STK_OK : STK_ENOMEM;
    }
    if (status != STK_OK) {
        free_client(client);
        return stk__fail(err, status, STK_STAGE_STORE, "no memory to open '%.200s'", endpoint);
    }
    *out = client;
    return STK_OK;
}

/* The loop is to look at a client. With the mutex held; the caller wakes it. */
static void list_locked(stk__http_client *client)
{
    if (client->listed)
        return;
    client->listed = true;
    client->next = client->loop->wanting;
    client->loop->wanting = client;
}

void stk__http_client_close(stk__http_client **client_)
{
    stk__http_client *client = *client_;

    *client_ = NULL;
    if (!client)
        return;
    stk__http_loop *loop = client->loop;
    pthread_mutex_lock(&loop->mutex);
    client->closing = true;
    list_locked(client);
    pthread_mutex_unlock(&loop->mutex);
    curl_multi_wakeup(loop->multi);
    pthread_mutex_lock(&loop->mutex);
    while (client->jobs || client->listed)
        pthread_cond_wait(&client->idle, &loop->mutex);
    pthread_mutex_unlock(&loop->mutex);
    free_client(client);
}

stk_status stk__http_send(stk__http_client *client, stk__http_exchange *exchange)
{
    stk__http_loop *loop = client->loop;
    stk__http_job *job = stk__calloc(client->context, 1, sizeof *job);

    if (!job)
        return STK_ENOMEM;
    job->exchange = exchange;
    exchange->job = job;
    exchange->client = client;
    exchange->code = 0;
    exchange->tries = 0;
    exchange->got = 0;
    exchange->text = NULL;
    exchange->size = UINT64_MAX;
    exchange->identity = 0;
    exchange->mtime_ns = 0;
    exchange->is_folder = false;
    exchange->etag[0] = exchange->region[0] = exchange->content_type[0] = exchange->location[0] = 0;
    stk_error_init(&exchange->error);
    atomic_store(&exchange->canceled, false);
    pthread_mutex_lock(&loop->mutex);
    const bool first = !loop->inbox;
    if (client->closing) /* sent by done() of one that was canceled */
        atomic_store(&exchange->canceled, true);
    client->jobs++;
    job->next = loop->inbox;
    loop->inbox = job;
    pthread_mutex_unlock(&loop->mutex);
    if (first)
        curl_multi_wakeup(loop->multi);
    return STK_OK;
}

void stk__http_cancel(stk__http_client *client, stk__http_exchange *exchange)
{
    stk__http_loop *loop = client->loop;

    atomic_store(&exchange->canceled, true);
    pthread_mutex_lock(&loop->mutex);
    loop->cancels = true;
    pthread_mutex_unlock(&loop->mutex);
    curl_multi_wakeup(loop->multi);
}

void stk__http_client_wake(stk__http_client *client)
{
    stk__http_loop *loop = client->loop;

    pthread_mutex_lock(&loop->mutex);
    client->wake = true;
    list_locked(client);
    pthread_mutex_unlock(&loop->mutex);
    curl_multi_wakeup(loop->multi);
}

void stk__http_exchange_release(stk__http_client *client, stk__http_exchange *exchange)
{
    stk__free(client->context, exchange->text);
    exchange->text = NULL;
}

/* ---- Waiting ---- */

typedef struct waiter {
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t cond;
    bool ended, refused; /* refused: it was never sent */
    stk_status status;
} waiter;

static void note_end(stk__http_exchange *exchange, stk_status status)
{
    waiter *w = exchange->user;

    pthread_mutex_lock(&w->mutex);
    w->ended = true;
    w->status = status;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

static void wait_for(waiter *w, stk__http_client *client, stk__http_exchange *exchange,
                     const stk_store_call *call)
{
    bool asked = false;

    pthread_mutex_lock(&w->mutex);
    while (!w->ended) {
        const bool asks = call && call->canceled && !asked;
        stk__cond_wait_until(&w->cond, &w->mutex,
                             asks ? stk__now_ns() + CANCEL_LOOK_NS : UINT64_MAX);
        if (w->ended || !asks)
            continue;
        pthread_mutex_unlock(&w->mutex);
        asked = call->canceled(call->user);
        if (asked)
            stk__http_cancel(client, exchange);
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
}

/* Send it for somebody who waits. */
static void begin_call(waiter *w, stk__http_client *client, stk__http_exchange *exchange,
                       const stk_store_call *call)
{
    exchange->done = note_end;
    exchange->user = w;
    exchange->deadline_ns = call ? call->deadline_ns : 0;
    stk__cond_init(&w->cond);
    const stk_status status = stk__http_send(client, exchange);
    w->refused = status != STK_OK;
    if (w->refused)
        w->status = status;
}

static stk_status end_call(waiter *w, stk__http_client *client, stk__http_exchange *exchange,
                           const stk_store_call *call, stk_error *err)
{
    if (!w->refused)
        wait_for(w, client, exchange, call);
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->mutex);
    if (w->refused)
        return stk__fail(err, w->status, STK_STAGE_STORE, "no memory for a request to '%.200s'",
                         client->endpoint);
    if (w->status != STK_OK && err)
        *err = exchange->error;
    return w->status;
}

stk_status stk__http_call_both(stk__http_client *client, stk__http_exchange *first,
                               stk__http_exchange *second, const stk_store_call *call,
                               stk_status *second_ended, stk_error *err)
{
    waiter w = {.mutex = PTHREAD_MUTEX_INITIALIZER}, other = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    if (stk__http_failed(client, first)) {
        if (err)
            *err = first->error;
        return first->error.status;
    }
    if (second)
        begin_call(&other, client, second, call);
    begin_call(&w, client, first, call);
    const stk_status status = end_call(&w, client, first, call, err);
    if (status != STK_OK)
        stk__http_note(client, first, status);
    if (second)
        *second_ended = end_call(&other, client, second, call, NULL);
    return status;
}

stk_status stk__http_call(stk__http_client *client, stk__http_exchange *exchange,
                          const stk_store_call *call, stk_error *err)
{
    return stk__http_call_both(client, exchange, NULL, call, NULL, err);
}

/* ---- Parts of requests ---- */

stk_status stk__http_headers_add(stk__http_headers *headers, const char *name, const char *value,
                                 stk_error *err)
{
    char line[8192];

    if (strpbrk(name, "\r\n:") || strpbrk(value, "\r\n"))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the value of the header '%.60s' has a line end", name);
    if ((size_t)snprintf(line, sizeof line, "%s%s%s", name, *value ? ": " : ";", value) >=
        sizeof line)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_STORE,
                         "the header '%.60s' is longer than %zu bytes", name, sizeof line - 1);
    struct curl_slist *list = curl_slist_append(headers->list, line);
    /* It may be a secret. */
    explicit_bzero(line, sizeof line);
    if (!list)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for a request");
    headers->list = list;
    return STK_OK;
}
