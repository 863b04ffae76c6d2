/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is messages one behind the other: FF FF FF FF (not before Arrow 0.15), the length of the
 * metadata as 4 bytes, a Message, then its body. A file is a stream between two magic texts, and
 * behind it a Footer, its length as 4 bytes: the Footer lists where the batches lie.
 */
#include "dataset/table/arrow.h"

#define MAGIC       STK__ARROW_MAGIC
#define MAGIC_BYTES STK__ARROW_MAGIC_BYTES
#define TAIL        (4u + MAGIC_BYTES)
#define LEAD        8u /* the magic and two zeros */
#define WINDOW      (UINT64_C(16) << 10)
#define BLOCK       24u /* bytes of a Block */

enum { FOOTER_SCHEMA = 1, FOOTER_DICTIONARIES, FOOTER_BATCHES };
enum { MESSAGE_VERSION, MESSAGE_TYPE, MESSAGE_HEADER, MESSAGE_BODY };
enum { IS_SCHEMA = 1, IS_DICTIONARY, IS_BATCH };
enum { V4 = 3, V5 };

/* A message, whose metadata are in memory of their own. */
typedef struct message {
    uint64_t at, metadata, body, end; /* bytes of the file: where these begin */
    uint8_t *bytes;
    size_t room;
    stk__flat flat;
    stk__flat_table header;
    int64_t type;
} message;

static stk_status no_memory(const stk__arrow_scan *scan, uint64_t at, stk_error *err)
{
    return stk__table_file_fail(
        scan->file, STK_ENOMEM, at, err,
        "no memory to read what it says of its batches; raise memory_limit");
}

static stk_status ends_early(const stk__arrow_scan *scan, uint64_t at, stk_error *err)
{
    return stk__table_file_fail(scan->file, STK_ETRUNCATED, at, err,
                                "a message of Arrow IPC does not end before byte %llu; copy or "
                                "write the file again",
                                (unsigned long long)scan->end);
}

stk_status stk__arrow_look(stk__arrow_scan *scan, uint64_t at, uint64_t size, const uint8_t **out,
                           stk_error *err)
{
    const uint64_t file = stk__table_file_size(scan->file);

    if (at > file || size > file - at || size > UINT32_MAX)
        return ends_early(scan, at, err);
    if (at < scan->window_at || at + size > scan->window_at + scan->window_size) {
        const uint64_t wanted = STK_MIN(STK_MAX(size, WINDOW), file - at);
        if (wanted > scan->room) {
            if (wanted > stk__memory_left(scan->schema.ctx))
                return no_memory(scan, at, err);
            stk__free(scan->schema.ctx, scan->window);
            scan->window_size = 0;
            scan->room = 0;
            scan->window = stk__alloc(scan->schema.ctx, wanted);
            if (!scan->window)
                return no_memory(scan, at, err);
            scan->room = wanted;
        }
        scan->window_size = 0;
        STK_TRY(stk__table_file_read(scan->file, at, scan->window, wanted, err));
        scan->window_at = at;
        scan->window_size = (uint32_t)wanted;
    }
    *out = scan->window ? scan->window + (at - scan->window_at) : NULL;
    return STK_OK;
}

/* ---- Messages ---- */

/* `length` bytes of metadata at m->metadata -> m->flat. */
static stk_status load(stk__arrow_scan *scan, message *m, uint32_t length, stk_error *err)
{
    stk_context *ctx = scan->schema.ctx;
    const uint8_t *bytes = NULL;

    STK_TRY(stk__arrow_look(scan, m->metadata, length, &bytes, err));
    if (length > m->room) {
        if (length > stk__memory_left(ctx))
            return no_memory(scan, m->metadata, err);
        stk__free(ctx, m->bytes);
        m->room = 0;
        m->bytes = stk__alloc(ctx, length);
        if (!m->bytes)
            return no_memory(scan, m->metadata, err);
        m->room = length;
    }
    memcpy(m->bytes, bytes, length);
    m->flat = (stk__flat){.data = m->bytes, .size = length};
    return STK_OK;
}

static stk_status check_version(stk__arrow_scan *scan, int64_t version, uint64_t at, stk_error *err)
{
    if (version != V4 && version != V5)
        return stk__table_file_fail(scan->file, STK_EKIND, at, err,
                                    "its metadata are of version V%lld; V4 and V5 are known, as of "
                                    "Arrow 0.8 and newer: write it again",
                                    (long long)version + 1);
    scan->old = version == V4;
    return STK_OK;
}

static stk_status read_message(stk__arrow_scan *scan, message *m, stk_error *err)
{
    const stk__flat_table root = stk__flat_root(&m->flat);

    m->type = stk__flat_number(&m->flat, &root, MESSAGE_TYPE, 1, 0);
    m->header = stk__flat_child(&m->flat, &root, MESSAGE_HEADER);
    const int64_t version = stk__flat_number(&m->flat, &root, MESSAGE_VERSION, 2, 0),
                  body = stk__flat_number(&m->flat, &root, MESSAGE_BODY, 8, 0);
    if (m->flat.damaged || !m->header.at || body < 0)
        return stk__table_file_fail(scan->file, STK_EFORMAT, m->metadata, err,
                                    "a message of Arrow IPC is damaged; copy or write the file "
                                    "again");
    STK_TRY(check_version(scan, version, m->metadata, err));
    if (m->body > scan->end || (uint64_t)body > scan->end - m->body)
        return ends_early(scan, m->body, err);
    m->end = m->body + (uint64_t)body;
    return STK_OK;
}

/* The message at m->at; m->type 0: the end of the stream. */
static stk_status next_message(stk__arrow_scan *scan, message *m, stk_error *err)
{
    const uint8_t *head = NULL;
    uint64_t prefix = 4;

    m->type = 0;
    if (m->at == scan->end)
        return STK_OK;
    if (scan->end - m->at < prefix)
        return ends_early(scan, m->at, err);
    STK_TRY(stk__arrow_look(scan, m->at, prefix, &head, err));
    uint32_t length = (uint32_t)stk__little_endian(head, 4);
    if (length == UINT32_MAX) {
        if (scan->end - m->at < 2 * prefix)
            return ends_early(scan, m->at, err);
        STK_TRY(stk__arrow_look(scan, m->at + prefix, 4, &head, err));
        length = (uint32_t)stk__little_endian(head, 4);
        prefix = 8;
    }
    if (!length)
        return STK_OK;
    m->metadata = m->at + prefix;
    m->body = m->metadata + length;
    if (length > INT32_MAX || m->body > scan->end)
        return ends_early(scan, m->at, err);
    STK_TRY(load(scan, m, length, err));
    return read_message(scan, m, err);
}

static stk_status take_batch(stk__arrow_scan *scan, message *m, stk_error *err)
{
    stk__table_file_print(scan->file, m->bytes, m->flat.size);
    return stk__arrow_batch(scan, &m->flat, &m->header, m->type == IS_DICTIONARY, m->body,
                            m->end - m->body, err);
}

static stk_status take_schema(stk__arrow_scan *scan, stk__flat *flat, const stk__flat_table *table,
                              stk_error *err)
{
    stk__arrow_schema *s = &scan->schema;

    stk__table_file_print(scan->file, flat->data, flat->size);
    STK_TRY(stk__arrow_schema_read(s, scan->file, flat, table, err));
    scan->spots = stk__calloc(s->ctx, s->num_nodes, sizeof *scan->spots);
    return scan->spots ? STK_OK : no_memory(scan, 0, err);
}

/* ---- A stream ---- */

static stk_status scan_stream(stk__arrow_scan *scan, message *m, stk_error *err)
{
    scan->end = stk__table_file_size(scan->file);
    scan->replaces = true;
    STK_TRY(next_message(scan, m, err));
    if (m->type != IS_SCHEMA)
        return stk__table_file_fail(scan->file, STK_EFORMAT, 0, err,
                                    "it begins neither as a file of Arrow IPC (ARROW1) nor as a "
                                    "stream, with a schema");
    STK_TRY(take_schema(scan, &m->flat, &m->header, err));
    for (;;) {
        m->at = m->end;
        STK_TRY(next_message(scan, m, err));
        if (!m->type)
            return STK_OK;
        if (m->type != IS_DICTIONARY && m->type != IS_BATCH)
            return stk__table_file_fail(scan->file, STK_EKIND, m->at, err,
                                        "it has a message of kind %lld; schemas, dictionaries and "
                                        "record batches are read",
                                        (long long)m->type);
        STK_TRY(take_batch(scan, m, err));
    }
}

/* ---- A file ---- */

static stk_status scan_block(stk__arrow_scan *scan, stk__flat *footer,
                             const stk__flat_vector *blocks, uint32_t i, int64_t type, message *m,
                             stk_error *err)
{
    const int64_t offset = stk__flat_in(footer, blocks, BLOCK, i, 0),
                  body = stk__flat_in(footer, blocks, BLOCK, i, 16);

    if (offset < (int64_t)LEAD || (uint64_t)offset >= scan->end)
        return stk__table_file_fail(
            scan->file, STK_EFORMAT, scan->end, err,
            "its footer places a batch at byte %lld; copy or write it again", (long long)offset);
    m->at = (uint64_t)offset;
    STK_TRY(next_message(scan, m, err));
    const uint64_t metadata = (uint32_t)stk__flat_in(footer, blocks, BLOCK, i, 8);
    if (m->type != type || m->body - m->at != metadata || m->end - m->body != (uint64_t)body)
        return stk__table_file_fail(scan->file, STK_EFORMAT, m->at, err,
                                    "what lies here is not the batch that the footer says; copy or "
                                    "write it again");
    return take_batch(scan, m, err);
}

static stk_status scan_blocks(stk__arrow_scan *scan, message *footer, message *m, stk_error *err)
{
    stk__flat *flat = &footer->flat;
    const stk__flat_table root = stk__flat_root(flat),
                          schema = stk__flat_child(flat, &root, FOOTER_SCHEMA);
    const stk__flat_vector dictionaries = stk__flat_list(flat, &root, FOOTER_DICTIONARIES, BLOCK),
                           batches = stk__flat_list(flat, &root, FOOTER_BATCHES, BLOCK);

    /* The version that a footer says is not always that of the messages, which say their own. */
    if (flat->damaged || !schema.at)
        return stk__table_file_fail(scan->file, STK_EFORMAT, scan->end, err,
                                    "its footer is damaged; copy or write it again");
    STK_TRY(take_schema(scan, flat, &schema, err));
    for (uint32_t i = 0; i < dictionaries.count; i++)
        STK_TRY(scan_block(scan, flat, &dictionaries, i, IS_DICTIONARY, m, err));
    for (uint32_t i = 0; i < batches.count; i++)
        STK_TRY(scan_block(scan, flat, &batches, i, IS_BATCH, m, err));
    return STK_OK;
}

static stk_status scan_file(stk__arrow_scan *scan, message *m, stk_error *err)
{
    const uint64_t size = stk__table_file_size(scan->file);
    message footer = {0};
    const uint8_t *tail = NULL;

    if (size < LEAD + TAIL)
        return ends_early(scan, size, err);
    STK_TRY(stk__arrow_look(scan, size - TAIL, TAIL, &tail, err));
    const uint64_t length = stk__little_endian(tail, 4);
    if (memcmp(tail + 4, MAGIC, MAGIC_BYTES) != 0)
        return stk__table_file_fail(scan->file, STK_ETRUNCATED, size - MAGIC_BYTES, err,
                                    "it does not end with " MAGIC
                                    ": it was not written or copied to its end");
    if (!length || length > size - LEAD - TAIL)
        return stk__table_file_fail(scan->file, STK_EFORMAT, size - TAIL, err,
                                    "its footer is to have %llu bytes; copy or write it again",
                                    (unsigned long long)length);
    footer.metadata = scan->end = size - TAIL - length;
    stk_status status = load(scan, &footer, (uint32_t)length, err);
    if (status == STK_OK)
        status = scan_blocks(scan, &footer, m, err);
    stk__free(scan->schema.ctx, footer.bytes);
    return status;
}

stk_status stk__arrow_scan_file(stk__table_file *file, const void *options, stk_error *err)
{
    stk_context *ctx = stk__table_file_context(file);
    stk__arrow_scan scan = {.file = file, .schema = {.ctx = ctx, .names = {.ctx = ctx}}};
    const uint8_t *head = NULL;
    message m = {0};

    scan.end = stk__table_file_size(file);
    stk_status status = stk__arrow_look(&scan, 0, STK_MIN(scan.end, (uint64_t)LEAD), &head, err);
    if (status != STK_OK)
        goto out;
    const bool whole = scan.end >= LEAD;
    if (whole && memcmp(head, "FEA1", 4) == 0)
        status = stk__table_file_fail(file, STK_EKIND, 0, err,
                                      "it is Feather V1; write it again as V2, which is Arrow IPC");
    else
        status = whole && memcmp(head, MAGIC, MAGIC_BYTES) == 0 ? scan_file(&scan, &m, err)
                                                                : scan_stream(&scan, &m, err);
    if (status == STK_OK)
        status = stk__table_file_rows(file, scan.rows, err);
out:
    stk__free(ctx, m.bytes);
    stk__free(ctx, scan.window);
    stk__free(ctx, scan.spots);
    stk__arrow_schema_release(&scan.schema);
    return status;
}
