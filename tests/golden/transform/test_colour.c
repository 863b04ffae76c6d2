/* SPDX-License-Identifier: Apache-2.0 */
/* Against files that torchvision and Pillow wrote (scripts/make_colour_golden.py), for the same
 * factors, angles, operations and words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "support/text.h"
#include "transform/kernels/blur.h"
#include "transform/operations/augment.h"
#include "transform/operations/erase.h"
#include "transform/pipeline/batch.h"

enum { HEIGHT = 29, WIDTH = 23, PIXELS = HEIGHT * WIDTH, BYTES = PIXELS * 3 };

static stk_context *ctx;
static uint8_t picture[BYTES + STK_TAIL];
static const stk__canvas canvas = {
    .height = HEIGHT, .width = WIDTH, .channels = 3, .fill = {10, 120, 250}};

static void *read_golden(const char *name, size_t bytes)
{
    char path[512];
    size_t size = 0;

    snprintf(path, sizeof path, "%s/golden/transform/%s", TESTS_DIR, name);
    void *data = test_load(path, &size);
    assert_int_equal(size, bytes);
    return data;
}

/* How far two pictures are apart, in levels. */
static int distance(const uint8_t *a, const uint8_t *b)
{
    int most = 0;

    for (size_t i = 0; i < BYTES; i++)
        most = STK_MAX(most, abs(a[i] - b[i]));
    return most;
}

static void test_jitter(void **state)
{
    enum { SINGLE = 15, CHAINS = 3 };
    static const double factors[] = {0.0, 0.35, 0.9, 1.1, 1.7};
    static const stk__jitter chains[CHAINS] = {
        {{0, 1, 2, 3}, {true, true, true, false}, {1.3, 0.7, 1.4, 0}},
        {{2, 3, 1, 0}, {true, true, true, false}, {0.8, 1.6, 0.5, 0}},
        {{1, 0, 2, 3}, {true, true, true, false}, {1.2, 1.2, 0.0, 0}}};
    const stk__colour_kernels *kernels = stk__colour_kernels_of(ctx);
    uint8_t *want = read_golden("colour_jitter.u8", (SINGLE + CHAINS + 1) * BYTES), out[BYTES];

    for (size_t i = 0; i < SINGLE + CHAINS; i++) {
        stk__jitter jitter = {.order = {0, 1, 2, 3}};

        if (i < SINGLE) {
            jitter.active[i / 5] = true;
            jitter.factor[i / 5] = factors[i % 5];
        } else {
            jitter = chains[i - SINGLE];
        }
        stk__jitter_apply(kernels, &jitter, picture, out, PIXELS, 3);
        assert_memory_equal(out, want + i * BYTES, BYTES);
    }
    kernels->grey(picture, out, PIXELS);
    assert_memory_equal(out, want + (SINGLE + CHAINS) * BYTES, BYTES);
    free(want);
}

static void test_hue(void **state)
{
    static const double hues[] = {-0.5, -0.21, 0.04, 0.33};
    uint8_t *want = read_golden("colour_hue.u8", STK_COUNT(hues) * BYTES), out[BYTES];

    for (size_t i = 0; i < STK_COUNT(hues); i++) {
        const stk__jitter jitter = {
            .order = {0, 1, 2, 3}, .active = {[STK__HUE] = true}, .factor = {[STK__HUE] = hues[i]}};

        stk__jitter_apply(stk__colour_kernels_of(ctx), &jitter, picture, out, PIXELS, 3);
        assert_in_range(distance(out, want + i * BYTES), 0, 1);
    }
    free(want);
}

static void test_blur(void **state)
{
    static const struct {
        uint32_t width, height;
        double sigma;
    } blurs[] = {{3, 3, 0.1}, {5, 5, 0.8}, {9, 3, 2.0}, {23, 23, 1.7}, {1, 7, 5.0}};
    uint8_t *want = read_golden("colour_blur.u8", STK_COUNT(blurs) * BYTES), out[BYTES];

    for (size_t i = 0; i < STK_COUNT(blurs); i++) {
        stk__blur x, y;
        uint64_t bytes = 0;

        stk__blur_init(&x, blurs[i].width, blurs[i].sigma);
        stk__blur_init(&y, blurs[i].height, blurs[i].sigma);
        assert_true(stk__blur_scratch(&x, &y, HEIGHT, WIDTH, 3, &bytes));
        void *scratch = malloc(bytes);
        assert_non_null(scratch);
        stk__blur_apply(stk__blur_kernels_of(ctx), &x, &y, picture, out, HEIGHT, WIDTH, 3, scratch);
        assert_in_range(distance(out, want + i * BYTES), 0, 1);
        free(scratch);
    }
    free(want);
}

static void test_rotation(void **state)
{
    static const double angles[] = {7.0, -15.5, 44.0, 90.0, 133.7, 180.0, -300.25};
    uint8_t *want = read_golden("colour_rotation.u8", 2 * STK_COUNT(angles) * BYTES), out[BYTES];

    for (size_t i = 0; i < STK_COUNT(angles); i++) {
        stk__rotate(angles[i], STK__NEAREST, &canvas, picture, out);
        assert_memory_equal(out, want + 2 * i * BYTES, BYTES);
        stk__rotate(angles[i], STK__BILINEAR, &canvas, picture, out);
        assert_in_range(distance(out, want + (2 * i + 1) * BYTES), 0, 1);
    }
    free(want);
}

static void test_augment(void **state)
{
    static const struct {
        int64_t magnitude;
        bool negative;
    } magnitudes[] = {{9, false}, {9, true}, {30, false}};
    const size_t count = STK_COUNT(magnitudes) * STK__AUGMENT_COUNT;
    uint8_t *want = read_golden("colour_augment.u8", count * BYTES), out[BYTES];

    for (size_t i = 0; i < count; i++) {
        stk__augment operation = (stk__augment)(i % STK__AUGMENT_COUNT);
        size_t k = i / STK__AUGMENT_COUNT;

        stk__augment_apply(stk__colour_kernels_of(ctx), operation,
                           stk__augment_strength(operation, magnitudes[k].magnitude, 31, HEIGHT,
                                                 WIDTH, magnitudes[k].negative),
                           &canvas, picture, out);
        assert_memory_equal(out, want + i * BYTES, BYTES);
    }
    free(want);
}

/* Each row: 22 words, height and width of the picture, row, column, height and width of the box
 * (-1: none). */
static void test_boxes(void **state)
{
    enum { CASES = 64, ROW = 22 + 2 + 4 };
    const double scale[] = {0.02, 0.33}, log_ratio[] = {stk__ln(0.3), stk__ln(3.3)};
    int32_t *rows = read_golden("colour_boxes.i32", CASES * ROW * sizeof *rows);
    int found = 0;

    for (size_t i = 0; i < CASES; i++) {
        const int32_t *row = rows + i * ROW, *want = row + 24;
        uint32_t words[22];
        stk__erased_box box = {-1, -1, -1, -1};

        memcpy(words, row, sizeof words);
        bool fits = stk__erase_box(row[22], row[23], scale, log_ratio, words, &box);
        found += fits;
        assert_int_equal(fits, want[0] != -1);
        assert_int_equal(box.top, want[0]);
        assert_int_equal(box.left, want[1]);
        assert_int_equal(box.height, want[2]);
        assert_int_equal(box.width, want[3]);
    }
    assert_in_range(found, CASES / 2, CASES - 1);
    free(rows);
}

static int setup(void **state)
{
    uint8_t *golden = read_golden("colour_picture.u8", BYTES);

    ctx = test_context();
    memcpy(picture, golden, BYTES);
    free(golden);
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jitter),  cmocka_unit_test(test_hue),
        cmocka_unit_test(test_blur),    cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_augment), cmocka_unit_test(test_boxes),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
