/* SPDX-License-Identifier: Apache-2.0 */
/* Row groups, the indexes of their pages [PageIndex.md], and the footer. */
#include <stdio.h>

#include "convert/parquet.h"
#include "dataset/dataset.h"

#define TAIL      (4 + sizeof STK__PARQUET_MAGIC - 1) /* the length of the footer, and the magic */
#define PAGE_ROWS 20000u /* rows of a page at most, where they are small or nothing at all */

static void put_i64(stk__thrift_out *t, int field, uint64_t value)
{
    stk__thrift_out_number(t, field, STK__THRIFT_I64, (int64_t)value);
}

static void put_i32(stk__thrift_out *t, int field, int64_t value)
{
    stk__thrift_out_number(t, field, STK__THRIFT_I32, value);
}

stk_status stk__parquet_out_init(stk__parquet_out_file *file, stk_error *err)
{
    stk_context *ctx = file->base.files.job->context;

    file->files = &file->base.files;
    file->dataset = file->files->job->dataset;
    file->options = file->files->job->own;
    file->metadata.ctx = file->values.ctx = file->places.ctx = ctx;
    file->body.ctx = file->levels.ctx = file->packed.ctx = ctx;
    file->columns = stk__parquet_out_columns(file->dataset, &file->base, &file->num_columns);
    if (!file->columns)
        return stk__parquet_out_no_memory(err);
    return stk__codec_state_create(ctx, &file->state, err);
}

void stk__parquet_out_release(stk__parquet_out_file *file)
{
    stk_context *ctx = file->base.files.job->context;

    if (file->columns)
        stk__parquet_out_columns_free(ctx, file->columns, file->num_columns);
    stk__codec_state_destroy(&file->state);
    stk__bytes_release(&file->metadata);
    stk__bytes_release(&file->values);
    stk__bytes_release(&file->places);
    stk__bytes_release(&file->body);
    stk__bytes_release(&file->levels);
    stk__bytes_release(&file->packed);
    stk__free(ctx, file->chunks);
    stk__free(ctx, file->groups);
}

stk_status stk__parquet_out_begin(stk__parquet_out_file *file, stk_error *err)
{
    file->num_chunks = file->num_groups = 0;
    file->metadata.length = file->values.length = file->places.length = 0;
    return stk__shard_files_write(file->files, STK__PARQUET_MAGIC, sizeof STK__PARQUET_MAGIC - 1,
                                  err);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

static void put_bound(stk__thrift_out *t, int field, const stk__parquet_out_column *c,
                      const stk__parquet_out_bounds *bounds, bool most)
{
    uint8_t bytes[8];
    const size_t length =
        bounds->any ? stk__parquet_out_bound_put(c->field->dtype, bounds, most, bytes) : 0;

    if (field)
        stk__thrift_out_binary(t, field, bytes, length);
    else
        stk__thrift_out_element_binary(t, bytes, length);
}

static void put_statistics(stk__thrift_out *t, const stk__parquet_out_column *c)
{
    stk__thrift_out_begin(t, 12);
    put_i64(t, 3, c->chunk_nulls);
    if (c->bounds.any) {
        put_bound(t, 5, c, &c->bounds, true);
        put_bound(t, 6, c, &c->bounds, false);
    }
    stk__thrift_out_end(t);
}

/* ColumnMetaData of a chunk that begins at `at`. */
static void put_metadata(stk__thrift_out *t, const stk__parquet_out_column *c, uint64_t at)
{
    const bool levels = c->kind == STK__PARQUET_NUMBERS || stk__parquet_out_definition(c) > 0;

    put_i32(t, 1, stk__parquet_out_type_of(c));
    stk__thrift_out_list(t, 2, STK__THRIFT_I32, 1u + levels + c->codes);
    stk__thrift_out_element_number(t, STK__PARQUET_PLAIN);
    if (levels)
        stk__thrift_out_element_number(t, STK__PARQUET_RLE);
    if (c->codes)
        stk__thrift_out_element_number(t, STK__PARQUET_RLE_DICTIONARY);
    stk__parquet_out_put_path(c, t);
    put_i32(t, 4, c->compressed ? STK__PARQUET_ZSTD : STK__PARQUET_NONE);
    put_i64(t, 5, c->chunk_values);
    put_i64(t, 6, c->plain_bytes);
    put_i64(t, 7, c->pages.length);
    put_i64(t, 9, at + c->dictionary_bytes);
    if (c->dictionary_bytes)
        put_i64(t, 11, at);
    put_statistics(t, c);
    stk__thrift_out_end(t);
}

static void put_places(stk__thrift_out *t, const stk__parquet_out_column *c, uint64_t at)
{
    stk__thrift_out_list(t, 1, STK__THRIFT_STRUCT, c->num_pages);
    for (size_t i = 0; i < c->num_pages; i++) {
        stk__thrift_out_element(t);
        put_i64(t, 1, at + c->list[i].at);
        put_i32(t, 2, c->list[i].bytes);
        put_i64(t, 3, c->list[i].first_row);
        stk__thrift_out_end(t);
    }
    stk__thrift_out_end(t);
}

static bool is_null(const stk__parquet_out_page *page)
{
    return page->nulls == page->values;
}

/* Whether the pages that have values come in their order. */
static bool ascends(const stk__parquet_out_column *c)
{
    const stk__parquet_out_page *before = NULL;

    for (size_t i = 0; i < c->num_pages; i++) {
        const stk__parquet_out_page *page = &c->list[i];
        if (is_null(page))
            continue;
        if (before &&
            !stk__parquet_out_bounds_ascend(c->field->dtype, &before->bounds, &page->bounds))
            return false;
        before = page;
    }
    return true;
}

/* The index of values, of what has an order. */
static void put_index(stk__thrift_out *t, const stk__parquet_out_column *c)
{
    stk__thrift_out_list(t, 1, STK__THRIFT_TRUE, c->num_pages);
    for (size_t i = 0; i < c->num_pages; i++)
        stk__thrift_out_element_bool(t, is_null(&c->list[i]));
    for (int field = 2; field <= 3; field++) {
        stk__thrift_out_list(t, field, STK__THRIFT_BINARY, c->num_pages);
        for (size_t i = 0; i < c->num_pages; i++)
            put_bound(t, 0, c, &c->list[i].bounds, field == 3);
    }
    put_i32(t, 4, ascends(c) ? STK__PARQUET_ASCENDING : STK__PARQUET_UNORDERED);
    stk__thrift_out_list(t, 5, STK__THRIFT_I64, c->num_pages);
    for (size_t i = 0; i < c->num_pages; i++)
        stk__thrift_out_element_number(t, (int64_t)c->list[i].nulls);
    stk__thrift_out_end(t);
}

/* What the footer and the indexes will say of a chunk, before it is written at `at`. */
static stk_status note_chunk(stk__parquet_out_file *file, const stk__parquet_out_column *c,
                             uint64_t at, stk_error *err)
{
    stk__thrift_out metadata = {.to = &file->metadata}, values = {.to = &file->values},
                    places = {.to = &file->places};
    const size_t before[] = {file->metadata.length, file->values.length, file->places.length};
    stk__parquet_out_chunk *chunks =
        stk__grow(file->dataset->context, file->chunks, &file->room_chunks, file->num_chunks + 1,
                  sizeof *chunks);

    if (!chunks)
        return stk__parquet_out_no_memory(err);
    file->chunks = chunks;
    put_metadata(&metadata, c, at);
    put_places(&places, c, at);
    if (stk__parquet_out_has_bounds(c) && !c->unordered)
        put_index(&values, c);
    if (metadata.failed || values.failed || places.failed)
        return stk__parquet_out_no_memory(err);
    chunks[file->num_chunks++] =
        (stk__parquet_out_chunk){file->metadata.length - before[0], file->values.length - before[1],
                                 file->places.length - before[2]};
    return STK_OK;
}

static void clear_chunk(stk__parquet_out_column *c)
{
    c->pages.length = 0;
    c->num_pages = 0;
    c->chunk_rows = c->chunk_values = c->chunk_nulls = 0;
    c->plain_bytes = c->dictionary_bytes = 0;
    c->bounds = (stk__parquet_out_bounds){0};
    c->compressed = c->unordered = false;
}

/* ---- Row groups ------------------------------------------------------------------------------ */

static stk_status end_group(stk__parquet_out_file *file, stk_error *err)
{
    stk__parquet_out_group group = {.rows = file->group_rows, .offset = file->files->bytes};
    stk__parquet_out_group *groups =
        stk__grow(file->dataset->context, file->groups, &file->room_groups, file->num_groups + 1,
                  sizeof *groups);

    if (!groups)
        return stk__parquet_out_no_memory(err);
    file->groups = groups;
    for (uint32_t i = 0; i < file->num_columns; i++) {
        stk__parquet_out_column *c = &file->columns[i];
        STK_TRY(stk__parquet_out_page_end(file, c, err));
        STK_TRY(note_chunk(file, c, file->files->bytes, err));
        STK_TRY(stk__shard_files_write(file->files, c->pages.data, c->pages.length, err));
        group.plain_bytes += c->plain_bytes;
        clear_chunk(c);
    }
    group.bytes = file->files->bytes - group.offset;
    groups[file->num_groups++] = group;
    file->group_rows = file->group_size = 0;
    return STK_OK;
}

stk_status stk__parquet_out_add(stk__parquet_out_file *file, const stk__samples *samples, size_t i,
                                uint64_t number, stk_error *err)
{
    const stk__parquet_out_options *o = file->options;

    for (uint32_t k = 0; k < file->num_columns; k++) {
        stk__parquet_out_column *c = &file->columns[k];
        const uint64_t size = stk__samples_size(samples, i, c->number);
        if (c->rows == PAGE_ROWS)
            STK_TRY(stk__parquet_out_page_end(file, c, err));
        if (!stk__rows_has(c->row, samples, i)) {
            STK_TRY(stk__parquet_out_page_add_null(c, err));
            continue;
        }
        STK_TRY(stk__parquet_out_page_add(file, c, stk__samples_value(samples, i, c->number), size,
                                          number, err));
        if (c->kind != STK__PARQUET_PATH)
            file->group_size += size;
    }
    file->group_rows++;
    if (file->group_size >= o->row_group_size ||
        (o->row_group_rows && file->group_rows >= o->row_group_rows))
        return end_group(file, err);
    return STK_OK;
}

uint64_t stk__parquet_out_waiting(const stk__parquet_out_file *file)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < file->num_columns; i++)
        bytes += file->columns[i].pages.length + file->columns[i].values.length;
    return bytes;
}

/* ---- The footer ------------------------------------------------------------------------------ */

static void put_groups(const stk__parquet_out_file *file, uint64_t values_at, uint64_t places_at,
                       stk__thrift_out *t)
{
    const stk__parquet_out_chunk *chunk = file->chunks;
    const char *metadata = file->metadata.data;

    stk__thrift_out_list(t, 4, STK__THRIFT_STRUCT, file->num_groups);
    for (size_t g = 0; g < file->num_groups; g++) {
        const stk__parquet_out_group *group = &file->groups[g];
        stk__thrift_out_element(t);
        stk__thrift_out_list(t, 1, STK__THRIFT_STRUCT, file->num_columns);
        for (uint32_t k = 0; k < file->num_columns; k++, chunk++) {
            stk__thrift_out_element(t);
            put_i64(t, 2, 0); /* no second copy of the metadata lies in the file */
            stk__thrift_out_struct(t, 3, metadata, (size_t)chunk->metadata_bytes);
            put_i64(t, 4, places_at);
            put_i32(t, 5, (int64_t)chunk->places_bytes);
            if (chunk->values_bytes) {
                put_i64(t, 6, values_at);
                put_i32(t, 7, (int64_t)chunk->values_bytes);
            }
            stk__thrift_out_end(t);
            metadata += chunk->metadata_bytes;
            values_at += chunk->values_bytes;
            places_at += chunk->places_bytes;
        }
        put_i64(t, 2, group->plain_bytes);
        put_i64(t, 3, group->rows);
        put_i64(t, 5, group->offset);
        put_i64(t, 6, group->bytes);
        stk__thrift_out_end(t);
    }
}

/* FileMetaData, with its length and the magic. */
static bool put_footer(stk__parquet_out_file *file, uint64_t values_at, uint64_t places_at)
{
    stk__thrift_out t = {.to = &file->body};
    char maker[64];

    file->body.length = 0;
    put_i32(&t, 1, 2); /* version */
    stk__parquet_out_put_schema(&file->base, file->columns, file->num_columns, &t);
    put_i64(&t, 3, file->base.rows);
    put_groups(file, values_at, places_at, &t);
    stk__parquet_out_put_notes(file->dataset, &file->base, &t);
    snprintf(maker, sizeof maker, "stoker version %s", stk_version());
    stk__thrift_out_text(&t, 6, maker);
    stk__thrift_out_list(&t, 7, STK__THRIFT_STRUCT, file->num_columns);
    for (uint32_t i = 0; i < file->num_columns; i++) {
        stk__thrift_out_element(&t);
        stk__thrift_out_begin(&t, 1);
        stk__thrift_out_end(&t);
        stk__thrift_out_end(&t);
    }
    stk__thrift_out_end(&t);
    return !t.failed;
}

stk_status stk__parquet_out_finish(stk__parquet_out_file *file, stk_error *err)
{
    uint8_t tail[TAIL];

    if (file->group_rows)
        STK_TRY(end_group(file, err));
    const uint64_t values_at = file->files->bytes, places_at = values_at + file->values.length;
    STK_TRY(stk__shard_files_write(file->files, file->values.data, file->values.length, err));
    STK_TRY(stk__shard_files_write(file->files, file->places.data, file->places.length, err));
    if (!put_footer(file, values_at, places_at))
        return stk__parquet_out_no_memory(err);
    if (file->body.length > STK__PARQUET_MOST)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "the footer of Parquet would have %zu bytes; set a larger row_group_size, "
                         "or write shards",
                         file->body.length);
    for (int k = 0; k < 4; k++)
        tail[k] = (uint8_t)(file->body.length >> (8 * k));
    memcpy(tail + 4, STK__PARQUET_MAGIC, sizeof STK__PARQUET_MAGIC - 1);
    STK_TRY(stk__shard_files_write(file->files, file->body.data, file->body.length, err));
    return stk__shard_files_write(file->files, tail, sizeof tail, err);
}
