/* SPDX-License-Identifier: Apache-2.0 */
/* One request on the wire: an easy handle of curl and what it is told. */
#include <errno.h>
#include <stdio.h>

#include "store/http/room.h"

/* Bytes that curl receives at once. It makes the buffer for each request, and a large one costs
 * more in pages than it saves in calls where little is read. */
#define SMALL_BUFFER (64L << 10)
#define LARGE_BUFFER (256L << 10)
#define LARGE_READ   (UINT64_C(1) << 20)

/* ---- What curl calls ---- */

static int on_connected(void *user, char *remote, char *local, int remote_port, int local_port)
{
    stk__http_try *t = user;

    (void)local, (void)remote_port, (void)local_port;
    stk__http_names_note(t, remote);
    t->sent_ns = t->mark_ns = stk__now_ns();
    stk__http_loop_due(t->client->loop,
                       t->sent_ns + STK_MIN(t->client->first_byte_ns,
                                            stk__http_pace_late(&t->client->host->pace)));
    return CURL_PREREQFUNC_OK;
}

/* Of those with a body: while it goes up, the answer is not late. */
static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up)
{
    stk__http_try *t = user;

    (void)total, (void)now, (void)up_total;
    if ((uint64_t)up > t->uploaded) {
        t->uploaded = (uint64_t)up;
        t->sent_ns = stk__now_ns();
    }
    return 0;
}

/* The next bytes of a body that lies elsewhere. */
static size_t on_read(char *to, size_t size, size_t count, void *user)
{
    stk__http_try *t = user;
    const stk__http_exchange *x = t->job->exchange;
    const size_t n = (size_t)STK_MIN(x->body_length - t->body_at, size * count);

    if (n > 0 && !x->read_body(x->body_user, t->body_at, to, n)) {
        stk__http_try_fail(t, STK_EIO, STK__HTTP_FINAL,
                           "what is to be sent cannot be read from its file");
        return CURL_READFUNC_ABORT;
    }
    t->body_at += n;
    return n;
}

/* curl sends again from the beginning, on another connection. */
static int on_seek(void *user, curl_off_t to, int origin)
{
    stk__http_try *t = user;

    if (origin != SEEK_SET || to < 0 || (uint64_t)to > t->job->exchange->body_length)
        return CURL_SEEKFUNC_FAIL;
    t->body_at = (uint64_t)to;
    return CURL_SEEKFUNC_OK;
}

static curl_socket_t on_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    stk__http_try *t = user;

    (void)purpose;
    if (t->job->guarded && stk__http_address_private(&address->addr)) {
        stk__http_try_fail(t, STK_EACCES, STK__HTTP_FINAL,
                           "a redirect leads from a public to a private address");
        return CURL_SOCKET_BAD;
    }
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    t->crowded |= fd < 0 && (errno == EMFILE || errno == ENFILE);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* ---- What curl is told ---- */

static bool set_client(const stk__http_client *client, CURL *easy)
{
    const stk__http_options *o = &client->options;
    bool good = true;

    good &= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) == CURLE_OK;
    /* Given, so that curl looks at no environment. */
    good &= curl_easy_setopt(easy, CURLOPT_PROXY, o->proxy ? o->proxy : "") == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_NOPROXY, "") == CURLE_OK;
    /* What a proxy answers to CONNECT is no answer of the server. */
    good &= curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    if (o->ca_file) {
        good &= curl_easy_setopt(easy, CURLOPT_CAINFO, o->ca_file) == CURLE_OK;
        good &= curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
    }
    good &= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                             o->http2 ? (long)CURL_HTTP_VERSION_2TLS
                                      : (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PIPEWAIT, o->http2 ? 1L : 0L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                             (long)(client->connect_ns / 1000000)) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, client->names_kept) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L) == CURLE_OK;
    /* A name that takes long is not waited for by the thread of all. */
    good &= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_USERAGENT, "stoker") == CURLE_OK;
    return good;
}

static bool set_callbacks(stk__http_try *t)
{
    const stk__http_exchange *x = t->job->exchange;
    /* On a connection that was used before curl sends again by itself what ends without an answer:
     * of what may not be done twice that would be seen nowhere. */
    const bool fresh = t->job->guarded || x->if_none_match || strcmp(x->method, "POST") == 0;
    CURL *easy = t->easy;
    bool good = true;

    good &= curl_easy_setopt(easy, CURLOPT_PRIVATE, t) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->told) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, stk__http_on_line) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HEADERDATA, t) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, stk__http_on_body) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_WRITEDATA, t) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PREREQDATA, t) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, t) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L) == CURLE_OK;
    return good;
}

static bool set_reader(stk__http_try *t, const stk__http_exchange *x)
{
    CURL *easy = t->easy;
    bool good = true;

    good &= curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L) == CURLE_OK;
    good &=
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->body_length) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_READDATA, t) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_SEEKDATA, t) == CURLE_OK;
    return good;
}

static bool set_bytes(stk__http_try *t, const stk__http_exchange *x)
{
    return curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body_length) ==
               CURLE_OK &&
           curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, x->body ? x->body : "") == CURLE_OK;
}

static bool set_method(stk__http_try *t, const stk__http_exchange *x)
{
    CURL *easy = t->easy;
    const bool put = strcmp(x->method, "PUT") == 0, post = strcmp(x->method, "POST") == 0;
    bool good = true;

    if (strcmp(x->method, "HEAD") == 0)
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    if (put || post) {
        good &= x->read_body ? set_reader(t, x) : set_bytes(t, x);
        good &= curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK;
        good &= curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK;
        good &= curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t) == CURLE_OK;
    }
    if (!post && strcmp(x->method, "GET") != 0)
        good &= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, x->method) == CURLE_OK;
    return good;
}

static stk_status set_headers(stk__http_try *t, const stk__http_exchange *x, stk_error *err)
{
    stk__http_client *client = t->client;
    const char *match = x->if_match;
    stk_status status = STK_OK;

    if (client->hooks.authorize)
        STK_TRY(client->hooks.authorize(client->user, x, &t->headers, err));
    if (x->body || x->body_length || strcmp(x->method, "POST") == 0 ||
        strcmp(x->method, "PUT") == 0) {
        status =
            stk__http_headers_add(&t->headers, "Content-Type",
                                  x->body_type ? x->body_type : "application/octet-stream", err);
        /* Not asked for: it costs a round trip. curl takes a name alone as "none of it". */
        struct curl_slist *list =
            status == STK_OK ? curl_slist_append(t->headers.list, "Expect:") : NULL;
        if (!list)
            return STK_ENOMEM;
        t->headers.list = list;
    }
    if (!match && t->job->got && stk__http_etag_strong(x->etag))
        match = x->etag;
    if (match && *match)
        status = stk__http_headers_add(&t->headers, "If-Match", match, err);
    if (status == STK_OK && x->if_none_match)
        status = stk__http_headers_add(&t->headers, "If-None-Match", "*", err);
    if (status == STK_OK && t->headers.list &&
        curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers.list) != CURLE_OK)
        status = STK_ENOMEM;
    return status;
}

static bool set_range(stk__http_try *t, const stk__http_exchange *x)
{
    char range[48];

    /* A wish: a handle that has a buffer already refuses another. */
    curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE,
                     x->length >= LARGE_READ ? LARGE_BUFFER : SMALL_BUFFER);
    t->from = x->offset + t->job->got;
    t->suffix = x->from_end && !t->job->reckoned;
    if (!x->data)
        return true;
    if (t->suffix)
        snprintf(range, sizeof range, "-%llu", (unsigned long long)x->length);
    else
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)t->from,
                 (unsigned long long)(x->offset + x->length - 1));
    return curl_easy_setopt(t->easy, CURLOPT_RANGE, range) == CURLE_OK;
}

static bool set_url(stk__http_try *t, const stk__http_exchange *x)
{
    stk_context *ctx = t->client->context;
    char *url =
        t->job->url ? t->job->url : stk__format(ctx, "%s%s", t->client->endpoint, x->target);
    const bool good = url && curl_easy_setopt(t->easy, CURLOPT_URL, url) == CURLE_OK;

    if (url != t->job->url)
        stk__free(ctx, url);
    return good;
}

/* ---- Its life ---- */

static stk__http_try *get_try(stk__http_client *client)
{
    stk__http_try *t = client->free;

    if (t) {
        client->free = t->next;
        curl_easy_reset(t->easy);
    } else {
        t = stk__calloc(client->context, 1, sizeof *t);
        CURL *easy = t ? curl_easy_init() : NULL;
        if (!easy) {
            stk__free(client->context, t);
            return NULL;
        }
        t->easy = easy;
    }
    *t = (stk__http_try){.client = client, .easy = t->easy};
    return t;
}

/* Its headers may hold secrets. */
static void drop(stk__http_try *t)
{
    for (struct curl_slist *at = t->headers.list; at; at = at->next)
        explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(t->headers.list);
    t->headers.list = NULL;
    curl_slist_free_all(t->names);
    t->names = NULL;
    t->job = NULL;
    t->next = t->client->free;
    t->client->free = t;
}

stk__http_try *stk__http_try_start(stk__http_loop *loop, stk__http_job *job, bool twice,
                                   stk_status *status, stk_error *err)
{
    const stk__http_exchange *x = job->exchange;
    stk__http_try *t = get_try(x->client);

    *status = STK_ENOMEM;
    if (!t)
        return NULL;
    t->job = job;
    t->twice = twice;
    t->start_ns = stk__now_ns();
    stk__http_head_init(&t->head);
    if (set_client(x->client, t->easy) && set_callbacks(t) && set_method(t, x) && set_range(t, x) &&
        set_url(t, x) && stk__http_names_set(t))
        *status = set_headers(t, x, err);
    if (*status == STK_OK && curl_multi_add_handle(loop->multi, t->easy) != CURLM_OK)
        *status = STK_ENOMEM;
    if (*status != STK_OK) {
        drop(t);
        return NULL;
    }
    t->active = ++x->client->host->active;
    t->wanted = x->data ? x->length - job->got : 0;
    loop->on_wire += t->wanted;
    t->bytes_before = loop->on_wire;
    return t;
}

void stk__http_try_stop(stk__http_loop *loop, stk__http_try *t)
{
    stk__http_job *job = t->job;

    curl_multi_remove_handle(loop->multi, t->easy);
    stk__http_count_connects(job, t);
    t->client->host->active--;
    loop->on_wire -= t->wanted;
    for (size_t i = 0; i < STK_COUNT(job->tries); i++)
        if (job->tries[i] == t)
            job->tries[i] = NULL;
    if (job->winner == t)
        job->winner = NULL;
    drop(t);
}

void stk__http_tries_free(stk__http_client *client)
{
    for (stk__http_try *t = client->free, *next; t; t = next) {
        next = t->next;
        curl_easy_cleanup(t->easy);
        stk__free(client->context, t);
    }
    client->free = NULL;
}
