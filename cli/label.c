/* SPDX-License-Identifier: Apache-2.0 */
/* What tells the settings of a sweep from one another, in few words. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Where a spec may be cut. */
static bool parts_spec(char c)
{
    return strchr("/:?&", c) != NULL;
}

/*
 * What tells the value `text` of a key from its other values: without the parts that all of them
 * begin and end with, "images:a/train?x=1" and "images:b/train?x=1" are "a" and "b". All of it
 * where one of them would be left with nothing.
 */
static void tell_apart(struct cli *cli, const char *key, const char *text, char *out, size_t size)
{
    const size_t n = stk_config_count(cli->config, key);
    size_t front = strlen(text), back = front, least = front;

    for (size_t i = 0; i < n; i++) {
        const char *other = stk_config_get(cli->config, key, i);
        const size_t length = strlen(other);
        size_t same = 0;
        while (same < front && text[same] == other[same])
            same++;
        front = same;
        for (same = 0; same < back && same < length &&
                       text[strlen(text) - 1 - same] == other[length - 1 - same];)
            same++;
        back = same;
        least = length < least ? length : least;
    }
    while (front > 0 && !parts_spec(text[front - 1]))
        front--;
    while (back > 0 && !parts_spec(text[strlen(text) - back]))
        back--;
    if (front + back >= least)
        front = back = 0;
    snprintf(out, size, "%.*s", (int)(strlen(text) - front - back), text + front);
}

static void value_text(struct cli *cli, const stk_option *option, const char *key,
                       const void *options, char *out, size_t size)
{
    const char *text = NULL;

    if (option->type == STK_OPTION_STRING)
        memcpy(&text, (const char *)options + option->offset, sizeof text);
    if (text)
        tell_apart(cli, key, text, out, size);
    else
        stk_options_format(option, options, out, size);
}

static size_t append(char *text, size_t size, size_t used, const char *name, const char *value)
{
    int length = snprintf(text + used, size - used, "%s%s=%s", used ? " " : "", name, value);

    return length < 0 || (size_t)length >= size - used ? size - 1 : used + (size_t)length;
}

/* Whether an option has several values in the configuration; its key. */
static bool varies(struct cli *cli, const stk_option_table *table, const stk_option *option,
                   char *key, size_t size)
{
    snprintf(key, size, "%s%s%s", table->name, *table->name ? "." : "", option->name);
    return stk_config_count(cli->config, key) > 1;
}

size_t cli_label(struct cli *cli, const stk_option_table *table, const void *options, char *text,
                 size_t size, size_t used)
{
    void *scratch = options ? NULL : malloc(table->struct_size);
    char key[192], value[128];

    if (scratch && cli_apply(cli, table, cli->which, scratch) == CLI_GO_ON)
        options = scratch;
    for (size_t i = 0; options && i < table->count; i++) {
        const stk_option *option = &table->options[i];
        if (!varies(cli, table, option, key, sizeof key) || used >= size)
            continue;
        value_text(cli, option, key, options, value, sizeof value);
        used = append(text, size, used, option->name, value);
    }
    free(scratch);
    return used;
}

/* The options of one table for cli_changed(). */
static size_t add_changed(struct cli *cli, const stk_option_table *table, uint64_t before,
                          uint64_t which, char *text, size_t size, size_t used)
{
    void *then = malloc(table->struct_size), *now = malloc(table->struct_size);
    char key[192], old[128], value[128];

    bool good = then && now && cli_apply(cli, table, before, then) == CLI_GO_ON &&
                cli_apply(cli, table, which, now) == CLI_GO_ON;
    for (size_t i = 0; good && i < table->count; i++) {
        const stk_option *option = &table->options[i];
        if (!varies(cli, table, option, key, sizeof key))
            continue;
        value_text(cli, option, key, then, old, sizeof old);
        value_text(cli, option, key, now, value, sizeof value);
        if (strcmp(old, value) != 0)
            used = append(text, size, used, option->name, value);
    }
    free(then);
    free(now);
    return used;
}

void cli_changed(struct cli *cli, uint64_t before, uint64_t which, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (size_t i = 0; cli->tables[i]; i++)
        used = add_changed(cli, cli->tables[i], before, which, text, size, used);
}
