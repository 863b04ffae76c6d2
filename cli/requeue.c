/* SPDX-License-Identifier: Apache-2.0 */
/* A job of Slurm whose time is over: SIGUSR1 has a training save and end, and the job begins again.
 */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void cli_requeue_watch(const struct cli *cli)
{
    /* Elsewhere the signal is the user's own. */
    if (*cli->ranks.job_id && getenv("SLURM_JOB_ID"))
        cli_signals_take(SIGUSR1);
}

/* Exit code of `scontrol requeue JOB`; below 0: errno of its start. */
static int requeue(const char *job)
{
    char *argv[] = {(char *)"scontrol", (char *)"requeue", (char *)job, NULL};
    pid_t pid;
    int how;

    const int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (error)
        return -error;
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

int cli_requeue(struct cli *cli, int code)
{
    const char *job = cli->ranks.job_id;
    char text[256];

    if (cli_interrupted() != 128 + SIGUSR1)
        return code;
    /* What it asked for was done; all ranks come here, and one speaks. */
    cli_signals_forget();
    if (code != CLI_GOOD && code != 128 + SIGUSR1)
        return code;
    if (cli->ranks.rank != 0)
        return CLI_GOOD;
    const int answer = requeue(job);
    if (answer) {
        cli_error("job %s was not put in the queue again: %s", job,
                  answer < 0 ? strerror(-answer) : "scontrol says why above");
        return CLI_FAILED;
    }
    snprintf(text, sizeof text,
             "job %s was put in the queue again; it goes on with --ckpt-path last", job);
    cli_console_log(cli, STK_MESSAGE_INFO, text);
    return CLI_GOOD;
}
