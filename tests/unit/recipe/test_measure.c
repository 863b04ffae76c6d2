/* SPDX-License-Identifier: Apache-2.0 */
/* A whole training as a run of a plan: its losses and accuracy are those of the steps and of the
 * test. */
#include <math.h>
#include <stdlib.h>

#include "unit/recipe/recipes.h"

#define EPOCHS 2

/* What a callback of the test's own sees of every step. */
typedef struct seen {
    stk_callback base; /* first */
    struct sums {
        double loss[EPOCHS], rows[EPOCHS]; /* of the first epochs */
        double last;
        bool stop; /* after the first step of the second epoch */
    } * sums;
} seen;

static stk_status on_train_batch_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    struct sums *sums = ((seen *)self)->sums;
    double loss;

    (void)err;
    assert_true(stk_trainer_metric(t, "train_loss", &loss));
    sums->last = loss;
    if (at->epoch >= EPOCHS)
        return STK_OK;
    sums->loss[at->epoch] += loss * (double)stk_batch_count(at->batch);
    sums->rows[at->epoch] += (double)stk_batch_count(at->batch);
    if (sums->stop && at->epoch == 1)
        stk_trainer_stop(t);
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err);

static void destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops ops = {.struct_size = sizeof ops,
                                     .name = "seen",
                                     .doc = "adds up losses",
                                     .create = create,
                                     .destroy = destroy,
                                     .on_train_batch_end = on_train_batch_end};

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err)
{
    seen *made = calloc(1, sizeof *made);

    (void)err;
    assert_non_null(made);
    made->base = (stk_callback){&ops, ctx};
    made->sums = (struct sums *)options;
    *out = &made->base;
    return STK_OK;
}

/* The rows of an epoch are in batches of 24, 24 and 16: each counts by its rows. */
static void test_measures(void **state)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    struct sums sums = {0};
    double accuracy;
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "loader.batch_size", "24");
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_add_callback(m.parts.trainer, &ops, &sums, NULL, &m.err), &m.err);
    assert_ok(stk_recipe_measure(m.recipe, &result, &figures, &m.err), &m.err);
    const stk_bench_training *t = &result.training;
    assert_int_equal(result.status, STK_OK);
    assert_false(result.interrupted);
    assert_true(t->epochs == EPOCHS && result.epochs == EPOCHS);
    assert_int_equal(figures.steps, 6);
    assert_true(t->peak_bytes > 1 << 20);
    double seconds = 0;
    for (int e = 0; e < EPOCHS; e++) {
        assert_float_equal(sums.rows[e], 64, 0);
        assert_float_equal(t->loss[e], sums.loss[e] / sums.rows[e], 1e-12);
        assert_true(t->epoch_seconds[e] > 0);
        seconds += t->epoch_seconds[e];
    }
    assert_true(t->loss[1] < t->loss[0] && seconds <= t->seconds);
    assert_true(t->last_loss == t->loss[1]);
    assert_float_equal(t->epoch_mean, seconds / EPOCHS, 1e-12);
    assert_true(t->tested);
    assert_true(stk_trainer_metric(m.parts.trainer, "test_acc", &accuracy));
    assert_true(accuracy == t->accuracy && t->evaluated_loss > 0);
    /* What looked on lives as long as the trainer, which may train again. */
    sums = (struct sums){0};
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    made_release(&m);
}

/* The figures of the first epochs are kept; the last loss is of the last one all the same. */
static void test_many_epochs(void **state)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    const stk_bench_training *t = &result.training;
    struct sums sums = {0};
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "trainer.max_epochs", "131");
    made_set(&m, "trainer.limit_train_batches", "1");
    made_set(&m, "trainer.limit_val_batches", "0");
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_add_callback(m.parts.trainer, &ops, &sums, NULL, &m.err), &m.err);
    assert_ok(stk_recipe_measure(m.recipe, &result, &figures, &m.err), &m.err);
    assert_true(t->epochs == 131 && t->last_loss == sums.last);
    assert_true(t->last_loss < t->loss[STK_BENCH_EPOCHS - 1]);
    assert_true(t->epoch_mean > 0 && t->epoch_mean <= t->seconds / 131);
    made_release(&m);
}

/* Without test data the accuracy is of the last validation. */
static void test_validates(void **state)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    const stk_recipe_options options = {.struct_size = sizeof options, .tasks = STK_RECIPE_FIT};
    double accuracy;
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_recipe_measure(m.recipe, &result, &figures, &m.err), &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_acc", &accuracy));
    assert_true(!result.training.tested && result.training.accuracy == accuracy);
    made_release(&m);
}

/* ---- The best checkpoint --------------------------------------------------------------------- */

/* The best of a training is that of its first epoch here, as the largest loss is. */
static void load_best(made *m, stk_context *ctx, const char *folder, bool test)
{
    const stk_recipe_options options = {.struct_size = sizeof options,
                                        .tasks = STK_RECIPE_FIT | (test ? STK_RECIPE_TEST : 0)};

    made_load(m, ctx, DIGITS);
    made_set(m, "trainer.enable_checkpointing", "true");
    made_set(m, "trainer.default_root_dir", folder);
    made_set(m, "callbacks", "model_checkpoint(monitor=val_loss, mode=max)");
    assert_ok(made_create(m, &options), &m->err);
}

static double metric(const made *m, const char *name)
{
    double value = NAN;

    assert_true(stk_trainer_metric(m->parts.trainer, name, &value));
    return value;
}

/* What is tested is its file, on the test data where there are some, else on those of validation;
 * the last weights give another loss. */
static void test_best(void **state)
{
    char folder[256];

    for (int test = 0; test < 2; test++) {
        const char *loss = test ? "test_loss" : "val_loss";
        stk_recipe_tested tested = {.struct_size = sizeof tested};
        made m;

        test_folder(folder);
        load_best(&m, *state, folder, test);
        const stk_recipe_parts *p = &m.parts;
        assert_ok(stk_trainer_fit(p->trainer, p->module, p->data, NULL, &m.err), &m.err);
        const double last = metric(&m, "val_loss");
        double score;
        assert_true(stk_trainer_best_model_score(p->trainer, &score) && score > last);
        assert_ok(stk_recipe_test(m.recipe, &tested, &m.err), &m.err);
        assert_true(tested.best && tested.again && tested.test == test);
        const double is = metric(&m, loss);
        assert_true(test || is == score);
        /* In a trainer that has made none of it. */
        char path[1024];
        snprintf(path, sizeof path, "%s", stk_trainer_best_model_path(p->trainer));
        made_release(&m);
        load_best(&m, *state, folder, test);
        p = &m.parts;
        assert_ok((test ? stk_trainer_test : stk_trainer_validate)(p->trainer, p->module, p->data,
                                                                   path, &m.err),
                  &m.err);
        assert_true(metric(&m, loss) == is);
        made_release(&m);
        test_folder_remove(folder);
    }
}

/* A run of a plan has the figures of that checkpoint, too. */
static void test_measures_the_best(void **state)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    char folder[256];
    double score;
    made m;

    test_folder(folder);
    load_best(&m, *state, folder, false);
    assert_ok(stk_recipe_measure(m.recipe, &result, &figures, &m.err), &m.err);
    assert_true(stk_trainer_best_model_score(m.parts.trainer, &score));
    assert_true(!result.training.tested && result.training.evaluated_loss == score);
    made_release(&m);
    test_folder_remove(folder);
}

/* A file is named as that of the last weights where it has them, and `last` where that is saved. */
static void test_last(void **state)
{
    static const struct {
        const char *callback, *every, *name; /* NULL: no file has them */
        bool test, again;
    } cases[] = {
        {"model_checkpoint", "1", "epoch=2-step=12.safetensors", true, true},
        {"model_checkpoint", "2", NULL, true, true},
        {"model_checkpoint(every_n_epochs=2)", "1", NULL, true, true},
        {"model_checkpoint(every_n_train_steps=5)", "1", NULL, true, true},
        {"model_checkpoint(every_n_train_steps=3)", "1", "epoch=2-step=12.safetensors", true, true},
        {"model_checkpoint(save_last=true)", "1", "last.safetensors", true, true},
        {"model_checkpoint(save_last=link)", "2", NULL, true, true},
        {"model_checkpoint(save_last=true, save_on_train_epoch_end=true)", "2", "last.safetensors",
         true, true},
        {"model_checkpoint", "1", "epoch=2-step=12.safetensors", false, false},
        {"model_checkpoint", "2", NULL, false, true}, /* the validation was of others */
    };
    char folder[256];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stk_recipe_options options = {.struct_size = sizeof options,
                                            .tasks = STK_RECIPE_FIT |
                                                     (cases[i].test ? STK_RECIPE_TEST : 0)};
        stk_recipe_tested tested = {.struct_size = sizeof tested};
        made m;

        test_folder(folder);
        made_load(&m, *state, DIGITS);
        made_set(&m, "trainer.enable_checkpointing", "true");
        made_set(&m, "trainer.default_root_dir", folder);
        made_set(&m, "trainer.max_epochs", "3");
        made_set(&m, "trainer.check_val_every_n_epoch", cases[i].every);
        made_set(&m, "callbacks", cases[i].callback);
        assert_ok(made_create(&m, &options), &m.err);
        const stk_recipe_parts *p = &m.parts;
        assert_ok(stk_trainer_fit(p->trainer, p->module, p->data, NULL, &m.err), &m.err);
        assert_ok(stk_recipe_test(m.recipe, &tested, &m.err), &m.err);
        assert_true(!tested.best && tested.again == cases[i].again);
        assert_int_equal(tested.path != NULL, cases[i].name != NULL);
        if (tested.path)
            assert_string_equal(strrchr(tested.path, '/') + 1, cases[i].name);
        made_release(&m);
        test_folder_remove(folder);
    }
}

/* Train to a step within an epoch, from the newest checkpoint where there is one; what is printed.
 */
static double train_to(stk_context *ctx, const char *folder, const char *callbacks,
                       const char *step, char path[STK_MAX_OBJECT_KEY])
{
    const stk_recipe_options options = {.struct_size = sizeof options, .tasks = STK_RECIPE_FIT};
    stk_recipe_tested tested = {.struct_size = sizeof tested};
    made m;

    made_load(&m, ctx, DIGITS);
    made_set(&m, "trainer.enable_checkpointing", "true");
    made_set(&m, "trainer.default_root_dir", folder);
    made_set(&m, "trainer.max_epochs", "9");
    made_set(&m, "trainer.max_steps", step);
    made_set(&m, "trainer.val_check_interval", "0.25");
    made_set(&m, "callbacks", callbacks);
    made_set(&m, "ckpt_path", "last");
    assert_ok(made_create(&m, &options), &m.err);
    const stk_recipe_parts *p = &m.parts;
    assert_ok(stk_trainer_fit(p->trainer, p->module, p->data, p->ckpt_path, &m.err), &m.err);
    assert_ok(stk_recipe_test(m.recipe, &tested, &m.err), &m.err);
    snprintf(path, STK_MAX_OBJECT_KEY, "%s", tested.path ? tested.path : "");
    if (!tested.again)
        assert_ok(stk_trainer_validate(p->trainer, p->module, p->data, NULL, &m.err), &m.err);
    const double loss = metric(&m, "val_loss");
    if (tested.path) {
        assert_ok(stk_trainer_validate(p->trainer, p->module, p->data, tested.path, &m.err),
                  &m.err);
        assert_true(metric(&m, "val_loss") == loss);
    }
    made_release(&m);
    return loss;
}

/* The means that max_steps leaves within an epoch are in the files that are saved behind them, and
 * a run that goes on has those of one that was not cut. Epochs have 4 steps. */
static void test_cut_means(void **state)
{
    static const struct {
        const char *callbacks;
        bool named;
    } cases[] = {
        {"weight_averaging(interval=epoch), model_checkpoint(every_n_train_steps=3)", false},
        {"weight_averaging(interval=epoch)", false},
        {"weight_averaging(interval=epoch), model_checkpoint(save_on_train_epoch_end=true)", true},
        {"ema(decay=0.5, update_every_n_steps=4, update_starting_at_epoch=0), "
         "model_checkpoint(save_on_train_epoch_end=true)",
         true},
        {"ema(decay=0.5), model_checkpoint(every_n_train_steps=3)", true},
    };
    char folder[256], path[STK_MAX_OBJECT_KEY];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const char *callbacks = cases[i].callbacks;
        test_folder(folder);
        const double cut = train_to(*state, folder, callbacks, "6", path);
        assert_int_equal(*path != 0, cases[i].named);
        /* The same line again, which has nothing left to train; then on. */
        assert_true(train_to(*state, folder, callbacks, "6", path) == cut);
        const double resumed = train_to(*state, folder, callbacks, "12", path);
        test_folder_remove(folder);
        test_folder(folder);
        assert_true(train_to(*state, folder, callbacks, "12", path) == resumed);
        test_folder_remove(folder);
    }
}

/* ---- The step of a bench --------------------------------------------------------------------- */

/* In double precision it takes samples of doubles; a model of floats refuses them. */
static void test_step_of_doubles(void **state)
{
    static const char of_points[] = "loader: {batch_size: 10, num_workers: 0}\n"
                                    "model: {layers: 'linear(2)'}\n"
                                    "trainer: {precision: 64-true, logger: 'false'}\n";
    stk_recipe_options options = {.struct_size = sizeof options, .tasks = STK_RECIPE_MODEL};
    stk_loader_options loader_options;
    const stk_bench_step *step;
    stk_loader *loader;
    stk_batch *batch;
    points train;
    made m;

    points_init(&train, *state, 20);
    options.train = &train.base;
    made_load(&m, *state, of_points);
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_recipe_step(m.recipe, 10, &step, &m.err), &m.err);
    stk_loader_options_init(&loader_options);
    loader_options.batch_size = 10;
    loader_options.num_workers = 0;
    assert_ok(stk_loader_create(&train.base, &loader_options, &loader, &m.err), &m.err);
    assert_ok(stk_loader_next(loader, -1, &batch, &m.err), &m.err);
    assert_ok(step->run_alone(step->user, &m.err), &m.err);
    assert_ok(step->run(step->user, batch, &m.err), &m.err);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    made_release(&m);
}

/* One that is ended early has what it came to so far. */
static void test_interrupted(void **state)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    struct sums sums = {.stop = true};
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_add_callback(m.parts.trainer, &ops, &sums, NULL, &m.err), &m.err);
    assert_int_equal(stk_recipe_measure(m.recipe, &result, &figures, &m.err), STK_ECANCELED);
    assert_true(result.interrupted && result.status == STK_ECANCELED);
    assert_true(result.training.epochs == 2 && figures.steps == 5);
    assert_float_equal(result.training.loss[1], sums.loss[1] / sums.rows[1], 1e-12);
    assert_true(isnan(result.training.accuracy));
    made_release(&m);
}

static void test_refuses(void **state)
{
    stk_bench_result result = {.struct_size = sizeof result};
    stk_figures figures = {.struct_size = sizeof figures};
    const stk_recipe_options options = {.struct_size = sizeof options, .tasks = STK_RECIPE_TEST};
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, &options), &m.err);
    assert_int_equal(stk_recipe_measure(m.recipe, &result, &figures, &m.err), STK_EINVAL);
    assert_non_null(strstr(m.err.text, "STK_RECIPE_FIT"));
    made_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_measures, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_many_epochs, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_validates, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_best, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_cut_means, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_last, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_measures_the_best, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_step_of_doubles, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_interrupted, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_refuses, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
