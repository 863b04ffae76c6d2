/* A proxy that leads to servers by CONNECT, one connection at a time for each thread of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_TUNNEL_H
#define STK_TESTS_SUPPORT_TUNNEL_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/support.h"

#define TUNNEL_THREADS 8

typedef struct tunnel {
    int listener, port;
    const char *answer; /* to CONNECT; "": none */
    int target;         /* port of this machine that all is led to */
    pthread_t threads[TUNNEL_THREADS];
    atomic_int connects;
} tunnel;

static inline int tunnel_socket(int port, bool listens)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *at = (const struct sockaddr *)&address;

    if (listens ? bind(fd, at, sizeof address) || listen(fd, 64)
                : connect(fd, at, sizeof address)) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline bool tunnel_move(int from, int to)
{
    char buffer[16384];
    const ssize_t n = recv(from, buffer, sizeof buffer, 0);

    return n > 0 && send(to, buffer, (size_t)n, MSG_NOSIGNAL) == n;
}

static inline void tunnel_serve(tunnel *t, int client)
{
    char head[4096];
    size_t length = 0;

    while (length + 1 < sizeof head && recv(client, head + length, 1, 0) == 1) {
        head[++length] = 0;
        if (length >= 4 && strcmp(head + length - 4, "\r\n\r\n") == 0)
            break;
    }
    if (strncmp(head, "CONNECT ", 8) != 0)
        return;
    atomic_fetch_add(&t->connects, 1);
    const int server = tunnel_socket(t->target, false);
    struct pollfd both[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool open = server >= 0 && send(client, t->answer, strlen(t->answer), MSG_NOSIGNAL) >= 0;
    while (open && poll(both, 2, -1) > 0) {
        if (both[0].revents)
            open = tunnel_move(client, server);
        if (open && both[1].revents)
            open = tunnel_move(server, client);
    }
    if (server >= 0)
        close(server);
}

static inline void *tunnel_work(void *argument)
{
    tunnel *t = argument;
    int client;

    while ((client = accept(t->listener, NULL, NULL)) >= 0) {
        tunnel_serve(t, client);
        close(client);
    }
    return NULL;
}

static inline void tunnel_start(tunnel *t, const char *answer, int target)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;

    *t = (tunnel){.answer = answer, .target = target, .listener = tunnel_socket(0, true)};
    assert_true(t->listener >= 0);
    assert_int_equal(getsockname(t->listener, (struct sockaddr *)&address, &size), 0);
    t->port = ntohs(address.sin_port);
    for (size_t i = 0; i < TUNNEL_THREADS; i++)
        assert_int_equal(pthread_create(&t->threads[i], NULL, tunnel_work, t), 0);
}

/* Its clients have gone. */
static inline void tunnel_stop(tunnel *t)
{
    shutdown(t->listener, SHUT_RDWR);
    for (size_t i = 0; i < TUNNEL_THREADS; i++)
        pthread_join(t->threads[i], NULL);
    close(t->listener);
}

#endif
