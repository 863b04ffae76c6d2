/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal of a run has and is not sent: later, and as a whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/sized.h"
#include "base/url.h"
#include "train/remote/mlflow.h"

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to send a journal");
}

/* ---- The journal ------------------------------------------------------------------------------
 */

/* That of one name, open and locked; STK_ENOENT: there is none. */
static stk_status open_named(stk_context *ctx, const char *run, const char *name,
                             stk_mirror **mirror, int *fd, stk_error *err)
{
    char *url = stk__url_below(ctx, run, name);
    stk_status status = url ? stk_mirror_open(ctx, url, mirror, err) : no_memory(err);

    stk__free(ctx, url);
    STK_TRY(status);
    *fd = open(stk_mirror_path(*mirror), O_RDONLY | O_CLOEXEC);
    if (*fd >= 0)
        return stk__run_journal_lock(*fd, stk_mirror_path(*mirror), err);
    status = stk__durable_fail(err, "read", stk_mirror_path(*mirror), errno);
    stk_mirror_close(mirror, NULL);
    return status;
}

/* The logger's own, else that of one who sends nothing himself. */
static stk_status open_journal(stk_context *ctx, const char *run, stk_mirror **mirror, int *fd,
                               stk_error *err)
{
    stk_status status = open_named(ctx, run, STK__MLFLOW_JOURNAL, mirror, fd, err);

    if (status == STK_ENOENT)
        status = open_named(ctx, run, STK__WANDB_JOURNAL, mirror, fd, err);
    return status != STK_ENOENT
               ? status
               : stk__fail_at(err, STK_ENOENT, STK_STAGE_TRAIN, run, STK_NO_OFFSET,
                              "'%.300s' has no journal: name the folder of a run that was logged "
                              "with --logger mlflow or wandb, as lightning_logs/version_0",
                              run);
}

/* ---- Pages ------------------------------------------------------------------------------------
 */

static bool is_page(const char *name)
{
    return name[0] != '.' && stk__ends_with(name, strlen(name), ".html");
}

/* Pages of reports in the folder of the run. */
static stk_status send_pages(stk_context *ctx, stk__mlflow *m, const char *run, stk_error *err)
{
    stk_status status = STK_OK;
    struct dirent *entry;

    DIR *folder = stk__url_elsewhere(ctx, run) ? NULL : opendir(run);
    while (folder && status == STK_OK && (entry = readdir(folder)))
        if (is_page(entry->d_name))
            status = stk__mlflow_send_file(m, entry->d_name, NULL, err);
    if (folder)
        closedir(folder);
    return status;
}

/* ---- All of it --------------------------------------------------------------------------------
 */

static stk_status send_all(stk_context *ctx, const stk__mlflow_place *place, uint64_t end,
                           stk_logger_synced *synced, stk_error *err)
{
    stk__mlflow *m;

    STK_TRY(stk__mlflow_open(ctx, place, &m, err));
    synced->bytes_before = stk__mlflow_offset(m);
    stk_status status = stk__mlflow_send(m, end, NULL, err);
    if (status == STK_OK)
        status = send_pages(ctx, m, place->folder, err);
    const stk__mlflow_sent *sent = stk__mlflow_counts(m);
    synced->metrics = sent->metrics;
    synced->params = sent->params + sent->tags;
    synced->files = sent->files;
    synced->refused = sent->refused;
    synced->damaged = sent->damaged;
    synced->unsent = sent->unsent;
    synced->bytes = stk__mlflow_offset(m);
    if (!stk__mlflow_page(m, synced->page, sizeof synced->page))
        synced->page[0] = 0;
    stk__mlflow_close(&m);
    return status;
}

stk_status stk__mlflow_sync(stk_context *ctx, const void *options, const char *run,
                            stk_logger_synced *out, stk_error *err)
{
    stk_logger_synced synced = {.struct_size = sizeof synced};
    stk__mlflow_place place = stk__mlflow_place_of(options);
    stk_mirror *mirror = NULL;
    struct stat info;
    int fd = -1;

    char *mark = stk__url_below(ctx, run, STK__MLFLOW_MARK);
    stk_status status = mark ? open_journal(ctx, run, &mirror, &fd, err) : no_memory(err);
    if (status == STK_OK && fstat(fd, &info) < 0)
        status = stk__durable_fail(err, "read", stk_mirror_path(mirror), errno);
    if (status == STK_OK) {
        place.folder = run;
        place.journal = stk_mirror_path(mirror);
        place.mark = mark;
        status = send_all(ctx, &place, (uint64_t)info.st_size, &synced, err);
    }
    stk__sized_write(out, &synced);
    if (fd >= 0)
        close(fd);
    stk_mirror_close(&mirror, NULL);
    stk__free(ctx, mark);
    return status;
}
