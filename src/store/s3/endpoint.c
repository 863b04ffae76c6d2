/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/endpoint.h"

#include <stdio.h>

#include "base/digits.h"
#include "base/url.h"
#include "store/s3/errors.h"
#include "store/s3/sigv4.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* [S3 User Guide, Bucket naming rules], and the older names with '_' and capitals, which a path
 * may have. */
static bool bucket_valid(const char *name)
{
    const size_t length = strlen(name);

    if (length < 3 || length >= STK__S3_BUCKET || strstr(name, ".."))
        return false;
    for (size_t i = 0; i < length; i++) {
        const bool inner = i > 0 && i + 1 < length;
        if (!is_letter(name[i]) && !stk__is_digit(name[i]) &&
            !(inner && (name[i] == '-' || name[i] == '.' || name[i] == '_')))
            return false;
    }
    return true;
}

/* Whether a name can be one label of a host, for which a certificate of "*.HOST" holds. */
static bool is_label(const char *bucket)
{
    for (const char *p = bucket; *p; p++)
        if ((*p >= 'A' && *p <= 'Z') || *p == '.' || *p == '_')
            return false;
    return true;
}

/* ---- Endpoints ------------------------------------------------------------------------------- */

/* "https://HOST[:PORT][/]" as scheme and host. */
static bool split(const char *url, const char **scheme, const char **host, size_t *length)
{
    *scheme = strncmp(url, "https://", 8) == 0  ? "https://"
              : strncmp(url, "http://", 7) == 0 ? "http://"
                                                : NULL;
    if (!*scheme)
        return false;
    *host = url + strlen(*scheme);
    *length = strlen(*host);
    if (*length > 0 && (*host)[*length - 1] == '/')
        --*length;
    return *length > 0 && *length + STK__S3_BUCKET < STK__S3_HOST;
}

/* A name, a number or a number in brackets, and a port. */
static bool host_valid(const char *host, size_t length)
{
    size_t i = 0;

    if (host[0] == '[') {
        for (i = 1; i < length && host[i] != ']'; i++)
            if (!stk__is_digit(host[i]) && !(is_letter(host[i]) && (host[i] | 32) <= 'f') &&
                host[i] != ':' && host[i] != '.')
                return false;
        if (i == length || i == 1)
            return false;
        i++;
    } else {
        while (i < length && (stk__is_digit(host[i]) || is_letter(host[i]) ||
                              (i > 0 && (host[i] == '-' || host[i] == '.'))))
            i++;
        if (i == 0)
            return false;
    }
    if (i == length)
        return true;
    if (host[i++] != ':' || i == length || length - i > 5)
        return false;
    for (; i < length; i++)
        if (!stk__is_digit(host[i]))
            return false;
    return true;
}

/* Without the port of the scheme, as clients leave it out of Host. */
static size_t without_port(const char *scheme, const char *host, size_t length)
{
    const char *port = strlen(scheme) == 8 ? ":443" : ":80";

    return stk__ends_with(host, length, port) ? length - strlen(port) : length;
}

bool stk__s3_loopback(const char *url)
{
    const char *scheme, *host;
    size_t length;

    if (!split(url, &scheme, &host, &length) || !host_valid(host, length))
        return false;
    if (host[0] == '[')
        return length >= 5 && strncmp(host, "[::1]", 5) == 0;
    const size_t name = strcspn(host, ":/");
    if (name == 9 && strncmp(host, "localhost", 9) == 0)
        return true;
    /* 127.a.b.c, written out: nothing that a resolver could take for another. */
    unsigned dots = 0;
    for (size_t i = 0; i < name; i++) {
        dots += host[i] == '.';
        if (!stk__is_digit(host[i]) && host[i] != '.')
            return false;
    }
    return dots == 3 && strncmp(host, "127.", 4) == 0;
}

static stk_status own_endpoint(const stk__s3_where *where, bool in_path, stk__s3_endpoint *out,
                               stk_error *err)
{
    const char *scheme, *host;
    size_t length;

    if (!split(where->endpoint, &scheme, &host, &length) || !host_valid(host, length))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "endpoint: '%.200s' is no address of a server; write https://HOST or "
                         "https://HOST:PORT, the bucket is the URL's",
                         where->endpoint);
    length = without_port(scheme, host, length);
    snprintf(out->host, sizeof out->host, "%s%s%.*s", in_path ? "" : out->bucket,
             in_path ? "" : ".", (int)length, host);
    snprintf(out->url, sizeof out->url, "%s%s", scheme, out->host);
    if (scheme[4] == ':' && !where->anonymous && !where->allow_http &&
        !stk__s3_loopback(where->endpoint))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "endpoint: credentials would go to '%.200s' over plain http, for all to "
                         "read; use https, or say allow_http=true where that network is yours",
                         where->endpoint);
    return STK_OK;
}

const char *stk__s3_host_end(const char *region)
{
    return strncmp(region, "cn-", 3) == 0 ? ".cn" : "";
}

stk_status stk__s3_endpoint_make(const stk__s3_where *where, const char *bucket,
                                 stk__s3_endpoint *out, stk_error *err)
{
    const bool amazon = !where->endpoint && !where->google;

    *out = (stk__s3_endpoint){0};
    if (!bucket_valid(bucket))
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.80s' is no name of a bucket: 3 to 63 of a-z, 0-9, '-' and '.'; write "
                         "%s://BUCKET/KEY",
                         bucket, where->google ? "gs" : "s3");
    if (!stk__s3_region_valid(where->region))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "region: '%.80s' is no name of a region, as us-east-1", where->region);
    snprintf(out->bucket, sizeof out->bucket, "%s", bucket);
    if (where->style == STK__S3_VIRTUAL && !is_label(bucket))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "style: the bucket '%.80s' cannot be part of a host's name; leave style "
                         "away, or say path",
                         bucket);
    out->in_path = where->style == STK__S3_PATH ||
                   (where->style == STK__S3_AUTO && (!amazon || !is_label(bucket)));
    if (where->endpoint)
        return own_endpoint(where, out->in_path, out, err);
    const char *dot = out->in_path ? "" : ".", *name = out->in_path ? "" : bucket;
    if (where->google)
        snprintf(out->host, sizeof out->host, "%s%sstorage.googleapis.com", name, dot);
    else
        snprintf(out->host, sizeof out->host, "%s%ss3.%s.amazonaws.com%s", name, dot, where->region,
                 stk__s3_host_end(where->region));
    snprintf(out->url, sizeof out->url, "https://%s", out->host);
    return STK_OK;
}

void stk__s3_endpoint_path(const stk__s3_endpoint *endpoint, const char *key, stk__text *out)
{
    if (endpoint->in_path)
        stk__text_add(out, "/%s", endpoint->bucket);
    stk__text_add(out, "/");
    stk__text_add_percent(out, key, strlen(key), true);
}

stk_status stk__s3_url_take(const char *path, size_t length, char bucket[STK__S3_BUCKET],
                            char *prefix, stk_error *err)
{
    const char *end = path + length;

    if (length < 3 || strncmp(path, "//", 2) != 0 || path[2] == '/')
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.*s' names no bucket; write s3://BUCKET/KEY or gs://BUCKET/KEY",
                         (int)STK_MIN(length, 200u), path);
    path += 2;
    const char *slash = memchr(path, '/', (size_t)(end - path));
    const size_t name = slash ? (size_t)(slash - path) : (size_t)(end - path);
    if (name >= STK__S3_BUCKET)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%.*s' is no name of a bucket: it is longer than %d bytes",
                         (int)STK_MIN(name, 200u), path, STK__S3_BUCKET - 1);
    memcpy(bucket, path, name);
    bucket[name] = 0;
    path += name + (slash != NULL);
    STK_TRY(stk__url_decode(path, (size_t)(end - path), prefix, STK_MAX_OBJECT_KEY - 1, err));
    const size_t used = strlen(prefix);
    if (used > 0 && prefix[used - 1] != '/')
        memcpy(prefix + used, "/", 2);
    return STK_OK;
}
