/* SPDX-License-Identifier: Apache-2.0 */
/* Redirects, followed by hand: how many, and never to where less is safe. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "store/http/room.h"

#define REDIRECTS_MOST 10

/* [RFC 1918, RFC 6598, RFC 3927, RFC 1122], 0.0.0.0/8 included, which leads to this machine. */
static bool v4_private(uint32_t a)
{
    return a >> 24 == 0 || a >> 24 == 10 || a >> 24 == 127 || a >> 20 == 0xac1 ||
           a >> 16 == 0xc0a8 || a >> 16 == 0xa9fe || a >> 22 == 0x191;
}

bool stk__http_address_private(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        return v4_private(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6)
        return true;
    memcpy(&v6, address, sizeof v6);
    const uint8_t *a = v6.sin6_addr.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) || IN6_IS_ADDR_V4COMPAT(&v6.sin6_addr))
        return v4_private((uint32_t)stk__big_endian(a + 12, 4));
    return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
           IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) || (a[0] & 0xfe) == 0xfc;
}

/* Whether the answer came from a private address, from where others may be led to. */
static bool came_from_private(const stk__http_try *t)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    char *ip = NULL;

    if (curl_easy_getinfo(t->easy, CURLINFO_PRIMARY_IP, &ip) != CURLE_OK || !ip)
        return false;
    if (inet_pton(AF_INET, ip, &v4.sin_addr) == 1)
        return stk__http_address_private((const struct sockaddr *)&v4);
    return inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1 &&
           stk__http_address_private((const struct sockaddr *)&v6);
}

/* Whether a host that is not asked for its address leads to this machine or its networks by its
 * name: an address, however it is written, or a name that is kept for those. */
static bool named_private(CURLU *url)
{
    static const char *const kept[] = {"localhost", ".localhost", ".local", ".internal"};
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char *host = NULL;
    bool is = true;

    if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        return true;
    size_t length = strlen(host);
    char *name = host;
    if (*name == '[' && host[length - 1] == ']') {
        host[--length] = 0;
        name++;
    }
    while (length > 0 && host[length - 1] == '.')
        host[--length] = 0;
    if (getaddrinfo(name, NULL, &hints, &found) == 0) {
        is = stk__http_address_private(found->ai_addr);
        freeaddrinfo(found);
    } else {
        is = strcasecmp(name, kept[0]) == 0;
        for (size_t i = 1; i < STK_COUNT(kept); i++) {
            const size_t n = strlen(kept[i]);
            is |= length > n && strcasecmp(host + length - n, kept[i]) == 0;
        }
    }
    curl_free(host);
    return is;
}

static bool same(CURLU *a, CURLU *b, CURLUPart part, const char *more)
{
    char *x = NULL, *y = NULL;
    bool is = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK;

    if (is) {
        const size_t n = strlen(x);
        is = strncmp(x, y, n) == 0 && strcmp(y + n, more) == 0;
    }
    curl_free(x);
    curl_free(y);
    return is;
}

/* Set `to` to where `location` leads from `from`. */
static stk_status check(stk__http_job *job, CURLU *from, CURLU *to, const char *location,
                        const char **why)
{
    char *before = NULL, *after = NULL;

    if (curl_url_set(to, CURLUPART_URL, location, CURLU_DISALLOW_USER) != CURLUE_OK) {
        *why = "a redirect leads to no address";
        return STK_EIO;
    }
    if (same(from, to, CURLUPART_HOST, "") && same(from, to, CURLUPART_PATH, "/")) {
        job->exchange->is_folder = true;
        *why = "it is a folder";
        return STK_EKIND;
    }
    stk_status status = STK_OK;
    if (curl_url_get(from, CURLUPART_SCHEME, &before, 0) != CURLUE_OK ||
        curl_url_get(to, CURLUPART_SCHEME, &after, 0) != CURLUE_OK ||
        (strcmp(after, "https") != 0 && strcmp(after, "http") != 0) ||
        (strcmp(before, "https") == 0 && strcmp(after, "https") != 0)) {
        *why = "a redirect leads from https to another protocol";
        status = STK_EACCES;
    }
    curl_free(before);
    curl_free(after);
    /* Behind a proxy no address is seen: names have to do. */
    if (status == STK_OK && job->exchange->client->options.proxy && named_private(to) &&
        !named_private(from)) {
        *why = "a redirect leads from a public to a private address";
        status = STK_EACCES;
    }
    return status;
}

stk_status stk__http_redirect(stk__http_job *job, const stk__http_try *t, const char **why)
{
    stk_context *ctx = t->client->context;
    char *was = NULL, *url = NULL;

    if (t->client->hooks.authorize || job->exchange->body ||
        (strcmp(job->exchange->method, "GET") != 0 && strcmp(job->exchange->method, "HEAD") != 0)) {
        *why = "such a request follows no redirect";
        return STK_ENOTSUP;
    }
    if (!t->head.location[0]) {
        *why = "a redirect leads nowhere";
        return STK_EIO;
    }
    if (job->redirects >= REDIRECTS_MOST) {
        *why = "there are more than 10 redirects";
        return STK_ELIMIT;
    }
    CURLU *from = curl_url(), *to = curl_url();
    stk_status status = STK_ENOMEM;
    *why = "no memory for a redirect";
    if (from && to && curl_easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &was) == CURLE_OK &&
        curl_url_set(from, CURLUPART_URL, was, 0) == CURLUE_OK &&
        curl_url_set(to, CURLUPART_URL, was, 0) == CURLUE_OK)
        status = check(job, from, to, t->head.location, why);
    if (status == STK_OK) {
        char *kept =
            curl_url_get(to, CURLUPART_URL, &url, 0) == CURLUE_OK ? stk__strdup(ctx, url) : NULL;
        status = kept ? STK_OK : STK_ENOMEM;
        if (kept) {
            stk__free(ctx, job->url);
            job->url = kept;
            job->redirects++;
            /* A proxy's address says nothing of where it leads: check() looked at the name. */
            job->guarded |= !t->client->options.proxy && !came_from_private(t);
        }
    }
    curl_free(url);
    curl_url_cleanup(from);
    curl_url_cleanup(to);
    return status;
}
