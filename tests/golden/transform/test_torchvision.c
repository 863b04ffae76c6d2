/* SPDX-License-Identifier: Apache-2.0 */
/* Against files that torchvision wrote (scripts/make_transform_golden.py). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "support/text.h"
#include "transform/pipeline/pipeline.h"

enum { HEIGHT = 19, WIDTH = 23, ELEMENTS = HEIGHT * WIDTH * 3, ROOM = 8192 };

/* A golden file, with the readable tail of every buffer. */
static void *read_golden(const char *name, size_t bytes)
{
    char path[512];
    size_t size = 0;

    snprintf(path, sizeof path, "%s/golden/transform/%s", TESTS_DIR, name);
    void *data = test_load(path, &size);
    assert_int_equal(size, bytes);
    return data;
}

static void run_text(const char *text, const stk_transform_header *in, const void *source,
                     void *out)
{
    stk_context *context = test_context();
    stk__pipeline *pipeline = NULL;
    stk_error err;
    stk_status status = STK_OK;
    uint64_t zero = 0;

    assert_ok(stk__pipeline_create(context, text, in, &pipeline, &err), &err);
    void *scratch = malloc(stk__pipeline_scratch(pipeline) + 1);
    stk__pipeline_run(pipeline, 1, 1, &zero, &zero, NULL, &source, &out, &status, scratch);
    assert_int_equal(status, STK_OK);
    free(scratch);
    stk__pipeline_destroy(&pipeline);
    stk_context_destroy(&context);
}

static const stk_transform_header picture_header = {
    .dtype = STK_UINT8, .rank = 3, .shape = {HEIGHT, WIDTH, 3}, .picture = true};

static void test_to_float(void **state)
{
    float out[ELEMENTS];
    void *picture = read_golden("picture.u8", ELEMENTS),
         *want = read_golden("to_float.f32", sizeof out);

    run_text("to_float, layout(chw)", &picture_header, picture, out);
    assert_memory_equal(out, want, sizeof out);
    free(picture);
    free(want);
}

/* The bound that src/transform/operations/normalize.c states, for values in [low, high]. */
static void assert_near(const float *out, const float *want, size_t n, double mean, double std,
                        double reach)
{
    double bound = 0x1p-21 * (reach + fabs(mean)) / std;

    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)out[i] - (double)want[i]) <= bound))
            fail_msg("element %zu: %.9g, torchvision has %.9g", i, (double)out[i], (double)want[i]);
}

static void check_preset(const char *name, const void *source, const stk_transform_header *header,
                         const double *mean, const double *std)
{
    char file[64], text[64];
    float out[ELEMENTS];
    size_t channels = (size_t)header->shape[2],
           plane = (size_t)(header->shape[0] * header->shape[1]);

    snprintf(file, sizeof file, "normalize_%s.f32", name);
    float *want = read_golden(file, channels * plane * sizeof(float));
    static const char *const forms[] = {"normalize(%s), layout(chw)",
                                        "to_float, normalize(%s), layout",
                                        "layout(chw), normalize(preset=%s)"};
    for (size_t i = 0; i < STK_COUNT(forms); i++) {
        int length = snprintf(text, sizeof text, forms[i], name);

        assert_true(length > 0 && (size_t)length < sizeof text);
        run_text(text, header, source, out);
        for (size_t c = 0; c < channels; c++)
            assert_near(out + c * plane, want + c * plane, plane, mean[c], std[c], 1.0);
    }
    free(want);
}

static void test_presets(void **state)
{
    const stk_transform_header ramp_header = {
        .dtype = STK_UINT8, .rank = 3, .shape = {16, 16, 1}, .picture = true};
    unsigned char ramp[256 + STK_TAIL] = {0};
    void *picture = read_golden("picture.u8", ELEMENTS);

    for (int i = 0; i < 256; i++)
        ramp[i] = (unsigned char)i;
    check_preset("mnist", ramp, &ramp_header, (double[]){0.1307}, (double[]){0.3081});
    check_preset("cifar10", picture, &picture_header, (double[]){0.4914, 0.4822, 0.4465},
                 (double[]){0.2470, 0.2435, 0.2616});
    check_preset("imagenet", picture, &picture_header, (double[]){0.485, 0.456, 0.406},
                 (double[]){0.229, 0.224, 0.225});
    free(picture);
}

static void test_floats(void **state)
{
    const stk_transform_header header = {
        .dtype = STK_FLOAT32, .rank = 3, .shape = {HEIGHT, WIDTH, 3}, .picture = true};
    const double mean[] = {0.5, -1.25, 2.0}, std[] = {0.3, 1.7, 5.0};
    float out[ELEMENTS], *want = read_golden("normalize_floats.f32", sizeof out);
    void *floats = read_golden("floats.f32", sizeof out);

    run_text("normalize([0.5, -1.25, 2.0], [0.3, 1.7, 5.0]), layout", &header, floats, out);
    for (size_t c = 0; c < 3; c++)
        assert_near(out + c * HEIGHT * WIDTH, want + c * HEIGHT * WIDTH, HEIGHT * WIDTH, mean[c],
                    std[c], 15.0);
    free(want);
    free(floats);
}

/* The word that makes random_crop take place `at` of `places`. */
static uint32_t word_of(int64_t at, int64_t places)
{
    return (uint32_t)((((uint64_t)at << 32) + (uint64_t)places - 1) / (uint64_t)places);
}

typedef struct crop_case {
    const char *crop;
    int64_t top, top_places, left, left_places;
    size_t height, width;
    const char *flip;
} crop_case;

/* One transform with chosen draws. */
static void apply_step(stk_context *context, const char *text, stk_transform_header *header,
                       const uint32_t *words, const void *source, void *out)
{
    stk__pipeline *pipeline = NULL;
    stk_transform_plan plan;
    stk_error err;

    assert_ok(stk__pipeline_create(context, text, header, &pipeline, &err), &err);
    const stk__transform_step *step = &pipeline->steps[0];
    assert_ok(step->ops->plan(step->transform, header, words, &plan, &err), &err);
    step->ops->apply(step->transform, header, &plan, 1, &source, &out, NULL);
    *header = plan.out;
    stk__pipeline_destroy(&pipeline);
}

static void test_crops(void **state)
{
    /* Places of the crop: padded size - size + 1. */
    static const crop_case cases[] = {
        {"random_crop(16)", 3, 4, 5, 8, 16, 16, "horizontal_flip(0)"},
        {"random_crop(19x23, padding=4)", 8, 9, 8, 9, 19, 23, "horizontal_flip(1)"},
        {"random_crop([25, 20], padding=[1, 2, 3, 4], fill=117)", 0, 1, 0, 8, 25, 20,
         "horizontal_flip(1)"},
        {"random_crop(19x23, padding=9, fill=255)", 18, 19, 17, 19, 19, 23, "horizontal_flip(0)"},
    };
    stk_context *context = test_context();
    void *picture = read_golden("picture.u8", ELEMENTS);
    static unsigned char between[ROOM], out[ROOM];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const crop_case *c = &cases[i];
        stk_transform_header header = picture_header;
        char file[32];
        size_t bytes = c->height * c->width * 3;

        snprintf(file, sizeof file, "crop%zu.u8", i);
        void *want = read_golden(file, bytes);
        uint32_t words[4] = {word_of(c->top, c->top_places), word_of(c->left, c->left_places)};
        apply_step(context, c->crop, &header, words, picture, between);
        assert_int_equal(header.shape[0], c->height);
        assert_int_equal(header.shape[1], c->width);
        apply_step(context, c->flip, &header, words, between, out);
        assert_memory_equal(out, want, bytes);
        free(want);
    }
    free(picture);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_float),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_crops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
