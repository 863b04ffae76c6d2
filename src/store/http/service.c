/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are spoken to in JSON: one request at a time, with a token that nothing prints. */
#include <stdio.h>

#include "base/base64.h"
#include "base/json_scan.h"
#include "base/options.h"
#include "store/http/http.h"
#include "store/s3/endpoint.h"
#include "store/s3/secrets.h"

#define MEMBERS   16
#define SAID      300 /* bytes of what a server says of an error that a message repeats */
#define CONNECT_S 3
#define ANSWER_S  20 /* until the first byte: a data base may be behind it */
#define STALL_S   20

struct stk__http_service {
    stk_context *context;
    stk__http_client *client;
    stk__secret *authorization; /* the value of the header; NULL: none */
    char said[SAID];            /* of the exchange under way */
    char prefix[];              /* of targets: "" or "/folder", as it stood in the URL */
};

static stk_status no_memory(const char *url, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", url);
}

/* ---- What the client asks of its owner ---- */

static stk_status authorize(void *user, const stk__http_exchange *x, stk__http_headers *headers,
                            stk_error *err)
{
    const stk__http_service *service = user;

    (void)x;
    return service->authorization
               ? stk__http_headers_add(headers, "Authorization", service->authorization->text, err)
               : STK_OK;
}

/* The member "message" of an error [MLflow REST API, Error codes]. */
static stk_status judge(void *user, stk__http_exchange *x, const char *body, size_t length,
                        stk_error *err)
{
    stk__http_service *service = user;
    stk__json_member members[MEMBERS];
    const char *stop;
    size_t n = 0;

    (void)x, (void)err;
    if (stk__json_scan(body, body + length, members, MEMBERS, &n, &stop) != STK__JSON_DONE)
        return STK_OK;
    for (size_t i = 0; i < STK_MIN(n, MEMBERS); i++)
        if (stk__json_member_key_is(&members[i], "message") && members[i].kind == STK__JSON_STRING)
            stk__json_member_text(&members[i], service->said, sizeof service->said);
    for (char *c = service->said; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    return STK_OK;
}

static const stk__http_hooks hooks = {.authorize = authorize, .judge = judge};

/* ---- Its life ---- */

/* "user:password" in base64 [RFC 7617], into the room of a secret; its length, cut or not. */
static int put_basic(const stk__http_service_options *o, stk__secret *out)
{
    char plain[STK__SECRET_ROOM];
    const int n = snprintf(plain, sizeof plain, "%s:%s", o->user, o->password ? o->password : "");
    stk__text text = {.bytes = out->text, .room = sizeof out->text};

    if (n < STK__SECRET_ROOM) {
        stk__text_add(&text, "Basic ");
        stk__text_add_base64(&text, plain, (size_t)n);
    }
    explicit_bzero(plain, sizeof plain);
    return n < STK__SECRET_ROOM ? (int)text.length : n;
}

static bool is_set(const char *text)
{
    return text && *text;
}

static stk_status take_token(stk__http_service *service, const stk__http_service_options *o,
                             const char *endpoint, stk_error *err)
{
    const bool bearer = is_set(o->token);
    int length;

    if (!bearer && !is_set(o->user))
        return STK_OK;
    if (strncmp(endpoint, "https:", 6) != 0 && !o->allow_http && !stk__s3_loopback(endpoint))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "a token or password would go to '%.200s' over plain http, for all to "
                         "read; use https, or say allow_http=true where that network is yours",
                         o->url);
    service->authorization = stk__secrets_alloc(sizeof *service->authorization);
    if (!service->authorization)
        return no_memory(o->url, err);
    if (bearer)
        length = snprintf(service->authorization->text, STK__SECRET_ROOM, "Bearer %s", o->token);
    else
        length = put_basic(o, service->authorization);
    return length < STK__SECRET_ROOM
               ? STK_OK
               : stk__fail(err, STK_ELIMIT, STK_STAGE_OPTIONS,
                           "the token or password for '%.200s' is longer than %d bytes", o->url,
                           STK__SECRET_ROOM / 2);
}

static void service_close(stk__http_service *service)
{
    stk__http_client_close(&service->client);
    stk__secrets_free(service->authorization, sizeof *service->authorization);
    stk__free(service->context, service);
}

static stk_status service_open(stk_context *ctx, const stk__http_service_options *o,
                               stk__http_service **out, stk_error *err)
{
    const stk__http_options http = {.ca_file = o->ca_file,
                                    .proxy = o->proxy,
                                    .connect_timeout = CONNECT_S,
                                    .first_byte_timeout = ANSWER_S,
                                    .stall_timeout = STALL_S,
                                    .connections = 1};
    const char *host = strstr(o->url, "://");
    const size_t before = host ? (size_t)(host + 3 - o->url) + strcspn(host + 3, "/") : 0;
    size_t length = strlen(o->url);
    char endpoint[512];

    *out = NULL;
    STK_TRY(stk__secret_refuse(o->url, err));
    if (!host || before >= sizeof endpoint || strpbrk(o->url, "?# \t\r\n"))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "'%.200s' names no server; write http://HOST:PORT or https://HOST/PATH",
                         o->url);
    while (length > before && o->url[length - 1] == '/')
        length--;
    stk__http_service *service = stk__calloc(ctx, 1, sizeof *service + length - before + 1);
    if (!service)
        return no_memory(o->url, err);
    service->context = ctx;
    memcpy(service->prefix, o->url + before, length - before);
    snprintf(endpoint, sizeof endpoint, "%.*s", (int)before, o->url);
    stk_status status = take_token(service, o, endpoint, err);
    if (status == STK_OK)
        status =
            stk__http_client_open(ctx, endpoint, &http, &hooks, service, &service->client, err);
    if (status != STK_OK) {
        service_close(service);
        return status;
    }
    *out = service;
    return STK_OK;
}

/* ---- Requests ---- */

static stk_status service_call(stk__http_service *service, stk__http_exchange *x,
                               const stk_store_call *call, stk_error *err)
{
    const char *below = x->target;
    stk_error own;

    char *target = stk__format(service->context, "%s%s", service->prefix, below);
    if (!target)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for a request");
    x->target = target;
    service->said[0] = 0;
    const stk_status status = stk__http_call(service->client, x, call, &own);
    x->target = below;
    stk__free(service->context, target);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_STORE, "%.600s%s%s%s", own.text,
                         service->said[0] ? "; it says: '" : "", service->said,
                         service->said[0] ? "'" : "");
    return STK_OK;
}

static void service_release(stk__http_service *service, stk__http_exchange *x)
{
    stk__http_exchange_release(service->client, x);
}

const stk__http_service_ops stk__http_services = {
    .open = service_open, .close = service_close, .call = service_call, .release = service_release};
