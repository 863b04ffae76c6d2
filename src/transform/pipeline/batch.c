/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixup [arXiv:1710.09412] and cutmix [arXiv:1905.04899] over a finished batch. Row i meets row
 * count - 1 - i, and one weight holds for the whole batch, as in timm's batch mode. Both rows of a
 * pair are done at once and in place, so no memory is wanted; a row in the middle meets itself and
 * stays.
 */
#include "transform/pipeline/batch.h"

#include <math.h>

#include "base/options.h"
#include "base/random.h"
#include "transform/kernels/kernels.h"
#include "transform/operations/arguments.h"
#include "transform/picture.h"

typedef struct mix_options {
    uint32_t struct_size;
    double alpha, p;
} mix_options;

#define MIX_OPTIONS(default_alpha)                                                                 \
    {                                                                                              \
        {.name = "alpha",                                                                          \
         .type = STK_OPTION_DOUBLE,                                                                \
         .offset = offsetof(mix_options, alpha),                                                   \
         .initial = default_alpha,                                                                 \
         .min = 0.001,                                                                             \
         .max = 1000,                                                                              \
         .doc = "The weight of a batch is drawn from Beta(alpha, alpha): small, and most batches " \
                "are hardly mixed; 1, and all weights are alike."},                                \
            {.name = "p",                                                                          \
             .type = STK_OPTION_DOUBLE,                                                            \
             .offset = offsetof(mix_options, p),                                                   \
             .initial = "1",                                                                       \
             .min = 0,                                                                             \
             .max = 1,                                                                             \
             .doc = "Share of the batches that are mixed."},                                       \
    }

static const stk_option mixup_rows[] = MIX_OPTIONS("0.2");
static const stk_option cutmix_rows[] = MIX_OPTIONS("1");

static const stk_option_table mixup_table = {
    .name = "mixup",
    .doc = "Weighted sums of pairs of pictures",
    .struct_size = sizeof(mix_options),
    .options = mixup_rows,
    .count = STK_COUNT(mixup_rows),
};
static const stk_option_table cutmix_table = {
    .name = "cutmix",
    .doc = "A box of another picture in each picture",
    .struct_size = sizeof(mix_options),
    .options = cutmix_rows,
    .count = STK_COUNT(cutmix_rows),
};

/* Words of a batch: which transform, whether, where, and the weight. */
enum {
    DRAW_WHICH,
    DRAW_WHETHER,
    DRAW_ROW,
    DRAW_COLUMN,
    DRAW_BETA,
    NUM_DRAWS = DRAW_BETA + STK__BETA_WORDS
};

typedef struct mix_kind {
    const stk_option_table *table;
    bool any_type; /* moves pixels only: any type will do */
    /* Mix one field; returns the share of its own that a row keeps. */
    double (*mix)(const stk__kernels *kernels, double weight, const uint32_t *words,
                  const stk__batch_field *field, uint64_t count);
} mix_kind;

typedef struct mix_step {
    const mix_kind *kind;
    mix_options options;
} mix_step;

struct stk__batch_pipeline {
    stk_context *context;
    const stk__kernels *kernels;
    mix_step steps[STK__MAX_TRANSFORMS];
    uint32_t num_steps;
};

static unsigned char *row_of(const stk__batch_field *field, uint64_t i)
{
    return (unsigned char *)field->data + i * field->bytes;
}

static double mixup(const stk__kernels *kernels, double weight, const uint32_t *words,
                    const stk__batch_field *field, uint64_t count)
{
    float own = (float)weight, other = 1.0f - own;
    uint64_t elements = field->bytes / stk_dtype_size(field->header.dtype);

    for (uint64_t i = 0; i < count / 2; i++) {
        void *a = row_of(field, i), *b = row_of(field, count - 1 - i);

        if (field->header.dtype == STK_UINT8)
            kernels->mix_u8(a, b, elements, own, other);
        else
            kernels->mix_f32(a, b, elements, own, other);
    }
    return own;
}

static void swap_bytes(unsigned char *a, unsigned char *b, size_t n)
{
    unsigned char room[512];

    for (size_t at = 0; at < n; at += sizeof room) {
        size_t part = STK_MIN(n - at, sizeof room);

        memcpy(room, a + at, part);
        memcpy(a + at, b + at, part);
        memcpy(b + at, room, part);
    }
}

/* [first, end) of `side` pixels: `length` long, around a place drawn uniformly, cut at the edges.
 */
static void place(uint32_t word, double ratio, int64_t side, int64_t *first, int64_t *end)
{
    int64_t half = (int64_t)(ratio * (double)side) / 2;
    int64_t middle = (int64_t)(((uint64_t)word * (uint64_t)side) >> 32);

    *first = STK_MAX(middle - half, 0);
    *end = STK_MIN(middle + half, side);
}

static double cutmix(const stk__kernels *kernels, double weight, const uint32_t *words,
                     const stk__batch_field *field, uint64_t count)
{
    stk__extent e;
    int64_t top, bottom, left, right;
    double ratio = sqrt(1.0 - weight);

    if (stk__picture_extent(&field->header, "", &e, NULL) != STK_OK)
        return 1.0; /* prepare() has refused it */
    place(words[DRAW_ROW], ratio, e.height, &top, &bottom);
    place(words[DRAW_COLUMN], ratio, e.width, &left, &right);
    /* Rows of pixels: of all channels, or of each plane. */
    size_t item = stk_dtype_size(field->header.dtype),
           planes = field->header.chw ? (size_t)e.channels : 1;
    size_t unit = field->header.chw ? item : item * (size_t)e.channels;
    for (uint64_t i = 0; i < count / 2; i++) {
        for (size_t c = 0; c < planes; c++) {
            for (int64_t y = top; y < bottom; y++) {
                size_t at =
                    ((c * (size_t)e.height + (size_t)y) * (size_t)e.width + (size_t)left) * unit;

                swap_bytes(row_of(field, i) + at, row_of(field, count - 1 - i) + at,
                           (size_t)(right - left) * unit);
            }
        }
    }
    return 1.0 - (double)((bottom - top) * (right - left)) / (double)(e.height * e.width);
}

static const mix_kind kinds[] = {
    {.table = &mixup_table, .mix = mixup},
    {.table = &cutmix_table, .any_type = true, .mix = cutmix},
};

static stk_status find_kind(const char *name, const mix_kind **out, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT];
    stk__nearest nearest;

    *out = NULL;
    stk__nearest_init(&nearest, name);
    for (size_t i = 0; i < STK_COUNT(kinds) && !*out; i++) {
        stk__nearest_offer(&nearest, kinds[i].table->name);
        if (stk__option_same(name, strlen(name), kinds[i].table->name,
                             strlen(kinds[i].table->name)))
            *out = &kinds[i];
    }
    if (*out)
        return STK_OK;
    stk__option_show(shown, name);
    return stk__fail(
        err, STK_EINVAL, STK_STAGE_TRANSFORM,
        "batch_transforms: there is no batch transform \"%s\"; there are mixup and cutmix%s", shown,
        stk__nearest_said(&nearest, meant));
}

stk_status stk__batch_pipeline_create(stk_context *ctx, const char *text, stk__batch_pipeline **out,
                                      stk_error *err)
{
    stk__items items;
    stk__batch_pipeline *p = NULL;

    *out = NULL;
    stk_status status = stk__items_parse(ctx, &stk__batch_transform_items, text, &items, err);
    if (status != STK_OK)
        return status;
    p = stk__calloc(ctx, 1, sizeof *p);
    if (!p) {
        status =
            stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM, "no memory for the batch transforms");
        goto out;
    }
    p->context = stk__context_ref(ctx);
    p->kernels = stk__kernels_of(ctx);
    for (uint32_t i = 0; i < items.count && status == STK_OK; i++) {
        mix_step *step = &p->steps[p->num_steps++];

        status = find_kind(items.items[i].name, &step->kind, err);
        if (status == STK_OK)
            status =
                stk__item_options(&items.items[i], step->kind->table, NULL, &step->options, err);
    }
    if (status != STK_OK)
        stk__batch_pipeline_destroy(&p);
    *out = p;
out:
    stk__items_release(ctx, &items);
    return status;
}

void stk__batch_pipeline_destroy(stk__batch_pipeline **pipeline)
{
    if (!pipeline || !*pipeline)
        return;
    stk_context *ctx = (*pipeline)->context;

    stk__free(ctx, *pipeline);
    stk__context_unref(ctx);
    *pipeline = NULL;
}

bool stk__batch_pipeline_empty(const stk__batch_pipeline *pipeline)
{
    return pipeline->num_steps == 0;
}

static bool is_label(const stk__batch_field *field)
{
    return strcmp(field->name, "label") == 0;
}

/* Every picture must be one that every transform can mix. */
static stk_status check_field(const stk__batch_pipeline *pipeline, const stk__batch_field *field,
                              stk_error *err)
{
    stk__extent extent;
    uint64_t bytes;

    for (uint32_t i = 0; i < pipeline->num_steps; i++) {
        const mix_kind *kind = pipeline->steps[i].kind;
        const char *name = kind->table->name;

        STK_TRY(stk__picture_extent(&field->header, name, &extent, err));
        if (!stk__header_bytes(&field->header, &bytes) || bytes != field->bytes)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "%s: field %s has pictures of many sizes: crop them to one", name,
                             field->name);
        if (!kind->any_type && field->header.dtype != STK_UINT8 &&
            field->header.dtype != STK_FLOAT32)
            return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                             "%s: cannot mix field %s of %s, only uint8 and float32", name,
                             field->name, stk_dtype_name(field->header.dtype));
    }
    return STK_OK;
}

stk_status stk__batch_pipeline_prepare(stk__batch_pipeline *pipeline,
                                       const stk__batch_field *fields, uint32_t n, uint64_t rows,
                                       uint64_t *scratch, stk_error *err)
{
    const stk__batch_field *label = NULL;
    uint32_t pictures = 0;

    *scratch = 0;
    if (!pipeline->num_steps)
        return STK_OK;
    const char *name = pipeline->steps[0].kind->table->name;
    for (uint32_t i = 0; i < n; i++) {
        if (is_label(&fields[i]))
            label = &fields[i];
        if (!fields[i].header.picture)
            continue;
        STK_TRY(check_field(pipeline, &fields[i], err));
        pictures++;
    }
    if (!pictures)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: the dataset has no pictures to mix", name);
    if (!label || label->header.dtype != STK_INT64 || label->bytes != sizeof(int64_t))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: the dataset has no field \"label\" with one int64 for each sample",
                         name);
    return STK_OK;
}

void stk__batch_pipeline_run(const stk__batch_pipeline *pipeline, uint64_t seed, uint64_t epoch,
                             uint64_t draw, stk__batch_field *fields, uint32_t n, uint64_t count,
                             int64_t *label_mixed, float *mix, void *scratch)
{
    uint32_t words[NUM_DRAWS];
    double share = 1.0;
    bool first = true;

    if (!pipeline->num_steps)
        return;
    stk__draw(seed, (uint32_t)epoch, draw, STK_DRAW_BATCH, words, NUM_DRAWS);
    /* Of several transforms each batch gets one, all alike often. */
    const mix_step *step =
        &pipeline->steps[((uint64_t)words[DRAW_WHICH] * pipeline->num_steps) >> 32];
    bool mixes = stk__uniform(words[DRAW_WHETHER]) < step->options.p;
    double weight = stk__beta(step->options.alpha, words + DRAW_BETA);
    for (uint32_t i = 0; i < n; i++) {
        if (is_label(&fields[i]) && label_mixed)
            for (uint64_t k = 0; k < count; k++)
                memcpy(&label_mixed[k], row_of(&fields[i], count - 1 - k), sizeof label_mixed[k]);
        if (!fields[i].header.picture || !mixes)
            continue;
        double own = step->kind->mix(pipeline->kernels, weight, words, &fields[i], count);
        if (first) /* a mask of another size rounds its box otherwise */
            share = own;
        first = false;
    }
    for (uint64_t k = 0; k < count && mix; k++)
        mix[k] = (float)share;
}
