/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun and srun: whether they are there, and how they are called. */
#include "launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A word of a command line. */
struct word {
    const char *text;
    bool wanted;
};

static bool open_mpi; /* mpirun is Open MPI's */

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

/* mpirun would begin a command that is not there, and end in words of its own, once for each
 * restart. */
static int check_command(const char *command)
{
    const bool is_path = strchr(command, '/') != NULL;

    if (is_path ? access(command, X_OK) == 0 : has_program(command))
        return CLI_GO_ON;
    if (is_path && access(command, F_OK) == 0) {
        cli_error("launch: '%s' is no program that may be run", command);
        return 126;
    }
    cli_error("launch: '%s' is %s", command,
              is_path ? "not there" : "not in the PATH; give the path of the program");
    return 127;
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
    if (launch->how == LAUNCH_MPIRUN && !launch_mpirun_find())
        return refuse("mpirun", "is not in the PATH");
    return launch->how == LAUNCH_MPIRUN ? check_command(launch->command[0]) : CLI_GO_ON;
}

/* The words that are wanted of a list. */
static size_t take_words(const struct word *all, size_t count, const char **words, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (all[i].wanted && n < room)
            words[n++] = all[i].text;
    return n;
}

static const char *as_number(uint64_t value)
{
    static char number[24];

    snprintf(number, sizeof number, "%" PRIu64, value);
    return number;
}

bool launch_mpirun_find(void)
{
    if (!has_program("mpirun"))
        return false;
    open_mpi = is_open_mpi();
    return true;
}

/* [mpirun(1) of Open MPI 4.1; MPICH's ends by SIGUSR2] */
bool launch_mpirun_passes(int signal)
{
    return signal == SIGUSR1 || (signal == SIGUSR2 && open_mpi);
}

size_t launch_mpirun_words(uint64_t ranks, bool label, const char *variable, const char **words,
                           size_t room)
{
    const struct word all[] = {
        {"mpirun", true},
        {"--allow-run-as-root", open_mpi && geteuid() == 0},
        /* Cores are divided by the ranks themselves, which see those of all. */
        {"--oversubscribe", open_mpi},
        {"--bind-to", open_mpi},
        {"none", open_mpi},
        {"--tag-output", open_mpi && label},
        {"-prepend-rank", !open_mpi && label},
        {"-x", open_mpi && variable}, /* MPICH passes on all of them */
        {variable, open_mpi && variable},
        {"-n", true},
        {as_number(ranks), true},
    };

    return take_words(all, sizeof all / sizeof *all, words, room);
}

size_t launch_words(const struct launch *launch, const char **words, size_t room)
{
    const struct word all[] = {
        {"srun", true},
        {"--label", true},
        /* One that ends badly ends the step. */
        {"--kill-on-bad-exit=1", true},
        {"-n", true},
        {as_number(launch->ranks), true},
    };

    if (launch->how == LAUNCH_MPIRUN)
        return launch_mpirun_words(launch->ranks, true,
                                   launch->heartbeat ? "STOKER_HEARTBEAT" : NULL, words, room);
    return launch->how == LAUNCH_SRUN ? take_words(all, sizeof all / sizeof *all, words, room) : 0;
}
