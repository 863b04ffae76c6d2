/* SPDX-License-Identifier: Apache-2.0 */
/* One file: its delimiter, its header, the types of its columns, and where its lines lie. */
#include <stdio.h>

#include "base/bytes.h"
#include "base/text.h"
#include "dataset/table/csv.h"
#include "dataset/table/csv_marks.h"
#include "dataset/table/listed.h"
#include "dataset/table/text_window.h"

#define PIECE_BYTES (UINT64_C(64) << 10)
#define SNIFFED     100u /* lines that tell the delimiter */
#define MOST_NAME   1024u

/* What a column may still be. */
typedef struct learnt {
    bool seen, integer, real, boolean;
} learnt;

typedef struct scan {
    stk__table_file *file;
    const stk__csv_options *options;
    stk_context *ctx;
    stk_error *err;
    stk__text_window w;
    uint64_t head; /* where lines of values begin */
    char delimiter;
    stk__csv_marks_fn *marks;
    bool headed;
    stk__table_column *columns;
    bool *wanted;
    uint32_t num_columns;
    stk__text names;
    size_t *name_at;
    uint64_t line, rows; /* of the file, so far */
    stk__table_piece piece;
} scan;

/* An error of a line: `line` counts from 0, column from 0. */
static stk_status wrong(const scan *s, uint64_t offset, uint64_t line, uint32_t column,
                        const char *what)
{
    return stk__table_file_fail(s->file, STK_EFORMAT, offset, s->err, "line %llu, column %u: %s",
                                (unsigned long long)line + 1, column + 1, what);
}

static const char *what_is(stk__csv_end end)
{
    return end == STK__CSV_OPEN     ? "a quote is not closed"
           : end == STK__CSV_BEHIND ? "text follows a closing quote; write a quote within quotes "
                                      "twice"
                                    : "a carriage return without a line feed; convert the line "
                                      "ends, as dos2unix and mac2unix do";
}

/* ---- The first bytes ------------------------------------------------------------------------- */

stk_status stk__csv_check_text(const stk__table_file *file, const char *window, uint64_t length,
                               uint64_t *head, stk_error *err)
{
    const unsigned char *w = (const unsigned char *)window;

    if (length > 1 && w[0] == 0x1f && w[1] == 0x8b)
        return stk__table_file_fail(file, STK_EKIND, 0, err,
                                    "it is compressed by gzip, which cannot be read from the "
                                    "middle; unpack it, as gzip -d does");
    if (length > 1 && ((w[0] == 0xff && w[1] == 0xfe) || (w[0] == 0xfe && w[1] == 0xff)))
        return stk__table_file_fail(file, STK_EKIND, 0, err,
                                    "it is text in UTF-16; convert it, as iconv -f UTF-16 -t UTF-8 "
                                    "does");
    const char *zero = memchr(window, 0, length);
    if (zero)
        return stk__table_file_fail(file, STK_EFORMAT, (uint64_t)(zero - window), err,
                                    "a byte of zero: it is no text");
    if (length > 2 && memcmp(w, "\xef\xbb\xbf", 3) == 0)
        *head = 3;
    return STK_OK;
}

/* Cells of the next line; 0: there is no whole one. Cells may be NULL. */
static uint32_t count_cells(const char **at, const char *end, char delimiter)
{
    stk__csv_cell cell;
    uint32_t n = 0;

    stk__csv_skip_empty(at, end);
    if (*at == end)
        return 0;
    for (;;) {
        const stk__csv_end e = stk__csv_next(at, end, delimiter, &cell);
        n++;
        if (e == STK__CSV_LINE)
            return n;
        if (e != STK__CSV_CELL || n > STK__TABLE_MAX_COLUMNS)
            return 0;
    }
}

static char sniff(const scan *s)
{
    static const char candidates[] = ",;\t|";
    const bool whole = s->w.length == stk__table_file_size(s->file);
    uint32_t most = 1;
    char best = ',';

    for (const char *c = candidates; *c; c++) {
        const char *at = s->w.bytes + s->head, *end = s->w.bytes + s->w.length;
        uint32_t cells = count_cells(&at, end, *c);
        for (uint32_t i = 1; i < SNIFFED && cells && at < end; i++) {
            const uint32_t n = count_cells(&at, end, *c);
            if (n != cells && (whole || at < end) && at < end)
                cells = 0;
        }
        if (cells > most) {
            most = cells;
            best = *c;
        }
    }
    return best;
}

static stk_status choose_delimiter(scan *s)
{
    const char *d = s->options->delimiter;

    if (!d || strcmp(d, "auto") == 0)
        s->delimiter = sniff(s);
    else if (strcmp(d, "tab") == 0 || strcmp(d, "\\t") == 0)
        s->delimiter = '\t';
    else if (strlen(d) == 1 && *d != '"' && *d != '\n' && *d != '\r')
        s->delimiter = *d;
    else
        return stk__fail_at(s->err, STK_EINVAL, STK_STAGE_OPTIONS, "delimiter", STK_NO_OFFSET,
                            "delimiter=%.20s is no single sign; give ',', ';', '|' or tab", d);
    return STK_OK;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_number(const stk__csv_cell *cell)
{
    double real;

    return stk__csv_real(cell, &real);
}

/* The cells of the first line: how many, and whether they look like names. None: the file has no
 * line. */
static stk_status first_line(scan *s, const char **behind, bool *names)
{
    const char *at = s->w.bytes + s->head, *end = s->w.bytes + s->w.length;
    stk__csv_end e = STK__CSV_CELL;
    stk__csv_cell cell;

    *names = true;
    s->line = stk__csv_skip_empty(&at, end);
    s->head = (uint64_t)(at - s->w.bytes);
    if (at == end && s->w.length == stk__table_file_size(s->file))
        return STK_OK;
    if (at == end)
        return stk__table_file_fail(s->file, STK_EFORMAT, 0, s->err,
                                    "it begins with empty lines alone; leave the file out");
    while (e == STK__CSV_CELL) {
        e = stk__csv_next(&at, end, s->delimiter, &cell);
        *names = *names && cell.length && !is_number(&cell);
        if (e > STK__CSV_LINE)
            return wrong(s, s->head, s->line, s->num_columns, what_is(e));
        if (s->num_columns++ == STK__TABLE_MAX_COLUMNS)
            return stk__table_file_fail(s->file, STK_ELIMIT, s->head, s->err,
                                        "the first line has more than %u cells",
                                        STK__TABLE_MAX_COLUMNS);
    }
    *behind = at;
    return STK_OK;
}

static void put_name(scan *s, const stk__csv_cell *cell)
{
    size_t length = STK_MIN(cell->length, MOST_NAME);

    if (length < cell->length) /* what is cut ends with a whole character */
        while (length && ((unsigned char)cell->text[length] & 0xc0) == 0x80)
            length--;
    for (size_t i = 0; i < length; i++) {
        stk__text_put(&s->names, cell->text + i, 1);
        i += cell->doubled && cell->text[i] == '"';
    }
}

static stk_status take_names(scan *s)
{
    const char *at = NULL;
    bool names = true;

    STK_TRY(first_line(s, &at, &names));
    if (!s->num_columns)
        return STK_OK;
    s->headed = s->options->header == STK__CSV_HEADER_TRUE ||
                (s->options->header == STK__CSV_HEADER_AUTO && names);
    s->columns = stk__calloc(s->ctx, s->num_columns, sizeof *s->columns);
    s->wanted = stk__calloc(s->ctx, s->num_columns, sizeof *s->wanted);
    s->name_at = stk__calloc(s->ctx, s->num_columns, sizeof *s->name_at);
    if (!s->columns || !s->wanted || !s->name_at)
        return stk__text_window_no_memory(&s->w);
    const char *cells = s->w.bytes + s->head;
    for (uint32_t i = 0; i < s->num_columns; i++) {
        stk__csv_cell cell = {0};
        s->name_at[i] = s->names.length;
        if (s->headed)
            stk__csv_next(&cells, s->w.bytes + s->w.length, s->delimiter, &cell);
        if (cell.length)
            put_name(s, &cell);
        else
            stk__text_add(&s->names, "c%u", i);
        stk__text_put(&s->names, "", 1);
    }
    if (s->names.failed)
        return stk__text_window_no_memory(&s->w);
    if (!s->headed)
        return STK_OK;
    for (const char *p = s->w.bytes + s->head; p < at; p++)
        s->line += *p == '\n';
    s->head = (uint64_t)(at - s->w.bytes);
    return STK_OK;
}

/* ---- Types ----------------------------------------------------------------------------------- */

static void look_at(learnt *l, const stk__csv_cell *cell)
{
    int64_t integer;
    double real;
    uint8_t truth;

    if (!cell->length)
        return;
    l->integer = l->integer && stk__csv_integer(cell, STK_INT64, &integer);
    l->real = l->real && stk__csv_real(cell, &real);
    l->boolean = l->boolean && stk__csv_bool(cell, &truth) && cell->length > 3;
    l->seen = true;
}

static stk_dtype dtype_of(const learnt *l)
{
    if (!l->seen)
        return STK_DTYPE_NONE;
    return l->integer ? STK_INT64 : l->real ? STK_FLOAT64 : l->boolean ? STK_BOOL : STK_DTYPE_NONE;
}

static void set_type(const scan *s, stk__table_column *c, stk_dtype dtype, bool text)
{
    const bool bytes = dtype == STK_DTYPE_NONE;

    c->kind = bytes ? STK__COLUMN_BYTES : STK__COLUMN_VALUES;
    c->dtype = bytes ? STK_UINT8 : dtype;
    c->width = 1;
    c->nullable = true;
    c->text = bytes && text && s->options->text == STK__CSV_TEXT_STRICT;
}

static stk_status learn(scan *s)
{
    const char *at = s->w.bytes + s->head, *end = s->w.bytes + s->w.length;
    stk__csv_cell cell;

    learnt *all = stk__calloc(s->ctx, s->num_columns, sizeof *all);
    if (!all)
        return stk__text_window_no_memory(&s->w);
    for (uint32_t i = 0; i < s->num_columns; i++)
        all[i] = (learnt){.integer = true, .real = true, .boolean = true};
    for (uint64_t line = 0; line < s->options->learn; line++) {
        const char *whole = at;
        if (count_cells(&whole, end, s->delimiter) != s->num_columns ||
            (whole == end && s->w.length < stk__table_file_size(s->file)))
            break;
        stk__csv_skip_empty(&at, end);
        for (uint32_t i = 0; i < s->num_columns; i++) {
            stk__csv_next(&at, end, s->delimiter, &cell);
            look_at(&all[i], &cell);
        }
    }
    for (uint32_t i = 0; i < s->num_columns; i++)
        set_type(s, &s->columns[i], dtype_of(&all[i]), true);
    stk__free(s->ctx, all);
    return STK_OK;
}

/* "age:float32,zip:text" */
static stk_status set_types(const scan *s)
{
    stk__table_typed typed;

    for (const char *at = s->options->types; at && *at;) {
        STK_TRY(stk__table_next_type(&at, false, &typed, s->err));
        uint32_t i = 0;
        while (i < s->num_columns && (strlen(s->columns[i].name) != typed.length ||
                                      memcmp(s->columns[i].name, typed.name, typed.length) != 0))
            i++;
        if (i == s->num_columns)
            return stk__fail_at(s->err, STK_EINVAL, STK_STAGE_OPTIONS, "types", STK_NO_OFFSET,
                                "types: %.200s has no column '%.*s'; its first is '%.60s'",
                                stk__table_file_key(s->file), (int)STK_MIN(typed.length, 100),
                                typed.name, s->columns[0].name);
        set_type(s, &s->columns[i], typed.dtype, typed.text);
    }
    return STK_OK;
}

static stk_status add_columns(scan *s)
{
    for (uint32_t i = 0; i < s->num_columns; i++)
        s->columns[i].name = s->names.bytes + s->name_at[i];
    STK_TRY(learn(s));
    STK_TRY(set_types(s));
    for (uint32_t i = 0; i < s->num_columns; i++) {
        stk__table_column known;
        if (stk__table_file_known(s->file, s->columns[i].name, &known)) {
            /* Of one that was not asked for the first file tells no type. */
            known.name = s->columns[i].name;
            s->columns[i] = known;
        }
        STK_TRY(stk__table_file_column(s->file, &s->columns[i], &s->wanted[i], s->err));
    }
    return STK_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static stk_status end_piece(scan *s, uint64_t end)
{
    stk__table_piece *p = &s->piece;
    uint32_t number;

    if (!p->rows)
        return STK_OK;
    p->length = end - p->offset;
    p->decoded = stk__csv_decoded(s->columns, s->wanted, s->num_columns, p->rows, p->length);
    p->longest = STK_MAX(p->longest, 1);
    STK_TRY(stk__table_file_piece(s->file, p, &number, s->err));
    s->rows += p->rows;
    return STK_OK;
}

static void begin_piece(scan *s, uint64_t offset)
{
    s->piece = (stk__table_piece){
        .offset = offset,
        .first_row = s->rows,
        .columns = s->num_columns,
        .dictionary = STK__TABLE_NO_PIECE,
        .own = {(uint8_t)s->delimiter | (uint64_t)(s->options->text == STK__CSV_TEXT_STRICT) << 8,
                s->line + 1}};
}

/* A line that begins at `*at`, which moves behind it. *whole: it is there up to its end, or the
 * file ends with it. */
static stk_status take_line(scan *s, const char **at, const char *end, bool last, bool *whole)
{
    const char *begin = *at;
    uint32_t cells = 0, longest = 0;
    stk__csv_cell cell;
    stk__csv_end e;

    *whole = false;
    do {
        e = stk__csv_next(at, end, s->delimiter, &cell);
        if ((e == STK__CSV_OPEN || *at == end) && !last)
            return STK_OK; /* it may go on */
        if (e > STK__CSV_LINE)
            return wrong(s, s->w.at + (uint64_t)(cell.text - s->w.bytes), s->line, cells,
                         what_is(e));
        cells++;
        longest = (uint32_t)STK_MAX(longest, cell.length);
    } while (e == STK__CSV_CELL);
    if (cells != s->num_columns) {
        char text[120];
        snprintf(text, sizeof text, "the line has %u cell%s, the first one %u", cells,
                 cells == 1 ? "" : "s", s->num_columns);
        return wrong(s, s->w.at + (uint64_t)(begin - s->w.bytes), s->line,
                     STK_MIN(cells, s->num_columns), text);
    }
    *whole = true;
    s->piece.rows++;
    s->piece.longest = STK_MAX(s->piece.longest, longest);
    s->line++;
    for (const char *p = begin; (p = memchr(p, '\n', (size_t)(*at - p))) && p + 1 < *at; p++)
        s->line++;
    return STK_OK;
}

/* A line has ended at a place of the window: so may a piece. */
static stk_status pass_line(scan *s, const char *at)
{
    const uint64_t offset = s->w.at + (uint64_t)(at - s->w.bytes);

    if (offset - s->piece.offset < PIECE_BYTES)
        return STK_OK;
    STK_TRY(end_piece(s, offset));
    begin_piece(s, offset);
    return STK_OK;
}

/* Lines of the piece at hand that need no look at each of their cells. */
static stk_status take_plain(scan *s, const char **at, const char *end)
{
    stk__csv_plain plain;

    do {
        const uint64_t used = s->w.at + (uint64_t)(*at - s->w.bytes) - s->piece.offset;
        plain = stk__csv_plain_lines(s->marks, *at, end, s->delimiter, s->num_columns,
                                     PIECE_BYTES - STK_MIN(used, PIECE_BYTES));
        *at += plain.bytes;
        s->piece.rows += (uint32_t)plain.rows;
        s->piece.longest = STK_MAX(s->piece.longest, plain.longest);
        s->line += plain.rows;
        STK_TRY(pass_line(s, *at));
    } while (plain.rows);
    return STK_OK;
}

/* The lines of the window; *behind is the first that is not whole. */
static stk_status take_window(scan *s, bool last, uint64_t *behind)
{
    const char *at = s->w.bytes, *end = s->w.bytes + s->w.length;
    bool whole = true;

    while (whole) {
        STK_TRY(take_plain(s, &at, end));
        const char *line = at;
        s->line += stk__csv_skip_empty(&line, end);
        if (line == end) {
            at = line;
            break;
        }
        at = line;
        STK_TRY(take_line(s, &line, end, last, &whole));
        if (!whole)
            break;
        at = line;
        STK_TRY(pass_line(s, at));
    }
    *behind = s->w.at + (uint64_t)(at - s->w.bytes);
    return STK_OK;
}

static stk_status take_all(scan *s)
{
    const uint64_t size = stk__table_file_size(s->file);
    uint64_t behind = s->head;

    begin_piece(s, s->head);
    while (behind < size) {
        const uint64_t at = behind;
        STK_TRY(stk__text_window_fill(&s->w, at));
        STK_TRY(take_window(s, at + s->w.length == size, &behind));
        if (behind == at && at + s->w.length < size)
            STK_TRY(stk__text_window_grow(&s->w, s->line));
        else if (behind == at)
            break;
    }
    STK_TRY(end_piece(s, size));
    return stk__table_file_rows(s->file, s->rows, s->err);
}

static stk_status scan_all(scan *s)
{
    STK_TRY(stk__text_window_open(&s->w));
    STK_TRY(stk__text_window_fill(&s->w, 0));
    STK_TRY(stk__csv_check_text(s->file, s->w.bytes, s->w.length, &s->head, s->err));
    STK_TRY(choose_delimiter(s));
    STK_TRY(take_names(s));
    if (!s->num_columns)
        return stk__table_file_rows(s->file, 0, s->err);
    STK_TRY(add_columns(s));
    return take_all(s);
}

stk_status stk__csv_scan(stk__table_file *file, const void *options, stk_error *err)
{
    scan s = {.file = file,
              .options = options,
              .ctx = stk__table_file_context(file),
              .err = err,
              .w = {.file = file,
                    .err = err,
                    .most = STK__CSV_MOST_RECORD,
                    .if_longer = "; a quote may not be closed"}};

    s.names.ctx = s.ctx;
    s.marks = stk__csv_marks_of(s.ctx);
    const stk_status status = scan_all(&s);
    stk__text_window_close(&s.w);
    stk__free(s.ctx, s.columns);
    stk__free(s.ctx, s.wanted);
    stk__free(s.ctx, s.name_at);
    stk__text_release(&s.names);
    return status;
}
