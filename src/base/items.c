/* SPDX-License-Identifier: Apache-2.0 */
#include "base/items.h"

#include <stdio.h>

#include "base/options.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static char *skip_space(char *p)
{
    while (is_space(*p))
        p++;
    return p;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static char closing(char open)
{
    return open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : '\0';
}

static size_t unpaired_at(stk__unpaired *unpaired, const char *what, size_t at)
{
    *unpaired = (stk__unpaired){what, at};
    return SIZE_MAX;
}

size_t stk__part_length(const char *text, size_t length, const char *stops, stk__unpaired *unpaired)
{
    char open[STK__MAX_NESTING], quote = '\0';
    size_t depth = 0, i;

    for (i = 0; i < length; i++) {
        const char c = text[i];
        if (quote) {
            quote = c == quote ? '\0' : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (depth == 0 && c && strchr(stops, c)) {
            return i;
        } else if (closing(c)) {
            if (depth == sizeof open)
                return unpaired_at(unpaired, "brackets nest deeper than 32", i);
            open[depth++] = closing(c);
        } else if (c == ')' || c == ']' || c == '}') {
            if (depth == 0 || open[--depth] != c)
                return unpaired_at(unpaired, "a closing bracket has no opening one", i);
        }
    }
    if (quote || depth)
        return unpaired_at(unpaired, quote ? "a quote is not closed" : "a bracket is not closed",
                           i);
    return i;
}

/* ---- Items ----------------------------------------------------------------------------------- */

typedef struct reading {
    const stk__items_kind *kind;
    stk__items *out;
    const char *begin, *end;
    uint32_t arguments; /* of all items so far */
    stk_error *err;
} reading;

/* Say what is wrong with the text, and where. */
static stk_status refuse(const reading *r, const char *at, const char *what)
{
    const stk__items_kind *kind = r->kind;
    char shown[STK_OPTION_SHOWN], where[STK_OPTION_SHOWN + 64] = "at the end of the text";

    stk__option_show(shown, at);
    if (kind->quiet && at < r->end)
        snprintf(where, sizeof where, "at character %zu", (size_t)(at - r->begin) + 1);
    else if (at < r->end)
        snprintf(where, sizeof where, "at character %zu, before \"%s\"",
                 (size_t)(at - r->begin) + 1, shown);
    return stk__fail_at(r->err, STK_EINVAL, kind->stage, kind->list, STK_NO_OFFSET,
                        "%s: %s %s; a %s is written '%s'", kind->list, what, where, kind->item,
                        kind->form);
}

/* The same, of something that the item's own word is part of. */
static stk_status refuse_item(const reading *r, const char *at, const char *before,
                              const char *after)
{
    char expected[96];

    snprintf(expected, sizeof expected, "%s%s%s", before, r->kind->item, after);
    return refuse(r, at, expected);
}

/* Cut blanks and one pair of quotes off [from, end) and end it. */
static char *finish(char *from, char *end)
{
    while (from < end && is_space(*from))
        from++;
    while (end > from && is_space(end[-1]))
        end--;
    if (end - from >= 2 && (*from == '"' || *from == '\'') && end[-1] == *from) {
        from++;
        end--;
    }
    *end = '\0';
    return from;
}

/* Whether `c` may be part of a name. Labels and classes have points, too; a pattern has anything
 * else that is no blank and has no meaning of its own. */
static bool is_name(char c, bool points, bool pattern)
{
    if (pattern)
        return c && !is_space(c) && !strchr(",()[]{}=\"'", c);
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || (points && c == '.');
}

static bool begins_name(char c, bool pattern)
{
    return is_name(c, false, pattern) && (pattern || (c != '-' && !(c >= '0' && c <= '9')));
}

/* Take "label =" off the text at *at, where one comes. */
static void take_label(stk__item *item, char **at)
{
    char *c = *at;

    while (is_name(*c, true, false))
        c++;
    char *end = c;
    c = skip_space(c);
    if (end == *at || *c != '=')
        return;
    item->label = *at;
    *end = '\0';
    *at = skip_space(c + 1);
}

/* The arguments from after "(" on; *at becomes what follows ")". */
static stk_status take_arguments(reading *r, stk__item *item, char **at)
{
    char *c = skip_space(*at), last = ',';
    stk__unpaired unpaired;

    item->arguments = r->out->arguments + r->arguments;
    if (*c == ')') {
        *at = c + 1;
        return STK_OK;
    }
    while (last == ',') {
        if (item->count == STK__MAX_ARGUMENTS)
            return refuse(r, c, "expected fewer arguments");
        const size_t length = stk__part_length(c, (size_t)(r->end - c), ",)", &unpaired);
        if (length == SIZE_MAX)
            return refuse(r, c + unpaired.at, unpaired.what);
        char *end = c + length;
        if (end == r->end)
            return refuse(r, end, "expected \")\"");
        last = *end;
        const size_t name = stk__part_length(c, length, "=", &unpaired);
        char *value = name < length ? skip_space(c + name + 1) : skip_space(c);
        if (value == end)
            return refuse(r, end, "expected a value");
        if (name < length && skip_space(c) == c + name)
            return refuse(r, c + name, "expected the name of an argument");
        stk__argument *argument = &item->arguments[item->count++];
        argument->name = name < length ? finish(c, c + name) : NULL;
        argument->value = finish(value, end);
        r->arguments++;
        c = end + 1;
    }
    *at = c;
    return STK_OK;
}

/* One item; *at becomes the "," or the end behind it, and *end that of its name, to be ended. */
static stk_status take_item(reading *r, stk__item *item, char **at, char **end)
{
    const stk__items_kind *kind = r->kind;
    char *c = *at;

    *item = (stk__item){.kind = kind, .arguments = r->out->arguments};
    if (kind->labels)
        take_label(item, &c);
    if (*c == '[')
        return refuse(r, c, "leave out the square brackets around the list");
    if (!begins_name(*c, kind->patterns))
        return refuse_item(r, c, "expected the name of a ", "");
    item->name = c;
    while (is_name(*c, kind->classes, kind->patterns))
        c++;
    *end = c;
    c = skip_space(c);
    if (*c == '(') {
        **end = '\0';
        c++;
        STK_TRY(take_arguments(r, item, &c));
        c = skip_space(c);
    }
    *at = c;
    return STK_OK;
}

static stk_status take_items(reading *r, char *c)
{
    for (c = skip_space(c); *c; c = skip_space(c + 1)) {
        char *end = c;

        if (r->out->count == r->kind->most)
            return refuse_item(r, c, "expected fewer ", "s");
        STK_TRY(take_item(r, &r->out->items[r->out->count++], &c, &end));
        const char stop = *c;
        if (stop != '\0' && stop != ',')
            return refuse_item(r, c, "expected \",\" between ", "s");
        *end = '\0';
        if (stop == '\0')
            return STK_OK;
        if (*skip_space(c + 1) == '\0')
            return refuse_item(r, skip_space(c + 1), "expected a ", " after the last \",\"");
    }
    return STK_OK;
}

stk_status stk__items_cut(stk_context *ctx, const stk__items_kind *kind, char *text,
                          stk__items *out, stk_error *err)
{
    reading r = {.kind = kind, .out = out, .err = err};
    size_t parts = 1;
    stk_status status;

    *out = (stk__items){0};
    if (!text)
        return STK_OK;
    for (const char *c = text; *c; c++)
        parts += *c == ',' || *c == '(';
    r.begin = text;
    r.end = text + strlen(text);
    /* No more items than a list may have, and no more of either than the text has parts. */
    out->items = stk__calloc(ctx, STK_MIN(parts, (size_t)kind->most), sizeof *out->items);
    out->arguments = stk__calloc(ctx, parts, sizeof *out->arguments);
    if (!out->items || !out->arguments)
        status = stk__fail(err, STK_ENOMEM, kind->stage, "no memory to read %s", kind->list);
    else
        status = take_items(&r, text);
    if (status != STK_OK)
        stk__items_release(ctx, out);
    return status;
}

stk_status stk__items_parse(stk_context *ctx, const stk__items_kind *kind, const char *text,
                            stk__items *out, stk_error *err)
{
    *out = (stk__items){0};
    if (!text)
        return STK_OK;
    char *copy = stk__strdup(ctx, text);
    if (!copy)
        return stk__fail(err, STK_ENOMEM, kind->stage, "no memory to read %s", kind->list);
    const stk_status status = stk__items_cut(ctx, kind, copy, out, err);
    if (status == STK_OK)
        out->text = copy;
    else
        stk__free(ctx, copy);
    return status;
}

void stk__items_release(stk_context *ctx, stk__items *items)
{
    stk__free(ctx, items->text);
    stk__free(ctx, items->items);
    stk__free(ctx, items->arguments);
    *items = (stk__items){0};
}

/* ---- Arguments -> options -------------------------------------------------------------------- */

/* Word `i` of words parted by spaces, or the name of row `i` of the table. False past the last. */
static bool place_name(const stk_option_table *table, const char *places, uint32_t i,
                       char name[STK_OPTION_NAME])
{
    const char *word = places;
    size_t length;

    if (!places) {
        if (!table || i >= table->count)
            return false;
        snprintf(name, STK_OPTION_NAME, "%s", table->options[i].name);
        return true;
    }
    for (;; i--) {
        length = strcspn(word, " ");
        if (i == 0 || length == 0)
            break;
        word += length;
        word += *word == ' ';
    }
    snprintf(name, STK_OPTION_NAME, "%.*s", (int)length, word);
    return length > 0;
}

/* The name of the option that argument `i` of an item sets. */
static stk_status name_option(const stk__item *item, uint32_t i, const stk_option_table *table,
                              const char *places, char name[STK_OPTION_NAME], stk_error *err)
{
    const stk__argument *argument = &item->arguments[i];
    const stk_stage stage = item->kind->stage;
    char shown[STK_OPTION_SHOWN];

    stk__option_show(shown, argument->value);
    if (argument->name && !table)
        return stk__fail(err, STK_EINVAL, stage, "%s: takes no arguments, not \"%.100s=%s\"",
                         item->name, argument->name, shown);
    if (argument->name)
        return STK_OK;
    if (i > 0 && item->arguments[i - 1].name)
        return stk__fail(err, STK_EINVAL, stage,
                         "%s: \"%s\" has no name but comes after \"%.100s=\": give its name too",
                         item->name, shown, item->arguments[i - 1].name);
    if (place_name(table, places, i, name))
        return STK_OK;
    if (places)
        return stk__fail(err, STK_EINVAL, stage,
                         "%s: takes %u arguments by place (%s); \"%s\" is one more: give its name",
                         item->name, i, *places ? places : "none", shown);
    return stk__fail(err, STK_EINVAL, stage, "%s: takes %u arguments; \"%s\" is one more",
                     item->name, i, shown);
}

stk_status stk__item_options(const stk__item *item, const stk_option_table *table,
                             const char *places, void *options, stk_error *err)
{
    const stk_option *taken[STK__MAX_ARGUMENTS];

    if (table)
        stk_options_init(table, options, table->struct_size);
    for (uint32_t i = 0; i < item->count; i++) {
        const stk__argument *argument = &item->arguments[i];
        char place[STK_OPTION_NAME];

        STK_TRY(name_option(item, i, table, places, place, err));
        const char *name = argument->name ? argument->name : place;
        STK_TRY(stk_options_set(table, options, name, argument->value, err));
        taken[i] = stk_options_find(table, name);
        for (uint32_t k = 0; k < i; k++)
            if (taken[k] == taken[i])
                return stk__fail(err, STK_EINVAL, item->kind->stage, "%s: %s is given twice",
                                 item->name, taken[i]->name);
    }
    return STK_OK;
}
