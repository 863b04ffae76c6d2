/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of jobs: files to put, objects to copy and to remove. The thread takes the first and drops
 * it when it is done; one that fails stays and is tried again. A file whose place a later one has
 * taken is dropped before it is begun, so that a slow store gets what is new; one that was begun is
 * sent to its end, so that it gets anything at all.
 */
#include "checkpoint/upload_room.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/durable.h"
#include "base/url.h"

#define DEADLINE_NS   UINT64_C(25000000000)
#define RETRY_NS      UINT64_C(250000000) /* twice as long after each failure */
#define RETRY_MOST_NS UINT64_C(30000000000)
#define LOOK_NS       UINT64_C(50000000) /* between looks at whether the program is to end */
#define TELL_NS       UINT64_C(30000000000)

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* A file of a run that has ended: it is uploaded, or stays where it is, which is said. */
static stk_status send_left(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    stk__upload_local *file = j->file;
    stk__upload_fate fate;

    STK_TRY(stk__upload_left(&u->sender, file->path, j->url, j->mark, file->folder->changed_ns,
                             &j->most, &fate, err));
    if (fate == STK__UPLOAD_SENT)
        return STK_OK;
    file->kept = j->kept = true;
    stk__message(u->ctx, STK_MESSAGE_WARNING,
                 fate == STK__UPLOAD_OLD
                     ? "'%s', which an earlier run left, is not uploaded to '%s': the store has a "
                       "later checkpoint; give its path as ckpt_path to go on from it, or remove it"
                     : "'%s', which an earlier run left, is not uploaded to '%s': it is damaged; "
                       "remove it",
                 file->path, j->url);
    return STK_OK;
}

static stk_status run_job(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    switch (j->kind) {
    case STK__UPLOAD_JOB_LEFT:
        return send_left(u, j, err);
    case STK__UPLOAD_JOB_PUT:
        return stk__upload_file(&u->sender, j->file->path, j->url, j->mark, &j->most, err);
    case STK__UPLOAD_JOB_COPY:
        return stk__upload_copy(&u->sender, j->from, j->url, err);
    case STK__UPLOAD_JOB_REMOVE:
        return stk__upload_remove(&u->sender, j->url, err);
    }
    return STK_OK;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void warn(stk__uploads *u, const stk__upload_job *j, const stk_error *err)
{
    if (u->warned || stk__upload_sender_canceled(&u->sender))
        return;
    u->warned = true;
    stk__message(u->ctx, STK_MESSAGE_WARNING,
                 j->kind == STK__UPLOAD_JOB_REMOVE
                     ? "'%s' could not be removed: %s"
                     : "'%s' could not be uploaded and is tried again, while training goes on: %s",
                 j->url, err->text);
}

static void note_failure(stk__uploads *u, const stk_error *err)
{
    const uint64_t most = u->waiting ? u->options.deadline_ns / 8 : RETRY_MOST_NS;

    if (stk__upload_sender_canceled(&u->sender))
        return;
    u->failure = *err;
    u->retry_at = stk__now_ns() + STK_MIN(RETRY_NS << STK_MIN(u->failures, 7u), most);
    u->failures++;
}

/* Do a job, without the lock meanwhile. */
static void work(stk__uploads *u, stk__upload_job *j)
{
    stk_error err;

    j->working = true;
    pthread_mutex_unlock(&u->lock);
    const stk_status status = run_job(u, j, &err);
    if (status == STK_OK) {
        stk__upload_sender_advance(&u->sender);
        u->warned = false;
    } else {
        warn(u, j, &err);
    }
    /* What a store lets nobody remove stays there: nothing waits behind it. */
    const bool ended = status == STK_OK || (j->kind == STK__UPLOAD_JOB_REMOVE &&
                                            (status == STK_EACCES || status == STK_ENOTSUP));
    pthread_mutex_lock(&u->lock);
    j->working = false;
    if (ended)
        u->failures = 0;
    else
        note_failure(u, &err);
    if (ended || j->dropped) {
        stk__upload_take_out(u, j);
        stk__upload_job_free(u, j);
    }
    pthread_cond_broadcast(&u->done);
}

static void uploads_run(void *argument)
{
    stk__uploads *u = argument;

    stk__thread_background();
    pthread_mutex_lock(&u->lock);
    while (!u->closing) {
        stk__upload_job *j = u->gave_up ? NULL : stk__upload_choose(u);
        if (j && stk__now_ns() >= u->retry_at)
            work(u, j);
        else
            stk__cond_wait_until(&u->has_jobs, &u->lock, j ? u->retry_at : UINT64_MAX);
    }
    pthread_mutex_unlock(&u->lock);
}

stk_status stk__upload_start(stk__uploads *u, stk_error *err)
{
    if (u->started)
        return STK_OK;
    STK_TRY(stk__thread_start(u->ctx, &u->thread, "stk-upload", uploads_run, u, err));
    u->started = true;
    return STK_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

stk_status stk__uploads_create(stk_context *ctx, stk__uploads **out, stk_error *err)
{
    stk__uploads *u = stk__calloc(ctx, 1, sizeof *u);

    *out = u;
    if (!u)
        return stk__upload_no_memory("a checkpoint", err);
    u->ctx = ctx;
    u->options.deadline_ns = DEADLINE_NS;
    stk__upload_sender_init(&u->sender, ctx);
    pthread_mutex_init(&u->lock, NULL);
    stk__cond_init(&u->has_jobs);
    stk__cond_init(&u->done);
    return STK_OK;
}

stk_status stk__uploads_set(stk__uploads *u, const stk__upload_options *options, stk_error *err)
{
    char *dir = NULL;

    if (options->dir && *options->dir)
        STK_TRY(stk__url_local(u->ctx, options->dir, &dir, err));
    stk__free(u->ctx, u->dir);
    u->options = *options;
    u->options.dir = NULL;
    u->dir = dir;
    return STK_OK;
}

static void forget(stk__uploads *u, bool own)
{
    if (own)
        stk__upload_local_leave(u, &u->newest);
    for (stk__upload_job *j = u->first; j; j = u->first) {
        u->first = j->next;
        /* Files that are left stay. */
        if (j->file && --j->file->users == 0)
            stk__free(u->ctx, j->file);
        stk__free(u->ctx, j);
    }
    stk__upload_folder_close(u->ctx, &u->folder, own);
    for (stk__upload_folder *f = u->taken; f; f = u->taken) {
        u->taken = f->next;
        stk__upload_folder_close(u->ctx, &f, own);
    }
    stk__put_place_close(&u->sender.place);
    stk__free(u->ctx, u->newest_url);
    stk__free(u->ctx, u->newest_mark);
    stk__free(u->ctx, u->dir);
    stk__free(u->ctx, u);
}

void stk__uploads_destroy(stk__uploads **in_out)
{
    stk__uploads *u = *in_out;

    *in_out = NULL;
    if (!u)
        return;
    /* In a child of a fork the thread is the parent's, and so are the files. */
    const bool own = !stk__context_forked(u->ctx);
    if (own && u->started) {
        pthread_mutex_lock(&u->lock);
        u->closing = true;
        atomic_store(&u->sender.cancel, true);
        pthread_cond_signal(&u->has_jobs);
        pthread_mutex_unlock(&u->lock);
        stk__thread_join(&u->thread);
    }
    if (own) {
        pthread_cond_destroy(&u->done);
        pthread_cond_destroy(&u->has_jobs);
        pthread_mutex_destroy(&u->lock);
    }
    forget(u, own);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

bool stk__uploads_find(stk__uploads *u, const char *url, char *path, size_t size)
{
    bool found = false;

    pthread_mutex_lock(&u->lock);
    for (const stk__upload_job *j = u->first; j && !found; j = j->next) {
        found = j->kind == STK__UPLOAD_JOB_PUT && !j->dropped && strcmp(j->url, url) == 0 &&
                strlen(j->file->path) < size;
        if (found)
            memcpy(path, j->file->path, strlen(j->file->path) + 1);
    }
    pthread_mutex_unlock(&u->lock);
    return found;
}

/* Files that are left; the URL of one. */
static size_t count_left(const stk__uploads *u, const char **url)
{
    size_t n = 0;

    for (const stk__upload_job *j = u->first; j; j = j->next)
        if (j->kind != STK__UPLOAD_JOB_REMOVE && !j->dropped) {
            *url = j->url;
            n++;
        }
    return n;
}

/* End what is at work, and say what is left. What is to be removed is old, and not worth a word. */
static void give_up(stk__uploads *u)
{
    const char *url = "";

    u->gave_up = true;
    atomic_store(&u->sender.cancel, true);
    while (stk__upload_works(u))
        stk__cond_wait_until(&u->done, &u->lock, UINT64_MAX);
    const size_t n = count_left(u, &url);
    char *text =
        n ? stk__format(
                u->ctx,
                "%zu checkpoint%s not uploaded, '%s' the newest: %s; kept in '%s': "
                "the next run with this default_root_dir and upload_dir uploads %s; or give "
                "the path there as ckpt_path to go on from it",
                n, n > 1 ? "s are" : " is", url,
                u->failures ? u->failure.text : "there was no time for more",
                u->folder ? u->folder->path : stk__upload_dir(u), n > 1 ? "them" : "it")
          : NULL;
    pthread_mutex_unlock(&u->lock);
    if (n)
        stk__message(u->ctx, STK_MESSAGE_WARNING, "%s",
                     text ? text : "checkpoints are not uploaded");
    stk__free(u->ctx, text);
    pthread_mutex_lock(&u->lock);
}

/* Say that it takes long. */
static void tell(stk__uploads *u, uint64_t *when)
{
    if (stk__now_ns() < *when)
        return;
    *when += TELL_NS;
    pthread_mutex_unlock(&u->lock);
    stk__message(u->ctx, STK_MESSAGE_WARNING, "still waiting for checkpoints to be uploaded");
    pthread_mutex_lock(&u->lock);
}

bool stk__uploads_wait(stk__uploads *u)
{
    const uint64_t patience = u->options.deadline_ns * STK__UPLOAD_PATIENCE;
    uint64_t moved = 0, now = stk__now_ns(), since = now, end = UINT64_MAX, told = now + TELL_NS;
    const char *url;

    pthread_mutex_lock(&u->lock);
    u->waiting = true;
    u->retry_at = 0;
    pthread_cond_signal(&u->has_jobs);
    while (u->first && !u->gave_up) {
        now = stk__now_ns();
        if (end == UINT64_MAX && u->options.told && u->options.told(u->options.user)) {
            end = now + u->options.deadline_ns;
            u->hurry = true;
        }
        const uint64_t is = atomic_load_explicit(&u->sender.moved, memory_order_relaxed);
        since = is == moved ? since : now;
        moved = is;
        if (now >= end || now - since >= patience)
            give_up(u);
        else
            stk__cond_wait_until(&u->done, &u->lock, now + LOOK_NS);
        tell(u, &told);
    }
    u->hurry = u->waiting = false;
    const bool all = count_left(u, &url) == 0;
    pthread_mutex_unlock(&u->lock);
    return all;
}
