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
#define PART_NS       UINT64_C(50000000) /* between looks for a part: twice as long after each */
#define PART_MOST_NS  UINT64_C(2000000000)
#define ALONE_NS      UINT64_C(1000000000) /* that parts of others are waited for without them */

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* A file of a run that has ended: it is uploaded, or stays where it is, which is said. */
static stk_status send_left(stk__uploads *u, stk__upload_job *j, stk_error *err)
{
    stk__upload_local *file = j->file;
    stk__checkpoint_part part;
    stk__upload_fate fate;

    const stk__upload_found found = {file->path, j->url, j->mark, file->folder->changed_ns};
    const stk_status status =
        stk__upload_left(&u->sender, &found, &part, &j->next_part, &j->most, &fate, err);
    pthread_mutex_lock(&u->lock);
    j->part = part;
    pthread_mutex_unlock(&u->lock);
    STK_TRY(status);
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
        return stk__upload_put(u, j, err);
    case STK__UPLOAD_JOB_COPY:
        return stk__upload_copy(u, j, err);
    case STK__UPLOAD_JOB_REMOVE:
        return stk__upload_remove(u, j, err);
    case STK__UPLOAD_JOB_PARTS:
        return stk__upload_drop_parts(u, j, err);
    }
    return STK_OK;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* What a store lets nobody remove stays there, and what is gone has no other name: nothing waits
 * behind it. */
static bool is_final(const stk__upload_job *j, stk_status status)
{
    return status == STK_OK ||
           (stk__upload_removes(j) && (status == STK_EACCES || status == STK_ENOTSUP)) ||
           (j->kind == STK__UPLOAD_JOB_COPY && status == STK_ENOENT);
}

static void warn(stk__uploads *u, const stk__upload_job *j, const stk_error *err)
{
    if (u->warned || stk__upload_sender_canceled(&u->sender))
        return;
    u->warned = true;
    stk__message(u->ctx, STK_MESSAGE_WARNING,
                 stk__upload_removes(j) ? "'%s' could not be removed: %s"
                 : is_final(j, err->status)
                     ? "'%s' could not be made, as what it was to be another name of is gone: %s"
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

/* It is the first of several, and a part is not there: that is no failure. What was seen before
 * somebody asked all to be looked at says nothing. */
static void look_again(stk__uploads *u, stk__upload_job *j, const stk_error *missing,
                       uint64_t asked)
{
    const uint64_t wait = STK_MIN(PART_NS << STK_MIN(j->looks, 8u), PART_MOST_NS);

    u->missing = *missing;
    j->look_at = asked == u->asked ? stk__now_ns() + wait : 0;
    j->looks++;
}

/* What follows from a job that is done. */
static void follow(stk__uploads *u, stk__upload_job *j)
{
    stk__upload_append_removal(u, STK__UPLOAD_JOB_PARTS, j->url, &j->before);
    if (j->kind != STK__UPLOAD_JOB_PUT || !stk__part_is_first(&j->part))
        return;
    stk__upload_note_first(u, j);
    stk__upload_look_once_more(u, j);
}

/* A part that was put, or may have been, when it was no more wanted: the first knows nothing of it.
 */
static void unwanted(stk__uploads *u, const stk__upload_job *j)
{
    if (j->kind == STK__UPLOAD_JOB_PUT && j->part.number)
        stk__upload_append_removal(u, STK__UPLOAD_JOB_REMOVE, j->url, &j->part);
}

/* Of those that wait for parts of others the one that was looked at first is sent to its end, so
 * that a slow store gets something: what is void all ranks hear of the first. */
static void begin(stk__uploads *u, stk__upload_job *j)
{
    const stk__upload_job *other = u->first;

    while (other && !other->begun)
        other = other->next;
    if (j->kind == STK__UPLOAD_JOB_PUT && stk__part_is_first(&j->part))
        j->begun |= !other;
}

/* A part will not come. */
static void say_passed(stk__uploads *u, const stk__upload_job *j, const stk_error *missing)
{
    pthread_mutex_unlock(&u->lock);
    stk__message(u->ctx, STK_MESSAGE_WARNING,
                 "'%s' will not be in the store: %s, and what was saved later is there", j->url,
                 missing->text);
    pthread_mutex_lock(&u->lock);
}

/* Take it out of the list where nothing is left to be done. With the lock held. */
static void end_job(stk__uploads *u, stk__upload_job *j, bool final, bool waits)
{
    if (!final && (!j->dropped || waits))
        return;
    if (j->dropped)
        unwanted(u, j);
    stk__upload_take_out(u, j);
    if (!final)
        stk__upload_void_put(u, j);
    stk__upload_job_free(u, j);
}

/* Do a job, without the lock meanwhile. */
static void work(stk__uploads *u, stk__upload_job *j)
{
    stk_error err;

    begin(u, j);
    const uint64_t asked = u->asked;
    j->working = true;
    pthread_mutex_unlock(&u->lock);
    const stk_status status = run_job(u, j, &err);
    if (status == STK_OK) {
        stk__upload_sender_advance(&u->sender);
        u->warned = false;
    } else if (status != STK_EAGAIN) {
        warn(u, j, &err);
    }
    const bool final = is_final(j, status);
    pthread_mutex_lock(&u->lock);
    const bool passed = status == STK_EAGAIN && j->last && !u->hurry;
    if (passed && !j->dropped)
        say_passed(u, j, &err);
    j->working = false;
    j->look_at = 0;
    if (status == STK_OK)
        follow(u, j);
    if (final)
        u->failures = 0;
    else if (status == STK_EAGAIN)
        look_again(u, j, &err, asked);
    else
        note_failure(u, &err);
    if (passed)
        stk__upload_take_back(u, j);
    else
        end_job(u, j, final, status == STK_EAGAIN && j->begun);
    pthread_cond_broadcast(&u->done);
}

static void uploads_run(void *argument)
{
    stk__uploads *u = argument;

    stk__thread_background();
    pthread_mutex_lock(&u->lock);
    while (!u->closing) {
        uint64_t when = UINT64_MAX;
        stk__upload_job *j = u->gave_up ? NULL : stk__upload_choose(u, &when);
        if (j && stk__now_ns() >= u->retry_at)
            work(u, j);
        else
            stk__cond_wait_until(&u->has_jobs, &u->lock, j ? u->retry_at : when);
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
    stk__free(u->ctx, u->plain);
    stk__free(u->ctx, u->voids);
    for (stk__upload_own *o = u->own; o; o = u->own) {
        u->own = o->next;
        stk__free(u->ctx, o);
    }
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
        found = j->kind == STK__UPLOAD_JOB_PUT && !j->dropped && !j->part.count &&
                strcmp(j->url, url) == 0 && strlen(j->file->path) < size;
        if (found)
            memcpy(path, j->file->path, strlen(j->file->path) + 1);
    }
    pthread_mutex_unlock(&u->lock);
    return found;
}

/* Files that are left, and the last of them. */
static size_t count_left(const stk__uploads *u, const stk__upload_job **newest)
{
    size_t n = 0;

    *newest = NULL;
    for (const stk__upload_job *j = u->first; j; j = j->next)
        if (!stk__upload_removes(j) && !j->dropped) {
            *newest = j;
            n++;
        }
    return n;
}

static const char *why_left(const stk__uploads *u)
{
    const stk__upload_job *j = u->first;

    while (j && !j->looks)
        j = j->next;
    return u->failures ? u->failure.text : j ? u->missing.text : "there was no time for more";
}

/* End what is at work, and say what is left. What is to be removed is old, and not worth a word. */
static void give_up(stk__uploads *u)
{
    const stk__upload_job *newest;

    u->gave_up = true;
    atomic_store(&u->sender.cancel, true);
    while (stk__upload_works(u))
        stk__cond_wait_until(&u->done, &u->lock, UINT64_MAX);
    const size_t n = count_left(u, &newest);
    const char *const them = n > 1 ? "them" : "it";
    char *text =
        n ? stk__format(
                u->ctx,
                "%zu %s%s not uploaded, '%s' the newest: %s; kept in '%s': the next run with this "
                "default_root_dir and upload_dir uploads %s%s",
                n, newest->part.count ? "part" : "checkpoint", n > 1 ? "s are" : " is", newest->url,
                why_left(u), u->folder ? u->folder->path : stk__upload_dir(u), them,
                newest->part.count ? ", with the parts of the other ranks"
                                   : "; or give the path there as ckpt_path to go on from it")
          : NULL;
    pthread_mutex_unlock(&u->lock);
    if (n)
        stk__message(u->ctx, STK_MESSAGE_WARNING, "%s",
                     text ? text : "checkpoints are not uploaded");
    stk__free(u->ctx, text);
    pthread_mutex_lock(&u->lock);
}

typedef struct waiting {
    uint64_t begun, moved, since, end, told;
    bool ends; /* the program of one of those that wait is to end */
} waiting;

/* Say that it takes long. */
static void tell(stk__uploads *u, waiting *w)
{
    if (stk__now_ns() < w->told)
        return;
    w->told += TELL_NS;
    pthread_mutex_unlock(&u->lock);
    stk__message(u->ctx, STK_MESSAGE_WARNING, "still waiting for checkpoints to be uploaded");
    pthread_mutex_lock(&u->lock);
}

static void look_for_all(stk__uploads *u)
{
    u->asked++;
    for (stk__upload_job *j = u->first; j; j = j->next)
        j->look_at = 0;
    pthread_cond_signal(&u->has_jobs);
}

static void begin_waiting(stk__uploads *u, waiting *w)
{
    const uint64_t now = stk__now_ns();

    *w = (waiting){.begun = now, .since = now, .end = UINT64_MAX, .told = now + TELL_NS};
    pthread_mutex_lock(&u->lock);
    u->waiting = true;
    u->alone = false;
    u->retry_at = 0;
    look_for_all(u);
    pthread_mutex_unlock(&u->lock);
}

/* Wait a moment. `moved` counts all that gets on, also by others; `alone`: nobody else puts
 * anything. False: it is over. */
static bool wait_on(stk__uploads *u, waiting *w, uint64_t moved, bool alone)
{
    pthread_mutex_lock(&u->lock);
    const uint64_t now = stk__now_ns();
    w->ends |= u->options.told && u->options.told(u->options.user);
    if (w->end == UINT64_MAX && w->ends) {
        w->end = now + u->options.deadline_ns;
        u->hurry = true;
    }
    w->since = moved == w->moved ? w->since : now;
    w->moved = moved;
    if (alone && !u->alone) {
        u->alone = true;
        look_for_all(u);
    }
    if (u->first && !u->gave_up) {
        if (now >= w->end || now - w->since >= u->options.deadline_ns * STK__UPLOAD_PATIENCE ||
            (u->alone && stk__upload_is_stuck(u)))
            give_up(u);
        else
            stk__cond_wait_until(&u->done, &u->lock, now + LOOK_NS);
        tell(u, w);
    }
    const bool more = u->first && !u->gave_up;
    pthread_mutex_unlock(&u->lock);
    return more;
}

static bool end_waiting(stk__uploads *u)
{
    const stk__upload_job *newest;

    pthread_mutex_lock(&u->lock);
    u->hurry = u->waiting = false;
    const bool all = count_left(u, &newest) == 0;
    pthread_mutex_unlock(&u->lock);
    return all;
}

static uint64_t moved(const stk__uploads *u)
{
    return atomic_load_explicit(&u->sender.moved, memory_order_relaxed);
}

bool stk__uploads_wait(stk__uploads *u)
{
    waiting w;

    begin_waiting(u, &w);
    while (wait_on(u, &w, moved(u), stk__now_ns() - w.begun >= ALONE_NS))
        continue;
    return end_waiting(u);
}

/* ---- Together -------------------------------------------------------------------------------- */

enum { MOVED, BUSY, OPEN, FAILED, TOLD };
_Static_assert(TOLD + 1 == STK__UPLOAD_SUMS, "what is added up");

/* What this process says. */
static void say(stk__uploads *u, const waiting *w, bool open, double sums[STK__UPLOAD_SUMS])
{
    const stk__upload_job *newest;

    pthread_mutex_lock(&u->lock);
    sums[MOVED] = (double)moved(u);
    sums[BUSY] = open && !stk__upload_is_stuck(u);
    sums[OPEN] = open;
    sums[FAILED] = !open && (u->lost || count_left(u, &newest) > 0);
    sums[TOLD] = w->ends;
    pthread_mutex_unlock(&u->lock);
}

bool stk__uploads_wait_together(stk__uploads *u, stk__upload_meet_fn *meet, void *user)
{
    double own[STK__UPLOAD_SUMS], sums[STK__UPLOAD_SUMS] = {0};
    bool open = true, alone = false;
    waiting w;

    begin_waiting(u, &w);
    do {
        open = open && wait_on(u, &w, (uint64_t)sums[MOVED], alone);
        say(u, &w, open, own);
        memcpy(sums, own, sizeof sums);
        if (meet(user, sums) != STK_OK) {
            stk__uploads_wait(u);
            return false;
        }
        alone = sums[BUSY] - own[BUSY] < 0.5;
        w.ends = sums[TOLD] > 0;
    } while (sums[OPEN] > 0);
    end_waiting(u);
    u->lost = false;
    return sums[FAILED] < 0.5;
}
