/* SPDX-License-Identifier: Apache-2.0 */
/* rand_augment: which operations are drawn, in what order they run, and what a mask takes part in.
 */
#include <math.h>

#include "base/random.h"
#include "transform/operations/augment.h"
#include "unit/transform/one.h"

#define OPS &stk__transform_rand_augment

enum { HEIGHT = 23, WIDTH = 18, BYTES = HEIGHT * WIDTH * 3 };

static uint8_t picture[BYTES + STK_TAIL];

static void test_arguments_and_headers(void **state)
{
    refuses(OPS, "rand_augment(-1)", "num_ops");
    refuses(OPS, "rand_augment(13)", "num_ops");
    refuses(OPS, "rand_augment(2, 31)", "magnitude 31");
    refuses(OPS, "rand_augment(2, 9, 9)", "num_magnitude_bins");
    refuses(OPS, "rand_augment(2, 0, 1)", "num_magnitude_bins");
    refuses(OPS, "rand_augment(fill=[1, 2])", "fill");
    refuses(OPS, "rand_augment(mask_fill=256)", "mask_fill");
    stk_transform *t = make_one(OPS, "rand_augment");
    check_headers(t);
    assert_false(t->ops->colours);
    assert_true(t->ops->num_draws <= 64);
    t->ops->destroy(t);
}

static void test_draws(void **state)
{
    enum { SAMPLES = 7000 };
    stk_transform *t = make_one(OPS, "rand_augment(3)");
    stk_transform_header header = hwc(8, 8, 3);
    int chosen[3][STK__AUGMENT_COUNT] = {{0}}, negative[3] = {0};
    stk_transform_plan plan;
    stk_error err;

    for (uint64_t position = 0; position < SAMPLES; position++) {
        uint32_t words[24];

        stk__draw(5, 0, position, STK_DRAW_TRANSFORM, words, 24);
        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        for (int i = 0; i < 3; i++) {
            assert_in_range(plan.params[i] >> 1, 0, STK__AUGMENT_COUNT - 1);
            chosen[i][plan.params[i] >> 1]++;
            negative[i] += plan.params[i] & 1;
        }
        assert_int_equal(plan.params[3], 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(negative[i], 3350, 3650);
        for (int k = 0; k < STK__AUGMENT_COUNT; k++)
            assert_in_range(chosen[i][k], 420, 580);
    }
    t->ops->destroy(t);
}

/* Words that choose these operations; a negative number draws the sign too. */
static void choose(const int *operations, size_t n, uint32_t words[24])
{
    for (size_t i = 0; i < n; i++) {
        words[2 * i] = word_at((abs(operations[i]) + 0.5) / STK__AUGMENT_COUNT);
        words[2 * i + 1] = operations[i] < 0 ? 0 : UINT32_MAX;
    }
}

/* Chains of one to twelve operations do what they do one after the other. */
static void test_chains(void **state)
{
    stk_transform_header header = hwc(HEIGHT, WIDTH, 3);
    const stk__canvas canvas = {.height = HEIGHT, .width = WIDTH, .channels = 3, .fill = {5, 6, 7}};
    uint64_t random = 19;
    uint8_t want[2][BYTES + STK_TAIL];

    for (int n = 0; n <= 12; n++)
        for (int round = 0; round < 6; round++) {
            int operations[12], at = 0;
            uint32_t words[24] = {0};
            char text[64];

            memcpy(want[0], picture, BYTES);
            for (int i = 0; i < n; i++) {
                operations[i] = (int)(test_random(&random) % STK__AUGMENT_COUNT) *
                                (test_random(&random) % 2 ? 1 : -1);
                stk__augment operation = (stk__augment)abs(operations[i]);
                stk__augment_apply(
                    &stk__colour_kernels_c, operation,
                    stk__augment_strength(operation, 12, 31, HEIGHT, WIDTH, operations[i] < 0),
                    &canvas, want[at], want[1 - at]);
                at = 1 - at;
            }
            choose(operations, (size_t)n, words);
            snprintf(text, sizeof text, "rand_augment(%d, 12, fill=[5, 6, 7])", n);
            stk_transform *t = make_one(OPS, text);
            uint8_t *out = run_words(t, &header, words, picture);
            assert_memory_equal(out, want[at], BYTES);
            free(out);
            t->ops->destroy(t);
        }
}

/* At magnitude 0 no operation but the two without a magnitude changes anything. */
static void test_no_magnitude(void **state)
{
    stk_transform *t = make_one(OPS, "rand_augment(11, 0)");
    stk_transform_header header = hwc(HEIGHT, WIDTH, 3);
    const int operations[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    uint32_t words[24];

    choose(operations, STK_COUNT(operations), words);
    uint8_t *out = run_words(t, &header, words, picture);
    assert_memory_equal(out, picture, BYTES);
    free(out);
    t->ops->destroy(t);
}

/* A mask follows what moves pixels and nothing else, and knows no classes but its own and the fill.
 */
static void test_masks(void **state)
{
    stk_transform *t = make_one(OPS, "rand_augment(4, 15, fill=[1, 2, 3], mask_fill=255)");
    stk_transform_header mask = hwc(HEIGHT, WIDTH, 1), plain = mask;
    const stk__canvas canvas = {.height = HEIGHT, .width = WIDTH, .channels = 1, .fill = {255}};
    const int operations[] = {STK__AUGMENT_SOLARIZE, STK__AUGMENT_SHEAR_X, STK__AUGMENT_EQUALIZE,
                              -STK__AUGMENT_ROTATE};
    uint8_t between[HEIGHT * WIDTH + STK_TAIL], want[HEIGHT * WIDTH];
    uint32_t words[24];

    mask.mask = true;
    choose(operations, 4, words);
    stk__augment_apply(&stk__colour_kernels_c, STK__AUGMENT_SHEAR_X, (double)0.15f, &canvas,
                       picture, between);
    stk__augment_apply(&stk__colour_kernels_c, STK__AUGMENT_ROTATE, -15, &canvas, between, want);
    uint8_t *out = run_words(t, &mask, words, picture);
    assert_memory_equal(out, want, sizeof want);
    free(out);
    refuses_header(t, plain, "fill has 3 numbers");
    choose((const int[]){6, 7, 8, 9}, 4, words);
    out = run_words(t, &mask, words, picture);
    assert_memory_equal(out, picture, sizeof want);
    free(out);
    t->ops->destroy(t);
}

static int setup(void **state)
{
    uint64_t random = 2;

    context_open(state);
    fill_random(picture, BYTES, &random);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_and_headers),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_no_magnitude),
        cmocka_unit_test(test_masks),
    };

    return cmocka_run_group_tests(tests, setup, context_close);
}
