/* SPDX-License-Identifier: Apache-2.0 */
/* Draws of crops and flips: uniform, independent of each other, of the epoch, of the position and
 * of the seed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/pipeline/pipeline.h"

enum { SIDE = 32, PLACES = 9, SAMPLES = 50000 };

static stk_context *context;
static stk__pipeline *pipeline;

/* A picture in which a crop of 32 x 32 with a padding of 4 tells where it was taken and whether it
 * was mirrored. */
static uint16_t picture[SIDE * SIDE + STK_TAIL];
static unsigned char scratch[STK__PASS_SCRATCH * 4];

static int setup(void **state)
{
    const stk_transform_header in = {
        .dtype = STK_UINT16, .rank = 3, .shape = {SIDE, SIDE, 1}, .picture = true};
    stk_error err;

    context = test_context();
    for (int i = 0; i < SIDE * SIDE; i++)
        picture[i] = (uint16_t)(i + 1);
    assert_ok(stk__pipeline_create(context, "random_crop(32, padding=4), horizontal_flip", &in,
                                   &pipeline, &err),
              &err);
    assert_true(stk__pipeline_scratch(pipeline) <= sizeof scratch);
    return 0;
}

static int teardown(void **state)
{
    stk__pipeline_destroy(&pipeline);
    stk_context_destroy(&context);
    return 0;
}

typedef struct outcome {
    int row, column, flip; /* 0..8, 0..8, 0..1 */
} outcome;

static outcome observe(uint64_t seed, uint64_t epoch, uint64_t position)
{
    uint16_t result[SIDE * SIDE];
    const void *src = picture;
    void *dst = result;
    stk_status status = STK_OK;

    stk__pipeline_run(pipeline, seed, 1, &epoch, &position, NULL, &src, &dst, &status, scratch);
    assert_int_equal(status, STK_OK);
    /* The middle is always inside: two neighbours tell place and direction. */
    int a = result[16 * SIDE + 16] - 1, b = result[16 * SIDE + 17] - 1, flip = b < a;
    int y = a / SIDE, x = a % SIDE;
    outcome o = {.row = y - 16 + 4, .column = x - (flip ? 15 : 16) + 4, .flip = flip};
    assert_in_range(o.row, 0, PLACES - 1);
    assert_in_range(o.column, 0, PLACES - 1);
    return o;
}

static double chi_square(const int *counts, int cells, double total)
{
    double sum = 0, expected = total / cells;

    for (int i = 0; i < cells; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

/* Within 5 standard deviations of its mean, on both sides: too even is as wrong as too uneven. */
static void assert_uniform(const int *counts, int cells, double total)
{
    double freedom = cells - 1, x = chi_square(counts, cells, total);

    if (fabs(x - freedom) > 5 * sqrt(2 * freedom) + 3)
        fail_msg("chi-square %g with %g degrees of freedom", x, freedom);
}

/* All of row, column and flip together: uniform means independent too. */
static void test_uniform(void **state)
{
    static int cells[PLACES * PLACES * 2], rows[PLACES], columns[PLACES], flips[2];

    for (uint64_t i = 0; i < SAMPLES; i++) {
        outcome o = observe(7, 0, i);

        cells[(o.row * PLACES + o.column) * 2 + o.flip]++;
        rows[o.row]++;
        columns[o.column]++;
        flips[o.flip]++;
    }
    assert_uniform(cells, PLACES * PLACES * 2, SAMPLES);
    assert_uniform(rows, PLACES, SAMPLES);
    assert_uniform(columns, PLACES, SAMPLES);
    assert_uniform(flips, 2, SAMPLES);
}

/* The outcome at one place says nothing about that of its neighbour in position, epoch or seed. */
static void test_independent(void **state)
{
    static int pairs[3][PLACES * PLACES], flips[3][4];

    memset(pairs, 0, sizeof pairs);
    for (uint64_t i = 0; i < SAMPLES / 3; i++) {
        outcome here = observe(7, 3, i);
        const outcome there[3] = {observe(7, 3, i + 1), observe(7, 4, i), observe(8, 3, i)};

        for (int k = 0; k < 3; k++) {
            pairs[k][here.row * PLACES + there[k].row]++;
            flips[k][here.flip * 2 + there[k].flip]++;
        }
    }
    for (int k = 0; k < 3; k++) {
        assert_uniform(pairs[k], PLACES * PLACES, SAMPLES / 3);
        assert_uniform(flips[k], 4, SAMPLES / 3);
    }
}

/* The number of a transform in the text keys its draws: two flips in a row are two coins. */
static void test_each_transform_draws_its_own(void **state)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {1, 2, 1}, .picture = true};
    const unsigned char pixels[2 + STK_TAIL] = {10, 20};
    static const char *const texts[] = {"horizontal_flip", "to_float, horizontal_flip",
                                        "horizontal_flip, horizontal_flip"};
    int differs = 0, both = 0;
    stk__pipeline *p[3];
    for (int k = 0; k < 3; k++) {
        stk_error err;

        assert_ok(stk__pipeline_create(context, texts[k], &in, &p[k], &err), &err);
        assert_true(stk__pipeline_scratch(p[k]) <= sizeof scratch);
    }
    for (uint64_t i = 0; i < 4000; i++) {
        bool flipped[3];

        for (int k = 0; k < 3; k++) {
            unsigned char bytes[2];
            float floats[2];
            const void *src = pixels;
            void *dst = k == 1 ? (void *)floats : (void *)bytes;
            uint64_t epoch = 0;
            stk_status status = STK_OK;

            stk__pipeline_run(p[k], 1, 1, &epoch, &i, NULL, &src, &dst, &status, scratch);
            flipped[k] = k == 1 ? floats[0] > floats[1] : bytes[0] > bytes[1];
        }
        differs += flipped[0] != flipped[1];
        both += flipped[2] != (flipped[0] != flipped[1]);
    }
    assert_in_range(differs, 1800, 2200);
    assert_int_equal(both, 0); /* the second flip of the pair is the one behind to_float */
    for (int k = 0; k < 3; k++)
        stk__pipeline_destroy(&p[k]);
}

static void test_share_of_flips(void **state)
{
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {1, 2, 1}, .picture = true};
    const unsigned char pixels[2 + STK_TAIL] = {10, 20};
    static const struct {
        const char *text;
        double p;
    } rows[] = {
        {"horizontal_flip(0)", 0}, {"horizontal_flip(p=0.1)", 0.1}, {"horizontal_flip(1)", 1}};

    for (size_t k = 0; k < STK_COUNT(rows); k++) {
        stk__pipeline *p = NULL;
        stk_error err;
        int flipped = 0, n = 20000;

        assert_ok(stk__pipeline_create(context, rows[k].text, &in, &p, &err), &err);
        for (uint64_t i = 0; i < (uint64_t)n; i++) {
            unsigned char bytes[2];
            const void *src = pixels;
            void *dst = bytes;
            uint64_t epoch = 9;
            stk_status status = STK_OK;

            stk__pipeline_run(p, 1, 1, &epoch, &i, NULL, &src, &dst, &status, scratch);
            flipped += bytes[0] == 20;
        }
        assert_true(fabs(flipped - rows[k].p * n) <= 5 * sqrt(n * rows[k].p * (1 - rows[k].p)));
        stk__pipeline_destroy(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_independent),
        cmocka_unit_test(test_each_transform_draws_its_own),
        cmocka_unit_test(test_share_of_flips),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
