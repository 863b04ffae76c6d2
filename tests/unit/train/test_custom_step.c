/* SPDX-License-Identifier: Apache-2.0 */
/* Example 05, whose gradients are its own: it needs nothing of nn, and hooks, accumulation and
 * resume treat it as any other module. */
#define main example_main
#include "../../../examples/05_custom_step.c"
#undef main

#include <unistd.h>

#include "support/text.h"
#include "unit/train/recorder.h"
#include "unit/train/tiny.h"

static stk_module custom = {&ops};

static void set_up(bench *b)
{
    memset(weight, 0, sizeof weight);
    memset(gradient, 0, sizeof gradient);
    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?size=48", &b->dataset, &b->err), &b->err);
    b->train.dataset = b->dataset;
    b->data.num_val = 0;
}

/* Fit it from a checkpoint or anew; the trainer's end is the test's. */
static stk_status fit(bench *b, const char *from, bool record)
{
    stk_trainer *t;

    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    if (record)
        assert_ok(stk_trainer_add_callback(t, &record_ops, NULL, NULL, &b->err), &b->err);
    const stk_status status = stk_trainer_fit(t, &custom, &b->data, from, &b->err);
    stk_trainer_destroy(&t);
    return status;
}

/* What it links with is what its text names. */
static void needs_no_layers(void **state)
{
    char *text = test_load(TESTS_DIR "/../examples/05_custom_step.c", NULL), folder[256];

    assert_non_null(text);
    assert_non_null(strstr(text, "stk_trainer_fit"));
    assert_null(strstr(text, "stk_model"));
    assert_null(strstr(text, "stk_optimizer_"));
    free(text);
    /* It logs into the folder that it runs in. */
    assert_int_equal(chdir(test_folder(folder)), 0);
    assert_int_equal(example_main(), 0);
    assert_int_equal(chdir("/"), 0);
    test_folder_remove(folder);
}

#define BEGIN "Callback.setup\nCallback.on_fit_start\nCallback.on_train_start\n"
#define EPOCH "Callback.on_train_epoch_start\n"
#define LOSS  "Callback.on_train_batch_start\n"
#define ZERO  "Callback.on_before_zero_grad\n"
#define GRADIENTS                                                                                  \
    "Callback.on_before_backward\n"                                                                \
    "Callback.on_after_backward\n"
#define STEP "Callback.on_before_optimizer_step\n"
#define DONE "Callback.on_train_batch_end\n"
#define END                                                                                        \
    "Callback.on_train_epoch_end\nCallback.on_train_end\n"                                         \
    "Callback.on_fit_end\nCallback.teardown\n"

static void hooks(void **state)
{
    bench b;

    set_up(&b);
    b.options.limit_train_batches = "3";
    *calls = 0;
    assert_ok(fit(&b, NULL, true), &b.err);
    assert_string_equal(calls, BEGIN EPOCH LOSS ZERO GRADIENTS STEP DONE LOSS ZERO GRADIENTS STEP
                                   DONE LOSS ZERO GRADIENTS STEP DONE END);
    /* A window of two, and what is left of the epoch. */
    b.options.accumulate_grad_batches = 2;
    *calls = 0;
    assert_ok(fit(&b, NULL, true), &b.err);
    assert_string_equal(calls, BEGIN EPOCH LOSS ZERO GRADIENTS DONE LOSS GRADIENTS STEP DONE LOSS
                                   ZERO GRADIENTS STEP DONE END);
    bench_close(&b);
}

/* Gradients of three batches of 4 make the step of one batch of 12. */
static void accumulation(void **state)
{
    bench b;
    float once[PIXELS];

    set_up(&b);
    b.loader.batch_size = 12;
    assert_ok(fit(&b, NULL, false), &b.err);
    memcpy(once, weight, sizeof once);
    bench_close(&b);
    set_up(&b);
    b.options.accumulate_grad_batches = 3;
    assert_ok(fit(&b, NULL, false), &b.err);
    for (int k = 0; k < PIXELS; k++)
        assert_true(fabsf(once[k] - weight[k]) < 1e-5f);
    assert_true(weight[PIXELS / 2] > 0);
    bench_close(&b);
}

/* Cut after any step, in either epoch, within a window of accumulation or not: the same bits. */
static void resume(void **state)
{
    bench b;
    float straight[PIXELS];
    char root[300];

    set_up(&b);
    b.options.max_epochs = 2;
    b.options.accumulate_grad_batches = 2;
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    snprintf(root, sizeof root, "%s/straight", b.folder);
    b.options.default_root_dir = root;
    assert_ok(fit(&b, NULL, false), &b.err);
    memcpy(straight, weight, sizeof straight);
    for (int64_t k = 1; k < 12; k++) {
        snprintf(root, sizeof root, "%s/%d", b.folder, (int)k);
        memset(weight, 0, sizeof weight);
        b.options.max_steps = k;
        assert_ok(fit(&b, NULL, false), &b.err);
        memset(weight, 77, sizeof weight);
        b.options.max_steps = -1;
        assert_ok(fit(&b, "last", false), &b.err);
        assert_memory_equal(straight, weight, sizeof weight);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_no_layers),
        cmocka_unit_test(hooks),
        cmocka_unit_test(accumulation),
        cmocka_unit_test(resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
