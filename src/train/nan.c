/* SPDX-License-Identifier: Apache-2.0 */
/* A loss that is no number: which samples made it, and what becomes of the batch. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/trainer.h"

enum { KEPT = STK_STATE_WEIGHTS | STK_STATE_OPTIMIZER };

static stk_status number_now(const stk_trainer *t, const void *data, stk_dtype dtype, double *value,
                             stk_error *err)
{
    if (!t->host_memory) {
        STK_TRY(stk__device_value(t->device, data, dtype, value, err));
        return stk__synchronize(t, err); /* which has nothing to wait for: how it went */
    }
    *value = stk__element_as_double(data, dtype);
    return STK_OK;
}

stk_status stk_trainer_read_scalar(stk_trainer *t, const stk_scalar *number, double *value,
                                   double *weight, stk_error *err)
{
    if (!number->data) {
        *value = number->value;
        return STK_OK;
    }
    STK_TRY(stk__context_check(t->ctx, err));
    STK_TRY(number_now(t, number->data, number->dtype, value, err));
    return number->weight && weight ? number_now(t, number->weight, number->dtype, weight, err)
                                    : STK_OK;
}

stk_status stk__loss_look(stk_trainer *t, double *loss, double *rows, bool *bad, stk_error *err)
{
    const int32_t policy = t->options.nan_policy;
    const stk_scalar *scalar = &t->loss.value;

    *bad = false;
    *loss = scalar->value;
    *rows = (double)stk_batch_count(t->at.batch);
    const bool waits = scalar->data && !t->host_memory;
    const bool decides = policy == STK_NAN_SKIP || policy == STK_NAN_REWIND;
    const bool shares = !stk__is_alone(t) && scalar->weight;
    if (t->loss.skip || (waits && !decides && !shares))
        return STK_OK;
    STK_TRY(stk_trainer_read_scalar(t, scalar, loss, rows, err));
    /* The mean of no rows is no number, too. */
    t->loss.skip = *rows == 0;
    *bad = !isfinite(*loss);
    return STK_OK;
}

void stk__batch_indices(const stk_batch *batch, char *text, size_t size)
{
    enum { SHOWN = 12 };
    stk_tensor index = {.struct_size = sizeof index};
    size_t used = 0;

    snprintf(text, size, "unknown");
    if (!batch || stk_batch_find(batch, "index", &index) != STK_OK || index.dtype != STK_UINT64)
        return;
    const uint64_t n = stk_batch_count(batch);
    for (uint64_t i = 0; i < STK_MIN(n, (uint64_t)SHOWN) && used + 24 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i ? ", " : "",
                                 ((const uint64_t *)index.data)[i]);
    if (n > SHOWN && used < size)
        snprintf(text + used, size - used, " and %" PRIu64 " more", n - SHOWN);
}

stk_status stk__nan_keep(stk_trainer *t, stk_error *err)
{
    if (t->options.nan_policy != STK_NAN_REWIND)
        return STK_OK;
    t->good.ctx = t->ctx;
    return stk__copy_take(&t->good, t, KEPT, err);
}

stk_status stk__nan_met(stk_trainer *t, double loss, bool *leave, stk_error *err)
{
    const int32_t policy = t->options.nan_policy;
    const bool rewind = policy == STK_NAN_REWIND;
    /* The sign of a NaN says nothing. */
    const char *shown = isfinite(loss) ? "no number on another rank"
                        : isnan(loss)  ? "nan"
                        : loss > 0     ? "inf"
                                       : "-inf";
    char samples[240];

    *leave = false;
    if (policy == STK_NAN_IGNORE && !t->options.detect_anomaly)
        return STK_OK;
    stk__batch_indices(t->at.batch, samples, sizeof samples);
    if (policy == STK_NAN_STOP || policy == STK_NAN_IGNORE)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "the loss is %s at batch %" PRIu64 " of epoch %" PRIu64
                         " (samples %s); a lower learning rate or gradient_clip_val may help, and "
                         "nan_policy skip leaves such batches out",
                         shown, t->at.batch_idx, t->at.epoch, samples);
    if (++t->bad_batches >= t->options.nan_limit)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "the loss is %s at batch %" PRIu64 " of epoch %" PRIu64
                         " (samples %s), the last of %" PRIu64 " bad batches in a row (nan_limit)",
                         shown, t->at.batch_idx, t->at.epoch, samples, t->bad_batches);
    stk__message(t->ctx, STK_MESSAGE_WARNING,
                 "the loss is %s at batch %" PRIu64 " of epoch %" PRIu64 " (samples %s): %s", shown,
                 t->at.batch_idx, t->at.epoch, samples,
                 rewind ? "back to the last good state, without the batch"
                        : "the batch is left out");
    *leave = true;
    if (!rewind)
        return STK_OK;
    /* What was gathered came from parameters that are given up. */
    t->loop.window_open = false;
    return stk__copy_put(&t->good, t, KEPT, err);
}
