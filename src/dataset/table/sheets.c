/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sheets: numbers of neighbouring columns, decoded to rows. A row of a block that is mixed lies
 * somewhere in it, so that each of its values is waited for: those of a sheet lie side by side and
 * come at once. The pieces of the columns stay what they are; a sheet reads and decodes them
 * together and brings their values to rows, some rows at a time, which the processor's cache holds.
 * It is a piece itself, the `whole` of its parts, whose columns are slots, from own[0] on.
 */
#include "dataset/table/pieces.h"

#define LEAST_ROWS 16u                   /* fewer are in the cache as they are */
#define MOST_VALUE 16u                   /* bytes of a row's values of a column */
#define MOST_BYTES (UINT64_C(256) << 20) /* of a sheet, as it is stored and decoded */
#define MOST_PART  (UINT64_C(16) << 20)  /* of a column, decoded */
#define SCRATCH    (UINT64_C(4) << 20)   /* of columns that are decoded before they are rows */
#define TILE       (16u << 10)           /* bytes of rows that are written at a time */
#define MOST_GAP   8u                    /* one part in so many is of no column of the sheet */

/* What a thread keeps. */
typedef struct table_worker {
    void *own; /* the format's */
    uint8_t *scratch;
} table_worker;

/* ---- Which there are ------------------------------------------------------------------------- */

/* Of a row, in a piece of one column. */
static uint64_t value_bytes(const stk__table_kept *k, const stk__table_piece *p)
{
    const stk__table_column *c = &k->layout->columns[p->column];

    return c->width * stk_dtype_size(c->dtype);
}

/* The piece of a slot from a row on, where blocks are read as a whole. */
static const stk__table_piece *part_at(const stk__table_kept *k, uint32_t slot, uint64_t row)
{
    return stk__table_piece_for(k, k->layout->chain_at[slot], row, STK__TABLE_BLOCKS);
}

static bool has_numbers(const stk__table_kept *k, const stk__table_piece *p)
{
    return p->columns == 1 && k->layout->columns[p->column].kind == STK__COLUMN_VALUES &&
           value_bytes(k, p) <= MOST_VALUE;
}

static bool may_join(const stk__table_kept *k, const stk__table_piece *p)
{
    return has_numbers(k, p) && p->dictionary == STK__TABLE_NO_PIECE && p->rows >= LEAST_ROWS &&
           p->decoded <= MOST_PART;
}

/* Bytes of the vectors of so many columns, and of what their nulls take. */
static uint64_t head_bytes(uint32_t slots, uint64_t rows)
{
    return stk__round_up(slots * (sizeof(stk__table_vector) + stk__round_up(rows, 8)),
                         STK_CACHE_LINE);
}

/* Bytes from a row of so many to the next: a row that is nearly a cache line, or some, begins one,
 * as each that it lies in is waited for. */
static uint64_t apart_of(uint64_t row)
{
    const uint64_t lines = stk__round_up(row, STK_CACHE_LINE);

    row = stk__round_up(row, 8);
    return lines - row <= row / 3 ? lines : row;
}

/* The slots from `first` on whose pieces at `row` are of the same rows and neighbours in the file.
 */
static void measure(const stk__table_kept *k, uint32_t first, uint64_t row, stk__table_piece *sheet)
{
    const stk__table_layout *l = k->layout;
    uint64_t stored = 0, value = 0, end = 0;
    uint32_t slots = 0;

    *sheet = (stk__table_piece){.first_row = row,
                                .dictionary = STK__TABLE_NO_PIECE,
                                .whole = STK__TABLE_NO_PIECE,
                                .kind = STK__PIECE_SHEET};
    for (uint32_t s = first; s < l->num_slots; s++) {
        const stk__table_piece *p = part_at(k, s, row);
        if (!may_join(k, p) || p->first_row != row || (slots && p->rows != sheet->rows))
            break;
        const uint64_t from = slots ? STK_MIN(sheet->offset, p->offset) : p->offset,
                       to = STK_MAX(end, p->offset + p->length), bytes = stored + p->length,
                       row_bytes = apart_of(value + value_bytes(k, p)),
                       decoded = head_bytes(slots + 1, p->rows) + p->rows * row_bytes;
        if (to - from > MOST_BYTES || decoded > MOST_BYTES ||
            (to - from > bytes && (to - from - bytes) > bytes / MOST_GAP))
            break;
        sheet->offset = from;
        sheet->length = to - from;
        sheet->rows = p->rows;
        sheet->decoded = decoded;
        sheet->column = slots ? sheet->column : p->column;
        value += value_bytes(k, p);
        stored = bytes;
        end = to;
        slots++;
    }
    sheet->columns = slots;
    sheet->own[0] = first;
}

static stk_status add_sheet(stk__table *t, stk__table_kept *k, const stk__table_piece *sheet,
                            stk_error *err)
{
    uint64_t scratch = 0, largest = 0;

    if (k->num_pieces >= UINT32_MAX / 2)
        return STK_OK;
    stk__table_piece *pieces = stk__grow(t->base.context, k->pieces, &k->pieces_room,
                                         (uint64_t)k->num_pieces + 1, sizeof *pieces);
    if (!pieces)
        return stk__table_no_memory(t, err);
    k->pieces = pieces;
    for (uint32_t i = 0; i < sheet->columns; i++) {
        const stk__table_piece *p = part_at(k, (uint32_t)sheet->own[0] + i, sheet->first_row);
        k->pieces[p - k->pieces].whole = (uint32_t)k->num_pieces;
        scratch += stk__round_up(p->decoded, STK_CACHE_LINE);
        largest = STK_MAX(largest, p->decoded);
    }
    t->scratch = STK_MAX(
        t->scratch, STK_MAX(STK_MIN(scratch, SCRATCH), stk__round_up(largest, STK_CACHE_LINE)));
    k->pieces[k->num_pieces++] = *sheet;
    k->num_sheets++;
    return STK_OK;
}

/* The sheets that begin at a row; *rows: how many there are to the next row that some may. */
static stk_status add_sheets(stk__table *t, stk__table_kept *k, uint64_t row, uint64_t *rows,
                             stk_error *err)
{
    const uint32_t slots = k->layout->num_slots;

    *rows = k->rows - row;
    for (uint32_t s = 0, next; s < slots; s = next) {
        const stk__table_piece *p = part_at(k, s, row);
        stk__table_piece sheet;
        next = s + 1;
        if (!has_numbers(k, p))
            continue;
        *rows = STK_MIN(*rows, p->first_row + p->rows - row);
        measure(k, s, row, &sheet);
        if (sheet.columns > 1) {
            STK_TRY(add_sheet(t, k, &sheet, err));
            next = s + sheet.columns;
        }
    }
    return STK_OK;
}

stk_status stk__table_make_sheets(stk__table *t, stk_error *err)
{
    for (size_t i = 0; t->format->worker_open && i < t->num_files; i++) {
        stk__table_kept *k = &t->files[i];
        uint64_t rows;
        for (uint64_t row = 0; row < k->rows && k->layout->num_slots > 1; row += rows)
            STK_TRY(add_sheets(t, k, row, &rows, err));
        if (k->num_sheets)
            STK_TRY(stk__table_sort_pieces(t, k, err));
        t->has_sheets |= k->num_sheets != 0;
    }
    return STK_OK;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* Values one behind the other -> `apart` bytes from each other. */
#define SPREAD(bits)                                                                               \
    for (uint64_t i = 0; i < rows; i++)                                                            \
        memcpy(out + i * apart, in + i * ((bits) / 8), (bits) / 8);                                \
    break;

static void spread(const uint8_t *in, uint64_t size, uint8_t *out, uint64_t apart, uint64_t rows)
{
    switch (size) {
    case 1:
        SPREAD(8)
    case 2:
        SPREAD(16)
    case 4:
        SPREAD(32)
    case 8:
        SPREAD(64)
    default:
        for (uint64_t i = 0; i < rows; i++)
            memcpy(out + i * apart, in + i * size, size);
    }
}

/* A sheet that is made. */
typedef struct sheet_sink {
    const stk__table *t;
    const stk__table_kept *k;
    const stk__table_piece *sheet;
    const uint8_t *data;
    uint8_t *out;
    stk__table_vector *vectors;
    uint64_t apart;
} sheet_sink;

static const stk__table_piece *part_of(const sheet_sink *s, uint32_t i)
{
    return part_at(s->k, (uint32_t)s->sheet->own[0] + i, s->sheet->first_row);
}

/* Where everything is in the decoded bytes. */
static void lay_out(sheet_sink *s)
{
    const uint32_t slots = s->sheet->columns;
    uint64_t at = head_bytes(slots, s->sheet->rows);

    for (uint32_t i = 0; i < slots; i++) {
        s->vectors[i] = (stk__table_vector){.rows = s->sheet->rows, .values = at};
        at += value_bytes(s->k, part_of(s, i));
    }
    s->apart = apart_of(at - s->vectors[0].values);
    for (uint32_t i = 0; i < slots; i++)
        s->vectors[i].apart = s->apart;
    s->vectors->piece = (uint32_t)(s->sheet - s->k->pieces) & INT32_MAX;
}

/* Columns [first, end), which are decoded one behind the other, become rows. */
static void make_rows(const sheet_sink *s, uint32_t first, uint32_t end, const uint8_t *scratch)
{
    const uint64_t rows = s->sheet->rows, tile = STK_MAX(TILE / s->apart, 1);

    for (uint64_t row = 0; row < rows; row += tile) {
        const uint8_t *in = scratch;
        for (uint32_t i = first; i < end; i++) {
            const stk__table_piece *p = part_of(s, i);
            const stk__table_vector *v = (const void *)in;
            const uint64_t size = value_bytes(s->k, p);
            spread(in + v->values + row * size, size,
                   s->out + s->vectors[i].values + row * s->apart, s->apart,
                   STK_MIN(tile, rows - row));
            if (v->nulls && !row) {
                s->vectors[i].nulls = s->sheet->columns * sizeof *v + i * stk__round_up(rows, 8);
                memcpy(s->out + s->vectors[i].nulls, in + v->nulls, rows);
            }
            in += stk__round_up(p->decoded, STK_CACHE_LINE);
        }
    }
}

/* Some columns at a time, as many as the scratch holds. */
static stk_status decode_sheet(sheet_sink *s, uint8_t *scratch, void *worker,
                               const stk__table_piece **failed, const char **reason)
{
    const uint32_t slots = s->sheet->columns;

    lay_out(s);
    for (uint32_t first = 0, end; first < slots; first = end) {
        uint64_t used = 0;
        for (end = first; end < slots; end++) {
            const stk__table_piece *p = part_of(s, end);
            const uint64_t room = stk__round_up(p->decoded, STK_CACHE_LINE);
            if (used + room > s->t->scratch)
                break;
            *failed = p;
            STK_TRY(stk__table_decode_piece(s->t, s->k, p, s->data + (p->offset - s->sheet->offset),
                                            scratch + used, worker, reason));
            used += room;
        }
        make_rows(s, first, end, scratch);
    }
    return STK_OK;
}

stk_status stk__table_decode_sheet(const stk__table *t, const stk__table_kept *k,
                                   const stk__table_piece *sheet, const void *data, void *out,
                                   void *worker, const stk__table_piece **failed,
                                   const char **reason)
{
    table_worker *w = worker;
    sheet_sink s = {.t = t, .k = k, .sheet = sheet, .data = data, .out = out, .vectors = out};

    *failed = sheet;
    uint8_t *scratch =
        w && w->scratch ? w->scratch : stk__alloc_buffer(t->base.context, t->scratch);
    if (!scratch) {
        *reason = "no memory to decode it; use fewer workers";
        return STK_ENOMEM;
    }
    const stk_status status = decode_sheet(&s, scratch, w ? w->own : NULL, failed, reason);
    if (w)
        w->scratch = scratch;
    else
        stk__free(t->base.context, scratch);
    return status;
}

/* ---- Threads --------------------------------------------------------------------------------- */

stk_status stk__table_worker_open(stk_dataset *dataset, void **worker)
{
    const stk__table *t = (const stk__table *)dataset;

    *worker = NULL;
    table_worker *w = stk__calloc(t->base.context, 1, sizeof *w);
    if (!w)
        return STK_ENOMEM;
    const stk_status status = t->format->worker_open(t, &w->own);
    if (status == STK_OK)
        *worker = w;
    else
        stk__free(t->base.context, w);
    return status;
}

void stk__table_worker_close(stk_dataset *dataset, void *worker)
{
    const stk__table *t = (const stk__table *)dataset;
    table_worker *w = worker;

    t->format->worker_close(t, w->own);
    stk__free(t->base.context, w->scratch);
    stk__free(t->base.context, w);
}

void *stk__table_worker_own(void *worker)
{
    return worker ? ((table_worker *)worker)->own : NULL;
}
