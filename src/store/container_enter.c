/* SPDX-License-Identifier: Apache-2.0 */
/* "x.zip/a" -> "zip:x.zip!/a": a container that a URL names without saying so, by its content. */
#include "store/container.h"

#include "store/url.h"

#define FORMAT(name) &stk__##name##_format,
static const stk__container_format *const formats[] = {STK__CONTAINERS(FORMAT)};

stk_status stk__container_peek(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                               void *data, bool *got)
{
    stk_error ignored;

    stk_error_init(&ignored);
    const stk_status status = stk_store_read(store, key, offset, length, data, &ignored);
    *got = status == STK_OK;
    return status == STK_ENOMEM ? status : STK_OK;
}

/* The format of the object that a URL names; NULL: it is none, or cannot be read. STK_ENOMEM. */
static stk_status find_format(stk_context *ctx, const char *url, char rest[STK_MAX_OBJECT_KEY],
                              const stk__container_format **out)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk_error ignored;
    bool is = false;

    stk_error_init(&ignored);
    stk_status status =
        stk__store_split(ctx, url, &store, key, sizeof key, rest, STK_MAX_OBJECT_KEY, &ignored);
    if (status == STK_OK && *key)
        status = stk_store_stat(store, key, NULL, &info, &ignored);
    for (size_t i = 0; status == STK_OK && *key && !info.is_folder && !is && i < STK_COUNT(formats);
         i++) {
        status = formats[i]->recognise(store, key, info.size, &is);
        *out = is ? formats[i] : NULL;
    }
    stk_store_close(&store);
    return status == STK_ENOMEM ? status : STK_OK;
}

/* Bytes of a URL without its query, and without slashes behind what is perhaps no folder. */
static size_t bare_length(const char *url, const stk__url *parsed)
{
    const char *const path = parsed->path;
    size_t end = parsed->path_length;

    while (end && path[end - 1] == '/')
        end--;
    /* The root, and all of a container, stay what they are. */
    if (!end || path[end - 1] == '!')
        end = parsed->path_length;
    return (size_t)(path - url) + end;
}

/* The end of an object in a path of `length` bytes that goes on with `rest` below it. */
static size_t end_of(const char *path, size_t length, const char *rest)
{
    for (; *rest; rest += strcspn(rest, "/"), rest += strspn(rest, "/")) {
        while (length && path[length - 1] == '/')
            length--;
        while (length && path[length - 1] != '/')
            length--;
    }
    while (length && path[length - 1] == '/')
        length--;
    return length;
}

/* Put together what was found: `bare` is the URL without its query. */
static stk_status join(stk_context *ctx, const stk__container_format *format, const char *bare,
                       const char *query, const char *rest, char **out, stk_error *err)
{
    char *root = stk__format(ctx, "%s:%.*s!/%s", format->name,
                             (int)end_of(bare, strlen(bare), rest), bare, query);

    *out = root && *rest ? stk__url_below(ctx, root, rest) : root;
    if (root && *rest)
        stk__free(ctx, root);
    return *out ? STK_OK
                : stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", bare);
}

/* Whether its name says that it is no object and lies in none: with a '/' or ".zarr" at its end,
 * and no other point in it. Local ones are looked at. */
static bool is_folder(const stk__url *parsed)
{
    const char *path = parsed->path;
    size_t length = parsed->path_length, host = 0;

    if (parsed->plain || parsed->container || !length)
        return false;
    if (length > 2 && strncmp(path, "//", 2) == 0)
        host = 2 + strcspn(path + 2, "/?");
    if (length <= host)
        return false;
    return stk__url_means_folder(path + host, length - host) ||
           (path[length - 1] == '/' && !memchr(path + host, '.', length - host));
}

stk_status stk__container_enter(stk_context *ctx, char **url, stk_error *err)
{
    const stk__container_format *format = NULL;
    char rest[STK_MAX_OBJECT_KEY], *entered = NULL, *asked = NULL;
    stk_status status = STK_OK;
    stk__url parsed;

    stk__url_scan(ctx, *url, &parsed);
    /* Options may be those of readers above, which no store knows. */
    const size_t length = (size_t)(parsed.path - *url) + parsed.path_length;
    char *bare = stk__format(ctx, "%.*s", (int)bare_length(*url, &parsed), *url);
    if (bare && !is_folder(&parsed) && (parsed.container || !strstr(bare, "!/"))) {
        asked = stk__store_query(ctx, bare, *url + length);
        status = asked ? find_format(ctx, asked, rest, &format) : STK_ENOMEM;
    } else if (!bare) {
        status = STK_ENOMEM;
    }
    if (status != STK_OK)
        status = stk__fail(err, status, STK_STAGE_STORE, "no memory to open '%.200s'", *url);
    else if (format)
        status = join(ctx, format, bare, *url + length, rest, &entered, err);
    stk__free(ctx, bare);
    stk__free(ctx, asked);
    if (entered) {
        stk__free(ctx, *url);
        *url = entered;
    }
    return status;
}
