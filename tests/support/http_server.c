/* SPDX-License-Identifier: Apache-2.0 */
#include "support/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/http_mlflow.h"

#define BACKLOG 4096
#define LATE    UINT64_C(2000000) /* ns: what is sent late may be made up for */

uint64_t http_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- Start and stop ---- */

/* A socket with a port; it refuses connections until it listens. */
static int bind_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int listen_at(int port)
{
    const int fd = bind_to(port);

    if (fd < 0 || listen(fd, BACKLOG) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool start(http_server *server, const http_server_options *options)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    const int threads = options->threads < 1                  ? 1
                        : options->threads > HTTP_THREADS_MAX ? HTTP_THREADS_MAX
                                                              : options->threads;

    if (options->certificate &&
        !(server->tls = http_tls_create(options->certificate, options->key)))
        return false;
    if (options->token && !(server->token = strdup(options->token)))
        return false;
    if (!(server->objects = http_objects_create(options->root)) ||
        !(server->faults = http_faults_create(options->seed)) ||
        !(server->uploads = http_uploads_create()) ||
        (options->mlflow && !(server->mlflow = http_mlflow_create())) ||
        (server->keeper = bind_to(options->port)) < 0 ||
        getsockname(server->keeper, (struct sockaddr *)&address, &length) != 0)
        return false;
    server->port = ntohs(address.sin_port);
    if ((server->listener = listen_at(server->port)) < 0)
        return false;
    snprintf(server->url, sizeof server->url, "%s://127.0.0.1:%d", server->tls ? "https" : "http",
             server->port);
    for (int i = 0; i < threads; i++) {
        if (!(server->loops[i] = http_loop_start(server, server->listener)))
            return false;
        server->n_loops++;
    }
    return true;
}

http_server *http_server_start(const http_server_options *options)
{
    http_server *server = calloc(1, sizeof *server);

    if (!server)
        return NULL;
    server->options = *options;
    server->options.root = server->options.token = NULL;
    server->options.certificate = server->options.key = NULL;
    server->listener = server->keeper = -1;
    pthread_mutex_init(&server->lock, NULL);
    pthread_mutex_init(&server->seeing, NULL);
    if (!start(server, options)) {
        const int error = errno;

        http_server_stop(&server);
        errno = error;
    }
    return server;
}

void http_server_stop(http_server **server)
{
    http_server *s = *server;

    *server = NULL;
    if (!s)
        return;
    atomic_store(&s->stopping, true);
    for (int i = 0; i < s->n_loops; i++)
        http_loop_join(s->loops[i]);
    if (s->listener >= 0)
        close(s->listener);
    if (s->keeper >= 0)
        close(s->keeper);
    http_objects_destroy(s->objects);
    http_faults_destroy(s->faults);
    http_uploads_destroy(s->uploads);
    http_mlflow_destroy(s->mlflow);
    http_tls_destroy(s->tls);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->seeing);
    free(s->token);
    free(s);
}

char *http_server_mlflow(http_server *server)
{
    http_text text = {0};

    http_mlflow_dump(server->mlflow, &text);
    if (!text.failed)
        return text.data;
    http_text_free(&text);
    return NULL;
}

const char *http_server_url(const http_server *server)
{
    return server->url;
}

int http_server_port(const http_server *server)
{
    return server->port;
}

/* ---- Connections ---- */

int http_server_accept(http_server *server)
{
    int fd = -1;

    pthread_mutex_lock(&server->lock);
    if (server->listener >= 0)
        fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    pthread_mutex_unlock(&server->lock);
    return fd;
}

bool http_server_listen(http_server *server, bool listening)
{
    bool good = true;

    pthread_mutex_lock(&server->lock);
    if (!listening && server->listener >= 0) {
        close(server->listener);
        server->listener = -1;
    } else if (listening && server->listener < 0) {
        server->listener = listen_at(server->port);
        good = server->listener >= 0;
        for (int i = 0; good && i < server->n_loops; i++)
            good = http_loop_listen(server->loops[i], server->listener);
    }
    pthread_mutex_unlock(&server->lock);
    return good;
}

void http_server_drop(http_server *server)
{
    const unsigned drops = atomic_fetch_add(&server->drops, 1) + 1;

    for (int i = 0; i < server->n_loops; i++)
        http_loop_wake(server->loops[i]);
    for (int i = 0; i < server->n_loops; i++)
        while (!http_loop_dropped(server->loops[i], drops))
            usleep(100);
}

/* ---- Objects and faults ---- */

bool http_server_put(http_server *server, const char *path, const void *data, size_t length)
{
    return http_objects_put(server->objects, path, data, length, NULL);
}

bool http_server_remove(http_server *server, const char *path)
{
    return http_objects_remove(server->objects, path);
}

void http_server_generate(http_server *server, const char *folder, uint64_t count, uint64_t each,
                          uint64_t size)
{
    http_objects_generate(server->objects, folder, count, each, size);
}

void *http_server_get(http_server *server, const char *path, size_t *length)
{
    http_object object;
    char *data = NULL;

    *length = 0;
    if (!http_objects_open(server->objects, path, &object))
        return NULL;
    if ((data = malloc((size_t)object.size + 1))) {
        size_t n;

        while (
            (n = http_object_read(&object, *length, data + *length, (size_t)object.size - *length)))
            *length += n;
        data[*length] = 0;
    }
    http_object_close(&object);
    return data;
}

int http_server_fault(http_server *server, const http_fault *fault)
{
    return http_faults_add(server->faults, fault);
}

int http_server_fault_text(http_server *server, const char *text)
{
    return http_faults_add_text(server->faults, text);
}

uint64_t http_server_struck(http_server *server, int fault)
{
    return http_faults_struck(server->faults, fault);
}

void http_server_mend(http_server *server)
{
    http_faults_clear(server->faults);
}

void http_server_shape(http_server *server, uint32_t latency_ms, uint64_t bandwidth,
                       uint64_t bandwidth_all)
{
    atomic_store(&server->shape.latency_ms, latency_ms);
    atomic_store(&server->shape.bandwidth, bandwidth);
    atomic_store(&server->shape.bandwidth_all, bandwidth_all);
}

uint64_t http_server_promise(http_server *server, uint64_t bytes, uint64_t now)
{
    const uint64_t rate = atomic_load(&server->shape.bandwidth_all);

    pthread_mutex_lock(&server->lock);
    const uint64_t start = server->all_due + LATE > now ? server->all_due : now - LATE;
    server->all_due = start + (rate ? bytes * UINT64_C(1000000000) / rate : 0);
    pthread_mutex_unlock(&server->lock);
    return start;
}

/* ---- The token ---- */

void http_server_token(http_server *server, const char *token)
{
    char *copy = token ? strdup(token) : NULL;

    pthread_mutex_lock(&server->lock);
    char *old = server->token;
    server->token = copy;
    pthread_mutex_unlock(&server->lock);
    free(old);
}

bool http_server_token_right(http_server *server, const http_request *request)
{
    char value[4096];
    const char *given = http_header(request, "Authorization", value, sizeof value);

    if (given)
        given = strncmp(given, "Bearer ", 7) == 0 ? given + 7 : NULL;
    pthread_mutex_lock(&server->lock);
    const bool right = !server->token || (given && strcmp(given, server->token) == 0);
    pthread_mutex_unlock(&server->lock);
    return right;
}

/* ---- Counters ---- */

void http_count_up(_Atomic uint64_t *now, _Atomic uint64_t *most)
{
    const uint64_t n = atomic_fetch_add(now, 1) + 1;
    uint64_t before = atomic_load(most);

    while (before < n && !atomic_compare_exchange_weak(most, &before, n)) {
    }
}

http_counters http_server_counters(http_server *server)
{
    http_figures *f = &server->figures;

    return (http_counters){
        .requests = atomic_load(&f->requests),
        .ranges = atomic_load(&f->ranges),
        .heads = atomic_load(&f->heads),
        .changes = atomic_load(&f->changes),
        .lists = atomic_load(&f->lists),
        .failed = atomic_load(&f->failed),
        .struck = atomic_load(&f->struck),
        .bytes_sent = atomic_load(&f->bytes_sent),
        .bytes_taken = atomic_load(&f->bytes_taken),
        .connections = atomic_load(&f->connections),
        .open = atomic_load(&f->open),
        .most_connections = atomic_load(&f->most_connections),
        .active = atomic_load(&f->active),
        .most_requests = atomic_load(&f->most_requests),
        .rounds = atomic_load(&f->rounds),
    };
}

void http_server_reset_counters(http_server *server)
{
    http_figures *f = &server->figures;
    _Atomic uint64_t *const counters[] = {
        &f->requests, &f->ranges,     &f->heads,       &f->changes,     &f->lists,  &f->failed,
        &f->struck,   &f->bytes_sent, &f->bytes_taken, &f->connections, &f->rounds,
    };

    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        atomic_store(counters[i], 0);
    atomic_store(&f->most_connections, atomic_load(&f->open));
    atomic_store(&f->most_requests, atomic_load(&f->active));
}
