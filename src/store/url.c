/* SPDX-License-Identifier: Apache-2.0 */
#include "store/url.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/options.h"
#include "base/registry.h"

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
    while (is_letter(text[n]) || (text[n] >= '0' && text[n] <= '9') ||
           (text[n] && strchr("+-.", text[n])))
        n++;
    return text[n] == ':' ? n : 0;
}

static const stk_store_ops *find_driver(stk_context *ctx, const char *name, size_t length)
{
    const stk_driver_head *driver;

    for (size_t i = 0; (driver = stk_driver_at(ctx, STK_DRIVER_STORE, i)); i++)
        if (strlen(driver->name) == length && memcmp(driver->name, name, length) == 0)
            return (const stk_store_ops *)driver;
    return NULL;
}

stk_status stk__url_unknown(stk_context *ctx, const char *text, stk_error *err)
{
    char known[200] = "", scheme[STK_OPTION_NAME], meant[STK_OPTION_MEANT];
    const stk_driver_head *driver;
    stk__nearest nearest;

    snprintf(scheme, sizeof scheme, "%.*s", (int)STK_MIN(strcspn(text, ":+"), sizeof scheme - 1),
             text);
    stk__nearest_init(&nearest, scheme);
    for (size_t i = 0; (driver = stk_driver_at(ctx, STK_DRIVER_STORE, i)); i++)
        stk__nearest_offer(&nearest, driver->name);
    stk__driver_names(ctx, STK_DRIVER_STORE, ", ", known, sizeof known);
    return stk__fail_at(
        err, STK_ENOTSUP, STK_STAGE_STORE, text, STK_NO_OFFSET,
        "this build has no store '%s' for '%.200s'; it has %s, and a path alone needs none%s",
        scheme, text, known, stk__nearest_said(&nearest, meant));
}

/* The driver of "name+rest", or NULL. */
static const stk_store_ops *find_wrapper(stk_context *ctx, const char *text, const char **rest)
{
    const char *plus = strchr(text, '+');

    if (!plus || memchr(text, '/', (size_t)(plus - text)) ||
        memchr(text, ':', (size_t)(plus - text)))
        return NULL;
    *rest = plus + 1;
    return find_driver(ctx, text, (size_t)(plus - text));
}

stk_status stk__url_parse(stk_context *ctx, const char *text, stk__url *out, stk_error *err)
{
    const stk_store_ops *driver = NULL, *wrapper;
    const char *rest = NULL, *at = text;
    struct stat st;

    memset(out, 0, sizeof *out);
    STK_TRY(stk__secret_refuse(text, err));
    while ((wrapper = find_wrapper(ctx, at, &rest))) {
        if (!out->driver) {
            out->driver = wrapper;
            out->inner = rest;
        }
        at = rest;
    }
    if (!*at)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%s' names no store; give a path, or a URL such as file:///data", text);
    size_t length = scheme_length(at);
    if (length) {
        driver = find_driver(ctx, at, length);
        if (!driver && strncmp(at + length, "://", 3) == 0)
            return stk__url_unknown(ctx, text, err);
    }
    out->plain = !driver;
    if (driver)
        at += length + 1;
    else if (!(driver = find_driver(ctx, "file", 4)))
        return stk__url_unknown(ctx, text, err);
    if (!out->driver)
        out->driver = driver;
    out->path = at;
    out->path_length = strlen(at);
    const char *question = strchr(at, '?');
    if (question && !(out->plain && lstat(at, &st) == 0)) {
        out->query = question + 1;
        out->path_length = (size_t)(question - at);
    }
    return STK_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

stk_status stk__url_decode(const char *from, size_t length, char *to, size_t size, stk_error *err)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        char c = from[i];
        if (c == '%') {
            int high = length - i > 2 ? hex_digit(from[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(from[i + 2]) : -1;
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

stk_status stk__key_check(const char *key, stk_error *err)
{
    size_t length = key ? strnlen(key, STK_MAX_OBJECT_KEY) : 0;

    if (!key)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "no key given (NULL)");
    if (length == STK_MAX_OBJECT_KEY)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, "", STK_NO_OFFSET,
                            "the key '%.60s...' is longer than %d bytes", key,
                            STK_MAX_OBJECT_KEY - 1);
    if (key[0] == '/')
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "the key '%.200s' is absolute; keys are relative to their store", key);
    for (const char *part = key; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == 0))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, key, STK_NO_OFFSET,
                                "the key '%.200s' leaves its store with '..'", key);
    }
    return STK_OK;
}
