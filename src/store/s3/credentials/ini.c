/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/credentials/ini.h"

#include <stdio.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static stk__ini_span trim(const char *begin, const char *end)
{
    while (begin < end && is_blank(*begin))
        begin++;
    while (begin < end && is_blank(end[-1]))
        end--;
    return (stk__ini_span){begin, (size_t)(end - begin)};
}

static bool is(stk__ini_span span, const char *text)
{
    return strlen(text) == span.length && memcmp(span.text, text, span.length) == 0;
}

/* The next line at *at, without its end. */
static bool take_line(const char **at, const char *end, stk__ini_span *line)
{
    if (*at == end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = (stk__ini_span){*at, (size_t)((stop ? stop : end) - *at)};
    *at = stop ? stop + 1 : end;
    return true;
}

/* Whether "[profile  name]" is the section. */
static bool is_section(stk__ini_span line, const char *kind, const char *name)
{
    const char *end = memchr(line.text, ']', line.length);

    if (!end)
        return false;
    stk__ini_span inner = trim(line.text + 1, end);
    const size_t length = strlen(kind);
    if (length > 0) {
        if (inner.length <= length || memcmp(inner.text, kind, length) != 0 ||
            !is_blank(inner.text[length]))
            return false;
        inner = trim(inner.text + length, inner.text + inner.length);
    }
    return is(inner, name);
}

/* A value ends where a comment begins: behind a blank. */
static stk__ini_span value_of(const char *begin, const char *end)
{
    for (const char *p = begin; p < end; p++)
        if ((*p == '#' || *p == ';') && p > begin && is_blank(p[-1]))
            return trim(begin, p);
    return trim(begin, end);
}

/* `key` NULL: the section is looked for. */
static bool find(const char *text, size_t length, const char *kind, const char *name,
                 const char *key, stk__ini_span *out)
{
    const char *at = text, *end = text + length;
    bool within = false, found = false;
    stk__ini_span line;

    while (take_line(&at, end, &line)) {
        const char first = line.length > 0 ? line.text[0] : '#';
        if (first == '#' || first == ';' || is_blank(first))
            continue;
        if (first == '[') {
            within = is_section(line, kind, name);
            found |= within && !key;
            continue;
        }
        const char *equals = memchr(line.text, '=', line.length);
        if (within && key && equals && is(trim(line.text, equals), key)) {
            *out = value_of(equals + 1, line.text + line.length);
            found = out->length > 0;
        }
    }
    return found;
}

bool stk__ini_find(const char *text, size_t length, const char *kind, const char *name,
                   const char *key, stk__ini_span *out)
{
    return find(text, length, kind, name, key, out);
}

bool stk__ini_has(const char *text, size_t length, const char *kind, const char *name)
{
    return find(text, length, kind, name, NULL, NULL);
}

bool stk__ini_copy(stk__ini_span span, char *to, size_t size)
{
    return snprintf(to, size, "%.*s", (int)span.length, span.text) < (int)size;
}
