/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing a digit. All randomness is drawn at once from Philox; all arithmetic is in integers, so
 * that every machine and every compiler draws the same bytes.
 *
 * The points of a glyph are shaken, bent by slow waves and moved by a random affine map. Curves
 * through them are walked in steps of at most half a pixel; each step notes, in the 8 x 8 pixels
 * around it, the squared distance to the pen. The least distance of each pixel then becomes ink
 * with a soft edge.
 */
#include "base/base.h"
#include "base/random.h"
#include "dataset/digits.h"

/* Places are in 1/256 of a pixel, squared distances in 1/256 of a square pixel (places rounded to
 * 1/16). */
#define ONE 256
/* The field of distances has a rim, so that the pen may leave the picture and no step needs
 * clipping. */
#define RIM      8
#define ROWS     (STK_DIGIT_SIDE + 2 * RIM)
#define STRIDE   48
#define FAR_BYTE 0x7F /* of a distance beyond all others: 0x7F7F */
/* Angles: a turn is 65,536. Sines and other fractions: 1 is 16,384. */
#define QUARTER 16384
#define UNIT    16384

enum {
    DRAW_LABEL,
    DRAW_STYLE,
    DRAW_ROTATION,
    DRAW_SHEAR,
    DRAW_WIDTH,
    DRAW_HEIGHT,
    DRAW_LEFT,
    DRAW_TOP,
    DRAW_PEN,
    DRAW_PEAK,
    DRAW_NOISE,
    DRAW_PRESSURE,
    DRAW_PRESSURE_PHASE,
    DRAW_WAVE,
    DRAW_WAVE_LENGTH,
    DRAW_WAVE_PHASE,
    DRAW_JITTER,
    DRAW_SOFT,
    DRAW_POINTS = 20,
    DRAW_PIXELS = DRAW_POINTS + 2 * STK_GLYPH_POINTS,
    DRAW_WORDS = DRAW_PIXELS + STK_DIGIT_BYTES / 4
};

typedef struct place {
    int32_t x, y;
} place;

typedef struct canvas {
    int16_t distance[ROWS][STRIDE];
    int32_t pressure; /* how much lighter the pen gets on its way: the most that is added */
    int32_t phase;    /* the angle at which that wave is */
} canvas;

/* Evenly in [low, high]. */
static inline int32_t even(uint32_t word, int32_t low, int32_t high)
{
    return low + (int32_t)((uint64_t)word * (uint32_t)(high - low + 1) >> 32);
}

/* In [-half, half], the middle likelier: the sum of two even draws. */
static inline int32_t around(uint32_t word, int32_t half)
{
    int32_t sum = (int32_t)(word & 0xFFFF) + (int32_t)(word >> 16) - 65535;

    return (int32_t)((int64_t)sum * half / 65536);
}

/* The sine of an angle, by an odd polynomial of the fifth degree with sin(quarter) = 1; error below
 * 1/500. */
static int32_t sine(uint32_t angle)
{
    int32_t z = (int32_t)(angle & 0xFFFF);

    /* Fold into [-quarter, quarter]. */
    if (z > 3 * QUARTER)
        z -= 4 * QUARTER;
    else if (z > QUARTER)
        z = 2 * QUARTER - z;
    int32_t square = z * z / UNIT;
    int32_t inner = 10513 - 1162 * square / UNIT;
    return z * (25735 - inner * square / UNIT) / UNIT;
}

/* Press the pen at one place: the distances around it fall. */
static inline void press(canvas *c, int32_t x, int32_t y, int32_t bias)
{
    const int32_t low = -4 * ONE, high = (STK_DIGIT_SIDE + 3) * ONE;

    if (x < low || x > high || y < low || y > high)
        return;
    /* The box reaches from 3 pixels before the place to 4 behind it; RIM makes the division round
     * down. */
    x += RIM * ONE;
    y += RIM * ONE;
    int32_t column = x / ONE - 3, row = y / ONE - 3;
    int32_t dx = (column * ONE - x) / 16, dy = (row * ONE - y) / 16;
    int16_t across[8];

    for (int i = 0; i < 8; i++)
        across[i] = (int16_t)((dx + 16 * i) * (dx + 16 * i) + bias);
    for (int j = 0; j < 8; j++) {
        int16_t *line = &c->distance[row + j][column];
        int16_t down = (int16_t)((dy + 16 * j) * (dy + 16 * j));
        for (int i = 0; i < 8; i++) {
            int16_t d = (int16_t)(across[i] + down);
            line[i] = STK_MIN(line[i], d);
        }
    }
}

/* Walk the Catmull-Rom curve from b to c, with a before and d behind, in steps of half a pixel at
 * most. */
static void walk(canvas *to, place a, place b, place c, place d)
{
    int32_t dx = c.x > b.x ? c.x - b.x : b.x - c.x, dy = c.y > b.y ? c.y - b.y : b.y - c.y;
    int32_t length = STK_MAX(dx, dy) + STK_MIN(dx, dy) / 2;
    /* A bow is longer than its chord; 3 steps a pixel of chord leave room for that. */
    int32_t steps = length * 3 / ONE + 1;
    /* 2 p(t) = 2 b + (c - a) t + (2 a - 5 b + 4 c - d) t^2 + (3 b - a - 3 c + d) t^3 */
    int64_t x1 = c.x - a.x, x2 = 2 * a.x - 5 * b.x + 4 * c.x - d.x,
            x3 = 3 * b.x - a.x - 3 * c.x + d.x;
    int64_t y1 = c.y - a.y, y2 = 2 * a.y - 5 * b.y + 4 * c.y - d.y,
            y3 = 3 * b.y - a.y - 3 * c.y + d.y;

    for (int32_t i = 0; i <= steps; i++) {
        int64_t t = (int64_t)i * UNIT / steps;
        int64_t x = (((x3 * t / UNIT) + x2) * t / UNIT + x1) * t / UNIT;
        int64_t y = (((y3 * t / UNIT) + y2) * t / UNIT + y1) * t / UNIT;
        int32_t bias = to->pressure * (UNIT + sine((uint32_t)to->phase)) / (2 * UNIT);
        press(to, b.x + (int32_t)(x / 2), b.y + (int32_t)(y / 2), bias);
        to->phase += 700;
    }
}

/* The places of a glyph's points in the picture: shaken, bent, turned, sheared, scaled, moved. */
static void place_points(const stk__glyph *glyph, const uint32_t *words, place *out)
{
    int32_t jitter = even(words[DRAW_JITTER], 3, 10) * ONE / 2; /* in units of the box, times ONE */
    uint32_t angle = (uint32_t)around(words[DRAW_ROTATION], 65536 * 22 / 360);
    int32_t sin = sine(angle), cos = sine(angle + QUARTER);
    int32_t shear = around(words[DRAW_SHEAR], UNIT * 45 / 100);
    int32_t width = even(words[DRAW_WIDTH], 105, 215), height = even(words[DRAW_HEIGHT], 150, 215);
    int32_t left = around(words[DRAW_LEFT], 5 * ONE / 2),
            top = around(words[DRAW_TOP], 5 * ONE / 2);
    int32_t wave = even(words[DRAW_WAVE], 0, 6) * ONE;
    uint32_t length = (uint32_t)even(words[DRAW_WAVE_LENGTH], 250, 900),
             phase = words[DRAW_WAVE_PHASE];

    for (uint32_t i = 0; i < glyph->num_points; i++) {
        const stk__glyph_point *p = &glyph->points[i];
        /* In units of the box from its centre, times ONE. */
        int64_t x = (p->x - 50) * ONE + around(words[DRAW_POINTS + 2 * i], jitter);
        int64_t y = (p->y - 50) * ONE + around(words[DRAW_POINTS + 2 * i + 1], jitter);
        x += (int64_t)wave * sine(phase + (uint32_t)p->y * length) / UNIT;
        y += (int64_t)wave * sine((phase >> 16) + (uint32_t)p->x * length) / UNIT;
        x += y * shear / UNIT;
        /* `width` and `height` are thousandths of a pixel for each unit. */
        x = x * width / 1000;
        y = y * height / 1000;
        out[i].x =
            (int32_t)((x * cos - y * sin) / UNIT) + left + STK_DIGIT_SIDE * ONE / 2 - ONE / 2;
        out[i].y = (int32_t)((x * sin + y * cos) / UNIT) + top + STK_DIGIT_SIDE * ONE / 2 - ONE / 2;
    }
}

/* Turn distances into ink: full within the pen, none outside, a straight edge in the squared
 * distance between. */
static void ink(const canvas *c, const uint32_t *words, uint8_t *pixels)
{
    int32_t pen = even(words[DRAW_PEN], 12, 30),
            soft = even(words[DRAW_SOFT], 8, 14); /* 1/16 pixel */
    int32_t peak = even(words[DRAW_PEAK], 160, 255);
    int32_t outer = (pen + soft) * (pen + soft),
            inner = pen > soft ? (pen - soft) * (pen - soft) : 0;
    int32_t gain = peak * 256 / (outer - inner);
    int32_t noise = even(words[DRAW_NOISE], 0, 24);
    uint8_t grain[STK_DIGIT_BYTES];

    /* Bytes of words in little-endian order, whatever the machine's. */
    for (int i = 0; i < STK_DIGIT_BYTES; i++)
        grain[i] = (uint8_t)(words[DRAW_PIXELS + i / 4] >> 8 * (i % 4));
    for (int y = 0; y < STK_DIGIT_SIDE; y++) {
        for (int x = 0; x < STK_DIGIT_SIDE; x++) {
            int32_t d = c->distance[y + RIM][x + RIM];
            int32_t value = (outer - STK_MIN(d, outer)) * gain / 256;
            value = STK_MIN(value, peak);
            value += (grain[y * STK_DIGIT_SIDE + x] - 128) * noise / 128;
            value = STK_MAX(value, 0);
            pixels[y * STK_DIGIT_SIDE + x] = (uint8_t)STK_MIN(value, 255);
        }
    }
}

uint32_t stk__digit_draw(uint64_t seed, uint32_t split, uint64_t index, uint8_t *pixels)
{
    uint32_t words[DRAW_WORDS];
    place points[STK_GLYPH_POINTS];
    canvas c;

    stk__draw(seed, split, index, STK_DRAW_DATA, words, DRAW_WORDS);
    uint32_t label = (uint32_t)even(words[DRAW_LABEL], 0, 9);
    const stk__glyph *glyph = &stk__glyphs[even(words[DRAW_STYLE], stk__glyph_first[label],
                                                stk__glyph_first[label + 1] - 1)];
    const stk__glyph_point *path = glyph->points;
    uint32_t n = glyph->num_points;

    place_points(glyph, words, points);
    memset(c.distance, FAR_BYTE, sizeof c.distance);
    c.pressure = even(words[DRAW_PRESSURE], 0, 260);
    c.phase = (int32_t)(words[DRAW_PRESSURE_PHASE] & 0xFFFF);
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (path[i + 1].pen == STK_PEN_LIFT)
            continue;
        /* At the ends of a stroke and at corners the curve knows nothing of what lies beyond. */
        bool open = path[i].pen != STK_PEN_CURVE;
        bool ends =
            path[i + 1].pen != STK_PEN_CURVE || i + 2 == n || path[i + 2].pen == STK_PEN_LIFT;
        walk(&c, open ? points[i] : points[i - 1], points[i], points[i + 1],
             ends ? points[i + 1] : points[i + 2]);
    }
    ink(&c, words, pixels);
    return label;
}
