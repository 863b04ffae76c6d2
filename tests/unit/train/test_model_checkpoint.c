/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints are kept, and under which names. */
#include <stoker/store.h>

#include "unit/train/kept.h"

#define RUN(epochs, expected, ...)                                                                 \
    do {                                                                                           \
        run r;                                                                                     \
        run_open(&r, epochs);                                                                      \
        add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, __VA_ARGS__, NULL);      \
        run_fit(&r);                                                                               \
        assert_string_equal(list(r.dir), expected);                                                \
        run_close(&r);                                                                             \
    } while (0)

static void by_default(void **state)
{
    run r;
    char dir[400], path[500];
    double score;

    run_open(&r, 3);
    run_fit(&r);
    snprintf(dir, sizeof dir, "%s/checkpoints", r.b.folder);
    assert_string_equal(list(dir), "epoch=2-step=30");
    snprintf(path, sizeof path, "%s/epoch=2-step=30.safetensors", dir);
    assert_string_equal(stk_trainer_best_model_path(r.t), path);
    assert_null(stk_trainer_last_model_path(r.t));
    /* The newest: no metric has chosen it. */
    assert_false(stk_trainer_best_model_score(r.t, &score));
    run_close(&r);
}

static void scored(void **state)
{
    static const double values[16] = {5, 3, 4};
    double score = 0;
    run r;

    memcpy(series, values, sizeof series);
    run_open(&r, 3);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, "monitor", "val_loss", NULL);
    assert_false(stk_trainer_best_model_score(r.t, &score));
    run_fit(&r);
    assert_true(stk_trainer_best_model_score(r.t, &score) && score == 3);
    run_close(&r);
}

static void the_best(void **state)
{
    static const double values[16] = {5, 3, 4, 1, 2, 9};

    memcpy(series, values, sizeof series);
    RUN(6, "epoch=3-step=40", "monitor", "val_loss");
    RUN(6, "epoch=3-step=40 epoch=4-step=50", "monitor", "val_loss", "save_top_k", "2");
    RUN(6, "epoch=0-step=10 epoch=5-step=60", "monitor", "val_loss", "save_top_k", "2", "mode",
        "max");
    RUN(3, "epoch=0-step=10 epoch=1-step=20 epoch=2-step=30", "monitor", "val_loss", "save_top_k",
        "-1");
    RUN(3, "", "monitor", "val_loss", "save_top_k", "0");
    series[3] = NAN; /* the worst there is */
    RUN(6, "epoch=4-step=50", "monitor", "val_loss");
}

static void when(void **state)
{
    RUN(2, "epoch=0-step=7 epoch=1-step=14", "every_n_train_steps", "7", "save_top_k", "-1");
    RUN(5, "epoch=1-step=20 epoch=3-step=40", "every_n_epochs", "2", "save_top_k", "-1");
    RUN(2, "last", "save_last", "true", "save_top_k", "0");
    RUN(2, "epoch=1-step=20 last", "save_last", "true");
    RUN(2, "epoch=1-step=20 last", "save_last", "link");
}

static void names(void **state)
{
    static const double values[16] = {0.3217};

    memcpy(series, values, sizeof series);
    RUN(1, "epoch=00-val_loss=0.32", "filename", "{epoch:02d}-{val_loss:.2f}");
    RUN(1, "00-0.322-0", "filename", "{epoch:02d}-{val_loss:.3f}-{nothing:d}",
        "auto_insert_metric_name", "false");
    RUN(1, "epoch=0-step=10", "filename", "");
    RUN(3, "same", "filename", "same");
    RUN(3, "same same-v1 same-v2", "filename", "same", "save_top_k", "-1");
    RUN(3, "same", "filename", "same", "save_top_k", "-1", "enable_version_counter", "false");
}

static void said_aloud(void **state)
{
    static const double values[16] = {1.855931, 2};
    run r;
    char line[600];

    memcpy(series, values, sizeof series);
    run_open(&r, 2);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, "monitor", "val_loss",
        "verbose", "true", NULL);
    run_fit(&r);
    snprintf(line, sizeof line,
             "Epoch 0, global step 10: 'val_loss' reached 1.85593 (best 1.85593), saving model to "
             "'%s/epoch=0-step=10.safetensors' as top 1\n",
             r.dir);
    assert_non_null(strstr(said, line));
    assert_non_null(strstr(said, "Epoch 1, global step 20: 'val_loss' was not in top 1\n"));
    run_close(&r);
}

static void refused(void **state)
{
    static const char *const cases[][6] = {
        {"every_n_epochs", "2", "every_n_train_steps", "3", "exclude each other"},
        {"save_top_k", "3", "verbose", "true", "without `monitor`"},
        {"mode", "max", "verbose", "true", "no effect"},
        {"filename", "{epoch", "verbose", "true", "braces"},
        {"filename", "a}", "verbose", "true", "braces"},
        {"filename", "{epoch:x}", "verbose", "true", "braces"},
        {"filename", "{}", "verbose", "true", "braces"},
    };
    const stk_option_table *table = stk__callback_model_checkpoint.options;
    run r;
    uint64_t room[64];

    run_open(&r, 1);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_options_init(table, room, sizeof room);
        assert_ok(stk_options_set(table, room, cases[i][0], cases[i][1], &r.b.err), &r.b.err);
        assert_ok(stk_options_set(table, room, cases[i][2], cases[i][3], &r.b.err), &r.b.err);
        assert_fails(
            stk_trainer_add_callback(r.t, &stk__callback_model_checkpoint, room, NULL, &r.b.err),
            STK_EINVAL, &r.b.err, cases[i][4]);
    }
    add(&r.b, r.t, &stk__callback_model_checkpoint, "monitor", "nothing", NULL);
    assert_fails(stk_trainer_fit(r.t, &r.m.base, &r.b.data, NULL, &r.b.err), STK_EINVAL, &r.b.err,
                 "`val_loss`");
    run_close(&r);
}

/* A folder that cannot be made fails the run before its first step, and what was there before
 * stays.
 */
static void no_room(void **state)
{
    run r;

    run_open(&r, 2);
    test_write(r.b.folder, "kept", "not a folder", 12);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, NULL);
    stk_status status = stk_trainer_fit(r.t, &r.m.base, &r.b.data, NULL, &r.b.err);
    assert_true(status < 0);
    assert_non_null(strstr(r.b.err.text, "kept"));
    assert_int_equal(r.m.train_steps, 0);
    run_close(&r);
    /* One that saves nothing needs none. */
    run_open(&r, 2);
    test_write(r.b.folder, "kept", "not a folder", 12);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, "save_top_k", "0", NULL);
    run_fit(&r);
    run_close(&r);
}

/* Two of them keep their own lists, also in a checkpoint. */
static void two_at_once(void **state)
{
    static const double values[16] = {5, 3, 4, 1, 2, 9, 0.5};
    run r;
    char other[300], path[700];

    memcpy(series, values, sizeof series);
    run_open(&r, 5);
    snprintf(other, sizeof other, "%s/other", r.b.folder);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, "monitor", "val_loss",
        "save_top_k", "2", NULL);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", other, "every_n_epochs", "1", NULL);
    run_fit(&r);
    assert_string_equal(list(r.dir), "epoch=3-step=40 epoch=4-step=50");
    assert_string_equal(list(other), "epoch=4-step=50");
    snprintf(path, sizeof path, "%s/epoch=4-step=50.safetensors", other);
    stk_trainer_destroy(&r.t);
    r.b.options.max_epochs = 7;
    tiny_init(&r.m);
    r.m.ops.validation_step = log_series;
    assert_ok(stk_trainer_create(r.b.ctx, &r.b.options, &r.t, &r.b.err), &r.b.err);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, "monitor", "val_loss",
        "save_top_k", "2", NULL);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", other, "every_n_epochs", "1", NULL);
    assert_ok(stk_trainer_fit(r.t, &r.m.base, &r.b.data, path, &r.b.err), &r.b.err);
    assert_string_equal(list(r.dir), "epoch=3-step=40 epoch=6-step=70");
    assert_string_equal(list(other), "epoch=6-step=70");
    run_close(&r);
}

/* A name that another training is writing is taken, also while no file has it yet. */
static void shared_folder(void **state)
{
    const stk_store_call call = {.struct_size = sizeof call, .no_replace = true};
    stk_put *others = NULL;
    char path[700];
    run r;

    run_open(&r, 1);
    snprintf(path, sizeof path, "%s/epoch=0-step=10.safetensors", r.dir);
    assert_ok(stk_put_open(r.b.ctx, path, &call, &others, &r.b.err), &r.b.err);
    assert_ok(others->ops->write(others, "theirs", 6, &r.b.err), &r.b.err);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, NULL);
    run_fit(&r);
    assert_string_equal(list(r.dir), ".stoker-put-epoch=0-step=10 epoch=0-step=10-v1");
    assert_ok(others->ops->commit(others, &r.b.err), &r.b.err);
    assert_string_equal(list(r.dir), "epoch=0-step=10 epoch=0-step=10-v1");
    assert_non_null(strstr(stk_trainer_best_model_path(r.t), "-v1.safetensors"));
    run_close(&r);
}

static const char *looked_at;
static char held[4096]; /* that folder at the second validation */

static stk_status look_at_folder(stk_module *module, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    if (at->epoch == 1)
        snprintf(held, sizeof held, "%s", list(looked_at));
    return stk_trainer_log(t, "val_loss", 1, 0, 0, err);
}

/* So is one of its own, until the next is saved. */
static void claimed(void **state)
{
    run r;

    run_open(&r, 2);
    r.m.ops.validation_step = look_at_folder;
    looked_at = r.dir;
    add(&r.b, r.t, &stk__callback_model_checkpoint, "dirpath", r.dir, NULL);
    run_fit(&r);
    assert_non_null(strstr(held, ".stoker-put-epoch=0-step=10"));
    assert_string_equal(list(r.dir), "epoch=1-step=20");
    run_close(&r);
}

/* ---- An outsider's in its place ---------------------------------------------------------------
 */

/* Saves each epoch in a folder of its own; the first is the best. */
typedef struct keeper {
    stk_callback base;
    char folder[300], best[400], last[400];
} keeper;

static stk_status keeper_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err);

static void keeper_destroy(stk_callback *callback)
{
    free(callback);
}

static stk_status keeper_save(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    keeper *self = (keeper *)callback;

    snprintf(self->last, sizeof self->last, "%s/own-%d.safetensors", self->folder, (int)at->epoch);
    if (!*self->best)
        memcpy(self->best, self->last, sizeof self->best);
    return stk_trainer_save(t, self->last, false, NULL, err);
}

static const char *keeper_path(const stk_callback *callback, stk_checkpoint_which which)
{
    const keeper *self = (const keeper *)callback;

    return which == STK_CHECKPOINT_BEST   ? self->best
           : which == STK_CHECKPOINT_LAST ? self->last
                                          : self->folder;
}

static const stk_callback_ops keeper_ops = {
    .struct_size = sizeof keeper_ops,
    .name = "keeper",
    .doc = "saves",
    .create = keeper_create,
    .destroy = keeper_destroy,
    .checkpoints = true,
    .on_train_epoch_end = keeper_save,
    .roles = STK_ROLE_CHECKPOINT | STK_ROLE_SUMMARY | STK_ROLE_PROGRESS | STK_ROLE_TIME_LIMIT,
    .checkpoint_path = keeper_path,
};

static stk_status keeper_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err)
{
    keeper *self = calloc(1, sizeof *self);

    assert_non_null(self);
    self->base = (stk_callback){&keeper_ops, ctx};
    *out = &self->base;
    return STK_OK;
}

static void run_with_keeper(run *r, const char *folder)
{
    stk_callback *callback;

    run_open(r, 3);
    stk_trainer_destroy(&r->t);
    /* All that a trainer adds by itself is wanted, and none of it added. */
    r->b.options.enable_model_summary = STK_SWITCH_TRUE;
    r->b.options.enable_progress_bar = STK_SWITCH_TRUE;
    r->b.options.max_time = "10:00:00:00";
    assert_ok(stk_trainer_create(r->b.ctx, &r->b.options, &r->t, &r->b.err), &r->b.err);
    listen_to(r->t);
    assert_ok(stk_trainer_add_callback(r->t, &keeper_ops, NULL, &callback, &r->b.err), &r->b.err);
    snprintf(((keeper *)callback)->folder, sizeof r->dir, "%s", folder);
}

static void an_outsiders(void **state)
{
    char folder[256], path[400];
    run r;

    test_folder(folder);
    run_with_keeper(&r, folder);
    assert_null(stk_trainer_best_model_path(r.t));
    assert_fails(stk_trainer_test(r.t, &r.m.base, &r.b.data, "best", &r.b.err), STK_ENOENT,
                 &r.b.err, "there is no checkpoint in");
    r.m.stop_at = 25; /* in the third epoch */
    assert_int_equal(stk_trainer_fit(r.t, &r.m.base, &r.b.data, NULL, &r.b.err), STK_ECANCELED);
    assert_int_equal(r.t->hooks.num_callbacks, 1);
    assert_string_equal(list(folder), "interrupted own-0 own-1");
    snprintf(path, sizeof path, "%s/own-0.safetensors", folder);
    assert_string_equal(stk_trainer_best_model_path(r.t), path);
    snprintf(path, sizeof path, "%s/own-1.safetensors", folder);
    assert_string_equal(stk_trainer_last_model_path(r.t), path);
    stk_trainer_resume(r.t);
    assert_ok(stk_trainer_test(r.t, &r.m.base, &r.b.data, "best", &r.b.err), &r.b.err);
    run_close(&r);
    /* In its folder "last" is found, although it does not lie below the root. */
    run_with_keeper(&r, folder);
    assert_ok(stk_trainer_fit(r.t, &r.m.base, &r.b.data, "last", &r.b.err), &r.b.err);
    assert_int_equal(r.m.train_steps, 30 - 25);
    run_close(&r);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default),    cmocka_unit_test(scored),  cmocka_unit_test(the_best),
        cmocka_unit_test(when),          cmocka_unit_test(names),   cmocka_unit_test(said_aloud),
        cmocka_unit_test(refused),       cmocka_unit_test(no_room), cmocka_unit_test(two_at_once),
        cmocka_unit_test(shared_folder), cmocka_unit_test(claimed), cmocka_unit_test(an_outsiders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
