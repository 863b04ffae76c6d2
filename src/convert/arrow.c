/* SPDX-License-Identifier: Apache-2.0 */
/* Any samples as Arrow IPC files: one, or shards of files in a folder. */
#include "convert/arrow.h"

#include <inttypes.h>

#include "dataset/dataset.h"

#define AT(member) offsetof(stk__arrow_out_options, member)

static const stk_option own_list[] = {
    {"codec", STK_OPTION_ENUM, AT(codec), "lz4", 0, 0, "lz4|zstd|none", NULL,
     "Of buffers; one that becomes no smaller is stored as it is. With none a reader that maps the "
     "file copies nothing."},
    {"level", STK_OPTION_INT, AT(level), "3", 1, 22, NULL, NULL, "Of zstd."},
    {"batch_size", STK_OPTION_SIZE, AT(batch_size), "1MiB", 1, 0x1p30, NULL, "SIZE",
     "Bytes of values after which a record batch ends: what a row costs to read by itself."},
    {"batch_rows", STK_OPTION_UINT, AT(batch_rows), "0", 0, 0x1p31, NULL, "ROWS",
     "Rows after which a record batch ends, where its bytes do not end it before; 0: any number."},
    {"shard_size", STK_OPTION_SIZE, AT(shard_size), "512MiB", 1, 0x1p50, NULL, "SIZE",
     "Bytes of a file in a folder, nearly."},
};

static const stk_option_table own_table = {"arrow", "Samples as files of Arrow IPC.",
                                           sizeof(stk__arrow_out_options), own_list,
                                           STK_COUNT(own_list)};

stk_status stk__arrow_out_no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory to write Arrow; set a smaller batch_size");
}

uint64_t stk__arrow_out_width(const stk__arrow_out_column *c)
{
    return stk_field_bytes(c->row->field) / stk_dtype_size(c->row->field->dtype);
}

static stk__arrow_out_kind kind_of(const stk_field *field)
{
    if (field->layout != STK_FIXED)
        return field->layout == STK_BYTES ? STK__ARROW_STRING : STK__ARROW_VALUES;
    return field->rank ? STK__ARROW_TENSOR : STK__ARROW_NUMBER;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static stk_status init(stk__rows_writer *writer, stk_error *err)
{
    stk__arrow_out_writer *w = (stk__arrow_out_writer *)writer;
    stk_context *ctx = writer->files.job->context;

    w->options = writer->files.job->own;
    w->flat.bytes.ctx = w->body.ctx = w->plain.ctx = ctx;
    w->columns = stk__calloc(ctx, writer->num_columns, sizeof *w->columns);
    w->buffers = stk__calloc(ctx, (uint64_t)writer->num_columns * 4, 2 * sizeof *w->buffers);
    if (!w->columns || !w->buffers)
        return stk__arrow_out_no_memory(err);
    for (uint32_t i = 0; i < writer->num_columns; i++) {
        stk__arrow_out_column *c = &w->columns[i];
        c->row = &writer->columns[i];
        c->kind = kind_of(c->row->field);
        c->has.ctx = c->offsets.ctx = c->values.ctx = ctx;
    }
    return stk__codec_state_create(ctx, &w->state, err);
}

static void release(stk__rows_writer *writer)
{
    stk__arrow_out_writer *w = (stk__arrow_out_writer *)writer;
    stk_context *ctx = writer->files.job->context;

    for (uint32_t i = 0; w->columns && i < writer->num_columns; i++) {
        stk__bytes_release(&w->columns[i].has);
        stk__bytes_release(&w->columns[i].offsets);
        stk__bytes_release(&w->columns[i].values);
    }
    stk__codec_state_destroy(&w->state);
    stk__bytes_release(&w->flat.bytes);
    stk__bytes_release(&w->body);
    stk__bytes_release(&w->plain);
    stk__free(ctx, w->columns);
    stk__free(ctx, w->buffers);
    stk__free(ctx, w->blocks);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The value of a row behind those before it; of one that is null zeros, or nothing. */
static stk_status add_value(stk__arrow_out_column *c, const void *data, uint64_t size, bool has,
                            uint64_t number, stk_error *err)
{
    const stk_field *field = c->row->field;
    const uint8_t is = has;
    bool good = true;

    if (size > INT32_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "sample %" PRIu64 ": the field '%.100s' has %" PRIu64
                         " bytes; a value in Arrow has at most %d here",
                         number, field->name, size, INT32_MAX);
    if (has && field->text && !stk__utf8_valid(data, (size_t)size))
        return stk__rows_fail_text(c->row, number, "a text of Arrow has", err);
    if (c->row->mask >= 0)
        good = stk__bytes_put(&c->has, &is, 1);
    good = good && stk__bytes_put(&c->values, data, (size_t)size);
    if (c->kind >= STK__ARROW_VALUES) {
        const int32_t end = (int32_t)(c->values.length / stk_dtype_size(field->dtype));
        good = good && stk__bytes_put(&c->offsets, &end, sizeof end);
    }
    c->nulls += !has;
    return good ? STK_OK : stk__arrow_out_no_memory(err);
}

static stk_status begin(stk__rows_writer *writer, stk_error *err)
{
    return stk__arrow_out_schema((stk__arrow_out_writer *)writer, err);
}

static stk_status add(stk__rows_writer *writer, const stk__samples *samples, size_t i,
                      uint64_t number, stk_error *err)
{
    stk__arrow_out_writer *w = (stk__arrow_out_writer *)writer;
    uint64_t size = 0;

    for (uint32_t k = 0; k < writer->num_columns; k++)
        size += stk__samples_size(samples, i, writer->columns[k].number);
    if (w->rows && (size > w->options->batch_size - STK_MIN(w->size, w->options->batch_size) ||
                    w->rows == w->options->batch_rows))
        STK_TRY(stk__arrow_out_batch(w, err));
    for (uint32_t k = 0; k < writer->num_columns; k++) {
        stk__arrow_out_column *c = &w->columns[k];
        STK_TRY(add_value(c, stk__samples_value(samples, i, c->row->number),
                          stk__samples_size(samples, i, c->row->number),
                          stk__rows_has(c->row, samples, i), number, err));
    }
    w->rows++;
    w->size += size;
    return STK_OK;
}

static stk_status end(stk__rows_writer *writer, stk_error *err)
{
    stk__arrow_out_writer *w = (stk__arrow_out_writer *)writer;

    STK_TRY(stk__arrow_out_batch(w, err));
    return stk__arrow_out_footer(w, err);
}

static uint64_t waiting(const stk__rows_writer *writer)
{
    return ((const stk__arrow_out_writer *)writer)->size;
}

static const stk__rows_form form = {
    .name = "Arrow",
    .endings = (const char *const[]){".arrow", ".feather", ".ipc", NULL},
    .options = &own_table,
    .size = sizeof(stk__arrow_out_writer),
    .init = init,
    .release = release,
    .begin = begin,
    .add = add,
    .end = end,
    .waiting = waiting,
};

/* ---- The converter --------------------------------------------------------------------------- */

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    const stk__arrow_out_options *own = job->own;

    return stk__rows_write(job, &form, own->shard_size, report, err);
}

static bool accepts(const stk_dataset *dataset, const char **why)
{
    *why = dataset->num_fields ? NULL : "has no fields";
    for (uint32_t f = 0; !*why && f < dataset->num_fields; f++) {
        const stk_dtype dtype = dataset->fields[f].dtype;
        if (dtype == STK_BFLOAT16)
            *why = "has bfloat16, which Arrow does not; make it float32 with the option cast";
        else if (dtype == STK_COMPLEX64 || dtype == STK_COMPLEX128)
            *why = "has complex numbers";
    }
    return !*why;
}

const stk_converter_ops stk__convert_arrow = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "arrow",
    .from = "any samples of fields",
    .doc = "Arrow",
    .options = &own_table,
    .endings = "|.arrow|.feather|.ipc|",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = accepts,
    .run = run,
    .nulls = true,
};
