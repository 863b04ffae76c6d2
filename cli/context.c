/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a command, made from its options when it is first asked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "object_stores.h"

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_options(const stk_context_options *a, const stk_context_options *b)
{
    return a->io_engine == b->io_engine && a->compute_threads == b->compute_threads &&
           a->memory_limit == b->memory_limit && a->local_ranks == b->local_ranks &&
           a->memory_ranks == b->memory_ranks && a->local_number == b->local_number &&
           a->numa == b->numa && a->instructions == b->instructions &&
           same_text(a->stores, b->stores);
}

/* As many cores are kept for the step as there are. */
static void warn_of_cores(const stk_context *context, uint64_t wanted)
{
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(context, &cores);
    if (wanted > cores.compute && cores.ranks > 1)
        cli_warning("compute_threads: %" PRIu64 " in each of %u ranks are more than the %u usable "
                    "core%s: each step gets %u",
                    wanted, cores.ranks, cores.usable, cores.usable == 1 ? "" : "s", cores.compute);
    else if (wanted > cores.usable)
        cli_warning("compute_threads: %" PRIu64
                    " are more than the %u usable core%s: the step gets %u",
                    wanted, cores.usable, cores.usable == 1 ? "" : "s", cores.compute);
}

/* How the cores of the machine are divided, once for all of its ranks. */
static void say_division(const struct cli *cli)
{
    stk_cores cores = {.struct_size = sizeof cores};
    char text[320], nodes[64] = "", memory[64] = "";

    stk_context_cores(cli->context, &cores);
    if (cores.all_ranks < 2 || (cli->ranks.struct_size && cli->ranks.local_rank != 0))
        return;
    if (cores.nodes > 1)
        snprintf(nodes, sizeof nodes, ", %s %u NUMA nodes", cores.bound ? "on" : "on any of",
                 cores.nodes);
    if (cores.bound)
        snprintf(memory, sizeof memory, ", on the cores and the memory of %s",
                 cores.own_nodes == 1 ? "one node" : "nodes of its own");
    snprintf(text, sizeof text,
             "%u usable core%s for %u ranks of this machine%s: each has %u for its step and %u "
             "worker%s for its data%s",
             cores.all_usable, cores.all_usable == 1 ? "" : "s", cores.all_ranks, nodes,
             cores.compute, cores.preparation, cores.preparation == 1 ? "" : "s", memory);
    if ((cores.compute + cores.preparation) * cores.ranks > cores.usable)
        cli_warning("%s: that is more than there are, and they take turns", text);
    else
        cli_console_log((void *)cli, STK_MESSAGE_INFO, text);
}

int cli_context(struct cli *cli, uint64_t which, stk_context **out)
{
    stk_context_options options;
    stk_error err;

    *out = NULL;
    int code = cli_apply(cli, stk_option_table_find("context"), which, &options);
    if (code != CLI_GO_ON)
        return code;
    char *stores = cli_object_stores(cli_home_folder(), options.stores);
    if (!stores) {
        cli_error("no memory for the options of stores");
        return CLI_FAILED;
    }
    options.stores = stores;
    cli_ranks_share(cli, &options);
    if (cli->context && !same_options(&options, &cli->context_options)) {
        cli_live_end(cli);
        cli_heartbeat_end(cli);
        stk_context_unbind(cli->context);
        stk_context_destroy(&cli->context);
    }
    if (cli->context) {
        free(stores);
    } else {
        free(cli->stores);
        cli->stores = stores;
        cli_memory_warn();
        options.on_message = cli_console_log;
        options.on_message_user = cli;
        options.progress = cli_console_progress;
        options.progress_user = cli;
        stk_status status = stk_context_create(&options, &cli->context, &err);
        if (status == STK_OK)
            status = cli_plugins(cli, cli->context, cli->config, &err);
        if (status != STK_OK)
            return cli_fail(cli, status, &err);
        cli->context_options = options;
        stk_context_bind(cli->context);
        warn_of_cores(cli->context, options.compute_threads);
        say_division(cli);
        cli_heartbeat(cli);
    }
    *out = cli->context;
    return CLI_GO_ON;
}

stk_status cli_plugins(struct cli *cli, stk_context *context, stk_config *config, stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = 0; i < cli->num_plugins && status == STK_OK; i++)
        status = stk_plugin_load(context, cli_home(cli->plugins[i]), err);
    return status == STK_OK ? stk_plugin_load_listed(context, config, cli->allow_plugins, err)
                            : status;
}

void cli_compute_environment(struct cli *cli, uint64_t threads)
{
    /* 0: the model decides, later. */
    if (threads == 1 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || cli_interrupted())
        return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0)
        return;
    fflush(NULL);
    execv("/proc/self/exe", cli->all);
}

void cli_release(struct cli *cli)
{
    cli_live_end(cli);
    cli_heartbeat_end(cli);
    if (cli->address.struct_size)
        stk_live_unbind(&cli->address);
    stk_context_destroy(&cli->context);
    stk_config_destroy(&cli->config);
    stk_context_destroy(&cli->config_context);
    free(cli->plugins);
    free(cli->repeated);
    free(cli->log_name);
    free(cli->stores);
}

bool cli_names_dataset(const stk_context *context, const char *spec)
{
    const stk_driver_head *kind;

    for (size_t i = 0; (kind = stk_driver_at(context, STK_DRIVER_DATASET, i)); i++)
        if (strncmp(spec, kind->name, strlen(kind->name)) == 0 && spec[strlen(kind->name)] == ':')
            return true;
    return false;
}

int cli_array_fail(struct cli *cli, const stk_context *context, const char *spec, stk_status status,
                   const stk_error *err)
{
    if (strncmp(spec, "array:", 6) != 0 && cli_names_dataset(context, spec)) {
        cli_error("'%.300s' is a dataset, and this command takes an array, as the folder of a Zarr "
                  "array or an npy file; 'stoker info' and 'stoker bench' take datasets",
                  spec);
        return CLI_USAGE;
    }
    return cli_fail(cli, status, err);
}
