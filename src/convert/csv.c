/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any samples of scalars and texts as lines of cells [RFC 4180], which csv: and tsv: read back: an
 * empty cell is null, "" an empty text.
 */
#include <inttypes.h>

#include "base/bytes.h"
#include "convert/rows.h"
#include "dataset/dataset.h"

typedef struct csv_options {
    uint32_t struct_size;
    bool header;
    uint64_t shard_size;
} csv_options;

#define AT(member) offsetof(csv_options, member)

static const stk_option own_list[] = {
    {"header", STK_OPTION_BOOL, AT(header), "true", 0, 0, NULL, NULL,
     "The first line of a file has the names of the columns."},
    {"shard_size", STK_OPTION_SIZE, AT(shard_size), "512MiB", 1, 0x1p50, NULL, "SIZE",
     "Bytes of a file in a folder, nearly."},
};

static const stk_option_table csv_table = {"csv", "Samples as lines of cells.", sizeof(csv_options),
                                           own_list, STK_COUNT(own_list)};
static const stk_option_table tsv_table = {"tsv", "Samples as lines of cells with tabs.",
                                           sizeof(csv_options), own_list, STK_COUNT(own_list)};

typedef struct csv_writer {
    stk__rows_writer base;
    char delimiter;
    stk__text line;
} csv_writer;

static stk_status write_line(csv_writer *w, stk_error *err)
{
    stk__text_put(&w->line, "\n", 1);
    if (w->line.failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for a line of %zu bytes",
                         w->line.length);
    return stk__shard_files_write(&w->base.files, w->line.bytes, w->line.length, err);
}

/* Why a field cannot be cells; NULL: it can. */
static const char *refusal(const stk_field *field)
{
    if (stk__rows_is_picture(field))
        return "has encoded pictures";
    if (field->layout == STK_RAGGED)
        return "has lists";
    if (field->layout == STK_FIXED && field->rank)
        return "has tensors";
    return field->dtype == STK_COMPLEX64 || field->dtype == STK_COMPLEX128 ? "has complex numbers"
                                                                           : NULL;
}

static stk_status init_csv(stk__rows_writer *writer, stk_error *err)
{
    csv_writer *w = (csv_writer *)writer;

    for (uint32_t i = 0; i < writer->num_columns; i++) {
        const stk_field *field = writer->columns[i].field;
        if (refusal(field))
            return stk__rows_fail_field(field, refusal(field), "a cell of CSV",
                                        "JSON lines, Arrow or Parquet", err);
    }
    w->delimiter = ',';
    w->line.ctx = writer->files.job->context;
    return STK_OK;
}

static stk_status init_tsv(stk__rows_writer *writer, stk_error *err)
{
    STK_TRY(init_csv(writer, err));
    ((csv_writer *)writer)->delimiter = '\t';
    return STK_OK;
}

static void release(stk__rows_writer *writer)
{
    stk__text_release(&((csv_writer *)writer)->line);
}

static stk_status begin(stk__rows_writer *writer, stk_error *err)
{
    const csv_options *own = writer->files.job->own;
    csv_writer *w = (csv_writer *)writer;

    if (!own->header)
        return STK_OK;
    w->line.length = 0;
    for (uint32_t c = 0; c < writer->num_columns; c++) {
        const char *name = writer->columns[c].field->name;
        if (c)
            stk__text_put(&w->line, &w->delimiter, 1);
        stk__text_add_csv_bytes(&w->line, name, strlen(name), w->delimiter);
    }
    return write_line(w, err);
}

/* An only cell that is empty would be an empty line, which readers pass over. */
static stk_status put_null(const csv_writer *w, const stk__rows_column *column, uint64_t number,
                           stk_error *err)
{
    if (w->base.num_columns > 1)
        return STK_OK;
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT,
                     "sample %" PRIu64 ": the only column '%.100s' is null, for which CSV has no "
                     "line; write JSON lines, Arrow or Parquet",
                     number, column->field->name);
}

static stk_status put_cell(csv_writer *w, const stk__rows_column *column, const void *data,
                           uint64_t size, uint64_t number, stk_error *err)
{
    if (column->field->layout != STK_BYTES) {
        stk__text_add_element(&w->line, column->field->dtype, data);
        return STK_OK;
    }
    if (!stk__utf8_valid(data, (size_t)size))
        return stk__rows_fail_text(column, number, "CSV has", err);
    if (size)
        stk__text_add_csv_bytes(&w->line, data, (size_t)size, w->delimiter);
    else
        stk__text_put(&w->line, "\"\"", 2);
    return STK_OK;
}

static stk_status add(stk__rows_writer *writer, const stk__samples *samples, size_t i,
                      uint64_t number, stk_error *err)
{
    csv_writer *w = (csv_writer *)writer;

    w->line.length = 0;
    for (uint32_t c = 0; c < writer->num_columns; c++) {
        const stk__rows_column *column = &writer->columns[c];
        if (c)
            stk__text_put(&w->line, &w->delimiter, 1);
        STK_TRY(stk__rows_has(column, samples, i)
                    ? put_cell(w, column, stk__samples_value(samples, i, column->number),
                               stk__samples_size(samples, i, column->number), number, err)
                    : put_null(w, column, number, err));
    }
    return write_line(w, err);
}

static stk_status end(stk__rows_writer *writer, stk_error *err)
{
    (void)writer;
    (void)err;
    return STK_OK;
}

static const stk__rows_form csv_form = {.name = "CSV",
                                        .endings = (const char *const[]){".csv", NULL},
                                        .options = &csv_table,
                                        .size = sizeof(csv_writer),
                                        .init = init_csv,
                                        .release = release,
                                        .begin = begin,
                                        .add = add,
                                        .end = end};
static const stk__rows_form tsv_form = {.name = "TSV",
                                        .endings = (const char *const[]){".tsv", NULL},
                                        .options = &tsv_table,
                                        .size = sizeof(csv_writer),
                                        .init = init_tsv,
                                        .release = release,
                                        .begin = begin,
                                        .add = add,
                                        .end = end};

static stk_status run_csv(const stk_conversion_job *job, stk_conversion_report *report,
                          stk_error *err)
{
    return stk__rows_write(job, &csv_form, ((const csv_options *)job->own)->shard_size, report,
                           err);
}

static stk_status run_tsv(const stk_conversion_job *job, stk_conversion_report *report,
                          stk_error *err)
{
    return stk__rows_write(job, &tsv_form, ((const csv_options *)job->own)->shard_size, report,
                           err);
}

static bool accepts(const stk_dataset *dataset, const char **why)
{
    *why = dataset->num_fields ? NULL : "has no fields";
    return !*why;
}

const stk_converter_ops stk__convert_csv = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "csv",
    .from = "any samples of fields",
    .doc = "CSV",
    .options = &csv_table,
    .endings = "|.csv|",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = accepts,
    .run = run_csv,
    .nulls = true,
};

const stk_converter_ops stk__convert_tsv = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "tsv",
    .from = "any samples of fields",
    .doc = "TSV",
    .options = &tsv_table,
    .endings = "|.tsv|",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = accepts,
    .run = run_tsv,
    .nulls = true,
};
