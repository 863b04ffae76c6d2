/* SPDX-License-Identifier: Apache-2.0 */
/* Any samples as Parquet: one file, or shards of files in a folder. */
#include "convert/parquet.h"

#include "base/url.h"
#include "dataset/dataset.h"

#define TAKEN 16u /* samples at a time */

#define AT(member) offsetof(stk__parquet_out_options, member)

static const stk_option own_list[] = {
    {"codec", STK_OPTION_ENUM, AT(codec), "zstd", 0, 0, "zstd|none", NULL,
     "Of pages; encoded pictures, and columns of which the first page becomes hardly smaller, are "
     "stored as they are."},
    {"level", STK_OPTION_INT, AT(level), "3", 1, 22, NULL, NULL, "Of zstd."},
    {"page_size", STK_OPTION_SIZE, AT(page_size), "64KiB", 1, 0x1p28, NULL, "SIZE",
     "Bytes of a page at most, of more than one row: what a row costs to read by itself."},
    {"row_group_size", STK_OPTION_SIZE, AT(row_group_size), "64MiB", 1, 0x1p30, NULL, "SIZE",
     "Bytes of values after which a row group ends; so much waits in memory."},
    {"row_group_rows", STK_OPTION_UINT, AT(row_group_rows), "0", 0, 0x1p31, NULL, "ROWS",
     "Rows after which a row group ends, where its bytes do not end it before; 0: any number."},
    {"shard_size", STK_OPTION_SIZE, AT(shard_size), "512MiB", 1, 0x1p50, NULL, "SIZE",
     "Bytes of a file in a folder, nearly."},
};

static const stk_option_table own_table = {"parquet", "Samples as Parquet files.",
                                           sizeof(stk__parquet_out_options), own_list,
                                           STK_COUNT(own_list)};

/* Whether the target is one file, as its ending tells. */
static bool is_file(const stk_conversion_job *job)
{
    static const char *const endings[] = {".parquet", ".parq"};
    stk__url url;

    stk__url_scan(job->context, job->target, &url);
    for (size_t i = 0; i < STK_COUNT(endings); i++) {
        const size_t length = strlen(endings[i]);
        if (url.path_length > length &&
            memcmp(url.path + url.path_length - length, endings[i], length) == 0)
            return true;
    }
    return false;
}

/* Sample `i` of those that were taken, in the file that is written or in the next. */
static stk_status add_sample(stk__parquet_out_file *file, const stk__samples *samples, size_t i,
                             uint64_t number, stk_error *err)
{
    file->files->samples = number;
    const bool full = file->files->ending && file->rows &&
                      stk__parquet_out_bytes(file) >= file->options->shard_size;

    if (full)
        STK_TRY(stk__parquet_out_finish(file, err));
    if (full || !file->files->put)
        STK_TRY(stk__parquet_out_begin(file, err));
    return stk__parquet_out_add(file, samples, i, number, err);
}

static stk_status write_samples(stk__parquet_out_file *file, stk__samples *samples, stk_error *err)
{
    const stk_conversion_job *job = file->files->job;
    const uint64_t size = file->dataset->size;

    for (uint64_t done = file->files->samples; done < size;) {
        size_t count = (size_t)STK_MIN(TAKEN, size - done);
        if (job->canceled(job))
            return STK_ECANCELED;
        STK_TRY(stk__samples_take_group(samples, done, &count, err));
        for (size_t i = 0; i < count; i++)
            STK_TRY(add_sample(file, samples, i, done + i, err));
        done += count;
        stk__progress(job->context, "samples", done, size);
    }
    return STK_OK;
}

static stk_status write_all(stk__parquet_out_file *file, stk_error *err)
{
    stk__samples samples;

    STK_TRY(stk__parquet_out_init(file, err));
    STK_TRY(stk__samples_init(file->files->job->dataset, TAKEN, &samples, err));
    stk_status status = write_samples(file, &samples, err);
    stk__samples_release(&samples);
    if (status == STK_OK && !file->files->put && !file->files->begun)
        status = stk__parquet_out_begin(file, err); /* no rows at all */
    file->files->samples = file->dataset->size;
    if (status == STK_OK && file->files->put)
        status = stk__parquet_out_finish(file, err);
    return status == STK_OK ? stk__shard_files_finish(file->files, err) : status;
}

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    stk__shard_files *files = stk__calloc(job->context, 1, sizeof *files); /* large for a stack */
    stk__parquet_out_file file = {.dataset = job->dataset, .options = job->own, .files = files};

    if (!files)
        return stk__parquet_out_no_memory(err);
    stk_status status =
        stk__shard_files_open(files, job, is_file(job) ? NULL : ".parquet", &own_table, err);
    report->resumed = files->samples;
    if (status == STK_OK)
        status = write_all(&file, err);
    if (status == STK_ECANCELED)
        stk__shard_files_fail_stopped(files, err);
    if (status == STK_OK) {
        report->total = report->encoded = job->dataset->size;
        report->bytes_after = files->total;
    }
    stk__parquet_out_release(&file);
    stk__shard_files_close(files);
    stk__free(job->context, files);
    return status;
}

static bool accepts(const stk_dataset *dataset, const char **why)
{
    *why = dataset->num_fields ? NULL : "has no fields";
    for (uint32_t f = 0; !*why && f < dataset->num_fields; f++)
        *why = stk__parquet_out_refuses(&dataset->fields[f]);
    return !*why;
}

const stk_converter_ops stk__convert_parquet = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "parquet",
    .from = "any samples of fields",
    .doc = "Parquet",
    .options = &own_table,
    .endings = "|.parquet|.parq|",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = accepts,
    .run = run,
};
