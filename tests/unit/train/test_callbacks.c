/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that steer or watch a run. */
#include <sys/stat.h>

#include "unit/train/said.h"

/* ---- Early stopping -------------------------------------------------------------------------- */

static double series[16];

static stk_status log_series(stk_module *module, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    return stk_trainer_log(t, "val_loss", series[at->epoch], 0, 0, err);
}

static uint64_t epochs_until_stop(const char *name, const char *value, const char *message)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.validation_step = log_series;
    b.options.max_epochs = 8;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    add(&b, t, &stk__callback_early_stopping, "monitor", "val_loss", "verbose", "true", name, value,
        NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    const uint64_t epochs = stk_trainer_current_epoch(t);
    if (!strstr(said, message))
        fail_msg("no \"%s\" in: %s", message, said);
    stk_trainer_destroy(&t);
    bench_close(&b);
    return epochs;
}

static void early_stopping(void **state)
{
    static const double falling[16] = {8, 7, 6, 5, 4, 3, 2, 1};
    static const double stuck[16] = {8, 7, 7, 7, 7, 7, 7, 7};

    memcpy(series, falling, sizeof series);
    assert_int_equal(epochs_until_stop("patience", "2", "New best score: 1.000"), 8);
    assert_int_equal(epochs_until_stop("stopping_threshold", "5.5",
                                       "Stopping threshold reached: val_loss = 5 < 5.5. Signaling "
                                       "Trainer to stop."),
                     4);
    assert_int_equal(epochs_until_stop("divergence_threshold", "7.5",
                                       "Divergence threshold reached: val_loss = 8 > 7.5."),
                     1);
    assert_int_equal(epochs_until_stop("min_delta", "10",
                                       "Monitored metric val_loss did not improve in the last 3"),
                     4);
    assert_int_equal(epochs_until_stop("mode", "max", "Best score: 8.000."), 4);
    memcpy(series, stuck, sizeof series);
    assert_int_equal(
        epochs_until_stop("patience", "3",
                          "Monitored metric val_loss did not improve in the last 3 records. Best "
                          "score: 7.000. Signaling Trainer to stop."),
        5);
    assert_int_equal(epochs_until_stop("patience", "2", "improved by 1.000 >= min_delta = 0."), 4);
    series[2] = NAN;
    assert_int_equal(epochs_until_stop("patience", "5",
                                       "Monitored metric val_loss = nan is not finite. Previous "
                                       "best value was 7.000."),
                     3);
    assert_int_equal(epochs_until_stop("check_finite", "false", "last 3 records"), 5);
}

/* What is a number in no locale, or no finite one. */
static void refuse_threshold(bench *b, const char *text)
{
    const stk_option_table *table = stk__callback_early_stopping.options;
    stk_callback *out = NULL;
    uint64_t room[64];

    stk_options_init(table, room, table->struct_size);
    assert_ok(stk_options_set(table, room, "monitor", "val_loss", &b->err), &b->err);
    assert_ok(stk_options_set(table, room, "stopping_threshold", text, &b->err), &b->err);
    assert_fails(stk__callback_early_stopping.create(b->ctx, room, &out, &b->err), STK_EINVAL,
                 &b->err, "take a number");
    assert_null(out);
}

static void early_stopping_refuses(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_fails(stk_trainer_add_callback(t, &stk__callback_early_stopping, NULL, NULL, &b.err),
                 STK_EINVAL, &b.err, "monitor");
    refuse_threshold(&b, "0x10");
    refuse_threshold(&b, "inf");
    refuse_threshold(&b, "0,5");
    add(&b, t, &stk__callback_early_stopping, "monitor", "nothing", NULL);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "`train_loss`, `train_loss_step`, `train_loss_epoch`, `val_loss`");
    stk_trainer_destroy(&t);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_early_stopping, "monitor", "nothing", "strict", "false", NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* min_epochs holds against it. */
static void early_stopping_waits(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    b.options.max_epochs = 9;
    b.options.min_epochs = 6;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_early_stopping, "monitor", "val_loss", "patience", "1", NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(stk_trainer_current_epoch(t), 6);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* ---- Averages, accumulation ------------------------------------------------------------------ */

static float trace[64][TINY_SIZE], in_validation[TINY_SIZE];
static size_t num_trace;

static stk_status trace_step(stk_module *module, const stk_moment *at, stk_error *err)
{
    STK_TRY(tiny_optimizer_step(module, at, err));
    memcpy(trace[num_trace++], ((tiny *)module)->weight, sizeof trace[0]);
    return STK_OK;
}

static stk_status look(stk_module *module, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    memcpy(in_validation, ((tiny *)module)->weight, sizeof in_validation);
    return STK_OK;
}

static void ema(void **state)
{
    bench b;
    tiny m, plain;
    stk_trainer *t;
    float mean[TINY_SIZE];

    bench_open(&b);
    bench_train(&b, &plain);
    tiny_init(&m);
    m.ops.optimizer_step = trace_step;
    m.ops.validation_step = look;
    num_trace = 0;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_ema, "decay", "0.75", NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(num_trace, 10);
    memcpy(mean, trace[0], sizeof mean);
    for (size_t k = 1; k < num_trace; k++)
        for (int i = 0; i < TINY_SIZE; i++)
            mean[i] += 0.25f * (trace[k][i] - mean[i]);
    /* The path is that of training without it; the means are validated and left in the model. */
    assert_memory_equal(trace[9], plain.weight, sizeof plain.weight);
    for (int i = 0; i < TINY_SIZE; i++)
        assert_true(fabsf(mean[i] - m.weight[i]) < 1e-6f);
    assert_memory_equal(in_validation, m.weight, sizeof in_validation);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static double val_of(stk_trainer *t)
{
    double value = NAN;

    return stk_trainer_metric(t, "val_loss", &value) ? value : NAN;
}

static stk_status weigh(stk_module *module, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    const tiny *m = (const tiny *)module;

    return stk_trainer_log(t, "val_loss", m->weight[0] + m->weight[5], 0, 0, err);
}

/* What was validated is what the checkpoint has under plain names; the parameters that are trained
 * are the callback's. */
/* The mean of what was looked at, and when that is. */
static void weight_averaging(void **state)
{
    static const struct {
        const char *name, *value, *other, *other_value;
        uint8_t steps[20], n;
    } cases[] = {
        {"update_starting_at_step", "15", NULL, NULL, {15, 16, 17, 18, 19}, 5},
        {"update_every_n_steps", "6", "update_starting_at_step", "2", {6, 12, 18}, 3},
        {"interval", "epoch", NULL, NULL, {9, 19}, 2},
        {"interval", "epoch", "update_starting_at_epoch", "1", {19}, 1},
    };
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.max_epochs = 2;
    for (size_t c = 0; c < STK_COUNT(cases); c++) {
        double mean[TINY_SIZE] = {0};
        tiny_init(&m);
        m.ops.optimizer_step = trace_step;
        num_trace = 0;
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        add(&b, t, &stk__callback_weight_averaging, cases[c].name, cases[c].value, cases[c].other,
            cases[c].other_value, NULL);
        assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
        assert_int_equal(num_trace, 20);
        for (int k = 0; k < cases[c].n; k++)
            for (int i = 0; i < TINY_SIZE; i++)
                mean[i] += (double)trace[cases[c].steps[k]][i] / cases[c].n;
        for (int i = 0; i < TINY_SIZE; i++)
            assert_true(fabs(mean[i] - m.weight[i]) < 1e-6);
        stk_trainer_destroy(&t);
    }
    bench_close(&b);
}

/* The end of an epoch that is cut short has an update behind the validation of its last step. */
static void validated_before_the_mean(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.max_steps = 15;
    b.options.max_epochs = 2;
    b.options.val_check_interval = "5";
    for (int averages = 0; averages < 2; averages++) {
        tiny_init(&m);
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        if (averages)
            add(&b, t, &stk__callback_weight_averaging, "interval", "epoch", NULL);
        assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
        assert_int_equal(m.val_steps, 9);
        assert_int_equal(stk_trainer_is_ahead(t), averages);
        stk_trainer_destroy(&t);
    }
    bench_close(&b);
}

static void ema_in_checkpoints(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    stk__checkpoint *file;
    float last[TINY_SIZE];

    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    tiny_init(&m);
    m.ops.optimizer_step = trace_step;
    m.ops.validation_step = weigh;
    num_trace = 0;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_ema, "decay", "0.75", NULL);
    assert_fails(stk_trainer_add_callback(t, &stk__callback_ema, NULL, NULL, &b.err), STK_EINVAL,
                 &b.err, "one mean of each");
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    const double val = val_of(t);
    memcpy(last, trace[num_trace - 1], sizeof last);
    assert_ok(stk__checkpoint_open(b.ctx, stk_trainer_best_model_path(t), &file, &b.err), &b.err);
    assert_memory_equal(stk__checkpoint_find(file, "layer.weight")->data, m.weight,
                        sizeof m.weight);
    assert_memory_equal(stk__checkpoint_find(file, "stoker.callback.ema.layer.weight")->data, last,
                        sizeof last);
    stk__checkpoint_close(&file);
    stk_trainer_destroy(&t);
    /* Another process finds it, and sees what was printed. */
    tiny_init(&m);
    m.ops.validation_step = weigh;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_trainer_validate(t, &m.base, &b.data, "best", &b.err), &b.err);
    assert_true(val_of(t) == val);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static stk_status log_rate(stk_module *module, stk_trainer *t, const stk_moment *at, stk_loss *loss,
                           stk_error *err)
{
    const stk_metric rate = {"lr-SGD", 0.01};

    STK_TRY(stk_trainer_log_metrics(t, &rate, 1, err));
    return tiny_training_step(module, t, at, loss, err);
}

/* A task has no metrics of the one before, however they were logged. */
static void nothing_stale(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    stk_metric metric;
    double value;

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = log_rate;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(stk_trainer_metric(t, "lr-SGD", &value) && value == 0.01);
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(stk_trainer_metric_at(t, 0, &metric));
    assert_string_equal(metric.name, "test_loss");
    assert_false(stk_trainer_metric_at(t, 1, &metric));
    /* There is no run whose best it could be. */
    assert_int_equal(stk_trainer_test(t, &m.base, &b.data, "best", &b.err), STK_ENOENT);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void accumulation_schedule(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    b.options.max_epochs = 4;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_accumulation, "scheduling", "1:5, 3:2", NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(m.optimizer_steps, 10 + 2 + 2 + 5);
    assert_true(m.last_scale == 0.5);
    stk_trainer_destroy(&t);
    b.options.accumulate_grad_batches = 2;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_accumulation, "scheduling", "0:5", NULL);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "accumulate_grad_batches");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* ---- Schedules of the learning rate ---------------------------------------------------------- */

static void schedules(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.max_epochs = 4;
    for (int k = 0; k < 4; k++) {
        tiny_init(&m);
        m.num_schedulers = 1;
        m.schedulers[0] = (stk_lr_scheduler){.every_step = k == 0 || k == 1,
                                             .frequency = k == 1   ? 3
                                                          : k == 2 ? 2
                                                                   : 0,
                                             .reduce_on_plateau = k == 3,
                                             .monitor = "val_loss"};
        m.val_slope = 1;
        assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
        static const uint64_t steps[] = {40, 12, 2, 4};
        assert_int_equal(m.scheduler_steps, steps[k]);
        stk_trainer_destroy(&t);
    }
    /* It saw the value of the last validation. */
    assert_true(m.last_metric == 4);
    tiny_init(&m);
    m.num_schedulers = 1;
    m.schedulers[0] =
        (stk_lr_scheduler){.reduce_on_plateau = true, .monitor = "nothing", .strict = true};
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "`nothing`");
    stk_trainer_destroy(&t);
    m.schedulers[0].strict = false;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* ---- Monitors -------------------------------------------------------------------------------- */

static void monitors(void **state)
{
    static const char *const names[] = {"lr-SGD",
                                        "lr-SGD-momentum",
                                        "train/samples_per_sec",
                                        "train/batches_per_sec",
                                        "train/samples",
                                        "DeviceStatsMonitor.on_train_batch_start/cpu_percent",
                                        "DeviceStatsMonitor.on_train_batch_end/cpu_vm_percent"};
    bench b;
    tiny m;
    stk_trainer *t;
    double value;

    bench_open(&b);
    tiny_init(&m);
    b.options.logger = "csv";
    b.options.log_every_n_steps = 2;
    b.loader.batch_size = 1;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_lr_monitor, "log_momentum", "true", NULL);
    add(&b, t, &stk__callback_throughput, "window_size", "7", NULL);
    add(&b, t, &stk__callback_device_stats, NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (!stk_trainer_metric(t, names[i], &value))
            fail_msg("no metric %s", names[i]);
    assert_true(stk_trainer_metric(t, "lr-SGD", &value) && value == 0.01f);
    assert_true(stk_trainer_metric(t, "train/samples", &value) && value == 40);
    stk_trainer_destroy(&t);
    b.options.logger = "false";
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_lr_monitor, NULL);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "has no logger");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* The share of the peak is that of the operations of a sample, three times its forward pass. */
static bool one_layer(const stk_module *module, size_t i, stk_layer *out)
{
    *out = (stk_layer){.name = "layer", .type = "Tiny", .flops = 1000, .depth = 1};
    return i == 0;
}

static void throughput_of_a_rank(void **state)
{
    double all, own, flops, share;
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.layer = one_layer;
    b.options.logger = "csv";
    b.options.log_every_n_steps = 5;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_throughput, "window_size", "5", "available_flops", "2e9", NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(stk_trainer_metric(t, "train/samples_per_sec", &all));
    assert_true(stk_trainer_metric(t, "train/device/samples_per_sec", &own) && own == all);
    assert_true(stk_trainer_metric(t, "train/device/flops_per_sec", &flops));
    assert_true(fabs(flops / (own * 3000) - 1) < 1e-9);
    assert_true(stk_trainer_metric(t, "train/device/mfu", &share));
    assert_true(fabs(share / (flops / 2e9) - 1) < 1e-9);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* ---- Writers --------------------------------------------------------------------------------- */

static size_t read_all(const char *folder, const char *name, char *out, size_t size)
{
    char path[700];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("no file %s", path);
    const size_t n = fread(out, 1, size, file);
    fclose(file);
    return n;
}

static void prediction_writer(void **state)
{
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3), }";
    bench b;
    tiny m;
    stk_trainer *t;
    char dir[300], bytes[1024];

    bench_open(&b);
    tiny_init(&m);
    snprintf(dir, sizeof dir, "%s/out", b.folder);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_prediction_writer, "output_dir", dir, NULL);
    add(&b, t, &stk__callback_prediction_writer, "output_dir", dir, "write_interval", "epoch",
        NULL);
    assert_ok(stk_trainer_predict(t, &m.base, &b.data, NULL, &b.err), &b.err);
    stk_trainer_destroy(&t);
    assert_int_equal(read_all(dir, "predictions_0_000002.npy", bytes, sizeof bytes), 128 + 24);
    assert_memory_equal(bytes + 128, m.weight, 24);
    /* Three batches of two rows each. */
    assert_int_equal(read_all(dir, "predictions_0.npy", bytes, sizeof bytes), 128 + 72);
    assert_memory_equal(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(bytes + 10, head, sizeof head - 1);
    assert_true(bytes[127] == '\n');
    assert_memory_equal(bytes + 128 + 48, m.weight, 24);
    bench_close(&b);
}

static void on_exception(void **state)
{
    bench b;
    tiny m, n;
    stk_trainer *t;
    char path[400];

    bench_open(&b);
    tiny_init(&m);
    m.fail_at = 8;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_fails(stk_trainer_add_callback(t, &stk__callback_on_exception, NULL, NULL, &b.err),
                 STK_EINVAL, &b.err, "enable_checkpointing");
    stk_trainer_destroy(&t);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_on_exception, "dirpath", b.folder, NULL);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EIO, &b.err, "purpose");
    stk_trainer_destroy(&t);
    /* What it saved goes on with the batch that failed. */
    snprintf(path, sizeof path, "%s/on_exception.safetensors", b.folder);
    tiny_init(&m);
    assert_ok(bench_fit(&b, &m, path, &t), &b.err);
    assert_int_equal(m.train_steps, 3);
    stk_trainer_destroy(&t);
    bench_train(&b, &n);
    assert_memory_equal(m.weight, n.weight, sizeof m.weight);
    bench_close(&b);
}

/* ---- The caller's own ------------------------------------------------------------------------ */

static void refused_tables(void **state)
{
    bench b;
    stk_trainer *t;
    stk_callback_ops bad = stk__callback_timer;

    bench_open(&b);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    bad.destroy = NULL;
    assert_fails(stk_trainer_add_callback(t, &bad, NULL, NULL, &b.err), STK_EINVAL, &b.err,
                 "destroy");
    bad = stk__callback_timer;
    bad.struct_size = 8;
    assert_fails(stk_trainer_add_callback(t, &bad, NULL, NULL, &b.err), STK_EINVAL, &b.err, "size");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_stopping),
        cmocka_unit_test(early_stopping_refuses),
        cmocka_unit_test(early_stopping_waits),
        cmocka_unit_test(ema),
        cmocka_unit_test(weight_averaging),
        cmocka_unit_test(validated_before_the_mean),
        cmocka_unit_test(ema_in_checkpoints),
        cmocka_unit_test(nothing_stale),
        cmocka_unit_test(accumulation_schedule),
        cmocka_unit_test(schedules),
        cmocka_unit_test(monitors),
        cmocka_unit_test(throughput_of_a_rank),
        cmocka_unit_test(prediction_writer),
        cmocka_unit_test(on_exception),
        cmocka_unit_test(refused_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
