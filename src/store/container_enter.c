/* SPDX-License-Identifier: Apache-2.0 */
/* "x.zip/a" -> "zip:x.zip!/a": a container that a URL names without saying so, by its content. */
#include "store/container.h"

#include "store/url.h"

static const stk__container_format *const formats[] = {&stk__zip_format, &stk__squashfs_format};

static const stk__container_format *recognise(stk_store *store, const char *key)
{
    stk_object_info is = {.struct_size = sizeof is};

    if (stk_store_stat(store, key, NULL, &is, NULL) != STK_OK || is.is_folder)
        return NULL;
    for (size_t i = 0; i < STK_COUNT(formats); i++)
        if (formats[i]->recognise(store, key, is.size))
            return formats[i];
    return NULL;
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

stk_status stk__container_enter(stk_context *ctx, const char *url, char **out, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY], rest[STK_MAX_OBJECT_KEY];
    const stk__container_format *format = NULL;
    stk_store *store = NULL;
    stk__url parsed;

    *out = NULL;
    stk__url_scan(ctx, url, &parsed);
    /* Options may be those of readers above, which no store knows. */
    const size_t length = (size_t)(parsed.path - url) + parsed.path_length;
    char *bare = stk__format(ctx, "%.*s", (int)length, url);
    if (!bare)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", url);
    if ((parsed.container || !strstr(bare, "!/")) &&
        stk__store_split(ctx, bare, &store, key, sizeof key, rest, sizeof rest, NULL) == STK_OK &&
        *key)
        format = recognise(store, key);
    stk_store_close(&store);
    const stk_status status =
        format ? join(ctx, format, bare, url + length, rest, out, err) : STK_OK;
    stk__free(ctx, bare);
    return status;
}
