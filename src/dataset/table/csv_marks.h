/* SPDX-License-Identifier: Apache-2.0 */
/* Where the cells of lines end. */
#ifndef STK_SRC_DATASET_TABLE_CSV_MARKS_H
#define STK_SRC_DATASET_TABLE_CSV_MARKS_H

#include "base/base.h"

enum { STK__CSV_MARKED = 64 };

/* Of 64 bytes, a bit for each, the first the least. */
typedef struct stk__csv_marks {
    uint64_t lines;  /* line feeds */
    uint64_t ends;   /* of cells: those and the delimiter */
    uint64_t others; /* quotes and carriage returns: such a line is to be looked at by itself */
} stk__csv_marks;

typedef void stk__csv_marks_fn(const char *bytes, char delimiter, stk__csv_marks *out);

stk__csv_marks_fn stk__csv_marks_c; /* the definition */
#if defined(STK_WITH_AVX2)
stk__csv_marks_fn stk__csv_marks_avx2;
#endif

/* The fastest that the context's instruction sets allow. (csv.c) */
stk__csv_marks_fn *stk__csv_marks_of(const stk_context *ctx);

/* Lines without quotes and carriage returns, one behind the other. */
typedef struct stk__csv_plain {
    uint64_t rows, bytes;
    uint32_t longest; /* cell, bytes */
} stk__csv_plain;

/* Lines of `cells` cells each from `at` on, none of them empty, each with its line feed: up to one
 * that is not so, until they have `most` bytes, or the bytes that are left are too few to tell. */
stk__csv_plain stk__csv_plain_lines(stk__csv_marks_fn *marks, const char *at, const char *end,
                                    char delimiter, uint32_t cells, uint64_t most);

#endif
