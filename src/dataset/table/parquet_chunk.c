/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of a column chunk -> pieces. Where they lie an offset index says
 * [apache/parquet-format, PageIndex.md], or their headers, which are read one after the other where
 * there is none. What is decoded of a page has a size that is known before: of numbers from the
 * rows alone, of strings and lists from the index, or from the header.
 */
#include <math.h>

#include "dataset/table/parquet.h"

#define HEADER_FIRST 512u                 /* bytes that nearly every header fits */
#define WINDOW       (UINT64_C(64) << 10) /* that is read at once where pages are small */
#define WHOLE_MOST   (UINT64_C(64) << 20) /* bytes of a chunk that may be one piece */
#define INDEX_MOST   (UINT64_C(64) << 20)
#define SHORT_BYTES  100u /* that chunks are short of: as Arrow C++ has it */

typedef struct page_place {
    uint64_t offset, length; /* with the header */
    uint64_t row, rows;      /* in the chunk */
    uint64_t bytes;          /* of strings, at most; UINT64_MAX: not known */
    uint64_t levels;         /* of lists; UINT64_MAX: not known */
    bool codes;              /* surely */
    stk__thrift_text least, most;
} page_place;

typedef struct pages {
    stk__parquet_scan *scan;
    const stk__parquet_column *column;
    const stk__parquet_chunk *chunk;
    uint64_t rows;
    uint64_t from, end; /* of the chunk in the file */
    page_place *list;
    size_t count, room;
    uint32_t dictionary; /* piece */
    uint64_t entries;
    bool whole;            /* one piece has it all */
    uint8_t *column_index; /* a copy that texts point to */
} pages;

static stk_status fail(const pages *p, stk_status status, uint64_t offset, const char *what,
                       stk_error *err)
{
    return stk__table_file_fail(p->scan->file, status, offset, err,
                                "row group %u, column %s, page %llu: %s", p->scan->group,
                                p->column->column.name, (unsigned long long)p->count, what);
}

static stk_status add_page(pages *p, const page_place *page, stk_error *err)
{
    void *list = stk__grow(p->scan->ctx, p->list, &p->room, p->count + 1, sizeof *p->list);

    if (!list)
        return fail(p, STK_ENOMEM, page->offset, "no memory for its place", err);
    p->list = list;
    p->list[p->count++] = *page;
    return STK_OK;
}

/* ---- Headers ---- */

static stk_status read_header(pages *p, uint64_t offset, stk__parquet_page *out, stk_error *err)
{
    const bool small = p->count && p->list[p->count - 1].length < WINDOW / 4;
    const uint64_t left = p->end - offset;
    const char *wrong = NULL;
    bool more = true;

    for (uint64_t n = HEADER_FIRST; more && n <= STK__PARQUET_HEADER_MOST; n *= 8) {
        const uint64_t length = STK_MIN(n, left);
        const uint8_t *data;
        STK_TRY(stk__parquet_see(p->scan, offset, length, small ? STK_MIN(WINDOW, left) : 0, &data,
                                 err));
        wrong = stk__parquet_page_read(data, length, out, &more);
        if (length == left)
            break;
    }
    if (!wrong && (uint64_t)out->compressed > left - out->header)
        wrong = "it is longer than its column chunk";
    return wrong ? fail(p, STK_EFORMAT, offset, wrong, err) : STK_OK;
}

/* Strings that begin with parts of those before: their lengths are decoded. *bytes: of them all. */
static stk_status measure(pages *p, uint64_t offset, const stk__parquet_page *header,
                          uint64_t *bytes, stk_error *err)
{
    stk__parquet_room *room = p->scan->room;
    stk__parquet_leaf leaf = p->column->leaf;
    const uint64_t rows = (uint64_t)header->values;
    stk__parquet_body body;
    const uint8_t *data;
    const char *reason = "no memory for its levels";
    uint64_t count = 0;

    leaf.codec = (uint32_t)p->chunk->codec & 7;
    STK_TRY(stk__parquet_see(p->scan, offset + header->header, (uint64_t)header->compressed, 0,
                             &data, err));
    stk_status status = stk__parquet_page_open(header, &leaf, room, data, NULL, &body, &reason);
    uint8_t *levels = stk__parquet_room_part(room, STK__PARQUET_LEVELS, rows);
    uint8_t *lengths = stk__parquet_room_part(room, STK__PARQUET_LENGTHS, rows * 8);
    if (status == STK_OK && (!levels || !lengths))
        status = STK_ENOMEM;
    if (status != STK_OK)
        return fail(p, status, offset, reason, err);
    const char *wrong = leaf.most
                            ? stk__parquet_levels(room->codecs, body.definition,
                                                  body.definition_length, leaf.most, levels, rows)
                            : NULL;
    for (uint64_t i = 0; i < rows && !wrong; i++)
        count += !leaf.most || levels[i] == leaf.most;
    if (!wrong)
        wrong = stk__parquet_strings_size(room->codecs, body.values, body.values_length,
                                          (uint32_t *)lengths, count, bytes);
    return wrong ? fail(p, STK_EFORMAT, offset, wrong, err) : STK_OK;
}

/* What a header says of what the page decodes to. */
static stk_status set_sizes(pages *p, const stk__parquet_page *header, page_place *page,
                            stk_error *err)
{
    page->bytes = (uint64_t)header->uncompressed;
    page->levels = (uint64_t)header->values;
    page->codes = header->encoding == STK__PARQUET_PLAIN_DICTIONARY ||
                  header->encoding == STK__PARQUET_RLE_DICTIONARY;
    if (header->encoding == STK__PARQUET_DELTA_STRINGS && stk__parquet_is_text(&p->column->leaf) &&
        (header->type == STK__PARQUET_DATA || header->type == STK__PARQUET_DATA2))
        return measure(p, page->offset, header, &page->bytes, err);
    return STK_OK;
}

static stk_status add_dictionary(pages *p, uint64_t offset, const stk__parquet_page *header,
                                 stk_error *err)
{
    stk__parquet_leaf leaf = p->column->leaf;
    stk__table_piece piece = {.offset = offset,
                              .length = header->header + (uint64_t)header->compressed,
                              .first_row = p->scan->first_row,
                              .rows = (uint32_t)header->values,
                              .column = p->column->number,
                              .columns = 1,
                              .dictionary = STK__TABLE_NO_PIECE};

    if (p->dictionary != STK__TABLE_NO_PIECE || p->count)
        return fail(p, STK_EFORMAT, offset, "it is a dictionary that does not come first", err);
    if (header->encoding != STK__PARQUET_PLAIN && header->encoding != STK__PARQUET_PLAIN_DICTIONARY)
        return fail(p, STK_EKIND, offset, "its dictionary is in an encoding that is not read", err);
    if (header->values > (UINT32_C(1) << 28))
        return fail(p, STK_ELIMIT, offset, "its dictionary has more than 268435456 entries", err);
    if (!header->values)
        return STK_OK;
    leaf.codec = (uint32_t)p->chunk->codec & 7;
    leaf.form = STK__PARQUET_DICTIONARY;
    leaf.most = 0;
    leaf.room = piece.longest = (uint32_t)header->uncompressed;
    if (!stk__parquet_decoded(&leaf, piece.rows, &piece.decoded))
        return fail(p, STK_ELIMIT, offset, "its dictionary decodes to 4 GiB or more", err);
    stk__parquet_leaf_put(&leaf, piece.own);
    p->entries = piece.rows;
    return stk__table_file_dictionary(p->scan->file, &piece, &p->dictionary, err);
}

/* All headers from `at` to the end of the chunk. */
static stk_status walk(pages *p, uint64_t at, stk_error *err)
{
    const bool list = p->column->leaf.repeated != 0;
    uint64_t row = 0;
    page_place first = {0}; /* a dictionary of lists: if their rows are not told, it is no piece */
    stk__parquet_page dictionary = {0};

    while (at < p->end && row < p->rows) {
        stk__parquet_page header;
        STK_TRY(read_header(p, at, &header, err));
        const uint64_t length = header.header + (uint64_t)header.compressed;
        page_place page = {.offset = at, .length = length, .row = row};
        STK_TRY(set_sizes(p, &header, &page, err));
        if (header.type == STK__PARQUET_DICT && list && !first.length && !p->count) {
            first = page;
            dictionary = header;
        } else if (header.type == STK__PARQUET_DICT) {
            STK_TRY(add_dictionary(p, at, &header, err));
        } else if (header.type == STK__PARQUET_DATA && list) {
            p->whole = p->dictionary == STK__TABLE_NO_PIECE; /* rows are not told */
            if (!p->whole)
                return fail(p, STK_EFORMAT, at, "its pages are of two versions", err);
        } else if (header.type == STK__PARQUET_DATA || header.type == STK__PARQUET_DATA2) {
            if (first.length && !p->count)
                STK_TRY(add_dictionary(p, first.offset, &dictionary, err));
            page.rows = (uint64_t)(list ? header.rows : header.values);
            if (page.rows > p->rows - row)
                return fail(p, STK_EFORMAT, at, "its column has more rows than its row group", err);
            row += page.rows;
            STK_TRY(add_page(p, &page, err));
        }
        if (p->whole)
            return STK_OK;
        at += length;
    }
    return row == p->rows
               ? STK_OK
               : fail(p, STK_EFORMAT, at, "its column has fewer rows than its row group", err);
}

/* ---- Indexes ---- */

static void read_location(stk__thrift *t, page_place *page)
{
    stk__thrift_field f = {0};
    int64_t offset = -1, length = -1, row = -1;

    while (stk__thrift_next(t, &f)) {
        if (f.id == 1)
            offset = stk__thrift_int(t, &f);
        else if (f.id == 2)
            length = stk__thrift_int(t, &f);
        else if (f.id == 3)
            row = stk__thrift_int(t, &f);
        else
            stk__thrift_skip(t, &f);
    }
    if (offset < 0 || length <= 0 || row < 0)
        t->bad = true;
    *page = (page_place){.offset = (uint64_t)offset,
                         .length = (uint64_t)length,
                         .row = (uint64_t)row,
                         .bytes = UINT64_MAX,
                         .levels = UINT64_MAX};
}

static stk_status read_locations(pages *p, stk__thrift *t, const stk__thrift_field *f,
                                 stk_error *err)
{
    stk__thrift_field of;
    const uint32_t n = stk__thrift_list(t, f, &of);

    for (uint32_t i = 0; i < n && !t->bad; i++) {
        page_place page;
        if (!stk__thrift_struct(t, &of))
            break;
        read_location(t, &page);
        if (!t->bad)
            STK_TRY(add_page(p, &page, err));
    }
    return STK_OK;
}

static void read_bytes(pages *p, stk__thrift *t, const stk__thrift_field *f)
{
    stk__thrift_field of;
    const uint32_t n = stk__thrift_list(t, f, &of);

    for (uint32_t i = 0; i < n && !t->bad; i++) {
        const int64_t bytes = stk__thrift_int(t, &of);
        if (i < p->count && bytes >= 0)
            p->list[i].bytes = (uint64_t)bytes;
    }
}

/* Pages in the order of their rows, one behind the other, all in the chunk. */
static const char *check_locations(pages *p)
{
    uint64_t at = p->from, rows = p->rows;

    if (!p->count || p->list[0].row)
        return "the offset index does not begin with row 0";
    for (size_t i = p->count; i-- > 0;) {
        page_place *page = &p->list[i];
        if (page->row >= rows)
            return "the rows of the offset index do not rise";
        page->rows = rows - page->row;
        rows = page->row;
    }
    for (size_t i = 0; i < p->count; i++) {
        const page_place *page = &p->list[i];
        if (page->offset < at || page->offset > p->end || page->length > p->end - page->offset)
            return "the offset index says that it lies elsewhere than its column chunk";
        at = page->offset + page->length;
    }
    return NULL;
}

static bool index_there(const stk__parquet_scan *s, int64_t at, int64_t length)
{
    return at > 0 && length > 0 && (uint64_t)length <= INDEX_MOST && (uint64_t)at <= s->size &&
           (uint64_t)length <= s->size - (uint64_t)at;
}

static stk_status read_offset_index(pages *p, stk_error *err)
{
    const uint64_t at = (uint64_t)p->chunk->offset_index_at;
    const uint64_t length = (uint64_t)p->chunk->offset_index_length;
    const uint8_t *data;
    stk__thrift_field f = {0};

    STK_TRY(stk__parquet_see(p->scan, at, length, 0, &data, err));
    stk__thrift t = {data, data + length, false};
    while (stk__thrift_next(&t, &f)) {
        if (f.id == 1)
            STK_TRY(read_locations(p, &t, &f, err));
        else if (f.id == 2)
            read_bytes(p, &t, &f);
        else
            stk__thrift_skip(&t, &f);
    }
    const char *wrong = t.bad ? "the offset index is damaged" : check_locations(p);
    return wrong ? fail(p, STK_EFORMAT, at, wrong, err) : STK_OK;
}

static void read_limits(pages *p, stk__thrift *t, const stk__thrift_field *f, bool least)
{
    stk__thrift_field of;
    const uint32_t n = stk__thrift_list(t, f, &of);

    for (uint32_t i = 0; i < n && !t->bad; i++) {
        const stk__thrift_text text = stk__thrift_binary(t, &of);
        if (i < p->count)
            *(least ? &p->list[i].least : &p->list[i].most) = text;
    }
}

/* Histograms of definition levels, one behind the other: their sums are the levels of pages. */
static void read_histograms(pages *p, stk__thrift *t, const stk__thrift_field *f)
{
    const uint32_t each = p->column->leaf.most + 1u;
    stk__thrift_field of;
    const uint32_t n = stk__thrift_list(t, f, &of);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n && !t->bad; i++) {
        const int64_t levels = stk__thrift_int(t, &of);
        sum += levels >= 0 && levels <= INT32_MAX ? (uint64_t)levels : INT32_MAX;
        if (i % each < each - 1)
            continue;
        if (i / each < p->count)
            p->list[i / each].levels = STK_MIN(sum, (uint64_t)INT32_MAX);
        sum = 0;
    }
}

static stk_status read_column_index(pages *p, stk_error *err)
{
    const uint64_t at = (uint64_t)p->chunk->column_index_at;
    const uint64_t length = (uint64_t)p->chunk->column_index_length;
    const uint8_t *data;
    stk__thrift_field f = {0};

    if (!p->column->bound && !p->column->leaf.repeated)
        return STK_OK;
    STK_TRY(stk__parquet_see(p->scan, at, length, 0, &data, err));
    p->column_index = stk__alloc(p->scan->ctx, length);
    if (!p->column_index)
        return fail(p, STK_ENOMEM, at, "no memory for its column index", err);
    memcpy(p->column_index, data, length);
    stk__thrift t = {p->column_index, p->column_index + length, false};
    while (stk__thrift_next(&t, &f)) {
        if (f.id == 2 || f.id == 3)
            read_limits(p, &t, &f, f.id == 2);
        else if (f.id == 7 && p->column->leaf.repeated)
            read_histograms(p, &t, &f);
        else
            stk__thrift_skip(&t, &f);
    }
    return t.bad ? fail(p, STK_EFORMAT, at, "the column index is damaged", err) : STK_OK;
}

/* What the indexes do not say. */
static stk_status ask_headers(pages *p, stk_error *err)
{
    const bool text = stk__parquet_is_text(&p->column->leaf), list = p->column->leaf.repeated != 0;
    /* Of such pages Arrow C++ writes sizes that are too small (26.0.1). */
    const bool prefixes = p->chunk->encodings & UINT32_C(1) << STK__PARQUET_DELTA_STRINGS;

    if (text && p->entries && p->chunk->only_dictionary) {
        for (size_t i = 0; i < p->count; i++)
            p->list[i].codes = true;
        return STK_OK;
    }
    for (size_t i = 0; i < p->count; i++) {
        page_place *page = &p->list[i];
        stk__parquet_page header;
        if (prefixes)
            page->bytes = UINT64_MAX;
        if (!(text && page->bytes == UINT64_MAX) && !(list && page->levels == UINT64_MAX))
            continue;
        STK_TRY(read_header(p, page->offset, &header, err));
        STK_TRY(set_sizes(p, &header, page, err));
    }
    return STK_OK;
}

/* ---- Bounds ---- */

static bool bound_of(char kind, stk__thrift_text text, stk__table_bound *out)
{
    *out = (stk__table_bound){0};
    if (!text.data || (text.length != 4 && text.length != 8))
        return false;
    const uint64_t x = stk__little_endian(text.data, text.length);
    if (kind == 'f') {
        const uint32_t low = (uint32_t)x;
        float f;
        memcpy(&f, &low, sizeof f);
        memcpy(&out->real, &x, sizeof x);
        if (text.length == 4)
            out->real = (double)f;
        out->is_float = true;
        return !isnan(out->real);
    }
    out->integer = kind == 'i' && text.length == 4 ? (int32_t)(uint32_t)x : (int64_t)x;
    return kind == 'i' || out->integer >= 0;
}

static stk_status add_bounds(const pages *p, uint32_t number, const page_place *page,
                             stk_error *err)
{
    const char kind = p->column->bound;
    stk__table_bound least, most;
    const bool own = page && page->least.data && page->least.length;

    if (!kind || !bound_of(kind, own ? page->least : p->chunk->bounds.least, &least) ||
        !bound_of(kind, own ? page->most : p->chunk->bounds.most, &most))
        return STK_OK;
    return stk__table_file_bounds(p->scan->file, number, &least, &most, err);
}

/* ---- Pieces ---- */

/* Numbers of a chunk in several pages, or in codes: one piece in place of them all. */
static stk_status add_whole(pages *p, uint32_t first, stk_error *err)
{
    stk__parquet_leaf leaf = p->column->leaf;
    stk__table_piece piece = {.offset = p->from,
                              .length = p->end - p->from,
                              .first_row = p->scan->first_row,
                              .rows = (uint32_t)p->rows,
                              .column = p->column->number,
                              .columns = 1,
                              .longest = stk__parquet_item(&leaf)};

    leaf.codec = (uint32_t)p->chunk->codec & 7;
    leaf.form = STK__PARQUET_CHUNK;
    if (leaf.repeated || stk__parquet_is_text(&leaf) || p->rows > UINT32_MAX ||
        (p->count < 2 && p->dictionary == STK__TABLE_NO_PIECE) || piece.length > WHOLE_MOST ||
        !stk__parquet_decoded(&leaf, p->rows, &piece.decoded) || piece.decoded > WHOLE_MOST)
        return STK_OK;
    stk__parquet_leaf_put(&leaf, piece.own);
    return stk__table_file_whole(p->scan->file, &piece, first, (uint32_t)p->count, err);
}

static stk_status add_piece(pages *p, uint64_t offset, uint64_t length, uint64_t row, uint64_t rows,
                            const stk__parquet_leaf *leaf, const page_place *page, uint32_t *number,
                            stk_error *err)
{
    stk__table_piece piece = {.offset = offset,
                              .length = length,
                              .first_row = p->scan->first_row + row,
                              .rows = (uint32_t)rows,
                              .column = p->column->number,
                              .columns = 1,
                              .dictionary = p->dictionary};

    uint64_t longest = leaf->room; /* bytes of a value of its own */
    if (!rows)
        return STK_OK;
    if (leaf->repeated)
        longest *= stk__parquet_item(leaf);
    piece.longest = (uint32_t)STK_MIN(STK_MAX(longest, 1), UINT32_MAX);
    if (!stk__parquet_decoded(leaf, rows, &piece.decoded))
        return fail(p, STK_ELIMIT, offset,
                    "it decodes to 4 GiB or more; write smaller row groups, or an index of pages",
                    err);
    stk__parquet_leaf_put(leaf, piece.own);
    STK_TRY(stk__table_file_piece(p->scan->file, &piece, number, err));
    return add_bounds(p, *number, page, err);
}

static stk_status add_pieces(pages *p, stk_error *err)
{
    stk__parquet_leaf leaf = p->column->leaf;
    const bool text = stk__parquet_is_text(&leaf), list = leaf.repeated != 0;
    uint32_t number = 0, first = STK__TABLE_NO_PIECE;
    bool gaps = false; /* pages without rows */

    leaf.codec = (uint32_t)p->chunk->codec & 7;
    if (p->whole) {
        if (p->chunk->values < 0 || p->chunk->values > UINT32_MAX)
            return fail(p, STK_ELIMIT, p->from, "its column has too many values", err);
        leaf.form = STK__PARQUET_CHUNK;
        leaf.room = (uint32_t)p->chunk->values;
        return add_piece(p, p->from, p->end - p->from, 0, p->rows, &leaf, NULL, &number, err);
    }
    leaf.entries = (uint32_t)p->entries & 0x1fffffff;
    const size_t count = p->count;
    for (size_t i = 0; i < count; i++) {
        const page_place *page = &p->list[i];
        const uint64_t bytes = page->codes ? 0 : page->bytes; /* those of codes are elsewhere */
        const uint64_t room = text ? bytes : list ? page->levels : 0;
        p->count = i; /* for messages */
        if (room > UINT32_MAX)
            return fail(p, STK_ELIMIT, page->offset, "it decodes to 4 GiB or more", err);
        leaf.room = (uint32_t)room;
        STK_TRY(add_piece(p, page->offset, page->length, page->row, page->rows, &leaf, page,
                          &number, err));
        if (page->rows)
            first = first == STK__TABLE_NO_PIECE ? number : first;
        gaps |= !page->rows;
    }
    p->count = count;
    return gaps || first == STK__TABLE_NO_PIECE ? STK_OK : add_whole(p, first, err);
}

/* Where the chunk lies. */
static stk_status find_chunk(pages *p, stk_error *err)
{
    const stk__parquet_chunk *c = p->chunk;
    const uint64_t data = (uint64_t)c->data_at, dictionary = (uint64_t)c->dictionary_at;

    p->from = c->dictionary_at > 0 && dictionary < data ? dictionary : data;
    if (c->data_at < 4 || c->compressed <= 0 || p->from > p->scan->size ||
        (uint64_t)c->compressed > p->scan->size - p->from)
        return fail(p, STK_EFORMAT, p->scan->footer_at,
                    "the footer says that its column lies outside of the file", err);
    p->end = p->from + (uint64_t)c->compressed;
    if (p->scan->short_chunks && !p->column->leaf.repeated)
        p->end += STK_MIN(SHORT_BYTES, p->scan->size - p->end);
    if (!p->column->leaf.repeated && (uint64_t)c->values != p->rows)
        return fail(p, STK_EFORMAT, p->scan->footer_at,
                    "its column has another number of values than its row group has rows", err);
    return STK_OK;
}

/* The dictionary, where one lies in front of the pages that the index names. */
static stk_status find_dictionary(pages *p, stk_error *err)
{
    stk__parquet_page header;
    const size_t count = p->count;

    if (p->list[0].offset <= p->from)
        return STK_OK;
    p->count = 0;
    stk_status status = read_header(p, p->from, &header, err);
    if (status == STK_OK && header.type == STK__PARQUET_DICT)
        status = add_dictionary(p, p->from, &header, err);
    p->count = count;
    return status;
}

static stk_status find_pages(pages *p, stk_error *err)
{
    const stk__parquet_chunk *c = p->chunk;

    STK_TRY(find_chunk(p, err));
    if (!index_there(p->scan, c->offset_index_at, c->offset_index_length)) {
        STK_TRY(walk(p, p->from, err));
        return add_pieces(p, err);
    }
    STK_TRY(read_offset_index(p, err));
    if (index_there(p->scan, c->column_index_at, c->column_index_length))
        STK_TRY(read_column_index(p, err));
    STK_TRY(find_dictionary(p, err));
    if (!p->whole)
        STK_TRY(ask_headers(p, err));
    return add_pieces(p, err);
}

stk_status stk__parquet_chunk_pieces(stk__parquet_scan *scan, const stk__parquet_column *column,
                                     const stk__parquet_chunk *chunk, uint64_t rows, stk_error *err)
{
    pages p = {.scan = scan,
               .column = column,
               .chunk = chunk,
               .rows = rows,
               .dictionary = STK__TABLE_NO_PIECE};

    const stk_status status = find_pages(&p, err);
    stk__free(scan->ctx, p.list);
    stk__free(scan->ctx, p.column_index);
    return status;
}
