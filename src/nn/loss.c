/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy and its metrics of a batch of outputs, with the derivative of the mean; the other
 * losses are in loss_elements.c. */
#include <stdio.h>

#include "nn/ops.h"
#include "nn/parallel.h"

/* Outputs [N, classes, places] and their labels [N, places], in parts of rows and places. */
typedef struct places {
    const struct stk_model *m;
    const char *output;
    char *gradient; /* may be NULL */
    const char *labels;
    stk_dtype dtype;
    const uint8_t *valid; /* may be NULL */
    uint64_t classes, stride;
    double share;
    struct part {
        double loss;
        uint64_t count, correct, correct_top_k;
        uint64_t bad; /* the first place whose label is no class; UINT64_MAX: none */
    } parts[STK__LOSS_PARTS];
} places;

/* Labels as int64; those that do not count as -1 where `mark`. */
static void labels_of(const places *p, uint64_t from, uint32_t n, bool mark, int64_t *out)
{
    const size_t size = stk_dtype_size(p->dtype);
    const char *at = p->labels + from * size;
    const int64_t ignored = p->m->options.ignore_index;

    if (p->dtype == STK_INT64)
        memcpy(out, at, n * sizeof *out);
    else if (p->dtype == STK_UINT8)
        for (uint32_t i = 0; i < n; i++)
            out[i] = (uint8_t)at[i];
    else
        for (uint32_t i = 0; i < n; i++)
            out[i] = (int64_t)stk__element_as_double(at + i * size, p->dtype);
    for (uint32_t i = 0; p->valid && i < n; i++)
        out[i] = p->valid[from + i] ? out[i] : ignored;
    for (uint32_t i = 0; mark && i < n; i++)
        out[i] = out[i] == ignored ? -1 : out[i];
}

static void count_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    places *p = argument;
    struct part sums = {.bad = UINT64_MAX};
    int64_t labels[STK__PLACES];

    for (uint64_t at = from; at < to; at += STK__PLACES) {
        const uint32_t n = (uint32_t)STK_MIN(to - at, (uint64_t)STK__PLACES);
        labels_of(p, at, n, false, labels);
        for (uint32_t i = 0; i < n; i++) {
            if (labels[i] == p->m->options.ignore_index)
                continue;
            sums.count++;
            if ((uint64_t)labels[i] >= p->classes && sums.bad == UINT64_MAX)
                sums.bad = at + i;
        }
    }
    p->parts[part] = sums;
}

static stk_status bad_label(const places *p, uint64_t at, stk_error *err)
{
    char where[48] = "";
    int64_t label;

    labels_of(p, at, 1, false, &label);
    if (p->stride > 1)
        snprintf(where, sizeof where, " at place %llu", (unsigned long long)(at % p->stride));
    return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                     "row %llu of the batch has label %lld%s, but the model has classes 0 to "
                     "%llu: correct the labels, or the model's number of outputs%s",
                     (unsigned long long)(at / p->stride), (long long)label, where,
                     (unsigned long long)p->classes - 1,
                     p->stride > 1 ? ", or set ignore_index to a label that does not count" : "");
}

static stk_status count_places(places *p, uint64_t n, uint32_t threads, uint64_t *count,
                               stk_error *err)
{
    const uint32_t parts = stk__parallel(threads, n, STK__GRAIN, count_body, p);

    *count = 0;
    for (uint32_t i = 0; i < parts; i++) {
        if (p->parts[i].bad != UINT64_MAX)
            return bad_label(p, p->parts[i].bad, err);
        *count += p->parts[i].count;
    }
    return STK_OK;
}

static void add_row(struct part *sums, const stk__row_loss *row, uint64_t top_k)
{
    sums->loss += row->loss;
    sums->correct += row->above == 0;
    sums->correct_top_k += row->above < top_k;
}

/* Some places of one row, whose labels are marked. */
static void take_places(const places *p, uint64_t at, uint32_t n, const int64_t *labels,
                        struct part *sums)
{
    const stk_model_options *o = &p->m->options;
    const uint64_t row = at / p->stride, place = at % p->stride;
    const uint64_t first = (row * p->classes * p->stride + place) * p->m->backend->itemsize;
    char *dx = p->gradient ? p->gradient + first : NULL;
    stk__row_loss losses[STK__PLACES];

    if (p->stride > 1) {
        p->m->kernels->cross_entropy_places(dx, p->output + first, p->classes, p->stride, n, labels,
                                            o->label_smoothing, p->share, losses);
    } else if (labels[0] >= 0) {
        losses[0] = p->m->kernels->cross_entropy(dx, p->output + first, p->classes,
                                                 (uint64_t)labels[0], o->label_smoothing, p->share);
    } else if (dx) {
        memset(dx, 0, p->classes * p->m->backend->itemsize);
    }
    for (uint32_t i = 0; i < n; i++)
        if (labels[i] >= 0)
            add_row(sums, &losses[i], o->top_k);
}

static void places_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    places *p = argument;
    struct part sums = {0};
    int64_t labels[STK__PLACES];

    for (uint64_t at = from; at < to;) {
        const uint64_t left = STK_MIN(to - at, p->stride - at % p->stride);
        const uint32_t n = (uint32_t)STK_MIN(left, (uint64_t)STK__PLACES);
        labels_of(p, at, n, true, labels);
        take_places(p, at, n, labels, &sums);
        at += n;
    }
    p->parts[part] = sums;
}

static stk_status cross_entropy(struct stk_model *m, const char *output, char *gradient,
                                stk__step_numbers *numbers, stk_error *err)
{
    const stk_model_batch *batch = &m->batch;
    const stk__node *last = &m->graph.nodes[m->graph.num_nodes - 1];
    const uint32_t threads = STK_MIN(m->threads, (uint32_t)STK__LOSS_PARTS);
    places p = {.m = m,
                .output = output,
                .gradient = gradient,
                .labels = batch->target,
                .dtype = batch->target_dtype ? batch->target_dtype : STK_INT64,
                .valid = batch->target_mask,
                .classes = (uint64_t)last->shape[0],
                .stride = stk__node_count(last) / (uint64_t)last->shape[0]};
    const uint64_t n = p.stride * batch->count;
    uint64_t count;

    STK_TRY(count_places(&p, n, threads, &count, err));
    p.share = 1 / (double)count;
    uint32_t parts =
        stk__parallel(threads, n, STK_MAX(STK__GRAIN / p.classes, 1u), places_body, &p);
    for (uint32_t i = 1; i < parts; i++) {
        p.parts[0].loss += p.parts[i].loss;
        p.parts[0].correct += p.parts[i].correct;
        p.parts[0].correct_top_k += p.parts[i].correct_top_k;
    }
    const struct part sums = p.parts[0];
    *numbers = (stk__step_numbers){.loss = sums.loss / (double)count,
                                   .count = (double)count,
                                   .accuracy = (double)sums.correct / (double)count,
                                   .accuracy_top_k = (double)sums.correct_top_k / (double)count};
    return STK_OK;
}

bool stk__loss_takes(int32_t loss, stk_dtype dtype)
{
    if (dtype == STK_DTYPE_NONE)
        return true;
    return dtype < (loss == STK_LOSS_CROSS_ENTROPY ? STK_FLOAT16 : STK_COMPLEX64);
}

stk_status stk__loss(struct stk_model *m, const void *output, void *gradient,
                     stk__step_numbers *numbers, stk_error *err)
{
    if (m->options.loss == STK_LOSS_CROSS_ENTROPY)
        return cross_entropy(m, output, gradient, numbers, err);
    stk__loss_of_elements(m, output, gradient, numbers);
    return STK_OK;
}
