/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunk shapes tried: a sample of the array is written again in memory with each, and windows of it
 * are read and timed behind a store that is as slow as the one asked about.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "base/sized.h"
#include "bench/bench.h"

#define SHAPE_NS    UINT64_C(1000000000) /* of reading for each shape */
#define LEAST       5                    /* windows or blocks */
#define MOST        2000
#define MOST_PIECES 1000000 /* chunks of a sample */

typedef struct trial {
    stk_context *ctx;
    const stk_chunks_question *question;
    const stk_chunks_trial *asked;
    const stk_array_info *info;
    stk_chunks_sample sample;
    int64_t start[STK_MAX_RANK]; /* of the sample, in the array */
    void *values;                /* of the sample */
} trial;

static bool stopped(const trial *t)
{
    return t->asked->stop && t->asked->stop(t->asked->user);
}

/* ---- The sample ------------------------------------------------------------------------------ */

/* The middle of the array, cut where it is longest in windows, but to a window at least. */
static stk_status choose_sample(trial *t, stk_error *err)
{
    const stk_chunks_question *q = t->question;
    int64_t *shape = t->sample.shape;

    memcpy(shape, q->extent, sizeof t->sample.shape);
    for (;;) {
        double bytes = (double)q->itemsize, longest = 0;
        uint32_t at = q->rank;
        for (uint32_t d = 0; d < q->rank; d++) {
            const double windows = (double)shape[d] / (double)q->window[d];
            bytes *= (double)shape[d];
            if (shape[d] > q->window[d] && windows > longest) {
                longest = windows;
                at = d;
            }
        }
        if (bytes <= (double)t->asked->sample)
            break;
        if (at == q->rank)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "a sample of %" PRIu64 " bytes does not hold one window; raise it",
                             t->asked->sample);
        shape[at] = STK_MAX((shape[at] + 1) / 2, q->window[at]);
    }
    t->sample.bytes = q->itemsize;
    for (uint32_t d = 0; d < q->rank; d++) {
        const int64_t middle = (q->extent[d] - shape[d]) / 2;
        t->start[d] = middle - middle % t->info->chunk_shape[d];
        t->sample.bytes *= (uint64_t)shape[d];
    }
    return STK_OK;
}

/* The writer's codec that is most like the array's own. */
static const char *codec_like(const char *codecs)
{
    if (strstr(codecs, "blosc") || strstr(codecs, "lz4"))
        return "blosc";
    if (strstr(codecs, "gzip") || strstr(codecs, "zlib") || strstr(codecs, "deflate"))
        return "gzip";
    return strstr(codecs, "none") ? "none" : "zstd";
}

/* ---- One shape ------------------------------------------------------------------------------- */

static stk_status write_sample(const trial *t, stk_context *ctx, const int64_t *chunk,
                               stk_error *err)
{
    stk_array_writer_options options;
    stk_array_writer *writer = NULL;

    stk_array_writer_options_init(&options);
    options.dtype = t->info->dtype;
    options.rank = t->info->rank;
    options.shape = t->sample.shape;
    options.chunk_shape = chunk;
    options.codec = t->sample.codec;
    stk_status status = stk_array_writer_create(ctx, "mem://sample/a", &options, &writer, err);
    if (status == STK_OK)
        status = stk_array_writer_write(writer, NULL, NULL, t->values, err);
    if (status == STK_OK)
        return stk_array_writer_finish(&writer, err);
    stk_array_writer_abandon(&writer);
    return status;
}

/* A window at random, or all windows that begin in a chunk at random. Gives how many. */
static double choose_box(const trial *t, const int64_t *chunk, uint64_t number, int64_t *start,
                         int64_t *shape)
{
    const stk_chunks_question *q = t->question;
    uint32_t words[STK_MAX_RANK];
    double windows = 1;

    /* Places are the same for every shape. */
    stk__draw(0, 0, number, STK_DRAW_DATA, words, STK_MAX_RANK);
    for (uint32_t d = 0; d < q->rank; d++) {
        const int64_t stride = q->stride[d],
                      places = (t->sample.shape[d] - q->window[d]) / stride + 1;
        int64_t first = (int64_t)(words[d] % (uint64_t)places), last = first;
        if (q->access == STK_CHUNKS_BLOCK) {
            const int64_t begin = first * stride / chunk[d] * chunk[d];
            first = (begin + stride - 1) / stride;
            last = STK_MIN((begin + chunk[d] - 1) / stride, places - 1);
        }
        windows *= (double)(last - first + 1);
        start[d] = first * stride;
        shape[d] = (last - first) * stride + q->window[d];
    }
    return windows;
}

/* Read a box into *room, which grows; the seconds of the read. */
static stk_status time_box(const trial *t, stk_array *array, const stk_array_box *box, void **room,
                           uint64_t *size, double *seconds, stk_error *err)
{
    uint64_t bytes = 0;

    STK_TRY(stk_array_box_bytes(array, box, &bytes, err));
    if (bytes > *size) {
        stk__free(t->ctx, *room);
        *room = stk__alloc(t->ctx, (size_t)bytes);
        *size = *room ? bytes : 0;
        if (!*room)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a window");
    }
    const uint64_t begin = stk__now_ns();
    STK_TRY(stk_array_read(array, box, *room, bytes, NULL, -1, err));
    *seconds = stk__seconds(stk__now_ns() - begin);
    return STK_OK;
}

static stk_status read_windows(const trial *t, stk_array *array, const int64_t *chunk,
                               stk_chunks_measured *out, stk_error *err)
{
    const uint64_t start_ns = stk__now_ns();
    int64_t start[STK_MAX_RANK], shape[STK_MAX_RANK];
    const stk_array_box box = {start, shape, NULL};
    stk_status status = STK_OK;
    double sum = 0, seconds = 0;
    uint64_t size = 0;
    void *room = NULL;

    /* The first one warms up and does not count. */
    for (uint64_t i = 0; status == STK_OK && i <= MOST; i++) {
        if (i > LEAST && stk__now_ns() - start_ns >= SHAPE_NS)
            break;
        const double windows = choose_box(t, chunk, i, start, shape);
        status = time_box(t, array, &box, &room, &size, &seconds, err);
        if (status == STK_OK && stopped(t))
            status = stk__fail(err, STK_ECANCELED, STK_STAGE_MEASURE, "the trial was stopped");
        sum += i > 0 ? seconds : 0;
        out->windows += i > 0 ? windows : 0;
    }
    stk__free(t->ctx, room);
    out->seconds = sum / out->windows;
    return status;
}

static stk_status time_shape(const trial *t, stk_context *ctx, const int64_t *chunk,
                             stk_chunks_measured *out, stk_error *err)
{
    const stk_chunks_store *store = &t->question->store;
    stk_array_stored stored = {.struct_size = sizeof stored};
    stk_array *array = NULL;
    char url[160];

    STK_TRY(write_sample(t, ctx, chunk, err));
    snprintf(url, sizeof url, "slow+mem://sample/a?latency=%.9fs&bandwidth=%.0fB/s",
             store->latency.typical, store->bandwidth.typical);
    STK_TRY(stk_array_open(ctx, url, NULL, &array, err));
    stk_status status = stk_array_stored_count(array, &stored, err);
    out->ratio = stored.bytes ? (double)stored.values / (double)stored.bytes : (double)NAN;
    if (status == STK_OK)
        status = read_windows(t, array, chunk, out, err);
    stk_array_close(&array);
    return status;
}

/* A context of its own for each shape: its memory goes with it. */
static stk_status measure_shape(const trial *t, const int64_t *chunk, stk_chunks_measured *out,
                                stk_error *err)
{
    const uint32_t rank = t->question->rank;
    stk_context *ctx = NULL;
    int64_t cut[STK_MAX_RANK];
    double pieces = 1;

    for (uint32_t d = 0; d < rank; d++) {
        const int64_t side = t->sample.shape[d];
        if (chunk[d] > side && side < t->question->extent[d])
            out->note = "larger than the sample";
        cut[d] = STK_MIN(chunk[d], side);
        pieces *= ceil((double)side / (double)cut[d]);
    }
    if (pieces > MOST_PIECES)
        out->note = "too many chunks to write";
    if (out->note)
        return STK_OK;
    STK_TRY(stk_context_create(NULL, &ctx, err));
    const stk_status status = time_shape(t, ctx, cut, out, err);
    stk_context_destroy(&ctx);
    return status;
}

/* ---- All shapes ------------------------------------------------------------------------------ */

static stk_status measure_all(trial *t, stk_array *array, stk_error *err)
{
    const stk_array_box box = {t->start, t->sample.shape, NULL};

    STK_TRY(stk_array_read(array, &box, t->values, t->sample.bytes, NULL, -1, err));
    for (size_t i = 0; i < t->asked->count; i++) {
        stk_chunks_measured m = {
            .struct_size = sizeof m, .seconds = (double)NAN, .ratio = (double)NAN};
        STK_TRY(measure_shape(t, t->asked->chunks + i * t->question->rank, &m, err));
        t->asked->measured(t->asked->user, i, &m);
    }
    return STK_OK;
}

static stk_status check(const trial *t, stk_error *err)
{
    const stk_chunks_question *q = t->question;

    if (q->access == STK_CHUNKS_SEQUENTIAL)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "windows are timed at random or by block; a sweep in "
                         "sequence reads the whole array once, whatever the chunks are");
    if (t->info->dtype == STK_DTYPE_NONE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "elements of %s cannot be written again; trials are for numbers",
                         t->info->type_name);
    if (q->rank != t->info->rank || memcmp(q->extent, t->info->shape, q->rank * sizeof *q->extent))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the question is not of this array: give its rank and its shape");
    for (size_t i = 0; i < t->asked->count * q->rank; i++)
        if (t->asked->chunks[i] < 1)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "a side of a chunk is at least 1, not %" PRId64, t->asked->chunks[i]);
    return STK_OK;
}

stk_status stk_chunks_measure(stk_context *context, stk_array *array,
                              const stk_chunks_question *question, const stk_chunks_trial *asked,
                              stk_chunks_sample *out, stk_error *err)
{
    stk_chunks_question q;
    stk_chunks_trial a = {0};
    stk_chunks_counts counts;

    stk_chunks_question_init(&q);
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__sized_read(&q, sizeof q, question, "stk_chunks_question", STK_STAGE_OPTIONS, err));
    STK_TRY(stk__sized_read(&a, sizeof a, asked, "stk_chunks_trial", STK_STAGE_OPTIONS, err));
    STK_TRY(stk__sized_check(out, "stk_chunks_sample", STK_STAGE_OPTIONS, err));
    trial t = {.ctx = context,
               .question = &q,
               .asked = &a,
               .info = stk_array_get_info(array),
               .sample = {.struct_size = sizeof t.sample}};
    STK_TRY(check(&t, err));
    STK_TRY(stk_chunks_count(&q, t.info->chunk_shape, &counts, err));
    STK_TRY(choose_sample(&t, err));
    t.sample.codec = codec_like(t.info->codecs);
    t.values = stk__alloc(t.ctx, (size_t)t.sample.bytes);
    if (!t.values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE,
                         "no memory for a sample of %" PRIu64 " bytes; choose a smaller one",
                         t.sample.bytes);
    const stk_status status = measure_all(&t, array, err);
    stk__free(t.ctx, t.values);
    stk__sized_write(out, &t.sample);
    return status;
}

size_t stk_chunks_choose(const double *measured, const double *model, size_t count)
{
    double least = (double)INFINITY;
    size_t chosen = count;

    for (size_t i = 0; i < count; i++)
        if (measured[i] < least) /* no NaN is */
            least = measured[i];
    for (size_t i = 0; i < count; i++)
        if (measured[i] <= least * (1 + STK_CHUNKS_APART) &&
            (chosen == count || model[i] < model[chosen]))
            chosen = i;
    return chosen;
}
