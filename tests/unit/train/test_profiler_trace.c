/* SPDX-License-Identifier: Apache-2.0 */
/* The trace, read back as JSON; layers of a model; how much is kept. */
#include <jansson.h>

#include "unit/train/profiles.h"

enum { STEPS = 7, ROWS = 20 };

typedef struct run {
    bench b;
    stk_model_builder *builder;
    stk_module *module;
    stk_trainer *trainer;
    stk_profile *profile;
} run;

/* A fit of STEPS batches of a model, prepared by two workers. */
static void run_open(run *r, const stk_profile_options *options)
{
    static const int64_t shape[] = {1, 28, 28};
    bench *b = &r->b;

    memset(r, 0, sizeof *r);
    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:200", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
    b->loader.batch_size = b->val_loader.batch_size = ROWS;
    b->loader.num_workers = 2;
    b->val_loader.num_workers = 1;
    b->loader.transforms = b->val_loader.transforms = "layout(chw), to_float";
    b->options.limit_train_batches = "7";
    b->options.limit_val_batches = "3";
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &r->builder, &b->err), &b->err);
    assert_ok(
        stk_model_builder_add(r->builder, "flatten, first=linear(32), relu, linear(10)", &b->err),
        &b->err);
    const stk_model_parts recipe = {.struct_size = sizeof recipe, .builder = r->builder};
    assert_ok(stk_model_module_create(b->ctx, &recipe, &r->module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &r->trainer, &b->err), &b->err);
    listen_to(r->trainer);
    assert_ok(stk_profile_create(r->trainer, options, &r->profile, &b->err), &b->err);
    assert_ok(stk_trainer_fit(r->trainer, r->module, &b->data, NULL, &b->err), &b->err);
}

static void run_close(run *r)
{
    assert_ok(stk_profile_close(&r->profile, &r->b.err), &r->b.err);
    stk_trainer_destroy(&r->trainer);
    stk_module_destroy(&r->module);
    stk_model_builder_destroy(&r->builder);
    bench_close(&r->b);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    if (!root)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    assert_non_null(text);
    return text;
}

static double number_of(const json_t *event, const char *key)
{
    assert_true(json_is_number(json_object_get(event, key)));
    return json_number_value(json_object_get(event, key));
}

static size_t count(const json_t *events, const char *phase, const char *category, const char *part)
{
    size_t n = 0, i;
    json_t *event;

    json_array_foreach(events, i, event) n += strcmp(text_of(event, "ph"), phase) == 0 &&
                                              strcmp(text_of(event, "cat"), category) == 0 &&
                                              strstr(text_of(event, "name"), part);
    return n;
}

/* On each thread a span that begins in another one ends there, too. */
static void check_nesting(const json_t *events, int tid)
{
    double ends[64];
    size_t depth = 0, i;
    json_t *event;

    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") != 0 || (int)number_of(event, "tid") != tid)
            continue;
        const double start = number_of(event, "ts"), end = start + number_of(event, "dur");
        while (depth && ends[depth - 1] <= start + 1e-6)
            depth--;
        if (depth)
            assert_true(end <= ends[depth - 1] + 2e-3);
        assert_true(depth < STK_COUNT(ends));
        ends[depth++] = end;
    }
}

/* The span that an arrow's end lies in. */
static const json_t *span_at(const json_t *events, const json_t *arrow, const char *name)
{
    size_t i;
    json_t *event;

    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") != 0 || strcmp(text_of(event, "name"), name) != 0 ||
            number_of(event, "tid") != number_of(arrow, "tid"))
            continue;
        const double at = number_of(arrow, "ts"), start = number_of(event, "ts");
        if (at >= start && at <= start + number_of(event, "dur"))
            return event;
    }
    fail_msg("an arrow ends in no '%s'", name);
    return NULL;
}

/* Arrows join the making of a batch and its step, and go forward in time. */
static void check_arrows(const json_t *events)
{
    const json_t *begin[64] = {0};
    size_t i, n = 0;
    json_t *event;

    json_array_foreach(events, i, event)
    {
        const char phase = *text_of(event, "ph");
        if (phase != 's' && phase != 'f')
            continue;
        const size_t id = (size_t)number_of(event, "id");
        assert_true(id < STK_COUNT(begin));
        if (phase == 's') {
            assert_null(begin[id]);
            begin[id] = event;
            continue;
        }
        assert_non_null(begin[id]);
        assert_string_equal(text_of(event, "bp"), "e");
        const json_t *made = span_at(events, begin[id], "batch");
        const json_t *step = span_at(events, event, "run_training_batch");
        assert_true(number_of(made, "ts") + number_of(made, "dur") <= number_of(step, "ts") + 1e-3);
        assert_true(number_of(json_object_get(made, "args"), "step") ==
                    number_of(json_object_get(step, "args"), "step"));
        n++;
    }
    assert_int_equal(n, STEPS);
}

/* The number of the lane of a name; -1: there is none. */
static int lane_named(const json_t *events, const char *name)
{
    json_t *event;
    size_t i;

    json_array_foreach(events, i, event) if (strcmp(text_of(event, "name"), "thread_name") == 0 &&
                                             strcmp(text_of(json_object_get(event, "args"), "name"),
                                                    name) == 0) return (int)number_of(event, "tid");
    return -1;
}

/* Training and validation have lanes of their own: each batch and sample is in those of its loader,
 * and steps take batches of training alone. */
static void check_loaders(const json_t *events)
{
    static const char *const names[] = {"training: ", "validation: "};
    static const int batches[] = {STEPS, 3};
    char name[64];
    json_t *event;
    size_t i;

    for (int k = 0; k < 2; k++) {
        int made = 0, samples = 0;
        for (int lane = 0; lane < 8; lane++) {
            snprintf(name, sizeof name, "%sbatches %d", names[k], lane);
            const int tid = lane_named(events, name);
            json_array_foreach(events, i, event) made +=
                strcmp(text_of(event, "name"), "batch") == 0 && number_of(event, "tid") == tid;
            snprintf(name, sizeof name, "%sworker %d", names[k], lane);
            const int worker = lane_named(events, name);
            json_array_foreach(events, i,
                               event) if (strcmp(text_of(event, "name"), "prepare") == 0 &&
                                          number_of(event, "tid") == worker) samples +=
                (int)number_of(json_object_get(event, "args"), "samples");
        }
        assert_true(made >= batches[k] && samples >= ROWS);
        snprintf(name, sizeof name, "%sbatches ready", names[k]);
        assert_true(count(events, "C", "loader", name) >= 2 * (size_t)batches[k]);
    }
    assert_int_equal(lane_named(events, "worker 0"), -1);
    assert_int_equal(lane_named(events, "batches 0"), -1);
}

static void trace(void **state)
{
    stk_profile_options o;
    char folder[320];
    double samples = 0;
    size_t i;
    json_t *event;
    run r;

    profile_options(&o, "trace", NULL, "perf");
    run_open(&r, &o);
    assert_ok(stk_profile_finish(r.profile, &r.b.err), &r.b.err);
    const char *path = stk_profile_file(r.profile, 0);
    assert_non_null(path);
    snprintf(folder, sizeof folder, "%s/fit-perf-0.", r.b.folder);
    assert_memory_equal(path, folder, strlen(folder));
    const char *end = path + strlen(folder) + strspn(path + strlen(folder), "0123456789");
    assert_string_equal(end, ".pt.trace.json");
    assert_null(stk_profile_file(r.profile, 1));
    json_t *root = load(path);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_string_equal(text_of(root, "displayTimeUnit"), "ms");
    assert_string_equal(text_of(json_object_get(root, "otherData"), "lost_events"), "0");
    json_array_foreach(events, i, event)
    {
        assert_non_null(strchr("XiCMsf", *text_of(event, "ph")));
        assert_true(number_of(event, "ts") >= 0);
        assert_true(number_of(event, "pid") == 0);
        if (strcmp(text_of(event, "name"), "prepare") == 0)
            samples += number_of(json_object_get(event, "args"), "samples");
    }
    assert_int_equal(count(events, "X", "step", "run_training_batch"), STEPS);
    assert_int_equal(count(events, "X", "call", ".optimizer_step"), STEPS);
    assert_int_equal(count(events, "X", "layer", "[Layer]first (linear).forward"), STEPS + 3);
    assert_int_equal(count(events, "X", "layer", "[Layer]first (linear).backward"), STEPS);
    assert_true(samples >= (STEPS + 3) * ROWS);
    assert_true(count(events, "M", "__metadata", "thread_name") >= 3);
    assert_true(count(events, "C", "loader", "batches ready") >= 2 * STEPS);
    check_nesting(events, 0);
    check_nesting(events, lane_named(events, "training: batches 0"));
    check_nesting(events, lane_named(events, "validation: batches 0"));
    check_loaders(events);
    check_arrows(events);
    json_decref(root);
    run_close(&r);
}

/* Reads, and a sample that is none: eight pictures, the sixth of which is damaged. */
static void reads_and_bad_samples(void **state)
{
    enum { FILES = 8, BAD = 5 };
    static char picture[1 << 16];
    stk_profile_options o;
    char folder[256], name[32];
    double bytes = 0, reads = 0;
    stk_profile *p;
    stk_trainer *t;
    size_t i, size;
    json_t *event;
    tiny m;
    bench b;

    FILE *in = fopen(TESTS_DIR "/golden/images/base_444.jpg", "rb");
    assert_non_null(in);
    size = fread(picture, 1, sizeof picture, in);
    fclose(in);
    assert_true(size > 100 && size < sizeof picture);
    test_folder(folder);
    for (int k = 0; k < FILES; k++) {
        snprintf(name, sizeof name, "a/%d.jpg", k);
        test_write(folder, name, picture, k == BAD ? size / 2 : size);
    }
    bench_open(&b);
    stk_dataset_close(&b.dataset);
    snprintf(picture, sizeof picture, "images:%s", folder);
    assert_ok(stk_dataset_open(b.ctx, picture, &b.dataset, &b.err), &b.err);
    b.train.dataset = b.val.dataset = b.dataset;
    b.loader.on_error = STK_ON_ERROR_SKIP;
    b.loader.transforms = "center_crop(8), to_float";
    b.options.limit_val_batches = "0";
    profile_options(&o, "trace", NULL, "reads");
    profile_fit(&b, &m, &o, &t, &p);
    assert_ok(stk_profile_finish(p, &b.err), &b.err);
    json_t *root = load(stk_profile_file(p, 0));
    const json_t *events = json_object_get(root, "traceEvents");
    json_array_foreach(events, i, event)
    {
        const json_t *args = json_object_get(event, "args");
        if (strcmp(text_of(event, "name"), "read") == 0) {
            assert_string_equal(text_of(args, "status"), "STK_OK");
            bytes += number_of(args, "bytes");
            reads++;
        } else if (strcmp(text_of(event, "name"), "bad sample") == 0) {
            assert_true(number_of(args, "index") == BAD);
            assert_string_equal(text_of(args, "status"), "STK_ETRUNCATED");
        }
    }
    assert_true(reads == FILES);
    assert_true(bytes == (double)(size * (FILES - 1) + size / 2));
    assert_int_equal(count(events, "X", "read", "read"), FILES);
    assert_int_equal(count(events, "i", "sample", "bad sample"), 1);
    json_decref(root);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
    test_folder_remove(folder);
}

/* No more is kept than was asked for, and the file says how much is missing. */
static void bounded(void **state)
{
    stk_profile_options o;
    size_t i, kept = 0;
    json_t *event;
    run r;

    profile_options(&o, "trace", NULL, NULL);
    o.max_events = 9;
    run_open(&r, &o);
    assert_ok(stk_profile_finish(r.profile, &r.b.err), &r.b.err);
    json_t *root = load(stk_profile_file(r.profile, 0));
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) kept +=
        strchr("Xi", *text_of(event, "ph")) != NULL;
    assert_true(kept <= 9);
    const json_t *other = json_object_get(root, "otherData");
    assert_string_equal(text_of(other, "events"), "9");
    assert_true(atol(text_of(other, "lost_events")) > 20);
    json_decref(root);
    run_close(&r);
}

/* One row of the layers; `skipped` steps do not count. */
static void check_layer(const stk_profile_layer *layer, size_t i, uint64_t skipped)
{
    static const char *const names[] = {"0", "first", "2", "3", "loss", "optimizer"};
    static const uint64_t products[] = {0, 784 * 32, 0, 32 * 10, 0, 0};
    const uint64_t calls = STEPS - skipped, left_out = skipped;
    const bool validates = i < 5, backward = i < 4; /* the loss is not divided by anything */

    assert_string_equal(layer->name, names[i]);
    if (i == 0 || i == 2) { /* done by others */
        assert_int_equal(layer->forward.calls + layer->backward.calls, 0);
        return;
    }
    assert_int_equal(layer->forward.calls, calls);
    assert_int_equal(layer->backward.calls, backward ? calls : 0);
    /* Three batches of validation do not count; the optimizer has no part in them. */
    assert_int_equal(layer->forward_left_out, left_out + (validates ? 3 : 0));
    assert_int_equal(layer->backward_left_out, backward ? left_out : 0);
    assert_int_equal(layer->forward.flops, 2 * products[i] * ROWS * calls);
    /* The first layer passes no gradient on. */
    assert_int_equal(layer->backward.flops, 2 * products[i] * ROWS * calls * (i == 1 ? 1 : 2));
    assert_true(layer->forward.ns > 0 && layer->forward.bytes > 0);
    assert_true(layer->forward_median_ns > 0 && layer->forward_median_ns <= layer->forward.ns);
    assert_true(layer->share > 0 && layer->share < 1);
}

/* The first step is left out at least, and as many as asked for; the table says so. */
static void layers(void **state)
{
    static const uint64_t warmups[][2] = {{0, 1}, {3, 3}};
    stk_profile_layer layer = {.struct_size = sizeof layer};
    stk_profile_options o;
    run r;

    for (size_t k = 0; k < STK_COUNT(warmups); k++) {
        double share = 0;
        size_t i = 0;
        profile_options(&o, k ? "simple" : "advanced", NULL, NULL);
        o.warmup_steps = warmups[k][0];
        run_open(&r, &o);
        for (; stk_profile_get_layer(r.profile, i, &layer); i++) {
            check_layer(&layer, i, warmups[k][1]);
            share += layer.share;
        }
        assert_int_equal(i, 6);
        assert_true(share < 1);
        *said = 0;
        assert_ok(stk_profile_finish(r.profile, &r.b.err), &r.b.err);
        assert_non_null(
            strstr(said, k ? "  4 batches. 3 are left out" : "  6 batches. 1 are left "));
        assert_non_null(strstr(said, "\n  optimizer "));
        assert_non_null(strstr(said, "\n  waiting for data "));
        assert_non_null(strstr(said, "\nBy type\n"));
        if (k == 0) {
            assert_non_null(strstr(said, "{[Layer]first (linear).backward}"));
            assert_null(strstr(said, "Profile stats for: [Layer]"));
        }
        /* What is recorded next begins anew. */
        assert_true(stk_profile_get_layer(r.profile, 1, &layer));
        assert_int_equal(layer.forward.calls + layer.forward_left_out, 0);
        /* Closed, the model has no probe left: it can be used, and nobody listens. */
        run_close(&r);
    }
}

/* Two of the nine columns of numbers at the end of a row; false: it is no row. */
static bool read_row(char *row, double *own, double *percent)
{
    char *words[16], *rest;
    size_t n = 0;

    for (char *word = strtok_r(row, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(n < STK_COUNT(words));
        words[n++] = word;
    }
    if (n < 10)
        return false;
    *own = strtod(words[n - 9], NULL);
    *percent = strtod(words[n - 8], NULL);
    return true;
}

/* Rows of the table are sorted by the time each takes itself, and are the whole. */
static void table(void **state)
{
    double last = 1e9, sum = 0, own, percent;
    stk_profile_options o;
    char *rest, *line;
    size_t n = 0;
    run r;

    profile_options(&o, "simple", NULL, NULL);
    o.warmup_steps = 2;
    run_open(&r, &o);
    *said = 0;
    assert_ok(stk_profile_finish(r.profile, &r.b.err), &r.b.err);
    line = strstr(said, "self ms");
    assert_non_null(line);
    assert_non_null(strtok_r(line, "\n", &rest)); /* the head, and dashes below it */
    assert_non_null(strtok_r(NULL, "\n", &rest));
    while ((line = strtok_r(NULL, "\n", &rest)) && read_row(line, &own, &percent)) {
        assert_true(own <= last);
        last = own;
        sum += percent;
        n++;
    }
    assert_true(n >= 7);
    assert_true(fabs(sum - 100) < 0.2);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace), cmocka_unit_test(reads_and_bad_samples), cmocka_unit_test(bounded),
        cmocka_unit_test(layers), cmocka_unit_test(table)};

    return cmocka_run_group_tests_name("train/profiler_trace", tests, NULL, NULL);
}
