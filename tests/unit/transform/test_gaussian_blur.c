/* SPDX-License-Identifier: Apache-2.0 */
/* gaussian_blur: weights, mirrored borders, and pictures smaller than the filter. */
#include <math.h>

#include "base/random.h"
#include "transform/kernels/blur.h"
#include "transform/kernels/colour.h"
#include "unit/transform/one.h"

#define OPS &stk__transform_gaussian_blur

static void test_arguments_and_headers(void **state)
{
    refuses(OPS, "gaussian_blur", "kernel_size is missing");
    refuses(OPS, "gaussian_blur(4)", "kernel_size 4 is even");
    refuses(OPS, "gaussian_blur([3, 6])", "kernel_size 6 is even");
    refuses(OPS, "gaussian_blur(65)", "kernel_size");
    refuses(OPS, "gaussian_blur(0)", "kernel_size");
    refuses(OPS, "gaussian_blur(3.5)", "kernel_size");
    refuses(OPS, "gaussian_blur(3, 0)", "sigma");
    refuses(OPS, "gaussian_blur(3, [2, 1])", "sigma");
    refuses(OPS, "gaussian_blur(3, p=2)", "p");
    stk_transform *t = make_one(OPS, "gaussian_blur(5)");
    check_headers(t);
    t->ops->destroy(t);
}

/* Weights sum to one, fall from the middle on, and are the Gaussian's to one unit. */
static void test_weights(void **state)
{
    for (uint32_t taps = 1; taps <= STK__BLUR_MAX_TAPS; taps += 2)
        for (int i = 0; i < 40; i++) {
            double sigma = 0.05 * pow(1.2, i), sum = 0;
            int32_t whole = 0;
            stk__blur blur;

            stk__blur_init(&blur, taps, sigma);
            assert_int_equal(blur.radius, taps / 2);
            for (uint32_t k = 0; k <= blur.radius; k++) {
                whole += blur.weights[k] * (k ? 2 : 1);
                sum += exp(-0.5 * k * k / sigma / sigma) * (k ? 2 : 1);
            }
            assert_int_equal(whole, 1 << STK__BLUR_BITS);
            for (uint32_t k = 0; k <= blur.radius; k++)
                assert_true(fabs(blur.weights[k] -
                                 16384.0 * exp(-0.5 * k * k / sigma / sigma) / sum) < 2.0);
        }
}

static void test_draws(void **state)
{
    stk_transform *t = make_one(OPS, "gaussian_blur(5, [0.5, 2.5], 0.75)");
    stk_transform_header header = hwc(9, 9, 3);
    int blurred = 0, sigmas[8] = {0};
    stk_transform_plan plan;
    stk_error err;

    for (uint64_t position = 0; position < 8000; position++) {
        uint32_t words[4];

        stk__draw(3, 0, position, STK_DRAW_TRANSFORM, words, 4);
        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        double sigma = stk__of_param(plan.params[1]);
        assert_true(sigma >= 0.5 && sigma < 2.5);
        sigmas[(int)((sigma - 0.5) * 4)]++;
        blurred += plan.params[0] != 0;
    }
    assert_in_range(blurred, 5850, 6150);
    for (int i = 0; i < 8; i++)
        assert_in_range(sigmas[i], 880, 1120);
    t->ops->destroy(t);
}

static void test_constant_stays(void **state)
{
    enum { HEIGHT = 12, WIDTH = 31 };
    stk_transform *t = make_one(OPS, "gaussian_blur([63, 9], 3.3)");
    uint8_t src[HEIGHT * WIDTH * 3];
    const uint32_t words[2] = {0, 0};

    for (int value = 0; value < 256; value += 15) {
        stk_transform_header header = hwc(HEIGHT, WIDTH, 3);

        memset(src, value, sizeof src);
        uint8_t *out = run_words(t, &header, words, src);
        assert_memory_equal(out, src, sizeof src);
        free(out);
    }
    t->ops->destroy(t);
}

/* Where a line goes on beyond its ends. */
static int64_t mirrored(int64_t at, int64_t size)
{
    while (size > 1 && (at < 0 || at >= size))
        at = at < 0 ? -at : 2 * (size - 1) - at;
    return size > 1 ? at : 0;
}

/* The blur in double, straight from its definition. */
static double slow_blur(const uint8_t *src, int64_t height, int64_t width, int64_t channels,
                        int64_t y, int64_t x, int64_t c, int64_t rx, int64_t ry, double sigma)
{
    double sum = 0, weights = 0;

    for (int64_t i = -ry; i <= ry; i++)
        for (int64_t k = -rx; k <= rx; k++) {
            double weight = exp(-0.5 * (double)(i * i + k * k) / sigma / sigma);
            int64_t at = mirrored(y + i, height) * width + mirrored(x + k, width);

            sum += weight * src[at * channels + c];
            weights += weight;
        }
    return sum / weights;
}

/* Pictures of all sizes, those below the filter too, of 1 and 3 channels: within half a level and
 * what rounding adds. */
static void test_against_definition(void **state)
{
    uint64_t random = 77;
    uint8_t src[20 * 20 * 3];

    for (int i = 0; i < 60; i++) {
        int64_t height = 1 + (int64_t)(test_random(&random) % 20),
                width = 1 + (int64_t)(test_random(&random) % 20), channels = i % 2 ? 3 : 1,
                rx = (int64_t)(test_random(&random) % 7), ry = (int64_t)(test_random(&random) % 7);
        stk_transform_header header = hwc(height, width, channels);
        char text[64];

        fill_random(src, sizeof src, &random);
        snprintf(text, sizeof text, "gaussian_blur([%d, %d], [0.4, 4.4])", (int)(2 * rx + 1),
                 (int)(2 * ry + 1));
        stk_transform *t = make_one(OPS, text);
        const uint32_t words[2] = {0, (uint32_t)test_random(&random)};
        double sigma = 0.4 + 4.0 * stk__unit(words[1]);
        uint8_t *out = run_words(t, &header, words, src);
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++)
                for (int64_t c = 0; c < channels; c++) {
                    double want = slow_blur(src, height, width, channels, y, x, c, rx, ry, sigma);

                    assert_true(fabs(out[(y * width + x) * channels + c] - want) < 0.75);
                }
        free(out);
        t->ops->destroy(t);
    }
}

static void test_left_alone(void **state)
{
    stk_transform *t = make_one(OPS, "gaussian_blur(7, 2, p=0.5)");
    stk_transform_header header = hwc(6, 5, 3);
    uint8_t src[90];
    uint64_t random = 4;

    fill_random(src, sizeof src, &random);
    uint8_t *out = run_words(t, &header, (const uint32_t[]){word_at(0.5), 0}, src);
    assert_memory_equal(out, src, sizeof src);
    free(out);
    out = run_words(t, &header, (const uint32_t[]){word_at(0.5) - 1, 0}, src);
    assert_memory_not_equal(out, src, sizeof src);
    free(out);
    t->ops->destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_and_headers),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_constant_stays),
        cmocka_unit_test(test_against_definition),
        cmocka_unit_test(test_left_alone),
    };

    return cmocka_run_group_tests(tests, context_open, context_close);
}
