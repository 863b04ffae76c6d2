/* SPDX-License-Identifier: Apache-2.0 */
/* Each option of the trainer changes what happens, or is refused, or is said to do nothing here: an
 * option without a row fails the test. */
#include <ftw.h>
#include <inttypes.h>

#include "unit/train/said.h"

/* What a case asks of the module; of the last nothing, its option is only said to do nothing
 * (test_options.c). */
enum {
    STOPS_EARLY = 1,
    BAD_LOSS = 2,
    BAD_GRADIENT = 4,
    LASTS = 8,
    COUNTS_LOADERS = 16,
    DOES_NOTHING = 32
};

static const struct effect {
    const char *name, *value; /* NULL: refused in any other than its default */
    const char *with[2][2];   /* what both runs have set besides */
    unsigned of_module;
    const char *refusal;
} effects[] = {
    {.name = "accelerator", .value = "gpu", .refusal = "this build has cpu"},
    {.name = "strategy", .value = "ddp", .refusal = "several processes"},
    {.name = "devices", .value = "2", .refusal = "1 device"},
    {.name = "num_nodes", .value = "2", .refusal = "1 node"},
    {.name = "benchmark", .value = "true", .of_module = DOES_NOTHING},
    {.name = "sync_batchnorm", .value = "true", .refusal = "no effect"},
    {.name = "gradient_compression", .value = "bf16", .refusal = "no effect"},
    {.name = "use_distributed_sampler",
     .value = "false",
     .refusal = "every rank takes its own part"},
    {.name = "precision", .value = "bf16-mixed"},
    {.name = "deterministic", .value = "true"},
    {.name = "inference_mode", .value = "false"},
    {.name = "fast_dev_run", .value = "2"},
    {.name = "max_epochs", .value = "2"},
    {.name = "min_epochs", .value = "2", .with = {{"max_epochs", "3"}}, .of_module = STOPS_EARLY},
    {.name = "min_steps", .value = "7", .of_module = STOPS_EARLY},
    {.name = "max_steps", .value = "3"},
    {.name = "max_time",
     .value = "00:00:00:01",
     .with = {{"max_epochs", "-1"}, {"limit_val_batches", "0"}},
     .of_module = LASTS},
    {.name = "limit_train_batches", .value = "4"},
    {.name = "limit_val_batches", .value = "0.5"},
    {.name = "limit_test_batches", .value = "1"},
    {.name = "limit_predict_batches", .value = "2"},
    {.name = "overfit_batches", .value = "1"},
    {.name = "val_check_interval", .value = "0.5"},
    {.name = "check_val_every_n_epoch", .value = "2"},
    {.name = "num_sanity_val_steps", .value = "1"},
    {.name = "log_every_n_steps", .value = "3", .with = {{"logger", "csv"}}},
    {.name = "enable_checkpointing", .value = "true"},
    {.name = "enable_progress_bar", .value = "true"},
    {.name = "enable_model_summary", .value = "true"},
    {.name = "logger", .value = "csv"},
    {.name = "accumulate_grad_batches", .value = "3"},
    {.name = "gradient_clip_val", .value = "0.01"},
    {.name = "gradient_clip_algorithm", .value = "value", .with = {{"gradient_clip_val", "0.01"}}},
    {.name = "detect_anomaly", .value = "true", .of_module = BAD_GRADIENT},
    {.name = "barebones", .value = "true", .with = {{"enable_model_summary", "auto"}}},
    {.name = "reload_dataloaders_every_n_epochs",
     .value = "1",
     .with = {{"max_epochs", "2"}},
     .of_module = COUNTS_LOADERS},
    {.name = "default_root_dir", .value = "elsewhere", .with = {{"logger", "csv"}}},
    {.name = "seed_everything", .value = "9"},
    {.name = "val_batch_size", .value = "8"},
    {.name = "nan_policy", .value = "skip", .of_module = BAD_LOSS},
    {.name = "nan_limit", .value = "1", .with = {{"nan_policy", "skip"}}, .of_module = BAD_LOSS},
    /* Here nothing is uploaded (test_uploads.c). */
    {.name = "upload_dir", .value = "elsewhere", .of_module = DOES_NOTHING},
    {.name = "upload_deadline", .value = "2s", .of_module = DOES_NOTHING},
};

/* ---- What happened, as a text ---------------------------------------------------------------- */

static char trace[1 << 17];
static size_t traced;

STK_PRINTF(1, 2) static void note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int n = vsnprintf(trace + traced, sizeof trace - traced, format, arguments);
    va_end(arguments);
    assert_true(n >= 0 && (size_t)n < sizeof trace - traced);
    traced += (size_t)n;
}

static size_t below; /* length of the folder's path */

static int note_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char line[512];

    note("file %s\n", path + below);
    const char *name = strrchr(path, '/');
    FILE *f = strcmp(name, "/metrics.csv") == 0 ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f))
        note("%s", line);
    if (f)
        fclose(f);
    return 0;
}

/* ---- The module ------------------------------------------------------------------------------ */

static unsigned asked;    /* of the module */
static uint64_t begin_ns; /* of the run */
static unsigned loaders;  /* made by open_loader() */

static stk_status training_step(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                                stk_loss *loss, stk_error *err)
{
    tiny *self = (tiny *)module;

    if ((asked & STOPS_EARLY) && self->train_steps == 1)
        stk_trainer_should_stop(trainer);
    /* Three times as long as the option allows. */
    if ((asked & LASTS) && stk__now_ns() - begin_ns > UINT64_C(3000000000)) {
        note("nobody ended it\n");
        stk_trainer_should_stop(trainer);
    }
    return tiny_training_step(module, trainer, at, loss, err);
}

static stk_status backward(stk_module *module, const stk_loss *loss, double scale, stk_error *err)
{
    tiny *self = (tiny *)module;
    stk_status status = tiny_backward(module, loss, scale, err);

    if ((asked & BAD_GRADIENT) && self->train_steps == 10)
        self->gradient[0] = NAN;
    return status;
}

static bool layer(const stk_module *module, size_t i, stk_layer *out)
{
    *out = (stk_layer){.name = "layer", .type = "Tiny", .parameters = TINY_SIZE, .depth = 1};
    return i == 0;
}

static stk_status open_loader(void *user, stk_loader **out, stk_error *err)
{
    bench *b = user;

    loaders++;
    return stk_loader_create(b->dataset, &b->loader, out, err);
}

/* ---- A run ----------------------------------------------------------------------------------- */

static void set(bench *b, const char *name, const char *value)
{
    if (name)
        assert_ok(
            stk_options_set(stk_option_table_find("trainer"), &b->options, name, value, &b->err),
            &b->err);
}

static void note_module(const tiny *m)
{
    note("steps %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " seen %" PRIx64 "\n",
         asked & LASTS ? 0 : m->train_steps, asked & LASTS ? 0 : m->optimizer_steps, m->val_steps,
         m->test_steps, m->predict_steps, asked & LASTS ? 0 : m->seen);
    note("setup %s %d %d %" PRIu64 "\n", m->setup.precision, m->setup.deterministic,
         m->setup.training, m->setup.eval_batch_size);
    for (int i = 0; i < TINY_SIZE && !(asked & LASTS); i++)
        note("weight %a\n", (double)m->weight[i]);
}

/* Fit, test and predict with the settings of a case, with and without its option. */
static void run(const struct effect *e, bool changed)
{
    bench b;
    tiny m;
    stk_trainer *t = NULL;
    char elsewhere[300];

    bench_open(&b);
    tiny_init(&m);
    m.ops.training_step = training_step;
    m.ops.backward = backward;
    m.ops.layer = layer;
    m.nan_at = e->of_module & BAD_LOSS ? 3 : 0;
    asked = e->of_module;
    loaders = 0;
    traced = 0;
    below = strlen(b.folder);
    if (e->of_module & COUNTS_LOADERS)
        b.train =
            (stk_loader_source){.struct_size = sizeof b.train, .open = open_loader, .user = &b};
    for (size_t i = 0; i < 2; i++)
        set(&b, e->with[i][0], e->with[i][1]);
    snprintf(elsewhere, sizeof elsewhere, "%s/%s", b.folder, e->value);
    if (changed)
        set(&b, e->name, strcmp(e->value, "elsewhere") ? e->value : elsewhere);
    begin_ns = stk__now_ns();
    stk_status status = stk_trainer_create(b.ctx, &b.options, &t, &b.err);
    if (e->refusal && changed) {
        /* That there are no other processes is known when a task begins. */
        if (status == STK_OK)
            status = stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err);
        stk_trainer_destroy(&t);
        assert_true(status == STK_EINVAL || status == STK_ENOTSUP);
        assert_non_null(strstr(b.err.text, e->refusal));
        assert_non_null(strstr(b.err.text, e->name));
        bench_close(&b);
        return;
    }
    assert_ok(status, &b.err);
    listen_to(t);
    status = stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err);
    note("fit: %s\n", stk_status_name(status));
    if (status == STK_OK)
        assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    if (status == STK_OK)
        assert_ok(stk_trainer_predict(t, &m.base, &b.data, NULL, &b.err), &b.err);
    note_module(&m);
    note("loaders %u\n", loaders);
    /* What was said, but for the figures of the time. */
    for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(line, "Of the time") && !(asked & LASTS))
            note("%s\n", line);
    stk_trainer_destroy(&t);
    assert_int_equal(nftw(b.folder, note_file, 8, 0), 0);
    bench_close(&b);
}

static void each(void **state)
{
    const stk_option_table *table = stk_option_table_find("trainer");
    static char before[sizeof trace];

    for (size_t i = 0; i < table->count; i++) {
        size_t k = 0;
        while (k < STK_COUNT(effects) && strcmp(effects[k].name, table->options[i].name) != 0)
            k++;
        if (k == STK_COUNT(effects))
            fail_msg("no case for the option %s", table->options[i].name);
    }
    for (size_t k = 0; k < STK_COUNT(effects); k++) {
        run(&effects[k], false);
        memcpy(before, trace, traced + 1);
        run(&effects[k], true);
        const bool same = strcmp(before, trace) == 0;
        if (!effects[k].refusal && same && !(effects[k].of_module & DOES_NOTHING))
            fail_msg("%s=%s changes nothing:\n%s", effects[k].name, effects[k].value, trace);
        if (!same && (effects[k].of_module & DOES_NOTHING))
            fail_msg("%s=%s changes something:\n%s", effects[k].name, effects[k].value, trace);
        /* The same twice is the same: what differed was the option's doing. */
        if (!(effects[k].of_module & LASTS))
            run(&effects[k], false);
        if (!(effects[k].of_module & LASTS) && strcmp(before, trace) != 0)
            fail_msg("without %s: two runs differ:\n%s\n%s", effects[k].name, before, trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
