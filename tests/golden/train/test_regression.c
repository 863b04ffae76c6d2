/* SPDX-License-Identifier: Apache-2.0 */
/* Regressions from a text, over labels of several types and shapes and over windows with missing
 * values, come to what PyTorch does (make_regression_golden.py). */
#include <jansson.h>
#include <math.h>

#include "unit/recipe/recipes.h"

#define FOLDER TESTS_DIR "/golden/train/regression/"

static const char text[] =
    "loader: {num_workers: 0}\n"
    "optimizer: {name: sgd, lr: 0.05}\n"
    "trainer: {max_epochs: 2, precision: 64-true, logger: 'false', num_sanity_val_steps: 0,\n"
    "          enable_checkpointing: false, enable_progress_bar: false,\n"
    "          enable_model_summary: false, log_every_n_steps: 1}\n";

static double val_loss(stk_context *ctx, const json_t *item, const char *precision)
{
    const char *loss = json_string_value(json_object_get(item, "loss"));
    const json_t *dataset = json_object_get(item, "dataset");
    const int outputs = (int)json_integer_value(json_object_get(item, "outputs"));
    char spec[1024], layers[64], weights[512], batch[16];
    double value = NAN;
    made m;

    snprintf(spec, sizeof spec, "%s" FOLDER "%s", json_string_value(json_array_get(dataset, 0)),
             json_string_value(json_array_get(dataset, 1)));
    snprintf(layers, sizeof layers, "flatten, linear(8), relu, linear(%d)", outputs);
    snprintf(weights, sizeof weights, FOLDER "%s",
             json_string_value(json_object_get(item, "weights")));
    snprintf(batch, sizeof batch, "%d", (int)json_integer_value(json_object_get(item, "batch")));
    made_load(&m, ctx, text);
    made_set(&m, "loader.batch_size", batch);
    made_set(&m, "data.dataset", spec);
    made_set(&m, "data.val", spec);
    made_set(&m, "model.layers", layers);
    made_set(&m, "model.loss", loss);
    made_set(&m, "module.weights", weights);
    made_set(&m, "trainer.precision", precision);
    if (strcmp(loss, "huber") == 0 || strcmp(loss, "smooth_l1") == 0)
        made_set(&m, "model.delta", "0.5");
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_loss", &value));
    made_release(&m);
    return value;
}

static void check(stk_context *ctx, const char *precision, double tolerance)
{
    json_error_t error;
    json_t *golden = json_load_file(FOLDER "golden.json", 0, &error), *item;
    size_t i;

    assert_non_null(golden);
    json_array_foreach(golden, i, item)
    {
        const double should = json_number_value(json_object_get(item, "val_loss"));
        const double is = val_loss(ctx, item, precision);
        if (!(fabs(is - should) <= tolerance * should))
            fail_msg("case %zu, %s: %.12g, not %.12g", i,
                     json_string_value(json_object_get(item, "loss")), is, should);
    }
    assert_int_equal(i, 35);
    json_decref(golden);
}

static void test_double(void **state)
{
    stk_context *ctx = test_context();

    check(ctx, "64-true", 1e-13);
    stk_context_destroy(&ctx);
}

static void test_float(void **state)
{
#ifdef STK_WITH_ONEDNN
    stk_context *ctx = test_context();

    check(ctx, "32-true", 1e-5);
    stk_context_destroy(&ctx);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_float),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
