/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates and momenta of whole trainings, step by step, as Lightning's trainer has them with
 * PyTorch's schedules (make_schedule_golden.py); each also resumed in the middle. */
#include <jansson.h>

#include "train/callbacks/callback.h"
#include "unit/train/said.h"
#include "unit/train/tiny.h"

enum { MOST = 64, MIDDLE = 9 }; /* steps of a case; the batch after which a checkpoint is saved */

static const double metrics[] = {1.0, 0.9, 0.895, 0.894, 0.893, 0.892, 0.5, 0.6, 0.6, 0.45};

/* What a training had at its steps. */
typedef struct record {
    double lr[MOST], momentum[MOST], last;
    uint64_t first, n;
} record;

typedef struct recorder {
    stk_callback base;
    bool every_step;
    const char *save; /* NULL: nothing */
    record *out;
} recorder;

static stk_status note(stk_trainer *t, uint64_t which, uint32_t flags, stk_error *err)
{
    return stk_trainer_log(t, "m", metrics[STK_MIN(which, STK_COUNT(metrics) - 1)], flags, 0, err);
}

static stk_status before_step(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    record *out = ((recorder *)callback)->out;

    assert_true(at->global_step < MOST);
    if (out->n == 0)
        out->first = at->global_step;
    out->n = at->global_step + 1;
    assert_true(at->module->ops->get_option(at->module, 0, "lr", &out->lr[at->global_step]));
    return at->module->ops->get_option(at->module, 0, "momentum", &out->momentum[at->global_step])
               ? STK_OK
               : STK_EINVAL;
}

static stk_status batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                            stk_error *err)
{
    const recorder *self = (const recorder *)callback;

    if (self->every_step)
        STK_TRY(note(t, at->total_batch, STK_ON_STEP, err));
    return self->save && at->total_batch == MIDDLE
               ? stk_trainer_save(t, self->save, false, NULL, err)
               : STK_OK;
}

static stk_status epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                            stk_error *err)
{
    return ((recorder *)callback)->every_step ? STK_OK : note(t, at->epoch, STK_ON_EPOCH, err);
}

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err);

static void destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops recorder_ops = {.struct_size = sizeof recorder_ops,
                                              .name = "recorder",
                                              .doc = "records",
                                              .create = create,
                                              .destroy = destroy,
                                              .on_before_optimizer_step = before_step,
                                              .on_train_batch_end = batch_end,
                                              .on_train_epoch_end = epoch_end};

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err)
{
    recorder *self = calloc(1, sizeof *self);

    self->base = (stk_callback){&recorder_ops, ctx};
    *out = &self->base;
    return STK_OK;
}

/* What all trainings share, and the parts that a case sets. */
typedef struct shared {
    bench b;
    stk_model_builder *builder;
    stk_optimizer_options optimizer;
    stk_schedule schedule;
    stk_model_module_options module;
    json_t *golden;
} shared;

static int set_up(void **state)
{
    static const int64_t shape[] = {28, 28, 1};
    static shared s;
    json_error_t error;
    bench *b = &s.b;

    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:14", &b->dataset, &b->err),
              &b->err);
    b->loader.batch_size = 2;
    b->loader.transforms = "to_float";
    b->train.dataset = b->dataset;
    b->data.num_val = 0;
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &s.builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(s.builder, "flatten, linear(10)", &b->err), &b->err);
    s.golden = json_load_file(TESTS_DIR "/golden/train/schedules.json", 0, &error);
    *state = &s;
    return s.golden ? 0 : -1;
}

static int tear_down(void **state)
{
    shared *s = *state;

    json_decref(s->golden);
    stk_model_builder_destroy(&s->builder);
    bench_close(&s->b);
    return 0;
}

static const char *shown(const json_t *value, char text[64])
{
    if (json_is_string(value))
        return json_string_value(value);
    snprintf(text, 64, "%.17g", json_number_value(value));
    return text;
}

/* Options of a table that a case has. */
static void set_options(shared *s, const json_t *item, const char *name, void *options)
{
    const stk_option_table *table = stk_option_table_find(name);
    char text[64];

    for (size_t i = 0; i < table->count; i++) {
        const json_t *value = json_object_get(item, table->options[i].name);
        if (value)
            assert_ok(stk_options_set(table, options, table->options[i].name, shown(value, text),
                                      &s->b.err),
                      &s->b.err);
    }
}

static void train(shared *s, const json_t *item, const char *save, const char *from, record *out)
{
    const json_t *accumulate = json_object_get(item, "accumulate");
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = s->builder,
                                   .optimizer = &s->optimizer,
                                   .schedule = &s->schedule,
                                   .options = &s->module};
    stk_trainer *t;
    stk_module *module;
    stk_callback *added;
    stk_error *err = &s->b.err;

    memset(out, 0, sizeof *out);
    assert_ok(stk_model_module_create(s->b.ctx, &parts, &module, err), err);
    assert_ok(stk_trainer_create(s->b.ctx, &s->b.options, &t, err), err);
    if (json_is_string(accumulate))
        add(&s->b, t, &stk__callback_accumulation, "scheduling", json_string_value(accumulate),
            NULL);
    assert_ok(stk_trainer_add_callback(t, &recorder_ops, NULL, &added, err), err);
    recorder *own = (recorder *)added;
    own->every_step = s->module.interval == 0;
    own->save = save;
    own->out = out;
    assert_ok(stk_trainer_fit(t, module, &s->b.data, from, err), err);
    assert_true(module->ops->get_option(module, 0, "lr", &out->last));
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
}

/* value, count, value, count, ... */
static void check_runs(const json_t *item, const char *key, const double *is, uint64_t first,
                       uint64_t n)
{
    const json_t *runs = json_object_get(item, key);
    uint64_t step = 0;

    for (size_t i = 0; runs && i < json_array_size(runs); i += 2) {
        const double wanted = json_number_value(json_array_get(runs, i));
        const uint64_t end = step + (uint64_t)json_integer_value(json_array_get(runs, i + 1));
        for (; step < end; step++) {
            if (step < first || fabs(is[step] - wanted) < 1e-12)
                continue;
            char *text = json_dumps(item, 0);
            fail_msg("%s of step %u is %.17g, not %.17g: %s", key, (unsigned)step, is[step], wanted,
                     text);
        }
    }
    if (runs)
        assert_int_equal(n, step);
}

static void check_record(const json_t *item, const record *is)
{
    const json_t *last = json_object_get(item, "last");

    check_runs(item, "lr", is->lr, is->first, is->n);
    check_runs(item, "momentum", is->momentum, is->first, is->n);
    if (last && fabs(is->last - json_number_value(last)) > 1e-12) {
        char *text = json_dumps(item, 0);
        fail_msg("the last lr is %.17g: %s", is->last, text);
    }
}

static void prepare(shared *s, const json_t *item)
{
    const json_t *accumulate = json_object_get(item, "accumulate");
    const json_t *max_epochs = json_object_get(item, "max_epochs");
    const json_t *max_steps = json_object_get(item, "max_steps");

    stk_optimizer_options_init(&s->optimizer);
    s->optimizer.name = STK_SGD;
    s->optimizer.lr = 0.3;
    s->optimizer.momentum = 0.9;
    stk_schedule_init(&s->schedule);
    set_options(s, item, "lr_scheduler", &s->schedule);
    stk_model_module_options_init(&s->module);
    s->module.monitor = "m";
    json_t *copy = json_copy((json_t *)item);
    json_object_del(copy, "weights");
    set_options(s, copy, "module", &s->module);
    json_decref(copy);
    s->b.options.accumulate_grad_batches =
        json_is_integer(accumulate) ? (uint64_t)json_integer_value(accumulate) : 1;
    s->b.options.max_epochs = max_epochs ? json_integer_value(max_epochs) : 5;
    s->b.options.max_steps = max_steps ? json_integer_value(max_steps) : -1;
}

static void as_lightning(void **state)
{
    shared *s = *state;
    char path[300];
    json_t *item;
    record is;
    size_t i;

    snprintf(path, sizeof path, "%s/middle.safetensors", s->b.folder);
    json_array_foreach(s->golden, i, item)
    {
        prepare(s, item);
        train(s, item, path, NULL, &is);
        check_record(item, &is);
        train(s, item, NULL, path, &is);
        assert_true(is.first > 0);
        check_record(item, &is);
    }
    assert_true(i > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_lightning)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
