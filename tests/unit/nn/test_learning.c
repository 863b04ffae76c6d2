/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters learn, wait, or stay as they are. */
#include "support/faults.h"
#include "unit/nn/models.h"

/* What waits may learn later; what model.freeze froze, and norms that stay as they are, may not. */
static void test_waiting(void **state)
{
    const int64_t dot[] = {2, 5, 5};
    stk_context *ctx = test_context();
    stk_model_options options;
    stk_state_tensor t;
    stk_error err;

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    options.freeze = "fc.*";
    stk_model *model = model_make(ctx,
                                  "a=conv2d(2, 3), n=batch_norm2d, b=conv2d(2, 3), flatten, "
                                  "fc=linear(2)",
                                  dot, 3, &options);
    for (int norms = 1; norms >= 0; norms--) {
        assert_ok(stk__model_set_learning(model, "a.*, n.*", false, norms, &err), &err);
        for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
            const bool statistic = strstr(t.name, "running") || strstr(t.name, "num_");
            const bool may = *t.name == 'a' || *t.name == 'b' || (*t.name == 'n' && norms);
            assert_int_equal(stk__model_may_learn(model, i), may && !statistic);
        }
    }
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

static stk_status step(stk_model *model, stk_optimizer *optimizer, stk_error *err)
{
    const double x[3 * 2 * 5 * 5] = {0.5, -1, 2};
    const int64_t labels[3] = {0, 1, 1};
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = 3,
                                   .dtype = STK_FLOAT64,
                                   .input = x,
                                   .target = labels};
    stk_model_result result = {.struct_size = sizeof result};

    STK_TRY(stk_model_forward(model, &batch, true, &result, err));
    STK_TRY(stk_model_backward(model, 1, err));
    return stk_optimizer_step(optimizer, err);
}

static stk_model_plan plan_of(const stk_model *model)
{
    stk_model_plan plan = {.struct_size = sizeof plan};

    stk_model_get_plan(model, &plan);
    return plan;
}

/* A change that fails, at each allocation or for a pattern of nothing, is none: the next step has
 * the same gradients in the same memory. */
static void test_failed_change(void **state)
{
    const int64_t dot[] = {2, 5, 5};
    faults f = {.left = FAULTS_NONE};
    stk_context_options context_options;
    stk_model_options options;
    stk_optimizer *optimizer;
    stk_status status;
    stk_context *ctx;
    stk_error err;

    stk_context_options_init(&context_options);
    context_options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&context_options, &ctx, &err), &err);
    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    stk_model *model =
        model_make(ctx, "a=conv2d(64, 3), b=conv2d(2, 3), flatten, fc=linear(2)", dot, 3, &options);
    assert_ok(stk__model_set_learning(model, "a.*, b.*", false, true, &err), &err);
    assert_ok(stk_optimizer_create(model, NULL, NULL, 0, &optimizer, &err), &err);
    assert_ok(step(model, optimizer, &err), &err);
    const stk_model_plan before = plan_of(model);
    int64_t n = 0;
    do {
        const int64_t held = f.held;
        f.left = n ? n - 1 : FAULTS_NONE;
        status = n ? stk__model_set_learning(model, "a.*, b.*", true, true, &err)
                   : stk__model_set_learning(model, "a.*, nothing.*", true, true, &err);
        f.left = FAULTS_NONE;
        if (status == STK_OK)
            break;
        assert_int_equal(f.held, held);
        const stk_model_plan after = plan_of(model);
        assert_memory_equal(&after, &before, sizeof after);
        assert_ok(step(model, optimizer, &err), &err);
    } while (++n);
    assert_true(n > 5);
    assert_true(plan_of(model).gradient_bytes > before.gradient_bytes);
    assert_ok(step(model, optimizer, &err), &err);
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waiting),
                                       cmocka_unit_test(test_failed_change)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
