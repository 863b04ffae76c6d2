/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/provider.h"

#include "base/slot.h"

#define FORM "application/x-www-form-urlencoded"
#define FETCH_PATIENCE                                                                             \
    UINT64_C(10000000000)                  /* ns, of a request for credentials, with its tries     \
                                            */
#define IDLE_NS      UINT64_C(60000000000) /* for which credentials stay that no store has */
#define MOST_SECRETS 4

struct stk__s3_provider {
    stk__s3_provider *next; /* guarded by the slot of the context, as the next two */
    uint64_t users;
    uint64_t idle_ns; /* since when nobody has it */
    stk_context *context;
    stk__s3_sources sources; /* constant, as the next three */
    stk__http_options http;
    char *texts;          /* of both, but for secrets */
    stk__secret *secrets; /* MOST_SECRETS */
    stk__s3_cache *cache;
    pthread_mutex_t mutex; /* guards the rest */
    stk__s3_member *members;
};

/* ---- What it has of its own ---- */

static const size_t plain[] = {
    offsetof(stk__s3_sources, role_arn),
    offsetof(stk__s3_sources, role_session_name),
    offsetof(stk__s3_sources, web_identity_token_file),
    offsetof(stk__s3_sources, profile),
    offsetof(stk__s3_sources, credentials_file),
    offsetof(stk__s3_sources, config_file),
    offsetof(stk__s3_sources, sso_folder),
    offsetof(stk__s3_sources, container_uri),
    offsetof(stk__s3_sources, container_token_file),
    offsetof(stk__s3_sources, metadata_endpoint),
    offsetof(stk__s3_sources, region),
};
static const size_t secret[MOST_SECRETS] = {
    offsetof(stk__s3_sources, access_key_id),
    offsetof(stk__s3_sources, secret_access_key),
    offsetof(stk__s3_sources, session_token),
    offsetof(stk__s3_sources, container_token),
};

static const char **text_at(void *of, size_t offset)
{
    return (const char **)((char *)of + offset);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_texts(stk__s3_sources *a, stk__s3_sources *b, const size_t *offsets, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!same_text(*text_at(a, offsets[i]), *text_at(b, offsets[i])))
            return false;
    return true;
}

/* What requests for credentials go by. */
static bool same_http(const stk__http_options *a, const stk__http_options *b)
{
    return same_text(a->ca_file, b->ca_file) && same_text(a->proxy, b->proxy) &&
           a->connect_timeout == b->connect_timeout &&
           a->first_byte_timeout == b->first_byte_timeout && a->stall_timeout == b->stall_timeout;
}

/* Have a text point to a copy in `room`, which grows by it; `room` NULL: count its bytes. */
static void keep_text(const char **text, char *room, size_t *bytes)
{
    if (!*text)
        return;
    const size_t length = strlen(*text) + 1;
    if (room)
        *text = memcpy(room + *bytes, *text, length);
    *bytes += length;
}

static size_t keep_texts(stk__s3_provider *p, char *room)
{
    size_t bytes = 0;

    for (size_t i = 0; i < STK_COUNT(plain); i++)
        keep_text(text_at(&p->sources, plain[i]), room, &bytes);
    keep_text(&p->http.ca_file, room, &bytes);
    keep_text(&p->http.proxy, room, &bytes);
    return bytes;
}

static bool keep_secrets(stk__s3_provider *p)
{
    for (size_t i = 0; i < MOST_SECRETS; i++) {
        const char **text = text_at(&p->sources, secret[i]);
        if (*text && !stk__secret_set(&p->secrets[i], *text, strlen(*text)))
            return false;
        if (*text)
            *text = p->secrets[i].text;
    }
    return true;
}

/* ---- Loading, on the thread of the cache ---- */

/* A request for credentials, and what was answered. */
typedef struct asking {
    const stk__s3_ask *ask;
    char *text; /* of STK__S3_ANSWER bytes */
    size_t length;
    bool refused;
} asking;

static stk_status add_asked(void *user, const stk__http_exchange *exchange,
                            stk__http_headers *headers, stk_error *err)
{
    const stk__s3_ask *ask = ((asking *)user)->ask;

    (void)exchange;
    for (size_t i = 0; i < STK_COUNT(ask->headers); i++)
        if (ask->headers[i].name)
            STK_TRY(
                stk__http_headers_add(headers, ask->headers[i].name, ask->headers[i].value, err));
    return STK_OK;
}

static void keep(asking *a, const char *text, size_t length)
{
    a->length = STK_MIN(length, STK__S3_ANSWER - 1);
    if (a->length > 0)
        memcpy(a->text, text, a->length);
    a->text[a->length] = 0;
}

/* Every answer that is one is the chain's to judge, but for those that may pass. */
static stk_status keep_answer(void *user, stk__http_exchange *exchange, const char *body,
                              size_t length, stk_error *err)
{
    asking *a = user;

    if (exchange->code >= 500 || exchange->code == 429)
        return STK_OK;
    keep(a, body, length);
    a->refused = true;
    return stk__fail(err, STK_EACCES, STK_STAGE_STORE, "the server answered %d",
                     (int)exchange->code);
}

/* On the thread of the cache. */
static stk_status fetch(void *user, const stk__s3_ask *ask, int32_t *code, char *text,
                        size_t *length, stk_error *err)
{
    static const stk__http_hooks hooks = {.authorize = add_asked, .judge = keep_answer};
    const stk__s3_provider *provider = user;
    stk__http_options options = provider->http;
    stk__http_client *client = NULL;
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + FETCH_PATIENCE};
    stk__http_exchange x = {.method = ask->method,
                            .secret = true,
                            .target = ask->target,
                            .body = ask->body,
                            .body_length = ask->body ? strlen(ask->body) : 0,
                            .body_type = ask->body ? FORM : NULL,
                            .most = STK__S3_ANSWER - 1};

    asking asked = {.ask = ask, .text = text};

    text[0] = 0;
    options.retries = 2;
    options.http2 = false;
    if (ask->plain) { /* of this machine or its link: no proxy stands between */
        options.proxy = NULL;
        options.connect_timeout = STK_MIN(options.connect_timeout, 1.0);
    }
    STK_TRY(stk__http_client_open(provider->context, ask->endpoint, &options, &hooks, &asked,
                                  &client, err));
    const stk_status status = stk__http_call(client, &x, &call, err);
    *code = x.code;
    if (status == STK_OK && x.text) {
        keep(&asked, x.text, (size_t)x.got);
        explicit_bzero(x.text, (size_t)x.got);
    }
    *length = asked.length;
    stk__http_exchange_release(client, &x);
    stk__http_client_close(&client);
    return asked.refused ? STK_OK : status;
}

static stk_status load(void *user, stk__s3_keys *out, stk_error *err)
{
    stk__s3_provider *provider = user;

    return stk__s3_chain(&provider->sources, fetch, provider, (int64_t)stk__wall_seconds(), out,
                         err);
}

static int64_t now(void *user)
{
    (void)user;
    return (int64_t)stk__wall_seconds();
}

static void wake(void *user)
{
    stk__s3_provider *provider = user;

    pthread_mutex_lock(&provider->mutex);
    for (const stk__s3_member *m = provider->members; m; m = m->next)
        if (m->client)
            stk__http_client_wake(m->client);
    pthread_mutex_unlock(&provider->mutex);
}

static const stk__s3_cache_ops cache_ops = {load, now, wake};

/* ---- Its life ---- */

static void destroy(stk__s3_provider *p)
{
    stk_context *ctx = p->context;

    stk__s3_cache_close(&p->cache);
    pthread_mutex_destroy(&p->mutex);
    stk__secrets_free(p->secrets, MOST_SECRETS * sizeof *p->secrets);
    stk__free(ctx, p->texts);
    stk__free(ctx, p);
}

static void destroy_all(stk_context *ctx, void *data)
{
    (void)ctx;
    for (stk__s3_provider *p = data, *next; p; p = next) {
        next = p->next;
        destroy(p);
    }
}

static stk_status create(stk_context *ctx, const stk__s3_sources *sources,
                         const stk__http_options *http, stk__s3_provider **out, stk_error *err)
{
    stk__s3_provider *p = stk__calloc(ctx, 1, sizeof *p);
    stk_status status = STK_OK;

    if (!p)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for credentials");
    p->context = ctx;
    p->sources = *sources;
    p->http = *http;
    p->users = 1;
    pthread_mutex_init(&p->mutex, NULL);
    p->secrets = stk__secrets_alloc(MOST_SECRETS * sizeof *p->secrets);
    p->texts = stk__alloc(ctx, keep_texts(p, NULL) + 1);
    if (!p->secrets || !p->texts || !keep_secrets(p))
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for credentials");
    else
        keep_texts(p, p->texts);
    if (status == STK_OK)
        status = stk__s3_cache_open(ctx, &cache_ops, p, &p->cache, err);
    if (status == STK_OK)
        *out = p;
    else
        destroy(p);
    return status;
}

/* ---- In the slot of the context ---- */

typedef struct wish {
    stk__s3_sources sources;
    const stk__http_options *http;
    stk__s3_provider *found, *old; /* old: to be destroyed */
    stk_error *err;
    bool unused;
} wish;

static stk__s3_provider *find(stk__slot *slot, wish *w)
{
    stk__s3_provider *p = slot->data;

    while (p && !(p->sources.google == w->sources.google && same_http(&p->http, w->http) &&
                  same_texts(&p->sources, &w->sources, plain, STK_COUNT(plain)) &&
                  same_texts(&p->sources, &w->sources, secret, MOST_SECRETS)))
        p = p->next;
    return p;
}

/* Those that nobody has had for long. */
static void take_old(stk__slot *slot, wish *w)
{
    const uint64_t now = stk__now_ns();

    for (stk__s3_provider **at = (stk__s3_provider **)&slot->data; *at;) {
        stk__s3_provider *p = *at;
        if (p->users || now - p->idle_ns < IDLE_NS) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = w->old;
        w->old = p;
    }
}

static stk_status add(stk_context *ctx, stk__slot *slot, void *user)
{
    stk__s3_provider *p = user;

    (void)ctx;
    p->next = slot->data;
    slot->data = p;
    slot->destroy = destroy_all;
    return STK_OK;
}

static stk_status get(stk_context *ctx, stk__slot *slot, void *user)
{
    wish *w = user;

    take_old(slot, w);
    w->found = find(slot, w);
    if (w->found) {
        w->found->users++;
        return STK_OK;
    }
    STK_TRY(create(ctx, &w->sources, w->http, &w->found, w->err));
    return add(ctx, slot, w->found);
}

/* One user less; the last takes it out of the list, so that nobody gets it while it comes to rest.
 */
static stk_status put(stk_context *ctx, stk__slot *slot, void *user)
{
    wish *w = user;
    stk__s3_provider **at = (stk__s3_provider **)&slot->data;

    (void)ctx;
    w->unused = --w->found->users == 0;
    while (w->unused && *at != w->found)
        at = &(*at)->next;
    if (w->unused)
        *at = w->found->next;
    return STK_OK;
}

/* ---- What the header says ---- */

void stk__s3_provider_serve(stk__s3_provider *provider, stk__s3_member *member,
                            stk__http_client *client)
{
    if (!provider)
        return;
    pthread_mutex_lock(&provider->mutex);
    member->client = client;
    pthread_mutex_unlock(&provider->mutex);
}

stk_status stk__s3_provider_get(stk_context *ctx, const stk__s3_sources *sources,
                                const stk__http_options *http, stk__s3_member *member,
                                stk__s3_provider **out, stk_error *err)
{
    wish w = {.sources = *sources, .http = http, .err = err};

    *out = NULL;
    const stk_status status = stk__context_slot(ctx, STK__SLOT_CREDENTIALS, get, &w);
    destroy_all(ctx, w.old);
    STK_TRY(status);
    *out = w.found;
    pthread_mutex_lock(&w.found->mutex);
    member->next = w.found->members;
    w.found->members = member;
    pthread_mutex_unlock(&w.found->mutex);
    return STK_OK;
}

void stk__s3_provider_leave(stk__s3_provider **in_out, stk__s3_member *member)
{
    stk__s3_provider *p = *in_out;
    wish w = {.found = p};

    *in_out = NULL;
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    stk__s3_member **at = &p->members;
    while (*at != member)
        at = &(*at)->next;
    *at = member->next;
    pthread_mutex_unlock(&p->mutex);
    (void)stk__context_slot(p->context, STK__SLOT_CREDENTIALS, put, &w);
    if (!w.unused)
        return;
    stk__s3_cache_rest(p->cache);
    p->idle_ns = stk__now_ns();
    (void)stk__context_slot(p->context, STK__SLOT_CREDENTIALS, add, p);
}

stk__s3_cache *stk__s3_provider_cache(stk__s3_provider *provider)
{
    return provider->cache;
}
