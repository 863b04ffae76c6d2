/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a strategy. What is small goes along in the frames. What is large is cut into
 * pieces: of each, a rank gets its part from all others, adds it in the order of ranks, and then
 * all get all parts. So an element is added up once, by one rank, in one order, whatever the size
 * of pieces and the number of calls. What lies in the memory of a device goes by NCCL (nccl.c).
 */
#include <inttypes.h>

#include "dist/nccl.h"

#define PIECE (UINT64_C(4) << 20) /* bytes of a call of the network */

/* ---- Checks ---------------------------------------------------------------------------------- */

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

static void set_sizes(stk_collectives *c, uint64_t count, size_t itemsize)
{
    const uint64_t world = c->strategy.world_size;

    for (uint64_t r = 0; r < world; r++)
        c->sizes[r] =
            (stk__part_from(count, world, r + 1) - stk__part_from(count, world, r)) * itemsize;
}

/* Of parts with c->sizes, side by side in `data`, this rank's becomes that of all ranks, in `own`.
 */
static stk_status scatter_parts(stk_collectives *c, const char *data, char *own, stk_dtype dtype,
                                stk_combine op, stk_error *err)
{
    const size_t bytes = c->sizes[c->strategy.rank];
    char why[STK__TRANSPORT_TEXT] = "";

    const bool begun = c->ops->all_to_all(c->transport, data, c->sizes, c->room, why);
    STK_TRY(stk__finish_call(c, begun, why, err));
    stk__combine(own, c->room, bytes, c->strategy.world_size, bytes / stk_dtype_size(dtype), dtype,
                 op);
    return STK_OK;
}

/* All ranks get the parts of all. */
static stk_status gather_parts(stk_collectives *c, char *data, stk_error *err)
{
    char why[STK__TRANSPORT_TEXT] = "";

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

    if (stream)
        return stk__nccl_call(c,
                              &(stk__nccl_work){.call = STK__CALL_REDUCE,
                                                .buffer = buffer,
                                                .count = count,
                                                .dtype = dtype,
                                                .op = op,
                                                .stream = stream},
                              err);
    STK_TRY(check_type(dtype, err));
    const size_t itemsize = stk_dtype_size(dtype);
    const uint64_t world = c->strategy.world_size;
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
        set_sizes(c, n, itemsize);
        char *own = data + stk__part_from(n, world, c->strategy.rank) * itemsize;
        STK_TRY(scatter_parts(c, data, own, dtype, op, err));
        STK_TRY(gather_parts(c, data, err));
    }
    return STK_OK;
}

/* ---- The halves ------------------------------------------------------------------------------ */

/* A buffer in parts, on its way. */
typedef struct parts {
    char *data;
    const uint64_t *counts; /* of each rank */
    size_t itemsize;
    uint64_t count, most; /* of all, and of the largest part */
    uint64_t own;         /* elements before this rank's part */
    uint64_t step;        /* elements of each part that one call of the network takes */
} parts;

static parts parts_of(const stk_collectives *c, void *buffer, const uint64_t *counts,
                      stk_dtype dtype)
{
    const uint64_t world = c->strategy.world_size;
    parts p = {.data = buffer, .counts = counts, .itemsize = stk_dtype_size(dtype)};

    for (uint64_t r = 0; r < world; r++) {
        p.own += r < c->strategy.rank ? counts[r] : 0;
        p.count += counts[r];
        p.most = STK_MAX(p.most, counts[r]);
    }
    p.step = STK_MAX(PIECE / p.itemsize / world, (uint64_t)1);
    return p;
}

static bool is_small(const parts *p)
{
    return p->count <= STK__FRAME_ROOM / p->itemsize;
}

/* All of it fits into one call, as it lies. */
static bool is_one_piece(const parts *p)
{
    return p->most <= p->step;
}

/* Memory of a call: what the others send to this rank, and a place to lay pieces side by side. */
static stk_status need_memory(stk_collectives *c, const parts *p, bool room, stk_error *err)
{
    const uint64_t world = c->strategy.world_size;
    const uint64_t own = STK_MIN(p->step, p->counts[c->strategy.rank]);

    if (room)
        STK_TRY(need_room(c, own * p->itemsize * world, err));
    if (is_one_piece(p) || c->aside)
        return STK_OK;
    /* A step is one element at least. */
    c->aside = stk__alloc_buffer(c->ctx, PIECE + world * sizeof(double));
    return c->aside
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                           "no memory for %" PRIu64 " bytes that go to the other ranks", PIECE);
}

/* Sizes of the elements of each part from `done` on. */
static void set_step(stk_collectives *c, const parts *p, uint64_t done)
{
    for (uint64_t r = 0; r < c->strategy.world_size; r++) {
        const uint64_t left = p->counts[r] > done ? p->counts[r] - done : 0;
        c->sizes[r] = (size_t)(STK_MIN(left, p->step) * p->itemsize);
    }
}

/* Lay these elements of the part of `only` (of all: UINT64_MAX) aside, or put them back. */
static void move_step(stk_collectives *c, const parts *p, uint64_t done, uint64_t only, bool back)
{
    char *aside = c->aside, *data = p->data + done * p->itemsize;

    for (uint64_t r = 0; r < c->strategy.world_size; r++) {
        if (c->sizes[r] && (only == UINT64_MAX || only == r))
            memcpy(back ? data : aside, back ? aside : data, c->sizes[r]);
        aside += c->sizes[r];
        data += p->counts[r] * p->itemsize;
    }
}

static stk_status on_device(stk_collectives *c, stk__rank_call call, const parts *p,
                            stk_dtype dtype, stk_combine op, stk_stream *stream, stk_error *err)
{
    const stk__nccl_work work = {.call = call,
                                 .buffer = p->data,
                                 .counts = p->counts,
                                 .count = p->count,
                                 .dtype = dtype,
                                 .op = op,
                                 .stream = stream};

    return stk__nccl_call(c, &work, err);
}

static stk_status reduce_scatter(void *state, void *buffer, const uint64_t *counts, stk_dtype dtype,
                                 stk_combine op, stk_stream *stream, stk_error *err)
{
    stk_collectives *c = state;

    if (!stream)
        STK_TRY(check_type(dtype, err));
    const parts p = parts_of(c, buffer, counts, dtype);
    if (stream)
        return on_device(c, STK__CALL_REDUCE_SCATTER, &p, dtype, op, stream, err);
    char *own = p.data + p.own * p.itemsize;
    const bool small = is_small(&p);
    if (!small)
        STK_TRY(need_memory(c, &p, true, err));
    STK_TRY(stk__exchange(c, STK__CALL_REDUCE_SCATTER, (uint32_t)op, (uint32_t)dtype, p.count,
                          small ? buffer : NULL, small ? (size_t)p.count * p.itemsize : 0, err));
    if (small) {
        stk__combine(own, c->frames[0].data + p.own * p.itemsize, sizeof *c->frames,
                     c->strategy.world_size, counts[c->strategy.rank], dtype, op);
        return STK_OK;
    }
    for (uint64_t done = 0; done < p.most; done += p.step) {
        set_step(c, &p, done);
        if (!is_one_piece(&p))
            move_step(c, &p, done, UINT64_MAX, false);
        char *at = own + STK_MIN(done, counts[c->strategy.rank]) * p.itemsize;
        STK_TRY(scatter_parts(c, is_one_piece(&p) ? p.data : c->aside, at, dtype, op, err));
    }
    return STK_OK;
}

/* What went along in the frame of the rank that it is of. */
static void take_frames(const stk_collectives *c, const parts *p)
{
    uint64_t at = 0;

    for (uint64_t r = 0; r < c->strategy.world_size; r++) {
        memcpy(p->data + at, c->frames[r].data + at, (size_t)p->counts[r] * p->itemsize);
        at += p->counts[r] * p->itemsize;
    }
}

static stk_status all_gather(void *state, void *buffer, const uint64_t *counts, stk_dtype dtype,
                             stk_stream *stream, stk_error *err)
{
    stk_collectives *c = state;
    const parts p = parts_of(c, buffer, counts, dtype);

    if (stream)
        return on_device(c, STK__CALL_ALL_GATHER, &p, dtype, STK_COMBINE_SUM, stream, err);
    const bool small = is_small(&p);
    if (!small)
        STK_TRY(need_memory(c, &p, false, err));
    STK_TRY(stk__exchange(c, STK__CALL_ALL_GATHER, 0, (uint32_t)dtype, p.count,
                          small ? buffer : NULL, small ? (size_t)p.count * p.itemsize : 0, err));
    if (small) {
        take_frames(c, &p);
        return STK_OK;
    }
    for (uint64_t done = 0; done < p.most; done += p.step) {
        set_step(c, &p, done);
        if (!is_one_piece(&p))
            move_step(c, &p, done, c->strategy.rank, false);
        STK_TRY(gather_parts(c, is_one_piece(&p) ? p.data : c->aside, err));
        if (!is_one_piece(&p))
            move_step(c, &p, done, UINT64_MAX, true);
    }
    return STK_OK;
}

/* ---- The others ------------------------------------------------------------------------------ */

static stk_status broadcast(void *state, void *buffer, uint64_t bytes, stk_stream *stream,
                            stk_error *err)
{
    stk_collectives *c = state;
    char why[STK__TRANSPORT_TEXT] = "";

    if (stream)
        return stk__nccl_call(c,
                              &(stk__nccl_work){.call = STK__CALL_BROADCAST,
                                                .buffer = buffer,
                                                .count = bytes,
                                                .dtype = STK_UINT8,
                                                .stream = stream},
                              err);
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

static stk_status attach(void *state, stk_device *device, stk_error *err)
{
    return stk__nccl_attach(state, device, err);
}

static void detach(void *state)
{
    stk__nccl_detach(state);
}

static stk_status check(void *state, stk_error *err)
{
    return stk__nccl_check(state, err);
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
    c->strategy.reduce_scatter = reduce_scatter;
    c->strategy.all_gather = all_gather;
    c->strategy.attach = attach;
    c->strategy.detach = detach;
    c->strategy.check = check;
}
