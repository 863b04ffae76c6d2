/* Part of kernels_loops.h: losses and optimizers. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * loss = (1 - s) (L - x_label) + s (L - mean x), L = log sum exp x; its derivative by x_k is
 * softmax_k - (1 - s) [k = label] - s / classes.
 */
static stk__row_loss cross_entropy(void *to, const void *from, uint64_t classes, uint64_t label,
                                   double smoothing, double factor)
{
    const REAL *x = from;
    REAL *dx = to, most = x[0], f = (REAL)factor;
    double total = 0, sum_x = 0;
    stk__row_loss result = {0};

    for (uint64_t k = 0; k < classes; k++) {
        most = x[k] > most ? x[k] : most;
        result.above += !(x[k] <= x[label]) || (x[k] == x[label] && k < label);
    }
    for (uint64_t k = 0; k < classes; k++) {
        REAL e = exponential(x[k] - most);
        total += (double)e;
        sum_x += (double)x[k];
        if (dx)
            dx[k] = e;
    }
    double level = (double)most + log(total);
    result.loss = (1 - smoothing) * (level - (double)x[label]);
    if (smoothing > 0)
        result.loss += smoothing * (level - sum_x / (double)classes);
    if (dx) {
        REAL share = (REAL)(factor / total), all = (REAL)(factor * smoothing / (double)classes);
        for (uint64_t k = 0; k < classes; k++)
            dx[k] = dx[k] * share - all;
        dx[label] -= (REAL)(1 - smoothing) * f;
    }
    return result;
}

static double mse(void *to, const void *from, const float *target, uint64_t n, double factor)
{
    const REAL *x = from;
    REAL *dx = to;
    double loss = 0;

    for (uint64_t i = 0; i < n; i++) {
        REAL d = x[i] - (REAL)target[i];
        loss += (double)d * (double)d;
        if (dx)
            dx[i] = 2 * d * (REAL)factor;
    }
    return loss;
}

/* max(x, 0) - x t + log(1 + exp(-|x|)) */
static double bce(void *to, const void *from, const float *target, uint64_t n, double factor)
{
    const REAL *x = from;
    REAL *dx = to;
    double loss = 0;

    for (uint64_t i = 0; i < n; i++) {
        double v = (double)x[i], e = exp(-fabs(v));
        loss += (v > 0 ? v : 0) - v * (double)target[i] + log1p(e);
        double s = v >= 0 ? 1 / (1 + e) : e / (1 + e);
        if (dx)
            dx[i] = (REAL)((s - (double)target[i]) * factor);
    }
    return loss;
}

static void sgd(void *weights, const void *gradients, void *moments_at, uint64_t n,
                const stk__sgd *o)
{
    REAL *restrict w = weights, *restrict b = moments_at;
    const REAL *restrict g = gradients;
    REAL lr = (REAL)o->lr, decay = (REAL)o->weight_decay, momentum = (REAL)o->momentum;
    REAL damp = o->first ? 1 : (REAL)(1 - o->dampening);
    REAL keep = o->first ? 0 : momentum;

    if (!b)
        for (uint64_t i = 0; i < n; i++)
            w[i] -= lr * (g[i] + decay * w[i]);
    else if (o->nesterov)
        for (uint64_t i = 0; i < n; i++) {
            REAL d = g[i] + decay * w[i];
            b[i] = keep * b[i] + damp * d;
            w[i] -= lr * (d + momentum * b[i]);
        }
    else
        for (uint64_t i = 0; i < n; i++) {
            REAL d = g[i] + decay * w[i];
            b[i] = keep * b[i] + damp * d;
            w[i] -= lr * b[i];
        }
}

static void adam(void *weights, const void *gradients, void *first, void *second, uint64_t n,
                 const stk__adam *o)
{
    REAL *restrict w = weights, *restrict m = first, *restrict v = second;
    const REAL *restrict g = gradients;
    REAL b1 = (REAL)(1 - o->beta1), beta2 = (REAL)o->beta2, b2 = (REAL)(1 - o->beta2);
    REAL eps = (REAL)o->eps, wd = (REAL)o->weight_decay, decay = (REAL)o->decay;
    REAL size = (REAL)o->step_size, root = (REAL)o->root_correction;

    for (uint64_t i = 0; i < n; i++) {
        REAL old = w[i] * decay;
        REAL d = g[i] + wd * w[i];
        m[i] += b1 * (d - m[i]);
        v[i] = beta2 * v[i] + b2 * d * d;
        w[i] = old - size * m[i] / (SQRT(v[i]) * root + eps);
    }
}
