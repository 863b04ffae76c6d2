/* SPDX-License-Identifier: Apache-2.0 */
/* A live sheet by HTTP, on libmicrohttpd: a thread for each of a few connections, which answers GET
 * alone. */
#include <live_page.inc> /* live_page_html, live_page_css, live_page_js */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/sha256.h"
#include "measure/live.h"

#define EVENT_NS    UINT64_C(500000000)
#define CONNECTIONS 32
#define IDLE_S      30u   /* that a connection without a request is kept */
#define STATE_ROOM  32768 /* bytes of a state as JSON or metrics */
#define POLICY      256   /* bytes of the page's Content-Security-Policy */

struct stk_live_server {
    stk_context *ctx;
    stk_live *live;
    stk_live_address address;
    struct MHD_Daemon *daemon;
    stk__text page; /* constant, as its policy */
    char policy[POLICY];
    pthread_mutex_t lock; /* guards closing */
    pthread_cond_t wake;
    bool closing;
};

/* ---- The page -------------------------------------------------------------------------------- */

/* "'sha256-...'": what the browser runs of the page, and nothing else. */
static void add_hash(stk__text *text, const char *what, const char *bytes)
{
    uint8_t digest[STK__SHA256];
    stk__sha256 hash;

    stk__sha256_init(&hash);
    stk__sha256_add(&hash, bytes, strlen(bytes));
    stk__sha256_end(&hash, digest);
    stk__text_add(text, "; %s 'sha256-", what);
    stk__text_add_base64(text, digest, sizeof digest);
    stk__text_add(text, "'");
}

/* The html has one line each where the style and the script go. */
static bool make_page(stk_live_server *s)
{
    static const char style_mark[] = "@STYLE@", script_mark[] = "@SCRIPT@";
    const char *html = (const char *)live_page_html, *css = (const char *)live_page_css,
               *js = (const char *)live_page_js;
    const char *style = strstr(html, style_mark), *script = strstr(html, script_mark);
    stk__text policy = {.bytes = s->policy, .room = sizeof s->policy};

    s->page = (stk__text){.ctx = s->ctx};
    stk__text_put(&s->page, html, (size_t)(style - html));
    stk__text_put(&s->page, css, strlen(css));
    style += sizeof style_mark - 1;
    stk__text_put(&s->page, style, (size_t)(script - style));
    stk__text_put(&s->page, js, strlen(js));
    script += sizeof script_mark - 1;
    stk__text_put(&s->page, script, strlen(script));
    stk__text_add(&policy, "default-src 'none'; connect-src 'self'; frame-ancestors 'none'");
    add_hash(&policy, "style-src", css);
    add_hash(&policy, "script-src", js);
    return !s->page.failed;
}

/* ---- Who may ask ----------------------------------------------------------------------------- */

static bool same_secret(const char *a, const char *b)
{
    unsigned differ = strlen(a) != strlen(b);

    for (size_t i = 0; a[i] && b[i]; i++)
        differ |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return !differ;
}

/* "Host: NAME:PORT" is this machine, by a name that no other page's name can lead to. */
static bool is_here(const stk_live_server *s, const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *own = s->address.url + strlen("http://");
    const char *colon = host ? strrchr(host, ':') : NULL;
    const size_t length = !host                          ? 0
                          : colon && !strchr(colon, ']') ? (size_t)(colon - host)
                                                         : strlen(host);

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (length && strlen(names[i]) == length && strncmp(names[i], host, length) == 0)
            return true;
    return length && strncmp(own, host, length) == 0 && own[length] == ':';
}

static bool is_allowed(const stk_live_server *s, struct MHD_Connection *c)
{
    static const char bearer[] = "Bearer ";
    const char *given = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");

    if (s->address.local)
        return is_here(s, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host"));
    if (!given) {
        given = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
        given = given && strncmp(given, bearer, sizeof bearer - 1) == 0 ? given + sizeof bearer - 1
                                                                        : NULL;
    }
    return given && same_secret(given, s->address.token);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Takes the response. */
static enum MHD_Result send_response(const stk_live_server *s, struct MHD_Connection *c,
                                     unsigned status, struct MHD_Response *response,
                                     const char *type)
{
    static const char *const heads[][2] = {{"Cache-Control", "no-store"},
                                           {"X-Content-Type-Options", "nosniff"},
                                           {"Referrer-Policy", "no-referrer"},
                                           {"Cross-Origin-Resource-Policy", "same-origin"}};

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Content-Security-Policy", s->policy);
    for (size_t i = 0; i < STK_COUNT(heads); i++)
        MHD_add_response_header(response, heads[i][0], heads[i][1]);
    const enum MHD_Result result = MHD_queue_response(c, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_text(const stk_live_server *s, struct MHD_Connection *c,
                                 unsigned status, const char *text, const char *type)
{
    return send_response(
        s, c, status,
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY), type);
}

static enum MHD_Result send_state(const stk_live_server *s, struct MHD_Connection *c, bool metrics)
{
    stk_live_state state = {.struct_size = sizeof state};
    char text[STATE_ROOM];

    stk_live_get(s->live, &state);
    const int n = metrics ? stk_live_metrics(&state, text, sizeof text)
                          : stk_live_format(&state, text, sizeof text);
    if (n >= (int)sizeof text)
        return send_text(s, c, MHD_HTTP_INTERNAL_SERVER_ERROR, "the state is too long\n",
                         "text/plain; charset=utf-8");
    return send_text(s, c, MHD_HTTP_OK, text,
                     metrics ? "text/plain; version=0.0.4; charset=utf-8"
                             : "application/json; charset=utf-8");
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct stream {
    stk_live_server *server;
    char text[STATE_ROOM];
    size_t length, at;
    bool begun;
};

/* Half a second, or until the server ends. */
static bool wait_for_next(stk_live_server *s)
{
    const uint64_t when = stk__now_ns() + EVENT_NS;

    pthread_mutex_lock(&s->lock);
    while (!s->closing && stk__cond_wait_until(&s->wake, &s->lock, when))
        continue;
    const bool closing = s->closing;
    pthread_mutex_unlock(&s->lock);
    return !closing;
}

/* One line of JSON in an event [server-sent events, HTML standard, section 9.2]. */
static void fill(struct stream *stream)
{
    stk_live_state state = {.struct_size = sizeof state};
    stk__text text = {.bytes = stream->text, .room = sizeof stream->text};

    stk_live_get(stream->server->live, &state);
    stk__text_add(&text, "data: ");
    text.length += (size_t)stk_live_format(&state, text.bytes + text.length,
                                           sizeof stream->text - text.length - 1);
    if (text.length + 2 > sizeof stream->text)
        text.length = 0;
    stk__text_add(&text, "\n");
    stream->length = text.length;
    stream->at = 0;
}

static ssize_t read_stream(void *user, uint64_t position, char *to, size_t room)
{
    struct stream *stream = user;

    (void)position;
    if (stream->at == stream->length) {
        if (stream->begun && !wait_for_next(stream->server))
            return MHD_CONTENT_READER_END_OF_STREAM;
        stream->begun = true;
        fill(stream);
    }
    const size_t n = STK_MIN(room, stream->length - stream->at);
    memcpy(to, stream->text + stream->at, n);
    stream->at += n;
    return (ssize_t)n;
}

static void free_stream(void *user)
{
    struct stream *stream = user;

    stk__free(stream->server->ctx, stream);
}

static enum MHD_Result send_events(stk_live_server *s, struct MHD_Connection *c)
{
    struct stream *stream = stk__calloc(s->ctx, 1, sizeof *stream);

    if (!stream)
        return MHD_NO;
    stream->server = s;
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STATE_ROOM, read_stream, stream, free_stream);
    if (!response)
        stk__free(s->ctx, stream);
    return send_response(s, c, MHD_HTTP_OK, response, "text/event-stream; charset=utf-8");
}

/* ---- Requests -------------------------------------------------------------------------------- */

static enum MHD_Result answer(void *user, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    static const char plain[] = "text/plain; charset=utf-8";
    stk_live_server *s = user;

    (void)version, (void)data, (void)size, (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return send_text(s, c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD alone\n", plain);
    if (!is_allowed(s, c))
        return send_text(s, c, s->address.local ? MHD_HTTP_FORBIDDEN : MHD_HTTP_UNAUTHORIZED,
                         s->address.local ? "this page is for its own machine, by its own name\n"
                                          : "the token of the address that the run printed is "
                                            "missing: ?token=, or Authorization: Bearer\n",
                         plain);
    if (strcmp(url, "/") == 0)
        return send_text(s, c, MHD_HTTP_OK, s->page.bytes, "text/html; charset=utf-8");
    if (strcmp(url, "/status") == 0 || strcmp(url, "/metrics") == 0)
        return send_state(s, c, url[1] == 'm');
    if (strcmp(url, "/events") == 0)
        return send_events(s, c);
    return send_text(s, c, MHD_HTTP_NOT_FOUND, "/, /events, /status and /metrics are here\n",
                     plain);
}

/* ---- The server ------------------------------------------------------------------------------ */

static void release(stk_live_server *s)
{
    stk_context *ctx = s->ctx;

    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    stk__text_release(&s->page);
    stk__free(ctx, s);
    stk__context_unref(ctx);
}

stk_status stk_live_serve(stk_live *live, const stk_live_address *address, stk_live_server **out,
                          stk_error *err)
{
    stk_context *ctx = stk__live_context(live);

    *out = NULL;
    STK_TRY(stk__context_check(ctx, err));
    stk_live_server *s = stk__calloc(ctx, 1, sizeof *s);
    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a page");
    s->ctx = stk__context_ref(ctx);
    s->live = live;
    s->address = *address;
    pthread_mutex_init(&s->lock, NULL);
    stk__cond_init(&s->wake);
    /* Its own descriptor: it is closed with the daemon, the caller's serves the next one. */
    const int socket = dup(address->socket);
    if (make_page(s) && socket >= 0)
        s->daemon = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_ITC, 0, NULL,
            NULL, answer, s, MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
    if (!s->daemon) {
        if (socket >= 0)
            close(socket);
        release(s);
        return stk__fail(err, STK_ETHREAD, STK_STAGE_MEASURE,
                         "the page at %s could not be begun: no memory or no thread", address->url);
    }
    *out = s;
    return STK_OK;
}

void stk_live_stop(stk_live_server **server)
{
    stk_live_server *s = server ? *server : NULL;

    if (!s)
        return;
    *server = NULL;
    /* Its threads are in the parent. */
    if (stk__context_forked(s->ctx))
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    release(s);
}
