/* SPDX-License-Identifier: Apache-2.0 */
/* Any samples as Parquet: one file, or shards of files in a folder. */
#include "convert/parquet.h"
#include "dataset/dataset.h"

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

static stk_status init(stk__rows_writer *writer, stk_error *err)
{
    return stk__parquet_out_init((stk__parquet_out_file *)writer, err);
}

static void release(stk__rows_writer *writer)
{
    stk__parquet_out_release((stk__parquet_out_file *)writer);
}

static stk_status begin(stk__rows_writer *writer, stk_error *err)
{
    return stk__parquet_out_begin((stk__parquet_out_file *)writer, err);
}

static stk_status add(stk__rows_writer *writer, const stk__samples *samples, size_t i,
                      uint64_t number, stk_error *err)
{
    return stk__parquet_out_add((stk__parquet_out_file *)writer, samples, i, number, err);
}

static stk_status end(stk__rows_writer *writer, stk_error *err)
{
    return stk__parquet_out_finish((stk__parquet_out_file *)writer, err);
}

static uint64_t waiting(const stk__rows_writer *writer)
{
    return stk__parquet_out_waiting((const stk__parquet_out_file *)writer);
}

static const stk__rows_form form = {
    .name = "Parquet",
    .endings = (const char *const[]){".parquet", ".parq", NULL},
    .options = &own_table,
    .size = sizeof(stk__parquet_out_file),
    .init = init,
    .release = release,
    .begin = begin,
    .add = add,
    .end = end,
    .waiting = waiting,
};

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    const stk__parquet_out_options *own = job->own;

    return stk__rows_write(job, &form, own->shard_size, report, err);
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
    .nulls = true,
};
