/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of our own: learn the picture that is nearest to all digits, their mean. */
#include <stdio.h>
#include <string.h>

#include <stoker/trainer.h>

enum { PIXELS = 28 * 28 };
static float weight[PIXELS], gradient[PIXELS], difference[PIXELS];

static stk_status training_step(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                                stk_loss *loss, stk_error *err)
{
    stk_tensor image = {.struct_size = sizeof image};

    if (stk_batch_find(at->batch, "image", &image) != STK_OK)
        return STK_EINVAL;
    memset(difference, 0, sizeof difference);
    for (int64_t i = 0; i < image.shape[0] * PIXELS; i++) {
        float d = weight[i % PIXELS] - ((const uint8_t *)image.data)[i] / 255.0f;
        difference[i % PIXELS] += d / (float)image.shape[0];
        loss->value.value += 0.5 * d * d / (double)image.shape[0];
    }
    return stk_trainer_log(trainer, "loss", loss->value.value, STK_ON_EPOCH, 0, err);
}

static stk_status backward(stk_module *module, const stk_loss *loss, double scale, stk_error *err)
{
    for (int k = 0; k < PIXELS; k++)
        gradient[k] += (float)scale * difference[k];
    return STK_OK;
}

static stk_status update(stk_module *module, const stk_moment *at, stk_error *err)
{
    for (int k = 0; k < PIXELS; k++)
        weight[k] -= 0.1f * gradient[k];
    return STK_OK;
}

/* What checkpoints keep; the trainer also zeroes and clips the gradients shown here. */
static stk_status state(stk_module *module, uint32_t kinds, stk_state_visit *visit, void *user,
                        stk_error *err)
{
    stk_state_tensor w = {"mean", STK_FLOAT32, 1, {PIXELS}, weight, sizeof weight}, g = w;
    stk_status status = kinds & STK_STATE_PARAMETER ? visit(user, STK_STATE_PARAMETER, &w, err) : 0;

    g.data = gradient;
    return status || !(kinds & STK_STATE_GRADIENT) ? status
                                                   : visit(user, STK_STATE_GRADIENT, &g, err);
}

static const stk_module_ops ops = {sizeof ops, "Mean", training_step,
                                   backward,   update, .state = state};

int main(void)
{
    stk_module module = {&ops};
    stk_trainer_options options;
    stk_context *context = NULL;
    stk_trainer *trainer = NULL;
    stk_loader_source train = {.struct_size = sizeof train};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &train};
    double loss = 1e9;

    stk_trainer_options_init(&options);
    options.max_epochs = 3;
    if (stk_context_create(NULL, &context, NULL) == STK_OK &&
        stk_dataset_open(context, "digits:?size=10000", &train.dataset, NULL) == STK_OK &&
        stk_trainer_create(context, &options, &trainer, NULL) == STK_OK &&
        stk_trainer_fit(trainer, &module, &data, NULL, NULL) == STK_OK)
        stk_trainer_metric(trainer, "loss", &loss);
    printf("loss %.1f\n", loss);
    stk_trainer_destroy(&trainer);
    stk_dataset_close(&train.dataset);
    stk_context_destroy(&context);
    return loss < 30 ? 0 : 1;
}
