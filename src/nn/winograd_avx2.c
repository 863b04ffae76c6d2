/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of winograd.c, for processors that fuse multiply and add. */
#include <immintrin.h>

#include "nn/winograd.h"

enum { LANES = 8, PANEL = STK__WINOGRAD_PANEL, ROWS = 6 };

#define INLINE static inline __attribute__((always_inline))

typedef __m256 vector;

/* ---- Transforms: B' d B of a window, A' m A of a result, A d A' and G' u G backwards ---- */

INLINE void window_line(vector to[4], vector a, vector b, vector c, vector d)
{
    to[0] = a - c;
    to[1] = b + c;
    to[2] = c - b;
    to[3] = b - d;
}

INLINE void window_transform(vector d[4][4])
{
    vector t[4][4];

    for (int i = 0; i < 4; i++)
        window_line(t[i], d[0][i], d[1][i], d[2][i], d[3][i]);
    for (int i = 0; i < 4; i++)
        window_line(d[i], t[0][i], t[1][i], t[2][i], t[3][i]);
}

/* Where the results of a tile are, the last of them perhaps outside of the picture. */
typedef struct place {
    uint64_t picture; /* its first pixel */
    int64_t top, left;
} place;

INLINE place place_of(const stk__winograd *s, uint64_t tile)
{
    const uint64_t across = (s->width + 1) / 2, each = across * ((s->height + 1) / 2);
    const uint64_t row = tile / each, in = tile % each;

    return (place){row * s->height * s->width, (int64_t)(2 * (in / across)),
                   (int64_t)(2 * (in % across))};
}

#define OUTSIDE UINT64_MAX

/* The number of a pixel among all. */
INLINE uint64_t pixel(const stk__winograd *s, const place *p, int down, int right)
{
    const int64_t y = p->top + down, x = p->left + right;

    if (y < 0 || x < 0 || y >= (int64_t)s->height || x >= (int64_t)s->width)
        return OUTSIDE;
    return p->picture + (uint64_t)y * s->width + (uint64_t)x;
}

INLINE vector load(const float *x, uint64_t pixel, uint64_t channels, uint64_t c)
{
    return pixel == OUTSIDE ? _mm256_setzero_ps() : _mm256_loadu_ps(x + pixel * channels + c);
}

void stk__winograd_windows(const stk__winograd_tiles *v, const float *x, const stk__winograd *s,
                           uint64_t from, uint64_t to)
{
    const uint64_t channels = v->channels;

    for (uint64_t tile = from; tile < to; tile++) {
        const place p = place_of(s, tile);
        float *out = v->values + (tile - from) * channels;
        uint64_t at[4][4];
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                at[i][j] = pixel(s, &p, i - 1, j - 1);
        for (uint64_t c = 0; c < channels; c += LANES) {
            vector d[4][4];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    d[i][j] = load(x, at[i][j], channels, c);
            window_transform(d);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    _mm256_storeu_ps(out + (uint64_t)(4 * i + j) * v->stride + c, d[i][j]);
        }
    }
}

INLINE void result_line(vector *a, vector *b, const vector m[4])
{
    *a = m[0] + m[1] + m[2];
    *b = m[1] - m[2] - m[3];
}

void stk__winograd_results(float *y, const stk__winograd_tiles *m, const stk__winograd *s,
                           uint64_t from, uint64_t to, const stk__winograd_end *end)
{
    const uint64_t channels = m->channels;
    const vector zero = _mm256_setzero_ps();

    for (uint64_t tile = from; tile < to; tile++) {
        const place p = place_of(s, tile);
        const float *in = m->values + (tile - from) * channels;
        uint64_t at[2][2];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                at[i][j] = pixel(s, &p, i, j);
        for (uint64_t c = 0; c < channels; c += LANES) {
            vector t[2][4], r[2][2];
            for (int j = 0; j < 4; j++) {
                vector column[4];
                for (int i = 0; i < 4; i++)
                    column[i] = _mm256_loadu_ps(in + (uint64_t)(4 * i + j) * m->stride + c);
                result_line(&t[0][j], &t[1][j], column);
            }
            for (int i = 0; i < 2; i++)
                result_line(&r[i][0], &r[i][1], t[i]);
            const vector bias = end->bias ? _mm256_loadu_ps(end->bias + c) : zero;
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) {
                    if (at[i][j] == OUTSIDE)
                        continue;
                    float *out = y + at[i][j] * channels + c;
                    vector value = r[i][j] + bias;
                    if (end->add)
                        value = value + _mm256_loadu_ps(out);
                    /* A NaN stays one. */
                    if (end->relu)
                        value = _mm256_max_ps(zero, value);
                    _mm256_storeu_ps(out, value);
                }
        }
    }
}

void stk__winograd_gradients(const stk__winograd_tiles *w, const float *dy, const stk__winograd *s,
                             uint64_t from, uint64_t to, uint64_t first)
{
    const uint64_t channels = w->channels, stride = w->stride;
    const vector zero = _mm256_setzero_ps();

    for (uint64_t tile = from; tile < to; tile++) {
        const place p = place_of(s, tile);
        for (uint64_t c = 0; c < channels; c += LANES) {
            vector t[4][2], d[2][2];
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    d[i][j] = load(dy, pixel(s, &p, i, j), channels, c);
            for (int j = 0; j < 2; j++) {
                t[0][j] = d[0][j];
                t[1][j] = d[0][j] + d[1][j];
                t[2][j] = d[0][j] - d[1][j];
                t[3][j] = zero - d[1][j];
            }
            float *out =
                w->values + c / PANEL * w->room * PANEL + (tile - first) * PANEL + c % PANEL;
            for (int i = 0; i < 4; i++) {
                float *line = out + (uint64_t)(4 * i) * stride;
                _mm256_storeu_ps(line, t[i][0]);
                _mm256_storeu_ps(line + stride, t[i][0] + t[i][1]);
                _mm256_storeu_ps(line + 2 * stride, t[i][0] - t[i][1]);
                _mm256_storeu_ps(line + 3 * stride, zero - t[i][1]);
            }
        }
    }
}

INLINE void weight_line(vector to[4], vector a, vector b, vector c)
{
    const vector half = _mm256_set1_ps(0.5f);
    const vector ends = (a + c) * half, middle = b * half;

    to[0] = a;
    to[1] = ends + middle;
    to[2] = ends - middle;
    to[3] = c;
}

void stk__winograd_filter_in(float *u, const stk__winograd_filter *f, uint64_t from, uint64_t to)
{
    const uint64_t stride = stk__winograd_step(f->in, f->out);

    for (uint64_t panel = from; panel < to; panel++)
        for (uint64_t in = 0; in < f->in; in++) {
            float g[9][PANEL];
            for (uint64_t lane = 0; lane < PANEL; lane++) {
                const float *own =
                    f->weights + (panel * PANEL + lane) * f->out_step + in * f->in_step;
                for (int i = 0; i < 9; i++)
                    g[f->turned ? 8 - i : i][lane] = own[i];
            }
            float *out = u + (panel * f->in + in) * PANEL;
            for (int half = 0; half < PANEL; half += LANES) {
                vector t[4][3], line[4];
                for (int j = 0; j < 3; j++) {
                    weight_line(line, _mm256_loadu_ps(g[j] + half),
                                _mm256_loadu_ps(g[3 + j] + half), _mm256_loadu_ps(g[6 + j] + half));
                    for (int i = 0; i < 4; i++)
                        t[i][j] = line[i];
                }
                for (int i = 0; i < 4; i++) {
                    weight_line(line, t[i][0], t[i][1], t[i][2]);
                    for (int j = 0; j < 4; j++)
                        _mm256_storeu_ps(out + (uint64_t)(4 * i + j) * stride + half, line[j]);
                }
            }
        }
}

INLINE void gradient_line(vector to[3], const vector u[4])
{
    const vector half = _mm256_set1_ps(0.5f);
    const vector sum = (u[1] + u[2]) * half;

    to[0] = u[0] + sum;
    to[1] = (u[1] - u[2]) * half;
    to[2] = sum + u[3];
}

void stk__winograd_filter_out(float *dw, const float *du, uint64_t in, uint64_t out, bool add,
                              uint64_t from, uint64_t to)
{
    const uint64_t step = stk__winograd_step(in, out);

    for (uint64_t o = from * PANEL; o < to * PANEL; o += LANES)
        for (uint64_t c = 0; c < in; c++) {
            vector t[4][3], line[3];
            float g[9][LANES];
            for (int i = 0; i < 4; i++) {
                vector u[4];
                for (int j = 0; j < 4; j++)
                    u[j] = _mm256_loadu_ps(du + (uint64_t)(4 * i + j) * step + c * out + o);
                gradient_line(t[i], u);
            }
            for (int j = 0; j < 3; j++) {
                const vector column[4] = {t[0][j], t[1][j], t[2][j], t[3][j]};
                gradient_line(line, column);
                for (int i = 0; i < 3; i++)
                    _mm256_storeu_ps(g[3 * i + j], line[i]);
            }
            for (uint64_t lane = 0; lane < LANES; lane++) {
                float *own = dw + ((o + lane) * in + c) * 9;
                for (int i = 0; i < 9; i++)
                    own[i] = add ? own[i] + g[i][lane] : g[i][lane];
            }
        }
}

/* ---- Products ---- */

/* A row of `a` times the panel: c[rows][PANEL] = (add: +=) a[rows][n] b[n][PANEL]. */
typedef struct factors {
    const float *a, *b;
    float *c;
    uint64_t a_row, a_step, c_row, n;
    bool add;
} factors;

INLINE void product(const factors *f, int rows)
{
    vector sum[ROWS][2];

#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < 2; k++)
            sum[i][k] = f->add ? _mm256_loadu_ps(f->c + (uint64_t)i * f->c_row + 8 * k)
                               : _mm256_setzero_ps();
    const float *a = f->a, *b = f->b;
    for (uint64_t n = f->n; n > 0; n--, a += f->a_step, b += PANEL) {
        const vector left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const vector factor = _mm256_broadcast_ss(a + (uint64_t)i * f->a_row);
            sum[i][0] = _mm256_fmadd_ps(factor, left, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(factor, right, sum[i][1]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < 2; k++)
            _mm256_storeu_ps(f->c + (uint64_t)i * f->c_row + 8 * k, sum[i][k]);
}

static void products(const factors *first, uint64_t rows)
{
    factors f = *first;

    for (; rows >= ROWS; rows -= ROWS, f.a += ROWS * f.a_row, f.c += ROWS * f.c_row)
        product(&f, ROWS);
    switch (rows) {
    case 5:
        product(&f, 5);
        break;
    case 4:
        product(&f, 4);
        break;
    case 3:
        product(&f, 3);
        break;
    case 2:
        product(&f, 2);
        break;
    case 1:
        product(&f, 1);
        break;
    default:
        break;
    }
}

void stk__winograd_products(const stk__winograd_tiles *m, const stk__winograd_tiles *v,
                            const float *u, uint64_t n)
{
    const uint64_t in = v->channels, out = m->channels;

    for (uint64_t point = 0; point < STK__WINOGRAD_POINTS; point++)
        for (uint64_t o = 0; o < out; o += PANEL) {
            const factors f = {.a = v->values + point * v->stride,
                               .b = u + point * stk__winograd_step(in, out) + o * in,
                               .c = m->values + point * m->stride + o,
                               .a_row = in,
                               .a_step = 1,
                               .c_row = out,
                               .n = in};
            products(&f, n);
        }
}

void stk__winograd_sums(float *du, const stk__winograd_tiles *v, const stk__winograd_tiles *w,
                        uint64_t n, bool add, uint64_t from, uint64_t to)
{
    const uint64_t in = v->channels, out = w->channels, panels = out / PANEL;

    for (uint64_t i = from; i < to; i++) {
        const uint64_t point = i / panels, panel = i % panels;
        const factors f = {.a = v->values + point * v->stride,
                           .b = w->values + point * w->stride + panel * w->room * PANEL,
                           .c = du + point * stk__winograd_step(in, out) + panel * PANEL,
                           .a_row = 1,
                           .a_step = in,
                           .c_row = out,
                           .n = n,
                           .add = add};
        products(&f, in);
    }
}
