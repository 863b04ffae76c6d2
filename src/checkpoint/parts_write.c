/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one process has to know of the parts of the others is in the file system that they share: a
 * part has its name when its bytes are on the disk. So nobody waits for anybody but the thread that
 * writes the first part, and nothing is sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "checkpoint/parts.h"

#define LOOK_NS  UINT64_C(5000000)     /* between two looks at the folder */
#define HURRY_NS UINT64_C(2000000000)  /* that are left once the others have failed */
#define TELL_NS  UINT64_C(30000000000) /* between words about parts that are waited for */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the paths of parts");
}

static bool is_there(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* ---- Waiting ---- */

typedef struct waiting {
    stk_context *ctx;
    const stk__file_calls *calls;
    const char *path; /* of the first */
    const stk__checkpoint_part *part;
} waiting;

/* *next: the first part from there on that is not on the disk; the count where all are. */
static stk_status look(const waiting *w, uint32_t *next, stk_error *err)
{
    for (; *next < w->part->count; ++*next) {
        char *path = stk__part_path(w->ctx, w->path, w->part, *next);
        char *failed = stk__part_failed_path(w->ctx, w->path, w->part, *next);
        const bool memory = path && failed, there = memory && is_there(path);
        const bool lost = memory && is_there(failed);
        stk__free(w->ctx, path);
        stk__free(w->ctx, failed);
        if (!memory)
            return no_memory(err);
        if (lost)
            return stk__fail_at(err, STK_EIO, STK_STAGE_TRAIN, w->path, STK_NO_OFFSET,
                                "the checkpoint '%.300s' is not written: rank %" PRIu32
                                " of %" PRIu32
                                " could not write its part of it, and says why; the checkpoint "
                                "before it is whole",
                                w->path, *next, w->part->count);
        if (!there)
            break;
    }
    return STK_OK;
}

static stk_status too_late(const waiting *w, uint32_t missing, uint64_t waited_ns, stk_error *err)
{
    return stk__fail_at(err, STK_ETIMEDOUT, STK_STAGE_TRAIN, w->path, STK_NO_OFFSET,
                        "the checkpoint '%.300s' is not written: the part of rank %" PRIu32
                        " of %" PRIu32 " did not come within %" PRIu64
                        " s; the checkpoint before it is whole",
                        w->path, missing, w->part->count, waited_ns / UINT64_C(1000000000));
}

/* A part has its name before its folder is on the disk. */
static stk_status sync_folder(const waiting *w, stk_error *err)
{
    const stk__file_calls *calls = w->calls;
    char *path = stk__checkpoint_parts_folder(w->ctx, w->path);
    int failed = 0;

    if (!path)
        return no_memory(err);
    const int fd = calls->open(calls->user, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 || calls->fsync(calls->user, fd) != 0)
        failed = errno;
    if (fd >= 0)
        calls->close(calls->user, fd);
    const stk_status status = failed ? stk__durable_fail(err, "write", path, failed) : STK_OK;
    stk__free(w->ctx, path);
    return status;
}

stk_status stk__parts_wait_for(stk_context *ctx, const stk__file_calls *calls, const char *path,
                               const stk__checkpoint_part *part, uint64_t patience_ns,
                               const atomic_bool *hurry, stk_error *err)
{
    const waiting w = {ctx, calls ? calls : &stk__file_calls_system, path, part};
    const uint64_t from = stk__now_ns();
    uint64_t deadline = from + patience_ns, tell = from + TELL_NS;
    uint32_t next = 1;
    bool hurried = false;

    for (;;) {
        STK_TRY(look(&w, &next, err));
        if (next == part->count)
            return sync_folder(&w, err);
        const uint64_t now = stk__now_ns();
        if (!hurried && atomic_load(hurry)) {
            deadline = STK_MIN(deadline, now + HURRY_NS);
            hurried = true;
        }
        if (now >= deadline)
            return too_late(&w, next, now - from, err);
        if (now >= tell) {
            stk__message(ctx, STK_MESSAGE_WARNING,
                         "the checkpoint '%.300s' still waits for the part of rank %" PRIu32, path,
                         next);
            tell = now + TELL_NS;
        }
        stk__sleep_until(now + LOOK_NS, NULL);
    }
}

void stk__part_tell_failure(const stk__file_calls *calls, const char *path)
{
    char failed[STK_MAX_OBJECT_KEY];

    calls = calls ? calls : &stk__file_calls_system;
    if (snprintf(failed, sizeof failed, "%s" STK__PART_FAILED, path) >= (int)sizeof failed)
        return;
    const int fd = calls->open(calls->user, AT_FDCWD, failed, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0)
        calls->close(calls->user, fd);
}
