/* A network within one process: ranks as threads, for tests of what is made of calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_DIST_NETWORK_H
#define STK_TESTS_UNIT_DIST_NETWORK_H

#include <pthread.h>

#include "dist/collectives.h"
#include "support/support.h"

enum { NETWORK_RANKS = 5 };

typedef enum network_call { NET_GATHER, NET_PARTS, NET_TO_ALL, NET_BROADCAST } network_call;

/* What a rank has begun. */
typedef struct network_post {
    network_call call;
    const void *from;
    void *to;
    size_t bytes, sizes[NETWORK_RANKS];
} network_post;

typedef struct network {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t world, here, round;
    network_post posts[NETWORK_RANKS];
    uint64_t begun[NETWORK_RANKS]; /* round of the pending call of each */
    uint64_t told[NETWORK_RANKS];
    uint64_t wholes, fail_test_of; /* closed in good order; rank + 1 whose test() fails */
    bool torn;                     /* calls that do not fit each other were begun */
    bool cut;                      /* a rank has left as it was: nothing moves any more */
} network;

typedef struct network_end {
    network *net;
    uint64_t rank;
} network_end;

/* Which end the thread that opens a transport gets. */
static _Thread_local network_end *network_self;

static inline bool network_open(void **out, uint64_t *rank, uint64_t *world,
                                char why[STK__TRANSPORT_TEXT])
{
    *out = network_self;
    *rank = network_self->rank;
    *world = network_self->net->world;
    return true;
}

static inline void network_close(void *transport, bool whole)
{
    network *net = ((network_end *)transport)->net;

    pthread_mutex_lock(&net->lock);
    net->wholes += whole;
    net->cut |= !whole;
    pthread_mutex_unlock(&net->lock);
}

static inline void network_move_one(network *net, const network_post *p, uint64_t rank)
{
    size_t at = 0, own = 0;

    for (uint64_t r = 0; r < net->world; r++) {
        const network_post *other = &net->posts[r];
        net->torn |= other->call != p->call || other->bytes != p->bytes;
        if (net->torn)
            return;
        if (p->call == NET_GATHER)
            memcpy((char *)p->to + r * p->bytes, other->from, p->bytes);
        else if (p->call == NET_BROADCAST && r == 0 && rank)
            memcpy(p->to, other->to, p->bytes);
        else if (p->call == NET_PARTS && r != rank)
            memcpy((char *)p->to + at, (const char *)other->to + at, p->sizes[r]);
        at += p->sizes[r];
    }
    for (uint64_t r = 0; r < rank; r++)
        own += p->sizes[r];
    for (uint64_t r = 0; r < net->world && p->call == NET_TO_ALL; r++)
        memcpy((char *)p->to + r * p->sizes[rank], (const char *)net->posts[r].from + own,
               p->sizes[rank]);
}

static inline bool network_post_one(network_end *end, const network_post *post)
{
    network *net = end->net;

    pthread_mutex_lock(&net->lock);
    net->posts[end->rank] = *post;
    net->begun[end->rank] = net->round;
    if (++net->here == net->world && !net->cut) {
        for (uint64_t r = 0; r < net->world; r++)
            network_move_one(net, &net->posts[r], r);
        net->here = 0;
        net->round++;
    }
    pthread_mutex_unlock(&net->lock);
    return true;
}

static inline bool network_all_gather(void *t, const void *own, void *all, size_t bytes, char *why)
{
    return network_post_one(
        t, &(network_post){.call = NET_GATHER, .from = own, .to = all, .bytes = bytes});
}

static inline void network_take_sizes(network_post *post, const network *net, const size_t *sizes)
{
    memcpy(post->sizes, sizes, net->world * sizeof *sizes);
}

static inline bool network_parts(void *t, void *all, const size_t *sizes, char *why)
{
    network_post post = {.call = NET_PARTS, .to = all};

    network_take_sizes(&post, ((network_end *)t)->net, sizes);
    return network_post_one(t, &post);
}

static inline bool network_to_all(void *t, const void *from, const size_t *sizes, void *to,
                                  char *why)
{
    network_post post = {.call = NET_TO_ALL, .from = from, .to = to};

    network_take_sizes(&post, ((network_end *)t)->net, sizes);
    return network_post_one(t, &post);
}

static inline bool network_broadcast(void *t, void *data, size_t bytes, char *why)
{
    return network_post_one(t, &(network_post){.call = NET_BROADCAST, .to = data, .bytes = bytes});
}

static inline bool network_test(void *t, bool *done, char *why)
{
    const network_end *end = t;
    network *net = end->net;

    pthread_mutex_lock(&net->lock);
    const bool fails = net->fail_test_of == end->rank + 1 && net->begun[end->rank] > 2;
    *done = net->round > net->begun[end->rank];
    pthread_mutex_unlock(&net->lock);
    if (fails)
        snprintf(why, STK__TRANSPORT_TEXT, "a cable was cut");
    return !fails;
}

static inline bool network_tell(void *t, uint64_t number, char *why)
{
    const network_end *end = t;

    pthread_mutex_lock(&end->net->lock);
    end->net->told[end->rank] = number;
    pthread_mutex_unlock(&end->net->lock);
    return true;
}

static inline bool network_told(void *t, uint64_t rank, uint64_t *number, char *why)
{
    network *net = ((network_end *)t)->net;

    pthread_mutex_lock(&net->lock);
    *number = net->told[rank];
    pthread_mutex_unlock(&net->lock);
    return true;
}

static const stk__transport_ops network_ops = {
    .struct_size = sizeof network_ops,
    .version = STK__TRANSPORT_VERSION,
    .name = "threads",
    .open = network_open,
    .close = network_close,
    .all_gather = network_all_gather,
    .all_gather_parts = network_parts,
    .all_to_all = network_to_all,
    .broadcast = network_broadcast,
    .test = network_test,
    .tell = network_tell,
    .told = network_told,
};

#endif
