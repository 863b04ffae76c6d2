/* SPDX-License-Identifier: Apache-2.0 */
/* random_grayscale: the share that becomes grey, and which grey. */
#include "base/random.h"
#include "unit/transform/one.h"

#define OPS &stk__transform_random_grayscale

static void test_arguments_and_headers(void **state)
{
    refuses(OPS, "random_grayscale(1.5)", "p");
    refuses(OPS, "random_grayscale(p=-1)", "p");
    refuses(OPS, "random_grayscale(0.1, 3)", "takes 1");
    stk_transform *t = make_one(OPS, "random_grayscale");
    check_headers(t);
    assert_true(t->ops->colours);
    t->ops->destroy(t);
}

static void test_share(void **state)
{
    stk_transform *t = make_one(OPS, "random_grayscale(0.25)");
    stk_transform_header header = hwc(2, 2, 3);
    stk_transform_plan plan;
    stk_error err;
    int grey = 0;

    for (uint64_t position = 0; position < 8000; position++) {
        uint32_t words[4];

        stk__draw(3, 0, position, STK_DRAW_TRANSFORM, words, 4);
        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        grey += plan.params[0] != 0;
    }
    assert_in_range(grey, 1850, 2150);
    const uint32_t below = word_at(0.25) - 1, at = word_at(0.25);
    assert_ok(t->ops->plan(t, &header, &below, &plan, &err), &err);
    assert_int_equal(plan.params[0], 1);
    assert_ok(t->ops->plan(t, &header, &at, &plan, &err), &err);
    assert_int_equal(plan.params[0], 0);
    t->ops->destroy(t);
}

static void test_grey(void **state)
{
    enum { HEIGHT = 13, WIDTH = 17, BYTES = HEIGHT * WIDTH * 3 };
    stk_transform *t = make_one(OPS, "random_grayscale(p=1)");
    stk_transform_header header = hwc(HEIGHT, WIDTH, 3);
    const uint32_t word = UINT32_MAX;
    uint64_t random = 12;
    uint8_t src[BYTES];

    fill_random(src, BYTES, &random);
    src[0] = src[1] = src[2] = 255;
    uint8_t *out = run_words(t, &header, &word, src);
    for (size_t i = 0; i < BYTES; i += 3) {
        /* The weights of ITU-R 601-2, in thousandths. */
        double luma = 0.299 * src[i] + 0.587 * src[i + 1] + 0.114 * src[i + 2];

        assert_true(out[i] > luma - 0.502 && out[i] < luma + 0.502);
        assert_int_equal(out[i], out[i + 1]);
        assert_int_equal(out[i], out[i + 2]);
    }
    assert_int_equal(out[0], 255);
    free(out);
    header = hwc(HEIGHT, WIDTH, 1);
    out = run_words(t, &header, &word, src);
    assert_memory_equal(out, src, HEIGHT * WIDTH);
    free(out);
    t->ops->destroy(t);
    t = make_one(OPS, "random_grayscale(p=0)");
    header = hwc(HEIGHT, WIDTH, 3);
    out = run_words(t, &header, &(const uint32_t){0}, src);
    assert_memory_equal(out, src, BYTES);
    free(out);
    t->ops->destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_and_headers),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_grey),
    };

    return cmocka_run_group_tests(tests, context_open, context_close);
}
