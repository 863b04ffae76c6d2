/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run by HTTP, from the page that it serves. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure/live.h"

#define ANSWER_MOST  65536 /* bytes, with its head */
#define REQUEST_MOST 2048
#define DEADLINE_NS  (UINT64_C(10) * 1000000000)
#define SCHEME       "http://"

/* Parts of a URL, as texts: "http://HOST[:PORT]/FOLDER/[?token=TOKEN]". */
typedef struct target {
    char host[256], port[8], folder[512], token[256];
    bool v6; /* in brackets */
} target;

static bool keep(char *to, size_t size, const char *from, size_t length)
{
    if (length >= size)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)from[i] <= ' ' || from[i] == 127)
            return false; /* nothing of it begins a line of the request */
    memcpy(to, from, length);
    to[length] = 0;
    return true;
}

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT" */
static bool take_host(target *t, const char *at, size_t length)
{
    const char *const end = at + length, *behind = memchr(at, ']', length), *colon;

    t->v6 = *at == '[' && behind;
    if (t->v6) {
        at++;
        colon = behind + 1 < end ? behind + 1 : NULL;
        length = (size_t)(behind - at);
    } else {
        colon = memchr(at, ':', length);
        length = (size_t)((colon ? colon : end) - at);
    }
    if (colon && *colon != ':')
        return false;
    return length && keep(t->host, sizeof t->host, at, length) &&
           (colon ? keep(t->port, sizeof t->port, colon + 1, (size_t)(end - colon - 1))
                  : keep(t->port, sizeof t->port, "80", 2));
}

/* The page may stand below a path, where something else hands it on. */
static bool take_url(const char *url, target *t)
{
    static const char name[] = "token=";
    size_t length;

    *t = (target){.folder = ""};
    if (strncmp(url, SCHEME, sizeof SCHEME - 1) != 0)
        return false;
    url += sizeof SCHEME - 1;
    length = strcspn(url, "/?#");
    if (length == 0 || !take_host(t, url, length))
        return false;
    url += length;
    length = strcspn(url, "?#");
    const char *query = url[length] == '?' ? url + length + 1 : "";
    while (length && url[length - 1] != '/')
        length--;
    if (!keep(t->folder, sizeof t->folder, url, length))
        return false;
    while (*query && strncmp(query, name, sizeof name - 1) != 0) {
        query += strcspn(query, "&");
        query += *query == '&';
    }
    if (*query)
        query += sizeof name - 1;
    return keep(t->token, sizeof t->token, query, strcspn(query, "&#"));
}

/* ---- Talking --------------------------------------------------------------------------------- */

static stk_status fail_talk(const target *t, int error, stk_error *err)
{
    const stk_status status = error == ETIMEDOUT                             ? STK_ETIMEDOUT
                              : error == ECONNREFUSED || error == ECONNRESET ? STK_ENOENT
                              : error == EFBIG                               ? STK_EFORMAT
                                                                             : STK_EIO;

    return stk__fail(err, status, STK_STAGE_MEASURE,
                     "%s, port %s: %s: 'stoker ... --dashboard' prints where its page is", t->host,
                     t->port, strerror(error));
}

/* 0, or an errno. */
static int wait_for(int fd, short what, uint64_t deadline_ns)
{
    struct pollfd poller = {.fd = fd, .events = what};

    for (;;) {
        const uint64_t now = stk__now_ns();
        if (now >= deadline_ns)
            return ETIMEDOUT;
        const int n = poll(&poller, 1, (int)((deadline_ns - now) / 1000000) + 1);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
    }
}

/* 0, or an errno; *out is -1 then. */
static int connect_to(const struct addrinfo *at, uint64_t deadline_ns, int *out)
{
    const int fd =
        socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    int error = fd < 0 ? errno : 0;
    socklen_t size = sizeof error;

    *out = -1;
    if (fd < 0)
        return error;
    if (connect(fd, at->ai_addr, at->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = wait_for(fd, POLLOUT, deadline_ns);
        if (!error && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error)
        close(fd);
    else
        *out = fd;
    return error;
}

static stk_status open_connection(const target *t, uint64_t *deadline_ns, int *out, stk_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    int error = ECONNREFUSED;

    const int code = getaddrinfo(t->host, t->port, &hints, &found);
    if (code != 0)
        return stk__fail(err, code == EAI_NONAME || code == EAI_SERVICE ? STK_EINVAL : STK_EIO,
                         STK_STAGE_MEASURE, "'%s', port '%s': %s", t->host, t->port,
                         gai_strerror(code));
    *deadline_ns = stk__now_ns() + DEADLINE_NS;
    *out = -1;
    for (const struct addrinfo *at = found; at && *out < 0; at = at->ai_next)
        error = connect_to(at, *deadline_ns, out);
    freeaddrinfo(found);
    return *out >= 0 ? STK_OK : fail_talk(t, error, err);
}

static int send_all(int fd, const char *text, uint64_t deadline_ns)
{
    size_t left = strlen(text);

    while (left) {
        const ssize_t n = send(fd, text, left, MSG_NOSIGNAL);
        const int error = n >= 0 ? 0 : errno == EAGAIN ? wait_for(fd, POLLOUT, deadline_ns) : errno;
        if (error && error != EINTR)
            return error;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* To the end of the connection. EFBIG: more than there is room for. */
static int receive_all(int fd, char *text, size_t room, uint64_t deadline_ns, size_t *length)
{
    *length = 0;
    for (;;) {
        const ssize_t n = recv(fd, text + *length, room - *length, 0);
        if (n == 0)
            return 0;
        const int error = n > 0 ? 0 : errno == EAGAIN ? wait_for(fd, POLLIN, deadline_ns) : errno;
        if (error && error != EINTR)
            return error;
        *length += n > 0 ? (size_t)n : 0;
        if (*length == room)
            return EFBIG;
    }
}

static stk_status ask(const target *t, char *answer, size_t room, size_t *length, stk_error *err)
{
    char request[REQUEST_MOST];
    uint64_t deadline_ns = 0;
    int fd;

    snprintf(request, sizeof request,
             "GET %s%sstatus HTTP/1.0\r\nHost: %s%s%s:%s\r\nAccept: application/json\r\n%s%s%s\r\n",
             t->folder, *t->folder ? "" : "/", t->v6 ? "[" : "", t->host, t->v6 ? "]" : "", t->port,
             *t->token ? "Authorization: Bearer " : "", t->token, *t->token ? "\r\n" : "");
    STK_TRY(open_connection(t, &deadline_ns, &fd, err));
    int error = send_all(fd, request, deadline_ns);
    if (!error)
        error = receive_all(fd, answer, room, deadline_ns, length);
    close(fd);
    return error ? fail_talk(t, error, err) : STK_OK;
}

/* ---- The state ------------------------------------------------------------------------------- */

/* Behind the head of an answer with the status 200. */
static stk_status body_of(const target *t, const char *answer, size_t length, const char **body,
                          stk_error *err)
{
    int status = 0;

    *body = strstr(answer, "\r\n\r\n");
    if (length < sizeof "HTTP/1.0 200" || strlen(answer) != length || !*body ||
        sscanf(answer, "HTTP/%*1d.%*1d %3d", &status) != 1)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_MEASURE,
                         "%s, port %s: what answers there is no page of Stoker", t->host, t->port);
    *body += 4;
    if (status == 200)
        return STK_OK;
    if (status == 401 || status == 403)
        return stk__fail(
            err, STK_EACCES, STK_STAGE_MEASURE,
            "%s, port %s: the page wants its token: give the URL as the run printed it", t->host,
            t->port);
    return stk__fail(err, STK_EIO, STK_STAGE_MEASURE,
                     "%s, port %s: the answer is %d: is this the URL that the run printed?",
                     t->host, t->port, status);
}

stk_status stk_live_fetch(const char *url, stk_live_state *out, stk_error *err)
{
    char answer[ANSWER_MOST];
    const char *body;
    size_t length = 0;
    target t;

    stk_error_init(err);
    if (!take_url(url, &t))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "this is no URL of a page: http://HOST:PORT/, with ?token=... where the "
                         "run printed one");
    STK_TRY(ask(&t, answer, sizeof answer - 1, &length, err));
    answer[length] = 0;
    STK_TRY(body_of(&t, answer, length, &body, err));
    return stk_live_parse(body, (size_t)(answer + length - body), out, err);
}
