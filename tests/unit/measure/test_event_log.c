/* SPDX-License-Identifier: Apache-2.0 */
#include "support/faults.h"
#include "support/support.h"
#include "support/text.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/probe.h"
#include "measure/measure.h"

static char folder[256], path[512];

static int set_up(void **state)
{
    test_folder(folder);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    return 0;
}

/* Reads the log: how many lines are exactly one JSON object with an event, and how many are not. */
static void count_lines(const char *file, size_t *whole, size_t *broken,
                        void (*each)(json_t *, void *), void *user)
{
    FILE *f = fopen(file, "r");
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    assert_non_null(f);
    *whole = *broken = 0;
    while ((n = getline(&line, &size, f)) > 0) {
        json_t *object = line[n - 1] == '\n' ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
        if (object && json_is_string(json_object_get(object, "event"))) {
            ++*whole;
            if (each)
                each(object, user);
        } else {
            ++*broken;
        }
        json_decref(object);
    }
    free(line);
    fclose(f);
}

/* The first members of a line, in order. */
static void assert_leads(const char *line, const char *const *keys)
{
    for (int i = 0; keys[i]; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, i == 0 ? "{\"%s\": " : ", \"%s\": ", keys[i]);
        const char *found = strstr(line, expected);
        assert_non_null(found);
        if (i == 0)
            assert_ptr_equal(found, line);
        line = found + strlen(expected);
        /* Nothing between this member and the one before but its value. */
        if (keys[i + 1]) {
            const char *next = strstr(line, ", \"");
            assert_non_null(next);
            line = next;
        }
    }
}

static void test_fields(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk_error err;
    uint64_t start = stk__now_ns();

    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    stk_event_log_write(log, "run start", NULL, 0, STK_NO_DURATION,
                        "\"data_params\": \"{}\", \"locals\": {}");
    stk_event_log_write(log, "epoch start", "\"epoch\": 3", 0, STK_NO_DURATION, NULL);
    stk_event_log_write(log, "training end", "\"batch\": 7", 0, 100000000, NULL);
    uint64_t indices[] = {41, 42};
    stk__event event = {.kind = STK__EVENT_SAMPLE,
                        .worker = 1,
                        .start_ns = start,
                        .end_ns = start + 2500000,
                        .epoch = 3,
                        .index = 41,
                        .count = 2,
                        .indices = indices};
    stk__emit(ctx, &event);
    assert_ok(stk_event_log_close(&log, &err), &err);
    assert_null(log);
    /* Closed: nobody listens. */
    assert_false(stk__probed(ctx));

    char *text = test_load(path, NULL);
    char *lines[16] = {0};
    int n = 0;
    for (char *line = strtok(text, "\n"); line && n < 16; line = strtok(NULL, "\n"))
        lines[n++] = line;
    assert_int_equal(n, 7);
    static const char *const run[] = {"event", "time", "data_params", "locals", "time_ns", NULL};
    static const char *const epoch[] = {"event", "epoch", "time", NULL};
    static const char *const training[] = {"event", "batch", "time", "duration", NULL};
    static const char *const batch_start[] = {"event", "time", "idx", "pid", NULL};
    static const char *const batch_end[] = {"event", "time", "idx", "pid", "duration", NULL};
    assert_leads(lines[0], run);
    assert_leads(lines[1], epoch);
    assert_leads(lines[2], training);
    assert_leads(lines[3], batch_start);
    assert_leads(lines[4], batch_end);
    assert_non_null(strstr(lines[2], "\"duration\": 0.1, "));
    assert_non_null(strstr(lines[4], "{\"event\": \"get-batch end\", "));
    assert_non_null(strstr(lines[4], "\"idx\": 41, "));
    assert_non_null(strstr(lines[6], "\"idx\": 42, "));
    assert_non_null(strstr(lines[4], "\"duration\": 0.0025, "));
    assert_non_null(strstr(lines[4], "\"task\": 2"));
    free(text);
    stk_context_destroy(&ctx);
}

static void test_time_is_the_wall_clock(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk_error err;
    double before = stk__wall_seconds();

    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    stk_event_log_write(log, "setup start", NULL, 0, STK_NO_DURATION, NULL);
    assert_ok(stk_event_log_close(&log, &err), &err);
    double after = stk__wall_seconds();
    char *text = test_load(path, NULL);
    json_t *object = json_loads(text, 0, NULL);
    double time = json_real_value(json_object_get(object, "time"));
    assert_true(time >= before - 1e-3 && time <= after + 1e-3);
    json_decref(object);
    free(text);
    stk_context_destroy(&ctx);
}

/* ---- Many threads: ours, and a known-bad control */

#define THREADS 6
#define ROUNDS  3000

static stk_context *shared;
static stk_event_log *shared_log;

static void *emit_many(void *argument)
{
    uint32_t worker = (uint32_t)(uintptr_t)argument;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        stk__event event = {.kind = STK__EVENT_BAD_SAMPLE,
                            .worker = worker,
                            .start_ns = 1000,
                            .end_ns = stk__now_ns(),
                            .index = i,
                            .count = 1,
                            .status = STK_EFORMAT};
        stk__emit(shared, &event);
        if (i % 100 == 0)
            stk_event_log_write(shared_log, "training end", "\"batch\": 1", 0, 5, NULL);
    }
    return NULL;
}

static void test_whole_lines(void **state)
{
    stk_error err;
    pthread_t threads[THREADS];
    size_t whole, broken;

    shared = test_context();
    /* Two logs on one file stand for two processes: their appends must not mix either. */
    stk_event_log *second;
    assert_ok(stk_event_log_open(shared, path, &shared_log, &err), &err);
    assert_ok(stk_event_log_open(shared, path, &second, &err), &err);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, emit_many, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(stk_event_log_close(&shared_log, &err), &err);
    assert_ok(stk_event_log_close(&second, &err), &err);
    count_lines(path, &whole, &broken, NULL, NULL);
    assert_int_equal(broken, 0);
    assert_int_equal(whole, THREADS * (2 * ROUNDS + ROUNDS / 100));
    stk_context_destroy(&shared);
}

static pthread_barrier_t turn;
static int control_fd;

/* The defect of the published logs: a line, then its end, as two writes. The barrier brings the bad
 * case about. */
static void *write_badly(void *argument)
{
    for (int i = 0; i < 50; i++) {
        static const char line[] = "{\"event\": \"training end\", \"batch\": 1}";
        assert_int_equal(write(control_fd, line, sizeof line - 1), sizeof line - 1);
        pthread_barrier_wait(&turn);
        assert_int_equal(write(control_fd, "\n", 1), 1);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void test_a_bad_writer_is_caught(void **state)
{
    pthread_t threads[2];
    size_t whole, broken;

    control_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    assert_true(control_fd >= 0);
    pthread_barrier_init(&turn, NULL, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_badly, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&turn);
    close(control_fd);
    count_lines(path, &whole, &broken, NULL, NULL);
    assert_true(broken > 0);
}

/* ---- Thinning */

struct tally {
    size_t ends, dropped;
};

static void tally_line(json_t *object, void *user)
{
    struct tally *t = user;
    const char *event = json_string_value(json_object_get(object, "event"));

    t->ends += strcmp(event, "get-batch end") == 0;
    if (strcmp(event, "thinned") == 0) {
        assert_string_equal(json_string_value(json_object_get(object, "of")), "get-batch");
        t->dropped += (size_t)json_integer_value(json_object_get(object, "dropped"));
    }
}

static void test_thinning_is_said(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk__counter *counter;
    stk_error err;
    uint64_t now = stk__now_ns();
    struct tally tally = {0};
    size_t whole, broken;

    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    assert_ok(stk__counter_open(ctx, &counter, &err), &err);
    for (uint64_t i = 0; i < 400; i++) {
        stk__event event = {.kind = STK__EVENT_SAMPLE,
                            .start_ns = now,
                            .end_ns = now + 1000 * i,
                            .index = i,
                            .count = 512};
        stk__emit(ctx, &event);
    }
    stk__counts counts;
    stk__counter_get(counter, &counts);
    stk__counter_close(&counter);
    assert_ok(stk_event_log_close(&log, &err), &err);
    count_lines(path, &whole, &broken, tally_line, &tally);
    assert_int_equal(broken, 0);
    assert_int_equal(tally.ends + tally.dropped, 400 * 512);
    assert_in_range(tally.ends, 9000, 11000);
    assert_int_equal(counts.samples, 400 * 512);
    stk_context_destroy(&ctx);
}

/* ---- Failures */

static void test_open_failures(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log = (stk_event_log *)1;
    stk_error err;
    char missing[600];

    snprintf(missing, sizeof missing, "%s/no/such/log", folder);
    assert_fails(stk_event_log_open(ctx, missing, &log, &err), STK_ENOENT, &err,
                 "folder does not exist");
    assert_null(log);
    assert_int_not_equal(stk_event_log_open(ctx, folder, &log, &err), STK_OK);
    assert_non_null(strstr(err.text, "it is a folder"));
    assert_false(stk__probed(ctx));
    stk_context_destroy(&ctx);
}

static void test_full_disk(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk_error err;

    if (access("/dev/full", W_OK) != 0) {
        print_message("skipped: no /dev/full\n");
        skip();
    }
    assert_ok(stk_event_log_open(ctx, "/dev/full", &log, &err), &err);
    stk_event_log_write(log, "run start", NULL, 0, STK_NO_DURATION, NULL);
    assert_fails(stk_event_log_close(&log, &err), STK_ENOSPC, &err, "the disk is full");
    assert_non_null(strstr(err.text, "/dev/full"));
    stk_context_destroy(&ctx);
}

/* A file that may not grow further stands for a disk that fills up in the middle of a line. */
static void test_no_part_of_a_line_stays(void **state)
{
    struct rlimit before, limit;
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk_error err;
    size_t whole, broken;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 50001;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    for (int i = 0; i < 2000; i++)
        stk_event_log_write(log, "training end", "\"batch\": 1", 0, 1234567, NULL);
    stk_status status = stk_event_log_close(&log, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(status < 0);
    assert_non_null(strstr(err.text, "not complete"));
    count_lines(path, &whole, &broken, NULL, NULL);
    assert_int_equal(broken, 0);
    assert_true(whole > 200 && whole < 2000);
    stk_context_destroy(&ctx);
}

static void test_each_allocation_may_fail(void **state)
{
    stk_context_options options;
    faults f = {.left = FAULTS_NONE, .for_good = true};
    stk_context *ctx;
    stk_error err;
    int n = 0;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    for (stk_status status = STK_ENOMEM; status == STK_ENOMEM; n++) {
        stk_event_log *log;
        stk__counter *counter = NULL;
        f.left = n;
        status = stk_event_log_open(ctx, path, &log, &err);
        if (status == STK_OK)
            status = stk__counter_open(ctx, &counter, &err);
        assert_true(status == STK_OK || (status == STK_ENOMEM && strstr(err.text, "no memory")));
        stk__counter_close(&counter);
        assert_ok(stk_event_log_close(&log, &err), &err);
        assert_false(stk__probed(ctx));
    }
    /* The log, its writer, the writer's mirror, path and buffers, the counter. */
    assert_int_equal(n - 1, 6);
    stk_context_destroy(&ctx);
}

static void test_a_forked_child_writes_nothing(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk_error err;
    size_t whole, broken;
    int status;

    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    stk_event_log_write(log, "run start", NULL, 0, STK_NO_DURATION, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(stk_event_log_close(&log, NULL) != STK_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(stk_event_log_close(&log, &err), &err);
    count_lines(path, &whole, &broken, NULL, NULL);
    assert_int_equal(whole, 1);
    assert_int_equal(broken, 0);
    stk_context_destroy(&ctx);
}

static void test_long_lines_and_null(void **state)
{
    stk_context *ctx = test_context();
    stk_event_log *log;
    stk_error err;
    size_t whole, broken;
    size_t length = 100000;
    char *more = malloc(length + 1);

    assert_non_null(more);
    memset(more, 'x', length);
    memcpy(more, "\"locals\": \"", 11);
    strcpy(more + length - 1, "\"");
    stk_event_log_write(NULL, "run start", NULL, 0, STK_NO_DURATION, NULL);
    assert_int_equal(stk_event_log_close(&(stk_event_log *){NULL}, NULL), STK_OK);
    assert_ok(stk_event_log_open(ctx, path, &log, &err), &err);
    stk_event_log_write(log, "run start", NULL, 0, STK_NO_DURATION, more);
    stk_event_log_write(log, "run end", NULL, 0, 5, NULL);
    assert_ok(stk_event_log_close(&log, &err), &err);
    count_lines(path, &whole, &broken, NULL, NULL);
    assert_int_equal(whole, 2);
    assert_int_equal(broken, 0);
    free(more);
    stk_context_destroy(&ctx);
}

/* The text of an object of memory, with an end; the caller's. */
static char *object_text(stk_context *ctx, const char *key)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://logs", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    char *text = calloc(1, info.size + 1);
    assert_non_null(text);
    assert_ok(stk_store_read(store, key, 0, info.size, text, &err), &err);
    stk_store_close(&store);
    return text;
}

/* A log of another store is there once it is closed, and is gone on with; a trace begins anew. */
static void test_elsewhere(void **state)
{
    stk_context *ctx = test_context();
    stk__event_trace *trace = NULL;
    stk_event_log *log = NULL;
    stk_error err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_ok(stk_event_log_open(ctx, "mem://logs/run.jsonl", &log, &err), &err);
        stk_event_log_write(log, i ? "second" : "first", NULL, 0, STK_NO_DURATION, NULL);
        assert_ok(stk_event_log_close(&log, &err), &err);
        assert_ok(stk__event_trace_open(ctx, "mem://logs/run.trace", 1, &trace, &err), &err);
        assert_ok(stk__event_trace_close(&trace, &err), &err);
    }
    char *text = object_text(ctx, "run.jsonl");
    const char *first = strstr(text, "\"first\""), *second = strstr(text, "\"second\"");
    assert_true(first && second && first < second);
    free(text);
    text = object_text(ctx, "run.trace");
    assert_int_equal(text[0], '[');
    assert_null(strchr(text + 1, '['));
    free(text);
    assert_fails(stk_event_log_open(ctx, "nostore://a/b", &log, &err), STK_ENOTSUP, &err,
                 "nostore");
    assert_null(log);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_time_is_the_wall_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_bad_writer_is_caught, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_thinning_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_part_of_a_line_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_allocation_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_forked_child_writes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_lines_and_null, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_elsewhere, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
