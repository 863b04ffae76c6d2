/* pieces -> rows and values */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_TABLE_PIECES_H
#define STK_SRC_DATASET_TABLE_PIECES_H

#include "dataset/table/inside.h"

/* ---- runs.c: rows that lie in the same pieces ---- */

/* Find where pieces begin. After the fields are known. */
stk_status stk__table_cut(stk__table *t, stk_error *err);
/* The number of the run that a row lies in: rows of one run need the same. */
size_t stk__table_run_of(const stk__table_cuts *cuts, uint64_t row);
/* What rows are read by: pages alone; where samples come in blocks, wholes; where they are mixed,
 * sheets. */
typedef enum stk__table_by { STK__TABLE_PAGES, STK__TABLE_BLOCKS, STK__TABLE_MIXED } stk__table_by;

/* The piece in a chain that has a row of the file, or the larger one that it is a part of. */
const stk__table_piece *stk__table_piece_for(const stk__table_kept *kept, uint32_t chain,
                                             uint64_t row, stk__table_by by);
/* The piece that was decoded to some bytes. */
static inline const stk__table_piece *stk__table_piece_in(const stk__table_kept *kept,
                                                          const void *decoded)
{
    return &kept->pieces[((const stk__table_vector *)decoded)->piece];
}

/* What a need of a row is of: a piece, or a sheet, which has several slots. */
typedef struct stk__table_held {
    const stk__table_piece *piece;
    const char *base, *dictionary; /* decoded; NULL: there is none */
    uint32_t slot, slots, needs;
} stk__table_held;

static inline stk__table_held stk__table_held_in(const stk__table_kept *kept, uint32_t slot,
                                                 const stk_slice *needs)
{
    const stk__table_piece *p = stk__table_piece_in(kept, needs[0].data);
    const bool coded = p->dictionary != STK__TABLE_NO_PIECE;

    return (stk__table_held){.piece = p,
                             .base = needs[0].data,
                             .dictionary = coded ? needs[1].data : NULL,
                             .slot = slot,
                             .slots = p->kind == STK__PIECE_SHEET ? p->columns : 1,
                             .needs = 1 + coded};
}

/* The vector of column `read` of the table, which is in one of the slots. */
static inline const stk__table_vector *
stk__table_held_vector(const stk__table_layout *layout, const stk__table_held *held, uint32_t read)
{
    const bool sheet = held->piece->kind == STK__PIECE_SHEET;

    return (const stk__table_vector *)(const void *)held->base +
           (sheet ? layout->slot_of[read] - held->slot
                  : layout->column_of[read] - held->piece->column);
}

/* ---- kinds.c: what rows need where blocks are not read whole ---- */

/* Tell the dataset, once it is made. STK_ENOMEM. */
stk_status stk__table_tell_kinds(stk__table *t, stk_error *err);

/* ---- sheets.c: columns of numbers, decoded to rows ---- */

/* Add the sheets of all files. After the fields are known. */
stk_status stk__table_make_sheets(stk__table *t, stk_error *err);
/* As stk__table_decode_piece(); *failed: the piece that cannot be decoded. */
stk_status stk__table_decode_sheet(const stk__table *t, const stk__table_kept *kept,
                                   const stk__table_piece *sheet, const void *data, void *out,
                                   void *worker, const stk__table_piece **failed,
                                   const char **reason);
/* What the format keeps for a thread, of what stk__table_worker_open() made; NULL: of none. */
void *stk__table_worker_own(void *worker);

/* ---- table.c ---- */

/* The file that has a row. */
stk__table_kept *stk__table_file_of(const stk__table *t, uint64_t row, size_t *number);
/* What becomes of a cell of which `nulls` says `null`, with a value of `size` bytes: true, it is
 * taken; else, *status STK_OK, nothing stands in its place, or the sample is bad. */
bool stk__table_takes(const stk__table *t, const stk__table_read *read, uint8_t null, uint64_t size,
                      stk_status *status, const char **reason);

/* ---- load.c ---- */

/* Decode a piece as the format does, and look at what it made. `out` has room for piece->decoded.
 */
stk_status stk__table_decode_piece(const stk__table *t, const stk__table_kept *kept,
                                   const stk__table_piece *piece, const void *data, void *out,
                                   void *worker, const char **reason);
/* A piece, decoded in new memory, for opening. Blocks. */
stk_status stk__table_load(const stk__table *t, const stk__table_kept *kept, uint32_t piece,
                           void **out, stk_error *err);

/* ---- place.c ---- */

/* "row group 3, column 'x', page 2". */
void stk__table_piece_text(const stk__table *t, const stk__table_kept *kept,
                           const stk__table_piece *piece, char *text, size_t size);
/* The same in front of why it cannot be decoded; it lives as long as the table. Any thread. */
const char *stk__table_said(stk__table *t, const stk__table_kept *kept,
                            const stk__table_piece *piece, const char *why);

/* ---- Values of vectors ---- */

/* Where the values of one column are; rows are those of the piece. */
typedef struct stk__table_cells {
    const char *base; /* the decoded bytes */
    const stk__table_vector *vector;
    const char *dictionary; /* decoded; NULL: there is none */
} stk__table_cells;

/* 0: the row has a value, *data of *size bytes, and so it is with HOLES; else what `nulls` says of
 * it, and 255 where a code is no row of the dictionary. */
uint8_t stk__table_cell(const stk__table_cells *cells, const stk__table_column *column,
                        uint64_t row, const void **data, uint64_t *size);
/* Whether *data of its cells are codes, one for each value of a list, and *size that of the values.
 */
static inline bool stk__table_is_coded_list(const stk__table_cells *cells,
                                            const stk__table_column *column)
{
    return column->kind == STK__COLUMN_LIST && cells->vector->codes;
}
/* Such codes -> values of `size` bytes. False: one is beyond the dictionary. */
bool stk__table_look_up(const stk__table_cells *cells, const stk__table_column *column,
                        const void *codes, uint64_t size, void *out);

#endif
