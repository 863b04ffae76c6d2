/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data pages (version 1): levels, then values, compressed together, with a CRC-32 of what is stored
 * [README.md, "Data Pages"; Encodings.md]. A page holds whole rows.
 */
#include <inttypes.h>

#include "convert/parquet.h"
#include "dataset/dataset.h"

#define LENGTH      4u   /* bytes of the length of a string, of levels */
#define CODES       256u /* of a dictionary of 8 bits */
#define CODE_BITS   8u
#define LEAST_SAVED 16u /* a chunk is compressed where its first page saves a 16th */

stk_status stk__parquet_out_no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                     "no memory to write Parquet; set a smaller row_group_size");
}

static void put_u32(uint8_t to[4], uint64_t value)
{
    for (int k = 0; k < 4; k++)
        to[k] = (uint8_t)(value >> (8 * k));
}

static void put_i32(stk__thrift_out *t, int field, int64_t value)
{
    stk__thrift_out_number(t, field, STK__THRIFT_I32, value);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Bytes that `size` bytes of c->values take in a page, without levels. */
static uint64_t stored_bytes(const stk__parquet_out_column *c, uint64_t size)
{
    const size_t each = stk_dtype_size(c->field->dtype);

    if (c->kind > STK__PARQUET_NUMBERS)
        return size;
    return c->codes || c->field->dtype == STK_BOOL
               ? size
               : size / each * stk__parquet_out_width(c->field->dtype);
}

/* As PLAIN has them: integers of less than 32 bits become wider. */
static bool put_wide(stk__bytes *to, stk_dtype dtype, const uint8_t *values, uint64_t count)
{
    const unsigned size = (unsigned)stk_dtype_size(dtype);

    if (size == stk__parquet_out_width(dtype))
        return stk__bytes_put(to, values, (size_t)(count * size));
    if (!stk__bytes_reserve(to, count * 4))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = stk__little_endian(values + i * size, size);
        if (dtype == STK_INT16 && bits >> 15)
            bits |= UINT64_C(0xffff0000);
        put_u32((uint8_t *)to->data + to->length, bits);
        to->length += 4;
    }
    return true;
}

static bool put_bits(stk__bytes *to, const uint8_t *values, uint64_t count)
{
    const uint64_t bytes = (count + 7) / 8;

    if (!stk__bytes_reserve(to, bytes))
        return false;
    uint8_t *out = (uint8_t *)to->data + to->length;
    memset(out, 0, (size_t)bytes);
    for (uint64_t i = 0; i < count; i++)
        out[i / 8] |= (uint8_t)((values[i] != 0) << (i % 8));
    to->length += (size_t)bytes;
    return true;
}

/* Code k of the dictionary is the value of the bits k, so values are their own codes. */
static bool put_codes(stk__bytes *to, const uint8_t *values, uint64_t count)
{
    const uint8_t width = CODE_BITS;

    return stk__bytes_put(to, &width, 1) && stk__parquet_out_levels(to, values, count, CODE_BITS);
}

static bool put_values(stk__bytes *to, const stk__parquet_out_column *c)
{
    const uint8_t *values = (const uint8_t *)c->values.data;

    if (c->present == 0)
        return !c->codes || put_codes(to, values, 0);
    if (c->kind > STK__PARQUET_NUMBERS)
        return stk__bytes_put(to, values, c->values.length);
    if (c->codes)
        return put_codes(to, values, c->present);
    return c->field->dtype == STK_BOOL ? put_bits(to, values, c->present)
                                       : put_wide(to, c->field->dtype, values, c->present);
}

/* ---- Levels ---------------------------------------------------------------------------------- */

/* What is in file->levels, with its length before. */
static bool put_levels(stk__parquet_out_file *file, unsigned width)
{
    const uint8_t none[LENGTH] = {0};
    const size_t at = file->body.length;

    if (!stk__bytes_put(&file->body, none, sizeof none) ||
        !stk__parquet_out_levels(&file->body, (const uint8_t *)file->levels.data,
                                 file->levels.length, width))
        return false;
    put_u32((uint8_t *)file->body.data + at, file->body.length - at - LENGTH);
    return true;
}

/* Whether row `i` of the page is null. */
static bool is_null_row(const stk__parquet_out_column *c, uint64_t i)
{
    return c->nulls.length && c->nulls.data[i];
}

static bool fill_levels(stk__bytes *levels, uint8_t level, uint64_t count)
{
    if (!stk__bytes_reserve(levels, count))
        return false;
    memset(levels->data + levels->length, level, (size_t)count);
    levels->length += (size_t)count;
    return true;
}

/* Repetition: 0 begins a row. Definition, where rows may be null one more: 0 is an empty list. */
static bool put_list_levels(stk__parquet_out_file *file, const stk__parquet_out_column *c)
{
    const uint64_t *lengths = (const uint64_t *)(const void *)c->lengths.data;
    const uint8_t most = (uint8_t)stk__parquet_out_definition(c);

    file->levels.length = 0;
    for (uint64_t i = 0; i < c->rows; i++)
        if (!fill_levels(&file->levels, 0, 1) ||
            (lengths[i] && !fill_levels(&file->levels, 1, lengths[i] - 1)))
            return false;
    if (!put_levels(file, 1))
        return false;
    file->levels.length = 0;
    for (uint64_t i = 0; i < c->rows; i++) {
        const uint8_t none = is_null_row(c, i) ? 0 : most - 1;
        if (!fill_levels(&file->levels, lengths[i] ? most : none, STK_MAX(lengths[i], 1)))
            return false;
    }
    return put_levels(file, most);
}

static bool put_all_levels(stk__parquet_out_file *file, const stk__parquet_out_column *c)
{
    const uint8_t definition = (uint8_t)stk__parquet_out_definition(c);

    if (c->kind == STK__PARQUET_NUMBERS)
        return put_list_levels(file, c);
    if (definition == 0)
        return true;
    file->levels.length = 0;
    if (!fill_levels(&file->levels, definition, c->rows))
        return false;
    for (uint64_t i = 0; i < c->nulls.length; i++)
        file->levels.data[i] = (char)(definition - (c->nulls.data[i] != 0));
    return put_levels(file, c->kind >= STK__PARQUET_PICTURE ? 2 : 1);
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Levels of the page without a value: of rows that are null, of empty lists, of paths. */
static uint64_t absent(const stk__parquet_out_column *c)
{
    const uint64_t *lengths = (const uint64_t *)(const void *)c->lengths.data;
    uint64_t count = 0;

    if (c->kind != STK__PARQUET_NUMBERS)
        return c->rows - c->present;
    for (uint64_t i = 0; i < c->rows; i++)
        count += lengths[i] == 0;
    return count;
}

/* What is in file->body as it is stored: there, or compressed in file->packed. */
static stk_status pack(stk__parquet_out_file *file, const stk__bytes **out, stk_error *err)
{
    const stk__block_kind kind = {STK__BLOCK_ZSTD, (int)file->options->level, 0};
    const uint64_t length = file->body.length, bound = stk__block_bound(&kind, length);
    const char *reason = NULL;
    uint64_t got = 0;

    file->packed.length = 0;
    if (!stk__bytes_reserve(&file->packed, bound))
        return stk__parquet_out_no_memory(err);
    const stk_status status = stk__block_encode(&kind, file->state, file->body.data, length,
                                                file->packed.data, bound, &got, &reason);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_CONVERT, "a page could not be compressed: %s",
                         reason ? reason : stk_status_text(status));
    file->packed.length = (size_t)got;
    *out = &file->packed;
    return STK_OK;
}

/* A header and what is stored, behind the pages that are there. */
static stk_status put_page(stk__parquet_out_file *file, stk__parquet_out_column *c, bool dictionary,
                           uint64_t values, const stk__bytes *stored, stk_error *err)
{
    stk__thrift_out t = {.to = &c->pages};
    const size_t begun = c->pages.length;

    if (file->body.length > STK__PARQUET_MOST || stored->length > STK__PARQUET_MOST)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "the field '%.100s' has a row of %zu bytes; a page of Parquet has at most "
                         "%d",
                         c->field->name, file->body.length, STK__PARQUET_MOST);
    put_i32(&t, 1, dictionary ? STK__PARQUET_DICTIONARY_PAGE : STK__PARQUET_DATA_PAGE);
    put_i32(&t, 2, (int64_t)file->body.length);
    put_i32(&t, 3, (int64_t)stored->length);
    put_i32(&t, 4, (int32_t)stk__crc32(stored->data, stored->length));
    stk__thrift_out_begin(&t, dictionary ? 7 : 5);
    put_i32(&t, 1, (int64_t)values);
    put_i32(&t, 2, c->codes && !dictionary ? STK__PARQUET_RLE_DICTIONARY : STK__PARQUET_PLAIN);
    if (!dictionary) {
        put_i32(&t, 3, STK__PARQUET_RLE);
        put_i32(&t, 4, STK__PARQUET_RLE);
    }
    stk__thrift_out_end(&t);
    stk__thrift_out_end(&t);
    c->plain_bytes += c->pages.length - begun + file->body.length;
    if (t.failed || !stk__bytes_put(&c->pages, stored->data, stored->length))
        return stk__parquet_out_no_memory(err);
    return STK_OK;
}

/* All values of 8 bits, in the order of their bits. */
static stk_status put_dictionary(stk__parquet_out_file *file, stk__parquet_out_column *c,
                                 stk_error *err)
{
    const stk__bytes *stored = &file->body;
    uint8_t value[4];

    file->body.length = 0;
    for (unsigned k = 0; k < CODES; k++) {
        put_u32(value, c->field->dtype == STK_INT8 && k > 127 ? k | 0xffffff00u : k);
        if (!stk__bytes_put(&file->body, value, sizeof value))
            return stk__parquet_out_no_memory(err);
    }
    if (c->compressed)
        STK_TRY(pack(file, &stored, err));
    STK_TRY(put_page(file, c, true, CODES, stored, err));
    c->dictionary_bytes = c->pages.length;
    return STK_OK;
}

static bool put_body(stk__parquet_out_file *file, const stk__parquet_out_column *c)
{
    file->body.length = 0;
    return put_all_levels(file, c) && put_values(&file->body, c);
}

/* Whether a chunk is compressed, of which the first page is in file->body. */
static stk_status choose_codec(stk__parquet_out_file *file, stk__parquet_out_column *c,
                               stk_error *err)
{
    const stk__bytes *stored = &file->body;
    const bool may = file->options->codec == 0 && c->kind < STK__PARQUET_PICTURE;

    if (may)
        STK_TRY(pack(file, &stored, err));
    c->compressed = may && stored->length <= file->body.length - file->body.length / LEAST_SAVED;
    if (!c->codes)
        return STK_OK;
    STK_TRY(put_dictionary(file, c, err));
    return put_body(file, c) ? STK_OK : stk__parquet_out_no_memory(err);
}

/* What the indexes say of a page of `bytes` at `at`. */
static stk_status note_page(stk__parquet_out_file *file, stk__parquet_out_column *c, uint64_t at,
                            stk_error *err)
{
    const stk_dtype dtype = c->field->dtype;
    stk__parquet_out_page *list =
        stk__grow(file->dataset->context, c->list, &c->room_pages, c->num_pages + 1, sizeof *list);

    if (!list)
        return stk__parquet_out_no_memory(err);
    c->list = list;
    stk__parquet_out_page *page = &list[c->num_pages++];
    *page = (stk__parquet_out_page){.at = at,
                                    .first_row = c->chunk_rows,
                                    .bytes = (uint32_t)(c->pages.length - at),
                                    .nulls = absent(c)};
    page->values = c->present + page->nulls;
    if (stk__parquet_out_has_bounds(c)) {
        stk__parquet_out_bounds_take(dtype, c->values.data, c->present, &page->bounds);
        stk__parquet_out_bounds_merge(dtype, &page->bounds, &c->bounds);
    }
    c->unordered = c->unordered || (c->present && !page->bounds.any);
    c->chunk_rows += c->rows;
    c->chunk_values += page->values;
    c->chunk_nulls += page->nulls;
    return STK_OK;
}

stk_status stk__parquet_out_page_end(stk__parquet_out_file *file, stk__parquet_out_column *c,
                                     stk_error *err)
{
    const stk__bytes *stored = &file->body;

    if (c->rows == 0)
        return STK_OK;
    if (!put_body(file, c))
        return stk__parquet_out_no_memory(err);
    if (c->num_pages == 0)
        STK_TRY(choose_codec(file, c, err));
    if (c->compressed)
        STK_TRY(pack(file, &stored, err));
    const uint64_t at = c->pages.length;
    STK_TRY(put_page(file, c, false, c->present + absent(c), stored, err));
    STK_TRY(note_page(file, c, at, err));
    c->rows = c->present = 0;
    c->values.length = c->lengths.length = c->nulls.length = 0;
    return STK_OK;
}

stk_status stk__parquet_out_page_add(stk__parquet_out_file *file, stk__parquet_out_column *c,
                                     const void *data, uint64_t size, uint64_t number,
                                     stk_error *err)
{
    const bool is_path = c->kind == STK__PARQUET_PATH,
               is_string = c->kind > STK__PARQUET_NUMBERS && !is_path;
    const uint64_t values =
        c->kind == STK__PARQUET_NUMBERS ? size / stk_dtype_size(c->field->dtype) : !is_path;
    const uint64_t more = is_path ? 0 : stored_bytes(c, is_string ? size + LENGTH : size);
    uint8_t length[LENGTH];
    bool good = true;

    if (size > STK__PARQUET_MOST / 4)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "sample %" PRIu64 ": the field '%.100s' has %" PRIu64
                         " bytes; a value in Parquet has at most %d here",
                         number, c->field->name, size, STK__PARQUET_MOST / 4);
    if (c->rows && more + stored_bytes(c, c->values.length) > file->options->page_size)
        STK_TRY(stk__parquet_out_page_end(file, c, err));
    if (is_string && c->field->text && !stk__utf8_valid(data, (size_t)size))
        return stk__rows_fail_text(c->row, number, "a text of Parquet has", err);
    put_u32(length, size);
    if (is_string)
        good = stk__bytes_put(&c->values, length, sizeof length);
    if (c->kind == STK__PARQUET_NUMBERS)
        good = stk__bytes_put(&c->lengths, &values, sizeof values);
    if (!is_path)
        good = good && stk__bytes_put(&c->values, data, (size_t)size);
    if (c->row->mask >= 0 && !is_path)
        good = good && stk__bytes_put(&c->nulls, "", 1);
    if (!good)
        return stk__parquet_out_no_memory(err);
    c->present += values;
    c->rows++;
    return STK_OK;
}

stk_status stk__parquet_out_page_add_null(stk__parquet_out_column *c, stk_error *err)
{
    const uint64_t none = 0;
    bool good = true;

    if (c->kind != STK__PARQUET_PATH)
        good = stk__bytes_put(&c->nulls, "\1", 1);
    if (c->kind == STK__PARQUET_NUMBERS)
        good = good && stk__bytes_put(&c->lengths, &none, sizeof none);
    if (!good)
        return stk__parquet_out_no_memory(err);
    c->rows++;
    return STK_OK;
}
