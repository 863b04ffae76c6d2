/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of 3x3: bits that depend on neither threads nor the rest of a batch, and gradients
 * that add up. That they are right is in parity/nn/float. */
#include "unit/nn/models.h"

/* 90 tiles in each picture: threads, rows and chunks of tiles end at different ones. */
enum { ROWS = 5, PLACES = 19 * 17, IN = 32, OUT = 16 };

static stk_context *ctx;

static int setup(void **state)
{
    ctx = test_context();
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

/* A step of `rows` rows, its backward pass after each of `times` forward passes. */
static stk_model *step(uint32_t threads, uint32_t rows, int times)
{
    static const int64_t shape[] = {IN, 19, 17};
    float *x = make_data(ROWS * PLACES * IN, 0), *target = make_data(ROWS * PLACES * OUT, 7);
    stk_model_options options;

    stk_model_options_init(&options);
    options.loss = STK_LOSS_MSE;
    options.batch_size = ROWS;
    options.threads = threads;
    stk_model *model = model_make(ctx,
                                  "conv2d(48, 3, padding=1), relu, a=conv2d(16, 3, padding=1), "
                                  "conv2d(16, 3, padding=1, bias=false), add(a)",
                                  shape, 3, &options);
    model_set_weights(model);
    for (int i = 0; i < times; i++) {
        model_forward(model, rows, x, target, true);
        model_backward(model, 1);
    }
    free(x);
    free(target);
    return model;
}

static void outputs_are_those_of_one_thread_and_all_rows(void **state)
{
    stk_model *whole = step(1, ROWS, 1);

    for (uint32_t rows = 1; rows <= ROWS; rows += 2) {
        stk_model *part = step(2, rows, 1);
        assert_memory_equal(model_output(part), model_output(whole),
                            rows * PLACES * OUT * sizeof(float));
        stk_model_destroy(&part);
    }
    stk_model_destroy(&whole);
}

/* Each gradient of a weight is `times` that of `b`, to the bit. */
static void is_times(stk_model *a, stk_model *b, double times)
{
    stk_state_tensor x, y;
    int weights = 0;

    for (size_t i = 0; stk_model_get_state(a, i, &x, NULL) == STK_OK; i++) {
        if (!ends_with(x.name, ".weight"))
            continue;
        assert_true(model_gradient(a, i, &x) && model_gradient(b, i, &y));
        for (uint64_t k = 0; k < tensor_count(&x); k++)
            assert_true(tensor_get(&x, k) == times * tensor_get(&y, k));
        weights++;
    }
    assert_int_equal(weights, 3);
}

static void gradients_are_those_of_one_thread(void **state)
{
    stk_model *one = step(1, ROWS, 1), *two = step(2, ROWS, 1);

    is_times(two, one, 1);
    stk_model_destroy(&two);
    two = step(2, ROWS, 2);
    is_times(two, one, 2);
    stk_model_destroy(&two);
    stk_model_destroy(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_those_of_one_thread_and_all_rows),
        cmocka_unit_test(gradients_are_those_of_one_thread),
    };

#ifdef STK_WITH_AVX2
    const bool taken =
        have_float() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    const bool taken = false;
#endif
    if (!taken) {
        print_message("skipped: convolutions are oneDNN's here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
