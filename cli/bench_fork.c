/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each run in processes of its own: memory is counted for each setting, what one leaks the next
 * does not have, and a crash is a row that says so. The parent has no threads and no open context
 * when it forks.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_NS                                                                                   \
    UINT64_C(10000000000) /* for children to end after an interrupt, before they are killed */
#define POLL_MS 200
/* A process that was stopped is named after a while, and not waited for without end. */
#define STOPPED_SAID_NS   UINT64_C(3000000000)
#define STOPPED_KILLED_NS UINT64_C(60000000000)

struct child {
    pid_t pid;
    int pipe; /* its figures come from here; -1: closed */
    size_t got;
    FILE *hash;
    uint64_t stopped_ns; /* since when it is stopped; 0: it is not */
    bool said, killed;   /* that it is, and for that */
};

/* For the signal handler: children that are to be told. */
static volatile sig_atomic_t num_told;
static volatile pid_t told[STK_BENCH_MAX_RANKS];

static void tell_children(void *user)
{
    (void)user;
    for (sig_atomic_t i = 0; i < num_told; i++)
        if (told[i] > 0)
            kill(told[i], SIGTERM);
}

static void child_main(struct bench_task *task, int pipe)
{
    struct bench_result result;
    stk_error err;

    num_told = 0;
    cli_on_interrupt(NULL, NULL);
    /* Whatever ends the parent ends this process, also where it did so before this was asked for.
     */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != task->parent)
        _exit(CLI_FAILED);
    if (task->setting.python)
        bench_fail(&result, stk_bench_exec(&task->setting, pipe, &err), err.text);
    else
        bench_run(task, &result);
    cli_console_clear();
    cli_heartbeat_end(task->cli);
    const char *at = (const char *)&result;
    for (size_t left = sizeof result; left;) {
        ssize_t n = write(pipe, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(CLI_FAILED);
        at += n;
        left -= (size_t)n;
    }
    _exit(CLI_GOOD);
}

static bool start(struct child *children, uint64_t i, struct bench_task *task, bool hashes)
{
    struct child *child = &children[i];
    int ends[2];

    *child = (struct child){.pid = -1, .pipe = -1};
    if (hashes) {
        child->hash = tmpfile();
        if (!child->hash)
            return false;
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fflush(NULL);
    child->pid = fork();
    if (child->pid == 0) {
        close(ends[0]);
        for (uint64_t k = 0; k < i; k++)
            close(children[k].pipe);
        task->setting.rank = i;
        task->hashes = child->hash;
        child_main(task, ends[1]);
    }
    close(ends[1]);
    child->pipe = ends[0];
    if (child->pid < 0) {
        close(ends[0]);
        child->pipe = -1;
        return false;
    }
    told[i] = child->pid;
    num_told = (sig_atomic_t)(i + 1);
    return true;
}

/* Read what has come from one child; false at the end. */
static bool receive(struct child *child, struct bench_result *result)
{
    char *to = (char *)result;

    ssize_t n = read(child->pipe, to + child->got, sizeof *result - child->got);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    child->got += (size_t)n;
    return n > 0 && child->got < sizeof *result;
}

/* Whether a child is stopped (SIGSTOP, a debugger): say so, and end it in the end. */
static void look_at(struct child *child, const stk_bench_setting *setting)
{
    siginfo_t info = {0};
    const uint64_t now = cli_now_ns();

    if (child->pid > 0 &&
        waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
        info.si_pid == child->pid) {
        child->stopped_ns = info.si_code == CLD_STOPPED ? now : 0;
        child->said = false;
    }
    if (!child->stopped_ns)
        return;
    if (!child->said && now - child->stopped_ns >= STOPPED_SAID_NS) {
        cli_warning("%s: process %ld is stopped and nothing is measured; 'kill -CONT %ld' lets it "
                    "go on, else it is ended after %d s",
                    setting->label, (long)child->pid, (long)child->pid,
                    (int)(STOPPED_KILLED_NS / 1000000000u));
        child->said = true;
    }
    if (!child->killed && now - child->stopped_ns >= STOPPED_KILLED_NS) {
        kill(child->pid, SIGKILL);
        child->killed = true;
    }
}

static void reap(struct child *child, const stk_bench_setting *setting, struct bench_result *result)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char text[256];
    int how = 0;
    pid_t ended;

    if (child->pid <= 0)
        return;
    while ((ended = waitpid(child->pid, &how, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        look_at(child, setting);
        nanosleep(&pause, NULL);
    }
    if (child->got == sizeof *result && WIFEXITED(how) && WEXITSTATUS(how) == CLI_GOOD)
        return;
    if (WIFSIGNALED(how) && cli_interrupted()) {
        snprintf(text, sizeof text, "interrupted; the process did not end by itself within %d s",
                 (int)(GRACE_NS / 1000000000u));
    } else if (child->killed) {
        snprintf(text, sizeof text, "the process was stopped for %d s and was ended",
                 (int)(STOPPED_KILLED_NS / 1000000000u));
    } else if (WIFSIGNALED(how)) {
        int signal = WTERMSIG(how);
        snprintf(text, sizeof text, "the process ended by SIG%s (%s)%s", sigabbrev_np(signal),
                 sigdescr_np(signal),
                 signal == SIGKILL ? ": the kernel does so when memory runs out" : "");
    } else {
        snprintf(text, sizeof text, "the process ended with exit code %d and no figures",
                 WEXITSTATUS(how));
    }
    bench_fail(result, STK_EINTERNAL, text);
    result->run.interrupted = cli_interrupted() != 0;
}

/* Gather the figures of all children; after an interrupt they have a while to send what they have.
 */
static void gather(struct child *children, uint64_t n, const stk_bench_setting *setting,
                   struct bench_meeting *meeting, struct bench_result *results)
{
    struct pollfd polled[STK_BENCH_MAX_RANKS];
    uint64_t open = 0, kill_at = 0;

    for (uint64_t i = 0; i < n; i++) {
        polled[i] = (struct pollfd){.fd = children[i].pipe, .events = POLLIN};
        open += children[i].pipe >= 0;
    }
    while (open) {
        if (poll(polled, n, POLL_MS) < 0 && errno != EINTR)
            break;
        for (uint64_t i = 0; i < n; i++)
            look_at(&children[i], setting);
        if (cli_interrupted() && !kill_at)
            kill_at = cli_now_ns() + GRACE_NS;
        if (kill_at && cli_now_ns() > kill_at) {
            for (uint64_t i = 0; i < n; i++)
                if (children[i].pipe >= 0)
                    kill(children[i].pid, SIGKILL);
            kill_at = UINT64_MAX;
        }
        for (uint64_t i = 0; i < n; i++) {
            if (polled[i].fd < 0 || !polled[i].revents || receive(&children[i], &results[i]))
                continue;
            close(polled[i].fd);
            polled[i].fd = children[i].pipe = -1;
            open--;
            /* Nobody waits for one that is gone. */
            if (children[i].got < sizeof results[i] || results[i].run.status != STK_OK)
                atomic_store(&meeting->broken, true);
        }
    }
}

static void write_hashes(struct child *children, uint64_t n, FILE *hash)
{
    FILE *parts[STK_BENCH_MAX_RANKS];
    uint64_t used = 0;

    for (uint64_t i = 0; i < n; i++)
        if (children[i].hash)
            parts[used++] = children[i].hash;
    if (hash && used && bench_hash_merge(parts, used, hash) != 0)
        cli_warning("the hashes are not complete: writing failed");
    for (uint64_t i = 0; i < used; i++)
        fclose(parts[i]);
}

void bench_fork(struct bench_task *task, FILE *hash, struct bench_result *results)
{
    static struct child children[STK_BENCH_MAX_RANKS];
    const stk_bench_setting *setting = &task->setting;
    uint64_t n = setting->bench->ranks, started = 0;
    struct bench_meeting *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (meeting == MAP_FAILED) {
        for (uint64_t i = 0; i < n; i++)
            bench_fail(&results[i], STK_ENOMEM, "no memory for the processes to meet");
        return;
    }
    task->meeting = meeting;
    task->parent = getpid();
    num_told = 0;
    cli_on_interrupt(tell_children, NULL);
    for (uint64_t i = 0; i < n; i++)
        bench_fail(&results[i], STK_ESYSTEM,
                   "the process was not started: another one could not be");
    while (started < n && start(children, started, task, hash != NULL))
        started++;
    if (started < n) {
        bench_fail(&results[started], STK_ESYSTEM,
                   "could not start a process: fewer --ranks, or a higher limit of processes "
                   "(ulimit -u), may help");
        atomic_store(&meeting->broken, true);
    }
    gather(children, started, setting, meeting, results);
    for (uint64_t i = 0; i < started; i++)
        reap(&children[i], setting, &results[i]);
    cli_on_interrupt(NULL, NULL);
    num_told = 0;
    write_hashes(children, started, hash);
    munmap(meeting, sizeof *meeting);
}
