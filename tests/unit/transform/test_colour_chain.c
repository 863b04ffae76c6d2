/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of colours in a chain: what they do one after the other by hand, with the draws of
 * their places; image and mask together. */
#include "base/random.h"
#include "unit/transform/one.h"
#include "unit/transform/sample.h"

enum { HEIGHT = 33, WIDTH = 27, STEPS = 6 };

static const stk_transform_ops *const steps[STEPS] = {
    &stk__transform_random_rotation,  &stk__transform_color_jitter, &stk__transform_gaussian_blur,
    &stk__transform_random_grayscale, &stk__transform_rand_augment, &stk__transform_random_erasing};
static const char *const texts[STEPS] = {"random_rotation(40, fill=9, interpolation=bilinear)",
                                         "color_jitter(0.4, 0.4, 0.4, 0.1)",
                                         "gaussian_blur(7, p=0.5)",
                                         "random_grayscale(0.3)",
                                         "rand_augment(3, 15)",
                                         "random_erasing(0.6, value=random)"};

/* All steps as one text. */
static void chain_text(char *text, size_t size)
{
    size_t at = 0;

    for (int i = 0; i < STEPS; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", texts[i]);
}

/* The steps by hand, with words of their places in the text; those of colours not for masks. */
static void by_hand(const stk_transform_header *header, uint64_t position, const uint8_t *src,
                    uint8_t *out)
{
    memcpy(out, src, bytes_of(header));
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t words[64];

        if (header->mask && steps[i]->colours)
            continue;
        stk_transform *t = make_one(steps[i], texts[i]);
        stk__draw(12, 3, position, STK_DRAW_TRANSFORM + i, words, steps[i]->num_draws);
        uint8_t *made = run_words(t, header, words, out);
        memcpy(out, made, bytes_of(header));
        free(made);
        t->ops->destroy(t);
    }
}

static void check_chain(const stk_transform_header *header)
{
    char text[512];
    uint64_t random = 90;
    uint8_t *src = random_sample(header, &random), *want = exact(bytes_of(header));

    chain_text(text, sizeof text);
    stk__pipeline *p = make(ctx, text, header);
    for (uint64_t position = 0; position < 60; position++) {
        uint8_t *out = run_one(p, 12, 3, position, NULL, src);

        by_hand(header, position, src, want);
        assert_memory_equal(out, want, bytes_of(header));
        free(out);
    }
    stk__pipeline_destroy(&p);
    free(src);
    free(want);
}

static void test_pictures(void **state)
{
    const stk_transform_header rgb = hwc(HEIGHT, WIDTH, 3), grey = hwc(HEIGHT, WIDTH, 1);

    check_chain(&rgb);
    check_chain(&grey);
}

static void test_masks(void **state)
{
    stk_transform_header mask = hwc(HEIGHT, WIDTH, 1);

    mask.mask = true;
    check_chain(&mask);
}

/* A copy of a picture's values in a mask lies where the picture's pixels do. */
static void test_together(void **state)
{
    const char *text = "random_rotation(90), color_jitter, rand_augment(1, 20)";
    stk_transform_header picture = hwc(HEIGHT, WIDTH, 1), mask = picture;
    uint64_t random = 91;
    uint8_t *src = random_sample(&picture, &random);
    int alike = 0;

    mask.mask = true;
    stk__pipeline *a = make(ctx, text, &picture), *b = make(ctx, text, &mask);
    for (uint64_t position = 0; position < 140; position++) {
        uint8_t *x = run_one(a, 1, 1, position, NULL, src),
                *y = run_one(b, 1, 1, position, NULL, src);

        alike += memcmp(x, y, bytes_of(&mask)) == 0;
        free(x);
        free(y);
    }
    /* 7 of the 14 operations leave the values of one channel as they are. */
    assert_in_range(alike, 55, 95);
    stk__pipeline_destroy(&a);
    stk__pipeline_destroy(&b);
    free(src);
}

static int setup(void **state)
{
    stk_error err;

    context_open(state);
    for (int i = 0; i < STEPS; i++) {
        const stk_transform_ops *ops;
        bool known = false;

        for (size_t k = 0;
             (ops = ((const stk_transform_ops *)stk_driver_at(ctx, STK_DRIVER_TRANSFORM, k))); k++)
            known = known || ops == steps[i];
        if (!known)
            assert_ok(stk_driver_add(ctx, STK_DRIVER_TRANSFORM, steps[i], &err), &err);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_together),
    };

    return cmocka_run_group_tests(tests, setup, context_close);
}
