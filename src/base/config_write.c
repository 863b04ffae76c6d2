/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration as YAML that is read as the same one, and the version that wrote it. */
#include <stdio.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/options.h"

#define VERSION_KEY "stoker_version"

/* ---- The version ----------------------------------------------------------------------------- */

/* "1.2.3" as one number that grows with it; false: it is none. */
static bool parse_version(const char *text, uint64_t *out)
{
    *out = 0;
    for (int part = 0; part < 3; part++) {
        uint64_t number = 0;
        int digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 5; digits++)
            number = number * 10 + (uint64_t)(*text++ - '0');
        if (digits == 0 || (part < 2 && *text++ != '.'))
            return false;
        *out = *out << 20 | number;
    }
    return *text == 0;
}

stk_status stk__config_check_version(const stk_config *config, stk_error *err)
{
    stk__entry *entry = stk__config_find(config, VERSION_KEY);
    char where[224], shown[STK_OPTION_SHOWN];
    uint64_t wrote, is;

    if (!entry)
        return STK_OK;
    entry->used = true;
    if (entry->count == 0 || !parse_version(stk_version(), &is))
        return STK_OK;
    const bool known = entry->count == 1 && parse_version(entry->values[0].text, &wrote);
    if (known && wrote <= is)
        return STK_OK;
    stk__place_format(&entry->values[0].place, where, sizeof where);
    stk__option_show(shown, entry->values[0].text);
    return stk__fail_at(
        err, known ? STK_ENOTSUP : STK_EINVAL, STK_STAGE_OPTIONS, VERSION_KEY, STK_NO_OFFSET,
        known ? "%s" VERSION_KEY ": the configuration was written by stoker %s, this is %s, which "
                "may mean other things by it; leave the key out to try"
              : "%s" VERSION_KEY ": '%s' is no version, as %s",
        where, shown, stk_version());
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* A value in the one form that its option has; `options` is room for the table. */
static void put_value(stk__text *out, const stk_option_table *table, const stk_option *option,
                      void *options, const char *text)
{
    char value[128];

    if (option && option->type == STK_OPTION_SECRET && !stk__secret_named(text))
        text = STK__SECRET_SHOWN;
    else if (option && option->type != STK_OPTION_STRING && option->type != STK_OPTION_SECRET &&
             stk_options_set(table, options, option->name, text, NULL) == STK_OK &&
             stk_options_format(option, options, value, sizeof value) < (int)sizeof value)
        text = value;
    stk__text_add_yaml(out, text);
}

static void put_entry(stk__text *out, const stk__entry *entry, const char *name,
                      const stk_option_table *table, void *options)
{
    const stk_option *option = table ? stk_options_find(table, name) : NULL;
    const char *const indent = table && *table->name ? "  " : "";

    stk__text_add(out, "%s%s:", indent, name);
    for (size_t i = 0; i < entry->count; i++) {
        stk__text_add(out, entry->count > 1 ? "\n%s  - " : " ", indent);
        put_value(out, table, option, options, entry->values[i].text);
    }
    stk__text_add(out, "\n");
}

/* The entry of an option, however its key is written; the last one counts, as where it is applied.
 */
static const stk__entry *find_entry(const stk_config *config, const stk_option_table *table,
                                    const char *name)
{
    const size_t length = strlen(table->name), begin = length ? length + 1 : 0;
    const stk__entry *found = NULL;

    for (size_t i = 0; i < config->count; i++) {
        const char *key = config->entries[i].key;
        if (length && (strncmp(key, table->name, length) != 0 || key[length] != '.'))
            continue;
        if (config->entries[i].count && stk_options_find(table, key + begin) &&
            strcmp(stk_options_find(table, key + begin)->name, name) == 0)
            found = &config->entries[i];
    }
    return found;
}

/* What takes the place of a file's dataset, where that was given apart: what is written is a file,
 * and would have it take the place of the one that was given. */
static bool is_idle(const stk_config *config, const stk__entry *entry)
{
    const stk__entry *dataset = stk__config_find(config, "data.dataset");

    return strcmp(entry->key, "data.otherwise") == 0 && dataset && dataset->count &&
           !dataset->values[0].place.source;
}

/* What is set of a table, in its order. */
static stk_status put_table(const stk_config *config, const stk_option_table *table, stk__text *out,
                            stk_error *err)
{
    void *options = stk__calloc(config->context, 1, table->struct_size);
    bool any = false;

    if (!options)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the options of %s",
                         table->name);
    stk_options_init(table, options, table->struct_size);
    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->options[i].name;
        const stk__entry *entry = find_entry(config, table, name);
        if (!entry || is_idle(config, entry))
            continue;
        if (!any && *table->name)
            stk__text_add(out, "%s:\n", table->name);
        any = true;
        put_entry(out, entry, name, table, options);
    }
    stk__free(config->context, options);
    return STK_OK;
}

stk_status stk__config_check_characters(const stk_config *config, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];

    for (size_t i = 0; i < config->count; i++)
        for (size_t k = 0; k < config->entries[i].count; k++) {
            const char *key = config->entries[i].key, *text = config->entries[i].values[k].text;
            if (stk__utf8_valid(text, strlen(text)))
                continue;
            stk__option_show(shown, text);
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                                "%s: '%s' is not UTF-8 text, so that no file can keep it", key,
                                shown);
        }
    return STK_OK;
}

stk_status stk__config_format(const stk_config *config, stk__text *out, stk_error *err)
{
    const stk__entry *plugins = stk__config_find(config, STK__CONFIG_PLUGINS);

    STK_TRY(stk__config_check_characters(config, err));
    stk__text_add(out, VERSION_KEY ": %s\n", stk_version());
    if (plugins && plugins->count)
        put_entry(out, plugins, plugins->key, NULL, NULL);
    /* What has no section comes first: below one it would be of that. */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < config->num_tables; i++)
            if ((*config->tables[i]->name != 0) == (pass == 1))
                STK_TRY(put_table(config, config->tables[i], out, err));
    return out->failed ? stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS,
                                   "no memory for the text of a configuration")
                       : STK_OK;
}

stk_status stk_config_write(const stk_config *config, stk_config_line *line, void *user,
                            stk_error *err)
{
    stk__text text = {.ctx = config->context};

    stk_status status = stk__config_format(config, &text, err);
    for (char *at = text.bytes, *end; status == STK_OK && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        line(user, at);
    }
    stk__text_release(&text);
    return status;
}
