/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of "name(argument, option=value)": callbacks, loggers, groups of parameters. */
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "base/registry.h"
#include "recipe/recipe.h"

const stk__items_kind stk__recipe_callbacks = {.stage = STK_STAGE_OPTIONS,
                                               .list = "callbacks",
                                               .item = "callback",
                                               .form = "name(option=value)",
                                               .classes = true,
                                               .most = STK__RECIPE_MAX_ITEMS};
const stk__items_kind stk__recipe_loggers = {.stage = STK_STAGE_OPTIONS,
                                             .list = "loggers",
                                             .item = "logger",
                                             .form = "name(option=value)",
                                             .classes = true,
                                             .most = STK__RECIPE_MAX_ITEMS};

stk_status stk__recipe_items(stk_config *config, const stk__items_kind *kind,
                             stk__recipe_each *each, void *user, stk_error *err)
{
    const char *text;

    for (size_t i = 0; (text = stk_config_get(config, kind->list, i)); i++) {
        stk__items items;

        /* A logger looks at its options when it is opened: the texts stay. */
        char *copy = stk__config_copy(config, text, strlen(text));
        if (!copy)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the list '%s'",
                             kind->list);
        STK_TRY(stk__items_cut(config->context, kind, copy, &items, err));
        stk_status status = STK_OK;
        for (uint32_t k = 0; k < items.count && status == STK_OK; k++)
            status = each(&items.items[k], user, err);
        stk__items_release(config->context, &items);
        STK_TRY(status);
    }
    return STK_OK;
}

/* ---- Items by their names ---------------------------------------------------------------------
 */

void stk__recipe_item_name(const char *text, size_t length, char out[STK__RECIPE_ITEM_NAME])
{
    char written[STK__RECIPE_ITEM_NAME];

    snprintf(written, sizeof written, "%.*s", (int)length, text);
    if ((*written >= 'A' && *written <= 'Z') || stk__class_has_package(written))
        stk__class_name(written, out, STK__RECIPE_ITEM_NAME);
    else
        snprintf(out, STK__RECIPE_ITEM_NAME, "%s", written);
}

/* Whether an item is a driver's, by its name or its class. */
static bool is_name(const char *text, size_t length, const char *name)
{
    char own[STK__RECIPE_ITEM_NAME];

    stk__recipe_item_name(text, length, own);
    return stk__option_same(own, strlen(own), name, strlen(name));
}

static stk_status is_named(const stk__item *item, void *user, stk_error *err)
{
    const char **name = user;

    (void)err;
    if (*name && is_name(item->name, strlen(item->name), *name))
        *name = NULL;
    return STK_OK;
}

bool stk_recipe_has_item(stk_config *config, const char *key, const char *name)
{
    stk__items_kind kind = stk__recipe_callbacks;

    kind.list = key;
    return stk__recipe_items(config, &kind, is_named, &name, NULL) == STK_OK && !name;
}

/* What is looked for, and who is told of it. */
typedef struct taking {
    const stk__items_kind *kind;
    const char *name;
    stk__recipe_each *each; /* NULL: nobody */
    void *user;
    bool found;
} taking;

static stk_status tell(stk_config *config, const taking *what, const char *item, size_t length,
                       stk_error *err)
{
    stk__items items;

    if (!what->each)
        return STK_OK;
    char *text = stk__config_copy(config, item, length);
    if (!text)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the %s",
                         what->kind->list);
    STK_TRY(stk__items_cut(config->context, what->kind, text, &items, err));
    const stk_status status = what->each(&items.items[0], what->user, err);
    stk__items_release(config->context, &items);
    return status;
}

bool stk__recipe_next_part(const char **list, stk__recipe_part *out)
{
    stk__unpaired unpaired;

    if (!**list)
        return false;
    const char *text = *list + strspn(*list, " \t\n");
    const size_t rest = strlen(text), part = stk__part_length(text, rest, ",", &unpaired);
    const size_t length = STK_MIN(part, rest);
    *out = (stk__recipe_part){text, length, STK_MIN(strcspn(text, " \t\n(,"), length),
                              part != SIZE_MAX};
    *list = text + length + (text[length] == ',');
    return true;
}

/* The items of a text but for those that are taken. */
static stk_status cut_text(stk_config *config, const char *list, taking *what, stk__text *out,
                           stk_error *err)
{
    stk__recipe_part part;

    while (stk__recipe_next_part(&list, &part)) {
        if (part.paired && is_name(part.text, part.name, what->name)) {
            STK_TRY(tell(config, what, part.text, part.length, err));
            what->found = true;
        } else {
            stk__text_add(out, "%s%.*s", out->length ? ", " : "", (int)part.length, part.text);
        }
    }
    return out->failed ? stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the %s",
                                   what->kind->list)
                       : STK_OK;
}

/* What is left of the values of a list. */
static stk_status cut_values(stk_config *config, const stk__entry *entry, taking *what,
                             stk__config_value *left, size_t *n, stk_error *err)
{
    stk_status status = STK_OK;

    for (size_t i = 0; i < entry->count && status == STK_OK; i++) {
        stk__text text = {.ctx = config->context};
        status = cut_text(config, entry->values[i].text, what, &text, err);
        if (status == STK_OK && text.length) {
            left[*n] = entry->values[i];
            left[*n].text = stk__config_copy(config, text.bytes, text.length);
            if (!left[(*n)++].text)
                status = stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the %s",
                                   what->kind->list);
        }
        stk__text_release(&text);
    }
    return status;
}

stk_status stk__recipe_take_items(stk_config *config, const stk__items_kind *kind, const char *name,
                                  stk__recipe_each *each, void *user, bool *found, stk_error *err)
{
    const stk__entry *entry = stk__config_find(config, kind->list);
    taking what = {kind, name, each, user, false};
    size_t n = 0;

    *found = false;
    if (!entry)
        return STK_OK;
    stk__config_value *left = stk__calloc(config->context, entry->count + 1, sizeof *left);
    if (!left)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the %s", kind->list);
    stk_status status = cut_values(config, entry, &what, left, &n, err);
    if (status == STK_OK && what.found)
        status = stk__config_put(config, entry->key, &entry->place, left, n, entry->load, err);
    stk__free(config->context, left);
    *found = what.found;
    return status;
}

/* ---- Callbacks and loggers ------------------------------------------------------------------- */

/* The driver of an item; `kind` is that of the list, whose name is "callbacks" or so. */
static stk_status find_driver(stk_context *ctx, stk_driver_kind kind, const char *name,
                              const stk_driver_head **out, stk_error *err)
{
    char text[STK_ERROR_TEXT], own[STK__RECIPE_ITEM_NAME];

    stk__recipe_item_name(name, strlen(name), own);
    stk_status status = stk_driver_find(ctx, kind, own, out, err);
    if (status != STK_EINVAL || !err)
        return status;
    const char *refused = stk__class_refused(name); /* in a file it is refused as it is read */
    if (refused)
        return stk__fail(err, status, STK_STAGE_OPTIONS, "%ss: %s", stk__drivers_of(kind)->word,
                         refused);
    memcpy(text, err->text, sizeof text);
    return stk__fail(err, status, STK_STAGE_OPTIONS, "%ss: %.600s", stk__drivers_of(kind)->word,
                     text);
}

/* Where the items of a list go. */
typedef struct target {
    stk_trainer *trainer;
    const char *machine_dir; /* stk_recipe_options.machine_dir */
} target;

/* The struct of a table, filled from an item: NULL where it takes no options. */
static stk_status make_options(const target *to, const stk__item *item,
                               const stk_option_table *table, void **out, stk_error *err)
{
    stk_context *ctx = stk_trainer_context(to->trainer);

    *out = NULL;
    if (!table)
        return stk__item_options(item, NULL, NULL, NULL, err);
    *out = stk__calloc(ctx, 1, table->struct_size);
    if (!*out)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the options of %.60s",
                         item->name);
    stk_status status = stk__item_options(item, table, NULL, *out, err);
    /* What is measured of the machine is looked for where the caller keeps it. */
    const stk_option *dir = stk_options_find(table, "machine_dir");
    if (status == STK_OK && dir && dir->type == STK_OPTION_STRING && to->machine_dir) {
        const char **value = (const char **)((char *)*out + dir->offset);
        *value = *value ? *value : to->machine_dir;
    }
    if (status != STK_OK) {
        stk__free(ctx, *out);
        *out = NULL;
    }
    return status;
}

static stk_status add_callback(const stk__item *item, void *user, stk_error *err)
{
    const target *to = user;
    stk_context *ctx = stk_trainer_context(to->trainer);
    const stk_driver_head *driver;
    void *options;

    STK_TRY(find_driver(ctx, STK_DRIVER_CALLBACK, item->name, &driver, err));
    const stk_callback_ops *ops = (const stk_callback_ops *)driver;
    STK_TRY(make_options(to, item, ops->options, &options, err));
    stk_status status = stk_trainer_add_callback(to->trainer, ops, options, NULL, err);
    stk__free(ctx, options);
    return status;
}

static stk_status add_logger(const stk__item *item, void *user, stk_error *err)
{
    const target *to = user;
    stk_context *ctx = stk_trainer_context(to->trainer);
    const stk_driver_head *driver;
    void *options;

    STK_TRY(find_driver(ctx, STK_DRIVER_LOGGER, item->name, &driver, err));
    const stk_logger_ops *ops = (const stk_logger_ops *)driver;
    STK_TRY(make_options(to, item, ops->options, &options, err));
    stk_status status = stk_trainer_add_logger(to->trainer, ops, options, err);
    stk__free(ctx, options);
    return status;
}

stk_status stk__recipe_add_callbacks(const stk_recipe *r, stk_error *err)
{
    target to = {r->trainer, r->options.machine_dir};

    return stk__recipe_items(r->config, &stk__recipe_callbacks, add_callback, &to, err);
}

stk_status stk__recipe_add_loggers(const stk_recipe *r, stk_error *err)
{
    target to = {r->trainer, r->options.machine_dir};

    return stk__recipe_items(r->config, &stk__recipe_loggers, add_logger, &to, err);
}
