/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks of the machine: which are believed; what layers reach of them. */
#include <pthread.h>
#include <unistd.h>

#include "base/text.h"
#include "unit/train/profiles.h"

static const stk__peaks planted = {.flops_per_s = 123456789012.25, .bytes_per_s = 9.875e9};

static stk__peaks_key key_of(bench *b)
{
    stk__peaks_key key;

    stk__peaks_key_of(b->ctx, "32-true", &key);
    assert_true(key.threads >= 1 && strlen(key.cpu) > 8 && strstr(key.cpu, " cores"));
    assert_string_equal(key.version, stk_version());
    return key;
}

static void assert_same(const stk__peaks *peaks)
{
    assert_true(peaks->flops_per_s == planted.flops_per_s &&
                peaks->bytes_per_s == planted.bytes_per_s);
}

/* Those of the same machine are taken as they are; of any other they are measured. */
static void believed(void **state)
{
    stk_cores cores = {.struct_size = sizeof cores};
    stk__peaks peaks = {0};
    char url[300];
    bench b;

    bench_open(&b);
    stk__peaks_key key = key_of(&b), others[4];
    stk__peaks_keep(b.ctx, b.folder, &key, &planted);
    assert_ok(stk__peaks_find(b.ctx, b.folder, &key, &peaks, &b.err), &b.err);
    assert_same(&peaks);
    /* A folder may be a URL. */
    snprintf(url, sizeof url, "file:%s/away", b.folder);
    stk__peaks_keep(b.ctx, url, &key, &planted);
    peaks = (stk__peaks){0};
    assert_ok(stk__peaks_find(b.ctx, url, &key, &peaks, &b.err), &b.err);
    assert_same(&peaks);
    for (size_t i = 0; i < STK_COUNT(others); i++)
        others[i] = key;
    others[0].version = "0.0.9";
    others[1].cpu[0] ^= 1;
    others[2].precision = "bf16-mixed";
    others[3].threads++;
    for (size_t i = 0; i < STK_COUNT(others); i++) {
        /* The name of the file says some of it, the text all. */
        stk__peaks_keep(b.ctx, b.folder, &others[i], &planted);
        peaks = (stk__peaks){0};
        if (i == 0) {
            assert_ok(stk__peaks_find(b.ctx, b.folder, &key, &peaks, &b.err), &b.err);
            assert_true(peaks.flops_per_s > 0 && peaks.flops_per_s != planted.flops_per_s);
            /* The layers that were measured are no model of the training. */
            stk_context_cores(b.ctx, &cores);
            assert_int_equal(cores.compute, 1);
            assert_true(peaks.bytes_per_s > 0 && peaks.bytes_per_s != planted.bytes_per_s);
            stk__peaks_keep(b.ctx, b.folder, &key, &planted);
            continue;
        }
        assert_ok(stk__peaks_find(b.ctx, b.folder, &key, &peaks, &b.err), &b.err);
        assert_same(&peaks);
    }
    bench_close(&b);
}

/* A process of its own that finds peaks in a folder that has none, at the same time as others. */
typedef struct finder {
    pthread_t thread;
    pthread_barrier_t *begin;
    const char *folder;
    stk__peaks peaks;
    stk_status status;
} finder;

static void *find_at_once(void *argument)
{
    finder *f = argument;
    stk_context *ctx = test_context();
    stk__peaks_key key;
    stk_error err;

    stk__peaks_key_of(ctx, "32-true", &key);
    pthread_barrier_wait(f->begin);
    f->status = stk__peaks_find(ctx, f->folder, &key, &f->peaks, &err);
    stk_context_destroy(&ctx);
    return NULL;
}

/* One measures, and all have what it found. */
static void measured_once(void **state)
{
    finder finders[3];
    pthread_barrier_t begin;
    char folder[256];

    test_folder(folder);
    assert_int_equal(pthread_barrier_init(&begin, NULL, STK_COUNT(finders)), 0);
    for (size_t i = 0; i < STK_COUNT(finders); i++) {
        finders[i] = (finder){.begin = &begin, .folder = folder};
        assert_int_equal(pthread_create(&finders[i].thread, NULL, find_at_once, &finders[i]), 0);
    }
    for (size_t i = 0; i < STK_COUNT(finders); i++) {
        pthread_join(finders[i].thread, NULL);
        assert_int_equal(finders[i].status, STK_OK);
        assert_true(finders[i].peaks.flops_per_s > 0);
        assert_true(finders[i].peaks.flops_per_s == finders[0].peaks.flops_per_s);
        assert_true(finders[i].peaks.bytes_per_s == finders[0].peaks.bytes_per_s);
    }
    pthread_barrier_destroy(&begin);
    test_folder_remove(folder);
}

static bool parses(bench *b, const stk__peaks_key *key, const char *text)
{
    stk__peaks peaks = planted;
    const bool good = stk__peaks_parse(b->ctx, text, strlen(text), key, &peaks);

    if (!good)
        assert_same(&peaks);
    return good;
}

static void refused(void **state)
{
    static const struct {
        const char *flops, *bytes, *more;
        bool good;
    } cases[] = {
        {"4230000000000000", "4200000000000000", "", true},
        {"c230000000000000", "4200000000000000", "", false}, /* negative */
        {"7ff0000000000000", "4200000000000000", "", false}, /* infinite */
        {"4230000000000000", "7ff8000000000000", "", false}, /* no number */
        {"4230000000000000", "0000000000000000", "", false},
        {"4230000000000000", "42000000", "", false},
        {"4230000000000000", "4200000000000000", "threads 2\n", false},
        {"4230000000000000", "4200000000000000", "speed 2\n", false},
    };
    char text[1024];
    bench b;

    bench_open(&b);
    const stk__peaks_key key = key_of(&b);
    stk__peaks_key others[4] = {key, key, key, key};
    others[0].version = "0.0.9";
    others[1].cpu[0] ^= 1;
    others[2].precision = "bf16-mixed";
    others[3].threads++;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        snprintf(text, sizeof text,
                 "version %s\ncpu %s\nprecision %s\nthreads %u\nflops_per_s %s\nbytes_per_s %s\n%s",
                 key.version, key.cpu, key.precision, key.threads, cases[i].flops, cases[i].bytes,
                 cases[i].more);
        assert_int_equal(parses(&b, &key, text), cases[i].good);
        for (size_t k = 0; k < STK_COUNT(others); k++)
            assert_false(parses(&b, &others[k], text));
        text[strlen(text) - 1] = 0;
        assert_false(parses(&b, &key, text));
    }
    assert_false(parses(&b, &key, ""));
    bench_close(&b);
}

/* ---- The roofline ---------------------------------------------------------------------------- */

/* A fit of a model under a profile that takes these peaks (NULL: none are kept); all that is made
 * is the caller's. */
static void fit(bench *b, const char *profiler, const stk__peaks *peaks, stk_trainer **t,
                stk_module **module, stk_model_builder **builder, stk_profile **p)
{
    static const int64_t shape[] = {1, 28, 28};
    stk_profile_options o;

    bench_open(b);
    if (peaks) {
        const stk__peaks_key key = key_of(b);
        stk__peaks_keep(b->ctx, b->folder, &key, peaks);
    }
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:200", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
    b->loader.batch_size = b->val_loader.batch_size = 20;
    b->loader.transforms = b->val_loader.transforms = "layout(chw), to_float";
    b->options.limit_val_batches = "0";
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, builder, &b->err), &b->err);
    assert_ok(
        stk_model_builder_add(*builder, "flatten, first=linear(32), gelu, linear(10)", &b->err),
        &b->err);
    const stk_model_parts recipe = {.struct_size = sizeof recipe, .builder = *builder};
    assert_ok(stk_model_module_create(b->ctx, &recipe, module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, t, &b->err), &b->err);
    listen_to(*t);
    profile_options(&o, profiler, NULL, NULL);
    o.warmup_steps = 2;
    o.machine_dir = b->folder;
    assert_ok(stk_profile_create(*t, &o, p, &b->err), &b->err);
    assert_ok(stk_trainer_fit(*t, *module, &b->data, NULL, &b->err), &b->err);
}

static void check_roof(const stk_profile_roof *roof, const stk_profile_pass *pass, double flops,
                       double bytes)
{
    const double took = (double)pass->ns * 1e-9, compute = (double)pass->flops / flops,
                 memory = (double)pass->bytes / bytes, ideal = STK_MAX(compute, memory);

    if (pass->calls == 0) {
        assert_true(roof->bound == STK_PROFILE_BOUND_UNKNOWN && roof->of_peak == 0);
        return;
    }
    assert_float_equal(roof->flops_per_s * took, (double)pass->flops, 1e-3);
    assert_float_equal(roof->bytes_per_s * took, (double)pass->bytes, 1e-3);
    assert_float_equal(roof->of_peak * took / ideal, 1, 1e-9);
    assert_int_equal(roof->bound,
                     compute > memory ? STK_PROFILE_BOUND_COMPUTE : STK_PROFILE_BOUND_MEMORY);
}

static uint64_t time_of(const stk_profile *p, size_t i)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};

    assert_true(stk_profile_get_layer(p, i, &layer));
    assert_true(layer.forward.calls + layer.backward.calls > 0);
    return layer.forward.ns + layer.backward.ns;
}

/* All that have calls, the longest first; of less room the first of these. */
static void check_sorted(const stk_profile *p)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    size_t order[16], first, n, count, called = 0;
    stk_error err;

    for (size_t i = 0; stk_profile_get_layer(p, i, &layer); i++)
        called += layer.forward.calls + layer.backward.calls > 0;
    assert_ok(stk_profile_sort_layers(p, order, STK_COUNT(order), &n, &err), &err);
    assert_int_equal(n, called);
    assert_true(n >= 3);
    for (size_t i = 1; i < n; i++)
        assert_true(time_of(p, order[i - 1]) >= time_of(p, order[i]) && order[i - 1] != order[i]);
    assert_ok(stk_profile_sort_layers(p, &first, 1, &count, &err), &err);
    assert_true(count == 1 && first == order[0]);
}

/* Each pass is bound by what would take longer at the peaks, and its share is of that. A layer
 * that is faster than the peak that was kept is the peak. */
static void roofline(void **state)
{
    static const stk__peaks cases[] = {{1e15, 1e9}, {1e13, 1e15}, {1, 1e15}};
    stk_profile_layer layer = {.struct_size = sizeof layer};
    stk_profile_summary s = {.struct_size = sizeof s};

    for (size_t k = 0; k < STK_COUNT(cases); k++) {
        stk_model_builder *builder;
        stk_module *module;
        stk_profile *p;
        stk_trainer *t;
        double best = 0;
        bench b;
        fit(&b, "simple", &cases[k], &t, &module, &builder, &p);
        assert_ok(stk_profile_summarize(p, 0, NULL, &s, &b.err), &b.err);
        assert_true(s.peak_bytes_per_s == cases[k].bytes_per_s && s.peak_threads >= 1);
        assert_true(k == 2 ? s.peak_flops_per_s > 1e6 : s.peak_flops_per_s == cases[k].flops_per_s);
        for (size_t i = 0; stk_profile_get_layer(p, i, &layer); i++) {
            check_roof(&layer.forward_roof, &layer.forward, s.peak_flops_per_s, s.peak_bytes_per_s);
            check_roof(&layer.backward_roof, &layer.backward, s.peak_flops_per_s,
                       s.peak_bytes_per_s);
            best = STK_MAX(best, STK_MAX(layer.forward_roof.of_peak, layer.backward_roof.of_peak));
            const bool products = strcmp(layer.kind, "linear") == 0;
            assert_int_equal(layer.roof.bound, layer.forward.calls == 0 ? STK_PROFILE_BOUND_UNKNOWN
                                               : k == 0 || !products    ? STK_PROFILE_BOUND_MEMORY
                                                                     : STK_PROFILE_BOUND_COMPUTE);
        }
        check_sorted(p);
        if (k == 2)
            assert_float_equal(best, 1, 1e-9);
        *said = 0;
        assert_ok(stk_profile_close(&p, &b.err), &b.err);
        assert_non_null(strstr(said, "Peaks at compute_threads "));
        assert_non_null(strstr(said, k == 0 ? "   memory  " : "  compute  "));
        stk_trainer_destroy(&t);
        stk_module_destroy(&module);
        stk_model_builder_destroy(&builder);
        bench_close(&b);
    }
}

static bool is_kept(bench *b)
{
    const stk__peaks_key key = key_of(b);
    char *path = stk__peaks_path(b->ctx, b->folder, &key);
    const bool there = access(path, R_OK) == 0;

    stk__free(b->ctx, path);
    return there;
}

/* In a task a loader may read ahead, on the cores that are measured: peaks are found behind it, and
 * only for those who show them. */
static void measured_behind_the_task(void **state)
{
    static const struct {
        const char *profiler;
        bool summarize, measured;
    } cases[] = {{"simple", true, true}, {"advanced", false, true}, {"trace", false, false}};
    stk_profile_summary s = {.struct_size = sizeof s};

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_model_builder *builder;
        stk_module *module;
        stk_trainer *t;
        stk_profile *p;
        bench b;
        fit(&b, cases[i].profiler, NULL, &t, &module, &builder, &p);
        assert_false(is_kept(&b));
        if (cases[i].summarize)
            assert_ok(stk_profile_summarize(p, 0, NULL, &s, &b.err), &b.err);
        else
            assert_ok(stk_profile_finish(p, &b.err), &b.err);
        assert_int_equal(is_kept(&b), cases[i].measured);
        assert_ok(stk_profile_close(&p, &b.err), &b.err);
        stk_trainer_destroy(&t);
        stk_module_destroy(&module);
        stk_model_builder_destroy(&builder);
        bench_close(&b);
    }
}

static bool one_layer(const stk_module *module, size_t i, stk_layer *out)
{
    *out = (stk_layer){.name = "layer", .type = "Tiny", .flops = 1000, .depth = 1};
    return i == 0;
}

/* Operations a second are divided by what the option says, else by the peak that is kept; where
 * there is neither no share is logged. */
static void share_of_the_kept_peak(void **state)
{
    static const struct {
        const char *available;
        bool kept;
        double divisor; /* 0: no share */
    } cases[] = {{"2e9", true, 2e9}, {"0", true, 5e8}, {"0", false, 0}};
    static const stk__peaks peaks = {5e8, 1e9};
    double flops, share;
    stk_trainer *t;
    bench b;
    tiny m;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        bench_open(&b);
        tiny_init(&m);
        m.ops.layer = one_layer;
        b.options.logger = "csv";
        b.options.log_every_n_steps = 5;
        const stk__peaks_key key = key_of(&b);
        if (cases[i].kept)
            stk__peaks_keep(b.ctx, b.folder, &key, &peaks);
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        add(&b, t, &stk__callback_throughput, "available_flops", cases[i].available, "machine_dir",
            b.folder, NULL);
        assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
        assert_true(stk_trainer_metric(t, "train/device/flops_per_sec", &flops) && flops > 0);
        assert_int_equal(stk_trainer_metric(t, "train/device/mfu", &share), cases[i].divisor > 0);
        if (cases[i].divisor > 0)
            assert_float_equal(share, flops / cases[i].divisor, 1e-9 * share);
        stk_trainer_destroy(&t);
        bench_close(&b);
    }
}

/* What another program may ask: the same peaks, or that there are none. */
static void asked_for(void **state)
{
    double flops, bytes;
    bench b;

    bench_open(&b);
    const stk__peaks_key key = key_of(&b);
    assert_fails(stk_profile_kept_peaks(b.ctx, b.folder, "32-true", &flops, &bytes, &b.err),
                 STK_ENOENT, &b.err, "no peaks of this machine for 32-true and compute_threads ");
    stk__peaks_keep(b.ctx, b.folder, &key, &planted);
    assert_ok(stk_profile_kept_peaks(b.ctx, b.folder, "32", &flops, &bytes, &b.err), &b.err);
    assert_same(&(const stk__peaks){flops, bytes});
    assert_fails(stk_profile_kept_peaks(b.ctx, b.folder, "bf16-mixed", &flops, &bytes, &b.err),
                 STK_ENOENT, &b.err, "for bf16-mixed");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(believed),
                                       cmocka_unit_test(measured_once),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(roofline),
                                       cmocka_unit_test(measured_behind_the_task),
                                       cmocka_unit_test(share_of_the_kept_peak),
                                       cmocka_unit_test(asked_for)};

    return cmocka_run_group_tests_name("train/profiler_peaks", tests, NULL, NULL);
}
