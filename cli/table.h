/* rows of texts -> a table on a terminal */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_TABLE_H
#define STK_CLI_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <stoker/base.h>

#define CLI_TABLE_COLUMNS 24
#define CLI_TABLE_CELL    64

/* Texts in columns. The first column is to the left, the others to the right. */
struct cli_table {
    size_t columns, rows, capacity;
    char heads[CLI_TABLE_COLUMNS][2][CLI_TABLE_CELL]; /* two lines: what, unit */
    struct cli_table_row *row;
};

struct cli_table_row {
    char cells[CLI_TABLE_COLUMNS][CLI_TABLE_CELL];
    size_t used;      /* cells that were put */
    char note[512];   /* in the place of the other cells; empty: none */
    const char *name; /* the first cell at its full length, for a page; NULL: it is */
    uint64_t link;    /* what a page leads to from it, from 1; 0: nothing */
};

void cli_table_column(struct cli_table *table, const char *head, const char *unit);
/* A new row, empty; NULL when there is no memory. */
struct cli_table_row *cli_table_row(struct cli_table *table);
/* The same with its first cell, which is cut after 60 bytes; `name` outlives the table. */
struct cli_table_row *cli_table_begin(struct cli_table *table, const char *name);
/* Put the next cell: a text; a number as cli_short_number() has it, "-" where it is not finite; the
 * least and the most. Nothing where `row` is NULL. */
void cli_table_put(struct cli_table_row *row, const char *format, ...) STK_PRINTF(2, 3);
void cli_table_number(struct cli_table_row *row, double value);
void cli_table_range(struct cli_table_row *row, double least, double most);
/* What ladders have in common: their columns; what a rung gave, in cells; of a training what it
 * came to. `figure` is that of a rung. */
void cli_ladder_columns(struct cli_table *table, const char *name, const char *figure,
                        const char *unit, bool trainings);
void cli_ladder_cells(struct cli_table_row *row, double factor, double share);
void cli_training_cells(struct cli_table_row *row, double accuracy, double peak_bytes);
/* Print it, at most `width` characters wide where it can be: more columns follow below, the first
 * one repeated. 0: no limit. */
void cli_table_print(const struct cli_table *table, size_t width, FILE *out);
void cli_table_free(struct cli_table *table);

/* Width of the terminal behind a stream; 0: it is none. */
size_t cli_terminal_width(FILE *out);
/* Print a paragraph in lines of at most `width` characters (0: 100), each with `indent` spaces in
 * front. */
void cli_paragraph(FILE *out, size_t width, size_t indent, const char *text);
/* A number with three significant digits or all of its integer part, without an exponent. */
void cli_short_number(char *text, size_t size, double value);

#endif
