/* SPDX-License-Identifier: Apache-2.0 */
/* stoker completion: the option tables as what bash, zsh and fish complete with. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct cli_usage usage = {
    .name = "completion",
    .synopsis = "bash | zsh | fish [options]",
    .about =
        "Prints what lets a shell complete commands, options, their values and files. An installed "
        "Stoker has it\n"
        "where the shells look; otherwise put it there, or read it in the shell's own file.\n",
    .examples = "  stoker completion bash > stoker.bash\n"
                "  stoker completion zsh > _stoker\n"
                "  stoker completion fish > stoker.fish\n",
    .first = "bash|zsh|fish",
    .min_args = 1,
    .max_args = 1,
};

#define WORDS 512 /* bytes of the words of a value */

/* What can be given as a value. */
struct value {
    char words[WORDS]; /* with blanks between */
    bool file, spec;   /* the path of something; a dataset */
};

/* Kinds of datasets, as words: "digits: mnist:". Filled by the command, for the printers. */
static char kinds[WORDS];

static void add_words(struct value *value, const char *words)
{
    size_t used = strlen(value->words);

    snprintf(value->words + used, sizeof value->words - used, "%s%s", used ? " " : "", words);
    for (char *p = value->words + used; *p; p++)
        if (*p == '|')
            *p = ' ';
}

/* A placeholder names what is meant: FILE, DIR, SPEC, or, in small letters, a word itself. */
static void add_placeholder(struct value *value, const char *text)
{
    char part[64];

    for (; *text; text += *text == '|') {
        size_t length = strcspn(text, "|");
        snprintf(part, sizeof part, "%.*s", (int)length, text);
        value->spec |= strcmp(part, "SPEC") == 0;
        value->file |= strcmp(part, "FILE") == 0 || strcmp(part, "DIR") == 0;
        if (islower((unsigned char)*part) && !strpbrk(part, ":[.<"))
            add_words(value, part);
        text += length;
    }
}

static struct value value_of(const stk_option *option)
{
    struct value value = {0};

    if (option->type == STK_OPTION_ENUM || option->choices)
        add_words(&value, option->choices);
    if (option->metavar)
        add_placeholder(&value, option->metavar);
    return value;
}

/* What the arguments of a command are. */
static struct value arguments_of(const struct cli_usage *u)
{
    struct value value = {.file = u->max_args > 0 || u->yaml};

    if (u->first) {
        value.file = false;
        add_words(&value, u->first);
    }
    value.spec =
        strstr(u->synopsis, "SPEC") || strstr(u->synopsis, "PATH") || strstr(u->synopsis, "SRC");
    return value;
}

/* The first sentence of a text, for a line; the bytes of `escaped` get a backslash, and a quote is
 * written as `quote` says. */
static void print_text(FILE *out, const char *text, const char *escaped, const char *quote)
{
    for (; *text && strncmp(text, ". ", 2) != 0; text++) {
        if (*text == '\'')
            fputs(quote, out);
        else
            fprintf(out, "%s%c", strchr(escaped, *text) ? "\\" : "", *text);
    }
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void print_bash_value(FILE *out, const struct value *value)
{
    fprintf(out, "words='%s%s%s' files=%d ", value->words, *value->words && value->spec ? " " : "",
            value->spec ? kinds : "", value->file || value->spec);
}

static void bash_command(const struct cli *cli, FILE *out)
{
    const struct value arguments = arguments_of(cli->usage);
    struct cli_flag flag;

    fprintf(out, "    %s)\n        flags='", cli->usage->name);
    for (size_t i = 0; cli_flag_at(cli, i, &flag); i++) {
        fprintf(out, "%s%s", i ? " " : "", flag.name);
        if (flag.option->type == STK_OPTION_BOOL)
            fprintf(out, " --no-%s", flag.name + 2);
    }
    fputs("'\n        sections='", out);
    for (size_t i = 0; cli_flag_at(cli, i, &flag); i++)
        fprintf(out, "%s%s", *flag.full ? " " : "", flag.full);
    fputs("'\n        case $prev in\n", out);
    for (size_t i = 0; cli_flag_at(cli, i, &flag); i++) {
        const struct value value = value_of(flag.option);
        if (flag.option->type == STK_OPTION_BOOL)
            continue;
        fprintf(out, "        %s%s%s%s) ", flag.name, *flag.full ? " | " : "", flag.full,
                strcmp(flag.name, "--output") == 0 ? " | -o" : "");
        print_bash_value(out, &value);
        fputs(";;\n", out);
    }
    fputs("        *) ", out);
    print_bash_value(out, &arguments);
    fputs(";;\n        esac\n        ;;\n", out);
}

static void print_bash(const struct cli_command *commands, size_t n, FILE *out)
{
    fputs("# Completion of stoker for bash: stoker completion bash\n"
          "_stoker()\n"
          "{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local words= files=0 flags= sections=\n"
          "    # Bash has parted the words at '=' and ':'.\n"
          "    case $cur in = | :) prev=$cur cur= ;; esac\n"
          "    if [[ $prev == = ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "        [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    case $((COMP_CWORD > 1)):${COMP_WORDS[1]} in\n"
          "    0:*) words='",
          out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s ", commands[i].name);
    fputs("help --help --version' ;;\n    1:help) words='--man", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, " %s", commands[i].name);
    fputs("' ;;\n    esac\n    ((COMP_CWORD > 1)) && case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < n; i++)
        cli_describe(&commands[i], bash_command, out);
    fputs(
        "    esac\n"
        "    COMPREPLY=()\n"
        "    if [[ $cur == --*.* ]]; then\n"
        "        words=$sections files=0\n"
        "    elif [[ $cur == -* && $flags ]]; then\n"
        "        words=$flags files=0\n"
        "    elif [[ $prev == : ]]; then\n"
        "        words= files=1\n"
        "    fi\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
        "    ((files)) && { mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
        "                   compopt -o filenames; } 2> /dev/null\n"
        "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2> "
        "/dev/null\n"
        "    return 0\n"
        "}\n"
        "complete -F _stoker stoker\n",
        out);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

#define ZSH_ESCAPED "[]:\\"
#define ZSH_QUOTE   "'\\''"

static void print_zsh_value(FILE *out, const char *what, const struct value *value)
{
    fprintf(out, ":%s:", what);
    if (value->spec || (value->file && *value->words))
        fprintf(out, "{_alternative \"words\\:word\\:(%s%s%s)\" \"files\\:file\\:_files\"}",
                value->words, *value->words && value->spec ? " " : "", value->spec ? "$kinds" : "");
    else if (value->file)
        fputs("_files", out);
    else if (*value->words)
        fprintf(out, "(%s)", value->words);
    else
        fputs(" ", out);
}

static void zsh_command(const struct cli *cli, FILE *out)
{
    const struct value arguments = arguments_of(cli->usage);
    struct cli_flag flag;

    fprintf(out, "    %s)\n        _arguments -s", cli->usage->name);
    for (size_t i = 0; cli_flag_at(cli, i, &flag); i++) {
        const struct value value = value_of(flag.option);
        bool truth = flag.option->type == STK_OPTION_BOOL;
        fprintf(out, " \\\n            '%s%s[", flag.name, truth ? "" : "=");
        print_text(out, flag.option->doc, ZSH_ESCAPED, ZSH_QUOTE);
        fputc(']', out);
        if (!truth)
            print_zsh_value(out, flag.option->name, &value);
        fputc('\'', out);
        if (truth)
            fprintf(out, " '--no-%s'", flag.name + 2);
    }
    fputs(" \\\n            '*", out);
    print_zsh_value(out, "argument", &arguments);
    fputs("'\n        ;;\n", out);
}

static void print_zsh(const struct cli_command *commands, size_t n, FILE *out)
{
    fprintf(out, "#compdef stoker\n"
                 "# Completion of stoker for zsh: stoker completion zsh\n"
                 "_stoker() {\n"
                 "    local kinds='");
    print_text(out, kinds, ":", ZSH_QUOTE);
    fputs("'\n    local -a commands=(\n", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "        '%s:", commands[i].name);
        print_text(out, commands[i].summary, "", ZSH_QUOTE);
        fputs("'\n", out);
    }
    fputs("        'help:print the help of a command')\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n"
          "    help) _describe command commands ;;\n",
          out);
    for (size_t i = 0; i < n; i++)
        cli_describe(&commands[i], zsh_command, out);
    fputs("    esac\n"
          "}\n"
          "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _stoker \"$@\"; else compdef "
          "_stoker stoker; fi\n",
          out);
}

/* ---- fish ------------------------------------------------------------------------------------ */

#define FISH_QUOTE "\\'"

static void fish_command(const struct cli *cli, FILE *out)
{
    const struct value arguments = arguments_of(cli->usage);
    struct cli_flag flag;

    for (size_t i = 0; cli_flag_at(cli, i, &flag); i++) {
        const struct value value = value_of(flag.option);
        fprintf(out, "complete -c stoker -n '__fish_seen_subcommand_from %s' -l %s -d '",
                cli->usage->name, flag.name + 2);
        print_text(out, flag.option->doc, "\\", FISH_QUOTE);
        fputc('\'', out);
        if (flag.option->type != STK_OPTION_BOOL)
            fprintf(out, " %s", value.file || value.spec ? "-rF" : "-x");
        if (*value.words || value.spec)
            fprintf(out, " -a '%s%s%s'", value.words, *value.words && value.spec ? " " : "",
                    value.spec ? kinds : "");
        fputc('\n', out);
    }
    fprintf(out, "complete -c stoker -n '__fish_seen_subcommand_from %s' -%c -a '%s%s%s'\n",
            cli->usage->name, arguments.file || arguments.spec ? 'F' : 'f', arguments.words,
            *arguments.words && arguments.spec ? " " : "", arguments.spec ? kinds : "");
}

static void print_fish(const struct cli_command *commands, size_t n, FILE *out)
{
    fputs("# Completion of stoker for fish: stoker completion fish\n"
          "complete -c stoker -f\n",
          out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "complete -c stoker -n __fish_use_subcommand -a %s -d '", commands[i].name);
        print_text(out, commands[i].summary, "\\", FISH_QUOTE);
        fputs("'\n", out);
    }
    for (size_t i = 0; i < n; i++)
        cli_describe(&commands[i], fish_command, out);
}

/* ---- The command ----------------------------------------------------------------------------- */

int cli_completion(struct cli *cli)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    static void (*const print[])(const struct cli_command *, size_t,
                                 FILE *) = {print_bash, print_zsh, print_fish};
    const stk_driver_head *kind;
    stk_context *context;
    size_t n, used = 0;

    int code = cli_parse(cli, &usage);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    for (size_t i = 0;
         (kind = stk_driver_at(context, STK_DRIVER_DATASET, i)) && used < sizeof kinds; i++)
        used +=
            (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s:", i ? " " : "", kind->name);
    const struct cli_command *commands = cli_commands(&n);
    for (size_t i = 0; i < 3; i++)
        if (strcmp(cli->args[0], shells[i]) == 0) {
            print[i](commands, n, cli->out);
            return CLI_GOOD;
        }
    const char *nearest = stk_nearest_name(cli->args[0], shells, 3);
    cli_error("'%.60s' is no shell that is known here; they are bash, zsh and fish%s%s%s",
              cli->args[0], nearest ? "; did you mean '" : "", nearest ? nearest : "",
              nearest ? "'?" : "");
    return CLI_USAGE;
}
