/* SPDX-License-Identifier: Apache-2.0 */
#include "train/loggers/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <stoker/store.h>

#include "base/durable.h"
#include "base/text.h"
#include "base/url.h"

#define MAX_VERSION INT64_C(1000000000)

const stk_option stk__logger_option_list[STK__LOGGER_OPTION_COUNT] = {STK__LOGGER_OPTIONS};

/* ---- The folder ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a logger");
}

/* The number in "version_<n>", or -1. */
static int64_t version_of(const char *name)
{
    char *end;

    if (strncmp(name, "version_", 8) != 0 || name[8] < '0' || name[8] > '9')
        return -1;
    errno = 0;
    long long n = strtoll(name + 8, &end, 10);
    return *end || errno || n >= MAX_VERSION ? -1 : n;
}

static int64_t highest_version(const char *folder)
{
    int64_t highest = -1;
    struct dirent *entry;

    DIR *dir = opendir(folder);
    while (dir && (entry = readdir(dir)))
        highest = STK_MAX(highest, version_of(entry->d_name));
    if (dir)
        closedir(dir);
    return highest;
}

static stk_status fail_full(const char *folder, stk_error *err)
{
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_TRAIN, folder, STK_NO_OFFSET,
                        "'%.300s' has no number left for a new version", folder);
}

/* The folder version_N; false: no memory. */
static bool name_version(stk_context *ctx, const char *folder, int64_t n, stk__run_folder *run)
{
    char name[32];

    snprintf(name, sizeof name, "version_%" PRId64, n);
    stk__free(ctx, run->log_dir);
    run->log_dir = stk__url_below(ctx, folder, name);
    run->version = n;
    return run->log_dir != NULL;
}

/* The first version from run->version on that is free: mkdir() says whether another process was
 * faster. */
static stk_status make_version(stk_context *ctx, const char *folder, stk__run_folder *run,
                               stk_error *err)
{
    for (int64_t n = run->version; n < MAX_VERSION; n++) {
        if (!name_version(ctx, folder, n, run))
            return no_memory(err);
        if (mkdir(run->log_dir, 0777) == 0)
            return stk__durable_sync_path(folder, err);
        if (errno != EEXIST)
            return stk__durable_fail(err, "make the folder", run->log_dir, errno);
    }
    return fail_full(folder, err);
}

/* ---- A folder of another store ---- */

static stk_status note_version(void *user, const char *key, const stk_object_info *info)
{
    int64_t *highest = user;
    char name[32];

    snprintf(name, sizeof name, "%.*s", (int)STK_MIN(strcspn(key, "/"), sizeof name - 1), key);
    *highest = STK_MAX(*highest, version_of(name));
    return STK_OK;
}

/* A folder that is not there has none. */
static stk_status highest_elsewhere(stk_context *ctx, const char *folder, int64_t *highest,
                                    stk_error *err)
{
    stk_store *store = NULL;

    *highest = -1;
    stk_status status = stk_store_open(ctx, folder, &store, NULL, 0, err);
    if (status == STK_OK)
        status = stk_store_list(store, "", NULL, note_version, highest, err);
    /* Of one that lists nothing all are tried. */
    if (status == STK_ENOTSUP && store)
        status = STK_OK;
    stk_store_close(&store);
    return status == STK_ENOENT ? STK_OK : status;
}

static stk_status next_version(stk_context *ctx, const char *folder, int64_t *n, stk_error *err)
{
    if (stk__url_elsewhere(ctx, folder))
        STK_TRY(highest_elsewhere(ctx, folder, n, err));
    else
        *n = highest_version(folder);
    ++*n;
    return STK_OK;
}

/* A version is claimed by its hparams.yaml: a put that replaces nothing says whether another
 * process was faster. */
static stk_status claim_version(stk_context *ctx, const char *folder, stk__run_folder *run,
                                stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call, .no_replace = true};
    stk_status status = STK_EEXIST;

    for (int64_t n = run->version; n < MAX_VERSION && status == STK_EEXIST; n++) {
        char *path = name_version(ctx, folder, n, run)
                         ? stk__url_below(ctx, run->log_dir, "hparams.yaml")
                         : NULL;
        if (!path)
            return no_memory(err);
        status = stk_put_bytes(ctx, path, NULL, 0, &call, err);
        stk__free(ctx, path);
    }
    return status == STK_EEXIST ? fail_full(folder, err) : status;
}

/* Make the folder that was named; of a `next` version another number where it is taken. */
static stk_status make_run(stk_context *ctx, const char *folder, bool next, stk__run_folder *run,
                           stk_error *err)
{
    if (stk__url_elsewhere(ctx, folder))
        return next ? claim_version(ctx, folder, run, err) : STK_OK;
    STK_TRY(stk__durable_path(ctx, NULL, folder, err));
    return next ? make_version(ctx, folder, run, err)
                : stk__durable_path(ctx, NULL, run->log_dir, err);
}

static const stk__logger_options defaults = {
    .struct_size = sizeof defaults, .name = "lightning_logs", .version = STK_AUTO};

/* The folder of the folders of runs, in save_dir. */
static stk_status name_runs(stk_context *ctx, const stk__logger_options *o, const char *root,
                            char **save_dir, char **runs, stk_error *err)
{
    const char *dir = o->save_dir && o->save_dir[0] ? o->save_dir : root && root[0] ? root : ".";

    *runs = NULL;
    STK_TRY(stk__url_local(ctx, dir, save_dir, err));
    *runs = o->name && o->name[0] ? stk__url_below(ctx, *save_dir, o->name)
                                  : stk__strdup(ctx, *save_dir);
    return *runs ? STK_OK : no_memory(err);
}

stk_status stk__run_folder_runs(stk_context *ctx, const stk__logger_options *options,
                                const char *root, char **out, stk_error *err)
{
    char *save_dir = NULL;

    const stk_status status =
        name_runs(ctx, options ? options : &defaults, root, &save_dir, out, err);
    stk__free(ctx, save_dir);
    return status;
}

/* Fill `out`, and name the folder of all runs; *runs is the caller's on success. */
static stk_status name_run(stk_context *ctx, const stk__logger_options *o, const char *root,
                           stk__run_folder *out, char **runs, stk_error *err)
{
    int64_t n = o->version;

    *out = (stk__run_folder){.version = -1};
    stk_status status = name_runs(ctx, o, root, &out->save_dir, runs, err);
    out->name = stk__strdup(ctx, o->name ? o->name : "");
    out->prefix =
        o->prefix && o->prefix[0] ? stk__format(ctx, "%s-", o->prefix) : stk__strdup(ctx, "");
    if (status == STK_OK && !(out->name && out->prefix))
        status = no_memory(err);
    if (status == STK_OK && n == STK_AUTO)
        status = next_version(ctx, *runs, &n, err);
    if (status == STK_OK && !name_version(ctx, *runs, n, out))
        status = no_memory(err);
    if (status == STK_OK)
        return STK_OK;
    stk__free(ctx, *runs);
    stk__run_folder_release(ctx, out);
    return status;
}

stk_status stk__run_folder_name(stk_context *ctx, const stk__logger_options *options,
                                const char *root, stk__run_folder *out, stk_error *err)
{
    char *runs;

    STK_TRY(name_run(ctx, options ? options : &defaults, root, out, &runs, err));
    stk__free(ctx, runs);
    return STK_OK;
}

stk_status stk__run_folder_open(stk_context *ctx, const stk__logger_options *options,
                                const char *root, stk__run_folder *out, stk_logger *logger,
                                stk_error *err)
{
    const stk__logger_options *o = options ? options : &defaults;
    char *runs;

    STK_TRY(name_run(ctx, o, root, out, &runs, err));
    stk_status status = make_run(ctx, runs, o->version == STK_AUTO, out, err);
    stk__free(ctx, runs);
    if (status != STK_OK) {
        stk__run_folder_release(ctx, out);
        return status;
    }
    logger->log_dir = out->log_dir;
    logger->save_dir = out->save_dir;
    logger->run_name = out->name;
    logger->version = out->version;
    return STK_OK;
}

void stk__run_folder_release(stk_context *ctx, stk__run_folder *run)
{
    stk__free(ctx, run->save_dir);
    stk__free(ctx, run->name);
    stk__free(ctx, run->log_dir);
    stk__free(ctx, run->prefix);
    *run = (stk__run_folder){.version = -1};
}

void stk__log_put(stk_context *ctx, stk_mirror *mirror)
{
    stk_error err;

    if (stk_mirror_flush(mirror, true, &err) != STK_OK)
        stk__message(ctx, STK_MESSAGE_WARNING, "a log is tried again when it is closed: %s",
                     err.text);
}

/* ---- hparams.yaml ---- */

stk_status stk__hparams_write(stk_context *ctx, const char *log_dir, const stk_hparam *params,
                              size_t n, stk_error *err)
{
    stk__text text = {.ctx = ctx};

    if (n == 0)
        stk__text_add(&text, "{}\n");
    for (size_t i = 0; i < n; i++) {
        stk__text_add_yaml(&text, params[i].name);
        stk__text_add(&text, ": ");
        stk__text_add_yaml(&text, params[i].value);
        stk__text_add(&text, "\n");
    }
    char *path = stk__url_below(ctx, log_dir, "hparams.yaml");
    stk_status status = !text.failed && path ? STK_OK : no_memory(err);
    if (status == STK_OK)
        status = stk_put_bytes(ctx, path, text.bytes, text.length, NULL, err);
    stk__free(ctx, path);
    stk__text_release(&text);
    return status;
}
