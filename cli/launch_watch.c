/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank failed first, and how it is known: by its end, or by signs of life that do not come.
 */
#include "launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

uint64_t launch_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

void launch_fail(struct launch *launch, int64_t rank, const char *host, int code, const char *why)
{
    if (launch->failed || cli_interrupted())
        return;
    launch->failed = true;
    launch->code = code;
    launch->kill_ns = cli_now_ns() + launch_ns(launch->options.grace);
    if (rank < 0)
        cli_error("on %s: %s; the ranks are stopped", host, why);
    else
        cli_error("rank %" PRId64 " of %" PRIu64 " on %s: %s%s", rank, launch->ranks, host, why,
                  launch->ranks > 1 ? "; the others are stopped" : "");
    /* mpirun and srun stop the others by themselves, as the one that failed is gone. */
    if (launch->how == LAUNCH_LOCAL)
        launch_signal(launch, SIGTERM);
}

void launch_ended(struct launch *launch, uint64_t i)
{
    const int how = launch->child[i].status;
    const int64_t rank = launch->how == LAUNCH_LOCAL ? (int64_t)i : -1;
    const double seconds = (double)(cli_now_ns() - launch->began_ns) / 1e9;
    const char *who = launch->how == LAUNCH_MPIRUN ? "mpirun "
                      : launch->how == LAUNCH_SRUN ? "srun "
                                                   : "";
    char why[256];

    if (WIFEXITED(how) && WEXITSTATUS(how) == CLI_GOOD)
        return;
    const char *name = WIFSIGNALED(how) ? sigabbrev_np(WTERMSIG(how)) : NULL;
    if (WIFSIGNALED(how) && !name) /* a real-time one */
        snprintf(why, sizeof why, "%sended by signal %d after %.1f s", who, WTERMSIG(how), seconds);
    else if (WIFSIGNALED(how))
        snprintf(why, sizeof why, "%sended by SIG%s (%s) after %.1f s%s", who, name,
                 sigdescr_np(WTERMSIG(how)), seconds,
                 WTERMSIG(how) == SIGKILL ? ": the kernel does so when memory runs out" : "");
    else
        snprintf(why, sizeof why, "%sended with exit code %d after %.1f s", who, WEXITSTATUS(how),
                 seconds);
    /* Wrong usage is the same the next time. */
    if (WIFEXITED(how) && WEXITSTATUS(how) == CLI_USAGE && !launch->failed)
        launch->hopeless = true;
    launch_fail(launch, rank, launch->host,
                WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how), why);
}

/* ---- Signs of life --------------------------------------------------------------------------- */

/* What is known of a rank at one look. */
struct look {
    stk_heartbeat_row row;
    char state; /* of its process; 0: gone; of another machine 'R' */
    bool mute;  /* of another machine, from where nothing comes */
    uint64_t silent_ns;
};

static struct look look_at(const struct launch *launch, uint64_t rank, uint64_t now)
{
    struct look look = {.row = {.struct_size = sizeof look.row}};

    stk_heartbeat_read(launch->heartbeat, rank, &look.row);
    look.state = look.row.heard_ns ? 'R' : launch_process(look.row.pid).state;
    /* One that waits for others, or computes, is heard all the same. */
    look.mute = look.row.heard_ns && now > look.row.heard_ns &&
                now - look.row.heard_ns > launch_ns(launch->options.heartbeat_timeout) / 2;
    look.silent_ns = now > look.row.at_ns ? now - look.row.at_ns : 0;
    return look;
}

/* Whether `a` is more likely than `b` to be what all others wait for: it is stopped or mute, or not
 * in a collective, or has done fewer steps, or was silent first. */
static bool is_worse(const struct look *a, const struct look *b)
{
    const bool stopped[] = {a->state == 'T' || a->mute, b->state == 'T' || b->mute};
    const bool meets[] = {a->row.doing == STK_DOING_COLLECTIVE,
                          b->row.doing == STK_DOING_COLLECTIVE};

    if (stopped[0] != stopped[1])
        return stopped[0];
    if (meets[0] != meets[1])
        return meets[1];
    if (a->row.steps != b->row.steps)
        return a->row.steps < b->row.steps;
    return a->silent_ns > b->silent_ns;
}

/* Whether a process or its machine is gone: what the other ranks of that machine do says it. */
static const char *say_mute(const struct launch *launch, uint64_t rank, const struct look *look,
                            char *text, size_t size)
{
    const uint64_t now = cli_now_ns();
    uint64_t beside = 0, mute = 0;

    for (uint64_t r = 0; r < launch->ranks; r++) {
        const struct look other = look_at(launch, r, now);
        if (r == rank || !other.row.heard_ns || other.row.doing == STK_DOING_END ||
            strcmp(other.row.host, look->row.host) != 0)
            continue;
        beside++;
        mute += other.mute;
    }
    if (beside > mute)
        return "stopped by a signal (SIGSTOP) or by the kernel: others of its machine are heard";
    if (!beside)
        return "and nothing is heard from its machine: the network is cut, or the machine or the "
               "process stopped";
    snprintf(text, size,
             "and nothing is heard from its machine, of %" PRIu64
             " ranks: the network is cut, or the machine is down",
             beside + 1);
    return text;
}

static void fail_silent(struct launch *launch, uint64_t rank, const struct look *look)
{
    static const char *const doing[] = {[STK_DOING_NOTHING] = "before its first step",
                                        [STK_DOING_DATA] = "in its step",
                                        [STK_DOING_COLLECTIVE] = "in a collective"};
    char why[256], mute[160];

    snprintf(why, sizeof why, "no sign of life for %.1f s after %" PRIu64 " steps, %s",
             (double)look->silent_ns / 1e9, look->row.steps,
             look->mute           ? say_mute(launch, rank, look, mute, sizeof mute)
             : look->state == 'T' ? "stopped by a signal (SIGSTOP)"
             : look->state == 'D' ? "waiting in the kernel for a disk or network"
                                  : doing[look->row.doing]);
    launch_fail(launch, (int64_t)rank, look->row.heard_ns ? look->row.host : launch->host,
                CLI_FAILED, why);
    /* It does not hear what would stop it; that of another machine whoever started it has to end.
     */
    if (look->row.heard_ns)
        launch_signal(launch, SIGTERM);
    else if (look->row.pid > 1)
        kill((pid_t)look->row.pid, SIGKILL);
}

/* A rank of which nothing was ever heard: what others that wait, `waiting` of them, wait for. Only
 * of this machine's it is known where it is. */
static void fail_absent(struct launch *launch, uint64_t rank, uint64_t waiting)
{
    char why[256];

    snprintf(why, sizeof why,
             "no sign of life since it was started, %.1f s ago, and %" PRIu64 " %s in a collective",
             (double)(cli_now_ns() - launch->began_ns) / 1e9, waiting,
             waiting > 1 ? "others wait" : "other waits");
    launch_fail(launch, (int64_t)rank,
                launch->how == LAUNCH_LOCAL ? launch->host : "a machine unknown", CLI_FAILED, why);
    if (launch->how != LAUNCH_LOCAL)
        launch_signal(launch, SIGTERM);
}

/* A rank that mpirun or srun has: its end is seen by its process. */
static bool fail_gone(struct launch *launch, uint64_t rank, const struct look *look)
{
    char why[160];

    if (launch->how == LAUNCH_LOCAL || (look->state && look->state != 'Z'))
        return false;
    snprintf(why, sizeof why, "its process %" PRId64 " ended without a word after %.1f s",
             look->row.pid, (double)(cli_now_ns() - launch->began_ns) / 1e9);
    launch_fail(launch, (int64_t)rank, launch->host, CLI_FAILED, why);
    return true;
}

/* The longest that a rank was silent and went on is known to be no hang. */
static uint64_t limit_of(struct launch *launch)
{
    const uint64_t least = launch_ns(launch->options.heartbeat_timeout);

    return 2 * launch->longest_ns > least ? 2 * launch->longest_ns : least;
}

static void watch_beats(struct launch *launch, uint64_t now)
{
    const uint64_t limit = limit_of(launch), least = launch_ns(launch->options.heartbeat_timeout);
    struct look worst = {0};
    int64_t found = -1, absent = -1;
    uint64_t waiting = 0;
    bool due = false;

    for (uint64_t r = 0; r < launch->ranks; r++) {
        struct look look = look_at(launch, r, now);
        if (!look.row.beats && absent < 0)
            absent = (int64_t)r;
        if (!look.row.beats || look.row.doing == STK_DOING_END)
            continue;
        if (fail_gone(launch, r, &look))
            return;
        /* Of a rank that is waited for: one of its own children, which it knows of. */
        if (!look.state || look.state == 'Z')
            continue;
        uint64_t *last = &launch->last_ns[r];
        if (*last && look.row.at_ns > *last && look.row.at_ns - *last > launch->longest_ns &&
            look.row.beats > 2)
            launch->longest_ns = look.row.at_ns - *last;
        *last = look.row.at_ns;
        waiting += look.row.doing == STK_DOING_COLLECTIVE;
        /* What is sent all the time is missed at once, however long a step may be silent. */
        due |= look.silent_ns > limit || (look.mute && now - look.row.heard_ns > least);
        /* Those that wait for it became silent a little later. */
        if ((look.silent_ns > limit / 2 || look.mute) && (found < 0 || is_worse(&look, &worst))) {
            worst = look;
            found = (int64_t)r;
        }
    }
    const bool waits = worst.row.doing == STK_DOING_COLLECTIVE && worst.state != 'T' && !worst.mute;
    if (due && waits && absent >= 0)
        fail_absent(launch, (uint64_t)absent, waiting);
    else if (due)
        fail_silent(launch, (uint64_t)found, &worst);
}

/* Programs that give no signs of life are seen to be stopped all the same. */
static void watch_stopped(struct launch *launch, uint64_t now)
{
    const uint64_t limit = launch_ns(launch->options.heartbeat_timeout);

    for (uint64_t i = 0; i < launch->children && launch->how == LAUNCH_LOCAL; i++) {
        struct launch_child *child = &launch->child[i];
        if (!child->stopped || child->pid <= 0 || now - child->stopped_ns <= limit)
            continue;
        char why[128];
        snprintf(why, sizeof why, "stopped by a signal (SIGSTOP) for %.1f s",
                 (double)(now - child->stopped_ns) / 1e9);
        launch_fail(launch, (int64_t)i, launch->host, CLI_FAILED, why);
        kill(-child->pid, SIGKILL);
        return;
    }
}

void launch_watch(struct launch *launch)
{
    const uint64_t now = cli_now_ns();

    if (launch->failed || cli_interrupted() || launch->options.heartbeat_timeout <= 0)
        return;
    if (launch->heartbeat) {
        stk_heartbeat_receive(launch->heartbeat);
        watch_beats(launch, now);
    }
    if (!launch->failed)
        watch_stopped(launch, now);
}
