/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a strategy. What is small goes along in the frames. What is large is cut into
 * pieces: of each, a rank gets its part from all others, adds it in the order of ranks, and then
 * all get all parts. So an element is added up once, by one rank, in one order, whatever the size
 * of pieces and the number of calls.
 */
#include <inttypes.h>

#include "dist/collectives.h"

#define PIECE (UINT64_C(4) << 20) /* bytes of a call of the network */

/* ---- Checks ---------------------------------------------------------------------------------- */

static stk_status check_memory(const stk_stream *stream, stk_error *err)
{
    return stream ? stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                              "MPI combines what lies in the host's memory, and this lies in a "
                              "device's")
                  : STK_OK;
}

static stk_status check_type(stk_dtype dtype, stk_error *err)
{
    return stk__combine_size(dtype)
               ? STK_OK
               : stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                           "elements of type %s cannot be combined over ranks; float32, float64 "
                           "and bfloat16 can",
                           stk_dtype_name(dtype));
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Room for this rank's part of `bytes`, from each rank. */
static stk_status need_room(stk_collectives *c, uint64_t bytes, stk_error *err)
{
    const uint64_t wanted = bytes + c->strategy.world_size * sizeof(double);

    if (wanted <= c->room_bytes)
        return STK_OK;
    stk__free(c->ctx, c->room);
    c->room = stk__alloc_buffer(c->ctx, wanted);
    c->room_bytes = c->room ? wanted : 0;
    return c->room ? STK_OK
                   : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                               "no memory for %" PRIu64 " bytes that the other ranks send", wanted);
}

/* Where the part of a rank begins, of `count` elements: parts differ by one element at most. */
static uint64_t part_from(uint64_t count, uint64_t world_size, uint64_t rank)
{
    return count / world_size * rank + STK_MIN(rank, count % world_size);
}

static void set_sizes(stk_collectives *c, uint64_t count, size_t itemsize)
{
    const uint64_t world = c->strategy.world_size;

    for (uint64_t r = 0; r < world; r++)
        c->sizes[r] = (part_from(count, world, r + 1) - part_from(count, world, r)) * itemsize;
}

/* This rank's part of a piece becomes that of all ranks. */
static stk_status scatter_piece(stk_collectives *c, char *data, uint64_t count, stk_dtype dtype,
                                stk_combine op, stk_error *err)
{
    const uint64_t world = c->strategy.world_size, rank = c->strategy.rank;
    const size_t itemsize = stk_dtype_size(dtype);
    char why[STK__TRANSPORT_TEXT] = "";

    set_sizes(c, count, itemsize);
    const bool begun = c->ops->all_to_all(c->transport, data, c->sizes, c->room, why);
    STK_TRY(stk__finish_call(c, begun, why, err));
    stk__combine(data + part_from(count, world, rank) * itemsize, c->room, c->sizes[rank], world,
                 c->sizes[rank] / itemsize, dtype, op);
    return STK_OK;
}

static stk_status gather_piece(stk_collectives *c, char *data, uint64_t count, size_t itemsize,
                               stk_error *err)
{
    char why[STK__TRANSPORT_TEXT] = "";

    set_sizes(c, count, itemsize);
    const bool begun = c->ops->all_gather_parts(c->transport, data, c->sizes, why);
    return stk__finish_call(c, begun, why, err);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What went along in the frames. */
static void combine_frames(stk_collectives *c, void *buffer, uint64_t count, stk_dtype dtype,
                           stk_combine op)
{
    stk__combine(buffer, c->frames[0].data, sizeof *c->frames, c->strategy.world_size, count, dtype,
                 op);
}

static stk_status reduce(void *state, void *buffer, uint64_t count, stk_dtype dtype, stk_combine op,
                         stk_stream *stream, stk_error *err)
{
    stk_collectives *c = state;

    STK_TRY(check_memory(stream, err));
    STK_TRY(check_type(dtype, err));
    const size_t itemsize = stk_dtype_size(dtype);
    const bool small = count <= STK__FRAME_ROOM / itemsize;
    /* Before the call: a rank without memory says so in its place. */
    if (!small)
        STK_TRY(need_room(c, STK_MIN(count * itemsize, PIECE), err));
    STK_TRY(stk__exchange(c, STK__CALL_REDUCE, (uint32_t)op, (uint32_t)dtype, count,
                          small ? buffer : NULL, small ? (size_t)count * itemsize : 0, err));
    if (small) {
        combine_frames(c, buffer, count, dtype, op);
        return STK_OK;
    }
    for (uint64_t i = 0, n; i < count; i += n) {
        char *data = (char *)buffer + i * itemsize;
        n = STK_MIN(count - i, PIECE / itemsize);
        STK_TRY(scatter_piece(c, data, n, dtype, op, err));
        STK_TRY(gather_piece(c, data, n, itemsize, err));
    }
    return STK_OK;
}

static stk_status broadcast(void *state, void *buffer, uint64_t bytes, stk_stream *stream,
                            stk_error *err)
{
    stk_collectives *c = state;
    char why[STK__TRANSPORT_TEXT] = "";

    STK_TRY(check_memory(stream, err));
    const bool small = bytes <= STK__FRAME_ROOM;
    STK_TRY(stk__exchange(c, STK__CALL_BROADCAST, 0, 0, bytes, small ? buffer : NULL,
                          small ? (size_t)bytes : 0, err));
    if (small) {
        memcpy(buffer, c->frames[0].data, (size_t)bytes);
        return STK_OK;
    }
    for (uint64_t i = 0, n; i < bytes; i += n) {
        n = STK_MIN(bytes - i, PIECE);
        const bool begun = c->ops->broadcast(c->transport, (char *)buffer + i, (size_t)n, why);
        STK_TRY(stk__finish_call(c, begun, why, err));
    }
    return STK_OK;
}

static stk_status barrier(void *state, stk_error *err)
{
    return stk__exchange(state, STK__CALL_BARRIER, 0, 0, 0, NULL, 0, err);
}

static void give_up(void *state)
{
    stk__say_farewell(state, STK__CALL_GONE);
}

void stk__collectives_fill(stk_collectives *c)
{
    c->strategy.struct_size = sizeof c->strategy;
    c->strategy.name = c->ops->name;
    c->strategy.state = c;
    c->strategy.reduce = reduce;
    c->strategy.broadcast = broadcast;
    c->strategy.barrier = barrier;
    c->strategy.abort = give_up;
    c->strategy.any_thread = true; /* MPI_THREAD_SERIALIZED */
}
