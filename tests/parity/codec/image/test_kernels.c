/* SPDX-License-Identifier: Apache-2.0 */
/* The vector kernels of the image room against the definitions in C, on whatever bits. */
#include <math.h>
#include <stdlib.h>

#include "codec/image/entropy.h"
#include "codec/image/pixels.h"

#include "support/support.h"

#define TIMES 20000

#ifdef STK_WITH_AVX2
static bool have_avx2(void)
{
    stk_context *ctx = test_context();
    bool yes = stk__cpu_has_avx2(ctx);

    stk_context_destroy(&ctx);
    return yes;
}
#endif

/* ---- The inverse transform ------------------------------------------------------------------- */

typedef struct block {
    _Alignas(32) int16_t coefficients[STK__BLOCK_ROOM];
    _Alignas(32) int16_t quantisers[STK__BLOCK_COEFFICIENTS];
} block;

/* Few or many coefficients, small or of all 16 bits. */
static void draw_block(block *b, uint32_t kind, uint64_t *seed)
{
    uint32_t count = kind % 4 == 0 ? 64 : 1 + (uint32_t)(test_random(seed) % 12);

    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < STK__BLOCK_COEFFICIENTS; i++) {
        uint16_t any = (uint16_t)test_random(seed);
        b->quantisers[i] = (int16_t)(kind % 3 == 0 ? any : 1 + any % 60);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint16_t any = (uint16_t)test_random(seed);
        b->coefficients[test_random(seed) % 64] =
            (int16_t)(kind % 5 == 0 ? any : (int32_t)(any % 41) - 20);
    }
    if (kind % 7 == 0) /* the extremes */
        for (uint32_t i = 0; i < 64; i++)
            b->coefficients[i] = test_random(seed) % 2 ? INT16_MIN : INT16_MAX;
}

static void test_idct(void **state)
{
#ifdef STK_WITH_AVX2
    static const int16_t none[STK__BLOCK_COEFFICIENTS];
    _Alignas(8) uint8_t c[8 * 24], v[8 * 24];
    uint64_t seed = 21;
    block b, same;

    if (!have_avx2())
        skip();
    for (uint32_t i = 0; i < TIMES; i++) {
        size_t stride = 8 + test_random(&seed) % 3 * 8;
        draw_block(&b, i, &seed);
        same = b;
        memset(c, 99, sizeof c);
        memset(v, 99, sizeof v);
        stk__idct(b.coefficients, b.quantisers, c, stride);
        stk__idct_avx2(same.coefficients, same.quantisers, v, stride);
        assert_memory_equal(c, v, sizeof c);
        assert_memory_equal(b.coefficients, none, sizeof none);
        assert_memory_equal(same.coefficients, none, sizeof none);
    }
#else
    skip();
#endif
}

/* Against the formula of T.81 A.3.3 in double precision: at most one level off, and seldom. */
static void test_idct_by_formula(void **state)
{
    double cosines[8][8];
    uint32_t off = 0;
    uint64_t seed = 4;
    uint8_t out[64];
    block b;

    for (int x = 0; x < 8; x++)
        for (int u = 0; u < 8; u++)
            cosines[x][u] = cos((2 * x + 1) * u * M_PI / 16) * (u ? 0.5 : sqrt(0.125));
    for (uint32_t i = 0; i < 300; i++) {
        double sum[8][8] = {{0}};
        draw_block(&b, 4 * i + 1, &seed);
        for (uint32_t j = 0; j < 64; j++) { /* within what an encoder gives */
            b.quantisers[j] = (int16_t)(1 + b.quantisers[j] % 16 * (j < 8));
            b.coefficients[j] = (int16_t)(b.coefficients[j] % 21);
        }
        for (uint32_t u = 0; u < 8; u++)
            for (uint32_t w = 0; w < 8; w++) {
                uint32_t place = stk__coefficient_place(u, w);
                int32_t value = b.coefficients[place] * b.quantisers[place];
                for (int y = 0; y < 8 && value; y++)
                    for (int x = 0; x < 8; x++)
                        sum[y][x] += value * cosines[y][u] * cosines[x][w];
            }
        stk__idct(b.coefficients, b.quantisers, out, 8);
        for (int j = 0; j < 64; j++) {
            double exact = fmin(fmax(sum[j / 8][j % 8] + 128, 0), 255);
            assert_true(fabs(out[j] - exact) < 0.6);
            off += fabs(out[j] - exact) > 0.51;
        }
    }
    assert_true(off < 300);
}

/* A block of one coefficient is what the whole transform gives. */
static void test_flat_blocks(void **state)
{
    uint8_t whole[64], flat[64];
    block b = {0};

    for (int32_t value = INT16_MIN; value <= INT16_MAX; value++) {
        if (value % 8 && value > -3000 && value < 3000 && value % 3)
            continue;
        b.coefficients[0] = (int16_t)value;
        b.quantisers[0] = 1;
        stk__idct(b.coefficients, b.quantisers, whole, 8);
        stk__idct_flat(value, flat, 8);
        assert_memory_equal(whole, flat, sizeof whole);
    }
}

/* Each coefficient has a place of its own, and zigzag order ends in the corner. */
static void test_places(void **state)
{
    bool taken[STK__BLOCK_COEFFICIENTS] = {false};

    for (uint32_t r = 0; r < 8; r++)
        for (uint32_t c = 0; c < 8; c++) {
            uint32_t place = stk__coefficient_place(r, c);
            assert_true(place < STK__BLOCK_COEFFICIENTS && !taken[place]);
            taken[place] = true;
        }
    assert_int_equal(stk__places[1], stk__coefficient_place(0, 0));
    assert_int_equal(stk__places[2], stk__coefficient_place(0, 1));
    assert_int_equal(stk__places[3], stk__coefficient_place(1, 0));
    assert_int_equal(stk__places[36], stk__coefficient_place(7, 0));
    for (uint32_t n = 64; n <= 128; n++)
        assert_int_equal(stk__places[n], stk__coefficient_place(7, 7));
    for (uint32_t n = 129; n < 256; n++)
        assert_int_equal(stk__places[n], STK__BLOCK_COEFFICIENTS);
}

/* ---- Stuffing -------------------------------------------------------------------------------- */

static void test_unstuff(void **state)
{
#ifdef STK_WITH_AVX2
    uint8_t c[700 + 32], v[700 + 32];
    uint64_t seed = 6;

    if (!have_avx2())
        skip();
    for (uint32_t i = 0; i < TIMES; i++) {
        size_t size = test_random(&seed) % 600, room = test_random(&seed) % 700;
        uint8_t *in = malloc(size ? size : 1); /* just so long, for sanitizers */
        for (size_t j = 0; j < size; j++) {
            uint64_t any = test_random(&seed);
            in[j] = any % (5 + i % 60) == 0 ? 0xff : (uint8_t)(any >> 8);
            if (j && in[j - 1] == 0xff && any >> 40 & 15)
                in[j] = 0;
        }
        const uint8_t *end = in + size, *at_c = in, *at_v = in;
        uint32_t marker_c, marker_v;
        uint8_t *out_c = stk__unstuff(&at_c, end, c, c + room, &marker_c);
        uint8_t *out_v = stk__unstuff_avx2(&at_v, end, v, v + room, &marker_v);
        /* The vectors may go on by up to 31 bytes more: let the other follow. */
        assert_true(out_v - v < (ptrdiff_t)room + 32);
        if (out_c - c < out_v - v && !marker_c)
            out_c = stk__unstuff(&at_c, end, out_c, c + (out_v - v), &marker_c);
        assert_int_equal(out_c - c, out_v - v);
        assert_memory_equal(c, v, (size_t)(out_c - c));
        assert_int_equal(marker_c, marker_v);
        assert_ptr_equal(at_c, at_v);
        free(in);
    }
#else
    skip();
#endif
}

/* What the definition makes of each combination. */
static void test_stuffing_by_hand(void **state)
{
    static const struct {
        const char *in;
        size_t size;
        const char *out;
        size_t out_size;
        uint32_t marker;
        size_t left;
    } rows[] = {
        {"abc", 3, "abc", 3, 0, 0},
        {"a\xff\0b", 4,
         "a\xff"
         "b",
         3, 0, 0},
        {"a\xff\xff\xff\0b", 6,
         "a\xff"
         "b",
         3, 0, 0},
        {"ab\xff\xd0"
         "cd",
         6, "ab", 2, 0xd0, 2},
        {"ab\xff\xff\xd9", 5, "ab", 2, 0xd9, 0},
        {"ab\xff", 3, "ab", 2, 0, 0},
        {"ab\xff\xff", 4, "ab", 2, 0, 0},
    };
    uint8_t out[64];

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        const uint8_t *at = (const uint8_t *)rows[i].in, *end = at + rows[i].size;
        uint32_t marker;
        uint8_t *to = stk__unstuff(&at, end, out, out + sizeof out, &marker);
        assert_int_equal(to - out, rows[i].out_size);
        assert_memory_equal(out, rows[i].out, rows[i].out_size);
        assert_int_equal(marker, rows[i].marker);
        assert_int_equal(end - at, rows[i].left);
    }
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

#define WIDTH 200
#define EDGE  64

#ifdef STK_WITH_AVX2
static void draw(uint8_t *bytes, size_t n, uint64_t *seed)
{
    bool extreme = test_random(seed) % 3 == 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t any = test_random(seed);
        bytes[i] = extreme ? (any & 1 ? 255 : 0) : (uint8_t)any;
    }
}
#endif

static void test_upsampling(void **state)
{
#ifdef STK_WITH_AVX2
    const stk__pixel_kernels *c = &stk__pixel_kernels_c, *v = &stk__pixel_kernels_avx2;
    uint8_t near[WIDTH + 2 * EDGE], far[WIDTH + 2 * EDGE];
    uint8_t out_c[2 * WIDTH + EDGE], out_v[2 * WIDTH + EDGE];
    uint64_t seed = 9;

    if (!have_avx2())
        skip();
    for (uint32_t i = 0; i < TIMES; i++) {
        size_t n = 1 + test_random(&seed) % WIDTH;
        const uint8_t *a = near + EDGE - test_random(&seed) % 5;
        const uint8_t *b = far + EDGE - test_random(&seed) % 5;
        draw(near, sizeof near, &seed);
        draw(far, sizeof far, &seed);
        c->widen(a, out_c, n);
        v->widen(a, out_v, n);
        assert_memory_equal(out_c, out_v, 2 * n);
        c->widen_between(a, b, out_c, n);
        v->widen_between(a, b, out_v, n);
        assert_memory_equal(out_c, out_v, 2 * n);
        c->between(a, b, out_c, n, 1 + i % 2);
        v->between(a, b, out_v, n, 1 + i % 2);
        assert_memory_equal(out_c, out_v, n);
    }
#else
    skip();
#endif
}

static void test_colours(void **state)
{
#ifdef STK_WITH_AVX2
    const stk__pixel_kernels *c = &stk__pixel_kernels_c, *v = &stk__pixel_kernels_avx2;
    uint8_t rows[3][WIDTH + EDGE], out_c[4 * (WIDTH + EDGE)], out_v[4 * (WIDTH + EDGE)];
    const uint8_t *in[3];
    uint64_t seed = 2;

    if (!have_avx2())
        skip();
    for (uint32_t i = 0; i < TIMES; i++) {
        size_t n = 1 + test_random(&seed) % WIDTH, beyond = n + STK__PIXELS_BEYOND;
        for (int k = 0; k < 3; k++) {
            draw(rows[k], sizeof rows[k], &seed);
            in[k] = rows[k] + test_random(&seed) % 5;
        }
        for (int kind = 0; kind < STK__PIXELS_KINDS; kind++) {
            size_t bytes = kind == STK__PIXELS_RGBX ? 4 : 3;
            memset(out_v, 77, sizeof out_v);
            c->color[kind](in, out_c, n);
            v->color[kind](in, out_v, n);
            assert_memory_equal(out_c, out_v, n * bytes);
            c->plain[kind](in, out_c, n);
            v->plain[kind](in, out_v, n);
            assert_memory_equal(out_c, out_v, n * bytes);
            for (size_t j = beyond * bytes; j < sizeof out_v; j++)
                assert_int_equal(out_v[j], 77);
        }
    }
#else
    skip();
#endif
}

/* All 2^24 colours would take a second: all pairs of chroma, at some lumas. */
static void test_every_chroma(void **state)
{
#ifdef STK_WITH_AVX2
    uint8_t y[256 + EDGE], cb[256 + EDGE], cr[256 + EDGE], out_c[4 * 320], out_v[4 * 320];
    const uint8_t *in[3] = {y, cb, cr};

    if (!have_avx2())
        skip();
    memset(y, 0, sizeof y);
    memset(cr, 0, sizeof cr);
    for (int luma = 0; luma < 256; luma += 15)
        for (int blue = 0; blue < 256; blue++) {
            for (int red = 0; red < 256; red++)
                cr[red] = (uint8_t)red;
            memset(y, luma, 256);
            memset(cb, blue, sizeof cb);
            stk__pixel_kernels_c.color[STK__PIXELS_RGBX](in, out_c, 256);
            stk__pixel_kernels_avx2.color[STK__PIXELS_RGBX](in, out_v, 256);
            assert_memory_equal(out_c, out_v, 1024);
        }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idct),         cmocka_unit_test(test_idct_by_formula),
        cmocka_unit_test(test_flat_blocks),  cmocka_unit_test(test_places),
        cmocka_unit_test(test_unstuff),      cmocka_unit_test(test_stuffing_by_hand),
        cmocka_unit_test(test_upsampling),   cmocka_unit_test(test_colours),
        cmocka_unit_test(test_every_chroma),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
