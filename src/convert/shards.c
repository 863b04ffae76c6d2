/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/shards.h"

#include "convert/shard_files.h"
#include "dataset/dataset.h"

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
    stk__shard_files files;
    const stk__shards_format *format;
    uint64_t size; /* bytes of a shard at most, of more than one record */
    stk__bytes record;
} writing;

/* ---- Shards ---------------------------------------------------------------------------------- */

/* What is behind the last record of the shard that is written. */
static stk_status put_tail(writing *w, stk_error *err)
{
    const stk__shards_format *f = w->format;

    return w->files.put ? stk__shard_files_write(&w->files, f->tail, f->tail_bytes, err) : STK_OK;
}

static stk_status put_record(writing *w, stk_error *err)
{
    const uint64_t bytes = w->files.bytes;
    const size_t length = w->record.length;
    const bool full = bytes > w->size || length > w->size - bytes;

    if (!w->files.put || (full && bytes)) {
        STK_TRY(put_tail(w, err));
        STK_TRY(stk__shard_files_next(&w->files, err));
    }
    return stk__shard_files_write(&w->files, w->record.data, length, err);
}

static stk_status finish(writing *w, stk_error *err)
{
    STK_TRY(put_tail(w, err));
    w->files.samples = w->files.job->dataset->size;
    return stk__shard_files_finish(&w->files, err);
}

/* ---- Samples --------------------------------------------------------------------------------- */

static stk_status write_group(writing *w, const stk__samples *samples, uint64_t first, size_t count,
                              stk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        w->record.length = 0;
        w->files.samples = first + i;
        STK_TRY(w->format->record(samples, i, first + i, &w->record, err));
        STK_TRY(put_record(w, err));
    }
    return STK_OK;
}

static stk_status write_all(writing *w, stk_error *err)
{
    const stk_conversion_job *c = w->files.job;
    const uint64_t size = c->dataset->size;
    stk__samples samples;

    STK_TRY(stk__samples_init(c->dataset, GROUP, &samples, err));
    stk_status status = STK_OK;
    for (uint64_t done = w->files.samples; status == STK_OK && done < size;) {
        size_t count = (size_t)STK_MIN(GROUP, size - done);
        status =
            c->canceled(c) ? STK_ECANCELED : stk__samples_take_group(&samples, done, &count, err);
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
    *s = (writing){.format = format, .size = size, .record.ctx = job->context};
    stk_status status = stk__shard_files_open(&s->files, job, format->ending,
                                              &stk__convert_shards_option_table, err);
    report->resumed = s->files.samples;
    if (status == STK_OK)
        status = write_all(s, err);
    if (status == STK_OK)
        status = finish(s, err);
    if (status == STK_ECANCELED)
        stk__shard_files_fail_stopped(&s->files, err);
    if (status == STK_OK) {
        report->total = report->encoded = job->dataset->size;
        report->bytes_after = s->files.total;
    }
    stk__shard_files_close(&s->files);
    stk__bytes_release(&s->record);
    stk__free(job->context, s);
    return status;
}
