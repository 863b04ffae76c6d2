/* elements -> elements: the loops of the layers, one table for each type and instruction set */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_KERNELS_H
#define STK_SRC_NN_KERNELS_H

#include "base/base.h"

/* A pooling window over one picture [height, width, channels]. */
typedef struct stk__window {
    int64_t channels, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2];
    bool padded; /* padding counts in the mean */
} stk__window;

/* One row of a cross-entropy. */
typedef struct stk__row_loss {
    double loss;
    uint32_t above; /* classes likelier than the label, or as likely and before it */
} stk__row_loss;

#define STK__PLACES 64 /* at most, of a call of cross_entropy_places() */

/* What a loss of elements compares. Targets are of the outputs' type; where `valid` has 0 an
 * element does not count, whatever it holds. */
typedef struct stk__compared {
    const void *x, *target;
    const uint8_t *valid; /* NULL: all count */
    uint64_t n;
    double factor; /* of the derivative */
    double delta;  /* of huber: where the parabola ends */
} stk__compared;

/* The sum of the losses; dx (may be NULL) gets the derivative of each times `factor`. */
typedef double stk__element_loss(void *dx, const stk__compared *c);

/* Step sizes of Adam at one step, from doubles. */
typedef struct stk__adam {
    double beta1, beta2, eps, weight_decay, decay; /* decay: AdamW's factor; else 1 */
    double step_size, root_correction;             /* lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
} stk__adam;

typedef struct stk__sgd {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, first; /* first: the momentum begins as the gradient */
} stk__sgd;

/*
 * Elements are float, or double in the table of the reference. Pictures are channels last. Where
 * both are elementwise, an output may be an input. `add`: the output is added to, not set.
 */
typedef struct stk__nn_kernels {
    uint32_t itemsize;
    /* [c, s] -> [s, c] and back. */
    void (*channels_last)(void *y, const void *x, uint64_t c, uint64_t s);
    void (*channels_first)(void *y, const void *x, uint64_t c, uint64_t s);
    /* Floats to bfloat16, to nearest, ties to even; kept as floats or as themselves. Not in the
     * table of double. */
    void (*round_bf16)(float *y, const float *x, uint64_t n);
    void (*to_bf16)(uint16_t *y, const float *x, uint64_t n);
    void (*add)(void *y, const void *x, uint64_t n);
    void (*scale)(void *x, uint64_t n, double factor);
    void (*clamp)(void *x, uint64_t n, double limit);
    double (*square_sum)(const void *x, uint64_t n);
    void (*sum)(void *y, const void *a, const void *b, uint64_t n, bool relu);
    void (*relu)(void *y, const void *x, uint64_t n);
    void (*relu_backward)(void *dx, const void *dy, const void *y, uint64_t n, bool add);
    void (*gelu)(void *y, const void *x, uint64_t n, bool tanh);
    void (*gelu_backward)(void *dx, const void *dy, const void *x, uint64_t n, bool tanh, bool add);
    void (*silu)(void *y, const void *x, uint64_t n);
    void (*silu_backward)(void *dx, const void *dy, const void *x, uint64_t n, bool add);
    /* y = mask ? x * factor : 0; the backward pass is the same with dy. */
    void (*mask)(void *y, const void *x, const uint8_t *mask, uint64_t n, double factor, bool add);
    /* Bias of rows, then relu. */
    void (*bias)(void *y, const void *b, uint64_t rows, uint64_t cols, bool relu);
    /* y[c] += sum of x[r][c], in double. */
    void (*column_sums)(double *y, const void *x, uint64_t rows, uint64_t cols);
    /* Mean and sum of squared deviations of columns, in double; `room` has 2 * cols elements. */
    void (*moments)(double *mean, double *m2, const void *x, uint64_t rows, uint64_t cols,
                    void *room);
    /* y = x * scale + shift, then relu. */
    void (*affine)(void *y, const void *x, const void *scale, const void *shift, uint64_t rows,
                   uint64_t cols, bool relu);
    /* a[c] += sum of dy, b[c] += sum of dy * (x - mean), in double. With `relu` dy first becomes 0
     * where x * scale + shift is at most 0. `room` has 2 * cols elements. */
    void (*norm_sums)(double *a, double *b, void *dy, const void *x, const void *mean,
                      const void *scale, const void *shift, uint64_t rows, uint64_t cols, bool relu,
                      void *room);
    /* dx = scale * dy - p - (x - mean) * q */
    void (*norm_backward)(void *dx, const void *dy, const void *x, const void *mean,
                          const void *scale, const void *p, const void *q, uint64_t rows,
                          uint64_t cols, bool add);
    /* Rows of `cols`: stats gets mean and 1 / deviation of each; weight and bias may be NULL. */
    void (*layer_norm)(void *y, void *stats, const void *x, const void *weight, const void *bias,
                       uint64_t rows, uint64_t cols, double eps);
    /* dx may be NULL; dw and db (double, may be NULL) are added to. */
    void (*layer_norm_backward)(void *dx, double *dw, double *db, const void *dy, const void *x,
                                const void *stats, const void *weight, uint64_t rows, uint64_t cols,
                                bool add);
    /* One picture. `which` gets the place in the window, or in the picture, of each maximum. */
    void (*max_pool)(void *y, uint32_t *which, const void *x, const stk__window *w);
    void (*max_pool_backward)(void *dx, const void *dy, const uint32_t *which,
                              const stk__window *w);
    void (*avg_pool)(void *y, const void *x, const stk__window *w);
    void (*avg_pool_backward)(void *dx, const void *dy, const stk__window *w);
    /* dx (may be NULL) gets the derivative times `factor`. */
    stk__row_loss (*cross_entropy)(void *dx, const void *x, uint64_t classes, uint64_t label,
                                   double smoothing, double factor);
    /* The same of `n` places next to each other, at most STK__PLACES; class k of them begins at
     * x[k * stride]. A place whose label is negative does not count: its derivative is 0. */
    void (*cross_entropy_places)(void *dx, const void *x, uint64_t classes, uint64_t stride,
                                 uint32_t n, const int64_t *labels, double smoothing, double factor,
                                 stk__row_loss *out);
    stk__element_loss *mse, *l1, *huber, *bce;
    void (*sgd)(void *w, const void *g, void *momentum, uint64_t n, const stk__sgd *o);
    void (*adam)(void *w, const void *g, void *m, void *v, uint64_t n, const stk__adam *o);
} stk__nn_kernels;

extern const stk__nn_kernels stk__nn_kernels_c;
extern const stk__nn_kernels stk__nn_kernels_double;
#ifdef STK_WITH_AVX2
extern const stk__nn_kernels stk__nn_kernels_avx2, stk__nn_kernels_avx512;
#endif

/* The tables for floats that this processor has instructions for, the best first and the C one
 * last; NULL past it. */
const stk__nn_kernels *stk__nn_kernels_at(uint32_t i);
/* The best table for floats that this context may use. */
const stk__nn_kernels *stk__nn_kernels_of(const stk_context *ctx);

#endif
