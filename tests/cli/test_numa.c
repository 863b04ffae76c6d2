/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as ranks of a machine with two NUMA nodes, which is mounted over this one's in a
 * namespace of its own: what they say, and what stands in their logs. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

static char folder[256];
static const char *binary;
static unsigned cores[2]; /* of node 0, and of node 900, which no machine of the tests has */

/* Two cores that this process may run on. */
static bool two_cores(void)
{
    unsigned n = 0;
    cpu_set_t mask;

    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        return false;
    for (unsigned i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &mask))
            cores[n++] = i;
    return n == 2;
}

static void put(const char *name, const char *text)
{
    char line[256];

    snprintf(line, sizeof line, "%s\n", text);
    test_write(folder, name, line, strlen(line));
}

static int set_up(void **state)
{
    char text[64];

    (void)state;
    test_folder(folder);
    if (!two_cores())
        return 0;
    put("node/online", "0,900");
    put("node/node0/meminfo", "Node 0 MemTotal: 2097152 kB");
    put("empty/x", "");
    snprintf(text, sizeof text, "%u", cores[0]);
    put("node/node0/cpulist", text);
    snprintf(text, sizeof text, "%u", cores[1]);
    put("node/node900/cpulist", text);
    snprintf(text, sizeof text, "%u,%u", cores[0], cores[1]);
    put("online", text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

#define MOUNTED                                                                                    \
    "mount --bind node /sys/devices/system/node && "                                               \
    "mount --bind online /sys/devices/system/cpu/online && "                                       \
    "mount --bind empty /sys/fs/cgroup && "

/* With these variables, on that machine, by a mask of some of its cores. The command has the
 * process of the shell that is told so. */
static void put_together(const char *variables, const char *mask, const char *command,
                         char line[4096])
{
    snprintf(line, 4096,
             "cd '%s' && exec unshare --mount sh -c '" MOUNTED
             "%s exec taskset -c %s \"%s\" %s' 2>&1",
             folder, variables, mask, binary, command);
}

/* Its exit code; both streams in out. */
static int run(const char *variables, const char *mask, const char *command, char out[8192])
{
    char line[4096];

    put_together(variables, mask, command, line);
    FILE *said = popen(line, "r");
    assert_non_null(said);
    const size_t n = fread(out, 1, 8191, said);
    out[n] = 0;
    const int status = pclose(said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool may_run(void)
{
    char line[1024];

    snprintf(line, sizeof line, "cd '%s' && unshare --mount sh -c '" MOUNTED "true' 2>/dev/null",
             folder);
    if (two_cores() && geteuid() == 0 && system(line) == 0)
        return true;
    test_skipped();
    print_message("skipped: one core, or nothing may be mounted\n");
    return false;
}

#define RANK(number) "RANK=" number " WORLD_SIZE=2 LOCAL_RANK=" number " LOCAL_WORLD_SIZE=2"
#define BENCH        "bench digits: --num-batches 4 --num-epochs 1 --train-step-time 0 "

static void assert_says(const char *out, const char *part)
{
    if (!strstr(out, part))
        fail_msg("'%s' is not in:\n%s", part, out);
}

/* The division is said by the first rank; each says where it is. */
static void ranks_have_nodes(void **state)
{
    char out[8192], both[32], text[300];

    (void)state;
    if (!may_run())
        return;
    snprintf(both, sizeof both, "%u,%u", cores[0], cores[1]);
    assert_int_equal(run(RANK("0"), both, BENCH "--log none", out), 0);
    assert_says(out, "2 usable cores for 2 ranks of this machine, on 2 NUMA nodes: each "
                     "has 1 for its step and 1 worker for its data, on the cores and the memory of "
                     "one node: that is more than there are");
    snprintf(text, sizeof text, "stoker: this rank is on NUMA node 0: cores %u\n", cores[0]);
    assert_says(out, text);
    assert_int_equal(run(RANK("1"), both, BENCH "--log rank.jsonl", out), 0);
    snprintf(text, sizeof text, "stoker: rank 1: this rank is on NUMA node 900: cores %u\n",
             cores[1]);
    assert_says(out, text);
    /* The kernel does not allow memory of that node, so nothing is asked of it. */
    assert_null(strstr(out, "mbind"));
    assert_null(strstr(out, "usable cores for"));
    snprintf(text, sizeof text, "%s/rank.jsonl", folder);
    FILE *log = fopen(text, "r");
    assert_non_null(log);
    out[fread(out, 1, sizeof out - 1, log)] = 0;
    fclose(log);
    assert_says(out, "\"nodes\": \"900\", \"bound\": true");
    assert_says(out, "\"usable_cores\": 1");
}

static void ranks_run_anywhere(void **state)
{
    char out[8192], both[32];

    (void)state;
    if (!may_run())
        return;
    snprintf(both, sizeof both, "%u,%u", cores[0], cores[1]);
    assert_int_equal(run(RANK("0"), both, BENCH "--log none --numa off", out), 0);
    assert_null(strstr(out, "NUMA"));
    assert_int_equal(
        run("RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3", both, BENCH "--log none", out),
        0);
    assert_says(out, "2 usable cores for 3 ranks of this machine, on any of 2 NUMA nodes: each ");
    assert_null(strstr(out, "this rank is on"));
}

/* A small file of the system; "" where it cannot be read. */
static const char *small(const char *format, pid_t process, char text[8192])
{
    char path[96];

    text[0] = 0;
    snprintf(path, sizeof path, format, (long)process, (long)process);
    FILE *file = fopen(path, "r");
    if (!file)
        return text;
    text[fread(text, 1, 8191, file)] = 0;
    fclose(file);
    return text;
}

/* Whether the first thread of what a process has started may run on one core alone, and that is it.
 */
static bool runs_on(pid_t parent, unsigned core)
{
    char text[8192], wanted[64];

    const long process = strtol(small("/proc/%ld/task/%ld/children", parent, text), NULL, 10);
    snprintf(wanted, sizeof wanted, "Cpus_allowed_list:\t%u\n", core);
    return process > 0 && strstr(small("/proc/%ld/status", (pid_t)process, text), wanted);
}

#define TRIES 20000 /* of a millisecond */

/* The thread of the step is there, too, not only those that the library starts. A bench runs in a
 * process of its own, which the command starts. */
static void commands_are_there(void **state)
{
    char line[4096], both[32];
    bool there = false;
    int status;

    (void)state;
    if (!may_run())
        return;
    if (access("/proc/thread-self/children", R_OK) != 0)
        skip();
    snprintf(both, sizeof both, "%u,%u", cores[0], cores[1]);
    put_together(RANK("1"), both, "bench digits: --num-epochs 1000000 --log none >/dev/null", line);
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < TRIES && !there && waitpid(child, &status, WNOHANG) == 0; i++) {
        there = runs_on(child, cores[1]);
        usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(there);
}

/* A mask that somebody has narrowed stays, and its node is known. */
static void masks_stay(void **state)
{
    char out[8192], one[16];

    (void)state;
    if (!may_run())
        return;
    snprintf(one, sizeof one, "%u", cores[0]);
    assert_int_equal(run(RANK("1"), one, BENCH "--log none", out), 0);
    assert_null(strstr(out, "this rank is on"));
    assert_int_equal(run("", one, "info --machine", out), 0);
    assert_says(out, "0: 1 thread, 2 GiB; 900: 1 thread, 0 bytes");
    assert_says(out, "1 of 2 threads, 1 by affinity, of memory node 0; ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_have_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranks_run_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands_are_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(masks_stay, set_up, tear_down),
    };

    binary = test_binary();
    if (!binary)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
