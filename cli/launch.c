/* SPDX-License-Identifier: Apache-2.0 */
/* stoker launch: a command as several ranks, watched, and begun again when one is lost. */
#include "launch.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS 100 /* between two looks */

#define AT(member) offsetof(struct launch_options, member)

static const stk_option_table *launch_table(void)
{
    static const stk_option rows[] = {
        {"ranks", STK_OPTION_UINT, AT(ranks), "1", 1, LAUNCH_MOST, NULL, "N",
         "Processes that run the command together. Short: -n N."},
        {"launcher", STK_OPTION_ENUM, AT(launcher), "auto", 0, 0, "auto|local|mpirun|srun", NULL,
         "Who starts them. local: this command itself, on this machine, with the variables of "
         "torchrun; auto: srun within a job of Slurm, else mpirun where it is installed, else "
         "local."},
        {"max_restarts", STK_OPTION_UINT, AT(max_restarts), "0", 0, 1000000, NULL, "N",
         "Times that all ranks are begun again after one was lost."},
        {"min_ranks", STK_OPTION_UINT, AT(min_ranks), "0", 0, LAUNCH_MOST, NULL, "N",
         "Each restart has one rank less, down to so many; 0: as many as before. A training that "
         "is "
         "to go on so has a --global-batch-size."},
        {"heartbeat_timeout", STK_OPTION_DOUBLE, AT(heartbeat_timeout), "30", 0, 1e6, NULL, "S",
         "Seconds without a sign of life after which a rank counts as lost, or twice the longest "
         "silence that was none; 0: nobody looks."},
        {"heartbeat_host", STK_OPTION_STRING, AT(heartbeat_host), NULL, 0, 0, NULL, "HOST",
         "Name or address by which ranks of other machines, started by mpirun or srun, reach this "
         "one with their signs of life (UDP, a free port); else its host name."},
        {"grace", STK_OPTION_DOUBLE, AT(grace), "30", 0, 1e6, NULL, "S",
         "Seconds from the signal that asks ranks to end until they are killed."},
        {"main_port", STK_OPTION_UINT, AT(main_port), "0", 0, 65535, NULL, "PORT",
         "MASTER_PORT of local ranks; 0: one that is free."},
    };
    static const stk_option_table table = {.name = "launch",
                                           .doc = "The ranks",
                                           .struct_size = sizeof(struct launch_options),
                                           .options = rows,
                                           .count = sizeof rows / sizeof *rows};

    return &table;
}

static const struct cli_usage usage = {
    .name = "launch",
    .synopsis = "-n N [options] -- COMMAND...",
    .about =
        "Runs COMMAND as N processes that know which of them they are, and watches over them: "
        "their output has their\n"
        "number in front; a signal is passed on to all; when one ends badly, is stopped or hangs "
        "it is named, with host\n"
        "and reason, the others are stopped, and all are begun again up to --max-restarts times. "
        "A command that goes on\n"
        "from its last checkpoint, as 'stoker train ... --ckpt-path last' does, loses no more than "
        "what came after it.\n"
        "\n"
        "Loaders of stoker, and of the Python package, take their part of each batch by "
        "themselves. The exit code is\n"
        "that of the first rank that failed (128 + the signal that ended it; 1: it gave no sign of "
        "life).\n",
    .examples =
        "  stoker launch -n 2 --launcher local -- stoker bench --dataset digits: --num-batches 20 "
        "--train-step-time 0\n"
        "  stoker launch -n 2 --max-restarts 3 --min-ranks 1 --launcher local -- sh -c 'echo rank "
        "$RANK of $WORLD_SIZE'\n",
    .interrupted = "the ranks were told, and have ended",
    .tables = (const struct cli_options[]){{.own = launch_table}, {0}},
};

/* ---- Arguments ------------------------------------------------------------------------------- */

/* What stands before "--" is of this command; "-n N" is "--ranks N". `words` has room for all. */
static char **split(struct cli *cli, char **words)
{
    static char *nothing[] = {NULL};
    int end = 0;

    while (end < cli->argc && strcmp(cli->argv[end], "--") != 0)
        end++;
    char **command = end < cli->argc ? cli->argv + end + 1 : nothing;
    int n = 0;
    for (int i = 0; i < end; i++) {
        const char *word = cli->argv[i];
        const bool is_short =
            strncmp(word, "-n", 2) == 0 && strspn(word + 2, "0123456789") == strlen(word + 2);
        words[n++] = is_short ? (char *)"--ranks" : cli->argv[i];
        if (is_short && word[2])
            words[n++] = cli->argv[i] + 2;
    }
    cli->argv = words;
    cli->argc = n;
    return command;
}

/* A word in front of "--" that is no flag and no value of one begins a command. */
static bool lacks_dashes(const struct cli *cli)
{
    for (int i = 0; i < cli->argc; i++) {
        const char *word = cli->argv[i], *before = i ? cli->argv[i - 1] : "";
        if (word[0] == '-' || (before[0] == '-' && !strchr(before, '=')))
            continue;
        cli_error("'%.60s' is one argument too many: the command stands behind '--', as in 'stoker "
                  "launch -n 2 -- %.60s'",
                  word, word);
        return true;
    }
    return false;
}

static int check(struct launch *launch)
{
    const struct launch_options *o = &launch->options;

    if (!launch->command[0]) {
        cli_error("no command: it stands behind '--', as in 'stoker launch -n 2 -- stoker train "
                  "examples/mnist.yaml'");
        return CLI_USAGE;
    }
    if (o->min_ranks > o->ranks) {
        cli_error("launch.min_ranks: %" PRIu64 " is more than the %" PRIu64 " ranks", o->min_ranks,
                  o->ranks);
        return CLI_USAGE;
    }
    if (o->min_ranks && !o->max_restarts) {
        cli_error("launch.min_ranks: it has no effect without max_restarts");
        return CLI_USAGE;
    }
    if (o->heartbeat_host && o->launcher == LAUNCH_LOCAL) {
        cli_error("launch.heartbeat_host: ranks of launcher local are of this machine");
        return CLI_USAGE;
    }
    if (o->main_port && o->launcher != LAUNCH_LOCAL) {
        cli_error("launch.main_port: it is of launcher local; mpirun and srun have their own");
        return CLI_USAGE;
    }
    return CLI_GO_ON;
}

/* ---- Before ---------------------------------------------------------------------------------- */

/* A port that nobody listens at now. */
static uint64_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t port = 29500; /* torchrun's own */

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static void say(struct launch *launch, const char *text)
{
    cli_console_log(launch->cli, STK_MESSAGE_INFO, text);
}

/* Who starts them, and what of the machine each has. */
static void say_ranks(struct launch *launch)
{
    static const char *const names[] = {
        [LAUNCH_LOCAL] = "by itself", [LAUNCH_MPIRUN] = "by mpirun", [LAUNCH_SRUN] = "by srun"};
    const uint64_t n = launch->ranks;
    stk_cores cores = {.struct_size = sizeof cores};
    char text[512];

    if (launch->how == LAUNCH_SRUN) {
        snprintf(text, sizeof text, "launch: %" PRIu64 " ranks by srun", n);
        say(launch, text);
        return;
    }
    stk_context_cores(launch->cli->config_context, &cores);
    snprintf(text, sizeof text,
             "launch: %" PRIu64 " rank%s on %s, %s; %u usable core%s, %.3g for each", n,
             n == 1 ? "" : "s", launch->host, names[launch->how], cores.usable,
             cores.usable == 1 ? "" : "s", (double)cores.usable / (double)n);
    say(launch, text);
    if (n > cores.usable)
        cli_warning("%" PRIu64 " ranks share %u usable core%s: their steps take turns, and so each "
                    "takes longer",
                    n, cores.usable, cores.usable == 1 ? "" : "s");
}

/* ---- Attempts -------------------------------------------------------------------------------- */

static void attempt(struct launch *launch)
{
    launch->failed = launch->hopeless = false;
    launch->kill_ns = launch->longest_ns = 0;
    launch->port = launch->options.main_port ? launch->options.main_port : free_port();
    memset(launch->last_ns, 0, sizeof launch->last_ns);
    if (launch->heartbeat)
        stk_heartbeat_clear(launch->heartbeat);
    launch_start(launch);
    while (launch_reap(launch)) {
        launch_read(launch, TICK_MS, false);
        launch_watch(launch);
        const uint64_t now = cli_now_ns();
        if (cli_interrupted() && !launch->kill_ns)
            launch->kill_ns = now + launch_ns(launch->options.grace);
        if (launch->kill_ns && now >= launch->kill_ns) {
            launch_signal(launch, SIGKILL);
            launch->kill_ns = UINT64_MAX;
        }
    }
    launch_clear(launch);
}

static int run(struct launch *launch)
{
    char text[128];

    say_ranks(launch);
    for (;; launch->attempt++) {
        attempt(launch);
        if (cli_interrupted())
            return cli_interrupted();
        if (!launch->failed)
            return CLI_GOOD;
        if (launch->hopeless || launch->attempt == launch->options.max_restarts)
            return launch->code;
        if (launch->options.min_ranks && launch->ranks > launch->options.min_ranks)
            launch->ranks--;
        snprintf(text, sizeof text,
                 "launch: restart %" PRIu64 " of %" PRIu64 ", %" PRIu64 " rank%s",
                 launch->attempt + 1, launch->options.max_restarts, launch->ranks,
                 launch->ranks == 1 ? "" : "s");
        say(launch, text);
    }
}

static void watch_over(struct launch *launch)
{
    const char *host = launch->options.heartbeat_host;
    stk_error err;

    if (launch->options.heartbeat_timeout <= 0)
        return;
    if (stk_heartbeat_create(launch->cli->config_context, launch->ranks, &launch->heartbeat,
                             &err) != STK_OK)
        cli_warning("%s: a rank that hangs is not noticed", err.text);
    else if (launch->how != LAUNCH_LOCAL &&
             stk_heartbeat_listen(launch->heartbeat, host ? host : launch->host, &err) != STK_OK)
        cli_warning("%s: a rank of another machine that hangs is not noticed", err.text);
}

int cli_launch(struct cli *cli)
{
    static struct launch launch;
    char **words = calloc(2 * (size_t)cli->argc + 1, sizeof *words);

    launch = (struct launch){.cli = cli};
    if (!words) {
        cli_error("no memory for the arguments");
        return CLI_FAILED;
    }
    launch.command = split(cli, words);
    int code = !cli->describe && lacks_dashes(cli) ? CLI_USAGE : cli_parse(cli, &usage);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, launch_table(), 0, &launch.options);
    if (code == CLI_GO_ON)
        code = check(&launch);
    if (code == CLI_GO_ON)
        code = launch_choose(&launch);
    if (code == CLI_GO_ON) {
        launch.ranks = launch.options.ranks;
        launch.child = calloc(launch.ranks, sizeof *launch.child);
        gethostname(launch.host, sizeof launch.host - 1);
        watch_over(&launch);
        launch.beside = cli_text_stream(stderr);
        launch_forward(&launch);
        if (!launch.child || !launch.beside)
            cli_error("no memory for %" PRIu64 " ranks", launch.ranks);
        code = launch.child && launch.beside ? run(&launch) : CLI_FAILED;
        launch_forward(NULL);
    }
    if (launch.beside)
        fclose(launch.beside);
    stk_heartbeat_close(&launch.heartbeat);
    free(launch.child);
    free(words);
    return code;
}
