/* SPDX-License-Identifier: Apache-2.0 */
/* A model of layers under the trainer: learns, goes on bit for bit, predicts. */
#include "unit/train/tiny.h"

static stk_status labels_open(stk_context *ctx, stk_dataset **out, stk_error *err)
{
    return stk_dataset_open(ctx, "digits:?split=test&subset=0:200", out, err);
}

typedef struct run {
    bench b;
    stk_model_builder *builder;
    stk_optimizer_options optimizer;
    stk_schedule schedule;
    stk_model_module_options module_options;
    stk_model_parts recipe;
} run;

static void run_open(run *r)
{
    static const int64_t shape[] = {1, 28, 28};
    bench *b = &r->b;

    memset(r, 0, sizeof *r);
    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(labels_open(b->ctx, &b->dataset, &b->err), &b->err);
    b->loader.batch_size = 20;
    b->loader.transforms = "random_crop(28, padding=2), layout(chw), to_float";
    b->val_loader.batch_size = 30;
    b->val_loader.transforms = "layout(chw), to_float";
    b->train.dataset = b->val.dataset = b->dataset;
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &r->builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(r->builder,
                                    "flatten, linear(32), relu, dropout(0.2), linear(10)", &b->err),
              &b->err);
    stk_optimizer_options_init(&r->optimizer);
    r->optimizer.name = STK_ADAM;
    r->optimizer.lr = 3e-3;
    stk_schedule_init(&r->schedule);
    stk_model_module_options_init(&r->module_options);
    assert_int_equal(r->module_options.interval, 1);
    r->module_options.interval = 0;
    r->recipe = (stk_model_parts){.struct_size = sizeof r->recipe,
                                  .builder = r->builder,
                                  .optimizer = &r->optimizer,
                                  .schedule = &r->schedule,
                                  .options = &r->module_options};
    b->options.max_epochs = 3;
    b->options.seed_everything = 1;
}

static void run_close(run *r)
{
    stk_model_builder_destroy(&r->builder);
    bench_close(&r->b);
}

typedef struct outcome {
    float first[64];
    double val_loss, val_acc, lr;
    uint64_t batch; /* of the model's plan */
} outcome;

/* Fit a new module, stopped after `stop_steps` steps (0: not), from a checkpoint or anew. */
static stk_status fit(run *r, int64_t max_steps, const char *from, outcome *out)
{
    bench *b = &r->b;
    stk_trainer *t;
    stk_module *module;
    stk_state_tensor tensor;

    memset(out, 0, sizeof *out);
    b->options.max_steps = max_steps;
    assert_ok(stk_model_module_create(b->ctx, &r->recipe, &module, &b->err), &b->err);
    assert_null(stk_model_module_model(module));
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    stk_status status = stk_trainer_fit(t, module, &b->data, from, &b->err);
    if (status == STK_OK) {
        assert_int_equal(stk_model_get_state(stk_model_module_model(module), 0, &tensor, NULL),
                         STK_OK);
        memcpy(out->first, tensor.data, sizeof out->first);
        stk_trainer_metric(t, "val_loss", &out->val_loss);
        stk_trainer_metric(t, "val_acc", &out->val_acc);
        assert_true(module->ops->get_option(module, 0, "lr", &out->lr));
        const stk_optimizers *optimizers = stk_trainer_optimizers(t);
        assert_string_equal(optimizers->name, "Adam");
        assert_int_equal(optimizers->num_groups, 1);
        assert_int_equal(optimizers->num_schedulers, r->schedule.name != STK_SCHEDULE_CONSTANT);
    }
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    return status;
}

/* A plateau remembers its best, how often it was missed, how long it rests, and what it has done.
 */
static void plateau_goes_on(void **state)
{
    enum { STEPS = 10, EPOCHS = 7 }; /* steps of an epoch */
    outcome straight, resumed;
    run r;

    run_open(&r);
    r.schedule.name = STK_SCHEDULE_PLATEAU;
    r.schedule.mode = 1; /* of a loss: nothing is better than its first */
    r.schedule.factor = 0.5;
    r.schedule.patience = 1;
    r.schedule.cooldown = 1;
    r.module_options.interval = 1;
    r.b.options.max_epochs = EPOCHS;
    r.b.options.enable_checkpointing = STK_SWITCH_TRUE;
    assert_ok(fit(&r, -1, NULL, &straight), &r.b.err);
    assert_true(straight.lr < 0.3 * r.optimizer.lr);
    for (int64_t epoch = 1; epoch < EPOCHS; epoch++) {
        char root[300];
        snprintf(root, sizeof root, "%s/%lld", r.b.folder, (long long)epoch);
        r.b.options.default_root_dir = root;
        assert_ok(fit(&r, epoch * STEPS, NULL, &resumed), &r.b.err);
        assert_ok(fit(&r, -1, "last", &resumed), &r.b.err);
        assert_memory_equal(&straight, &resumed, sizeof straight);
    }
    run_close(&r);
}

static void learns(void **state)
{
    run r;
    outcome a, b;

    run_open(&r);
    r.b.options.max_epochs = 12;
    assert_ok(fit(&r, -1, NULL, &a), &r.b.err);
    assert_true(a.val_acc > 0.7);
    assert_ok(fit(&r, -1, NULL, &b), &r.b.err);
    assert_memory_equal(&a, &b, sizeof a);
    run_close(&r);
}

static void goes_on(void **state)
{
    run r;
    outcome straight, resumed;

    run_open(&r);
    r.b.options.accumulate_grad_batches = 3;
    r.b.options.gradient_clip_val = 1;
    r.schedule.name = STK_SCHEDULE_COSINE;
    r.b.options.enable_checkpointing = STK_SWITCH_TRUE;
    r.schedule.t_max = 12;
    assert_ok(fit(&r, -1, NULL, &straight), &r.b.err);
    assert_true(straight.lr < 1e-3);
    for (int64_t steps = 1; steps < 12; steps += 3) {
        char root[300];
        snprintf(root, sizeof root, "%s/%lld", r.b.folder, (long long)steps);
        r.b.options.default_root_dir = root;
        assert_ok(fit(&r, steps, NULL, &resumed), &r.b.err);
        assert_memory_not_equal(straight.first, resumed.first, sizeof straight.first);
        assert_ok(fit(&r, -1, "last", &resumed), &r.b.err);
        assert_memory_equal(&straight, &resumed, sizeof straight);
    }
    run_close(&r);
}

/* Asks the trainer to stop when validation begins. */
static stk_status stop_now(stk_callback *self, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    stk_trainer_stop(t);
    return STK_OK;
}

static stk_status stop_create(stk_context *ctx, const void *options, stk_callback **out,
                              stk_error *err);

static void stop_destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops stop_ops = {.struct_size = sizeof stop_ops,
                                          .name = "stop",
                                          .create = stop_create,
                                          .destroy = stop_destroy,
                                          .on_validation_start = stop_now};

static stk_status stop_create(stk_context *ctx, const void *options, stk_callback **out,
                              stk_error *err)
{
    *out = calloc(1, sizeof **out);
    **out = (stk_callback){&stop_ops, ctx};
    return STK_OK;
}

/* Validation after the fourth of windows of three: half a window's gradients are in the file. */
static void goes_on_within_a_window(void **state)
{
    run r;
    outcome straight, resumed;
    stk_module *module;
    stk_trainer *t;

    run_open(&r);
    bench *b = &r.b;
    b->options.accumulate_grad_batches = 3;
    b->options.val_check_interval = "4";
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    assert_ok(fit(&r, -1, NULL, &straight), &b->err);
    char root[300];
    snprintf(root, sizeof root, "%s/stopped", b->folder);
    b->options.default_root_dir = root;
    assert_ok(stk_model_module_create(b->ctx, &r.recipe, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, &stop_ops, NULL, NULL, &b->err), &b->err);
    assert_fails(stk_trainer_fit(t, module, &b->data, NULL, &b->err), STK_ECANCELED, &b->err,
                 "stopped in validation");
    assert_true(t->loop.window_open);
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    assert_ok(fit(&r, -1, "last", &resumed), &b->err);
    assert_memory_equal(&straight, &resumed, sizeof straight);
    run_close(&r);
}

/* The options of a module after 12 steps of a schedule. */
static void options_after(run *r, double *lr, double *momentum)
{
    bench *b = &r->b;
    stk_module *module;
    stk_trainer *t;
    double value;

    b->options.max_steps = 12;
    assert_ok(stk_model_module_create(b->ctx, &r->recipe, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    assert_false(module->ops->set_option(module, 0, "lr", 1)); /* there is no optimizer yet */
    assert_ok(stk_trainer_fit(t, module, &b->data, NULL, &b->err), &b->err);
    assert_true(module->ops->get_option(module, 0, "lr", lr));
    assert_true(module->ops->get_option(module, 0, "momentum", momentum));
    assert_true(module->ops->get_option(module, 0, "weight_decay", &value) && value == 0.25);
    /* Another rate: what the schedule starts from. */
    assert_true(module->ops->set_option(module, 0, "lr", 0.5));
    assert_true(module->ops->get_option(module, 0, "lr", &value));
    assert_true(r->schedule.name == STK_SCHEDULE_CONSTANT ? value == 0.5 : value == *lr);
    assert_false(module->ops->set_option(module, 1, "lr", 1));
    assert_false(module->ops->set_option(module, 0, "momentum", 1));
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
}

/* As torch.optim.lr_scheduler.OneCycleLR: 30 steps, of which 9 rise. */
static void cycles_momentum(void **state)
{
    const double share = (1 + cos(3.14159265358979323846 * (12 - 8) / (29 - 8))) / 2;
    const double wanted = 0.95 + (0.85 - 0.95) * share, last = 0.02 / 25 / 1e4;
    double lr, momentum;
    run r;

    run_open(&r);
    r.schedule.name = STK_SCHEDULE_ONE_CYCLE;
    r.schedule.total_steps = 30;
    r.optimizer.weight_decay = 0.25;
    r.schedule.max_lr = 0.02;
    options_after(&r, &lr, &momentum); /* adam: its beta1 */
    assert_true(fabs(momentum - wanted) < 1e-12);
    assert_true(fabs(lr - (last + (0.02 - last) * share)) < 1e-12);
    r.optimizer.name = STK_SGD;
    r.optimizer.momentum = 0.5;
    options_after(&r, &lr, &momentum);
    assert_true(fabs(momentum - wanted) < 1e-12);
    /* Without memory for one there is none. */
    r.optimizer.momentum = 0;
    options_after(&r, &lr, &momentum);
    assert_true(momentum == 0);
    r.schedule.name = STK_SCHEDULE_CONSTANT;
    options_after(&r, &lr, &momentum);
    run_close(&r);
}

static void spans_the_training(void **state)
{
    run r;
    outcome o;

    run_open(&r);
    r.schedule.name = STK_SCHEDULE_COSINE;
    assert_ok(fit(&r, -1, NULL, &o), &r.b.err);
    assert_true(o.lr < 1e-9);
    r.module_options.interval = 1;
    assert_ok(fit(&r, -1, NULL, &o), &r.b.err);
    assert_true(o.lr < 1e-9);
    r.schedule.name = STK_SCHEDULE_PLATEAU;
    r.schedule.patience = 0;
    r.schedule.factor = 0.5;
    r.schedule.threshold = 1;
    assert_ok(fit(&r, -1, NULL, &o), &r.b.err);
    /* With a threshold of 1 nothing is better, the first value included. */
    assert_true(fabs(o.lr - 3e-3 * 0.125) < 1e-9);
    run_close(&r);
}

/* Each training of a module has the length of its schedule from its own trainer. */
static void spans_each_training(void **state)
{
    stk_module *module;
    stk_trainer *t;
    double lr;
    run r;

    run_open(&r);
    bench *b = &r.b;
    r.schedule.name = STK_SCHEDULE_COSINE;
    r.module_options.interval = 1;
    assert_ok(stk_model_module_create(b->ctx, &r.recipe, &module, &b->err), &b->err);
    for (b->options.max_epochs = 2; b->options.max_epochs <= 4; b->options.max_epochs += 2) {
        assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
        assert_ok(stk_trainer_fit(t, module, &b->data, NULL, &b->err), &b->err);
        assert_true(module->ops->get_option(module, 0, "lr", &lr) && lr == 0);
        stk_trainer_destroy(&t);
    }
    stk_module_destroy(&module);
    run_close(&r);
}

static void other_tasks(void **state)
{
    run r;
    stk_trainer *t;
    stk_module *module;
    double value;

    run_open(&r);
    bench *b = &r.b;
    assert_ok(stk_model_module_create(b->ctx, &r.recipe, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    /* Weights stay when the plan changes from one task to the next. */
    assert_ok(stk_trainer_test(t, module, &b->data, NULL, &b->err), &b->err);
    assert_ok(stk_trainer_fit(t, module, &b->data, NULL, &b->err), &b->err);
    assert_true(stk_trainer_metric(t, "val_loss", &value));
    const double fitted = value;
    assert_ok(stk_trainer_test(t, module, &b->data, NULL, &b->err), &b->err);
    assert_true(stk_trainer_metric(t, "test_loss", &value));
    assert_true(fabs(value - fitted) < 1e-6);
    assert_ok(stk_trainer_predict(t, module, &b->data, NULL, &b->err), &b->err);
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    /* Another begins with the weights of a checkpoint. */
    char path[400];
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    outcome o;
    assert_ok(fit(&r, -1, NULL, &o), &b->err);
    snprintf(path, sizeof path, "%s/checkpoints/epoch=2-step=30.safetensors", b->folder);
    b->options.enable_checkpointing = STK_SWITCH_FALSE;
    r.module_options.weights = path;
    assert_ok(stk_model_module_create(b->ctx, &r.recipe, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    assert_ok(stk_trainer_validate(t, module, &b->data, NULL, &b->err), &b->err);
    assert_true(stk_trainer_metric(t, "val_loss", &value));
    assert_true(fabs(value - o.val_loss) < 1e-6);
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    r.module_options.weights = NULL;
    /* What is missing is named. */
    r.module_options.target = "nothing";
    assert_ok(stk_model_module_create(b->ctx, &r.recipe, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    assert_fails(stk_trainer_fit(t, module, &b->data, NULL, &b->err), STK_EINVAL, &b->err,
                 "'nothing'");
    b->loader.transforms = NULL;
    assert_fails(stk_trainer_fit(t, module, &b->data, NULL, &b->err), STK_EINVAL, &b->err,
                 "to_float");
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    run_close(&r);
}

/* Batches that do not fit the model or its loss are refused before anything of them is read. */
static void batches_that_do_not_fit(void **state)
{
    run r;
    outcome o;
    stk_model_options model;

    run_open(&r);
    bench *b = &r.b;
    stk_model_options_init(&model);
    r.recipe.model = &model;
    model.loss = STK_LOSS_MSE;
    assert_fails(fit(&r, 3, NULL, &o), STK_EINVAL, &b->err, "numbers of shape [10] a row");
    model.loss = STK_LOSS_CROSS_ENTROPY;
    r.module_options.target = "image";
    assert_fails(fit(&r, 3, NULL, &o), STK_EINVAL, &b->err, "takes classes of shape [] a row");
    r.module_options.target = "label";
    b->loader.batch_transforms = "mixup(0.2)";
    assert_fails(fit(&r, -1, NULL, &o), STK_ENOTSUP, &b->err, "have two labels");
    b->loader.batch_transforms = NULL;
    b->val_loader.transforms = "center_crop(20), layout(chw), to_float";
    assert_fails(fit(&r, -1, NULL, &o), STK_EINVAL, &b->err, "784 numbers a row");
    run_close(&r);
}

enum { PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10 };

/* All parameters after a step of SGD with this rate. */
static void step_once(run *r, double lr, double clip, int32_t algorithm, float out[PARAMETERS])
{
    bench *b = &r->b;
    stk_state_tensor tensor;
    stk_module *module;
    stk_trainer *t;
    size_t n = 0;

    r->optimizer.name = STK_SGD;
    r->optimizer.lr = lr;
    b->options.max_steps = 1;
    b->options.gradient_clip_val = clip;
    b->options.gradient_clip_algorithm = algorithm;
    assert_ok(stk_model_module_create(b->ctx, &r->recipe, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    assert_ok(stk_trainer_fit(t, module, &b->data, NULL, &b->err), &b->err);
    stk_model *model = stk_model_module_model(module);
    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++) {
        assert_true(n + tensor.bytes / sizeof *out <= PARAMETERS);
        memcpy(out + n, tensor.data, tensor.bytes);
        n += tensor.bytes / sizeof *out;
    }
    assert_int_equal(n, PARAMETERS);
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
}

/* As torch.nn.utils has it: by value each gradient is bounded for itself, by norm all become
 * smaller alike. */
static void clips(void **state)
{
    static float begin[PARAMETERS], plain[PARAMETERS], value[PARAMETERS], norm[PARAMETERS];
    const double bound = 0.01;
    double squares = 0;
    int low = 0, high = 0, within = 0;
    run r;

    run_open(&r);
    step_once(&r, 0, 0, STK_CLIP_NORM, begin);
    step_once(&r, 1, 0, STK_CLIP_NORM, plain);
    step_once(&r, 1, bound, STK_CLIP_VALUE, value);
    step_once(&r, 1, bound, STK_CLIP_NORM, norm);
    for (size_t i = 0; i < PARAMETERS; i++) {
        const double gradient = (double)begin[i] - (double)plain[i];
        const double wanted = fmax(fmin(gradient, bound), -bound);
        assert_true(fabs((double)begin[i] - (double)value[i] - wanted) < 1e-6);
        squares += gradient * gradient;
        low += gradient < -bound;
        high += gradient > bound;
        within += gradient != 0 && fabs(gradient) < bound;
    }
    assert_true(low > 10 && high > 10 && within > 10);
    const double scale = bound / sqrt(squares);
    assert_true(scale < 0.5);
    for (size_t i = 0; i < PARAMETERS; i++) {
        const double gradient = (double)begin[i] - (double)plain[i];
        assert_true(fabs((double)begin[i] - (double)norm[i] - scale * gradient) < 1e-6);
    }
    run_close(&r);
}

/* What is written into the state in place of a tensor's bytes. */
typedef struct forgery {
    const char *name;
    const void *bytes; /* 8 of them */
} forgery;

static stk_status write_over(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                             stk_error *err)
{
    const forgery *f = user;

    if (strcmp(tensor->name, f->name) == 0)
        memcpy(tensor->data, f->bytes, 8);
    return STK_OK;
}

/* A checkpoint's counts of steps and the scale of its rate are such as a run comes to. */
static void counts_of_others(void **state)
{
    static const int64_t most = INT64_MAX, least = INT64_MIN, minus = -1, many = 1000;
    static const double none = NAN, negative = -0.5, half = 0.5;
    static const struct {
        forgery f;
        bool sound;
    } cases[] = {{{"step", &many}, true},
                 {{"step", &most}, false},
                 {{"step", &minus}, false},
                 {{"step", &least}, false},
                 {{"schedule.steps", &many}, true},
                 {{"schedule.steps", &most}, false},
                 {{"schedule.steps", &minus}, false},
                 {{"schedule.bad", &minus}, false},
                 {{"schedule.cooldown", &minus}, false},
                 {{"schedule.scale", &none}, false},
                 {{"schedule.scale", &negative}, false},
                 {{"schedule.scale", &half}, true},
                 {{"schedule.best", &none}, true}};
    stk_module *module;
    stk_trainer *t;
    run r;

    run_open(&r);
    r.b.options.max_steps = 1;
    assert_ok(stk_model_module_create(r.b.ctx, &r.recipe, &module, &r.b.err), &r.b.err);
    assert_ok(stk_trainer_create(r.b.ctx, &r.b.options, &t, &r.b.err), &r.b.err);
    assert_ok(stk_trainer_fit(t, module, &r.b.data, NULL, &r.b.err), &r.b.err);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        static const int64_t zero = 0;
        static const double one = 1;
        const forgery sound = {cases[i].f.name, strcmp(cases[i].f.name, "schedule.scale")
                                                    ? (void *)&zero
                                                    : (void *)&one};
        forgery f = cases[i].f;
        const stk_status status =
            module->ops->state(module, STK_STATE_OPTIMIZER, write_over, &f, &r.b.err);
        if (cases[i].sound)
            assert_ok(status, &r.b.err);
        else
            assert_fails(status, STK_EFORMAT, &r.b.err, "no run comes to");
        f = sound;
        assert_ok(module->ops->state(module, STK_STATE_OPTIMIZER, write_over, &f, &r.b.err),
                  &r.b.err);
    }
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(plateau_goes_on),
        cmocka_unit_test(goes_on_within_a_window),
        cmocka_unit_test(spans_the_training),
        cmocka_unit_test(spans_each_training),
        cmocka_unit_test(other_tasks),
        cmocka_unit_test(batches_that_do_not_fit),
        cmocka_unit_test(clips),
        cmocka_unit_test(cycles_momentum),
        cmocka_unit_test(counts_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
