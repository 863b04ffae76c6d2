/* SPDX-License-Identifier: Apache-2.0 */
/* How runs end: a log with a hole is no success, samples that were left out are told, and what was
 * gone on with ends as if it had never stopped. */
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hash.h"
#include "checkpoint/safetensors/safetensors.h"
#include "support/counting.h"
#include "train/loggers/log_queue.h"
#include "train/loggers/run_folder.h"
#include "unit/train/said.h"

/* ---- Logs ---- */

/* metrics.csv on a disk that is full. */
static void full_disk(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char path[700];
    stk__logger_options o;

    bench_open(&b);
    b.options.logger = "auto";
    test_write(b.folder, "lightning_logs/version_0/x", "", 0);
    snprintf(path, sizeof path, "%s/lightning_logs/version_0/metrics.csv", b.folder);
    assert_int_equal(symlink("/dev/full", path), 0);
    tiny_init(&m);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    stk_options_init(stk__logger_csv.options, &o, sizeof o);
    o.version = 0;
    assert_ok(stk_trainer_add_logger(t, &stk__logger_csv, &o, &b.err), &b.err);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_ENOSPC, &b.err,
                 "metrics.csv");
    /* It trained all the same: only the log is incomplete. */
    assert_int_equal(m.train_steps, 10);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* ---- Bad samples ---- */

static char warnings[8192];

static void keep_warning(void *user, stk_message_level level, const char *message)
{
    const size_t used = strlen(warnings);

    if (level >= STK_MESSAGE_WARNING)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", message);
}

static void bad_samples(void **state)
{
    counting_options c = {.size = 40, .fail_every = 10, .fail_with = STK_EFORMAT};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    stk_context_options_init(&options);
    options.on_message = keep_warning;
    assert_ok(stk_context_create(&options, &ctx, &b.err), &b.err);
    stk_dataset *dataset = counting_open(ctx, &c);
    b.loader.on_error = STK_ON_ERROR_SKIP;
    b.train.dataset = dataset;
    tiny_init(&m);
    assert_ok(stk_trainer_create(ctx, &b.options, &t, &b.err), &b.err);
    *warnings = 0;
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_non_null(strstr(warnings, "the data of training had 4 bad samples: 4 skipped"));
    assert_non_null(strstr(warnings, "planted"));
    assert_null(strstr(warnings, "validation"));
    stk_trainer_destroy(&t);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    bench_close(&b);
}

/* ---- Going on ---- */

static double series[16];

static stk_status log_series(stk_module *module, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    return stk_trainer_log(t, "val_loss", series[at->epoch], 0, 0, err);
}

static const char *patience = "4", *threshold;

static void prepare(bench *b, stk_trainer *t, void *user)
{
    add(b, t, &stk__callback_early_stopping, "monitor", "val_loss", "patience", patience,
        threshold ? "stopping_threshold" : NULL, threshold, NULL);
    add(b, t, &stk__callback_model_checkpoint, "dirpath", user, "monitor", "val_loss", "save_last",
        "true", NULL);
}

/* All texts of a checkpoint, but its hash. */
static void read_texts(bench *b, const char *path, char *out, size_t size)
{
    stk__safetensors_file file;
    size_t n = 0;

    assert_ok(stk__safetensors_file_open(b->ctx, path, &file, &b->err), &b->err);
    for (size_t i = 0; i < file.parsed.num_texts; i++)
        if (strcmp(file.parsed.texts[i].name, STK__CHECKPOINT_HASH) != 0)
            n += (size_t)snprintf(out + n, size - n, "%s:\n%s\n", file.parsed.texts[i].name,
                                  file.parsed.texts[i].text);
    assert_true(n < size);
    stk__safetensors_file_close(&file);
}

static void same_lines(const char *a, const char *b)
{
    while (*a && *b) {
        const size_t n = strcspn(a, "\n"), k = strcspn(b, "\n");
        if (n != k || memcmp(a, b, n) != 0)
            fail_msg("'%.*s' is not '%.*s'", (int)k, b, (int)n, a);
        a += n + (a[n] != 0);
        b += k + (b[k] != 0);
    }
    assert_true(*a == *b);
}

/* Early stopping counts on, and the best stays the best: the last checkpoint of a training that was
 * stopped in between says word for word what that of an undisturbed one does. */
static void states_go_on(void **state)
{
    static const double values[16] = {5, 3, 1, 4, 4, 4, 4, 4};
    static char straight[32768], resumed[32768];
    char dir[300], last[400];
    stk_trainer *t;
    bench b;
    tiny m;

    memcpy(series, values, sizeof series);
    for (int64_t stop = 0; stop < 7; stop++) {
        bench_open(&b);
        b.options.enable_checkpointing = STK_SWITCH_TRUE;
        snprintf(dir, sizeof dir, "/tmp/stoker-ends-%ld", (long)getpid());
        snprintf(last, sizeof last, "%s/last.safetensors", dir);
        b.prepare = prepare;
        b.user = dir;
        if (stop) {
            b.options.max_epochs = stop;
            tiny_init(&m);
            m.ops.validation_step = log_series;
            assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
            stk_trainer_destroy(&t);
        }
        b.options.max_epochs = 16;
        tiny_init(&m);
        m.ops.validation_step = log_series;
        assert_ok(bench_fit(&b, &m, stop ? last : NULL, &t), &b.err);
        /* Four checks after the best of epoch 2. */
        assert_int_equal(m.train_steps, 10 * (7 - stop));
        stk_trainer_destroy(&t);
        read_texts(&b, last, stop ? resumed : straight, sizeof straight);
        if (stop)
            same_lines(straight, resumed);
        test_folder_remove(dir);
        bench_close(&b);
    }
}

/* Steps that one more start of a training makes, which goes on from its last checkpoint. */
static uint64_t started_again(bench *b, const char *last)
{
    stk_trainer *t;
    tiny m;

    tiny_init(&m);
    m.ops.validation_step = log_series;
    assert_ok(bench_fit(b, &m, last, &t), &b->err);
    stk_trainer_destroy(&t);
    return m.train_steps;
}

/* What early stopping has ended does not train on, unless it is to stop by other rules. */
static void stays_stopped(void **state)
{
    static const double values[16] = {5, 3, 1, 4, 4, 4, 4, 4, 4, 4};
    char dir[300], last[400], best[400];
    bench b;

    memcpy(series, values, sizeof series);
    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    snprintf(dir, sizeof dir, "%s/kept", b.folder);
    snprintf(last, sizeof last, "%s/last.safetensors", dir);
    b.prepare = prepare;
    b.user = dir;
    b.options.max_epochs = 16;
    assert_int_equal(started_again(&b, NULL), 7 * 10);
    for (int i = 0; i < 2; i++)
        assert_int_equal(started_again(&b, last), 0);
    /* The best is from before that. */
    snprintf(best, sizeof best, "%s/epoch=2-step=30.safetensors", dir);
    assert_int_equal(started_again(&b, best), 4 * 10);
    patience = "6";
    assert_int_equal(started_again(&b, last), 2 * 10);
    assert_int_equal(started_again(&b, last), 0);
    patience = "4";
    threshold = "3.5";
    assert_int_equal(started_again(&b, NULL), 2 * 10);
    snprintf(last, sizeof last, "%s/last-v1.safetensors", dir);
    assert_int_equal(started_again(&b, last), 0);
    bench_close(&b);
    threshold = NULL;
}

/* Also where training had to go on until min_epochs, and the metric became better. A training that
 * begins anew with the same trainer is not stopped. */
static void asked_to_stop(void **state)
{
    static const double values[16] = {1, 2, 2, 0.5, 0.4, 0.3, 0.2, 0.1};
    char dir[300], last[400];
    stk_trainer *t;
    bench b;
    tiny m;

    memcpy(series, values, sizeof series);
    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    snprintf(dir, sizeof dir, "%s/kept", b.folder);
    snprintf(last, sizeof last, "%s/last.safetensors", dir);
    b.prepare = prepare;
    b.user = dir;
    patience = "2";
    b.options.min_epochs = 5;
    b.options.max_epochs = 8;
    b.options.max_steps = 40;
    assert_int_equal(started_again(&b, NULL), 4 * 10);
    b.options.max_steps = -1;
    assert_int_equal(started_again(&b, last), 10);
    tiny_init(&m);
    m.ops.validation_step = log_series;
    b.options.min_epochs = 0;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.train_steps, 3 * 10);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(m.train_steps > 3 * 10);
    stk_trainer_destroy(&t);
    bench_close(&b);
    patience = "4";
}

static stk_status no_rows(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                          stk_loss *loss, stk_error *err)
{
    ((tiny *)module)->train_steps++;
    *loss = (stk_loss){.skip = true};
    return STK_OK;
}

/* Where no row counts there are no steps, of which a number would end the run. */
static void nothing_counts(void **state)
{
    static const struct {
        int64_t max_epochs, max_steps;
        bool ends;
    } cases[] = {{2, -1, true}, {2, 3, true}, {-1, 3, false}, {-2, 3, false}};
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        tiny_init(&m);
        m.ops.training_step = no_rows;
        b.options.max_epochs = cases[i].max_epochs;
        b.options.max_steps = cases[i].max_steps;
        const stk_status status = bench_fit(&b, &m, NULL, &t);
        if (cases[i].ends)
            assert_ok(status, &b.err);
        else
            assert_fails(status, STK_EINVAL, &b.err, "no row of it counts");
        assert_int_equal(m.train_steps, cases[i].ends ? 20 : 10);
        stk_trainer_destroy(&t);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk),     cmocka_unit_test(bad_samples),
        cmocka_unit_test(states_go_on),  cmocka_unit_test(stays_stopped),
        cmocka_unit_test(asked_to_stop), cmocka_unit_test(nothing_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
