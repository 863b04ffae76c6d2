/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of "name(argument, option=value)": callbacks, loggers, groups of parameters. */
#include "base/config.h"
#include "base/options.h"
#include "recipe/recipe.h"

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

/* Cut the next item off `*text`. False at the end, and with *what where the text makes no sense. */
static bool next_item(char **text, stk__recipe_item *out, const char **what)
{
    *out = (stk__recipe_item){0};
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
        *what = !argument || !*argument                   ? "an argument is empty"
                : out->count == STK__RECIPE_MAX_ARGUMENTS ? "too many arguments"
                                                          : NULL;
        if (*what)
            return false;
        take_name(argument, &out->arguments[out->count].name, &out->arguments[out->count].value);
        out->count++;
    }
    return true;
}

stk_status stk__recipe_item_options(const stk__recipe_item *item, const stk_option_table *table,
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

stk_status stk__recipe_items(stk_config *config, const char *key, stk__recipe_each *each,
                             void *user, stk_error *err)
{
    stk__recipe_item item;
    const char *text, *what = NULL;

    for (size_t i = 0; (text = stk_config_get(config, key, i)); i++) {
        /* A logger looks at its options when it is opened: the texts stay. */
        char *rest = stk__config_copy(config, text, strlen(text));
        if (!rest)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the list '%s'",
                             key);
        while (next_item(&rest, &item, &what))
            STK_TRY(each(&item, user, err));
        if (what)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                                "%s: %s in '%.100s'; an item is written 'name(option=value)'", key,
                                what, text);
    }
    return STK_OK;
}

/* ---- Callbacks and loggers ------------------------------------------------------------------- */

/* The driver of an item; `kind` is that of the list, whose name is "callbacks" or so. */
static stk_status find_driver(stk_context *ctx, stk_driver_kind kind, const char *name,
                              const stk_driver_head **out, stk_error *err)
{
    char text[STK_ERROR_TEXT];

    stk_status status = stk_driver_find(ctx, kind, name, out, err);
    if (status != STK_EINVAL || !err)
        return status;
    memcpy(text, err->text, sizeof text);
    return stk__fail(err, status, STK_STAGE_OPTIONS, "%ss: %.600s", stk_driver_kind_name(kind),
                     text);
}

static stk_status is_named(const stk__recipe_item *item, void *user, stk_error *err)
{
    const char **name = user;

    (void)err;
    if (*name && stk__option_same(item->name, strlen(item->name), *name, strlen(*name)))
        *name = NULL;
    return STK_OK;
}

bool stk_recipe_has_item(stk_config *config, const char *key, const char *name)
{
    return stk__recipe_items(config, key, is_named, &name, NULL) == STK_OK && !name;
}

/* The struct of a table, filled from an item: NULL where it takes no options. */
static stk_status make_options(stk_context *ctx, const stk__recipe_item *item,
                               const stk_option_table *table, void **out, stk_error *err)
{
    *out = NULL;
    if (!table && item->count)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS, "%.60s takes no options", item->name);
    if (!table)
        return STK_OK;
    *out = stk__calloc(ctx, 1, table->struct_size);
    if (!*out)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the options of %.60s",
                         item->name);
    stk_status status = stk__recipe_item_options(item, table, *out, err);
    if (status != STK_OK) {
        stk__free(ctx, *out);
        *out = NULL;
    }
    return status;
}

static stk_status add_callback(const stk__recipe_item *item, void *trainer, stk_error *err)
{
    stk_context *ctx = stk_trainer_context(trainer);
    const stk_driver_head *driver;
    void *options;

    STK_TRY(find_driver(ctx, STK_DRIVER_CALLBACK, item->name, &driver, err));
    const stk_callback_ops *ops = (const stk_callback_ops *)driver;
    STK_TRY(make_options(ctx, item, ops->options, &options, err));
    stk_status status = stk_trainer_add_callback(trainer, ops, options, NULL, err);
    stk__free(ctx, options);
    return status;
}

static stk_status add_logger(const stk__recipe_item *item, void *trainer, stk_error *err)
{
    stk_context *ctx = stk_trainer_context(trainer);
    const stk_driver_head *driver;
    void *options;

    STK_TRY(find_driver(ctx, STK_DRIVER_LOGGER, item->name, &driver, err));
    const stk_logger_ops *ops = (const stk_logger_ops *)driver;
    STK_TRY(make_options(ctx, item, ops->options, &options, err));
    stk_status status = stk_trainer_add_logger(trainer, ops, options, err);
    stk__free(ctx, options);
    return status;
}

stk_status stk__recipe_add_callbacks(stk_config *config, stk_trainer *trainer, stk_error *err)
{
    return stk__recipe_items(config, "callbacks", add_callback, trainer, err);
}

stk_status stk__recipe_add_loggers(stk_config *config, stk_trainer *trainer, stk_error *err)
{
    return stk__recipe_items(config, "loggers", add_logger, trainer, err);
}
