/* a command -> N processes of it that are watched: what `stoker launch` is made of */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_LAUNCH_H
#define STK_CLI_LAUNCH_H

#include <signal.h>
#include <sys/types.h>

#include <stoker/heartbeat.h>

#include "cli.h"

#define LAUNCH_MOST 1024 /* ranks of one machine */

enum launch_how { LAUNCH_AUTO = 0, LAUNCH_LOCAL, LAUNCH_MPIRUN, LAUNCH_SRUN };

struct launch_options {
    uint32_t struct_size;
    int32_t launcher;
    uint64_t ranks, min_ranks, max_restarts, main_port;
    double heartbeat_timeout, grace; /* seconds */
    const char *heartbeat_host;      /* as other machines know this one; NULL: by its name */
};

#define LAUNCH_LINE 8192 /* bytes of a line that is kept together */

/* A stream of a child, given out in whole lines. */
struct launch_stream {
    int fd; /* -1: at its end */
    size_t used;
    char line[LAUNCH_LINE];
};

/* A process that was started: a rank, or mpirun or srun, which have them all. */
struct launch_child {
    pid_t pid;           /* 0: none, or it was waited for */
    int status;          /* of waitpid(), once it was */
    bool stopped;        /* by SIGSTOP and its like, */
    uint64_t stopped_ns; /* since then */
    struct launch_stream streams[2];
};

struct launch {
    struct cli *cli;
    struct launch_options options;
    char **command; /* ended by NULL */
    FILE *beside;   /* standard error, as text */
    enum launch_how how;
    char host[256];
    /* Of the attempt that is under way. */
    uint64_t attempt, ranks, children; /* children: 1 of mpirun and srun */
    uint64_t began_ns, kill_ns;        /* kill_ns: when those that are left are killed; 0: never */
    struct launch_child *child;        /* room for options.ranks */
    stk_heartbeat *heartbeat;          /* NULL: nobody watches */
    uint64_t port;                     /* MASTER_PORT of local ranks */
    uint64_t longest_ns;               /* between two beats of a rank, */
    uint64_t last_ns[LAUNCH_MOST];     /* which were seen last then */
    bool failed;                       /* one of them; then the next are of the first that did */
    bool hopeless;                     /* another attempt would come to the same */
    int code;
};

/* ---- Children (launch_child.c) --------------------------------------------------------------- */

/* Start all of an attempt. Where one could not be, the attempt has failed. */
void launch_start(struct launch *launch);
/* Give out what has come, for at most `timeout_ms` of waiting. `last`: also lines that have no end.
 */
void launch_read(struct launch *launch, int timeout_ms, bool last);
/* Look at which have ended or were stopped. True: some are left. */
bool launch_reap(struct launch *launch);
/* Send a signal to all that are left, with what they have started. */
void launch_signal(struct launch *launch, int signal);
/* Kill what is left of an attempt that failed or was interrupted, also ranks of an mpirun that is
 * gone, and close the streams. */
void launch_clear(struct launch *launch);
/* Pass SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 on to the children from here on; NULL: no more. */
void launch_forward(const struct launch *launch);

/* ---- mpirun and srun (launch_how.c) ---------------------------------------------------------- */

/* Which is taken. CLI_GO_ON, or the exit code after printing the error. */
int launch_choose(struct launch *launch);
/* The words in front of the command; how many, at most `room`. */
size_t launch_words(const struct launch *launch, const char **words, size_t room);
/* Look for mpirun, and whose it is. False: there is none. */
bool launch_mpirun_find(void);
/* Once it was found: its words in front of a command for `ranks` ranks. `label`: whose a line of
 * their output is stands in front of it. `variable` of the environment is for ranks of other
 * machines, too; NULL: none is. */
size_t launch_mpirun_words(uint64_t ranks, bool label, const char *variable, const char **words,
                           size_t room);

/* Whether it passes a signal on to its ranks, and lives on. In a signal handler, too. */
bool launch_mpirun_passes(int signal);

/* ---- Processes below this one (launch_processes.c) ------------------------------------------- */

/* A process as the kernel has it [proc(5), stat]. */
struct launch_process {
    char state; /* 'R', 'S', 'D', 'T', 'Z'; 0: it is gone */
    int64_t parent, group;
};

/* These two also in a signal handler. */
struct launch_process launch_process(int64_t pid);
/* The ranks that mpirun `starter` has on this machine, as kill(2) takes them: the group of each,
 * where it leads one. What starts them is none, nor is what they start. 0: not found. */
void launch_find_ranks(pid_t starter, pid_t *found, uint64_t ranks);
/* What loses its parent below this process comes to it from here on, but for the children that it
 * has: before any of those that are to be ended is started. False: no more. */
void launch_adopt(bool orphans);
/* End what has come, by SIGTERM, and from `until_ns` on (cli_now_ns(); one that is over: at once)
 * by SIGKILL. One that hangs in the kernel is waited for for 2 s. `meanwhile` takes the time
 * between two looks; NULL: nothing is done. */
void launch_end_left(uint64_t until_ns, void (*meanwhile)(void *user, int milliseconds),
                     void *user);

/* ---- Watching (launch_watch.c) --------------------------------------------------------------- */

/* Seconds of an option as nanoseconds. */
uint64_t launch_ns(double seconds);

/* The first rank that gives no sign of life in time ends the attempt. */
void launch_watch(struct launch *launch);
/* Say of a rank on `host` that it failed, and why; the first one counts. */
void launch_fail(struct launch *launch, int64_t rank, const char *host, int code, const char *why);
/* What became of a child that ended badly. */
void launch_ended(struct launch *launch, uint64_t i);

#endif
