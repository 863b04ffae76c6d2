/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little language of layers:
 *
 *     items = [ item { "," item } ]
 *     item  = [ name "=" ] layer [ "(" [ argument { "," argument } ] ")" ]
 *     argument = [ name "=" ] value
 *
 * A value is a text without commas, or with them inside of brackets.
 */
#include <stdio.h>

#include "base/options.h"
#include "nn/nn.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

/* Cut the text at its next top-level comma or end; NULL when brackets do not pair. */
static char *cut(char **text)
{
    char *begin = *text, *c = begin;
    int depth = 0;

    for (; *c && (*c != ',' || depth > 0); c++) {
        depth += *c == '(' || *c == '[';
        depth -= *c == ')' || *c == ']';
        if (depth < 0)
            return NULL;
    }
    if (depth != 0)
        return NULL;
    *text = *c ? c + 1 : c;
    *c = '\0';
    while (is_space(*begin))
        begin++;
    while (c > begin && is_space(c[-1]))
        *--c = '\0';
    return begin;
}

/* "name = rest" -> name, and `*text` becomes the rest; NULL when there is no name. */
static char *take_name(char **text)
{
    char *c = *text, *name = c;

    while (is_word(*c))
        c++;
    char *end = c;
    while (is_space(*c))
        c++;
    if (*c != '=' || end == name)
        return NULL;
    *end = '\0';
    for (c++; is_space(*c);)
        c++;
    *text = c;
    return name;
}

static stk_status refuse(const char *what, const char *at, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];

    stk__option_show(shown, at);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "layers: %s at \"%s\"; a layer is written as \"name=layer(argument, "
                     "argument=value)\"",
                     what, shown);
}

static stk_status take_arguments(char *text, stk__item *out, stk_error *err)
{
    while (*text) {
        const char *shown = text;
        char *value = cut(&text);
        if (!value)
            return refuse("brackets do not pair", shown, err);
        char *name = take_name(&value);
        if (*value == '\0')
            return refuse("a value is missing", name ? name : out->layer, err);
        if (name && stk__option_same(name, strlen(name), "from", 4)) {
            out->from = value;
            continue;
        }
        if (out->count == STK__MAX_LAYER_ARGUMENTS)
            return refuse("too many arguments", value, err);
        out->arguments[out->count].name = name;
        out->arguments[out->count++].value = value;
    }
    return STK_OK;
}

stk_status stk__item_next(char **text, stk__item *out, stk_error *err)
{
    *out = (stk__item){0};
    while (is_space(**text))
        (*text)++;
    if (**text == '\0')
        return STK_EOS;
    const char *shown = *text;
    char *item = cut(text);
    if (!item)
        return refuse("brackets do not pair", shown, err);
    if (*item == '\0')
        return refuse("a layer is missing", *text, err);
    out->name = take_name(&item);
    out->layer = item;
    while (is_word(*item))
        item++;
    char *end = item;
    while (is_space(*item))
        item++;
    char open = *item;
    if (item == out->layer || (open != '\0' && open != '('))
        return refuse("the name of a layer was expected", out->layer, err);
    char *close = item + strlen(item) - 1;
    *end = '\0';
    if (open == '\0')
        return STK_OK;
    if (*close != ')')
        return refuse("\")\" was expected", close, err);
    *close = '\0';
    return take_arguments(item + 1, out, err);
}

/* Word `i` of words parted by spaces; its length, 0 past the last. */
static size_t word_at(const char *words, uint32_t i, const char **word)
{
    for (;; i--) {
        size_t length = strcspn(words, " ");
        *word = words;
        if (i == 0 || length == 0)
            return length;
        words += length;
        words += *words == ' ';
    }
}

stk_status stk__item_options(const stk__item *item, const stk_option_table *table,
                             const char *places, uint32_t full, void *options, stk_error *err)
{
    uint32_t by_place = 0, skip, seen = 0;

    stk_options_init(table, options, table->struct_size);
    for (uint32_t i = 0; i < item->count; i++)
        by_place += item->arguments[i].name == NULL;
    skip = by_place < full ? 1 : 0;
    for (uint32_t i = 0; i < item->count; i++) {
        const char *name = item->arguments[i].name, *word;
        char place[64];
        if (!name) {
            size_t length = word_at(places, seen++ + skip, &word);
            if (length == 0 || length >= sizeof place)
                return stk__fail(
                    err, STK_EINVAL, STK_STAGE_TRAIN,
                    "layer %s takes at most %u arguments by place (%s); give others by "
                    "name",
                    item->layer, seen - 1, places);
            memcpy(place, word, length);
            place[length] = '\0';
            name = place;
        }
        STK_TRY(stk_options_set(table, options, name, item->arguments[i].value, err));
    }
    return STK_OK;
}

stk_status stk__numbers_parse(const char *who, const char *text, int64_t min, int64_t max,
                              int64_t *out, uint32_t capacity, uint32_t *count, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];
    const char *c = text;

    *count = 0;
    while (is_space(*c) || *c == '(' || *c == '[')
        c++;
    while (*c && *c != ')' && *c != ']') {
        double value;
        const char *end;
        if (*count == capacity || !stk__option_number(c, &value, &end) || end == c ||
            value < (double)min || value > (double)max || value != (double)(int64_t)value)
            goto bad;
        out[(*count)++] = (int64_t)value;
        for (c = end; is_space(*c);)
            c++;
        if (*c == ',' || *c == 'x')
            c++;
        else if (*c && *c != ')' && *c != ']')
            goto bad;
        while (is_space(*c))
            c++;
    }
    if (*count > 0)
        return STK_OK;
bad:
    stk__option_show(shown, text);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "%s: \"%s\" is not 1 to %u whole numbers from %lld to %lld", who, shown,
                     capacity, (long long)min, (long long)max);
}

stk_status stk__pair_read(const char *who, const char *what, const char *text, int64_t min,
                          int64_t max, int64_t out[2], stk_error *err)
{
    char name[STK__MAX_NODE_NAME + 32];
    uint32_t count;

    snprintf(name, sizeof name, "layer %s, %s", who, what);
    STK_TRY(stk__numbers_parse(name, text, min, max, out, 2, &count, err));
    if (count == 1)
        out[1] = out[0];
    return STK_OK;
}
