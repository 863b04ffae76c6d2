/* SPDX-License-Identifier: Apache-2.0 */
/* Where the best checkpoint is. What goes on from a run has a folder of its own next to that run's,
 * and the best of both may lie in either: it is told from the folder of all runs on, so that the
 * tree can be moved, and nothing outside of it can be named. */
#include "base/best.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/url.h"

char *stk__best_folder(stk_context *ctx, const char *path)
{
    size_t length;
    const char *name = stk__url_name(ctx, path, &length);

    return name > path + 1 ? stk__format(ctx, "%.*s%s", (int)(name - path - 1), path, name + length)
                           : NULL;
}

bool stk__best_in(stk_context *ctx, const char *folder, const char *path)
{
    char name[STK_MAX_OBJECT_KEY];
    stk__url url;
    size_t length;

    const char *written = stk__url_name(ctx, path, &length);
    stk__url_scan(ctx, path, &url);
    if (url.plain)
        snprintf(name, sizeof name, "%.*s", (int)length, written);
    else if (stk__url_decode(written, length, name, sizeof name, NULL) != STK_OK)
        return false;
    char *same = stk__is_plain_name(name) ? stk__url_below(ctx, folder, name) : NULL;
    const bool in = same && strcmp(same, path) == 0;
    stk__free(ctx, same);
    return in;
}

/* LOGS of LOGS/version_1/checkpoints. */
static char *logs_of(stk_context *ctx, const char *folder)
{
    char *run = stk__best_folder(ctx, folder);
    char *logs = run ? stk__best_folder(ctx, run) : NULL;

    stk__free(ctx, run);
    return logs;
}

bool stk__best_of_sibling(stk_context *ctx, const char *folder, const char *path)
{
    char *logs = logs_of(ctx, folder), *there = stk__best_folder(ctx, path);
    char *run = there ? stk__best_folder(ctx, there) : NULL;
    const bool is = logs && run && strcmp(there, folder) != 0 && stk__best_in(ctx, logs, run) &&
                    stk__best_in(ctx, run, there) && stk__best_in(ctx, there, path);

    stk__free(ctx, logs);
    stk__free(ctx, there);
    stk__free(ctx, run);
    return is;
}

char *stk__best_told(stk_context *ctx, const char *path, const char *best)
{
    size_t length, ignored;
    const char *name = stk__url_name(ctx, best, &length), *from = name;
    const size_t before = (size_t)(stk__url_name(ctx, path, &ignored) - path);
    char *folder = NULL;

    if (before != (size_t)(name - best) || memcmp(path, best, before) != 0) {
        folder = stk__best_folder(ctx, path);
        if (!folder || !stk__best_of_sibling(ctx, folder, best)) {
            stk__free(ctx, folder);
            return NULL;
        }
        /* The last three names. */
        for (int slashes = 0; from > best && (slashes += from[-1] == '/') < 3;)
            from--;
    }
    stk__free(ctx, folder);
    return stk__format(ctx, "%.*s", (int)(name + length - from), from);
}

char *stk__best_found(stk_context *ctx, const char *path, const char *told)
{
    size_t length;
    const char *name = stk__url_name(ctx, path, &length);
    const bool same = stk__is_plain_name(told);
    char *folder = stk__best_folder(ctx, path), *found = NULL;
    char *logs = folder && !same ? logs_of(ctx, folder) : NULL;

    if (same) {
        found = stk__format(ctx, "%.*s%s%s", (int)(name - path), path, told, name + length);
    } else if (logs) {
        const char *end = stk__url_name(ctx, logs, &length) + length;
        found = stk__format(ctx, "%.*s/%s%s", (int)(end - logs), logs, told, end);
    }
    /* An escape in it may be a '/'. */
    if (found && !(same ? !folder || stk__best_in(ctx, folder, found)
                        : stk__best_of_sibling(ctx, folder, found))) {
        stk__free(ctx, found);
        found = NULL;
    }
    stk__free(ctx, folder);
    stk__free(ctx, logs);
    return found;
}

bool stk__best_is_folder(stk_context *ctx, const char *a, const char *b)
{
    struct stat x, y;

    return strcmp(a, b) == 0 ||
           (!stk__url_elsewhere(ctx, a) && !stk__url_elsewhere(ctx, b) && stat(a, &x) == 0 &&
            stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* LOGS/version_0/checkpoints, with the LOGS of `folder` and the other names of `other`. */
static char *beside(stk_context *ctx, const char *folder, const char *other)
{
    char *logs = logs_of(ctx, folder), *run = stk__best_folder(ctx, other), *there = NULL;
    size_t length = 0, last = 0;

    if (logs && run) {
        const char *end = stk__url_name(ctx, logs, &length) + length;
        const char *name = stk__url_name(ctx, run, &length);
        const char *below = stk__url_name(ctx, other, &last);
        there = stk__format(ctx, "%.*s/%.*s/%.*s%s", (int)(end - logs), logs, (int)length, name,
                            (int)last, below, end);
    }
    stk__free(ctx, logs);
    stk__free(ctx, run);
    return there;
}

char *stk__best_spelt(stk_context *ctx, const char *folder, const char *other)
{
    if (stk__best_is_folder(ctx, folder, other))
        return stk__strdup(ctx, folder);
    char *there = beside(ctx, folder, other);
    if (there && stk__best_is_folder(ctx, there, other))
        return there;
    stk__free(ctx, there);
    return stk__strdup(ctx, other);
}
