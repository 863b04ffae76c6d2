/* SPDX-License-Identifier: Apache-2.0 */
/* tokens: windows of one long row of integers, raw or npy, as int64; with the same shifted by one.
 */
#include <stdio.h>

#include "base/text.h"
#include "dataset/npy.h"
#include "dataset/widen.h"

#define BLOCK_BYTES 65536u
#define PRINT_BYTES 4096u /* of the file in the fingerprint */
#define LINES       8u    /* cache lines of the next window that are fetched ahead */
#define AT(member)  offsetof(tokens_options, member)

typedef struct tokens_options {
    uint32_t struct_size;
    uint64_t length, stride, offset;
    bool target, memory;
    const char *dtype;
} tokens_options;

static const stk_option option_list[] = {
    {"length", STK_OPTION_UINT, AT(length), "1024", 1, 1u << 30, NULL, "N", "Tokens of a sample."},
    {"stride", STK_OPTION_UINT, AT(stride), "0", 0, 1u << 30, NULL, "N",
     "Distance of neighbouring samples; 0: the length; 1: every place is a sample."},
    {"target", STK_OPTION_BOOL, AT(target), "false", 0, 0, NULL, NULL,
     "Also a field target: for each token the one that follows it."},
    {"dtype", STK_OPTION_STRING, AT(dtype), "uint16", 0, 0, NULL, "TYPE",
     "Of a raw file: type of its tokens."},
    {"offset", STK_OPTION_SIZE, AT(offset), "0", 0, 0, NULL, "SIZE",
     "Of a raw file: bytes in front of the tokens."},
    {"memory", STK_OPTION_BOOL, AT(memory), "false", 0, 0, NULL, NULL,
     "Read the file into memory when opening."},
};

static const stk_option_table tokens_table = {
    "tokens", "Windows of a long row of integers, as int64.", sizeof(tokens_options), option_list,
    STK_COUNT(option_list)};

typedef struct tokens {
    stk_dataset base;
    stk_store *store;
    stk__object file;
    stk_field fields[2];
    stk_dtype dtype;
    uint32_t size, swap;   /* bytes of a token; to be reversed in groups of so many: 0, 2, 4, 8 */
    uint64_t first, count; /* byte of the first token, tokens */
    uint64_t length, stride;
    uint64_t span; /* tokens that a sample takes */
    bool target;
    stk__dataset_widen_fn *widen;
} tokens;

static void tokens_close(stk_dataset *dataset)
{
    tokens *t = (tokens *)dataset;
    stk_context *ctx = t->base.context;

    stk__object_release(ctx, &t->file);
    stk_store_close(&t->store);
    stk__free(ctx, t);
}

static bool is_npy(const unsigned char *head, uint64_t length)
{
    return length >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static stk_status open_npy(tokens *t, uint64_t *print, stk_error *err)
{
    stk__npy_header h;
    char shape[256];

    STK_TRY(stk__npy_read_header(t->store, &t->file, false, &h, print, err));
    stk__shape_tuple(h.shape, h.rank, shape, sizeof shape);
    if (h.rank != 1)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, t->file.key, 0,
                            "tokens: %s is of shape %s; tokens lie in one dimension", t->file.key,
                            shape);
    t->dtype = h.dtype;
    t->swap = h.swap;
    t->first = h.offset;
    t->count = (uint64_t)h.shape[0];
    return STK_OK;
}

static stk_status open_raw(tokens *t, const tokens_options *o, stk_error *err)
{
    t->dtype = stk_dtype_parse(o->dtype);
    const uint64_t size = stk_dtype_size(t->dtype);
    if (!size)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "dtype", STK_NO_OFFSET,
                            "dtype=%.60s is no type; give one as uint16", o->dtype);
    if (o->offset > t->file.size || (t->file.size - o->offset) % size)
        return stk__fail_at(
            err, STK_EFORMAT, STK_STAGE_DATASET, t->file.key, o->offset,
            "tokens: %s has %llu bytes behind the first %llu, which is no number of "
            "whole tokens of %s; give dtype and offset",
            t->file.key, (unsigned long long)(t->file.size - STK_MIN(o->offset, t->file.size)),
            (unsigned long long)o->offset, o->dtype);
    t->first = o->offset;
    t->count = (t->file.size - o->offset) / size;
    return STK_OK;
}

static stk_status open_tokens(tokens *t, const tokens_options *o, uint64_t *print, stk_error *err)
{
    unsigned char head[PRINT_BYTES];
    uint64_t length = STK_MIN(t->file.size, sizeof head);

    STK_TRY(o->memory ? stk__object_load(t->store, &t->file, err)
                      : stk__object_map(t->store, &t->file, err));
    STK_TRY(stk__object_read(t->store, &t->file, 0, length, head, err));
    *print = stk__fingerprint(*print, head, length);
    STK_TRY(is_npy(head, length) ? open_npy(t, print, err) : open_raw(t, o, err));
    t->size = (uint32_t)stk_dtype_size(t->dtype);
    t->widen = stk__widen(t->base.context, t->dtype);
    if (!t->widen)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, t->file.key, 0,
                            "tokens: %s holds %s; tokens are integers that int64 holds",
                            t->file.key, stk_dtype_name(t->dtype));
    t->target = o->target;
    t->length = o->length;
    t->stride = o->stride ? o->stride : o->length;
    t->span = o->length + o->target;
    if (t->span > t->count)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "length", STK_NO_OFFSET,
                            "length: a sample takes %llu tokens, and %s has %llu; take fewer",
                            (unsigned long long)t->span, t->file.key, (unsigned long long)t->count);
    return STK_OK;
}

static void fill_head(tokens *t, uint64_t print)
{
    const int64_t shape[] = {(int64_t)t->length, -1};
    const uint64_t numbers[] = {t->first,  t->count,  t->length,
                                t->stride, t->target, (uint64_t)t->dtype};
    uint64_t samples = (t->count - t->span) / t->stride + 1;

    t->fields[0] = stk__field(t->target ? "input" : "tokens", STK_INT64, shape, false);
    t->fields[1] = stk__field("target", STK_INT64, shape, false);
    stk__dataset_init(&t->base, &stk__dataset_tokens, t->base.context, samples, t->fields,
                      1 + t->target);
    print = stk__fingerprint(print, numbers, sizeof numbers);
    t->base.fingerprint = stk__fingerprint(t->base.fingerprint, &print, sizeof print);
    t->base.block_size = STK_MIN(STK_MAX(BLOCK_BYTES / (t->stride * t->size), 1), samples);
    t->base.held_bytes = stk__object_held(&t->file);
    t->base.cost_ns = 50 + 0.5 * (double)t->span;
}

static stk_status tokens_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    uint64_t print = stk__fingerprint(0, "tokens", 6);
    bool found = false;

    *out = NULL;
    tokens *t = stk__calloc(ctx, 1, sizeof *t);
    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "tokens: no memory to open %.200s",
                         url);
    t->base.context = ctx;
    stk_status status = stk_store_open(ctx, url, &t->store, key, sizeof key, err);
    if (status == STK_OK && key[0])
        status = stk__object_find(t->store, key, &t->file, &found, err);
    if (status == STK_OK && !found)
        status = stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                              "tokens: '%.200s' is no file; name the file of the tokens", url);
    if (status == STK_OK)
        status = open_tokens(t, options, &print, err);
    if (status != STK_OK) {
        tokens_close(&t->base);
        return status;
    }
    fill_head(t, print);
    *out = &t->base;
    return STK_OK;
}

static stk_status tokens_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    const tokens *t = (const tokens *)dataset;

    (void)err;
    return stk__object_locate(&t->file, t->first, t->stride * t->size, t->span * t->size, indices,
                              n, to);
}

static size_t tokens_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                            size_t size)
{
    tokens *t = (tokens *)dataset;

    *store = t->store;
    return stk__object_copy_key(key, size, t->file.key);
}

/* Big-endian tokens, a piece at a time. */
static void widen_swapped(const tokens *t, const unsigned char *from, int64_t *out)
{
    unsigned char piece[4096];
    const uint64_t most = sizeof piece / t->size;

    for (uint64_t done = 0; done < t->length; done += most) {
        uint64_t n = STK_MIN(t->length - done, most);
        stk__npy_swap(from + done * t->size, piece, n * t->size, t->swap);
        t->widen(piece, n, out + done);
    }
}

static void tokens_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const tokens *t = (const tokens *)dataset;
    const unsigned char *data = t->file.data ? t->file.data + t->first : NULL;
    const uint64_t step = t->stride * t->size;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        const unsigned char *from = data ? data + s->index * step : s->needs[0].data;
        /* Windows lie anywhere: the beginning of the next one is on its way meanwhile. */
        for (uint32_t k = 0; data && i + 1 < n && k < LINES; k++)
            __builtin_prefetch(data + samples[i + 1].index * step + k * STK_CACHE_LINE);
        for (int f = 0; f < 1 + t->target; f++) {
            if (t->swap)
                widen_swapped(t, from + (size_t)f * t->size, s->values[f].out);
            else
                t->widen(from + (size_t)f * t->size, t->length, s->values[f].out);
        }
    }
}

static stk_status tokens_describe(stk_dataset *dataset,
                                  void (*line)(void *user, const char *name, const char *value),
                                  void *user, stk_error *err)
{
    const tokens *t = (const tokens *)dataset;
    char text[128];

    (void)err;
    line(user, "file", t->file.key);
    snprintf(text, sizeof text, "%llu of %s", (unsigned long long)t->count,
             stk_dtype_name(t->dtype));
    line(user, "tokens", text);
    line(user, "kept in", t->file.data ? "memory" : "the store, read by range");
    return STK_OK;
}

const stk_dataset_ops stk__dataset_tokens = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "tokens",
    .doc = "Windows of a long row of integers, raw or npy, as int64.",
    .options = &tokens_table,
    .open = tokens_open,
    .close = tokens_close,
    .locate = tokens_locate,
    .object = tokens_object,
    .prepare = tokens_prepare,
    .describe = tokens_describe,
};
