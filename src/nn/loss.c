/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and metrics of a batch of outputs, with the derivative of the mean. */
#include <math.h>

#include "nn/kernels.h"
#include "nn/model.h"

static stk_status count_rows(const struct stk_model *m, const int64_t *labels, uint32_t rows,
                             uint64_t classes, uint64_t *count, stk_error *err)
{
    *count = 0;
    for (uint32_t i = 0; i < rows; i++) {
        if (labels[i] == m->options.ignore_index)
            continue;
        if (labels[i] < 0 || (uint64_t)labels[i] >= classes)
            return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                             "row %u of the batch has label %lld, but the model has classes 0 to "
                             "%llu: correct the labels, or the model's number of outputs",
                             i, (long long)labels[i], (unsigned long long)classes - 1);
        (*count)++;
    }
    return STK_OK;
}

static stk_status cross_entropy(struct stk_model *m, const char *output, const int64_t *labels,
                                uint32_t rows, char *gradient, stk__step_numbers *numbers,
                                stk_error *err)
{
    uint64_t classes = stk__node_count(&m->graph.nodes[m->graph.num_nodes - 1]), count;
    uint64_t size = classes * m->backend->itemsize, correct = 0, correct_top_k = 0;
    double loss = 0;

    STK_TRY(count_rows(m, labels, rows, classes, &count, err));
    for (uint32_t i = 0; i < rows; i++) {
        char *dx = gradient ? gradient + i * size : NULL;
        if (labels[i] == m->options.ignore_index) {
            if (dx)
                memset(dx, 0, size);
            continue;
        }
        stk__row_loss row =
            m->kernels->cross_entropy(dx, output + i * size, classes, (uint64_t)labels[i],
                                      m->options.label_smoothing, 1 / (double)count);
        loss += row.loss;
        correct += row.above == 0;
        correct_top_k += row.above < m->options.top_k;
    }
    *numbers = (stk__step_numbers){.loss = loss / (double)count,
                                   .count = (double)count,
                                   .accuracy = (double)correct / (double)count,
                                   .accuracy_top_k = (double)correct_top_k / (double)count};
    return STK_OK;
}

stk_status stk__loss(struct stk_model *m, const void *output, const void *target, uint32_t rows,
                     void *gradient, stk__step_numbers *numbers, stk_error *err)
{
    uint64_t n = stk__node_count(&m->graph.nodes[m->graph.num_nodes - 1]) * rows;
    double share = 1 / (double)n;

    if (m->options.loss == STK_LOSS_CROSS_ENTROPY)
        return cross_entropy(m, output, target, rows, gradient, numbers, err);
    double sum = m->options.loss == STK_LOSS_MSE
                     ? m->kernels->mse(gradient, output, target, n, share)
                     : m->kernels->bce(gradient, output, target, n, share);
    *numbers = (stk__step_numbers){.loss = sum * share, .count = rows};
    return STK_OK;
}
