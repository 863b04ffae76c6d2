/* SPDX-License-Identifier: Apache-2.0 */
/* What a request needs before each try, and what an answer that failed means. */
#include <inttypes.h>
#include <stdio.h>

#include "store/s3/s3.h"

#define MOST_SKEW 900 /* seconds */

/* ---- Before each try ------------------------------------------------------------------------- */

typedef struct signing {
    stk__s3_store *store;
    stk__s3_request *request;
    stk__http_headers *headers;
} signing;

static stk_status add(const signing *s, const stk__sigv4_header *header, stk_error *err)
{
    return stk__http_headers_add(s->headers, header->name, header->value, err);
}

/* Headers that are signed where there are keys; *n grows. */
static void note(stk__sigv4_header *headers, size_t *n, const char *name, const char *value)
{
    headers[(*n)++] = (stk__sigv4_header){name, value};
}

static size_t own_headers(const signing *s, stk__sigv4_header *headers)
{
    size_t n = 0;

    if (s->store->requester_pays)
        note(headers, &n, "x-amz-request-payer", "requester");
    if (s->request->checksum)
        note(headers, &n, "x-amz-checksum-crc32c", s->request->checksum);
    if (s->request->asks_checksum)
        note(headers, &n, "x-amz-checksum-algorithm", "CRC32C");
    return n;
}

static stk_status sign_bearer(const signing *s, const stk__s3_keys *keys, stk_error *err)
{
    char header[STK__SECRET_ROOM + 16];

    snprintf(header, sizeof header, "Bearer %s", keys->token.text);
    const stk_status status = stk__http_headers_add(s->headers, "Authorization", header, err);
    explicit_bzero(header, sizeof header);
    return status;
}

/* Under the lock of the cache, on the thread of the client. */
static stk_status sign(void *user, const stk__s3_keys *keys, stk_error *err)
{
    const signing *s = user;
    stk__s3_store *store = s->store;
    const stk__http_exchange *x = &s->request->exchange;
    const char *payload = x->body_sha256 ? x->body_sha256 : STK__SIGV4_UNSIGNED;
    const int64_t now = (int64_t)stk__wall_seconds() + store->skew;
    stk__sigv4_key *key = store->key;
    stk__sigv4_header headers[8];
    char header[STK__SIGV4_HEADER];

    if (!stk__secret_has(&keys->id))
        return sign_bearer(s, keys, err);
    /* The key of a day is that of one secret. */
    if (s->request->generation != store->generation)
        explicit_bzero(key, sizeof *key);
    store->generation = s->request->generation;
    size_t n = own_headers(s, headers);
    note(headers, &n, "host", store->endpoint.host);
    note(headers, &n, "x-amz-content-sha256", payload);
    const bool made = stk__sigv4_key_for(key, keys->secret.text, now, store->region, "s3");
    note(headers, &n, "x-amz-date", key->date);
    if (stk__secret_has(&keys->token))
        note(headers, &n, "x-amz-security-token", keys->token.text);
    const stk__sigv4_request request = {x->method, x->target, headers, n, payload};
    if (!made || !stk__sigv4_sign(key, keys->id.text, &request, header))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_STORE,
                         "a request of more headers than can be signed");
    for (size_t i = 0; i < n; i++)
        if (strcmp(headers[i].name, "host") != 0)
            STK_TRY(add(s, &headers[i], err));
    return stk__http_headers_add(s->headers, "Authorization", header, err);
}

static stk_status authorize(void *user, const stk__http_exchange *exchange,
                            stk__http_headers *headers, stk_error *err)
{
    /* Every exchange of this client is part of a request that the store made. */
    signing s = {user, (stk__s3_request *)exchange, headers};

    if (s.store->cache) {
        stk_status status =
            stk__s3_cache_use(s.store->cache, sign, &s, &s.request->generation, err);
        /* STK_EACCES is of an object, which may as well not be there; these are no credentials. */
        if (status == STK_EACCES)
            status = STK_EINVAL;
        if (err && status != STK_OK)
            err->status = status;
        return status;
    }
    stk__sigv4_header own[8];
    const size_t n = own_headers(&s, own);
    for (size_t i = 0; i < n; i++)
        STK_TRY(add(&s, &own[i], err));
    return STK_OK;
}

/* ---- After an answer that failed --------------------------------------------------------------
 */

/* Whether what may mend it has been done, once for a request. */
static bool mend(stk__s3_store *store, stk__s3_request *request, const stk__s3_error *error)
{
    switch (error->cure) {
    case STK__S3_KEYS:
        if (request->renewed || !store->cache)
            return false;
        request->renewed = true;
        return stk__s3_cache_expire(store->cache, request->generation);
    case STK__S3_REGION:
        /* On Amazon's hosts the region is a part of the name. */
        if (request->moved || !store->where.endpoint)
            return false;
        request->moved = true;
        memcpy(store->region, error->region, sizeof store->region);
        return true;
    case STK__S3_CLOCK:
        if (request->wound || !error->server_seconds)
            return false;
        request->wound = true;
        store->skew = error->server_seconds - (int64_t)stk__wall_seconds();
        return true;
    case STK__S3_AGAIN:
        return true;
    case STK__S3_FINAL:
        break;
    }
    return false;
}

/* 404, 412 and 416 say by their number what they mean. */
static bool is_plain(int32_t code, const stk__s3_error *error)
{
    return (code == 404 && strcmp(error->code, "NoSuchBucket") != 0 &&
            strcmp(error->code, "NoSuchUpload") != 0) ||
           code == 412 || code == 416;
}

/* An answer to HEAD has no body that says why. A wrong clock is seen by the server's own: of a
 * quarter of an hour and more requests are refused [S3 API Reference, RequestTimeTooSkewed]. */
static void judge_bodiless(const stk__s3_store *store, const stk__http_exchange *exchange,
                           stk__s3_error *error)
{
    const int64_t server = exchange->date_ns / INT64_C(1000000000);
    const int64_t ahead = server - (int64_t)stk__wall_seconds() - store->skew;

    if (exchange->code != 403 || !store->cache || !server || imaxabs(ahead) < MOST_SKEW)
        return;
    error->server_seconds = server;
    snprintf(error->code, sizeof error->code, "RequestTimeTooSkewed");
    snprintf(error->message, sizeof error->message, "its clock is %" PRId64 " s %s", imaxabs(ahead),
             ahead > 0 ? "ahead" : "behind");
}

static stk_status judge(void *user, stk__http_exchange *exchange, const char *body, size_t length,
                        stk_error *err)
{
    stk__s3_store *store = user;
    stk__s3_request *request = (stk__s3_request *)exchange;
    const int32_t code = exchange->code;
    stk__s3_error error;

    const bool is = stk__s3_error_read(body, length, &error);
    if (code >= 200 && code < 300) {
        if (store->cache)
            stk__s3_cache_taken(store->cache, request->generation);
        if (!is)
            return STK_OK;
    }
    if (is_plain(code, &error))
        return STK_OK;
    if (!error.region[0] && stk__s3_region_valid(exchange->region))
        memcpy(error.region, exchange->region, sizeof error.region);
    if (!error.code[0])
        judge_bodiless(store, exchange, &error);
    stk__s3_error_judge(code, &error);
    /* Nor that keys have expired. */
    if (code == 400 && !error.code[0] && !error.region[0])
        error.cure = STK__S3_KEYS;
    const bool moved = error.region[0] && strcmp(error.region, store->region) != 0;
    (void)stk__fail(err, error.status, STK_STAGE_STORE, "the server answered %d%s%s%s%s%s%s%s",
                    (int)code, error.code[0] ? ", " : "", error.code, error.message[0] ? ": " : "",
                    error.message, moved ? "; say region=" : error.remedy,
                    moved ? error.region : "", "");
    return mend(store, request, &error) ? STK_EAGAIN : error.status;
}

const stk__http_hooks stk__s3_hooks = {.authorize = authorize, .judge = judge};
