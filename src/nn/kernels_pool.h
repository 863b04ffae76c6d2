/* Part of kernels_loops.h: pooling of one picture. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The part of a window that lies within the picture. */
static inline void clip(const stk__window *w, int side, int64_t at, int64_t size, int64_t *from,
                        int64_t *to)
{
    int64_t begin = at * w->stride[side] - w->padding[side];

    *from = begin < 0 ? 0 : begin;
    *to = STK_MIN(begin + w->kernel[side], size);
}

static void max_pool(void *to, uint32_t *which, const void *from, const stk__window *w)
{
    uint64_t c = (uint64_t)w->channels;
    int64_t top, bottom, left, right;

    for (int64_t oy = 0; oy < w->out_height; oy++)
        for (int64_t ox = 0; ox < w->out_width; ox++) {
            uint64_t at = (uint64_t)(oy * w->out_width + ox) * c;
            REAL *restrict y = (REAL *)to + at;
            uint32_t *restrict best = which ? which + at : NULL;
            bool first = true;
            clip(w, 0, oy, w->height, &top, &bottom);
            clip(w, 1, ox, w->width, &left, &right);
            for (int64_t i = top; i < bottom; i++)
                for (int64_t j = left; j < right; j++, first = false) {
                    uint32_t place = (uint32_t)(i * w->width + j);
                    const REAL *restrict x = (const REAL *)from + place * c;
                    if (first) {
                        memcpy(y, x, c * sizeof *y);
                        for (uint64_t k = 0; best && k < c; k++)
                            best[k] = place;
                    } else if (best) {
                        for (uint64_t k = 0; k < c; k++) {
                            bool more = x[k] > y[k] || x[k] != x[k];
                            y[k] = more ? x[k] : y[k];
                            best[k] = more ? place : best[k];
                        }
                    } else {
                        for (uint64_t k = 0; k < c; k++)
                            y[k] = x[k] > y[k] || x[k] != x[k] ? x[k] : y[k];
                    }
                }
        }
}

static void max_pool_backward(void *to, const void *from, const uint32_t *which,
                              const stk__window *w)
{
    REAL *dx = to;
    const REAL *dy = from;
    uint64_t c = (uint64_t)w->channels, n = (uint64_t)(w->out_height * w->out_width);

    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < c; k++)
            dx[which[i * c + k] * c + k] += dy[i * c + k];
}

/* What the sum of a window is multiplied by. */
static inline REAL window_share(const stk__window *w, int64_t oy, int64_t ox, int64_t inside)
{
    int64_t top = oy * w->stride[0] - w->padding[0], left = ox * w->stride[1] - w->padding[1];
    int64_t height = STK_MIN(top + w->kernel[0], w->height + w->padding[0]) - top;
    int64_t width = STK_MIN(left + w->kernel[1], w->width + w->padding[1]) - left;

    return 1 / (REAL)(w->padded ? height * width : inside);
}

static void avg_pool(void *to, const void *from, const stk__window *w)
{
    uint64_t c = (uint64_t)w->channels;
    int64_t top, bottom, left, right;

    for (int64_t oy = 0; oy < w->out_height; oy++)
        for (int64_t ox = 0; ox < w->out_width; ox++) {
            REAL *restrict y = (REAL *)to + (uint64_t)(oy * w->out_width + ox) * c;
            memset(y, 0, c * sizeof *y);
            clip(w, 0, oy, w->height, &top, &bottom);
            clip(w, 1, ox, w->width, &left, &right);
            for (int64_t i = top; i < bottom; i++)
                for (int64_t j = left; j < right; j++) {
                    const REAL *restrict x = (const REAL *)from + (uint64_t)(i * w->width + j) * c;
                    for (uint64_t k = 0; k < c; k++)
                        y[k] += x[k];
                }
            REAL share = window_share(w, oy, ox, (bottom - top) * (right - left));
            for (uint64_t k = 0; k < c; k++)
                y[k] *= share;
        }
}

static void avg_pool_backward(void *to, const void *from, const stk__window *w)
{
    uint64_t c = (uint64_t)w->channels;
    int64_t top, bottom, left, right;

    for (int64_t oy = 0; oy < w->out_height; oy++)
        for (int64_t ox = 0; ox < w->out_width; ox++) {
            const REAL *restrict dy = (const REAL *)from + (uint64_t)(oy * w->out_width + ox) * c;
            clip(w, 0, oy, w->height, &top, &bottom);
            clip(w, 1, ox, w->width, &left, &right);
            REAL share = window_share(w, oy, ox, (bottom - top) * (right - left));
            for (int64_t i = top; i < bottom; i++)
                for (int64_t j = left; j < right; j++) {
                    REAL *restrict dx = (REAL *)to + (uint64_t)(i * w->width + j) * c;
                    for (uint64_t k = 0; k < c; k++)
                        dx[k] += dy[k] * share;
                }
        }
}
