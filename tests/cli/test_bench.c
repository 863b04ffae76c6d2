/* SPDX-License-Identifier: Apache-2.0 */
/* The command `stoker bench` as its users run it: figures against the log, hashes, crashes. */
#include "support/support.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[256];
static const char *binary;

static int set_up(void **state)
{
    test_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    return 0;
}

static void in_folder(char path[512], const char *name)
{
    snprintf(path, 512, "%s/%s", folder, name);
}

/* Run the command with arguments for a shell; standard output to the file `out`. Exit code. */
static int run(const char *arguments, const char *out)
{
    char line[4096];

    snprintf(line, sizeof line, "cd '%s' && '%s' bench %s > '%s' 2> stderr.txt", folder, binary,
             arguments, out);
    int how = system(line);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static json_t *load(const char *name)
{
    char path[512];
    json_error_t error;

    in_folder(path, name);
    json_t *object = json_load_file(path, 0, &error);
    if (!object)
        print_error("%s:%d: %s\n", name, error.line, error.text);
    assert_non_null(object);
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_number(value));
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- The log, read as the notebook of the published benchmark does -------------------------- */

struct log {
    size_t starts, ends, trainings, dropped, epochs, broken;
    double waits, last_end;
    size_t num_waits;
    bool first_is_run_start, last_is_run_end;
};

static void read_event(struct log *log, const json_t *object, size_t line)
{
    const char *event = text(object, "event");
    double time = number(object, "time");

    if (line == 0)
        log->first_is_run_start = strcmp(event, "run start") == 0;
    log->last_is_run_end = strcmp(event, "run end") == 0;
    log->starts += strcmp(event, "get-batch start") == 0;
    log->ends += strcmp(event, "get-batch end") == 0;
    log->epochs += strcmp(event, "epoch end") == 0;
    if (strcmp(event, "thinned") == 0 && strcmp(text(object, "of"), "get-batch") == 0)
        log->dropped += (size_t)number(object, "dropped");
    if (strcmp(event, "training start") == 0 && log->last_end > 0) {
        log->waits += time - log->last_end;
        log->num_waits++;
    }
    if (strcmp(event, "training end") == 0) {
        log->last_end = time;
        log->trainings++;
    }
}

static struct log read_log(const char *name)
{
    struct log log = {0};
    char path[512], *line = NULL;
    size_t size = 0, n = 0;

    in_folder(path, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (getline(&line, &size, f) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        if (object)
            read_event(&log, object, n++);
        log.broken += object == NULL;
        json_decref(object);
    }
    free(line);
    fclose(f);
    return log;
}

static void test_figures_are_those_of_the_log(void **state)
{
    assert_int_equal(run("--dataset digits:?size=640 --batch-size 64 --num-workers 1 --num-epochs "
                         "3 --train-step-time 1ms "
                         "--format json --log log.jsonl -q",
                         "out.json"),
                     0);
    json_t *out = load("out.json");
    const json_t *row = json_array_get(json_object_get(out, "settings"), 0);
    struct log log = read_log("log.jsonl");
    assert_int_equal(log.broken, 0);
    assert_true(log.first_is_run_start);
    assert_int_equal(log.trainings, 30);
    assert_int_equal(log.epochs, 3);
    assert_int_equal(log.num_waits, 29);
    assert_true(number(row, "steps") == 29);
    assert_true(number(row, "samples") == 29 * 64);
    /* Times in the log are rounded to microseconds. */
    assert_true(fabs(log.waits / 29 - number(row, "wait_mean")) < 2e-6);
    assert_string_equal(text(row, "check"), "good");
    assert_int_equal(log.ends + log.dropped, (size_t)number(row, "events"));
    assert_int_equal(log.starts, log.ends);
    assert_true(number(row, "events") >= number(row, "delivered"));
    json_decref(out);
}

/* The published run: 1 warm-up batch and 2 epochs of 3 batches of 16, in the caller's thread: the
 * count identity. */
static void test_published_counts(void **state)
{
    assert_int_equal(run("--dataset digits: --published --train-step-time 1ms --num-workers 0 "
                         "--log log.jsonl -q",
                         "out.txt"),
                     0);
    struct log log = read_log("log.jsonl");
    assert_int_equal(log.ends, 16 * (2 * 3 + 1));
    assert_int_equal(log.trainings, 6);
    assert_int_equal(log.epochs, 2);
    assert_true(log.last_is_run_end);
}

/* ---- Hashes: the same lines whatever the speed ---------------------------------------------- */

static void assert_same_files(const char *a, const char *b)
{
    char line[1400];

    snprintf(line, sizeof line, "cd '%s' && test -s '%s' && cmp '%s' '%s'", folder, a, a, b);
    assert_int_equal(system(line), 0);
}

static void test_hashes_do_not_depend_on_speed(void **state)
{
    static const char *const settings[][2] = {
        {"h0", "--batch-size 60 --num-workers 0"},
        {"h2", "--batch-size 60 --num-workers 2 --prefetch-factor 5"},
        {"r2", "--batch-size 30 --num-workers 1 --ranks 2"},
        {"r3", "--batch-size 20 --num-workers 0 --ranks 3"},
    };
    char line[512];

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        snprintf(line, sizeof line,
                 "--dataset digits:?size=1000 --shuffle --num-epochs 2 --train-step-time 0 --log "
                 "none -q --hash %s %s",
                 settings[i][0], settings[i][1]);
        assert_int_equal(run(line, "out.txt"), 0);
        assert_same_files("h0", settings[i][0]);
    }
    /* And they do depend on the seed. */
    assert_int_equal(run("--dataset digits:?size=1000 --shuffle --num-epochs 2 --train-step-time 0 "
                         "--log none -q "
                         "--batch-size 60 --num-workers 0 --seed 1 --hash other",
                         "out.txt"),
                     0);
    snprintf(line, sizeof line, "cd '%s' && cmp -s h0 other", folder);
    assert_int_not_equal(system(line), 0);
}

/* ---- What ends badly ------------------------------------------------------------------------ */

/* The child of a process that has one; 0 when there is none. */
static pid_t child_of(pid_t parent)
{
    char path[64], list[256];
    pid_t child = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *f = fopen(path, "r");
    if (f && fgets(list, sizeof list, f))
        child = (pid_t)strtol(list, NULL, 10);
    if (f)
        fclose(f);
    return child;
}

static pid_t start_bench(const char *const *arguments)
{
    char path[512];

    in_folder(path, "out.json");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen(path, "w", stdout) || chdir(folder) != 0)
            _exit(99);
        execv(binary, (char *const *)arguments);
        _exit(98);
    }
    return pid;
}

/* Wait, for ten seconds at most, until the log tells of a step. */
static bool training_began(const char *name)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    char path[512], line[4096];

    in_folder(path, name);
    for (int i = 0; i < 2000; i++) {
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            if (strstr(line, "\"training end\"")) {
                fclose(f);
                return true;
            }
        }
        if (f)
            fclose(f);
        nanosleep(&pause, NULL);
    }
    return false;
}

static int end_of(pid_t pid)
{
    int how;

    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static const char *const long_run[] = {
    "stoker", "bench",    "--dataset", "digits:", "--num-workers", "1",  "--min-seconds",
    "60",     "--format", "json",      "--log",   "log.jsonl",     "-q", NULL};

static void test_a_crash_is_a_row(void **state)
{
    pid_t pid = start_bench(long_run);
    assert_true(training_began("log.jsonl"));
    pid_t child = child_of(pid);
    if (child == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        print_message("skipped: /proc does not tell of children\n");
        skip();
    }
    assert_int_equal(kill(child, SIGBUS), 0);
    assert_int_equal(end_of(pid), 1);
    json_t *out = load("out.json");
    const json_t *row = json_array_get(json_object_get(out, "settings"), 0);
    /* A sanitizer turns the signal into an exit of its own. */
    assert_true(strstr(text(row, "error"), "SIGBUS") || strstr(text(row, "error"), "exit code"));
    json_decref(out);
}

static void test_an_interrupt_keeps_what_there_is(void **state)
{
    pid_t pid = start_bench(long_run);
    assert_true(training_began("log.jsonl"));
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(end_of(pid), 130);
    json_t *out = load("out.json");
    const json_t *row = json_array_get(json_object_get(out, "settings"), 0);
    assert_true(number(row, "steps") >= 1);
    assert_true(number(row, "samples_per_s") > 0);
    json_decref(out);
    struct log log = read_log("log.jsonl");
    assert_int_equal(log.broken, 0);
    assert_true(log.last_is_run_end);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static void test_sweep_and_ceiling(void **state)
{
    assert_int_equal(run("--dataset digits:?size=256 --num-workers 0,1 --batch-size 16,32 "
                         "--num-epochs 1 --ceiling "
                         "--min-seconds 0.05 --train-step-time 0 --log none -q --format json",
                         "out.json"),
                     0);
    json_t *out = load("out.json");
    const json_t *rows = json_object_get(out, "settings");
    /* Four settings, and a ceiling for each of the two batch sizes. */
    assert_int_equal(json_array_size(rows), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(text(row, "status"), "STK_OK");
        assert_true(number(row, "ceiling_samples_per_s") > 0);
        assert_true(json_is_null(json_object_get(row, "log")));
        assert_int_equal(strncmp(text(row, "label"), "ceiling", 7) == 0, i >= 4);
    }
    json_decref(out);
}

static void test_one_bad_setting_does_not_stop_the_others(void **state)
{
    assert_int_equal(run("--dataset digits:?size=100 --drop-last --batch-size 1000,10 --num-epochs "
                         "1 --train-step-time 0 "
                         "--log none -q --format json",
                         "out.json"),
                     1);
    json_t *out = load("out.json");
    const json_t *rows = json_object_get(out, "settings");
    assert_string_equal(text(json_array_get(rows, 0), "status"), "STK_EINVAL");
    assert_non_null(strstr(text(json_array_get(rows, 0), "error"), "drop_last"));
    assert_string_equal(text(json_array_get(rows, 1), "status"), "STK_OK");
    json_decref(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_figures_are_those_of_the_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_published_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hashes_do_not_depend_on_speed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_crash_is_a_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_interrupt_keeps_what_there_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sweep_and_ceiling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_bad_setting_does_not_stop_the_others, set_up,
                                        tear_down),
    };

    binary = test_binary();
    return binary ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
