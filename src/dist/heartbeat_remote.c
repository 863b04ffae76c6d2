/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life from other machines: a thread of the rank sends its row a few times a second, as a
 * datagram, and who watches writes what comes into the sheet. A datagram that is lost is followed
 * by others; none is answered, so neither side waits for the other. Where the process is stopped or
 * the network is cut nothing comes, and that is the sign.
 */
#include "dist/heartbeat.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/digits.h"
#include "base/random.h"

#define SCHEME    "udp://"
#define MAGIC     "STKLIFE"
#define VERSION   1
#define SEND_NS   UINT64_C(200000000)
#define ENDS      3    /* times that the end is said */
#define AT_ONCE   4096 /* datagrams of one look */
#define HOST_ROOM 256

/* A datagram. Machines of one training are alike: numbers are as they lie in memory, and another
 * order of bytes is another version. */
typedef struct note {
    char magic[8];
    uint32_t version, doing;
    uint64_t token[2];
    uint64_t rank, number; /* from 1, of the process */
    uint64_t beats, steps, silent_ns;
    int64_t pid;
    char host[STK_HEARTBEAT_HOST];
} note;

/* What is known of a rank beside its row. */
typedef struct heard {
    uint64_t number, at_ns; /* of the last datagram; 0: none has come */
    char host[STK_HEARTBEAT_HOST];
} heard;

struct stk__beat_listener {
    int fd;
    unsigned port;
    char host[HOST_ROOM];
    uint64_t token[2];
    heard ranks[];
};

struct stk__beat_sender {
    int fd;
    note note;
    stk__thread thread;
    pthread_mutex_t lock; /* guards `stop` */
    pthread_cond_t wake;
    bool stop;
};

/* ---- Addresses ------------------------------------------------------------------------------- */

const char *stk__beat_url(const char *path)
{
    const char *comma = strchr(path, ',');

    return comma && strncmp(comma + 1, SCHEME, sizeof SCHEME - 1) == 0 ? comma + 1 : NULL;
}

int stk__beat_url_write(const stk_heartbeat *h, char *text, size_t size)
{
    const stk__beat_listener *l = h->listener;
    const bool is_v6 = strchr(l->host, ':') != NULL;

    return snprintf(text, size, SCHEME "%s%s%s:%u/%016" PRIx64 "%016" PRIx64, is_v6 ? "[" : "",
                    l->host, is_v6 ? "]" : "", l->port, l->token[0], l->token[1]);
}

typedef struct address {
    char host[HOST_ROOM], port[8];
    uint64_t token[2];
} address;

static bool read_token(const char *text, uint64_t token[2])
{
    return strlen(text) == 32 && stk__hex_number(text, 16, &token[0]) &&
           stk__hex_number(text + 16, 16, &token[1]);
}

static bool read_url(const char *url, address *out)
{
    const char *host = url + sizeof SCHEME - 1, *slash = strchr(host, '/');
    const char *colon = slash ? memrchr(host, ':', (size_t)(slash - host)) : NULL;

    if (!colon)
        return false;
    size_t length = (size_t)(colon - host);
    const size_t digits = (size_t)(slash - colon) - 1;
    if (length >= 2 && host[0] == '[' && colon[-1] == ']') {
        host++;
        length -= 2;
    }
    if (!length || length >= sizeof out->host || !digits || digits > 5 ||
        strspn(colon + 1, "0123456789") != digits || !read_token(slash + 1, out->token))
        return false;
    memcpy(out->host, host, length);
    out->host[length] = 0;
    memcpy(out->port, colon + 1, digits);
    out->port[digits] = 0;
    return true;
}

/* ---- Who watches ----------------------------------------------------------------------------- */

/* Any address of this machine, of either kind where there are both. */
static int bind_any(unsigned *port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof six;
    const int off = 0;

    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
        bind(fd, (struct sockaddr *)&six, sizeof six) == 0 &&
        getsockname(fd, (struct sockaddr *)&six, &length) == 0) {
        *port = ntohs(six.sin6_port);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    length = sizeof four;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&four, sizeof four) == 0 &&
        getsockname(fd, (struct sockaddr *)&four, &length) == 0) {
        *port = ntohs(four.sin_port);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

stk_status stk_heartbeat_listen(stk_heartbeat *h, const char *host, stk_error *err)
{
    const size_t length = strlen(host);

    stk_error_init(err);
    STK_TRY(stk__context_check(h->ctx, err));
    if (h->own || h->listener)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "signs of life of other machines go to who watches, and it listens once");
    if (!length || length >= HOST_ROOM || strpbrk(host, ",/[] "))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "signs of life: '%.80s' is no name and no address of a machine", host);
    stk__beat_listener *l = stk__calloc(h->ctx, 1, sizeof *l + h->ranks * sizeof *l->ranks);
    if (!l)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for signs of life");
    memcpy(l->host, host, length + 1);
    l->fd = bind_any(&l->port);
    if (l->fd < 0 || !stk__system_random(l->token, sizeof l->token)) {
        const int error = errno;
        if (l->fd >= 0)
            close(l->fd);
        stk__free(h->ctx, l);
        return stk__fail(err, stk__status_of_errno(error), STK_STAGE_MEASURE,
                         "signs of life of other machines cannot be heard: %s", strerror(error));
    }
    h->listener = l;
    return STK_OK;
}

void stk__beat_listener_close(stk_heartbeat *h)
{
    if (!h->listener)
        return;
    close(h->listener->fd);
    stk__free(h->ctx, h->listener);
    h->listener = NULL;
}

/* Those of processes that are gone have the token of before. */
void stk__beat_forget(stk_heartbeat *h)
{
    if (!h->listener)
        return;
    memset(h->listener->ranks, 0, h->ranks * sizeof *h->listener->ranks);
    if (!stk__system_random(h->listener->token, sizeof h->listener->token))
        h->listener->token[0]++;
}

static void take(stk_heartbeat *h, const note *n, uint64_t now)
{
    heard *from = &h->listener->ranks[n->rank];
    stk__beat_row *row = &h->sheet->rows[n->rank];

    /* Datagrams may overtake each other. */
    if (n->number <= from->number && atomic_load(&row->pid) == n->pid)
        return;
    from->number = n->number;
    from->at_ns = now;
    snprintf(from->host, sizeof from->host, "%.*s", (int)sizeof n->host - 1, n->host);
    atomic_store(&row->doing, n->doing);
    atomic_store(&row->steps, n->steps);
    atomic_store(&row->pid, n->pid);
    atomic_store(&row->at_ns, now - STK_MIN(n->silent_ns, now - 1));
    atomic_store(&row->beats, n->beats);
}

void stk_heartbeat_receive(stk_heartbeat *h)
{
    stk__beat_listener *l = h->listener;
    note n;

    for (int i = 0; l && i < AT_ONCE; i++) {
        const ssize_t got = recv(l->fd, &n, sizeof n, MSG_TRUNC);
        if (got < 0 && errno != EINTR)
            return;
        if (got == (ssize_t)sizeof n && memcmp(n.magic, MAGIC, sizeof MAGIC) == 0 &&
            n.version == VERSION && memcmp(n.token, l->token, sizeof n.token) == 0 &&
            n.rank < h->ranks && n.number > 0)
            take(h, &n, stk__now_ns());
    }
}

void stk__beat_heard(const stk_heartbeat *h, uint64_t rank, stk_heartbeat_row *out)
{
    const heard *from = h->listener ? &h->listener->ranks[rank] : NULL;

    if (!from || !from->number)
        return;
    out->heard_ns = from->at_ns;
    /* As is: rows are read in signal handlers, too. */
    memcpy(out->host, from->host, sizeof out->host);
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void send_note(const stk_heartbeat *h)
{
    note *n = &h->sender->note;
    const stk__beat_row *own = h->own;
    const uint64_t now = stk__now_ns();

    n->number++;
    n->beats = atomic_load(&own->beats);
    n->steps = atomic_load(&own->steps);
    n->doing = (uint32_t)atomic_load(&own->doing);
    const uint64_t at = atomic_load(&own->at_ns);
    n->silent_ns = now > at ? now - at : 0;
    /* What is lost on the way, or finds no way now, comes with the next. */
    (void)send(h->sender->fd, n, sizeof *n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_on(void *user)
{
    stk_heartbeat *h = user;
    stk__beat_sender *s = h->sender;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        send_note(h);
        stk__cond_wait_until(&s->wake, &s->lock, stk__now_ns() + SEND_NS);
    }
    pthread_mutex_unlock(&s->lock);
}

/* A socket whose datagrams go there; -1: there is no way, *why says why. */
static int connect_to(const address *to, const char **why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *all = NULL;
    int fd = -1;

    const int found = getaddrinfo(to->host, to->port, &hints, &all);
    *why = found ? gai_strerror(found) : "there is no way to it";
    for (const struct addrinfo *a = all; !found && a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            *why = strerror(errno);
            close(fd);
            fd = -1;
        }
    }
    if (!found)
        freeaddrinfo(all);
    return fd;
}

static void fill_note(note *n, const address *to, uint64_t rank)
{
    *n = (note){.version = VERSION, .rank = rank, .pid = (int64_t)getpid()};
    memcpy(n->magic, MAGIC, sizeof MAGIC);
    memcpy(n->token, to->token, sizeof n->token);
    if (gethostname(n->host, sizeof n->host - 1) != 0)
        snprintf(n->host, sizeof n->host, "an unknown machine");
}

stk_status stk__beat_sender_open(stk_heartbeat *h, const char *url, uint64_t rank, stk_error *err)
{
    address to;
    const char *why;

    if (!read_url(url, &to))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "'%.80s' is no address for signs of life: " SCHEME "HOST:PORT/TOKEN", url);
    stk__beat_sender *s = stk__calloc(h->ctx, 1, sizeof *s);
    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for signs of life");
    fill_note(&s->note, &to, rank);
    s->fd = connect_to(&to, &why);
    stk_status status = STK_OK;
    if (s->fd < 0)
        status = stk__fail(err, STK_EIO, STK_STAGE_MEASURE,
                           "signs of life cannot be sent to %s, where the launcher is: %s; its "
                           "--heartbeat-host names an address that this machine reaches",
                           to.host, why);
    pthread_mutex_init(&s->lock, NULL);
    stk__cond_init(&s->wake);
    h->sender = s;
    if (status == STK_OK)
        status = stk__thread_start(h->ctx, &s->thread, "stk-beat", send_on, h, err);
    if (status != STK_OK) {
        s->stop = true;
        stk__beat_sender_close(h);
    }
    return status;
}

void stk__beat_sender_close(stk_heartbeat *h)
{
    stk__beat_sender *s = h->sender;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    const bool runs = !s->stop;
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    if (runs)
        stk__thread_join(&s->thread);
    /* Whether one comes nobody says: who misses it takes the end for a loss. */
    for (int i = 0; runs && i < ENDS; i++)
        send_note(h);
    if (s->fd >= 0)
        close(s->fd);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    h->sender = NULL;
    stk__free(h->ctx, s);
}
