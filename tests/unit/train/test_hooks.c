/* SPDX-License-Identifier: Apache-2.0 */
/* The order of all hooks, held against Lightning's own specification of it
 * (tests_pytorch/models/test_hooks.py). */
#include "unit/train/recorder.h"
#include "unit/train/tiny.h"

#define RECORD_MODULE(name)                                                                        \
    static stk_status module_##name(stk_module *self, stk_trainer *t, const stk_moment *at,        \
                                    stk_error *err)                                                \
    {                                                                                              \
        note("", #name);                                                                           \
        return STK_OK;                                                                             \
    }
STK_HOOK_LIST(RECORD_MODULE)
STK_MODULE_HOOK_LIST(RECORD_MODULE)

/* ---- The module's steps, recorded ------------------------------------------------------------ */

static stk_status training_step(stk_module *self, stk_trainer *t, const stk_moment *at,
                                stk_loss *loss, stk_error *err)
{
    note("", "training_step");
    return tiny_training_step(self, t, at, loss, err);
}

static stk_status backward(stk_module *self, const stk_loss *loss, double scale, stk_error *err)
{
    note("", "backward");
    return tiny_backward(self, loss, scale, err);
}

static stk_status optimizer_step(stk_module *self, const stk_moment *at, stk_error *err)
{
    note("", "optimizer_step");
    return tiny_optimizer_step(self, at, err);
}

static stk_status optimizer_zero_grad(stk_module *self, const stk_moment *at, stk_error *err)
{
    note("", "optimizer_zero_grad");
    return tiny_zero_grad(self, at, err);
}

static stk_status clip_gradients(stk_module *self, double value, stk_clip algorithm, stk_error *err)
{
    note("", "clip_gradients");
    return STK_OK;
}

static stk_status validation_step(stk_module *self, stk_trainer *t, const stk_moment *at,
                                  stk_error *err)
{
    note("", "validation_step");
    return tiny_validation_step(self, t, at, err);
}

static stk_status test_step(stk_module *self, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    note("", "test_step");
    return tiny_test_step(self, t, at, err);
}

static stk_status predict_step(stk_module *self, stk_trainer *t, const stk_moment *at,
                               stk_tensor *prediction, stk_error *err)
{
    note("", "predict_step");
    return tiny_predict_step(self, t, at, prediction, err);
}

static stk_status configure_optimizers(stk_module *self, stk_trainer *t, stk_optimizers *out,
                                       stk_error *err)
{
    note("", "configure_optimizers");
    return tiny_configure_optimizers(self, t, out, err);
}

static stk_status lr_scheduler_step(stk_module *self, uint32_t which, const double *metric,
                                    stk_error *err)
{
    note("", "lr_scheduler_step");
    return tiny_lr_scheduler_step(self, which, metric, err);
}

static void train(stk_module *self, bool mode)
{
    if (!mode)
        note("", "train(False)");
}

static void recorded(tiny *m)
{
    tiny_init(m);
    m->ops.training_step = training_step;
    m->ops.backward = backward;
    m->ops.optimizer_step = optimizer_step;
    m->ops.optimizer_zero_grad = optimizer_zero_grad;
    m->ops.clip_gradients = clip_gradients;
    m->ops.validation_step = validation_step;
    m->ops.test_step = test_step;
    m->ops.predict_step = predict_step;
    m->ops.configure_optimizers = configure_optimizers;
    m->ops.lr_scheduler_step = lr_scheduler_step;
    m->ops.train = train;
    m->num_schedulers = 1;
#define MODULE_MEMBER(name) m->ops.name = module_##name;
    STK_HOOK_LIST(MODULE_MEMBER)
    STK_MODULE_HOOK_LIST(MODULE_MEMBER)
}

static void add_recorder(bench *b, stk_trainer *t, void *user)
{
    assert_ok(stk_trainer_add_callback(t, &record_ops, NULL, NULL, &b->err), &b->err);
}

/* ---- What is expected ------------------------------------------------------------------------ */

/* clang-format off: a line for each part of the order. */
#define BOTH(name) "Callback." name "\n" name "\n"
#define TRANSFER                                                                                   \
    "on_before_batch_transfer\n"                                                                   \
    "transfer_batch_to_device\n"                                                                   \
    "on_after_batch_transfer\n"
#define FORWARD                TRANSFER BOTH("on_train_batch_start") "training_step\n"
#define ZERO_GRAD              BOTH("on_before_zero_grad") "optimizer_zero_grad\n"
#define BACKWARD               BOTH("on_before_backward") "backward\n" BOTH("on_after_backward")
#define STEP                   BOTH("on_before_optimizer_step") "clip_gradients\noptimizer_step\n"
#define TRAIN_BATCH(scheduler) FORWARD ZERO_GRAD BACKWARD STEP scheduler BOTH("on_train_batch_end")
#define EVAL_BATCH(what)                                                                           \
    TRANSFER BOTH("on_" what "_batch_start") what "_step\n" BOTH("on_" what "_batch_end")
#define EVAL_LOOP(what)                                                                            \
    "train(False)\n"                                                                               \
    "on_" what "_model_eval\n" BOTH("on_" what "_start") BOTH("on_" what "_epoch_start")           \
        EVAL_BATCH(what) EVAL_BATCH(what) BOTH("on_" what "_epoch_end")                            \
            BOTH("on_" what "_end") "on_" what "_model_train\n"
#define SAVE  "Callback.state_dict\n" BOTH("on_save_checkpoint")
#define BEGIN "configure_callbacks\nprepare_data\n" BOTH("setup") "configure_model\n"
#define END   BOTH("on_train_end") BOTH("on_fit_end") BOTH("teardown")

static const char order_of_fit[] = BEGIN "configure_optimizers\n" BOTH(
    "on_fit_start") "zero_grad\n"
                    "Callback.on_sanity_check_start\n"
                    "val_dataloader\n" EVAL_LOOP(
                        "validation") "Callback.on_sanity_check_end\n"
                                      "train_dataloader\n" BOTH("on_train_start")
                                          BOTH("on_train_epoch_start") TRAIN_BATCH("") TRAIN_BATCH(
                                              "lr_scheduler_step\n") "zero_grad\n"
                                                                     "on_validation_model_zero_"
                                                                     "grad\n" EVAL_LOOP(
                                                                         "validation")
                                                                         BOTH("on_train_epoch_end")
                                                                             SAVE END;

static const char order_of_resume[] = BEGIN
    "on_load_checkpoint\n"
    "Callback.on_load_checkpoint\n"
    "Callback.load_state_dict\n"
    "configure_optimizers\n" BOTH("on_fit_start") "zero_grad\n"
                                                  "train_dataloader\n" BOTH("on_train_start")
                                                      BOTH("on_train_epoch_start") TRAIN_BATCH("")
                                                          TRAIN_BATCH("lr_scheduler_step\n")
                                                              BOTH("on_train_epoch_end") SAVE END;

/* The first batch of a window of two makes no step; the second zeroes nothing. */
static const char within_a_window[] =
    "training_step\n" ZERO_GRAD BACKWARD BOTH("on_train_batch_end");

static const char end_of_a_window[] = "training_step\n" BACKWARD BOTH(
    "on_before_optimizer_step") "optimizer_step\n"
                                "lr_scheduler_step\n" BOTH("on_train_batch_end");
/* clang-format on */

static void of_fit(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    recorded(&m);
    *calls = 0;
    b.options.limit_train_batches = b.options.limit_val_batches = "2";
    b.options.gradient_clip_val = 1; /* without it nobody is asked to clip */
    b.options.num_sanity_val_steps = 2;
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.prepare = add_recorder;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_string_equal(calls, order_of_fit);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void of_resume(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char path[400];

    bench_open(&b);
    recorded(&m);
    b.options.limit_train_batches = "2";
    b.options.limit_val_batches = "0";
    b.options.gradient_clip_val = 1;
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.prepare = add_recorder;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    snprintf(path, sizeof path, "%s", stk_trainer_best_model_path(t));
    stk_trainer_destroy(&t);
    recorded(&m);
    *calls = 0;
    b.options.max_epochs = 2;
    assert_ok(bench_fit(&b, &m, path, &t), &b.err);
    assert_string_equal(calls, order_of_resume);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void of_other_tasks(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    recorded(&m);
    b.options.limit_val_batches = b.options.limit_test_batches = b.options.limit_predict_batches =
        "2";
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add_recorder(&b, t, NULL);
    *calls = 0;
    assert_ok(stk_trainer_validate(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_string_equal(calls, BEGIN "val_dataloader\n" EVAL_LOOP("validation") BOTH("teardown"));
    *calls = 0;
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_string_equal(calls, BEGIN "test_dataloader\n" EVAL_LOOP("test") BOTH("teardown"));
    *calls = 0;
    assert_ok(stk_trainer_predict(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_string_equal(calls, BEGIN "predict_dataloader\n" EVAL_LOOP("predict") BOTH("teardown"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void of_accumulation(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    recorded(&m);
    *calls = 0;
    b.options.limit_train_batches = "2";
    b.options.accumulate_grad_batches = 2;
    b.prepare = add_recorder;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_non_null(strstr(calls, within_a_window));
    assert_non_null(strstr(calls, end_of_a_window));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void of_a_failure(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    recorded(&m);
    *calls = 0;
    m.fail_at = 2;
    b.prepare = add_recorder;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EIO, &b.err, "on purpose");
    const char *last = strstr(calls, "Callback.on_exception\n");
    assert_non_null(last);
    assert_string_equal(last, "Callback.on_exception\n");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* The rest of an epoch is skipped where the module says so. */
static stk_status skip_third(stk_module *module, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    return at->batch_idx == 2 ? STK_EOS : STK_OK;
}

static void skipping_an_epoch(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    b.options.max_epochs = 2;
    m.ops.on_train_batch_start = skip_third;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.train_steps, 4);
    assert_int_equal(stk_trainer_current_epoch(t), 2);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* A caller built against an older header has fewer hooks: those it lacks are none. */
static void an_older_table(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    recorded(&m);
    *calls = 0;
    m.ops.struct_size = offsetof(stk_module_ops, setup);
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.train_steps, 10);
    assert_null(strstr(calls, "on_train"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* A profiler is told of every action, well nested. */
static char open_actions[64][200];
static int depth, most_depth, batches, steps;

static void start_action(void *user, const char *owner, const char *what)
{
    snprintf(open_actions[depth++], sizeof open_actions[0], "%s.%s", owner, what);
    most_depth = depth > most_depth ? depth : most_depth;
    batches += strcmp(what, "run_training_batch") == 0;
    steps +=
        strcmp(what, "training_step") == 0 && strcmp(owner, "[Strategy]SingleDeviceStrategy") == 0;
}

static void stop_action(void *user, const char *owner, const char *what)
{
    char name[200];

    snprintf(name, sizeof name, "%s.%s", owner, what);
    assert_true(depth > 0);
    assert_string_equal(open_actions[--depth], name);
}

static void profiled(void **state)
{
    const stk_profiler profiler = {
        .struct_size = sizeof profiler, .start = start_action, .stop = stop_action};
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    recorded(&m);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    stk_trainer_set_profiler(t, &profiler);
    add_recorder(&b, t, NULL);
    for (int k = 0; k < 2; k++) {
        depth = batches = steps = most_depth = 0;
        m.fail_at = k ? m.train_steps + 4 : 0;
        assert_int_equal(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), k ? STK_EIO : STK_OK);
        assert_int_equal(depth, 0);
        assert_int_equal(batches, k ? 4 : 10);
        assert_int_equal(steps, k ? 4 : 10);
        assert_true(most_depth >= 3);
    }
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_fit),         cmocka_unit_test(of_resume),
        cmocka_unit_test(of_other_tasks), cmocka_unit_test(of_accumulation),
        cmocka_unit_test(of_a_failure),   cmocka_unit_test(skipping_an_epoch),
        cmocka_unit_test(an_older_table), cmocka_unit_test(profiled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
