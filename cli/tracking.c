/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment says of MLflow [MLflow, Environment variables]: the library does not read
 * it, so the command makes options of the logger of it. Those that are given count more. The token
 * stays where it is: an option names it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

static const struct {
    const char *variable, *option, *as; /* as: the value, of a secret; NULL: what it holds */
} variables[] = {
    {"MLFLOW_TRACKING_URI", "tracking_uri", NULL},
    {"MLFLOW_EXPERIMENT_NAME", "experiment_name", NULL},
    {"MLFLOW_RUN_NAME", "run_name", NULL},
    {"MLFLOW_TRACKING_SERVER_CERT_PATH", "ca_file", NULL},
    {"MLFLOW_TRACKING_TOKEN", "token", "env:MLFLOW_TRACKING_TOKEN"},
    {"MLFLOW_TRACKING_USERNAME", "username", NULL},
    {"MLFLOW_TRACKING_PASSWORD", "password", "env:MLFLOW_TRACKING_PASSWORD"},
};

const char *cli_tracking(size_t i, const char **option)
{
    if (i >= sizeof variables / sizeof *variables)
        return NULL;
    const char *value = getenv(variables[i].variable);
    *option = variables[i].option;
    return !value || !*value ? "" : variables[i].as ? variables[i].as : value;
}

/* Length of an item of a list: to the comma behind it, outside brackets and quotes. */
static size_t item_length(const char *text)
{
    const char *at = text;
    char quote = 0;

    for (int depth = 0; *at && (quote || depth > 0 || *at != ','); at++)
        if (quote)
            quote = *at == quote ? 0 : quote;
        else if (*at == '\'' || *at == '"')
            quote = *at;
        else
            depth += strchr("([{", *at) ? 1 : strchr(")]}", *at) ? -1 : 0;
    return (size_t)(at - text);
}

/* Whether an item is the logger, by its name or its class. */
static bool is_mlflow(const char *item, size_t length)
{
    static const char *const names[] = {"mlflow", "MLFlowLogger"};
    const size_t name = strcspn(item, "( \t\n,");

    if (name > length)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (name >= n && strncasecmp(item + name - n, names[i], n) == 0 &&
            (name == n || item[name - n - 1] == '.'))
            return true;
    }
    return false;
}

/* Whether an item has this option among its own. */
static bool is_given(const char *item, size_t length, const char *option)
{
    for (size_t at = strcspn(item, "(") + 1; at < length;) {
        at += strspn(item + at, " \t\n");
        const size_t n = strcspn(item + at, "= \t\n,)");
        if (n == strlen(option) && strncmp(item + at, option, n) == 0)
            return true;
        at += item_length(item + at) + 1;
    }
    return false;
}

/* The item with what the environment says in front of its own options. */
static void add_item(FILE *to, const char *item, size_t length)
{
    const size_t name = strcspn(item, "( \t\n,");
    const bool options = name < length && item[name] == '(';
    const char *option, *value;
    bool any = false;

    fprintf(to, "%.*s(", (int)name, item);
    for (size_t i = 0; (value = cli_tracking(i, &option)); i++) {
        const char quote = strchr(value, '\'') ? '"' : '\'';
        if (!value[0] || strpbrk(value, "\r\n") || strchr(value, quote) ||
            (options && is_given(item, length, option)))
            continue;
        fprintf(to, "%s%s=%c%s%c", any ? ", " : "", option, quote, value, quote);
        any = true;
    }
    if (options && item[name + 1] != ')')
        fprintf(to, "%s%.*s", any ? ", " : "", (int)(length - name - 1), item + name + 1);
    else
        fputs(")", to);
}

/* The list with the options; false: the logger is not in it. */
static bool add_list(FILE *to, const char *text)
{
    bool found = false;

    for (const char *at = text; *at;) {
        at += strspn(at, " \t\n,");
        const size_t length = item_length(at);
        if (length == 0)
            break;
        fputs(ftell(to) ? ", " : "", to);
        if (is_mlflow(at, length)) {
            add_item(to, at, length);
            found = true;
        } else {
            fprintf(to, "%.*s", (int)length, at);
        }
        at += length;
    }
    return found;
}

static bool environment_says_nothing(void)
{
    const char *option, *value;

    for (size_t i = 0; (value = cli_tracking(i, &option)); i++)
        if (value[0])
            return false;
    return true;
}

int cli_tracking_environment(struct cli *cli)
{
    const bool list = stk_config_count(cli->config, "loggers") > 0;
    const char *key = list ? "loggers" : "trainer.logger", *part;
    stk_status status = STK_OK;
    bool found = false;
    char *text = NULL;
    size_t length;
    stk_error err;

    if (environment_says_nothing())
        return CLI_GO_ON;
    FILE *to = open_memstream(&text, &length);
    for (size_t i = 0; to && (part = stk_config_get(cli->config, key, i)); i++)
        found |= add_list(to, part);
    if (!to || fclose(to) != 0) {
        cli_error("no memory for what the environment says of MLflow");
        return CLI_FAILED;
    }
    if (found)
        status = stk_config_set(cli->config, "loggers", text, false, &err);
    if (status == STK_OK && found && !list)
        status = stk_config_set(cli->config, "trainer.logger", "auto", false, &err);
    free(text);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}
