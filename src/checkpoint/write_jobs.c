/* SPDX-License-Identifier: Apache-2.0 */
/* What the thread of a writer does: a snapshot to a file or an object, another name for one. */
#include "checkpoint/write_room.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/url.h"
#include "checkpoint/hash.h"
#include "checkpoint/upload_send.h"

#define TOUCH_BYTES 4096                   /* a page, or less than one */
#define PARTS_NS    UINT64_C(120000000000) /* that parts of others are waited for, at least */
#define PARTS_TIMES 4                      /* as often as the own part took */
#define LOOK_NS     UINT64_C(250000000)    /* between looks for them in a store */

/* All bytes are written; those of the others may not be. */
static stk_status wait_for_parts(stk__checkpoint_writer *writer, const char *path,
                                 const stk__checkpoint_part *part, uint64_t took_ns, stk_error *err)
{
    if (!stk__part_is_first(part))
        return STK_OK;
    return stk__parts_wait_for(writer->ctx, writer->place.calls, path, part,
                               PARTS_NS + PARTS_TIMES * took_ns, &writer->hurry, err);
}

static stk_status write_bytes(stk__checkpoint_writer *writer, const char *path,
                              const stk__checkpoint_part *part, stk_error *err)
{
    const stk__safetensors_head *head = &writer->head;
    const uint64_t from = stk__now_ns();
    stk_store_call call = stk__store_call_none;
    stk_put *put = NULL;

    call.length = head->text.length + head->data_bytes;
    STK_TRY(stk__put_place_open(&writer->place, path, err));
    stk_status status =
        stk__store_put_begin(writer->place.store, writer->place.key, &call, &put, err);
    if (status == STK_OK)
        status = put->ops->write(put, head->text.bytes, head->text.length, err);
    if (status == STK_OK)
        status = put->ops->write(put, writer->data, head->data_bytes, err);
    if (status == STK_OK)
        status = wait_for_parts(writer, path, part, stk__now_ns() - from, err);
    if (status == STK_OK)
        status = stk__store_put_commit(&put, err);
    stk__store_put_abandon(&put);
    stk__put_place_rest(&writer->place);
    return status;
}

static const stk__checkpoint_part in_one_file = {.count = 0};

/* The file that is to be uploaded. */
static stk_status write_local(stk__checkpoint_writer *writer, const stk__write_job *j,
                              const char *mark, stk_error *err)
{
    char *path;

    STK_TRY(stk__uploads_path(writer->uploads, j->path, mark, &path, err));
    stk_status status = write_bytes(writer, path, &in_one_file, err);
    if (status == STK_OK)
        status = stk__uploads_put(writer->uploads, path, j->path, mark, &j->part, err);
    else
        stk__uploads_abandon(writer->uploads, path);
    stk__free(writer->ctx, path);
    return status;
}

/* The marks of all others. */
static stk_status wait_for_objects(stk__checkpoint_writer *writer, const stk__write_job *j,
                                   stk_error *err)
{
    const uint64_t from = stk__now_ns();
    uint32_t next = 1;
    stk_status status;

    if (!stk__part_is_first(&j->part))
        return STK_OK;
    do {
        const uint64_t now = stk__now_ns();
        status = stk__parts_objects_look(&writer->place, j->path, &j->part, &next, err);
        if (now - from >= PARTS_NS || atomic_load(&writer->hurry))
            break;
        if (status == STK_EAGAIN)
            stk__sleep_until(now + LOOK_NS, NULL);
    } while (status == STK_EAGAIN);
    return status;
}

static stk_status write_object(stk__checkpoint_writer *writer, const stk__write_job *j,
                               const char *mark, stk_error *err)
{
    STK_TRY(wait_for_objects(writer, j, err));
    STK_TRY(write_bytes(writer, j->path, &in_one_file, err));
    return stk__upload_mark(&writer->place, j->path, mark, err);
}

/* A store that cannot be reached, on a machine that has no room left, ends no training. */
static stk_status write_elsewhere(stk__checkpoint_writer *writer, const stk__write_job *j,
                                  const char *digits, stk_error *err)
{
    const stk__safetensors_head *head = &writer->head;
    stk_error local;
    char mark[96];

    snprintf(mark, sizeof mark, "bytes %llu\n" STK__CHECKPOINT_HASH " %s\n",
             (unsigned long long)(head->text.length + head->data_bytes), digits);
    if (write_local(writer, j, mark, &local) == STK_OK)
        return STK_OK;
    const stk_status status = write_object(writer, j, mark, err);
    if (status != STK_OK) {
        stk__uploads_lose(writer->uploads, &j->part);
        stk__message(writer->ctx, STK_MESSAGE_WARNING,
                     "the checkpoint '%s' is lost, and training goes on: %s; and before it is "
                     "uploaded it needs room on this machine: %s",
                     j->path, err->text, local.text);
    }
    return status;
}

static stk_status write_snapshot(stk__checkpoint_writer *writer, const stk__write_job *j,
                                 bool elsewhere, stk_error *err)
{
    stk__safetensors_head *head = &writer->head;
    char digits[STK__HASH_DIGITS + 1];
    stk__hash hash;
    size_t at;

    if (stk__hash_head(&hash, head->text.bytes, head->text.length, &at) != STK_OK)
        return stk__fail(err, STK_EINTERNAL, STK_STAGE_TRAIN, "a checkpoint has no hash");
    stk__hash_update(&hash, writer->data, head->data_bytes);
    stk__hash_digits(&hash, digits);
    memcpy(head->text.bytes + at, digits, STK__HASH_DIGITS);
    return elsewhere ? write_elsewhere(writer, j, digits, err)
                     : write_bytes(writer, j->path, &j->part, err);
}

/* Whether both paths lead to one file. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return strcmp(a, b) == 0 ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* The checkpoint is safe whether or not the others can be removed: that is only told. */
static void remove_one(stk__checkpoint_writer *writer, const char *path)
{
    stk_error err;

    if (stk__parts_remove(&writer->place, path, &err) != STK_OK)
        stk__message(writer->ctx, STK_MESSAGE_WARNING, "%s", err.text);
}

/* Have the kernel give the pages of the snapshot. */
static void touch_data(stk__checkpoint_writer *writer)
{
    for (uint64_t at = 0; at < writer->data_room; at += TOUCH_BYTES)
        writer->data[at] = 0;
}

/* Behind the new one. */
static void remove_replaced(stk__checkpoint_writer *writer, const char *url)
{
    stk_error err;

    if (!stk__url_elsewhere(writer->ctx, url))
        remove_one(writer, url);
    else if (stk__uploads_remove(writer->uploads, url, &err) != STK_OK)
        stk__message(writer->ctx, STK_MESSAGE_WARNING, "%s", err.text);
}

/* Write it, and then remove what it replaces. Of another store this fails nothing: it is told. */
static stk_status save(stk__checkpoint_writer *writer, const stk__write_job *j, stk_error *err)
{
    const bool elsewhere = stk__url_elsewhere(writer->ctx, j->path);
    stk__checkpoint_part before;

    const bool replaces_parts = !elsewhere && stk__parts_of(writer->ctx, j->path, &before);
    const stk_status status = write_snapshot(writer, j, elsewhere, err);
    writer->save_failed = status != STK_OK;
    if (status != STK_OK && j->part.number && !elsewhere)
        stk__part_tell_failure(writer->place.calls, j->path);
    if (status != STK_OK)
        return elsewhere ? STK_OK : status;
    if (replaces_parts)
        stk__parts_drop(writer->ctx, j->path, &before);
    for (size_t i = 0; i < j->num_others; i++)
        if (!same_file(j->path, j->others[i]))
            remove_replaced(writer, j->others[i]);
    return STK_OK;
}

stk_status stk__write_job_run(stk__checkpoint_writer *writer, const stk__write_job *j,
                              stk_error *err)
{
    switch (j->kind) {
    case STK__WRITE_TOUCH:
        touch_data(writer);
        return STK_OK;
    case STK__WRITE_SAVE:
        return save(writer, j, err);
    case STK__WRITE_LINK:
        if (writer->save_failed)
            return STK_OK;
        return stk__url_elsewhere(writer->ctx, j->others[0])
                   ? stk__uploads_copy(writer->uploads, j->path, j->others[0], err)
                   : stk__parts_link(&writer->place, j->path, j->others[0], err);
    }
    return STK_OK;
}
