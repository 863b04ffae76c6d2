/* SPDX-License-Identifier: Apache-2.0 */
/* mixup and cutmix: what they keep, what they report, and how their weights are distributed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/support.h"
#include "transform/pipeline/batch.h"
#include "transform/transform.h"

enum { SIDE = 8, CHANNELS = 3, ELEMENTS = SIDE * SIDE * CHANNELS, ROWS = 7 };

static stk_context *context;

static int setup(void **state)
{
    context = test_context();
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&context);
    return 0;
}

/* A batch of pictures and labels, before and after. */
typedef struct batch {
    float before[ROWS][ELEMENTS], after[ROWS][ELEMENTS];
    uint8_t bytes_before[ROWS][ELEMENTS], bytes_after[ROWS][ELEMENTS];
    int64_t labels[ROWS], mixed[ROWS];
    float mix[ROWS];
    stk__batch_field fields[3];
} batch;

static void batch_init(batch *b, uint64_t seed, bool chw)
{
    stk_transform_header picture = {
        .dtype = STK_FLOAT32, .rank = 3, .shape = {SIDE, SIDE, CHANNELS}, .picture = true};

    if (chw) {
        picture.chw = true;
        picture.shape[0] = CHANNELS;
        picture.shape[2] = SIDE;
    }
    for (int i = 0; i < ROWS; i++) {
        b->labels[i] = i;
        for (int k = 0; k < ELEMENTS; k++) {
            b->before[i][k] = b->after[i][k] =
                (float)(int)(test_random(&seed) % 2001) / 1000.0f - 1.0f;
            b->bytes_before[i][k] = b->bytes_after[i][k] = (uint8_t)(test_random(&seed) >> 40);
        }
    }
    b->fields[0] = (stk__batch_field){"image", picture, b->after, sizeof b->after[0]};
    picture.dtype = STK_UINT8;
    b->fields[1] = (stk__batch_field){"second", picture, b->bytes_after, sizeof b->bytes_after[0]};
    b->fields[2] = (stk__batch_field){"label", {.dtype = STK_INT64}, b->labels, sizeof(int64_t)};
}

static stk__batch_pipeline *make(const char *text, batch *b)
{
    stk__batch_pipeline *pipeline = NULL;
    uint64_t scratch = 1;
    stk_error err;

    assert_ok(stk__batch_pipeline_create(context, text, &pipeline, &err), &err);
    assert_false(stk__batch_pipeline_empty(pipeline));
    assert_ok(stk__batch_pipeline_prepare(pipeline, b->fields, 3, ROWS, &scratch, &err), &err);
    assert_int_equal(scratch, 0);
    return pipeline;
}

static void test_mixup(void **state)
{
    static batch b;
    batch_init(&b, 5, false);
    stk__batch_pipeline *pipeline = make("mixup(0.2)", &b);

    for (uint64_t draw = 0; draw < 200; draw++) {
        batch_init(&b, 5 + draw, draw % 2);
        stk__batch_pipeline_run(pipeline, 1, 2, draw, b.fields, 3, ROWS, b.mixed, b.mix, NULL);
        for (int i = 0; i < ROWS; i++) {
            int k = ROWS - 1 - i;
            double own = b.mix[0], other = 1.0 - own;

            assert_int_equal(b.mixed[i], k);
            assert_true(b.mix[i] == b.mix[0] && own >= 0 && own <= 1);
            for (int e = 0; e < ELEMENTS; e++) {
                double want = own * (double)b.before[i][e] + other * (double)b.before[k][e];
                double bytes = own * b.bytes_before[i][e] + other * b.bytes_before[k][e];

                assert_true(fabs((double)b.after[i][e] - want) <= 0x1p-22);
                assert_true(fabs(b.bytes_after[i][e] - bytes) <= 0.5 + 1e-4);
                /* What the two rows hold together stays. */
                assert_true(fabs((double)b.after[i][e] + (double)b.after[k][e] -
                                 (double)b.before[i][e] - (double)b.before[k][e]) <= 0x1p-20);
            }
        }
    }
    stk__batch_pipeline_destroy(&pipeline);
}

/* Every pixel comes from the row or its partner; those of the partner fill a box of the share
 * reported. */
static void check_cut(const batch *b, bool chw)
{
    int top = SIDE, bottom = 0, left = SIDE, right = 0, foreign = 0;

    for (int i = 0; i < ROWS / 2; i++) {
        int k = ROWS - 1 - i, seen = 0;

        for (int p = 0; p < SIDE * SIDE; p++) {
            int first = chw ? p : p * CHANNELS, step = chw ? SIDE * SIDE : 1;
            bool own = b->after[i][first] == b->before[i][first];

            for (int c = 0; c < CHANNELS; c++) {
                int e = first + c * step;

                assert_true(b->after[i][e] == (own ? b->before[i][e] : b->before[k][e]));
                assert_true(b->after[k][e] == (own ? b->before[k][e] : b->before[i][e]));
                assert_int_equal(b->bytes_after[i][e],
                                 own ? b->bytes_before[i][e] : b->bytes_before[k][e]);
            }
            if (own)
                continue;
            top = STK_MIN(top, p / SIDE);
            bottom = STK_MAX(bottom, p / SIDE + 1);
            left = STK_MIN(left, p % SIDE);
            right = STK_MAX(right, p % SIDE + 1);
            seen++;
        }
        assert_true(i == 0 || seen == foreign);
        foreign = seen;
    }
    assert_int_equal(foreign, foreign ? (bottom - top) * (right - left) : 0);
    for (int i = 0; i < ROWS; i++) {
        assert_true(fabs((double)b->mix[i] - (1.0 - foreign / (double)(SIDE * SIDE))) <= 1e-7);
        assert_int_equal(b->mixed[i], ROWS - 1 - i);
    }
}

/* Values by which a picture's pixels can be told from those of any other. */
static void make_distinct(batch *b)
{
    for (int i = 0; i < ROWS; i++)
        for (int e = 0; e < ELEMENTS; e++) {
            b->before[i][e] = b->after[i][e] = (float)(i * ELEMENTS + e);
            b->bytes_before[i][e] = b->bytes_after[i][e] = (uint8_t)(i * 31 + e);
        }
}

static void test_cutmix(void **state)
{
    static batch b;
    bool cut = false;

    batch_init(&b, 5, false);
    stk__batch_pipeline *pipeline = make("cutmix(1.0)", &b);
    for (uint64_t draw = 0; draw < 200; draw++) {
        batch_init(&b, 0, draw % 2);
        make_distinct(&b);
        stk__batch_pipeline_run(pipeline, 1, 2, draw, b.fields, 3, ROWS, b.mixed, b.mix, NULL);
        check_cut(&b, draw % 2);
        cut |= b.mix[0] < 1;
    }
    assert_true(cut);
    stk__batch_pipeline_destroy(&pipeline);
}

static void test_choice_and_share(void **state)
{
    static batch b;
    int mixups = 0, cutmixes = 0, untouched = 0;
    enum { DRAWS = 4000 };

    batch_init(&b, 5, false);
    stk__batch_pipeline *pipeline = make("mixup(1, p=0.5), cutmix(1, p=0.5)", &b);
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        batch_init(&b, 0, false);
        make_distinct(&b);
        stk__batch_pipeline_run(pipeline, 9, 0, draw, b.fields, 3, 2, b.mixed, b.mix, NULL);
        if (memcmp(b.after, b.before, sizeof b.after) == 0) {
            assert_true(b.mix[0] == 1.0f);
            untouched++;
        } else if (b.after[0][0] == b.before[0][0] || b.after[0][0] == b.before[1][0]) {
            cutmixes++;
        } else {
            mixups++;
        }
    }
    /* Half of the batches stay as they are, a small cut box may be empty (2.3 % of 1/4 is far from
     * the bounds). */
    assert_in_range(mixups, DRAWS / 4 - 150, DRAWS / 4 + 150);
    assert_in_range(cutmixes, DRAWS / 4 - 300, DRAWS / 4 + 150);
    assert_in_range(untouched, DRAWS / 2 - 200, DRAWS / 2 + 300);
    stk__batch_pipeline_destroy(&pipeline);
}

/* Equal draws give equal bytes; another seed, epoch or draw gives others. */
static void test_draws(void **state)
{
    static batch a, b;
    const uint64_t keys[][3] = {{1, 2, 3}, {1, 2, 3}, {2, 2, 3}, {1, 3, 3}, {1, 2, 4}};

    batch_init(&a, 5, false);
    stk__batch_pipeline *pipeline = make("mixup(1)", &a);
    stk__batch_pipeline_run(pipeline, 1, 2, 3, a.fields, 3, ROWS, a.mixed, a.mix, NULL);
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        batch_init(&b, 5, false);
        stk__batch_pipeline_run(pipeline, keys[i][0], keys[i][1], keys[i][2], b.fields, 3, ROWS,
                                b.mixed, b.mix, NULL);
        assert_int_equal(memcmp(a.after, b.after, sizeof a.after) == 0, i < 2);
        assert_int_equal(a.mix[0] == b.mix[0], i < 2);
    }
    for (uint64_t count = 0; count < 2; count++) { /* nothing to mix with */
        batch_init(&b, 5, false);
        stk__batch_pipeline_run(pipeline, 1, 2, 3, b.fields, 3, count, b.mixed, b.mix, NULL);
        assert_memory_equal(b.after, b.before, sizeof b.after);
    }
    stk__batch_pipeline_destroy(&pipeline);
}

/* Mean 1/2, variance 1 / (4 (2 alpha + 1)), fourth moment of Beta(a, a), and symmetry. */
static void test_beta(void **state)
{
    static const double alphas[] = {0.05, 0.2, 0.5, 0.999, 1.0, 1.001, 2.0, 8.0, 200.0};
    enum { DRAWS = 40000 };
    uint32_t words[STK__BETA_WORDS];

    for (size_t k = 0; k < STK_COUNT(alphas); k++) {
        double a = alphas[k], sum = 0, squares = 0, fourths = 0, variance = 1 / (4 * (2 * a + 1));

        for (uint64_t i = 0; i < DRAWS; i++) {
            stk__draw(42 + k, 0, i, STK_DRAW_BATCH, words, STK__BETA_WORDS);
            double x = stk__beta(a, words) - 0.5;

            assert_true(x >= -0.5 && x <= 0.5);
            sum += x;
            squares += x * x;
            fourths += x * x * x * x;
        }
        double kurtosis = 3.0 - 6.0 / (2 * a + 3); /* of Beta(a, a) */
        double sigma = sqrt(variance / DRAWS), sigma2 = variance * sqrt((kurtosis - 1) / DRAWS);
        assert_true(fabs(sum / DRAWS) < 4.5 * sigma);
        assert_true(fabs(squares / DRAWS - variance) < 4.5 * sigma2 + 1e-12);
        assert_true(fabs(fourths / DRAWS / (variance * variance) / kurtosis - 1) < 0.08);
    }
}

static void test_logarithm_and_exponential(void **state)
{
    uint64_t random = 3;

    for (int i = 0; i < 200000; i++) {
        double x = ((double)(test_random(&random) >> 11) + 0.5) * 0x1p-53;
        double y = x * 1400 - 700;

        assert_true(fabs(stk__ln(x) - log(x)) <= 1e-15 * (1 + fabs(log(x))));
        assert_true(fabs(stk__e_to(y) / exp(y) - 1) <= 1e-15);
    }
    assert_true(stk__e_to(-1e9) == 0 && isinf(stk__e_to(1e9)) && stk__ln(1) == 0 &&
                stk__e_to(0) == 1);
}

static void test_refused(void **state)
{
    static batch b;
    stk__batch_pipeline *pipeline = NULL;
    uint64_t scratch;
    stk_error err;
    static const char *const texts[][2] = {
        {"mixap(1)", "mixup and cutmix"}, {"mixup(0)", "alpha"},
        {"mixup(-1)", "alpha"},           {"mixup(nan)", "alpha"},
        {"cutmix(1, p=2)", "p"},          {"mixup(1, 1, 1)", "takes 2 arguments"},
        {"mixup(beta=1)", "beta"},        {"normalize(mnist)", "normalize"}};

    for (size_t i = 0; i < STK_COUNT(texts); i++)
        assert_fails(stk__batch_pipeline_create(context, texts[i][0], &pipeline, &err), STK_EINVAL,
                     &err, texts[i][1]);
    assert_ok(stk__batch_pipeline_create(context, "mixup", &pipeline, &err), &err);
    batch_init(&b, 1, false);
    assert_fails(stk__batch_pipeline_prepare(pipeline, b.fields + 2, 1, ROWS, &scratch, &err),
                 STK_EINVAL, &err, "no pictures");
    assert_fails(stk__batch_pipeline_prepare(pipeline, b.fields, 2, ROWS, &scratch, &err),
                 STK_EINVAL, &err, "label");
    b.fields[1].header.dtype = STK_INT8;
    assert_fails(stk__batch_pipeline_prepare(pipeline, b.fields, 3, ROWS, &scratch, &err),
                 STK_ENOTSUP, &err, "second");
    b.fields[1].header.shape[0] = -1;
    assert_fails(stk__batch_pipeline_prepare(pipeline, b.fields, 3, ROWS, &scratch, &err),
                 STK_EINVAL, &err, "many sizes");
    stk__batch_pipeline_destroy(&pipeline);
    assert_ok(stk__batch_pipeline_create(context, NULL, &pipeline, &err), &err);
    assert_true(stk__batch_pipeline_empty(pipeline));
    stk__batch_pipeline_destroy(&pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixup),
        cmocka_unit_test(test_cutmix),
        cmocka_unit_test(test_choice_and_share),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_beta),
        cmocka_unit_test(test_logarithm_and_exponential),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
