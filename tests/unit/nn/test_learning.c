/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters learn, wait, or stay as they are. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waiting)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
