/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/shards.h"

#include <stdio.h>

#include "dataset/dataset.h"
#include "store/store.h"

static const stk_option option_list[] = {
    {.name = "shard_size",
     .type = STK_OPTION_SIZE,
     .offset = offsetof(stk_convert_shards_options, shard_size),
     .initial = "256MiB",
     .min = 1,
     .max = 0x1p50,
     .metavar = "SIZE",
     .doc = "Bytes of a shard at most, of more than one record."},
};

const stk_option_table stk__convert_shards_option_table = {
    .name = "shards",
    .doc = "Record shards that are written: webdataset:, tfrecord:.",
    .struct_size = sizeof(stk_convert_shards_options),
    .options = option_list,
    .count = STK_COUNT(option_list),
};

#define GROUP 16u /* samples that are taken at a time */

/* The shards of a conversion on their way. */
typedef struct writing {
    const stk_conversion_job *job;
    const stk__shards_format *format;
    stk_store *store;
    char prefix[STK_MAX_OBJECT_KEY], key[STK_MAX_OBJECT_KEY];
    uint64_t size;  /* bytes of a shard at most, of more than one record */
    uint64_t bytes; /* of the shard that is written */
    uint64_t total; /* of all */
    uint32_t begun; /* shards */
    stk_store_call call;
    stk_put *put; /* NULL: none is begun */
    stk__bytes record;
} writing;

static stk_status make_key(writing *w, uint32_t number, stk_error *err)
{
    char name[64];

    if (number == STK__SHARDS_MOST)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "%.200s would have more than %u shards; set a larger shard_size",
                         w->job->target, STK__SHARDS_MOST);
    snprintf(name, sizeof name, "shard-%06u%s", number, w->format->ending);
    return stk__key_below(w->prefix, name, w->key, err);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

static stk_status start(writing *w, stk_error *err)
{
    const stk_conversion_job *job = w->job;
    stk__presence there;

    w->call = (stk_store_call){
        .struct_size = sizeof w->call, .canceled = stk__convert_canceled, .user = (void *)job};
    STK_TRY(stk__put_folder_open(job->context, job->target, &w->store, w->prefix, err));
    STK_TRY(make_key(w, 0, err));
    if (job->options->overwrite)
        return STK_OK;
    STK_TRY(stk__store_look(w->store, w->key, &there, err));
    if (there != STK__IS_NOTHING)
        return stk__fail_at(err, STK_EEXIST, STK_STAGE_CONVERT, w->key, STK_NO_OFFSET,
                            "the target %.200s has shards already; choose a new folder, or set "
                            "overwrite to replace them",
                            job->target);
    return STK_OK;
}

/* The shard that is written is whole. */
static stk_status end_shard(writing *w, stk_error *err)
{
    const stk__shards_format *f = w->format;

    if (!w->put)
        return STK_OK;
    if (f->tail_bytes)
        STK_TRY(w->put->ops->write(w->put, f->tail, f->tail_bytes, err));
    w->total += f->tail_bytes;
    return stk__store_put_commit(&w->put, err);
}

static stk_status next_shard(writing *w, stk_error *err)
{
    STK_TRY(end_shard(w, err));
    STK_TRY(make_key(w, w->begun, err));
    w->bytes = 0;
    w->begun++;
    return stk__store_put_begin(w->store, w->key, &w->call, &w->put, err);
}

static stk_status put_record(writing *w, stk_error *err)
{
    const size_t length = w->record.length;
    const bool full = w->bytes > w->size || length > w->size - w->bytes;

    if (!w->put || (full && w->bytes))
        STK_TRY(next_shard(w, err));
    STK_TRY(w->put->ops->write(w->put, w->record.data, length, err));
    w->bytes += length;
    w->total += length;
    return STK_OK;
}

static stk_status finish(writing *w, stk_error *err)
{
    stk__presence there = STK__IS_OBJECT;

    STK_TRY(end_shard(w, err));
    for (uint32_t i = w->begun; w->job->options->overwrite && i < STK__SHARDS_MOST; i++) {
        STK_TRY(make_key(w, i, err));
        STK_TRY(stk__store_look(w->store, w->key, &there, err));
        if (there != STK__IS_OBJECT)
            break;
        STK_TRY(stk__store_remove(w->store, w->key, err));
    }
    return STK_OK;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* As many samples as fit in memory, which vary in size. */
static stk_status take_group(stk__samples *samples, uint64_t first, size_t *count, stk_error *err)
{
    stk_status status = stk__samples_take(samples, first, *count, err);

    if (status == STK_ENOMEM && *count > 1) {
        *count = 1;
        status = stk__samples_take(samples, first, *count, err);
    }
    return status;
}

static stk_status write_group(writing *w, const stk__samples *samples, uint64_t first, size_t count,
                              stk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        w->record.length = 0;
        STK_TRY(w->format->record(samples, i, first + i, &w->record, err));
        STK_TRY(put_record(w, err));
    }
    return STK_OK;
}

static stk_status write_all(writing *w, stk_error *err)
{
    const stk_conversion_job *c = w->job;
    const uint64_t size = c->dataset->size;
    stk__samples samples;

    STK_TRY(stk__samples_init(c->dataset, GROUP, &samples, err));
    stk_status status = STK_OK;
    for (uint64_t done = 0; status == STK_OK && done < size;) {
        size_t count = (size_t)STK_MIN(GROUP, size - done);
        status = c->canceled(c) ? STK_ECANCELED : take_group(&samples, done, &count, err);
        if (status == STK_OK)
            status = write_group(w, &samples, done, count, err);
        done += count;
        stk__progress(c->context, "samples", done, size);
    }
    stk__samples_release(&samples);
    return status;
}

stk_status stk__shards_write(const stk_conversion_job *job, const stk__shards_format *format,
                             uint64_t size, stk_conversion_report *report, stk_error *err)
{
    writing *s = stk__calloc(job->context, 1, sizeof *s); /* too large for some stacks */

    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to write shards");
    *s = (writing){.job = job, .format = format, .size = size, .record.ctx = job->context};
    stk_status status = start(s, err);
    if (status == STK_OK)
        status = write_all(s, err);
    if (status == STK_OK)
        status = finish(s, err);
    if (status == STK_ECANCELED)
        stk__fail(err, status, STK_STAGE_CONVERT,
                  "the conversion to %.200s was stopped; it begins again with overwrite",
                  job->target);
    if (status == STK_OK) {
        report->total = report->encoded = job->dataset->size;
        report->bytes_after = s->total;
    }
    stk__store_put_abandon(&s->put);
    stk_store_close(&s->store);
    stk__bytes_release(&s->record);
    stk__free(job->context, s);
    return status;
}
