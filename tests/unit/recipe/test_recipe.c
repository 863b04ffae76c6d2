/* SPDX-License-Identifier: Apache-2.0 */
/* A program trains from a text: whole, with parts of its own, for each task. */
#include <unistd.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "unit/recipe/recipes.h"

static void fit(made *m)
{
    assert_ok(stk_trainer_fit(m->parts.trainer, m->parts.module, m->parts.data, m->parts.ckpt_path,
                              &m->err),
              &m->err);
}

static void test_trains(void **state)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    double value;
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_string_equal(m.parts.dataset, "digits:?size=96");
    assert_string_equal(m.parts.val_dataset, "digits:?size=96");
    assert_string_equal(m.parts.test_dataset, "digits:?split=test&size=48");
    assert_string_equal(m.parts.input->name, "image");
    assert_int_equal(m.parts.data->train->dataset->size, 64);
    assert_int_equal(m.parts.data->val->dataset->size, 32);
    assert_null(m.parts.ckpt_path);
    assert_non_null(m.parts.log);
    fit(&m);
    stk_trainer_get_times(m.parts.trainer, &times);
    assert_int_equal(times.steps, 8);
    assert_int_equal(times.samples, 128);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_loss", &value) && value > 0);
    assert_ok(stk_trainer_test(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    stk_trainer_get_times(m.parts.trainer, &times);
    assert_int_equal(times.samples, 48);
    made_release(&m);
}

/* What is set after the file wins; a text with a comma is one value. */
static void test_set_wins(void **state)
{
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "trainer.max-epochs", "1");
    made_set(&m, "model.layers", "flatten, linear(10)");
    made_set(&m, "data.val_split", "0");
    made_set(&m, "ckpt_path", "last");
    assert_ok(made_create(&m, NULL), &m.err);
    assert_int_equal(stk_trainer_get_options(m.parts.trainer)->max_epochs, 1);
    assert_string_equal(m.parts.ckpt_path, "last");
    assert_int_equal(m.parts.data->num_val, 0);
    assert_null(m.parts.val_dataset);
    assert_int_equal(m.parts.data->num_test, 1);
    int64_t shape[STK_MAX_RANK];
    assert_int_equal(stk_model_builder_shape(m.parts.model->builder, shape), 1);
    assert_int_equal(shape[0], 10);
    made_release(&m);
}

/* Without test data a training goes without; what asks for a test alone does not. */
static void test_tasks(void **state)
{
    stk_recipe_options options = {.struct_size = sizeof options, .tasks = STK_RECIPE_VALIDATE};
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, &options), &m.err);
    assert_int_equal(m.parts.data->num_val, 1);
    assert_int_equal(m.parts.data->num_test, 0);
    assert_null(m.parts.log);
    assert_ok(stk_trainer_validate(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    stk_recipe_destroy(&m.recipe);
    options.tasks = STK_RECIPE_PREDICT;
    made_set(&m, "data.predict", "digits:?size=5");
    assert_ok(made_create(&m, &options), &m.err);
    assert_int_equal(m.parts.data->num_predict, 1);
    assert_int_equal(m.parts.data->predict->dataset->size, 5);
    assert_int_equal(m.parts.data->num_test, 0);
    stk_recipe_destroy(&m.recipe);
    options.tasks = STK_RECIPE_MODEL;
    assert_ok(made_create(&m, &options), &m.err);
    assert_int_equal(m.parts.data->train->dataset->size, 96); /* whole */
    assert_int_equal(m.parts.data->num_val + m.parts.data->num_test + m.parts.data->num_predict, 0);
    assert_int_equal(m.parts.model->num_groups, 0);
    made_release(&m);
}

/* Who computes with several threads is told what to set before it starts. */
static void test_environment(void **state)
{
    stk_cores cores = {.struct_size = sizeof cores};
    stk_context_options options;
    made m;

    (void)state;
    stk_context_options_init(&options);
    for (options.compute_threads = 1; options.compute_threads < 4; options.compute_threads++) {
        stk_context *ctx = NULL;
        stk_error err;
        assert_ok(stk_context_create(&options, &ctx, &err), &err);
        stk_context_cores(ctx, &cores);
        made_load(&m, ctx, DIGITS);
        assert_ok(made_create(&m, NULL), &m.err);
        if (cores.compute > 1)
            assert_string_equal(m.parts.environment, "OMP_WAIT_POLICY=passive");
        else
            assert_null(m.parts.environment);
        made_release(&m);
        stk_context_destroy(&ctx);
    }
}

/* Transforms of evaluation are those of training without the random ones. */
static void test_evaluation(void **state)
{
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "loader.transforms", "random_crop(28, padding=2), normalize(mnist)");
    made_set(&m, "loader.shuffle", "true");
    made_set(&m, "loader.drop_last", "true");
    assert_ok(made_create(&m, NULL), &m.err);
    const stk_loader_options *val = m.parts.data->val->options;
    assert_string_equal(val->transforms, "normalize(mnist)");
    assert_int_equal(val->shuffle, STK_SHUFFLE_NONE);
    assert_false(val->drop_last);
    assert_true(m.parts.data->train->options->drop_last);
    made_release(&m);
}

static void test_items(void **state)
{
    const char text[] = "callbacks: ['early_stopping(monitor=val_loss, patience=7)', ema(0.5)]\n"
                        "loggers: \"csv(name='a, b'), tensorboard\"\n";
    double lr[2] = {0};
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(stk_config_load_text(m.config, "more.yaml", text, strlen(text), &m.err), &m.err);
    assert_true(stk_recipe_has_item(m.config, "callbacks", "ema"));
    assert_true(stk_recipe_has_item(m.config, "callbacks", "early_stopping"));
    assert_false(stk_recipe_has_item(m.config, "callbacks", "patience"));
    made_set(&m, "trainer.profiler", "lightning.pytorch.profilers.SimpleProfiler");
    assert_true(stk_recipe_has_item(m.config, "trainer.profiler", "simple"));
    assert_true(stk_recipe_has_item(m.config, "loggers", "tensorboard"));
    assert_false(stk_recipe_has_item(m.config, "nothing", "ema"));
    made_set(&m, "loggers", "");
    made_set(&m, "optimizer.groups", "*.bias(weight_decay=0), *(0.5, weight_decay=0.25)");
    made_set(&m, "trainer.logger", "false");
    assert_ok(made_create(&m, NULL), &m.err);
    assert_int_equal(m.parts.model->num_groups, 2);
    assert_string_equal(m.parts.model->groups[0].pattern, "*.bias");
    assert_true(m.parts.model->groups[0].weight_decay == 0);
    assert_true(m.parts.model->groups[0].lr != m.parts.model->groups[0].lr); /* as the others */
    lr[0] = m.parts.model->groups[1].lr;
    lr[1] = m.parts.model->groups[1].weight_decay;
    assert_true(lr[0] == 0.5 && lr[1] == 0.25);
    made_release(&m);
}

/* ---- Parts of the caller's ------------------------------------------------------------------- */

static const char own[] = "loader: {batch_size: 10, num_workers: 0}\n"
                          "model: {layers: 'linear(2)'}\n"
                          "trainer: {max_epochs: 3, precision: 64-true, logger: 'false',\n"
                          "          enable_checkpointing: false, enable_model_summary: false}\n";

static void test_own_data(void **state)
{
    stk_recipe_options options = {.struct_size = sizeof options};
    stk_trainer_times times = {.struct_size = sizeof times};
    points train, val;
    double value;
    made m;

    points_init(&train, *state, 50);
    points_init(&val, *state, 20);
    options.train = &train.base;
    options.val = &val.base;
    made_load(&m, *state, own);
    assert_ok(made_create(&m, &options), &m.err);
    assert_null(m.parts.dataset);
    assert_null(m.parts.val_dataset);
    assert_null(m.parts.test_dataset);
    assert_string_equal(m.parts.input->name, "point");
    fit(&m);
    stk_trainer_get_times(m.parts.trainer, &times);
    assert_int_equal(times.samples, 150);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_acc", &value));
    made_release(&m);
    assert_false(train.closed || val.closed);
}

typedef struct mean {
    stk_module base;
    double sum;
    uint64_t steps;
} mean;

static stk_status mean_step(stk_module *self, stk_trainer *trainer, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    mean *m = (mean *)self;
    stk_tensor point = {.struct_size = sizeof point};

    (void)trainer, (void)loss, (void)err;
    assert_int_equal(stk_batch_find(at->batch, "point", &point), STK_OK);
    for (uint64_t i = 0; i < stk_batch_count(at->batch); i++)
        m->sum += ((const double *)point.data)[i * POINTS_FEATURES];
    m->steps++;
    loss->skip = true;
    return STK_OK;
}

static stk_status mean_backward(stk_module *self, const stk_loss *loss, double scale,
                                stk_error *err)
{
    (void)self, (void)loss, (void)scale, (void)err;
    return STK_OK;
}

static stk_status mean_optimizer_step(stk_module *self, const stk_moment *at, stk_error *err)
{
    (void)self, (void)at, (void)err;
    return STK_OK;
}

static stk_status mean_zero_grad(stk_module *self, const stk_moment *at, stk_error *err)
{
    (void)self, (void)at, (void)err;
    return STK_OK;
}

static stk_status count_trainer(void *user, stk_trainer *trainer, stk_error *err)
{
    (void)err;
    assert_non_null(trainer);
    ++*(int *)user;
    return STK_OK;
}

static void test_own_module(void **state)
{
    static const stk_module_ops ops = {.struct_size = sizeof ops,
                                       .name = "Mean",
                                       .training_step = mean_step,
                                       .backward = mean_backward,
                                       .optimizer_step = mean_optimizer_step,
                                       .optimizer_zero_grad = mean_zero_grad};
    mean module = {.base = {&ops}};
    stk_recipe_options options = {.struct_size = sizeof options, .prepare = count_trainer};
    int prepared = 0;
    points train;
    made m;

    points_init(&train, *state, 22);
    options.user = &prepared;
    options.train = &train.base;
    options.module = &module.base;
    made_load(&m, *state,
              "loader: {batch_size: 11, num_workers: 0}\n"
              "trainer: {max_epochs: 1, precision: 32-true, logger: 'false',\n"
              "          enable_checkpointing: false, enable_model_summary: false}\n");
    assert_ok(made_create(&m, &options), &m.err);
    assert_int_equal(prepared, 1);
    assert_ptr_equal(m.parts.module, &module.base);
    assert_null(m.parts.model);
    assert_null(m.parts.input);
    fit(&m);
    assert_int_equal(module.steps, 2);
    assert_true(module.sum == 0); /* -5..5, twice */
    made_release(&m);
    assert_false(train.closed);
}

/* A logit of 0 is a probability of a half, which is no more than that: no. */
static void test_half(void **state)
{
    stk_recipe_options options = {.struct_size = sizeof options, .tasks = STK_RECIPE_VALIDATE};
    stk_state_tensor tensor;
    double right = 0;
    points val;
    made m;

    points_init(&val, *state, 22);
    options.train = options.val = &val.base;
    made_load(&m, *state,
              "loader: {batch_size: 11, num_workers: 0}\n"
              "model: {layers: linear(1), loss: bce_with_logits}\nmodule: {metrics: accuracy}\n"
              "trainer: {precision: 64-true, logger: 'false', enable_model_summary: false}\n");
    assert_ok(made_create(&m, &options), &m.err);
    /* The model is made when it is used first. */
    assert_ok(stk_trainer_validate(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(stk_model_get_state(stk_model_module_model(m.parts.module), i, &tensor, &m.err),
                  &m.err);
        memset(tensor.data, 0, tensor.bytes);
    }
    assert_ok(stk_trainer_validate(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_acc", &right));
    assert_float_equal(right, 6.0 / 11, 1e-12);
    made_release(&m);
}

/* ---- A callback of the caller's, by its name --------------------------------------------------
 */

typedef struct counting {
    stk_callback base;
    uint64_t batches;
    char machine_dir[64];
} counting;

static counting last;

typedef struct counting_options {
    uint32_t struct_size;
    uint64_t from;
    const char *machine_dir;
} counting_options;

static stk_status counting_create(stk_context *ctx, const void *options, stk_callback **out,
                                  stk_error *err);
static void counting_destroy(stk_callback *self);

static stk_status counting_batch(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    (void)t, (void)at, (void)err;
    ((counting *)self)->batches++;
    return STK_OK;
}

static const stk_option counting_rows[] = {
    {"from", STK_OPTION_UINT, offsetof(counting_options, from), "0", 0, 0, NULL, NULL,
     "Where the count begins."},
    {"machine_dir", STK_OPTION_STRING, offsetof(counting_options, machine_dir), NULL, 0, 0, NULL,
     NULL, "What is measured of the machine."}};
static const stk_option_table counting_table = {"counting", "doc", sizeof(counting_options),
                                                counting_rows, 2};
static const stk_callback_ops counting_ops = {.struct_size = sizeof counting_ops,
                                              .name = "counting",
                                              .doc = "counts batches",
                                              .options = &counting_table,
                                              .create = counting_create,
                                              .destroy = counting_destroy,
                                              .on_train_batch_end = counting_batch};

static stk_status counting_create(stk_context *ctx, const void *options, stk_callback **out,
                                  stk_error *err)
{
    const counting_options *o = options;

    (void)err;
    last = (counting){.base = {&counting_ops, ctx}, .batches = o->from};
    snprintf(last.machine_dir, sizeof last.machine_dir, "%s",
             o->machine_dir ? o->machine_dir : "none");
    *out = &last.base;
    return STK_OK;
}

static void counting_destroy(stk_callback *self)
{
    (void)self;
}

static void test_own_callback(void **state)
{
    made m;

    made_load(&m, *state, DIGITS "callbacks: counting(from=100)\n");
    assert_fails(made_create(&m, NULL), STK_EINVAL, &m.err, "counting");
    assert_ok(stk_driver_add(*state, STK_DRIVER_CALLBACK, &counting_ops, &m.err), &m.err);
    assert_ok(made_create(&m, NULL), &m.err);
    fit(&m);
    assert_int_equal(last.batches, 108);
    made_release(&m);
}

/* Where a callback does not say where the machine's figures are, the recipe does. */
static void test_machine_dir(void **state)
{
    static const struct {
        const char *item, *all, *found;
    } cases[] = {{"counting", NULL, "none"},
                 {"counting", "/all", "/all"},
                 {"counting(machine_dir=/own)", "/all", "/own"}};
    made m;

    assert_ok(stk_driver_add(*state, STK_DRIVER_CALLBACK, &counting_ops, &m.err), &m.err);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_recipe_options options = {.struct_size = sizeof options,
                                            .machine_dir = cases[i].all};
        made_load(&m, *state, DIGITS);
        made_set(&m, "callbacks", cases[i].item);
        assert_ok(made_create(&m, &options), &m.err);
        assert_string_equal(last.machine_dir, cases[i].found);
        made_release(&m);
    }
}

/* ---- The second of two ranks ----------------------------------------------------------------- */

static stk_status as_alone(void *user, void *buffer, uint64_t count, stk_dtype dtype,
                           stk_combine op, stk_stream *stream, stk_error *err)
{
    (void)user, (void)buffer, (void)count, (void)dtype, (void)op, (void)stream, (void)err;
    return STK_OK;
}

/* The first says its folder; its weights are those here. */
static stk_status tell_folder(void *user, void *buffer, uint64_t bytes, stk_stream *stream,
                              stk_error *err)
{
    (void)stream, (void)err;
    if (bytes == STK_MAX_OBJECT_KEY)
        snprintf(buffer, bytes, "%s/theirs", (const char *)user);
    return STK_OK;
}

static stk_status wait_for_none(void *user, stk_error *err)
{
    (void)user, (void)err;
    return STK_OK;
}

static stk_status be_second(void *user, stk_trainer *trainer, stk_error *err)
{
    const stk_strategy strategy = {.struct_size = sizeof strategy,
                                   .name = "second",
                                   .rank = 1,
                                   .world_size = 2,
                                   .state = user,
                                   .reduce = as_alone,
                                   .broadcast = tell_folder,
                                   .barrier = wait_for_none};

    return stk_trainer_set_strategy(trainer, &strategy, err);
}

/* It knows the folder of the run, and writes nothing there. */
static void test_second_rank(void **state)
{
    char folder[256], theirs[300];
    stk_recipe_options options = {
        .struct_size = sizeof options, .prepare = be_second, .user = folder};
    made m;

    test_folder(folder);
    made_load(&m, *state, DIGITS);
    made_set(&m, "trainer.logger", "csv");
    made_set(&m, "trainer.default_root_dir", folder);
    assert_ok(made_create(&m, &options), &m.err);
    fit(&m);
    snprintf(theirs, sizeof theirs, "%s/theirs", folder);
    assert_string_equal(stk_trainer_log_dir(m.parts.trainer), theirs);
    assert_int_not_equal(access(theirs, F_OK), 0);
    made_release(&m);
    test_folder_remove(folder);
}

/* The home folder takes the place of the '~' of a file's specs, which stay those of a file. */
static void test_home(void **state)
{
    static const char more[] =
        "data: {dataset: 'mnist:~/none', otherwise: 'digits:?size=96&subset=0:50'}\n";
    const stk_recipe_options options = {.struct_size = sizeof options,
                                        .home = "/proc/nonexistent/home"};
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "data.val_split", "0");
    assert_ok(stk_config_load_text(m.config, "more.yaml", more, strlen(more), &m.err), &m.err);
    made_set(&m, "data.val", "mnist:~/val?split=test");
    assert_fails(made_create(&m, &options), STK_ENOENT, &m.err, "/proc/nonexistent/home/val");
    made_set(&m, "data.val", "digits:?size=7");
    assert_ok(made_create(&m, &options), &m.err);
    assert_string_equal(m.parts.dataset, "digits:?size=96&subset=0:50");
    stk_recipe_destroy(&m.recipe);
    made_set(&m, "data.dataset", "mnist:~/none");
    assert_fails(made_create(&m, &options), STK_ENOENT, &m.err, "/proc/nonexistent/home/none");
    made_release(&m);
}

/* ---- Data that is not there ------------------------------------------------------------------ */

static void test_otherwise(void **state)
{
    static const char more[] =
        "data: {dataset: 'mnist:/nonexistent', otherwise: 'digits:?size=96'}\n";
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(stk_config_load_text(m.config, "more.yaml", more, strlen(more), &m.err), &m.err);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_string_equal(m.parts.dataset, "digits:?size=96");
    stk_recipe_destroy(&m.recipe);
    /* Never in place of one that was given apart from the file. */
    made_set(&m, "data.dataset", "mnist:/neither");
    assert_fails(made_create(&m, NULL), STK_ENOENT, &m.err, "/neither");
    made_release(&m);
}

/* The test data is the other split of the training data, of which what selects is left out. */
static void test_split_of_test(void **state)
{
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "data.dataset", "digits:?size=96&subset=0:64&seed=3");
    assert_ok(stk_config_load_text(m.config, "none.yaml", "data: {test: }", 14, &m.err), &m.err);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_string_equal(m.parts.test_dataset, "digits:?seed=3&split=test");
    made_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trains, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_set_wins, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_tasks, test_context_open, test_context_close),
        cmocka_unit_test(test_environment),
        cmocka_unit_test_setup_teardown(test_evaluation, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_items, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_own_data, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_own_module, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_half, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_own_callback, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_machine_dir, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_second_rank, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_home, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_otherwise, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_split_of_test, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
