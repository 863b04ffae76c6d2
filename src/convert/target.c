/* SPDX-License-Identifier: Apache-2.0 */
/* What all targets share: which there are, names, what must not be written over. */
#include "convert/target.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/registry.h"
#include "base/url.h"

#define MAX_LEVELS 4096
#define FOLDER     (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* ---- The folder that is read ----------------------------------------------------------------- */

bool stk__convert_folder(stk_context *ctx, const char *text, char *path)
{
    char local[STK_MAX_OBJECT_KEY];
    stk__url url;

    text = stk__url_unwrap(ctx, text, &url);
    return url.local && stk__url_path(&url, text, local, sizeof local, NULL) == STK_OK &&
           realpath(local, path);
}

const char *stk__convert_source(const stk_conversion_job *job)
{
    const size_t length = strcspn(job->source, ":");
    const bool named = job->source[length] == ':' &&
                       stk__driver_find(job->context, STK_DRIVER_DATASET, job->source, length);

    return named ? job->source + length + 1 : job->source;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether `folder` is `above` or lies somewhere in it: by device and inode on the way up. */
static bool lies_in(const char *folder, const struct stat *above)
{
    struct stat here, before = {0};
    bool found = false;
    int fd = open(folder, FOLDER);

    for (int level = 0; fd >= 0 && level < MAX_LEVELS; level++) {
        if (fstat(fd, &here) != 0 || (level > 0 && same_file(&here, &before)))
            break;
        found = same_file(&here, above);
        if (found)
            break;
        before = here;
        int parent = openat(fd, "..", FOLDER);
        close(fd);
        fd = parent;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* A local folder, or where it is not there yet, which *there tells, the nearest one above it. */
static bool find_nearest(char *path, struct stat *st, bool *there)
{
    *there = true;
    while (stat(path, st) != 0) {
        char *slash = strrchr(path, '/');
        if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0)
            return false;
        if (slash)
            slash[slash == path] = 0;
        else
            memcpy(path, ".", 2);
        *there = false;
    }
    return true;
}

/* The same of a local folder that need not be there yet: then the nearest one above it counts. */
static const char *meet_folders(const char *source, char *target)
{
    struct stat from, to;
    bool there;

    if (stat(source, &from) != 0 || !find_nearest(target, &to, &there))
        return NULL;
    if (there && same_file(&from, &to))
        return "is the folder that is read";
    if (lies_in(target, &from))
        return "lies in the folder that is read";
    return there && lies_in(source, &to) ? "holds the folder that is read" : NULL;
}

/* Bytes of a URL up to its query, without '/' at the end. */
static size_t path_end(const char *text, const stk__url *url)
{
    size_t length = (size_t)(url->path - text) + url->path_length;

    while (length > 0 && text[length - 1] == '/')
        length--;
    return length;
}

/* Of other stores the text alone tells. */
static const char *meet_urls(stk_context *ctx, const char *source, const char *target)
{
    stk__url from, to;

    source = stk__url_unwrap(ctx, source, &from);
    target = stk__url_unwrap(ctx, target, &to);
    const size_t from_end = path_end(source, &from), to_end = path_end(target, &to);
    if (strncmp(source, target, STK_MIN(from_end, to_end)) != 0)
        return NULL;
    if (from_end == to_end)
        return "is the folder that is read";
    if (from_end < to_end)
        return target[from_end] == '/' ? "lies in the folder that is read" : NULL;
    return source[to_end] == '/' ? "holds the folder that is read" : NULL;
}

static stk_status check_apart(const stk_conversion_job *job, stk_error *err)
{
    char source[PATH_MAX], target[STK_MAX_OBJECT_KEY];
    const char *wrong = NULL, *to;
    stk__url url;

    /* What is drawn has no place. */
    if (strcspn(stk__convert_source(job), "?") == 0)
        return STK_OK;
    to = stk__url_unwrap(job->context, job->target, &url);
    if (!stk__convert_folder(job->context, stk__convert_source(job), source))
        wrong = meet_urls(job->context, stk__convert_source(job), job->target);
    else if (url.local && stk__url_path(&url, to, target, sizeof target, NULL) == STK_OK)
        wrong = meet_folders(source, target);
    if (wrong)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the target %.200s %s; choose a folder next to it", job->target, wrong);
    return STK_OK;
}

stk_status stk__convert_check_outside(const stk_conversion_job *job, stk_error *err)
{
    char source[PATH_MAX], target[STK_MAX_OBJECT_KEY];
    struct stat from, to;
    stk__url url;
    bool there;

    const char *text = stk__url_unwrap(job->context, job->target, &url);
    if (!stk__convert_folder(job->context, stk__convert_source(job), source) || !url.local ||
        stk__url_path(&url, text, target, sizeof target, NULL) != STK_OK)
        return STK_OK;
    char *slash = strrchr(target, '/');
    if (slash)
        slash[slash == target] = 0;
    else
        memcpy(target, ".", 2);
    if (stat(source, &from) != 0 || !find_nearest(target, &to, &there) || !lies_in(target, &from))
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "the target %.200s lies in the folder that is read; choose a place outside",
                     job->target);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static stk_status check(const stk__target *target, stk_error *err)
{
    const stk_conversion_job *job = target->job;

    STK_TRY(check_apart(job, err));
    const bool begun = target->has_journal || (*target->suffix && target->has_parts);
    if (target->has_others && !begun && !job->options->overwrite)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the target %.200s is not empty and no conversion began it; choose a new "
                         "folder, or set overwrite to write among what is there",
                         job->target);
    return STK_OK;
}

void stk__target_init(stk__target *target, const stk__target_ops *ops,
                      const stk_conversion_job *job, const char *suffix)
{
    *target = (stk__target){.ops = ops, .job = job};
    snprintf(target->suffix, sizeof target->suffix, "%s", suffix);
    snprintf(target->journal, sizeof target->journal, STK__TARGET_JOURNAL "%s", suffix);
}

stk_status stk__target_open(const stk_conversion_job *job, const char *suffix, stk__target **out,
                            stk_error *err)
{
    *out = NULL;
    stk_status status = stk__url_elsewhere(job->context, job->target)
                            ? stk__target_store_open(job, suffix, out, err)
                            : stk__target_folder_open(job, suffix, out, err);
    if (status == STK_OK)
        status = check(*out, err);
    if (status != STK_OK)
        stk__target_close(out);
    return status;
}

void stk__target_close(stk__target **target)
{
    if (*target)
        (*target)->ops->close(*target);
    *target = NULL;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_plain(const char *name)
{
    if (strncmp(name, STK__TARGET_OWN, strlen(STK__TARGET_OWN)) == 0 ||
        strlen(name) >= STK_MAX_OBJECT_KEY)
        return false;
    for (const char *part = name;; part = strchr(part, '/') + 1) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (!part[length])
            return true;
    }
}

stk_status stk__target_check_name(const char *name, stk_error *err)
{
    if (is_plain(name))
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_CONVERT, name, STK_NO_OFFSET,
                        "'%.300s' cannot be a file of the target; take it out of the source, or "
                        "rename it",
                        name);
}

stk_status stk__target_write(stk__target *target, uint64_t number, const char *name,
                             const void *data, uint64_t size, bool check, stk_error *err)
{
    STK_TRY(stk__target_check_name(name, err));
    return target->ops->write(target, number, name, data, size, check, err);
}

stk_status stk__target_name(stk__target *target, uint64_t number, const char *name, stk_error *err)
{
    STK_TRY(stk__target_check_name(name, err));
    STK_TRY(target->ops->name(target, number, name, err));
    atomic_store(&target->kept, true);
    return STK_OK;
}

bool stk__target_has(stk__target *target, const char *name, uint64_t size)
{
    uint64_t is;

    return is_plain(name) && target->ops->size(target, name, &is, NULL) == STK_OK && is == size;
}

stk_status stk__target_remove(stk__target *target, const char *name, uint64_t size, stk_error *err)
{
    stk_error own;
    uint64_t is;

    const stk_status status =
        is_plain(name) ? target->ops->size(target, name, &is, &own) : STK_ENOENT;
    if (status == STK_ENOENT || (status == STK_OK && is != size))
        return STK_OK;
    if (status == STK_OK)
        return target->ops->remove(target, name, err);
    if (err)
        *err = own;
    return status;
}

stk_status stk__convert_fail_check(const stk_conversion_job *job, stk_error *err)
{
    return stk__fail_at(err, STK_EIO, STK_STAGE_CONVERT, job->target, STK_NO_OFFSET,
                        "what was read back from %.200s is not what was written; look at its disk "
                        "before you trust it",
                        job->target);
}

stk_status stk__target_fail_check(const stk__target *target, stk_error *err)
{
    return stk__convert_fail_check(target->job, err);
}
