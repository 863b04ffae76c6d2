/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers by kind and name: those built in, and those a context was given. */
#include <stdio.h>

#include "base/context.h"
#include "base/options.h"
#include "base/registry.h"

#define NAMES_SHOWN 400 /* bytes of a list of names in a message */

const stk_driver_head *stk_driver_at(const stk_context *context, stk_driver_kind kind, size_t i)
{
    stk_context *c = (stk_context *)context; /* the lock alone is written */
    const stk_driver_head *found = NULL;

    if ((unsigned)kind >= STK_DRIVER_KINDS || (c && stk__context_forked(c)))
        return NULL;
    for (const void *const *row = stk__drivers_of(kind)->builtin; *row; row++)
        if (i-- == 0)
            return *row;
    if (!c)
        return NULL;
    pthread_mutex_lock(&c->registry_lock);
    if (i < c->num_added[kind])
        found = c->added[kind][i];
    pthread_mutex_unlock(&c->registry_lock);
    return found;
}

const stk_plugin *stk_plugin_at(const stk_context *context, size_t i)
{
    stk_context *c = (stk_context *)context; /* the lock alone is written */
    const stk_plugin *found = NULL;

    if (!c || stk__context_forked(c))
        return NULL;
    pthread_mutex_lock(&c->registry_lock);
    if (i < c->num_plugins)
        found = c->plugins[i];
    pthread_mutex_unlock(&c->registry_lock);
    return found;
}

const void *stk__driver_find(const stk_context *ctx, stk_driver_kind kind, const char *name,
                             size_t length)
{
    const stk_driver_head *driver;

    for (size_t i = 0; (driver = stk_driver_at(ctx, kind, i)); i++)
        if (stk__option_same(driver->name, strlen(driver->name), name, length))
            return driver;
    return NULL;
}

bool stk__driver_is_builtin(stk_driver_kind kind, const void *table)
{
    for (const void *const *row = stk__drivers_of(kind)->builtin; *row; row++)
        if (*row == table)
            return true;
    return false;
}

void stk__driver_names(const stk_context *ctx, stk_driver_kind kind, const char *between,
                       char *text, size_t size)
{
    const stk_driver_head *driver;
    size_t used = 0;

    *text = 0;
    for (size_t i = 0; used < size && (driver = stk_driver_at(ctx, kind, i)); i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%.60s", i ? between : "", driver->name);
}

stk_status stk_driver_find(const stk_context *context, stk_driver_kind kind, const char *name,
                           const stk_driver_head **out, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT], names[NAMES_SHOWN];
    const stk_driver_head *driver;
    stk__nearest nearest;

    *out = NULL;
    if (context)
        STK_TRY(stk__context_check(context, err));
    if ((unsigned)kind >= STK_DRIVER_KINDS || !name)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE,
                         "no name of a driver given, or no kind that there is");
    *out = stk__driver_find(context, kind, name, strlen(name));
    if (*out)
        return STK_OK;
    const char *word = stk__drivers_of(kind)->word;
    stk__option_show(shown, name);
    stk__nearest_init(&nearest, name);
    for (size_t i = 0; (driver = stk_driver_at(context, kind, i)); i++)
        stk__nearest_offer_class(&nearest, driver->name);
    if (*stk__nearest_said(&nearest, meant))
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE, "there is no %s '%s'%s", word, shown,
                         meant);
    stk__driver_names(context, kind, ", ", names, sizeof names);
    return stk__fail(err, STK_EINVAL, STK_STAGE_NONE, "there is no %s '%s'; there are %s", word,
                     shown, names);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* A name that can stand in front of "(" and ":", and as a word of an option. */
static bool good_name(const char *name)
{
    if (*name < 'a' || *name > 'z')
        return false;
    for (; *name; name++)
        if (!((*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9') || *name == '_'))
            return false;
    return true;
}

/* Whether a table is what its kind wants. */
static stk_status check_one(const stk_plugin_driver *driver, stk_error *err)
{
    if ((unsigned)driver->kind >= STK_DRIVER_KINDS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE,
                         "there is no kind %d of drivers in stoker %s", (int)driver->kind,
                         stk_version());
    const stk__drivers *drivers = stk__drivers_of(driver->kind);
    STK_TRY(drivers->check(driver->table, err));
    const char *name = ((const stk_driver_head *)driver->table)->name;
    if (!good_name(name))
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE,
                         "'%.64s' is no name of a %s; use a-z, 0-9 and _, a letter first", name,
                         drivers->word);
    return STK_OK;
}

/* Add one; who takes its name is looked up without the lock that stk_driver_at() takes. */
static stk_status add_locked(stk_context *ctx, const stk_plugin_driver *driver, stk_error *err)
{
    const stk_driver_head *table = driver->table, *taken = NULL;
    const stk_driver_kind kind = driver->kind;
    const char *word = stk__drivers_of(kind)->word;

    for (const void *const *row = stk__drivers_of(kind)->builtin; *row && !taken; row++)
        if (strcmp(((const stk_driver_head *)*row)->name, table->name) == 0)
            taken = *row;
    for (size_t i = 0; i < ctx->num_added[kind] && !taken; i++)
        if (strcmp(((const stk_driver_head *)ctx->added[kind][i])->name, table->name) == 0)
            taken = ctx->added[kind][i];
    if (taken)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE,
                         "there is a %s '%s' already; choose another name", word, table->name);
    if (ctx->num_added[kind] == STK_MAX_ADDED)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_NONE,
                         "the %s '%s' is one too many: a context takes STK_MAX_ADDED, %d, of a "
                         "kind",
                         word, table->name, STK_MAX_ADDED);
    ctx->added[kind][ctx->num_added[kind]++] = table;
    return STK_OK;
}

static bool is_loaded_locked(const stk_context *ctx, const stk_plugin *plugin)
{
    for (size_t i = 0; plugin && i < ctx->num_plugins; i++)
        if (ctx->plugins[i] == plugin)
            return true;
    return false;
}

stk_status stk__drivers_add(stk_context *ctx, const stk_plugin *plugin,
                            const stk_plugin_driver *drivers, size_t n, stk_error *err)
{
    size_t before[STK_DRIVER_KINDS];
    stk_status status = STK_OK;

    for (size_t i = 0; i < n; i++)
        STK_TRY(check_one(&drivers[i], err));
    pthread_mutex_lock(&ctx->registry_lock);
    if (is_loaded_locked(ctx, plugin))
        goto out;
    memcpy(before, ctx->num_added, sizeof before);
    if (plugin && ctx->num_plugins == STK_MAX_PLUGINS)
        status = stk__fail(err, STK_ELIMIT, STK_STAGE_NONE,
                           "a context takes STK_MAX_PLUGINS, %d, plug-ins", STK_MAX_PLUGINS);
    for (size_t i = 0; i < n && status == STK_OK; i++)
        status = add_locked(ctx, &drivers[i], err);
    if (status != STK_OK)
        memcpy(ctx->num_added, before, sizeof before);
    else if (plugin)
        ctx->plugins[ctx->num_plugins++] = plugin;
out:
    pthread_mutex_unlock(&ctx->registry_lock);
    return status;
}

stk_status stk_driver_add(stk_context *context, stk_driver_kind kind, const void *table,
                          stk_error *err)
{
    const stk_plugin_driver driver = {kind, table};

    stk_error_init(err);
    if (!context)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE, "no context to add a driver to");
    STK_TRY(stk__context_check(context, err));
    return stk__drivers_add(context, NULL, &driver, 1, err);
}
