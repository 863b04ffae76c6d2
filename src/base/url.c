/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/digits.h"
#include "base/registry.h"

/* ---- Taking apart ---------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Bytes of "scheme" in "scheme:..." as RFC 3986 has it; 0 when there is none. */
static size_t scheme_length(const char *text)
{
    size_t n = 0;

    if (!is_letter(text[0]))
        return 0;
    while (is_letter(text[n]) || stk__is_digit(text[n]) || (text[n] && strchr("+-.", text[n])))
        n++;
    return text[n] == ':' ? n : 0;
}

const void *stk__url_driver(const stk_context *ctx, const char *name, size_t length)
{
    const stk_driver_head *driver;

    for (size_t i = 0; (driver = stk_driver_at(ctx, STK_DRIVER_STORE, i)); i++)
        if (strlen(driver->name) == length && memcmp(driver->name, name, length) == 0)
            return driver;
    return NULL;
}

/* The driver of "name+rest", or NULL. */
static const void *find_wrapper(const stk_context *ctx, const char *text, const char **rest)
{
    const char *plus = strchr(text, '+');

    if (!plus || memchr(text, '/', (size_t)(plus - text)) ||
        memchr(text, ':', (size_t)(plus - text)))
        return NULL;
    *rest = plus + 1;
    return stk__url_driver(ctx, text, (size_t)(plus - text));
}

/* Stores of which each lies within an object of another. */
static bool is_container(const char *name, size_t length)
{
#define NAME_OF(name) #name,
    static const char *const containers[] = {STK__CONTAINERS(NAME_OF)};
#undef NAME_OF

    for (size_t i = 0; i < STK_COUNT(containers); i++)
        if (strlen(containers[i]) == length && memcmp(containers[i], name, length) == 0)
            return true;
    return false;
}

/* Where the path within a container begins: behind a "!/" for it and for each that it lies in.
 * NULL: there are too few. */
static const char *within(const stk_context *ctx, const char *text, size_t length)
{
    const char *const end = text + length, *rest, *at;
    size_t scheme;

    for (at = text; find_wrapper(ctx, at, &rest); at = rest)
        ;
    scheme = scheme_length(at);
    if (is_container(at, scheme)) {
        at = within(ctx, at + scheme + 1, (size_t)(end - at) - scheme - 1);
        if (!at)
            return NULL;
    }
    const char *const mark = memmem(at, (size_t)(end - at), "!/", 2);
    return mark ? mark + 2 : NULL;
}

void stk__url_scan(const stk_context *ctx, const char *text, stk__url *out)
{
    const void *const file = stk__url_driver(ctx, "file", 4), *driver = NULL, *wrapper;
    const char *rest = NULL, *at = text;
    struct stat st;

    memset(out, 0, sizeof *out);
    while ((wrapper = find_wrapper(ctx, at, &rest))) {
        if (!out->driver) {
            out->driver = wrapper;
            out->inner = rest;
        }
        at = rest;
    }
    const size_t length = scheme_length(at);
    if (length)
        driver = stk__url_driver(ctx, at, length);
    out->unknown = length && !driver && strncmp(at + length, "://", 3) == 0;
    out->plain = !driver && !out->unknown;
    if (!out->plain)
        at += length + 1;
    else
        driver = file;
    out->local = !out->inner && driver == file && !out->unknown;
    if (!out->driver)
        out->driver = driver;
    out->path = at;
    out->path_length = strlen(at);
    const char *question = strchr(at, '?');
    if (question && !(out->plain && lstat(at, &st) == 0)) {
        out->query = question + 1;
        out->path_length = (size_t)(question - at);
    }
    out->container = !out->plain && driver && is_container(at - length - 1, length);
    if (out->container) {
        const char *inside = within(ctx, at, out->path_length);
        out->object_length = inside ? (size_t)(inside - at) : 0;
    }
}

const char *stk__url_unwrap(const stk_context *ctx, const char *text, stk__url *out)
{
    for (stk__url_scan(ctx, text, out); out->inner; stk__url_scan(ctx, text, out))
        text = out->inner;
    return text;
}

stk_status stk__url_decode(const char *from, size_t length, char *to, size_t size, stk_error *err)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        char c = from[i];
        if (c == '%') {
            int high = length - i > 2 ? stk__hex_digit(from[i + 1]) : -1;
            int low = high >= 0 ? stk__hex_digit(from[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return stk__fail(
                    err, STK_EINVAL, STK_STAGE_STORE,
                    "'%.*s': '%%' must be followed by two hexadecimal digits other than 00; "
                    "write %%25 for the sign itself",
                    (int)STK_MIN(length, 200u), from);
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= size)
            return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                             "'%.*s...': the path is longer than %zu bytes", 100, from, size - 1);
        to[used++] = c;
    }
    to[used] = 0;
    return STK_OK;
}

stk_status stk__url_path(const stk__url *url, const char *text, char *path, size_t size,
                         stk_error *err)
{
    const char *from = url->path;
    size_t length = url->path_length;

    if (!url->plain && strncmp(from, "//", 2) == 0) {
        const char *slash = memchr(from + 2, '/', length - 2);
        size_t host = slash ? (size_t)(slash - from) - 2 : length - 2;
        if (!slash || (host && !(host == 9 && memcmp(from + 2, "localhost", 9) == 0)))
            return stk__fail(
                err, STK_EINVAL, STK_STAGE_STORE,
                "'%.200s' names the machine '%.*s'; write file:///FOLDER with three slashes, "
                "or the plain path",
                text, (int)STK_MIN(host, 100u), from + 2);
        from = slash;
        length -= host + 2;
    }
    if (!url->plain)
        return stk__url_decode(from, length, path, size, err);
    if (length >= size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "the path '%.100s...' is longer than %zu bytes", text, size - 1);
    memcpy(path, from, length);
    path[length] = 0;
    return STK_OK;
}

/* ---- Folders --------------------------------------------------------------------------------- */

bool stk__url_elsewhere(const stk_context *ctx, const char *text)
{
    stk__url url;

    stk__url_scan(ctx, text, &url);
    return !url.local;
}

stk_status stk__url_local(stk_context *ctx, const char *text, char **out, stk_error *err)
{
    char path[STK_MAX_OBJECT_KEY];
    stk__url url;

    *out = NULL;
    stk__url_scan(ctx, text, &url);
    const bool named = url.local && !url.plain;
    if (named)
        STK_TRY(stk__url_path(&url, text, path, sizeof path, err));
    *out = stk__strdup(ctx, named ? path : text);
    return *out ? STK_OK
                : stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for '%.200s'", text);
}

char *stk__url_below(stk_context *ctx, const char *url, const char *key)
{
    static const char digits[] = "0123456789ABCDEF";
    stk__url parts;

    stk__url_scan(ctx, url, &parts);
    const bool literal = parts.plain && !parts.inner;
    size_t used = literal ? strlen(url) : (size_t)(parts.path - url) + parts.path_length;
    const char *const rest = url + used;
    char *out = stk__alloc(ctx, strlen(url) + 1 + 3 * strlen(key) + 1);
    if (!out)
        return NULL;
    memcpy(out, url, used);
    if (used && (literal || parts.path_length) && out[used - 1] != '/')
        out[used++] = '/';
    for (; *key; key++) {
        const bool escaped = !parts.plain && strchr("%?", *key);
        out[used++] = escaped ? '%' : *key;
        if (escaped) {
            out[used++] = digits[(unsigned char)*key >> 4];
            out[used++] = digits[*key & 15];
        }
    }
    memcpy(out + used, rest, strlen(rest) + 1);
    return out;
}

const char *stk__url_name(const stk_context *ctx, const char *url, size_t *length)
{
    stk__url parts;

    stk__url_scan(ctx, url, &parts);
    const bool literal = parts.plain && !parts.inner;
    const char *const begin = literal ? url : parts.path;
    const char *const end = literal ? url + strlen(url) : begin + parts.path_length;
    const char *name = end;
    while (name > begin && name[-1] != '/')
        name--;
    *length = (size_t)(end - name);
    return name;
}

/* ---- The home folder ------------------------------------------------------------------------- */

/* Add to a text of `size` bytes, of which `used` would be taken if there were room. */
static size_t add_text(char *out, size_t size, size_t used, const char *text, size_t length)
{
    if (used < size) {
        const size_t fits = STK_MIN(length, size - used - 1);
        memcpy(out + used, text, fits);
        out[used + fits] = 0;
    }
    return used + length;
}

size_t stk_home_path(const char *text, const char *home, char *out, size_t size)
{
    bool begins = true; /* a path may, as in each spec of a dataset of datasets */
    const char *from = NULL;
    size_t used = 0;

    for (const char *p = text; *p; p++) {
        if (begins && p[0] == '~' && (p[1] == '/' || p[1] == ')' || !p[1]) &&
            (p == text || p[-1] == ':' || p[-1] == '(')) {
            const char *const start = from ? from : text;
            used = add_text(out, size, used, start, (size_t)(p - start));
            used = add_text(out, size, used, home, strlen(home));
            from = p + 1;
        }
        begins = begins && *p != '?' && *p != '/';
        if (*p == '(' && p > text && strchr(":,*(", p[-1]))
            begins = true;
    }
    return from ? add_text(out, size, used, from, strlen(from)) : 0;
}
