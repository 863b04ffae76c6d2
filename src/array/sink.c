/* SPDX-License-Identifier: Apache-2.0 */
/* Where arrays are written: a folder that may not exist yet, and whole objects in it. */
#include "array/room.h"

/* Move the last part of the path in `url` (which ends at `end`) in front of `prefix`. False: there
 * is none left. */
static bool move_part(char *url, size_t *end, size_t begin, char *prefix, size_t size)
{
    size_t cut = *end;

    while (cut > begin && url[cut - 1] == '/')
        cut--;
    size_t last = cut;
    while (cut > begin && url[cut - 1] != '/')
        cut--;
    size_t length = last - cut, kept = strlen(prefix);
    if (length == 0 || length + 1 + kept + 1 > size)
        return false;
    memmove(prefix + length + 1, prefix, kept + 1);
    memcpy(prefix, url + cut, length);
    prefix[length] = '/';
    *end = cut;
    return true;
}

stk_status stk__sink_open(stk_context *ctx, const char *url, stk_store **out, char *prefix,
                          size_t size, stk_error *err)
{
    const char *scheme = strstr(url, "://");
    const char *query = scheme ? strchr(url, '?') : NULL;
    size_t begin = scheme ? (size_t)(scheme - url) + 3 : 0;
    size_t end = query ? (size_t)(query - url) : strlen(url);
    stk_error first;

    *out = NULL;
    prefix[0] = 0;
    stk_error_init(&first);
    char *folder = stk__alloc(ctx, strlen(url) + 3);
    char *path = stk__strdup(ctx, url);
    stk_status status = folder && path ? STK_OK : STK_ENOMEM;
    if (status != STK_OK)
        stk__fail(&first, status, STK_STAGE_ARRAY, "no memory to write '%.200s'", url);
    for (bool tried = false; status == STK_OK && !*out; tried = true) {
        if (tried && !move_part(path, &end, begin, prefix, size)) {
            status = first.status;
            break;
        }
        memcpy(folder, path, end);
        size_t at = end;
        if (end == 0)
            folder[at++] = '.';
        memcpy(folder + at, query ? query : "", query ? strlen(query) + 1 : 1);
        stk_error_init(&first);
        status = stk_store_open(ctx, folder, out, NULL, 0, &first);
        if (status == STK_ENOENT)
            status = STK_OK;
    }
    if (status == STK_OK && strchr(prefix, '%') && scheme) {
        status = stk__fail(&first, STK_EINVAL, STK_STAGE_ARRAY,
                           "'%.200s': a folder that is to be made takes no %%-escapes; make it "
                           "first",
                           url);
        stk_store_close(out);
    }
    if (status != STK_OK && err)
        *err = first;
    stk__free(ctx, path);
    stk__free(ctx, folder);
    return status;
}

stk_status stk__sink_put_json(stk_store *store, const char *key, const json_t *value,
                              stk_error *err)
{
    char *text = stk__json_text(store->context, value, true);

    if (!text)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "no memory to write %s", key);
    stk_status status = stk_store_put(store, key, text, strlen(text), NULL, err);
    stk__free(store->context, text);
    return status;
}
