/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch, as a function of (seed, epoch, size, order options); docs/order.md defines
 * it.
 *
 * Full shuffle is one keyed permutation. Block shuffle cuts the samples into blocks of neighbours,
 * deals these round to S columns, permutes the blocks of each column and lays the columns in a
 * line. Slot p of the epoch belongs to stream p mod S, so it is known how many slots a stream has:
 * the line is cut into as many samples for each. A stream goes along its piece, some blocks (the
 * shuffle buffer) at a time, and permutes the samples of these.
 *
 * Only a block in which the line is cut belongs to several streams. Every second piece is gone
 * along backwards, so they come to that block at the same time. Streams of a rank lie side by side
 * (`stream_at`), so that few of these blocks are read by several ranks.
 */
#include "loader/order.h"

#include "base/gcd.h"
#include "base/random.h"
#include "dataset/dataset.h"
#include "loader/bucket.h"
#include "loader/order_mix.h"

/* Numbers of permutations within an epoch: 0 full, then one for each column, then one for each
 * buffer of a stream. */
enum { WHICH_FULL = 0, WHICH_COLUMN = 1 };
#define MOST_STREAMS 4096
#define AT_ONCE      256 /* positions that are permuted together */
/* Where shuffle_buffer is not given: so many blocks, and of larger ones as many as have so many
 * samples, but one at least. A row group of a table has 10^5 to 10^6 rows: with 16 of them in each
 * stream an epoch would begin with most of the table in memory. */
#define BUFFER_BLOCKS  16u
#define BUFFER_SAMPLES (UINT64_C(1) << 17)

static void set_mixture(stk__order *order, const stk_dataset *dataset, const stk_loader_options *o)
{
    order->mixture = dataset->mixture;
    stk_loader_options_init(&order->options);
    order->options.shuffle = o->shuffle;
    order->options.block_size = o->block_size;
    order->options.streams = o->streams;
    order->options.shuffle_buffer = o->shuffle_buffer;
    order->options.batch_size = 1;
}

stk_status stk__order_init(stk__order *order, stk_dataset *dataset, const stk_loader_options *o,
                           stk_error *err)
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
    if (dataset->mixture && (o->shuffle != STK_SHUFFLE_NONE || dataset->mixture->num_stages))
        set_mixture(order, dataset, o);
    STK_TRY(stk__bucket_check(order, dataset, o->bucket_window, err));
    if (o->shuffle != STK_SHUFFLE_BLOCK)
        return STK_OK;
    order->block_size = o->block_size ? o->block_size : STK_MAX(dataset->block_size, 1);
    order->block_size = STK_MIN(order->block_size, order->size);
    order->blocks = (order->size + order->block_size - 1) / order->block_size;
    order->streams = STK_MIN(STK_MIN(STK_MAX(o->streams, 1), order->blocks), MOST_STREAMS);
    const uint64_t usual =
        STK_MIN(STK_MAX(BUFFER_SAMPLES / order->block_size, 1), (uint64_t)BUFFER_BLOCKS);
    order->buffer_blocks = STK_MIN(o->shuffle_buffer ? o->shuffle_buffer : usual, order->blocks);
    order->rows = order->blocks / order->streams;
    order->longer = order->blocks % order->streams;
    return STK_OK;
}

/* Samples that the last block is short of. */
static uint64_t deficit(const stk__order *order)
{
    return order->blocks * order->block_size - order->size;
}

/* Where a column begins in the line. */
static uint64_t column_start(const stk__order *order, uint64_t column)
{
    return column * order->rows + STK_MIN(column, order->longer);
}

/*
 * The stream of piece `piece` of the line: the digits of the piece from the highest on are those of
 * the stream from the lowest on. Their bases are the prime factors of the number of streams, small
 * ones first. So streams that are equal modulo 2, or 4, ... have pieces side by side, and between
 * those of two ranks the line has a cut less than there are ranks.
 */
static uint64_t stream_at(uint64_t piece, uint64_t streams)
{
    uint64_t stream = 0, weight = 1;

    for (uint64_t left = streams, prime = 2; left > 1;) {
        if (left % prime) {
            prime = prime * prime > left ? left : prime + 1;
            continue;
        }
        left /= prime;
        stream += piece / left * weight;
        piece %= left;
        weight *= prime;
    }
    return stream;
}

stk_status stk__order_epoch_init(stk__order_epoch *view, stk_context *ctx, const stk__order *order)
{
    uint64_t first = 0;

    *view = (stk__order_epoch){
        .order = order, .ctx = ctx, .epoch = UINT64_MAX, .avx2 = stk__cpu_has_avx2(ctx)};
    if (order->bucket)
        STK_TRY(stk__bucket_create(ctx, order, &view->bucket));
    if (order->mixture) {
        const stk_status status = stk__order_mix_create(ctx, order, &view->mix);
        if (status != STK_OK)
            stk__order_epoch_release(view);
        return status;
    }
    if (order->shuffle != STK_SHUFFLE_BLOCK)
        return STK_OK;
    view->streams = stk__calloc(ctx, order->streams, sizeof *view->streams);
    view->columns = stk__calloc(ctx, order->streams, sizeof *view->columns);
    if (!view->streams || !view->columns) {
        stk__order_epoch_release(view);
        return STK_ENOMEM;
    }
    for (uint64_t piece = 0; piece < order->streams; piece++) {
        const uint64_t s = stream_at(piece, order->streams);
        stk__order_stream *stream = &view->streams[s];
        stream->first = first;
        first += order->size / order->streams + (s < order->size % order->streams);
        stream->end = first;
        stream->backwards = piece % 2;
    }
    return STK_OK;
}

void stk__order_epoch_release(stk__order_epoch *view)
{
    if (view->ctx) {
        stk__free(view->ctx, view->streams);
        stk__free(view->ctx, view->columns);
        stk__order_mix_destroy(view->ctx, view->mix);
        stk__bucket_destroy(view->ctx, view->bucket);
    }
    view->bucket = NULL;
    view->mix = NULL;
    view->streams = NULL;
    view->columns = NULL;
}

void stk__order_epoch_set(stk__order_epoch *view, uint64_t epoch)
{
    const stk__order *order = view->order;

    if (view->epoch == epoch)
        return;
    view->epoch = epoch;
    if (order->mixture) {
        stk__order_mix_epoch(view->mix);
        return;
    }
    if (order->shuffle == STK_SHUFFLE_FULL)
        stk__permutation_init(&view->full, order->size, order->seed, epoch, WHICH_FULL);
    if (order->shuffle != STK_SHUFFLE_BLOCK)
        return;
    for (uint64_t i = 0; i < order->streams; i++) {
        stk__permutation_init(&view->columns[i], order->rows + (i < order->longer), order->seed,
                              epoch, WHICH_COLUMN + (uint32_t)i);
        view->streams[i].buffer_first = view->streams[i].buffer_end = 0;
    }
    memset(view->blocks, 0, sizeof view->blocks);
    const uint64_t last = order->blocks - 1, column = last % order->streams;
    view->short_place = column_start(order, column) +
                        stk__permutation_inverse(&view->columns[column], last / order->streams);
}

/* The block at a place of the line. */
static uint64_t block_at(stk__order_epoch *view, uint64_t place)
{
    stk__order_block *known = &view->blocks[place % STK__ORDER_BLOCKS];
    const stk__order *order = view->order;
    const uint64_t beyond = order->longer * (order->rows + 1);
    uint64_t column, row;

    if (known->place == place + 1)
        return known->block;
    if (place < beyond) {
        column = place / (order->rows + 1);
        row = place % (order->rows + 1);
    } else {
        column = order->longer + (place - beyond) / order->rows;
        row = (place - beyond) % order->rows;
    }
    known->place = place + 1;
    known->block = stk__permutation_at(&view->columns[column], row) * order->streams + column;
    return known->block;
}

/* Samples of the line before a place: behind the short block they lie so much farther in front. */
static uint64_t samples_before(const stk__order_epoch *view, uint64_t place)
{
    return place * view->order->block_size - (place > view->short_place ? deficit(view->order) : 0);
}

/* The place of a sample of the line, and where in its block it is. */
static uint64_t place_of(const stk__order_epoch *view, uint64_t sample, uint64_t *within)
{
    if (sample >= samples_before(view, view->short_place + 1))
        sample += deficit(view->order);
    *within = sample % view->order->block_size;
    return sample / view->order->block_size;
}

/* Prepare the buffer of stream `s` that has this sample of the line. */
static void fill_buffer(stk__order_epoch *view, uint64_t s, uint64_t sample)
{
    const stk__order *order = view->order;
    stk__order_stream *stream = &view->streams[s];
    uint64_t within;
    const uint64_t place = place_of(view, sample, &within), group = order->buffer_blocks,
                   low = place_of(view, stream->first, &within),
                   high = place_of(view, stream->end - 1, &within) + 1;
    const uint64_t turn = stream->backwards ? high - 1 - place : place - low, k = turn / group;
    const uint64_t first =
                       stream->backwards ? high - STK_MIN((k + 1) * group, high) : low + k * group,
                   end = stream->backwards ? high - k * group : first + group;

    stream->buffer_first = STK_MAX(samples_before(view, first), stream->first);
    stream->buffer_end = STK_MIN(samples_before(view, STK_MIN(end, order->blocks)), stream->end);
    stk__permutation_init(&stream->mixed, stream->buffer_end - stream->buffer_first, order->seed,
                          view->epoch,
                          (uint32_t)(WHICH_COLUMN + order->streams + k * order->streams + s));
}

/* The line's sample at an offset of a stream. */
static uint64_t sample_at(const stk__order_stream *stream, uint64_t offset)
{
    return stream->backwards ? stream->end - 1 - offset : stream->first + offset;
}

/* The index of sample `offset` of stream `s`. */
static uint64_t stream_index(stk__order_epoch *view, uint64_t s, uint64_t offset)
{
    stk__order_stream *stream = &view->streams[s];
    uint64_t sample = sample_at(stream, offset), within;

    if (sample < stream->buffer_first || sample >= stream->buffer_end)
        fill_buffer(view, s, sample);
    sample =
        stream->buffer_first + stk__permutation_at(&stream->mixed, sample - stream->buffer_first);
    const uint64_t place = place_of(view, sample, &within);
    return block_at(view, place) * view->order->block_size + within;
}

/* Samples of stream `s`, `n` of them, all of which its buffer has, as they lie there: where they
 * are in the dataset. */
static void buffer_indices(stk__order_epoch *view, uint64_t s, const uint64_t *samples,
                           uint64_t *indices, size_t n)
{
    const stk__order_stream *stream = &view->streams[s];
    const uint64_t size = view->order->block_size;
    uint64_t begin = 0, end = 0, block = 0, within; /* of the block at hand */

    stk__permutation_many(&stream->mixed, samples, indices, n, view->avx2);
    for (size_t i = 0; i < n; i++) {
        const uint64_t sample = stream->buffer_first + indices[i];
        if (sample < begin || sample >= end) {
            const uint64_t place = place_of(view, sample, &within);
            block = block_at(view, place);
            begin = sample - within;
            end = begin + size - (place == view->short_place ? deficit(view->order) : 0);
        }
        indices[i] = block * size + sample - begin;
    }
}

/* Indices first, first + period, ... up to n, whose positions are of one stream, and `step` of it
 * from each other. */
static void stream_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                           size_t first, size_t period, size_t n)
{
    const uint64_t streams = view->order->streams, s = positions[first] % streams,
                   apart = n > period ? positions[period] - positions[0] : 0;
    stk__order_stream *stream = &view->streams[s];
    uint64_t samples[AT_ONCE], out[AT_ONCE], offset = positions[first] / streams;

    for (size_t i = first, count; i < n; i += count * period) {
        const uint64_t sample = sample_at(stream, offset);
        if (sample < stream->buffer_first || sample >= stream->buffer_end)
            fill_buffer(view, s, sample);
        for (count = 0; i + count * period < n && count < AT_ONCE; count++) {
            samples[count] = sample_at(stream, offset) - stream->buffer_first;
            if (samples[count] >= stream->buffer_end - stream->buffer_first)
                break;
            offset += apart / streams;
        }
        buffer_indices(view, s, samples, out, count);
        for (size_t k = 0; k < count; k++)
            indices[i + k * period] = out[k];
    }
}

static bool are_apart(const uint64_t *positions, size_t n, uint64_t apart)
{
    uint64_t other = 0;

    for (size_t i = 0; i < n; i++)
        other |= positions[i] ^ (positions[0] + i * apart);
    return !other;
}

/* Positions of a step are as far from each other as there are ranks: each stream has every so
 * manieth of them. */
static void block_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                          size_t n)
{
    const uint64_t streams = view->order->streams, apart = n > 1 ? positions[1] - positions[0] : 1;

    if (!are_apart(positions, n, apart)) {
        for (size_t i = 0; i < n; i++)
            indices[i] = stream_index(view, positions[i] % streams, positions[i] / streams);
        return;
    }
    const size_t period = (size_t)(streams / stk__gcd(streams, apart));
    for (size_t first = 0; first < STK_MIN(period, n); first++)
        stream_indices(view, positions, indices, first, period, n);
}

/* What the order is without windows of like length. */
static void plain_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                          size_t n)
{
    const stk__order *order = view->order;

    for (size_t i = 0; order->mixture && i < n; i++)
        indices[i] = stk__order_mix_index(view->mix, view->epoch, positions[i]);
    if (order->mixture)
        return;
    switch (order->shuffle) {
    case STK_SHUFFLE_FULL:
        stk__permutation_many(&view->full, positions, indices, n, view->avx2);
        break;
    case STK_SHUFFLE_BLOCK:
        block_indices(view, positions, indices, n);
        break;
    default:
        if (indices != positions)
            memcpy(indices, positions, n * sizeof *indices);
    }
}

void stk__order_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                        size_t n)
{
    view->evaluated += n;
    if (view->bucket)
        stk__bucket_indices(view->bucket, view, plain_indices, positions, indices, n);
    else
        plain_indices(view, positions, indices, n);
}

bool stk__order_padding(stk_context *ctx, const stk__order *order, double *sorted, double *unsorted)
{
    stk__order_epoch view;

    *sorted = *unsorted = 0;
    if (!order->bucket)
        return false;
    const bool good = stk__order_epoch_init(&view, ctx, order) == STK_OK;
    if (good) {
        stk__order_epoch_set(&view, 0);
        stk__bucket_padding(view.bucket, &view, plain_indices, sorted, unsorted);
    }
    stk__order_epoch_release(&view);
    return good;
}

uint64_t stk__order_rows(const stk__order *order)
{
    return (order->global_batch + order->world - 1) / order->world;
}

uint64_t stk__order_positions(const stk__order *order, uint64_t step, uint64_t *positions)
{
    const uint64_t first = step * order->global_batch,
                   end = STK_MIN(first + order->global_batch, order->size);
    const uint64_t own = first + (order->rank + order->world - first % order->world) % order->world;
    const uint64_t world = order->world, n = own < end ? (end - own + world - 1) / world : 0;

    for (uint64_t i = 0; i < n; i++)
        positions[i] = own + i * world;
    return n;
}
