/* SPDX-License-Identifier: Apache-2.0 */
/* stoker COMMAND: the table of commands. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct cli_command commands[] = {
    {"bench", "measure whether a training step waits for its data, and which settings stop that",
     cli_bench},
    {"cat", "write the values of an array, or the rows of a dataset", cli_cat},
    {"chunks", "say what windows of a chunked array cost, and recommend a chunk shape", cli_chunks},
    {"completion", "print what lets bash, zsh or fish complete commands and options",
     cli_completion},
    {"convert", "write data in another form: pictures packed again, IDX files", cli_convert},
    {"info", "say what a dataset or checkpoint is; without one, list what Stoker can read",
     cli_info},
    {"launch", "run a command as several ranks, watch them, begin again when one is lost",
     cli_launch},
    {"predict", "write what a trained model says of data", cli_predict},
    {"profile", "say where the time of a few training steps goes, call by call and layer by layer",
     cli_profile},
    {"report", "read event logs: a page, a table, figures; compare runs", cli_report},
    {"test", "measure a trained model on the test data", cli_test},
    {"top", "look on at a run: rates, waits, workers, memory, progress, what limits", cli_top},
    {"train", "train a model as a YAML file says, or go on with that", cli_train},
    {"tune", "find the workers, reads and batches ahead that suit: measure, predict, verify",
     cli_tune},
    {"validate", "measure a trained model on the validation data", cli_validate},
};

#define NUM_COMMANDS (sizeof commands / sizeof *commands)

const struct cli_command *cli_commands(size_t *count)
{
    *count = NUM_COMMANDS;
    return commands;
}

static void print_help(FILE *out)
{
    fputs("Usage: stoker COMMAND [options]\n\n"
          "Stoker keeps accelerators fed: it reads training data, prepares it in worker threads, "
          "and says\n"
          "where the time goes.\n\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "  stoker COMMAND --help   options of a command, and examples\n"
          "  stoker --version        version, and what it was built with\n"
          "  stoker help --man       the manual page; with a COMMAND that of the command\n"
          "  stoker help options     the options of everything that the library makes\n\n"
          "Exit codes: 0 good, 1 failed, 2 wrong usage, 130 or 143 interrupted.\n",
          out);
}

/* 1 where the build defines `x` as 1, else 0: what comes before the comma is there in that case
 * alone. */
#define BUILT(x)                BUILT_BY(x)
#define BUILT_BY(value)         BUILT_CHOOSE(BUILT_COMMA_##value 1, 0)
#define BUILT_CHOOSE(...)       BUILT_SECOND(__VA_ARGS__, 0)
#define BUILT_COMMA_1           0,
#define BUILT_SECOND(a, b, ...) b

static void print_version(FILE *out)
{
    static const struct {
        const char *name;
        bool built;
        const char *note, *without;
    } parts[] = {
        {"io_uring", BUILT(STK_WITH_URING), "", "files are read by threads"},
        {"oneDNN", BUILT(STK_WITH_ONEDNN), "", "models compute in 64-true alone, on plain C"},
        {"libhdf5", BUILT(STK_WITH_HDF5), ", in a program of its own (stoker-hdf5)",
         "NetCDF-4 is not written"},
        {"Open MPI", BUILT(STK_WITH_OPENMPI), ", in a library of its own (libstoker_openmpi.so)",
         "no ranks train together over it"},
        {"MPICH", BUILT(STK_WITH_MPICH), ", in a library of its own (libstoker_mpich.so)",
         "no ranks train together over it"},
        {"libcurl", BUILT(STK_WITH_HTTP), "", "nothing is read or written over HTTP"},
        {"OpenSSL", BUILT(STK_WITH_OPENSSL), "", "gs takes no key of a service account"},
        {"libmicrohttpd", BUILT(STK_WITH_MICROHTTPD), "", "no live page is served"},
        {"szip", BUILT(STK_WITH_SZIP), "", "chunks of HDF5 that it compressed are not read"},
        {"zfp", BUILT(STK_WITH_ZFP), "", "chunks that it compressed are not read"},
        {"brotli", BUILT(STK_WITH_BROTLI), "", "pages of Parquet that it compressed are not read"},
    };

    fprintf(out, "stoker %s\n", stk_version());
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fprintf(out, "%s: %sbuilt in%s%s\n", parts[i].name, parts[i].built ? "" : "not ",
                parts[i].built ? parts[i].note : "; ", parts[i].built ? "" : parts[i].without);
    fputs("NCCL: not built in; libnccl.so.2 is loaded where ranks train on GPUs\n"
          "instruction sets: plain",
          out);
#ifdef STK_WITH_AVX2
    fputs(__builtin_cpu_supports("avx2") ? ", avx2"
                                         : " (avx2 is built in; this machine has it not)",
          out);
#endif
    fputc('\n', out);
}

static const struct cli_command *find_command(const char *name)
{
    if (strcmp(name, "fit") == 0) /* Lightning's word for it */
        name = "train";
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* Run a command and end what it has begun. Interrupted ones keep their output: what was measured
 * counts. */
static int run(const struct cli_command *command, int argc, char **argv, char **all)
{
    struct cli cli = {.program = "stoker", .argc = argc, .argv = argv, .all = all};

    cli_signals_install();
    cli_memory_name();
    int code = command->run(&cli);
    cli_on_interrupt(NULL, NULL);
    cli_console_clear();
    if (cli_interrupted()) {
        code = cli_interrupted();
        if (cli.usage && !cli.quiet)
            cli_warning("interrupted; %s", cli.usage->interrupted
                                               ? cli.usage->interrupted
                                               : "run it again for the whole result");
    }
    int closed = cli_output_close(&cli, code == CLI_GOOD || cli_interrupted());
    cli_release(&cli);
    return code == CLI_GOOD ? closed : code;
}

/* What is not a command. */
static int run_other(const char *name)
{
    struct cli cli = {.out = stdout};
    const char *names[NUM_COMMANDS + 2] = {"--help", "--version"};

    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        print_version(stdout);
        return cli_output_close(&cli, true);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return cli_output_close(&cli, true);
    }
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        names[i + 2] = commands[i].name;
    const char *nearest = stk_nearest_name(name, names, NUM_COMMANDS + 2);
    const char *end = strrchr(name, '.');
    if (nearest)
        cli_error("there is no command '%.60s'; did you mean '%s'?", name, nearest);
    else if (end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0))
        cli_error("there is no command '%.200s'; to train as that file says: 'stoker train %.200s'",
                  name, name);
    else if (access(name, F_OK) == 0 || (name[0] != '-' && strchr(name, ':')))
        cli_error(
            "there is no command '%.200s'; to look at data of that name: 'stoker info %.200s'",
            name, name);
    else
        cli_error("there is no command '%.60s'; 'stoker --help' lists them", name);
    return CLI_USAGE;
}

/* "stoker help bench" is what some type; "stoker help --man bench" makes its manual page. */
static int run_help(int argc, char **argv)
{
    char *help[] = {"--help", NULL};
    struct cli cli = {.out = stdout};
    bool man = argc > 2 && strcmp(argv[2], "--man") == 0;
    const char *name = argc > 2 + man ? argv[2 + man] : NULL;
    const struct cli_command *command = name ? find_command(name) : NULL;

    if (name && !man && strcmp(name, "options") == 0) {
        cli_help_options(stdout);
        return cli_output_close(&cli, true);
    }
    if (name && !command)
        return run_other(name);
    if (!man)
        return command ? run(command, 1, help, argv) : run_other("--help");
    if (command)
        cli_describe(command, cli_man, stdout);
    else
        cli_man_all(stdout);
    return cli_output_close(&cli, true);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    const struct cli_command *command = find_command(name);
    if (command)
        return run(command, argc - 2, argv + 2, argv);
    if (strcmp(name, "help") == 0)
        return run_help(argc, argv);
    return run_other(name);
}
