/* SPDX-License-Identifier: Apache-2.0 */
/* Options that contradict each other, do not exist here or do nothing are refused by name. */
#include "base/options.h"
#include "unit/train/tiny.h"

static void defaults(void **state)
{
    stk_trainer_options o;
    stk_error err;

    assert_ok(stk__options_check(stk_option_table_find("trainer"), &err), &err);
    assert_ok(stk__options_check(stk_option_table_find("module"), &err), &err);
    for (size_t i = 0; ((const stk_callback_ops *)stk_driver_at(NULL, STK_DRIVER_CALLBACK, i));
         i++) {
        assert_non_null(
            ((const stk_callback_ops *)stk_driver_at(NULL, STK_DRIVER_CALLBACK, i))->options);
        assert_ok(
            stk__options_check(
                ((const stk_callback_ops *)stk_driver_at(NULL, STK_DRIVER_CALLBACK, i))->options,
                &err),
            &err);
    }
    assert_non_null(((const stk_logger_ops *)stk_driver_at(NULL, STK_DRIVER_LOGGER, 3)));
    assert_null(((const stk_logger_ops *)stk_driver_at(NULL, STK_DRIVER_LOGGER, 4)));
    stk_trainer_options_init(&o);
    assert_string_equal(o.limit_train_batches, "1.0");
    assert_int_equal(o.max_steps, -1);
    assert_int_equal(o.log_every_n_steps, 50);
    assert_int_equal(o.num_sanity_val_steps, 2);
    assert_int_equal(o.accumulate_grad_batches, 1);
    stk__settings s;
    assert_ok(stk__settings_make(NULL, &o, &s, &err), &err);
    assert_int_equal(s.max_epochs, 1000);
    o.max_steps = 5;
    assert_ok(stk__settings_make(NULL, &o, &s, &err), &err);
    assert_int_equal(s.max_epochs, -1);
    assert_true(s.checkpointing && s.progress_bar && s.model_summary && s.logging);
    o.barebones = true;
    assert_ok(stk__settings_make(NULL, &o, &s, &err), &err);
    assert_false(s.checkpointing || s.progress_bar || s.model_summary || s.logging);
    assert_int_equal(s.num_sanity_val_steps, 0);
}

static void refused(void **state)
{
    static const struct {
        const char *settings[3][2];
        stk_status status;
        const char *part;
    } cases[] = {
        {{{"accelerator", "tpu"}}, STK_ENOTSUP, "this build has cpu"},
        {{{"accelerator", "hpu"}}, STK_ENOTSUP, "this build has cpu"},
        {{{"accelerator", "mps"}}, STK_ENOTSUP, "this build has cpu"},
        {{{"accelerator", "gpu"}}, STK_ENOTSUP, "this build has cpu"},
        {{{"strategy", "dpd"}}, STK_ENOTSUP, "did you mean 'ddp'"},
        {{{"devices", "2"}}, STK_ENOTSUP, "the cpu is 1 device"},
        {{{"num_nodes", "2"}}, STK_ENOTSUP, "num_nodes"},
        {{{"precision", "16-mixed"}}, STK_ENOTSUP, "bf16-mixed"},
        {{{"precision", "16"}}, STK_ENOTSUP, "bf16-mixed"},
        {{{"precision", "8-true"}}, STK_ENOTSUP, "32-true"},
        {{{"sync_batchnorm", "true"}, {"strategy", "single_device"}}, STK_EINVAL, "no effect"},
        {{{"use_distributed_sampler", "false"}}, STK_EINVAL, "every rank takes its own part"},
        {{{"gradient_clip_algorithm", "value"}}, STK_EINVAL, "gradient_clip_val"},
        {{{"min_epochs", "3"}, {"max_epochs", "2"}}, STK_EINVAL, "min_epochs"},
        {{{"min_steps", "3"}, {"max_steps", "2"}}, STK_EINVAL, "min_steps"},
        {{{"limit_train_batches", "1.5"}}, STK_EINVAL, "between 0.0 and 1.0"},
        {{{"limit_val_batches", "-1"}}, STK_EINVAL, "limit_val_batches"},
        {{{"limit_test_batches", "many"}}, STK_EINVAL, "limit_test_batches"},
        {{{"limit_predict_batches", "1x"}}, STK_EINVAL, "limit_predict_batches"},
        {{{"val_check_interval", "0"}}, STK_EINVAL, "may not be 0"},
        {{{"val_check_interval", "0.5"}, {"check_val_every_n_epoch", "0"}}, STK_EINVAL, "across"},
        {{{"overfit_batches", "2"}, {"limit_train_batches", "5"}}, STK_EINVAL, "overfit_batches"},
        {{{"max_time", "12"}}, STK_EINVAL, "DD:HH:MM:SS"},
        {{{"max_time", "00:00:00:00"}}, STK_EINVAL, "may not be 0"},
        {{{"fast_dev_run", "perhaps"}}, STK_EINVAL, "fast_dev_run"},
        {{{"barebones", "true"}, {"enable_checkpointing", "true"}}, STK_EINVAL, "contradict"},
        {{{"barebones", "true"}, {"enable_progress_bar", "true"}}, STK_EINVAL, "contradict"},
        {{{"barebones", "true"}, {"enable_model_summary", "true"}}, STK_EINVAL, "contradict"},
        {{{"barebones", "true"}, {"logger", "csv"}}, STK_EINVAL, "logger"},
        {{{"barebones", "true"}, {"num_sanity_val_steps", "5"}}, STK_EINVAL, "sanity"},
        {{{"barebones", "true"}, {"fast_dev_run", "1"}}, STK_EINVAL, "fast_dev_run"},
        {{{"barebones", "true"}, {"detect_anomaly", "true"}}, STK_EINVAL, "detect_anomaly"},
    };
    stk_context *ctx = test_context();

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_option_table *table = stk_option_table_find("trainer");
        stk_trainer_options o;
        stk_trainer *t;
        stk_error err;
        stk_trainer_options_init(&o);
        for (size_t k = 0; k < 3 && cases[i].settings[k][0]; k++)
            assert_ok(
                stk_options_set(table, &o, cases[i].settings[k][0], cases[i].settings[k][1], &err),
                &err);
        assert_fails(stk_trainer_create(ctx, &o, &t, &err), cases[i].status, &err, cases[i].part);
        assert_non_null(strstr(err.text, cases[i].settings[0][0]));
        assert_null(t);
    }
    stk_context_destroy(&ctx);
}

static char warned[512];

static void keep_warning(void *user, stk_message_level level, const char *message)
{
    if (level == STK_MESSAGE_WARNING)
        snprintf(warned, sizeof warned, "%s", message);
}

/* A configuration for a machine with a GPU runs on one without. */
static void nothing_to_try(void **state)
{
    stk_context_options c;
    stk_trainer_options o;
    stk_context *ctx;
    stk_trainer *t;
    stk_error err;

    stk_context_options_init(&c);
    c.on_message = keep_warning;
    assert_int_equal(stk_context_create(&c, &ctx, &err), STK_OK);
    stk_trainer_options_init(&o);
    for (int benchmark = 0; benchmark < 2; benchmark++) {
        o.benchmark = benchmark;
        *warned = 0;
        assert_ok(stk_trainer_create(ctx, &o, &t, &err), &err);
        assert_string_equal(warned,
                            benchmark ? "trainer.benchmark: it has no effect on a cpu" : "");
        stk_trainer_destroy(&t);
    }
    stk_context_destroy(&ctx);
}

static void refused_with_a_module(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.configure = NULL;
    b.options.precision = "bf16-mixed";
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_ENOTSUP, &b.err, "no effect");
    stk_trainer_destroy(&t);
    b.options.precision = "32-true";
    b.options.deterministic = STK_DETERMINISM_STRICT;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "deterministic");
    stk_trainer_destroy(&t);
    b.options.deterministic = STK_DETERMINISM_WARN;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    stk_trainer_destroy(&t);
    b.options.deterministic = STK_DETERMINISM_NONE;
    b.options.gradient_clip_val = 1;
    m.ops.state = NULL;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "gradient_clip_val");
    stk_trainer_destroy(&t);
    b.options.gradient_clip_val = 0;
    m.ops.validation_step = NULL;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "validation_step");
    stk_trainer_destroy(&t);
    b.options.logger = "csv,paper";
    m.ops.validation_step = tiny_validation_step;
    assert_fails(stk_trainer_create(b.ctx, &b.options, &t, &b.err), STK_EINVAL, &b.err, "'paper'");
    b.options.logger = "false";
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_fails(stk_trainer_add_callback(t, &stk__callback_model_checkpoint, NULL, NULL, &b.err),
                 STK_EINVAL, &b.err, "enable_checkpointing");
    assert_fails(
        stk_trainer_add_logger(
            t, ((const stk_logger_ops *)stk_driver_at(NULL, STK_DRIVER_LOGGER, 0)), NULL, &b.err),
        STK_EINVAL, &b.err, "logger");
    stk_trainer_destroy(&t);
    b.val = (stk_loader_source){.struct_size = sizeof b.val};
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "0 of them");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(refused),
        cmocka_unit_test(nothing_to_try),
        cmocka_unit_test(refused_with_a_module),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
