/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a command, made from its options when it is first asked for. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define AT(member) offsetof(struct cli_context_options, member)

const stk_option_table *cli_context_table(void)
{
    static const stk_option rows[] = {
        {"compute_threads", STK_OPTION_UINT, AT(compute_threads), "0", 0, 65536, NULL, NULL,
         "Cores kept for the training step; 0: one."},
        {"memory_limit", STK_OPTION_SIZE, AT(memory_limit), "0", 0, 0, NULL, NULL,
         "Memory the process may use; 0: what the machine and its control group allow."},
        {"io_engine", STK_OPTION_ENUM, AT(io_engine), "auto", 0, 0, "auto|uring|threads", NULL,
         "How files are read: io_uring or threads; auto: io_uring where it works."},
        {"instructions", STK_OPTION_ENUM, AT(instructions), "all", 0, 0, "all|plain", NULL,
         "Instruction sets used: all this machine has, or plain C only. The results are the same."},
    };
    static const stk_option_table table = {"context", "The process",
                                           sizeof(struct cli_context_options), rows,
                                           sizeof rows / sizeof *rows};

    return &table;
}

static bool same_options(const struct cli_context_options *a, const struct cli_context_options *b)
{
    return a->io_engine == b->io_engine && a->compute_threads == b->compute_threads &&
           a->memory_limit == b->memory_limit && a->instructions == b->instructions;
}

int cli_context(struct cli *cli, uint64_t which, stk_context **out)
{
    struct cli_context_options chosen;
    stk_context_options options;
    stk_error err;

    *out = NULL;
    int code = cli_apply(cli, cli_context_table(), which, &chosen);
    if (code != CLI_GO_ON)
        return code;
    if (cli->context && !same_options(&chosen, &cli->context_options))
        stk_context_destroy(&cli->context);
    if (!cli->context) {
        cli_memory_warn();
        stk_context_options_init(&options);
        options.compute_threads = (uint32_t)chosen.compute_threads;
        options.memory_limit = chosen.memory_limit;
        options.io_engine = (stk_io_engine)chosen.io_engine;
        options.cpu_mask = chosen.instructions ? 0 : STK_CPU_ALL;
        options.log = cli_console_log;
        options.log_user = cli;
        options.progress = cli_console_progress;
        options.progress_user = cli;
        stk_status status = stk_context_create(&options, &cli->context, &err);
        if (status != STK_OK)
            return cli_fail(cli, status, &err);
        cli->context_options = chosen;
    }
    *out = cli->context;
    return CLI_GO_ON;
}

void cli_compute_environment(struct cli *cli, uint64_t threads)
{
    if (threads < 2 || getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || cli_interrupted())
        return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0)
        return;
    fflush(NULL);
    execv("/proc/self/exe", cli->all);
}

void cli_release(struct cli *cli)
{
    stk_context_destroy(&cli->context);
    stk_config_destroy(&cli->config);
    stk_context_destroy(&cli->config_context);
}

int cli_array_fail(struct cli *cli, const stk_context *context, const char *spec, stk_status status,
                   const stk_error *err)
{
    const stk_dataset_ops *kind;

    for (size_t i = 0; (kind = stk_dataset_kind(context, i)); i++) {
        const size_t n = strlen(kind->name);
        if (strncmp(spec, kind->name, n) != 0 || spec[n] != ':' || strcmp(kind->name, "array") == 0)
            continue;
        cli_error("'%.300s' is a dataset, and this command takes an array, as the folder of a Zarr "
                  "array or an npy file; 'stoker info' and 'stoker bench' take datasets",
                  spec);
        return CLI_USAGE;
    }
    return cli_fail(cli, status, err);
}
