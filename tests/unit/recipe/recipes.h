/* Recipes from texts, and a dataset and a module that are the caller's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_RECIPE_RECIPES_H
#define STK_TESTS_UNIT_RECIPE_RECIPES_H

#include <stdio.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/support.h"

/* Digits, two layers, one epoch; of every build, with oneDNN or without. */
#define DIGITS                                                                                     \
    "data: {dataset: 'digits:?size=96', val_split: 32, test: 'digits:?split=test&size=48'}\n"      \
    "loader: {batch_size: 16, num_workers: 0, transforms: normalize(mnist)}\n"                     \
    "model: {layers: [flatten, 'linear(12), relu', linear(10)]}\n"                                 \
    "trainer: {max_epochs: 2, precision: 64-true, logger: 'false', seed_everything: 1,\n"          \
    "          enable_checkpointing: false, enable_progress_bar: false,\n"                         \
    "          enable_model_summary: false}\n"

typedef struct made {
    stk_context *ctx;
    stk_config *config;
    stk_recipe *recipe;
    stk_recipe_parts parts;
    stk_error err;
} made;

/* Read a text; the recipe comes after further settings. */
static inline void made_load(made *m, stk_context *ctx, const char *text)
{
    *m = (made){.ctx = ctx, .parts = {.struct_size = sizeof m->parts}};
    assert_ok(stk_config_create(ctx, &m->config, &m->err), &m->err);
    assert_ok(stk_config_load_text(m->config, "test.yaml", text, strlen(text), &m->err), &m->err);
}

static inline void made_set(made *m, const char *key, const char *text)
{
    assert_ok(stk_config_set(m->config, key, text, false, &m->err), &m->err);
}

static inline stk_status made_create(made *m, const stk_recipe_options *options)
{
    stk_status status = stk_recipe_create(m->ctx, m->config, options, &m->recipe, &m->err);

    if (status == STK_OK)
        stk_recipe_get_parts(m->recipe, &m->parts);
    else
        assert_null(m->recipe);
    return status;
}

static inline void made_release(made *m)
{
    stk_recipe_destroy(&m->recipe);
    assert_null(m->recipe);
    stk_config_destroy(&m->config);
}

/* ---- A dataset of the caller's: points, and on which side of zero they lie ---- */

enum { POINTS_FEATURES = 3 };

typedef struct points {
    stk_dataset base;
    bool closed;
} points;

static inline void points_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        double *x = samples[i].values[0].out;
        int64_t *label = samples[i].values[1].out;
        for (int k = 0; k < POINTS_FEATURES; k++)
            x[k] = (double)((samples[i].index * 7 + (uint64_t)k * 3) % 11) - 5;
        *label = x[0] > 0;
        samples[i].values[0].data = x;
        samples[i].values[1].data = label;
    }
}

static inline void points_close(stk_dataset *dataset)
{
    ((points *)dataset)->closed = true;
}

static inline void points_init(points *p, stk_context *ctx, uint64_t size)
{
    static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                        .name = "points",
                                        .close = points_close,
                                        .prepare = points_prepare};
    static const char *const classes[] = {"left", "right"};
    static const stk_field fields[] = {
        {.struct_size = sizeof(stk_field),
         .name = "point",
         .dtype = STK_FLOAT64,
         .rank = 1,
         .shape = {POINTS_FEATURES}},
        {.struct_size = sizeof(stk_field), .name = "label", .dtype = STK_INT64}};

    *p = (points){.base = {.ops = &ops,
                           .context = ctx,
                           .size = size,
                           .fields = fields,
                           .num_fields = 2,
                           .classes = classes,
                           .num_classes = 2}};
}

#endif
