/* SPDX-License-Identifier: Apache-2.0 */
/* lr: auto: what is saved has the number, trains the same bits and searches no more. */
#include <stdlib.h>

#include "support/text.h"
#include "unit/recipe/recipes.h"

#define SMALL                                                                                      \
    "data: {dataset: 'digits:?size=960', val_split: 64}\n"                                         \
    "loader: {batch_size: 32, num_workers: 0, transforms: normalize(mnist)}\n"                     \
    "model: {layers: [flatten, 'linear(12), relu', linear(10)]}\n"                                 \
    "optimizer: {lr: auto}\n"                                                                      \
    "lr_scheduler: {name: one_cycle, total_steps: 84}\n"                                           \
    "module: {interval: step}\n"                                                                   \
    "callbacks: ['LearningRateFinder(num_training=60, min_lr=1e-5), model_checkpoint',\n"          \
    "            lr_monitor]\n"                                                                    \
    "trainer: {max_epochs: 2, precision: 64-true, logger: csv, seed_everything: 1,\n"              \
    "          enable_progress_bar: false, enable_model_summary: false}\n"

enum { WEIGHTS = 120 };

static stk_status fit(made *m, char said[TEST_LINES], double weights[WEIGHTS])
{
    const stk_console console = {
        .struct_size = sizeof console, .line = test_keep_line, .user = said};
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_FIT, .console = &console};
    stk_state_tensor tensor;

    *said = 0;
    STK_TRY(made_create(m, &options));
    STK_TRY(stk_trainer_fit(m->parts.trainer, m->parts.module, m->parts.data, m->parts.ckpt_path,
                            &m->err));
    assert_ok(stk_model_get_state(stk_model_module_model(m->parts.module), 2, &tensor, &m->err),
              &m->err);
    assert_int_equal(tensor.bytes, WEIGHTS * sizeof(double));
    memcpy(weights, tensor.data, tensor.bytes);
    return STK_OK;
}

/* A training of a text, or of the configuration that version `saved` has saved, in a folder. */
static void train(stk_context *ctx, const char *text, int saved, const char *folder,
                  const char *ckpt, const char *epochs, char said[TEST_LINES],
                  double weights[WEIGHTS])
{
    char path[400];
    made m;

    made_load(&m, ctx, text ? text : "");
    if (!text) {
        snprintf(path, sizeof path, "%s/lightning_logs/version_%d/config.yaml", folder, saved);
        assert_ok(stk_config_load(m.config, path, &m.err), &m.err);
    }
    made_set(&m, "trainer.default_root_dir", folder);
    made_set(&m, "trainer.max_epochs", epochs);
    if (ckpt)
        made_set(&m, "ckpt_path", ckpt);
    assert_ok(fit(&m, said, weights), &m.err);
    made_release(&m);
}

static double said_rate(const char *said)
{
    static const char line[] = "Learning rate set to ";
    const char *at = strstr(said, line);

    return at ? strtod(at + sizeof line - 1, NULL) : 0;
}

/* What version `which` has saved. */
static const char *saved_text(const char *folder, int which, char text[TEST_LINES])
{
    char path[400];

    snprintf(path, sizeof path, "%s/lightning_logs/version_%d/config.yaml", folder, which);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, TEST_LINES - 1, file)] = 0;
    fclose(file);
    return text;
}

static void test_same_bits(void **state)
{
    static double found[WEIGHTS], again[WEIGHTS], on[WEIGHTS], whole[WEIGHTS];
    static char text[TEST_LINES];
    static char said[TEST_LINES];
    const char *folder = test_folder((char[256]){0});

    train(*state, SMALL, 0, folder, NULL, "2", said, found);
    const double rate = said_rate(said);
    assert_true(rate > 1e-5 && rate < 1);
    const char *line = strstr(saved_text(folder, 0, text), "  lr: ");
    assert_non_null(line);
    assert_true(strtod(line + strlen("  lr: "), NULL) == rate);
    assert_null(strstr(text, "Finder"));
    assert_non_null(strstr(text, "model_checkpoint"));
    assert_non_null(strstr(text, "lr_monitor"));
    train(*state, NULL, 0, folder, NULL, "2", said, again);
    assert_true(said_rate(said) == 0);
    assert_memory_equal(found, again, sizeof found);
    /* It goes on with what was found, whatever a search would find now. */
    char ckpt[400];
    snprintf(ckpt, sizeof ckpt,
             "%s/lightning_logs/version_0/checkpoints/epoch=1-step=56.safetensors", folder);
    train(*state, SMALL, 0, folder, ckpt, "3", said, on);
    assert_true(said_rate(said) == 0);
    assert_non_null(strstr(saved_text(folder, 2, text), "  lr: "));
    assert_true(strtod(strstr(text, "  lr: ") + strlen("  lr: "), NULL) == rate);
    train(*state, NULL, 0, folder, NULL, "3", said, whole);
    assert_memory_equal(on, whole, sizeof on);
    test_folder_remove(folder);
}

/* Without the callback there is one all the same. */
static void test_default_finder(void **state)
{
    static double weights[WEIGHTS];
    static char text[TEST_LINES];
    static char said[TEST_LINES];
    const char *folder = test_folder((char[256]){0});
    made m;

    made_load(&m, *state, SMALL);
    made_set(&m, "callbacks", "model_checkpoint");
    made_set(&m, "trainer.default_root_dir", folder);
    assert_ok(fit(&m, said, weights), &m.err);
    made_release(&m);
    assert_true(said_rate(said) > 0);
    assert_non_null(strstr(saved_text(folder, 0, text), "callbacks: model_checkpoint\n"));
    assert_null(strstr(text, "auto"));
    test_folder_remove(folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *key, *text, *said;
    } cases[] = {
        {"optimizer.groups", "*.bias(weight_decay=0), *.weight(lr=0.1)",
         "optimizer.lr: auto: it finds one rate for all parameters, and the group '*.weight' has "
         "one of its own"},
        {"optimizer.lr", "autos", "it takes auto or a number, 0..1000000; did you mean 'auto'?"},
        {"optimizer.momentum", "auto", "optimizer.momentum: 'auto' is not allowed"},
        {"optimizer.lr", "nan", "'nan' is not allowed"},
        {"lr_scheduler.max_lr", "0.1", "one_cycle with a max_lr of its own"},
    };
    static double weights[WEIGHTS];
    static char said[TEST_LINES];
    const char *folder = test_folder((char[256]){0});
    char ckpt[400];
    made m;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        made_load(&m, *state, SMALL);
        made_set(&m, "trainer.default_root_dir", folder);
        made_set(&m, cases[i].key, cases[i].text);
        assert_fails(fit(&m, said, weights), STK_EINVAL, &m.err, cases[i].said);
        made_release(&m);
    }
    /* A group's decay is no rate. */
    made_load(&m, *state, SMALL);
    made_set(&m, "optimizer.groups", "*.bias(weight_decay=0)");
    assert_ok(made_create(&m, NULL), &m.err);
    made_release(&m);
    /* The checkpoint of a run that was given its rate does not say it. */
    made_load(&m, *state, SMALL);
    made_set(&m, "trainer.default_root_dir", folder);
    made_set(&m, "trainer.max_epochs", "1");
    made_set(&m, "optimizer.lr", "0.01");
    made_set(&m, "callbacks", "model_checkpoint");
    assert_ok(fit(&m, said, weights), &m.err);
    made_release(&m);
    snprintf(ckpt, sizeof ckpt,
             "%s/lightning_logs/version_0/checkpoints/epoch=0-step=28.safetensors", folder);
    made_load(&m, *state, SMALL);
    made_set(&m, "trainer.default_root_dir", folder);
    made_set(&m, "callbacks", "model_checkpoint");
    made_set(&m, "ckpt_path", ckpt);
    assert_fails(fit(&m, said, weights), STK_EINVAL, &m.err,
                 "optimizer.lr: auto: a rate is found before the first step, and the checkpoint is "
                 "of a run that was given one: give the number");
    made_release(&m);
    test_folder_remove(folder);
}

/* What trains nothing searches nothing. */
static void test_evaluation(void **state)
{
    const stk_recipe_options options = {.struct_size = sizeof options,
                                        .tasks = STK_RECIPE_VALIDATE};
    made m;

    made_load(&m, *state, SMALL);
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_trainer_validate(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    made_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bits, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_default_finder, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_refused, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_evaluation, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests_name("recipe/auto_lr", tests, NULL, NULL);
}
