/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged: names, means, when, and that it costs no memory. */
#include "unit/train/said.h"

/* A logger that keeps what it is given. */
typedef struct line {
    int64_t step;
    size_t n;
    char names[8][40];
    double values[8];
} line;

static line lines[256];
static size_t num_lines;
static int closed;

static stk_status keep_open(stk_context *ctx, const void *options, const char *root,
                            stk_logger **out, stk_error *err);

static void keep_close(stk_logger *logger)
{
    closed++;
    free(logger);
}

static stk_status keep_metrics(stk_logger *logger, const stk_metric *metrics, size_t n,
                               int64_t step, double wall_time, stk_error *err)
{
    line *l = &lines[num_lines++];

    *l = (line){.step = step, .n = n};
    assert_true(n <= 8 && num_lines < 256);
    for (size_t i = 0; i < n; i++) {
        snprintf(l->names[i], sizeof l->names[i], "%s", metrics[i].name);
        l->values[i] = metrics[i].value;
    }
    return STK_OK;
}

static const stk_logger_ops keep_ops = {.struct_size = sizeof keep_ops,
                                        .name = "keep",
                                        .open = keep_open,
                                        .close = keep_close,
                                        .log_metrics = keep_metrics};

static stk_status keep_open(stk_context *ctx, const void *options, const char *root,
                            stk_logger **out, stk_error *err)
{
    *out = calloc(1, sizeof **out);
    **out = (stk_logger){.ops = &keep_ops, .context = ctx, .version = -1};
    return STK_OK;
}

static void add_logger(bench *b, stk_trainer *t, void *user)
{
    num_lines = 0;
    assert_ok(stk_trainer_add_logger(t, &keep_ops, NULL, &b->err), &b->err);
}

static const double *find(const line *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->names[i], name) == 0)
            return &l->values[i];
    return NULL;
}

static stk_status log_position(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_loss *loss, stk_error *err)
{
    const double value = (double)at->total_batch;

    STK_TRY(stk_trainer_log(t, "mean", value, STK_ON_EPOCH, 0, err));
    STK_TRY(stk_trainer_log(t, "weighted", value, STK_ON_EPOCH, at->batch_idx + 1, err));
    STK_TRY(stk_trainer_log(t, "sum", value, STK_ON_EPOCH | STK_REDUCE_SUM, 0, err));
    STK_TRY(stk_trainer_log(t, "least", value, STK_ON_EPOCH | STK_REDUCE_MIN, 0, err));
    STK_TRY(stk_trainer_log(t, "most", value, STK_ON_EPOCH | STK_REDUCE_MAX, 0, err));
    STK_TRY(stk_trainer_log(t, "quiet", value, STK_ON_STEP | STK_NO_LOGGER, 0, err));
    return stk_trainer_log(t, "both", value, STK_ON_STEP | STK_ON_EPOCH, 0, err);
}

static void reductions(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    double weighted = 0;

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = log_position;
    b.options.logger = "auto";
    b.options.max_epochs = 2;
    b.options.log_every_n_steps = 4;
    b.options.limit_val_batches = "0";
    b.prepare = add_logger;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    /* Steps 3 and 7 of each epoch's ten, and the end of the epoch: 3 7 9 11 15 19 19. */
    static const int64_t steps[] = {3, 7, 9, 11, 15, 19, 19};
    assert_int_equal(num_lines, 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(lines[i].step, steps[i]);
    assert_true(*find(&lines[1], "both_step") == 7);
    assert_null(find(&lines[1], "quiet"));
    assert_true(*find(&lines[1], "epoch") == 0);
    const line *end = &lines[6];
    assert_true(*find(end, "mean") == 14.5);
    assert_true(*find(end, "sum") == 145);
    assert_true(*find(end, "least") == 10);
    assert_true(*find(end, "most") == 19);
    assert_true(*find(end, "both_epoch") == 14.5);
    for (int i = 0; i < 10; i++)
        weighted += (10.0 + i) * (i + 1) / 55;
    assert_true(fabs(*find(end, "weighted") - weighted) < 1e-12);
    assert_true(*find(end, "epoch") == 1);
    double value;
    assert_true(stk_trainer_metric(t, "both", &value) && value == 14.5);
    assert_true(stk_trainer_metric(t, "both_step", &value) && value == 19);
    stk_metric metric;
    size_t n = 0;
    while (stk_trainer_metric_at(t, n, &metric))
        n++;
    assert_int_equal(n, 9);
    closed = 0;
    stk_trainer_destroy(&t);
    assert_int_equal(closed, 1);
    b.options.log_every_n_steps = 0;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(num_lines, 2);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status log_none(stk_module *module, stk_trainer *t, const stk_moment *at, stk_loss *loss,
                           stk_error *err)
{
    return stk_trainer_log(t, "none", copysign(NAN, -1), STK_ON_STEP | STK_ON_EPOCH, 0, err);
}

/* What is no number is printed as "nan", whatever its sign. */
static void no_number_has_a_sign(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    double value;
    size_t seen = 0;

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = log_none;
    b.options.logger = "auto";
    b.options.max_epochs = 1;
    b.options.limit_val_batches = "0";
    b.prepare = add_logger;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_true(stk_trainer_metric(t, "none", &value) && isnan(value) && !signbit(value));
    for (size_t i = 0; i < num_lines; i++)
        for (size_t k = 0; k < lines[i].n; k++)
            if (isnan(lines[i].values[k])) {
                assert_false(signbit(lines[i].values[k]));
                seen++;
            }
    assert_true(seen > 0);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void validation_is_weighted_by_rows(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.test_step = NULL;
    b.options.logger = "auto";
    b.prepare = add_logger;
    m.val_slope = 2;
    b.options.max_epochs = 2;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    size_t found = 0;
    for (size_t i = 0; i < num_lines; i++)
        if (find(&lines[i], "val_loss")) {
            assert_true(*find(&lines[i], "val_loss") == 1 + 2 * (double)found);
            assert_int_equal(lines[i].step, found ? 19 : 9);
            found++;
        }
    assert_int_equal(found, 2);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status log_idx(stk_module *module, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    return stk_trainer_log(t, "x", (double)at->dataloader_idx, 0, 0, err);
}

/* The built-in loggers share the folder of the run, and the checkpoints lie beside their files. */
static void folders_of_runs(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char path[400];

    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.options.logger = "auto";
    b.options.log_every_n_steps = 5;
    for (int version = 0; version < 2; version++) {
        tiny_init(&m);
        assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
        snprintf(path, sizeof path, "%s/lightning_logs/version_%d", b.folder, version);
        assert_string_equal(stk_trainer_log_dir(t), path);
        stk_trainer_destroy(&t);
        snprintf(path, sizeof path, "%s/lightning_logs/version_%d/metrics.csv", b.folder, version);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        char head[200];
        assert_non_null(fgets(head, sizeof head, file));
        assert_string_equal(head, "epoch,step,train_loss_epoch,train_loss_step,val_loss\n");
        int rows = 0;
        while (fgets(head, sizeof head, file))
            rows++;
        assert_int_equal(rows, 4); /* steps 4 and 9, validation, the end of the epoch */
        fclose(file);
    }
    /* The newest is found in the folder of the last run. */
    tiny_init(&m);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_trainer_validate(t, &m.base, &b.data, "last", &b.err), &b.err);
    snprintf(path, sizeof path,
             "%s/lightning_logs/version_1/checkpoints/epoch=0-step=10.safetensors", b.folder);
    assert_string_equal(t->restart.path, path);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void several_loaders(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    stk_loader_source two[2];
    double value;

    bench_open(&b);
    tiny_init(&m);
    two[0] = two[1] = b.val;
    b.data.val = two;
    b.data.num_val = 2;
    m.ops.validation_step = log_idx;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_true(stk_trainer_metric(t, "x/dataloader_idx_0", &value) && value == 0);
    assert_true(stk_trainer_metric(t, "x/dataloader_idx_1", &value) && value == 1);
    assert_int_equal(stk_trainer_num_batches(t, STK_PHASE_VALIDATE, 1), 0); /* it is over */
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status log_twice(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    STK_TRY(stk_trainer_log(t, "x", 1, STK_ON_STEP, 0, err));
    return stk_trainer_log(t, "x", 1, STK_ON_EPOCH, 0, err);
}

static stk_status log_in_hook(stk_module *module, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    return stk_trainer_log(t, "late", (double)at->epoch, 0, 0, err);
}

static stk_status log_step_in_hook(stk_module *module, stk_trainer *t, const stk_moment *at,
                                   stk_error *err)
{
    return stk_trainer_log(t, "late", 1, STK_ON_STEP, 0, err);
}

static void where_it_may_be_logged(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    double value;

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = log_twice;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "other flags");
    stk_trainer_destroy(&t);
    tiny_init(&m);
    m.ops.on_train_epoch_end = log_in_hook;
    b.options.max_epochs = 2;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_true(stk_trainer_metric(t, "late", &value) && value == 1);
    assert_fails(stk_trainer_log(t, "x", 1, 0, 0, &b.err), STK_EINVAL, &b.err, "cannot be logged");
    stk_trainer_destroy(&t);
    m.ops.on_train_epoch_end = log_step_in_hook;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "on_step");
    stk_trainer_destroy(&t);
    m.ops.on_train_epoch_end = NULL;
    m.ops.predict_step = NULL;
    m.ops.on_fit_start = log_in_hook;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "cannot be logged");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static uint64_t before, after;

static stk_status count_allocations(stk_module *module, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_context_memory(stk_trainer_context(t), &stats);
    if (at->batch_idx == 4)
        before = stats.allocations;
    after = stats.allocations;
    return STK_OK;
}

/* Steps in a steady state allocate nothing, with logging, bar and checkpoints at work. */
static void steps_allocate_nothing(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.on_train_batch_start = count_allocations;
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.options.log_every_n_steps = 0;
    b.loader.prefetch_factor = 2;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(after - before, 0);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status log_on_device(stk_trainer *t, const char *name, float value, uint32_t flags,
                                stk_error *err)
{
    const stk_scalar scalar = {.data = &value, .dtype = STK_FLOAT32};

    return stk_trainer_log_scalar(t, name, &scalar, flags, 0, err);
}

static stk_status log_scalars(stk_module *module, stk_trainer *t, const stk_moment *at,
                              stk_loss *loss, stk_error *err)
{
    const float value = (float)at->batch_idx;

    ((tiny *)module)->train_steps++;
    loss->value = (stk_scalar){.value = value};
    STK_TRY(log_on_device(t, "x", value, STK_ON_STEP | STK_ON_EPOCH, err));
    return log_on_device(t, "sum", value, STK_ON_EPOCH | STK_REDUCE_SUM, err);
}

static stk_status log_sanity(stk_module *module, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    return log_on_device(t, "v", at->phase == STK_PHASE_SANITY ? 100 : 3, STK_ON_EPOCH, err);
}

/* A fit that saves at the steps of an epoch that `every` divides. */
static void fit_on(bench *b, bool host, const char *every, const char *from)
{
    stk_trainer *t;
    double value;
    tiny m;

    tiny_init(&m);
    m.ops.training_step = log_scalars;
    m.ops.validation_step = log_sanity;
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    add(b, t, &stk__callback_model_checkpoint, "every_n_train_steps", every, NULL);
    t->host_memory = host;
    assert_ok(stk_trainer_fit(t, &m.base, &b->data, from, &b->err), &b->err);
    assert_int_equal(m.train_steps, from ? 10 % strtoul(every, NULL, 10) : 10);
    assert_true(stk_trainer_metric(t, "x_epoch", &value) && value == 4.5);
    assert_true(stk_trainer_metric(t, "x_step", &value) && value == 9);
    assert_true(stk_trainer_metric(t, "sum", &value) && value == 45);
    assert_true(stk_trainer_metric(t, "v", &value) && value == 3);
    stk_trainer_destroy(&t);
}

/* Where the host cannot read the device's memory, sums are kept there until somebody looks: in an
 * epoch, after a sanity check, and from checkpoint to checkpoint. */
static void sums_on_the_device(void **state)
{
    static const char *const every[] = {"4", "6", "9"};
    bench b;

    for (int host = 0; host < 2; host++)
        for (size_t i = 0; i < STK_COUNT(every); i++) {
            bench_open(&b);
            b.options.num_sanity_val_steps = 2;
            b.options.enable_checkpointing = STK_SWITCH_TRUE;
            fit_on(&b, host, every[i], NULL);
            fit_on(&b, host, every[i], "last");
            bench_close(&b);
        }
}

static stk_status log_mixed(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    const double value = (double)at->batch_idx;

    loss->value = (stk_scalar){.value = value};
    if (at->batch_idx % 3)
        return stk_trainer_log(t, "x", value, STK_ON_EPOCH, 0, err);
    return log_on_device(t, "x", (float)value, STK_ON_EPOCH, err);
}

static stk_status log_least(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    return log_on_device(t, "x", 1, STK_ON_EPOCH | STK_REDUCE_MIN, err);
}

static void here_and_there(void **state)
{
    stk_trainer *t;
    double value;
    bench b;
    tiny m;

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = log_mixed;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    t->host_memory = false;
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(stk_trainer_metric(t, "x", &value) && value == 4.5);
    m.ops.training_step = log_least;
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err, "flags");
    stk_trainer_destroy(&t);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    t->host_memory = false;
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_ENOTSUP, &b.err,
                 "no least or greatest");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(no_number_has_a_sign),
        cmocka_unit_test(validation_is_weighted_by_rows),
        cmocka_unit_test(folders_of_runs),
        cmocka_unit_test(several_loaders),
        cmocka_unit_test(where_it_may_be_logged),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(sums_on_the_device),
        cmocka_unit_test(here_and_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
