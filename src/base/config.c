/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: keys in the order given, with every text and the place it came from. */
#include "base/config.h"

#include <stdio.h>

#include "base/items.h"
#include "base/options.h"

#define MAX_MERGED 1024 /* bytes of a value that is no string, with its end */

stk_status stk_config_create(stk_context *context, stk_config **out, stk_error *err)
{
    *out = NULL;
    stk_config *config = stk__calloc(context, 1, sizeof *config);
    if (!config)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for a configuration");
    config->context = stk__context_ref(context);
    *out = config;
    return STK_OK;
}

void stk_config_destroy(stk_config **config)
{
    if (!config || !*config)
        return;
    stk_config *c = *config;
    stk_context *context = c->context;
    while (c->blocks) {
        stk__config_block *next = c->blocks->next;
        stk__free(context, c->blocks);
        c->blocks = next;
    }
    stk__free(context, c->entries);
    stk__free(context, c->tables);
    stk__free(context, c);
    stk__context_unref(context);
    *config = NULL;
}

/* ---- Keeping --------------------------------------------------------------------------------- */

static void *allocate(stk_config *config, size_t size)
{
    uint64_t total;

    if (!stk__add_size(sizeof(stk__config_block), size, &total))
        return NULL;
    stk__config_block *block = stk__alloc(config->context, total);
    if (!block)
        return NULL;
    block->next = config->blocks;
    config->blocks = block;
    return block + 1;
}

char *stk__config_copy(stk_config *config, const char *text, size_t length)
{
    char *copy = allocate(config, length + 1);

    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

stk__entry *stk__config_find(const stk_config *config, const char *key)
{
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->entries[i].key, key) == 0)
            return &config->entries[i];
    return NULL;
}

const char *stk__config_join(char *path, size_t prefix, const char *key, size_t length)
{
    if (length == 0)
        return "a key is empty";
    size_t start = prefix ? prefix + 1 : 0;
    if (start + length + 1 > STK_CONFIG_MAX_KEY)
        return "a key is longer than 255 bytes";
    if (prefix)
        path[prefix] = '.';
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)key[i];
        if (c < 0x20 || c == 0x7f)
            return "a key has a control character in it";
        path[start + i] = c == '-' ? '_' : (char)c;
    }
    path[start + length] = 0;
    if (key[0] == '.' || key[length - 1] == '.' || strstr(path, ".."))
        return "a key has an empty part around a '.'";
    return NULL;
}

/* Values that are classes, in the words of names here. False: no memory. */
static bool name_classes(stk_config *config, const char *key, stk__config_value *values,
                         size_t count)
{
    char word[64];

    for (size_t i = 0; i < count; i++)
        if (stk__class_word(key, values[i].text, word, sizeof word)) {
            values[i].text = stk__config_copy(config, word, strlen(word));
            if (!values[i].text)
                return false;
        }
    return true;
}

/* Loggers that were given as classes of trainer.logger give way where that is set again. */
static void drop_loggers(stk_config *config, const stk__entry *logger)
{
    stk__entry *loggers = stk__config_find(config, STK__CONFIG_LOGGERS);

    if (!logger || logger->count || strcmp(logger->key, STK__CONFIG_LOGGER) != 0 || !loggers)
        return;
    if (logger->load == loggers->load && logger->place.line == loggers->place.line &&
        logger->place.column == loggers->place.column)
        loggers->count = 0;
}

stk_status stk__config_put(stk_config *config, const char *key, const stk__config_place *place,
                           const stk__config_value *values, size_t count, uint64_t load,
                           stk_error *err)
{
    stk__entry *entry = stk__config_find(config, key);
    stk__config_value *kept = NULL;

    if (!entry && config->count == STK_CONFIG_MAX_KEYS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_OPTIONS, "%s: more than %d keys", key,
                         STK_CONFIG_MAX_KEYS);
    if (count) {
        kept = allocate(config, count * sizeof *kept);
        if (!kept)
            goto no_memory;
        memcpy(kept, values, count * sizeof *kept);
        if (!name_classes(config, key, kept, count))
            goto no_memory;
    }
    if (!entry) {
        const char *name = stk__config_copy(config, key, strlen(key));
        stk__entry *entries = stk__grow(config->context, config->entries, &config->capacity,
                                        config->count + 1, sizeof *entries);
        if (entries)
            config->entries = entries;
        if (!name || !entries)
            goto no_memory;
        entry = &config->entries[config->count++];
        *entry = (stk__entry){.key = name};
    }
    drop_loggers(config, entry);
    entry->place = *place;
    entry->values = kept;
    entry->count = count;
    entry->load = load;
    return STK_OK;

no_memory:
    return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the key %s", key);
}

void stk__place_format(const stk__config_place *place, char *text, size_t size)
{
    char source[160];

    *text = 0;
    if (!place->source)
        return;
    stk__copy_tail(source, sizeof source, place->source);
    if (place->line)
        snprintf(text, size, "%s:%zu:%zu: ", source, place->line, place->column);
    else
        snprintf(text, size, "%s: ", source);
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Part of a text. */
typedef struct part {
    const char *text;
    size_t length;
} part;

static part trimmed(const char *text, size_t length)
{
    while (length && (*text == ' ' || *text == '\t'))
        text++, length--;
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    return (part){text, length};
}

/* "[0,1,2]" is the same as "0,1,2", as in YAML. "[a],[b]" is two parts: the inside does not match
 * by itself. */
static part unlisted(part p)
{
    stk__unpaired unpaired;

    if (p.length < 2 || p.text[0] != '[' || p.text[p.length - 1] != ']')
        return p;
    const part inner = {p.text + 1, p.length - 2};
    for (part rest = inner;;) {
        size_t length = stk__part_length(rest.text, rest.length, ",", &unpaired);
        if (length == SIZE_MAX)
            return p;
        if (length >= rest.length)
            return inner;
        rest = (part){rest.text + length + 1, rest.length - length - 1};
    }
}

/* Quotes around the whole of a value are not of its text. */
static part unquoted(part p)
{
    if (p.length < 2 || (p.text[0] != '"' && p.text[0] != '\'') ||
        p.text[p.length - 1] != p.text[0])
        return p;
    if (memchr(p.text + 1, p.text[0], p.length - 2))
        return p;
    return (part){p.text + 1, p.length - 2};
}

static stk_status fail_key(const char *key, stk_status status, const char *what, const char *text,
                           stk_error *err)
{
    char shown[STK_OPTION_SHOWN];

    stk__option_show(shown, text);
    return stk__fail_at(err, status, STK_STAGE_OPTIONS, key, STK_NO_OFFSET, "%.100s: '%s': %s", key,
                        shown, what);
}

/* Cut `text` at its commas. `values` has room for `room`; the number of values goes to *count. */
static stk_status split(stk_config *config, const char *key, const char *text,
                        stk__config_value *values, size_t room, size_t *count, stk_error *err)
{
    part rest = trimmed(text, strlen(text));
    stk__unpaired unpaired;

    rest = unlisted(rest);
    for (*count = 0; *count < room;) {
        size_t length = stk__part_length(rest.text, rest.length, ",", &unpaired);
        if (length == SIZE_MAX)
            return fail_key(key, STK_EINVAL, unpaired.what, text, err);
        part value = trimmed(rest.text, length);
        if (value.length == 0 && (*count || length < rest.length))
            return fail_key(key, STK_EINVAL, "a value between the commas is empty", text, err);
        value = unquoted(value);
        char *copy = stk__config_copy(config, value.text, value.length);
        if (!copy)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the key %s", key);
        values[(*count)++] = (stk__config_value){.text = copy};
        if (length >= rest.length)
            break;
        rest = (part){rest.text + length + 1, rest.length - length - 1};
    }
    return STK_OK;
}

stk_status stk_config_set(stk_config *config, const char *key, const char *text, bool sweep,
                          stk_error *err)
{
    const stk__config_place nowhere = {0};
    char path[STK_CONFIG_MAX_KEY];
    size_t room = 1, count = 1;

    const char *what = stk__config_join(path, 0, key, strlen(key));
    if (what)
        return fail_key(key, STK_EINVAL, what, text, err);
    if (strlen(text) > STK_CONFIG_MAX_FILE)
        return fail_key(key, STK_ELIMIT, "longer than 4 MiB", text, err);
    const bool list = stk__config_is_list(path), several = sweep || list;
    for (const char *p = text; several && *p; p++)
        room += *p == ',';
    if (room > STK_CONFIG_MAX_VALUES)
        return fail_key(key, STK_ELIMIT, "more than 65536 values", text, err);
    stk__config_value *values = stk__calloc(config->context, room, sizeof *values);
    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the key %s", path);
    stk_status status = STK_OK;
    if (several) {
        status = split(config, path, text, values, room, &count, err);
    } else {
        values[0].text = stk__config_copy(config, text, strlen(text));
        if (!values[0].text)
            status =
                stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the key %s", path);
    }
    if (status == STK_OK && list)
        status = stk__config_put_list(config, path, &nowhere, values, count, 0, err);
    else if (status == STK_OK)
        status = stk__config_put(config, path, &nowhere, values, count, 0, err);
    stk__free(config->context, values);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

/* The entry of a key as a caller may write it. */
static stk__entry *find_key(const stk_config *config, const char *key)
{
    char path[STK_CONFIG_MAX_KEY];

    return stk__config_join(path, 0, key, strlen(key)) ? NULL : stk__config_find(config, path);
}

size_t stk_config_count(const stk_config *config, const char *key)
{
    const stk__entry *entry = find_key(config, key);

    return entry ? entry->count : 0;
}

const char *stk_config_get(const stk_config *config, const char *key, size_t i)
{
    stk__entry *entry = find_key(config, key);

    if (!entry || i >= entry->count)
        return NULL;
    entry->used = true;
    return entry->values[i].text;
}

size_t stk__config_choices(const stk__entry *entry)
{
    return strcmp(entry->key, STK__CONFIG_PLUGINS) ? STK_MAX((size_t)1, entry->count) : 1;
}

/* UINT64_MAX where the product is larger than that. */
uint64_t stk_config_combinations(const stk_config *config)
{
    uint64_t product = 1;

    for (size_t i = 0; i < config->count; i++)
        if (!stk__mul_size(product, stk__config_choices(&config->entries[i]), &product))
            return UINT64_MAX;
    return product;
}

uint64_t stk__config_rungs(const stk_config *config)
{
    uint64_t rungs = 1;

    for (size_t i = 0; i < config->count; i++)
        rungs += stk__config_choices(&config->entries[i]) - 1;
    return rungs;
}

uint64_t stk__config_rung(const stk_config *config, uint64_t rung)
{
    uint64_t which = 0;

    for (size_t i = 0; i < config->count; i++) {
        const uint64_t values = stk__config_choices(&config->entries[i]),
                       value = STK_MIN(rung, values - 1);
        rung -= value;
        which = which * values + value;
    }
    return which;
}

stk_status stk__config_no_secrets(const stk_config *config, stk_error *err)
{
    for (size_t i = 0; i < config->count; i++)
        for (size_t k = 0; k < config->entries[i].count; k++)
            STK_TRY(stk__secret_refuse(config->entries[i].values[k].text, err));
    return STK_OK;
}

/* Which value entry `which_entry` has in a combination: the last key varies fastest. */
static size_t choice_of(const stk_config *config, size_t which_entry, uint64_t which)
{
    for (size_t i = config->count; i-- > which_entry + 1;)
        which /= stk__config_choices(&config->entries[i]);
    return (size_t)(which % stk__config_choices(&config->entries[which_entry]));
}

/* Put the place in front of a message. */
static stk_status fail_placed(const stk__config_place *place, stk_error *err)
{
    char where[224], text[STK_ERROR_TEXT], key[STK_ERROR_KEY];

    if (!err)
        return STK_EINVAL;
    stk__place_format(place, where, sizeof where);
    memcpy(text, err->text, sizeof text);
    memcpy(key, err->key, sizeof key);
    return stk__fail_at(err, err->status, STK_STAGE_OPTIONS, key, STK_NO_OFFSET, "%s%s", where,
                        text);
}

static stk_status remember_table(stk_config *config, const stk_option_table *table, stk_error *err)
{
    for (size_t i = 0; i < config->num_tables; i++)
        if (config->tables[i] == table)
            return STK_OK;
    const stk_option_table **tables =
        stk__grow(config->context, config->tables, &config->tables_capacity, config->num_tables + 1,
                  sizeof *tables);
    if (!tables)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the table %s",
                         table->name);
    config->tables = tables;
    config->tables[config->num_tables++] = table;
    return STK_OK;
}

/* The option's name in a key of the table's section; NULL when the key is another's (a section in
 * it, too). */
static const char *name_below(const stk_option_table *table, const char *key)
{
    size_t length = strlen(table->name);

    if (length) {
        if (strncmp(key, table->name, length) != 0 || key[length] != '.')
            return NULL;
        key += length + 1;
    }
    return strchr(key, '.') ? NULL : key;
}

/* What is not given, as in a file that LightningCLI saved. */
static bool is_foreign_null(const stk__entry *entry)
{
    const char *refused;

    return entry->count == 0 && stk__foreign_key(entry->key, NULL, &refused);
}

stk_status stk_config_apply(stk_config *config, const stk_option_table *table, uint64_t which,
                            void *options, stk_error *err)
{
    if (which >= stk_config_combinations(config))
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_OPTIONS, "combination %llu of a configuration that has %llu",
            (unsigned long long)which, (unsigned long long)stk_config_combinations(config));
    STK_TRY(remember_table(config, table, err));
    for (size_t i = 0; i < config->count; i++) {
        stk__entry *entry = &config->entries[i];
        const char *name = name_below(table, entry->key);
        /* At the top, what is no option of this table may be another's: stk_config_finish() looks.
         */
        if (!name || (!*table->name && !stk_options_find(table, name)))
            continue;
        entry->used = true;
        if (!stk_options_find(table, name) && !is_foreign_null(entry)) {
            stk_status status = stk_options_set(table, options, name, "", err);
            return err ? fail_placed(&entry->place, err) : status;
        }
        /* All values are tried, so that the last setting of a sweep does not fail after hours; the
         * chosen one stays. */
        for (size_t j = 0; j <= entry->count && entry->count; j++) {
            const stk__config_value *value =
                &entry->values[j < entry->count ? j : choice_of(config, i, which)];
            stk_status status = stk_options_set(table, options, name, value->text, err);
            if (status != STK_OK)
                return err ? fail_placed(&value->place, err) : status;
        }
    }
    return STK_OK;
}

static stk_status merge(stk_config *into, const stk_config *from, const stk_option_table *table,
                        const void *options, stk_error *err)
{
    char key[STK_CONFIG_MAX_KEY], text[MAX_MERGED];
    const char *string;

    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i];
        snprintf(key, sizeof key, "%s%s%s", table->name, *table->name ? "." : "", option->name);
        if (stk_config_count(from, key) == 0)
            continue;
        /* A string as it is, without the quotes of a form to be read. */
        if (option->type == STK_OPTION_STRING) {
            memcpy(&string, (const char *)options + option->offset, sizeof string);
        } else {
            stk_options_format(option, options, text, sizeof text);
            string = text;
        }
        STK_TRY(stk_config_set(into, key, string ? string : "", false, err));
    }
    return STK_OK;
}

stk_status stk_config_merge(stk_config *into, stk_config *from, const stk_option_table *table,
                            uint64_t which, const void *options, stk_error *err)
{
    if (options)
        return merge(into, from, table, options, err);
    void *chosen = stk__alloc(into->context, table->struct_size);
    if (!chosen)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the options of %s",
                         table->name);
    stk_options_init(table, chosen, table->struct_size);
    stk_status status = stk_config_apply(from, table, which, chosen, err);
    if (status == STK_OK)
        status = merge(into, from, table, chosen, err);
    stk__free(into->context, chosen);
    return status;
}

/* The option most like a key: of any section where the option's name is right, else by edit
 * distance. */
static void find_nearest(const stk_config *config, const char *key, stk__nearest *nearest)
{
    const char *dot = strrchr(key, '.'), *last = dot ? dot + 1 : key;
    char name[STK_CONFIG_MAX_KEY];

    stk__nearest_init(nearest, key);
    for (size_t t = 0; t < config->num_tables; t++) {
        const stk_option_table *table = config->tables[t];
        for (size_t i = 0; i < table->count; i++) {
            snprintf(name, sizeof name, "%s%s%s", table->name, *table->name ? "." : "",
                     table->options[i].name);
            stk__nearest_offer(nearest, name);
            if (nearest->distance && strcmp(last, table->options[i].name) == 0) {
                snprintf(nearest->found, sizeof nearest->found, "%.127s", name);
                nearest->distance = 0;
            }
        }
    }
}

/* A section without keys gives nothing, whoever has it. */
static bool is_section(const stk_config *config, const stk__entry *entry,
                       const stk__nearest *nearest)
{
    for (size_t i = 0; i < config->num_tables; i++)
        if (strcmp(config->tables[i]->name, entry->key) == 0)
            return true;
    return !strchr(entry->key, '.') && !*nearest->found;
}

stk_status stk_config_finish(const stk_config *config, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], where[224];
    stk__nearest nearest;

    for (size_t i = 0; i < config->count; i++) {
        const stk__entry *entry = &config->entries[i];
        if (entry->used || is_foreign_null(entry))
            continue;
        find_nearest(config, entry->key, &nearest);
        if (!entry->count && is_section(config, entry, &nearest))
            continue;
        stk__option_show(shown, entry->key);
        stk__place_format(&entry->place, where, sizeof where);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, entry->key, STK_NO_OFFSET,
                            "%sunknown key '%s'%s%s%s", where, shown,
                            *nearest.found ? "; did you mean '" : "", nearest.found,
                            *nearest.found ? "'?" : ", and none is like it");
    }
    return STK_OK;
}
