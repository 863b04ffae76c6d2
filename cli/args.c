/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments -> configuration. Every flag is an option of a table; files come first, flags replace
 * them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* One flag as given: an option, the key it sets, and its text. */
struct flag {
    const stk_option_table *table;
    const stk_option *option;
    const char *text;
};

/* What is read from the arguments before anything is done with it. */
struct parser {
    struct cli *cli;
    struct flag *flags; /* room for one for each argument */
    size_t num_flags;
    const char **files; /* configurations, in their order; likewise */
    size_t num_files;
    int next;                /* argument to be looked at */
    const stk_option *alone; /* the choice whose flag, without a value, was just read; or NULL */
};

/* The flags of every command. */
struct common {
    uint32_t struct_size;
    int32_t format;
    const char *output, *log, *config, *plugin;
    bool quiet, help, allow_plugins, print_config;
};

static const stk_option common_rows[] = {
    {"format", STK_OPTION_ENUM, offsetof(struct common, format), "table", 0, 0, "table|json|csv",
     NULL, "What the result looks like."},
    {"output", STK_OPTION_STRING, offsetof(struct common, output), NULL, 0, 0, NULL, "FILE",
     "Write the result to FILE, which is replaced when it is complete. Short: -o FILE."},
    {"quiet", STK_OPTION_BOOL, offsetof(struct common, quiet), NULL, 0, 0, NULL, NULL,
     "No progress and no remarks; warnings and errors stay. Short: -q."},
    {"config", STK_OPTION_STRING, offsetof(struct common, config), NULL, 0, 0, NULL, "FILE",
     "Read options from a YAML file (-: standard input); flags win over it, and a later file over "
     "an earlier one."},
    {"plugin", STK_OPTION_STRING, offsetof(struct common, plugin), NULL, 0, 0, NULL, "FILE",
     "Load a plug-in, a shared object whose datasets, stores, transforms, callbacks, ... are then "
     "found by name. It is code that runs with your rights. May be given several times."},
    {"allow_plugins", STK_OPTION_BOOL, offsetof(struct common, allow_plugins), NULL, 0, 0, NULL,
     NULL, "Load the plug-ins, too, that configuration files list under `plugins`."},
    {"help", STK_OPTION_BOOL, offsetof(struct common, help), NULL, 0, 0, NULL, NULL,
     "Print this text. Short: -h."},
    /* Last: of commands that read configurations, and of those of them that write events. */
    {"print_config", STK_OPTION_BOOL, offsetof(struct common, print_config), NULL, 0, 0, NULL, NULL,
     "Print the configuration, files and flags together, as YAML, and do nothing else."},
    {"log", STK_OPTION_STRING, offsetof(struct common, log), NULL, 0, 0, NULL, "FILE",
     "Append every event to FILE, as JSON lines."},
};

const stk_option_table *cli_common_table(const struct cli *cli)
{
    enum { ALL = sizeof common_rows / sizeof *common_rows };
    static const stk_option_table with_log = {"", "Common options", sizeof(struct common),
                                              common_rows, ALL},
                                  with_config = {"", "Common options", sizeof(struct common),
                                                 common_rows, ALL - 1},
                                  without = {"", "Common options", sizeof(struct common),
                                             common_rows, ALL - 2};

    return cli->usage->logs ? &with_log : cli->usage->yaml ? &with_config : &without;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static const stk_option_table *find_table(const struct cli *cli, const char *name, size_t length)
{
    for (size_t i = 0; cli->tables[i]; i++)
        if (length && cli_same_name(name, length, cli->tables[i]->name))
            return cli->tables[i];
    return NULL;
}

/* A text that is "false" unless given: yes, no or a number ("fast_dev_run"). */
static bool is_text_switch(const stk_option *option)
{
    return option->type == STK_OPTION_STRING && option->initial &&
           strcmp(option->initial, "false") == 0;
}

/* What may come without a value: a bool, and a choice that begins with "none" or "false" and so
 * takes yes and no. */
static bool is_switch(const stk_option *option)
{
    return option->type == STK_OPTION_BOOL || is_text_switch(option) ||
           (option->type == STK_OPTION_ENUM && (strncmp(option->choices, "none|", 5) == 0 ||
                                                strncmp(option->choices, "false|", 6) == 0));
}

/* The option that "num-workers" or "loader.num-workers" names. */
static bool find_flag(const struct cli *cli, const char *name, struct flag *out)
{
    name = cli_flag_name(name);
    const char *dot = strrchr(name, '.');

    if (dot) {
        out->table = find_table(cli, name, (size_t)(dot - name));
        out->option = out->table ? stk_options_find(out->table, dot + 1) : NULL;
        return out->option != NULL;
    }
    out->table = cli_common_table(cli);
    out->option = stk_options_find(out->table, name);
    for (size_t i = 0; cli->tables[i] && !out->option; i++) {
        out->table = cli->tables[i];
        out->option = stk_options_find(out->table, name);
    }
    return out->option != NULL;
}

static int fail_usage(const struct cli *cli, const char *text)
{
    cli_error("%s ('stoker %s --help' lists all options)", text, cli->usage->name);
    return CLI_USAGE;
}

/* Names of flags, each in a slot of its own. */
struct flag_names {
    char (*texts)[CLI_FLAG];
    const char **names;
    size_t count;
};

/* "--num-workers", or "--loader.num-workers" with its section. */
static void add_name(struct flag_names *names, const char *section, const char *name)
{
    char *text = names->texts[names->count];

    snprintf(text, CLI_FLAG, "--%s%s%s", section, *section ? "." : "", name);
    for (char *p = text; *p; p++)
        if (*p == '_')
            *p = '-';
    names->names[names->count++] = text;
}

/* All the flags of a command, with their sections where what was written is long enough for one; of
 * `section` alone where that is given. */
static bool list_flags(const struct cli *cli, const stk_option_table *section, size_t length,
                       struct flag_names *names)
{
    const stk_option_table *common = cli_common_table(cli);
    size_t count = common->count;

    for (size_t i = 0; cli->tables[i]; i++)
        count += 2 * cli->tables[i]->count;
    *names = (struct flag_names){malloc(count * sizeof *names->texts),
                                 malloc(count * sizeof *names->names), 0};
    if (!names->texts || !names->names)
        return false;
    for (size_t i = 0; !section && i < common->count; i++)
        add_name(names, "", common->options[i].name);
    for (size_t i = 0; cli->tables[i]; i++) {
        const stk_option_table *table = cli->tables[i];
        bool full = *table->name && length > strlen(table->name) + 3;
        for (size_t j = 0; j < table->count && (!section || table == section); j++) {
            if (!section)
                add_name(names, "", table->options[j].name);
            if (full)
                add_name(names, table->name, table->options[j].name);
        }
    }
    return true;
}

/* Where a section is written that is none: name those there are. */
static void list_sections(const struct cli *cli, char *text, size_t size)
{
    size_t used = strlen(text);

    used += (size_t)snprintf(text + used, size - used, ", and none is like it; sections are");
    for (size_t i = 0; cli->tables[i] && used < size; i++)
        if (*cli->tables[i]->name)
            used += (size_t)snprintf(text + used, size - used, " '%.60s'", cli->tables[i]->name);
}

/* Say which flag may be meant by one that is none. `shown` is how it was written. */
static int fail_unknown(const struct cli *cli, const char *flag, const char *shown)
{
    const char *dot = strrchr(flag, '.');
    const stk_option_table *section =
        dot ? find_table(cli, flag + 2, (size_t)(dot - flag - 2)) : NULL;
    const stk_option_table *alone = dot ? NULL : find_table(cli, flag + 2, strlen(flag + 2));
    struct flag_names names;
    char text[640];

    if (alone && alone->count) {
        snprintf(text, sizeof text, "%s: '%.60s' is a section; give its options, as '%.60s.%.60s'",
                 cli->usage->name, shown, shown, alone->options[0].name);
        return fail_usage(cli, text);
    }
    const char *nearest = list_flags(cli, section, strlen(flag), &names)
                              ? stk_nearest_name(flag, names.names, names.count)
                              : NULL;
    snprintf(text, sizeof text, "%s: unknown option '%.60s'%s%s%s", cli->usage->name, shown,
             nearest           ? "; did you mean '"
             : dot && !section ? ""
                               : ", and none is like it",
             nearest ? nearest : "", nearest ? "'?" : "");
    if (!nearest && dot && !section)
        list_sections(cli, text, sizeof text);
    free(names.names);
    free(names.texts);
    return fail_usage(cli, text);
}

/* ---- One argument ---------------------------------------------------------------------------- */

/* Whether an argument is a flag, and so no value: "--flag", "-q", "-oFILE"; not "-1", not "-". */
static bool is_flag(const char *text)
{
    return text[0] == '-' &&
           (text[1] == '-' || text[1] == 'o' || ((text[1] == 'q' || text[1] == 'h') && !text[2]));
}

/* Whether an argument can be the value of a switch, rather than the next thing. */
static bool suits(const struct flag *flag, const char *text)
{
    static const stk_option yes_no = {
        .name = "", .type = STK_OPTION_BOOL, .offset = sizeof(uint32_t)};
    static const stk_option_table yes_no_table = {"", "", 2 * sizeof(uint32_t), &yes_no, 1};
    size_t first = strcspn(text, ",");
    union {
        uint64_t aligned[512];
        char bytes[4096];
    } scratch;
    char word[64];

    stk_options_init(&yes_no_table, &scratch, sizeof scratch);
    if (is_text_switch(flag->option))
        return (*text >= '0' && *text <= '9') ||
               stk_options_set(&yes_no_table, &scratch, "", text, NULL) == STK_OK;
    if (first >= sizeof word || flag->table->struct_size > sizeof scratch)
        return false;
    memcpy(word, text, first);
    word[first] = 0;
    return stk_options_set(flag->table, &scratch, flag->option->name, word, NULL) == STK_OK;
}

/* Whether an argument is a misspelt value of a switch ("--shuffle tru"), rather than the next
 * thing: a word, like one that the switch takes, and no file. */
static bool misspelt(const struct flag *flag, const char *text)
{
    const char *words[16] = {"true", "false", "yes", "no", "on", "off"}, *word = "";
    char choices[8][CLI_FLAG], first[64];
    size_t count = 6, length = strcspn(text, ",");

    if (length < 2 || length >= sizeof first ||
        text[strspn(text, "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ,_-")])
        return false;
    memcpy(first, text, length);
    first[length] = 0;
    word = flag->option->type == STK_OPTION_ENUM ? flag->option->choices : "";
    for (size_t i = 0; i < 8 && *word; i++) {
        size_t n = strcspn(word, "|");
        snprintf(choices[i], sizeof choices[i], "%.*s", (int)n, word);
        words[count++] = choices[i];
        word += n + (word[n] == '|');
    }
    return stk_nearest_name(first, words, count) && access(text, F_OK) != 0;
}

/* Find the value of a flag: behind '=', the next argument, or what a switch means by itself. */
static int take_value(struct parser *p, struct flag *flag, const char *argument, const char *equals,
                      bool negated)
{
    struct cli *cli = p->cli;
    const char *next = p->next < cli->argc ? cli->argv[p->next] : NULL;
    char text[256];

    if (negated) {
        flag->text = "false";
        if (equals || !is_switch(flag->option)) {
            snprintf(text, sizeof text, "%.100s: %s", argument,
                     equals ? "a flag with 'no-' takes no value"
                            : "only a switch can have 'no-' in front");
            return fail_usage(cli, text);
        }
    } else if (equals) {
        flag->text = equals + 1;
    } else if (is_switch(flag->option) &&
               !(next && !is_flag(next) && (suits(flag, next) || misspelt(flag, next)))) {
        flag->text = "true";
        p->alone = flag->option->type == STK_OPTION_ENUM ? flag->option : NULL;
    } else if (next && !is_flag(next)) {
        flag->text = next;
        p->next++;
    } else {
        snprintf(text, sizeof text, "%.100s needs a value: %.100s %s", argument, argument,
                 flag->option->metavar                   ? flag->option->metavar
                 : flag->option->type == STK_OPTION_ENUM ? flag->option->choices
                                                         : "VALUE");
        return fail_usage(cli, text);
    }
    return CLI_GO_ON;
}

static int take_flag(struct parser *p, const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
    struct flag flag = {0};
    char name[CLI_FLAG];

    if (length >= sizeof name)
        return fail_unknown(p->cli, argument, argument);
    memcpy(name, argument, length);
    name[length] = 0;
    bool negated = !find_flag(p->cli, name + 2, &flag) &&
                   (strncmp(name, "--no-", 5) == 0 || strncmp(name, "--no_", 5) == 0) &&
                   find_flag(p->cli, name + 5, &flag);
    if (!flag.option)
        return fail_unknown(p->cli, name, name);
    int code = take_value(p, &flag, name, equals, negated);
    if (code != CLI_GO_ON)
        return code;
    if (flag.option == stk_options_find(cli_common_table(p->cli), "config"))
        p->files[p->num_files++] = flag.text;
    else if (flag.option == stk_options_find(cli_common_table(p->cli), "plugin"))
        p->cli->plugins[p->cli->num_plugins++] = flag.text;
    else
        p->flags[p->num_flags++] = flag;
    if (p->cli->usage->repeats && strcmp(flag.option->name, p->cli->usage->repeats) == 0)
        p->cli->repeated[p->cli->num_repeated++] = flag.text;
    return CLI_GO_ON;
}

/* "-oFILE", "-o FILE", "-q", "-h" are the long ones in short. */
static int take_short(struct parser *p, const char *argument)
{
    struct flag flag = {.table = cli_common_table(p->cli), .text = "true"};
    char text[128];
    char letter = argument[1];

    flag.option = stk_options_find(flag.table, letter == 'o'   ? "output"
                                               : letter == 'q' ? "quiet"
                                                               : "help");
    if (!strchr("oqh", letter) || (letter != 'o' && argument[2])) {
        /* "-num-workers" lacks a dash. */
        snprintf(text, sizeof text, "-%.100s", argument);
        return fail_unknown(p->cli, text, argument);
    }
    if (letter == 'o') {
        flag.text = argument[2]              ? argument + 2
                    : p->next < p->cli->argc ? p->cli->argv[p->next++]
                                             : NULL;
        if (!flag.text)
            return fail_usage(p->cli, "-o needs a value: -o FILE");
    }
    p->flags[p->num_flags++] = flag;
    return CLI_GO_ON;
}

/* Whether "num_workers=2" lacks the dashes of a flag. */
static bool lacks_dashes(const struct cli *cli, const char *argument, char flag[CLI_FLAG])
{
    size_t length = strcspn(argument, "=");
    struct flag found;

    if (argument[length] != '=' || length + 3 > CLI_FLAG || access(argument, F_OK) == 0)
        return false;
    snprintf(flag, CLI_FLAG, "--%.*s", (int)length, argument);
    return find_flag(cli, flag + 2, &found);
}

/* `alone`: as in the parser, of the flag in front. */
static int take_positional(struct parser *p, const char *argument, const stk_option *alone)
{
    struct cli *cli = p->cli;
    char text[320], flag[CLI_FLAG];

    if (lacks_dashes(cli, argument, flag)) {
        snprintf(text, sizeof text, "'%.100s' is no flag; did you mean '%s%.60s'?", argument, flag,
                 strchr(argument, '='));
        return fail_usage(cli, text);
    }
    if (cli->usage->yaml && (strcmp(argument, "-") == 0 || cli_ends_with(argument, ".yaml") ||
                             cli_ends_with(argument, ".yml"))) {
        p->files[p->num_files++] = argument;
        return CLI_GO_ON;
    }
    if (cli->num_args == cli->usage->max_args || cli->num_args == CLI_MAX_ARGS) {
        struct flag dataset;
        size_t used =
            (size_t)snprintf(text, sizeof text, "'%.100s' is one argument too many", argument);
        if (alone)
            snprintf(text + used, sizeof text - used, "; %.60s takes %.120s", alone->name,
                     alone->choices);
        else if (strchr(argument, ':') && find_flag(cli, "dataset", &dataset) && !cli->num_args)
            snprintf(text + used, sizeof text - used, "; did you mean '--dataset %.100s'?",
                     argument);
        else if (cli->usage->yaml && !cli->usage->max_args)
            snprintf(text + used, sizeof text - used,
                     "; the name of a configuration ends in .yaml or .yml");
        return fail_usage(cli, text);
    }
    cli->args[cli->num_args++] = argument;
    return CLI_GO_ON;
}

static int read_arguments(struct parser *p)
{
    struct cli *cli = p->cli;
    bool flags = true;
    int code = CLI_GO_ON;

    while (p->next < cli->argc && code == CLI_GO_ON) {
        const char *argument = cli->argv[p->next++];
        const stk_option *alone = p->alone;
        p->alone = NULL;
        if (flags && strcmp(argument, "--") == 0)
            flags = false;
        else if (flags && strncmp(argument, "--", 2) == 0)
            code = take_flag(p, argument);
        else if (flags && argument[0] == '-' && argument[1])
            code = take_short(p, argument);
        else
            code = take_positional(p, argument, alone);
    }
    return code;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int set_flags(struct parser *p)
{
    struct cli *cli = p->cli;
    struct common common;
    stk_error err;
    char key[192];

    stk_options_init(cli_common_table(cli), &common, sizeof common);
    for (size_t i = 0; i < p->num_flags; i++) {
        const struct flag *flag = &p->flags[i];
        stk_status status;
        if (flag->table == cli_common_table(cli)) {
            status = stk_options_set(flag->table, &common, flag->option->name, flag->text, &err);
        } else {
            /* The comma of a text is its own: several texts are a list of the YAML file. */
            bool sweep = cli->usage->sweep && flag->option->type != STK_OPTION_STRING;
            snprintf(key, sizeof key, "%s%s%s", flag->table->name, *flag->table->name ? "." : "",
                     flag->option->name);
            status = stk_config_set(cli->config, key, flag->text, sweep, &err);
            if (strcmp(key, "module.weights") == 0)
                cli->weights = flag->text;
        }
        if (status != STK_OK)
            return cli_fail(cli, status, &err);
    }
    cli->format = (enum cli_format)common.format;
    cli->out_path = common.output;
    cli->log = common.log;
    cli->quiet = common.quiet;
    cli->allow_plugins = common.allow_plugins;
    cli->print_config = common.print_config;
    stk_status status = cli_plugins(cli, cli->config_context, cli->config, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* Whether a key has several values that are no list. */
static bool is_sweep(const struct cli *cli)
{
    uint64_t lists = 1;

    for (const char *const *key = stk_recipe_lists(); *key; key++) {
        size_t n = stk_config_count(cli->config, *key);
        lists *= n ? n : 1;
    }
    return stk_config_combinations(cli->config) != lists;
}

/* Try every table now, so that nothing is found wrong after hours. */
static int check_all(struct cli *cli)
{
    struct flag flag;
    stk_error err;

    /* Where a step can be one of a training, and a training is nothing else. */
    if (cli->training && find_flag(cli, "bench.step", &flag) &&
        !find_flag(cli, "data.dataset", &flag))
        return cli_fail_training(cli);
    for (size_t i = 0; cli->tables[i]; i++) {
        void *scratch = malloc(cli->tables[i]->struct_size);
        if (!scratch) {
            cli_error("no memory for the options");
            return CLI_FAILED;
        }
        int code = cli_apply(cli, cli->tables[i], 0, scratch);
        free(scratch);
        if (code != CLI_GO_ON)
            return code;
    }
    stk_status status = stk_config_finish(cli->config, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    if (!cli->usage->sweep && is_sweep(cli))
        return fail_usage(cli, "a list of several values: this command takes one for each option");
    return CLI_GO_ON;
}

static int load_all(struct parser *p)
{
    struct cli *cli = p->cli;
    stk_error err;

    stk_status status = stk_context_create(NULL, &cli->config_context, &err);
    if (status == STK_OK)
        status = stk_config_create(cli->config_context, &cli->config, &err);
    for (size_t i = 0; i < p->num_files && status == STK_OK; i++)
        status = cli_config_load(cli->config, p->files[i], &err);
    if (status == STK_OK) {
        cli_find_training(cli, p->num_files ? p->files[p->num_files - 1] : "-");
        return set_flags(p);
    }
    int code = cli_fail(cli, status, &err);
    return cli->config && status != STK_ENOMEM ? CLI_USAGE : code;
}

/* --help before anything else, so that it works whatever else is wrong. */
static bool wants_help(const struct cli *cli)
{
    for (int i = 0; i < cli->argc && strcmp(cli->argv[i], "--") != 0; i++)
        if (strcmp(cli->argv[i], "--help") == 0 || strcmp(cli->argv[i], "-h") == 0)
            return true;
    return false;
}

int cli_parse(struct cli *cli, const struct cli_usage *usage)
{
    struct parser p = {.cli = cli};
    int code = CLI_FAILED;
    FILE *out = cli->out;

    cli->usage = usage;
    cli->out = stdout;
    cli_tables_list(cli, usage);
    if (cli->describe) {
        cli->describe(cli, out);
        return CLI_GOOD;
    }
    if (wants_help(cli)) {
        cli_help(cli, stdout);
        return CLI_GOOD;
    }
    p.flags = calloc((size_t)cli->argc + 1, sizeof *p.flags);
    p.files = calloc((size_t)cli->argc + 1, sizeof *p.files);
    cli->plugins = calloc((size_t)cli->argc + 1, sizeof *cli->plugins);
    cli->repeated = calloc((size_t)cli->argc + 1, sizeof *cli->repeated);
    if (!p.flags || !p.files || !cli->plugins || !cli->repeated) {
        cli_error("no memory for the arguments");
        goto out;
    }
    code = read_arguments(&p);
    if (code == CLI_GO_ON && cli->num_args < usage->min_args) {
        char text[160];
        snprintf(text, sizeof text, "an argument is missing: stoker %s %s", usage->name,
                 usage->synopsis);
        code = fail_usage(cli, text);
    }
    if (code == CLI_GO_ON)
        code = load_all(&p);
    if (code == CLI_GO_ON)
        code = check_all(cli);
    if (code == CLI_GO_ON)
        code = cli_output_open(cli);
    if (code == CLI_GO_ON && cli->print_config)
        code = cli_config_print(cli);
out:
    free(p.files);
    free(p.flags);
    return code;
}

int cli_apply(struct cli *cli, const stk_option_table *table, uint64_t which, void *options)
{
    stk_error err;

    stk_options_init(table, options, table->struct_size);
    cli->which = which;
    stk_status status = stk_config_apply(cli->config, table, which, options, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}
