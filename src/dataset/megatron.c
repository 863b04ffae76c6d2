/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/megatron.h"

#define MAGIC      "MMIDIDX\0"         /* and the byte that ends the text: 9 in all */
#define HEAD_BYTES 34u                 /* magic, version, type, two counts */
#define PIECE      (UINT64_C(1) << 20) /* bytes of one read of a column */

/* Numbers of one width that lie one behind the other in the index, read a piece at a time. */
typedef struct column {
    uint64_t at, left; /* byte of the next piece, numbers that have not been read */
    uint32_t width;
    uint32_t have, next; /* bytes of the piece, and of them gone by */
    unsigned char *bytes;
} column;

enum { LENGTHS, POINTERS, DOCUMENTS, COLUMNS };

typedef struct reader {
    stk_store *store;
    const stk__object *index;
    column columns[COLUMNS];
    uint64_t size, token_bytes; /* of the .bin, and of a token */
    stk__documents *documents;
    stk__megatron *out;
    uint64_t bound;  /* the sequence that the next document begins with */
    uint64_t bounds; /* entries of the document index that were read */
} reader;

static stk_status damaged(const reader *r, uint64_t offset, stk_error *err, const char *what,
                          uint64_t number, long long has, unsigned long long wants)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, r->index->key, offset,
                        "tokens: %s: %s %llu is %lld where it should be %llu; write the index and "
                        "its .bin again",
                        r->index->key, what, (unsigned long long)number, has, wants);
}

stk_status stk__megatron_is_index(stk_store *store, const stk__object *index, bool *is,
                                  stk_error *err)
{
    unsigned char head[sizeof MAGIC];

    *is = false;
    if (index->size < sizeof head)
        return STK_OK;
    STK_TRY(stk__object_read(store, index, 0, sizeof head, head, err));
    *is = memcmp(head, MAGIC, sizeof head) == 0;
    return STK_OK;
}

static stk_dtype type_of(unsigned code)
{
    static const stk_dtype types[] = {
        [1] = STK_UINT8, [2] = STK_INT8,    [3] = STK_INT16,   [4] = STK_INT32,
        [5] = STK_INT64, [6] = STK_FLOAT64, [7] = STK_FLOAT32, [8] = STK_UINT16};

    return code >= 1 && code < STK_COUNT(types) ? types[code] : STK_DTYPE_NONE;
}

/* The head, and the size of the file against its counts: from then on they can be believed. */
static stk_status read_head(reader *r, stk_error *err)
{
    unsigned char head[HEAD_BYTES];
    const char *key = r->index->key;
    const uint64_t size = r->index->size;

    if (size < HEAD_BYTES)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, key, size,
                            "tokens: %s ends after %llu bytes, within the head of a Megatron index",
                            key, (unsigned long long)size);
    STK_TRY(stk__object_read(r->store, r->index, 0, HEAD_BYTES, head, err));
    if (memcmp(head, MAGIC, sizeof MAGIC) != 0)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "tokens: %s does not begin as a Megatron index (MMIDIDX); name the "
                            ".bin with index=none and its dtype to read it without",
                            key);
    const uint64_t version = stk__little_endian(head + 9, 8),
                   sequences = stk__little_endian(head + 18, 8),
                   bounds = stk__little_endian(head + 26, 8), body = size - HEAD_BYTES;
    if (version != 1)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 9,
                            "tokens: %s is of version %llu; version 1 is known", key,
                            (unsigned long long)version);
    r->out->dtype = type_of(head[17]);
    r->token_bytes = stk_dtype_size(r->out->dtype);
    if (!r->token_bytes)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 17,
                            "tokens: %s gives its tokens the type %u; 1 to 8 are known", key,
                            head[17]);
    /* No sum of these can overflow where each count alone fits into the file. */
    const bool fits = sequences <= body / 12 && bounds <= body / 8;
    const uint64_t least = fits ? 12 * sequences + 8 * bounds : 0;
    if (!fits || (body != least && body != least + sequences))
        return stk__fail_at(err, !fits || body < least ? STK_ETRUNCATED : STK_EFORMAT,
                            STK_STAGE_DATASET, key, size,
                            "tokens: %s has %llu bytes, which are not what %llu sequences and %llu "
                            "entries of documents take; copy or write it again",
                            key, (unsigned long long)size, (unsigned long long)sequences,
                            (unsigned long long)bounds);
    r->out->sequences = sequences;
    r->columns[LENGTHS] = (column){.at = HEAD_BYTES, .left = sequences, .width = 4};
    r->columns[POINTERS] =
        (column){.at = HEAD_BYTES + 4 * sequences, .left = sequences, .width = 8};
    r->columns[DOCUMENTS] = (column){.at = HEAD_BYTES + 12 * sequences, .left = bounds, .width = 8};
    return STK_OK;
}

/* The byte of the index where the number that next_number() gave last lies. */
static uint64_t place(const column *c)
{
    return c->at - c->have + c->next - c->width;
}

static stk_status next_number(reader *r, column *c, int64_t *number, stk_error *err)
{
    if (c->next == c->have) {
        const uint64_t bytes = STK_MIN(c->left * c->width, PIECE);
        if (!c->bytes)
            c->bytes = stk__alloc(r->store->context, bytes);
        if (!c->bytes)
            return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, r->index->key, c->at,
                                "tokens: no memory to read %s", r->index->key);
        STK_TRY(stk__object_read(r->store, r->index, c->at, bytes, c->bytes, err));
        c->at += bytes;
        c->have = (uint32_t)bytes;
        c->next = 0;
    }
    const uint64_t raw = stk__little_endian(c->bytes + c->next, c->width);
    *number = c->width == 4 ? (int32_t)(uint32_t)raw : (int64_t)raw;
    c->next += c->width;
    c->left--;
    return STK_OK;
}

/* Documents that begin at sequence `s`, behind `tokens` tokens. */
static stk_status begin_documents(reader *r, uint64_t s, uint64_t tokens, stk_error *err)
{
    column *c = &r->columns[DOCUMENTS];
    int64_t next = 0;

    while (r->bound == s && c->left) {
        STK_TRY(next_number(r, c, &next, err));
        const bool first = r->bounds == 0;
        if (first ? next != 0 : next < (int64_t)s || next > (int64_t)r->out->sequences)
            return damaged(r, place(c), err, "entry of documents", r->bounds, next,
                           first ? 0 : r->out->sequences);
        r->bounds++;
        r->bound = (uint64_t)next;
        if (r->documents)
            STK_TRY(
                stk__documents_add(r->store->context, r->documents, tokens, r->index->key, err));
    }
    return STK_OK;
}

static stk_status read_sequence(reader *r, uint64_t s, stk_error *err)
{
    column *lengths = &r->columns[LENGTHS], *pointers = &r->columns[POINTERS];
    const uint64_t at = r->out->tokens * r->token_bytes;
    int64_t length = 0, pointer = 0;

    STK_TRY(begin_documents(r, s, r->out->tokens, err));
    STK_TRY(next_number(r, lengths, &length, err));
    STK_TRY(next_number(r, pointers, &pointer, err));
    if (pointer < 0 || (uint64_t)pointer != at)
        return damaged(r, place(pointers), err, "the place of sequence", s, pointer, at);
    if (length < 0 || (uint64_t)length > (r->size - at) / r->token_bytes)
        return stk__fail_at(err, length < 0 ? STK_EFORMAT : STK_ETRUNCATED, STK_STAGE_DATASET,
                            r->index->key, place(lengths),
                            "tokens: %s: sequence %llu has %lld tokens at byte %llu, and the .bin "
                            "has %llu bytes; write or copy both again",
                            r->index->key, (unsigned long long)s, (long long)length,
                            (unsigned long long)at, (unsigned long long)r->size);
    r->out->tokens += (uint64_t)length;
    return STK_OK;
}

static stk_status read_body(reader *r, stk_error *err)
{
    const uint64_t all = r->out->sequences;

    for (uint64_t s = 0; s < all; s++)
        STK_TRY(read_sequence(r, s, err));
    STK_TRY(begin_documents(r, all, r->out->tokens, err));
    if (r->bounds == 0 || r->bound != all || r->columns[DOCUMENTS].left)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, r->index->key, STK_NO_OFFSET,
                            "tokens: %s: its documents do not end with its last sequence, %llu; "
                            "write the index again",
                            r->index->key, (unsigned long long)all);
    r->out->documents = r->bounds - 1;
    if (r->out->tokens * r->token_bytes != r->size)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, r->index->key, STK_NO_OFFSET,
                            "tokens: the .bin of %s has %llu bytes and its sequences %llu: one of "
                            "the two is of another dataset, or was not written to its end",
                            r->index->key, (unsigned long long)r->size,
                            (unsigned long long)(r->out->tokens * r->token_bytes));
    if (!r->documents)
        return STK_OK;
    return stk__documents_add(r->store->context, r->documents, r->out->tokens, r->index->key, err);
}

stk_status stk__megatron_read(stk_store *store, const stk__object *index, uint64_t size,
                              stk__documents *documents, stk__megatron *out, stk_error *err)
{
    reader r = {.store = store, .index = index, .size = size, .documents = documents, .out = out};

    *out = (stk__megatron){0};
    stk_status status = read_head(&r, err);
    if (status == STK_OK)
        status = read_body(&r, err);
    for (int c = 0; c < COLUMNS; c++)
        stk__free(store->context, r.columns[c].bytes);
    return status;
}
