/* SPDX-License-Identifier: Apache-2.0 */
/* Where a live page is shown: a socket, and the secret that others need. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/digits.h"
#include "base/random.h"
#include "base/sized.h"
#include "measure/live.h"

#define WAITING 16 /* connections that nobody has taken yet */

union place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* An address without its brackets and port; "" is this machine alone. */
static bool take_host(const char *host, union place *out, bool *local)
{
    if (!*host || strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        *local = ntohl(out->v4.sin_addr.s_addr) >> 24 == 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) != 1)
        return false;
    out->v6.sin6_family = AF_INET6;
    *local = IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr);
    return true;
}

/* "[ADDR]:PORT", "ADDR:PORT", ":PORT", "PORT" */
static stk_status parse(const char *text, union place *out, bool *local, stk_error *err)
{
    const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
    char host[128] = "", *end;
    size_t length = colon ? (size_t)(colon - text) : 0;

    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    const unsigned long port = strtoul(number, &end, 10);
    if (*number < '0' || *number > '9' || *end || port > UINT16_MAX || length >= sizeof host)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "'%.100s' ends with no port: write PORT, or ADDRESS:PORT; 0 is one that "
                         "is free",
                         text);
    memcpy(host, text, length);
    if (!take_host(host, out, local))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "'%.100s' is no address: write that of one of this machine's links, as "
                         "192.0.2.1, or 0.0.0.0 for all, or none for this machine alone",
                         host);
    if (out->any.sa_family == AF_INET)
        out->v4.sin_port = htons((uint16_t)port);
    else
        out->v6.sin6_port = htons((uint16_t)port);
    return STK_OK;
}

static stk_status fail_socket(const char *what, const char *text, stk_error *err)
{
    const int error = errno;

    return stk__fail(err, error == EADDRINUSE ? STK_EBUSY : stk__status_of_errno(error),
                     STK_STAGE_MEASURE, "could not %s %.100s: %s%s", what, text, strerror(error),
                     error == EADDRINUSE ? "; another port, or 0 for one that is free" : "");
}

static stk_status make_token(char token[33], stk_error *err)
{
    unsigned char bytes[16];

    if (!stk__system_random(bytes, sizeof bytes))
        return stk__fail(err, STK_ESYSTEM, STK_STAGE_MEASURE,
                         "the system gives no random bytes for a token: %s", strerror(errno));
    stk__hex_text(bytes, sizeof bytes, token);
    return STK_OK;
}

/* The address as a browser takes it; all addresses are the machine's name. */
static void write_url(const union place *place, stk_live_address *out)
{
    char host[INET6_ADDRSTRLEN + 66] = "";
    const bool v6 = place->any.sa_family == AF_INET6;
    const bool all = v6 ? IN6_IS_ADDR_UNSPECIFIED(&place->v6.sin6_addr)
                        : place->v4.sin_addr.s_addr == INADDR_ANY;

    if (!all || gethostname(host, sizeof host - 1) != 0)
        inet_ntop(place->any.sa_family,
                  v6 ? (const void *)&place->v6.sin6_addr : (const void *)&place->v4.sin_addr, host,
                  sizeof host);
    snprintf(out->url, sizeof out->url, "http://%s%s%s:%u/%s%s", strchr(host, ':') ? "[" : "", host,
             strchr(host, ':') ? "]" : "", out->port, out->local ? "" : "?token=", out->token);
}

stk_status stk_live_bind(const char *text, stk_live_address *out, stk_error *err)
{
    stk_live_address made = {.struct_size = sizeof made, .socket = -1};
    union place place = {.v6 = {0}};
    socklen_t length = sizeof place;
    const int yes = 1;

    STK_TRY(stk__sized_check(out, "stk_live_address", STK_STAGE_MEASURE, err));
    STK_TRY(parse(text, &place, &made.local, err));
    if (!made.local)
        STK_TRY(make_token(made.token, err));
    made.socket = socket(place.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made.socket < 0)
        return fail_socket("make a socket for", text, err);
    /* A run that has just ended keeps the port for a while. */
    setsockopt(made.socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    stk_status status = STK_OK;
    if (bind(made.socket, &place.any,
             place.any.sa_family == AF_INET6 ? sizeof place.v6 : sizeof place.v4) != 0 ||
        listen(made.socket, WAITING) != 0 || getsockname(made.socket, &place.any, &length) != 0)
        status = fail_socket("listen at", text, err);
    if (status != STK_OK) {
        close(made.socket);
        return status;
    }
    made.port = ntohs(place.any.sa_family == AF_INET6 ? place.v6.sin6_port : place.v4.sin_port);
    write_url(&place, &made);
    stk__sized_write(out, &made);
    return STK_OK;
}

void stk_live_unbind(stk_live_address *address)
{
    if (address->socket >= 0)
        close(address->socket);
    address->socket = -1;
}
