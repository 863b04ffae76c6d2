/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch, as a function of (seed, epoch, size, order options).
 *
 * Full shuffle is one keyed permutation. Block shuffle cuts the samples into blocks of neighbours
 * and deals the blocks to S streams, block b to stream b mod S. A stream permutes its own blocks,
 * takes them in groups (the shuffle buffer) and permutes the samples of each group. Slot p of the
 * epoch belongs to stream p mod S, whose (p div S)-th sample it takes. Streams differ in length by
 * a block at most: the slots that a stream no longer fills take, in order, the samples that would
 * have come after the last slot. So every stream keeps its own slots to its end, and only that
 * remainder is read through slots of other streams.
 */
#include "loader/order.h"

#include "dataset/dataset.h"

/* Numbers of permutations within an epoch: 0 full, then one for each stream, then one for each
 * buffer of a stream. */
enum { WHICH_FULL = 0, WHICH_STREAM = 1 };
#define MOST_STREAMS 4096

stk_status stk__order_init(stk__order *order, const stk_dataset *dataset,
                           const stk_loader_options *o, stk_error *err)
{
    uint64_t global = o->global_batch_size;

    if (dataset->size == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER, "the dataset has no samples");
    if (dataset->size > STK_PERMUTATION_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_LOADER,
                         "the dataset has %llu samples; the order knows 2^48",
                         (unsigned long long)dataset->size);
    if (o->world_size == 0 || o->rank >= o->world_size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "rank is %llu of world_size %llu: it counts from 0",
                         (unsigned long long)o->rank, (unsigned long long)o->world_size);
    if (!global && !stk__mul_size(o->batch_size, o->world_size, &global))
        global = 0;
    if (global == 0 || global > UINT32_MAX)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "batch_size %llu on %llu ranks: a step has from 1 to 2^32 - 1 samples",
                         (unsigned long long)o->batch_size, (unsigned long long)o->world_size);
    *order = (stk__order){.size = dataset->size,
                          .seed = o->seed,
                          .global_batch = global,
                          .rank = o->rank,
                          .world = o->world_size,
                          .shuffle = o->shuffle,
                          .drop_last = o->drop_last};
    order->steps = o->drop_last ? order->size / global : (order->size + global - 1) / global;
    if (order->steps == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "a step takes %llu samples, the dataset has %llu and drop_last leaves out "
                         "what is short: "
                         "nothing is left; lower batch_size or set drop_last: false",
                         (unsigned long long)global, (unsigned long long)order->size);
    if (o->shuffle != STK_SHUFFLE_BLOCK)
        return STK_OK;
    order->block_size = o->block_size ? o->block_size : STK_MAX(dataset->block_size, 1);
    order->block_size = STK_MIN(order->block_size, order->size);
    order->blocks = (order->size + order->block_size - 1) / order->block_size;
    order->streams = STK_MIN(STK_MIN(STK_MAX(o->streams, 1), order->blocks), MOST_STREAMS);
    order->buffer_blocks = STK_MIN(STK_MAX(o->shuffle_buffer, 1), order->blocks);
    return STK_OK;
}

/* Samples that the last block is short of. */
static uint64_t deficit(const stk__order *order)
{
    return order->blocks * order->block_size - order->size;
}

static uint64_t stream_blocks(const stk__order *order, uint64_t s)
{
    return (order->blocks - s + order->streams - 1) / order->streams;
}

stk_status stk__order_epoch_init(stk__order_epoch *view, stk_context *ctx, const stk__order *order)
{
    *view = (stk__order_epoch){
        .order = order, .ctx = ctx, .epoch = UINT64_MAX, .avx2 = stk__cpu_has_avx2(ctx)};
    if (order->shuffle != STK_SHUFFLE_BLOCK)
        return STK_OK;
    view->streams = stk__calloc(ctx, order->streams, sizeof *view->streams);
    if (!view->streams)
        return STK_ENOMEM;
    view->least_count = UINT64_MAX;
    for (uint64_t s = 0; s < order->streams; s++) {
        uint64_t count = stream_blocks(order, s) * order->block_size;
        if ((order->blocks - 1) % order->streams == s)
            count -= deficit(order);
        view->streams[s].count = count;
        view->least_count = STK_MIN(view->least_count, count);
    }
    /* Streams that reach past the last slot leave the rest of their samples to the slots of the
     * others. */
    for (uint64_t s = 0; s < order->streams; s++) {
        uint64_t places = order->size / order->streams + (s < order->size % order->streams);
        view->alive_at_end += STK_MIN(places, view->streams[s].count);
    }
    return STK_OK;
}

void stk__order_epoch_release(stk__order_epoch *view)
{
    if (view->ctx)
        stk__free(view->ctx, view->streams);
    view->streams = NULL;
}

void stk__order_epoch_set(stk__order_epoch *view, uint64_t epoch)
{
    const stk__order *order = view->order;

    if (view->epoch == epoch)
        return;
    view->epoch = epoch;
    if (order->shuffle == STK_SHUFFLE_FULL)
        stk__permutation_init(&view->full, order->size, order->seed, epoch, WHICH_FULL);
    if (order->shuffle != STK_SHUFFLE_BLOCK)
        return;
    for (uint64_t s = 0; s < order->streams; s++) {
        stk__order_stream *stream = &view->streams[s];
        stk__permutation_init(&stream->blocks, stream_blocks(order, s), order->seed, epoch,
                              WHICH_STREAM + (uint32_t)s);
        stream->buffer = UINT64_MAX;
        stream->deficit_block = UINT64_MAX;
        if (deficit(order) && (order->blocks - 1) % order->streams == s)
            stream->deficit_block =
                stk__permutation_inverse(&stream->blocks, (order->blocks - 1) / order->streams);
    }
}

/* Samples that the first `rounds` rounds of the round-robin found. */
static uint64_t found_in_rounds(const stk__order_epoch *view, uint64_t rounds)
{
    uint64_t found = 0;

    for (uint64_t s = 0; s < view->order->streams; s++)
        found += STK_MIN(view->streams[s].count, rounds);
    return found;
}

/* Slot p beyond the end of the shortest stream: which stream, and which of its samples. */
static void slot_in_tail(const stk__order_epoch *view, uint64_t p, uint64_t *stream,
                         uint64_t *offset)
{
    const uint64_t streams = view->order->streams;
    uint64_t round = p / streams, s = p % streams;

    if (round < view->streams[s].count) {
        *stream = s;
        *offset = round;
        return;
    }
    uint64_t found = found_in_rounds(view, round);
    for (uint64_t i = 0; i < s; i++)
        found += view->streams[i].count > round;
    /* The d-th empty slot takes the d-th sample that the round-robin would find after the last
     * slot. */
    uint64_t wanted = view->alive_at_end + (p - found);
    uint64_t low = 0, high = view->order->size;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (found_in_rounds(view, middle) <= wanted)
            low = middle;
        else
            high = middle - 1;
    }
    uint64_t left = wanted - found_in_rounds(view, low);
    for (s = 0; s < streams; s++)
        if (view->streams[s].count > low && left-- == 0)
            break;
    *stream = s;
    *offset = low;
}

/* The index of sample `offset` of a stream, in the stream's order. */
static uint64_t stream_index(stk__order_epoch *view, uint64_t s, uint64_t offset)
{
    const stk__order *order = view->order;
    stk__order_stream *stream = &view->streams[s];
    const uint64_t size = order->block_size,
                   short_by = stream->deficit_block == UINT64_MAX ? 0 : deficit(order);
    const uint64_t buffer_size = order->buffer_blocks * size;
    const uint64_t short_buffer =
        short_by ? stream->deficit_block / order->buffer_blocks : UINT64_MAX;
    uint64_t buffer = offset / buffer_size;

    /* Behind the short block everything lies that much farther in front. */
    if (short_by && buffer >= short_buffer && offset + short_by >= (short_buffer + 1) * buffer_size)
        buffer = (offset + short_by) / buffer_size;
    uint64_t start = buffer * buffer_size - (short_by && buffer > short_buffer ? short_by : 0);
    if (stream->buffer != buffer) {
        uint64_t count =
            STK_MIN(buffer_size - (buffer == short_buffer ? short_by : 0), stream->count - start);
        stk__permutation_init(
            &stream->mixed, count, order->seed, view->epoch,
            (uint32_t)(WHICH_STREAM + order->streams + buffer * order->streams + s));
        stream->buffer = buffer;
        stream->buffer_count = count;
    }
    uint64_t mixed = stk__permutation_at(&stream->mixed, offset - start);
    if (buffer == short_buffer) {
        uint64_t place = stream->deficit_block % order->buffer_blocks;
        if (mixed >= (place + 1) * size - short_by)
            mixed += short_by;
    }
    uint64_t block =
        stk__permutation_at(&stream->blocks, buffer * order->buffer_blocks + mixed / size);
    return (block * order->streams + s) * size + mixed % size;
}

void stk__order_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                        size_t n)
{
    const stk__order *order = view->order;

    view->evaluated += n;
    switch (order->shuffle) {
    case STK_SHUFFLE_FULL:
        stk__permutation_many(&view->full, positions, indices, n, view->avx2);
        break;
    case STK_SHUFFLE_BLOCK:
        for (size_t i = 0; i < n; i++) {
            uint64_t s = positions[i] % order->streams, offset = positions[i] / order->streams;
            if (offset >= view->least_count)
                slot_in_tail(view, positions[i], &s, &offset);
            indices[i] = stream_index(view, s, offset);
        }
        break;
    default:
        memcpy(indices, positions, n * sizeof *indices);
    }
}

uint64_t stk__order_rows(const stk__order *order)
{
    return order->rank >= order->global_batch
               ? 0
               : (order->global_batch - order->rank + order->world - 1) / order->world;
}

uint64_t stk__order_positions(const stk__order *order, uint64_t step, uint64_t *positions)
{
    uint64_t first = step * order->global_batch,
             end = STK_MIN(first + order->global_batch, order->size), n = 0;

    for (uint64_t p = first + order->rank; p < end; p += order->world)
        positions[n++] = p;
    return n;
}
