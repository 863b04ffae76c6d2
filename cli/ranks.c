/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several processes this is: the environment of the launchers, for commands. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *look(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

int cli_ranks(struct cli *cli)
{
    char text[300] = "stoker: ";
    stk_error err;

    if (cli->ranks.struct_size)
        return CLI_GO_ON;
    cli->ranks.struct_size = sizeof cli->ranks;
    const stk_status status = stk_ranks_detect(NULL, look, NULL, &cli->ranks, &err);
    if (status != STK_OK) {
        cli->ranks.struct_size = 0;
        return cli_fail(cli, status, &err);
    }
    if (*cli->ranks.remark)
        cli_warning("%s", cli->ranks.remark);
    if (cli->ranks.launcher != STK_LAUNCHER_NONE && !cli->quiet) {
        const size_t used = strlen(text);
        stk_ranks_summary(&cli->ranks, text + used, sizeof text - used);
        cli_console_line(text);
    }
    return CLI_GO_ON;
}

bool cli_ranks_given(const struct cli *cli)
{
    return stk_config_count(cli->config, "loader.rank") ||
           stk_config_count(cli->config, "loader.world_size");
}

void cli_ranks_share(const struct cli *cli, stk_context_options *options)
{
    if (options->local_ranks || !cli->ranks.struct_size)
        return;
    options->local_ranks = stk_ranks_sharing(&cli->ranks);
    options->memory_ranks = stk_ranks_sharing_memory(&cli->ranks);
    if (options->local_ranks > 1)
        options->local_number = cli->ranks.local_rank + 1;
}

/* What each MPI tells the processes that its mpirun starts. */
static const struct {
    const char *variable, *transport;
} told[] = {{"OMPI_COMM_WORLD_SIZE", "openmpi"},
            {"PMI_SIZE", "mpich"},
            {"PMIX_RANK", "openmpi"},
            {"PMI_RANK", "mpich"}};

const char *cli_ranks_transport(void)
{
    const char *value;

    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if ((value = getenv(told[i].variable)) && *value)
            return told[i].transport;
    return NULL;
}

void cli_heartbeat(struct cli *cli)
{
    const char *path = getenv("STOKER_HEARTBEAT");
    stk_error err;

    if (cli->heartbeat || !cli->ranks.struct_size || !path || !*path)
        return;
    if (stk_heartbeat_open(cli->context, path, cli->ranks.rank, &cli->heartbeat, &err) != STK_OK)
        cli_warning("STOKER_HEARTBEAT: %s; the launcher does not notice when this rank hangs",
                    err.text);
}

void cli_heartbeat_end(struct cli *cli)
{
    stk_heartbeat_close(&cli->heartbeat);
}
