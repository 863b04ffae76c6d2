/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rates that this machine reaches at best, with as many threads as a training computes with:
 * products by large layers of the library itself, in the precision of the training, and memory by
 * STREAM's triad [McCalpin 1995]. Of each the best of some runs counts: other programs only make a
 * run slower.
 */
#include "train/profilers/peaks.h"

#include <stdio.h>
#include <unistd.h>

#include <stoker/profiler.h>
#include <stoker/store.h>

#include "base/context.h"

#define RUNS        25                 /* short ones: one of them is not disturbed */
#define SHORT       8                  /* a short run is this part of a long one */
#define LONG_RUN    UINT64_C(60000000) /* ns; after so many no further run begins */
#define SIDE        512u               /* of the linear layer: rows, inputs and outputs */
#define SIDE_DOUBLE 128u               /* likewise, by plain C */
#define CHANNELS    64                 /* of the convolution */
#define PLACES      28                 /* each way */
#define PICTURES    8u
#define TRIAD_LEAST (UINT64_C(16) << 20) /* bytes of an array: the largest cache, but */
#define TRIAD_MOST  (UINT64_C(128) << 20)

/* ---- Products -------------------------------------------------------------------------------- */

static void on_pass(void *user, size_t layer, bool backward, uint64_t start_ns, uint64_t end_ns,
                    uint64_t flops, uint64_t bytes)
{
    double *best = user;

    (void)layer, (void)backward, (void)bytes;
    if (end_ns > start_ns)
        *best = STK_MAX(*best, (double)flops / (double)(end_ns - start_ns) * 1e9);
}

static stk_status run_model(stk_context *ctx, stk_model *model, uint32_t rows, uint64_t elements,
                            double *best, stk_error *err)
{
    float *input = stk__alloc_buffer(ctx, rows * elements * sizeof *input);
    const stk_model_batch batch = {
        .struct_size = sizeof batch, .count = rows, .dtype = STK_FLOAT32, .input = input};
    stk_model_result result = {.struct_size = sizeof result};
    const uint64_t start = stk__now_ns();
    stk_status status = STK_OK;

    if (!input)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to measure products");
    for (uint64_t i = 0; i < rows * elements; i++)
        input[i] = 1;
    /* The first run generates code; it can only be slower. */
    stk_model_set_probe(model, on_pass, best);
    for (int i = 0; i <= RUNS && status == STK_OK; i++)
        if (i < 2 || stk__now_ns() - start < LONG_RUN)
            status = stk_model_forward(model, &batch, false, &result, err);
    stk__free(ctx, input);
    return status;
}

/* The best rate of a layer on rows of a shape. */
static stk_status measure_layer(stk_context *ctx, const char *layer, const int64_t *shape,
                                uint32_t rank, uint32_t rows, const stk__peaks_key *key,
                                double *best, stk_error *err)
{
    stk_model_builder *builder = NULL;
    stk_model_options options;
    stk_model *model = NULL;
    uint64_t elements = 1;

    for (uint32_t i = 0; i < rank; i++)
        elements *= (uint64_t)shape[i];
    stk_model_options_init(&options);
    options.batch_size = options.eval_batch_size = rows;
    options.loss = STK_LOSS_MSE; /* takes any shape; none is computed */
    options.threads = key->threads;
    options.precision = stk_precision_of(key->precision);
    stk_status status = stk_model_builder_create(ctx, shape, rank, &builder, err);
    if (status == STK_OK)
        status = stk_model_builder_add(builder, layer, err);
    if (status == STK_OK)
        status = stk_model_create(builder, &options, &model, err);
    if (status == STK_OK)
        status = run_model(ctx, model, rows, elements, best, err);
    stk_model_destroy(&model);
    stk_model_builder_destroy(&builder);
    return status;
}

static stk_status measure_products(stk_context *ctx, const stk__peaks_key *key, double *best,
                                   stk_error *err)
{
    const bool wide = stk_precision_of(key->precision) == STK_PRECISION_64_TRUE;
    const uint32_t side = wide ? SIDE_DOUBLE : SIDE;
    const int64_t row[] = {side}, picture[] = {CHANNELS, PLACES, PLACES};
    char text[64];

    /* Long runs reach more, short ones are less often disturbed. */
    for (uint32_t part = 1; part <= SHORT; part *= SHORT) {
        snprintf(text, sizeof text, "linear(%u, bias=false)", side);
        STK_TRY(measure_layer(ctx, text, row, 1, side / part, key, best, err));
        if (wide)
            continue;
        snprintf(text, sizeof text, "conv2d(%d, 3, padding=1, bias=false)", CHANNELS);
        STK_TRY(measure_layer(ctx, text, picture, 3, PICTURES / part, key, best, err));
    }
    return STK_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The part of a thread. */
typedef struct triad {
    stk__thread thread;
    double *a;
    const double *b, *c;
    uint64_t from, to;
} triad;

static void triad_run(void *argument)
{
    const triad *t = argument;
    double *restrict a = t->a;
    const double *restrict b = t->b, *restrict c = t->c;

    for (uint64_t i = t->from; i < t->to; i++)
        a[i] = b[i] + 3 * c[i];
}

/* All parts at once; the calling thread does the first. */
static stk_status triad_all(stk_context *ctx, triad *parts, uint32_t n, stk_error *err)
{
    stk_status status = STK_OK;
    uint32_t started = 1;

    for (; started < n && status == STK_OK; started++)
        status = stk__thread_start(ctx, &parts[started].thread, "stk-triad", triad_run,
                                   &parts[started], err);
    triad_run(&parts[0]);
    for (uint32_t i = 1; i < started; i++)
        stk__thread_join(&parts[i].thread);
    return status;
}

static uint64_t array_bytes(void)
{
    long cache = 0;

#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = STK_MAX(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
#endif
    return STK_MIN(STK_MAX((uint64_t)cache, TRIAD_LEAST), TRIAD_MOST);
}

static stk_status measure_memory(stk_context *ctx, uint32_t threads, double *best, stk_error *err)
{
    const uint64_t bytes = array_bytes(), n = bytes / sizeof(double);
    double *room = stk__alloc_buffer(ctx, 3 * bytes);
    triad *parts = stk__calloc(ctx, threads, sizeof *parts);
    stk_status status = STK_OK;

    if (!room || !parts)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to measure memory");
    for (uint32_t i = 0; i < threads && status == STK_OK; i++)
        parts[i] = (triad){.a = room,
                           .b = room + n,
                           .c = room + 2 * n,
                           .from = n * i / threads,
                           .to = n * (i + 1) / threads};
    if (status == STK_OK)
        memset(room, 0, 3 * bytes);
    const uint64_t begin = stk__now_ns();
    for (int i = 0; i < RUNS && status == STK_OK; i++) {
        const uint64_t start = stk__now_ns();
        if (i > 1 && start - begin > LONG_RUN)
            break;
        status = triad_all(ctx, parts, threads, err);
        const uint64_t took = STK_MAX(stk__now_ns() - start, (uint64_t)1);
        *best = STK_MAX(*best, 3 * (double)bytes / (double)took * 1e9);
    }
    stk__free(ctx, parts);
    stk__free(ctx, room);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static stk_status measure(stk_context *ctx, const stk__peaks_key *key, stk__peaks *out,
                          stk_error *err)
{
    *out = (stk__peaks){0};
    STK_TRY(measure_products(ctx, key, &out->flops_per_s, err));
    return measure_memory(ctx, key->threads, &out->bytes_per_s, err);
}

/* All of a small text; false where it is not there, or longer. */
static bool read_kept(stk_context *ctx, const char *path, char *text, size_t size)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk_error err;

    const bool good = stk_store_open(ctx, path, &store, key, sizeof key, &err) == STK_OK && *key &&
                      stk_store_stat(store, key, NULL, &info, &err) == STK_OK && info.size < size &&
                      stk_store_read(store, key, 0, info.size, text, &err) == STK_OK;
    text[good ? info.size : 0] = 0;
    stk_store_close(&store);
    return good;
}

static bool find_kept(stk_context *ctx, const char *folder, const stk__peaks_key *key,
                      stk__peaks *out)
{
    char *path = stk__peaks_path(ctx, folder, key), text[STK__PEAKS_FILE];

    const bool kept = path && read_kept(ctx, path, text, sizeof text) &&
                      stk__peaks_parse(ctx, text, strlen(text), key, out);
    stk__free(ctx, path);
    return kept;
}

stk_status stk_profile_kept_peaks(stk_context *ctx, const char *folder, const char *precision,
                                  double *flops_per_s, double *bytes_per_s, stk_error *err)
{
    stk__peaks_key key;
    stk__peaks peaks;

    STK_TRY(stk__context_check(ctx, err));
    stk__peaks_key_of(ctx, precision, &key);
    if (!find_kept(ctx, folder, &key, &peaks))
        return stk__fail(err, STK_ENOENT, STK_STAGE_TRAIN,
                         "no peaks of this machine for %s and compute_threads %u are kept in "
                         "'%.200s'",
                         key.precision, key.threads, folder);
    *flops_per_s = peaks.flops_per_s;
    *bytes_per_s = peaks.bytes_per_s;
    return STK_OK;
}

stk_status stk__peaks_find(stk_context *ctx, const char *folder, const stk__peaks_key *key,
                           stk__peaks *out, stk_error *err)
{
    stk_status status = STK_OK;

    if (find_kept(ctx, folder, key, out))
        return STK_OK;
    const int held = stk__peaks_hold(ctx, folder, key);
    if (held < 0 || !find_kept(ctx, folder, key, out)) {
        status = measure(ctx, key, out, err);
        if (status == STK_OK)
            stk__peaks_keep(ctx, folder, key, out);
    }
    stk__peaks_let_go(held);
    return status;
}
