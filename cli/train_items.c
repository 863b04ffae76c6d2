/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of "name(argument, option=value)": callbacks, loggers, groups of parameters. */
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* ---- Cutting --------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static char *trimmed(char *begin, char *end)
{
    while (is_space(*begin))
        begin++;
    while (end > begin && is_space(end[-1]))
        *--end = 0;
    return begin;
}

/* Cut the text at its next comma outside of brackets and quotes; NULL where those do not pair. */
static char *cut(char **text)
{
    char *begin = *text, *c = begin, quote = 0;
    int depth = 0;

    for (; *c && (*c != ',' || depth || quote); c++) {
        if (quote)
            quote = *c == quote ? 0 : quote;
        else if (*c == '"' || *c == '\'')
            quote = *c;
        else if (strchr("([{", *c))
            depth++;
        else if (strchr(")]}", *c) && --depth < 0)
            return NULL;
    }
    if (depth || quote)
        return NULL;
    *text = *c ? c + 1 : c;
    *c = 0;
    return trimmed(begin, c);
}

static char *unquoted(char *text)
{
    size_t length = strlen(text);

    if (length < 2 || (text[0] != '"' && text[0] != '\'') || text[length - 1] != text[0])
        return text;
    text[length - 1] = 0;
    return text + 1;
}

/* "name = value" -> both. */
static void take_name(char *text, char **name, char **value)
{
    char *equals = text + strcspn(text, "=\"'([{");

    *name = NULL;
    *value = text;
    if (*equals == '=') {
        *equals = 0;
        *name = trimmed(text, equals);
        *value = equals + 1 + strspn(equals + 1, " \t\n\r");
    }
    *value = unquoted(*value);
}

bool train_item_next(char **text, struct train_item *out, const char **what)
{
    *out = (struct train_item){0};
    *what = NULL;
    *text += strspn(*text, " \t\n\r");
    if (!**text)
        return false;
    char *item = cut(text);
    *what = !item ? "brackets or quotes do not pair" : !*item ? "an item is empty" : NULL;
    if (*what)
        return false;
    out->name = item;
    char *open = strchr(item, '(');
    if (!open)
        return true;
    char *close = item + strlen(item) - 1;
    if (*close != ')') {
        *what = "a closing bracket was expected at the end";
        return false;
    }
    *close = 0;
    *open = 0;
    trimmed(item, open);
    for (char *rest = open + 1; *(rest += strspn(rest, " \t\n\r"));) {
        char *argument = cut(&rest);
        *what = !argument || !*argument             ? "an argument is empty"
                : out->count == TRAIN_MAX_ARGUMENTS ? "too many arguments"
                                                    : NULL;
        if (*what)
            return false;
        take_name(argument, &out->arguments[out->count].name, &out->arguments[out->count].value);
        out->count++;
    }
    return true;
}

stk_status train_item_options(const struct train_item *item, const stk_option_table *table,
                              void *options, stk_error *err)
{
    size_t place = 0;

    stk_options_init(table, options, table->struct_size);
    for (size_t i = 0; i < item->count; i++) {
        const char *name = item->arguments[i].name;
        if (!name)
            name = place < table->count ? table->options[place++].name : "(one more)";
        stk_status status = stk_options_set(table, options, name, item->arguments[i].value, err);
        if (status != STK_OK)
            return status;
    }
    return STK_OK;
}

/* Copies of the texts that items point into: a logger looks at its options when it is opened. */
static struct kept {
    struct kept *next;
    char text[];
} * kept;

static char *keep(const char *text)
{
    size_t size = strlen(text) + 1;
    struct kept *made = malloc(sizeof *made + size);

    if (!made)
        return NULL;
    memcpy(made->text, text, size);
    made->next = kept;
    kept = made;
    return made->text;
}

int train_items(struct cli *cli, const stk_config *config, const char *key,
                int (*each)(struct cli *cli, const struct train_item *item, void *user), void *user)
{
    struct train_item item;
    const char *text, *what = NULL;
    int code = CLI_GO_ON;

    for (size_t i = 0; code == CLI_GO_ON && (text = stk_config_get(config, key, i)); i++) {
        char *rest = keep(text);
        if (!rest) {
            cli_error("no memory for the list '%s'", key);
            return CLI_FAILED;
        }
        while (code == CLI_GO_ON && train_item_next(&rest, &item, &what))
            code = each(cli, &item, user);
        if (what) {
            cli_error("%s: %s in '%.100s'; an item is written 'name(option=value)'", key, what,
                      text);
            code = CLI_USAGE;
        }
    }
    return code;
}

static int is_named(struct cli *cli, const struct train_item *item, void *user)
{
    const char **name = user;

    (void)cli;
    if (*name && strcmp(item->name, *name) == 0)
        *name = NULL;
    return CLI_GO_ON;
}

bool train_has_item(struct cli *cli, const stk_config *config, const char *key, const char *name)
{
    return train_items(cli, config, key, is_named, &name) == CLI_GO_ON && !name;
}

/* ---- Callbacks and loggers ------------------------------------------------------------------- */

#define MOST_KINDS 64

/* "there is no callback 'x'; did you mean 'y'?", or which there are. */
static int fail_unknown(const char *kind, const char *name, const char *(*at)(size_t i))
{
    const char *names[MOST_KINDS];
    char list[512] = "";
    size_t used = 0, n = 0;

    for (; n < MOST_KINDS && (names[n] = at(n)) && used < sizeof list; n++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n ? ", " : "", names[n]);
    const char *nearest = stk_nearest_name(name, names, n);
    if (nearest)
        cli_error("%ss: there is no %s '%.60s'; did you mean '%s'?", kind, kind, name, nearest);
    else
        cli_error("%ss: there is no %s '%.60s'; there are %s", kind, kind, name, list);
    return CLI_USAGE;
}

static const char *callback_at(size_t i)
{
    const stk_callback_ops *ops = stk_callback_kind(i);

    return ops ? ops->name : NULL;
}

static const char *logger_at(size_t i)
{
    const stk_logger_ops *ops = stk_logger_kind(i);

    return ops ? ops->name : NULL;
}

/* A '-' in a name is as good as a '_', as everywhere. */
static bool same_name(const char *given, const char *name)
{
    for (; *given && *name; given++, name++)
        if (*given != *name && !(*given == '-' && *name == '_'))
            return false;
    return *given == *name;
}

/* The struct of a table, filled from an item: NULL where it takes no options. */
static int make_options(struct cli *cli, const struct train_item *item,
                        const stk_option_table *table, void **out)
{
    stk_error err;

    *out = NULL;
    if (!table && item->count) {
        cli_error("%.60s takes no options", item->name);
        return CLI_USAGE;
    }
    if (!table)
        return CLI_GO_ON;
    *out = calloc(1, table->struct_size);
    if (!*out) {
        cli_error("no memory for the options of %.60s", item->name);
        return CLI_FAILED;
    }
    stk_status status = train_item_options(item, table, *out, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

static int add_callback(struct cli *cli, const struct train_item *item, void *trainer)
{
    const stk_callback_ops *ops = NULL;
    void *options;
    stk_error err;

    for (size_t i = 0; (ops = stk_callback_kind(i)) && !same_name(item->name, ops->name);)
        i++;
    if (!ops)
        return fail_unknown("callback", item->name, callback_at);
    int code = make_options(cli, item, ops->options, &options);
    if (code == CLI_GO_ON) {
        stk_status status = stk_trainer_add_callback(trainer, ops, options, NULL, &err);
        if (status != STK_OK)
            code = cli_fail(cli, status, &err);
    }
    free(options);
    return code;
}

static int add_logger(struct cli *cli, const struct train_item *item, void *trainer)
{
    const stk_logger_ops *ops = NULL;
    void *options;
    stk_error err;

    for (size_t i = 0; (ops = stk_logger_kind(i)) && !same_name(item->name, ops->name);)
        i++;
    if (!ops)
        return fail_unknown("logger", item->name, logger_at);
    int code = make_options(cli, item, ops->options, &options);
    if (code == CLI_GO_ON) {
        stk_status status = stk_trainer_add_logger(trainer, ops, options, &err);
        if (status != STK_OK)
            code = cli_fail(cli, status, &err);
    }
    free(options);
    return code;
}

int train_add_callbacks(struct cli *cli, const stk_config *config, stk_trainer *trainer)
{
    return train_items(cli, config, "callbacks", add_callback, trainer);
}

int train_add_loggers(struct cli *cli, const stk_config *config, stk_trainer *trainer)
{
    return train_items(cli, config, "loggers", add_logger, trainer);
}
