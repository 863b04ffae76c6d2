/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Parquet file holds: its end is read, with the footer and often the indexes of its pages in
 * it, and what of the footer is in front of that. Then come the row groups, one behind the other.
 */
#include "dataset/table/parquet.h"

#define MAGIC       "PAR1"
#define MAGIC_CRYPT "PARE"
#define MAGIC_BYTES 4
#define TAIL_BYTES  (UINT64_C(64) << 10)
#define END_BYTES   8                     /* length of the footer, magic */
#define FOOTER_MOST (UINT64_C(512) << 20) /* bytes */
#define INDEX_MOST  (UINT64_C(8) << 20)   /* of indexes that are read at once */
#define LEAST_BYTES (MAGIC_BYTES + END_BYTES)

/* ---- Bytes ---- */

static stk_status no_memory(const stk__parquet_scan *s, stk_error *err)
{
    return stk__table_file_fail(s->file, STK_ENOMEM, STK_NO_OFFSET, err,
                                "no memory to read what it holds");
}

stk_status stk__parquet_see(stk__parquet_scan *s, uint64_t offset, uint64_t length, uint64_t more,
                            const uint8_t **out, stk_error *err)
{
    if (offset > s->size || length > s->size - offset)
        return stk__table_file_fail(s->file, STK_ETRUNCATED, offset, err,
                                    "it says that %llu bytes lie there, and ends after %llu",
                                    (unsigned long long)length, (unsigned long long)s->size);
    if (offset >= s->footer_at) {
        *out = s->footer + (offset - s->footer_at);
        return STK_OK;
    }
    if (s->window.data && offset >= s->window.at && length <= s->window.length &&
        offset - s->window.at <= s->window.length - length) {
        *out = s->window.data + (offset - s->window.at);
        return STK_OK;
    }
    const uint64_t wanted = STK_MIN(STK_MAX(length, more), s->size - offset);
    if (wanted > s->window.room) {
        stk__free(s->ctx, s->window.data);
        s->window.room = 0;
        s->window.data = wanted <= stk__memory_left(s->ctx) ? stk__alloc(s->ctx, wanted) : NULL;
        if (!s->window.data)
            return no_memory(s, err);
        s->window.room = wanted;
    }
    s->window.length = 0;
    STK_TRY(stk__table_file_read(s->file, offset, s->window.data, wanted, err));
    s->window.at = offset;
    s->window.length = wanted;
    *out = s->window.data;
    return STK_OK;
}

/* ---- The end of the file ---- */

static stk_status check_magic(const stk__parquet_scan *s, const uint8_t *magic, uint64_t offset,
                              stk_error *err)
{
    if (!memcmp(magic, MAGIC_CRYPT, MAGIC_BYTES))
        return stk__table_file_fail(s->file, STK_EKIND, offset, err,
                                    "its footer is encrypted (PARE), which is not read; write it "
                                    "without encryption");
    if (memcmp(magic, MAGIC, MAGIC_BYTES) != 0)
        return stk__table_file_fail(s->file, STK_EFORMAT, offset, err,
                                    "it does not end with PAR1, so that it is no Parquet file, or "
                                    "not whole; fetch it again");
    return STK_OK;
}

/* The last `length` bytes of the file -> footer. */
static stk_status keep_end(stk__parquet_scan *s, uint64_t length, stk_error *err)
{
    const uint64_t old = s->footer_length;
    uint8_t *more = length <= stk__memory_left(s->ctx) ? stk__alloc(s->ctx, length) : NULL;

    if (!more)
        return no_memory(s, err);
    if (old)
        memcpy(more + (length - old), s->footer, old);
    stk__free(s->ctx, s->footer);
    s->footer = more;
    s->footer_length = length;
    s->footer_at = s->size - length;
    return stk__table_file_read(s->file, s->footer_at, more, length - old, err);
}

/* *meta: FileMetaData. */
static stk_status read_end(stk__parquet_scan *s, stk__thrift *meta, stk_error *err)
{
    if (s->size < LEAST_BYTES)
        return stk__table_file_fail(s->file, STK_EFORMAT, 0, err,
                                    "it has %llu bytes, and a Parquet file has 12 at least",
                                    (unsigned long long)s->size);
    STK_TRY(keep_end(s, STK_MIN(TAIL_BYTES, s->size), err));
    const uint8_t *end = s->footer + s->footer_length;
    STK_TRY(check_magic(s, end - MAGIC_BYTES, s->size - MAGIC_BYTES, err));
    const uint64_t length = stk__little_endian(end - END_BYTES, 4);
    if (length > s->size - LEAST_BYTES || length > FOOTER_MOST)
        return stk__table_file_fail(s->file, STK_EFORMAT, s->size - END_BYTES, err,
                                    "its footer would have %llu bytes, and the file has %llu; "
                                    "fetch it again",
                                    (unsigned long long)length, (unsigned long long)s->size);
    if (length + END_BYTES > s->footer_length)
        STK_TRY(keep_end(s, length + END_BYTES, err));
    meta->end = s->footer + s->footer_length - END_BYTES;
    meta->at = meta->end - length;
    meta->bad = false;
    stk__table_file_print(s->file, meta->at, length);
    return STK_OK;
}

static stk_status damaged(const stk__parquet_scan *s, const char *what, stk_error *err)
{
    return stk__table_file_fail(s->file, STK_EFORMAT, s->footer_at, err,
                                "its footer is damaged: %s; fetch it again", what);
}

/* ---- Columns ---- */

static stk_status add_columns(stk__parquet_scan *s, const stk__parquet_footer *footer,
                              stk_error *err)
{
    const char *wrong = NULL;

    const stk_status status = stk__parquet_schema_read(s->ctx, footer->schema, &s->schema, &wrong);
    if (status != STK_OK)
        return stk__table_file_fail(s->file, status, s->footer_at, err,
                                    "the schema of it cannot be read: %s", wrong);
    const stk__table_columns columns = {&s->schema.columns->column, s->schema.count,
                                        sizeof *s->schema.columns};
    STK_TRY(stk__table_shapes(s->schema.ctx, (const char *)footer->fields.data,
                              footer->fields.length, &columns, err));
    uint32_t number = 0;
    for (uint32_t i = 0; i < s->schema.count; i++) {
        stk__parquet_column *c = &s->schema.columns[i];
        if (c->number == STK__PARQUET_NONE_NUMBER)
            continue;
        c->number = number++;
        STK_TRY(stk__table_file_column(s->file, &c->column, &c->wanted, err));
        c->wanted &= c->column.kind != STK__COLUMN_REFUSED;
    }
    return STK_OK;
}

/* ---- Row groups ---- */

static stk_status check_chunk(const stk__parquet_scan *s, const stk__parquet_column *c,
                              const stk__parquet_chunk *chunk, stk_error *err)
{
    const char *name = c->column.name;

    if (chunk->encrypted)
        return stk__table_file_fail(s->file, STK_EKIND, s->footer_at, err,
                                    "column %s of row group %u is encrypted, which is not read; "
                                    "leave it out by columns=",
                                    name, s->group);
    if (chunk->elsewhere)
        return stk__table_file_fail(s->file, STK_EKIND, s->footer_at, err,
                                    "column %s of row group %u lies in another file, which is not "
                                    "read; name the file that holds it",
                                    name, s->group);
    if (!chunk->has_meta || chunk->type != (int32_t)c->leaf.type)
        return stk__table_file_fail(s->file, STK_EFORMAT, s->footer_at, err,
                                    "column %s of row group %u is not of the type of the schema",
                                    name, s->group);
    if (chunk->codec == STK__PARQUET_BROTLI && !stk__parquet_codec_known((uint32_t)chunk->codec))
        return stk__table_file_fail(
            s->file, STK_ENOTSUP, s->footer_at, err,
            "column %s of row group %u is compressed by brotli, which is not built in; build "
            "stoker with libbrotlidec (STOKER_WITH_BROTLI), or leave it out by columns=",
            name, s->group);
    if (!stk__parquet_codec_known((uint32_t)chunk->codec))
        return stk__table_file_fail(
            s->file, STK_EKIND, s->footer_at, err,
            "column %s of row group %u is compressed by %s (codec %d), which is not read; write it "
            "with zstd, or leave it out by columns=",
            name, s->group,
            chunk->codec >= 0 && stk__parquet_codec_name((uint32_t)chunk->codec)
                ? stk__parquet_codec_name((uint32_t)chunk->codec)
                : "a codec that is not known",
            (int)chunk->codec);
    return STK_OK;
}

static stk_status scan_group(stk__parquet_scan *s, stk__parquet_group *group, stk_error *err)
{
    if (group->chunks.bad || group->num_chunks != s->schema.count)
        return stk__table_file_fail(s->file, STK_EFORMAT, s->footer_at, err,
                                    "row group %u has %u columns, and the schema has %u", s->group,
                                    group->num_chunks, s->schema.count);
    if (!group->rows)
        return STK_OK;
    STK_TRY(stk__table_file_group(s->file, s->first_row, err));
    for (uint32_t i = 0; i < group->num_chunks; i++) {
        const stk__parquet_column *c = &s->schema.columns[i];
        stk__parquet_chunk chunk;
        if (!stk__thrift_struct(&group->chunks, &group->chunks_of))
            return damaged(s, "a column is no struct", err);
        if (!c->wanted) {
            stk__thrift_skip(&group->chunks, &group->chunks_of);
            continue;
        }
        stk__parquet_chunk_read(&group->chunks, &chunk);
        if (group->chunks.bad)
            return damaged(s, "a column of a row group", err);
        STK_TRY(check_chunk(s, c, &chunk, err));
        STK_TRY(stk__parquet_chunk_pieces(s, c, &chunk, (uint64_t)group->rows, err));
    }
    return STK_OK;
}

/* Indexes of pages lie in front of the footer, all together: one read has them. */
static stk_status read_indexes(stk__parquet_scan *s, const stk__parquet_footer *footer,
                               stk_error *err)
{
    stk__thrift groups = footer->groups;
    uint64_t least = s->footer_at;

    for (uint32_t g = 0; g < footer->num_groups && !groups.bad; g++) {
        stk__parquet_group group;
        if (!stk__thrift_struct(&groups, &footer->groups_of))
            break;
        stk__parquet_group_read(&groups, &group);
        for (uint32_t i = 0; i < group.num_chunks && i < s->schema.count && !group.chunks.bad;
             i++) {
            stk__parquet_chunk c;
            stk__parquet_chunk_read(&group.chunks, &c);
            if (!s->schema.columns[i].wanted)
                continue;
            if (c.offset_index_at > 0 && (uint64_t)c.offset_index_at < least)
                least = (uint64_t)c.offset_index_at;
            if (c.column_index_at > 0 && (uint64_t)c.column_index_at < least)
                least = (uint64_t)c.column_index_at;
        }
    }
    if (least == s->footer_at || s->footer_at - least > INDEX_MOST)
        return STK_OK;
    return keep_end(s, s->size - least, err);
}

static stk_status scan_groups(stk__parquet_scan *s, const stk__parquet_footer *footer,
                              stk_error *err)
{
    stk__thrift groups = footer->groups;
    uint64_t rows = 0;

    for (s->group = 0; s->group < footer->num_groups; s->group++) {
        stk__parquet_group group;
        if (!stk__thrift_struct(&groups, &footer->groups_of))
            break;
        stk__parquet_group_read(&groups, &group);
        if (groups.bad)
            break;
        if (group.rows < 0 || (uint64_t)group.rows > (uint64_t)footer->rows - rows)
            return stk__table_file_fail(s->file, STK_EFORMAT, s->footer_at, err,
                                        "row group %u would have %lld rows, and the file has %lld",
                                        s->group, (long long)group.rows, (long long)footer->rows);
        s->first_row = rows;
        STK_TRY(scan_group(s, &group, err));
        rows += (uint64_t)group.rows;
    }
    if (groups.bad)
        return damaged(s, "a row group", err);
    if (rows != (uint64_t)footer->rows)
        return stk__table_file_fail(s->file, STK_EFORMAT, s->footer_at, err,
                                    "its row groups have %llu rows, and the file says %lld",
                                    (unsigned long long)rows, (long long)footer->rows);
    return STK_OK;
}

/* Some writers leave the number of rows of the file at 0: then it is that of its row groups. */
static void count_rows(stk__parquet_footer *footer)
{
    stk__thrift groups = footer->groups;
    int64_t rows = 0;

    for (uint32_t g = 0; !footer->rows && g < footer->num_groups && !groups.bad; g++) {
        stk__parquet_group group;
        if (!stk__thrift_struct(&groups, &footer->groups_of))
            break;
        stk__parquet_group_read(&groups, &group);
        if (group.rows < 0 || group.rows > INT64_MAX - rows)
            return; /* which is refused */
        rows += group.rows;
    }
    if (!footer->rows && !groups.bad)
        footer->rows = rows;
}

/* parquet-mr before 1.2.9 left the header of the dictionary out of the size of a chunk
 * [PARQUET-816]. */
static bool is_short(stk__thrift_text writer)
{
    static const char name[] = "parquet-mr";
    static const uint64_t since[] = {1, 2, 9};
    const char *at = (const char *)writer.data, *end = at + writer.length;

    if (!at || writer.length < strlen(name) || memcmp(at, name, strlen(name)) != 0)
        return false;
    for (size_t i = 0; i < STK_COUNT(since); i++) {
        uint64_t number = 0;
        while (at < end && (*at < '0' || *at > '9'))
            at++;
        for (; at < end && *at >= '0' && *at <= '9' && number < 1000; at++)
            number = 10 * number + (uint64_t)(*at - '0');
        if (number != since[i])
            return number < since[i];
    }
    return false;
}

static stk_status read_footer(stk__parquet_scan *s, stk__thrift *meta, stk__parquet_footer *footer,
                              stk_error *err)
{
    stk__parquet_footer_read(meta, footer);
    if (meta->bad || footer->groups.bad || !footer->has_schema || footer->rows < 0)
        return damaged(s, "it breaks off, or says what cannot be", err);
    count_rows(footer);
    s->short_chunks = is_short(footer->writer);
    return STK_OK;
}

static stk_status scan_all(stk__parquet_scan *s, stk_error *err)
{
    stk__parquet_footer footer;
    stk__thrift meta;

    STK_TRY(read_end(s, &meta, err));
    const ptrdiff_t bytes = meta.end - meta.at;
    STK_TRY(read_footer(s, &meta, &footer, err));
    STK_TRY(add_columns(s, &footer, err));
    STK_TRY(stk__table_file_rows(s->file, (uint64_t)footer.rows, err));
    const uint64_t length = s->footer_length;
    STK_TRY(read_indexes(s, &footer, err));
    if (s->footer_length != length) { /* it has moved */
        meta.end = s->footer + s->footer_length - END_BYTES;
        meta.at = meta.end - bytes;
        STK_TRY(read_footer(s, &meta, &footer, err));
    }
    return scan_groups(s, &footer, err);
}

stk_status stk__parquet_scan_file(stk__table_file *file, const void *options, stk_error *err)
{
    stk__parquet_scan s = {
        .file = file, .ctx = stk__table_file_context(file), .size = stk__table_file_size(file)};
    stk__parquet_room room = {.ctx = s.ctx};

    (void)options;
    s.room = &room;
    s.footer_at = s.size;
    stk_status status = stk__codec_state_create(s.ctx, &room.codecs, err);
    if (status == STK_OK)
        status = scan_all(&s, err);
    stk__parquet_room_release(&room);
    stk__codec_state_destroy(&room.codecs);
    stk__parquet_schema_release(&s.schema);
    stk__free(s.ctx, s.footer);
    stk__free(s.ctx, s.window.data);
    return status;
}
