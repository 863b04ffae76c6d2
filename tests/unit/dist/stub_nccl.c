/* SPDX-License-Identifier: Apache-2.0 */
/* Built as a library that tests load in the place of libnccl.so.2. It has the functions of NCCL
 * that Stoker uses, for communicators that do not block, and answers as NCCL does: "in progress"
 * first. */
#include "stub_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/nccl.h"

enum {
    RANKS = 8,
    QUEUE = 256,
    SYSTEM_ERROR = 2,
    INVALID_ARGUMENT = 4,
    REMOTE_ERROR = 6,
    BUSY = 2,
    LATER = 6
};

typedef enum kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST } kind;

typedef struct post {
    kind kind;
    const void *from;
    void *to;
    size_t count;
    int type, op, root;
    stub_stream *stream;
} post;

struct world;

typedef struct comm {
    struct world *world;
    int rank, calls, error;
    int busy, falls; /* so many looks say that it is in progress; find no error yet */
    bool finalizing;
    post queue[QUEUE];
    unsigned first, next;
    unsigned stuck; /* calls that reached nobody */
    stub_stream *stuck_in;
} comm;

typedef struct world {
    char id[128];
    int size, here, finalizing;
    comm *ranks[RANKS];
    struct world *before;
} world;

stub_library stub_nccl = {.version = 22809};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all worlds */

static bool is_fault(const comm *c, stub_fault fault)
{
    return stub_nccl.fault == fault && stub_nccl.rank == c->rank;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static size_t size_of(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return sizes[type];
}

/* Of small whole numbers alone, as those of tests are. */
static long double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    long double value = (bits & 1023) + (exponent ? 1024 : 0);

    for (int e = exponent ? exponent : 1; e > 25; e--)
        value *= 2;
    for (int e = exponent ? exponent : 1; e < 25; e++)
        value /= 2;
    return bits >> 15 ? -value : value;
}

static uint16_t half_bits(long double value)
{
    const uint16_t sign = value < 0 ? 0x8000 : 0;
    int exponent = 25;

    value = value < 0 ? -value : value;
    if (value == 0)
        return sign;
    for (; value < 1024; exponent--)
        value *= 2;
    for (; value >= 2048; exponent++)
        value /= 2;
    return (uint16_t)(sign | exponent << 10 | ((int)value & 1023));
}

static long double get(const void *data, size_t i, int type)
{
    const char *at = (const char *)data + i * size_of(type);
    uint32_t wide;
    uint16_t narrow;
    float single;

    switch (type) {
    case STK__NCCL_INT8:
        return *(const int8_t *)at;
    case STK__NCCL_UINT8:
        return *(const uint8_t *)at;
    case STK__NCCL_INT32:
        return *(const int32_t *)(const void *)at;
    case STK__NCCL_UINT32:
        return *(const uint32_t *)(const void *)at;
    case STK__NCCL_INT64:
        return (long double)*(const int64_t *)(const void *)at;
    case STK__NCCL_UINT64:
        return (long double)*(const uint64_t *)(const void *)at;
    case STK__NCCL_FLOAT32:
        return *(const float *)(const void *)at;
    case STK__NCCL_FLOAT64:
        return *(const double *)(const void *)at;
    default:
        break;
    }
    memcpy(&narrow, at, sizeof narrow);
    if (type == STK__NCCL_FLOAT16)
        return half_value(narrow);
    wide = (uint32_t)narrow << 16;
    memcpy(&single, &wide, sizeof single);
    return single;
}

static void put(void *data, size_t i, int type, long double value)
{
    char *at = (char *)data + i * size_of(type);
    uint16_t narrow;
    uint32_t wide;
    const float single = (float)value;

    switch (type) {
    case STK__NCCL_INT8:
        *(int8_t *)at = (int8_t)value;
        return;
    case STK__NCCL_UINT8:
        *(uint8_t *)at = (uint8_t)value;
        return;
    case STK__NCCL_INT32:
        *(int32_t *)(void *)at = (int32_t)value;
        return;
    case STK__NCCL_UINT32:
        *(uint32_t *)(void *)at = (uint32_t)value;
        return;
    case STK__NCCL_INT64:
        *(int64_t *)(void *)at = (int64_t)value;
        return;
    case STK__NCCL_UINT64:
        *(uint64_t *)(void *)at = (uint64_t)value;
        return;
    case STK__NCCL_FLOAT32:
        *(float *)(void *)at = single;
        return;
    case STK__NCCL_FLOAT64:
        *(double *)(void *)at = (double)value;
        return;
    default:
        break;
    }
    memcpy(&wide, &single, sizeof wide);
    wide += 0x7fff + (wide >> 16 & 1);
    narrow = type == STK__NCCL_FLOAT16 ? half_bits(value) : (uint16_t)(wide >> 16);
    memcpy(at, &narrow, sizeof narrow);
}

/* ---- Calls of all ranks ---------------------------------------------------------------------- */

static const post *head(const world *w, int rank)
{
    return &w->ranks[rank]->queue[w->ranks[rank]->first % QUEUE];
}

static long double rounded(long double value, int type)
{
    char bytes[8];

    put(bytes, 0, type, value);
    return get(bytes, 0, type);
}

/* Each sum of two is rounded. As in a ring what becomes part r comes from the rank behind it
 * around to r; other calls have another order. */
static long double combined(const world *w, const post *p, size_t i)
{
    const int first = p->kind == REDUCE_SCATTER ? (int)(i / p->count) + 1 : 0;
    long double value = get(head(w, first % w->size)->from, i, p->type);

    for (int k = 1; k < w->size; k++) {
        const long double x = get(head(w, (first + k) % w->size)->from, i, p->type);
        if (p->op == STK__NCCL_MIN)
            value = x < value ? x : value;
        else if (p->op == STK__NCCL_MAX)
            value = x > value ? x : value;
        else
            value = rounded(value + x, p->type);
    }
    return p->op == STK__NCCL_AVG ? value / w->size : value;
}

/* What all ranks would get where each got all. */
static void *gathered(const world *w, size_t *bytes)
{
    const post *p = head(w, 0);
    const size_t size = size_of(p->type);
    const bool in_parts = p->kind == REDUCE_SCATTER || p->kind == ALL_GATHER;
    const size_t total = p->count * (in_parts ? (size_t)w->size : 1);

    *bytes = total * size;
    char *out = malloc(*bytes + 1);
    for (int r = 0; r < w->size && p->kind == ALL_GATHER; r++)
        memcpy(out + (size_t)r * p->count * size, head(w, r)->from, p->count * size);
    if (p->kind == BROADCAST)
        memcpy(out, head(w, p->root)->from, *bytes);
    for (size_t i = 0; i < total && p->kind < ALL_GATHER; i++)
        put(out, i, p->type, combined(w, p, i));
    return out;
}

static void move_heads(world *w)
{
    const post *first = head(w, 0);
    size_t bytes;

    for (int r = 1; r < w->size; r++) {
        const post *p = head(w, r);
        if (p->kind != first->kind || p->count != first->count || p->type != first->type ||
            p->op != first->op || p->root != first->root)
            stub_nccl.one_sided++;
    }
    char *all = gathered(w, &bytes);
    for (int r = 0; r < w->size; r++) {
        const post *p = head(w, r);
        const size_t part = bytes / (size_t)w->size;
        if (p->kind == REDUCE_SCATTER)
            memcpy(p->to, all + (size_t)r * part, part);
        else if (p->kind != REDUCE || p->root == r)
            memcpy(p->to, all, bytes);
    }
    free(all);
    for (int r = 0; r < w->size; r++) {
        stub_stream *stream = head(w, r)->stream;
        w->ranks[r]->first++;
        stub_stream_move(stream, 0, 1);
    }
}

/* Behind a call that is stuck nothing moves. */
static void move_on(world *w)
{
    for (;;) {
        for (int r = 0; r < w->size; r++)
            if (!w->ranks[r] || w->ranks[r]->stuck || w->ranks[r]->first == w->ranks[r]->next)
                return;
        move_heads(w);
    }
}

/* All of what the call reads and writes. */
static void reach(const comm *c, post *p)
{
    const size_t size = p->count * size_of(p->type), all = size * (size_t)c->world->size;
    const bool reads = p->kind != BROADCAST || p->root == c->rank;
    const bool writes = p->kind != REDUCE || p->root == c->rank;

    if (!stub_nccl.reach)
        return;
    if (reads)
        p->from = stub_nccl.reach(p->from, p->kind == REDUCE_SCATTER ? all : size);
    if (writes)
        p->to = stub_nccl.reach(p->to, p->kind == ALL_GATHER ? all : size);
}

static int begin(comm *c, post p)
{
    int result = STK__NCCL_IN_PROGRESS;

    pthread_mutex_lock(&lock);
    reach(c, &p);
    const bool here = ++c->calls == stub_nccl.at;
    stub_nccl.calls++;
    stub_nccl.all_reduces += p.kind == ALL_REDUCE;
    stub_nccl.singles += p.kind == REDUCE;
    c->busy = BUSY;
    if (here && is_fault(c, STUB_FAILS)) {
        result = SYSTEM_ERROR;
    } else if (here && (is_fault(c, STUB_LOST) || is_fault(c, STUB_FALLS) ||
                        is_fault(c, STUB_ABORT_LATE))) {
        stub_stream_move(p.stream, 1, 0);
        c->stuck++;
        c->stuck_in = p.stream;
        c->falls = is_fault(c, STUB_FALLS) ? LATER : 0;
    } else {
        stub_stream_move(p.stream, 1, 0);
        c->queue[c->next++ % QUEUE] = p;
        move_on(c->world);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- The library ----------------------------------------------------------------------------- */

int ncclGetVersion(int *version);
int ncclGetUniqueId(stk__nccl_id *id);
int ncclCommInitRankConfig(void **out, int size, stk__nccl_id id, int rank, stk__nccl_config *how);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclCommGetAsyncError(void *comm, int *result);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(void *comm);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *c, void *stream);
int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, void *c,
               void *stream);
int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, void *c,
                      void *stream);
int ncclAllGather(const void *from, void *to, size_t n, int type, void *c, void *stream);
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, void *c, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);

int ncclGetVersion(int *version)
{
    *version = ++stub_nccl.asked == stub_nccl.odd_one ? 21804 : stub_nccl.version;
    return 0;
}

#ifndef WITHOUT_INIT

static world *worlds;
static int num_ids;

int ncclGetUniqueId(stk__nccl_id *id)
{
    pthread_mutex_lock(&lock);
    memset(id, 0xa5, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "world %d", ++num_ids);
    pthread_mutex_unlock(&lock);
    return 0;
}

static world *find_world(const stk__nccl_id *id, int size)
{
    world *w = worlds;

    while (w && memcmp(w->id, id->bytes, sizeof w->id) != 0)
        w = w->before;
    if (w)
        return w;
    w = calloc(1, sizeof *w);
    memcpy(w->id, id->bytes, sizeof w->id);
    w->size = size;
    w->before = worlds;
    return worlds = w;
}

int ncclCommInitRankConfig(void **out, int size, stk__nccl_id id, int rank, stk__nccl_config *how)
{
    if (how->magic != 0xcafebeef || how->size < sizeof *how || how->version < 21400 ||
        how->blocking != 0 || size > RANKS || rank >= size)
        return INVALID_ARGUMENT;
    comm *c = calloc(1, sizeof *c);
    c->rank = rank;
    c->busy = BUSY;
    if (is_fault(c, STUB_INIT_FAILS)) {
        free(c);
        return SYSTEM_ERROR;
    }
    pthread_mutex_lock(&lock);
    c->world = find_world(&id, size);
    c->world->ranks[rank] = c;
    c->world->here += !is_fault(c, STUB_INIT_LOST);
    stub_nccl.joined++;
    pthread_mutex_unlock(&lock);
    *out = c;
    return STK__NCCL_IN_PROGRESS;
}

#endif

int ncclCommFinalize(void *comm_)
{
    comm *c = comm_;

    pthread_mutex_lock(&lock);
    c->finalizing = true;
    c->busy = BUSY;
    c->world->finalizing++;
    stub_nccl.finalized++;
    pthread_mutex_unlock(&lock);
    return STK__NCCL_IN_PROGRESS;
}

/* All that it has on streams ends, done or not. */
static void leave(comm *c)
{
    pthread_mutex_lock(&lock);
    /* Nobody waits for a late one any more, and its stream is gone. */
    const bool late = is_fault(c, STUB_ABORT_LATE);
    for (; c->first != c->next && !late; c->first++)
        stub_stream_move(c->queue[c->first % QUEUE].stream, 0, 1);
    if (c->stuck && !late)
        stub_stream_move(c->stuck_in, 0, c->stuck);
    c->world->ranks[c->rank] = NULL;
    pthread_mutex_unlock(&lock);
    free(c);
}

int ncclCommDestroy(void *comm_)
{
    stub_nccl.destroyed++;
    leave(comm_);
    return 0;
}

int ncclCommAbort(void *comm_)
{
    while (is_fault(comm_, STUB_ABORT_LATE) && !stub_nccl.abort_now)
        sched_yield();
    stub_nccl.aborted++;
    leave(comm_);
    return 0;
}

int ncclCommGetAsyncError(void *comm_, int *result)
{
    comm *c = comm_;

    pthread_mutex_lock(&lock);
    const world *w = c->world;
    const bool waits = w->here < w->size || (c->finalizing && w->finalizing < w->size);
    if (c->falls && --c->falls == 0)
        c->error = REMOTE_ERROR;
    *result = c->error ? c->error : waits || (c->busy && c->busy--) ? STK__NCCL_IN_PROGRESS : 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

const char *ncclGetErrorString(int result)
{
    return result == SYSTEM_ERROR       ? "unhandled system error"
           : result == REMOTE_ERROR     ? "remote process exited or there was a network error"
           : result == INVALID_ARGUMENT ? "invalid argument"
                                        : "no error";
}

const char *ncclGetLastError(void *comm_)
{
    (void)comm_;
    return stub_nccl.fault == STUB_FINE ? "" : "a cable was cut";
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *c, void *stream)
{
    return begin(c, (post){ALL_REDUCE, from, to, n, type, op, 0, stream});
}

int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, void *c,
               void *stream)
{
    return begin(c, (post){REDUCE, from, to, n, type, op, root, stream});
}

int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, void *c, void *stream)
{
    return begin(c, (post){REDUCE_SCATTER, from, to, n, type, op, 0, stream});
}

int ncclAllGather(const void *from, void *to, size_t n, int type, void *c, void *stream)
{
    return begin(c, (post){ALL_GATHER, from, to, n, type, 0, 0, stream});
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, void *c, void *stream)
{
    return begin(c, (post){BROADCAST, from, to, n, type, 0, root, stream});
}

static _Thread_local int groups;

int ncclGroupStart(void)
{
    groups++;
    return 0;
}

int ncclGroupEnd(void)
{
    return groups-- == 1 ? STK__NCCL_IN_PROGRESS : INVALID_ARGUMENT;
}
