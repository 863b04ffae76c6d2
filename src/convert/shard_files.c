/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/shard_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "dataset/dataset.h"

#define STEM "shard-"

static void name_shard(const stk__shard_files *f, uint32_t number, char name[64])
{
    snprintf(name, 64, STEM "%06u%s", number, f->ending);
}

static stk_status make_key(stk__shard_files *f, uint32_t number, stk_error *err)
{
    char name[64];

    if (number == STK__SHARDS_MOST)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "%.200s would have more than %u shards; set a larger shard_size",
                         f->job->target, STK__SHARDS_MOST);
    name_shard(f, number, name);
    return stk__key_below(f->prefix, name, f->key, err);
}

/* ---- Journal --------------------------------------------------------------------------------- */

/* What the shards are of: the samples, their fields, the format. */
static uint64_t plan_of(const stk_conversion_job *job, const char *ending)
{
    const stk_dataset *d = job->dataset;
    uint64_t plan = stk__fingerprint(d->fingerprint, &d->size, sizeof d->size);

    plan = stk__fingerprint(plan, ending, strlen(ending) + 1);
    for (uint32_t i = 0; i < d->num_fields; i++) {
        const stk_field *f = &d->fields[i];
        const uint32_t form[] = {(uint32_t)f->dtype, (uint32_t)f->layout, f->rank};
        plan = stk__fingerprint(plan, f->name, strlen(f->name) + 1);
        plan = stk__fingerprint(plan, form, sizeof form);
        plan = stk__fingerprint(plan, f->shape, f->rank * sizeof *f->shape);
    }
    return plan ? plan : 1;
}

static bool is_whole(stk__shard_files *f, uint32_t number, uint64_t size)
{
    stk_object_info info = {.struct_size = sizeof info};

    return make_key(f, number, NULL) == STK_OK &&
           stk_store_stat(f->store, f->key, NULL, &info, NULL) == STK_OK && !info.is_folder &&
           info.size == size;
}

/* A line of a shard. Where that is not there as it says, neither it nor what is behind it counts:
 * these have no place in the row. */
static stk_status take_line(void *user, uint64_t samples, uint64_t number, uint64_t size,
                            stk_error *err)
{
    stk__shard_files *f = user;
    const uint64_t before = f->num_done ? f->done[f->num_done - 1].samples : 0;

    if (number != f->num_done || number >= STK__SHARDS_MOST || samples <= before ||
        samples > f->job->dataset->size || !is_whole(f, (uint32_t)number, size))
        return STK_OK;
    stk__shard_done *more =
        stk__grow(f->job->context, f->done, &f->room_done, f->num_done + 1, sizeof *more);
    if (!more)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the journal");
    f->done = more;
    f->done[f->num_done++] = (stk__shard_done){samples, size};
    return STK_OK;
}

/* The last of the shards that the conversion before this one had left. */
static stk_status take_old(void *user, const char *name, uint64_t size, stk_error *err)
{
    stk__shard_files *f = user;
    const size_t stem = strlen(STEM);
    uint64_t number = 0;

    (void)size, (void)err;
    for (name += strncmp(name, STEM, stem) == 0 ? stem : 0; *name >= '0' && *name <= '9'; name++)
        number = STK_MIN(number * 10 + (uint64_t)(*name - '0'), STK__SHARDS_MOST - 1);
    f->num_old = (uint32_t)number + 1;
    return STK_OK;
}

static void take_end(void *user)
{
    ((stk__shard_files *)user)->ended = true;
}

/* In the place of the earlier one, before anything gets a name that it does not tell. */
static stk_status begin_journal(stk__shard_files *f, stk_error *err)
{
    char name[64];

    if (f->noted)
        return STK_OK;
    f->noted = true;
    STK_TRY(stk__journal_begin(&f->journal, &f->head, err));
    if (f->num_old) {
        name_shard(f, f->num_old - 1, name);
        STK_TRY(stk__journal_old(&f->journal, name, 0, err));
    }
    for (size_t i = 0; i < f->num_done; i++)
        STK_TRY(stk__journal_object(&f->journal, f->done[i].samples, i, f->done[i].size, err));
    return stk__journal_commit(&f->journal, err);
}

/* All is done anew: what is there is old. */
static stk_status forget(stk__shard_files *f, stk_error *err)
{
    stk__presence there;

    for (f->num_done = 0;; f->num_old++) {
        STK_TRY(make_key(f, f->num_old, err));
        STK_TRY(stk__store_look(f->store, f->key, &there, err));
        if (there != STK__IS_OBJECT || f->num_old == STK__SHARDS_MOST - 1)
            return STK_OK;
    }
}

static stk_status read_journal(stk__shard_files *f, stk_error *err)
{
    const stk__journal_lines lines = {
        .old = take_old, .object = take_line, .end = take_end, .user = f};
    stk__presence there;
    bool fresh;

    STK_TRY(stk__journal_open(f->job, STK__TARGET_JOURNAL, &f->journal, err));
    STK_TRY(stk__key_below(f->prefix, STK__TARGET_JOURNAL, f->key, err));
    STK_TRY(stk__store_look(f->store, f->key, &there, err));
    f->has_journal = there == STK__IS_OBJECT;
    STK_TRY(stk__journal_read(f->job, &f->journal, &f->head, &lines, &fresh, err));
    /* One that came to its end is done anew, one that was stopped goes on. */
    if (f->job->options->overwrite && (fresh || f->ended || !f->has_journal))
        STK_TRY(forget(f, err));
    else if (f->ended)
        f->num_old = 0;
    for (size_t i = 0; i < f->num_done; i++)
        f->total += f->done[i].size;
    f->samples = f->num_done ? f->done[f->num_done - 1].samples : 0;
    f->begun = (uint32_t)f->num_done;
    return f->has_journal ? begin_journal(f, err) : STK_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static stk_status open_one(stk__shard_files *f, stk_error *err)
{
    stk__presence there;

    STK_TRY(stk__convert_check_outside(f->job, err));
    f->place.context = f->job->context;
    STK_TRY(stk__put_place_open(&f->place, f->job->target, err));
    f->store = f->place.store;
    snprintf(f->key, sizeof f->key, "%s", f->place.key);
    if (f->job->options->overwrite)
        return STK_OK;
    STK_TRY(stk__store_look(f->store, f->key, &there, err));
    if (there == STK__IS_NOTHING)
        return STK_OK;
    return stk__fail_at(err, STK_EEXIST, STK_STAGE_CONVERT, f->key, STK_NO_OFFSET,
                        "'%.300s' is there already: --overwrite replaces it", f->job->target);
}

static stk_status open_folder(stk__shard_files *f, const stk_option_table *table, stk_error *err)
{
    stk__presence there;

    STK_TRY(stk__put_folder_open(f->job->context, f->job->target, &f->store, f->prefix, err));
    f->head = (stk__journal_head){.kind = "samples",
                                  .source = stk__convert_source(f->job),
                                  .table = table,
                                  .options = f->job->own,
                                  .plan = plan_of(f->job, f->ending),
                                  .plan_of = "other samples, or in another format"};
    STK_TRY(read_journal(f, err));
    if (f->has_journal || f->job->options->overwrite)
        return STK_OK;
    STK_TRY(make_key(f, 0, err));
    STK_TRY(stk__store_look(f->store, f->key, &there, err));
    if (there == STK__IS_NOTHING)
        return STK_OK;
    return stk__fail_at(err, STK_EEXIST, STK_STAGE_CONVERT, f->key, STK_NO_OFFSET,
                        "the target %.200s has shards already; choose a new folder, or set "
                        "overwrite to replace them",
                        f->job->target);
}

stk_status stk__shard_files_open(stk__shard_files *f, const stk_conversion_job *job,
                                 const char *ending, const stk_option_table *table, stk_error *err)
{
    *f = (stk__shard_files){.job = job, .ending = ending, .journal.fd = -1};
    f->call = (stk_store_call){
        .struct_size = sizeof f->call, .canceled = stk__convert_canceled, .user = (void *)job};
    return ending ? open_folder(f, table, err) : open_one(f, err);
}

/* ---- Writing --------------------------------------------------------------------------------- */

stk_status stk__shard_files_end(stk__shard_files *f, stk_error *err)
{
    if (!f->put)
        return STK_OK;
    if (!f->ending)
        return stk__store_put_commit(&f->put, err);
    STK_TRY(begin_journal(f, err));
    STK_TRY(stk__store_put_commit(&f->put, err));
    STK_TRY(stk__journal_object(&f->journal, f->samples, f->begun - 1, f->bytes, err));
    return stk__journal_sync(&f->journal, err);
}

stk_status stk__shard_files_next(stk__shard_files *f, stk_error *err)
{
    STK_TRY(stk__shard_files_end(f, err));
    if (f->ending)
        STK_TRY(make_key(f, f->begun, err));
    f->bytes = 0;
    f->begun++;
    return stk__store_put_begin(f->store, f->key, &f->call, &f->put, err);
}

stk_status stk__shard_files_write(stk__shard_files *f, const void *data, size_t length,
                                  stk_error *err)
{
    if (length == 0)
        return STK_OK;
    STK_TRY(f->put->ops->write(f->put, data, length, err));
    f->bytes += length;
    f->total += length;
    return STK_OK;
}

/* Of a local folder: what was removed is gone for good. */
static stk_status sync_folder(const stk__shard_files *f, stk_error *err)
{
    const int root = stk__file_root(f->store);

    if (root < 0)
        return STK_OK;
    const int fd = openat(root, *f->prefix ? f->prefix : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int failed = fd < 0 || stk__sync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (!failed)
        return STK_OK;
    return stk__fail_at(err, stk__status_of_errno(failed), STK_STAGE_CONVERT, f->job->target,
                        STK_NO_OFFSET, "could not make safe that shards of %.200s were removed: %s",
                        f->job->target, strerror(failed));
}

/* What an earlier conversion left behind the last. A run that was cut may have removed some. */
static stk_status remove_rest(stk__shard_files *f, stk_error *err)
{
    stk__presence there;

    for (uint32_t i = f->begun; i < f->num_old; i++) {
        STK_TRY(make_key(f, i, err));
        STK_TRY(stk__store_look(f->store, f->key, &there, err));
        if (there == STK__IS_OBJECT)
            STK_TRY(stk__store_remove(f->store, f->key, err));
    }
    return f->begun < f->num_old ? sync_folder(f, err) : STK_OK;
}

stk_status stk__shard_files_finish(stk__shard_files *f, stk_error *err)
{
    STK_TRY(stk__shard_files_end(f, err));
    if (!f->ending)
        return STK_OK;
    STK_TRY(remove_rest(f, err));
    if (!f->noted)
        return STK_OK;
    STK_TRY(stk__journal_end(&f->journal, err));
    return stk__journal_sync(&f->journal, err);
}

void stk__shard_files_fail_stopped(const stk__shard_files *f, stk_error *err)
{
    stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
              f->ending
                  ? "the conversion to %.200s was stopped; run the same again, and it goes on "
                    "behind the last whole shard"
                  : "the conversion to %.200s was stopped, and nothing of it is kept",
              f->job->target);
}

void stk__shard_files_close(stk__shard_files *f)
{
    stk__store_put_abandon(&f->put);
    if (!f->job)
        return;
    if (f->journal.mirror)
        stk__journal_close(&f->journal);
    stk__free(f->job->context, f->done);
    if (f->ending)
        stk_store_close(&f->store);
    else
        stk__put_place_close(&f->place);
}
