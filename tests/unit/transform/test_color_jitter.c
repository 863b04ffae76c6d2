/* SPDX-License-Identifier: Apache-2.0 */
/* color_jitter: its arguments, its draws, and what must hold of any picture. */
#include <math.h>

#include "base/random.h"
#include "transform/kernels/colour.h"
#include "unit/transform/one.h"

#define OPS &stk__transform_color_jitter

static void test_arguments(void **state)
{
    refuses(OPS, "color_jitter(brightness=-0.1)", "brightness");
    refuses(OPS, "color_jitter(0.1, [1.2, 0.8])", "contrast");
    refuses(OPS, "color_jitter(saturation=[0.1, 0.2, 0.3])", "saturation");
    refuses(OPS, "color_jitter(saturation=much)", "saturation");
    refuses(OPS, "color_jitter(hue=0.6)", "hue");
    refuses(OPS, "color_jitter(hue=[-0.7, 0])", "hue");
    refuses(OPS, "color_jitter(hue=-0.1)", "hue");
    refuses(OPS, "color_jitter(contrast=[-1, 1])", "contrast");
    refuses(OPS, "color_jitter(0, 0, 0, 0, 0)", "takes 4");
    refuses(OPS, "color_jitter(gamma=1)", "gamma");
}

static void test_headers(void **state)
{
    stk_transform *t = make_one(OPS, "color_jitter(0.4, 0.4, 0.4, 0.1)");

    check_headers(t);
    assert_true(t->ops->colours);
    t->ops->destroy(t);
}

/* The factors of a plan, by the words that drew them. */
static void test_draws(void **state)
{
    stk_transform *t = make_one(OPS, "color_jitter(0.4, [0.5, 3], 1.5, 0.25)");
    const double low[] = {0.6, 0.5, 0.0, -0.25}, high[] = {1.4, 3.0, 2.5, 0.25};
    stk_transform_header header = hwc(4, 4, 3);
    stk_transform_plan plan;
    stk_error err;

    for (int k = 0; k <= 8; k++) {
        uint32_t word = k == 8 ? UINT32_MAX : word_at(k / 8.0);
        const uint32_t words[5] = {word, word, word, word, word};

        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        assert_int_equal(plan.params[0], k == 8 ? 23 : 3 * k);
        assert_int_equal(plan.params[1], 15);
        for (int i = 0; i < 4; i++) {
            double factor = stk__of_param(plan.params[2 + i]);

            assert_true(fabs(factor - (low[i] + (high[i] - low[i]) * (k / 8.0))) < 1e-9);
        }
    }
    t->ops->destroy(t);
    t = make_one(OPS, "color_jitter(contrast=0.5)");
    assert_ok(t->ops->plan(t, &header, (const uint32_t[5]){0}, &plan, &err), &err);
    assert_int_equal(plan.params[1], 1 << STK__CONTRAST);
    t->ops->destroy(t);
}

/* All 24 orders, each once. */
static void test_orders(void **state)
{
    bool seen[256] = {false};

    for (uint32_t number = 0; number < 24; number++) {
        uint8_t order[4];
        unsigned members = 0, code = 0;

        stk__jitter_order(number, order);
        for (int i = 0; i < 4; i++) {
            assert_true(order[i] < 4);
            members |= 1u << order[i];
            code = 4 * code + order[i];
        }
        assert_int_equal(members, 15);
        assert_false(seen[code]);
        seen[code] = true;
    }
}

/* Over many positions of one seed each order comes about as often, and factors spread evenly. */
static void test_histogram(void **state)
{
    enum { SAMPLES = 24000 };
    stk_transform *t = make_one(OPS, "color_jitter(0.5, 0.5, 0.5, 0.5)");
    stk_transform_header header = hwc(4, 4, 3);
    int orders[24] = {0}, factors[4][10] = {{0}};
    stk_transform_plan plan;
    stk_error err;

    for (uint64_t position = 0; position < SAMPLES; position++) {
        uint32_t words[8];

        stk__draw(7, 0, position, STK_DRAW_TRANSFORM, words, 5);
        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        orders[plan.params[0]]++;
        for (int i = 0; i < 4; i++) {
            double factor = stk__of_param(plan.params[2 + i]) + (i == STK__HUE ? 0.5 : -0.5);

            assert_true(factor >= 0 && factor < 1);
            factors[i][(int)(10 * factor)]++;
        }
    }
    for (int i = 0; i < 24; i++)
        assert_in_range(orders[i], 850, 1150);
    for (int i = 0; i < 40; i++)
        assert_in_range(factors[i / 10][i % 10], 2200, 2600);
    t->ops->destroy(t);
}

static void run_jitter(const stk__jitter *jitter, const uint8_t *src, uint8_t *dst, size_t pixels,
                       uint32_t channels)
{
    stk__jitter_apply(stk__colour_kernels_of(ctx), jitter, src, dst, pixels, channels);
}

/* Factors of 1 and a hue of 0 leave every colour as it is; grey stays grey under all others. */
static void test_identity_and_grey(void **state)
{
    enum { PIXELS = 4096 };
    static uint8_t src[3 * PIXELS], dst[3 * PIXELS];
    stk__jitter jitter = {
        .order = {3, 1, 0, 2}, .active = {true, true, true, true}, .factor = {1, 1, 1, 0}};
    uint64_t random = 5;

    for (size_t i = 0; i < PIXELS; i++) /* 16 values of each channel, at both ends too */
        for (size_t c = 0; c < 3; c++)
            src[3 * i + c] = (uint8_t)(17 * ((i >> (4 * c)) & 15));
    run_jitter(&jitter, src, dst, PIXELS, 3);
    assert_memory_equal(src, dst, sizeof src);
    fill_random(src, sizeof src, &random);
    run_jitter(&jitter, src, dst, PIXELS, 3);
    assert_memory_equal(src, dst, sizeof src);
    for (size_t i = 0; i < PIXELS; i++)
        src[3 * i + 1] = src[3 * i + 2] = src[3 * i];
    jitter = (stk__jitter){
        .order = {0, 2, 1, 3}, .active = {true, true, true, true}, .factor = {1.3, 0.7, 2.0, 0.31}};
    run_jitter(&jitter, src, dst, PIXELS, 3);
    for (size_t i = 0; i < PIXELS; i++) {
        assert_int_equal(dst[3 * i], dst[3 * i + 1]);
        assert_int_equal(dst[3 * i], dst[3 * i + 2]);
    }
}

/* A third of a turn makes red green, green blue and blue red. */
static void test_hue_turns(void **state)
{
    const uint8_t src[] = {200, 10, 30, 7, 90, 3, 255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0};
    uint8_t dst[sizeof src];
    const stk__jitter jitter = {
        .order = {0, 1, 2, 3}, .active = {[STK__HUE] = true}, .factor = {[STK__HUE] = 1.0 / 3.0}};

    run_jitter(&jitter, src, dst, 6, 3);
    for (size_t i = 0; i < sizeof src; i += 3)
        for (size_t c = 0; c < 3; c++)
            assert_in_range(dst[i + (c + 1) % 3] + 1, src[i + c], src[i + c] + 2);
}

/* One channel: brightness and contrast alone; the whole transform, with the words that do nothing.
 */
static void test_one_channel(void **state)
{
    stk_transform *t = make_one(OPS, "color_jitter(saturation=1, hue=0.5)");
    stk_transform_header header = hwc(5, 7, 1);
    const uint32_t words[5] = {UINT32_MAX, 0, 0, 0, UINT32_MAX};
    uint8_t src[35];
    uint64_t random = 8;

    fill_random(src, sizeof src, &random);
    uint8_t *out = run_words(t, &header, words, src);
    assert_memory_equal(out, src, sizeof src);
    free(out);
    t->ops->destroy(t);
    t = make_one(OPS, "color_jitter([2, 2])");
    out = run_words(t, &header, words, src);
    for (size_t i = 0; i < sizeof src; i++)
        assert_int_equal(out[i], STK_MIN(2 * src[i], 255));
    free(out);
    t->ops->destroy(t);
    t = make_one(OPS, "color_jitter");
    out = run_words(t, &header, words, src);
    assert_memory_equal(out, src, sizeof src);
    free(out);
    t->ops->destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_draws),     cmocka_unit_test(test_orders),
        cmocka_unit_test(test_histogram), cmocka_unit_test(test_identity_and_grey),
        cmocka_unit_test(test_hue_turns), cmocka_unit_test(test_one_channel),
    };

    return cmocka_run_group_tests(tests, context_open, context_close);
}
