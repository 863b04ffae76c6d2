/* SPDX-License-Identifier: Apache-2.0 */
/* Live sheets: what is counted, what it amounts to, and pages that other programs made. */
#include "support/support.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure/live.h"

#define SECOND UINT64_C(1000000000)
#define TEXT   65536

static stk_live_state state_of(int64_t pid)
{
    stk_live_state state = {.struct_size = sizeof state};
    stk_error err;

    assert_ok(stk_live_read(pid, &state, &err), &err);
    return state;
}

/* ---- What is counted ------------------------------------------------------------------------- */

static void samples(stk__live_watch *w, uint32_t worker, uint64_t start, uint64_t end, uint64_t n)
{
    const stk__event e = {.kind = STK__EVENT_SAMPLE,
                          .worker = worker,
                          .start_ns = start,
                          .end_ns = end,
                          .index = 7 * n,
                          .count = n};

    stk__live_event(w, &e);
}

/* Rates and shares are of the last looks, counts of all time. */
static void test_rates(void **state)
{
    stk__live_watch *w = calloc(1, sizeof *w);
    stk__event e = {.kind = STK__EVENT_READ, .start_ns = 0, .end_ns = SECOND / 100, .bytes = 1000};

    assert_non_null(w);
    w->ctx = *state;
    stk__live_watch_look(w, 10 * SECOND);
    assert_true(w->state.window == 0 && w->state.samples_per_s == 0 && !w->state.loader);
    samples(w, 1, 10 * SECOND, 11 * SECOND, 100);
    samples(w, UINT32_MAX, 10 * SECOND, 10 * SECOND + SECOND / 2, 50);
    samples(w, 4000000, 10 * SECOND, 11 * SECOND, 1);
    stk__live_event(w, &e);
    e.status = STK_EIO;
    stk__live_event(w, &e);
    e = (stk__event){.kind = STK__EVENT_DELIVER, .epoch = 3};
    stk__live_event(w, &e);
    e.epoch = 0;
    stk__live_event(w, &e);
    e = (stk__event){.kind = STK__EVENT_BAD_SAMPLE};
    stk__live_event(w, &e);
    stk__live_watch_look(w, 12 * SECOND);
    const stk_live_state *s = &w->state;
    assert_true(s->samples == 151 && s->samples_per_s == 75.5 && s->window == 2);
    assert_true(s->batches == 2 && s->batches_per_s == 1 && s->epoch == 3 && s->bad_samples == 1);
    assert_true(s->reads == 2 && s->read_failures == 1 && s->read_bytes_per_s == 1000);
    assert_true(fabs(s->read_latency - 0.01) < 1e-9);
    assert_int_equal(s->num_workers, 2);
    assert_true(s->worker[0].busy == 0.25 && s->worker[0].samples == 50);
    assert_true(s->worker[1].busy == 0.5 && s->worker[1].idle == 1 && s->worker[1].index == 700);
    /* Once all looks are of later than that, it is over. */
    for (int i = 0; i < STK__LIVE_LOOKS; i++)
        stk__live_watch_look(w, 13 * SECOND + (uint64_t)i * SECOND / 2);
    assert_true(s->samples == 151 && s->samples_per_s == 0 && s->read_latency == 0);
    assert_true(s->worker[1].busy == 0 && s->window == 3.5);
    free(w);
}

static void test_progress(void **state)
{
    stk__live_watch *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->ctx = *state;
    stk__live_watch_look(w, SECOND);
    assert_true(!*w->state.what && w->state.eta < 0 && w->state.epochs == -1);
    stk__progress(*state, "files", 10, 110);
    stk__live_watch_look(w, 2 * SECOND);
    assert_string_equal(w->state.what, "files");
    assert_true(w->state.done == 10 && w->state.total == 110 && w->state.eta < 0);
    stk__progress(*state, "files", 35, 110);
    stk__live_watch_look(w, 7 * SECOND);
    assert_true(w->state.eta == 15); /* 25 took 5 s, 75 are left */
    /* Another thing, and the same again from its start. */
    stk__progress(*state, "folders", 40, 0);
    stk__live_watch_look(w, 8 * SECOND);
    assert_true(w->state.eta < 0 && w->state.total == 0);
    stk__progress(*state, "folders", 2, 10);
    stk__live_watch_look(w, 9 * SECOND);
    assert_true(w->state.eta < 0);
    free(w);
}

/* A loader that is at work, and is not any more. */
static void test_loader(void **state)
{
    stk__live_watch *w = calloc(1, sizeof *w);
    stk_loader_options options;
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    assert_non_null(w);
    w->ctx = *state;
    stk_loader_options_init(&options);
    options.batch_size = 32;
    options.num_workers = 0;
    assert_ok(stk_dataset_open(*state, "digits:?subset=0:640", &dataset, &err), &err);
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    stk__live_watch_look(w, SECOND);
    assert_true(w->state.loader && w->state.memory_budget > 0);
    for (int i = 0; i < 4; i++) {
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        stk_batch_release(&batch);
    }
    samples(w, 0, SECOND, SECOND + 1, 128);
    stk__live_watch_look(w, 2 * SECOND);
    assert_true(w->state.wait_share > 0 && *w->state.verdict && *w->state.limit);
    double sum = 0;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        sum += w->state.wait_shares[i];
    assert_true(fabs(sum - w->state.wait_share) < 1e-6);
    stk_loader_destroy(&loader);
    stk__live_watch_look(w, 3 * SECOND);
    assert_true(!w->state.loader && !*w->state.verdict && w->state.wait_share == 0);
    stk_dataset_close(&dataset);
    free(w);
}

/* Of two loaders the one that gives batches is shown, and both have their figures. */
static void test_two_loaders(void **state)
{
    stk__live_watch *w = calloc(1, sizeof *w);
    stk_loader *loaders[2];
    stk_loader_options options;
    stk_dataset *dataset;
    stk_batch *batch;
    stk_error err;

    assert_non_null(w);
    w->ctx = *state;
    stk_loader_options_init(&options);
    options.num_workers = 0;
    assert_ok(stk_dataset_open(*state, "digits:?subset=0:640", &dataset, &err), &err);
    for (int i = 0; i < 2; i++) {
        options.batch_size = i ? 16 : 32;
        assert_ok(stk_loader_create(dataset, &options, &loaders[i], &err), &err);
    }
    for (uint64_t i = 0; i < 6; i++) {
        const uint64_t which = i / 2 % 2;
        assert_ok(stk_loader_next(loaders[which], -1, &batch, &err), &err);
        stk_batch_release(&batch);
        stk__live_watch_look(w, (i + 1) * SECOND);
        assert_ptr_equal(w->looks[i].loader, loaders[which]);
        assert_int_equal(w->state.num_loaders, 2);
        for (uint64_t k = 0; k < 2; k++) {
            const stk_live_loader *l = &w->state.loaders[k];
            const uint64_t given = i < 2   ? (k ? 0 : i + 1)
                                   : k     ? STK_MIN(i - 1, 2)
                                   : i < 4 ? 2
                                           : i - 1;
            assert_true(l->samples == 640 && l->batch_size == (k ? 16 : 32));
            assert_int_equal(l->batches, given);
            assert_true(l->first == (k == which) && l->memory_budget > 0 && l->depth > 0);
            assert_true(fabs(l->batches_per_s * w->state.window - (double)(given - (k == 0))) <
                            1e-9 ||
                        w->state.window == 0);
            assert_true(l->wait_share >= 0 && (given < 2 || l->wait_share > 0));
        }
        /* It stays where none gives one. */
        if (i == 5) {
            stk__live_watch_look(w, 7 * SECOND);
            assert_ptr_equal(w->looks[6].loader, loaders[which]);
        }
    }
    /* One that is gone is not there any more. */
    stk_loader_destroy(&loaders[0]);
    stk__live_watch_look(w, 8 * SECOND);
    assert_true(w->state.num_loaders == 1 && w->state.loaders[0].first);
    assert_int_equal(w->state.loaders[0].batch_size, 16);
    stk_loader_destroy(&loaders[1]);
    stk_dataset_close(&dataset);
    free(w);
}

/* ---- Processes ------------------------------------------------------------------------------- */

static bool is_listed(int64_t pid)
{
    int64_t pids[64];
    const size_t n = stk_live_list(pids, 64);

    for (size_t i = 0; i < n && i < 64; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static void test_own(void **state)
{
    stk_live_state own = {.struct_size = sizeof own};
    stk_live *live;
    stk_error err;

    assert_false(is_listed(getpid()));
    assert_fails(stk_live_read(getpid(), &own, &err), STK_ENOENT, &err, "stk_live_open()");
    assert_ok(stk_live_open(*state, "test", "a label", &live, &err), &err);
    assert_true(is_listed(getpid()));
    const stk_live_state s = state_of(getpid());
    stk_live_get(live, &own);
    assert_string_equal(s.label, "a label");
    assert_string_equal(s.command, "test");
    assert_string_equal(s.stoker, stk_version());
    assert_true(s.pid == getpid() && s.usable_cores > 0 && *s.machine && s.process_bytes > 0);
    assert_string_equal(own.label, s.label);
    /* A child of fork() has the same sheet: it is this process's. */
    int ends[2];
    char c;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &c, 1) != 0);
    }
    close(ends[0]);
    assert_true(is_listed(getpid()));
    assert_false(is_listed(child));
    close(ends[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    stk_live_close(&live);
    assert_null(live);
    assert_false(is_listed(getpid()));
    assert_fails(stk_live_read(-1, &own, &err), STK_ENOENT, &err, "no process");
    own.struct_size = 0;
    assert_fails(stk_live_read(getpid(), &own, &err), STK_EINVAL, &err, "struct_size");
}

/* A child that has one, until the pipe is closed. Its process id. */
static pid_t start(const char *label, int *end)
{
    int to[2], from[2];
    char c = 0;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        stk_context *context;
        stk_live *live;
        close(to[1]);
        if (stk_context_create(NULL, &context, NULL) != STK_OK ||
            stk_live_open(context, "child", label, &live, NULL) != STK_OK)
            _exit(1);
        if (write(from[1], &c, 1) != 1 || read(to[0], &c, 1) < 0)
            _exit(1);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    assert_int_equal(read(from[0], &c, 1), 1);
    close(from[0]);
    *end = to[1];
    return pid;
}

/* Loaders of Python have a context and a sheet each: all of a process are found, one by one. */
static void test_two_sheets(void **state)
{
    stk_context *other = test_context();
    stk_live_state s = {.struct_size = sizeof s};
    stk_live *live[2];
    stk_error err;

    assert_ok(stk_live_open(*state, "test", "first", &live[0], &err), &err);
    assert_ok(stk_live_open(other, "test", "second", &live[1], &err), &err);
    assert_ok(stk_live_read_at(getpid(), 0, &s, &err), &err);
    assert_string_equal(s.label, "first");
    assert_ok(stk_live_read_at(getpid(), 1, &s, &err), &err);
    assert_string_equal(s.label, "second");
    assert_int_equal(stk_live_read_at(getpid(), 2, &s, &err), STK_EOS);
    assert_string_equal(state_of(getpid()).label, "first");
    stk_live_close(&live[0]);
    assert_string_equal(state_of(getpid()).label, "second");
    assert_int_equal(stk_live_read_at(getpid(), 1, &s, &err), STK_EOS);
    stk_live_close(&live[1]);
    stk_context_destroy(&other);
    assert_fails(stk_live_read_at(getpid(), 1, &s, &err), STK_ENOENT, &err, "stk_live_open()");
}

/* That of a child is found by its parent's number; of two one has to be named. */
static void test_children(void **state)
{
    stk_live_state s = {.struct_size = sizeof s};
    int ends[2];
    stk_error err;
    const pid_t first = start("first", &ends[0]);

    assert_string_equal(state_of(first).label, "first");
    assert_string_equal(state_of(getpid()).label, "first");
    const pid_t second = start("second", &ends[1]);
    assert_fails(stk_live_read(getpid(), &s, &err), STK_EINVAL, &err, "2 runs");
    assert_true(is_listed(first) && is_listed(second));
    /* Each child has the ends of the ones before. */
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < 2; i++) {
        int how;
        assert_int_equal(waitpid(i ? second : first, &how, 0), i ? second : first);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_false(is_listed(first));
}

/* ---- Pages of others ------------------------------------------------------------------------- */

static stk__live_page *good_page(void)
{
    stk__live_page *page = calloc(1, sizeof *page);

    assert_non_null(page);
    memcpy(page->magic, STK__LIVE_MAGIC, sizeof STK__LIVE_MAGIC);
    page->version = STK__LIVE_VERSION;
    page->bytes = sizeof *page;
    page->sequence = 4;
    return page;
}

static stk_status read_bytes(const void *bytes, size_t size, stk_live_state *out, stk_error *err)
{
    const int fd = memfd_create("page", MFD_CLOEXEC);

    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    const stk_status status = stk__live_read_page(fd, out, err);
    close(fd);
    return status;
}

static void test_pages(void **state)
{
    stk__live_page *page = good_page();
    stk_live_state s = {.struct_size = sizeof s};
    stk_error err;

    assert_ok(read_bytes(page, sizeof *page, &s, &err), &err);
    assert_fails(read_bytes(page, 0, &s, &err), STK_EMISMATCH, &err, "another version");
    assert_fails(read_bytes(page, sizeof *page - 1, &s, &err), STK_EMISMATCH, &err, "shorter");
    page->sequence = 5;
    assert_fails(read_bytes(page, sizeof *page, &s, &err), STK_EAGAIN, &err, "try again");
    page->sequence = 0; /* nothing was written yet */
    assert_fails(read_bytes(page, sizeof *page, &s, &err), STK_EAGAIN, &err, "try again");
    page->sequence = 4;
    page->version++;
    assert_fails(read_bytes(page, sizeof *page, &s, &err), STK_EMISMATCH, &err, stk_version());
    page->version--;
    page->bytes--;
    assert_fails(read_bytes(page, sizeof *page, &s, &err), STK_EMISMATCH, &err, "version");
    page->bytes++;
    page->magic[0] = 'X';
    assert_fails(read_bytes(page, sizeof *page, &s, &err), STK_EMISMATCH, &err, "version");
    free(page);
}

/* Each line is a comment, or NAME{labels} and a number. */
static void check_metrics(const char *text)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        assert_int_equal(text[length], '\n');
        if (*text != '#') {
            const char *space = memrchr(text, ' ', length);
            char *end;
            assert_non_null(space);
            strtod(space + 1, &end);
            assert_ptr_equal(end, text + length);
            assert_int_equal(strncmp(text, "stoker_", 7), 0);
        }
        text += length + 1;
    }
}

static void test_hostile(void **state)
{
    stk__live_page *page = good_page();
    stk_live_state s = {.struct_size = sizeof s};
    char *text = malloc(TEXT);
    stk_error err;

    memset(&page->state, 0xff, sizeof page->state);
    memcpy(page->state.label, "\"}\n# HELP x\\\033[2J", 16);
    memcpy(page->state.metric[0].name, "a\"b\\c\nd", 8);
    page->state.metric[0].value = NAN;
    page->state.metric[1].value = -INFINITY;
    assert_ok(read_bytes(page, sizeof *page, &s, &err), &err);
    assert_int_equal(s.num_workers, STK_LIVE_WORKERS);
    assert_int_equal(s.num_metrics, STK_LIVE_METRICS);
    assert_int_equal(s.num_loaders, STK_LIVE_LOADERS);
    assert_int_equal(strlen(s.verdict), sizeof s.verdict - 1);
    assert_int_equal(strlen(s.label), sizeof s.label - 1);
    assert_true(stk_live_format(&s, text, TEXT) < TEXT);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_true(json_is_null(json_object_get(json, "samples_per_s")));
    json_decref(json);
    assert_true(stk_live_metrics(&s, text, TEXT) < TEXT);
    check_metrics(text);
    assert_non_null(strstr(text, "stoker_training_metric{name=\"a\\\"b\\\\c\\nd\"} NaN\n"));
    assert_non_null(strstr(text, ",label=\"\\\"}\\n# HELP x\\\\[2J"));
    assert_null(strchr(text, '\033'));
    free(text);
    free(page);
}

static void test_texts(void **state)
{
    stk_live_state s = {.struct_size = sizeof s,
                        .command = "bench",
                        .samples = 12,
                        .done = 1,
                        .total = 4,
                        .eta = -1,
                        .loader = true,
                        .wait_share = 0.5,
                        .num_workers = 1,
                        .num_metrics = 1};
    char *text = calloc(1, TEXT);

    snprintf(s.metric[0].name, sizeof s.metric[0].name, "loss");
    s.metric[0].value = 0.25;
    s.worker[0].busy = 0.75;
    const int length = stk_live_format(&s, text, TEXT);
    assert_int_equal(length, strlen(text));
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_integer_value(json_object_get(json, "samples")), 12);
    json_t *progress = json_object_get(json, "progress");
    assert_true(json_is_null(json_object_get(progress, "eta_s")));
    assert_int_equal(json_integer_value(json_object_get(progress, "total")), 4);
    json_t *loader = json_object_get(json, "loader");
    assert_true(json_real_value(json_object_get(loader, "wait_share")) == 0.5);
    assert_int_equal(json_object_size(json_object_get(loader, "wait_shares")), STK_WAIT_PARTS);
    json_t *loss = json_object_get(json_object_get(json, "metrics"), "loss");
    assert_true(json_real_value(loss) == 0.25);
    json_decref(json);
    stk_live_metrics(&s, text, TEXT);
    check_metrics(text);
    assert_non_null(strstr(text, "# TYPE stoker_samples_total counter\nstoker_samples_total 12\n"));
    assert_non_null(strstr(text, "\nstoker_progress_ratio 0.25\n"));
    assert_non_null(strstr(text, "\nstoker_eta_seconds NaN\n"));
    assert_non_null(strstr(text, "stoker_worker_busy_ratio{worker=\"0\"} 0.75\n"));
    free(text);
}

/* What is written is read as the same, whatever the texts; what is unknown stays unknown. */
static void test_parsed(void **state)
{
    stk_live_state s = {.struct_size = sizeof s,
                        .stoker = "1.2.3",
                        .command = "train",
                        .label = "\"\\\n\033[2J \xc3\xa9",
                        .pid = 4711,
                        .age = 1.5,
                        .eta = -1,
                        .epochs = -1,
                        .samples = INT64_MAX,
                        .loader = true,
                        .io_depth = 16,
                        .usable_cores = 3,
                        .num_workers = STK_LIVE_WORKERS,
                        .num_metrics = 2,
                        .num_loaders = STK_LIVE_LOADERS};
    stk_live_state back = {.struct_size = sizeof back};
    char *text = calloc(1, TEXT), *again = calloc(1, TEXT);
    stk_error err;

    s.wait_shares[STK_WAIT_PARTS - 1] = 0.25;
    s.worker[STK_LIVE_WORKERS - 1] = (stk_live_worker){7, 8, 0.5, 0.125};
    s.loaders[STK_LIVE_LOADERS - 1] =
        (stk_live_loader){640, 32, 7, 1.5, 0.25, 2, 16, 3, 4, 1000, 2000, true};
    s.metric[0] = (stk_live_metric){"train \"loss\"", 0.1};
    s.metric[1] = (stk_live_metric){"nan", NAN};
    for (int pass = 0; pass < 2; pass++, s.loader = false, s.eta = 12) {
        const int length = stk_live_format(&s, text, TEXT);
        assert_ok(stk_live_parse(text, (size_t)length, &back, &err), &err);
        stk_live_format(&back, again, TEXT);
        assert_string_equal(text, again);
        assert_int_equal(back.loader, s.loader);
    }
    assert_string_equal(back.label, s.label);
    assert_int_equal(back.usable_cores, 3);
    assert_true(back.worker[STK_LIVE_WORKERS - 1].index == 8 && back.eta == 12);
    assert_true(isnan(back.metric[1].value));
    const stk_live_loader *l = &back.loaders[STK_LIVE_LOADERS - 1];
    assert_true(l->samples == 640 && l->batch_size == 32 && l->batches == 7 && l->first);
    assert_true(l->batches_per_s == 1.5 && l->wait_share == 0.25 && l->memory_budget == 2000);
    assert_true(l->ready == 3 && l->depth == 4 && l->workers == 2 && l->io_depth == 16);
    stk_live_metrics(&back, text, TEXT);
    check_metrics(text);
    assert_non_null(strstr(text, "\nstoker_loader_batches_total{loader=\"7\"} 7\n"));
    assert_non_null(strstr(text, "\nstoker_loader_wait_ratio{loader=\"7\"} 0.25\n"));
    free(again);
    free(text);
}

static void test_parsed_of_others(void **state)
{
    static const char *const bad[] = {
        "", "{}", "[1]", "{\"stoker\": \"1\"", "{\"stoker\": 1}", "{\"samples\": 3}"};
    static const char other[] =
        "{\"stoker\": \"9\", \"new\": {\"stoker\": [1]}, \"samples\": \"3\", \"reads\": -1, "
        "\"pid\": 1e99, \"loader\": [], \"workers\": {\"a\": {}}, \"loaders\": [1, {\"first\": "
        "1}], \"metrics\": [1], "
        "\"usable_cores\": 4294967296, \"label\": 5, \"progress\": null}";
    stk_live_state s = {.struct_size = sizeof s};
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_fails(stk_live_parse(bad[i], strlen(bad[i]), &s, &err), STK_EFORMAT, &err,
                     "no state");
    assert_ok(stk_live_parse(other, sizeof other - 1, &s, &err), &err);
    assert_string_equal(s.stoker, "9");
    assert_true(s.samples == 0 && s.reads == 0 && s.pid == 0 && !s.loader && !*s.label);
    assert_true(s.num_loaders == 1 && !s.loaders[0].first);
    assert_true(s.num_workers == 0 && s.num_metrics == 0 && s.usable_cores == 0 && s.eta == -1);
    s.struct_size = 0;
    assert_fails(stk_live_parse(other, sizeof other - 1, &s, &err), STK_EINVAL, &err,
                 "struct_size");
}

int main(void)
{
#define WITH_CONTEXT(test)                                                                         \
    cmocka_unit_test_setup_teardown(test, test_context_open, test_context_close)
    const struct CMUnitTest tests[] = {
        WITH_CONTEXT(test_rates),       WITH_CONTEXT(test_progress),
        WITH_CONTEXT(test_loader),      WITH_CONTEXT(test_two_loaders),
        WITH_CONTEXT(test_own),         WITH_CONTEXT(test_two_sheets),
        WITH_CONTEXT(test_children),    cmocka_unit_test(test_pages),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_parsed),  cmocka_unit_test(test_parsed_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
