/* SPDX-License-Identifier: Apache-2.0 */
/* Any samples as lines of JSON [jsonlines.org], an object each, as Python's json writes them. */
#include <inttypes.h>

#include "base/bytes.h"
#include "convert/rows.h"
#include "dataset/dataset.h"

typedef struct jsonl_options {
    uint32_t struct_size;
    uint64_t shard_size;
} jsonl_options;

static const stk_option own_list[] = {
    {"shard_size", STK_OPTION_SIZE, offsetof(jsonl_options, shard_size), "512MiB", 1, 0x1p50, NULL,
     "SIZE", "Bytes of a file in a folder, nearly."},
};

static const stk_option_table own_table = {"jsonl", "Samples as lines of JSON.",
                                           sizeof(jsonl_options), own_list, STK_COUNT(own_list)};

typedef struct jsonl_writer {
    stk__rows_writer base;
    stk__text line;
} jsonl_writer;

static stk_status init(stk__rows_writer *writer, stk_error *err)
{
    for (uint32_t i = 0; i < writer->num_columns; i++) {
        const stk_field *field = writer->columns[i].field;
        if (stk__rows_is_picture(field))
            return stk__rows_fail_field(field, "has encoded pictures", "JSON", "Arrow or Parquet",
                                        err);
    }
    ((jsonl_writer *)writer)->line.ctx = writer->files.job->context;
    return STK_OK;
}

static void release(stk__rows_writer *writer)
{
    stk__text_release(&((jsonl_writer *)writer)->line);
}

static stk_status nothing(stk__rows_writer *writer, stk_error *err)
{
    (void)writer;
    (void)err;
    return STK_OK;
}

static stk_status add(stk__rows_writer *writer, const stk__samples *samples, size_t i,
                      uint64_t number, stk_error *err)
{
    stk__text *line = &((jsonl_writer *)writer)->line;

    line->length = 0;
    for (uint32_t c = 0; c < writer->num_columns; c++) {
        const stk__rows_column *column = &writer->columns[c];
        const void *data = stk__samples_value(samples, i, column->number);
        const uint64_t size = stk__samples_size(samples, i, column->number);
        const bool has = stk__rows_has(column, samples, i);
        if (has && column->field->layout == STK_BYTES && !stk__utf8_valid(data, (size_t)size))
            return stk__rows_fail_text(column, number, "JSON has", err);
        stk__text_add(line, c ? ", " : "{");
        stk__text_add_json(line, column->field->name);
        stk__text_add(line, has ? ": " : ": null");
        if (has)
            stk__field_put_value(column->field, data, size, line);
    }
    stk__text_add(line, "}\n");
    if (line->failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                         "no memory for the line of sample %" PRIu64, number);
    return stk__shard_files_write(&writer->files, line->bytes, line->length, err);
}

static const stk__rows_form form = {.name = "JSON lines",
                                    .endings = (const char *const[]){".jsonl", ".ndjson", NULL},
                                    .options = &own_table,
                                    .size = sizeof(jsonl_writer),
                                    .init = init,
                                    .release = release,
                                    .begin = nothing,
                                    .add = add,
                                    .end = nothing};

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    return stk__rows_write(job, &form, ((const jsonl_options *)job->own)->shard_size, report, err);
}

static bool accepts(const stk_dataset *dataset, const char **why)
{
    *why = dataset->num_fields ? NULL : "has no fields";
    return !*why;
}

const stk_converter_ops stk__convert_jsonl = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "jsonl",
    .from = "any samples of fields",
    .doc = "JSON lines",
    .options = &own_table,
    .endings = "|.jsonl|.ndjson|",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = accepts,
    .run = run,
    .nulls = true,
};
