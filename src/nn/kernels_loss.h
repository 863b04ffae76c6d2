/* Part of kernels_loops.h: losses. */
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

/* Sums of exp(x - most) of places; each into dx, which may be NULL. */
static void exponentials_of_places(REAL *dx, const REAL *x, uint64_t classes, uint64_t stride,
                                   uint32_t n, const REAL *most, double *total)
{
    for (uint64_t k = 0; k < classes; k++) {
        const REAL *row = x + k * stride;
        REAL e[STK__PLACES];
        for (uint32_t i = 0; i < n; i++)
            e[i] = exponential(row[i] - most[i]);
        for (uint32_t i = 0; i < n; i++)
            total[i] += (double)e[i];
        if (dx)
            memcpy(dx + k * stride, e, n * sizeof *e);
    }
}

/* As above() of each place. */
static void above_of_places(const REAL *x, uint64_t classes, uint64_t stride, uint32_t n,
                            const int64_t *labels, stk__row_loss *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t label = (uint64_t)STK_MAX(labels[i], 0);
        const REAL mine = x[label * stride + i];
        uint32_t count = 0;
        for (uint64_t k = 0; k < classes; k++) {
            const REAL other = x[k * stride + i];
            count += k < label ? !(other < mine) : !(other <= mine);
        }
        out[i].above = count;
    }
}

static void cross_entropy_places(void *to, const void *from, uint64_t classes, uint64_t stride,
                                 uint32_t n, const int64_t *labels, double smoothing, double factor,
                                 stk__row_loss *out)
{
    const REAL *x = from;
    REAL *dx = to, most[STK__PLACES], share[STK__PLACES];
    const REAL all = (REAL)(factor * smoothing / (double)classes);
    double total[STK__PLACES] = {0}, mean[STK__PLACES] = {0};

    memcpy(most, x, n * sizeof *most);
    for (uint64_t k = 1; k < classes; k++)
        for (uint32_t i = 0; i < n; i++)
            most[i] = x[k * stride + i] > most[i] ? x[k * stride + i] : most[i];
    exponentials_of_places(dx, x, classes, stride, n, most, total);
    for (uint64_t k = 0; smoothing > 0 && k < classes; k++)
        for (uint32_t i = 0; i < n; i++)
            mean[i] += (double)x[k * stride + i] / (double)classes;
    above_of_places(x, classes, stride, n, labels, out);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t label = (uint64_t)STK_MAX(labels[i], 0);
        const double level = (double)most[i] + log(total[i]);
        out[i].loss = (1 - smoothing) * (level - (double)x[label * stride + i]);
        if (smoothing > 0)
            out[i].loss += smoothing * (level - mean[i]);
        share[i] = (REAL)(factor / total[i]);
    }
    for (uint64_t k = 0; dx && k < classes; k++)
        for (uint32_t i = 0; i < n; i++) {
            REAL *at = &dx[k * stride + i];
            *at = labels[i] < 0 ? 0 : *at * share[i] - all;
        }
    for (uint32_t i = 0; dx && i < n; i++)
        if (labels[i] >= 0)
            dx[(uint64_t)labels[i] * stride + i] -= (REAL)((1 - smoothing) * factor);
}

/* What an output is off by; 0 where it does not count. */
static inline REAL difference(const stk__compared *c, uint64_t i)
{
    return c->valid && !c->valid[i] ? 0 : ((const REAL *)c->x)[i] - ((const REAL *)c->target)[i];
}

static double mse(void *to, const stk__compared *c)
{
    REAL *dx = to;
    double loss = 0;

    for (uint64_t i = 0; i < c->n; i++) {
        REAL d = difference(c, i);
        loss += (double)d * (double)d;
        if (dx)
            dx[i] = 2 * d * (REAL)c->factor;
    }
    return loss;
}

static double l1(void *to, const stk__compared *c)
{
    const REAL factor = (REAL)c->factor;
    REAL *dx = to;
    double loss = 0;

    for (uint64_t i = 0; i < c->n; i++) {
        REAL d = difference(c, i);
        loss += fabs((double)d);
        if (dx)
            dx[i] = d > 0 ? factor : d < 0 ? -factor : d * factor;
    }
    return loss;
}

/* A parabola within delta of the target, and lines of its slope there outside. */
static double huber(void *to, const stk__compared *c)
{
    const double delta = c->delta;
    REAL *dx = to;
    double loss = 0;

    for (uint64_t i = 0; i < c->n; i++) {
        const double d = (double)difference(c, i), size = fabs(d);
        const double near = d > delta ? delta : d < -delta ? -delta : d;
        loss += fabs(near) * (size - 0.5 * fabs(near));
        if (dx)
            dx[i] = (REAL)(near * c->factor);
    }
    return loss;
}

/* max(x, 0) - x t + log(1 + exp(-|x|)) */
static double bce(void *to, const stk__compared *c)
{
    const REAL *x = c->x, *target = c->target;
    REAL *dx = to;
    double loss = 0;

    for (uint64_t i = 0; i < c->n; i++) {
        const bool counts = !c->valid || c->valid[i];
        double v = (double)x[i], e = exp(-fabs(v));
        double s = v >= 0 ? 1 / (1 + e) : e / (1 + e);
        if (counts)
            loss += (v > 0 ? v : 0) - v * (double)target[i] + log1p(e);
        if (dx)
            dx[i] = counts ? (REAL)((s - (double)target[i]) * c->factor) : 0;
    }
    return loss;
}
