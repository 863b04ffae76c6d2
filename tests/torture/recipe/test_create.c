/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of a recipe fails in turn: an error, no crash, nothing lost. */
#include "support/faults.h"
#include "unit/recipe/recipes.h"

static const char text[] =
    "data: {dataset: 'mnist:/nonexistent', otherwise: 'digits:?size=64', val_split: 0.25}\n"
    "loader: {batch_size: 16, num_workers: 0, transforms: 'random_crop(28, padding=2), "
    "normalize(mnist)'}\n"
    "model: {layers: [flatten, linear(10)]}\n"
    "optimizer: {groups: '*.bias(weight_decay=0)'}\n"
    "trainer: {precision: 64-true, enable_checkpointing: false, enable_model_summary: false}\n"
    "callbacks: ['early_stopping(monitor=val_loss)', ema(0.5)]\n"
    "loggers: csv(name=first)\n";

static stk_status create(stk_context *ctx, stk_error *err)
{
    stk_recipe *recipe = NULL;
    stk_config *config = NULL;

    stk_status status = stk_config_create(ctx, &config, err);
    if (status == STK_OK)
        status = stk_config_load_text(config, "test.yaml", text, sizeof text - 1, err);
    if (status == STK_OK)
        status = stk_recipe_create(ctx, config, NULL, &recipe, err);
    assert_true((status == STK_OK) == (recipe != NULL));
    stk_recipe_destroy(&recipe);
    stk_config_destroy(&config);
    return status;
}

static void test_allocations(void **state)
{
    faults f = {.left = FAULTS_NONE};
    stk_context_options options;
    stk_context *ctx;
    stk_error err;
    int64_t n = 0;

    (void)state;
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    for (;; n++) {
        const int64_t held = f.held;
        f.left = n;
        const stk_status status = create(ctx, &err);
        const bool struck = fault_struck(&f);
        f.left = FAULTS_NONE;
        assert_int_equal(f.held, held);
        if (!struck) {
            assert_ok(status, &err);
            break;
        }
        assert_int_equal(status, STK_ENOMEM);
        assert_true(err.text[0]);
    }
    assert_true(n > 100);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
