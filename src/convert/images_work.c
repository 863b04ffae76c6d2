/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does with one picture after the other. */
#include <inttypes.h>
#include <stdio.h>

#include "convert/images.h"

#define READ_PIECE (UINT64_C(8) << 20)

/* How one file ended. */
typedef enum outcome {
    FINE,
    BROKEN, /* the source is at fault: may be skipped */
    FAILED  /* the run ends */
} outcome;

/* ---- Reading --------------------------------------------------------------------------------- */

stk_status stk__images_load(stk__images_run *run, stk_store *store, const char *key, uint64_t size,
                            uint8_t **out, stk_error *err)
{
    *out = NULL;
    uint8_t *data = stk__alloc_buffer(run->context, size);
    if (!data)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CONVERT, key, STK_NO_OFFSET,
                            "no memory for the %" PRIu64 " bytes of %.300s", size, key);
    for (uint64_t at = 0; at < size; at += READ_PIECE) {
        stk_status status =
            stk_store_read(store, key, at, STK_MIN(READ_PIECE, size - at), data + at, err);
        if (status != STK_OK) {
            stk__free(run->context, data);
            return status;
        }
    }
    *out = data;
    return STK_OK;
}

static stk_status refuse_size(const stk__images_run *run, const char *key, uint64_t bytes,
                              stk_error *err)
{
    return stk__fail_at(err, STK_EBUDGET, STK_STAGE_CONVERT, key, STK_NO_OFFSET,
                        "%.300s takes %" PRIu64 " bytes of memory to convert and memory_budget is "
                        "%" PRIu64 "; raise it",
                        key, bytes, run->budget);
}

/* ---- One file -------------------------------------------------------------------------------- */

/* What is known of a file while it is worked on. */
typedef struct task {
    stk__images_run *run;
    stk__picture_worker *worker;
    uint64_t index;
    stk_store *store;
    stk_object_info info;
    bool alone; /* all memory is its own */
    bool more;  /* out: it needs more than a share: again, alone */
    char key[STK_MAX_OBJECT_KEY];
} task;

/* Whether it was done by an earlier run, from the same source, and is still there. */
static bool is_done(const task *t, const stk__done *done)
{
    char name[STK_MAX_OBJECT_KEY];

    return done->source_size == t->info.size && done->mtime_ns == t->info.mtime_ns &&
           stk__images_name(t->key, done->renamed, name, NULL) == STK_OK &&
           stk__target_has(t->run->target, name, done->size);
}

/* Memory beyond a share is asked for before it is taken. */
static bool fits(task *t, uint64_t bytes)
{
    t->more = !t->alone && bytes > t->run->share && bytes <= t->run->budget;
    return !t->more;
}

static outcome of_picture(const task *t, stk_status status, const char *reason, stk_error *err)
{
    stk__image_fail(err, status, t->key, reason);
    return stk_status_fault(status) == STK_FAULT_SAMPLE ? BROKEN : FAILED;
}

/* Encode and write a picture whose bytes are there. */
static outcome convert(task *t, const uint8_t *data, stk__done *done, stk_error *err)
{
    stk__images_run *run = t->run;
    stk__repack plan;
    stk__repacked result;
    const char *reason;

    stk_status status =
        stk__picture_plan(run->own, run->options, data, t->info.size, &plan, &reason);
    if (status != STK_OK)
        return of_picture(t, status, reason, err);
    if (!fits(t, plan.memory))
        return FINE;
    if (plan.memory > run->budget) {
        refuse_size(run, t->key, plan.memory, err);
        return BROKEN;
    }
    status = stk__picture_do(t->worker, &plan, data, t->info.size, &result, &reason);
    if (status != STK_OK)
        return of_picture(t, status, reason, err);
    *done = (stk__done){.source_size = t->info.size,
                        .mtime_ns = t->info.mtime_ns,
                        .size = result.size,
                        .sse = result.sse,
                        .samples = result.samples,
                        .kind = (uint8_t)result.kind,
                        .renamed =
                            result.kind == STK__DONE_ENCODED && !stk__images_has_jpeg_name(t->key)};
    char name[STK_MAX_OBJECT_KEY];
    status = stk__images_name(t->key, done->renamed, name, err);
    if (status == STK_OK)
        status = stk__target_write(run->target, t->index, name, result.data, result.size,
                                   t->worker->verify, err);
    stk__free(run->context, result.owned);
    return status == STK_OK ? FINE : FAILED;
}

static outcome load_and_convert(task *t, stk__done *done, stk_error *err)
{
    uint8_t *data;

    if (!fits(t, t->info.size))
        return FINE;
    if (t->info.size > t->run->budget) {
        refuse_size(t->run, t->key, t->info.size, err);
        return BROKEN;
    }
    stk_status status = stk__images_load(t->run, t->store, t->key, t->info.size, &data, err);
    if (status != STK_OK)
        return stk_status_fault(status) == STK_FAULT_SAMPLE ? BROKEN : FAILED;
    outcome end = convert(t, data, done, err);
    stk__free(t->run->context, data);
    return end;
}

/* Convert, within a share of the memory or, where that is too little, with all of it. */
static outcome with_memory(task *t, stk__done *done, stk_error *err)
{
    pthread_rwlock_t *all = &t->run->all_memory;

    pthread_rwlock_rdlock(all);
    outcome end = load_and_convert(t, done, err);
    pthread_rwlock_unlock(all);
    if (end != FINE || !t->more)
        return end;
    t->alone = true;
    pthread_rwlock_wrlock(all);
    end = load_and_convert(t, done, err);
    pthread_rwlock_unlock(all);
    return end;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void finished(stk__images_run *run, const stk__waiting *waiting)
{
    pthread_mutex_lock(&run->lock);
    /* The committing thread makes room, and ends the run where it cannot. */
    while (waiting && run->num_waiting == 2 * run->options->checkpoint && !atomic_load(&run->stop))
        stk__cond_wait_until(&run->changed, &run->lock, UINT64_MAX);
    if (waiting && run->num_waiting < 2 * run->options->checkpoint)
        run->waiting[run->num_waiting++] = *waiting;
    run->finished++;
    run->verified += waiting && run->options->verify == STK_VERIFY_FULL;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void fail(stk__images_run *run, uint64_t index, const stk_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->failure.status == STK_OK || index < run->failed_at) {
        run->failure = *err;
        run->failure.sample = index;
        run->failed_at = index;
    }
    atomic_store(&run->stop, true);
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* Note a broken source; false: there is no memory for it. */
static bool leave_out(stk__images_run *run, uint64_t index, const char *key, const stk_error *err)
{
    static const char form[] = "%s\t%s\t%s\n";
    char word[3 * STK_MAX_OBJECT_KEY], text[STK_ERROR_TEXT];

    stk__journal_word(key, word);
    snprintf(text, sizeof text, "%s", err->text);
    for (char *p = text; *p; p++)
        *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    char *line = stk__format(run->context, form, word, stk_status_name(err->status), text);
    pthread_mutex_lock(&run->lock);
    stk__left_out *more = stk__grow(run->context, run->left_out, &run->room_left_out,
                                    run->num_left_out + 1, sizeof *more);
    if (more)
        run->left_out = more;
    const bool good = more && line;
    if (good)
        run->left_out[run->num_left_out++] = (stk__left_out){index, line};
    pthread_mutex_unlock(&run->lock);
    if (!good)
        stk__free(run->context, line);
    return good;
}

static bool too_many(stk__images_run *run)
{
    pthread_mutex_lock(&run->lock);
    const bool more = run->num_left_out > run->max_errors;
    pthread_mutex_unlock(&run->lock);
    return more;
}

static void end_broken(task *t, stk_error *err)
{
    stk__images_run *run = t->run;

    if (run->options->on_error == 0) {
        fail(run, t->index, err);
        return;
    }
    if (!leave_out(run, t->index, t->key, err)) {
        stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to note a broken picture");
        fail(run, t->index, err);
        return;
    }
    run->done[t->index] = (stk__done){.kind = STK__DONE_SKIPPED};
    stk__message(run->context, STK_MESSAGE_WARNING, "left out: %s", err->text);
    if (too_many(run)) {
        char last[STK_ERROR_TEXT];
        snprintf(last, sizeof last, "%s", err->text);
        stk__fail(err, STK_EBADSAMPLES, STK_STAGE_CONVERT,
                  "%llu broken sources, max_errors allows %llu: mend the data or raise max_errors; "
                  "one of them: %.300s",
                  (unsigned long long)run->max_errors + 1, (unsigned long long)run->max_errors,
                  last);
        fail(run, t->index, err);
        return;
    }
    finished(run, NULL);
}

/* What was written under another name is no more of use. */
static stk_status replace_earlier(task *t, const stk__done *before, const stk__done *now,
                                  stk_error *err)
{
    char name[STK_MAX_OBJECT_KEY];

    if (before->kind == STK__DONE_NOT || before->renamed == now->renamed)
        return STK_OK;
    STK_TRY(stk__images_name(t->key, before->renamed, name, err));
    return stk__images_add_old(t->run, name, before->size, err);
}

static void process(task *t)
{
    stk__images_run *run = t->run;
    stk__done before = run->done[t->index], now = {0};
    outcome end = FINE;
    stk_error err;

    stk_error_init(&err);
    t->info.struct_size = sizeof t->info;
    stk_status status = stk__images_source(run, t->index, &t->store, t->key, &err);
    if (status == STK_OK) {
        status = stk_store_stat(t->store, t->key, NULL, &t->info, &err);
        end = status == STK_OK || stk_status_fault(status) == STK_FAULT_SAMPLE ? FINE : FAILED;
    }
    if (status != STK_OK && end == FINE)
        end = BROKEN;
    if (end == FINE && before.kind != STK__DONE_NOT && is_done(t, &before)) {
        finished(run, NULL);
        return;
    }
    run->done[t->index] = (stk__done){0};
    if (end == FINE)
        end = with_memory(t, &now, &err);
    if (end == FINE && replace_earlier(t, &before, &now, &err) != STK_OK)
        end = FAILED;
    if (end == FINE)
        finished(run, &(stk__waiting){t->index, now});
    else if (end == BROKEN)
        end_broken(t, &err);
    else
        fail(run, t->index, &err);
}

bool stk__images_step(stk__images_run *run, stk__picture_worker *worker)
{
    if (atomic_load(&run->stop) || run->job->canceled(run->job))
        return false;
    uint64_t index = atomic_fetch_add(&run->next, 1);
    if (index >= run->total)
        return false;
    if (run->done[index].kind == STK__DONE_REPEATED) {
        finished(run, NULL);
        return true;
    }
    task t = {.run = run, .worker = worker, .index = index};
    process(&t);
    return true;
}
