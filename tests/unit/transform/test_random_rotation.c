/* SPDX-License-Identifier: Apache-2.0 */
/* random_rotation: angles, turns that only move pixels, masks. */
#include <math.h>

#include "base/random.h"
#include "transform/kernels/affine.h"
#include "transform/kernels/colour.h"
#include "unit/transform/one.h"

#define OPS &stk__transform_random_rotation

enum { HEIGHT = 11, WIDTH = 14, BYTES = HEIGHT * WIDTH * 3 };

static uint8_t picture[BYTES];

static void test_arguments_and_headers(void **state)
{
    stk_transform_header header = hwc(4, 4, 1);

    refuses(OPS, "random_rotation", "degrees is missing");
    refuses(OPS, "random_rotation(-3)", "degrees -3 is negative");
    refuses(OPS, "random_rotation([3, 2])", "degrees");
    refuses(OPS, "random_rotation(far)", "degrees");
    refuses(OPS, "random_rotation(1e9)", "degrees");
    refuses(OPS, "random_rotation(1, fill=256)", "fill");
    refuses(OPS, "random_rotation(1, fill=[1, 2])", "fill has 2 numbers");
    refuses(OPS, "random_rotation(1, interpolation=cubic)", "interpolation");
    refuses(OPS, "random_rotation(1, mask_fill=300)", "mask_fill");
    stk_transform *t = make_one(OPS, "random_rotation(30, [1, 2, 3])");
    check_headers(t);
    refuses_header(t, header, "fill has 3 numbers");
    assert_false(t->ops->colours);
    header.mask = true;
    stk_transform_plan plan;
    stk_error err;
    assert_ok(t->ops->plan(t, &header, NULL, &plan, &err), &err);
    assert_true(plan.out.mask);
    t->ops->destroy(t);
}

static void test_sin_cos(void **state)
{
    for (int i = -8000; i <= 8000; i++) {
        double degrees = i * 0.1, sine, cosine,
               radians = fmod(degrees, 360.0) * 3.14159265358979323846 / 180;

        stk__sin_cos(degrees, &sine, &cosine);
        assert_true(fabs(sine - sin(radians)) < 2e-15);
        assert_true(fabs(cosine - cos(radians)) < 2e-15);
        if (i % 900 == 0)
            assert_true((sine == 0.0 && fabs(cosine) == 1.0) ||
                        (cosine == 0.0 && fabs(sine) == 1.0));
    }
}

static void test_draws(void **state)
{
    stk_transform *t = make_one(OPS, "random_rotation(20)");
    stk_transform_header header = hwc(4, 4, 3);
    int counts[8] = {0};
    stk_transform_plan plan;
    stk_error err;

    for (uint64_t position = 0; position < 8000; position++) {
        uint32_t words[4];

        stk__draw(9, 0, position, STK_DRAW_TRANSFORM, words, 4);
        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        double angle = stk__of_param(plan.params[0]);
        assert_true(angle >= -20 && angle < 20);
        counts[(int)((angle + 20) / 5)]++;
    }
    for (int i = 0; i < 8; i++)
        assert_in_range(counts[i], 880, 1120);
    t->ops->destroy(t);
}

/* Turns by 0, 90, 180 and 270 of rows `height` and columns `width`, counter-clockwise. */
static void check_turn(const char *text, int64_t height, int64_t width, int quarters)
{
    stk_transform *t = make_one(OPS, text);
    stk_transform_header header = hwc(height, width, 3);
    uint8_t *out = run_words(t, &header, &(const uint32_t){0}, picture);

    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            int64_t from_y = quarters == 0   ? y
                             : quarters == 1 ? x
                             : quarters == 2 ? height - 1 - y
                                             : width - 1 - x;
            int64_t from_x = quarters == 0   ? x
                             : quarters == 1 ? width - 1 - y
                             : quarters == 2 ? width - 1 - x
                                             : y;

            assert_memory_equal(out + 3 * (y * width + x), picture + 3 * (from_y * width + from_x),
                                3);
        }
    free(out);
    t->ops->destroy(t);
}

static void test_quarters(void **state)
{
    check_turn("random_rotation(0)", HEIGHT, WIDTH, 0);
    check_turn("random_rotation([-720, -720], interpolation=bilinear)", HEIGHT, WIDTH, 0);
    check_turn("random_rotation([180, 180], interpolation=bilinear)", HEIGHT, WIDTH, 2);
    check_turn("random_rotation([-180, -180])", HEIGHT, WIDTH, 2);
    /* The next number above: no turn of its own, and columns and rows still do not mix. */
    check_turn("random_rotation([180.00000000000003, 180.00000000000003])", HEIGHT, WIDTH, 2);
    check_turn("random_rotation([90, 90])", HEIGHT, HEIGHT, 1);
    check_turn("random_rotation([-90, -90], interpolation=bilinear)", HEIGHT, HEIGHT, 3);
    check_turn("random_rotation([450, 450], interpolation=bilinear)", HEIGHT, HEIGHT, 1);
}

/* Corners become the fill of each channel; a constant picture has no other values. */
static void test_fill(void **state)
{
    stk_transform_header header = hwc(HEIGHT, WIDTH, 3);
    uint8_t flat[BYTES];

    for (size_t i = 0; i < BYTES; i++)
        flat[i] = (uint8_t)(40 + 10 * (i % 3));
    for (int k = 0; k < 2; k++) {
        stk_transform *t =
            make_one(OPS, k ? "random_rotation([45, 45], fill=[9, 8, 7], interpolation=bilinear)"
                            : "random_rotation([45, 45], fill=[9, 8, 7])");
        uint8_t *out = run_words(t, &header, &(const uint32_t){0}, flat);
        int inside = 0;

        assert_memory_equal(out, ((const uint8_t[]){9, 8, 7}), 3);
        for (size_t i = 0; i < BYTES; i += 3) {
            bool is_fill = out[i] == 9 && out[i + 1] == 8 && out[i + 2] == 7;

            assert_true(is_fill || memcmp(out + i, flat, 3) == 0);
            inside += !is_fill;
        }
        assert_in_range(inside, HEIGHT * WIDTH / 2, HEIGHT * WIDTH - 8);
        free(out);
        t->ops->destroy(t);
    }
}

/* A mask turns as a picture of the same values does by nearest pixels, with a fill of its own. */
static void test_masks(void **state)
{
    stk_transform *t = make_one(OPS, "random_rotation(50, [1, 2, 3], bilinear, mask_fill=255)");
    stk_transform *plain = make_one(OPS, "random_rotation(50, 255)");
    stk_transform_header header = hwc(HEIGHT, WIDTH, 1), mask = header;

    mask.mask = true;
    for (uint32_t i = 0; i < 20; i++) {
        const uint32_t word = i * 214748364u;
        uint8_t *a = run_words(t, &mask, &word, picture);
        uint8_t *b = run_words(plain, &header, &word, picture);

        assert_memory_equal(a, b, HEIGHT * WIDTH);
        free(a);
        free(b);
    }
    t->ops->destroy(t);
    plain->ops->destroy(plain);
}

/* Beyond 16.16 the loops in double take over; one row of a picture that wide, turned half round but
 * for a hair, comes out reversed. */
static void test_wide(void **state)
{
    enum { LONG = 70000 };
    uint8_t *src = malloc(LONG + STK_TAIL), *dst = malloc(LONG);
    const stk__canvas canvas = {.height = 1, .width = LONG, .channels = 1, .fill = {1}};
    uint64_t random = 3;

    assert_true(src && dst);
    fill_random(src, LONG, &random);
    stk__rotate(180.0 - 1e-9, STK__NEAREST, &canvas, src, dst);
    for (size_t i = 1; i + 1 < LONG; i++)
        assert_int_equal(dst[i], src[LONG - 1 - i]);
    free(src);
    free(dst);
}

/* Moves by whole pixels, also past the ends. */
static void test_moves(void **state)
{
    const int64_t moves[] = {0, 1, -1, 5, -13, 14, -14, 1000, -1000};
    const stk__canvas canvas = {
        .height = HEIGHT, .width = WIDTH, .channels = 3, .fill = {11, 22, 33}};
    uint8_t dst[BYTES];

    for (size_t i = 0; i < STK_COUNT(moves) * STK_COUNT(moves); i++) {
        int64_t right = moves[i / STK_COUNT(moves)], down = moves[i % STK_COUNT(moves)];
        const stk__warp warp = {{1, 0, (double)right, 0, 1, (double)down}};

        memset(dst, 0, sizeof dst);
        stk__warp_apply(&warp, STK__NEAREST, &canvas, picture, dst);
        for (int64_t y = 0; y < HEIGHT; y++)
            for (int64_t x = 0; x < WIDTH; x++) {
                bool inside =
                    y + down >= 0 && y + down < HEIGHT && x + right >= 0 && x + right < WIDTH;

                assert_memory_equal(
                    dst + 3 * (y * WIDTH + x),
                    inside ? picture + 3 * ((y + down) * WIDTH + x + right) : canvas.fill, 3);
            }
    }
}

static int setup(void **state)
{
    uint64_t random = 31;

    context_open(state);
    fill_random(picture, sizeof picture, &random);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_and_headers),
        cmocka_unit_test(test_sin_cos),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_quarters),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_moves),
    };

    return cmocka_run_group_tests(tests, setup, context_close);
}
