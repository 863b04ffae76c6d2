/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A piece -> its vector. In the vector lie, one behind the other: which rows are null, the places
 * of strings or lists, and the values, which are decoded without gaps and moved apart from the end
 * on, where rows are null.
 */
#include "dataset/table/parquet.h"

const char *const stk__parquet_reasons[STK__PARQUET_REASONS] = {
    "lies in a page that is damaged; fetch the file again",
    "lies in a page whose checksum does not match it; fetch the file again",
    "lies in a page of a kind that is not read"};

enum { CODES = 2048 }; /* that are looked up together: they stay in the first cache */

typedef struct sink {
    stk__parquet_room *room;
    const stk__parquet_leaf *leaf;
    const stk__table_piece *piece;
    stk__table_vector *vector;
    uint8_t *out;
    uint64_t used;    /* bytes of `out` */
    uint64_t rows;    /* LIST: begun so far; CHUNK: done */
    uint64_t values;  /* LIST: so far */
    uint8_t *entries; /* CHUNK: of its dictionary */
    uint64_t num_entries;
    stk_status entries_status; /* CHUNK: of reading it */
    bool any_nulls;            /* CHUNK of numbers */
    const char **reason;
} sink;

static stk_status fail(const sink *s, const char *text)
{
    *s->reason = text;
    return STK_EFORMAT;
}

static stk_status no_memory(const sink *s)
{
    *s->reason = "no memory to decode a page; use fewer workers";
    return STK_ENOMEM;
}

static stk_status answer(const sink *s, const char *wrong)
{
    return wrong ? fail(s, wrong) : STK_OK;
}

static uint64_t eight(uint64_t size)
{
    return stk__round_up(size, 8);
}

bool stk__parquet_decoded(const stk__parquet_leaf *leaf, uint64_t rows, uint64_t *size)
{
    const uint64_t item = stk__parquet_item(leaf);
    const bool text = stk__parquet_is_text(leaf);
    const bool list = leaf->repeated && leaf->form != STK__PARQUET_DICTIONARY;
    const uint64_t values = list ? leaf->room : rows;
    uint64_t bytes = text ? leaf->room : 0;

    if (rows > UINT32_MAX || (!text && !stk__mul_size(values, item, &bytes)))
        return false;
    if (leaf->entries && leaf->form == STK__PARQUET_PAGE)
        bytes = STK_MAX(bytes, values * sizeof(uint32_t));
    if (bytes > UINT32_MAX)
        return false;
    *size = sizeof(stk__table_vector) + eight(rows) +
            (text || list ? eight((rows + 1) * sizeof(uint32_t)) : 0) + eight(bytes);
    return *size <= UINT32_MAX;
}

/* `size` of the bytes of the output, whose place is *at; NULL: there is no such room. */
static void *take(sink *s, uint64_t size, uint64_t *at)
{
    if (size > s->piece->decoded || s->used > s->piece->decoded - size)
        return NULL;
    *at = s->used;
    s->used += eight(size);
    return s->out + *at;
}

static stk_status no_room(const sink *s)
{
    return fail(s, "a page holds more than the footer says; write the file again");
}

static bool is_codes(const stk__parquet_page *page)
{
    return page->encoding == STK__PARQUET_PLAIN_DICTIONARY ||
           page->encoding == STK__PARQUET_RLE_DICTIONARY;
}

/* ---- Values ---- */

static stk_status begin_codes(const sink *s, const stk__parquet_body *body, stk__parquet_runs *runs)
{
    if (!body->values_length)
        return fail(s, "its codes end too early");
    return answer(s, stk__parquet_runs_begin(runs, s->room->codecs, body->values + 1,
                                             body->values_length - 1, body->values[0]));
}

static stk_status take_codes(const sink *s, stk__parquet_runs *runs, uint32_t *out, uint64_t count,
                             uint64_t entries)
{
    STK_TRY(answer(s, stk__parquet_runs_take(runs, out, count)));
    return stk__parquet_codes_sound(s->room->codecs, out, count, entries)
               ? STK_OK
               : fail(s, "a code is beyond the end of its dictionary");
}

static stk_status read_codes(const sink *s, const stk__parquet_body *body, uint32_t *out,
                             uint64_t count, uint64_t entries)
{
    stk__parquet_runs runs;

    if (!count)
        return STK_OK;
    STK_TRY(begin_codes(s, body, &runs));
    return take_codes(s, &runs, out, count, entries);
}

#define SPREAD(type)                                                                               \
    {                                                                                              \
        type *v = (type *)values;                                                                  \
        for (uint64_t i = rows, j = count; i-- > 0;)                                               \
            v[i] = nulls[i] ? 0 : v[--j];                                                          \
    }

/* Move values without gaps to their rows. */
static void spread(uint8_t *values, uint64_t item, const uint8_t *nulls, uint64_t rows,
                   uint64_t count)
{
    switch (item) {
    case 1:
        SPREAD(uint8_t)
        break;
    case 2:
        SPREAD(uint16_t)
        break;
    case 4:
        SPREAD(uint32_t)
        break;
    case 8:
        SPREAD(uint64_t)
        break;
    default:
        for (uint64_t i = rows, j = count; i-- > 0;)
            if (nulls[i])
                memset(values + i * item, 0, item);
            else
                memmove(values + i * item, values + --j * item, item);
    }
}

/* The same of places: a null has nothing between its own and the next. */
static void spread_places(uint32_t *places, const uint8_t *nulls, uint64_t rows, uint64_t count)
{
    uint64_t j = count;

    places[rows] = places[count];
    for (uint64_t i = rows; i-- > 0;)
        places[i] = nulls[i] ? places[i + 1] : places[--j];
}

/* ---- Columns without lists ---- */

/* Which rows are null, and how many are not. NULL in *out: none is. */
static stk_status read_nulls(sink *s, const stk__parquet_body *body, uint64_t rows, uint8_t **out,
                             uint64_t *count)
{
    const unsigned most = s->leaf->most;

    *out = NULL;
    *count = rows;
    if (!most || stk__parquet_levels_full(s->room->codecs, body->definition,
                                          body->definition_length, most, rows))
        return STK_OK;
    uint8_t *nulls = take(s, rows, &s->vector->nulls);
    if (!nulls)
        return no_room(s);
    STK_TRY(answer(s, stk__parquet_levels(s->room->codecs, body->definition,
                                          body->definition_length, most, nulls, rows)));
    uint64_t there = 0;
    for (uint64_t i = 0; i < rows; i++) {
        nulls[i] = nulls[i] < most;
        there += !nulls[i];
    }
    *count = there;
    if (there < rows) {
        *out = nulls;
        return STK_OK;
    }
    s->used = s->vector->nulls;
    s->vector->nulls = 0;
    return STK_OK;
}

static stk_status flat_texts(sink *s, int32_t encoding, const stk__parquet_body *body,
                             uint64_t rows, const uint8_t *nulls, uint64_t count)
{
    stk__parquet_strings strings;

    strings.offsets = take(s, (rows + 1) * sizeof *strings.offsets, &s->vector->offsets);
    strings.room = s->leaf->room;
    strings.bytes = strings.offsets ? take(s, strings.room, &s->vector->values) : NULL;
    if (!strings.bytes)
        return no_room(s);
    STK_TRY(stk__parquet_texts(s->room, encoding, body->values, body->values_length, &strings,
                               count, s->reason));
    if (nulls)
        spread_places(strings.offsets, nulls, rows, count);
    return STK_OK;
}

/* Codes of an empty dictionary. */
static stk_status only_nulls(sink *s, uint64_t rows, uint64_t count)
{
    const bool text = stk__parquet_is_text(s->leaf);
    const uint64_t size = text ? (rows + 1) * sizeof(uint32_t) : rows * stk__parquet_item(s->leaf);

    if (count)
        return fail(s, "its codes are of a dictionary that it does not have");
    void *zeros = take(s, size, text ? &s->vector->offsets : &s->vector->values);
    if (!zeros)
        return no_room(s);
    memset(zeros, 0, size);
    if (text)
        s->vector->values = s->used;
    return STK_OK;
}

static stk_status flat_page(sink *s, const stk__parquet_page *page, const stk__parquet_body *body)
{
    const uint64_t rows = s->piece->rows;
    const bool codes = is_codes(page) && s->leaf->entries;
    uint8_t *nulls;
    uint64_t count;

    if ((uint64_t)page->values != rows ||
        (page->type == STK__PARQUET_DATA2 && (uint64_t)page->rows != rows))
        return fail(s, "a page has more or fewer rows than its column says; write the file again");
    s->vector->rows = rows;
    STK_TRY(read_nulls(s, body, rows, &nulls, &count));
    if (is_codes(page) && !codes)
        return only_nulls(s, rows, count);
    if (!codes && stk__parquet_is_text(s->leaf))
        return flat_texts(s, page->encoding, body, rows, nulls, count);
    const uint64_t item = codes ? sizeof(uint32_t) : stk__parquet_item(s->leaf);
    uint8_t *values = take(s, rows * item, &s->vector->values);
    if (!values)
        return no_room(s);
    s->vector->codes = codes;
    if (codes)
        STK_TRY(read_codes(s, body, (uint32_t *)values, count, s->leaf->entries));
    else
        STK_TRY(stk__parquet_values(s->room, s->leaf, page->encoding, body->values,
                                    body->values_length, values, count, s->reason));
    if (nulls)
        spread(values, item, nulls, rows, count);
    return STK_OK;
}

/* ---- Lists of numbers ---- */

static stk_status list_begin(sink *s)
{
    const uint64_t rows = s->piece->rows;

    s->vector->rows = rows;
    uint8_t *nulls = take(s, rows, &s->vector->nulls);
    void *places = take(s, (rows + 1) * sizeof(uint32_t), &s->vector->offsets);
    if (!nulls || !places)
        return no_room(s);
    memset(nulls, 0, rows);
    memset(places, 0, (rows + 1) * sizeof(uint32_t));
    s->vector->values = s->used;
    return STK_OK;
}

/* Levels of a page -> rows and how many values each has. *count: values, of which *there are not
 * null; *holes: of each value whether it is null, until the next page. */
static stk_status list_levels(sink *s, const stk__parquet_body *body, uint64_t levels,
                              uint64_t *count, uint64_t *there, const uint8_t **holes)
{
    const unsigned inside = s->leaf->repeated, most = s->leaf->most;
    uint8_t *part = stk__parquet_room_part(s->room, STK__PARQUET_LEVELS, 2 * levels);
    uint8_t *nulls = s->out + s->vector->nulls;
    uint32_t *places = (uint32_t *)(s->out + s->vector->offsets);
    uint64_t at = s->values;

    *there = 0;
    *holes = part;
    if (!part)
        return no_memory(s);
    const uint8_t *again = part, *defined = part + levels;
    STK_TRY(answer(s, stk__parquet_levels(s->room->codecs, body->repetition,
                                          body->repetition_length, 1, part, levels)));
    STK_TRY(answer(s, stk__parquet_levels(s->room->codecs, body->definition,
                                          body->definition_length, most, part + levels, levels)));
    for (uint64_t i = 0; i < levels; i++) {
        const bool element = defined[i] >= inside;
        if (!again[i]) {
            if (s->rows == s->piece->rows)
                return fail(s, "a page has more rows than its column says; write the file again");
            nulls[s->rows] = defined[i] + 1u < inside;
            places[s->rows++] = (uint32_t)at;
        } else if (!s->rows || !element) {
            return fail(s, "its repetition levels are damaged");
        }
        const bool hole = element && defined[i] < most;
        if (hole)
            nulls[s->rows - 1] = STK__TABLE_HOLES;
        if (element) /* levels up to this one have been looked at */
            part[at - s->values] = hole;
        at += element;
        *there += element && !hole;
    }
    places[s->rows] = (uint32_t)at;
    *count = at - s->values;
    return STK_OK;
}

/* Codes -> values of the dictionary of the same chunk. */
static stk_status look_up(sink *s, const stk__parquet_body *body, uint8_t *out, uint64_t count)
{
    const uint64_t item = stk__parquet_item(s->leaf);
    stk__parquet_runs runs;
    uint32_t codes[CODES];

    if (!count)
        return STK_OK;
    STK_TRY(begin_codes(s, body, &runs));
    for (uint64_t done = 0, n; done < count; done += n) {
        n = STK_MIN(count - done, CODES);
        STK_TRY(take_codes(s, &runs, codes, n, s->num_entries));
        stk__parquet_look_up(s->room->codecs, s->entries, codes, (uint32_t)item, out + done * item,
                             n);
    }
    return STK_OK;
}

/* Values of a page, without those that are null: codes, where the page is a piece of them. */
static stk_status list_values(sink *s, const stk__parquet_page *page, const stk__parquet_body *body,
                              uint8_t *out, uint64_t count)
{
    if (s->vector->codes)
        return read_codes(s, body, (uint32_t *)out, count, s->leaf->entries);
    if (is_codes(page))
        return count ? look_up(s, body, out, count) : STK_OK;
    return stk__parquet_values(s->room, s->leaf, page->encoding, body->values, body->values_length,
                               out, count, s->reason);
}

static stk_status list_page(sink *s, const stk__parquet_page *page, const stk__parquet_body *body)
{
    /* Those of a page stay codes; a chunk that is one piece may have other pages behind it. */
    const bool codes = is_codes(page) && s->leaf->form == STK__PARQUET_PAGE && s->leaf->entries;
    const uint64_t item = codes ? sizeof(uint32_t) : stk__parquet_item(s->leaf);
    uint64_t count = 0, there = 0, at;
    const uint8_t *holes = NULL;

    if ((uint64_t)page->values > s->leaf->room)
        return no_room(s);
    STK_TRY(list_levels(s, body, (uint64_t)page->values, &count, &there, &holes));
    if (is_codes(page) && !codes && s->leaf->form == STK__PARQUET_PAGE && there)
        return fail(s, "its codes are of a dictionary that it does not have");
    if (count > s->leaf->room - s->values)
        return no_room(s);
    s->used = s->vector->values + s->values * item;
    uint8_t *values = take(s, count * item, &at);
    if (!values)
        return no_room(s);
    s->values += count;
    s->vector->codes = codes;
    STK_TRY(list_values(s, page, body, values, there));
    if (there < count)
        spread(values, item, holes, count, there);
    for (uint64_t i = 0; codes && there < count && i < count; i++)
        if (holes[i])
            ((uint32_t *)values)[i] = STK__TABLE_NO_PIECE;
    return STK_OK;
}

/* ---- Dictionaries ---- */

static stk_status dictionary_page(sink *s, const stk__parquet_page *page,
                                  const stk__parquet_body *body)
{
    const uint64_t rows = s->piece->rows;

    if ((uint64_t)page->values != rows)
        return fail(s, "a dictionary has another size than it had; was the file written over?");
    s->vector->rows = rows;
    if (stk__parquet_is_text(s->leaf))
        return flat_texts(s, STK__PARQUET_PLAIN, body, rows, NULL, rows);
    uint8_t *values = take(s, rows * stk__parquet_item(s->leaf), &s->vector->values);
    if (!values)
        return no_room(s);
    return stk__parquet_values(s->room, s->leaf, STK__PARQUET_PLAIN, body->values,
                               body->values_length, values, rows, s->reason);
}

/* That of a chunk which is one piece. */
static stk_status chunk_dictionary(sink *s, const stk__parquet_page *page,
                                   const stk__parquet_body *body)
{
    const uint64_t count = (uint64_t)page->values, item = stk__parquet_item(s->leaf);

    if (s->entries)
        return fail(s, "a column chunk has two dictionaries");
    /* Of each entry there are at least as many bytes as bits of it. */
    if (count > 8 * body->values_length)
        return fail(s, "a dictionary says more entries than it has");
    s->entries = stk__parquet_room_part(s->room, STK__PARQUET_ENTRIES, count * item);
    if (!s->entries)
        return no_memory(s);
    s->num_entries = count;
    return stk__parquet_values(s->room, s->leaf, STK__PARQUET_PLAIN, body->values,
                               body->values_length, s->entries, count, s->reason);
}

/* ---- Chunks of numbers ---- */

/* Values of a page to their rows, of which the first is `row`; what is decoded is without codes. */
static stk_status chunk_values(sink *s, const stk__parquet_page *page,
                               const stk__parquet_body *body, uint64_t row, uint64_t rows)
{
    const uint64_t item = stk__parquet_item(s->leaf);
    const unsigned most = s->leaf->most;
    uint8_t *nulls = s->out + s->vector->nulls + row;
    uint8_t *values = s->out + s->vector->values + row * item;
    uint64_t count = rows;

    if (most && !stk__parquet_levels_full(s->room->codecs, body->definition,
                                          body->definition_length, most, rows)) {
        STK_TRY(answer(s, stk__parquet_levels(s->room->codecs, body->definition,
                                              body->definition_length, most, nulls, rows)));
        count = 0;
        for (uint64_t i = 0; i < rows; i++) {
            nulls[i] = nulls[i] < most;
            count += !nulls[i];
        }
    }
    STK_TRY(is_codes(page) ? look_up(s, body, values, count)
                           : stk__parquet_values(s->room, s->leaf, page->encoding, body->values,
                                                 body->values_length, values, count, s->reason));
    if (count < rows) {
        spread(values, item, nulls, rows, count);
        s->any_nulls = true;
    }
    return STK_OK;
}

/* What `nulls` says of the rows of a page that failed: its reason, from 2 on. */
static uint8_t bad_of(stk_status status)
{
    return status == STK_ECHECKSUM ? 3 : status == STK_EKIND ? 4 : 2;
}

/* The next rows have no value, for a reason of the format. */
static void chunk_bad(sink *s, uint64_t rows, stk_status status)
{
    const uint64_t item = stk__parquet_item(s->leaf);

    memset(s->out + s->vector->nulls + s->rows, bad_of(status), rows);
    memset(s->out + s->vector->values + s->rows * item, 0, rows * item);
    s->rows += rows;
    s->any_nulls = true;
}

/* A page that is damaged is no failure of the others. */
static stk_status chunk_page(sink *s, const stk__parquet_page *page, const uint8_t *data)
{
    const uint64_t rows = STK_MIN((uint64_t)page->values, s->piece->rows - s->rows),
                   item = stk__parquet_item(s->leaf);
    const bool as_stored = s->leaf->as == STK__PARQUET_AS_STORED && page->type != STK__PARQUET_DICT;
    const stk__parquet_home home = {s->out + s->vector->values + s->rows * item, rows * item};
    stk__parquet_body body;

    if (page->type == STK__PARQUET_INDEX_PAGE)
        return STK_OK;
    stk_status status = stk__parquet_page_open(page, s->leaf, s->room, data,
                                               as_stored ? &home : NULL, &body, s->reason);
    if (page->type == STK__PARQUET_DICT) {
        status = status == STK_OK ? chunk_dictionary(s, page, &body) : status;
        if (status != STK_OK)
            s->entries_status = status;
        return status == STK_ENOMEM ? status : STK_OK;
    }
    if (status == STK_OK && is_codes(page))
        status = s->entries_status;
    if (status == STK_OK && rows < (uint64_t)page->values)
        status = STK_EFORMAT;
    if (status == STK_OK)
        status = chunk_values(s, page, &body, s->rows, rows);
    if (status == STK_ENOMEM)
        return status;
    if (status != STK_OK)
        chunk_bad(s, rows, status);
    else
        s->rows += rows;
    return STK_OK;
}

static stk_status flat_chunk(sink *s, const uint8_t *data)
{
    const uint64_t rows = s->piece->rows;
    uint64_t at = 0;

    s->vector->rows = rows;
    uint8_t *nulls = take(s, rows, &s->vector->nulls);
    uint8_t *values = take(s, rows * stk__parquet_item(s->leaf), &s->vector->values);
    if (!nulls || !values)
        return no_room(s);
    memset(nulls, 0, rows);
    while (at < s->piece->length && s->rows < rows) {
        stk__parquet_page page;
        bool more;
        const uint64_t left = s->piece->length - at;
        if (stk__parquet_page_read(data + at, left, &page, &more) ||
            (uint64_t)page.compressed > left - page.header ||
            (page.type != STK__PARQUET_INDEX_PAGE && page.type != STK__PARQUET_DICT &&
             page.type != STK__PARQUET_DATA && page.type != STK__PARQUET_DATA2))
            break;
        STK_TRY(chunk_page(s, &page, data + at + page.header));
        at += page.header + (uint64_t)page.compressed;
    }
    if (s->rows < rows)
        chunk_bad(s, rows - s->rows, STK_EFORMAT);
    if (!s->any_nulls)
        s->vector->nulls = 0;
    return STK_OK;
}

/* ---- Pages of a piece ---- */

static stk_status one_page(sink *s, const stk__parquet_page *page, const uint8_t *data)
{
    const bool dictionary = page->type == STK__PARQUET_DICT;
    stk__parquet_body body;

    if (page->type == STK__PARQUET_INDEX_PAGE && s->leaf->form == STK__PARQUET_CHUNK)
        return STK_OK;
    if (!dictionary && page->type != STK__PARQUET_DATA && page->type != STK__PARQUET_DATA2)
        return fail(s, "a page is of a kind that does not exist");
    if (s->leaf->form != STK__PARQUET_CHUNK &&
        dictionary != (s->leaf->form == STK__PARQUET_DICTIONARY))
        return fail(s, "a page is of another kind than the footer says");
    STK_TRY(stk__parquet_page_open(page, s->leaf, s->room, data, NULL, &body, s->reason));
    if (s->leaf->form == STK__PARQUET_DICTIONARY)
        return dictionary_page(s, page, &body);
    if (dictionary)
        return chunk_dictionary(s, page, &body);
    return s->leaf->repeated ? list_page(s, page, &body) : flat_page(s, page, &body);
}

static stk_status all_pages(sink *s, const uint8_t *data)
{
    uint64_t at = 0;

    do {
        stk__parquet_page page;
        bool more;
        const uint64_t left = s->piece->length - at;
        STK_TRY(answer(s, stk__parquet_page_read(data + at, left, &page, &more)));
        if ((uint64_t)page.compressed > left - page.header)
            return fail(s, "a page is longer than its column");
        STK_TRY(one_page(s, &page, data + at + page.header));
        at += page.header + (uint64_t)page.compressed;
    } while (s->leaf->form == STK__PARQUET_CHUNK && at < s->piece->length);
    return STK_OK;
}

stk_status stk__parquet_decode(stk__parquet_room *room, const stk__parquet_leaf *leaf,
                               const stk__table_piece *piece, const uint8_t *data, void *out,
                               const char **reason)
{
    sink s = {
        .room = room, .leaf = leaf, .piece = piece, .vector = out, .out = out, .reason = reason};
    const bool list = leaf->repeated && leaf->form != STK__PARQUET_DICTIONARY;
    uint64_t size;

    /* The sizes of a piece are the format's own; nothing is done with others. */
    if (!stk__parquet_decoded(leaf, piece->rows, &size) || size > piece->decoded)
        return no_room(&s);
    *s.vector = (stk__table_vector){0};
    s.used = eight(sizeof *s.vector);
    if (leaf->form == STK__PARQUET_CHUNK && !list)
        return flat_chunk(&s, data);
    if (list)
        STK_TRY(list_begin(&s));
    STK_TRY(all_pages(&s, data));
    if (list && s.rows != piece->rows)
        return fail(&s, "a page has fewer rows than its column says; write the file again");
    return STK_OK;
}
