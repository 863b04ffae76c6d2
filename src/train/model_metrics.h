/* outputs and targets of an evaluation -> metrics over all of its rows */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_MODEL_METRICS_H
#define STK_SRC_TRAIN_MODEL_METRICS_H

#include "train/model_fields.h"

typedef enum stk__model_metric {
    STK__METRIC_ACCURACY, /* logged with the loss; the others here */
    STK__METRIC_F1,
    STK__METRIC_F1_MICRO,
    STK__METRIC_CONFUSION,
    STK__METRIC_MAE,
    STK__METRIC_RMSE,
    STK__METRIC_R2,
    STK__METRIC_LOGITS, /* accuracy of numbers that say yes above 0 */
    STK__METRIC_COUNT
} stk__model_metric;

/* Of one output of numbers: how many counted, and the sums of |d| and d^2 of what they are off by
 * (of yes and no: 1 where that is wrong); mean of the targets, and sum of the squares of what those
 * are off it. */
typedef struct stk__output_sums {
    double n, absolute, square, mean, m2;
} stk__output_sums;

/* What one loader's outputs have come to so far; no mean of means is taken. */
typedef struct stk__model_metrics {
    stk_context *ctx;
    uint32_t wanted;        /* bits of stk__model_metric */
    uint64_t inner, stride; /* classes, or columns, of a row; places of each */
    int64_t ignore_index;   /* label that does not count */
    double *counts;         /* of classes: hits, predicted, there, then inner x inner; or NULL */
    uint64_t num_counts;
    stk__output_sums *columns; /* of numbers; or NULL */
} stk__model_metrics;

/* `list` has names of metrics; NULL: those that go with the loss. Errors: STK_EINVAL for one that
 * is none of the loss; STK_ELIMIT; STK_ENOMEM. Ended with stk__model_metrics_release() in either
 * case. */
stk_status stk__model_metrics_init(stk__model_metrics *metrics, stk_context *ctx, const char *list,
                                   const stk_model_options *model, const stk__model_fields *fields,
                                   stk_error *err);
void stk__model_metrics_release(stk__model_metrics *metrics);
static inline bool stk__model_metrics_has(const stk__model_metrics *metrics, stk__model_metric one)
{
    return metrics->wanted >> one & 1;
}
/* Name `i` of those that are logged here, of an evaluation; NULL past the last. */
const char *stk__model_metrics_name(const stk__model_metrics *metrics, bool test, size_t i);
/* Count a batch of an evaluation (without rows where `output` is NULL), and log the metrics behind
 * the last one of its loader: all ranks come here with each. */
stk_status stk__model_metrics_take(stk__model_metrics *metrics, stk_trainer *t,
                                   const stk_moment *at, const stk_model_batch *batch,
                                   const stk_state_tensor *output, stk_error *err);

#endif
