/* SPDX-License-Identifier: Apache-2.0 */
/* A run has a folder from its first step on: one that is refused before leaves nothing. */
#include <dirent.h>
#include <unistd.h>

#include "support/counting.h"
#include "unit/recipe/recipes.h"
#include "unit/train/said.h"

static const char *below(const char *folder, const char *name)
{
    static char path[2][700];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static bool is_there(const char *folder, const char *name)
{
    return access(below(folder, name), F_OK) == 0;
}

static void expect_empty(const char *folder)
{
    struct dirent *entry;

    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            fail_msg("%s is left", entry->d_name);
    closedir(dir);
}

/* ---- Of configurations ---- */

/* Fit, or test, what a configuration says in `root`. */
static stk_status work(stk_context *ctx, const char *root, const char *settings, bool tests,
                       stk_error *err)
{
    made m;

    made_load(&m, ctx, DIGITS);
    made_set(&m, "trainer.logger", "auto");
    made_set(&m, "trainer.enable_checkpointing", "auto");
    made_set(&m, "trainer.default_root_dir", root);
    made_set(&m, "trainer.log_every_n_steps", "1");
    assert_ok(stk_config_load_text(m.config, "more.yaml", settings, strlen(settings), &m.err),
              &m.err);
    stk_status status = made_create(&m, NULL);
    if (status == STK_OK)
        status = (tests ? stk_trainer_test : stk_trainer_fit)(
            m.parts.trainer, m.parts.module, m.parts.data, m.parts.ckpt_path, &m.err);
    *err = m.err;
    made_release(&m);
    return status;
}

static void test_refused(void **state)
{
    static const struct {
        const char *settings;
        stk_status status;
        const char *said;
        bool tests;
    } refused[] = {
        {"callbacks: [on_exception, 'early_stopping(monitor=val_los)']\n", STK_EINVAL, "'val_los'",
         false},
        {"trainer: {val_check_interval: 100}\n", STK_EINVAL, "val_check_interval", false},
        {"module: {weights: before/end.safetensors}\nmodel: {layers: [flatten, linear(10)]}\n",
         STK_EMISMATCH, "", false},
        {"ckpt_path: nowhere.safetensors\n", STK_ENOENT, "nowhere", false},
        {"ckpt_path: before/end.safetensors\nmodel: {layers: [flatten, linear(10)]}\n",
         STK_EMISMATCH, "another model", false},
        {"ckpt_path: before/end.safetensors\nloader: {transforms: to_float}\n", STK_EMISMATCH,
         "other transforms", false},
        {"ckpt_path: before/end.safetensors\ntrainer: {max_epochs: 0}\n", STK_EINVAL,
         "has 1 behind it", false},
        {"ckpt_path: before/within.safetensors\nloader: {transforms: to_float}\n"
         "callbacks: ['model_checkpoint(save_on_exception=true)', on_exception]\n",
         STK_EMISMATCH, "other transforms", false},
        {"ckpt_path: nowhere.safetensors\n", STK_ENOENT, "nowhere", true},
        {"ckpt_path: last\n", STK_ENOENT, "no checkpoint", true},
    };
    char folder[256];
    stk_error err;

    test_folder(folder);
    assert_ok(work(*state, "before",
                   "trainer: {max_epochs: 1}\n"
                   "callbacks: ['model_checkpoint(dirpath=before, filename=end)']\n",
                   false, &err),
              &err);
    assert_ok(work(*state, "before",
                   "trainer: {max_steps: 2}\ncallbacks: ['model_checkpoint(dirpath=before, "
                   "filename=within, every_n_train_steps=1)']\n",
                   false, &err),
              &err);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_fails(work(*state, folder, refused[i].settings, refused[i].tests, &err),
                     refused[i].status, &err, refused[i].said);
        expect_empty(folder);
    }
    /* The same line without its fault. */
    assert_ok(work(*state, folder, "ckpt_path: before/within.safetensors\n", false, &err), &err);
    assert_true(is_there(folder, "lightning_logs/version_0/config.yaml"));
    assert_true(is_there(folder, "lightning_logs/version_0/hparams.yaml"));
    assert_true(is_there(folder, "lightning_logs/version_0/metrics.csv"));
    assert_true(is_there(folder, "lightning_logs/version_0/checkpoints"));
    test_folder_remove("before");
    test_folder_remove(folder);
}

/* A model that takes more than the process may use. */
static void test_memory_limit(void **state)
{
    stk_context_options options;
    stk_context *ctx;
    char folder[256];
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = 64 << 20;
    assert_int_equal(stk_context_create(&options, &ctx, &err), STK_OK);
    test_folder(folder);
    assert_fails(work(ctx, folder, "model: {layers: [flatten, 'linear(4000), relu', linear(10)]}\n",
                      false, &err),
                 STK_ENOMEM, &err, "memory_limit: the model and what is kept of it");
    expect_empty(folder);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

/* ---- Of a trainer ---- */

static void begin(bench *b, tiny *m, stk_trainer **t)
{
    b->options.logger = "csv";
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    tiny_init(m);
    assert_ok(stk_trainer_create(b->ctx, &b->options, t, &b->err), &b->err);
    listen_to(*t);
}

/* Data that the sanity check cannot read. */
static void test_bad_validation_data(void **state)
{
    const counting_options bad = {.size = 40, .fail_every = 3, .fail_with = STK_EFORMAT};
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    stk_dataset *data = counting_open(b.ctx, &bad);
    b.val.dataset = data;
    b.options.num_sanity_val_steps = 2;
    begin(&b, &m, &t);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EFORMAT, &b.err, "");
    stk_trainer_destroy(&t);
    expect_empty(b.folder);
    stk_dataset_close(&data);
    bench_close(&b);
}

/* ---- Another process is faster ---- */

static struct faster {
    stk_callback base;
    const char *folder;
    bool moves; /* a run that lies aside to version_0; else makes an empty one */
    char told[700];
} faster;

static stk_status faster_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err)
{
    *out = &faster.base;
    return STK_OK;
}

static void faster_destroy(stk_callback *callback)
{
}

static stk_status take(stk_callback *callback, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    snprintf(faster.told, sizeof faster.told, "%s", stk_trainer_log_dir(t));
    if (faster.moves)
        assert_int_equal(
            rename(below(faster.folder, "aside"), below(faster.folder, "lightning_logs/version_0")),
            0);
    else
        test_write(faster.folder, "lightning_logs/version_0/other", "", 0);
    return STK_OK;
}

static const stk_callback_ops faster_ops = {.struct_size = sizeof faster_ops,
                                            .name = "faster",
                                            .create = faster_create,
                                            .destroy = faster_destroy,
                                            .setup = take,
                                            .roles = STK_ROLE_NO_METRICS};

/* What the folder was to be it is not then: all goes into the next one. */
static void test_taken(void **state)
{
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    faster = (struct faster){.base = {&faster_ops, b.ctx}, .folder = b.folder};
    begin(&b, &m, &t);
    assert_ok(stk_trainer_add_callback(t, &faster_ops, NULL, NULL, &b.err), &b.err);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_string_equal(faster.told, below(b.folder, "lightning_logs/version_0"));
    assert_string_equal(stk_trainer_log_dir(t), below(b.folder, "lightning_logs/version_1"));
    assert_true(is_there(b.folder, "lightning_logs/version_1/metrics.csv"));
    assert_true(
        is_there(b.folder, "lightning_logs/version_1/checkpoints/epoch=0-step=10.safetensors"));
    assert_int_equal(unlink(below(b.folder, "lightning_logs/version_0/other")), 0);
    assert_int_equal(rmdir(below(b.folder, "lightning_logs/version_0")), 0);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* Nor is it its own what lies there, though the checkpoint says that it was kept there. */
static void test_taken_with_checkpoints(void **state)
{
    static const char file[] = "lightning_logs/version_0/checkpoints/epoch=0-step=10.safetensors";
    char path[700];
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    begin(&b, &m, &t);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    stk_trainer_destroy(&t);
    assert_int_equal(rename(below(b.folder, "lightning_logs/version_0"), below(b.folder, "aside")),
                     0);
    faster = (struct faster){.base = {&faster_ops, b.ctx}, .folder = b.folder, .moves = true};
    b.options.max_epochs = 2;
    begin(&b, &m, &t);
    assert_ok(stk_trainer_add_callback(t, &faster_ops, NULL, NULL, &b.err), &b.err);
    snprintf(path, sizeof path, "%s", below(b.folder, file));
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, path, &b.err), &b.err);
    stk_trainer_destroy(&t);
    assert_true(is_there(b.folder, file));
    assert_true(
        is_there(b.folder, "lightning_logs/version_1/checkpoints/epoch=1-step=20.safetensors"));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, test_context_open, test_context_close),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_bad_validation_data),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_taken_with_checkpoints),
    };

    return cmocka_run_group_tests_name("train/run_folder", tests, NULL, NULL);
}
