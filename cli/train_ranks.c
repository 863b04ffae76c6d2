/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of one training: which MPI carries their sums, and whether there is one. */
#include "launch.h"
#include "train.h"

#include <stdlib.h>
#include <string.h>

static bool wants_nccl(const struct cli *cli)
{
    const char *transport = stk_config_get(cli->config, "collectives.transport", 0);

    return transport && strcmp(transport, "nccl") == 0;
}

static bool is_on_cpu(const struct cli *cli)
{
    const char *accelerator = stk_config_get(cli->config, "trainer.accelerator", 0);

    return !accelerator || strcmp(accelerator, "auto") == 0 || strcmp(accelerator, "cpu") == 0;
}

/* Words from `argv` on that say --transport nccl. */
static int transport_words(char **argv)
{
    static const char *const flags[] = {"--transport", "--collectives.transport"};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const size_t length = strlen(flags[i]);
        if (strncmp(argv[0], flags[i], length) == 0 && strcmp(argv[0] + length, "=nccl") == 0)
            return 1;
        if (strcmp(argv[0], flags[i]) == 0 && argv[1] && strcmp(argv[1], "nccl") == 0)
            return 2;
    }
    return 0;
}

/* Whether this is a rank of `stoker launch`, which has no name of its own for the library. */
static bool launched(void)
{
    return getenv("STOKER_HEARTBEAT") != NULL;
}

/* "mpirun -n 2 stoker train CONFIG --strategy ddp": the line of this run that works. */
static void say_line(const struct cli *cli, uint64_t ranks, char *text, size_t size)
{
    size_t used =
        (size_t)snprintf(text, size,
                         launched() && launch_mpirun_find() ? "stoker launch -n %llu -- stoker %s"
                                                            : "mpirun -n %llu stoker %s",
                         (unsigned long long)(ranks > 1 ? ranks : 2), cli->usage->name);
    const bool leaves_out = wants_nccl(cli) && is_on_cpu(cli);
    bool left_out = false;

    for (int i = 0; i < cli->argc && used < size; i++) {
        const int words = leaves_out ? transport_words(cli->argv + i) : 0;
        left_out |= words > 0;
        i += words ? words - 1 : 0;
        if (!words)
            used +=
                (size_t)snprintf(text + used, size - used,
                                 strpbrk(cli->argv[i], " '(*?;&") ? " '%s'" : " %s", cli->argv[i]);
    }
    if (leaves_out && !left_out && used < size) /* the configuration says it */
        used += (size_t)snprintf(text + used, size - used, " --collectives.transport auto");
    if (used >= size)
        snprintf(text + size - 4, 4, "...");
}

static int refuse(const struct cli *cli, const char *strategy)
{
    const stk_ranks *r = &cli->ranks;
    char line[400];

    say_line(cli, r->world_size, line, sizeof line);
    if (wants_nccl(cli) && is_on_cpu(cli))
        cli_error("collectives.transport: nccl carries gradients between GPUs, and this trains on "
                  "the processor, whose gradients MPI carries. What works: %s",
                  line);
    else if (r->world_size > 1)
        cli_error("trainer.strategy: %llu ranks of %s have nothing that carries their gradients: "
                  "on CPUs that is MPI%s. What works: %s",
                  (unsigned long long)r->world_size,
                  launched() ? "stoker launch --launcher local" : stk_launcher_name(r->launcher),
                  is_on_cpu(cli) ? "" : ", and NCCL between GPUs is begun by one", line);
    else
        cli_error("trainer.strategy: %s trains in several processes, and this is one by itself. "
                  "What works: %s",
                  strategy, line);
    return CLI_USAGE;
}

/* How ranks speak, where there are none. */
static int refuse_options(const struct cli *cli)
{
    const stk_option_table *table = stk_option_table_find("collectives");
    char key[128];

    for (size_t i = 0; i < table->count; i++) {
        snprintf(key, sizeof key, "collectives.%s", table->options[i].name);
        if (!stk_config_count(cli->config, key))
            continue;
        cli_error("%s: it has no effect on one process; give --strategy ddp, under mpirun", key);
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

/* An mpirun of another MPI starts processes each of which is alone. */
static int check_place(const struct cli *cli, const stk_collectives *collectives)
{
    const stk_strategy *s = stk_collectives_strategy(collectives);

    if (s->world_size == cli->ranks.world_size && s->rank == cli->ranks.rank)
        return CLI_GO_ON;
    cli_error("%s says that this is rank %llu of %llu, and %s that it is %llu of %llu: the mpirun "
              "is not of that MPI, or collectives.transport names another",
              s->name, (unsigned long long)s->rank, (unsigned long long)s->world_size,
              cli->ranks.variable, (unsigned long long)cli->ranks.rank,
              (unsigned long long)cli->ranks.world_size);
    return CLI_FAILED;
}

static int join(struct cli *cli, stk_context *context, stk_collectives **out)
{
    stk_collectives_options o;
    stk_error err;

    int code = cli_apply(cli, stk_option_table_find("collectives"), 0, &o);
    if (code != CLI_GO_ON)
        return code;
    const bool nccl = strcmp(o.transport, "nccl") == 0;
    if (nccl || strcmp(o.transport, "auto") == 0)
        o.transport = cli_ranks_transport();
    if (nccl && strcmp(o.nccl, "auto") == 0)
        o.nccl = "always";
    stk_status status = stk_collectives_open(context, &o, out, &err);
    return status == STK_OK ? check_place(cli, *out) : cli_fail(cli, status, &err);
}

/* Strategies that want other processes. Of a name that there is not, the trainer says what there
 * is. */
static bool wants_ranks(const char *strategy)
{
    return strcmp(strategy, "ddp") == 0 || strncmp(strategy, "zero_", 5) == 0 ||
           strcmp(strategy, "fsdp") == 0;
}

int train_ranks(struct cli *cli, stk_context *context, stk_collectives **out)
{
    const char *strategy = stk_config_get(cli->config, "trainer.strategy", 0);
    const char *transport = stk_config_get(cli->config, "collectives.transport", 0);
    char text[160];

    *out = NULL;
    strategy = strategy ? strategy : "auto";
    if (cli->ranks.world_size == 1 && !wants_ranks(strategy))
        return refuse_options(cli);
    const bool finds = !transport || strcmp(transport, "auto") == 0 || wants_nccl(cli);
    if ((finds && !cli_ranks_transport()) || (wants_nccl(cli) && is_on_cpu(cli)))
        return refuse(cli, strategy);
    int code = join(cli, context, out);
    if (code != CLI_GO_ON || cli->ranks.rank)
        return code;
    snprintf(text, sizeof text, "strategy %s: %llu ranks over %s",
             strcmp(strategy, "auto") == 0 ? "ddp" : strategy,
             (unsigned long long)cli->ranks.world_size, stk_collectives_name(*out));
    cli_console_log(cli, STK_MESSAGE_INFO, text);
    return CLI_GO_ON;
}

bool train_speaks(const struct cli *cli)
{
    return cli->ranks.rank == 0;
}

const char *train_log_name(struct cli *cli, const char *log)
{
    const char *slash = strrchr(log, '/'), *dot = strrchr(log, '.');
    const size_t size = strlen(log) + 32;

    if (cli->ranks.rank == 0)
        return log;
    if (!dot || dot == log || (slash && dot <= slash + 1))
        dot = log + strlen(log);
    free(cli->log_name);
    cli->log_name = malloc(size);
    if (cli->log_name)
        snprintf(cli->log_name, size, "%.*s.rank%llu%s", (int)(dot - log), log,
                 (unsigned long long)cli->ranks.rank, dot);
    return cli->log_name;
}
