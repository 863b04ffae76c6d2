/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a conversion of pictures from run to run: journal, checkpoints, leftovers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "convert/images.h"

/* ---- Earlier runs ---------------------------------------------------------------------------- */

stk_status stk__images_add_old(stk__images_run *run, const char *name, uint64_t size,
                               stk_error *err)
{
    char *copy = stk__strdup(run->context, name);
    pthread_mutex_lock(&run->lock);
    stk__old *more =
        stk__grow(run->context, run->old, &run->room_old, run->num_old + 1, sizeof *more);
    if (more)
        run->old = more;
    const bool good = more && copy;
    if (good)
        run->old[run->num_old++] = (stk__old){copy, size};
    pthread_mutex_unlock(&run->lock);
    if (good)
        return STK_OK;
    stk__free(run->context, copy);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory for the names of an earlier conversion");
}

typedef struct resuming {
    stk__images_run *run;
    const stk__images_names *names;
} resuming;

static stk_status resume_done(void *user, const char *key, const stk__done *done, stk_error *err)
{
    const resuming *r = user;
    char name[STK_MAX_OBJECT_KEY];
    uint64_t index;

    if (stk__images_names_find(r->run, r->names, key, &index)) {
        r->run->done[index] = *done;
        return STK_OK;
    }
    STK_TRY(stk__images_name(key, done->renamed, name, err));
    return stk__images_add_old(r->run, name, done->size, err);
}

static stk_status resume_old(void *user, const char *name, uint64_t size, stk_error *err)
{
    const resuming *r = user;

    return stk__images_add_old(r->run, name, size, err);
}

/* Nothing that was done counts: its files become old ones. */
static stk_status forget_done(stk__images_run *run, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY], name[STK_MAX_OBJECT_KEY];
    stk_store *store;

    for (uint64_t i = 0; i < run->total; i++) {
        stk__done *done = &run->done[i];
        if (!done->earlier)
            continue;
        STK_TRY(stk__images_source(run, i, &store, key, err));
        STK_TRY(stk__images_name(key, done->renamed, name, err));
        STK_TRY(stk__images_add_old(run, name, done->size, err));
        *done = (stk__done){0};
    }
    return STK_OK;
}

static bool is_written(const stk__done *done)
{
    return done->kind >= STK__DONE_COPIED && done->kind <= STK__DONE_ENCODED;
}

/* A new journal of all that is known, in the place of the old one. */
static stk_status write_journal(stk__images_run *run, bool with_old, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;

    STK_TRY(stk__journal_begin(&run->journal, &run->head, err));
    for (uint64_t i = 0; with_old && i < run->num_old; i++)
        STK_TRY(stk__journal_old(&run->journal, run->old[i].name, run->old[i].size, err));
    for (uint64_t i = 0; i < run->total; i++) {
        if (!is_written(&run->done[i]))
            continue;
        STK_TRY(stk__images_source(run, i, &store, key, err));
        STK_TRY(stk__journal_done(&run->journal, key, &run->done[i], err));
    }
    return stk__journal_commit(&run->journal, err);
}

stk_status stk__images_resume(stk__images_run *run, const stk__images_names *names, stk_error *err)
{
    resuming r = {run, names};
    stk__journal_lines lines = {.done = resume_done, .old = resume_old, .user = &r};
    bool fresh;

    STK_TRY(stk__journal_read(run->job, &run->journal, &run->head, &lines, &fresh, err));
    if (fresh)
        STK_TRY(forget_done(run, err));
    return write_journal(run, true, err);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Names, then lines of the journal: a line means that the file has its name, durably. */
static stk_status name_and_note(stk__images_run *run, const stk__waiting *w, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY], name[STK_MAX_OBJECT_KEY];
    stk_store *store;

    STK_TRY(stk__images_source(run, w->index, &store, key, err));
    STK_TRY(stk__images_name(key, w->done.renamed, name, err));
    STK_TRY(stk__target_name(run->target, w->index, name, err));
    STK_TRY(stk__journal_done(&run->journal, key, &w->done, err));
    run->done[w->index] = w->done;
    return STK_OK;
}

/* Take what waits; the caller frees it. */
static stk_status take_waiting(stk__images_run *run, stk__waiting **out, uint64_t *count,
                               stk_error *err)
{
    pthread_mutex_lock(&run->lock);
    *count = run->num_waiting;
    *out = *count ? stk__alloc(run->context, *count * sizeof **out) : NULL;
    if (*out) {
        memcpy(*out, run->waiting, *count * sizeof **out);
        run->num_waiting = 0;
        pthread_cond_broadcast(&run->changed);
    }
    pthread_mutex_unlock(&run->lock);
    return *out || !*count
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a checkpoint");
}

/* A line that outlived its name would have an earlier file of that name and size taken for this. */
static stk_status make_notes_safe(stk__images_run *run, stk_error *err)
{
    STK_TRY(run->target->ops->sync(run->target, err));
    return stk__journal_sync(&run->journal, err);
}

stk_status stk__images_checkpoint(stk__images_run *run, stk_error *err)
{
    stk__waiting *waiting;
    uint64_t count, named = 0;

    STK_TRY(take_waiting(run, &waiting, &count, err));
    if (!count)
        return STK_OK;
    stk_status status = run->target->ops->sync(run->target, err);
    while (status == STK_OK && named < count) {
        status = name_and_note(run, &waiting[named], err);
        named += status == STK_OK;
    }
    for (uint64_t i = named; i < count; i++)
        run->target->ops->drop(run->target, waiting[i].index);
    stk__free(run->context, waiting);
    if (status == STK_OK)
        return make_notes_safe(run, err);
    /* What has its name already is worth noting. */
    if (make_notes_safe(run, NULL) != STK_OK)
        stk__message(run->context, STK_MESSAGE_WARNING,
                     "some files are written and not noted; they will be done again");
    return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

static int by_index(const void *a, const void *b)
{
    const stk__left_out *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

static stk_status put_errors(stk__images_run *run, const char *url, stk_error *err)
{
    stk__bytes texts = {.ctx = run->context};
    bool good = true;

    for (uint64_t i = 0; i < run->num_left_out; i++)
        good = good && stk__bytes_text(&texts, run->left_out[i].text);
    const stk_status status =
        good ? stk_put_bytes(run->context, url, texts.data, texts.length, NULL, err)
             : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a list of errors");
    stk__bytes_release(&texts);
    return status;
}

static stk_status remove_errors(stk__images_run *run, const char *url, stk_error *err)
{
    stk__target *to = run->target;
    stk_error own;
    uint64_t size;

    stk_status status = to->ops->size(to, STK__TARGET_ERRORS, &size, &own);
    if (status == STK_OK)
        status = to->ops->remove(to, STK__TARGET_ERRORS, &own);
    else if (status == STK_ENOENT)
        return STK_OK;
    /* Where nothing is removed it becomes empty. */
    if (status == STK_ENOTSUP)
        return put_errors(run, url, err);
    if (status != STK_OK && err)
        *err = own;
    return status;
}

/* The list of sources left out, or none. */
static stk_status write_errors(stk__images_run *run, stk_error *err)
{
    char *url = stk__url_below(run->context, run->job->target, STK__TARGET_ERRORS);
    stk_status status;

    if (!url)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a list of errors");
    if (run->num_left_out) {
        qsort(run->left_out, run->num_left_out, sizeof *run->left_out, by_index);
        snprintf(run->report->errors_path, sizeof run->report->errors_path, "%s", url);
        status = put_errors(run, url, err);
    } else {
        status = remove_errors(run, url, err);
    }
    stk__free(run->context, url);
    return status;
}

/* Files of an earlier conversion of whose names none was written. */
static stk_status remove_old(stk__images_run *run, const stk__images_names *names, stk_error *err)
{
    uint64_t left = 0;
    stk_error why;

    for (uint64_t i = 0; i < run->num_old; i++) {
        const stk__old *old = &run->old[i];
        if (stk__images_names_taken(run, names, old->name))
            continue;
        const stk_status status = stk__target_remove(run->target, old->name, old->size, &why);
        left += status == STK_ENOTSUP;
        if (status != STK_OK && status != STK_ENOTSUP) {
            if (err)
                *err = why;
            return status;
        }
    }
    if (left)
        stk__message(run->context, STK_MESSAGE_WARNING,
                     "%llu files of an earlier conversion stay: %s", (unsigned long long)left,
                     why.text);
    return STK_OK;
}

stk_status stk__images_finish(stk__images_run *run, const stk__images_names *names, stk_error *err)
{
    STK_TRY(remove_old(run, names, err));
    /* The journal is to forget only what is gone for good. */
    STK_TRY(run->target->ops->sync(run->target, err));
    atomic_store(&run->target->kept, true);
    STK_TRY(write_errors(run, err));
    return write_journal(run, false, err);
}
