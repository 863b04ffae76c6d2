/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker launch` over ranks that read together, keep what they read, and go on from the last step
 * that all of them have: killed and stopped at random, with as many ranks again or fewer. In the
 * end every global batch is the one of a single rank: no sample lost, none twice.
 *
 * This program is the rank, too: "RANKS FOLDER", and "TOLD FOLDER" is one that says which signals
 * it gets.
 */
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/launched.h"

/* Kills and stops of a run; `./dev kill N` sets STOKER_TEST_KILLS. */
#define KILLS 6
#define STOPS 2

/* Hit a random rank with a signal a moment after it began. False: the run is over. */
static bool hit(const struct fixture *f, pid_t launcher, int signal, unsigned *seed, pid_t *victim)
{
    char name[64];
    long pid;

    pause_ns(UINT64_C(1000000) * (20 + (uint64_t)rand_r(seed) % 100));
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)launcher, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return false;
        snprintf(name, sizeof name, "pid.%d", rand_r(seed) % RANKS);
        if (load(f->folder, name, &pid, sizeof pid) == sizeof pid && pid > 1 && pid != *victim &&
            kill((pid_t)pid, signal) == 0)
            break;
        pause_ns(1000000);
    }
    *victim = (pid_t)pid;
    return true;
}

static void run_hit(const struct fixture *f, const char *const *options, int signal, int times,
                    const char *words)
{
    const char *const command[] = {self, "RANKS", f->folder, NULL};
    static char text[65536];
    unsigned seed = (unsigned)time(NULL);
    pid_t victim = 0;
    int done = 0;

    print_message("seed %u\n", seed);
    const pid_t launcher = launch(f, options, command);
    while (done < times && hit(f, launcher, signal, &seed, &victim))
        done++;
    const int code = code_of(launcher);
    said(f, text);
    if (code != 0)
        fail_msg("code %d: %s", code, text);
    check_steps(f);
    /* One is named for each that was hit, but where two were before the launcher looked. */
    print_message("%d hits, %" PRIu64 " named, %" PRIu64 " restarts\n", done, count(text, words),
                  count(text, "launch: restart"));
    assert_true(count(text, words) >= 1);
    assert_int_equal(count(text, "launch: restart"), count(text, "the others are stopped"));
}

static int wanted(int otherwise)
{
    const char *kills = getenv("STOKER_TEST_KILLS");

    return kills ? (int)strtol(kills, NULL, 10) : otherwise;
}

static void test_kills(void **state)
{
    static const char *const options[] = {"-n", "4", "--max-restarts", "1000000", NULL};

    if (test_binary())
        run_hit(*state, options, SIGKILL, wanted(KILLS), "ended by SIGKILL");
}

static void test_kills_with_fewer(void **state)
{
    static const char *const options[] = {"-n", "4", "--max-restarts", "1000000", "--min-ranks",
                                          "1",  NULL};

    if (test_binary())
        run_hit(*state, options, SIGKILL, 2, "ended by SIGKILL");
}

static void test_stops(void **state)
{
    static const char *const options[] = {
        "-n", "4", "--max-restarts", "1000000", "--heartbeat-timeout", "0.5", "--grace", "2", NULL};

    if (test_binary())
        run_hit(*state, options, SIGSTOP, wanted(STOPS), "stopped by a signal (SIGSTOP)");
}

/* Ranks that mpirun has started: their ends are seen by their processes. */
static void test_mpirun(void **state)
{
    static const char *const options[] = {"-n", "4", "--max-restarts", "1000000", NULL};
    struct fixture *f = *state;

    if (!f->binary)
        return;
    if (system("command -v mpirun >/dev/null") != 0)
        skip();
    f->launcher = "mpirun";
    run_hit(f, options, SIGKILL, 2, "ended without a word");
}

/* One that is in no collective, and gives no sign of life, is what the others wait for. */
static void test_hang(void **state)
{
    static const char *const options[] = {
        "-n", "3", "--max-restarts", "1", "--heartbeat-timeout", "0.8", "--grace", "1", NULL};
    const struct fixture *f = *state;
    const char *const command[] = {"env", "HANG=1", self, "RANKS", f->folder, NULL};
    static char text[65536];

    if (!f->binary)
        return;
    assert_int_equal(code_of(launch(f, options, command)), 0);
    said(f, text);
    if (!strstr(text, "rank 1 of 3 on ") || !strstr(text, " after 4 steps, in its step") ||
        count(text, "no sign of life for ") != 1)
        fail_msg("%s", text);
    check_steps(f);
}

/* One that never came as far as a sign of life is named, not those that wait for it, and does not
 * outlive the attempt: nor an mpirun that is killed before it has killed its ranks. */
static void test_absent(void **state)
{
    static const struct {
        const char *launcher, *grace, *host;
    } rows[] = {{"local", "0.2", ""},
                {"mpirun", "10", "a machine unknown"},
                {"mpirun", "0", "a machine unknown"}};
    struct fixture *f = *state;
    const char *const command[] = {"env", "ABSENT=1", self, "RANKS", f->folder, NULL};
    static char text[65536];
    char words[128];
    long absent;

    if (!f->binary)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const options[] = {
            "-n",  "3",       "--max-restarts", "1000", "--heartbeat-timeout",
            "0.8", "--grace", rows[i].grace,    NULL};
        if (i && system("command -v mpirun >/dev/null") != 0)
            break;
        f->launcher = rows[i].launcher;
        assert_int_equal(code_of(launch(f, options, command)), 0);
        said(f, text);
        snprintf(words, sizeof words, "rank 1 of 3 on %s", rows[i].host);
        if (!strstr(text, words) || !strstr(text, ": no sign of life since it was started, ") ||
            !strstr(text, " s ago, and 2 others wait in a collective; the others are stopped"))
            fail_msg("%s, grace %s: %s", rows[i].launcher, rows[i].grace, text);
        check_steps(f);
        assert_int_equal(load(f->folder, "absent", &absent, sizeof absent), sizeof absent);
        assert_int_equal(kill((pid_t)absent, 0), -1);
        assert_int_equal(errno, ESRCH);
        test_folder_remove(f->folder);
        assert_int_equal(mkdir(f->folder, 0700), 0);
    }
}

/* ---- What is said of an end ------------------------------------------------------------------ */

static void expect(const struct fixture *f, const char *const *options, const char *script,
                   int code, const char *words)
{
    const char *const command[] = {"sh", "-c", script, NULL};
    static char text[65536];

    const int got = code_of(launch(f, options, command));
    said(f, text);
    if (got != code || !strstr(text, words))
        fail_msg("code %d, of %d, and no '%s' in: %s", got, code, words, text);
}

static void test_ends(void **state)
{
    static const char *const two[] = {"-n2", "--grace", "1", NULL};
    static const char *const again[] = {"-n2", "--max-restarts", "2", "--grace", "1", NULL};
    static const char *const hung[] = {"-n2", "--heartbeat-timeout", "0.4", "--grace", "0.3", NULL};
    const struct fixture *f = *state;

    if (!f->binary)
        return;
    expect(f, two, "echo $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR", 0, "[1] 1/2 127.0.0.1");
    expect(f, two, "[ $RANK = 0 ] || exit 7; sleep 100", 7, "rank 1 of 2 on ");
    expect(f, two, "[ $RANK = 0 ] || kill -SEGV $$; sleep 100", 139, "ended by SIGSEGV");
    /* What a rank has started ends with it; one that does not hear is killed. */
    expect(f, two, "trap '' TERM; [ $RANK = 0 ] || exit 7; sleep 100 & wait; sleep 100", 7,
           "exit code 7");
    expect(f, again,
           "echo try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; exit $((5 "
           "- TORCHELASTIC_RESTART_COUNT))",
           3, "] try 2 of 2");
    expect(f, again, "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 4", 0, "restart 1 of 2, 2 ranks");
    /* Wrong usage is not tried again. */
    expect(f, again, "exit 2", 2, "exit code 2");
    expect(f, hung, "[ $RANK = 0 ] || kill -STOP $$; sleep 100", 1, "rank 1 of 2 on ");
    expect(f, hung, "[ $RANK = 0 ] || kill -STOP $$; sleep 100", 1,
           "stopped by a signal (SIGSTOP)");
}

static bool has_mpirun(void)
{
    return system("command -v mpirun >/dev/null") == 0;
}

/* What ranks of an mpirun start and leave is waited for when it ends: by the launcher, which it
 * came to. */
static void test_left_behind(void **state)
{
    static const char *const one[] = {"-n1", NULL};
    char script[1024];
    struct fixture *f = *state;

    if (!f->binary)
        return;
    if (!has_mpirun())
        skip();
    f->launcher = "mpirun";
    snprintf(
        script, sizeof script,
        "cd %s; (sh -c 'echo $$ > one; mv one left' &); until [ -s left ]; do sleep 0.01; done; "
        "for i in $(seq 500); do [ -e /proc/$(cat left) ] || exec echo gone; sleep 0.01; done; "
        "echo stays",
        f->folder);
    expect(f, one, script, 0, "gone");
}

/* Children that were there before the launcher are no ranks; what a run that ended well leaves
 * lives on. */
static void test_not_its_own(void **state)
{
    struct fixture *f = *state;
    char script[1024], name[16] = "";
    long before;

    if (!f->binary)
        return;
    if (!has_mpirun())
        skip();
    for (int fails = 0; fails < 2; fails++) {
        snprintf(script, sizeof script,
                 "cd %s; setsid sleep 1000 > /dev/null 2>&1 & echo $! > stays; exit %d", f->folder,
                 fails);
        const pid_t pid = fork();
        if (pid == 0) {
            const pid_t child = fork();
            if (child == 0)
                execlp("sleep", "sleep", "1000", (char *)NULL);
            before = (long)child;
            keep(f->folder, "before", &before, sizeof before);
            execl(f->binary, f->binary, "launch", "--launcher", "mpirun", "-n", "1", "--grace", "0",
                  "--", "sh", "-c", script, (char *)NULL);
            _exit(126);
        }
        assert_int_equal(code_of(pid), fails);
        assert_int_equal(load(f->folder, "before", &before, sizeof before), sizeof before);
        assert_int_equal(kill((pid_t)before, SIGKILL), 0);
        assert_true(load(f->folder, "stays", name, sizeof name - 1) > 0);
        assert_int_equal(kill((pid_t)atol(name), SIGKILL), fails ? -1 : 0);
    }
}

/* A signal reaches every rank once, from a terminal's Ctrl-C or from kill. */
static void test_signals(void **state)
{
    static const char *const two[] = {"-n2", NULL};
    static const char *const command[] = {
        "sh", "-c",
        "n=0; trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo ready; "
        "while :; do sleep 0.02; done",
        NULL};
    const struct fixture *f = *state;
    static char text[65536];

    if (!f->binary)
        return;
    const pid_t pid = launch(f, two, command);
    do {
        pause_ns(5000000);
        said(f, text);
    } while (count(text, "] ready") < 2);
    kill(pid, SIGUSR1);
    do {
        pause_ns(5000000);
        said(f, text);
    } while (count(text, "] usr1") < 2);
    kill(pid, SIGTERM);
    assert_int_equal(code_of(pid), 143);
    said(f, text);
    assert_int_equal(count(text, "] usr1"), 2);
    assert_int_equal(count(text, "] term"), 2);
}

/* A rank that says what it is told and needs a while to save. Only the first gives signs of life.
 */
static int told_main(void)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGINT, SIGTERM};
    const char *beat = getenv("STOKER_HEARTBEAT");
    stk_ranks at = {.struct_size = sizeof at};
    stk_heartbeat *heartbeat = NULL;
    stk_context *ctx = NULL;
    sigset_t set;
    stk_error err;
    int got = 0;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (stk_ranks_detect(NULL, look, NULL, &at, &err) != STK_OK ||
        stk_context_create(NULL, &ctx, &err) != STK_OK ||
        (beat && at.rank == 0 &&
         stk_heartbeat_open(ctx, beat, at.rank, &heartbeat, &err) != STK_OK)) {
        fprintf(stderr, "rank: %s\n", err.text);
        return 1;
    }
    stk_heartbeat_beat(heartbeat, STK_DOING_DATA);
    for (const char *what = "ready"; got != SIGTERM; what = sigabbrev_np(got)) {
        printf("%s of %d\n", what, (int)at.rank);
        fflush(stdout);
        sigwait(&set, &got);
    }
    printf("TERM of %d\n", (int)at.rank);
    fflush(stdout);
    pause_ns(UINT64_C(300000000));
    printf("saved of %d\n", (int)at.rank);
    fflush(stdout);
    stk_heartbeat_close(&heartbeat);
    stk_context_destroy(&ctx);
    return 0;
}

static void wait_said(const struct fixture *f, pid_t launcher, const char *words, uint64_t times)
{
    static char text[65536];
    siginfo_t info = {0};

    for (said(f, text); count(text, words) < times; said(f, text)) {
        if (waitid(P_PID, (id_t)launcher, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            fail_msg("no '%s', %d times: %s", words, (int)times, text);
        pause_ns(5000000);
    }
}

/* Ranks of an mpirun are told themselves, each once, also those of which nothing was heard: asked
 * to end, an mpirun would kill them at once, and that of MPICH ends by SIGUSR2. What starts them,
 * here a script, and hydra_pmi_proxy, lives on. */
static void test_unheard(void **state)
{
    static const struct {
        const char *mpirun, *timeout, *hidden; /* hidden: a rank that does not say it is one */
        uint64_t told;
    } rows[] = {{"mpirun.openmpi", "30", "none", 3},
                {"mpirun.mpich", "30", "none", 3},
                {"mpirun.mpich", "0", "none", 3},
                {"mpirun.mpich", "30", "1", 2}};
    static const char *const words[] = {"USR1 of ", "USR2 of ", "TERM of ", "saved of "};
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
    struct fixture *f = *state;
    static const char hides[] = "[ \"$PMI_RANK\" != \"$1\" ] || exec env -i sh -c 'until [ -e "
                                "\"$0\" ]; do sleep 0.02; done' "
                                "\"$4/over\"; shift; exec \"$@\"";
    static char text[65536];
    char line[1024], path[8192], before[4096];
    size_t done = 0;

    if (!f->binary)
        return;
    f->launcher = "mpirun";
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    snprintf(path, sizeof path, "%s:%s", f->folder, before);
    setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const options[] = {"-n3", "--heartbeat-timeout", rows[i].timeout, NULL};
        const char *const command[] = {"sh", "-c",   hides,     "sh", rows[i].hidden,
                                       self, "TOLD", f->folder, NULL};
        snprintf(line, sizeof line,
                 "command -v %s >/dev/null && cd %s && echo '%s \"$@\"' >mpirun && chmod +x mpirun",
                 rows[i].mpirun, f->folder, rows[i].mpirun);
        if (system(line) != 0)
            continue;
        done++;
        snprintf(line, sizeof line, "%s/over", f->folder);
        unlink(line);
        unlink(f->said); /* that of the one before */
        setenv("PATH", path, 1);
        const pid_t launcher = launch(f, options, command);
        setenv("PATH", before, 1);
        wait_said(f, launcher, "ready of ", rows[i].told);
        /* An mpirun passes SIGUSR1 on to all. */
        for (size_t k = rows[i].told < 3 ? 1 : 0; k < sizeof signals / sizeof *signals; k++) {
            kill(launcher, signals[k]);
            wait_said(f, launcher, words[k], rows[i].told);
        }
        wait_said(f, launcher, "saved of ", rows[i].told);
        assert_true(keep(f->folder, "over", "1", 1)); /* what hides was not told */
        const int code = code_of(launcher);
        said(f, text);
        for (size_t k = rows[i].told < 3 ? 1 : 0; k < sizeof words / sizeof *words; k++)
            if (code != 143 || count(text, words[k]) != rows[i].told)
                fail_msg("%s, code %d: not %d times '%s' in: %s", rows[i].mpirun, code,
                         (int)rows[i].told, words[k], text);
    }
    if (!done)
        skip();
}

/* Whether a process runs: what nobody waits for is none. */
static bool runs(int pid)
{
    char path[64], text[256] = "";

    snprintf(path, sizeof path, "%d/stat", pid);
    load("/proc", path, text, sizeof text - 1);
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] != 'Z';
}

/* A second interrupt ends the ranks and what they have started at once, whatever they ignore. */
static void test_second_interrupt(void **state)
{
    static const struct {
        const char *launcher, *of_others, *file; /* `file` has the second's process */
    } rows[] = {{"local", "HEARD=1", "pid.1"},
                {"mpirun", "HEARD=1", "pid.1"},
                {"mpirun", "ABSENT=1", "absent"}};
    static const char *const two[] = {"-n2", NULL};
    struct fixture *f = *state;
    long pids[2];
    siginfo_t info = {0};

    if (!f->binary)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const command[] = {
            "env", rows[i].of_others, "sh",      "-c", "trap '' INT TERM; \"$@\"; true", "sh",
            self,  "RANKS",           f->folder, NULL};
        if (i && !has_mpirun())
            break;
        f->launcher = rows[i].launcher;
        assert_true(keep(f->folder, "held", "1", 1));
        const pid_t launcher = launch(f, two, command);
        while (load(f->folder, "pid.0", &pids[0], sizeof pids[0]) != sizeof pids[0] ||
               load(f->folder, rows[i].file, &pids[1], sizeof pids[1]) != sizeof pids[1])
            pause_ns(5000000);
        for (info.si_pid = 0;
             waitid(P_PID, (id_t)launcher, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid;
             pause_ns(5000000))
            kill(launcher, SIGINT);
        assert_int_equal(code_of(launcher), 130);
        for (int k = 0; runs((int)pids[0]) || runs((int)pids[1]); k++) {
            if (k == 2000)
                fail_msg("%s, %s: ranks outlive the launcher", rows[i].launcher, rows[i].file);
            pause_ns(5000000);
        }
        test_folder_remove(f->folder);
        assert_int_equal(mkdir(f->folder, 0700), 0);
    }
}

/* Whatever ends the launcher ends the ranks. */
static void test_orphans(void **state)
{
    static const char *const two[] = {"-n2", NULL};
    static const char *const command[] = {"sh", "-c", "echo pid $$ is; exec sleep 1000", NULL};
    const struct fixture *f = *state;
    static char text[65536];
    int pids[2] = {0};

    if (!f->binary)
        return;
    const pid_t pid = launch(f, two, command);
    do {
        pause_ns(5000000);
        said(f, text);
    } while (count(text, " is\n") < 2);
    const char *at = text;
    for (int i = 0; i < 2; i++, at++) {
        at = strstr(at, "] pid ");
        assert_non_null(at);
        pids[i] = (int)strtol(at + 6, NULL, 10);
    }
    kill(pid, SIGKILL);
    code_of(pid);
    for (int i = 0; i < 2; i++)
        while (runs(pids[i])) /* until the limit of the test */
            pause_ns(5000000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unheard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kills, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kills_with_fewer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hang, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_left_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_interrupt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mpirun, setup, teardown),
    };

    if (argc == 3 && strcmp(argv[1], "TOLD") == 0)
        return told_main();
    if (launched_is_rank(argc, argv))
        return rank_main(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
