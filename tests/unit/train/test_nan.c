/* SPDX-License-Identifier: Apache-2.0 */
/* A loss that is no number, and gradients that are none. */
#include "unit/train/tiny.h"

static void stopping(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char samples[200];

    bench_open(&b);
    b.loader.shuffle = STK_SHUFFLE_NONE;
    tiny_init(&m);
    m.nan_at = 3;
    /* The third batch has samples 8 to 11. */
    snprintf(samples, sizeof samples, "batch 2 of epoch 0 (samples 8, 9, 10, 11)");
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EFORMAT, &b.err, samples);
    assert_int_equal(m.optimizer_steps, 2);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void skipping(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.nan_policy = STK_NAN_SKIP;
    tiny_init(&m);
    m.nan_at = 3;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.train_steps, 10);
    assert_int_equal(m.backwards, 9);
    assert_int_equal(m.optimizer_steps, 9);
    stk_trainer_destroy(&t);
    b.options.accumulate_grad_batches = 2;
    tiny_init(&m);
    m.nan_at = 3; /* the first of its window: the other alone makes the step */
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.optimizer_steps, 5);
    assert_int_equal(m.zero_grads, 5);
    stk_trainer_destroy(&t);
    b.options.nan_policy = STK_NAN_IGNORE;
    tiny_init(&m);
    m.nan_at = 3;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.backwards, 10);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* After the step at which it is called, parameters are as at the beginning of the fit. */
static void rewinding(void **state)
{
    bench b;
    tiny m, start;
    stk_trainer *t;

    bench_open(&b);
    b.options.nan_policy = STK_NAN_REWIND;
    b.options.limit_train_batches = "3";
    tiny_init(&m);
    m.nan_at = 3;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    tiny_init(&start);
    assert_memory_equal(m.weight, start.weight, sizeof m.weight);
    assert_memory_equal(m.velocity, start.velocity, sizeof m.velocity);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status always_nan(stk_module *module, stk_trainer *t, const stk_moment *at,
                             stk_loss *loss, stk_error *err)
{
    ((tiny *)module)->train_steps++;
    loss->value.value = NAN;
    return STK_OK;
}

static void too_many(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.nan_policy = STK_NAN_SKIP;
    b.options.nan_limit = 4;
    tiny_init(&m);
    m.ops.training_step = always_nan;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EFORMAT, &b.err, "nan_limit");
    assert_int_equal(m.train_steps, 4);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* Every other loss is infinite: they are never in a row. */
static stk_status often_infinite(stk_module *module, stk_trainer *t, const stk_moment *at,
                                 stk_loss *loss, stk_error *err)
{
    STK_TRY(tiny_training_step(module, t, at, loss, err));
    if (((tiny *)module)->train_steps % 2)
        loss->value.value = -INFINITY;
    return STK_OK;
}

static void not_in_a_row(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.nan_policy = STK_NAN_SKIP;
    b.options.nan_limit = 2;
    tiny_init(&m);
    m.ops.training_step = often_infinite;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.train_steps, 10);
    assert_int_equal(m.optimizer_steps, 5);
    stk_trainer_destroy(&t);
    b.options.nan_policy = STK_NAN_STOP;
    tiny_init(&m);
    m.ops.training_step = often_infinite;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EFORMAT, &b.err, "the loss is -inf at batch 0");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* A window whose second batch is bad: what the first has gathered goes with the parameters. */
static void rewinding_in_a_window(void **state)
{
    bench b;
    tiny m, start;
    stk_trainer *t;

    bench_open(&b);
    b.options.nan_policy = STK_NAN_REWIND;
    b.options.accumulate_grad_batches = 3;
    b.options.limit_train_batches = "3";
    tiny_init(&m);
    m.nan_at = 2;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    tiny_init(&start);
    assert_int_equal(m.zero_grads, 2); /* the third batch begins anew */
    assert_int_equal(m.optimizer_steps, 1);
    assert_memory_not_equal(m.weight, start.weight, sizeof m.weight);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status bad_backward(stk_module *module, const stk_loss *loss, double scale,
                               stk_error *err)
{
    tiny *self = (tiny *)module;

    self->gradient[4] = ++self->backwards == 2 ? INFINITY : 0;
    return STK_OK;
}

static void anomalies(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.backward = bad_backward;
    b.options.nan_policy = STK_NAN_IGNORE;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    stk_trainer_destroy(&t);
    b.options.nan_policy = STK_NAN_STOP;
    b.options.detect_anomaly = true;
    tiny_init(&m);
    m.ops.backward = bad_backward;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EFORMAT, &b.err,
                 "gradient of 'layer.weight' has inf as its element 4");
    assert_non_null(strstr(b.err.text, "batch 1 of epoch 0"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopping),
        cmocka_unit_test(skipping),
        cmocka_unit_test(rewinding),
        cmocka_unit_test(not_in_a_row),
        cmocka_unit_test(rewinding_in_a_window),
        cmocka_unit_test(too_many),
        cmocka_unit_test(anomalies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
