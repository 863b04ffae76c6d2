/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a run as loggers write it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/store.h>

#include "base/digits.h"
#include "base/durable.h"
#include "base/items.h"
#include "base/random.h"
#include "base/url.h"
#include "train/remote/remote.h"

#define WRITE_BYTES (64 * 1024) /* lines are kept up to here */
#define CHECKPOINTS "checkpoints"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the journal of a logger");
}

/* Write the lines that are kept; no part of one stays when that fails. */
static stk_status write_lines(stk__run_journal_writer *w, stk_error *err)
{
    const size_t length = w->lines.length;

    if (length == 0)
        return STK_OK;
    if (stk__bytes_write(&w->lines, w->fd) < 0) {
        const int error = errno;
        if (ftruncate(w->fd, (off_t)w->size) < 0)
            stk__message(w->ctx, STK_MESSAGE_WARNING, "'%s' ends within a line", w->path);
        return stk__durable_fail(err, "write", w->path, error);
    }
    w->size += length;
    return STK_OK;
}

/* ---- Its beginning --------------------------------------------------------------------------- */

stk_status stk__run_journal_lock(int fd, const char *path, stk_error *err)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return STK_OK;
    return stk__fail(err, STK_EBUSY, STK_STAGE_TRAIN,
                     "'%.300s' is in use by another process, which trains or sends it; wait for "
                     "its end, or log to another version",
                     path);
}

static stk_status begin(stk__run_journal_writer *w, const stk__run_journal_option *options,
                        size_t n, stk_error *err)
{
    stk__text text = {.ctx = w->ctx};
    unsigned char bytes[(STK__RUN_JOURNAL_ID - 1) / 2];
    char id[STK__RUN_JOURNAL_ID];
    bool any = false;

    if (!stk__system_random(bytes, sizeof bytes))
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "the system gives no random bytes");
    stk__hex_text(bytes, sizeof bytes, id);
    stk__text_add(&text, "{\"journal\": 1, \"id\": \"%s\", \"time\": ", id);
    stk__text_add_real(&text, stk__wall_seconds());
    stk__text_add(&text, ", \"options\": {");
    for (size_t i = 0; i < n; i++) {
        if (!options[i].value || !options[i].value[0])
            continue;
        stk__text_add(&text, "%s\"%s\": ", any ? ", " : "", options[i].name);
        stk__text_add_json(&text, options[i].value);
        any = true;
    }
    stk__text_add(&text, "}}\n");
    const bool good = !text.failed && stk__bytes_put(&w->lines, text.bytes, text.length);
    stk__text_release(&text);
    return good ? STK_OK : no_memory(err);
}

/* "name=value, name=value", with quotes where a value needs them. */
static stk_status add_tags(stk__run_journal_writer *w, const char *tags, stk_error *err)
{
    char *copy = stk__strdup(w->ctx, tags ? tags : "");
    stk_status status = copy ? STK_OK : no_memory(err);

    for (char *at = copy, *next; at && *at && status == STK_OK; at = next) {
        at += strspn(at, " ,");
        next = at + strcspn(at, ",");
        if (*next)
            *next++ = 0;
        char *value = strchr(at, '=');
        if (!*at)
            continue;
        if (!value || value == at) {
            status = stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "tags", STK_NO_OFFSET,
                                  "tags: '%.100s' is no tag; write 'name=value, name=value'", at);
            break;
        }
        *value++ = 0;
        const stk_hparam tag = {at, value};
        if (!stk__run_journal_add_params(&w->lines, "tags", &tag, 1))
            status = no_memory(err);
    }
    stk__free(w->ctx, copy);
    return status;
}

/* A line that was torn by the end of an earlier process ends here. */
static stk_status go_on(stk__run_journal_writer *w, stk_error *err)
{
    char last = '\n';
    const int fd = open(w->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || pread(fd, &last, 1, (off_t)w->size - 1) != 1) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return stk__durable_fail(err, "read", w->path, error);
    }
    close(fd);
    return last == '\n' || stk__bytes_put(&w->lines, "\n", 1) ? STK_OK : no_memory(err);
}

static stk_status open_file(stk__run_journal_writer *w, const char *name, stk_error *err)
{
    struct stat info;

    char *url = stk__url_below(w->ctx, w->run.log_dir, name);
    const stk_status status = url ? stk_mirror_open(w->ctx, url, &w->mirror, err) : no_memory(err);
    stk__free(w->ctx, url);
    STK_TRY(status);
    w->path = stk_mirror_path(w->mirror);
    w->fd = open(w->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (w->fd < 0 || fstat(w->fd, &info) < 0)
        return stk__durable_fail(err, "write", w->path, errno);
    w->size = (uint64_t)info.st_size;
    return stk__run_journal_lock(w->fd, w->path, err);
}

stk_status stk__run_journal_writer_open(stk_logger *logger, const char *name,
                                        const stk__logger_options *folder, const char *root,
                                        const stk__run_journal_option *options, size_t n,
                                        const char *tags, stk__run_journal_writer *w,
                                        stk_error *err)
{
    stk_context *ctx = logger->context;

    *w = (stk__run_journal_writer){.ctx = ctx, .fd = -1, .lines = {.ctx = ctx}};
    stk_status status = stk__run_folder_open(ctx, folder, root, &w->run, logger, err);
    if (status == STK_OK)
        status = open_file(w, name, err);
    if (status == STK_OK && w->size > 0)
        status = go_on(w, err);
    else if (status == STK_OK)
        status = begin(w, options, n, err);
    if (status == STK_OK && w->size == 0)
        status = add_tags(w, tags, err);
    if (status == STK_OK)
        status = write_lines(w, err);
    if (status == STK_OK && !stk__url_elsewhere(ctx, w->run.log_dir))
        status = stk__durable_sync_path(w->run.log_dir, err);
    if (status != STK_OK)
        stk__run_journal_writer_close(w);
    return status;
}

void stk__run_journal_writer_close(stk__run_journal_writer *w)
{
    stk_error err;

    if (w->fd >= 0)
        close(w->fd);
    if (stk_mirror_close(&w->mirror, &err) != STK_OK)
        stk__message(w->ctx, STK_MESSAGE_ERROR, "%s", err.text);
    stk__bytes_release(&w->lines);
    stk__free(w->ctx, w->listed);
    stk__run_folder_release(w->ctx, &w->run);
    *w = (stk__run_journal_writer){.ctx = w->ctx, .fd = -1};
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static stk__run_journal_writer *journal_of(stk_logger *logger)
{
    return &((stk__remote_logger *)logger)->journal;
}

stk_status stk__remote_metrics(stk_logger *logger, const stk_metric *metrics, size_t n,
                               int64_t step, double time, stk_error *err)
{
    stk__run_journal_writer *w = journal_of(logger);

    w->ended = false;
    if (!stk__run_journal_add_metrics(&w->lines, w->run.prefix, metrics, n, step, time))
        return no_memory(err);
    return w->lines.length >= WRITE_BYTES ? write_lines(w, err) : STK_OK;
}

stk_status stk__remote_params(stk_logger *logger, const stk_hparam *params, size_t n,
                              stk_error *err)
{
    stk__run_journal_writer *w = journal_of(logger);

    w->ended = false;
    STK_TRY(stk__hparams_write(w->ctx, w->run.log_dir, params, n, err));
    return stk__run_journal_add_params(&w->lines, "params", params, n) ? STK_OK : no_memory(err);
}

/* A line for a checkpoint that has none yet: a file that was replaced has another time. */
static stk_status list_one(stk__run_journal_writer *w, int folder, const char *name, stk_error *err)
{
    struct stat info;
    char path[NAME_MAX + sizeof CHECKPOINTS + 1], seen[NAME_MAX + 64];

    if (stk__is_temporary(name) || name[0] == '.' || fstatat(folder, name, &info, 0) < 0 ||
        !S_ISREG(info.st_mode))
        return STK_OK;
    snprintf(path, sizeof path, CHECKPOINTS "/%s", name);
    snprintf(seen, sizeof seen, "%s %lld.%09ld\n", name, (long long)info.st_mtim.tv_sec,
             info.st_mtim.tv_nsec);
    if (w->listed && strstr(w->listed, seen))
        return STK_OK;
    char *listed = stk__format(w->ctx, "%s%s", w->listed ? w->listed : "", seen);
    if (!listed || !stk__run_journal_add_file(&w->lines, path)) {
        stk__free(w->ctx, listed);
        return no_memory(err);
    }
    stk__free(w->ctx, w->listed);
    w->listed = listed;
    return STK_OK;
}

static stk_status list_checkpoints(stk__run_journal_writer *w, stk_error *err)
{
    stk_status status = STK_OK;
    struct dirent *entry;

    if (stk__url_elsewhere(w->ctx, w->run.log_dir))
        return STK_OK;
    char *path = stk__url_below(w->ctx, w->run.log_dir, CHECKPOINTS);
    if (!path)
        return no_memory(err);
    DIR *folder = opendir(path); /* none: nothing was saved */
    stk__free(w->ctx, path);
    while (folder && status == STK_OK && (entry = readdir(folder)))
        status = list_one(w, dirfd(folder), entry->d_name, err);
    if (folder)
        closedir(folder);
    return status;
}

static stk_status flush(stk__run_journal_writer *w, bool finalize, stk_error *err)
{
    if (w->log_model == STK__LOG_MODEL_ALL || (finalize && w->log_model == STK__LOG_MODEL_TRUE))
        STK_TRY(list_checkpoints(w, err));
    w->ended |= finalize;
    STK_TRY(write_lines(w, err));
    if (finalize)
        stk__log_put(w->ctx, w->mirror);
    else
        STK_TRY(stk_mirror_flush(w->mirror, false, err));
    /* Some disks say only now that they are full. */
    return stk__sync(w->fd) == 0 ? STK_OK : stk__durable_fail(err, "make durable", w->path, errno);
}

stk_status stk__remote_flush(stk_logger *logger, stk_error *err)
{
    return flush(journal_of(logger), false, err);
}

stk_status stk__remote_finalize(stk_logger *logger, stk_error *err)
{
    return flush(journal_of(logger), true, err);
}

void stk__remote_ended(stk_logger *logger, stk_status how)
{
    journal_of(logger)->how = how;
}

/* A process that ends in order has finalized. */
static const char *end_of(const stk__run_journal_writer *w)
{
    return !w->ended || (w->how != STK_OK && w->how != STK_ECANCELED) ? "FAILED"
           : w->how == STK_ECANCELED                                  ? "KILLED"
                                                                      : "FINISHED";
}

bool stk__remote_end(stk__remote_logger *logger)
{
    stk__run_journal_writer *w = &logger->journal;
    stk_status status;
    stk_error err;

    if (stk__run_journal_add_end(&w->lines, end_of(w), stk__wall_seconds()))
        status = flush(w, false, &err);
    else
        status = no_memory(&err);
    if (status != STK_OK)
        stk__message(w->ctx, STK_MESSAGE_ERROR, "%s", err.text);
    return status == STK_OK;
}

void stk__remote_say_kept(const stk__remote_logger *logger)
{
    const char *name = logger->base.ops->name;

    stk__message(logger->base.context, STK_MESSAGE_INFO,
                 "%s: kept in '%s'; 'stoker report --sync %s %s' sends it", name,
                 logger->journal.path, name, logger->base.log_dir);
}
