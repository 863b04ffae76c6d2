/* SPDX-License-Identifier: Apache-2.0 */
#include "support/http_connection.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MOST  ((size_t)64 << 10)
#define BODY_MOST  (UINT64_C(1) << 30)
#define IN_KEPT    ((size_t)256 << 10) /* of a buffer, for the next request */
#define TURN       (UINT64_C(1) << 20) /* bytes, then others have theirs */
#define QUANTUM    UINT64_C(65536)
#define MS         UINT64_C(1000000)
#define LATE       (2 * MS)    /* what is sent late may be made up for */
#define RESET_WAIT (2000 * MS) /* for what was sent to arrive */
#define DRAIN_WAIT (1000 * MS)

http_connection *http_connection_create(http_server *server, int fd)
{
    http_connection *c = calloc(1, sizeof *c);

    if (!c || (server->tls && !(c->tls = http_tls_open(server->tls, fd)))) {
        free(c);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->server = server;
    c->fd = fd;
    c->timer = HTTP_NO_TIMER;
    c->answer.object.fd = -1;
    c->number = atomic_fetch_add(&server->figures.connections, 1);
    http_count_up(&server->figures.open, &server->figures.most_connections);
    if (http_faults_choose(server->faults, NULL, 0, &c->fault))
        atomic_fetch_add(&server->figures.struck, 1);
    c->due = c->fault.latency_ms ? http_now() + c->fault.latency_ms * MS : 0;
    return c;
}

/* The request is answered, or will never be. */
static void end_request(http_connection *c)
{
    if (c->active)
        atomic_fetch_sub(&c->server->figures.active, 1);
    c->active = false;
}

void http_connection_destroy(http_connection *c)
{
    end_request(c);
    if (!c->uncounted)
        atomic_fetch_sub(&c->server->figures.open, 1);
    if (c->reset)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                   sizeof(struct linger));
    http_tls_close(c->tls, false);
    close(c->fd);
    http_answer_release(&c->answer);
    http_text_free(&c->answer.head);
    http_text_free(&c->path);
    http_fault_release(&c->fault);
    free(c->in);
    free(c);
}

static http_next until(http_connection *c, uint64_t due)
{
    c->due = due;
    return HTTP_WAIT_UNTIL_DUE;
}

/* ---- Bandwidth ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* How many of `left` bytes may go now, a few at a time; 0: none before c->due. */
static uint64_t grant(http_connection *c, uint64_t rate, uint64_t all, uint64_t left, uint64_t now)
{
    if (!c->granted) {
        uint64_t start = rate && c->paced + LATE > now ? c->paced : now - LATE;

        c->granted = least(rate, all) / 1000 + 1;
        if (c->granted > QUANTUM)
            c->granted = QUANTUM;
        if (c->granted > left)
            c->granted = left;
        if (all) {
            const uint64_t shared = http_server_promise(c->server, c->granted, now);

            start = shared > start ? shared : start;
        }
        c->promised = start;
        c->paced = rate ? start + c->granted * UINT64_C(1000000000) / rate : start;
    }
    c->due = c->promised;
    return c->promised > now ? 0 : c->granted;
}

/* How much of an answer may be sent now; 0: nothing before c->due. */
static uint64_t allowance(http_connection *c, uint64_t now)
{
    const http_server *server = c->server;
    const uint64_t own = c->fault.in_upload ? 0 : c->fault.bandwidth;
    const uint64_t rate = c->aside ? 0 : least(own, atomic_load(&server->shape.bandwidth));
    const uint64_t all = c->aside ? 0 : atomic_load(&server->shape.bandwidth_all);
    const http_answer *a = &c->answer;

    if (!rate && !all)
        return TURN;
    if (a->sent < a->head.length)
        return a->head.length - a->sent;
    return grant(c, rate, all, a->end - a->sent, now);
}

/* ---- In ---- */

static bool room(http_connection *c, size_t size)
{
    if (size <= c->in_size)
        return true;
    char *in = realloc(c->in, size);
    if (!in)
        return false;
    c->in = in;
    c->in_size = size;
    return true;
}

static http_next read_more(http_connection *c, uint64_t now)
{
    if (!c->readable)
        return c->gone ? HTTP_END : HTTP_WAIT;
    if (c->in_length == c->in_size && !room(c, c->in_size ? 2 * c->in_size : 4096))
        return HTTP_END;
    size_t most = c->in_size - c->in_length;
    const bool slow = c->head_length && c->fault.in_upload && c->fault.bandwidth;
    if (slow && !(most = (size_t)grant(c, c->fault.bandwidth, 0, most, now)))
        return HTTP_WAIT_UNTIL_DUE;
    const ssize_t n = c->tls ? http_tls_read(c->tls, c->in + c->in_length, most)
                             : recv(c->fd, c->in + c->in_length, most, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return HTTP_END;
    if (n < 0 || (!c->tls && (size_t)n < most))
        c->readable = n < 0 && errno == EINTR; /* an edge tells of more */
    if (n > 0)
        c->in_length += (size_t)n;
    if (n > 0 && slow)
        c->granted -= (uint64_t)n;
    return HTTP_GO_ON;
}

/* The head is complete in c->in: take it apart in its place. The status of an error, or 0. */
static int parse(http_connection *c)
{
    char value[64], *end;
    char *line_end = memmem(c->in, c->head_length, "\r\n", 2);
    char *target = memchr(c->in, ' ', (size_t)(line_end - c->in));
    char *version = target ? memchr(target + 1, ' ', (size_t)(line_end - target - 1)) : NULL;

    if (!version || strncmp(version + 1, "HTTP/1.", 7) != 0)
        return 400;
    *target++ = *version++ = 0;
    c->in[c->head_length - 2] = 0;
    c->request = (http_request){
        .method = c->in, .target = target, .headers = line_end + 2, .connection = c->number};
    /* What is asked of a proxy names the server as well. */
    if (strncmp(target, "http://", 7) == 0 && strchr(target + 7, '/'))
        target = strchr(target + 7, '/');
    const char *query = strchr(target, '?');
    c->request.query = query ? query + 1 : "";
    c->path.length = 0;
    http_text_decode(&c->path, target, query ? (size_t)(query - target) : strlen(target));
    if (c->path.failed)
        return 500;
    c->request.path = c->path.length ? c->path.data : "";
    c->last = version[7] == '0';
    if (http_header(&c->request, "Connection", value, sizeof value))
        c->last = strcasecmp(value, "close") == 0;
    if (http_header(&c->request, "Transfer-Encoding", value, sizeof value))
        return 411;
    if (!http_header(&c->request, "Content-Length", value, sizeof value))
        return 0;
    const uint64_t length = strtoull(value, &end, 10);
    if (*end || length > BODY_MOST)
        return *end ? 400 : 413;
    c->body_length = (size_t)length;
    return 0;
}

static http_next begin_answer(http_connection *c, uint64_t now)
{
    const uint32_t latency =
        c->aside ? 0 : c->fault.latency_ms + atomic_load(&c->server->shape.latency_ms);

    if (c->answer.status >= 400 && !c->aside)
        atomic_fetch_add(&c->server->figures.failed, 1);
    c->answer.last |= c->last;
    c->granted = 0;
    c->turn = 0;
    c->state = HTTP_SENDING;
    if (!latency)
        return HTTP_GO_ON;
    c->state = HTTP_WAITING;
    return until(c, now + latency * MS);
}

/* What is no request gets an answer, and the connection ends. */
static http_next refuse(http_connection *c, int status, uint64_t now)
{
    c->request = (http_request){.method = "", .target = "", .path = "", .query = "", .headers = ""};
    http_fault_release(&c->fault);
    c->fault = (http_fault){.status = status};
    http_answer_make(c->server, &c->request, &c->fault, &c->answer);
    c->last = true;
    c->in_length = 0;
    return begin_answer(c, now);
}

static void count_request(http_connection *c)
{
    http_figures *f = &c->server->figures;
    const char *method = c->request.method;
    char value[8];

    c->request.number = atomic_fetch_add(&f->requests, 1);
    c->active = true;
    c->round = atomic_load(&f->rounds) + 1;
    http_count_up(&f->active, &f->most_requests);
    if (strcmp(method, "HEAD") == 0)
        atomic_fetch_add(&f->heads, 1);
    else if (strcmp(method, "GET") != 0)
        atomic_fetch_add(&f->changes, 1);
    if (http_header(&c->request, "Range", value, sizeof value))
        atomic_fetch_add(&f->ranges, 1);
    atomic_fetch_add(&f->bytes_taken, c->request.body_length);
}

/* The test sees it, and may have it struck by something else. */
static void show(http_connection *c)
{
    const http_server_options *options = &c->server->options;
    http_fault fault;

    if (!options->seen)
        return;
    memcpy(&fault, &c->fault, sizeof fault);
    pthread_mutex_lock(&c->server->seeing);
    options->seen(options->user, &c->request, &fault);
    const bool other = memcmp(&fault, &c->fault, sizeof fault) != 0;
    const bool own = !other || http_fault_own(&fault);
    pthread_mutex_unlock(&c->server->seeing);
    if (!other)
        return;
    http_fault_release(&c->fault);
    c->fault = fault;
    if (own)
        atomic_fetch_add(&c->server->figures.struck, 1);
}

/* All of it is there. */
static http_next answer(http_connection *c, uint64_t now)
{
    const size_t taken = c->head_length + c->body_length;

    c->request.body = c->in + c->head_length;
    c->request.body_length = c->body_length;
    if (!c->aside) {
        count_request(c);
        show(c);
    }
    http_answer_make(c->server, &c->request, &c->fault, &c->answer);
    memmove(c->in, c->in + taken, c->in_length - taken);
    c->in_length -= taken;
    c->head_length = c->body_length = 0;
    if (c->in_size > IN_KEPT && c->in_length == 0) {
        free(c->in);
        c->in = NULL;
        c->in_size = 0;
    }
    return begin_answer(c, now);
}

/* An end in the middle of what a client sends. */
static http_next cut_upload(http_connection *c)
{
    c->answer.cut = c->fault.cut;
    c->answer.last = true;
    c->in_length = 0;
    c->state = HTTP_SENDING; /* nothing, up to the cut */
    return HTTP_GO_ON;
}

/* For all of the request, which stays in its place from then on. */
static bool make_room(http_connection *c)
{
    http_request *r = &c->request;
    const size_t target = (size_t)(r->target - c->in), headers = (size_t)(r->headers - c->in);
    const size_t query = *r->query ? (size_t)(r->query - c->in) : 0;

    if (!room(c, c->head_length + c->body_length))
        return false;
    r->method = c->in;
    r->target = c->in + target;
    r->headers = c->in + headers;
    r->query = query ? c->in + query : "";
    return true;
}

static http_next begin_request(http_connection *c, uint64_t now)
{
    char value[32];
    int status;
    const char *blank = c->in_length ? memmem(c->in, c->in_length, "\r\n\r\n", 4) : NULL;

    if (!blank)
        return c->in_length >= HEAD_MOST ? refuse(c, 431, now) : read_more(c, now);
    c->head_length = (size_t)(blank - c->in) + 4;
    status = memchr(c->in, 0, c->head_length) ? 400 : parse(c);
    if (status == 0 && !make_room(c))
        status = 500;
    if (status) {
        c->head_length = c->body_length = 0;
        return refuse(c, status, now);
    }
    http_fault_release(&c->fault);
    c->fault = (http_fault){0};
    c->aside = http_control(c->server, &c->request);
    if (c->aside && !c->uncounted) {
        c->uncounted = true;
        atomic_fetch_sub(&c->server->figures.connections, 1);
        atomic_fetch_sub(&c->server->figures.open, 1);
    }
    if (!c->aside && http_faults_choose(c->server->faults, &c->request,
                                        atomic_load(&c->server->figures.active), &c->fault))
        atomic_fetch_add(&c->server->figures.struck, 1);
    if (c->fault.in_upload && c->fault.bandwidth) /* what waits in the system is no upload yet */
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &(int){(int)QUANTUM}, sizeof(int));
    c->granted = 0;
    if (c->in_length < c->head_length + c->body_length &&
        http_header(&c->request, "Expect", value, sizeof value)) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        if (c->tls)
            http_tls_write(c->tls, go_on, sizeof go_on - 1);
        else
            send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL);
    }
    return HTTP_GO_ON;
}

static http_next step_reading(http_connection *c, uint64_t now)
{
    if (!c->head_length)
        return begin_request(c, now);
    const size_t body = c->in_length - c->head_length;
    if (c->fault.in_upload && c->fault.cut && body >= (uint64_t)c->fault.at)
        return cut_upload(c);
    return body >= c->body_length ? answer(c, now) : read_more(c, now);
}

/* ---- Out ---- */

static ssize_t send_tls(http_connection *c, size_t most)
{
    char buffer[16384];
    const char *piece;
    const size_t n =
        http_answer_piece(&c->answer, buffer, most < sizeof buffer ? most : sizeof buffer, &piece);

    return n ? http_tls_write(c->tls, piece, n) : 0;
}

static ssize_t send_plain(http_connection *c, size_t most)
{
    http_answer *a = &c->answer;
    const char *piece;
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
    int flags = MSG_NOSIGNAL;

    if (http_answer_by_file(a)) {
        const uint64_t at = a->sent - a->head.length, left = a->end - a->sent;
        off_t from = (off_t)(a->offset + at);
        size_t n = left < most ? (size_t)left : most;

        n = n < a->length - at ? n : (size_t)(a->length - at);
        return sendfile(c->fd, a->object.fd, &from, n);
    }
    size_t n = http_answer_piece(a, NULL, most, &piece);
    parts[0] = (struct iovec){.iov_base = (void *)piece, .iov_len = n};
    if (a->sent + n == a->head.length && n < most && a->sent + n < a->end) {
        a->sent += n;
        if (http_answer_by_file(a)) {
            flags |= MSG_MORE;
        } else {
            parts[1].iov_len = http_answer_piece(a, NULL, most - n, &piece);
            parts[1].iov_base = (void *)piece;
            message.msg_iovlen = 2;
        }
        a->sent -= n;
    }
    return sendmsg(c->fd, &message, flags);
}

static http_next end_answer(http_connection *c, uint64_t now)
{
    const http_answer *a = &c->answer;

    if (a->cut == HTTP_STALL) {
        c->state = HTTP_STALLED;
        return HTTP_GO_ON;
    }
    end_request(c);
    if (a->cut == HTTP_RESET) {
        c->state = HTTP_RESETTING;
        c->promised = now + RESET_WAIT;
        return HTTP_GO_ON;
    }
    if (a->cut == HTTP_CLOSE || a->last) {
        http_tls_close(c->tls, a->cut == HTTP_UNCUT);
        c->tls = NULL;
        shutdown(c->fd, SHUT_WR);
        c->state = HTTP_DRAINING;
        return until(c, now + DRAIN_WAIT);
    }
    http_answer_release(&c->answer);
    http_fault_release(&c->fault);
    c->state = HTTP_READING;
    return HTTP_GO_ON;
}

/* Of so many bytes of an answer, those of the body. */
static uint64_t body_of(const http_answer *a, uint64_t sent)
{
    return sent > a->head.length ? sent - a->head.length : 0;
}

/* The client is about to have all of the answer: what it asks now may follow from that. */
static void end_round(http_connection *c)
{
    _Atomic uint64_t *rounds = &c->server->figures.rounds;
    uint64_t before = atomic_load(rounds);

    while (before < c->round && !atomic_compare_exchange_weak(rounds, &before, c->round)) {
    }
}

static http_next step_sending(http_connection *c, uint64_t now)
{
    http_answer *a = &c->answer;

    if (a->sent == a->end)
        return end_answer(c, now);
    if (!c->writable)
        return HTTP_WAIT;
    const uint64_t most = allowance(c, now);
    if (most == 0)
        return HTTP_WAIT_UNTIL_DUE;
    if (a->end - a->sent <= most && !c->aside)
        end_round(c);
    /* Counted before a client can see them. */
    _Atomic uint64_t *sent = &c->server->figures.bytes_sent;
    const uint64_t before = body_of(a, a->sent);
    const uint64_t counted = body_of(a, a->end - a->sent < most ? a->end : a->sent + most) - before;
    atomic_fetch_add(sent, counted);
    const ssize_t n = c->tls ? send_tls(c, most) : send_plain(c, most);
    atomic_fetch_sub(sent, counted - (body_of(a, a->sent + (n > 0 ? (uint64_t)n : 0)) - before));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        c->writable = errno == EINTR;
        return HTTP_GO_ON;
    }
    if (n <= 0)
        return HTTP_END;
    if (c->granted)
        c->granted -= (uint64_t)n < c->granted ? (uint64_t)n : c->granted;
    a->sent += (uint64_t)n;
    c->turn += (uint64_t)n;
    if (c->turn < TURN || a->sent == a->end)
        return HTTP_GO_ON;
    c->turn = 0;
    return until(c, now);
}

/* ---- Beginnings and ends ---- */

static http_next step_opening(http_connection *c, uint64_t now)
{
    if (c->due > now)
        return HTTP_WAIT_UNTIL_DUE;
    if (c->fault.cut && c->fault.at && !c->readable)
        return c->gone ? HTTP_END : HTTP_WAIT;
    c->state = HTTP_READING;
    if (c->fault.cut == HTTP_STALL)
        c->state = HTTP_STALLED;
    c->reset = c->fault.cut == HTTP_RESET;
    return c->fault.cut && c->fault.cut != HTTP_STALL ? HTTP_END : HTTP_GO_ON;
}

static http_next step_resetting(http_connection *c, uint64_t now)
{
    int left = 0;

    c->reset = true;
    if (now >= c->promised || ioctl(c->fd, SIOCOUTQ, &left) != 0 || left == 0)
        return HTTP_END;
    return until(c, now + MS);
}

static http_next step_draining(http_connection *c, uint64_t now)
{
    char thrown[4096];

    if (now >= c->due)
        return HTTP_END;
    if (!c->readable)
        return c->gone ? HTTP_END : HTTP_WAIT_UNTIL_DUE;
    const ssize_t n = recv(c->fd, thrown, sizeof thrown, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return HTTP_END;
    if (n < 0)
        c->readable = errno == EINTR;
    return HTTP_GO_ON;
}

http_next http_connection_step(http_connection *c, uint64_t now)
{
    switch (c->state) {
    case HTTP_OPENING:
        return step_opening(c, now);
    case HTTP_READING:
        return step_reading(c, now);
    case HTTP_WAITING:
        if (c->gone)
            return HTTP_END;
        if (c->due > now)
            return HTTP_WAIT_UNTIL_DUE;
        c->state = HTTP_SENDING;
        return HTTP_GO_ON;
    case HTTP_SENDING:
        return step_sending(c, now);
    case HTTP_STALLED:
        return c->gone ? HTTP_END : HTTP_WAIT;
    case HTTP_RESETTING:
        return step_resetting(c, now);
    case HTTP_DRAINING:
        return step_draining(c, now);
    }
    return HTTP_END;
}
