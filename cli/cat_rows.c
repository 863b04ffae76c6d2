/* SPDX-License-Identifier: Apache-2.0 */
/* stoker cat of a dataset: its samples as the rows of a table, lines of JSON or CSV. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cat.h"
#include "cli.h"
#include "table.h"

#define BATCH  16  /* samples that are read at a time */
#define WIDEST 40  /* characters of a cell */
#define VALUE  512 /* bytes of most values as text; longer ones get memory */

static const char dots[] = "...";

/* What is written, and how. */
struct rows {
    struct cli *cli;
    stk_dataset_info about;
    const stk_dataset *dataset;
    const struct cat_part *part;
    struct cli_table table;
    uint64_t done; /* rows */
    char *text;    /* of a value */
    size_t room;
};

/* ---- Values ---------------------------------------------------------------------------------- */

/* A value of a field in a batch. */
struct value {
    const stk_field *field;
    const char *data;
    uint64_t size;
    bool null;
};

/* Entry `row` of a field. */
static void take_entry(const stk_field *field, const stk_tensor *t, uint64_t row, struct value *out)
{
    uint64_t from = row, to = row + 1, bytes = stk_dtype_size(t->dtype);

    for (uint32_t d = 1; d < t->rank; d++)
        bytes *= (uint64_t)t->shape[d];
    if (t->layout != STK_FIXED) {
        from = t->offsets[row];
        to = t->offsets[row + 1];
    }
    *out = (struct value){.field = field,
                          .data = t->data ? (const char *)t->data + from * bytes : "",
                          .size = (to - from) * bytes};
}

/* Field `f` of a row, and whether it is null. False: there is none. */
static bool take_value(const struct rows *rows, const stk_batch *batch, uint32_t f, uint64_t row,
                       struct value *out)
{
    const int64_t mask = stk_dataset_null_mask(rows->dataset, f);
    stk_tensor t = {.struct_size = sizeof t};
    struct value has;

    if (stk_batch_field(batch, f, &t) != STK_OK)
        return false;
    take_entry(stk_field_at(rows->about.fields, f), &t, row, out);
    if (mask < 0)
        return true;
    if (stk_batch_field(batch, (uint32_t)mask, &t) != STK_OK)
        return false;
    take_entry(stk_field_at(rows->about.fields, (uint32_t)mask), &t, row, &has);
    out->null = !*has.data;
    return true;
}

/* The field behind `f`, those passed over that say what is null. */
static uint32_t next_field(const struct rows *rows, uint32_t f)
{
    const int64_t mask = stk_dataset_null_mask(rows->dataset, f);

    return (mask < 0 ? f : (uint32_t)mask) + 1;
}

/* All of a value as JSON, in rows->text; NULL: no memory. */
static const char *text_of(struct rows *rows, const struct value *value)
{
    const size_t length =
        stk_field_value_text(value->field, value->data, value->size, rows->text, rows->room);

    if (length < rows->room)
        return rows->text;
    char *more = realloc(rows->text, length + 1);
    if (!more)
        return NULL;
    rows->text = more;
    rows->room = length + 1;
    stk_field_value_text(value->field, value->data, value->size, rows->text, rows->room);
    return rows->text;
}

/* ---- A table --------------------------------------------------------------------------------- */

/* "float32[3,4]", "int64[]", "text". */
static void type_text(const stk_field *field, char *text, size_t size)
{
    size_t used;

    if (field->layout == STK_BYTES) {
        snprintf(text, size, "%s", *field->codec ? field->codec : field->text ? "text" : "bytes");
        return;
    }
    used =
        (size_t)snprintf(text, size, "%s%s", stk_dtype_name(field->dtype), field->rank ? "[" : "");
    for (uint32_t d = 0; d < field->rank && used < size; d++) {
        char side[24] = "";
        if (field->shape[d] >= 0)
            snprintf(side, sizeof side, "%" PRId64, field->shape[d]);
        used += (size_t)snprintf(text + used, size - used, "%s%s", d ? "," : "", side);
    }
    if (field->rank && used < size)
        snprintf(text + used, size - used, "]");
}

static void begin_table(struct rows *rows)
{
    char head[CLI_TABLE_CELL], type[CLI_TABLE_CELL];

    cli_table_column(&rows->table, "row", "");
    for (uint32_t f = 0; f < rows->about.num_fields; f = next_field(rows, f)) {
        const stk_field *field = stk_field_at(rows->about.fields, f);
        type_text(field, type, sizeof type);
        snprintf(head, sizeof head, "%s", field->name);
        cli_text_clean(head);
        cli_table_column(&rows->table, head, type);
    }
}

/* A value in a cell: what is too long is cut between characters, and ends in dots. */
static void put_cell(const struct value *value, struct cli_table_row *row)
{
    char text[256] = "null";
    size_t at = 0, n = 0, length = 4;
    uint32_t c;

    if (!value->null)
        length = stk_field_value_text(value->field, value->data, value->size, text, sizeof text);
    if (value->field->layout == STK_BYTES && *text == '[')
        length = (size_t)snprintf(text, sizeof text, "<%" PRIu64 " bytes>", value->size);
    for (size_t width = 0; text[at] && width < WIDEST; at += n, width++) {
        n = cli_text_character(text + at, &c);
        n = n ? n : 1;
        if (at + n + sizeof dots > CLI_TABLE_CELL)
            break;
    }
    if (at < length)
        memcpy(text + at, dots, sizeof dots);
    cli_text_clean(text);
    cli_table_put(row, "%s", text);
}

static bool add_to_table(struct rows *rows, const stk_batch *batch, uint64_t row, uint64_t number)
{
    struct cli_table_row *to = cli_table_row(&rows->table);
    struct value value;

    cli_table_put(to, "%" PRIu64, number);
    for (uint32_t f = 0; to && f < rows->about.num_fields; f = next_field(rows, f))
        if (take_value(rows, batch, f, row, &value))
            put_cell(&value, to);
    return to;
}

static void end_table(struct rows *rows)
{
    FILE *out = rows->cli->out;
    uint64_t columns = 0;

    cli_table_print(&rows->table, cli_terminal_width(out), out);
    for (uint32_t f = 0; f < rows->about.num_fields; f = next_field(rows, f))
        columns++;
    if (columns >= CLI_TABLE_COLUMNS)
        fprintf(out,
                "... and %" PRIu64
                " more columns: columns=NAME,... of a table, or else keep=NAME,..., "
                "chooses\n",
                columns - (CLI_TABLE_COLUMNS - 1));
    if (rows->part->first_rows && rows->part->total > rows->done)
        fprintf(out, "%" PRIu64 " of %" PRIu64 " rows: --slice A:B shows others\n", rows->done,
                rows->part->total);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* JSON, with what would steer a terminal, which stands in strings alone, as \uXXXX. */
static void write_json(FILE *out, const char *text)
{
    while (*text) {
        uint32_t c;
        const size_t length = cli_text_character(text, &c);
        if (length && cli_text_steers(c))
            fprintf(out, "\\u%04x", (unsigned)c);
        else
            fwrite(text, 1, length ? length : 1, out);
        text += length ? length : 1;
    }
}

static bool write_json_row(struct rows *rows, const stk_batch *batch, uint64_t row)
{
    FILE *out = rows->cli->out;
    struct value value;

    for (uint32_t f = 0; f < rows->about.num_fields; f = next_field(rows, f)) {
        if (!take_value(rows, batch, f, row, &value))
            continue;
        const char *text = value.null ? "null" : text_of(rows, &value);
        if (!text)
            return false;
        fputs(f ? ", " : "{", out);
        cli_json_string(out, value.field->name);
        fputs(": ", out);
        write_json(out, text);
    }
    fputs("}\n", out);
    return true;
}

static void write_csv_names(const struct rows *rows)
{
    for (uint32_t f = 0; f < rows->about.num_fields; f = next_field(rows, f)) {
        fputs(f ? "," : "", rows->cli->out);
        cli_csv_string(rows->cli->out, stk_field_at(rows->about.fields, f)->name);
    }
    fputc('\n', rows->cli->out);
}

/* A text is a cell as it is; all else is one as JSON. */
static bool write_csv_row(struct rows *rows, const stk_batch *batch, uint64_t row)
{
    FILE *out = rows->cli->out;
    struct value value;

    for (uint32_t f = 0; f < rows->about.num_fields; f = next_field(rows, f)) {
        if (!take_value(rows, batch, f, row, &value))
            continue;
        fputs(f ? "," : "", out);
        if (value.null)
            continue;
        const char *text = text_of(rows, &value);
        if (!text)
            return false;
        char *plain = NULL;
        if (value.field->layout == STK_BYTES && *text == '"' &&
            !memchr(value.data, 0, (size_t)value.size))
            plain = strndup(value.data, (size_t)value.size);
        if (plain && !*plain)
            fputs("\"\"", out);
        else
            cli_csv_string(out, plain ? plain : text);
        free(plain);
    }
    fputc('\n', out);
    return true;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static bool write_row(struct rows *rows, const stk_batch *batch, uint64_t row, uint64_t number)
{
    switch (rows->cli->format) {
    case CLI_JSON:
        return write_json_row(rows, batch, row);
    case CLI_CSV:
        return write_csv_row(rows, batch, row);
    default:
        return add_to_table(rows, batch, row, number);
    }
}

static int write_batch(struct rows *rows, const stk_batch *batch)
{
    for (uint64_t i = 0; i < stk_batch_count(batch); i++, rows->done++)
        if (!write_row(rows, batch, i, rows->part->first + rows->done * rows->part->step)) {
            cli_error("no memory for row %" PRIu64, rows->done);
            return CLI_FAILED;
        }
    return CLI_GO_ON;
}

static void cancel(void *loader)
{
    stk_loader_cancel(loader);
}

static int write_rows(struct rows *rows, stk_dataset *dataset)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;
    int code = CLI_GO_ON;

    stk_loader_options_init(&options);
    options.batch_size = BATCH;
    options.num_workers = 0;
    options.shuffle = 0;
    stk_status status = stk_loader_create(dataset, &options, &loader, &err);
    cli_signals_install();
    cli_on_interrupt(cancel, loader);
    while (status == STK_OK && code == CLI_GO_ON) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_OK)
            code = write_batch(rows, batch);
        stk_batch_release(&batch);
    }
    cli_on_interrupt(NULL, NULL);
    stk_loader_destroy(&loader);
    return status == STK_OK || status == STK_EOS ? code : cli_fail(rows->cli, status, &err);
}

/* Of a dataset the samples that are asked for. */
static stk_status choose(stk_dataset **dataset, const struct cat_part *part, stk_error *err)
{
    if (part->step == 1)
        return stk_dataset_range(dataset, part->first, part->first + part->count, err);
    uint64_t *indices = malloc((size_t)part->count * sizeof *indices);
    if (!indices) {
        stk_error_init(err);
        err->status = STK_ENOMEM;
        snprintf(err->text, sizeof err->text, "no memory for %" PRIu64 " rows", part->count);
        return STK_ENOMEM;
    }
    for (uint64_t i = 0; i < part->count; i++)
        indices[i] = part->first + i * part->step;
    const stk_status status = stk_dataset_subset(dataset, indices, part->count, err);
    free(indices);
    return status;
}

int cat_rows(struct cli *cli, stk_dataset **dataset, const struct cat_part *part)
{
    struct rows rows = {.cli = cli,
                        .about = {.struct_size = sizeof rows.about},
                        .part = part,
                        .text = malloc(VALUE),
                        .room = VALUE};
    stk_error err;

    if (!rows.text) {
        cli_error("no memory for the rows of a dataset");
        return CLI_FAILED;
    }
    stk_status status = part->count ? choose(dataset, part, &err) : STK_OK;
    int code = status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
    rows.dataset = *dataset;
    stk_dataset_get_info(*dataset, &rows.about);
    if (code == CLI_GO_ON && cli->format == CLI_TABLE)
        begin_table(&rows);
    else if (code == CLI_GO_ON && cli->format == CLI_CSV)
        write_csv_names(&rows);
    if (code == CLI_GO_ON && part->count)
        code = write_rows(&rows, *dataset);
    if (code == CLI_GO_ON && cli->format == CLI_TABLE)
        end_table(&rows);
    cli_table_free(&rows.table);
    free(rows.text);
    return code == CLI_GO_ON ? CLI_GOOD : code;
}
