/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller copies its state into the snapshot and goes on; the thread hashes it, writes it and
 * makes it durable. There is one snapshot: a save that comes while it is being written waits. Links
 * queue up behind it.
 */
#include "checkpoint/write_room.h"

#include "checkpoint/hash.h"

#define TELL_NS   UINT64_C(30000000000) /* between words about a write that is waited for */
#define OWN_TEXTS 3                     /* layout, hash and the part, in front of the caller's */

/* Kinds of which there is one at a time. */
static bool takes_snapshot(stk__write_kind kind)
{
    return kind == STK__WRITE_SAVE || kind == STK__WRITE_TOUCH;
}

/* ---- The thread ---- */

static void writer_run(void *argument)
{
    stk__checkpoint_writer *writer = argument;
    stk_error err;

    stk__thread_background();
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (!writer->first && !writer->closing)
            stk__cond_wait_until(&writer->has_jobs, &writer->lock, UINT64_MAX);
        stk__write_job *j = writer->first;
        if (!j)
            break;
        writer->first = j->next;
        writer->working = true;
        pthread_mutex_unlock(&writer->lock);
        stk_status status = stk__write_job_run(writer, j, &err);
        bool holds_snapshot = takes_snapshot(j->kind);
        stk__free(writer->ctx, j);
        pthread_mutex_lock(&writer->lock);
        if (status != STK_OK && !writer->failed) {
            writer->failed = true;
            writer->failure = err;
        }
        writer->working = false;
        if (holds_snapshot)
            writer->snapshot_busy = false;
        pthread_cond_broadcast(&writer->done);
    }
    pthread_mutex_unlock(&writer->lock);
}

/* ---- The writer ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a checkpoint");
}

stk_status stk__checkpoint_writer_create(stk_context *ctx, stk__checkpoint_writer **out,
                                         stk_error *err)
{
    return stk__checkpoint_writer_create_on(ctx, NULL, out, err);
}

stk_status stk__checkpoint_writer_create_on(stk_context *ctx, const struct stk__file_calls *calls,
                                            stk__checkpoint_writer **out, stk_error *err)
{
    *out = NULL;
    stk__checkpoint_writer *writer = stk__calloc(ctx, 1, sizeof *writer);
    if (!writer)
        return no_memory(err);
    writer->ctx = ctx;
    writer->place = (stk__put_place){.context = ctx, .calls = calls};
    writer->head.text.ctx = ctx;
    pthread_mutex_init(&writer->lock, NULL);
    stk__cond_init(&writer->has_jobs);
    stk__cond_init(&writer->done);
    stk_status status = stk__uploads_create(ctx, &writer->uploads, err);
    if (status == STK_OK)
        status = stk__thread_start(ctx, &writer->thread, "stk-checkpoint", writer_run, writer, err);
    if (status != STK_OK) {
        stk__checkpoint_writer_destroy(&writer);
        return status;
    }
    *out = writer;
    return STK_OK;
}

void stk__checkpoint_writer_destroy(stk__checkpoint_writer **in_out)
{
    stk__checkpoint_writer *writer = *in_out;

    *in_out = NULL;
    if (!writer)
        return;
    /* In a child of a fork the thread is the parent's, and so is what it writes. */
    if (!stk__context_forked(writer->ctx)) {
        pthread_mutex_lock(&writer->lock);
        writer->closing = true;
        pthread_cond_signal(&writer->has_jobs);
        pthread_mutex_unlock(&writer->lock);
        stk__thread_join(&writer->thread);
        if (writer->failed)
            stk__message(writer->ctx, STK_MESSAGE_ERROR, "%s", writer->failure.text);
        if (writer->uploads)
            stk__uploads_wait(writer->uploads);
        pthread_cond_destroy(&writer->done);
        pthread_cond_destroy(&writer->has_jobs);
        pthread_mutex_destroy(&writer->lock);
    }
    while (writer->first) {
        stk__write_job *next = writer->first->next;
        stk__free(writer->ctx, writer->first);
        writer->first = next;
    }
    stk__uploads_destroy(&writer->uploads);
    stk__safetensors_head_release(&writer->head);
    stk__free(writer->ctx, writer->texts);
    stk__free(writer->ctx, writer->data);
    stk__put_place_close(&writer->place);
    stk__free(writer->ctx, writer);
}

/* Wait for the thread to get on; say now and then that it does not. */
static void wait_locked(stk__checkpoint_writer *writer)
{
    if (stk__cond_wait_until(&writer->done, &writer->lock, stk__now_ns() + TELL_NS))
        return;
    pthread_mutex_unlock(&writer->lock);
    stk__message(writer->ctx, STK_MESSAGE_WARNING, "still waiting for a checkpoint to be written");
    pthread_mutex_lock(&writer->lock);
}

/* ---- Handing over ---- */

static stk__write_job *make_job(stk_context *ctx, stk__write_kind kind, const char *path,
                                const char *const *others, size_t num_others)
{
    uint64_t bytes, size = sizeof(stk__write_job) + strlen(path) + 1;

    if (!stk__mul_size(num_others, sizeof *others, &bytes) || !stk__add_size(size, bytes, &size))
        return NULL;
    for (size_t i = 0; i < num_others; i++)
        size += strlen(others[i]) + 1;
    stk__write_job *j = stk__alloc(ctx, size);
    if (!j)
        return NULL;
    *j = (stk__write_job){.kind = kind, .num_others = num_others};
    char *to = (char *)(j->others + num_others);
    j->path = memcpy(to, path, strlen(path) + 1);
    to += strlen(path) + 1;
    for (size_t i = 0; i < num_others; i++) {
        j->others[i] = memcpy(to, others[i], strlen(others[i]) + 1);
        to += strlen(others[i]) + 1;
    }
    return j;
}

static void hand_over(stk__checkpoint_writer *writer, stk__write_job *j)
{
    pthread_mutex_lock(&writer->lock);
    if (writer->first)
        writer->last->next = j;
    else
        writer->first = j;
    writer->last = j;
    writer->snapshot_busy |= takes_snapshot(j->kind);
    pthread_cond_signal(&writer->has_jobs);
    pthread_mutex_unlock(&writer->lock);
}

static uint64_t wait_for_snapshot(stk__checkpoint_writer *writer)
{
    uint64_t waited = 0;

    pthread_mutex_lock(&writer->lock);
    if (writer->snapshot_busy) {
        uint64_t start = stk__now_ns();
        while (writer->snapshot_busy)
            wait_locked(writer);
        waited = stk__now_ns() - start;
    }
    pthread_mutex_unlock(&writer->lock);
    return waited;
}

/* *all of them, with the writer's own in front. */
static stk_status collect_texts(stk__checkpoint_writer *writer, const stk__checkpoint_part *part,
                                const stk__checkpoint_text *texts, size_t n, size_t *all,
                                stk_error *err)
{
    size_t own = 0;
    uint64_t bytes;

    if (!writer->texts || n + OWN_TEXTS > writer->text_room) {
        stk__free(writer->ctx, writer->texts);
        writer->texts = stk__mul_size(n + OWN_TEXTS, sizeof *texts, &bytes)
                            ? stk__alloc(writer->ctx, bytes)
                            : NULL;
        if (!writer->texts)
            return no_memory(err);
        writer->text_room = n + OWN_TEXTS;
    }
    writer->texts[own++] = (stk__checkpoint_text){STK__CHECKPOINT_LAYOUT, STK__LAYOUT};
    writer->texts[own++] = (stk__checkpoint_text){STK__CHECKPOINT_HASH, STK__HASH_ZEROS};
    if (part->count) {
        stk__part_text(part, writer->part_text);
        writer->texts[own++] = (stk__checkpoint_text){STK__CHECKPOINT_PART, writer->part_text};
    }
    if (n)
        memcpy(writer->texts + own, texts, n * sizeof *texts);
    *all = own + n;
    return STK_OK;
}

/* Room for the data. Large pages make the first copy into it cheap. */
static stk_status reserve_data(stk__checkpoint_writer *writer, uint64_t bytes, stk_error *err)
{
    if (writer->data && bytes <= writer->data_room)
        return STK_OK;
    stk__free(writer->ctx, writer->data);
    writer->data_room = 0;
    writer->data = stk__alloc_buffer(writer->ctx, bytes);
    if (!writer->data)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                         "no memory for the snapshot of a checkpoint of %llu bytes",
                         (unsigned long long)bytes);
    writer->data_room = bytes;
    stk__use_large_pages(writer->data, bytes);
    return STK_OK;
}

stk_status stk__checkpoint_reserve(stk__checkpoint_writer *writer, uint64_t bytes, stk_error *err)
{
    STK_TRY(stk__context_check(writer->ctx, err));
    wait_for_snapshot(writer);
    if (writer->data && bytes <= writer->data_room)
        return STK_OK;
    STK_TRY(reserve_data(writer, bytes, err));
    stk__write_job *j = make_job(writer->ctx, STK__WRITE_TOUCH, "", NULL, 0);
    if (!j)
        return no_memory(err);
    hand_over(writer, j);
    return STK_OK;
}

static stk_status save_file(stk__checkpoint_writer *writer, const char *path,
                            const stk__checkpoint_part *part, const stk_state_tensor *tensors,
                            size_t num_tensors, const stk__checkpoint_text *texts, size_t num_texts,
                            const char *const *replaces, size_t num_replaces, uint64_t *waited_ns,
                            stk_error *err)
{
    stk__safetensors_head *head = &writer->head;
    size_t all = 0;

    if (waited_ns)
        *waited_ns = 0;
    STK_TRY(stk__context_check(writer->ctx, err));
    uint64_t waited = wait_for_snapshot(writer);
    if (waited_ns)
        *waited_ns = waited;
    STK_TRY(collect_texts(writer, part, texts, num_texts, &all, err));
    STK_TRY(stk__safetensors_head_make(head, tensors, num_tensors, writer->texts, all, err));
    STK_TRY(reserve_data(writer, head->data_bytes, err));
    stk__write_job *j = make_job(writer->ctx, STK__WRITE_SAVE, path, replaces, num_replaces);
    if (!j)
        return no_memory(err);
    j->part = *part;
    atomic_store(&writer->hurry, false);
    uint8_t *to = writer->data;
    for (size_t i = 0; i < num_tensors; i++) {
        const stk_state_tensor *t = &tensors[head->order[i]];
        if (t->bytes)
            memcpy(to, t->data, t->bytes);
        to += t->bytes;
    }
    hand_over(writer, j);
    return STK_OK;
}

stk_status stk__checkpoint_save(stk__checkpoint_writer *writer, const char *path,
                                const stk_state_tensor *tensors, size_t num_tensors,
                                const stk__checkpoint_text *texts, size_t num_texts,
                                const char *const *replaces, size_t num_replaces,
                                uint64_t *waited_ns, stk_error *err)
{
    const stk__checkpoint_part in_one_file = {.count = 0};

    return save_file(writer, path, &in_one_file, tensors, num_tensors, texts, num_texts, replaces,
                     num_replaces, waited_ns, err);
}

stk_status stk__checkpoint_save_part(stk__checkpoint_writer *writer,
                                     const stk__checkpoint_part *part, const char *path,
                                     const stk_state_tensor *tensors, size_t num_tensors,
                                     const stk__checkpoint_text *texts, size_t num_texts,
                                     const char *const *replaces, size_t num_replaces,
                                     stk_error *err)
{
    char *own = part->number ? stk__part_path(writer->ctx, path, part, part->number)
                             : stk__strdup(writer->ctx, path);

    if (!own)
        return no_memory(err);
    /* Only behind the first is there a new checkpoint. */
    const stk_status status = save_file(writer, own, part, tensors, num_tensors, texts, num_texts,
                                        replaces, part->number ? 0 : num_replaces, NULL, err);
    stk__free(writer->ctx, own);
    return status;
}

void stk__checkpoint_hurry(stk__checkpoint_writer *writer)
{
    atomic_store(&writer->hurry, true);
}

stk_status stk__checkpoint_link(stk__checkpoint_writer *writer, const char *path, const char *name,
                                stk_error *err)
{
    STK_TRY(stk__context_check(writer->ctx, err));
    stk__write_job *j = make_job(writer->ctx, STK__WRITE_LINK, path, &name, 1);
    if (!j)
        return no_memory(err);
    hand_over(writer, j);
    return STK_OK;
}

static void drain_locked(stk__checkpoint_writer *writer)
{
    while (writer->first || writer->working)
        wait_locked(writer);
}

static stk_status tell_locked(stk__checkpoint_writer *writer, stk_error *err)
{
    if (!writer->failed)
        return STK_OK;
    writer->failed = false;
    if (err)
        *err = writer->failure;
    return writer->failure.status;
}

stk_status stk__checkpoint_poll(stk__checkpoint_writer *writer, stk_error *err)
{
    STK_TRY(stk__context_check(writer->ctx, err));
    pthread_mutex_lock(&writer->lock);
    stk_status status = tell_locked(writer, err);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

stk_status stk__checkpoint_flush(stk__checkpoint_writer *writer, stk_error *err)
{
    STK_TRY(stk__context_check(writer->ctx, err));
    pthread_mutex_lock(&writer->lock);
    drain_locked(writer);
    stk_status status = tell_locked(writer, err);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

stk_status stk__checkpoint_upload_by(stk__checkpoint_writer *writer,
                                     const stk__upload_options *options, stk_error *err)
{
    return stk__uploads_set(writer->uploads, options, err);
}

stk_status stk__checkpoint_upload_left(stk__checkpoint_writer *writer, const char *root,
                                       stk_error *err)
{
    STK_TRY(stk__context_check(writer->ctx, err));
    return stk__uploads_take(writer->uploads, root, err);
}

void stk__checkpoint_upload(stk__checkpoint_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    drain_locked(writer);
    pthread_mutex_unlock(&writer->lock);
    stk__uploads_wait(writer->uploads);
}

size_t stk__checkpoint_voids(stk__checkpoint_writer *writer, stk__checkpoint_part *parts,
                             size_t most)
{
    return stk__uploads_voids(writer->uploads, parts, most);
}

void stk__checkpoint_void(stk__checkpoint_writer *writer, const stk__checkpoint_part *parts,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        stk__uploads_void(writer->uploads, &parts[i]);
}

bool stk__checkpoint_upload_together(stk__checkpoint_writer *writer, stk__upload_meet_fn *meet,
                                     void *user)
{
    pthread_mutex_lock(&writer->lock);
    drain_locked(writer);
    pthread_mutex_unlock(&writer->lock);
    return stk__uploads_wait_together(writer->uploads, meet, user);
}

bool stk__checkpoint_local(stk__checkpoint_writer *writer, const char *url, char *path, size_t size)
{
    return stk__uploads_find(writer->uploads, url, path, size);
}
