/* lines of cells -> columns of a table */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comma-separated values [RFC 4180]. csv_scan.c says where lines begin and what the columns are,
 * csv_values.c makes vectors of a run of lines; csv.c is the kinds and the cells of a line, which
 * both use.
 */
#ifndef STK_SRC_DATASET_TABLE_CSV_H
#define STK_SRC_DATASET_TABLE_CSV_H

#include "dataset/table/table.h"

#define STK__CSV_MOST_RECORD (UINT64_C(16) << 20) /* bytes of a line */

typedef struct stk__csv_options {
    stk__table_options table;
    const char *delimiter, *types;
    int32_t header, text;
    uint64_t learn;
} stk__csv_options;

enum { STK__CSV_HEADER_AUTO, STK__CSV_HEADER_TRUE, STK__CSV_HEADER_FALSE };
enum { STK__CSV_TEXT_STRICT, STK__CSV_TEXT_BYTES };

typedef enum stk__csv_end {
    STK__CSV_CELL,   /* another cell of the line follows */
    STK__CSV_LINE,   /* the line ends, or the bytes do */
    STK__CSV_OPEN,   /* the bytes end within quotes */
    STK__CSV_BEHIND, /* text follows a closing quote */
    STK__CSV_RETURN  /* a carriage return is not followed by a line feed */
} stk__csv_end;

/* A cell: its bytes without the quotes around it. */
typedef struct stk__csv_cell {
    const char *text;
    size_t length;
    bool quoted, doubled; /* in quotes; with "" for '"' in it */
} stk__csv_cell;

/* The cell at *at, which moves behind it and what ends it. */
stk__csv_end stk__csv_next(const char **at, const char *end, char delimiter, stk__csv_cell *cell);
/* Move *at over lines without a byte; how many. */
uint64_t stk__csv_skip_empty(const char **at, const char *end);

/* ---- Values ---- */

/* Numbers of a cell, blanks around them left out. False: it is none, or does not fit. */
bool stk__csv_integer(const stk__csv_cell *cell, stk_dtype dtype, void *out);
bool stk__csv_real(const stk__csv_cell *cell, double *out);
bool stk__csv_bool(const stk__csv_cell *cell, uint8_t *out);

/* As of stk__table_format. */
stk_status stk__csv_scan(stk__table_file *file, const void *options, stk_error *err);
stk_status stk__csv_decode(const stk__table *table, const stk__table_column *column,
                           const stk__table_piece *piece, const void *data, void *out, void *worker,
                           const char **reason);
/* Bytes that `rows` lines of so many bytes decode to, at most. */
uint64_t stk__csv_decoded(const stk__table_column *columns, const bool *wanted, uint32_t n,
                          uint64_t rows, uint64_t bytes);

/* The numbers of `rows` lines at a place of decoded bytes: the vectors of the columns that are read
 * point there. */
uint32_t *stk__csv_lines(void *out, const stk__table_column *columns, uint32_t n, uint64_t place);
/* The bytes that they take. */
uint64_t stk__csv_lines_room(uint64_t rows);
/* What both kinds of lines share: whether the first bytes of a file are text; *head is set to what
 * lies before the first line. */
stk_status stk__csv_check_text(const stk__table_file *file, const char *window, uint64_t length,
                               uint64_t *head, stk_error *err);

/* What vectors say in nulls: reasons of the format, from 2 on. */
enum { STK__CSV_NO_INTEGER = 2, STK__CSV_NO_REAL, STK__CSV_NO_BOOL, STK__CSV_NO_UTF8 };

#endif
