/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define DAY       8 /* characters of a date that are its day */

/* ---- Keys ------------------------------------------------------------------------------------ */

static void set_date(int64_t seconds, char text[STK__SIGV4_DATE])
{
    const time_t time = (time_t)seconds;
    struct tm utc = {0};

    text[0] = 0;
    if (gmtime_r(&time, &utc))
        strftime(text, STK__SIGV4_DATE, "%Y%m%dT%H%M%SZ", &utc);
}

bool stk__sigv4_key_for(stk__sigv4_key *key, const char *secret, int64_t seconds,
                        const char *region, const char *service)
{
    char scope[sizeof key->scope], first[256];
    uint8_t *bytes = key->bytes;

    set_date(seconds, key->date);
    if (snprintf(scope, sizeof scope, "%.*s/%s/%s/aws4_request", DAY, key->date, region, service) >=
        (int)sizeof scope)
        return false;
    if (strcmp(scope, key->scope) == 0)
        return true;
    key->scope[0] = 0;
    const int n = snprintf(first, sizeof first, "AWS4%s", secret);
    if (n >= (int)sizeof first) {
        explicit_bzero(first, sizeof first);
        return false;
    }
    stk__hmac_sha256(first, (size_t)n, key->date, DAY, bytes);
    explicit_bzero(first, sizeof first);
    stk__hmac_sha256(bytes, STK__SHA256, region, strlen(region), bytes);
    stk__hmac_sha256(bytes, STK__SHA256, service, strlen(service), bytes);
    stk__hmac_sha256(bytes, STK__SHA256, "aws4_request", 12, bytes);
    memcpy(key->scope, scope, sizeof scope);
    return true;
}

/* ---- The canonical request ------------------------------------------------------------------- */

static void add(stk__sha256 *hash, const char *text)
{
    stk__sha256_add(hash, text, strlen(text));
}

/* A parameter of a query, as it is written there. */
typedef struct part {
    const char *name, *value;
    size_t name_length, value_length;
} part;

static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const int order = memcmp(a, b, STK_MIN(a_length, b_length));

    return order != 0 ? order : a_length < b_length ? -1 : a_length > b_length;
}

static int by_part(const void *a, const void *b)
{
    const part *x = a, *y = b;
    const int order = compare(x->name, x->name_length, y->name, y->name_length);

    return order != 0 ? order : compare(x->value, x->value_length, y->value, y->value_length);
}

/* The parameters of a query, sorted. False: too many. */
static bool take_query(const char *query, part parts[STK__SIGV4_PARTS], size_t *n)
{
    *n = 0;
    while (*query) {
        const size_t length = strcspn(query, "&");
        const char *is = memchr(query, '=', length);
        if (length > 0) {
            if (*n == STK__SIGV4_PARTS)
                return false;
            const size_t name = is ? (size_t)(is - query) : length;
            parts[(*n)++] =
                (part){query, is ? is + 1 : query + length, name, is ? length - name - 1 : 0};
        }
        query += length + (query[length] == '&');
    }
    qsort(parts, *n, sizeof *parts, by_part);
    return true;
}

static bool add_query(stk__sha256 *hash, const char *query)
{
    part parts[STK__SIGV4_PARTS];
    size_t n;

    if (!take_query(query, parts, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        stk__sha256_add(hash, "&", i > 0);
        stk__sha256_add(hash, parts[i].name, parts[i].name_length);
        stk__sha256_add(hash, "=", 1);
        stk__sha256_add(hash, parts[i].value, parts[i].value_length);
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const stk__sigv4_header *)a)->name, ((const stk__sigv4_header *)b)->name);
}

/* Put "host;x-amz-date" into `names`. */
static bool add_headers(stk__sha256 *hash, const stk__sigv4_request *request, stk__text *names)
{
    stk__sigv4_header sorted[STK__SIGV4_PARTS];
    const size_t n = request->num_headers;

    if (n > STK__SIGV4_PARTS)
        return false;
    if (n > 0)
        memcpy(sorted, request->headers, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; i < n; i++) {
        add(hash, sorted[i].name);
        add(hash, ":");
        add(hash, sorted[i].value);
        add(hash, "\n");
        stk__text_add(names, "%s%s", i > 0 ? ";" : "", sorted[i].name);
    }
    return true;
}

/* The hash of the canonical request. `query` may be another than the target's. */
static bool hash_request(const stk__sigv4_request *request, const char *query, stk__text *names,
                         char text[STK__SHA256_TEXT])
{
    const char *target = request->target;
    uint8_t digest[STK__SHA256];
    stk__sha256 hash;

    stk__sha256_init(&hash);
    add(&hash, request->method);
    add(&hash, "\n");
    stk__sha256_add(&hash, target, strcspn(target, "?"));
    add(&hash, "\n");
    if (!add_query(&hash, query))
        return false;
    add(&hash, "\n");
    if (!add_headers(&hash, request, names))
        return false;
    add(&hash, "\n");
    add(&hash, names->bytes ? names->bytes : "");
    add(&hash, "\n");
    add(&hash, request->payload);
    stk__sha256_end(&hash, digest);
    explicit_bzero(&hash, sizeof hash);
    stk__sha256_text(digest, text);
    return true;
}

static void sign_hash(const stk__sigv4_key *key, const char *hash, char signature[STK__SHA256_TEXT])
{
    char text[256];
    uint8_t digest[STK__SHA256];

    snprintf(text, sizeof text, ALGORITHM "\n%s\n%s\n%s", key->date, key->scope, hash);
    stk__hmac_sha256(key->bytes, STK__SHA256, text, strlen(text), digest);
    stk__sha256_text(digest, signature);
}

/* ---- Signatures ------------------------------------------------------------------------------ */

static const char *query_of(const char *target)
{
    const char *query = strchr(target, '?');

    return query ? query + 1 : "";
}

bool stk__sigv4_sign(const stk__sigv4_key *key, const char *id, const stk__sigv4_request *request,
                     char header[STK__SIGV4_HEADER])
{
    char names_room[512] = "", hash[STK__SHA256_TEXT], signature[STK__SHA256_TEXT];
    stk__text names = {.bytes = names_room, .room = sizeof names_room};

    if (!hash_request(request, query_of(request->target), &names, hash) ||
        names.length >= names.room)
        return false;
    sign_hash(key, hash, signature);
    return snprintf(header, STK__SIGV4_HEADER,
                    ALGORITHM " Credential=%s/%s,SignedHeaders=%s,Signature=%s", id, key->scope,
                    names_room, signature) < STK__SIGV4_HEADER;
}

bool stk__sigv4_presign(const stk__sigv4_key *key, const char *id, const char *token,
                        uint32_t seconds, const stk__sigv4_request *request, stk__text *out)
{
    char names_room[512] = "", hash[STK__SHA256_TEXT], signature[STK__SHA256_TEXT];
    stk__text names = {.bytes = names_room, .room = sizeof names_room};
    const size_t begin = out->length;

    stk__text_add(out, "%s%cX-Amz-Algorithm=" ALGORITHM "&X-Amz-Credential=", request->target,
                  strchr(request->target, '?') ? '&' : '?');
    stk__text_add_percent(out, id, strlen(id), false);
    stk__text_add(out, "%%2F");
    stk__text_add_percent(out, key->scope, strlen(key->scope), false);
    stk__text_add(out, "&X-Amz-Date=%s&X-Amz-Expires=%u", key->date, seconds);
    if (token) {
        stk__text_add(out, "&X-Amz-Security-Token=");
        stk__text_add_percent(out, token, strlen(token), false);
    }
    stk__text_add(out, "&X-Amz-SignedHeaders=");
    for (size_t i = 0; i < request->num_headers; i++)
        stk__text_add(out, "%s%s", i > 0 ? "%3B" : "", request->headers[i].name);
    if (out->failed || !out->bytes ||
        !hash_request(request, query_of(out->bytes + begin), &names, hash))
        return false;
    sign_hash(key, hash, signature);
    stk__text_add(out, "&X-Amz-Signature=%s", signature);
    return !out->failed && names.length < names.room;
}
