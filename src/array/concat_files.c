/* SPDX-License-Identifier: Apache-2.0 */
/* "DIR/era5_*.nc/t2m" -> the files era5_*.nc of DIR, sorted by name, and "t2m" in each. */
#include <fnmatch.h>
#include <stdlib.h>

#include "array/concat.h"

#include "base/url.h"

typedef struct listing {
    stk__concat_files *files;
    const char *pattern;
    stk_error *err;
} listing;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for the names of joined files");
}

static stk_status take_file(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    stk__concat_files *f = l->files;

    if (info->is_folder || fnmatch(l->pattern, key, FNM_PERIOD) != 0)
        return STK_OK;
    if (f->count == STK__CONCAT_MAX_FILES)
        return stk__fail_at(l->err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "more than %u files fit '%.200s' (STK__CONCAT_MAX_FILES); join fewer",
                            STK__CONCAT_MAX_FILES, l->pattern);
    char **grown = stk__grow(f->context, f->keys, &f->room, f->count + 1, sizeof *grown);
    if (!grown)
        return no_memory(l->err);
    f->keys = grown;
    f->keys[f->count] = stk__strdup(f->context, key);
    return f->keys[f->count++] ? STK_OK : no_memory(l->err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files of one pattern, behind those of the patterns before it. */
static stk_status add_pattern(stk__concat_files *f, const char *pattern, stk_error *err)
{
    const size_t before = f->count;
    listing l = {.files = f, .pattern = pattern, .err = err};

    STK_TRY(stk_store_list(f->store, "", NULL, take_file, &l, err));
    if (f->count == before)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, pattern, STK_NO_OFFSET,
                            "no file fits '%.200s'", pattern);
    qsort(f->keys + before, f->count - before, sizeof *f->keys, by_name);
    return STK_OK;
}

static stk_status add_patterns(stk__concat_files *f, stk_error *err)
{
    char *copy = stk__strdup(f->context, f->name), *save = NULL;
    stk_status status = copy ? STK_OK : no_memory(err);

    for (char *at = copy ? strtok_r(copy, ",", &save) : NULL; at && status == STK_OK;
         at = strtok_r(NULL, ",", &save))
        status = add_pattern(f, at, err);
    stk__free(f->context, copy);
    return status;
}

/* The part of a path that has a pattern or a list in it; *length 0: there is none. */
static const char *find_part(const stk__url *url, size_t *length)
{
    for (size_t begin = url->object_length; begin < url->path_length;) {
        *length = begin;
        while (*length < url->path_length && url->path[*length] != '/')
            ++*length;
        *length -= begin;
        for (size_t i = 0; i < *length; i++)
            if (strchr("*[,", url->path[begin + i]))
                return url->path + begin;
        begin += *length + 1;
    }
    *length = 0;
    return url->path;
}

/* A part of the path, as it is meant. */
static stk_status take_part(const stk__url *url, const char *from, size_t length, char *to,
                            stk_error *err)
{
    if (!url->plain)
        return stk__url_decode(from, length, to, STK_MAX_OBJECT_KEY, err);
    if (length >= STK_MAX_OBJECT_KEY)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY, "a part of the path is too long");
    memcpy(to, from, length);
    to[length] = 0;
    return STK_OK;
}

stk_status stk__concat_files_find(stk_context *ctx, const char *text, stk__concat_files *f,
                                  stk_error *err)
{
    char none[STK_MAX_OBJECT_KEY];
    size_t length = 0;
    stk__url url;

    *f = (stk__concat_files){.context = ctx};
    stk__url_scan(ctx, text, &url);
    const char *part = find_part(&url, &length);
    if (!length)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "concat", STK_NO_OFFSET,
                            "array.concat: '%.200s' names one file; name several, as "
                            "'era5_*.nc/t2m' or 'a.nc,b.nc/t2m'",
                            text);
    STK_TRY(take_part(&url, part, length, f->name, err));
    const char *rest = part + length, *end = url.path + url.path_length;
    while (rest < end && *rest == '/')
        rest++;
    while (end > rest && end[-1] == '/')
        end--;
    STK_TRY(take_part(&url, rest, (size_t)(end - rest), f->rest, err));
    char *folder =
        stk__format(ctx, "%.*s%s%s%s", (int)(part - text), text, part == url.path ? "." : "",
                    url.query ? "?" : "", url.query ? url.query : "");
    if (!folder)
        return no_memory(err);
    stk_status status = stk__container_enter(ctx, &folder, err);
    if (status == STK_OK)
        status = stk_store_open(ctx, folder, &f->store, none, sizeof none, err);
    stk__free(ctx, folder);
    return status == STK_OK ? add_patterns(f, err) : status;
}

void stk__concat_files_release(stk__concat_files *f)
{
    for (size_t i = 0; i < f->count; i++)
        stk__free(f->context, f->keys[i]);
    stk__free(f->context, f->keys);
    f->keys = NULL;
    f->count = f->room = 0;
    stk_store_close(&f->store);
}
