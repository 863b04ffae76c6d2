/* pictures, weights of 3x3 -> their convolution, by 4 products where 9 are due */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_WINOGRAD_H
#define STK_SRC_NN_WINOGRAD_H

#include "nn/plan.h"

#define STK__WINOGRAD_POINTS 16 /* values of a window of 4x4; a tile of 2x2 is made of them */
#define STK__WINOGRAD_PANEL  16 /* channels that are computed at once */
#define STK__WINOGRAD_PAD    16 /* floats between points: no power of two from one to the next */

/* Floats from a point of transformed weights to the next. */
static inline uint64_t stk__winograd_step(uint64_t in, uint64_t out)
{
    return in * out + STK__WINOGRAD_PAD;
}

/* Pictures [rows, height, width, channels]; tiles are counted through all of them. */
typedef struct stk__winograd {
    uint64_t rows, height, width;
} stk__winograd;

/* Transformed tiles [STK__WINOGRAD_POINTS][stride]; a point holds [tiles, channels], or with
 * `panels` [channels / PANEL, room, PANEL]. */
typedef struct stk__winograd_tiles {
    float *values;
    uint64_t channels, stride;
    uint64_t room; /* tiles at most */
} stk__winograd_tiles;

/* Weights as PyTorch has them, [out, in, 3, 3], for one of two passes. */
typedef struct stk__winograd_filter {
    const float *weights;
    uint64_t in, out;           /* channels of the pass */
    uint64_t in_step, out_step; /* from one channel to the next, in floats */
    bool turned;                /* by half a turn: the pass backward */
} stk__winograd_filter;

/* What becomes of a result. */
typedef struct stk__winograd_end {
    const float *bias; /* NULL: none */
    bool add, relu;    /* add: to what is there */
} stk__winograd_end;

#ifdef STK_WITH_AVX2
/* Tiles [from, to) go to or come from places 0, 1, ... of the transformed ones. */
void stk__winograd_windows(const stk__winograd_tiles *v, const float *x, const stk__winograd *s,
                           uint64_t from, uint64_t to);
void stk__winograd_results(float *y, const stk__winograd_tiles *m, const stk__winograd *s,
                           uint64_t from, uint64_t to, const stk__winograd_end *end);
/* Gradients of results, in panels. */
void stk__winograd_gradients(const stk__winograd_tiles *w, const float *dy, const stk__winograd *s,
                             uint64_t from, uint64_t to, uint64_t first);
/* Panels [from, to) of the outputs: u is [POINTS][step], a
 * point holds [out / PANEL][in][PANEL]. */
void stk__winograd_filter_in(float *u, const stk__winograd_filter *f, uint64_t from, uint64_t to);
/* The same backward: a point of du holds [in][out], dw is as PyTorch has it. */
void stk__winograd_filter_out(float *dw, const float *du, uint64_t in, uint64_t out, bool add,
                              uint64_t from, uint64_t to);
/* m = v u of the first n tiles. */
void stk__winograd_products(const stk__winograd_tiles *m, const stk__winograd_tiles *v,
                            const float *u, uint64_t n);
/* du = (add: +=) v' w over the first n tiles; [from, to) of POINTS * (w's channels / PANEL). */
void stk__winograd_sums(float *du, const stk__winograd_tiles *v, const stk__winograd_tiles *w,
                        uint64_t n, bool add, uint64_t from, uint64_t to);

/* Whether a convolution is done here. It does not depend on the number of rows: a sample has the
 * same bits in every batch. */
bool stk__winograd_takes(const stk__plan *plan, const stk__plan_step *step);
#endif

#endif
