/* arguments -> configuration, context, output: what every command of `stoker` is built on */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_CLI_H
#define STK_CLI_CLI_H

#include <stdarg.h>
#include <stdio.h>

#include <stoker/stoker.h>

struct cli;

/*
 * To add a command: a file cli/NAME.c with `int cli_NAME(struct cli *cli)`, its declaration below,
 * and a row in the table of cli/main.c. It declares a `struct cli_usage`, calls cli_parse() first,
 * and returns an exit code:
 *
 *     int code = cli_parse(cli, &usage);
 *     if (code != CLI_GO_ON)
 *         return code;
 */
int cli_bench(struct cli *cli);
int cli_cat(struct cli *cli);
int cli_chunks(struct cli *cli);
int cli_completion(struct cli *cli);
int cli_convert(struct cli *cli);
int cli_info(struct cli *cli);
int cli_launch(struct cli *cli);
int cli_report(struct cli *cli);
int cli_predict(struct cli *cli);
int cli_profile(struct cli *cli);
int cli_test(struct cli *cli);
int cli_top(struct cli *cli);
int cli_tune(struct cli *cli);
int cli_train(struct cli *cli);
int cli_validate(struct cli *cli);

/* Exit codes. Interrupted commands end with 128 + the signal (130, 143), see cli_interrupted(). */
enum { CLI_GO_ON = -1, CLI_GOOD = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum cli_format { CLI_TABLE = 0, CLI_JSON, CLI_CSV };

#define CLI_MAX_ARGS   64 /* positional arguments */
#define CLI_MAX_TABLES 16 /* option tables of one command */

/* An option table of a command: of the library, or its own. */
struct cli_options {
    const char *name;                     /* as stk_option_table_find() knows it, as "loader" */
    const stk_option_table *(*own)(void); /* gives it; `name` is NULL */
    /* The same as the help has it, where the command takes less of it, or has defaults of its own;
     * NULL: as it is. */
    const stk_option_table *(*shown)(void);
};

/* What a command is and takes: for the parser and --help. */
struct cli_usage {
    const char *name;     /* "bench" */
    const char *synopsis; /* what follows the name: "[SETTINGS.yaml] [options]" */
    const char
        *about; /* one or more paragraphs, ended by a line end: what it does, how to read it */
    const char *examples; /* runnable lines, each indented by two spaces and ended by a line end */
    const char *interrupted; /* what to do after an interrupt; NULL: run it again */
    /* Option tables, ended by an empty one. Their names are sections of the configuration: the
     * option `num_workers` of the table `loader` is --num-workers or --loader.num-workers. A plain
     * flag is looked up in their order. */
    const struct cli_options *tables;
    const char *first;         /* words that the first argument may be, as "a|b"; NULL: anything */
    size_t min_args, max_args; /* positional arguments, YAML files not counted */
    const char *repeats; /* an option that may be given several times, all of which count; NULL:
                            none */
    bool yaml;           /* positional *.yaml, *.yml and - are configurations, like --config */
    bool logs;           /* --log is one of its flags */
    bool sweep;          /* "0,1,2" gives an option several values; YAML lists likewise */
};

/* A row of the table of commands (main.c). */
struct cli_command {
    const char *name;
    const char *summary;
    int (*run)(struct cli *cli);
};
const struct cli_command *cli_commands(size_t *count);

/* Writes about a command whose usage and tables are known. */
typedef void cli_describe_fn(const struct cli *cli, FILE *out);

struct cli {
    /* Filled by main(), before the command runs. */
    const char *program;
    int argc; /* arguments after the name of the command */
    char **argv;
    char **all;                /* every argument of the process, with its name */
    cli_describe_fn *describe; /* what cli_parse() does in place of parsing; NULL: it parses */
    /* Filled by cli_parse(). Keys are "table.option"; every value of every key has been checked. */
    stk_config *config;
    enum cli_format format;
    FILE *out;           /* standard output, or the new content of -o FILE, as text: see text.c */
    const char *log;     /* --log FILE, or NULL */
    const char *weights; /* --weights FILE, where it was a flag, or NULL */
    bool quiet;
    const char **plugins; /* of --plugin, in their order */
    size_t num_plugins;
    const char **repeated; /* values of the option that usage->repeats names, in their order */
    size_t num_repeated;
    bool allow_plugins, print_config;
    const char *args[CLI_MAX_ARGS]; /* positional arguments */
    size_t num_args;
    const char *training; /* a file that is the configuration of one; NULL: none is */
    const struct cli_usage *usage;
    /* Private. */
    const stk_option_table *tables[CLI_MAX_TABLES + 1]; /* of the command and of the context */
    const stk_option_table *shown[CLI_MAX_TABLES + 1];  /* the same, as the help has them */
    stk_context *config_context;                        /* the configuration's own */
    stk_context *context;                               /* made by cli_context() */
    stk_context_options context_options;                /* of `context` */
    stk_live *live;                                     /* of `context`, made by cli_live() */
    stk_live_address address; /* of --dashboard; struct_size 0: there is none */
    stk_live_server *server;  /* of `live` there; NULL: none */
    stk_ranks ranks;          /* from cli_ranks(); struct_size 0: nobody asked */
    stk_heartbeat *heartbeat; /* of `context`; NULL: nobody watches */
    char *log_name;           /* from train_log_name() */
    char *stores;             /* of these: from cli_object_stores() */
    uint64_t which;           /* combination that cli_apply() took last */
    const char *out_path;     /* of -o; NULL: standard output */
    FILE *out_below;          /* where cli->out writes */
    struct cli_said *said;    /* messages that were shown, by hash; NULL: they may come again */
    char *out_partial;        /* where it is written until it is complete; NULL: in place */
};

/* ---- Arguments (args.c, help.c) ----------------------------------------------------------- */

/*
 * Read the arguments into `cli`: flags and YAML files into the configuration, checked against the
 * tables. Prints the help or what is wrong. CLI_GO_ON, or the exit code to return.
 */
int cli_parse(struct cli *cli, const struct cli_usage *usage);

/* Read a configuration, "-" from standard input. (config.c) */
stk_status cli_config_load(stk_config *config, const char *path, stk_error *err);
/* Once the files are read, and no flag: with the data or the model of a training the last one is
 * its configuration, cli->training. */
void cli_find_training(struct cli *cli, const char *last);
/* Say that it is none of this command, but can be its step. CLI_USAGE. */
int cli_fail_training(const struct cli *cli);
/* Print that of the command, checked. Exit codes: CLI_GOOD, or as above. */
int cli_config_print(struct cli *cli);

/* Fill a struct from its table for combination `which`. CLI_GO_ON, or the exit code after printing
 * the error. */
int cli_apply(struct cli *cli, const stk_option_table *table, uint64_t which, void *options);

/* Print the help of a command. */
void cli_help(const struct cli *cli, FILE *out);
/* Print every option table of the library. */
void cli_help_options(FILE *out);
/* The lines of a table's --help, to be freed; NULL: no memory. */
char *cli_options_text(const stk_option_table *table);
/* Bytes of a table's doc that are its title: without the point at its end. */
size_t cli_title_length(const stk_option_table *table);
/* The flags that commands have in common, as a table. */
const stk_option_table *cli_common_table(const struct cli *cli);

/* ---- Descriptions (flags.c, man.c) ------------------------------------------------------------
 */

/* The table that one of a usage means; all of them, and the context's, become the command's. */
const stk_option_table *cli_options_find(const struct cli_options *table);
void cli_tables_list(struct cli *cli, const struct cli_usage *usage);

#define CLI_FLAG 128 /* bytes of a flag without its value, with its end */

struct cli_flag {
    const stk_option *option;
    char name[CLI_FLAG]; /* "--num-workers"; with its section where only that is understood */
    char full[CLI_FLAG]; /* "--loader.num-workers"; empty: it has no section */
};

/* Flag `i` of a command; false past the last. */
bool cli_flag_at(const struct cli *cli, size_t i, struct cli_flag *out);
/* Whether the first `length` bytes of `text` are `name`, '-' and '_' alike. */
bool cli_same_name(const char *text, size_t length, const char *name);
/* LightningCLI's name of a flag in the words of names here ("optimizer" is "optimizer.name"); any
 * other is returned. */
const char *cli_flag_name(const char *name);
/* Have a command write about itself in place of running. */
void cli_describe(const struct cli_command *command, cli_describe_fn *describe, FILE *out);
/* The manual page of a command; of the program. */
void cli_man(const struct cli *cli, FILE *out);
void cli_man_all(FILE *out);

/* ---- Paths ---------------------------------------------------------------------------------- */

/* A spec or path with the home folder in the place of a '~' that begins its path
 * ("images:~/train"). Lives as long as the command. (home.c) */
const char *cli_home(const char *text);
/* The home folder; NULL: none is known. */
const char *cli_home_folder(void);

/* ---- MLflow (tracking.c) -------------------------------------------------------------------- */

/* Option `i` of the logger mlflow that the environment may say: its value, which stays; "": it does
 * not. NULL past the last. */
const char *cli_tracking(size_t i, const char **option);
/* Give a logger mlflow of the configuration what the environment says. CLI_GO_ON, or the exit code.
 */
int cli_tracking_environment(struct cli *cli);

/* Whether a path is a file of weights or a model by its ending: no dataset has such a one. */
bool cli_is_weights(const char *path);
/* The URL of an array, or of a dataset of an array ("array:URL"). (info_array.c) */
const char *cli_array_url(const char *spec);
/* Whether a spec begins with the name of a kind of dataset. (context.c) */
bool cli_names_dataset(const stk_context *context, const char *spec);
/* An array that cannot be opened: cli_fail(), or that a dataset was named. */
int cli_array_fail(struct cli *cli, const stk_context *context, const char *spec, stk_status status,
                   const stk_error *err);
/* What is in the store for an array, if listing it takes not too long, or `all` is wanted. False:
 * it was not counted. (info_array.c) */
bool cli_array_stored(stk_array *array, bool all, stk_array_stored *out);

/* ---- Context (context.c) ------------------------------------------------------------------ */

/*
 * The context of combination `which`, made when first asked for, with log and progress sinks. A
 * later call for a combination with other context options makes a new one and destroys the old:
 * nothing of it may be in use then.
 */
int cli_context(struct cli *cli, uint64_t which, stk_context **out);
/* Load the plug-ins of the command line into a context, and those that a configuration lists. */
stk_status cli_plugins(struct cli *cli, stk_context *context, stk_config *config, stk_error *err);
/* Give up what a command has made; called by main(). */
void cli_release(struct cli *cli);

/*
 * Have the threads of the computation wait without spinning, so that workers get their cores. Their
 * library reads the environment before main(): where more than one thread computes and the user has
 * not said how they wait, the process begins again with it. Call after cli_parse(), before a
 * context is made. (context.c)
 */
void cli_compute_environment(struct cli *cli, uint64_t threads);

/* ---- Looking on (live.c) --------------------------------------------------------------------- */

/* The option --dashboard. */
const stk_option_table *cli_live_table(void);
/* Listen where it says, and tell where that is. CLI_GO_ON, or the exit code after printing the
 * error. Call after cli_parse(); children serve what their parent has bound. */
int cli_live_bind(struct cli *cli);
/* Let others look on at what happens in the command's context, `what` of which is done by this of
 * so many ranks; at that address, too, where it is the first. CLI_GO_ON; else there is no page that
 * was asked for, and it was said. */
int cli_live(struct cli *cli, const char *what, uint64_t rank, uint64_t ranks);
/* Before the context is destroyed; called by cli_release() as well. */
void cli_live_end(struct cli *cli);

/* ---- Several processes (ranks.c) ---------------------------------------------------------------
 */

/* Find which of several processes this is, and say it in a line: cli->ranks. Call after
 * cli_parse(), before a context is made. CLI_GO_ON, or the exit code after printing the error. */
int cli_ranks(struct cli *cli);
/* Whether the loader's place among several was given. */
bool cli_ranks_given(const struct cli *cli);
/* Where they are not given, the processes like this one that share its cores and its memory, and
 * which of them it is, as far as it is known. */
void cli_ranks_share(const struct cli *cli, stk_context_options *options);
/* The transport of collectives for the MPI whose mpirun has started this process; NULL: none has.
 */
const char *cli_ranks_transport(void);
/* Give signs of life to whoever launched this process and watches; called by cli_context(). */
void cli_heartbeat(struct cli *cli);
/* Before the context is destroyed; called by cli_release() as well. */
void cli_heartbeat_end(struct cli *cli);

/* ---- Slurm (requeue.c) ----------------------------------------------------------------------- */

/* Take SIGUSR1 as a wish to save and end, within a job of Slurm. After cli_ranks(). */
void cli_requeue_watch(const struct cli *cli);
/* After the end: where that signal came, put the job in the queue again. The exit code. */
int cli_requeue(struct cli *cli, int code);

/* ---- Foreign text (text.c) ------------------------------------------------------------------- */

/* Whether a text, such as a path, ends so, and is not that alone. */
bool cli_ends_with(const char *text, const char *end);
/* Replace each character of a line that steers a terminal, and what is no UTF-8, by '?'. The new
 * length, which is no greater. */
size_t cli_text_clean(char *text);
/* A stream that does so, but for line ends and tabs, with all that is written to `to` through it.
 * Closing it leaves `to` open. NULL: no memory. */
FILE *cli_text_stream(FILE *to);
/* Where such a stream writes; any other is its own. */
FILE *cli_text_below(FILE *stream);
/* Bytes of the character at `text` and its number; 0: it is no UTF-8. */
size_t cli_text_character(const char *text, uint32_t *out);
/* Whether a character steers a terminal or the direction of what follows. */
bool cli_text_steers(uint32_t character);
/* Columns of a terminal that a text takes: none of a mark that joins the character before, two of a
 * wide one [wcwidth(3)], one of what is shown as '?'. One thread. */
size_t cli_text_width(const char *text);

enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_RED, CLI_YELLOW };
/* Whether a stream is a terminal that shows styles, and the user has not set NO_COLOR
 * [no-color.org]. */
bool cli_coloured(FILE *stream);
/* What begins a style on a terminal. */
const char *cli_style_code(enum cli_style style);
/* Write what follows in a style, up to CLI_PLAIN; nothing where the stream is not coloured. */
void cli_style(FILE *out, enum cli_style style);

/* ---- Output (output.c) -------------------------------------------------------------------- */

/* Text as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void cli_json_string(FILE *out, const char *text);
/* Text as text of a page, or of an attribute in quotes. What is no UTF-8 or steers becomes U+FFFD.
 */
void cli_html_string(FILE *out, const char *text);
/* A number as JSON: null where it is not finite. */
void cli_json_number(FILE *out, double value);
/* Member of an object that is not its first; a text of NULL is null. */
void cli_json_member_text(FILE *out, const char *name, const char *text);
void cli_json_member_number(FILE *out, const char *name, double value);
/* The value of an option. */
void cli_json_option(FILE *out, const stk_option *option, const void *options);
/* Text as one CSV value (RFC 4180): quoted where it must be. */
void cli_csv_string(FILE *out, const char *text);
/* Open what -o names and set cli->out; called by cli_parse(). */
int cli_output_open(struct cli *cli);
/* The same for bytes that are no text. */
FILE *cli_output_raw(struct cli *cli);
/* Flush, and put -o FILE in its place where `keep`; else leave the old one. Called by main(). Exit
 * code. */
int cli_output_close(struct cli *cli, bool keep);
/* Remove a file that this command began and cannot complete, or a folder that it made and that is
 * empty. Commands remove nothing else. */
bool cli_remove_partial(const char *path);
void cli_remove_folder(const char *path);

/* ---- Console (console.c) ------------------------------------------------------------------ */

/* The sinks of a context, writing to standard error. `user` is the struct cli. Any thread. */
void cli_console_log(void *user, stk_message_level level, const char *message);
/* What an option asked for, and nothing else tells: also with -q. */
void cli_console_answer(const struct cli *cli, const char *message);
void cli_console_progress(void *user, const char *what, uint64_t done, uint64_t total);
/* From here on show equal messages of contexts once, in this process and those that it forks. */
void cli_console_once(struct cli *cli);
/* Remove the progress bar, before writing to the terminal. */
void cli_console_clear(void);
/* A line as it is, without the name of the program in front. */
void cli_console_line(const char *text);
/* A bar of somebody else's making in the place of the progress; NULL takes it away. */
void cli_console_bar(const char *text);
/* Whether a bar can be shown, and how wide. */
bool cli_console_terminal(void);
int cli_console_width(void);
/* Print "stoker: error: TEXT" / "stoker: warning: TEXT". */
void cli_error(const char *format, ...) STK_PRINTF(1, 2);
void cli_warning(const char *format, ...) STK_PRINTF(1, 2);
/* Whether a failure says that the command was used wrongly: an argument or option is at fault. */
bool cli_is_usage(stk_status status, const stk_error *err);
/* Print the failure of a library call and return the exit code for it: usage, failed, or
 * interrupted. With --format json one that failed is the result, too, for programs. */
int cli_fail(struct cli *cli, stk_status status, const stk_error *err);
/* The text of a progress bar `width` columns wide; pure. `rate` in items a second, 0: unknown. */
void cli_progress_line(char *text, size_t size, int width, const char *what, uint64_t done,
                       uint64_t total, double rate);

/* ---- Little memory (memory.c) -------------------------------------------------------------- */

/* Say once that the process may have little address space, before libraries end it for that. */
void cli_memory_warn(void);
/* What a C++ library throws, and nothing catches, ends the command in words and with CLI_FAILED. */
void cli_memory_name(void);

/* CLOCK_MONOTONIC in ns (console.c). */
uint64_t cli_now_ns(void);

/* ---- Signals (signals.c) ------------------------------------------------------------------ */

/* Catch SIGINT and SIGTERM: the first runs the callback, the second ends the process at once. */
void cli_signals_install(void);
/*
 * What to do at the first signal: an async-signal-safe call such as stk_loader_cancel(user). NULL:
 * nothing but cli_interrupted(). When a signal came before, it runs at once. Set it to NULL before
 * `user` goes away.
 */
void cli_on_interrupt(void (*run)(void *user), void *user);
/* What a second signal does before it ends the process: async-signal-safe. NULL: nothing. */
void cli_on_exit_at_once(void (*run)(void));
/* Take signals on a thread of their own, too: the thread that computes holds them during a pass
 * over a model. Call once it is certain that the process goes on. */
void cli_signals_watch(void);
/* Take another signal as those two. */
void cli_signals_take(int signal_number);
/* What a signal asked for was done: the command is not interrupted. */
void cli_signals_forget(void);
/* What reads the output may go away: then writing fails, and the command goes on to its end. For
 * commands whose work is not their output. */
void cli_signals_ignore_pipe(void);
/* 0, or the exit code of an interrupted command (130, 143). */
int cli_interrupted(void);
/* The same for calls that ask whether to go on. */
bool cli_is_interrupted(void *unused);

#endif
