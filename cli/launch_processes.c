/* SPDX-License-Identifier: Apache-2.0 */
/* Processes below this one: which of them are ranks of an mpirun, and the end of what outlives it.
 */
#include "launch.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEFT_MS  2000 /* that what was killed has to be gone, */
#define LOOK_MS  20   /* between two looks at it */
#define CHILDREN 256  /* of this process that are known; of more none is killed */
#define DEPTH    64   /* of a process below another */

/* ---- As the kernel has them: also in a signal handler ---------------------------------------- */

static int open_of(int64_t pid, const char *file)
{
    char path[64] = "/proc/", digits[20];
    size_t n = 0, at = strlen(path);

    for (; pid > 0 && n < sizeof digits; pid /= 10)
        digits[n++] = (char)('0' + pid % 10);
    while (n)
        path[at++] = digits[--n];
    strncpy(path + at, file, sizeof path - at - 1);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int64_t take_number(const char **text)
{
    int64_t number = 0;

    for (*text += strspn(*text, " "); **text >= '0' && **text <= '9'; ++*text)
        number = number * 10 + (**text - '0');
    return number;
}

struct launch_process launch_process(int64_t pid)
{
    struct launch_process process = {0};
    char text[512];
    const int fd = open_of(pid, "/stat");
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    /* The name before it may hold anything. */
    const char *end = strrchr(text, ')');
    if (end && end[1] == ' ' && end[2]) {
        process.state = end[2];
        end += 3;
        process.parent = take_number(&end);
        process.group = take_number(&end);
    }
    return process;
}

/* All of the machine. */
static void each_process(void (*each)(pid_t pid, void *user), void *user)
{
    _Alignas(struct dirent64) char entries[4096];
    const int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t n;

    while (fd >= 0 && (n = getdents64(fd, entries, sizeof entries)) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            const char *name = entry->d_name;
            const int64_t pid = take_number(&name);
            if (pid > 1 && !*name)
                each((pid_t)pid, user);
            at += entry->d_reclen;
        }
    if (fd >= 0)
        close(fd);
}

/* Whether a process is another one, or below it. */
static bool descends(int64_t pid, pid_t from)
{
    for (int i = 0; i < DEPTH && pid > 1 && pid != from; i++)
        pid = launch_process(pid).parent;
    return pid > 1 && pid == from;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

#define VARIABLES 2
#define OTHER     SIZE_MAX /* another variable */

/* Where a reader of an environment is. */
struct environment {
    size_t matched[VARIABLES]; /* of each name, as far as the variable goes; or OTHER */
    bool value;                /* of one of them */
    int64_t rank;
};

/* One byte of it. False: `rank` is known. */
static bool take_byte(struct environment *e, char byte)
{
    /* Open MPI's, PRRTE's, and of MPICH and its descendants. */
    static const char *const names[VARIABLES] = {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="};

    if (e->value) {
        if (byte < '0' || byte > '9' || e->rank >= LAUNCH_MOST)
            return false;
        e->rank = 10 * e->rank + (byte - '0');
        return true;
    }
    for (size_t i = 0; i < VARIABLES; i++) {
        if (!byte)
            e->matched[i] = 0;
        else if (e->matched[i] != OTHER)
            e->matched[i] = names[i][e->matched[i]] == byte ? e->matched[i] + 1 : OTHER;
        e->value |= e->matched[i] != OTHER && !names[i][e->matched[i]];
    }
    e->rank = e->value ? 0 : -1;
    return true;
}

/* Which rank the environment of a process says it is, as it began; -1: none, or it may not be read.
 */
static int64_t rank_of(int64_t pid)
{
    struct environment e = {.rank = -1};
    char bytes[4096];
    const int fd = open_of(pid, "/environ");
    bool more = true;
    ssize_t n;

    while (fd >= 0 && more && (n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n && more; i++)
            more = take_byte(&e, bytes[i]);
    if (fd >= 0)
        close(fd);
    return e.rank;
}

struct search {
    pid_t starter, *found;
    uint64_t ranks;
};

static void take_rank(pid_t pid, void *user)
{
    const struct search *search = user;
    const int64_t rank = rank_of(pid);

    if (rank < 0 || (uint64_t)rank >= search->ranks)
        return;
    const struct launch_process process = launch_process(pid);
    /* What a rank has started has its environment. */
    if (!process.state || process.state == 'Z' || rank_of(process.parent) >= 0 ||
        !descends(process.parent, search->starter))
        return;
    search->found[rank] = process.group == pid ? -pid : pid;
}

void launch_find_ranks(pid_t starter, pid_t *found, uint64_t ranks)
{
    struct search search = {.starter = starter, .found = found, .ranks = ranks};

    memset(found, 0, ranks * sizeof *found);
    if (starter > 1)
        each_process(take_rank, &search);
}

/* ---- What is left ---------------------------------------------------------------------------- */

struct children {
    pid_t pids[CHILDREN];
    size_t n;
};

/* Of this process, before it began to take others on. */
static struct children before;

static void take_child(pid_t pid, void *user)
{
    struct children *children = user;

    if (children->n < CHILDREN && launch_process(pid).parent == getpid())
        children->pids[children->n++] = pid;
}

void launch_adopt(bool orphans)
{
    before.n = 0;
    if (orphans)
        each_process(take_child, &before);
    prctl(PR_SET_CHILD_SUBREAPER, orphans ? 1UL : 0UL, 0UL, 0UL, 0UL);
}

static bool was_before(pid_t pid)
{
    for (size_t i = 0; i < before.n; i++)
        if (before.pids[i] == pid)
            return true;
    return false;
}

/* Send a signal to what came since. How many there are; what has ended is taken in. */
static int signal_left(int signal)
{
    struct children children = {.n = 0};
    int left = 0;

    each_process(take_child, &children);
    for (size_t i = 0; i < children.n && before.n < CHILDREN; i++) {
        const pid_t pid = children.pids[i];
        if (was_before(pid) || waitpid(pid, NULL, WNOHANG) != 0)
            continue;
        kill(pid, signal);
        left++;
    }
    return left;
}

void launch_end_left(uint64_t until_ns, void (*meanwhile)(void *user, int milliseconds), void *user)
{
    const uint64_t now = cli_now_ns(), until = until_ns < now ? now : until_ns,
                   end = until + LEFT_MS * UINT64_C(1000000);
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    bool killed = until == now;

    for (int left = signal_left(killed ? SIGKILL : SIGTERM); left > 0 && cli_now_ns() < end;) {
        if (meanwhile)
            meanwhile(user, LOOK_MS);
        else
            nanosleep(&pause, NULL);
        killed |= cli_now_ns() >= until;
        left = signal_left(killed ? SIGKILL : 0);
    }
}
