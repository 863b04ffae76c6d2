/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little language of transforms:
 *
 *     calls  = [ call { "," call } ]
 *     call   = name [ "(" [ argument { "," argument } ] ")" ]
 *     argument = [ name "=" ] value
 *
 * A value is any text; brackets in it nest, and quotes hide what is between them.
 */
#include "transform/arguments.h"

#include <math.h>
#include <stdio.h>

#include "base/options.h"
#include "transform/picture.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && ((c >= '0' && c <= '9') || c == '-'));
}

static char *skip_space(char *p)
{
    while (is_space(*p))
        p++;
    return p;
}

typedef struct parser {
    const char *what;
    stk__calls *calls;
    stk_error *err;
} parser;

static stk_status refuse(const parser *p, const char *at, const char *expected)
{
    char shown[STK_OPTION_SHOWN];

    stk__option_show(shown, at);
    if (*at == '\0')
        return stk__fail(p->err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: expected %s, but the text ends", p->what, expected);
    return stk__fail(p->err, STK_EINVAL, STK_STAGE_TRANSFORM,
                     "%s: expected %s at character %zu, before \"%s\"", p->what, expected,
                     (size_t)(at - p->calls->text) + 1, shown);
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

/* Go to the ',' or ')' that ends the argument at `at`; *equals is the '=' that parts name and
 * value, or NULL. */
static stk_status scan_argument(const parser *p, char *at, char **end, char **equals)
{
    char open[STK__MAX_ARGUMENTS], quote = '\0', *c = at;
    uint32_t depth = 0;

    *equals = NULL;
    for (; *c; c++) {
        if (quote) {
            if (*c == quote)
                quote = '\0';
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
        } else if (*c == '(' || *c == '[' || *c == '{') {
            if (depth == sizeof open)
                return refuse(p, c, "fewer nested brackets");
            open[depth++] = *c == '(' ? ')' : *c == '[' ? ']' : '}';
        } else if (depth == 0 && (*c == ',' || *c == ')')) {
            *end = c;
            return STK_OK;
        } else if (*c == ')' || *c == ']' || *c == '}') {
            if (depth == 0 || open[--depth] != *c)
                return refuse(p, c, "brackets in pairs");
        } else if (*c == '=' && depth == 0 && !*equals) {
            *equals = c;
        }
    }
    return refuse(p, c, quote ? "the quote that ends a value" : "\")\"");
}

/* The arguments from after "(" on; *at becomes what follows ")". */
static stk_status parse_arguments(const parser *p, stk__call *call, char **at)
{
    char *c = skip_space(*at), last = ',';

    call->first = p->calls->num_arguments;
    if (*c == ')') {
        *at = c + 1;
        return STK_OK;
    }
    while (last == ',') {
        stk__argument *argument = &p->calls->arguments[p->calls->num_arguments];
        char *end = NULL, *equals = NULL;

        if (call->count == STK__MAX_ARGUMENTS)
            return refuse(p, c, "fewer arguments");
        STK_TRY(scan_argument(p, c, &end, &equals));
        last = *end;
        if (skip_space(c) == end || (equals && skip_space(equals + 1) == end))
            return refuse(p, end, "a value");
        argument->name = equals ? finish(c, equals) : NULL;
        argument->value = finish(equals ? equals + 1 : c, end);
        call->count++;
        p->calls->num_arguments++;
        c = end + 1;
    }
    *at = c;
    return STK_OK;
}

static stk_status parse_calls(const parser *p, char *c)
{
    stk__calls *calls = p->calls;

    for (c = skip_space(c); *c; c = skip_space(c + 1)) {
        if (calls->num_calls == STK__MAX_CALLS)
            return refuse(p, c, "fewer transforms");
        if (!is_name(*c, true))
            return refuse(p, c, "the name of a transform");
        stk__call *call = &calls->calls[calls->num_calls++];
        call->name = c;
        while (is_name(*c, false))
            c++;
        char *end = c;
        c = skip_space(c);
        if (*c == '(') {
            *end = '\0';
            c++;
            STK_TRY(parse_arguments(p, call, &c));
            c = skip_space(c);
        }
        if (*c != '\0' && *c != ',')
            return refuse(p, c, "\",\" between transforms");
        char stop = *c;
        *end = '\0';
        if (stop == '\0')
            return STK_OK;
        if (*skip_space(c + 1) == '\0')
            return refuse(p, skip_space(c + 1), "a transform after the last \",\"");
    }
    return STK_OK;
}

stk_status stk__calls_parse(stk_context *ctx, const char *what, const char *text, stk__calls *out,
                            stk_error *err)
{
    const parser p = {.what = what, .calls = out, .err = err};
    size_t commas = 1;
    stk_status status = STK_OK;

    *out = (stk__calls){0};
    if (!text)
        return STK_OK;
    for (const char *c = text; *c; c++)
        commas += *c == ',' || *c == '(';
    out->text = stk__strdup(ctx, text);
    out->calls = stk__calloc(ctx, STK__MAX_CALLS, sizeof *out->calls);
    out->arguments = stk__calloc(ctx, commas, sizeof *out->arguments);
    if (!out->text || !out->calls || !out->arguments)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRANSFORM, "no memory to read %s", what);
    else
        status = parse_calls(&p, out->text);
    if (status != STK_OK)
        stk__calls_release(ctx, out);
    return status;
}

void stk__calls_release(stk_context *ctx, stk__calls *calls)
{
    stk__free(ctx, calls->text);
    stk__free(ctx, calls->calls);
    stk__free(ctx, calls->arguments);
    *calls = (stk__calls){0};
}

/* The option that argument `i` of a call sets. */
static stk_status find_option(const stk__call *call, const stk__argument *arguments, uint32_t i,
                              const stk_option_table *table, const char **out, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];
    size_t count = table ? table->count : 0;

    stk__option_show(shown, arguments[i].value);
    if (arguments[i].name) {
        if (!table)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "%s: takes no arguments, not \"%s=%s\"", call->name, arguments[i].name,
                             shown);
        *out = arguments[i].name;
        return STK_OK;
    }
    if (i > 0 && arguments[i - 1].name)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: \"%s\" has no name but comes after \"%s=\": give its name too",
                         call->name, shown, arguments[i - 1].name);
    if (i >= count)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: takes %zu arguments; \"%s\" is one more", call->name, count, shown);
    *out = table->options[i].name;
    return STK_OK;
}

stk_status stk__call_options(const stk__calls *calls, const stk__call *call,
                             const stk_option_table *table, void *options, stk_error *err)
{
    const stk__argument *arguments = calls->arguments + call->first;
    const stk_option *taken[STK__MAX_ARGUMENTS];

    if (table)
        stk_options_init(table, options, table->struct_size);
    for (uint32_t i = 0; i < call->count; i++) {
        const char *name = NULL;

        STK_TRY(find_option(call, arguments, i, table, &name, err));
        STK_TRY(stk_options_set(table, options, name, arguments[i].value, err));
        taken[i] = stk_options_find(table, name);
        for (uint32_t k = 0; k < i; k++)
            if (taken[k] == taken[i])
                return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM, "%s: %s is given twice",
                                 call->name, taken[i]->name);
    }
    return STK_OK;
}

/* ---- Lists of numbers
 * ---------------------------------------------------------------------------------------- */

static stk_status refuse_numbers(const stk__numbers *n, const char *why, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];

    stk__option_show(shown, n->text);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM, "%s: %s \"%s\" %s", n->who, n->argument,
                     shown, why);
}

static stk_status check_number(const stk__numbers *n, double value, stk_error *err)
{
    char why[96];

    if (n->whole && floor(value) != value)
        return refuse_numbers(n, "is to be of integers", err);
    if (value >= n->min && value <= n->max)
        return STK_OK;
    snprintf(why, sizeof why, "is out of range: %g..%g", n->min, n->max);
    return refuse_numbers(n, why, err);
}

stk_status stk__numbers_read(const stk__numbers *n, double *out, uint32_t capacity, uint32_t *count,
                             stk_error *err)
{
    const char *p = n->text;
    char close = '\0';

    *count = 0;
    while (is_space(*p))
        p++;
    if (*p == '[' || *p == '(')
        close = *p++ == '[' ? ']' : ')';
    for (;;) {
        double value;

        while (is_space(*p))
            p++;
        if (!stk__option_number(p, &value, &p))
            return refuse_numbers(n,
                                  n->by_x ? "is no size: give \"32\" or \"32x32\""
                                          : "is no number or list of numbers",
                                  err);
        STK_TRY(check_number(n, value, err));
        if (*count == capacity)
            return refuse_numbers(n, "has too many numbers", err);
        if (out)
            out[*count] = value;
        ++*count;
        while (is_space(*p))
            p++;
        if (*p != ',' && !(n->by_x && *p == 'x'))
            break;
        p++;
    }
    if (close && *p++ != close)
        return refuse_numbers(n, "lacks the bracket that ends it", err);
    while (is_space(*p))
        p++;
    return *p ? refuse_numbers(n, "has something after its numbers", err) : STK_OK;
}

stk_status stk__size_read(const char *who, const char *text, const char *example, int64_t *height,
                          int64_t *width, stk_error *err)
{
    const stk__numbers size = {.who = who,
                               .argument = "size",
                               .text = text,
                               .min = 1,
                               .max = (double)STK__MAX_SIDE,
                               .whole = true,
                               .by_x = true};
    double sides[2];
    uint32_t count;

    if (!text)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: size is missing: say how many pixels stay, as in %s(%s)", who, who,
                         example);
    STK_TRY(stk__numbers_read(&size, sides, 2, &count, err));
    *height = (int64_t)sides[0];
    *width = (int64_t)sides[count - 1];
    return STK_OK;
}

bool stk__padding_any(const stk__padding *padding)
{
    return padding->left || padding->top || padding->right || padding->bottom;
}

stk_status stk__padding_read(const char *who, const char *text, stk__padding *out, stk_error *err)
{
    const stk__numbers numbers = {
        .who = who, .argument = "padding", .text = text, .max = STK__MAX_PADDING, .whole = true};
    double v[4] = {0};
    uint32_t count = 0;

    *out = (stk__padding){0};
    if (!text)
        return STK_OK;
    STK_TRY(stk__numbers_read(&numbers, v, 4, &count, err));
    if (count == 3)
        return refuse_numbers(&numbers,
                              "has 3 numbers: give 1, 2 (left and right, top and bottom) or 4 "
                              "(left, top, right, bottom)",
                              err);
    int64_t left = (int64_t)v[0], top = (int64_t)v[count == 1 ? 0 : 1];
    *out = (stk__padding){.left = left, .top = top, .right = left, .bottom = top};
    if (count == 4) {
        out->right = (int64_t)v[2];
        out->bottom = (int64_t)v[3];
    }
    return STK_OK;
}
