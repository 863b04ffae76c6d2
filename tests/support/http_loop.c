/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/http_connection.h"

#define EVENTS      64
#define ACCEPT_MOST 64 /* connections at a time, then those that are open have their turn */

/* What an event is of, where it is not of a connection. */
static char is_listener, is_wake;

struct http_loop {
    http_server *server;
    pthread_t thread;
    int epoll;
    int wake;
    atomic_uint drops; /* of the server's, that were done */
    http_connection *first;
    http_connection **timers; /* a heap by `due` */
    size_t n_timers;
    size_t timers_size;
};

/* ---- Timers ---- */

static void set_timer(http_loop *loop, size_t at, http_connection *c)
{
    loop->timers[at] = c;
    c->timer = at;
}

static void sift(http_loop *loop, size_t at)
{
    http_connection *c = loop->timers[at];

    for (size_t up; at && loop->timers[up = (at - 1) / 2]->due > c->due; at = up)
        set_timer(loop, at, loop->timers[up]);
    for (;;) {
        size_t down = 2 * at + 1;

        if (down + 1 < loop->n_timers && loop->timers[down + 1]->due < loop->timers[down]->due)
            down++;
        if (down >= loop->n_timers || loop->timers[down]->due >= c->due)
            break;
        set_timer(loop, at, loop->timers[down]);
        at = down;
    }
    set_timer(loop, at, c);
}

static void remove_timer(http_loop *loop, http_connection *c)
{
    const size_t at = c->timer;

    if (at == HTTP_NO_TIMER)
        return;
    c->timer = HTTP_NO_TIMER;
    http_connection *last = loop->timers[--loop->n_timers];
    if (last == c)
        return;
    set_timer(loop, at, last);
    sift(loop, at);
}

static bool add_timer(http_loop *loop, http_connection *c)
{
    if (loop->n_timers == loop->timers_size) {
        const size_t size = loop->timers_size ? 2 * loop->timers_size : 64;
        http_connection **timers = realloc(loop->timers, size * sizeof *timers);

        if (!timers)
            return false;
        loop->timers = timers;
        loop->timers_size = size;
    }
    set_timer(loop, loop->n_timers++, c);
    sift(loop, c->timer);
    return true;
}

/* ---- Connections ---- */

static void end_connection(http_loop *loop, http_connection *c)
{
    remove_timer(loop, c);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    http_connection_destroy(c);
}

static void run_connection(http_loop *loop, http_connection *c, uint64_t now)
{
    http_next next;

    remove_timer(loop, c);
    do
        next = http_connection_step(c, now);
    while (next == HTTP_GO_ON);
    if (next == HTTP_END || (next == HTTP_WAIT_UNTIL_DUE && !add_timer(loop, c)))
        end_connection(loop, c);
}

static void accept_some(http_loop *loop)
{
    for (int i = 0; i < ACCEPT_MOST; i++) {
        const int fd = http_server_accept(loop->server);
        if (fd < 0)
            return;
        http_connection *c = http_connection_create(loop->server, fd);
        if (!c)
            continue;
        c->next = loop->first;
        c->link = &loop->first;
        if (c->next)
            c->next->link = &c->next;
        loop->first = c;
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                    .data.ptr = c};
        if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
            end_connection(loop, c);
        else
            run_connection(loop, c, http_now());
    }
}

static void on_event(http_loop *loop, const struct epoll_event *event, uint64_t now)
{
    http_connection *c = event->data.ptr;

    if (event->events & (EPOLLERR | EPOLLHUP) && c->state != HTTP_RESETTING) {
        end_connection(loop, c);
        return;
    }
    c->readable |= (event->events & EPOLLIN) || c->tls;
    c->writable |= (event->events & EPOLLOUT) || c->tls;
    c->gone |= !!(event->events & EPOLLRDHUP);
    c->turn = 0;
    run_connection(loop, c, now);
}

static void drop(http_loop *loop)
{
    const unsigned drops = atomic_load(&loop->server->drops);

    if (drops == atomic_load(&loop->drops))
        return;
    while (loop->first) {
        loop->first->reset = true;
        end_connection(loop, loop->first);
    }
    atomic_store(&loop->drops, drops);
}

/* Those whose time has come; what they ask for now is done in the next round. */
static void run_timers(http_loop *loop)
{
    const uint64_t now = http_now();

    for (size_t n = loop->n_timers; n && loop->n_timers && loop->timers[0]->due <= now; n--)
        run_connection(loop, loop->timers[0], now);
}

static int wait_events(http_loop *loop, struct epoll_event *events)
{
    struct timespec wait = {0};

    if (loop->n_timers) {
        const uint64_t now = http_now(), due = loop->timers[0]->due;

        if (due > now) {
            wait.tv_sec = (time_t)((due - now) / UINT64_C(1000000000));
            wait.tv_nsec = (long)((due - now) % UINT64_C(1000000000));
        }
    }
    return epoll_pwait2(loop->epoll, events, EVENTS, loop->n_timers ? &wait : NULL, NULL);
}

static void *run(void *argument)
{
    http_loop *loop = argument;
    struct epoll_event events[EVENTS];
    sigset_t none;
    uint64_t woken;

    pthread_setname_np(pthread_self(), "http server");
    sigfillset(&none); /* signals are the test's; sendfile() has no flag against SIGPIPE */
    pthread_sigmask(SIG_BLOCK, &none, NULL);
    while (!atomic_load(&loop->server->stopping)) {
        const int n = wait_events(loop, events);
        const uint64_t now = http_now();

        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &is_listener)
                accept_some(loop);
            else if (events[i].data.ptr == &is_wake)
                (void)!read(loop->wake, &woken, sizeof woken);
            else
                on_event(loop, &events[i], now);
        }
        run_timers(loop);
        drop(loop);
    }
    while (loop->first) {
        loop->first->reset = true;
        end_connection(loop, loop->first);
    }
    return NULL;
}

static void release(http_loop *loop)
{
    if (loop->epoll >= 0)
        close(loop->epoll);
    if (loop->wake >= 0)
        close(loop->wake);
    free(loop->timers);
    free(loop);
}

bool http_loop_listen(http_loop *loop, int listener)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = &is_listener};

    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, listener, &event) == 0;
}

http_loop *http_loop_start(http_server *server, int listener)
{
    http_loop *loop = calloc(1, sizeof *loop);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &is_wake};

    if (!loop)
        return NULL;
    loop->server = server;
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->wake < 0 || loop->epoll < 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) != 0 ||
        !http_loop_listen(loop, listener) || pthread_create(&loop->thread, NULL, run, loop) != 0) {
        release(loop);
        return NULL;
    }
    return loop;
}

void http_loop_wake(http_loop *loop)
{
    (void)!write(loop->wake, &(uint64_t){1}, sizeof(uint64_t));
}

bool http_loop_dropped(http_loop *loop, unsigned drops)
{
    return (int)(atomic_load(&loop->drops) - drops) >= 0;
}

void http_loop_join(http_loop *loop)
{
    http_loop_wake(loop);
    pthread_join(loop->thread, NULL);
    release(loop);
}
