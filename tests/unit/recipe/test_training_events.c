/* SPDX-License-Identifier: Apache-2.0 */
/* The event log of a training, of a recipe and of a trainer made by hand; figures and verdict. */
#include "measure/measure.h"
#include "unit/recipe/recipes.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>

static char folder[256], path[512];

static int set_up(void **state)
{
    test_folder(folder);
    snprintf(path, sizeof path, "%s/run.jsonl", folder);
    return test_context_open(state);
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    return test_context_close(state);
}

/* The events of the log that a training writes itself, in order, as one text. */
static void read_events(char *out, size_t size, json_t **first)
{
    static const char *const others[] = {"get-batch start", "get-batch end", "read end",
                                         "batch ready",     "system",        "batch delivered"};
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, used = 0;

    assert_non_null(f);
    *out = 0;
    *first = NULL;
    while (getline(&line, &room, f) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        const char *event = json_string_value(json_object_get(object, "event"));
        size_t k = 0;
        while (k < sizeof others / sizeof *others && strcmp(others[k], event) != 0)
            k++;
        if (k == sizeof others / sizeof *others && !strstr(event, "batch") &&
            strcmp(event, "read") != 0)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "; " : "", event);
        if (*first)
            json_decref(object);
        else
            *first = object;
    }
    free(line);
    fclose(f);
}

static const char steps[] = "training start; training end; training start; training end; "
                            "training start; training end; training start; training end; ";

static void test_recipe(void **state)
{
    const stk_recipe_options options = {.struct_size = sizeof options, .log = path};
    stk_figures figures = {.struct_size = sizeof figures};
    stk_verdict verdict = {.struct_size = sizeof verdict};
    char events[4096], expected[4096];
    json_t *first;
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    stk_training_events_judge(m.parts.log, m.parts.data->train, &figures, &verdict);
    assert_int_equal(figures.steps, 8);
    assert_int_equal(figures.samples, 128);
    assert_int_equal(figures.batch_size, 16);
    assert_int_equal(figures.ranks, 1);
    assert_true(figures.wall > 0 && figures.step_share > 0 && figures.step_share <= 1);
    assert_true(verdict.text[0]);
    assert_ok(stk_trainer_test(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
              &m.err);
    assert_ok(stk_training_events_end(m.parts.log, &m.err), &m.err);
    assert_ok(stk_training_events_end(m.parts.log, &m.err), &m.err);
    read_events(events, sizeof events, &first);
    snprintf(
        expected, sizeof expected,
        "run start; setup start; sanity check start; sanity check end; setup end; "
        "epoch start; %svalidation start; metrics; validation end; metrics; epoch end; ledger; "
        "epoch start; %svalidation start; metrics; validation end; metrics; epoch end; ledger; "
        "ledger; figures; verdict; metrics; test end; run end",
        steps, steps);
    assert_string_equal(events, expected);
    const json_t *locals = json_object_get(first, "locals");
    assert_string_equal(json_string_value(json_object_get(locals, "dataset")), "digits:?size=96");
    assert_int_equal(json_integer_value(json_object_get(locals, "loader.batch_size")), 16);
    assert_true(json_is_null(json_object_get(locals, "data.otherwise")));
    assert_true(json_number_value(json_object_get(locals, "optimizer.momentum")) == 0);
    assert_true(json_is_false(json_object_get(locals, "trainer.enable_checkpointing")) ||
                json_is_string(json_object_get(locals, "trainer.enable_checkpointing")));
    json_decref(first);
    made_release(&m);
}

/* Where batches accumulate, those whose end has a step of the optimizer are marked. */
static void test_accumulation(void **state)
{
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_FIT, .log = path};
    char events[4096];
    json_t *first;
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "trainer.accumulate_grad_batches", "2");
    made_set(&m, "trainer.max_epochs", "1");
    made_set(&m, "trainer.num_sanity_val_steps", "0");
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    assert_ok(stk_training_events_end(m.parts.log, &m.err), &m.err);
    read_events(events, sizeof events, &first);
    assert_non_null(strstr(events, "epoch start; training start; training end; training start; "
                                   "training end; optimizer step; training start; training end; "
                                   "training start; training end; optimizer step; validation"));
    json_decref(first);
    made_release(&m);
}

/* The values of the line of metrics that has `name`, from line `*at` on; its event is the caller's.
 */
static json_t *metrics_of(FILE *f, const char *name)
{
    json_t *object = NULL;
    char *line = NULL;
    size_t room = 0;

    while (!object && getline(&line, &room, f) > 0) {
        json_t *one = json_loads(line, 0, NULL);
        if (json_object_get(json_object_get(one, "metrics"), name))
            object = one;
        else
            json_decref(one);
    }
    free(line);
    return object;
}

static double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* What loggers get is in the log, without a logger, too: at the steps that they count, with the
 * part of the epoch that is done and the learning rate. */
static void test_metrics(void **state)
{
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_FIT, .log = path};
    double loss;
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "trainer.log_every_n_steps", "2");
    made_set(&m, "trainer.logger", "false");
    made_set(&m, "optimizer.lr", "0.125");
    made_set(&m, "trainer.num_sanity_val_steps", "0");
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_loss", &loss));
    assert_ok(stk_training_events_end(m.parts.log, &m.err), &m.err);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int i = 0; i < 4; i++) {
        json_t *event = metrics_of(f, "train_loss");
        assert_non_null(event);
        assert_true(real_of(event, "step") == 2 * i + 1);
        assert_true(real_of(event, "epochs") == 0.5 * (i + 1));
        assert_true(real_of(event, "epoch") == i / 2);
        const json_t *values = json_object_get(event, "metrics");
        assert_true(real_of(values, "lr") == 0.125 && real_of(values, "train_loss") > 0);
        assert_null(json_object_get(values, "epoch"));
        json_decref(event);
    }
    rewind(f);
    json_decref(metrics_of(f, "val_loss"));
    json_t *last = metrics_of(f, "val_loss");
    assert_non_null(last);
    assert_true(real_of(last, "epochs") == 2);
    assert_true(real_of(json_object_get(last, "metrics"), "val_loss") == loss);
    json_decref(last);
    assert_null(metrics_of(f, "val_loss"));
    fclose(f);
    made_release(&m);
}

/* A rate that a callback logs is there once. */
static void test_rate_once(void **state)
{
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_FIT, .log = path};
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "trainer.log_every_n_steps", "1");
    made_set(&m, "callbacks", "lr_monitor(logging_interval=step)");
    made_set(&m, "trainer.logger", "csv");
    made_set(&m, "trainer.default_root_dir", folder);
    assert_ok(made_create(&m, &options), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    assert_ok(stk_training_events_end(m.parts.log, &m.err), &m.err);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    json_t *event = metrics_of(f, "lr-Adam");
    assert_non_null(event);
    json_decref(event);
    rewind(f);
    assert_null(metrics_of(f, "lr"));
    fclose(f);
    made_release(&m);
}

/* Without a file the same figures, and no file. */
static void test_no_file(void **state)
{
    stk_figures figures = {.struct_size = sizeof figures}, live = {.struct_size = sizeof live};
    struct stat at;
    made m;

    made_load(&m, *state, DIGITS);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    stk__figures_of_trainer(m.parts.trainer, m.parts.data->train, &live);
    stk_training_events_judge(m.parts.log, m.parts.data->train, &figures, NULL);
    assert_int_equal(figures.steps, live.steps);
    assert_true(figures.wall == live.wall);
    stk_training_events_judge(m.parts.log, NULL, &figures, NULL);
    assert_int_equal(figures.batch_size, 0); /* unknown */
    assert_ok(stk_training_events_end(m.parts.log, &m.err), &m.err);
    assert_int_not_equal(stat(path, &at), 0);
    made_release(&m);
}

/* Of a trainer made by hand, with options told by the caller. */
static void test_by_hand(void **state)
{
    const stk_training_events_options options = {
        .struct_size = sizeof options, .path = path, .locals = "\"mine\": 3", .begin_ns = 5};
    stk_training_events_options nowhere = {.struct_size = sizeof nowhere,
                                           .path = "/proc/nonexistent/run.jsonl"};
    stk_trainer_options trainer_options;
    stk_training_events *log = NULL;
    stk_trainer *trainer = NULL;
    char events[1024];
    json_t *first;
    stk_error err;

    stk_trainer_options_init(&trainer_options);
    trainer_options.logger = "false";
    assert_ok(stk_trainer_create(*state, &trainer_options, &trainer, &err), &err);
    assert_int_equal(stk_training_events_create(trainer, &nowhere, &log, &err), STK_ENOENT);
    assert_null(log);
    stk_trainer_destroy(&trainer);
    assert_ok(stk_trainer_create(*state, &trainer_options, &trainer, &err), &err);
    assert_ok(stk_training_events_create(trainer, &options, &log, &err), &err);
    stk_training_events_judge(log, NULL, NULL, NULL); /* nothing was trained */
    assert_ok(stk_training_events_end(log, &err), &err);
    stk_trainer_destroy(&trainer);
    stk_training_events_destroy(&log);
    assert_null(log);
    stk_training_events_destroy(&log);
    read_events(events, sizeof events, &first);
    assert_string_equal(events, "run start; setup start; run end");
    const json_t *locals = json_object_get(first, "locals");
    assert_int_equal(json_integer_value(json_object_get(locals, "mine")), 3);
    json_decref(first);
}

/* A recipe that fails late has begun its log, and ends it. */
static void test_fails_late(void **state)
{
    const stk_recipe_options options = {.struct_size = sizeof options, .log = path};
    char events[1024];
    json_t *first;
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "model.layers", "flatten, linear(3)");
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err, "10 classes");
    read_events(events, sizeof events, &first);
    assert_string_equal(events, "run start; setup start");
    json_decref(first);
    made_release(&m);
}

/* What a loader did between two looks, and nothing else of the figures. */
static void test_of_loader(void **state)
{
    stk_loader_stats then = {.struct_size = sizeof then}, now = {.struct_size = sizeof now};
    stk_figures f = {.struct_size = sizeof f, .steps = 7, .wall = 2};

    (void)state;
    then.request_bytes = 100;
    then.waits.parts_ns[STK_WAIT_DECODE] = 1000000000;
    then.stages[STK_LOADER_PREPARE].busy_ns = 500000000;
    now = then;
    now.request_bytes = 350;
    now.workers = 3;
    now.io_depth = 9;
    now.pictures = 4;
    now.decode_ns = 250000000;
    now.waits.parts_ns[STK_WAIT_DECODE] += 2000000000;
    now.stages[STK_LOADER_PREPARE].busy_ns += 1500000000;
    now.stages[STK_LOADER_READ].failures = 2;
    stk__figures_of_loader(&then, &now, &f);
    assert_int_equal(f.bytes_read, 250);
    assert_int_equal(f.num_workers, 3);
    assert_int_equal(f.io_depth, 9);
    assert_int_equal(f.pictures, 4);
    assert_int_equal(f.read_failures, 2);
    assert_true(f.decode_seconds == 0.25 && f.prepare_busy == 1.5);
    assert_true(f.waits[STK_WAIT_DECODE] == 2);
    assert_true(f.steps == 7 && f.wall == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recipe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_accumulation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_metrics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_hand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fails_late, set_up, tear_down),
        cmocka_unit_test(test_of_loader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
