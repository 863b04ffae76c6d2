/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP           2   /* spaces between columns */
#define DEFAULT_WIDTH 100 /* of paragraphs where there is no terminal */

void cli_table_column(struct cli_table *table, const char *head, const char *unit)
{
    if (table->columns == CLI_TABLE_COLUMNS)
        return;
    snprintf(table->heads[table->columns][0], CLI_TABLE_CELL, "%s", head);
    snprintf(table->heads[table->columns][1], CLI_TABLE_CELL, "%s", unit);
    table->columns++;
}

struct cli_table_row *cli_table_row(struct cli_table *table)
{
    if (table->rows == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 16;
        struct cli_table_row *row = realloc(table->row, capacity * sizeof *row);
        if (!row)
            return NULL;
        table->row = row;
        table->capacity = capacity;
    }
    struct cli_table_row *row = &table->row[table->rows++];
    memset(row, 0, sizeof *row);
    return row;
}

struct cli_table_row *cli_table_begin(struct cli_table *table, const char *name)
{
    struct cli_table_row *row = cli_table_row(table);

    cli_table_put(row, "%.60s", name);
    if (row)
        row->name = name;
    return row;
}

void cli_table_put(struct cli_table_row *row, const char *format, ...)
{
    va_list arguments;

    if (!row || row->used == CLI_TABLE_COLUMNS)
        return;
    va_start(arguments, format);
    vsnprintf(row->cells[row->used++], CLI_TABLE_CELL, format, arguments);
    va_end(arguments);
}

void cli_table_number(struct cli_table_row *row, double value)
{
    char text[CLI_TABLE_CELL] = "-";

    if (isfinite(value))
        cli_short_number(text, sizeof text, value);
    cli_table_put(row, "%s", text);
}

void cli_table_range(struct cli_table_row *row, double least, double most)
{
    char from[24], to[24];

    cli_short_number(from, sizeof from, least);
    cli_short_number(to, sizeof to, most);
    cli_table_put(row, "%s-%s", from, to);
}

void cli_ladder_columns(struct cli_table *table, const char *name, const char *figure,
                        const char *unit, bool trainings)
{
    cli_table_column(table, name, "");
    cli_table_column(table, figure, unit);
    cli_table_column(table, "factor", "x");
    cli_table_column(table, "share of the", "speed-up");
    if (trainings) {
        cli_table_column(table, "accuracy", "%");
        cli_table_column(table, "peak", "MiB");
    }
    cli_table_column(table, "limit", "then");
}

void cli_ladder_cells(struct cli_table_row *row, double factor, double share)
{
    cli_table_put(row, "%.2f", isfinite(factor) ? factor : 1);
    cli_table_put(row, isfinite(share) ? "%.0f %%" : "-", round(100 * share) + 0.0); /* no "-0" */
}

void cli_training_cells(struct cli_table_row *row, double accuracy, double peak_bytes)
{
    cli_table_put(row, isfinite(accuracy) ? "%.2f" : "-", 100 * accuracy);
    cli_table_put(row, peak_bytes > 0 ? "%.0f" : "-", peak_bytes / (1024 * 1024));
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t column_width(const struct cli_table *table, size_t column)
{
    size_t width =
        max_size(cli_text_width(table->heads[column][0]), cli_text_width(table->heads[column][1]));

    for (size_t i = 0; i < table->rows; i++)
        if (column == 0 || !table->row[i].note[0])
            width = max_size(width, cli_text_width(table->row[i].cells[column]));
    return width;
}

static void put_cell(FILE *out, const char *text, size_t width, bool left)
{
    size_t used = cli_text_width(text);
    int pad = used < width ? (int)(width - used) : 0;

    if (left)
        fprintf(out, "%s%*s", text, pad, "");
    else
        fprintf(out, "%*s%s", GAP + pad, "", text);
}

static void print_block(const struct cli_table *table, const size_t *widths, size_t from, size_t to,
                        FILE *out)
{
    bool units = false;

    for (size_t c = 0; c < table->columns; c++)
        units |= table->heads[c][1][0] != '\0';
    cli_style(out, CLI_BOLD);
    for (int line = 0; line < (units ? 2 : 1); line++) {
        put_cell(out, table->heads[0][line], widths[0], true);
        for (size_t c = from; c < to; c++)
            put_cell(out, table->heads[c][line], widths[c], false);
        fputc('\n', out);
    }
    cli_style(out, CLI_PLAIN);
    for (size_t i = 0; i < table->rows; i++) {
        const struct cli_table_row *row = &table->row[i];
        if (row->note[0] && from > 1)
            continue; /* said in the first block */
        put_cell(out, row->cells[0], widths[0], true);
        for (size_t c = from; c < to && !row->note[0]; c++)
            put_cell(out, row->cells[c], widths[c], false);
        fprintf(out, "%*s%s\n", row->note[0] ? GAP : 0, "", row->note);
    }
}

void cli_table_print(const struct cli_table *table, size_t width, FILE *out)
{
    size_t widths[CLI_TABLE_COLUMNS];

    for (size_t c = 0; c < table->columns; c++)
        widths[c] = column_width(table, c);
    for (size_t from = 1; from < table->columns;) {
        size_t to = from, used = widths[0];
        while (to < table->columns &&
               (to == from || width == 0 || used + GAP + widths[to] <= width))
            used += GAP + widths[to++];
        if (from > 1)
            fputc('\n', out);
        print_block(table, widths, from, to, out);
        from = to;
    }
}

void cli_table_free(struct cli_table *table)
{
    free(table->row);
    *table = (struct cli_table){0};
}

size_t cli_terminal_width(FILE *out)
{
    struct winsize size;
    int fd = fileno(cli_text_below(out));

    if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}

void cli_paragraph(FILE *out, size_t width, size_t indent, const char *text)
{
    size_t used = 0;

    if (width == 0 || width > DEFAULT_WIDTH)
        width = DEFAULT_WIDTH;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (used && used + 1 + length > width) {
            fputc('\n', out);
            used = 0;
        }
        if (used == 0)
            used = (size_t)fprintf(out, "%*s", (int)indent, "");
        else
            used += (size_t)fprintf(out, " ");
        fprintf(out, "%.*s", (int)length, text);
        used += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void cli_short_number(char *text, size_t size, double value)
{
    double magnitude = fabs(value);
    int places = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;

    if (magnitude > 0 && magnitude < 0.0995)
        places = magnitude < 0.000995 ? 5 : magnitude < 0.00995 ? 4 : 3;
    snprintf(text, size, "%.*f", places, value);
}
