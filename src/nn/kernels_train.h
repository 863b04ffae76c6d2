/* Part of kernels_loops.h: optimizers. */
/* SPDX-License-Identifier: Apache-2.0 */

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
