/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm (with the relu after it) and layer norm. */
#include <math.h>

#include "nn/ops.h"

/* What one part of a loop over rows has to itself. */
typedef struct norm {
    stk__plan *plan;
    stk__plan_step *step;
    uint64_t rows, cols;
    char *room; /* of each part: 2 * cols doubles of sums, 2 * cols elements */
    uint64_t part_bytes;
    /* cols elements each, kept for the backward pass but for the last two */
    char *mean, *scale, *shift, *p, *q;
} norm;

static uint64_t grain(uint64_t cols)
{
    return STK_MAX(STK__GRAIN / cols, 1u);
}

static norm norm_of(stk__plan *plan, stk__plan_step *step, uint32_t scratch)
{
    norm n = {.plan = plan, .step = step, .cols = (uint64_t)step->node->in};
    uint64_t size = n.cols * stk__plan_itemsize(plan);

    n.rows = stk__step_count(plan, step) / n.cols;
    n.room = stk__at(plan, scratch);
    n.part_bytes =
        stk__round_up(n.cols * (2 * sizeof(double) + 2 * stk__plan_itemsize(plan)), STK_CACHE_LINE);
    n.mean = stk__at(plan, step->work);
    if (!n.mean)
        return n;
    n.scale = n.mean + size;
    n.shift = n.scale + size;
    n.p = n.shift + size;
    n.q = n.p + size;
    return n;
}

static stk_status batch_norm_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint64_t cols = (uint64_t)step->node->in, size = stk__plan_itemsize(plan);
    uint64_t rows = stk__step_count(plan, step) / cols;
    uint32_t parts = stk__parallel_parts(plan->model->threads, rows, grain(cols));
    uint64_t part = stk__round_up(cols * (2 * sizeof(double) + 2 * size), STK_CACHE_LINE);
    uint32_t start = stk__plan_time(plan, step, false), end = stk__plan_time(plan, step, true);

    STK_TRY(stk__plan_buffer(plan, 5 * cols, size, start, step->backward ? end : start, &step->work,
                             err));
    if (!plan->training)
        return STK_OK;
    if (!stk__is_fixed(plan->model, step->node))
        STK_TRY(stk__plan_buffer(plan, part, parts, start, start, &step->scratch, err));
    return step->backward
               ? stk__plan_buffer(plan, part, parts, end, end, &step->backward_scratch, err)
               : STK_OK;
}

static void *at_row(const norm *n, uint32_t buffer, uint64_t row)
{
    return (char *)stk__at(n->plan, buffer) + row * n->cols * stk__plan_itemsize(n->plan);
}

static void moments_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const norm *n = argument;
    double *mean = (double *)(void *)(n->room + part * n->part_bytes);

    memset(mean, 0, 2 * n->cols * sizeof *mean);
    n->plan->model->kernels->moments(mean, mean + n->cols, at_row(n, n->step->x[0], from),
                                     to - from, n->cols, mean + 2 * n->cols);
}

static void affine_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const norm *n = argument;

    n->plan->model->kernels->affine(at_row(n, n->step->y, from), at_row(n, n->step->x[0], from),
                                    n->scale, n->shift, to - from, n->cols, n->step->relu);
}

static double get(const stk__plan *plan, const void *x, uint64_t i)
{
    return stk__plan_itemsize(plan) == sizeof(double) ? ((const double *)x)[i]
                                                      : (double)((const float *)x)[i];
}

static void put(const stk__plan *plan, void *x, uint64_t i, double value)
{
    if (stk__plan_itemsize(plan) == sizeof(double))
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

/* Join the parts' moments into the first, in their order, by Chan's formula. */
static void join_moments(const norm *n, uint32_t parts)
{
    double *mean = (double *)(void *)n->room, *m2 = mean + n->cols;
    uint64_t done = n->rows / parts;

    for (uint32_t i = 1; i < parts; i++) {
        const double *other = (const double *)(const void *)(n->room + i * n->part_bytes);
        uint64_t k = n->rows * (i + 1) / parts - n->rows * i / parts;
        double share = (double)k / (double)(done + k);
        for (uint64_t c = 0; c < n->cols; c++) {
            double delta = other[c] - mean[c];
            mean[c] += delta * share;
            m2[c] += other[n->cols + c] + delta * delta * (double)done * share;
        }
        done += k;
    }
}

/* Factor and shift of each channel from its statistics. */
static void set_affine(const norm *n, const double *mean, const double *variance)
{
    const struct stk_model *m = n->plan->model;
    const void *w = stk__weight(m, n->step->node, STK__WEIGHT);
    const void *b = stk__weight(m, n->step->node, STK__BIAS);

    for (uint64_t c = 0; c < n->cols; c++) {
        double inverse = 1 / sqrt(variance[c] + n->step->node->eps);
        double scale = w ? get(n->plan, w, c) * inverse : inverse;
        put(n->plan, n->mean, c, mean[c]);
        put(n->plan, n->scale, c, scale);
        put(n->plan, n->shift, c, (b ? get(n->plan, b, c) : 0) - mean[c] * scale);
        put(n->plan, n->p, c, inverse); /* until the backward pass has read it */
    }
}

/* `rows` values of each channel have these statistics. */
static void learn_statistics(const norm *n, double rows, const double *mean, const double *variance)
{
    const struct stk_model *m = n->plan->model;
    const stk__node *node = n->step->node;
    void *running_mean = stk__weight(m, node, STK__RUNNING_MEAN);
    void *running_var = stk__weight(m, node, STK__RUNNING_VAR);
    int64_t *batches = stk__weight(m, node, STK__NUM_BATCHES);
    double keep = 1 - node->momentum, unbiased = rows / (rows - 1);

    for (uint64_t c = 0; c < n->cols; c++) {
        put(n->plan, running_mean, c,
            keep * get(n->plan, running_mean, c) + node->momentum * mean[c]);
        put(n->plan, running_var, c,
            keep * get(n->plan, running_var, c) + node->momentum * unbiased * variance[c]);
    }
    (*batches)++;
}

/* Means and sums of squares of `values` each -> those of all. Sums about 0 are doubles, of numbers
 * that are floats: what cancels is far below what the floats hold. */
static stk_status sum_moments(const struct stk_model *m, double *mean, uint64_t cols,
                              double *values, stk_error *err)
{
    double *m2 = mean + cols,
           *count = m2 + cols; /* of the room, behind the sums, nothing is used */

    *count = *values;
    for (uint64_t c = 0; c < cols; c++) {
        m2[c] += *values * mean[c] * mean[c];
        mean[c] *= *values;
    }
    STK_TRY(m->sum(m->sum_user, mean, 2 * cols + 1, err));
    *values = *count;
    if (*values <= 0)
        return STK_OK;
    for (uint64_t c = 0; c < cols; c++) {
        mean[c] /= *values;
        m2[c] = STK_MAX(m2[c] - *values * mean[c] * mean[c], 0.0);
    }
    return STK_OK;
}

/* Sums of squares become variances, of all that train together. */
static stk_status finish_moments(const norm *n, stk_error *err)
{
    const struct stk_model *m = n->plan->model;
    double *mean = (double *)(void *)n->room, *variance = mean + n->cols;

    if (m->sum)
        STK_TRY(sum_moments(m, mean, n->cols, &n->step->values, err));
    if (n->step->values < 2)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "layer '%s' (batch_norm2d) needs more than one value of each channel to "
                         "train: use a bigger batch, or drop the last one",
                         n->step->node->name);
    for (uint64_t c = 0; c < n->cols; c++)
        variance[c] /= n->step->values;
    return STK_OK;
}

static stk_status batch_norm_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    norm n = norm_of(plan, step, step->scratch);
    uint32_t threads = plan->model->threads;

    if (plan->training && !stk__is_fixed(plan->model, step->node)) {
        double *mean = (double *)(void *)n.room, *variance = mean + n.cols;
        step->values = (double)n.rows;
        join_moments(&n, stk__parallel(threads, n.rows, grain(n.cols), moments_body, &n));
        STK_TRY(finish_moments(&n, err));
        set_affine(&n, mean, variance);
        learn_statistics(&n, step->values, mean, variance);
    } else {
        const void *mean = stk__weight(plan->model, step->node, STK__RUNNING_MEAN);
        const void *variance = stk__weight(plan->model, step->node, STK__RUNNING_VAR);
        const void *w = stk__weight(plan->model, step->node, STK__WEIGHT);
        const void *b = stk__weight(plan->model, step->node, STK__BIAS);
        for (uint64_t c = 0; c < n.cols; c++) {
            double inverse = 1 / sqrt(get(plan, variance, c) + step->node->eps);
            double scale = w ? inverse * get(plan, w, c) : inverse;
            put(plan, n.mean, c, get(plan, mean, c));
            put(plan, n.p, c, inverse);
            put(plan, n.scale, c, scale);
            put(plan, n.shift, c, (b ? get(plan, b, c) : 0) - get(plan, mean, c) * scale);
        }
    }
    stk__parallel(threads, n.rows, grain(n.cols), affine_body, &n);
    return STK_OK;
}

static void sums_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const norm *n = argument;
    double *sums = (double *)(void *)(n->room + part * n->part_bytes);

    memset(sums, 0, 2 * n->cols * sizeof *sums);
    n->plan->model->kernels->norm_sums(sums, sums + n->cols, at_row(n, n->step->dy, from),
                                       at_row(n, n->step->x[0], from), n->mean, n->scale, n->shift,
                                       to - from, n->cols, n->step->relu, sums + 2 * n->cols);
}

static void backward_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const norm *n = argument;

    n->plan->model->kernels->norm_backward(
        at_row(n, n->step->dx[0], from), at_row(n, n->step->dy, from),
        at_row(n, n->step->x[0], from), n->mean, n->scale, n->p, n->q, to - from, n->cols,
        n->step->flow[0] == STK__FLOW_ADD);
}

static void put_gradients(const norm *n)
{
    const struct stk_model *m = n->plan->model;
    const double *a = (const double *)(const void *)n->room;

    stk__gradient_put(m, stk__gradient(m, n->step->node, STK__BIAS), a, n->cols);
    stk__gradient_put(m, stk__gradient(m, n->step->node, STK__WEIGHT), a + n->cols, n->cols);
}

/* The gradients of the layer's own are those of this batch, as others are; what goes back to the
 * input is of the batches of all. */
static stk_status finish_sums(const norm *n, stk_error *err)
{
    const struct stk_model *m = n->plan->model;
    double *a = (double *)(void *)n->room, *b = a + n->cols;

    for (uint64_t c = 0; c < n->cols; c++)
        b[c] *= get(n->plan, n->p, c);
    put_gradients(n);
    STK_TRY(m->sum(m->sum_user, a, 2 * n->cols, err));
    for (uint64_t c = 0; c < n->cols; c++) {
        const double inverse = get(n->plan, n->p, c);
        const double share = get(n->plan, n->scale, c) / n->step->values;
        put(n->plan, n->p, c, share * a[c]);
        put(n->plan, n->q, c, share * inverse * b[c]);
    }
    return STK_OK;
}

static stk_status batch_norm_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    norm n = norm_of(plan, step, step->backward_scratch);
    const struct stk_model *m = plan->model;
    double *a = (double *)(void *)n.room, *b = a + n.cols;
    uint32_t parts = stk__parallel(m->threads, n.rows, grain(n.cols), sums_body, &n);
    /* Statistics that are not of the batch do not depend on it. */
    const double depends = stk__is_fixed(m, step->node) ? 0 : 1;

    for (uint32_t i = 1; i < parts; i++) {
        const double *other = (const double *)(const void *)(n.room + i * n.part_bytes);
        for (uint64_t c = 0; c < 2 * n.cols; c++)
            a[c] += other[c];
    }
    if (m->sum && depends > 0) {
        STK_TRY(finish_sums(&n, err));
    } else {
        for (uint64_t c = 0; c < n.cols; c++) {
            double inverse = get(plan, n.p, c), scale = get(plan, n.scale, c);
            double share = depends * scale / (double)n.rows;
            put(plan, n.p, c, share * a[c]);
            put(plan, n.q, c, share * inverse * inverse * b[c]);
            b[c] *= inverse;
        }
        put_gradients(&n);
    }
    if (step->flow[0] != STK__FLOW_NONE)
        stk__parallel(m->threads, n.rows, grain(n.cols), backward_body, &n);
    return STK_OK;
}

/* A pass without rows: what the others add up has nothing of it. */
static stk_status idle_forward(stk__plan *plan, stk__plan_step *step, double *sums, stk_error *err)
{
    norm n = norm_of(plan, step, STK__NO_BUFFER);
    double values = 0;

    STK_TRY(sum_moments(plan->model, sums, n.cols, &values, err));
    for (uint64_t c = 0; c < n.cols && values >= 2; c++)
        sums[n.cols + c] /= values;
    if (values >= 2)
        learn_statistics(&n, values, sums, sums + n.cols);
    return STK_OK;
}

stk_status stk__norm_idle(stk__plan *plan, stk__plan_step *step, bool back, stk_error *err)
{
    struct stk_model *m = plan->model;
    const uint64_t cols = (uint64_t)step->node->in;

    if (!m->sum || step->ops != &stk__ops_batch_norm || stk__is_fixed(m, step->node) ||
        (back && !step->backward))
        return STK_OK;
    double *sums = stk__calloc(m->graph.context, 2 * cols + 1, sizeof *sums);
    if (!sums)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for sums over the ranks");
    stk_status status =
        back ? m->sum(m->sum_user, sums, 2 * cols, err) : idle_forward(plan, step, sums, err);
    stk__free(m->graph.context, sums);
    return status;
}

void stk__model_sync(struct stk_model *m, stk__sum_fn *sum, void *user)
{
    m->sum = sum;
    m->sum_user = user;
}

const stk__ops stk__ops_batch_norm = {
    .plan = batch_norm_plan, .forward = batch_norm_forward, .backward = batch_norm_backward};

/* ---- Layer norm ---- */

static stk_status layer_norm_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint64_t cols = (uint64_t)step->node->in, rows = stk__step_count(plan, step) / cols;
    uint32_t start = stk__plan_time(plan, step, false), end = stk__plan_time(plan, step, true);
    uint32_t parts = stk__parallel_parts(plan->model->threads, rows, grain(cols));

    if (!plan->training)
        return STK_OK;
    STK_TRY(stk__plan_buffer(plan, 2 * rows, stk__plan_itemsize(plan), start,
                             step->backward ? end : start, &step->work, err));
    return step->backward ? stk__plan_buffer(plan, 2 * cols * parts, sizeof(double), end, end,
                                             &step->backward_scratch, err)
                          : STK_OK;
}

static void layer_norm_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const norm *n = argument;
    const struct stk_model *m = n->plan->model;
    char *stats = stk__at(n->plan, n->step->work);

    m->kernels->layer_norm(
        at_row(n, n->step->y, from), stats ? stats + 2 * from * stk__plan_itemsize(n->plan) : NULL,
        at_row(n, n->step->x[0], from), stk__weight(m, n->step->node, STK__WEIGHT),
        stk__weight(m, n->step->node, STK__BIAS), to - from, n->cols, n->step->node->eps);
}

static stk_status layer_norm_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    norm n = norm_of(plan, step, STK__NO_BUFFER);

    stk__parallel(plan->model->threads, n.rows, grain(n.cols), layer_norm_body, &n);
    return STK_OK;
}

static void layer_norm_back(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const norm *n = argument;
    const struct stk_model *m = n->plan->model;
    double *sums = (double *)(void *)n->room + 2 * part * n->cols;
    const char *stats = stk__at(n->plan, n->step->work);
    bool flows = n->step->flow[0] != STK__FLOW_NONE;

    memset(sums, 0, 2 * n->cols * sizeof *sums);
    m->kernels->layer_norm_backward(
        flows ? at_row(n, n->step->dx[0], from) : NULL, sums, sums + n->cols,
        at_row(n, n->step->dy, from), at_row(n, n->step->x[0], from),
        stats + 2 * from * stk__plan_itemsize(n->plan), stk__weight(m, n->step->node, STK__WEIGHT),
        to - from, n->cols, n->step->flow[0] == STK__FLOW_ADD);
}

static stk_status layer_norm_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    norm n = norm_of(plan, step, step->backward_scratch);
    const struct stk_model *m = plan->model;
    double *sums = (double *)(void *)n.room;
    uint32_t parts = stk__parallel(m->threads, n.rows, grain(n.cols), layer_norm_back, &n);

    for (uint32_t i = 1; i < parts; i++)
        for (uint64_t c = 0; c < 2 * n.cols; c++)
            sums[c] += sums[2 * i * n.cols + c];
    stk__gradient_put(m, stk__gradient(m, step->node, STK__WEIGHT), sums, n.cols);
    stk__gradient_put(m, stk__gradient(m, step->node, STK__BIAS), sums + n.cols, n.cols);
    return STK_OK;
}

const stk__ops stk__ops_layer_norm = {
    .plan = layer_norm_plan, .forward = layer_norm_forward, .backward = layer_norm_backward};
