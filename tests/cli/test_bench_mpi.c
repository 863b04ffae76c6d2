/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker bench --ranks N --all-reduce BYTES` on each MPI that is installed: the same samples as
 * without, what the all-reduce takes in table and log, and failures that end all ranks. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "support/support.h"

static const struct {
    const char *name, *mpirun;
} mpis[] = {{"openmpi", "mpirun.openmpi"}, {"mpich", "mpirun.mpich"}};

static char folder[256];
static const char *binary;

static int set_up(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* In the folder; its exit code. */
static int run(const char *command)
{
    char line[2048];

    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    const int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A folder with its mpirun alone; false: there is none. */
static bool has(size_t mpi)
{
    char command[512];

    snprintf(command, sizeof command,
             "command -v %s >/dev/null && mkdir -p %s && echo '[ \"$1\" = --version ] || echo $$ "
             ">started; exec %s \"$@\"' >%s/mpirun && chmod +x %s/mpirun",
             mpis[mpi].mpirun, mpis[mpi].name, mpis[mpi].mpirun, mpis[mpi].name, mpis[mpi].name);
    if (run(command) == 0)
        return true;
    test_skipped();
    print_message("skipped: no %s\n", mpis[mpi].mpirun);
    return false;
}

/* Output in out.txt, both streams. */
static int bench(const char *path, const char *more)
{
    char command[1536];

    snprintf(command, sizeof command,
             "PATH=\"$PWD/%s:$PATH\" OMP_NUM_THREADS=1 timeout 100 '%s' bench --batch-size 24 "
             "--num-workers 0 --train-step-time 0 %s >out.txt 2>&1",
             path, binary, more);
    return run(command);
}

static const char *text_of(const char *name)
{
    static char text[1 << 20];
    char path[400];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void has_words(const char *name, const char *words)
{
    if (!strstr(text_of(name), words))
        fail_msg("no '%s' in: %s", words, text_of(name));
}

/* Settings and repeats, each with an MPI of its own; rows as they are without it. */
static void test_both(void **state)
{
    static const char line[] = "'digits:?size=480' --ranks 3 --num-epochs 2 --warmup 0 "
                               "--io-depth 1,2 --repeat 2";
    char more[512];

    (void)state;
    snprintf(more, sizeof more, "%s --hash forked --log none", line);
    assert_int_equal(bench("", more), 0);
    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        snprintf(more, sizeof more, "%s --hash %s.rows --log %s.log --all-reduce 100KB", line,
                 mpis[m].name, mpis[m].name);
        if (bench(mpis[m].name, more) != 0)
            fail_msg("%s", text_of("out.txt"));
        has_words("out.txt", "3 ranks by mpirun");
        has_words("out.txt", "the all-reduce of 97.7 KiB takes");
        snprintf(more, sizeof more, "cmp forked-01 %s-01.rows && cmp forked-02 %s-02.rows",
                 mpis[m].name, mpis[m].name);
        assert_int_equal(run(more), 0);
        snprintf(more, sizeof more, "%s.log", mpis[m].name);
        has_words(more, "\"comm\": ");
        has_words(more, "\"communication\": ");
        has_words(more, "\"rank\": 2, \"world_size\": 3, \"repeat\": 2");
    }
}

static void test_failures(void **state)
{
    (void)state;
    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        assert_int_equal(bench(mpis[m].name, "images:nothing --ranks 2 --all-reduce 1KB"), 1);
        has_words("out.txt", "stoker: error: ");
        has_words("out.txt", "nothing");
    }
    assert_int_equal(bench("", "digits: --all-reduce 1KB"), 2);
    has_words("out.txt", "give --ranks N as well");
    assert_int_equal(bench("", "digits: --all-reduce 1KB --ranks 2 --dashboard 0"), 2);
    has_words("out.txt", "have no page");
    /* Without an mpirun, and started by hand as if by one. */
    char command[1024];
    snprintf(command, sizeof command,
             "PATH=/nowhere '%s' bench digits: --all-reduce 1KB --ranks 2 --log none >out.txt 2>&1",
             binary);
    assert_int_equal(run(command), 1);
    has_words("out.txt", "mpirun, which is not in the PATH");
    snprintf(
        command, sizeof command,
        "STOKER_BENCH_RUN=/dev/null '%s' bench digits: --all-reduce 1KB --ranks 2 >out.txt 2>&1",
        binary);
    assert_int_equal(run(command), 1);
    has_words("out.txt", "STOKER_BENCH_RUN: '/dev/null' is no run of this version");
}

/* Ranks of the run that process `bench` measures, by the sheet of which their environment knows. */
static size_t find_ranks(pid_t bench, pid_t pids[2])
{
    static char environment[1 << 16];
    char words[64], path[300], exe[400] = "", own[400] = "";
    const struct dirent *entry;
    size_t n = 0;

    snprintf(words, sizeof words, "STOKER_BENCH_RUN=/proc/%d/", (int)bench);
    assert_non_null(realpath(binary, own));
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    while ((entry = readdir(processes)) && n < 2) {
        snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
        const ssize_t length = readlink(path, exe, sizeof exe - 1);
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        exe[length > 0 ? length : 0] = 0;
        FILE *file = strcmp(exe, own) == 0 ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        const size_t bytes = fread(environment, 1, sizeof environment - 1, file);
        fclose(file);
        environment[bytes] = 0;
        for (size_t at = 0; at < bytes; at += strlen(environment + at) + 1)
            if (strncmp(environment + at, words, strlen(words)) == 0)
                pids[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    closedir(processes);
    return n;
}

/* Ranks of an mpirun that is killed, also one that hears nothing, end with the command, which says
 * what happened. */
static void test_killed(void **state)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    char path[8192], out[400];
    pid_t ranks[2], left[2];
    int how = 0;

    (void)state;
    snprintf(out, sizeof out, "%s/out.txt", folder);
    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        snprintf(path, sizeof path, "%s/%s:%s", folder, mpis[m].name, getenv("PATH"));
        const pid_t pid = fork();
        if (pid == 0) {
            setenv("PATH", path, 1);
            if (chdir(folder) || !freopen(out, "w", stdout) || dup2(1, 2) < 0)
                _exit(126);
            execl(binary, binary, "bench", "digits:", "--ranks", "2", "--all-reduce", "1KB",
                  "--num-epochs", "100000", "--num-workers", "0", "--train-step-time", "1ms",
                  "--log", "none", (char *)NULL);
            _exit(126);
        }
        while (find_ranks(pid, ranks) < 2 && waitpid(pid, &how, WNOHANG) == 0)
            nanosleep(&pause, NULL);
        kill(ranks[0], SIGSTOP);
        kill((pid_t)strtol(text_of("started"), NULL, 10), SIGKILL);
        assert_int_equal(waitpid(pid, &how, 0), pid);
        const size_t n = find_ranks(pid, left);
        for (size_t i = 0; i < n; i++)
            kill(left[i], SIGKILL);
        assert_int_equal(n, 0);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 1);
        has_words("out.txt", "stoker: error: ");
        has_words("out.txt", "mpirun ended by signal 9 (Killed), and rank ");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_killed),
    };

    binary = test_binary();
    if (!binary)
        return 77;
    /* What an MPI leaves behind is its own. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    return cmocka_run_group_tests_name("cli/bench_mpi", tests, set_up, tear_down);
}
