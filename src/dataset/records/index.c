/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an index: the table of shards, little endian.
 *
 *   header   magic, version, checksum (XXH3 of all that follows it), what it is of, counts
 *   shards   of each: size, identity, times, fingerprint, its numbers of records and parts, store
 *   parts    of each: its kind in the lowest byte, and its offset; its length: 16 bytes
 *   starts   of each record its first part, and the number of parts: 4 bytes
 *   text     kinds, then keys of the shards, each ended by a zero
 *
 * An index is never trusted: its length follows from its counts, and what is not such as scanning
 * could have given is refused. That it is of these shards, their identities tell (scan.c).
 */
#include <xxhash.h>

#include "dataset/records/records.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the index is written as it lies in memory, little endian"
#endif

#define VERSION 2u

static const char magic[8] = {'\x89', 'S', 'T', 'K', 'R', 'E', 'C', '\n'};

typedef struct index_header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t checksum; /* of all bytes behind this member */
    uint64_t of;
    uint64_t num_shards, num_records, num_parts, num_kinds, text_bytes;
} index_header;

typedef struct index_shard {
    uint64_t size, identity;
    int64_t mtime_ns, scanned_ns;
    uint64_t print, records, parts, store;
} index_shard;

#define CHECKED_FROM (offsetof(index_header, checksum) + sizeof(uint64_t))

uint64_t stk__records_index_of(const stk__record_format *format)
{
    return XXH3_64bits_withSeed(format->ops->name, strlen(format->ops->name), format->version);
}

/* Bytes of an index of these counts; false when there can be none. */
static bool index_length(const index_header *h, uint64_t *length)
{
    uint64_t a, b, c;

    return h->num_shards <= STK__RECORDS_MAX_SHARDS && h->num_parts < STK__RECORDS_MAX_PARTS &&
           h->num_records <= h->num_parts && h->num_kinds <= STK__RECORDS_MAX_KINDS &&
           stk__mul_size(h->num_shards, sizeof(index_shard), &a) &&
           stk__mul_size(h->num_parts, sizeof(stk__record_part), &b) &&
           stk__mul_size(h->num_records + 1, sizeof(uint32_t), &c) && stk__add_size(a, b, &a) &&
           stk__add_size(a, c, &a) && stk__add_size(a, sizeof *h, &a) &&
           stk__add_size(a, h->text_bytes, length);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *at, const void *data, uint64_t length)
{
    if (length)
        memcpy(at, data, length);
    return at + length;
}

static unsigned char *put_shards(unsigned char *at, const stk__records_table *t)
{
    for (size_t i = 0; i < t->num_shards; i++) {
        const stk__records_shard *s = &t->shards[i];
        const index_shard row = {s->size,  s->identity, s->mtime_ns, s->scanned_ns,
                                 s->print, s->records,  s->parts,    s->store};
        at = put(at, &row, sizeof row);
    }
    return at;
}

stk_status stk__records_index_make(const stk__records_table *t, uint64_t of, void **data,
                                   uint64_t *length)
{
    index_header h = {.version = VERSION,
                      .header_bytes = sizeof h,
                      .of = of,
                      .num_shards = t->num_shards,
                      .num_records = t->num_records,
                      .num_parts = t->num_parts,
                      .num_kinds = t->num_kinds};

    *data = NULL;
    for (uint32_t i = 0; i < t->num_kinds; i++)
        h.text_bytes += strlen(t->kinds[i]) + 1;
    for (size_t i = 0; i < t->num_shards; i++)
        h.text_bytes += strlen(t->text + t->shards[i].key) + 1;
    if (!index_length(&h, length) || *length > stk__memory_left(t->context))
        return STK_ELIMIT;
    unsigned char *bytes = stk__alloc(t->context, *length);
    if (!bytes)
        return STK_ENOMEM;
    memcpy(h.magic, magic, sizeof magic);
    unsigned char *at = put_shards(bytes + sizeof h, t);
    at = put(at, t->parts, t->num_parts * sizeof *t->parts);
    at = put(at, t->starts, (t->num_records + 1) * sizeof *t->starts);
    for (uint32_t i = 0; i < t->num_kinds; i++)
        at = put(at, t->kinds[i], strlen(t->kinds[i]) + 1);
    for (size_t i = 0; i < t->num_shards; i++)
        at = put(at, t->text + t->shards[i].key, strlen(t->text + t->shards[i].key) + 1);
    memcpy(bytes, &h, sizeof h);
    h.checksum = XXH3_64bits(bytes + CHECKED_FROM, *length - CHECKED_FROM);
    memcpy(bytes, &h, sizeof h);
    *data = bytes;
    return STK_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* What is left of the bytes. */
typedef struct bytes {
    const unsigned char *at, *end;
} bytes;

/* The next text of at most `most` bytes, which ends in the bytes; NULL: there is none. */
static const char *next_text(bytes *b, size_t most)
{
    const char *text = (const char *)b->at;
    const void *end = b->at < b->end ? memchr(b->at, 0, (size_t)(b->end - b->at)) : NULL;

    if (!end || (size_t)((const char *)end - text) > most)
        return NULL;
    b->at = (const unsigned char *)end + 1;
    return text;
}

static stk_status take_kinds(stk__records_table *t, uint64_t count, bytes *b)
{
    while (t->num_kinds < count) {
        const char *kind = next_text(b, STK__RECORDS_MAX_KIND);
        if (!kind)
            return STK_EFORMAT;
        for (uint32_t i = 0; i < t->num_kinds; i++)
            if (strcmp(t->kinds[i], kind) == 0)
                return STK_EFORMAT;
        t->kinds[t->num_kinds] = stk__strdup(t->context, kind);
        if (!t->kinds[t->num_kinds])
            return STK_ENOMEM;
        t->num_kinds++;
    }
    return STK_OK;
}

static stk_status take_keys(stk__records_table *t, bytes *b)
{
    t->text_bytes = (size_t)(b->end - b->at);
    t->text = stk__alloc(t->context, t->text_bytes);
    if (!t->text)
        return STK_ENOMEM;
    memcpy(t->text, b->at, t->text_bytes);
    for (size_t i = 0; i < t->num_shards; i++) {
        t->shards[i].key = t->text_bytes - (size_t)(b->end - b->at);
        const char *key = next_text(b, STK_MAX_OBJECT_KEY - 1);
        if (!key || !*key || stk__key_check(key, NULL) != STK_OK)
            return STK_EFORMAT;
    }
    return b->at == b->end ? STK_OK : STK_EFORMAT;
}

/* Parts of a record: one at least, each of another kind, within the shard. */
static bool sound_record(const stk__records_table *t, uint64_t record, uint64_t size)
{
    const uint32_t first = t->starts[record], end = t->starts[record + 1];

    if (end <= first || end > t->num_parts)
        return false;
    for (uint32_t i = first; i < end; i++) {
        const stk__record_part *p = &t->parts[i];
        if (p->kind >= t->num_kinds || p->offset > size || p->length > size - p->offset)
            return false;
        for (uint32_t k = first; k < i; k++)
            if (t->parts[k].kind == p->kind)
                return false;
    }
    return true;
}

/* Shards have their records one behind the other, and these their parts. */
static bool sound_shards(const stk__records_table *t)
{
    uint64_t record = 0;

    if (t->starts[0] != 0 || t->starts[t->num_records] != t->num_parts)
        return false;
    for (size_t i = 0; i < t->num_shards; i++) {
        const stk__records_shard *s = &t->shards[i];
        if (s->records > t->num_records - record || s->size > INT64_MAX ||
            s->first_part != t->starts[record])
            return false;
        for (const uint64_t end = record + s->records; record < end; record++)
            if (!sound_record(t, record, s->size))
                return false;
        if (t->starts[record] - s->first_part != s->parts)
            return false;
    }
    return record == t->num_records;
}

static stk_status take_shards(stk__records_table *t, const index_header *h, bytes *b)
{
    uint64_t records = 0, parts = 0;

    t->shards = stk__calloc(t->context, h->num_shards, sizeof *t->shards);
    if (!t->shards)
        return STK_ENOMEM;
    for (; t->num_shards < h->num_shards; t->num_shards++, b->at += sizeof(index_shard)) {
        index_shard row;
        memcpy(&row, b->at, sizeof row);
        if (row.store > UINT32_MAX || row.records > h->num_records - records ||
            row.parts > h->num_parts - parts)
            return STK_EFORMAT;
        t->shards[t->num_shards] = (stk__records_shard){.store = (uint32_t)row.store,
                                                        .size = row.size,
                                                        .identity = row.identity,
                                                        .mtime_ns = row.mtime_ns,
                                                        .scanned_ns = row.scanned_ns,
                                                        .print = row.print,
                                                        .first_record = records,
                                                        .records = row.records,
                                                        .first_part = parts,
                                                        .parts = row.parts};
        records += row.records;
        parts += row.parts;
    }
    return STK_OK;
}

static stk_status take_numbers(stk__records_table *t, const index_header *h, bytes *b)
{
    const size_t part_bytes = h->num_parts * sizeof *t->parts;
    const size_t start_bytes = (h->num_records + 1) * sizeof *t->starts;

    t->parts = stk__alloc(t->context, part_bytes);
    t->starts = stk__alloc(t->context, start_bytes);
    if (!t->parts || !t->starts)
        return STK_ENOMEM;
    memcpy(t->parts, b->at, part_bytes);
    memcpy(t->starts, b->at + part_bytes, start_bytes);
    b->at += part_bytes + start_bytes;
    t->num_records = h->num_records;
    t->num_parts = h->num_parts;
    return STK_OK;
}

static stk_status take_table(stk__records_table *t, const index_header *h, bytes *b)
{
    STK_TRY(take_shards(t, h, b));
    STK_TRY(take_numbers(t, h, b));
    STK_TRY(take_kinds(t, h->num_kinds, b));
    STK_TRY(take_keys(t, b));
    return sound_shards(t) ? STK_OK : STK_EFORMAT;
}

stk_status stk__records_index_parse(stk_context *ctx, const void *data, uint64_t length,
                                    uint64_t of, stk__records_table *out)
{
    index_header h;
    uint64_t wanted = 0;

    *out = (stk__records_table){.context = ctx};
    if (length < sizeof h)
        return STK_EFORMAT;
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != VERSION ||
        h.header_bytes != sizeof h || h.of != of || !index_length(&h, &wanted) || wanted != length)
        return STK_EFORMAT;
    if (XXH3_64bits((const unsigned char *)data + CHECKED_FROM, length - CHECKED_FROM) !=
        h.checksum)
        return STK_ECHECKSUM;
    if (length > stk__memory_left(ctx))
        return STK_ELIMIT;
    bytes b = {(const unsigned char *)data + sizeof h, (const unsigned char *)data + length};
    const stk_status status = take_table(out, &h, &b);
    if (status != STK_OK)
        stk__records_table_release(out);
    return status;
}
