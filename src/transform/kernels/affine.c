/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Affine warps with the arithmetic of Pillow's Geometry.c, so that every byte is the same: nearest
 * pixels in 16.16 fixed point as far as coordinates fit it, bilinear ones in double with the
 * fraction dropped. The loops ask for each pixel whether it lies inside; what does not keeps the
 * fill.
 */
#include "transform/kernels/affine.h"

#include <math.h>

#include "transform/operations/arguments.h"

/* ---- Angles ---- */

/* Of |x| <= pi / 4: the series to x^17 and x^18. */
static double small_sine(double x)
{
    double square = x * x, sum = 0;

    for (int k = 16; k >= 2; k -= 2)
        sum = -(sum + 1.0) * square / (k * (k + 1));
    return x + x * sum;
}

static double small_cosine(double x)
{
    double square = x * x, sum = 0;

    for (int k = 18; k >= 4; k -= 2)
        sum = -(sum + 1.0) * square / (k * (k - 1));
    return 1.0 - square * (sum + 1.0) / 2.0;
}

void stk__sin_cos(double degrees, double *sine, double *cosine)
{
    double turn = fmod(degrees, 360.0);
    double quarter = floor(turn / 90.0 + 0.5);
    double x = (turn - 90.0 * quarter) * 0x1.1df46a2529d39p-6; /* pi / 180 */
    double s = small_sine(x), c = small_cosine(x);

    switch ((int)quarter & 3) {
    case 0:
        *sine = s;
        *cosine = c;
        break;
    case 1:
        *sine = c;
        *cosine = -s;
        break;
    case 2:
        *sine = -s;
        *cosine = -c;
        break;
    default:
        *sine = -c;
        *cosine = s;
        break;
    }
}

/* To 15 digits behind the point, as Image.rotate() does. */
static double fifteen(double x)
{
    return nearbyint(x * 1e15) / 1e15;
}

void stk__warp_rotation(double degrees, const stk__canvas *canvas, stk__warp *out)
{
    double sine, cosine, x = (double)canvas->width / 2.0, y = (double)canvas->height / 2.0;
    double *m = out->m;

    stk__sin_cos(-degrees, &sine, &cosine);
    m[0] = m[4] = fifteen(cosine);
    m[1] = fifteen(sine);
    m[3] = fifteen(-sine);
    m[2] = m[0] * -x + m[1] * -y + 0.0 + x;
    m[5] = m[3] * -x + m[4] * -y + 0.0 + y;
}

/* ---- Nearest ---- */

static inline void put(uint8_t *to, const uint8_t *from, uint32_t channels)
{
    to[0] = from[0];
    if (channels == 3) {
        to[1] = from[1];
        to[2] = from[2];
    }
}

static inline __attribute__((always_inline)) void put_nearest(const stk__canvas *canvas,
                                                              const uint8_t *src, uint8_t *to,
                                                              int64_t x, int64_t y,
                                                              uint32_t channels)
{
    bool inside = x >= 0 && x < canvas->width && y >= 0 && y < canvas->height;

    put(to, inside ? src + (size_t)(y * canvas->width + x) * channels : canvas->fill, channels);
}

/* Only scaled and moved: columns by themselves, rows by themselves. Coordinates are summed up, as
 * Pillow does. */
static void nearest_straight(const stk__warp *warp, const stk__canvas *canvas, const uint8_t *src,
                             uint8_t *dst)
{
    const double *m = warp->m;
    double y = m[5] + m[4] * 0.5;

    for (int64_t row = 0; row < canvas->height; row++) {
        double x = m[2] + m[0] * 0.5;

        for (int64_t column = 0; column < canvas->width; column++) {
            put_nearest(canvas, src, dst, x < 0.0 ? -1 : (int64_t)x, y < 0.0 ? -1 : (int64_t)y,
                        canvas->channels);
            dst += canvas->channels;
            x += m[0];
        }
        y += m[4];
    }
}

static void fill_pixels(const stk__canvas *canvas, uint8_t *to, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        put(to + i * canvas->channels, canvas->fill, canvas->channels);
}

/* Moved by whole pixels: (x, y) comes from (x + right, y + down). */
static void nearest_moved(int64_t right, int64_t down, const stk__canvas *canvas,
                          const uint8_t *src, uint8_t *dst)
{
    int64_t width = canvas->width, height = canvas->height, channels = canvas->channels;
    int64_t first = STK_MIN(STK_MAX(-right, 0), width);
    int64_t end = STK_MAX(STK_MIN(width - right, width), first);

    for (int64_t y = 0; y < height; y++, dst += width * channels) {
        bool inside = y + down >= 0 && y + down < height && first < end;

        if (!inside) {
            fill_pixels(canvas, dst, width);
            continue;
        }
        fill_pixels(canvas, dst, first);
        memcpy(dst + first * channels, src + ((y + down) * width + first + right) * channels,
               (size_t)((end - first) * channels));
        fill_pixels(canvas, dst + end * channels, width - end);
    }
}

/* A coordinate in 16.16, rounded. */
static int64_t fixed(double x)
{
    return (int64_t)floor(x * 65536.0 + 0.5);
}

static inline __attribute__((always_inline)) void fixed_rows(const stk__warp *warp,
                                                             const stk__canvas *canvas,
                                                             const uint8_t *src, uint8_t *dst,
                                                             uint32_t channels)
{
    const double *m = warp->m;
    int64_t x_step = fixed(m[0]), y_step = fixed(m[3]);
    int64_t x_first = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
    int64_t y_first = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);

    for (int64_t row = 0; row < canvas->height; row++) {
        int64_t x = x_first, y = y_first;

        for (int64_t column = 0; column < canvas->width; column++) {
            put_nearest(canvas, src, dst, x >> 16, y >> 16, channels);
            dst += channels;
            x += x_step;
            y += y_step;
        }
        x_first += fixed(m[1]);
        y_first += fixed(m[4]);
    }
}

/* Pictures beyond 16.16. */
static void nearest_wide(const stk__warp *warp, const stk__canvas *canvas, const uint8_t *src,
                         uint8_t *dst)
{
    const double *m = warp->m;
    double x_first = m[2] + m[1] * 0.5 + m[0] * 0.5, y_first = m[5] + m[4] * 0.5 + m[3] * 0.5;

    for (int64_t row = 0; row < canvas->height; row++) {
        double x = x_first, y = y_first;

        for (int64_t column = 0; column < canvas->width; column++) {
            put_nearest(canvas, src, dst, x < 0.0 ? -1 : (int64_t)x, y < 0.0 ? -1 : (int64_t)y,
                        canvas->channels);
            dst += canvas->channels;
            x += m[0];
            y += m[3];
        }
        x_first += m[1];
        y_first += m[4];
    }
}

static bool fits_fixed(const stk__warp *warp, int64_t x, int64_t y)
{
    const double *m = warp->m, dx = (double)x, dy = (double)y;

    return fabs(dx * m[0] + dy * m[1] + m[2]) < 32768.0 &&
           fabs(dx * m[3] + dy * m[4] + m[5]) < 32768.0;
}

/* Moved by whole pixels, no farther than any picture is wide. */
static bool is_move(const stk__warp *warp)
{
    const double *m = warp->m;

    return m[0] == 1.0 && m[1] == 0.0 && m[3] == 0.0 && m[4] == 1.0 && fabs(m[2]) < 0x1p31 &&
           fabs(m[5]) < 0x1p31 && floor(m[2]) == m[2] && floor(m[5]) == m[5];
}

static void nearest(const stk__warp *warp, const stk__canvas *canvas, const uint8_t *src,
                    uint8_t *dst)
{
    int64_t width = canvas->width, height = canvas->height;

    if (is_move(warp))
        nearest_moved((int64_t)warp->m[2], (int64_t)warp->m[5], canvas, src, dst);
    else if (warp->m[1] == 0.0 && warp->m[3] == 0.0)
        nearest_straight(warp, canvas, src, dst);
    else if (!fits_fixed(warp, 0, 0) || !fits_fixed(warp, width, height) ||
             !fits_fixed(warp, 0, height) || !fits_fixed(warp, width, 0))
        nearest_wide(warp, canvas, src, dst);
    else if (canvas->channels == 3)
        fixed_rows(warp, canvas, src, dst, 3);
    else
        fixed_rows(warp, canvas, src, dst, 1);
}

/* ---- Bilinear ---- */

static inline double lerp(double a, double b, double at)
{
    return a + (b - a) * at;
}

static inline __attribute__((always_inline)) void put_mean(const stk__spot *s, uint8_t *to,
                                                           uint32_t channels)
{
    for (uint32_t c = 0; c < channels; c++) {
        double high = lerp(s->above[s->left + c], s->above[s->right + c], s->along);
        double low = lerp(s->below[s->left + c], s->below[s->right + c], s->along);

        to[c] = (uint8_t)lerp(high, low, s->down);
    }
}

static inline __attribute__((always_inline)) void bilinear_rows(const stk__warp *warp,
                                                                const stk__canvas *canvas,
                                                                const uint8_t *src, uint8_t *dst,
                                                                uint32_t channels)
{
    const double *m = warp->m;

    for (int64_t row = 0; row < canvas->height; row++) {
        double y = (double)row + 0.5;

        for (int64_t column = 0; column < canvas->width; column++) {
            double x = (double)column + 0.5;
            stk__spot spot;

            if (stk__spot_find(canvas, src, m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5],
                               channels, &spot))
                put_mean(&spot, dst, channels);
            else
                put(dst, canvas->fill, channels);
            dst += channels;
        }
    }
}

/* ---- Both ---- */

void stk__warp_apply(const stk__warp *warp, stk__between_pixels how, const stk__canvas *canvas,
                     const uint8_t *src, uint8_t *dst)
{
    if (how == STK__NEAREST) {
        nearest(warp, canvas, src, dst);
        return;
    }
#ifdef STK_WITH_AVX2
    if (canvas->avx2 && canvas->channels == 3) {
        stk__bilinear_rgb_avx2(warp, canvas, src, dst);
        return;
    }
#endif
    if (canvas->channels == 3)
        bilinear_rows(warp, canvas, src, dst, 3);
    else
        bilinear_rows(warp, canvas, src, dst, 1);
}

/* Pixel (y, x) of the result is at first + y * down + x * right, counted in pixels. */
static void move(const stk__canvas *canvas, const uint8_t *src, uint8_t *dst, int64_t first,
                 int64_t down, int64_t right)
{
    for (int64_t y = 0; y < canvas->height; y++)
        for (int64_t x = 0; x < canvas->width; x++) {
            put(dst, src + (first + y * down + x * right) * canvas->channels, canvas->channels);
            dst += canvas->channels;
        }
}

void stk__rotate(double degrees, stk__between_pixels how, const stk__canvas *canvas,
                 const uint8_t *src, uint8_t *dst)
{
    int64_t width = canvas->width, height = canvas->height;
    double turn = fmod(degrees, 360.0);
    stk__warp warp;

    if (turn < 0.0)
        turn += 360.0;
    if (turn == 0.0) {
        memcpy(dst, src, (size_t)(height * width) * canvas->channels);
    } else if (turn == 180.0) {
        move(canvas, src, dst, height * width - 1, -width, -1);
    } else if (turn == 90.0 && width == height) {
        move(canvas, src, dst, width - 1, -1, width);
    } else if (turn == 270.0 && width == height) {
        move(canvas, src, dst, (height - 1) * width, 1, -width);
    } else {
        stk__warp_rotation(turn, canvas, &warp);
        stk__warp_apply(&warp, how, canvas, src, dst);
    }
}

/* ---- Fill ---- */

stk_status stk__fill_read(const char *who, const char *name, const char *text, uint8_t fill[3],
                          uint32_t *count, stk_error *err)
{
    const stk__numbers numbers = {.stage = STK_STAGE_TRANSFORM,
                                  .who = who,
                                  .argument = name,
                                  .text = text ? text : "0",
                                  .max = 255,
                                  .whole = true};
    double values[3];

    STK_TRY(stk__numbers_read(&numbers, values, 3, count, err));
    if (*count == 2)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: %s has 2 numbers: give one for all channels, or 3", who, name);
    for (uint32_t c = 0; c < 3; c++)
        fill[c] = (uint8_t)values[c < *count ? c : 0];
    return STK_OK;
}

stk_status stk__fill_check(const char *who, uint32_t count, int64_t channels, stk_error *err)
{
    if (count == 1 || channels == -1 || channels == count)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                     "%s: fill has %u numbers, the picture %lld channel: give one number", who,
                     count, (long long)channels);
}
