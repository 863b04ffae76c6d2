/* samples -> the rows of files, in a form of tables */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What forms of tables share: which fields are columns, one file or shards in a folder, samples one
 * after the other. A form says how a file begins, takes a row and ends.
 */
#ifndef STK_SRC_CONVERT_ROWS_H
#define STK_SRC_CONVERT_ROWS_H

#include "base/text.h"
#include "convert/samples.h"
#include "convert/shard_files.h"

typedef struct stk__rows_column {
    const stk_field *field; /* the dataset's */
    uint32_t number;        /* of the field */
    int64_t mask;           /* number of the field that is 0 where a row is null; -1: none is */
} stk__rows_column;

/* The first member of what a form keeps while it writes. */
typedef struct stk__rows_writer {
    stk__shard_files files;
    stk__rows_column *columns;
    uint32_t num_columns;
    uint64_t rows; /* of the file that is written */
} stk__rows_writer;

typedef struct stk__rows_form {
    const char *name;           /* "Parquet" */
    const char *const *endings; /* of one file, NULL behind the last; the first is that of shards */
    const stk_option_table *options; /* the converter's: a run of the same goes on */
    size_t size;                     /* of the form's own writer, which begins as zeros */
    /* (optional) Before the first file; release() comes also after a failure. */
    stk_status (*init)(stk__rows_writer *writer, stk_error *err);
    void (*release)(stk__rows_writer *writer);
    /* An object of writer->files has begun: what precedes the rows. */
    stk_status (*begin)(stk__rows_writer *writer, stk_error *err);
    /* Sample `i` of the group, `number` of the dataset. */
    stk_status (*add)(stk__rows_writer *writer, const stk__samples *samples, size_t i,
                      uint64_t number, stk_error *err);
    /* What is behind the last row. */
    stk_status (*end)(stk__rows_writer *writer, stk_error *err);
    /* (optional) Bytes that wait to be written; NULL: none do. */
    uint64_t (*waiting)(const stk__rows_writer *writer);
} stk__rows_form;

/* Write the samples of a job. `shard_size`: bytes of a file in a folder, nearly. Blocks. */
stk_status stk__rows_write(const stk_conversion_job *job, const stk__rows_form *form,
                           uint64_t shard_size, stk_conversion_report *report, stk_error *err);
/* Whether sample `i` has a value of a column: it is not null. */
static inline bool stk__rows_has(const stk__rows_column *column, const stk__samples *samples,
                                 size_t i)
{
    return column->mask < 0 ||
           *(const uint8_t *)stk__samples_value(samples, i, (uint32_t)column->mask);
}
/* Whether what a field holds is an encoded picture. */
static inline bool stk__rows_is_picture(const stk_field *field)
{
    return field->layout == STK_BYTES && strcmp(field->codec, "image") == 0;
}
/* Names, layouts, types and shapes of the columns in JSON: what forms that have no shape of a
 * tensor keep under STK__ROWS_FIELDS. */
#define STK__ROWS_FIELDS "stoker.fields"
void stk__rows_put_fields(const stk__rows_writer *writer, stk__text *to);
/* A field that a form has no place for, with the remedy: "has tensors", "a cell of CSV", "Arrow".
 */
stk_status stk__rows_fail_field(const stk_field *field, const char *has, const char *where,
                                const char *others, stk_error *err);
/* A text of a sample that is no UTF-8, with the remedy; `what`: "JSON has". */
stk_status stk__rows_fail_text(const stk__rows_column *column, uint64_t number, const char *what,
                               stk_error *err);

#endif
