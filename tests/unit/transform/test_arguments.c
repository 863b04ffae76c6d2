/* SPDX-License-Identifier: Apache-2.0 */
/* The text of transforms: what it means, and what is said where it means nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/pipeline/pipeline.h"

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

typedef struct refusal {
    const char *text, *message;
} refusal;

static void test_refused_arguments(void **state)
{
    static const refusal rows[] = {
        {"normalise(mnist)", "did you mean 'normalize'"},
        {"randomcrop(4)", "did you mean 'random_crop'"},
        {"zebra", "no transform \"zebra\""},
        {"normalize", "mean is missing"},
        {"normalize(0.5)", "std is missing"},
        {"normalize(0.5, 0)", "normalize: std \"0\" is out of range"},
        {"normalize(0.5, -1)", "normalize: std \"-1\" is out of range"},
        {"normalize(nan, 1)", "normalize: mean \"nan\" is no number"},
        {"normalize(inf, 1)", "normalize: mean \"inf\" is no number"},
        {"normalize(1e400, 1)", "normalize: mean"},
        {"normalize(1e30, 1e-30)", "beyond float32"},
        {"normalize([1, 2], [1, 2, 3])", "mean has 2 numbers and std 3"},
        {"normalize([0.1, 0.2], 1)", "has 2 channels, the field has 3"},
        {"normalize([1, 2, 3, 1)", "no opening one"},
        {"normalize('[1, 2, 3', 1)", "lacks the bracket"},
        {"normalize('1 2', 1)", "something after"},
        {"normalize('1x2', 1)", "something after"},
        {"normalize(mnist, 1)", "no number"},
        {"normalize(preset=mnist, mean=1)", "exclude each other"},
        {"normalize(preset=moon)", "moon"},
        {"normalize(1, 2, none, 4)", "takes 3 arguments"},
        {"normalize(mean=1, 2)", "give its name too"},
        {"normalize(1, 2, mean=3)", "mean is given twice"},
        {"normalize(maen=1)", "mean"},
        {"to_float(1)", "to_float: takes 0 arguments"},
        {"to_float(x=1)", "to_float: takes no arguments"},
        {"layout(nchw)", "layout"},
        {"pad", "padding is missing"},
        {"pad(-1)", "pad: padding \"-1\" is out of range"},
        {"pad(1.5)", "integers"},
        {"pad([1, 2, 3])", "has 3 numbers"},
        {"pad([1, 2, 3, 4, 5])", "too many"},
        {"pad(65536)", "out of range"},
        {"pad(1, fill=256)", "no value of uint8"},
        {"pad(1, fill=0.5)", "no value of uint8"},
        {"random_crop", "size is missing"},
        {"random_crop(0)", "out of range"},
        {"random_crop(12)", "larger than the picture, 10x11"},
        {"random_crop(10x12)", "size 10x12 is larger"},
        {"random_crop(4x4x4)", "too many"},
        {"random_crop(x4)", "is no size"},
        {"random_crop(1e99)", "out of range"},
        {"random_crop(4, pading=1)", "padding"},
        {"horizontal_flip(1.5)", "horizontal_flip"},
        {"horizontal_flip(p=-0.1)", "horizontal_flip"},
        {"layout(chw), normalize([1, 2], 1)", "has 2 channels, the field has 3"},
    };
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {10, 11, 3}, .picture = true};
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    stk__pipeline *pipeline;
    stk_error err;

    stk_context_memory(context, &before);
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        assert_fails(stk__pipeline_create(context, rows[i].text, &in, &pipeline, &err), STK_EINVAL,
                     &err, rows[i].message);
        assert_null(pipeline);
    }
    stk_context_memory(context, &after);
    assert_int_equal(before.bytes, after.bytes);
}

static void test_headers_that_do_not_suit(void **state)
{
    const stk_transform_header vector = {.dtype = STK_UINT8, .rank = 1, .shape = {7}};
    const stk_transform_header complex = {.dtype = STK_COMPLEX64, .rank = 1, .shape = {7}};
    const stk_transform_header wide = {
        .dtype = STK_UINT8, .rank = 3, .shape = {2, 2, 2000}, .picture = true};
    const stk_transform_header labels = {
        .dtype = STK_INT64, .rank = 3, .shape = {9, 9, 1}, .picture = true};
    const stk_transform_header flat = {
        .dtype = STK_UINT8, .rank = 2, .shape = {9, 9}, .picture = true};
    const stk_transform_header huge = {.dtype = STK_UINT8,
                                       .rank = 3,
                                       .shape = {INT64_C(1) << 40, INT64_C(1) << 40, 3},
                                       .picture = true};
    stk__pipeline *pipeline;
    stk_error err;

    assert_fails(stk__pipeline_create(context, "layout", &vector, &pipeline, &err), STK_EINVAL,
                 &err, "takes pictures");
    assert_fails(stk__pipeline_create(context, "random_crop(1)", &vector, &pipeline, &err),
                 STK_EINVAL, &err, "takes pictures");
    assert_fails(stk__pipeline_create(context, "to_float", &complex, &pipeline, &err), STK_ENOTSUP,
                 &err, "not real");
    assert_fails(stk__pipeline_create(context, "layout", &wide, &pipeline, &err), STK_ELIMIT, &err,
                 "out of range");
    assert_fails(stk__pipeline_create(context, "normalize(1, 1)", &labels, &pipeline, &err),
                 STK_EINVAL, &err, "put to_float before it");
    assert_fails(stk__pipeline_create(context, "pad(1, fill=3)", &labels, &pipeline, &err),
                 STK_ENOTSUP, &err, "uint8 and float32 only");
    assert_fails(stk__pipeline_create(context, "", &flat, &pipeline, &err), STK_EINVAL, &err,
                 "header");
    assert_fails(stk__pipeline_create(context, "", &huge, &pipeline, &err), STK_EINVAL, &err,
                 "header");
}

static void test_padding_that_overflows(void **state)
{
    /* Just below 2^63 bytes; padding would take it over. */
    const stk_transform_header large = {.dtype = STK_FLOAT64,
                                        .rank = 3,
                                        .shape = {INT64_C(1) << 30, (INT64_C(1) << 30) - 1, 1},
                                        .picture = true};
    stk__pipeline *pipeline;
    stk_error err;

    assert_fails(stk__pipeline_create(context, "pad(65535)", &large, &pipeline, &err), STK_ELIMIT,
                 &err, "large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_arguments),
        cmocka_unit_test(test_headers_that_do_not_suit),
        cmocka_unit_test(test_padding_that_overflows),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
