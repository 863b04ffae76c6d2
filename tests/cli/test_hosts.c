/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker launch` over ranks on several hosts, which are namespaces of this machine: each has a
 * network of its own, joined to the launcher's by a cable (veth), a name, and processes of its own,
 * so that nothing but signs of life over the network comes from there. A srun of a few lines starts
 * the ranks. A cable is cut, a rank is stopped, one hangs: each is named with its host and why, all
 * begin again, and no sample is lost or comes twice.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/launched.h"

#define HOSTS 2
#define CUTS  2 /* of a run; `./dev kill N` sets STOKER_TEST_KILLS */

static pid_t hosts[HOSTS]; /* a process that holds the namespaces of each */

static const char srun[] =
    "#!/bin/bash\n"
    "# The ranks in turn on the hosts; whoever fails ends the others, as --kill-on-bad-exit has "
    "it.\n"
    "while :; do case $1 in -n) n=$2; shift 2 ;; -*) shift ;; *) break ;; esac; done\n"
    "finish() { kill -9 $(jobs -p) 2>/dev/null; wait; }\n"
    "trap 'finish; exit 143' TERM INT\n"
    "rm -f held\n"
    "for ((i = 0; i < HOSTS; i++)); do ip link set host$i up; done\n"
    "export SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$n SLURM_STEP_NUM_NODES=$HOSTS\n"
    "hosts=($HOST_PIDS)\n"
    "for ((i = 0; i < n; i++)); do\n"
    "    SLURM_PROCID=$i SLURM_LOCALID=$((i / HOSTS)) SLURM_NODEID=$((i % HOSTS)) \\\n"
    "        nsenter -t ${hosts[i % HOSTS]} -n -u unshare -p -f --mount-proc --kill-child \"$@\" "
    "&\n"
    "    echo $! >outer.$i\n"
    "done\n"
    "code=0\n"
    "for ((i = 0; i < n; i++)); do\n"
    "    wait -n || { code=$?; break; }\n"
    "done\n"
    "finish\n"
    "exit $code\n";

/* ---- The hosts ------------------------------------------------------------------------------- */

static bool shell(const char *format, ...)
{
    char command[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command) == 0;
}

/* A process in namespaces of its own; 0: it cannot be had. */
static pid_t make_host(int i)
{
    char name[16], byte = 0;
    int ready[2];

    if (pipe(ready) != 0)
        return 0;
    const pid_t pid = fork();
    if (pid == 0) {
        snprintf(name, sizeof name, "host%d", i);
        if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 || sethostname(name, strlen(name)) != 0)
            _exit(1);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    const bool made = pid > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    return made ? pid : 0;
}

/* The launcher has the same address for all: one of its own network, to which each host's cable
 * leads. */
static bool join_host(int i, pid_t pid)
{
    return shell("ip link add host%d type veth peer name eth0 netns %d && "
                 "ip addr add 10.77.%d.1/24 dev host%d && ip link set host%d up && "
                 "nsenter -t %d -n sh -c 'ip link set lo up && ip addr add 10.77.%d.2/24 dev eth0 "
                 "&& ip link set eth0 up && ip route add default via 10.77.%d.1'",
                 i, (int)pid, i + 1, i, i, (int)pid, i + 1, i + 1);
}

/* Of this process, too: what is made here nobody else sees, and nothing is left behind. */
static bool make_hosts(void)
{
    char pids[64] = "";

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0 ||
        !shell("command -v ip nsenter unshare >/dev/null && ip link set lo up && "
               "ip addr add 10.77.0.1/32 dev lo"))
        return false;
    for (int i = 0; i < HOSTS; i++) {
        hosts[i] = make_host(i);
        if (!hosts[i] || !join_host(i, hosts[i]))
            return false;
        snprintf(pids + strlen(pids), sizeof pids - strlen(pids), "%d ", (int)hosts[i]);
    }
    setenv("HOST_PIDS", pids, 1);
    snprintf(pids, sizeof pids, "%d", HOSTS);
    setenv("HOSTS", pids, 1);
    return true;
}

static void end_hosts(void)
{
    for (int i = 0; i < HOSTS; i++)
        if (hosts[i]) {
            kill(hosts[i], SIGKILL);
            waitpid(hosts[i], NULL, 0);
        }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static int setup_srun(void **state)
{
    char path[8192];

    setup(state);
    struct fixture *f = *state;
    test_write(f->folder, "srun", srun, sizeof srun - 1);
    f->launcher = "srun";
    snprintf(path, sizeof path, "%s/srun", f->folder);
    chmod(path, 0700);
    if (chdir(f->folder) != 0)
        return 1;
    snprintf(path, sizeof path, "%s:%s", f->folder, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "7", 1);
    return 0;
}

static int teardown_srun(void **state)
{
    return chdir("/") != 0 || teardown(state) != 0;
}

static pid_t launch_ranks(const struct fixture *f, const char *timeout)
{
    const char *const options[] = {"-n",
                                   "4",
                                   "--max-restarts",
                                   "1000",
                                   "--heartbeat-timeout",
                                   timeout,
                                   "--grace",
                                   "0.3",
                                   "--heartbeat-host",
                                   "10.77.0.1",
                                   NULL};
    const char *const command[] = {self, "RANKS", f->folder, NULL};

    return launch(f, options, command);
}

/* Wait until a text was said so many times; the launcher must not have ended before. */
static void wait_said(const struct fixture *f, pid_t launcher, const char *words, uint64_t times)
{
    static char text[65536];
    siginfo_t info = {0};

    for (;;) {
        said(f, text);
        if (count(text, words) >= times)
            return;
        if (waitid(P_PID, (id_t)launcher, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            fail_msg("it ended before '%s' was said %d times: %s", words, (int)times, text);
        pause_ns(5000000);
    }
}

/* The steps that are done. */
static uint64_t committed(const struct fixture *f)
{
    char name[64];
    uint64_t world, step = 0;

    do
        snprintf(name, sizeof name, "commit.%" PRIu64, step++);
    while (load(f->folder, name, &world, sizeof world) == sizeof world);
    return step - 1;
}

static void wait_steps(const struct fixture *f, uint64_t steps)
{
    while (committed(f) < steps)
        pause_ns(2000000);
}

static void ends_well(const struct fixture *f, pid_t launcher, const char *const *words)
{
    static char text[65536];

    const int code = code_of(launcher);
    said(f, text);
    for (size_t i = 0; words[i]; i++)
        if (code || !strstr(text, words[i]))
            fail_msg("code %d, no '%s' in: %s", code, words[i], text);
    check_steps(f);
}

/* The ranks of a host are heard no more, whose collectives would come to no end. */
static void test_cuts(void **state)
{
    static const char *const words[] = {
        " on host1: no sign of life for ",
        "nothing is heard from its machine, of 2 ranks: the network is cut", NULL};
    const struct fixture *f = *state;
    const char *kills = getenv("STOKER_TEST_KILLS");
    const uint64_t cuts = kills ? strtoull(kills, NULL, 10) : CUTS;

    const pid_t launcher = launch_ranks(f, "2");
    for (uint64_t i = 0; i < cuts; i++) {
        const uint64_t before = committed(f);
        if (before + 2 > SAMPLES / BATCH * EPOCHS)
            break;
        wait_steps(f, before + 2);
        test_write(f->folder, "held", "1", 1);
        assert_true(shell("ip link set host1 down"));
        wait_said(f, launcher, "launch: restart", i + 1);
    }
    ends_well(f, launcher, words);
}

/* The rank itself, not the program that has made namespaces for it. */
static pid_t inner(const struct fixture *f, int rank)
{
    char name[64], text[64] = "";

    snprintf(name, sizeof name, "outer.%d", rank);
    load(f->folder, name, text, sizeof text - 1);
    snprintf(name, sizeof name, "task/%ld/children", strtol(text, NULL, 10));
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld", strtol(text, NULL, 10));
    memset(text, 0, sizeof text);
    load(path, name, text, sizeof text - 1);
    return (pid_t)strtol(text, NULL, 10);
}

/* One process is silent, while another of its host is heard. */
static void test_stop(void **state)
{
    static const char *const words[] = {"rank 3 of 4 on host1: no sign of life for ",
                                        "others of its machine are heard", NULL};
    const struct fixture *f = *state;

    const pid_t launcher = launch_ranks(f, "2");
    wait_steps(f, 40); /* longer than it takes to be heard, five times a second */
    const pid_t rank = inner(f, 3);
    assert_true(rank > 1);
    assert_int_equal(kill(rank, SIGSTOP), 0);
    ends_well(f, launcher, words);
}

/* One that is heard and does nothing, while the others wait for it. */
static void test_hang(void **state)
{
    static const char *const words[] = {"rank 1 of 4 on host1: no sign of life for ",
                                        " after 4 steps, in its step", NULL};
    const struct fixture *f = *state;

    setenv("HANG", "1", 1);
    const pid_t launcher = launch_ranks(f, "2");
    unsetenv("HANG");
    ends_well(f, launcher, words);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cuts, setup_srun, teardown_srun),
        cmocka_unit_test_setup_teardown(test_stop, setup_srun, teardown_srun),
        cmocka_unit_test_setup_teardown(test_hang, setup_srun, teardown_srun),
    };

    if (launched_is_rank(argc, argv))
        return rank_main(argv[2]);
    if (!test_binary())
        return 77;
    if (!make_hosts()) {
        print_message("skipped: network namespaces cannot be made here\n");
        end_hosts();
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    end_hosts();
    return failed;
}
