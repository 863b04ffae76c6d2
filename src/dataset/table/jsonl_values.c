/* SPDX-License-Identifier: Apache-2.0 */
/* A run of lines -> a vector for each column. */
#include "base/bytes.h"
#include "dataset/table/csv.h"
#include "dataset/table/jsonl.h"

typedef struct decoding {
    const stk__table_column *columns;
    const stk__table_piece *piece;
    char *out;
    stk__table_vector *vectors;
    uint64_t row;
    uint32_t *lines;
    uint32_t next; /* the column that is expected */
    bool copy;     /* of what varies in length: it is copied, else only measured */
} decoding;

/* ---- Room ------------------------------------------------------------------------------------ */

static bool varies(const stk__table_column *c)
{
    return c->kind == STK__COLUMN_BYTES || c->kind == STK__COLUMN_LIST;
}

static uint64_t room_of(const stk__table_column *c, uint64_t rows)
{
    const uint64_t values =
        varies(c) ? (rows + 1) * sizeof(uint32_t) : rows * stk_dtype_size(c->dtype);

    return stk__round_up(rows, 8) + stk__round_up(values, 8);
}

/* `rows` and `bytes` are those of a piece: far below 2^32. */
uint64_t stk__jsonl_decoded(const stk__table_column *columns, const bool *wanted, uint32_t n,
                            uint64_t rows, uint64_t bytes)
{
    uint64_t decoded = (uint64_t)n * sizeof(stk__table_vector) + stk__round_up(bytes, 8) +
                       stk__csv_lines_room(rows);
    bool lists = false;

    for (uint32_t i = 0; i < n; i++) {
        if (!wanted[i])
            continue;
        decoded += room_of(&columns[i], rows) + 8; /* what varies begins at a multiple of 8 */
        lists = lists || columns[i].kind == STK__COLUMN_LIST;
    }
    /* A number in a list takes two bytes at least: a digit, and what is behind it. */
    return decoded + (lists ? (bytes / 2 + 1) * sizeof(uint64_t) : 0);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool read_number(const stk__json_member *m, stk_dtype dtype, void *to)
{
    const stk__csv_cell cell = {.text = m->text, .length = m->length};
    double real = 0;

    if (dtype == STK_BOOL) {
        const uint8_t truth = m->kind == STK__JSON_TRUE;
        memcpy(to, &truth, sizeof truth);
        return truth || m->kind == STK__JSON_FALSE;
    }
    if (m->kind != STK__JSON_NUMBER)
        return false;
    if (!stk__dtype_is_float(dtype))
        return stk__csv_integer(&cell, dtype, to);
    if (!stk__csv_real(&cell, &real))
        return false;
    const float single = dtype == STK_FLOAT32 ? (float)real : 0;
    memcpy(to, dtype == STK_FLOAT32 ? (const void *)&single : &real, stk_dtype_size(dtype));
    return true;
}

static uint8_t take_number(const decoding *d, uint32_t c, const stk__json_member *m)
{
    const stk_dtype dtype = d->columns[c].dtype;
    const size_t size = stk_dtype_size(dtype);
    char *to = d->out + d->vectors[c].values + d->row * size;

    if (m->kind != STK__JSON_NULL && read_number(m, dtype, to))
        return 0;
    memset(to, 0, size);
    return m->kind == STK__JSON_NULL    ? 1
           : dtype == STK_BOOL          ? STK__JSONL_NO_BOOL
           : stk__dtype_is_float(dtype) ? STK__JSONL_NO_REAL
                                        : STK__JSONL_NO_INTEGER;
}

/* Bytes of a text without its escapes, to `to` where that is not NULL; UINT32_MAX: it is none. */
static uint32_t plain_text(const stk__json_member *m, bool text, char *to)
{
    const char *at = m->text, *end = m->text + m->length;
    uint32_t length = 0;
    char bytes[4];

    if (text && !stk__utf8_valid(m->text, m->length))
        return UINT32_MAX;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        const size_t run = (size_t)((escape ? escape : end) - at);
        if (to)
            memcpy(to + length, at, run);
        length += (uint32_t)run;
        at += run;
        if (!escape)
            break;
        at++;
        const bool zero = (size_t)(end - at) >= 5 && memcmp(at, "u0000", 5) == 0;
        const uint32_t character = stk__json_unescape(&at, end);
        if (!character && !zero)
            return UINT32_MAX;
        const size_t n = stk__utf8_put(character, bytes);
        if (to)
            memcpy(to + length, bytes, n);
        length += (uint32_t)n;
    }
    return length;
}

/* Numbers of a list, to `to` where that is not NULL; UINT32_MAX: it is none of the type. */
static uint32_t plain_list(const stk__json_member *m, stk_dtype dtype, char *to)
{
    stk__json_cursor c = {m->text + 1, m->text + m->length, false};
    const size_t size = stk_dtype_size(dtype);
    stk__json_member element = {0};
    uint64_t value[1];
    uint32_t n = 0;
    bool closed = false;

    for (;; n++) {
        if (!stk__json_next(&c, false, n == 0, &element, &closed))
            return UINT32_MAX;
        if (closed)
            return n;
        if (!read_number(&element, dtype, value))
            return UINT32_MAX;
        if (to)
            memcpy(to + (size_t)n * size, value, size);
    }
}

/* Of a key that a line has twice the last counts, whose length is known when it is copied: what is
 * as long may be copied in vain, and nothing else is. */
static uint8_t take_varying(const decoding *d, uint32_t c, const stk__json_member *m)
{
    const stk__table_column *column = &d->columns[c];
    const bool list = column->kind == STK__COLUMN_LIST;
    uint32_t *offsets = (uint32_t *)(void *)(d->out + d->vectors[c].offsets) + d->row;
    const bool fits = m->kind == (list ? STK__JSON_ARRAY : STK__JSON_STRING);
    const uint32_t length = !fits  ? UINT32_MAX
                            : list ? plain_list(m, column->dtype, NULL)
                                   : plain_text(m, column->text, NULL);

    if (!d->copy) {
        offsets[1] = offsets[0] + (length == UINT32_MAX ? 0 : length);
    } else if (length != UINT32_MAX && length == offsets[1] - offsets[0]) {
        char *to = d->out + d->vectors[c].values;
        if (list)
            plain_list(m, column->dtype, to + offsets[0] * stk_dtype_size(column->dtype));
        else
            plain_text(m, column->text, to + offsets[0]);
    }
    return length != UINT32_MAX        ? 0
           : m->kind == STK__JSON_NULL ? 1
           : list                      ? STK__JSONL_NO_LIST
           : fits                      ? STK__JSONL_NO_UTF8
                                       : STK__JSONL_NO_TEXT;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static stk_status take_member(void *user, const char *name, size_t length,
                              const stk__json_member *m)
{
    decoding *d = user;
    const uint32_t n = d->piece->columns;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t c = (d->next + i) % n;
        const stk__table_column *column = &d->columns[c];
        if (strlen(column->name) != length || memcmp(column->name, name, length) != 0)
            continue;
        d->next = c + 1;
        if (column->kind == STK__COLUMN_REFUSED)
            return STK_OK;
        uint8_t *null = (uint8_t *)d->out + d->vectors[c].nulls + d->row;
        if (varies(column))
            *null = take_varying(d, c, m);
        else if (!d->copy)
            *null = take_number(d, c, m);
        return STK_OK;
    }
    return STK_OK;
}

/* What a line does not have is null. */
static void begin_row(const decoding *d)
{
    for (uint32_t c = 0; !d->copy && c < d->piece->columns; c++) {
        const stk__table_column *column = &d->columns[c];
        if (column->kind == STK__COLUMN_REFUSED)
            continue;
        d->out[d->vectors[c].nulls + d->row] = 1;
        uint32_t *offsets = (uint32_t *)(void *)(d->out + d->vectors[c].offsets);
        if (varies(column))
            offsets[d->row + 1] = offsets[d->row];
    }
}

static bool take_lines(decoding *d, const char *at)
{
    const char *end = at + d->piece->length, *next;
    uint64_t line = d->piece->own[0];

    d->row = 0;
    for (; at < end; at = next, line++) {
        const char *stop = stk__jsonl_line(at, end, &next);
        if (stk__jsonl_is_blank(at, stop))
            continue;
        if (d->row == d->piece->rows)
            return false;
        begin_row(d);
        d->lines[d->row] = (uint32_t)STK_MIN(line, UINT32_MAX);
        d->next = 0;
        if (stk__jsonl_walk(at, stop, take_member, d) != STK_OK)
            return false;
        d->row++;
    }
    return d->row == d->piece->rows;
}

/* Where each vector lies, but for what varies in length. */
static uint64_t lay_out(decoding *d)
{
    const stk__table_piece *p = d->piece;
    uint64_t at = (uint64_t)p->columns * sizeof(stk__table_vector);

    memset(d->out, 0, at);
    for (uint32_t c = 0; c < p->columns; c++) {
        const stk__table_column *column = &d->columns[c];
        stk__table_vector *v = &d->vectors[c];
        if (column->kind == STK__COLUMN_REFUSED)
            continue;
        v->rows = p->rows;
        v->nulls = at;
        *(varies(column) ? &v->offsets : &v->values) = at + stk__round_up(p->rows, 8);
        const uint64_t room = room_of(column, p->rows);
        memset(d->out + at, 0, room);
        at += room;
    }
    d->lines = stk__csv_lines(d->out, d->columns, p->columns, at);
    return at + stk__csv_lines_room(p->rows);
}

stk_status stk__jsonl_decode(const stk__table *table, const stk__table_column *column,
                             const stk__table_piece *piece, const void *data, void *out,
                             void *worker, const char **reason)
{
    decoding d = {.columns = column, .piece = piece, .out = out, .vectors = out};
    bool good, any = false;

    (void)table, (void)worker;
    uint64_t at = lay_out(&d);
    good = take_lines(&d, data);
    for (uint32_t c = 0; good && c < piece->columns; c++) {
        if (!varies(&column[c]))
            continue;
        any = true;
        d.vectors[c].values = at;
        const uint32_t *offsets = (const uint32_t *)(const void *)(d.out + d.vectors[c].offsets);
        at += stk__round_up((uint64_t)offsets[piece->rows] * stk_dtype_size(column[c].dtype), 8);
        good = at <= piece->decoded;
    }
    d.copy = true;
    if (good && any)
        good = take_lines(&d, data);
    if (good)
        return STK_OK;
    *reason = "the lines are not those that were there when the dataset was opened";
    return STK_EFORMAT;
}
