/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of models of known weights, in one process and over several ranks with batches of unequal
 * size, are those of torchmetrics over all rows (make_regression_golden.py). */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "unit/recipe/recipes.h"
#include "unit/train/ranks.h"

#define FOLDER TESTS_DIR "/golden/train/regression/"

static const char text[] =
    "loader: {num_workers: 0, batch_size: 20}\n"
    "trainer: {precision: 64-true, logger: csv, enable_progress_bar: false,\n"
    "          enable_model_summary: false}\n";

typedef struct work {
    const json_t *item;
    const char *root, *metrics;
    rank self;
    stk_recipe_options options;
} work;

static stk_status join(void *user, stk_trainer *trainer, stk_error *err)
{
    work *w = user;

    if (w->self.all->world == 1)
        return STK_OK;
    const stk_strategy strategy = ranks_strategy(&w->self);
    return stk_trainer_set_strategy(trainer, &strategy, err);
}

static const char *word(const json_t *item, const char *key)
{
    return json_string_value(json_object_get(item, key));
}

static void check_value(const made *m, const work *w, const char *name, double should)
{
    char full[64];
    double is = NAN;

    snprintf(full, sizeof full, "val_%s", name);
    if (!stk_trainer_metric(m->parts.trainer, full, &is) || !(fabs(is - should) <= 3e-7))
        fail_msg("%s on rank %d of %d is %.12g, not %.12g", name, (int)w->self.number,
                 (int)w->self.all->world, is, should);
}

/* The file of the run: a line of names, then one for each class. */
static void check_matrix(const made *m, const json_t *matrix)
{
    char path[1024], line[256], wanted[256];
    size_t i, k;
    json_t *row, *value;

    snprintf(path, sizeof path, "%s/confusion_matrix_val.csv",
             stk_trainer_log_dir(m->parts.trainer));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "class,0,1,2,3,4,5\n");
    json_array_foreach(matrix, i, row)
    {
        size_t used = (size_t)snprintf(wanted, sizeof wanted, "%zu", i);
        json_array_foreach(row, k, value) used += (size_t)snprintf(
            wanted + used, sizeof wanted - used, ",%d", (int)json_integer_value(value));
        snprintf(wanted + used, sizeof wanted - used, "\n");
        assert_non_null(fgets(line, sizeof line, file));
        assert_string_equal(line, wanted);
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

static void *run(void *argument)
{
    work *w = argument;
    const json_t *dataset = json_object_get(w->item, "dataset");
    const json_t *ignored = json_object_get(w->item, "ignore_index");
    const int outputs = (int)json_integer_value(json_object_get(w->item, "outputs"));
    stk_context *ctx = test_context();
    char spec[1024], layers[64], weights[512], number[24];
    const char *name;
    json_t *value;
    made m;

    snprintf(spec, sizeof spec, "%s" FOLDER "%s", json_string_value(json_array_get(dataset, 0)),
             json_string_value(json_array_get(dataset, 1)));
    snprintf(layers, sizeof layers, "flatten, linear(8), relu, linear(%d)", outputs);
    snprintf(weights, sizeof weights, FOLDER "%s", word(w->item, "weights"));
    made_load(&m, ctx, text);
    made_set(&m, "data.val", spec);
    made_set(&m, "data.dataset", spec);
    made_set(&m, "model.layers", layers);
    made_set(&m, "model.loss", word(w->item, "loss"));
    made_set(&m, "module.weights", weights);
    made_set(&m, "module.metrics", w->metrics);
    made_set(&m, "trainer.default_root_dir", w->root);
    if (ignored) {
        snprintf(number, sizeof number, "%d", (int)json_integer_value(ignored));
        made_set(&m, "model.ignore_index", number);
    }
    w->options = (stk_recipe_options){
        .struct_size = sizeof w->options, .tasks = STK_RECIPE_VALIDATE, .prepare = join, .user = w};
    assert_ok(made_create(&m, &w->options), &m.err);
    assert_ok(stk_trainer_validate(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    json_object_foreach(json_object_get(w->item, "metrics"), name, value)
        check_value(&m, w, name, json_number_value(value));
    if (json_object_get(w->item, "matrix") && w->self.number == 0)
        check_matrix(&m, json_object_get(w->item, "matrix"));
    made_release(&m);
    stk_context_destroy(&ctx);
    return NULL;
}

/* 48 rows, 20 a batch: the last batches are shorter. */
static void check(uint64_t world)
{
    json_error_t error;
    json_t *golden = json_load_file(FOLDER "metrics.json", 0, &error), *item;
    char root[256];
    size_t i;

    assert_non_null(golden);
    json_array_foreach(golden, i, item)
    {
        const char *metrics =
            json_object_get(item, "matrix") ? "accuracy, f1, f1_micro, confusion_matrix"
            : strcmp(word(item, "loss"), "bce_with_logits") == 0 ? "accuracy"
                                                                 : "mae, rmse, r2";
        work works[MAX_RANKS];
        pthread_t threads[MAX_RANKS];
        ranks all;
        ranks_init(&all, world);
        test_folder(root);
        for (uint64_t r = 0; r < world; r++) {
            works[r] = (work){.item = item, .root = root, .metrics = metrics, .self = {&all, r}};
            assert_int_equal(pthread_create(&threads[r], NULL, run, &works[r]), 0);
        }
        for (uint64_t r = 0; r < world; r++)
            pthread_join(threads[r], NULL);
        test_folder_remove(root);
        ranks_release(&all);
    }
    assert_int_equal(i, 7);
    json_decref(golden);
}

static void test_alone(void **state)
{
    check(1);
}

static void test_ranks(void **state)
{
    check(2);
    check(3);
}

/* ---- Several loaders ------------------------------------------------------------------------- */

/* The rows that the file of a matrix counts; -1: there is none. */
static int rows_of(const char *folder, const char *name)
{
    char path[1024], line[256];
    int rows = 0;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    assert_non_null(fgets(line, sizeof line, file));
    while (fgets(line, sizeof line, file))
        for (const char *c = strchr(line, ','); c; c = strchr(c + 1, ','))
            rows += atoi(c + 1);
    fclose(file);
    return rows;
}

static char said[4096];

static void say_line(void *user, const char *text)
{
    const size_t used = strlen(said);

    snprintf(said + used, sizeof said - used, "%s\n", text);
}

/* Each has a file of its own, told apart as the metrics are, and is named where it is printed. */
static void test_loaders(void **state)
{
    const stk_recipe_options options = {.struct_size = sizeof options,
                                        .tasks = STK_RECIPE_VALIDATE | STK_RECIPE_TEST};
    const stk_console console = {.struct_size = sizeof console, .line = say_line};
    stk_context *ctx = test_context();
    char root[256];
    made m;

    test_folder(root);
    made_load(&m, ctx, DIGITS);
    made_set(&m, "trainer.default_root_dir", root);
    made_set(&m, "trainer.logger", "csv");
    made_set(&m, "module.metrics", "confusion_matrix");
    assert_ok(made_create(&m, &options), &m.err);
    const stk_loader_source both[] = {m.parts.data->val[0], m.parts.data->test[0]};
    stk_trainer_data data = {
        .struct_size = sizeof data, .val = both, .num_val = 2, .test = both + 1, .num_test = 1};
    stk_trainer *t = m.parts.trainer;
    stk_trainer_set_console(t, &console);
    assert_ok(stk_trainer_validate(t, m.parts.module, &data, NULL, &m.err), &m.err);
    const char *folder = stk_trainer_log_dir(t);
    assert_int_equal(rows_of(folder, "confusion_matrix_val_dataloader_idx_0.csv"), 32);
    assert_int_equal(rows_of(folder, "confusion_matrix_val_dataloader_idx_1.csv"), 48);
    assert_int_equal(rows_of(folder, "confusion_matrix_val.csv"), -1);
    assert_ok(stk_trainer_test(t, m.parts.module, &data, NULL, &m.err), &m.err);
    assert_int_equal(rows_of(folder, "confusion_matrix_test.csv"), 48);
    assert_non_null(strstr(said, "Confusion matrix: a row"));
    data.test = both;
    data.num_test = 2;
    assert_ok(stk_trainer_test(t, m.parts.module, &data, NULL, &m.err), &m.err);
    assert_non_null(strstr(said, "Confusion matrix of dataloader_idx_0: a row"));
    assert_non_null(strstr(said, "Confusion matrix of dataloader_idx_1: a row"));
    made_release(&m);
    stk_context_destroy(&ctx);
    test_folder_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_loaders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
