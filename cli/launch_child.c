/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a launch: started, heard, waited for. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_WORDS 32        /* in front of the command */
#define AT_ONCE    (1 << 16) /* bytes of a stream before the others are looked at: a pipe's */

/* For the signal handlers: groups that are to be told, and whose they are. */
static volatile sig_atomic_t num_told;
static volatile pid_t told[LAUNCH_MOST];
static const struct launch *volatile forwarding;

/* ---- Signals --------------------------------------------------------------------------------- */

/* Tell the ranks of this machine that mpirun or srun has started, each once: the process that gave
 * signs of life, or the group of one that was never heard. False: nobody was told, as there is
 * none, or some are on other machines, which only those two reach, or it is not known where some
 * are; with `some` those that are known are told then. */
static bool tell_ranks(const struct launch *launch, int signal, bool some)
{
    stk_heartbeat_row row = {.struct_size = sizeof row};
    pid_t ranks[LAUNCH_MOST];
    uint64_t known = 0, n = 0;

    launch_find_ranks(told[0], ranks, launch->ranks);
    for (uint64_t r = 0; r < launch->ranks; r++) {
        if (launch->heartbeat)
            stk_heartbeat_read(launch->heartbeat, r, &row);
        if (row.heard_ns && signal != SIGKILL)
            return false;
        if (row.pid > 1 && !row.heard_ns)
            ranks[r] = row.doing == STK_DOING_END ? 0 : (pid_t)row.pid;
        known += row.pid > 1 || ranks[r];
        n += ranks[r] != 0;
    }
    if (!some && known < launch->ranks)
        return false;
    for (uint64_t r = 0; r < launch->ranks; r++)
        if (ranks[r])
            kill(ranks[r], signal);
    return n > 0;
}

static void tell_groups(int signal)
{
    for (sig_atomic_t i = 0; i < num_told; i++)
        if (told[i] > 0)
            kill(-told[i], signal);
}

static void tell(int signal)
{
    const struct launch *launch = forwarding;

    /* An mpirun that is asked to end kills its ranks a second later, whatever they are saving. */
    if (launch && launch->how == LAUNCH_MPIRUN &&
        tell_ranks(launch, signal, !launch_mpirun_passes(signal)))
        return;
    tell_groups(signal);
}

static void on_user_signal(int signal)
{
    const int before = errno;

    tell(signal);
    errno = before;
}

static void on_interrupt(void *unused)
{
    (void)unused;
    tell(cli_interrupted() - 128);
}

/* A second interrupt ends the launcher, and so the ranks at once. In a signal handler. */
static void kill_all(void)
{
    const struct launch *launch = forwarding;

    if (launch && launch->how != LAUNCH_LOCAL)
        tell_ranks(launch, SIGKILL, true);
    tell_groups(SIGKILL);
}

void launch_forward(const struct launch *launch)
{
    struct sigaction action = {.sa_handler = launch ? on_user_signal : SIG_DFL,
                               .sa_flags = SA_RESTART};

    forwarding = launch;

    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    cli_on_interrupt(launch ? on_interrupt : NULL, NULL);
    cli_on_exit_at_once(launch ? kill_all : NULL);
}

void launch_signal(struct launch *launch, int signal)
{
    /* Ranks of mpirun are in groups of their own, and outlive it when it is killed. */
    if (signal == SIGKILL && launch->how != LAUNCH_LOCAL)
        tell_ranks(launch, SIGKILL, true);
    for (uint64_t i = 0; i < launch->children; i++)
        if (launch->child[i].pid > 0)
            kill(-launch->child[i].pid, signal);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void set_number(const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    setenv(name, text, 1);
}

/* As torchrun tells its own [torch/distributed/run.py]; mpirun and srun tell theirs who they are.
 */
static void set_environment(const struct launch *launch, uint64_t rank)
{
    static const char *const others[] = {"OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "MPI_LOCALRANKID",
                                         "MPI_LOCALNRANKS",
                                         "PMIX_RANK",
                                         "OMPI_MCA_orte_bound_at_launch"};
    static const char *const own[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                      "GROUP_RANK"};
    char path[512];

    set_number("TORCHELASTIC_RESTART_COUNT", launch->attempt);
    set_number("TORCHELASTIC_MAX_RESTARTS", launch->options.max_restarts);
    unsetenv("STOKER_HEARTBEAT");
    if (launch->heartbeat) {
        stk_heartbeat_path(launch->heartbeat, path, sizeof path);
        setenv("STOKER_HEARTBEAT", path, 1);
    }
    if (launch->how != LAUNCH_LOCAL) {
        /* Open MPI gives its ranks a terminal, on which nobody looks. */
        setenv("NO_COLOR", "1", 0);
        /* Of a launcher around this one. */
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            unsetenv(own[i]);
        return;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unsetenv(others[i]);
    set_number("RANK", rank);
    set_number("WORLD_SIZE", launch->ranks);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", launch->ranks);
    set_number("GROUP_RANK", 0);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", launch->port);
}

/* The mask of signals outside of launch_start(). */
static sigset_t unheld;

/* In the child: become the command. Only what cannot be returns, its errno. */
static int become(const struct launch *launch, uint64_t rank, pid_t parent, int out, int err)
{
    const char *front[MOST_WORDS];
    size_t given = 0;

    while (launch->command[given])
        given++;
    const size_t words = launch_words(launch, front, MOST_WORDS);
    char **argv = calloc(words + given + 1, sizeof *argv);
    const int null = open("/dev/null", O_RDONLY);
    if (!argv || null < 0)
        return ENOMEM;
    for (size_t i = 0; i < words; i++)
        argv[i] = (char *)front[i];
    memcpy(argv + words, launch->command, given * sizeof *argv);
    /* A group of its own: a terminal's Ctrl-C comes once, from here, and what a rank has started
     * ends with it. Whatever ends the launcher ends the ranks. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, launch->how == LAUNCH_LOCAL ? SIGKILL : SIGTERM);
    if (getppid() != parent)
        _exit(CLI_FAILED);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    set_environment(launch, rank);
    static const int own[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        signal(own[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &unheld, NULL);
    execvp(argv[0], argv);
    return errno;
}

/* The child says why it is none; a program that runs has closed the pipe. */
static int wait_begun(int pipe)
{
    int error = 0;
    ssize_t n;

    while ((n = read(pipe, &error, sizeof error)) < 0 && errno == EINTR)
        continue;
    close(pipe);
    return n == (ssize_t)sizeof error ? error : 0;
}

static int start_one(struct launch *launch, uint64_t i)
{
    struct launch_child *child = &launch->child[i];
    int out[2] = {-1, -1}, err[2] = {-1, -1}, begun[2] = {-1, -1};
    const pid_t parent = getpid();

    child->pid = 0;
    child->stopped = false;
    child->streams[0].fd = child->streams[1].fd = -1;
    child->streams[0].used = child->streams[1].used = 0;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(begun, O_CLOEXEC)) {
        const int error = errno, opened[] = {out[0], out[1], err[0], err[1]};
        for (size_t k = 0; k < sizeof opened / sizeof *opened; k++)
            if (opened[k] >= 0)
                close(opened[k]);
        return error;
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        num_told = 0;
        const int error = become(launch, i, parent, out[1], err[1]);
        _exit(write(begun[1], &error, sizeof error) < 0 ? 126 : 127);
    }
    const int error = pid < 0 ? errno : 0;
    close(out[1]);
    close(err[1]);
    close(begun[1]);
    child->streams[0].fd = out[0];
    child->streams[1].fd = err[0];
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    if (pid < 0) {
        close(begun[0]);
        return error;
    }
    /* In the parent, too: a signal may come before the child has done so. */
    setpgid(pid, pid);
    child->pid = pid;
    told[i] = pid;
    num_told = (sig_atomic_t)(i + 1);
    return wait_begun(begun[0]);
}

static void start_all(struct launch *launch)
{
    int error = 0;

    launch->children = launch->how == LAUNCH_LOCAL ? launch->ranks : 1;
    launch->began_ns = cli_now_ns();
    num_told = 0;
    for (uint64_t i = 0; i < launch->children; i++) {
        error = start_one(launch, i);
        if (!error)
            continue;
        launch->children = i + 1;
        const char *what = launch->command[0];
        launch_words(launch, &what, 1);
        char why[512];
        snprintf(why, sizeof why, "'%.300s' could not be started: %s", what, strerror(error));
        launch->hopeless = true;
        launch_fail(launch, launch->how == LAUNCH_LOCAL ? (int64_t)i : -1, launch->host,
                    error == ENOENT ? 127 : 126, why);
        return;
    }
}

/* Signals that come meanwhile wait, and reach all ranks. */
void launch_start(struct launch *launch)
{
    static const int held[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        sigaddset(&set, held[i]);
    sigprocmask(SIG_BLOCK, &set, &unheld);
    /* Ranks of an mpirun that is killed are children of this process then. */
    if (launch->attempt == 0)
        launch_adopt(launch->how != LAUNCH_LOCAL);
    start_all(launch);
    sigprocmask(SIG_SETMASK, &unheld, NULL);
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* One line of a rank. What it says is foreign text, and is cleaned as such. */
static void put_line(const struct launch *launch, uint64_t rank, int stream, const char *line,
                     size_t length)
{
    FILE *to = stream == 0 ? launch->cli->out : launch->beside;

    if (launch->children > 1)
        fprintf(to, "[%" PRIu64 "] ", rank);
    fwrite(line, 1, length, to);
    fputc('\n', to);
    fflush(to);
}

/* Whole lines of what was read; a bar that is drawn again and again ends each time in \r. */
static void put_lines(const struct launch *launch, uint64_t rank, int number, bool last)
{
    struct launch_stream *s = &launch->child[rank].streams[number];
    size_t from = 0;

    for (size_t i = 0; i < s->used; i++) {
        if (s->line[i] != '\n' && s->line[i] != '\r')
            continue;
        if (i > from || s->line[i] == '\n')
            put_line(launch, rank, number, s->line + from, i - from);
        from = i + 1;
        if (s->line[i] == '\r' && from < s->used && s->line[from] == '\n')
            from++, i++;
    }
    if (from == 0 && s->used == sizeof s->line)
        last = true; /* longer than any line */
    if (last && s->used > from) {
        put_line(launch, rank, number, s->line + from, s->used - from);
        from = s->used;
    }
    memmove(s->line, s->line + from, s->used - from);
    s->used -= from;
}

static void close_stream(struct launch_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}

static void read_stream(struct launch *launch, uint64_t rank, int number)
{
    struct launch_stream *s = &launch->child[rank].streams[number];
    size_t taken = 0;

    while (s->fd >= 0 && taken < AT_ONCE) {
        const ssize_t n = read(s->fd, s->line + s->used, sizeof s->line - s->used);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            close_stream(s);
        s->used += n > 0 ? (size_t)n : 0;
        taken += n > 0 ? (size_t)n : 0;
        put_lines(launch, rank, number, n <= 0);
    }
}

void launch_read(struct launch *launch, int timeout_ms, bool last)
{
    struct pollfd polled[2 * LAUNCH_MOST];
    nfds_t n = 0;

    for (uint64_t i = 0; i < launch->children; i++)
        for (int k = 0; k < 2; k++)
            if (launch->child[i].streams[k].fd >= 0)
                polled[n++] =
                    (struct pollfd){.fd = launch->child[i].streams[k].fd, .events = POLLIN};
    if (poll(polled, n, timeout_ms) <= 0 && !last)
        return;
    for (uint64_t i = 0; i < launch->children; i++)
        for (int k = 0; k < 2; k++) {
            read_stream(launch, i, k);
            if (last)
                put_lines(launch, i, k, true);
        }
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool is_own(const struct launch *launch, pid_t pid)
{
    for (uint64_t i = 0; i < launch->children; i++)
        if (launch->child[i].pid == pid)
            return true;
    return false;
}

/* Take in what ranks started, left and does not run any more: it came to this process. */
static void reap_others(const struct launch *launch)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 &&
           !is_own(launch, info.si_pid)) {
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

bool launch_reap(struct launch *launch)
{
    bool left = false;

    for (uint64_t i = 0; i < launch->children; i++) {
        struct launch_child *child = &launch->child[i];
        int how;
        pid_t ended = -1;
        while (child->pid > 0 &&
               (ended = waitpid(child->pid, &how, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
            child->stopped = WIFSTOPPED(how);
            child->stopped_ns = cli_now_ns();
            if (WIFSTOPPED(how) || WIFCONTINUED(how))
                continue;
            child->status = how;
            /* What it has started, and left, holds ports and memory of the next attempt. */
            kill(-child->pid, SIGKILL);
            child->pid = 0;
            told[i] = 0;
            launch_ended(launch, i);
        }
        left |= child->pid > 0;
    }
    reap_others(launch);
    return left;
}

static void read_meanwhile(void *launch, int milliseconds)
{
    launch_read(launch, milliseconds, false);
}

void launch_clear(struct launch *launch)
{
    /* Ranks that outlive their mpirun, also those that were never heard of, hold ports and memory
     * of the next attempt: they are asked to end, and killed once the others would be. */
    if (launch->how != LAUNCH_LOCAL && (launch->failed || cli_interrupted()))
        launch_end_left(launch->kill_ns == UINT64_MAX ? 0 : launch->kill_ns, read_meanwhile,
                        launch);
    launch_read(launch, 0, true);
    for (uint64_t i = 0; i < launch->children; i++)
        for (int k = 0; k < 2; k++)
            close_stream(&launch->child[i].streams[k]);
    num_told = 0;
}
