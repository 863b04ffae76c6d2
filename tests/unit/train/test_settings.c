/* SPDX-License-Identifier: Apache-2.0 */
/* A run that goes on with other settings than its checkpoint was trained with names what differs,
 * once, and says nothing where all is the same. Settings of another schedule are said, too. */
#include "unit/recipe/recipes.h"

static char warned[8192];

static void keep_warning(void *user, stk_message_level level, const char *message)
{
    const size_t used = strlen(warned);

    if (level >= STK_MESSAGE_WARNING && !strstr(message, "exists and is not empty"))
        snprintf(warned + used, sizeof warned - used, "%s\n", message);
}

/* Train one more epoch with what `settings` say; what was warned of settings. */
static const char *go_on(stk_context *ctx, const char *folder, const char *settings, int epochs,
                         stk_status wanted)
{
    char text[1200];
    made m;

    snprintf(text, sizeof text,
             "trainer: {enable_checkpointing: auto, default_root_dir: %s, max_epochs: %d}\n"
             "callbacks: ['model_checkpoint(dirpath=%s, filename=end, "
             "enable_version_counter=false)']\n%s",
             folder, epochs, folder, settings);
    made_load(&m, ctx, DIGITS);
    assert_ok(stk_config_load_text(m.config, "more.yaml", text, strlen(text), &m.err), &m.err);
    assert_ok(made_create(&m, NULL), &m.err);
    snprintf(text, sizeof text, "%s/end.safetensors", folder);
    *warned = 0;
    const stk_status status = stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data,
                                              epochs > 1 ? text : NULL, &m.err);
    if (status != wanted)
        fail_msg("%s", m.err.text);
    made_release(&m);
    return warned;
}

#define WAS "what this run goes on from was trained with other settings: "

static void test_differs(void **state)
{
    static const struct {
        const char *settings, *said;
    } cases[] = {
        {"", ""},
        {"optimizer: {lr: 0.1}\nloader: {num_workers: 1}\n", ""},
        {"optimizer: {name: adamw}\n", WAS "optimizer.name was 'adam' and is 'adamw'\n"},
        {"optimizer: {beta1: 0.5}\nmodule: {interval: step}\n",
         WAS "optimizer.beta1 was '0.9' and is '0.5'; module.interval was 'epoch' and is 'step'\n"},
        {"lr_scheduler: {name: cosine}\n",
         WAS "lr_scheduler.name was 'constant' and is 'cosine'\n"},
        {"model: {label_smoothing: 0.25}\n", WAS "model.label_smoothing was '0' and is '0.25'\n"},
        {"model: {layers: [flatten, 'linear(12), gelu', linear(10)]}\n",
         WAS "model.layers, at its end, was 'relu, linear(10)' and is 'gelu, linear(10)'\n"},
    };
    stk_context_options c;
    stk_context *ctx;
    stk_error err;
    char folder[256];

    stk_context_options_init(&c);
    c.on_message = keep_warning;
    assert_int_equal(stk_context_create(&c, &ctx, &err), STK_OK);
    test_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        go_on(ctx, folder, "", 1, STK_OK);
        assert_string_equal(go_on(ctx, folder, cases[i].settings, 2, STK_OK), cases[i].said);
        /* What it was trained with last is what counts. */
        assert_string_equal(go_on(ctx, folder, cases[i].settings, 3, STK_OK), "");
    }
    /* It says why a state is not there. */
    go_on(ctx, folder, "", 1, STK_OK);
    assert_string_equal(
        go_on(ctx, folder, "optimizer: {name: sgd, momentum: 0.5}\n", 2, STK_EMISMATCH),
        WAS "optimizer.name was 'adam' and is 'sgd'; optimizer.momentum was '0' and is '0.5'\n");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* What a schedule does not look at is said; every option is known to be of all or of some. */
static void test_idle(void **state)
{
    static const char *const used[] = {
        "{name: step, step_size: 3, gamma: 0.5, warmup_steps: 2}",
        "{name: multi_step, milestones: [1, 2], gamma: 0.5}",
        "{name: one_cycle, max_lr: 0.1, total_steps: 100}",
        "{name: linear, total_iters: 4, end_factor: 0.5}",
        "{name: polynomial, total_iters: 4, power: 2}",
    };
    const stk_option_table *table = stk_option_table_find("lr_scheduler");
    stk_context_options c;
    stk_context *ctx;
    stk_error err;
    char folder[256], text[128];

    stk_context_options_init(&c);
    c.on_message = keep_warning;
    assert_int_equal(stk_context_create(&c, &ctx, &err), STK_OK);
    test_folder(folder);
    for (size_t i = 0; i < STK_COUNT(used); i++) {
        snprintf(text, sizeof text, "lr_scheduler: %s\n", used[i]);
        assert_string_equal(go_on(ctx, folder, text, 1, STK_OK), "");
    }
    for (size_t i = 1; i < table->count; i++) {
        const stk_option *o = &table->options[i];
        if (strncmp(o->name, "warmup_", 7) == 0)
            continue;
        snprintf(text, sizeof text, "lr_scheduler: {%s: '%s'}\n", o->name,
                 o->type == STK_OPTION_ENUM     ? "max"
                 : o->type == STK_OPTION_DOUBLE ? "0.7"
                                                : "7");
        go_on(ctx, folder, text, 1, STK_OK);
        snprintf(text, sizeof text, "lr_scheduler.%s has no effect: lr_scheduler.name is not ",
                 o->name);
        assert_ptr_equal(strstr(warned, text), warned);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differs),
        cmocka_unit_test(test_idle),
    };

    return cmocka_run_group_tests_name("train/settings", tests, NULL, NULL);
}
