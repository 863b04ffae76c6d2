/* SPDX-License-Identifier: Apache-2.0 */
/* The real step of a recipe's model, for a bench: forward, backward and optimizer step, on batches
 * or on noise. */
#include <stdio.h>

#include "base/sized.h"
#include "recipe/recipe.h"

struct stk__recipe_step {
    stk_context *context;
    stk_model *model;
    stk_optimizer *optimizer;
    const char *input, *target, *mask; /* names of fields, of the recipe's datasets; NULL: none */
    uint64_t rows, row_bytes, step;
    uint64_t target_elements; /* of a row */
    double *lr;     /* of each group, while noise is not to change the weights; NULL: it is over */
    float *samples; /* made up, to measure the step alone */
    void *targets;
    stk_bench_step self;
};

/* Steps on noise must not learn it: gradients that vanish take another time than real ones. */
static bool hold_weights(stk__recipe_step *s)
{
    const size_t n = stk_optimizer_num_groups(s->optimizer);

    s->lr = stk__calloc(s->context, n, sizeof *s->lr);
    for (size_t i = 0; i < n && s->lr; i++) {
        s->lr[i] = stk_optimizer_get_lr(s->optimizer, i);
        stk_optimizer_set_lr(s->optimizer, i, 0);
    }
    return s->lr != NULL;
}

static void let_learn(stk__recipe_step *s)
{
    const size_t n = stk_optimizer_num_groups(s->optimizer);

    for (size_t i = 0; i < n && s->lr; i++)
        stk_optimizer_set_lr(s->optimizer, i, s->lr[i]);
    stk__free(s->context, s->lr);
    s->lr = NULL;
}

/* A batch of noise, with targets that every loss takes. */
static bool make_samples(stk__recipe_step *s, const stk_model_parts *parts)
{
    int64_t shape[STK_MAX_RANK];
    uint64_t outputs = 1, state = 1;

    const uint32_t rank = stk_model_builder_shape(parts->builder, shape);
    for (uint32_t i = 0; i < rank; i++)
        outputs *= (uint64_t)shape[i];
    const bool labels = parts->model->loss == STK_LOSS_CROSS_ENTROPY;
    const uint64_t classes = labels && shape[0] > 0 ? (uint64_t)shape[0] : 1;
    s->target_elements = outputs / classes;
    const uint64_t targets = s->rows * s->target_elements, numbers = s->rows * s->row_bytes / 4;
    s->targets = stk__calloc(s->context, targets, labels ? sizeof(int64_t) : sizeof(float));
    s->samples = stk__alloc_buffer(s->context, STK_MAX(s->rows * s->row_bytes, 1));
    if (!s->targets || !s->samples)
        return false;
    for (uint64_t i = 0; i < numbers; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        s->samples[i] = (float)(int32_t)(state >> 32) / 2147483648.0f;
    }
    for (uint64_t i = 0; i < targets && labels; i++)
        ((int64_t *)s->targets)[i] = (int64_t)(i % classes);
    return true;
}

/* Whether a target has a number, or a class, for each of the model's. */
static bool fits(const stk__recipe_step *s, const stk_tensor *target)
{
    uint64_t elements = 1;

    for (uint32_t i = 1; i < target->rank; i++)
        elements *= (uint64_t)target->shape[i];
    return target->layout == STK_FIXED && elements == s->target_elements;
}

/* What the model takes of a batch. */
static stk_status take(const stk__recipe_step *s, const stk_batch *batch, stk_model_batch *out,
                       stk_error *err)
{
    stk_tensor input = {.struct_size = sizeof input}, target = {.struct_size = sizeof target},
               mask = {.struct_size = sizeof mask};

    stk_status status = stk_batch_find(batch, s->input, &input);
    if (status == STK_OK)
        status = s->target ? stk_batch_find(batch, s->target, &target) : STK_ENOENT;
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_MEASURE,
                         "the batches have no field for the target of the step's model");
    if (!fits(s, &target))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "the target of the batches has not the shape of the outputs");
    out->count = (uint32_t)stk_batch_count(batch);
    out->dtype = input.dtype;
    out->input = input.data;
    out->target = target.data;
    out->target_dtype = target.dtype;
    if (!s->mask)
        return STK_OK;
    STK_TRY(stk_batch_find(batch, s->mask, &mask));
    out->target_mask = mask.data;
    return STK_OK;
}

static stk_status compute(stk__recipe_step *s, stk_model_batch *work, stk_error *err)
{
    stk_model_result result = {.struct_size = sizeof result};

    work->step = s->step++;
    STK_TRY(stk_model_forward(s->model, work, true, &result, err));
    STK_TRY(stk_model_zero_grad(s->model, err));
    STK_TRY(stk_model_backward(s->model, 1, err));
    return stk_optimizer_step(s->optimizer, err);
}

static stk_status run(void *user, const stk_batch *batch, stk_error *err)
{
    stk_model_batch work = {.struct_size = sizeof work};

    if (stk_batch_count(batch) == 0)
        return STK_OK;
    let_learn(user);
    STK_TRY(take(user, batch, &work, err));
    return compute(user, &work, err);
}

static stk_status run_alone(void *user, stk_error *err)
{
    const stk__recipe_step *s = user;
    stk_model_batch work = {.struct_size = sizeof work,
                            .count = (uint32_t)s->rows,
                            .dtype = STK_FLOAT32,
                            .input = s->samples,
                            .target = s->targets};

    return compute(user, &work, err);
}

static stk_status make(stk_recipe *r, stk__recipe_step *s, stk_error *err)
{
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    stk_cores cores = {.struct_size = sizeof cores};

    stk_recipe_get_parts(r, &parts);
    if (!parts.model || !parts.input)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE, "the recipe has no model of layers");
    const stk_model_parts *of = parts.model;
    stk_model_options model = *of->model;
    model.batch_size = s->rows;
    model.precision = stk_precision_of(r->settings.trainer.options.precision);
    s->row_bytes = stk_field_bytes(parts.input);
    s->input = parts.input->name;
    s->target = r->sets.target;
    s->mask = r->sets.mask;
    STK_TRY(stk_model_create(of->builder, &model, &s->model, err));
    STK_TRY(stk_optimizer_create(s->model, of->optimizer, of->groups, of->num_groups, &s->optimizer,
                                 err));
    if (!make_samples(s, of) || !hold_weights(s))
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a batch of the step");
    stk_context_cores(r->context, &cores);
    s->self = (stk_bench_step){.struct_size = sizeof s->self,
                               .threads = model.threads ? (uint32_t)model.threads : cores.compute,
                               .run = run,
                               .run_alone = run_alone,
                               .user = s};
    return STK_OK;
}

stk_status stk_recipe_step(stk_recipe *recipe, uint64_t batch_size, const stk_bench_step **out,
                           stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(recipe->context, err));
    if (recipe->step || batch_size < 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         recipe->step ? "the recipe has its step already"
                                      : "a step is of a batch of at least one row");
    recipe->step = stk__calloc(recipe->context, 1, sizeof *recipe->step);
    if (!recipe->step)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the step");
    recipe->step->context = recipe->context;
    recipe->step->rows = batch_size;
    const stk_status status = make(recipe, recipe->step, err);
    if (status != STK_OK)
        stk__recipe_step_destroy(&recipe->step);
    else
        *out = &recipe->step->self;
    return status;
}

void stk__recipe_step_destroy(stk__recipe_step **step)
{
    stk__recipe_step *s = *step;

    *step = NULL;
    if (!s)
        return;
    stk_optimizer_destroy(&s->optimizer);
    stk_model_destroy(&s->model);
    stk__free(s->context, s->samples);
    stk__free(s->context, s->targets);
    stk__free(s->context, s->lr);
    stk__free(s->context, s);
}
