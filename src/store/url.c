/* SPDX-License-Identifier: Apache-2.0 */
#include "store/url.h"

#include <stdio.h>

#include "base/options.h"
#include "base/registry.h"

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

stk_status stk__url_parse(stk_context *ctx, const char *text, stk__url *out, stk_error *err)
{
    STK_TRY(stk__secret_refuse(text, err));
    stk__url_scan(ctx, text, out);
    if (out->plain && !out->path[0])
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE,
                         "'%s' names no store; give a path, or a URL such as file:///data", text);
    return out->unknown || !out->driver ? stk__url_unknown(ctx, text, err) : STK_OK;
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

stk_status stk__key_below(const char *prefix, const char *name, char key[STK_MAX_OBJECT_KEY],
                          stk_error *err)
{
    if (snprintf(key, STK_MAX_OBJECT_KEY, "%s%s", prefix, name) < STK_MAX_OBJECT_KEY)
        return STK_OK;
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_STORE, name, STK_NO_OFFSET,
                        "the key of '%.200s' below '%.200s' is longer than %d bytes", name, prefix,
                        STK_MAX_OBJECT_KEY - 1);
}

bool stk__url_means_folder(const char *path, size_t length)
{
    static const char end[] = ".zarr";

    while (length && path[length - 1] == '/')
        length--;
    if (length < sizeof end || memcmp(path + length - (sizeof end - 1), end, sizeof end - 1) != 0)
        return false;
    return !memchr(path, '.', length - (sizeof end - 1));
}
