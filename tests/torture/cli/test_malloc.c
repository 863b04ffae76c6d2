/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the command with a malloc that fails at the n-th call, libraries included. It may succeed or
 * report an error, it may not die by a signal or hang. Every call of short runs is tried; of longer
 * ones a spread of them.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

enum { REPORT_FD = 198, MOST_RUNS = 250, SECONDS = 20 };

static const char *binary, *preload;

/* Exit status, or minus the signal. `calls` is how many allocations there were; 0 when the program
 * did not say. */
static int run(char *const *arguments, long fail_at, bool for_ever, long *calls)
{
    char text[32] = "";
    int ends[2], status = 0;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char at[32];
        snprintf(at, sizeof at, "%ld", fail_at);
        setenv("LD_PRELOAD", preload, 1);
        setenv("FAIL_AT", at, 1);
        if (for_ever)
            setenv("FAIL_FOR_EVER", "1", 1);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        dup2(ends[1], REPORT_FD);
        close(ends[0]);
        close(ends[1]);
        alarm(SECONDS);
        execv(binary, arguments);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    *calls = got > 0 ? atol(text) : 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void torture(char *const *arguments)
{
    long calls, ignored;

    assert_int_equal(run(arguments, 0, false, &calls), 0);
    assert_true(calls > 0);
    long stride = calls / MOST_RUNS + 1;
    for (long n = 1; n <= calls; n += stride) {
        int status = run(arguments, n, n % 2, &ignored);
        if (status < 0 || status > 2)
            fail_msg("allocation %ld of %ld: %s %d", n, calls,
                     status < 0 ? "signal" : "exit status", status < 0 ? -status : status);
    }
}

static void info_of_digits(void **state)
{
    torture((char *[]){"stoker", "info", "digits:", NULL});
}

static void bench_of_digits(void **state)
{
    torture((char *[]){"stoker", "bench", "--dataset", "digits:", "--num-workers", "0,1",
                       "--batch-size", "16", "--num-batches", "4", "--num-epochs", "1",
                       "--train-step-time", "0", "--transforms", "normalize(mnist)", NULL});
}

static void yaml(void **state)
{
    char folder[256], path[300];
    static const char text[] =
        "dataset: \"digits:\"\nloader: {num_workers: [0, 1], batch_size: 8}\n"
        "bench: {num_epochs: 1, num_batches: 2, train_step_time: 0}\n";

    test_folder(folder);
    test_write(folder, "bench.yaml", text, sizeof text - 1);
    snprintf(path, sizeof path, "%s/bench.yaml", folder);
    torture((char *[]){"stoker", "bench", "--config", path, NULL});
    test_folder_remove(folder);
}

static void report_of_logs(void **state)
{
    char a[512], b[512];

    snprintf(a, sizeof a, "%s/golden/report/workers.log", TESTS_DIR);
    snprintf(b, sizeof b, "%s/golden/report/ledger.log", TESTS_DIR);
    torture((char *[]){"stoker", "report", a, b, "--html", "/dev/null", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_of_digits),
        cmocka_unit_test(bench_of_digits),
        cmocka_unit_test(yaml),
        cmocka_unit_test(report_of_logs),
    };

    binary = test_binary();
    preload = getenv("STOKER_TEST_FAIL_MALLOC");
    if (!binary)
        return 77;
    if (!preload || access(preload, R_OK) != 0) {
        print_message("skipped: no failing malloc to preload (sanitizers bring their own)\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
