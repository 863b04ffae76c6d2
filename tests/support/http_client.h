/* A client of the tests' web server that sees every byte, and how a connection ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_HTTP_CLIENT_H
#define STK_TESTS_SUPPORT_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/http_server.h"
#include "support/support.h"

/* Far longer than any answer takes that comes at all. */
#define HTTP_CLIENT_WAIT_S 60

typedef enum http_ending { HTTP_OPEN, HTTP_ENDED, HTTP_WAS_RESET } http_ending;

/* What came of an answer. */
typedef struct http_got {
    int status; /* 0: no head */
    char head[16384];
    char body[65536]; /* and a zero behind it */
    size_t length;
    http_ending ending;
} http_got;

static inline int http_try_connect(const http_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)http_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = HTTP_CLIENT_WAIT_S},
               sizeof(struct timeval));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int http_connect(const http_server *server)
{
    const int fd = http_try_connect(server);

    assert_true(fd >= 0);
    return fd;
}

static inline void http_send(int fd, const char *text, size_t length)
{
    assert_int_equal(send(fd, text, length, MSG_NOSIGNAL), length);
}

/* One byte; false: an ending. */
static inline bool http_byte(int fd, char *to, http_ending *ending)
{
    const ssize_t n = recv(fd, to, 1, 0);

    if (n == 1)
        return true;
    assert_true(n == 0 || errno == ECONNRESET);
    *ending = n == 0 ? HTTP_ENDED : HTTP_WAS_RESET;
    return false;
}

/* Up to `most` bytes of a body, until there are so many or the connection ends. */
static inline void http_more(int fd, http_got *got, size_t most)
{
    assert_true(most < sizeof got->body);
    while (got->length < most && !got->ending) {
        const ssize_t n = recv(fd, got->body + got->length, most - got->length, 0);

        assert_true(n >= 0 || errno == ECONNRESET);
        if (n <= 0)
            got->ending = n == 0 ? HTTP_ENDED : HTTP_WAS_RESET;
        else
            got->length += (size_t)n;
    }
    got->body[got->length] = 0;
}

/* The value of a line of a head: NULL, there is none. */
static inline const char *http_line(const http_got *got, const char *name, char value[512])
{
    const http_request as = {.headers = strstr(got->head, "\r\n") + 2};

    return http_header(&as, name, value, 512);
}

/* A head, and as much of a body as Content-Length says, or `most` where that is not SIZE_MAX. */
static inline void http_take(int fd, http_got *got, size_t most)
{
    size_t n = 0;
    char value[512];

    *got = (http_got){0};
    while (n < sizeof got->head - 1 && http_byte(fd, got->head + n, &got->ending)) {
        n++;
        if (n >= 4 && memcmp(got->head + n - 4, "\r\n\r\n", 4) == 0) {
            got->status = (int)strtol(got->head + strlen("HTTP/1.1 "), NULL, 10);
            break;
        }
    }
    if (!got->status)
        return;
    if (most == SIZE_MAX)
        most = http_line(got, "Content-Length", value) ? strtoul(value, NULL, 10) : 0;
    http_more(fd, got, most);
}

/* A request of one line and more, by `fd`, and its answer. */
static inline void http_ask(int fd, const char *method, const char *target, const char *headers,
                            http_got *got)
{
    char text[4096];
    const int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n", method, target,
                           headers ? headers : "");

    http_send(fd, text, (size_t)n);
    http_take(fd, got, strcmp(method, "HEAD") == 0 ? 0 : SIZE_MAX);
}

/* The same by a connection of its own. */
static inline void http_once(const http_server *server, const char *method, const char *target,
                             const char *headers, http_got *got)
{
    const int fd = http_connect(server);

    http_ask(fd, method, target, headers, got);
    close(fd);
}

/* Whether nothing comes, as far as one can see in a moment. */
static inline bool http_silent(int fd)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 30) == 0;
}

/* What comes next: an ending, or HTTP_OPEN where it is a byte. */
static inline http_ending http_ends(int fd)
{
    http_ending ending = HTTP_OPEN;
    char byte;

    http_byte(fd, &byte, &ending);
    return ending;
}

#endif
