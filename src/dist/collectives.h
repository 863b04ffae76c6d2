/* what ranks call -> the same call of all of them, in time, or who was not there */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DIST_COLLECTIVES_H
#define STK_SRC_DIST_COLLECTIVES_H

#include <stoker/collectives.h>

#include "base/base.h"
#include "dist/transport.h"

typedef enum stk__rank_call {
    STK__CALL_REDUCE = 1,
    STK__CALL_BROADCAST,
    STK__CALL_BARRIER,
    STK__CALL_REDUCE_SCATTER,
    STK__CALL_ALL_GATHER,
    STK__CALL_LEAVE, /* the rank makes no more calls: its run is over */
    STK__CALL_GONE,  /* and this one's has failed */
    STK__CALL_JOIN,  /* begin NCCL */
    /* Beside one of the first: it is of a device's memory. */
    STK__CALL_ON_DEVICE = 256
} stk__rank_call;

enum { STK__FRAME_ROOM = 256, STK__HOST_ROOM = 64 };

/* What every call begins with: the same bytes for all calls, so that ranks which differ find out
 * before their sizes do. What is small enough goes along. */
typedef struct stk__rank_frame {
    uint32_t call, op, dtype, reserved;
    uint64_t number, count; /* of the call; of elements */
    char data[STK__FRAME_ROOM];
} stk__rank_frame;

typedef enum stk__health {
    STK__HEALTH_GOOD = 0,
    STK__HEALTH_TOLD, /* a rank has failed, and all of them know */
    STK__HEALTH_LOST  /* a call of the network came to no end */
} stk__health;

typedef struct stk__nccl stk__nccl; /* nccl.h */

struct stk_collectives {
    stk_context *ctx;
    const stk__transport_ops *ops;
    void *transport;
    stk_strategy strategy;
    uint64_t timeout_ns;
    uint64_t fail_at, late_at, late_ns; /* faults of this rank */
    uint64_t number;                    /* of the call at hand */
    stk__health health;
    char why[STK_ERROR_TEXT]; /* since it is no longer good */
    stk__rank_frame *frames;  /* of each rank, and this one's behind them */
    char (*hosts)[STK__HOST_ROOM];
    size_t *sizes; /* of the parts of the call at hand */
    char *room;    /* for what the others have sent */
    uint64_t room_bytes;
    char *aside;     /* pieces of parts side by side, as a call of the network takes them */
    char *nccl_wish; /* the option */
    stk__nccl *nccl; /* NULL: no device is attached that it is for */
};

/* ---- exchange.c ---- */

/* Begin a call: all ranks have to make the same. Their frames lie in c->frames then. `data` of
 * `bytes` goes along (NULL: nothing). */
stk_status stk__exchange(stk_collectives *c, stk__rank_call call, uint32_t op, uint32_t dtype,
                         uint64_t count, const void *data, size_t bytes, stk_error *err);
/* Wait for a call that `begun` says has begun; `why` is what it said else. */
stk_status stk__finish_call(stk_collectives *c, bool begun, const char *why, stk_error *err);
/* Tell the others that this rank makes no more calls; nothing where that is known. */
void stk__say_farewell(stk_collectives *c, stk__rank_call call);
/* The names of all hosts; the first call of all. */
stk_status stk__exchange_hosts(stk_collectives *c, stk_error *err);
/* "reduce 3 float32 by sum" */
void stk__describe_call(const stk__rank_frame *frame, char *text, size_t size);
/* Between two looks at what is waited for, since so long. */
void stk__pause_after(uint64_t waited_ns);

/* ---- combine.c ---- */

/* Bytes of an element that can be combined; 0: none of this type can. */
size_t stk__combine_size(stk_dtype dtype);
/* `n` elements of each of `world_size` ranks, which lie `stride` bytes from each other -> `out`,
 * added in the order of ranks. */
void stk__combine(void *out, const char *from, size_t stride, uint64_t world_size, uint64_t n,
                  stk_dtype dtype, stk_combine op);

/* ---- calls.c ---- */

/* The functions of the strategy. */
void stk__collectives_fill(stk_collectives *c);

/* ---- collectives.c ---- */

/* Join by a transport that is given; `o` is in full size. */
stk_status stk__collectives_join(stk_context *ctx, const stk__transport_ops *ops,
                                 const stk_collectives_options *o, stk_collectives **out,
                                 stk_error *err);

#endif
