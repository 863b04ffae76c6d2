/* bytes -> a chain of codecs, a chunk through it and back, and damage on the way */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input's first bytes choose the type, the shape and the codecs; the others are the chunk. What
 * must hold: a chain that compiles encodes within its bound and decodes to what went in, whole and
 * in part; a damaged chunk gives an error or as many bytes as it should, and touches no other
 * memory.
 */
#ifndef STK_FUZZ_CHAIN_H
#define STK_FUZZ_CHAIN_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "codec/codec.h"

#define FUZZ_CHAIN_MOST 100000 /* bytes of a chunk */

typedef struct fuzz_bytes {
    const uint8_t *data;
    size_t size, at;
} fuzz_bytes;

static inline unsigned fuzz_byte(fuzz_bytes *b)
{
    return b->at < b->size ? b->data[b->at++] : 0;
}

static const struct fuzz_type {
    stk_dtype dtype;
    uint32_t item, swap;
    const char *text;
} fuzz_types[] = {{STK_BOOL, 1, 1, "|b1"},       {STK_UINT8, 1, 1, "|u1"},
                  {STK_INT16, 2, 2, "<i2"},      {STK_UINT32, 4, 4, "<u4"},
                  {STK_INT64, 8, 8, "<i8"},      {STK_FLOAT32, 4, 4, "<f4"},
                  {STK_FLOAT64, 8, 8, "<f8"},    {STK_COMPLEX64, 8, 4, "<c8"},
                  {STK_DTYPE_NONE, 5, 1, "|S5"}, {STK_COMPLEX128, 16, 8, "<c16"}};

/* Of arrays: %s is the type, where one is named. */
static const char *const fuzz_filters[] = {
    "{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"%s\"}}",
    "{\"name\": \"numcodecs.bitround\", \"configuration\": {\"keepbits\": 52}}",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": \"F\"}}",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [1, 0, 2]}}",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [0, 2, 1]}}"};

/* Of numbers, with the two types that metadata may name, whatever the elements are. They may lose
 * precision, and what a lossy one does to packed bits or sums is damage. */
static const char *const fuzz_numbers[] = {
    "{\"name\": \"numcodecs.astype\", \"configuration\": {\"decode_dtype\": \"%s\", "
    "\"encode_dtype\": \"%s\"}}",
    "{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"%s\", \"astype\": \"%s\"}}",
    "{\"name\": \"numcodecs.fixedscaleoffset\", \"configuration\": {\"dtype\": \"%s\", "
    "\"astype\": \"%s\", \"scale\": 3, \"offset\": -1}}",
    "{\"name\": \"numcodecs.quantize\", \"configuration\": {\"dtype\": \"%s\", \"astype\": "
    "\"%s\", \"digits\": 2}}",
    "{\"name\": \"numcodecs.packbits\"}"};

static const char *const fuzz_dtypes[] = {"|b1", "|u1", "|i1", "<i2",    ">u2", "<f2",
                                          ">f2", "<i4", ">i4", "<u4",    "<f4", ">f4",
                                          "<i8", ">u8", "<f8", "<M8[ns]"};

static const char *const fuzz_compressors[] = {
    "{\"name\": \"zstd\", \"configuration\": {\"level\": %d, \"checksum\": true}}",
    "{\"name\": \"zstd\", \"configuration\": {\"level\": -%d}}",
    "{\"name\": \"gzip\", \"configuration\": {\"level\": %d}}",
    "{\"name\": \"numcodecs.zlib\", \"configuration\": {\"level\": %d}}",
    "{\"name\": \"numcodecs.lz4\", \"configuration\": {\"acceleration\": %d}}",
    "{\"name\": \"numcodecs.deflate\", \"configuration\": {\"level\": %d}}",
    "{\"name\": \"numcodecs.bz2\", \"configuration\": {\"level\": %d}}",
    "{\"name\": \"numcodecs.lzma\", \"configuration\": {\"preset\": 0, \"check\": %d}}",
    "{\"name\": \"numcodecs.lzma\", \"configuration\": {\"format\": 3, \"filters\": "
    "[{\"id\": 3, \"dist\": %d}, {\"id\": 33, \"preset\": 0, \"dict_size\": 65536}]}}",
    "{\"name\": \"blosc\", \"configuration\": {\"cname\": \"lz4\", \"clevel\": %d, \"shuffle\": "
    "\"shuffle\"}}",
    "{\"name\": \"blosc\", \"configuration\": {\"cname\": \"zstd\", \"clevel\": %d, \"shuffle\": "
    "\"bitshuffle\", \"typesize\": 4}}",
    "{\"name\": \"blosc\", \"configuration\": {\"cname\": \"blosclz\", \"clevel\": %d, "
    "\"shuffle\": "
    "\"noshuffle\", \"blocksize\": 512}}",
    "{\"name\": \"blosc\", \"configuration\": {\"cname\": \"snappy\", \"clevel\": %d, \"shuffle\": "
    "\"shuffle\", \"typesize\": 3}}",
    "{\"name\": \"blosc\", \"configuration\": {\"cname\": \"zlib\", \"clevel\": %d, \"shuffle\": "
    "\"shuffle\", \"typesize\": 8}}",
    "{\"name\": \"crc32c\", \"unused\": %d}",
    "{\"name\": \"numcodecs.crc32\", \"configuration\": {\"unused\": %d}}",
    "{\"name\": \"numcodecs.adler32\", \"configuration\": {\"location\": \"end\", \"unused\": %d}}",
    "{\"name\": \"numcodecs.fletcher32\", \"configuration\": {\"unused\": %d}}",
    "{\"name\": \"numcodecs.shuffle\", \"configuration\": {\"elementsize\": %d}}"};

typedef struct fuzz_list {
    char text[4096];
    size_t length;
    bool lossy;
} fuzz_list;

static inline void fuzz_add(fuzz_list *list, const char *one)
{
    int n = snprintf(list->text + list->length, sizeof list->text - list->length, "%s%s",
                     list->length > 1 ? ", " : "", one);

    list->length += (size_t)n;
}

static inline void fuzz_add_text(fuzz_list *list, const char *format, const char *text)
{
    char one[512];

    snprintf(one, sizeof one, format, text);
    fuzz_add(list, one);
}

static inline void fuzz_add_number(fuzz_list *list, const char *format, int number)
{
    char one[512];

    snprintf(one, sizeof one, format, number);
    fuzz_add(list, one);
}

static inline void fuzz_add_filter(fuzz_bytes *b, const struct fuzz_type *type, fuzz_list *list)
{
    size_t which = fuzz_byte(b) % (STK_COUNT(fuzz_filters) + STK_COUNT(fuzz_numbers));
    char one[512];

    if (which >= STK_COUNT(fuzz_filters)) {
        const char *from = fuzz_dtypes[fuzz_byte(b) % STK_COUNT(fuzz_dtypes)];
        const char *to = fuzz_dtypes[fuzz_byte(b) % STK_COUNT(fuzz_dtypes)];
        snprintf(one, sizeof one, fuzz_numbers[which - STK_COUNT(fuzz_filters)], from, to);
        fuzz_add(list, one);
        list->lossy = true;
        return;
    }
    if (which == 0 && type->text[1] != 'i' && type->text[1] != 'u')
        which = 2; /* differences of floats do lose */
    fuzz_add_text(list, fuzz_filters[which], type->text);
}

static inline void fuzz_list_of(fuzz_bytes *b, const struct fuzz_type *type, fuzz_list *list)
{
    unsigned counts = fuzz_byte(b);

    *list = (fuzz_list){.text = "[", .length = 1};
    for (unsigned i = 0; i < (counts & 3) + (counts >> 7); i++)
        fuzz_add_filter(b, type, list);
    fuzz_add_text(list, "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"%s\"}}",
                  counts & 4 ? "big" : "little");
    for (unsigned i = 0; i < (counts >> 3) % 4; i++) {
        unsigned which = fuzz_byte(b), level = fuzz_byte(b) % 10;
        fuzz_add_number(list, fuzz_compressors[which % STK_COUNT(fuzz_compressors)], (int)level);
    }
    strcat(list->text, "]");
}

/* From copies of just these sizes, so that a sanitizer sees what is read or written beyond. */
static inline stk_status fuzz_decode(const stk__chain *chain, stk__codec_state *state,
                                     const uint8_t *in, uint64_t length, uint64_t needed,
                                     const uint8_t *want)
{
    uint64_t size = stk__chain_size(chain);
    uint8_t *copy = malloc(length + 1), *out = malloc(size);
    const char *reason = NULL;

    FUZZ_CHECK(copy && out);
    memcpy(copy + 1, in, length); /* so that no byte can be read where there is none */
    stk_status status =
        stk__chain_decode_prefix(chain, state, copy + 1, length, out, size, needed, &reason);
    if (status == STK_OK && want)
        FUZZ_CHECK(!memcmp(out, want, needed));
    if (status != STK_OK)
        FUZZ_CHECK(reason && reason[0] && status != STK_EINVAL && status != STK_EINTERNAL);
    free(copy);
    free(out);
    return status;
}

/* What was encoded, whole and in its first bytes. */
static inline void fuzz_back(const stk__chain *chain, stk__codec_state *state,
                             const uint8_t *encoded, uint64_t length, unsigned cut,
                             const uint8_t *chunk)
{
    uint64_t size = stk__chain_size(chain), part = size * cut / 256;
    stk_status whole = fuzz_decode(chain, state, encoded, length, size, chunk);
    stk_status some = fuzz_decode(chain, state, encoded, length, part, chunk);

    FUZZ_CHECK(whole == STK_OK || (!chunk && whole != STK_ETRUNCATED));
    FUZZ_CHECK(whole != STK_OK || some == STK_OK);
}

static inline void fuzz_through(const stk__chain *chain, stk__codec_state *state, bool lossy,
                                fuzz_bytes *b)
{
    uint64_t size = stk__chain_size(chain), bound = stk__chain_bound(chain), length = 0;
    uint8_t *chunk = malloc(size), *encoded = malloc(bound);
    const char *reason = NULL;

    FUZZ_CHECK(chunk && encoded);
    unsigned cut = fuzz_byte(b), place = fuzz_byte(b) | fuzz_byte(b) << 8, bit = fuzz_byte(b);
    const uint8_t *rest = b->data + b->at;
    size_t left = b->size - b->at;
    for (uint64_t i = 0; i < size; i++)
        chunk[i] = left ? (uint8_t)(rest[i % left] + i / left) : (uint8_t)i;
    stk_status status =
        stk__chain_encode(chain, state, chunk, size, encoded, bound, &length, &reason);
    if (status == STK_OK) {
        FUZZ_CHECK(length <= bound);
        fuzz_back(chain, state, encoded, length, cut, lossy ? NULL : chunk);
        (void)fuzz_decode(chain, state, encoded, length * cut / 256, size, NULL);
        if (length) {
            encoded[place % length] ^= (uint8_t)(1 << bit % 8);
            (void)fuzz_decode(chain, state, encoded, length, size, NULL);
            (void)fuzz_decode(chain, state, encoded, length, size * cut / 256, NULL);
        }
    } else {
        FUZZ_CHECK(status == STK_EKIND || status == STK_EINVAL);
    }
    (void)fuzz_decode(chain, state, rest, left, size, NULL);
    free(chunk);
    free(encoded);
}

static inline void fuzz_chain_once(stk_context *ctx, const uint8_t *data, size_t size)
{
    fuzz_bytes b = {data, size, 0};
    const struct fuzz_type *type = &fuzz_types[fuzz_byte(&b) % STK_COUNT(fuzz_types)];
    int64_t shape[3] = {1 + fuzz_byte(&b) % 40, 1 + fuzz_byte(&b) % 40, 1 + fuzz_byte(&b) % 40};
    fuzz_list list;
    json_error_t error;
    stk__chain_spec spec;
    stk__chain *chain = NULL;
    stk__codec_state *state = NULL;
    stk_error err;

    fuzz_list_of(&b, type, &list);
    json_t *codecs = json_loads(list.text, 0, &error);
    FUZZ_CHECK(codecs);
    stk__chain_spec_init(&spec);
    spec.key = "fuzz";
    spec.dtype = type->dtype;
    spec.itemsize = type->item;
    spec.swap_size = type->swap;
    spec.rank = 3;
    spec.shape = shape;
    spec.codecs = codecs;
    stk_error_init(&err);
    if (stk__chain_create(ctx, &spec, &chain, &err) == STK_OK) {
        if (stk__chain_size(chain) <= FUZZ_CHAIN_MOST) {
            FUZZ_CHECK(stk__codec_state_create(ctx, &state, &err) == STK_OK);
            fuzz_through(chain, state, list.lossy, &b);
            stk__codec_state_destroy(&state);
        }
        stk__chain_destroy(&chain);
    } else {
        FUZZ_CHECK(err.text[0] && !chain && err.status != STK_EINTERNAL);
    }
    json_decref(codecs);
}

#endif
