/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and metrics of a batch of outputs, with the derivative of the mean. */
#include <math.h>

#include "nn/ops.h"
#include "nn/parallel.h"

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

#define MAX_PARTS 64 /* threads at most: each has its sums on the stack */

/* The rows of a batch, in parts. */
typedef struct rows_of {
    const struct stk_model *m;
    const char *output;
    char *gradient; /* may be NULL */
    const int64_t *labels;
    uint64_t classes;
    double share;
    struct part {
        double loss;
        uint64_t correct, correct_top_k;
    } parts[MAX_PARTS];
} rows_of;

static void rows_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    rows_of *r = argument;
    const stk_model_options *o = &r->m->options;
    const uint64_t size = r->classes * r->m->backend->itemsize;
    struct part sums = {0};

    for (uint64_t i = from; i < to; i++) {
        char *dx = r->gradient ? r->gradient + i * size : NULL;
        if (r->labels[i] == o->ignore_index) {
            if (dx)
                memset(dx, 0, size);
            continue;
        }
        stk__row_loss row =
            r->m->kernels->cross_entropy(dx, r->output + i * size, r->classes,
                                         (uint64_t)r->labels[i], o->label_smoothing, r->share);
        sums.loss += row.loss;
        sums.correct += row.above == 0;
        sums.correct_top_k += row.above < o->top_k;
    }
    r->parts[part] = sums;
}

static stk_status cross_entropy(struct stk_model *m, const char *output, const int64_t *labels,
                                uint32_t rows, char *gradient, stk__step_numbers *numbers,
                                stk_error *err)
{
    rows_of r = {m, output, gradient, labels,
                 .classes = stk__node_count(&m->graph.nodes[m->graph.num_nodes - 1])};
    uint64_t count;

    STK_TRY(count_rows(m, labels, rows, r.classes, &count, err));
    r.share = 1 / (double)count;
    uint32_t parts = stk__parallel(STK_MIN(m->threads, MAX_PARTS), rows,
                                   STK_MAX(STK__GRAIN / r.classes, 1u), rows_body, &r);
    for (uint32_t i = 1; i < parts; i++) {
        r.parts[0].loss += r.parts[i].loss;
        r.parts[0].correct += r.parts[i].correct;
        r.parts[0].correct_top_k += r.parts[i].correct_top_k;
    }
    const struct part sums = r.parts[0];
    *numbers = (stk__step_numbers){.loss = sums.loss / (double)count,
                                   .count = (double)count,
                                   .accuracy = (double)sums.correct / (double)count,
                                   .accuracy_top_k = (double)sums.correct_top_k / (double)count};
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
