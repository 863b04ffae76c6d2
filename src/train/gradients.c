/* SPDX-License-Identifier: Apache-2.0 */
/* What the trainer does to gradients itself, where the module leaves it to it. */
#include <inttypes.h>
#include <math.h>

#include "train/trainer.h"

/* ---- Tensors, wherever they lie -------------------------------------------------------------- */

typedef struct staging {
    stk_trainer *t;
    stk_state_visit *visit;
    void *user;
    bool write;
} staging;

static stk_status stage_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                            stk_error *err)
{
    const staging *s = user;
    stk_state_tensor host = *tensor;

    host.data = stk__alloc_buffer(s->t->ctx, (size_t)tensor->bytes);
    if (!host.data)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a copy of '%s'",
                         tensor->name);
    stk_status status = stk_trainer_copy(s->t, host.data, tensor->data, tensor->bytes,
                                         STK_COPY_DEVICE_TO_HOST, err);
    if (status == STK_OK)
        status = s->visit(s->user, kind, &host, err);
    if (status == STK_OK && s->write)
        status = stk_trainer_copy(s->t, tensor->data, host.data, tensor->bytes,
                                  STK_COPY_HOST_TO_DEVICE, err);
    stk__free(s->t->ctx, host.data);
    return status;
}

/* Show tensors of the module in memory that the host reads, and with `write` writes. */
static stk_status host_state(stk_trainer *t, uint32_t kinds, bool write, stk_state_visit *visit,
                             void *user, stk_error *err)
{
    staging s = {t, visit, user, write};

    return t->host_memory ? t->ops.state(t->module, kinds, visit, user, err)
                          : t->ops.state(t->module, kinds, stage_one, &s, err);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static stk_status zero_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    const stk_trainer *t = user;

    return tensor->bytes ? t->device->ops->fill(t->stream, tensor->data, 0, tensor->bytes, err)
                         : STK_OK;
}

stk_status stk__zero_grad(stk_trainer *t, stk_error *err)
{
    /* The module does not know which of them have memory. */
    if (t->ranks.shards.returns)
        return stk__shards_zero(t, err);
    if (t->ops.optimizer_zero_grad)
        return t->ops.optimizer_zero_grad(t->module, &t->at, err);
    if (t->ops.state)
        return t->ops.state(t->module, STK_STATE_GRADIENT, zero_one, t, err);
    return STK_OK;
}

typedef struct clipping {
    double sum_of_squares, scale, bound;
} clipping;

static stk_status check_floats(const stk_state_tensor *tensor, stk_error *err)
{
    if (tensor->dtype == STK_FLOAT32 || tensor->dtype == STK_FLOAT64)
        return STK_OK;
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                     "gradients of type %s ('%s') cannot be clipped by the trainer; the module has "
                     "to bring clip_gradients",
                     stk_dtype_name(tensor->dtype), tensor->name);
}

static stk_status sum_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                          stk_error *err)
{
    clipping *c = user;

    STK_TRY(check_floats(tensor, err));
    if (tensor->dtype == STK_FLOAT32) {
        const float *x = tensor->data;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            c->sum_of_squares += (double)x[i] * (double)x[i];
    } else {
        const double *x = tensor->data;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            c->sum_of_squares += x[i] * x[i];
    }
    return STK_OK;
}

static stk_status scale_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                            stk_error *err)
{
    const clipping *c = user;

    if (tensor->dtype == STK_FLOAT32) {
        float *x = tensor->data;
        const float scale = (float)c->scale;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            x[i] *= scale;
    } else {
        double *x = tensor->data;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            x[i] *= c->scale;
    }
    return STK_OK;
}

static stk_status bound_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                            stk_error *err)
{
    const double bound = ((const clipping *)user)->bound;

    STK_TRY(check_floats(tensor, err));
    if (tensor->dtype == STK_FLOAT32) {
        float *x = tensor->data;
        const float b = (float)bound;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            x[i] = x[i] > b ? b : x[i] < -b ? -b : x[i];
    } else {
        double *x = tensor->data;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            x[i] = x[i] > bound ? bound : x[i] < -bound ? -bound : x[i];
    }
    return STK_OK;
}

stk_status stk__clip(stk_trainer *t, stk_error *err)
{
    const stk_trainer_options *o = &t->options;
    clipping c = {.bound = o->gradient_clip_val};

    if (o->gradient_clip_val <= 0)
        return STK_OK;
    /* Several ranks have one order of sums, wherever the gradients lie. */
    if (!stk__is_alone(t) && t->ops.shard)
        return stk__clip_together(t, o->gradient_clip_val, err);
    if (t->ops.clip_gradients)
        return t->ops.clip_gradients(t->module, o->gradient_clip_val,
                                     (stk_clip)o->gradient_clip_algorithm, err);
    if (o->gradient_clip_algorithm == STK_CLIP_VALUE)
        return host_state(t, STK_STATE_GRADIENT, true, bound_one, &c, err);
    STK_TRY(host_state(t, STK_STATE_GRADIENT, false, sum_one, &c, err));
    /* The bound over the norm, as torch.nn.utils.clip_grad_norm_ has it. */
    c.scale = o->gradient_clip_val / (sqrt(c.sum_of_squares) + 1e-6);
    if (c.scale >= 1)
        return STK_OK;
    return host_state(t, STK_STATE_GRADIENT, true, scale_one, &c, err);
}

static stk_status look_at_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                              stk_error *err)
{
    const size_t size = stk_dtype_size(tensor->dtype);
    const char *what = kind == STK_STATE_GRADIENT ? "gradient of" : "parameter";

    if (tensor->dtype != STK_FLOAT32 && tensor->dtype != STK_FLOAT64 &&
        tensor->dtype != STK_BFLOAT16 && tensor->dtype != STK_FLOAT16)
        return STK_OK;
    for (uint64_t i = 0; i < tensor->bytes / size; i++) {
        double value = stk__element_as_double((const char *)tensor->data + i * size, tensor->dtype);
        if (!isfinite(value))
            return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                             "the %s '%s' has %g as its element %" PRIu64, what, tensor->name,
                             value, i);
    }
    return STK_OK;
}

stk_status stk__find_not_finite(stk_trainer *t, uint32_t kinds, const char *when, stk_error *err)
{
    stk_error found;
    char samples[160];

    if (!t->ops.state)
        return STK_OK;
    stk_error_init(&found);
    stk_status status = host_state(t, kinds, false, look_at_one, NULL, &found);
    if (status == STK_OK)
        return STK_OK;
    stk__batch_indices(t->at.batch, samples, sizeof samples);
    return stk__fail(err, status, STK_STAGE_TRAIN,
                     "detect_anomaly: %.200s, %s batch %" PRIu64 " of epoch %" PRIu64
                     " (samples %s); a lower learning rate or gradient_clip_val may help",
                     found.text, when, t->at.batch_idx, t->at.epoch, samples);
}
