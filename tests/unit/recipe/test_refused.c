/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration says wrongly is refused in words that name it. */
#include "base/base.h"
#include "unit/recipe/recipes.h"

#define NONE 0 /* tasks: fit and test */

/* A setting over the digits' text, and what is said of it. */
static const struct refused {
    uint32_t tasks;
    const char *text; /* a second file */
    stk_status status;
    const char *said;
} refused[] = {
    /* With the place: of a value, of a key, of a sweep. */
    {NONE, "loader:\n  batch_size: many\n", STK_EINVAL,
     "more.yaml:2:15: loader.batch_size: 'many'"},
    {NONE, "trainer:\n  max_epoch: 3\n", STK_EINVAL, "more.yaml:2:3: "},
    {NONE, "trainer:\n  max_epoch: 3\n", STK_EINVAL, "did you mean 'max_epochs'?"},
    {NONE, "bench: {spin: true}\n", STK_EINVAL, "more.yaml:1:9: "},
    {NONE, "optimizer:\n  lr: [0.1, 0.2]\n", STK_EINVAL,
     "more.yaml:2:3: optimizer.lr: a list of 2 values; a training takes one"},
    {NONE, "module: {monitor: val_acc}\nlr_scheduler: {name: step, step_size: 1}\n", STK_EINVAL,
     "module.monitor: it has no effect without the schedule reduce_on_plateau"},
    {NONE, "model: {precision: 64-true}\n", STK_EINVAL, "precision"},
    {NONE, "loader: {rank: 1}\n", STK_EINVAL, "rank"},
    /* The trainer's, before any data is looked at. */
    {NONE, "trainer: {accelerator: tpu}\ndata: {dataset: 'mnist:/nonexistent'}\n", STK_ENOTSUP,
     "accelerator"},
    /* Items of lists. */
    {NONE, "callbacks: ['early_stoping(patience=3)']\n", STK_EINVAL,
     "callbacks: there is no callback 'early_stoping'; did you mean 'early_stopping'?"},
    {NONE, "callbacks: zzzzzzzzzzzz\n", STK_EINVAL,
     "callbacks: there is no callback 'zzzzzzzzzzzz'; there are "},
    {NONE, "trainer: {logger: auto}\nloggers: csw\n", STK_EINVAL,
     "loggers: there is no logger 'csw'; did you mean 'csv'?"},
    {NONE, "callbacks: 'ema(0.5'\n", STK_EINVAL,
     "callbacks: expected \")\" at the end of the text; a callback is written "
     "'name(option=value)'"},
    {NONE, "callbacks: 'ema(0.5),,ema'\n", STK_EINVAL,
     "callbacks: expected the name of a callback at character 10"},
    {NONE, "callbacks: 'ema(0.5) x'\n", STK_EINVAL,
     "callbacks: expected \",\" between callbacks at character 10, before \"x\""},
    {NONE, "callbacks: 'ema(0.5,,)'\n", STK_EINVAL, "callbacks: expected a value at character 9"},
    {NONE, "callbacks: 'ema(0.5),'\n", STK_EINVAL, "callbacks: expected a callback after the last"},
    {NONE, "callbacks: 'ema(decay=0.5, 1)'\n", STK_EINVAL, "comes after \"decay=\": give its name"},
    {NONE, "callbacks: 'ema(0.5, decay=0.6)'\n", STK_EINVAL, "ema: decay is given twice"},
    {NONE, "callbacks: 'ema(decay=much)'\n", STK_EINVAL, "'much'"},
    {NONE, "callbacks: 'early_stopping(val_loss, patienc=1)'\n", STK_EINVAL,
     "did you mean 'patience'?"},
    {NONE,
     "callbacks: 'ema(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,"
     "29,30,31,32,33)'\n",
     STK_EINVAL, "callbacks: expected fewer arguments"},
    {NONE, "optimizer: {groups: '*.bias(speed=3)'}\n", STK_EINVAL, "speed"},
    /* Data. */
    {NONE, "data: {dataset: 'mnist:/nonexistent'}\n", STK_ENOENT, "/nonexistent"},
    {NONE, "data: {dataset: 'mnist:/nonexistent', otherwise: 'mnist:/neither'}\n", STK_ENOENT,
     "/neither"},
    {NONE, "data: {val_split: 1.5}\n", STK_EINVAL,
     "data.val_split: '1.5' is no share below 1.0 and no number of samples below the 96 of the "
     "training data"},
    {NONE, "data: {val_split: 96}\n", STK_EINVAL, "data.val_split: '96' is no share"},
    {NONE, "data: {val_split: half}\n", STK_EINVAL, "data.val_split: 'half' is no share"},
    {NONE, "data: {val_split: -1}\n", STK_EINVAL, "data.val_split: '-1' is no share"},
    {NONE, "data: {val_split: nan}\n", STK_EINVAL, "data.val_split: 'nan' is no share"},
    {NONE, "data: {val: 'digits:?size=9'}\n", STK_EINVAL,
     "data.val and data.val_split contradict each other: leave out one"},
    {STK_RECIPE_VALIDATE, "data: {val_split: 0}\n", STK_EINVAL,
     "no validation data: set data.val or data.val_split"},
    {STK_RECIPE_TEST, "data: {dataset: 'synthetic:?size=40', test: }\n", STK_EINVAL,
     "no test data: synthetic:?size=40 has no split=test that could be opened; set data.test"},
    {STK_RECIPE_PREDICT, "data: {predict: 'mnist:/nonexistent'}\n", STK_ENOENT, "/nonexistent"},
    /* What the model takes. */
    {NONE, "loader: {transforms: layout(chw)}\n", STK_EINVAL,
     "the samples of the training data have no field of floats for the model: end "
     "loader.transforms with to_float or normalize(...)"},
    {NONE, "module: {input: picture}\n", STK_EINVAL,
     "module.input: the batches have no field 'picture'; 'stoker info' lists those of a dataset"},
    {NONE, "data: {eval_transforms: 'resize(14), normalize(mnist)'}\n", STK_EINVAL,
     "the samples of the validation data have another shape or type than those before: give "
     "data.eval_transforms, or data of the same shape"},
    {NONE, "loader: {transforms: 'random_resized_crop(14), normalize(mnist)'}\n", STK_EINVAL,
     "the validation data: random transforms are left out there, and with them the crop that gave "
     "pictures their size: give data.eval_transforms: \"resize(16), center_crop(14), "
     "normalize(mnist)\""},
    /* Also where nothing is trained: the model is that of the training. */
    {STK_RECIPE_TEST, "loader: {transforms: 'random_crop(20), normalize(mnist)'}\n", STK_EINVAL,
     "give data.eval_transforms: \"center_crop(20), normalize(mnist)\""},
    {STK_RECIPE_VALIDATE, "loader: {transforms: 'random_crop(20), normalize(mnist)'}\n", STK_EINVAL,
     "give data.eval_transforms: \"center_crop(20), normalize(mnist)\""},
    {NONE, "model: {layers: [flatten, linear(9)]}\n", STK_EINVAL,
     "the data has 10 classes, but the model gives 9: the last of model.layers has to be "
     "linear(10)"},
    {NONE, "model: {layers: [flatten, 'liner(10)']}\n", STK_EINVAL, "liner"},
};

static void test_words(void **state)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const struct refused *r = &refused[i];
        const stk_recipe_options options = {.struct_size = sizeof options, .tasks = r->tasks};
        made m;

        made_load(&m, *state, DIGITS);
        assert_ok(stk_config_load_text(m.config, "more.yaml", r->text, strlen(r->text), &m.err),
                  &m.err);
        stk_error_init(&m.err);
        stk_status status = made_create(&m, &options);
        if (status != r->status || !strstr(m.err.text, r->said))
            print_error("%s-> %s: %s\n", r->text, stk_status_name(status), m.err.text);
        assert_int_equal(status, r->status);
        assert_int_equal(m.err.status, r->status);
        assert_non_null(strstr(m.err.text, r->said));
        made_release(&m);
    }
}

/* Nothing at all; a model without data, data without a model. */
static void test_empty(void **state)
{
    made m;

    made_load(&m, *state, "");
    assert_fails(made_create(&m, NULL), STK_EINVAL, &m.err, "no data: set data.dataset");
    assert_string_equal(m.err.key, "data.dataset");
    made_set(&m, "data.dataset", "digits:?size=32");
    made_set(&m, "loader.transforms", "normalize(mnist)");
    assert_fails(made_create(&m, NULL), STK_EINVAL, &m.err, "no model: set model.layers");
    assert_string_equal(m.err.key, "model.layers");
    made_set(&m, "model.layers", "flatten, linear(10)");
    assert_ok(made_create(&m, NULL), &m.err);
    made_release(&m);
}

/* What the caller gives leaves no place for what the configuration says of it. */
static void test_own_parts(void **state)
{
    const stk_module_ops ops = {.struct_size = sizeof ops, .name = "Mine"};
    stk_module module = {&ops};
    stk_recipe_options options = {.struct_size = sizeof options};
    points p;
    made m;

    points_init(&p, *state, 8);
    made_load(&m, *state, DIGITS);
    options.module = &module;
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err,
                 "model.layers: it has no effect, as the module is the caller's; leave it out");
    options.module = NULL;
    options.train = &p.base;
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err,
                 "data.dataset: it has no effect, as the training data is the caller's");
    options.train = NULL;
    options.test = &p.base;
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err,
                 "data.test: it has no effect, as this data is the caller's; leave it out");
    options.test = NULL;
    options.val = &p.base;
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err, "contradict each other");
    made_release(&m);
    made_load(&m, *state, "data: {val_split: 4}\nmodel: {layers: linear(2)}\n");
    options.val = NULL;
    options.train = &p.base;
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err,
                 "data.val_split: the training data is the caller's, who gives the validation "
                 "data, too");
    made_set(&m, "data.val_split", "0");
    options.tasks = STK_RECIPE_TEST;
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err,
                 "no test data: the caller's data has no split=test");
    assert_false(p.closed);
    made_release(&m);
}

/* Sections that others have applied are theirs. */
static void test_sections_of_others(void **state)
{
    typedef struct mine {
        uint32_t struct_size;
        uint64_t speed;
    } mine;
    static const stk_option rows[] = {
        {"speed", STK_OPTION_UINT, offsetof(mine, speed), "1", 0, 0, NULL, NULL, "How fast."}};
    static const stk_option_table table = {"mine", "doc", sizeof(mine), rows, 1};
    mine options;
    made m;

    made_load(&m, *state, DIGITS "mine: {speed: 3}\n");
    assert_fails(made_create(&m, NULL), STK_EINVAL, &m.err, "mine");
    stk_options_init(&table, &options, sizeof options);
    assert_ok(stk_config_apply(m.config, &table, 0, &options, &m.err), &m.err);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_int_equal(options.speed, 3);
    made_release(&m);
}

/* Of the context, too: as text for a context that is made of it. */
static void test_section_of_context(void **state)
{
    stk_context_options options;
    stk_cores cores = {.struct_size = sizeof cores};
    stk_context *ctx;
    made m;

    made_load(&m, *state, DIGITS "context: {compute_threads: 1, memory_limit: 64MiB}\n");
    assert_fails(made_create(&m, NULL), STK_EINVAL, &m.err, "context");
    stk_options_init(stk_option_table_find("context"), &options, sizeof options);
    assert_ok(stk_config_apply(m.config, stk_option_table_find("context"), 0, &options, &m.err),
              &m.err);
    assert_ok(stk_context_create(&options, &ctx, &m.err), &m.err);
    stk_context_cores(ctx, &cores);
    assert_int_equal(cores.compute, 1);
    assert_true(stk__context_memory_limit(ctx) <= UINT64_C(64) << 20);
    assert_ok(made_create(&m, NULL), &m.err);
    made_release(&m);
    stk_context_destroy(&ctx);
}

static stk_status refuse_trainer(void *user, stk_trainer *trainer, stk_error *err)
{
    (void)user, (void)trainer;
    stk_error_init(err);
    snprintf(err->text, sizeof err->text, "not this one");
    return err->status = STK_EBUSY;
}

static void test_prepare_fails(void **state)
{
    const stk_recipe_options options = {.struct_size = sizeof options, .prepare = refuse_trainer};
    made m;

    made_load(&m, *state, DIGITS);
    assert_fails(made_create(&m, &options), STK_EBUSY, &m.err, "not this one");
    made_release(&m);
}

static void test_tables(void **state)
{
    static const char *const names[] = {"recipe",        "recipe.data",      "recipe.trainer",
                                        "recipe.model",  "recipe.optimizer", "recipe.lr_scheduler",
                                        "recipe.module", "recipe.loader"};
    const stk_option_table *table;
    const char *found;
    size_t n = 0;

    (void)state;
    for (size_t at = 0; (table = stk_option_table_at(at, &found)); at++) {
        if (strncmp(found, "recipe", strlen("recipe")) != 0)
            continue;
        assert_true(n < sizeof names / sizeof *names);
        assert_string_equal(found, names[n++]);
        assert_true(stk_option_table_find(found) == table);
        for (size_t i = 0; i < table->count; i++)
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(table->options[i].name, table->options[k].name);
    }
    assert_int_equal(n, sizeof names / sizeof *names);
    const char *const *lists = stk_recipe_lists();
    for (n = 0; lists[n]; n++)
        assert_true(
            strcmp(lists[n], "callbacks") == 0 || strcmp(lists[n], "loggers") == 0 ||
            strcmp(lists[n], "model.layers") == 0 || strcmp(lists[n], "module.metrics") == 0 ||
            strcmp(lists[n], "optimizer.groups") == 0 || strcmp(lists[n], "trainer.profiler") == 0);
    assert_int_equal(n, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_empty, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_own_parts, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_sections_of_others, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_section_of_context, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_prepare_fails, test_context_open, test_context_close),
        cmocka_unit_test(test_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
