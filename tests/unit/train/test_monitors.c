/* SPDX-License-Identifier: Apache-2.0 */
/* A monitored metric that nothing logs is refused before the first step, with the names that there
 * are; and those are the names that a training logs. */
#include "unit/recipe/recipes.h"
#include "unit/train/said.h"

static stk_callback watcher;
static uint64_t batches_begun;
static bool outsider_logs;

static stk_status watcher_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err)
{
    *out = &watcher;
    return STK_OK;
}

static void watcher_destroy(stk_callback *callback)
{
}

static stk_status count_batch(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    batches_begun++;
    return STK_OK;
}

static stk_status count_and_log(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                stk_error *err)
{
    batches_begun++;
    return outsider_logs ? stk_trainer_log(t, "own", 1, 0, 0, err) : STK_OK;
}

/* Counts batches, and logs nothing. */
static const stk_callback_ops counter_ops = {.struct_size = sizeof counter_ops,
                                             .name = "counter",
                                             .create = watcher_create,
                                             .destroy = watcher_destroy,
                                             .on_train_batch_start = count_batch,
                                             .on_sanity_check_start = count_batch,
                                             .roles = STK_ROLE_NO_METRICS};

/* Does not say what it logs. */
static const stk_callback_ops outsider_ops = {.struct_size = sizeof outsider_ops,
                                              .name = "outsider",
                                              .create = watcher_create,
                                              .destroy = watcher_destroy,
                                              .on_train_batch_start = count_and_log};

/* Fit with settings "key", "text", ..., NULL after `m` was loaded; `loaders` of the
 * validation data, where there are some. */
static stk_status fit(made *m, const stk_callback_ops *ops, const char *const settings[][2],
                      uint32_t loaders)
{
    for (size_t i = 0; settings && settings[i][0]; i++)
        made_set(m, settings[i][0], settings[i][1]);
    assert_ok(made_create(m, NULL), &m->err);
    watcher = (stk_callback){ops, m->ctx};
    batches_begun = 0;
    assert_ok(stk_trainer_add_callback(m->parts.trainer, ops, NULL, NULL, &m->err), &m->err);
    stk_trainer_data data = *m->parts.data;
    const stk_loader_source val[2] = {data.num_val ? data.val[0] : (stk_loader_source){0},
                                      data.num_val ? data.val[0] : (stk_loader_source){0}};
    data.val = val;
    data.num_val = STK_MIN(data.num_val, 1u) * loaders;
    return stk_trainer_fit(m->parts.trainer, m->parts.module, &data, NULL, &m->err);
}

static void refused(stk_context *ctx, const char *const settings[][2], const char *words)
{
    made m;

    made_load(&m, ctx, DIGITS);
    assert_fails(fit(&m, &counter_ops, settings, 1), STK_EINVAL, &m.err, words);
    assert_int_equal(batches_begun, 0);
    made_release(&m);
}

#define SETTINGS(...)                                                                              \
    (const char *const[][2])                                                                       \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            NULL                                                                                   \
        }                                                                                          \
    }

static void test_refused(void **state)
{
    refused(*state, SETTINGS({"callbacks", "early_stopping(monitor=val_los)"}),
            "early_stopping.monitor: nothing logs a metric 'val_los'; did you mean 'val_loss'? "
            "(there are: train_loss, train_acc, val_loss, val_acc)");
    refused(*state,
            SETTINGS({"callbacks", "model_checkpoint(monitor=nope)"},
                     {"trainer.enable_checkpointing", "auto"}),
            "model_checkpoint.monitor: nothing logs a metric 'nope' (there are: train_loss, ");
    refused(*state,
            SETTINGS({"lr_scheduler.name", "reduce_on_plateau"}, {"module.monitor", "val_f"}),
            "module.monitor: nothing logs a metric 'val_f'");
    refused(*state, SETTINGS({"callbacks", "spike_detection(monitor=val_loss)"}),
            "nothing logs a metric 'val_loss' after each batch (there are: train_loss)");
    refused(*state, SETTINGS({"callbacks", "spike_detection(monitor=train_acc)"}),
            "nothing logs a metric 'train_acc' after each batch");
    refused(*state, SETTINGS({"callbacks", "early_stopping(monitor=test_loss)"}),
            "nothing logs a metric 'test_loss'");
    refused(
        *state,
        SETTINGS({"callbacks", "early_stopping(monitor=val_loss)"}, {"trainer.barebones", "true"}),
        "(there are: none), as trainer.barebones says");
    /* The nearest is said however many there are. */
    static const char *const many[] = {"'train/device/mf'; did you mean", ", ...)"};
    for (size_t i = 0; i < STK_COUNT(many); i++)
        refused(*state,
                SETTINGS({"callbacks", "early_stopping(monitor=train/device/mf), "
                                       "throughput, device_stats, lr_monitor"},
                         {"trainer.logger", "csv"}),
                many[i]);
    /* However short the run is. */
    refused(*state,
            SETTINGS({"callbacks", "early_stopping(monitor=nope)"}, {"trainer.max_epochs", "0"}),
            "nothing logs a metric 'nope'");
    refused(*state,
            SETTINGS({"callbacks", "early_stopping(monitor=nope)"}, {"trainer.fast_dev_run", "1"}),
            "nothing logs a metric 'nope'");
}

static void test_no_validation_data(void **state)
{
    refused(*state,
            SETTINGS({"callbacks", "early_stopping(monitor=val_loss)"}, {"data.val_split", "0"}),
            "early_stopping.monitor: 'val_loss' is of validation, and there are no validation "
            "data: give some (data.val or data.val_split), or monitor what training logs: "
            "train_loss, train_acc");
    refused(*state, SETTINGS({"lr_scheduler.name", "reduce_on_plateau"}, {"data.val_split", "0"}),
            "module.monitor: 'val_loss' is of validation");
}

static void accepted(stk_context *ctx, const char *const settings[][2])
{
    made m;

    made_load(&m, ctx, DIGITS);
    assert_ok(fit(&m, &counter_ops, settings, 1), &m.err);
    made_release(&m);
}

static void test_accepted(void **state)
{
    accepted(*state, SETTINGS({"callbacks", "early_stopping(monitor=val_acc, mode=max), "
                                            "spike_detection"}));
    accepted(*state, SETTINGS({"callbacks", "early_stopping(monitor=nope, strict=false)"}));
    /* It keeps nothing, so it compares nothing. */
    accepted(*state, SETTINGS({"callbacks", "model_checkpoint(monitor=nope, save_top_k=0)"},
                              {"trainer.enable_checkpointing", "auto"},
                              {"trainer.default_root_dir", "monitors_kept"}));
    /* It would be logged, and is not in a run without its batches. */
    accepted(*state, SETTINGS({"callbacks", "model_checkpoint(monitor=val_loss)"},
                              {"trainer.enable_checkpointing", "auto"},
                              {"trainer.default_root_dir", "monitors_kept"},
                              {"trainer.limit_val_batches", "0"}));
    accepted(*state, SETTINGS({"callbacks", "throughput, early_stopping(monitor=train/samples)"},
                              {"trainer.log_every_n_steps", "1"}));
    accepted(*state, SETTINGS({"callbacks", "lr_monitor, early_stopping(monitor=lr-Adam)"},
                              {"trainer.log_every_n_steps", "1"}, {"trainer.logger", "csv"},
                              {"trainer.default_root_dir", "monitors_kept"}));
    test_folder_remove("monitors_kept");
}

/* What an outsider may log is not known: it fails where it is looked at, or is there. */
static void test_outsider(void **state)
{
    const char *const settings[][2] = {{"callbacks", "early_stopping(monitor=own)"}, {NULL}};
    made m;

    for (int logs = 0; logs < 2; logs++) {
        made_load(&m, *state, DIGITS);
        outsider_logs = logs;
        const stk_status status = fit(&m, &outsider_ops, settings, 1);
        if (logs)
            assert_ok(status, &m.err);
        else
            assert_fails(status, STK_EINVAL, &m.err, "Early stopping conditioned on metric `own`");
        assert_true(batches_begun >= 4);
        made_release(&m);
    }
}

/* The names of an error, as the metrics of a trainer are: "a, b". */
static void names_of(const stk_error *err, char text[600])
{
    const char *from = strstr(err->text, "(there are: ");

    assert_non_null(from);
    snprintf(text, 600, "%.*s", (int)strcspn(from + 12, ")"), from + 12);
}

static bool has_word(const char *list, const char *word)
{
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && strchr(",", at[strlen(word)]))
            return true;
    return false;
}

/* Each name that a fit logs is one that is offered, and each that is offered is logged. */
static void test_names(void **state)
{
    static const char *const cases[][4][2] = {
        {{"module.metrics", "none"}},
        {{"module.metrics", "accuracy, f1, f1_micro, confusion_matrix"}, {"model.top_k", "3"}},
        {{"module.metrics", "f1"}},
        {{"module.metrics", "accuracy"},
         {"trainer.log_every_n_steps", "1"},
         {"callbacks", "throughput(available_flops=1e12)"}},
    };

    for (uint32_t i = 0; i < 2 * STK_COUNT(cases); i++) {
        const char *const(*settings)[2] = cases[i / 2];
        const char *wrong[5][2] = {0};
        char offered[600], callbacks[100], logged[600] = "";
        stk_metric metric;
        made m;

        memcpy(wrong, settings, sizeof cases[0]);
        snprintf(callbacks, sizeof callbacks, "%s%searly_stopping(monitor=nope)",
                 wrong[2][0] ? wrong[2][1] : "", wrong[2][0] ? ", " : "");
        wrong[3][0] = "callbacks";
        wrong[3][1] = callbacks;
        made_load(&m, *state, DIGITS);
        for (int k = 0; k < 4; k++)
            if (wrong[k][0])
                made_set(&m, wrong[k][0], wrong[k][1]);
        assert_fails(fit(&m, &counter_ops, NULL, i % 2 + 1), STK_EINVAL, &m.err, "nope");
        names_of(&m.err, offered);
        made_release(&m);

        made_load(&m, *state, DIGITS);
        assert_ok(fit(&m, &counter_ops, settings, i % 2 + 1), &m.err);
        size_t used = 0;
        for (size_t k = 0; stk_trainer_metric_at(m.parts.trainer, k, &metric); k++) {
            if (!has_word(offered, metric.name))
                fail_msg("case %u: '%s' is none of '%s'", i, metric.name, offered);
            used += (size_t)snprintf(logged + used, sizeof logged - used, "%s%s", k ? ", " : "",
                                     metric.name);
        }
        if (used != strlen(offered))
            fail_msg("case %u: '%s' is not '%s'", i, logged, offered);
        made_release(&m);
    }
}

/* ---- Going on with another monitor ----------------------------------------------------------- */

static char warned[4096];

static void keep_warning(void *user, stk_message_level level, const char *message)
{
    const size_t used = strlen(warned);

    if (level == STK_MESSAGE_WARNING)
        snprintf(warned + used, sizeof warned - used, "%s\n", message);
}

/* Train up to epoch `max_epochs`, in a folder, from a checkpoint or anew. */
static stk_status go_on(stk_context *ctx, const char *folder, const char *from,
                        const char *max_epochs, const char *const settings[][2], stk_error *err)
{
    made m;

    made_load(&m, ctx, DIGITS);
    made_set(&m, "trainer.enable_checkpointing", "auto");
    made_set(&m, "trainer.default_root_dir", folder);
    made_set(&m, "trainer.max_epochs", max_epochs);
    for (size_t i = 0; settings[i][0]; i++)
        made_set(&m, settings[i][0], settings[i][1]);
    assert_ok(made_create(&m, NULL), &m.err);
    *warned = 0;
    const stk_status status =
        stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, from, &m.err);
    *err = m.err;
    made_release(&m);
    return status;
}

static void test_another_monitor(void **state)
{
    static const char one[] = "early_stopping(monitor=val_loss), spike_detection, "
                              "model_checkpoint(save_last=true)";
    static const char other[] = "early_stopping(monitor=val_acc, mode=max), "
                                "spike_detection(monitor=train_loss, mode=max), "
                                "model_checkpoint(save_last=true)";
    static const char best[] = "model_checkpoint(monitor=val_loss)";
    stk_context_options c;
    stk_context *ctx;
    stk_error err;
    char folder[256], last[320];

    stk_context_options_init(&c);
    c.on_message = keep_warning;
    assert_int_equal(stk_context_create(&c, &ctx, &err), STK_OK);
    test_folder(folder);
    snprintf(last, sizeof last, "%s/checkpoints/last.safetensors", folder);
    assert_ok(go_on(ctx, folder, NULL, "1", SETTINGS({"callbacks", one}), &err), &err);
    assert_ok(go_on(ctx, folder, last, "2", SETTINGS({"callbacks", one}), &err), &err);
    assert_null(strstr(warned, "holds the state"));
    assert_ok(go_on(ctx, folder, last, "3", SETTINGS({"callbacks", other}), &err), &err);
    assert_non_null(strstr(warned, "the checkpoint holds the state of the callback "
                                   "early_stopping(monitor=val_loss,mode=min), which this run does "
                                   "not have: what monitors another metric begins anew\n"));
    assert_non_null(strstr(warned, "spike_detection(monitor=train_loss,mode=min), which"));
    assert_null(strstr(warned, "model_checkpoint("));
    test_folder_remove(folder);
    /* What compares nothing begins nothing anew, whenever it saves. */
    test_folder(folder);
    assert_ok(go_on(ctx, folder, NULL, "1", SETTINGS({"callbacks", "model_checkpoint"}), &err),
              &err);
    assert_ok(go_on(ctx, folder, "last", "2",
                    SETTINGS({"callbacks", "model_checkpoint(every_n_train_steps=2)"}), &err),
              &err);
    assert_null(strstr(warned, "holds the state"));
    test_folder_remove(folder);
    /* Means that nobody has any more. */
    test_folder(folder);
    assert_ok(go_on(ctx, folder, NULL, "1", SETTINGS({"callbacks", "ema(0.9)"}), &err), &err);
    assert_ok(go_on(ctx, folder, "last", "2", SETTINGS({"callbacks", "ema(0.9)"}), &err), &err);
    assert_null(strstr(warned, "holds tensors"));
    assert_ok(go_on(ctx, folder, "last", "3", SETTINGS({"callbacks", "model_checkpoint"}), &err),
              &err);
    assert_non_null(strstr(warned, "the checkpoint holds tensors of the callback ema, which"));
    test_folder_remove(folder);
    /* The best of a run that this one is not beside. */
    test_folder(folder);
    assert_ok(go_on(ctx, folder, NULL, "1",
                    SETTINGS({"trainer.logger", "csv"}, {"callbacks", best}), &err),
              &err);
    assert_ok(go_on(ctx, folder, "last", "2",
                    SETTINGS({"trainer.logger", "csv"}, {"callbacks", best}), &err),
              &err);
    assert_null(strstr(warned, "the best checkpoint so far"));
    assert_ok(go_on(ctx, folder, "last", "3",
                    SETTINGS({"trainer.logger", "false"}, {"callbacks", best}), &err),
              &err);
    assert_non_null(strstr(warned, "the best checkpoint so far, '"));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

#define PLATEAU                                                                                    \
    {"callbacks", "model_checkpoint(save_last=true)"},                                             \
    {                                                                                              \
        "lr_scheduler.name", "reduce_on_plateau"                                                   \
    }

/* The best of a plateau is of one metric, and of one direction. */
static void test_plateau_of_another_metric(void **state)
{
    char folder[256], last[320];
    stk_error err;

    test_folder(folder);
    snprintf(last, sizeof last, "%s/checkpoints/last.safetensors", folder);
    assert_ok(go_on(*state, folder, NULL, "1", SETTINGS(PLATEAU), &err), &err);
    assert_ok(go_on(*state, folder, last, "2", SETTINGS(PLATEAU), &err), &err);
    assert_fails(
        go_on(*state, folder, last, "3", SETTINGS(PLATEAU, {"module.monitor", "val_acc"}), &err),
        STK_EMISMATCH, &err,
        "module.monitor: reduce_on_plateau compares 'val_acc' (min) here, and 'val_loss' (min) in "
        "the checkpoint");
    assert_fails(
        go_on(*state, folder, last, "3", SETTINGS(PLATEAU, {"lr_scheduler.mode", "max"}), &err),
        STK_EMISMATCH, &err, "compares 'val_loss' (max) here");
    /* Another schedule compares nothing. */
    assert_ok(go_on(*state, folder, last, "3",
                    SETTINGS({"callbacks", "model_checkpoint(save_last=true)"},
                             {"lr_scheduler.name", "step"}),
                    &err),
              &err);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_no_validation_data, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_accepted, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_outsider, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_names, test_context_open, test_context_close),
        cmocka_unit_test(test_another_monitor),
        cmocka_unit_test_setup_teardown(test_plateau_of_another_metric, test_context_open,
                                        test_context_close),
    };

    return cmocka_run_group_tests_name("train/monitors", tests, NULL, NULL);
}
