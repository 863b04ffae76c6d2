/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients are told of when a backward pass has done with them, from the last one backwards;
 * parameters are asked for before a layer reads them. */
#include "unit/nn/models.h"

enum { ROWS = 3, MOST_TOLD = 16, MOST_BYTES = 1024 };

typedef struct told {
    size_t n, fail_at;
    stk_state_tensor tensors[MOST_TOLD];
    char copies[MOST_TOLD][MOST_BYTES]; /* of what they had then */
} told;

static stk_status take(void *user, const stk_state_tensor *gradient, stk_error *err)
{
    told *all = user;

    if (all->n + 1 == all->fail_at)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "no more gradients");
    assert_true(all->n < MOST_TOLD && gradient->bytes <= MOST_BYTES);
    memcpy(all->copies[all->n], gradient->data, gradient->bytes);
    all->tensors[all->n++] = *gradient;
    return STK_OK;
}

static stk_model *make(stk_context *ctx)
{
    const int64_t shape[] = {2, 6, 6};
    stk_model_options options;

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    options.batch_size = ROWS;
    options.freeze = "still.*";
    stk_model *model = model_make(ctx,
                                  "a=conv2d(2, 3, padding=1), n=batch_norm2d, r=relu, "
                                  "b=conv2d(2, 3, padding=1), m=batch_norm2d, add(r), relu, "
                                  "still=conv2d(2, 3), flatten, fc=linear(2)",
                                  shape, 3, &options);
    model_set_weights(model);
    return model;
}

static stk_status pass(stk_model *model, stk_error *err)
{
    float *x = make_data(ROWS * 2 * 6 * 6, 1);
    int64_t *labels = make_labels(ROWS, 2, 1);

    model_forward(model, ROWS, x, labels, true);
    const stk_status status = stk_model_backward(model, 1, err);
    free(x);
    free(labels);
    return status;
}

/* Two passes, of which the second adds: each tells of all that learn, as they stay. */
static void test_all_are_told(void **state)
{
    stk_context *ctx = test_context();
    stk_model *model = make(ctx);
    stk_state_tensor tensor, gradient;
    told all;
    stk_error err;

    stk__model_tell_gradients(model, take, &all);
    for (int i = 0; i < 2; i++) {
        all = (told){0};
        assert_ok(pass(model, &err), &err);
        size_t left = all.n, learn = 0;
        for (size_t k = 0; stk_model_get_state(model, k, &tensor, NULL) == STK_OK; k++) {
            if (!model_gradient(model, k, &gradient))
                continue;
            learn++;
            assert_true(left-- > 0);
            assert_string_equal(all.tensors[left].name, gradient.name);
            assert_ptr_equal(all.tensors[left].data, gradient.data);
            assert_int_equal(all.tensors[left].bytes, gradient.bytes);
            assert_memory_equal(all.copies[left], gradient.data, gradient.bytes);
        }
        assert_int_equal(left, 0);
        assert_int_equal(learn, 10);
    }
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

static void test_a_failure_ends_the_pass(void **state)
{
    stk_context *ctx = test_context();
    stk_model *model = make(ctx);
    told all = {.fail_at = 3};
    stk_error err;

    stk_error_init(&err);
    stk__model_tell_gradients(model, take, &all);
    assert_fails(pass(model, &err), STK_EIO, &err, "no more gradients");
    assert_int_equal(all.n, 2);
    stk__model_tell_gradients(model, NULL, NULL);
    assert_ok(pass(model, &err), &err);
    assert_int_equal(all.n, 2);
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Calls of both kinds, in their order. */
typedef struct calls {
    size_t n;
    char names[64][40];
} calls;

static stk_status call_took(void *user, const stk_state_tensor *gradient, stk_error *err)
{
    calls *c = user;

    assert_true(c->n < STK_COUNT(c->names));
    snprintf(c->names[c->n++], sizeof c->names[0], "told %s", gradient->name);
    return STK_OK;
}

static stk_status call_wants(void *user, const stk_state_tensor *parameters, size_t n,
                             stk_error *err)
{
    calls *c = user;

    assert_int_equal(n, 2); /* weight and bias */
    assert_true(c->n < STK_COUNT(c->names));
    snprintf(c->names[c->n++], sizeof c->names[0], "asks %s", parameters[0].name);
    return STK_OK;
}

/* Layers that learn are asked for on the way there and on the way back, before their gradients; a
 * process without rows makes the same calls. */
static void test_parameters_are_asked_for(void **state)
{
    static const char *const wanted[] = {
        "asks a.weight",  "asks n.weight", "asks b.weight",  "asks m.weight", "asks fc.weight",
        "asks fc.weight", "told fc.bias",  "told fc.weight", "asks m.weight", "told m.bias",
        "told m.weight",  "asks b.weight", "told b.bias",    "told b.weight", "asks n.weight",
        "told n.bias",    "told n.weight", "asks a.weight",  "told a.bias",   "told a.weight"};
    stk_context *ctx = test_context();
    stk_model *model = make(ctx);
    calls made[2] = {0};
    stk_error err;

    for (int i = 0; i < 2; i++) {
        stk__model_tell_gradients(model, call_took, &made[i]);
        stk__model_ask_parameters(model, call_wants, &made[i]);
        if (i == 0) {
            assert_ok(pass(model, &err), &err);
        } else {
            assert_ok(stk__model_idle(model, false, &err), &err);
            assert_ok(stk__model_idle(model, true, &err), &err);
        }
        assert_int_equal(made[i].n, STK_COUNT(wanted));
        for (size_t k = 0; k < STK_COUNT(wanted); k++)
            assert_string_equal(made[i].names[k], wanted[k]);
    }
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_are_told),
                                       cmocka_unit_test(test_a_failure_ends_the_pass),
                                       cmocka_unit_test(test_parameters_are_asked_for)};

    return cmocka_run_group_tests_name("nn/told_gradients", tests, NULL, NULL);
}
