/* What benchmark programs that train have in common: a step, a callback, a quiet trainer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_BENCH_TRAINING_H
#define STK_BENCH_TRAINING_H

#include "stream.h"

/* ---- A step of a model alone ----------------------------------------------------------------- */

struct bench_step {
    stk_model *model;
    stk_optimizer *optimizer;
    const float *input;
    const int64_t *labels;
    uint32_t rows;
};

static inline void bench_step(const struct bench_step *run, uint64_t number)
{
    stk_model_result result = {.struct_size = sizeof result};
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = run->rows,
                                   .dtype = STK_FLOAT32,
                                   .input = run->input,
                                   .target = run->labels,
                                   .step = number};
    stk_error err;

    bench_check(stk_model_forward(run->model, &batch, true, &result, &err), &err);
    bench_check(stk_model_zero_grad(run->model, &err), &err);
    bench_check(stk_model_backward(run->model, 1, &err), &err);
    bench_check(stk_optimizer_step(run->optimizer, &err), &err);
}

/* ---- A trainer's surroundings ---------------------------------------------------------------- */

static inline stk_status bench_callback_create(stk_context *context, const void *options,
                                               stk_callback **out, stk_error *err)
{
    static stk_callback callback;

    (void)options, (void)err;
    callback.context = context;
    *out = &callback;
    return STK_OK;
}

static inline void bench_callback_destroy(stk_callback *callback)
{
    (void)callback;
}

/* Add the one callback of a program, of whose table only name and hooks are filled in. */
static inline void bench_add_callback(stk_trainer *trainer, stk_callback_ops *ops)
{
    stk_error err;

    ops->struct_size = sizeof *ops;
    ops->create = bench_callback_create;
    ops->destroy = bench_callback_destroy;
    bench_check(stk_trainer_add_callback(trainer, ops, NULL, NULL, &err), &err);
}

static inline void bench_nothing(void *user, const char *text)
{
    (void)user, (void)text;
}

/* Train a model of these parts; it is given up behind that. */
static inline void bench_fit(stk_trainer *trainer, stk_context *context,
                             const stk_model_parts *parts, stk_dataset *dataset,
                             const stk_loader_options *loader)
{
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = loader};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &source};
    stk_module *module;
    stk_error err;

    bench_check(stk_model_module_create(context, parts, &module, &err), &err);
    bench_check(stk_trainer_fit(trainer, module, &data, NULL, &err), &err);
    stk_module_destroy(&module);
}

/* What a trainer says goes nowhere: plain lines, or the bar of a terminal. */
static inline void bench_quiet(stk_trainer *trainer, bool bar)
{
    const stk_console console = {
        .struct_size = sizeof console, .line = bench_nothing, .bar = bar ? bench_nothing : NULL};

    stk_trainer_set_console(trainer, &console);
}

#endif
