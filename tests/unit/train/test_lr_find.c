/* SPDX-License-Identifier: Apache-2.0 */
/* lr_find: Lightning's rates and suggestion, and a training that is as one with the rate given. */
#include "train/callbacks/callback.h"
#include "unit/train/said.h"
#include "unit/train/tiny.h"

/* ---- The search of a module that only notes its rates ---------------------------------------- */

static double rate, rates[64];
static uint64_t tried, nan_at;

static bool set_option(stk_module *module, uint32_t group, const char *name, double value)
{
    rate = value;
    return true;
}

static bool get_option(const stk_module *module, uint32_t group, const char *name, double *value)
{
    *value = rate;
    return strcmp(name, "lr") == 0;
}

static stk_status series_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                              stk_loss *loss, stk_error *err)
{
    const double i = (double)tried;

    rates[tried] = rate;
    *loss = (stk_loss){.value = {.value = 2.3 - 2 / (1 + exp(-(i - 12) / 2)) +
                                          (i > 18 ? 3 * (i - 18) * (i - 18) : 0)}};
    if (++tried == nan_at)
        loss->value.value = NAN;
    return STK_OK;
}

/* A new optimizer has the rate that it was configured with. */
static stk_status new_optimizer(stk_module *module, stk_trainer *t, stk_optimizers *out,
                                stk_error *err)
{
    rate = 0.25;
    return tiny_configure_optimizers(module, t, out, err);
}

/* Ends the fit behind the search. */
static stk_status stop_here(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_error *err)
{
    return stk_trainer_get_options(t)->max_epochs == 1
               ? stk__fail(err, STK_ECANCELED, STK_STAGE_TRAIN, "enough")
               : STK_OK;
}

/* As _LRFinder and _LRCallback of Lightning 2.6 with the same losses. */
static void suggests_as_lightning(void **state)
{
    static const struct {
        const char *mode, *n, *threshold;
        uint64_t nan, steps;
        double second, last, found; /* 0: none */
    } cases[] = {
        {"exponential", "30", "4", 0, 23, 0.00018478497974222912, 0.11659144011798324,
         0.003981071705534973},
        {"linear", "30", "4", 0, 23, 0.06676, 0.7666900000000001, 0.53338},
        {"exponential", "12", "4", 0, 12, 0.00046415888336127784, 1, 0},
        {"exponential", "13", "4", 0, 13, 0.00041246263829013526, 1, 0.24244620170823283},
        {"exponential", "30", "0", 0, 30, 0.00018478497974222912, 1, 0.003981071705534973},
        {"exponential", "40", "4", 21, 40, 0.00015848931924611136, 1, 0.00199526231496888},
    };
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    for (size_t c = 0; c < STK_COUNT(cases); c++) {
        tiny_init(&m);
        m.ops.training_step = series_step;
        m.ops.set_option = set_option;
        m.ops.get_option = get_option;
        m.ops.on_train_start = stop_here;
        m.ops.configure_optimizers = new_optimizer;
        tried = 0;
        nan_at = cases[c].nan;
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        add(&b, t, &stk__callback_lr_find, "num_training", cases[c].n, "mode", cases[c].mode,
            "min_lr", "1e-4", "early_stop_threshold", cases[c].threshold, NULL);
        assert_int_equal(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_ECANCELED);
        assert_int_equal(tried, cases[c].steps);
        assert_true(rates[0] == 1e-4 && fabs(rates[1] / cases[c].second - 1) < 1e-12);
        assert_true(fabs(rates[tried - 1] / cases[c].last - 1) < 1e-12);
        /* The rate of the module, where there is no suggestion. */
        assert_true(fabs(rate / (cases[c].found > 0 ? cases[c].found : 0.25) - 1) < 1e-12);
        stk_trainer_destroy(&t);
    }
    bench_close(&b);
}

static bool set_nothing(stk_module *module, uint32_t group, const char *name, double value)
{
    return false;
}

/* A group without a rate is left out; a module without any is refused. */
static void no_rate(void **state)
{
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    tiny_init(&m);
    m.ops.set_option = set_nothing;
    m.ops.get_option = get_option;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_lr_find, "num_training", "30", NULL);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_ENOTSUP, &b.err,
                 "the module has no learning rate that can be set");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_trainer *stopped;

static stk_status stop_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    if (tried == 4)
        stk_trainer_stop(stopped);
    return series_step(module, t, at, loss, err);
}

/* A stop of the training is one of its search. */
static void is_stopped(void **state)
{
    bench b;
    tiny m;

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = stop_step;
    m.ops.set_option = set_option;
    m.ops.get_option = get_option;
    rate = 0.25;
    tried = nan_at = 0;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &stopped, &b.err), &b.err);
    add(&b, stopped, &stk__callback_lr_find, "num_training", "30", NULL);
    assert_int_equal(stk_trainer_fit(stopped, &m.base, &b.data, NULL, &b.err), STK_ECANCELED);
    assert_int_equal(tried, 5);
    stk_trainer_destroy(&stopped);
    bench_close(&b);
}

/* ---- What is left of it ---------------------------------------------------------------------- */

/* A model on digits, and what a test varies. */
typedef struct rig {
    bench b;
    stk_model_builder *builder;
    stk_optimizer_options optimizer;
    stk_schedule schedule;
    stk_model_module_options module;
    const char *rates; /* lr_find(num_training=...); NULL: none */
} rig;

static void rig_open(rig *r)
{
    static const int64_t shape[] = {1, 28, 28};
    bench *b = &r->b;

    memset(r, 0, sizeof *r);
    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:200", &b->dataset, &b->err),
              &b->err);
    b->loader.batch_size = 20;
    b->loader.transforms = "random_crop(28, padding=2), layout(chw), to_float";
    b->val_loader.transforms = "layout(chw), to_float";
    b->train.dataset = b->val.dataset = b->dataset;
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &r->builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(
                  r->builder, "conv2d(4, 3), batch_norm2d, relu, flatten, dropout(0.2), linear(10)",
                  &b->err),
              &b->err);
    stk_optimizer_options_init(&r->optimizer);
    stk_schedule_init(&r->schedule);
    stk_model_module_options_init(&r->module);
    b->options.max_epochs = 4;
    b->options.seed_everything = 1;
}

static void rig_close(rig *r)
{
    stk_model_builder_destroy(&r->builder);
    bench_close(&r->b);
}

typedef struct outcome {
    float first[36];
    double val_loss, lr;
} outcome;

static stk_status fit(rig *r, const char *from, outcome *out)
{
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = r->builder,
                                   .optimizer = &r->optimizer,
                                   .schedule = &r->schedule,
                                   .options = &r->module};
    bench *b = &r->b;
    stk_trainer *t;
    stk_module *module;
    stk_state_tensor tensor;

    memset(out, 0, sizeof *out);
    assert_ok(stk_model_module_create(b->ctx, &parts, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    listen_to(t);
    if (r->rates)
        add(b, t, &stk__callback_lr_find, "num_training", r->rates, "min_lr", "1e-5", NULL);
    const stk_status status = stk_trainer_fit(t, module, &b->data, from, &b->err);
    if (status == STK_OK) {
        assert_int_equal(stk_model_get_state(stk_model_module_model(module), 0, &tensor, NULL),
                         STK_OK);
        memcpy(out->first, tensor.data, sizeof out->first);
        stk_trainer_metric(t, "val_loss", &out->val_loss);
        assert_true(module->ops->get_option(module, 0, "lr", &out->lr));
    }
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    return status;
}

/* Nothing is left of the search but its rate: weights, running statistics, the order of the data,
 * draws and schedules begin as in a training that was given the rate. */
static void as_with_the_rate_given(void **state)
{
    rig r;
    outcome searched, given, goes_on;

    for (int scheduled = 0; scheduled < 2; scheduled++) {
        rig_open(&r);
        if (scheduled) {
            r.schedule.name = STK_SCHEDULE_ONE_CYCLE;
            r.schedule.warmup_steps = 3;
            r.module.interval = 0;
            r.b.options.accumulate_grad_batches = 2;
        }
        r.rates = "40";
        r.b.options.enable_checkpointing = STK_SWITCH_TRUE;
        assert_ok(fit(&r, NULL, &searched), &r.b.err);
        const char *line = strstr(said, "Learning rate set to ");
        assert_non_null(line);
        const double found = strtod(line + strlen("Learning rate set to "), NULL);
        assert_true(found > 1e-5 && found < 1);
        if (!scheduled)
            assert_true(searched.lr == found);
        r.rates = NULL;
        r.optimizer.lr = found;
        r.b.options.enable_checkpointing = STK_SWITCH_FALSE;
        assert_ok(fit(&r, NULL, &given), &r.b.err);
        assert_memory_equal(&searched, &given, sizeof given);
        /* A run that goes on has the rate from the checkpoint: of epoch 1, to the same end. */
        stk_optimizer_options_init(&r.optimizer);
        r.rates = "40";
        char path[400];
        r.b.options.default_root_dir = r.b.folder;
        snprintf(path, sizeof path, "%s/checkpoints/epoch=3-step=%d.safetensors", r.b.folder,
                 scheduled ? 20 : 40);
        r.b.options.max_epochs = 6;
        if (scheduled)
            r.schedule.total_steps = 17;
        assert_ok(fit(&r, path, &goes_on), &r.b.err);
        assert_null(strstr(said, "Learning rate set to "));
        assert_true(scheduled || goes_on.lr == found);
        rig_close(&r);
    }
}

/* A training that goes on is not begun anew by a search that found nothing before. */
static void searches_once(void **state)
{
    char path[400];
    outcome whole, resumed;
    rig r;

    rig_open(&r);
    r.rates = "5";
    r.b.options.enable_checkpointing = STK_SWITCH_TRUE;
    r.b.options.default_root_dir = r.b.folder;
    assert_ok(fit(&r, NULL, &whole), &r.b.err);
    r.b.options.max_epochs = 2;
    assert_ok(fit(&r, NULL, &resumed), &r.b.err);
    r.b.options.max_epochs = 4;
    snprintf(path, sizeof path, "%s/checkpoints/epoch=1-step=20.safetensors", r.b.folder);
    assert_ok(fit(&r, path, &resumed), &r.b.err);
    assert_memory_equal(&resumed, &whole, sizeof whole);
    rig_close(&r);
}

static void refuses(void **state)
{
    stk_callback *out;
    outcome o;
    rig r;
    struct {
        uint64_t room[16];
    } given;

    rig_open(&r);
    r.rates = "20";
    r.schedule.name = STK_SCHEDULE_ONE_CYCLE;
    r.schedule.max_lr = 0.1;
    assert_fails(fit(&r, NULL, &o), STK_EINVAL, &r.b.err, "max_lr of its own");
    stk_schedule_init(&r.schedule);
    r.rates = "5";
    assert_ok(fit(&r, NULL, &o), &r.b.err);
    assert_true(o.lr == r.optimizer.lr);
    r.b.options.fast_dev_run = "1";
    assert_ok(fit(&r, NULL, &o), &r.b.err);
    assert_true(o.lr == r.optimizer.lr);
    const stk_option_table *table = stk__callback_lr_find.options;
    stk_options_init(table, &given, table->struct_size);
    assert_ok(stk_options_set(table, &given, "min_lr", "2", &r.b.err), &r.b.err);
    assert_fails(stk__callback_lr_find.create(r.b.ctx, &given, &out, &r.b.err), STK_EINVAL,
                 &r.b.err, "is not above min_lr");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggests_as_lightning),
        cmocka_unit_test(as_with_the_rate_given),
        cmocka_unit_test(refuses),
        cmocka_unit_test(is_stopped),
        cmocka_unit_test(no_rate),
        cmocka_unit_test(searches_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
