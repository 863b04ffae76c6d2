/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of varying length [numcodecs vlen; zarr-extensions codecs/vlen-utf8, vlen-bytes]: a
 * chunk is the number of its elements as 4 bytes, little endian, then for each the number of its
 * bytes, as 4 bytes, and these. In memory an element is where its bytes are and how many, so that
 * boxes, shards and fill values go the way of all others; what a read has decoded lives until its
 * elements are gathered.
 */
#include "array/reading.h"
#include "base/base64.h"
#include "base/bytes.h"

#define COUNT_BYTES 4
#define LEAST_ROOM  (UINT64_C(1) << 16) /* that a chunk is decoded into at first */
#define GROWTH      4 /* of the room, and of a chunk that was compressed, at first */

typedef struct heap_block {
    struct heap_block *next;
    char data[];
} heap_block;

struct stk__texts {
    stk_context *context;
    heap_block *blocks;
    uint64_t held;   /* bytes of all blocks */
    uint8_t *chunk;  /* the chunk that is being decoded */
    uint64_t room;   /* bytes of `chunk` */
    uint64_t memory; /* that `held` and `room` may take together */
};

static void release(stk__texts *texts)
{
    for (heap_block *b = texts->blocks, *next; b; b = next) {
        next = b->next;
        stk__free(texts->context, b);
    }
    stk__free(texts->context, texts->chunk);
}

/* ---- Opening ---- */

stk_status stk__array_fixed(const stk_array *a, stk_error *err)
{
    if (!stk__type_varies(&a->type))
        return STK_OK;
    return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "%s: the elements of type '%s' vary in length; read them with "
                        "stk_array_read_texts()",
                        a->metadata_key, a->type.name);
}

/* Bytes as a list of numbers, or in base64. */
static bool parse_bytes(const json_t *value, char *to, uint64_t *length)
{
    const char *text = json_string_value(value);
    unsigned char *out = (unsigned char *)to;

    *length = text ? stk__base64_bytes(text) : json_array_size(value);
    return text ? stk__base64_parse(text, (uint32_t)*length, out)
                : json_is_array(value) && stk__byte_list_parse(value, (uint32_t)*length, out);
}

stk_status stk__texts_fill(stk_array *a, const json_t *value, const char *key, stk_error *err)
{
    const bool text = a->type.kind == STK__KIND_STRING, number = json_is_integer(value);
    uint64_t most = STK_MAX(json_string_length(value), json_array_size(value));
    stk_array_string fill = {.length = json_string_length(value)};

    if (number && json_integer_value(value) == 0) /* as v2 writes "nothing" */
        return STK_OK;
    a->fill_text = stk__calloc(a->context, 1, most + 1);
    if (!a->fill_text)
        return stk__array_no_memory(a, err);
    if (text && json_is_string(value))
        memcpy(a->fill_text, json_string_value(value), fill.length);
    else if (text || most > UINT32_MAX || !parse_bytes(value, a->fill_text, &fill.length))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: the fill value is none of the data type '%s'", key, a->type.name);
    fill.data = fill.length ? a->fill_text : NULL;
    memcpy(a->fill, &fill, sizeof fill);
    return STK_OK;
}

/* ---- Chunks ---- */

static stk_status no_memory(const stk_array *a, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "no memory to read the texts of %.200s", a->metadata_key);
}

static stk_status over_budget(const stk__texts *texts, const stk_array *a, stk_error *err)
{
    return stk__fail_at(err, STK_EBUDGET, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "%s: the texts of the chunks that are read take more than the %llu bytes "
                        "that are left of the memory; give the option memory more, or read less "
                        "at a time",
                        a->metadata_key, (unsigned long long)texts->memory);
}

/* Decode into a room that grows as long as there is more: nothing in a chunk says how much it is.
 */
static stk_status decode(stk__texts *texts, const stk_array *a, stk__codec_state *state,
                         const void *data, uint64_t length, uint64_t *got, const char **reason,
                         stk_error *err)
{
    uint64_t most = texts->memory > texts->held ? (texts->memory - texts->held) / 2 : 0;
    uint64_t wanted = STK_MAX(length, LEAST_ROOM);

    most = STK_MIN(most, stk__chain_size(a->chain));
    if (!stk__chain_is_copy(a->chain) && wanted <= most / GROWTH)
        wanted *= GROWTH;
    for (;; wanted *= GROWTH) {
        wanted = STK_MIN(wanted, most);
        if (wanted > texts->room) {
            stk__free(texts->context, texts->chunk);
            texts->chunk = stk__alloc_buffer(texts->context, wanted);
            texts->room = texts->chunk ? wanted : 0;
            if (!texts->chunk)
                return no_memory(a, err);
        }
        if (!texts->chunk)
            return over_budget(texts, a, err);
        stk_status status = stk__chain_decode_varying(a->chain, state, data, length, texts->chunk,
                                                      STK_MIN(texts->room, most), got, reason);
        if (status != STK_ELIMIT)
            return status;
        if (wanted == most)
            return over_budget(texts, a, err);
    }
}

/* The elements of a decoded chunk, their bytes copied to `heap`, which has room for all bytes
 * behind their numbers. */
static const char *parse(const uint8_t *chunk, uint64_t length, uint64_t count, bool text,
                         char *heap, stk_array_string *out)
{
    uint64_t at = COUNT_BYTES;

    /* What is left always holds the numbers of bytes that are still to come. */
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t bytes = stk__little_endian(chunk + at, COUNT_BYTES);
        at += COUNT_BYTES;
        if (bytes > length - at - COUNT_BYTES * (count - 1 - i))
            return "an element reaches beyond its end; copy or write it again";
        memcpy(heap, chunk + at, bytes);
        if (text && !stk__utf8_valid(heap, bytes))
            return "an element is not UTF-8; write it as bytes";
        out[i] = (stk_array_string){bytes ? heap : NULL, bytes};
        heap += bytes;
        at += bytes;
    }
    return at == length ? NULL : "there are bytes behind its last element; copy or write it again";
}

static const char *take_chunk(stk__texts *texts, const stk_array *a, uint64_t length,
                              uint64_t count, stk_array_string *out, stk_status *status)
{
    uint64_t heads = COUNT_BYTES + COUNT_BYTES * count; /* 16 times `count` fits memory */

    *status = STK_EFORMAT;
    if (length < COUNT_BYTES || stk__little_endian(texts->chunk, COUNT_BYTES) != count)
        return "it does not have as many elements as its shape asks for; copy or write it again";
    if (length < heads)
        return "it ends before its last element; copy or write it again";
    heap_block *block = stk__alloc(texts->context, sizeof *block + (length - heads) + 1);
    if (!block) {
        *status = STK_ENOMEM;
        return "no memory for its texts";
    }
    block->next = texts->blocks;
    texts->blocks = block;
    texts->held += length - heads;
    const char *reason =
        parse(texts->chunk, length, count, a->type.kind == STK__KIND_STRING, block->data, out);
    *status = reason ? STK_EFORMAT : STK_OK;
    return reason;
}

stk_status stk__texts_decode(stk__texts *texts, const stk_array *a, stk__codec_state *state,
                             const stk__need *need, const void *data, stk_array_string *out,
                             stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    const char *reason = "";
    uint64_t got = 0;

    stk_error_init(err);
    stk_status status = decode(texts, a, state, data, need->length, &got, &reason, err);
    if (status == STK_OK)
        reason = take_chunk(texts, a, got, a->chunk_bytes / sizeof *out, out, &status);
    if (status == STK_OK || status == STK_EBUDGET || (status == STK_ENOMEM && !*reason))
        return status;
    stk__array_key(a, need->object, key, sizeof key);
    return stk__fail_at(err, status, STK_STAGE_ARRAY, key, need->offset,
                        "%s: the chunk of %llu bytes at byte %llu, of elements of varying length: "
                        "%s",
                        key, (unsigned long long)need->length, (unsigned long long)need->offset,
                        reason);
}

/* ---- Boxes ---- */

typedef struct result {
    stk_array_texts texts; /* first: what the caller has */
    stk_context *context;
    uint64_t offsets[];
} result;

/* One allocation: the struct, the offsets and the bytes. */
static stk_status gather(const stk__texts *texts, const stk_array *a,
                         const stk_array_string *elements, uint64_t count, stk_array_texts **out,
                         stk_error *err)
{
    uint64_t bytes = 0, size;

    for (uint64_t i = 0; i < count; i++)
        if (!stk__add_size(bytes, elements[i].length, &bytes))
            return no_memory(a, err);
    if (bytes > texts->memory) /* of chunks it is not; a fill value may stand for many */
        return over_budget(texts, a, err);
    if (!stk__mul_size(count + 1, sizeof(uint64_t), &size) ||
        !stk__add_size(size, sizeof(result), &size) || !stk__add_size(size, bytes, &size))
        return no_memory(a, err);
    result *r = stk__alloc_buffer(a->context, size);
    if (!r)
        return no_memory(a, err);
    char *values = (char *)(r->offsets + count + 1);
    r->context = stk__context_ref(a->context);
    r->texts = (stk_array_texts){sizeof r->texts, count, r->offsets, values};
    r->offsets[0] = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (elements[i].length)
            memcpy(values + r->offsets[i], elements[i].data, elements[i].length);
        r->offsets[i + 1] = r->offsets[i] + elements[i].length;
    }
    *out = &r->texts;
    return STK_OK;
}

static stk_status read_box(stk_array *a, const stk__box *box, uint64_t bytes, int64_t timeout_ms,
                           stk_array_texts **out, stk_error *err)
{
    uint64_t deadline =
        timeout_ms < 0 ? UINT64_MAX : stk__now_ns() + (uint64_t)timeout_ms * 1000000u;
    stk__texts texts = {.context = a->context,
                        .memory = a->options.memory - a->options.memory / STK__TEXTS_READ};
    int64_t strides[STK_ARRAY_MAX_RANK];

    stk_array_string *elements = stk__alloc_buffer(a->context, STK_MAX(bytes, 1));
    if (!elements)
        return no_memory(a, err);
    stk__array_strides(a->rank, box->shape, a->type.itemsize, strides);
    stk_status status =
        bytes ? stk__array_read_box(a, box, bytes, elements, strides, &texts, deadline, err)
              : STK_OK;
    if (status == STK_OK)
        status = gather(&texts, a, elements, bytes / sizeof *elements, out, err);
    stk__free(a->context, elements);
    release(&texts);
    return status;
}

stk_status stk_array_read_texts(stk_array *a, const stk_array_box *box, int64_t timeout_ms,
                                stk_array_texts **out, stk_error *err)
{
    uint64_t bytes = 0;
    stk__box b;

    if (out)
        *out = NULL;
    if (!a || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_read_texts: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    if (!stk__type_varies(&a->type))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: the elements of type '%s' have a fixed length; read them with "
                            "stk_array_read()",
                            a->metadata_key, a->type.name);
    STK_TRY(stk__array_box(a, box, &b, err));
    if (!stk__shape_bytes(b.shape, a->rank, a->type.itemsize, &bytes))
        return no_memory(a, err);
    return read_box(a, &b, bytes, timeout_ms, out, err);
}

void stk_array_texts_destroy(stk_array_texts **texts)
{
    if (!texts || !*texts)
        return;
    result *r = (result *)(void *)*texts; /* its first field */
    stk_context *ctx = r->context;

    *texts = NULL;
    if (stk__context_forked(ctx))
        return;
    stk__free(ctx, r);
    stk__context_unref(ctx);
}
