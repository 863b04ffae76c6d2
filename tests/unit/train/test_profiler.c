/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the profilers, read back; what does not nest; options without effect. */
#include "unit/train/profiles.h"

/* Python 3.11: format(value, ".5"). */
static void numbers(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.0"},
                 {1, "1.0"},
                 {100, "100.0"},
                 {0.001, "0.001"},
                 {1.0 / 3, "0.33333"},
                 {0.000123456, "0.00012346"},
                 {0.0000123456, "1.2346e-05"},
                 {1234.5678, "1234.6"},
                 {9999.94, "9999.9"},
                 {9999.96, "1e+04"},
                 {12345.6, "1.2346e+04"},
                 {10000, "1e+04"},
                 {10500, "1.05e+04"},
                 {123456, "1.2346e+05"},
                 {-0.5, "-0.5"}};
    char text[32];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__profile_number(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* A row of the simple table. */
typedef struct line {
    char action[128], mean[32], calls[32], total[32], share[32];
} line;

static bool parse(const char *text, line *out)
{
    return sscanf(text, "|  %127[^\t]\t|  %31[^\t]\t|  %31[^\t]\t|  %31[^\t]\t|  %31[^\t]\t|",
                  out->action, out->mean, out->calls, out->total, out->share) == 5;
}

static void trim(char *text)
{
    size_t n = strlen(text);

    while (n && text[n - 1] == ' ')
        text[--n] = 0;
}

static size_t width_with_tabs(const char *row)
{
    size_t width = 0;

    for (; *row && *row != '\n'; row++)
        width += *row == '\t' ? 8 - width % 8 : 1;
    return width;
}

/* Rows of a simple report behind its head; checks what every row has to keep. */
static size_t read_simple(char *text, line *lines, size_t room)
{
    size_t n = 0, dashes = 0, columns = 0;
    double last = 1e9;

    for (char *row = strtok(text, "\n"); row; row = strtok(NULL, "\n")) {
        if (*row == '-') {
            assert_int_equal(strspn(row, "-"), strlen(row));
            assert_true(dashes == 0 || dashes == strlen(row));
            dashes = strlen(row);
            continue;
        }
        if (*row != '|')
            continue;
        assert_true(n < room);
        assert_true(parse(row, &lines[n]));
        /* Lightning counts the line end in front of the row, too. */
        assert_int_equal(width_with_tabs(row) + 1, dashes);
        assert_true(columns == 0 || columns == strlen(row));
        columns = n ? strlen(row) : 0; /* the head has words that a tab takes in */
        trim(lines[n].action);
        trim(lines[n].mean);
        trim(lines[n].share);
        if (n > 1) {
            double share = atof(lines[n].share), mean = atof(lines[n].mean);
            assert_true(share <= last);
            last = share;
            assert_true(fabs(mean * atof(lines[n].calls) - atof(lines[n].total)) <=
                        2e-4 * atof(lines[n].total) + 1e-12);
        }
        n++;
    }
    return n;
}

static const line *find(const line *lines, size_t n, const char *action)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(lines[i].action, action) == 0)
            return &lines[i];
    fail_msg("no row '%s'", action);
    return NULL;
}

static void simple(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    stk_trainer_times times = {.struct_size = sizeof times};
    line lines[64];
    char path[300];
    long calls = 0;
    bench b;
    tiny m;

    bench_open(&b);
    profile_options(&o, "simple", b.folder, "perf/logs");
    profile_fit(&b, &m, &o, &t, &p);
    stk_trainer_get_times(t, &times);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    assert_null(p);
    snprintf(path, sizeof path, "%s/fit-perf_logs-0.txt", b.folder);
    char *text = read_text(path);
    static const char title[] = "FIT Profiler Report\n\n---";
    assert_memory_equal(text, title, sizeof title - 1);
    size_t n = read_simple(text, lines, STK_COUNT(lines));
    assert_string_equal(lines[0].action, "Action");
    assert_string_equal(lines[0].mean, "Mean duration (s)");
    assert_string_equal(lines[1].action, "Total");
    assert_string_equal(lines[1].mean, "-");
    assert_string_equal(lines[1].share, "100 %");
    for (size_t i = 2; i < n; i++)
        calls += atol(lines[i].calls);
    assert_int_equal(atol(lines[1].calls), calls);
    assert_true(fabs(atof(lines[1].total) - (double)times.wall * 1e-9) <=
                1e-4 * (double)times.wall * 1e-9);
    static const struct {
        const char *action;
        long calls;
    } wanted[] = {{"run_training_epoch", 1},
                  {"run_training_batch", 10},
                  {"[_TrainingEpochLoop].train_dataloader_next", 10},
                  {"[Strategy]SingleDeviceStrategy.training_step", 10},
                  {"[Strategy]SingleDeviceStrategy.backward", 10},
                  {"[Strategy]SingleDeviceStrategy.optimizer_step", 10},
                  {"[Strategy]SingleDeviceStrategy.validation_step", 3},
                  {"setup_dataloaders", 1}};
    for (size_t i = 0; i < STK_COUNT(wanted); i++)
        assert_int_equal(atol(find(lines, n, wanted[i].action)->calls), wanted[i].calls);
    assert_int_equal(m.train_steps, 10);
    free(text);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* Without a file the short table goes to the console. */
static void console(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    bench b;
    tiny m;

    bench_open(&b);
    profile_options(&o, "simple", NULL, NULL);
    o.extended = false;
    profile_fit(&b, &m, &o, &t, &p);
    *said = 0;
    assert_ok(stk_profile_finish(p, &b.err), &b.err);
    assert_null(stk_profile_file(p, 0));
    assert_non_null(strstr(said, "FIT Profiler Report\n"));
    assert_null(strstr(said, "Num calls"));
    /* By the mean: one epoch takes longer than each of its batches. */
    const char *epoch = strstr(said, "|  run_training_epoch"),
               *batch = strstr(said, "|  run_training_batch");
    assert_non_null(epoch);
    assert_true(epoch < batch);
    /* A console has no tabs: columns are where the file's are on a terminal. */
    const char *head = strstr(said, "|  Action"), *mean = head ? strstr(head, "|  Mean dur") : NULL;
    assert_non_null(mean);
    assert_null(strchr(said, '\t'));
    assert_int_equal((mean - head) % 8, 0);
    assert_int_equal(epoch[mean - head], '|');
    assert_int_equal(batch[mean - head], '|');
    /* Nothing more is known, so nothing more is said. */
    *said = 0;
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    assert_string_equal(said, "");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void advanced(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    char path[300];
    bench b;
    tiny m;

    bench_open(&b);
    profile_options(&o, "simple, advanced", b.folder, "perf");
    o.line_count_restriction = 2;
    profile_fit(&b, &m, &o, &t, &p);
    assert_ok(stk_profile_finish(p, &b.err), &b.err);
    snprintf(path, sizeof path, "%s/fit-simple_perf-0.txt", b.folder);
    assert_string_equal(stk_profile_file(p, 0), path);
    snprintf(path, sizeof path, "%s/fit-advanced_perf-0.txt", b.folder);
    assert_string_equal(stk_profile_file(p, 1), path);
    char *text = read_text(path);
    const char *batch = strstr(text, "Profile stats for: run_training_batch rank: 0\n");
    assert_non_null(batch);
    assert_non_null(strstr(batch, "   Ordered by: cumulative time\n   List reduced from "));
    const char *head = strstr(batch, "   ncalls  tottime  percall  cumtime  percall "
                                     "filename:lineno(function)\n");
    assert_non_null(head);
    long calls[2];
    double own[2], total[2], each[4];
    char name[2][128];
    assert_int_equal(sscanf(strchr(head, '\n'),
                            "%ld %lf %lf %lf %lf {%127[^}]} %ld %lf %lf %lf %lf {%127[^}]}",
                            &calls[0], &own[0], &each[0], &total[0], &each[1], name[0], &calls[1],
                            &own[1], &each[2], &total[1], &each[3], name[1]),
                     12);
    assert_string_equal(name[0], "run_training_batch");
    assert_int_equal(calls[0], 10);
    assert_true(own[0] <= total[0] && total[1] <= total[0]);
    free(text);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* What is inside is not counted twice: all own times are the time of the outermost call. */
static void nests(void **state)
{
    stk_profile_options o;
    stk_profile_action action;
    stk_trainer *t;
    stk_profile *p;
    uint64_t own = 0, whole = 0;
    bench b;

    bench_open(&b);
    profile_options(&o, "simple", NULL, NULL);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_profile_create(t, &o, &p, &b.err), &b.err);
    for (int i = 0; i < 50; i++) {
        t->profiler.start(p, "", "outer");
        for (int k = 0; k < i % 3; k++) {
            t->profiler.start(p, "[Callback]a", "hook");
            t->profiler.start(p, "[Callback]b", "hook");
            t->profiler.stop(p, "[Callback]b", "hook");
            t->profiler.stop(p, "[Callback]a", "hook");
        }
        t->profiler.start(p, "[Callback]b", "hook");
        t->profiler.stop(p, "[Callback]b", "hook");
        t->profiler.stop(p, "", "outer");
    }
    static const uint64_t calls[] = {50, 99, 49};
    static const char *const names[] = {"outer", "[Callback]b.hook", "[Callback]a.hook"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(stk_profile_get_action(p, i, &action));
        assert_string_equal(action.name, names[i]);
        assert_int_equal(action.calls, calls[i]);
        own += action.own_ns;
        whole = i ? whole : action.total_ns;
    }
    assert_false(stk_profile_get_action(p, 3, &action));
    assert_int_equal(own, whole);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void misuse(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    bench b;

    bench_open(&b);
    profile_options(&o, "simple", NULL, NULL);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    assert_ok(stk_profile_create(t, &o, &p, &b.err), &b.err);
    t->profiler.stop(p, "", "never started");
    assert_fails(stk_profile_finish(p, &b.err), STK_EINVAL, &b.err, "not started");
    t->profiler.start(p, "", "twice");
    t->profiler.start(p, "", "twice");
    assert_fails(stk_profile_finish(p, &b.err), STK_EINVAL, &b.err, "started twice");
    t->profiler.start(p, "", "a");
    t->profiler.start(p, "", "b");
    t->profiler.stop(p, "", "a");
    assert_fails(stk_profile_finish(p, &b.err), STK_EINVAL, &b.err, "do not nest");
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        t->profiler.start(p, "", name);
    }
    assert_fails(stk_profile_close(&p, &b.err), STK_EINVAL, &b.err, "too deeply");
    assert_false(t->profiled);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* The summary is that of the batches, its shares are a whole, and it can leave out the first. */
static void assert_sums_up(stk_profile *p, uint64_t data, uint64_t forward)
{
    stk_profile_summary s = {.struct_size = sizeof s}, rest = {.struct_size = sizeof rest};
    stk_profile_batch first;
    stk_error err;

    assert_ok(stk_profile_summarize(p, 0, NULL, &s, &err), &err);
    assert_int_equal(s.batches, 20);
    assert_int_equal(s.samples, 80);
    assert_float_equal(s.parts[STK_PROFILE_DATA].sum, (double)data * 1e-9, 1e-9);
    assert_float_equal(s.parts[STK_PROFILE_FORWARD].sum, (double)forward * 1e-9, 1e-9);
    assert_float_equal(s.share[STK_PROFILE_DATA] + s.share[STK_PROFILE_FORWARD] +
                           s.share[STK_PROFILE_BACKWARD] + s.share[STK_PROFILE_OTHER],
                       1, 1e-9);
    assert_true(s.samples_per_s > 0 && strstr(s.text, "A batch takes "));
    assert_string_equal(stk_profile_part_name(STK_PROFILE_BACKWARD), "backward");
    assert_ok(stk_profile_summarize(p, 1, NULL, &rest, &err), &err);
    assert_true(stk_profile_get_batch(p, 0, &first));
    assert_int_equal(rest.batches, 19);
    assert_float_equal(s.parts[STK_PROFILE_TOTAL].sum - rest.parts[STK_PROFILE_TOTAL].sum,
                       stk_profile_part_seconds(&first, STK_PROFILE_TOTAL), 1e-9);
    assert_fails(stk_profile_summarize(p, 20, NULL, &rest, &err), STK_ENOENT, &err,
                 "only 20 batches were trained, and the first 20 are left out");
}

/* Each file is the text, whole; a text is cut to its room. */
static void assert_files(stk_profile *p, const char *folder)
{
    static const char *const names[] = {"timing_summary.yaml", "timing_results.csv", "layers.csv"};
    static const char *const begins[] = {
        "# Where the time of a training batch goes, in seconds.\nbatches: 18\n"
        "warmup_batches: 2\nbatch_size: 4\nsamples_per_s: ",
        "epoch,batch,samples,warmup,data_s,forward_s,backward_s,other_s,total_s,"
        "optimizer_steps\n0,0,4,1,0.",
        "name,type,forward_calls,"};
    stk_profile_summary s = {.struct_size = sizeof s};
    char path[400], below[300], cut[32];
    stk_error err;

    assert_ok(stk_profile_summarize(p, 2, NULL, &s, &err), &err);
    assert_int_equal(s.batch_size, 4);
    snprintf(below, sizeof below, "%s/a/b", folder);
    assert_ok(stk_profile_write_files(p, &s, below, &err), &err);
    for (int i = 0; i < STK_PROFILE_RESULTS; i++) {
        const stk_profile_result which = (stk_profile_result)i;
        const int length = stk_profile_format(p, &s, which, NULL, 0);
        char *whole = malloc((size_t)length + 1);
        snprintf(path, sizeof path, "%s/%s", below, names[i]);
        char *text = read_text(path);
        assert_non_null(whole);
        assert_int_equal(stk_profile_format(p, &s, which, whole, (size_t)length + 1), length);
        assert_string_equal(text, whole);
        assert_int_equal(strlen(whole), length);
        assert_memory_equal(text, begins[i], strlen(begins[i]));
        assert_int_equal(stk_profile_format(p, &s, which, cut, sizeof cut), length);
        assert_int_equal(strlen(cut), sizeof cut - 1);
        assert_memory_equal(cut, whole, sizeof cut - 1);
        if (which == STK_PROFILE_TIMING_RESULTS)
            assert_true(strstr(text, "\n0,1,4,1,") && strstr(text, "\n0,2,4,0,") &&
                        strstr(text, "\n1,9,4,0,"));
        free(whole);
        free(text);
    }
    assert_int_equal(stk_profile_format(p, &s, STK_PROFILE_RESULTS, NULL, 0), -1);
    s.struct_size = 0;
    assert_fails(stk_profile_write_files(p, &s, below, &err), STK_EINVAL, &err,
                 "stk_profile_summary");
}

static void batches(void **state)
{
    stk_profile_options o;
    stk_profile_batch batch;
    stk_profile_action next, step;
    stk_trainer *t;
    stk_profile *p;
    uint64_t data = 0, forward = 0, n = 0;
    bench b;
    tiny m;

    bench_open(&b);
    b.options.max_epochs = 2;
    profile_options(&o, "simple", NULL, NULL);
    profile_fit(&b, &m, &o, &t, &p);
    for (; stk_profile_get_batch(p, n, &batch); n++) {
        assert_int_equal(batch.epoch, n / 10);
        assert_int_equal(batch.batch_idx, n % 10);
        assert_int_equal(batch.samples, 4);
        data += batch.data;
        forward += batch.forward;
    }
    assert_int_equal(n, 20);
    assert_sums_up(p, data, forward);
    assert_files(p, b.folder);
    for (size_t i = 0; stk_profile_get_action(p, i, &next); i++)
        if (strstr(next.name, "train_dataloader_next"))
            break;
    for (size_t i = 0; stk_profile_get_action(p, i, &step); i++)
        if (strstr(step.name, ".training_step"))
            break;
    assert_int_equal(data, next.total_ns);
    assert_int_equal(forward, step.total_ns);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void refuse(bench *b, stk_trainer *t, const stk_profile_options *o, const char *part)
{
    stk_profile *p;

    assert_fails(stk_profile_create(t, o, &p, &b->err), STK_EINVAL, &b->err, part);
    assert_null(p);
    assert_false(t->profiled);
}

static void refusals(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    bench b;

    bench_open(&b);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    profile_options(&o, NULL, NULL, NULL);
    refuse(&b, t, &o, "simple, advanced and trace");
    profile_options(&o, "simple,pytorch", NULL, NULL);
    refuse(&b, t, &o, "no profiler 'pytorch'");
    profile_options(&o, "advanced", NULL, NULL);
    o.extended = false;
    refuse(&b, t, &o, "profile.extended");
    profile_options(&o, "simple", NULL, NULL);
    o.line_count_restriction = 3;
    refuse(&b, t, &o, "profile.line_count_restriction");
    profile_options(&o, "simple,advanced", NULL, NULL);
    o.max_events = 10;
    refuse(&b, t, &o, "profile.max_events");
    profile_options(&o, "simple", b.folder, NULL);
    refuse(&b, t, &o, "profile.dirpath");
    stk_trainer_destroy(&t);
    b.options.barebones = true;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    profile_options(&o, "simple", NULL, NULL);
    refuse(&b, t, &o, "barebones");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* A folder that cannot be: the status says so, and the trainer is as before. */
static void no_folder(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    char path[300];
    bench b;
    tiny m;

    bench_open(&b);
    test_write(b.folder, "file", "x", 1);
    snprintf(path, sizeof path, "%s/file/below", b.folder);
    profile_options(&o, "simple,advanced,trace", path, "perf");
    profile_fit(&b, &m, &o, &t, &p);
    assert_true(stk_profile_close(&p, &b.err) < 0);
    assert_non_null(strstr(b.err.text, "file"));
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* The trainer may go first, as one that a recipe made and then failed does. */
static void trainer_goes_first(void **state)
{
    stk_profile_options o;
    stk_trainer *t;
    stk_profile *p;
    bench b;

    bench_open(&b);
    profile_options(&o, "simple,advanced", b.folder, "perf");
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_profile_create(t, &o, &p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    assert_null(p);
    bench_close(&b);
}

/* ---- Its end --------------------------------------------------------------------------------- */

static void nothing(void *user, const char *owner, const char *what)
{
}

/* How often it was removed, and how often because the trainer went. */
static void count_removed(void *user, bool destroyed)
{
    int *counts = user;

    counts[0]++;
    counts[1] += destroyed;
}

/* A profiler hears of the end of its trainer: it may not use it any more. */
static void a_trainer_that_goes(void **state)
{
    int counts[2] = {0};
    const stk_profiler profiler = {.struct_size = sizeof profiler,
                                   .start = nothing,
                                   .stop = nothing,
                                   .user = counts,
                                   .removed = count_removed};
    stk_trainer *t;
    bench b;

    bench_open(&b);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    stk_trainer_set_profiler(t, &profiler);
    stk_trainer_set_profiler(t, &profiler);
    assert_true(counts[0] == 1 && counts[1] == 0);
    stk_trainer_destroy(&t);
    assert_true(counts[0] == 2 && counts[1] == 1);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(simple),
        cmocka_unit_test(console),
        cmocka_unit_test(advanced),
        cmocka_unit_test(nests),
        cmocka_unit_test(misuse),

        cmocka_unit_test(batches),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_folder),
        cmocka_unit_test(trainer_goes_first),
        cmocka_unit_test(a_trainer_that_goes),
    };

    return cmocka_run_group_tests_name("train/profiler", tests, NULL, NULL);
}
