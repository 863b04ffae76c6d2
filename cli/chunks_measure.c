/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker chunks --measure: a sample of the array is written again in memory with each of the best
 * chunk shapes, and windows of it are read and timed behind a store that is as slow as the one
 * asked about.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chunks.h"

#define SECONDS     1.0 /* of reading for each shape */
#define LEAST       5   /* windows or blocks */
#define MOST        2000
#define MOST_PIECES 1000000 /* chunks of a sample */

struct trial {
    struct cli *cli;
    const struct chunks_task *task;
    stk_array *source;
    const stk_array_info *info;
    const char *codec;
    int64_t start[STK_MAX_RANK], shape[STK_MAX_RANK]; /* of the sample */
    uint64_t bytes;
    void *values;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Places are the same for every shape [splitmix64, Steele et al. 2014]. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- The sample ------------------------------------------------------------------------------ */

/* The middle of the array, cut where it is longest in windows, but to a window at least. */
static int choose_sample(struct trial *t, uint64_t limit)
{
    const stk_chunks_question *q = &t->task->question;
    const double most = (double)limit;

    for (uint32_t d = 0; d < q->rank; d++)
        t->shape[d] = q->extent[d];
    for (;;) {
        double bytes = (double)q->itemsize, longest = 0;
        uint32_t at = q->rank;
        for (uint32_t d = 0; d < q->rank; d++) {
            const double windows = (double)t->shape[d] / (double)q->window[d];
            bytes *= (double)t->shape[d];
            if (t->shape[d] > q->window[d] && windows > longest) {
                longest = windows;
                at = d;
            }
        }
        if (bytes <= most)
            break;
        if (at == q->rank) {
            cli_error("chunks.sample: %" PRIu64 " bytes do not hold one window; raise it", limit);
            return CLI_FAILED;
        }
        t->shape[at] = (t->shape[at] + 1) / 2;
        if (t->shape[at] < q->window[at])
            t->shape[at] = q->window[at];
    }
    t->bytes = q->itemsize;
    for (uint32_t d = 0; d < q->rank; d++) {
        const int64_t chunk = t->info->chunk_shape[d], middle = (q->extent[d] - t->shape[d]) / 2;
        t->start[d] = middle - middle % chunk;
        t->bytes *= (uint64_t)t->shape[d];
    }
    return CLI_GO_ON;
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

static stk_status write_sample(const struct trial *t, stk_context *context, const int64_t *chunk,
                               stk_error *err)
{
    stk_array_writer_options options;
    stk_array_writer *writer = NULL;

    stk_array_writer_options_init(&options);
    options.dtype = t->info->dtype;
    options.rank = t->info->rank;
    options.shape = t->shape;
    options.chunk_shape = chunk;
    options.codec = t->codec;
    stk_status status = stk_array_writer_create(context, "mem://sample/a", &options, &writer, err);
    if (status == STK_OK)
        status = stk_array_writer_write(writer, NULL, NULL, t->values, err);
    if (status != STK_OK) {
        stk_array_writer_abandon(&writer);
        return status;
    }
    return stk_array_writer_finish(&writer, err);
}

/* A window at random, or all windows that begin in a chunk at random. Gives how many. */
static double choose_box(const struct trial *t, const int64_t *chunk, uint64_t *seed,
                         int64_t *start, int64_t *shape)
{
    const stk_chunks_question *q = &t->task->question;
    double windows = 1;

    for (uint32_t d = 0; d < q->rank; d++) {
        const int64_t stride = q->stride[d], places = (t->shape[d] - q->window[d]) / stride + 1;
        int64_t first = (int64_t)(draw(seed) % (uint64_t)places), last = first;
        if (q->access == STK_CHUNKS_BLOCK) {
            const int64_t begin = first * stride / chunk[d] * chunk[d];
            first = (begin + stride - 1) / stride;
            last = smaller((begin + chunk[d] - 1) / stride, places - 1);
        }
        windows *= (double)(last - first + 1);
        start[d] = first * stride;
        shape[d] = (last - first) * stride + q->window[d];
    }
    return windows;
}

static stk_status read_windows(const struct trial *t, stk_array *array, const int64_t *chunk,
                               struct chunks_measured *out, stk_error *err)
{
    int64_t start[STK_MAX_RANK], shape[STK_MAX_RANK];
    const stk_array_box box = {start, shape, NULL};
    stk_status status = STK_OK;
    double seconds = 0;
    uint64_t seed = 1, room = 0;
    void *to = NULL;

    /* The first one warms up and does not count. */
    for (int i = -1; status == STK_OK && i < MOST && (i < LEAST || seconds < SECONDS); i++) {
        const double windows = choose_box(t, chunk, &seed, start, shape);
        uint64_t bytes = 0;
        status = stk_array_box_bytes(array, &box, &bytes, err);
        if (status == STK_OK && bytes > room) {
            free(to);
            to = malloc((size_t)bytes);
            room = to ? bytes : 0;
            if (!to)
                break;
        }
        const double begin = now();
        if (status == STK_OK)
            status = stk_array_read(array, &box, to, bytes, NULL, -1, err);
        if (i >= 0) {
            seconds += now() - begin;
            out->windows += windows;
        }
        if (cli_interrupted())
            break;
    }
    bool memory = to != NULL;
    free(to);
    if (status == STK_OK && !memory) {
        stk_error_init(err);
        snprintf(err->text, sizeof err->text, "no memory for a window");
        return STK_ENOMEM;
    }
    out->seconds = seconds / out->windows;
    return status;
}

static stk_status time_shape(const struct trial *t, stk_context *context, const int64_t *chunk,
                             struct chunks_measured *out, stk_error *err)
{
    const stk_chunks_store *store = &t->task->question.store;
    stk_array_stored stored = {.struct_size = sizeof stored};
    stk_array *array = NULL;
    char url[160];

    stk_status status = write_sample(t, context, chunk, err);
    snprintf(url, sizeof url, "slow+mem://sample/a?latency=%.9fs&bandwidth=%.0fB/s",
             store->latency.typical, store->bandwidth.typical);
    if (status == STK_OK)
        status = stk_array_open(context, url, NULL, &array, err);
    if (status == STK_OK)
        status = stk_array_stored_count(array, &stored, err);
    out->ratio = stored.bytes ? (double)stored.values / (double)stored.bytes : NAN;
    if (status == STK_OK)
        status = read_windows(t, array, chunk, out, err);
    stk_array_close(&array);
    return status;
}

/* A context of its own for each shape: its memory goes with it. */
static int measure_shape(const struct trial *t, const int64_t *chunk, struct chunks_measured *out)
{
    stk_context *context = NULL;
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk_context_create(NULL, &context, &err);
    if (status == STK_OK)
        status = time_shape(t, context, chunk, out, &err);
    stk_context_destroy(&context);
    return status == STK_OK ? CLI_GO_ON : cli_fail(t->cli, status, &err);
}

/* ---- All shapes ------------------------------------------------------------------------------ */

/* Measure a shape, unless it was, or the sample does not show what it costs. */
static int add_shape(const struct trial *t, const char *place, const int64_t *chunk, double model,
                     struct chunks_result *result)
{
    const uint32_t rank = t->task->question.rank;
    struct chunks_measured *m = &result->measured[result->num_measured];
    double pieces = 1;

    for (size_t i = 0; i < result->num_measured; i++)
        if (memcmp(result->measured[i].chunk, chunk, rank * sizeof *chunk) == 0)
            return CLI_GO_ON;
    if (result->num_measured == CHUNKS_MAX_MEASURED)
        return CLI_GO_ON;
    *m = (struct chunks_measured){.seconds = NAN, .ratio = NAN, .model = model};
    memcpy(m->chunk, chunk, rank * sizeof *chunk);
    snprintf(m->place, sizeof m->place, "%s", place);
    result->num_measured++;
    int64_t cut[STK_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++) {
        if (chunk[d] > t->shape[d] && t->shape[d] < t->task->question.extent[d])
            m->note = "larger than the sample";
        cut[d] = smaller(chunk[d], t->shape[d]);
        pieces *= ceil((double)t->shape[d] / (double)cut[d]);
    }
    if (pieces > MOST_PIECES)
        m->note = "too many chunks to write";
    return m->note ? CLI_GO_ON : measure_shape(t, cut, m);
}

static int measure_all(const struct trial *t, struct chunks_result *result)
{
    const struct chunks_task *task = t->task;
    int code = CLI_GO_ON;
    char place[16];

    for (size_t i = 0; i < task->num_shapes && task->listed && code == CLI_GO_ON; i++)
        code = add_shape(t, i || !task->own ? "given" : "present", task->shapes[i],
                         result->costs[i].seconds[STK_CHUNKS_TYPICAL], result);
    for (uint32_t i = 0; i < result->answer.num_ranked && i < task->top && code == CLI_GO_ON; i++) {
        const stk_chunks_cost *cost = &result->answer.ranked[i];
        snprintf(place, sizeof place, "%" PRIu32, i + 1);
        code = add_shape(t, place, cost->chunk, cost->seconds[STK_CHUNKS_TYPICAL], result);
    }
    return cli_interrupted() ? cli_interrupted() : code;
}

int chunks_measure(struct cli *cli, stk_array *array, const struct chunks_task *task,
                   struct chunks_result *result)
{
    struct trial t = {.cli = cli, .task = task, .source = array, .info = stk_array_get_info(array)};
    const stk_array_box box = {t.start, t.shape, NULL};
    stk_error err;

    if (task->question.access == STK_CHUNKS_SEQUENTIAL) {
        cli_error("chunks.measure: windows are timed at random or by block; a sweep in sequence "
                  "reads the whole array once, whatever the chunks are");
        return CLI_USAGE;
    }
    if (t.info->dtype == STK_DTYPE_NONE) {
        cli_error("chunks.measure: elements of %s cannot be written; it is for numbers",
                  t.info->type_name);
        return CLI_USAGE;
    }
    int code = choose_sample(&t, task->sample);
    if (code != CLI_GO_ON)
        return code;
    t.codec = codec_like(t.info->codecs);
    t.values = malloc((size_t)t.bytes);
    if (!t.values) {
        cli_error("no memory for a sample of %" PRIu64 " bytes; choose a smaller --sample",
                  t.bytes);
        return CLI_FAILED;
    }
    cli_signals_install();
    stk_status status = stk_array_read(array, &box, t.values, t.bytes, NULL, -1, &err);
    code = status == STK_OK ? measure_all(&t, result) : cli_fail(cli, status, &err);
    memcpy(result->sample, t.shape, sizeof result->sample);
    result->sample_bytes = t.bytes;
    result->codec = t.codec;
    free(t.values);
    return code;
}
