/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun and srun: whether they are there, and how they are called. */
#include "launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the search path has a program. */
static bool has_program(const char *name)
{
    const char *path = getenv("PATH");
    char file[4096];

    for (size_t length; path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)length, path, name);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}

/* Open MPI and MPICH take other flags. */
static bool is_open_mpi(void)
{
    char line[256] = "";
    FILE *said = popen("mpirun --version 2>/dev/null", "r");

    if (!said)
        return false;
    if (!fgets(line, sizeof line, said))
        line[0] = 0;
    while (fgetc(said) != EOF)
        continue;
    pclose(said);
    return strstr(line, "Open MPI") || strstr(line, "OpenRTE") || strstr(line, "PRTE");
}

static int refuse(const char *program, const char *why)
{
    cli_error("launch.launcher: %s %s; --launcher local starts the ranks without it", program, why);
    return CLI_FAILED;
}

int launch_choose(struct launch *launch)
{
    const bool slurm = getenv("SLURM_JOB_ID") != NULL;

    launch->how = (enum launch_how)launch->options.launcher;
    if (launch->how == LAUNCH_AUTO)
        launch->how = slurm && has_program("srun") ? LAUNCH_SRUN
                      : has_program("mpirun")      ? LAUNCH_MPIRUN
                                                   : LAUNCH_LOCAL;
    if (launch->how == LAUNCH_SRUN && !has_program("srun"))
        return refuse("srun", "is not in the PATH");
    if (launch->how == LAUNCH_SRUN && !slurm)
        return refuse("srun", "starts tasks within a job of Slurm, and this is none");
    if (launch->how == LAUNCH_MPIRUN && !has_program("mpirun"))
        return refuse("mpirun", "is not in the PATH");
    if (launch->how == LAUNCH_MPIRUN)
        launch->open_mpi = is_open_mpi();
    return CLI_GO_ON;
}

size_t launch_words(const struct launch *launch, const char **words, size_t room)
{
    static char number[24];
    const bool root = geteuid() == 0;
    size_t n = 0;
    const struct {
        enum launch_how how;
        const char *word;
        bool wanted;
    } all[] = {
        {LAUNCH_MPIRUN, "mpirun", true},
        {LAUNCH_MPIRUN, "--allow-run-as-root", launch->open_mpi && root},
        /* Cores are divided by the ranks themselves, which see those of all. */
        {LAUNCH_MPIRUN, "--oversubscribe", launch->open_mpi},
        {LAUNCH_MPIRUN, "--bind-to", launch->open_mpi},
        {LAUNCH_MPIRUN, "none", launch->open_mpi},
        {LAUNCH_MPIRUN, "--tag-output", launch->open_mpi},
        {LAUNCH_MPIRUN, "-prepend-rank", !launch->open_mpi},
        {LAUNCH_SRUN, "srun", true},
        {LAUNCH_SRUN, "--label", true},
        /* One that ends badly ends the step. */
        {LAUNCH_SRUN, "--kill-on-bad-exit=1", true},
        {launch->how, "-n", launch->how != LAUNCH_LOCAL},
        {launch->how, number, launch->how != LAUNCH_LOCAL},
    };

    snprintf(number, sizeof number, "%" PRIu64, launch->ranks);
    for (size_t i = 0; i < sizeof all / sizeof *all && n < room; i++)
        if (all[i].how == launch->how && all[i].wanted)
            words[n++] = all[i].word;
    return n;
}
