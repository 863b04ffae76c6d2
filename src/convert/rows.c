/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/url.h"
#include "dataset/dataset.h"

#define TAKEN 16u /* samples at a time */

static stk_status no_memory(const stk__rows_form *form, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to write %s", form->name);
}

/* Whether the target is one file, as its ending tells. */
static bool is_file(const stk_conversion_job *job, const stk__rows_form *form)
{
    stk__url url;

    stk__url_scan(job->context, job->target, &url);
    for (size_t i = 0; form->endings[i]; i++)
        if (stk__ends_with(url.path, url.path_length, form->endings[i]))
            return true;
    return false;
}

/* Fields but for those that say what is null. */
static bool list_columns(stk__rows_writer *w)
{
    const stk_dataset *dataset = w->files.job->dataset;

    w->columns = stk__calloc(dataset->context, dataset->num_fields, sizeof *w->columns);
    for (uint32_t f = 0; w->columns && f < dataset->num_fields; f++) {
        const int64_t mask = stk_dataset_null_mask(dataset, f);
        w->columns[w->num_columns++] = (stk__rows_column){&dataset->fields[f], f, mask};
        f += mask >= 0;
    }
    return w->columns;
}

/* How a field is left out. One of any length that is not encoded cannot be dropped. */
static void tell_way_out(const stk_field *field, char *text, size_t size)
{
    if (field->layout == STK_FIXED || field->codec[0])
        snprintf(text, size, "leave it out with drop=%.100s", field->name);
    else
        snprintf(text, size, "name the wanted columns of a table by columns=COLUMN,...");
}

stk_status stk__rows_fail_field(const stk_field *field, const char *has, const char *where,
                                const char *others, stk_error *err)
{
    char way_out[160];

    tell_way_out(field, way_out, sizeof way_out);
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT,
                     "the field '%.100s' %s, for which %s has no place; %s, or write %s",
                     field->name, has, where, way_out, others);
}

stk_status stk__rows_fail_text(const stk__rows_column *column, uint64_t number, const char *what,
                               stk_error *err)
{
    char way_out[160];

    tell_way_out(column->field, way_out, sizeof way_out);
    return stk__fail(err, STK_EFORMAT, STK_STAGE_CONVERT,
                     "sample %" PRIu64 ": the field '%.100s' is no UTF-8, and %s no other bytes; "
                     "%s, or write Arrow or Parquet",
                     number, column->field->name, what, way_out);
}

/* ---- Metadata ---------------------------------------------------------------------------------
 */

void stk__rows_put_fields(const stk__rows_writer *writer, stk__text *to)
{
    static const char *const layouts[] = {
        [STK_FIXED] = "fixed", [STK_RAGGED] = "ragged", [STK_BYTES] = "bytes"};

    for (uint32_t i = 0; i < writer->num_columns; i++) {
        const stk_field *f = writer->columns[i].field;
        stk__text_add(to, "%s{\"name\":", i ? "," : "[");
        stk__text_add_json(to, f->name);
        stk__text_add(to, ",\"layout\":\"%s\",\"dtype\":\"%s\",\"shape\":[", layouts[f->layout],
                      stk_dtype_name(f->dtype));
        for (uint32_t k = 0; k < f->rank; k++)
            stk__text_add(to, "%s%" PRId64, k ? "," : "", f->shape[k]);
        stk__text_add(to, "]%s}",
                      f->picture ? ",\"picture\":true"
                      : f->mask  ? ",\"mask\":true"
                                 : "");
    }
    stk__text_add(to, "]");
}

/* ---- Writing --------------------------------------------------------------------------------- */

static stk_status begin_file(stk__rows_writer *w, const stk__rows_form *form, stk_error *err)
{
    w->rows = 0;
    STK_TRY(stk__shard_files_next(&w->files, err));
    return form->begin(w, err);
}

static stk_status end_file(stk__rows_writer *w, const stk__rows_form *form, stk_error *err)
{
    STK_TRY(form->end(w, err));
    return stk__shard_files_end(&w->files, err);
}

/* Sample `i` of those that were taken, in the file that is written or in the next. */
static stk_status add_row(stk__rows_writer *w, const stk__rows_form *form, uint64_t shard_size,
                          const stk__samples *samples, size_t i, uint64_t number, stk_error *err)
{
    const uint64_t bytes = w->files.bytes + (form->waiting ? form->waiting(w) : 0);
    const bool full = w->files.ending && w->rows && bytes >= shard_size;

    w->files.samples = number;
    if (full)
        STK_TRY(end_file(w, form, err));
    if (full || !w->files.put)
        STK_TRY(begin_file(w, form, err));
    STK_TRY(form->add(w, samples, i, number, err));
    w->rows++;
    return STK_OK;
}

static stk_status write_rows(stk__rows_writer *w, const stk__rows_form *form, uint64_t shard_size,
                             stk__samples *samples, stk_error *err)
{
    const stk_conversion_job *job = w->files.job;
    const uint64_t size = job->dataset->size;

    for (uint64_t done = w->files.samples; done < size;) {
        size_t count = (size_t)STK_MIN(TAKEN, size - done);
        if (job->canceled(job))
            return STK_ECANCELED;
        STK_TRY(stk__samples_take_group(samples, done, &count, err));
        for (size_t i = 0; i < count; i++)
            STK_TRY(add_row(w, form, shard_size, samples, i, done + i, err));
        done += count;
        stk__progress(job->context, "samples", done, size);
    }
    w->files.samples = size;
    if (!w->files.put && !w->files.begun)
        STK_TRY(begin_file(w, form, err)); /* no rows at all */
    return w->files.put ? end_file(w, form, err) : STK_OK;
}

static stk_status write_all(stk__rows_writer *w, const stk__rows_form *form, uint64_t shard_size,
                            stk_error *err)
{
    stk__samples samples;

    if (!list_columns(w))
        return no_memory(form, err);
    if (form->init)
        STK_TRY(form->init(w, err));
    STK_TRY(stk__samples_init(w->files.job->dataset, TAKEN, &samples, err));
    const stk_status status = write_rows(w, form, shard_size, &samples, err);
    stk__samples_release(&samples);
    return status == STK_OK ? stk__shard_files_finish(&w->files, err) : status;
}

stk_status stk__rows_write(const stk_conversion_job *job, const stk__rows_form *form,
                           uint64_t shard_size, stk_conversion_report *report, stk_error *err)
{
    stk__rows_writer *w = stk__calloc(job->context, 1, form->size);

    if (!w)
        return no_memory(form, err);
    stk_status status = stk__shard_files_open(
        &w->files, job, is_file(job, form) ? NULL : form->endings[0], form->options, err);
    report->resumed = w->files.samples;
    if (status == STK_OK)
        status = write_all(w, form, shard_size, err);
    if (status == STK_ECANCELED)
        stk__shard_files_fail_stopped(&w->files, err);
    if (status == STK_OK) {
        report->total = report->encoded = job->dataset->size;
        report->bytes_after = w->files.total;
    }
    if (form->release)
        form->release(w);
    stk__shard_files_close(&w->files);
    stk__free(job->context, w->columns);
    stk__free(job->context, w);
    return status;
}
