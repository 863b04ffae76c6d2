/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of rows that lie in the same pieces, so that they need the same. Their values are brought to
 * the batch column by column: first as if none were null, then what is null or wrong, cell by cell.
 */
#include <stdlib.h>

#include "dataset/table/pieces.h"

#define AT_A_TIME 128 /* rows */

/* ---- Where pieces begin ---------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Places of the pieces of a slot. */
static uint32_t slot_begin(const stk__table_kept *k, uint32_t slot)
{
    return k->chains[k->layout->chain_at[slot]];
}

static uint32_t slot_end(const stk__table_kept *k, uint32_t slot)
{
    return k->chains[k->layout->chain_at[slot] + 1];
}

/* The whole that a piece is a part of, or the piece. */
static const stk__table_piece *whole_of(const stk__table_kept *k, const stk__table_piece *p)
{
    const bool part =
        p->whole != STK__TABLE_NO_PIECE && k->pieces[p->whole].kind == STK__PIECE_WHOLE;

    return part ? &k->pieces[p->whole] : p;
}

const stk__table_piece *stk__table_piece_for(const stk__table_kept *k, uint32_t chain, uint64_t row,
                                             stk__table_by by)
{
    const stk__table_piece *p = &k->pieces[stk__table_piece_at(k, chain, row)];

    if (by != STK__TABLE_PAGES)
        p = whole_of(k, p);
    return by == STK__TABLE_MIXED && p->whole != STK__TABLE_NO_PIECE ? &k->pieces[p->whole] : p;
}

static uint64_t *add_cuts(const stk__table_kept *k, bool blocks, uint64_t *to)
{
    uint64_t *const first = to;

    for (uint32_t s = 0; s < k->layout->num_slots; s++)
        for (uint32_t at = slot_begin(k, s); at < slot_end(k, s); at++) {
            const stk__table_piece *p = &k->pieces[k->places ? k->places[at] : at];
            if (blocks)
                p = whole_of(k, p);
            *to++ = k->first_row + p->first_row;
        }
    qsort(first, (size_t)(to - first), sizeof *first, by_number);
    return to;
}

static stk_status make_cuts(stk__table *t, bool blocks, stk__table_cuts *out, stk_error *err)
{
    uint64_t most = 0, kept = 0;

    for (size_t i = 0; i < t->num_files; i++) {
        const stk__table_kept *k = &t->files[i];
        for (uint32_t s = 0; k->rows && s < k->layout->num_slots; s++)
            most += slot_end(k, s) - slot_begin(k, s);
    }
    uint64_t *cuts = stk__calloc(t->base.context, most + 1, sizeof *cuts), *end = cuts;
    if (!cuts)
        return stk__table_no_memory(t, err);
    for (size_t i = 0; i < t->num_files; i++)
        if (t->files[i].rows)
            end = add_cuts(&t->files[i], blocks, end);
    for (uint64_t i = 0; i < (uint64_t)(end - cuts); i++)
        if (!kept || cuts[i] != cuts[kept - 1])
            cuts[kept++] = cuts[i];
    out->rows = stk__realloc(t->base.context, cuts, (kept + 1) * sizeof *cuts);
    if (!out->rows)
        out->rows = cuts;
    out->num = kept;
    return STK_OK;
}

stk_status stk__table_cut(stk__table *t, stk_error *err)
{
    size_t wholes = 0;

    STK_TRY(make_cuts(t, false, &t->cuts, err));
    for (size_t i = 0; i < t->num_files; i++)
        wholes += t->files[i].num_wholes;
    return wholes ? make_cuts(t, true, &t->block_cuts, err) : STK_OK;
}

size_t stk__table_run_of(const stk__table_cuts *cuts, uint64_t row)
{
    const uint64_t *base = cuts->rows;

    /* Without a branch that depends on the row: rows come in any order. */
    for (size_t n = cuts->num; n > 1;) {
        const size_t half = n / 2;
        base += base[half] <= row ? half : 0;
        n -= half;
    }
    return (size_t)(base - cuts->rows);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Rows of one run, and where they go. */
typedef struct run_rows {
    const stk__table *t;
    const stk_rows *to;
    uint32_t first, num;    /* of `to` */
    const uint32_t *places; /* of each; NULL: rows of file and batch are *straight*, one behind the
                               other, of the next two the first says where, and `num` may be any */
    uint64_t in_file[AT_A_TIME];
    uint32_t in_piece[AT_A_TIME];
    const stk__table_vector *vector; /* of the last column of a slot: it has the lines */
} run_rows;

/* A column of it, and where its values lie. */
typedef struct column {
    run_rows *run;
    const stk__table_read *read;
    stk__table_cells cells;
    const uint8_t *values;  /* of the piece, or of its dictionary */
    const uint32_t *codes;  /* NULL: values are the piece's */
    const uint32_t *places; /* rows of the output; NULL: as of the run */
    uint32_t num_codes;     /* of the dictionary */
    uint64_t apart;         /* bytes from a value to that of the next row */
    uint8_t *out;
    uint64_t stride;
} column;

/* The row of the output that row `i` of the run goes to. */
static uint64_t place_of(const run_rows *run, uint32_t i)
{
    return run->places ? run->places[i] : (uint64_t)run->to->place + run->first + i;
}

static uint32_t row_in_piece(const run_rows *run, uint32_t i)
{
    return run->places ? run->in_piece[i] : run->in_piece[0] + i;
}

static uint8_t *place_in(const run_rows *run, int field, uint32_t i)
{
    const stk_rows_field *f = &run->to->fields[field];

    return (uint8_t *)f->out + place_of(run, i) * f->stride;
}

static void put_cell(const column *c, uint32_t i)
{
    const stk__table *t = c->run->t;
    const stk__table_read *r = c->read;
    const uint32_t row = c->run->first + i;
    const stk_rows *to = c->run->to;
    uint8_t *out = place_in(c->run, r->field, i);
    const void *data;
    uint64_t size;

    if (to->statuses[row] != STK_OK)
        return;
    const uint8_t null =
        stk__table_cell(&c->cells, &r->column, row_in_piece(c->run, i), &data, &size);
    if (r->mask >= 0)
        *place_in(c->run, r->mask, i) = !null;
    if (!stk__table_takes(t, r, null, size, &to->statuses[row], &to->reasons[row])) {
        if (to->statuses[row] == STK_OK)
            memset(out, 0, r->bytes);
    } else if (stk__table_is_coded_list(&c->cells, &r->column)) {
        if (!stk__table_look_up(&c->cells, &r->column, data, size, out))
            to->statuses[row] = STK_EFORMAT;
    } else if (r->names) {
        uint32_t number;
        if (stk__names_find(r->names, data, size, &number)) {
            memcpy(out, &(int64_t){number}, sizeof(int64_t));
        } else {
            to->statuses[row] = STK_EFORMAT;
            to->reasons[row] = r->name_reason;
        }
    } else if (r->widen) {
        int64_t wide;
        r->widen(data, 1, &wide);
        memcpy(out, &wide, sizeof wide);
    } else {
        memcpy(out, data, size);
    }
}

/* Values lie far apart in memory: what a loop needs besides is in registers, so that the processor
 * waits for many of them at a time. False: some code is beyond the dictionary. */
#define TAKE(bits)                                                                                 \
    static bool take##bits(const column *c)                                                        \
    {                                                                                              \
        const uint8_t *const values = c->values;                                                   \
        const uint32_t *const rows = c->run->in_piece, *const places = c->places,                  \
                              *const codes = c->codes;                                             \
        const uint32_t num = c->run->num, num_codes = c->num_codes;                                \
        const uint64_t stride = c->stride, apart = c->apart;                                       \
        uint8_t *const out = c->out;                                                               \
        uint32_t beyond = 0;                                                                       \
                                                                                                   \
        for (uint32_t i = 0; !codes && i < num; i++)                                               \
            memcpy(out + places[i] * stride, values + rows[i] * apart, (bits) / 8);                \
        for (uint32_t i = 0; codes && i < num; i++) {                                              \
            const uint32_t code = codes[rows[i]];                                                  \
            beyond |= code >= num_codes;                                                           \
            memcpy(out + places[i] * stride, values + (code < num_codes ? code : 0) * apart,       \
                   (bits) / 8);                                                                    \
        }                                                                                          \
        return !beyond;                                                                            \
    }

TAKE(8)
TAKE(16)
TAKE(32)
TAKE(64)

/* Values of `size` bytes. False: none was taken, or not all can be. */
static bool take(const column *c, uint64_t size)
{
    if (!c->values)
        return false;
    switch (size) {
    case 1:
        return take8(c);
    case 2:
        return take16(c);
    case 4:
        return take32(c);
    case 8:
        return take64(c);
    default:
        return false;
    }
}

/* Labels are taken one behind the other, widened together, and go to their places. */
static bool take_labels(const column *c, uint64_t size)
{
    uint8_t taken[AT_A_TIME * 8];
    int64_t wide[AT_A_TIME];
    uint32_t straight[AT_A_TIME];
    column to = *c;

    for (uint32_t i = 0; i < c->run->num; i++)
        straight[i] = i;
    to.places = straight;
    to.out = taken;
    to.stride = size;
    if (!take(&to, size))
        return false;
    c->read->widen(taken, c->run->num, wide);
    for (uint32_t i = 0; i < c->run->num; i++)
        memcpy(c->out + c->places[i] * c->stride, &wide[i], sizeof wide[i]);
    return true;
}

/* Where the values are, if they are of one size. */
static void find_values(column *c)
{
    const stk__table_vector *v = c->cells.vector;
    const stk__table_vector *d = (const stk__table_vector *)(const void *)c->cells.dictionary;

    if (c->read->column.kind != STK__COLUMN_VALUES)
        return;
    c->apart = v->apart && !v->codes
                   ? v->apart
                   : c->read->column.width * stk_dtype_size(c->read->column.dtype);
    if (!v->codes) {
        c->values = (const uint8_t *)c->cells.base + v->values;
    } else if (d && !d->codes && d->rows) {
        c->values = (const uint8_t *)c->cells.dictionary + d->values;
        c->codes = (const uint32_t *)(const void *)(c->cells.base + v->values);
        c->num_codes = (uint32_t)d->rows;
    }
}

/* Of straight rows values that lie as the batch wants them. False: these do not. */
static bool take_straight(const column *c, uint64_t size)
{
    const uint64_t wide = c->read->widen ? sizeof(int64_t) : size;

    if (!c->values || c->codes || c->read->names || c->apart != size || c->stride != wide)
        return false;
    const uint8_t *values = c->values + c->run->in_piece[0] * size;
    uint8_t *out = c->out + place_of(c->run, 0) * wide;
    if (c->read->widen)
        c->read->widen(values, c->run->num, (int64_t *)(void *)out);
    else
        memcpy(out, values, c->run->num * size);
    return true;
}

/* Values of rows with places. */
static void take_placed(const column *c, uint64_t size)
{
    const stk__table_read *r = c->read;

    if (!r->names && (r->widen ? take_labels(c, size) : take(c, size)))
        return;
    for (uint32_t i = 0; i < c->run->num; i++)
        put_cell(c, i);
}

/* Straight rows, as many at a time as have room for their places. */
static void take_by_parts(const column *c, uint64_t size)
{
    const run_rows *run = c->run;
    uint32_t places[AT_A_TIME];
    run_rows part = {.t = run->t, .to = run->to, .places = places};
    column some = *c;

    some.run = &part;
    some.places = places;
    for (uint32_t at = 0; at < run->num; at += part.num) {
        part.first = run->first + at;
        part.num = STK_MIN(run->num - at, AT_A_TIME);
        for (uint32_t i = 0; i < part.num; i++) {
            part.in_piece[i] = row_in_piece(run, at + i);
            places[i] = (uint32_t)place_of(run, at + i);
        }
        take_placed(&some, size);
    }
}

static void take_column(column *c)
{
    const stk__table_read *r = c->read;
    const uint64_t size = r->column.width * stk_dtype_size(r->column.dtype);
    const stk__table_vector *v = c->cells.vector;
    const uint8_t *nulls = v->nulls ? (const uint8_t *)c->cells.base + v->nulls : NULL;
    const run_rows *run = c->run;

    find_values(c);
    for (uint32_t i = 0; r->mask >= 0 && i < run->num; i++)
        *place_in(run, r->mask, i) = 1;
    if (run->places)
        take_placed(c, size);
    else if (!take_straight(c, size))
        take_by_parts(c, size);
    for (uint32_t i = 0; nulls && i < run->num; i++)
        if (nulls[row_in_piece(run, i)])
            put_cell(c, i);
}

/* The value of the names of folders is that of all rows of a file. */
static void take_key(const run_rows *run, const stk__table_key *key, size_t file)
{
    const stk_rows *to = run->to;
    uint64_t size;
    const char *reason = NULL;
    stk_status status;
    const void *data = stk__table_key_cell(run->t, key, file, &size, &status, &reason);

    for (uint32_t i = 0; i < run->num; i++) {
        uint8_t *out = place_in(run, key->field, i);
        if (to->statuses[run->first + i] != STK_OK)
            continue;
        if (key->mask >= 0)
            *place_in(run, key->mask, i) = data != NULL;
        if (data) {
            memcpy(out, data, size);
        } else if (status != STK_OK) {
            to->statuses[run->first + i] = status;
            to->reasons[run->first + i] = reason;
        } else {
            memset(out, 0, sizeof(int64_t));
        }
    }
}

/* Slot by slot, as locate() added their needs; then the columns of each. */
static void take_run(run_rows *run, const stk__table_kept *k)
{
    const stk__table *t = run->t;
    const stk__table_layout *l = k->layout;
    uint32_t need = 0, next = 0;

    for (uint32_t slot = 0; slot < l->num_slots;) {
        const stk__table_held held = stk__table_held_in(k, slot, &run->to->needs[need]);
        const stk__table_cells cells = {.base = held.base, .dictionary = held.dictionary};
        for (uint32_t i = 0; i < (run->places ? run->num : 1); i++)
            run->in_piece[i] = (uint32_t)(run->in_file[i] - held.piece->first_row);
        for (; next < t->num_reads && l->slot_of[l->by_slot[next]] - slot < held.slots; next++) {
            const uint32_t number = l->by_slot[next];
            const stk_rows_field *field = &run->to->fields[t->reads[number].field];
            column c = {.run = run,
                        .read = &t->reads[number],
                        .cells = cells,
                        .places = run->places,
                        .out = field->out,
                        .stride = field->stride};
            c.cells.vector = stk__table_held_vector(l, &held, number);
            run->vector = c.cells.vector;
            take_column(&c);
        }
        const stk__table_vector *v = run->vector;
        for (uint32_t i = 0; v && v->lines && !slot && i < run->num; i++)
            run->to->lines[run->first + i] =
                ((const uint32_t *)(const void *)(cells.base + v->lines))[row_in_piece(run, i)];
        run->vector = NULL;
        need += held.needs;
        slot += held.slots;
    }
    for (uint32_t c = 0; c < t->num_keys; c++)
        if (t->keys[c].field >= 0)
            take_key(run, &t->keys[c], (size_t)(k - t->files));
}

void stk__table_prepare_rows(stk_dataset *dataset, stk_rows *rows)
{
    const stk__table *t = (const stk__table *)dataset;
    run_rows run = {.t = t, .to = rows};
    size_t number;

    if (!rows->num)
        return;
    const uint64_t row = t->rows ? t->rows[rows->indices[0]] : rows->indices[0];
    const stk__table_kept *k = stk__table_file_of(t, row, &number);
    for (; run.first < rows->num; run.first += run.num) {
        run.places = rows->places ? rows->places + run.first : NULL;
        run.num = rows->places ? STK_MIN(rows->num - run.first, AT_A_TIME) : rows->num;
        for (uint32_t i = 0; i < (run.places ? run.num : 1); i++) {
            const uint64_t index = rows->indices[run.first + i];
            run.in_file[i] = (t->rows ? t->rows[index] : index) - k->first_row;
        }
        take_run(&run, k);
    }
}
