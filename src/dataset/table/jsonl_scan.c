/* SPDX-License-Identifier: Apache-2.0 */
/* One file: its columns, their types, and where its lines lie. */
#include <stdio.h>

#include "base/text.h"
#include "dataset/table/csv.h"
#include "dataset/table/jsonl.h"
#include "dataset/table/listed.h"
#include "dataset/table/text_window.h"

#define PIECE_BYTES (UINT64_C(64) << 10)

/* What the values of a column were so far. */
enum {
    WAS_INTEGER = 1,
    WAS_REAL = 2, /* or an integer beyond int64 */
    WAS_BOOL = 4,
    WAS_TEXT = 8,
    WAS_LIST = 16, /* of numbers; INTEGER and REAL are those of its values */
    WAS_OTHER = 32 /* a list of anything else */
};

typedef struct learnt {
    size_t name; /* where it begins in `names` */
    unsigned was;
} learnt;

typedef struct scan {
    stk__table_file *file;
    const stk__jsonl_options *options;
    atomic_bool *met; /* of each entry of types */
    bool unmet;       /* one of them is not */
    stk_context *ctx;
    stk_error *err;
    stk__text_window w;
    uint64_t head; /* where lines begin */
    learnt *learnt;
    size_t learnt_room;
    uint32_t num_columns, next; /* and the column that is expected */
    stk__text names;
    stk__table_column *columns;
    bool *wanted;
    bool lists;
    uint64_t line, rows; /* of the file, so far */
    stk__table_piece piece;
} scan;

static stk_status wrong(const scan *s, const char *at, const char *what)
{
    return stk__table_file_fail(s->file, STK_EFORMAT, s->w.at + (uint64_t)(at - s->w.bytes), s->err,
                                "line %llu: %s", (unsigned long long)s->line + 1, what);
}

/* ---- Columns --------------------------------------------------------------------------------- */

static unsigned number_is(const stk__json_member *m)
{
    const stk__csv_cell cell = {.text = m->text, .length = m->length};
    int64_t integer;

    return stk__csv_integer(&cell, STK_INT64, &integer) ? WAS_INTEGER : WAS_REAL;
}

static unsigned list_is(const stk__json_member *m)
{
    stk__json_cursor c = {m->text + 1, m->text + m->length, false};
    stk__json_member element = {0};
    unsigned was = WAS_LIST;
    bool closed = false;

    for (bool first = true; stk__json_next(&c, false, first, &element, &closed) && !closed;
         first = false)
        was |= element.kind == STK__JSON_NUMBER ? number_is(&element) : WAS_OTHER;
    return was;
}

static unsigned value_is(const stk__json_member *m)
{
    switch (m->kind) {
    case STK__JSON_NUMBER:
        return number_is(m);
    case STK__JSON_TRUE:
    case STK__JSON_FALSE:
        return WAS_BOOL;
    case STK__JSON_STRING:
        return WAS_TEXT;
    case STK__JSON_ARRAY:
        return list_is(m);
    default:
        return 0;
    }
}

static stk_status add_column(scan *s, const char *name, size_t length, unsigned was)
{
    if (s->num_columns == STK__TABLE_MAX_COLUMNS)
        return STK_ELIMIT;
    learnt *more =
        stk__grow(s->ctx, s->learnt, &s->learnt_room, s->num_columns + UINT64_C(1), sizeof *more);
    if (!more)
        return STK_ENOMEM;
    s->learnt = more;
    more[s->num_columns++] = (learnt){s->names.length, was};
    stk__text_put(&s->names, name, length);
    stk__text_put(&s->names, "", 1);
    return s->names.failed ? STK_ENOMEM : STK_OK;
}

static stk_status learn_member(void *user, const char *name, size_t length,
                               const stk__json_member *m)
{
    scan *s = user;
    const unsigned was = value_is(m);

    if (length == 0 || memchr(name, 0, length))
        return STK_EINVAL;
    for (uint32_t i = 0; i < s->num_columns; i++) {
        const uint32_t c = (s->next + i) % s->num_columns;
        const char *known = s->names.bytes + s->learnt[c].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            s->learnt[c].was |= was;
            s->next = c + 1;
            return STK_OK;
        }
    }
    return add_column(s, name, length, was);
}

static void set_type(const scan *s, uint32_t i, stk__table_column *c)
{
    const unsigned was = s->learnt[i].was, numbers = was & (WAS_INTEGER | WAS_REAL),
                   kinds = !!(was & WAS_TEXT) + !!(was & WAS_BOOL) + (numbers || (was & WAS_LIST));

    *c = (stk__table_column){.name = s->names.bytes + s->learnt[i].name,
                             .kind = STK__COLUMN_REFUSED,
                             .dtype = STK_UINT8,
                             .width = 1,
                             .nullable = true};
    if (was & WAS_OTHER)
        c->note = "lists of other things than numbers";
    else if (!was)
        c->note = "null in all lines that were looked at";
    else if (was == WAS_LIST)
        c->note = "empty in all lines that were looked at";
    else if (kinds > 1)
        c->note = "of several types";
    if (c->note)
        return;
    c->kind = was & WAS_TEXT   ? STK__COLUMN_BYTES
              : was & WAS_LIST ? STK__COLUMN_LIST
                               : STK__COLUMN_VALUES;
    c->text = was & WAS_TEXT;
    c->dtype = was & WAS_TEXT   ? STK_UINT8
               : was & WAS_BOOL ? STK_BOOL
               : was & WAS_REAL ? STK_FLOAT64
                                : STK_INT64;
}

static stk_status fail_learning(const scan *s, const char *at, stk_status status)
{
    if (status == STK_ENOMEM)
        return stk__text_window_no_memory(&s->w);
    if (status == STK_EINVAL)
        return wrong(s, at, "a key that is empty, or holds a zero, is no name of a column");
    if (status == STK_ELIMIT)
        return stk__table_file_fail(
            s->file, STK_ELIMIT, s->w.at + (uint64_t)(at - s->w.bytes), s->err,
            "line %llu: there are more than %u keys, or the keys to a "
            "value have more than %u bytes",
            (unsigned long long)s->line + 1, STK__TABLE_MAX_COLUMNS, STK__JSONL_MOST_NAME - 2);
    return wrong(s, at, "it is no object of JSON, which is '{\"key\": value, ...}' on one line");
}

static void set_asked(stk__table_column *c, const stk__table_typed *typed, bool list)
{
    const bool bytes = typed->dtype == STK_DTYPE_NONE;

    c->note = NULL;
    c->text = typed->text;
    c->dtype = bytes ? STK_UINT8 : typed->dtype;
    c->kind = bytes ? STK__COLUMN_BYTES : list ? STK__COLUMN_LIST : STK__COLUMN_VALUES;
}

static uint32_t find_column(const scan *s, const char *name, size_t length)
{
    for (uint32_t i = 0; i < s->num_columns; i++) {
        const char *known = s->names.bytes + s->learnt[i].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return i;
    }
    return s->num_columns;
}

/* Columns of keys that types= names and the first lines do not have: later ones, or other files. */
static stk_status declare(scan *s)
{
    stk__table_typed typed;
    stk_status status = STK_OK;
    size_t i = 0;

    for (const char *at = s->options->types; at && *at && status == STK_OK; i++) {
        STK_TRY(stk__table_next_type(&at, true, &typed, s->err));
        if (find_column(s, typed.name, typed.length) < s->num_columns) {
            atomic_store(&s->met[i], true);
            continue;
        }
        s->unmet = true;
        status = add_column(s, typed.name, typed.length, 0);
    }
    return status == STK_OK ? status : fail_learning(s, s->w.bytes + s->head, status);
}

/* "age:float32,tokens:int32" */
static stk_status set_types(const scan *s)
{
    stk__table_typed typed;

    for (const char *at = s->options->types; at && *at;) {
        STK_TRY(stk__table_next_type(&at, true, &typed, s->err));
        const uint32_t i = find_column(s, typed.name, typed.length);
        set_asked(&s->columns[i], &typed, typed.list || (s->learnt[i].was & WAS_LIST));
    }
    return STK_OK;
}

/* The keys of the first lines. None: the file has no line. */
static stk_status learn(scan *s)
{
    const char *at = s->w.bytes + s->head, *end = s->w.bytes + s->w.length, *next;
    const bool whole = s->w.length == stk__table_file_size(s->file);
    uint64_t lines = 0;

    for (; lines < s->options->learn && at < end; at = next, s->line++) {
        const char *stop = stk__jsonl_line(at, end, &next);
        if (next == end && !whole && end[-1] != '\n' && lines)
            break;
        if (stk__jsonl_is_blank(at, stop))
            continue;
        s->next = 0;
        const stk_status status = stk__jsonl_walk(at, stop, learn_member, s);
        if (status != STK_OK)
            return fail_learning(s, at, status);
        lines++;
    }
    s->line = 0;
    return s->num_columns || (whole && !lines)
               ? STK_OK
               : stk__table_file_fail(s->file, STK_EFORMAT, 0, s->err,
                                      "it has no line with a key; leave the file out");
}

static stk_status add_columns(scan *s)
{
    STK_TRY(learn(s));
    if (!s->num_columns)
        return STK_OK;
    STK_TRY(declare(s));
    s->columns = stk__calloc(s->ctx, s->num_columns, sizeof *s->columns);
    s->wanted = stk__calloc(s->ctx, s->num_columns, sizeof *s->wanted);
    if (!s->columns || !s->wanted)
        return stk__text_window_no_memory(&s->w);
    for (uint32_t i = 0; i < s->num_columns; i++)
        set_type(s, i, &s->columns[i]);
    STK_TRY(set_types(s));
    for (uint32_t i = 0; i < s->num_columns; i++) {
        stk__table_column known;
        if (stk__table_file_known(s->file, s->columns[i].name, &known)) {
            /* Of one that was not asked for the first file tells no type. */
            known.name = s->columns[i].name;
            s->columns[i] = known;
        }
        STK_TRY(stk__table_file_column(s->file, &s->columns[i], &s->wanted[i], s->err));
        s->lists = s->lists || (s->wanted[i] && s->columns[i].kind == STK__COLUMN_LIST);
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
    p->decoded = stk__jsonl_decoded(s->columns, s->wanted, s->num_columns, p->rows, p->length);
    STK_TRY(stk__table_file_piece(s->file, p, &number, s->err));
    s->rows += p->rows;
    return STK_OK;
}

static void begin_piece(scan *s, uint64_t offset, uint64_t line)
{
    s->piece = (stk__table_piece){.offset = offset,
                                  .first_row = s->rows,
                                  .columns = s->num_columns,
                                  .dictionary = STK__TABLE_NO_PIECE,
                                  .own = {line + 1}};
}

static stk_status meet_member(void *user, const char *name, size_t length,
                              const stk__json_member *member)
{
    const scan *s = user;
    stk__table_typed typed;
    size_t i = 0;

    (void)member;
    for (const char *at = s->options->types; *at; i++) {
        STK_TRY(stk__table_next_type(&at, true, &typed, NULL));
        if (typed.length == length && memcmp(typed.name, name, length) == 0)
            atomic_store(&s->met[i], true);
    }
    return STK_OK;
}

/* Whether a line has keys that no line had so far. */
static void meet(scan *s, const char *at, const char *stop)
{
    stk__table_typed typed;
    size_t i = 0;

    (void)stk__jsonl_walk(at, stop, meet_member, s); /* what it cannot be is seen by others */
    s->unmet = false;
    for (const char *type = s->options->types; *type; i++) {
        (void)stk__table_next_type(&type, true, &typed, NULL);
        s->unmet = s->unmet || !atomic_load(&s->met[i]);
    }
}

/* A line that is whole. */
static stk_status take_line(scan *s, const char *at, const char *stop)
{
    const uint64_t length = (uint64_t)(stop - at);
    stk__json_cursor c = {at, stop, false};
    const char *behind = at;
    size_t n;

    stk__json_skip_blanks(&c);
    if (length > STK__JSONL_MOST_LINE)
        return stk__table_file_fail(s->file, STK_ELIMIT, s->w.at + (uint64_t)(at - s->w.bytes),
                                    s->err, "line %llu has more than %llu bytes",
                                    (unsigned long long)s->line + 1,
                                    (unsigned long long)STK__JSONL_MOST_LINE);
    if (stk__json_scan(c.at, stop, NULL, 0, &n, &behind) != STK__JSON_DONE ||
        !stk__jsonl_is_blank(behind, stop))
        return fail_learning(s, at, STK_EFORMAT);
    if (s->unmet)
        meet(s, at, stop);
    /* A number of a list takes two bytes at least. */
    const uint64_t longest = s->lists ? (length / 2 + 1) * sizeof(uint64_t) : length;
    s->piece.longest = (uint32_t)STK_MAX(s->piece.longest, STK_MAX(longest, 1));
    s->piece.rows++;
    return STK_OK;
}

/* The lines of the window; *behind is the first that is not whole. */
static stk_status take_window(scan *s, bool last, uint64_t *behind)
{
    const char *at = s->w.bytes, *end = s->w.bytes + s->w.length, *next;

    for (; at < end; at = next, s->line++) {
        const char *stop = stk__jsonl_line(at, end, &next);
        if (next == end && !last && end[-1] != '\n')
            break;
        if (!stk__jsonl_is_blank(at, stop))
            STK_TRY(take_line(s, at, stop));
        const uint64_t offset = s->w.at + (uint64_t)(next - s->w.bytes);
        if (offset - s->piece.offset >= PIECE_BYTES) {
            STK_TRY(end_piece(s, offset));
            begin_piece(s, offset, s->line + 1);
        }
    }
    *behind = s->w.at + (uint64_t)(at - s->w.bytes);
    return STK_OK;
}

static stk_status take_all(scan *s)
{
    const uint64_t size = stk__table_file_size(s->file);
    uint64_t behind = s->head;

    begin_piece(s, s->head, s->line);
    while (behind < size) {
        const uint64_t at = behind;
        STK_TRY(stk__text_window_fill(&s->w, at));
        STK_TRY(take_window(s, at + s->w.length == size, &behind));
        if (behind == at)
            STK_TRY(stk__text_window_grow(&s->w, s->line));
    }
    STK_TRY(end_piece(s, size));
    return stk__table_file_rows(s->file, s->rows, s->err);
}

/* The first line alone may be longer than what is looked at: then it is looked at as a whole. */
static stk_status fill_first(scan *s)
{
    const uint64_t size = stk__table_file_size(s->file);

    STK_TRY(stk__text_window_fill(&s->w, 0));
    while (s->w.length < size && !memchr(s->w.bytes, '\n', s->w.length)) {
        STK_TRY(stk__text_window_grow(&s->w, s->line));
        STK_TRY(stk__text_window_fill(&s->w, 0));
    }
    return STK_OK;
}

static stk_status scan_all(scan *s)
{
    STK_TRY(stk__text_window_open(&s->w));
    STK_TRY(fill_first(s));
    STK_TRY(stk__csv_check_text(s->file, s->w.bytes, s->w.length, &s->head, s->err));
    if (s->w.length > s->head && s->w.bytes[s->head] == '[')
        return stk__table_file_fail(s->file, STK_EKIND, s->head, s->err,
                                    "it is one list of JSON; write a line for each element, as jq "
                                    "-c '.[]' does");
    STK_TRY(add_columns(s));
    return s->num_columns ? take_all(s) : stk__table_file_rows(s->file, 0, s->err);
}

stk_status stk__jsonl_scan(stk__table_file *file, const void *options, stk_error *err)
{
    const stk__jsonl_asked *asked = options;
    scan s = {.file = file,
              .options = &asked->options,
              .met = asked->met,
              .ctx = stk__table_file_context(file),
              .err = err,
              .w = {.file = file, .err = err, .most = STK__JSONL_MOST_LINE, .if_longer = ""}};

    s.names.ctx = s.ctx;
    const stk_status status = scan_all(&s);
    stk__text_window_close(&s.w);
    stk__free(s.ctx, s.columns);
    stk__free(s.ctx, s.wanted);
    stk__free(s.ctx, s.learnt);
    stk__text_release(&s.names);
    return status;
}
