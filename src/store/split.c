/* SPDX-License-Identifier: Apache-2.0 */
/* The path of a URL -> a folder; or an object in one, and the way on below it. */
#include <string.h>

#include "store/url.h"

/* STK_OK when `key` is an object of the store, STK_ENOENT when it is none. */
static stk_status holds(stk_store *store, const char *key, stk_error *err)
{
    stk__presence is = STK__IS_NOTHING;

    if (stk__key_check(key, NULL) != STK_OK)
        return STK_ENOENT;
    STK_TRY(stk__store_look(store, key, &is, err));
    return is == STK__IS_OBJECT ? STK_OK : STK_ENOENT;
}

/* Copy a part of the path of a URL as the name that it means. */
static stk_status take_name(const char *url, const stk__url *parsed, const char *name,
                            size_t length, char *to, size_t size, stk_error *err)
{
    if (!parsed->plain)
        return stk__url_decode(name, length, to, size, err);
    if (length >= size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_STORE, "the name of '%.200s' is too long", url);
    memcpy(to, name, length);
    to[length] = 0;
    return STK_OK;
}

/* Open the folder of what the first `end` bytes of the path name; the last part is the key. */
static stk_status open_folder_of(stk_context *ctx, const char *url, const stk__url *parsed,
                                 size_t end, stk_store **out, char *key, size_t key_size,
                                 stk_error *err)
{
    size_t cut = end;

    while (cut > 0 && parsed->path[cut - 1] != '/')
        cut--;
    const char *name = parsed->path + cut;
    if (cut == end)
        return STK_ENOENT;
    STK_TRY(take_name(url, parsed, name, end - cut, key, key_size, err));
    /* "dir/name?q" -> "dir/?q"; "name" -> "."; the root keeps its slash. */
    char *folder = stk__format(ctx, "%.*s%s%s%s", (int)(name - url), url, cut == 0 ? "." : "",
                               parsed->query ? "?" : "", parsed->query ? parsed->query : "");
    if (!folder)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", url);
    const stk_status status = stk__store_open_url(ctx, folder, out, err);
    stk__free(ctx, folder);
    return status;
}

/* `end` less the last part of the path and the slashes around it; 0: nothing is left in front of
 * it but the root, or the machine or name behind two slashes. */
static size_t shorter(const stk__url *u, size_t end)
{
    size_t least = u->object_length;

    if (!u->container && !u->plain && strncmp(u->path, "//", 2) == 0)
        least = 2 + strcspn(u->path + 2, "/");
    while (end > least && u->path[end - 1] == '/')
        end--;
    while (end > least && u->path[end - 1] != '/')
        end--;
    while (end > least && u->path[end - 1] == '/')
        end--;
    return end > least ? end : 0;
}

/*
 * The URL names no folder: go up to the nearest folder that there is; what follows it may be an
 * object, *end bytes of the path. A prefix of which no folder opens is none itself, so that the
 * store is asked for one object and no more.
 */
static stk_status open_object(stk_context *ctx, const char *url, const stk__url *parsed,
                              size_t *end, stk_store **out, char *key, size_t key_size,
                              stk_error *err)
{
    stk_status status = STK_ENOENT;

    for (*end = parsed->path_length; *end; *end = shorter(parsed, *end)) {
        status = open_folder_of(ctx, url, parsed, *end, out, key, key_size, err);
        if (status != STK_ENOENT)
            break;
    }
    if (status == STK_OK)
        status = stk__file_name(*out, key, err);
    if (status == STK_OK)
        status = holds(*out, key, err);
    if (status != STK_OK)
        stk_store_close(out);
    return status;
}

/* The way on below the object that ends at `end`. */
static stk_status take_rest(const char *url, const stk__url *parsed, size_t end, char *rest,
                            size_t size, stk_error *err)
{
    size_t last = parsed->path_length;

    while (end < last && parsed->path[end] == '/')
        end++;
    while (last > end && parsed->path[last - 1] == '/')
        last--;
    return take_name(url, parsed, parsed->path + end, last - end, rest, size, err);
}

stk_status stk__store_split(stk_context *ctx, const char *url, stk_store **out, char *key,
                            size_t key_size, char *rest, size_t rest_size, stk_error *err)
{
    stk_error second;
    stk__url parsed;
    size_t end;

    *out = NULL;
    if (key)
        key[0] = 0;
    rest[0] = 0;
    STK_TRY(stk__url_parse(ctx, url, &parsed, err));
    stk_status status = stk__store_open_url(ctx, url, out, err);
    if (status != STK_ENOENT || !key)
        return status;
    /* The first failure tells more, unless the second is of another kind. */
    stk_error_init(&second);
    status = open_object(ctx, url, &parsed, &end, out, key, key_size, &second);
    if (status == STK_OK)
        status = take_rest(url, &parsed, end, rest, rest_size, &second);
    if (status == STK_OK)
        return STK_OK;
    stk_store_close(out);
    key[0] = 0;
    if (status == STK_ENOENT || second.status != status)
        return STK_ENOENT;
    if (err)
        *err = second;
    return status;
}

stk_status stk__store_no_rest(const char *url, const char *key, const char *rest, stk_error *err)
{
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "'%.300s': '%.200s' is an object and no folder, and nothing opens '%.200s' "
                        "in it",
                        url, key, rest);
}
