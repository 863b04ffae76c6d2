/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AVX2 kernels of colours, of the blur and of warps against their C definition: all bits, error
 * bound 0, over sizes with every tail, in place and apart, at odd addresses; bytes around the
 * destination must stay.
 */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/kernels/affine.h"
#include "transform/kernels/blur.h"
#include "transform/kernels/colour.h"

enum { ROOM = 8192, GUARD = 0xa5 };

static const stk__colour_kernels *fast;
static const stk__blur_kernels *fast_blur;
static bool has_avx2;
static uint8_t source[ROOM + 64], plain[ROOM + 64], other[ROOM + 64];

static const float factors[] = {0.0f, 1.0f, 0.5f, 1.5f, 0.1f, 3.0f, 255.0f, 1000.0f, 1.27f, 0.73f};

static float any_factor(uint64_t *random)
{
    if (test_random(random) % 2)
        return factors[test_random(random) % STK_COUNT(factors)];
    return (float)(test_random(random) >> 40) * 0x1p-23f;
}

static void fill(uint64_t *random)
{
    uint32_t kind = (uint32_t)(test_random(random) % 3);

    for (size_t i = 0; i < sizeof source; i++) {
        uint8_t x = (uint8_t)(test_random(random) >> 40);

        source[i] = kind == 0 ? x : kind == 1 ? (uint8_t)(x & 1 ? 255 : 0) : (uint8_t)(x & 7);
    }
}

/* One kernel of a table on `n` pixels of `src`. */
static void run_kernel(const stk__colour_kernels *k, int which, const uint8_t *src, uint8_t *dst,
                       size_t n, float factor)
{
    switch (which) {
    case 0:
        k->blend(src, dst, 3 * n, (uint8_t)(n * 7), factor);
        break;
    case 1:
        k->saturate(src, dst, n, factor);
        break;
    case 2:
        k->grey(src, dst, n);
        break;
    case 3:
        k->hue(src, dst, n, factor > 3.0f ? -factor / 1000.0f * 3.0f : factor);
        break;
    default:
        k->blend_two(source + ROOM / 2, src, dst, 3 * n, factor);
        break;
    }
}

static void test_colours(void **state)
{
    uint64_t random = 41;

    for (int i = 0; i < 20000; i++) {
        size_t n = test_random(&random) % (i % 10 ? 30 : 300), shift = test_random(&random) % 5;
        size_t to = 16 + test_random(&random) % 5;
        float factor = any_factor(&random);
        int which = i % 5;

        if (i % 50 == 0)
            fill(&random);
        memset(plain, GUARD, sizeof plain);
        memset(other, GUARD, sizeof other);
        run_kernel(&stk__colour_kernels_c, which, source + shift, plain + to, n, factor);
        run_kernel(fast, which, source + shift, other + to, n, factor);
        assert_memory_equal(plain, other, sizeof plain);
        for (size_t k = 0; k < 16; k++) {
            assert_int_equal(other[k], GUARD);
            assert_int_equal(other[to + 3 * n + k], GUARD);
        }
        memcpy(other + to, source + shift, 3 * n); /* in place */
        run_kernel(fast, which, other + to, other + to, n, factor);
        assert_memory_equal(plain, other, sizeof plain);
        assert_true(stk__colour_kernels_c.luma_sum(source + shift, n) ==
                    fast->luma_sum(source + shift, n));
    }
}

/* Every pair of hues and turns that a picture of 4 bits can have. */
static void test_all_hues(void **state)
{
    enum { PIXELS = 4096 };
    static uint8_t src[3 * PIXELS], a[3 * PIXELS], b[3 * PIXELS];

    for (size_t i = 0; i < PIXELS; i++)
        for (size_t c = 0; c < 3; c++)
            src[3 * i + c] = (uint8_t)(17 * ((i >> (4 * c)) & 15));
    for (int turn = -60; turn <= 60; turn++) {
        float sixths = (float)turn / 20.0f;

        stk__colour_kernels_c.hue(src, a, PIXELS, sixths);
        fast->hue(src, b, PIXELS, sixths);
        assert_memory_equal(a, b, sizeof a);
    }
}

static void test_smooth(void **state)
{
    uint64_t random = 43;

    for (int i = 0; i < 3000; i++) {
        size_t step = i % 2 ? 3 : 1, n = test_random(&random) % 200;
        const uint8_t *at = source + 16 + test_random(&random) % 9;

        if (i % 50 == 0)
            fill(&random);
        memset(plain, GUARD, n + 64);
        memset(other, GUARD, n + 64);
        stk__colour_kernels_c.smooth(at, at + 500, at + 1000, plain, n, step);
        fast->smooth(at, at + 500, at + 1000, other, n, step);
        assert_memory_equal(plain, other, n + 64);
        for (size_t k = 0; k < n; k++) {
            unsigned sum = 4u * at[500 + k];

            for (size_t row = 0; row < 3; row++)
                sum += *(at + 500 * row + k - step) + at[500 * row + k] + at[500 * row + k + step];
            assert_int_equal(plain[k], (sum + 6) / 13);
        }
    }
}

static void test_blur(void **state)
{
    static int16_t a[512], b[512], rows_memory[STK__BLUR_MAX_TAPS][256];
    const int16_t *rows[STK__BLUR_MAX_TAPS];
    uint64_t random = 47;

    for (int i = 0; i < 3000; i++) {
        uint32_t taps = 1 + 2 * (uint32_t)(test_random(&random) % 32);
        size_t step = i % 2 ? 3 : 1, n = test_random(&random) % 180;
        stk__blur blur;

        if (i % 50 == 0)
            fill(&random);
        stk__blur_init(&blur, taps, 0.1 + (double)(test_random(&random) % 1000) / 50.0);
        memset(a, GUARD, sizeof a);
        memset(b, GUARD, sizeof b);
        const uint8_t *in = source + 100 + test_random(&random) % 9;
        stk__blur_kernels_c.row(&blur, in, a, n, step);
        fast_blur->row(&blur, in, b, n, step);
        assert_memory_equal(a, b, sizeof a);
        for (uint32_t k = 0; k < taps; k++) {
            rows[k] = rows_memory[k];
            for (size_t x = 0; x < n; x++)
                rows_memory[k][x] = (int16_t)(test_random(&random) % 16321);
        }
        memset(plain, GUARD, n + 64);
        memset(other, GUARD, n + 64);
        stk__blur_kernels_c.column(&blur, rows, plain, n);
        fast_blur->column(&blur, rows, other, n);
        assert_memory_equal(plain, other, n + 64);
    }
}

/* The bilinear warp of random turns and shears, some of it outside. */
static void test_bilinear(void **state)
{
    uint64_t random = 53;

    for (int i = 0; i < 400; i++) {
        stk__canvas canvas = {.height = 1 + (int64_t)(test_random(&random) % 40),
                              .width = 1 + (int64_t)(test_random(&random) % 40),
                              .channels = 3,
                              .fill = {1, 2, 3}};
        size_t bytes = (size_t)(canvas.height * canvas.width * 3);
        double angle = (double)(test_random(&random) % 72000) / 200.0;
        stk__warp warp;

        if (i % 50 == 0)
            fill(&random);
        stk__warp_rotation(angle, &canvas, &warp);
        if (i % 3 == 0)
            warp.m[1] *= 1.5;
        memset(plain, GUARD, bytes + 64);
        memset(other, GUARD, bytes + 64);
        stk__warp_apply(&warp, STK__BILINEAR, &canvas, source + i % 5, plain);
        canvas.avx2 = has_avx2;
        stk__warp_apply(&warp, STK__BILINEAR, &canvas, source + i % 5, other);
        assert_memory_equal(plain, other, bytes + 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colours),  cmocka_unit_test(test_all_hues),
        cmocka_unit_test(test_smooth),   cmocka_unit_test(test_blur),
        cmocka_unit_test(test_bilinear),
    };
    stk_context *context = test_context();

    fast = stk__colour_kernels_of(context);
    fast_blur = stk__blur_kernels_of(context);
    has_avx2 = stk__cpu_has_avx2(context);
    stk_context_destroy(&context);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
