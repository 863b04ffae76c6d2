/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lines.h"

#include <stdio.h>

#include "base/digits.h"

/* ---- Words ---- */

bool stk__take(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

bool stk__take_uint(const char **at, uint64_t *out)
{
    const char *c = *at;
    uint64_t value = 0;

    if (*c < '0' || *c > '9' || (*c == '0' && c[1] >= '0' && c[1] <= '9'))
        return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if (!stk__mul_size(value, 10, &value) ||
            !stk__add_size(value, (uint64_t)(*c - '0'), &value))
            return false;
    *out = value;
    *at = c;
    return true;
}

bool stk__take_int(const char **at, int64_t *out)
{
    const char *c = *at;
    uint64_t value;

    const bool negative = stk__take(&c, '-');
    if (!stk__take_uint(&c, &value) || value > (uint64_t)INT64_MAX + negative ||
        (negative && value == 0))
        return false;
    *out = negative ? -(int64_t)(value - 1) - 1 : (int64_t)value;
    *at = c;
    return true;
}

bool stk__take_double(const char **at, double *out)
{
    uint64_t bits;

    if (!stk__hex_number(*at, 16, &bits))
        return false;
    memcpy(out, &bits, sizeof bits);
    *at += 16;
    return true;
}

/* ---- Lines ---- */

static stk_status refuse(const char *what, const char *line, const char *why, stk_error *err)
{
    char shown[48];

    snprintf(shown, sizeof shown, "%s", line);
    return stk__fail(err, STK_EFORMAT, STK_STAGE_OPTIONS, "%s cannot be read: %s at \"%s\"", what,
                     why, shown);
}

static bool take_words(const char **at, const stk__line *line)
{
    uint64_t *to = line->to, ignored;

    for (uint64_t i = 0; i < line->most; i++) {
        uint64_t *n = to ? &to[i] : &ignored;
        if ((i && !stk__take(at, ' ')) || !stk__take_uint(at, n) || *n > STK__MOST_COUNTED)
            return false;
    }
    return true;
}

/* Whether the value is one of the kind; then it is where it goes. */
static bool take_value(const char *value, const stk__line *line)
{
    uint64_t n;
    double x;

    switch (line->kind) {
    case STK__LINE_UINT:
        if (!stk__take_uint(&value, &n) || *value ||
            n > (line->most ? line->most : STK__MOST_COUNTED))
            return false;
        if (line->to)
            memcpy(line->to, &n, sizeof n);
        return true;
    case STK__LINE_DOUBLE:
        if (!stk__take_double(&value, &x) || *value)
            return false;
        if (line->to)
            memcpy(line->to, &x, sizeof x);
        return true;
    case STK__LINE_WORDS:
        return take_words(&value, line) && !*value;
    default:
        return true;
    }
}

static stk_status set_text(stk_context *ctx, const char *value, char **to, stk_error *err)
{
    char *copy = stk__strdup(ctx, value);

    if (!copy)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for a state");
    stk__free(ctx, *to);
    *to = copy;
    return STK_OK;
}

/* One line, without its end. */
static stk_status read_line(stk_context *ctx, const char *what, char *text, const stk__line *lines,
                            size_t n, bool *seen, stk_error *err)
{
    char *value = strchr(text, ' ');
    size_t i = 0;

    if (!value)
        return refuse(what, text, "no key and value", err);
    *value = 0;
    while (i < n && strcmp(lines[i].key, text) != 0)
        i++;
    *value++ = ' ';
    if (i == n)
        return refuse(what, text, "an unknown line", err);
    if (seen[i] && lines[i].kind != STK__LINE_EACH)
        return refuse(what, text, "a second line of one key", err);
    seen[i] = true;
    if (lines[i].kind == STK__LINE_EACH)
        return lines[i].each(lines[i].to, value, err);
    if (!take_value(value, &lines[i]))
        return refuse(what, text, "a value that is none", err);
    return lines[i].kind == STK__LINE_TEXT && lines[i].to ? set_text(ctx, value, lines[i].to, err)
                                                          : STK_OK;
}

stk_status stk__lines_read(stk_context *ctx, const char *what, const char *text,
                           const stk__line *lines, size_t n, stk_error *err)
{
    bool seen[STK__MAX_LINES] = {false};
    stk_status status = STK_OK;
    char *end;

    char *copy = stk__strdup(ctx, text ? text : "");
    if (!copy)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory to read %s", what);
    for (char *line = copy; *line && status == STK_OK; line = end + 1) {
        end = strchr(line, '\n');
        if (!end) {
            status = refuse(what, line, "a line without its end", err);
            break;
        }
        *end = 0;
        status = read_line(ctx, what, line, lines, n, seen, err);
    }
    for (size_t i = 0; i < n && status == STK_OK; i++)
        if (!seen[i] && lines[i].kind != STK__LINE_EACH)
            status = refuse(what, lines[i].key, "a line is missing", err);
    stk__free(ctx, copy);
    return status;
}
