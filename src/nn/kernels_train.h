/* Part of kernels_loops.h: losses and optimizers. */
/* SPDX-License-Identifier: Apache-2.0 */

#define LANES 8 /* sums that are kept apart, whatever the width of vectors */
#define BLOCK 256

static double sum_of(const REAL *x, uint64_t n)
{
    double sums[LANES] = {0}, sum = 0;
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            sums[k] += (double)x[i + k];
    for (; i < n; i++)
        sum += (double)x[i];
    for (int k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

/* A NaN is passed over, unless it is the first. */
static REAL largest(const REAL *x, uint64_t n)
{
    REAL all[2 * LANES], most = x[0];
    uint64_t i = 0;

    for (int k = 0; k < 2 * LANES; k++)
        all[k] = most;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int k = 0; k < 2 * LANES; k++)
            all[k] = x[i + k] > all[k] ? x[i + k] : all[k];
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int k = 0; k < 2 * LANES; k++)
        most = all[k] > most ? all[k] : most;
    return most;
}

/* Classes likelier than the label, or as likely and before it; each NaN is. */
static uint32_t above(const REAL *x, uint64_t classes, uint64_t label)
{
    const REAL mine = x[label];
    uint32_t count = 0;

    for (uint64_t k = 0; k < label; k++)
        count += !(x[k] < mine);
    for (uint64_t k = label; k < classes; k++)
        count += !(x[k] <= mine);
    return count;
}

/* Sum of exp(x - most); each into dx, which may be NULL. */
static double exponentials(REAL *restrict dx, const REAL *restrict x, uint64_t n, REAL most)
{
    REAL room[BLOCK];
    double total = 0;

    for (uint64_t done = 0; done < n; done += BLOCK) {
        uint64_t count = STK_MIN(n - done, BLOCK);
        REAL *restrict e = dx ? dx + done : room;
        for (uint64_t i = 0; i < count; i++)
            e[i] = exponential(x[done + i] - most);
        total += sum_of(e, count);
    }
    return total;
}

/*
 * loss = (1 - s) (L - x_label) + s (L - mean x), L = log sum exp x; its derivative by x_k is
 * softmax_k - (1 - s) [k = label] - s / classes.
 */
static stk__row_loss cross_entropy(void *to, const void *from, uint64_t classes, uint64_t label,
                                   double smoothing, double factor)
{
    const REAL *x = from, most = largest(x, classes);
    REAL *dx = to;
    double total = exponentials(dx, x, classes, most), level = (double)most + log(total);
    stk__row_loss result = {.loss = (1 - smoothing) * (level - (double)x[label]),
                            .above = above(x, classes, label)};

    if (smoothing > 0)
        result.loss += smoothing * (level - sum_of(x, classes) / (double)classes);
    if (dx) {
        REAL share = (REAL)(factor / total), all = (REAL)(factor * smoothing / (double)classes);
        for (uint64_t k = 0; k < classes; k++)
            dx[k] = dx[k] * share - all;
        dx[label] -= (REAL)((1 - smoothing) * factor);
    }
    return result;
}

#undef LANES
#undef BLOCK

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
