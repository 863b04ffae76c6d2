/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files that are compressed by gzip, zlib or zstd, unpacked from the front to the end. */
#include "codec/codec.h"

#define ZSTD_STATIC_LINKING_ONLY /* allocators */
#include <zlib.h>
#include <zstd.h>

#define READ_BYTES (UINT64_C(256) << 10) /* of one read of the file */
#define PIECE_MAX  (1u << 30)            /* zlib counts in 32 bits */

struct stk__unpack {
    stk_context *context;
    stk__stream kind;
    stk__gzip_source *source;
    void *user;
    const char *key;
    uint64_t length, read; /* bytes of the file, and those that were read */
    uint64_t have, at;     /* in `room`; taken of them */
    stk__gzip *gzip;
    z_stream z;
    ZSTD_DCtx *zstd;
    bool begun, ended; /* within a stream; no more follows */
    unsigned char room[READ_BYTES];
};

static const char *stream_name(stk__stream kind)
{
    static const char *const names[] = {"not", "gzip", "zlib", "zstd"};

    return names[kind];
}

stk__stream stk__stream_kind(const void *head, uint64_t length)
{
    const unsigned char *h = head;

    if (length >= 4 && memcmp(h, "\x28\xb5\x2f\xfd", 4) == 0)
        return STK__STREAM_ZSTD;
    if (length >= 2 && h[0] == 0x1f && h[1] == 0x8b)
        return STK__STREAM_GZIP;
    /* [RFC 1950]: deflate, a window that there is, no dictionary, and a check of both bytes. */
    return length >= 2 && (h[0] & 15) == 8 && h[0] >> 4 <= 7 && !(h[1] & 32) &&
                   (h[0] << 8 | h[1]) % 31 == 0
               ? STK__STREAM_ZLIB
               : STK__STREAM_NOT;
}

static void *take_memory(void *ctx, size_t size)
{
    return stk__alloc(ctx, size);
}

static void *take_items(void *ctx, unsigned count, unsigned size)
{
    return stk__calloc(ctx, count, size);
}

static void give_memory(void *ctx, void *memory)
{
    stk__free(ctx, memory);
}

static stk_status begin(stk__unpack *u, stk_error *err)
{
    const ZSTD_customMem memory = {take_memory, give_memory, u->context};

    if (u->kind == STK__STREAM_GZIP)
        return stk__gzip_create_from(u->context, u->source, u->user, u->length, UINT64_MAX, u->key,
                                     &u->gzip, err);
    if (u->kind == STK__STREAM_ZSTD)
        u->zstd = ZSTD_createDCtx_advanced(memory);
    u->z = (z_stream){.zalloc = take_items, .zfree = give_memory, .opaque = u->context};
    if (u->kind == STK__STREAM_ZSTD ? u->zstd != NULL : inflateInit(&u->z) == Z_OK)
        return STK_OK;
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CODEC, u->key, STK_NO_OFFSET,
                        "no memory to unpack %s", u->key);
}

stk_status stk__unpack_create(stk_context *ctx, stk__stream kind, stk__gzip_source *source,
                              void *user, uint64_t length, const char *key, stk__unpack **out,
                              stk_error *err)
{
    *out = NULL;
    stk__unpack *u = stk__calloc(ctx, 1, sizeof *u);
    if (!u)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CODEC, key, STK_NO_OFFSET,
                            "no memory to unpack %s", key);
    u->context = ctx;
    u->kind = kind;
    u->source = source;
    u->user = user;
    u->length = length;
    u->key = key;
    const stk_status status = begin(u, err);
    if (status == STK_OK)
        *out = u;
    else
        stk__unpack_destroy(&u);
    return status;
}

static stk_status damaged(const stk__unpack *u, stk_status status, const char *what, stk_error *err)
{
    const uint64_t at = u->read - u->have + u->at;

    return stk__fail_at(err, status, STK_STAGE_CODEC, u->key, at,
                        "%s is not sound %s data (%s at byte %llu of %llu); copy or download it "
                        "again",
                        u->key, stream_name(u->kind), what, (unsigned long long)at,
                        (unsigned long long)u->length);
}

/* Have bytes of the file that were not taken; none at its end. */
static stk_status see(stk__unpack *u, stk_error *err)
{
    if (u->at < u->have || u->read == u->length)
        return STK_OK;
    const uint64_t size = STK_MIN(READ_BYTES, u->length - u->read);
    u->have = u->at = 0;
    STK_TRY(u->source(u->user, u->read, size, u->room, err));
    u->have = size;
    u->read += size;
    return STK_OK;
}

static stk_status step_zlib(stk__unpack *u, unsigned char *out, uint64_t size, uint64_t *got,
                            stk_error *err)
{
    const unsigned in = (unsigned)(u->have - u->at), room = (unsigned)STK_MIN(size, PIECE_MAX);

    u->z.next_in = u->room + u->at;
    u->z.avail_in = in;
    u->z.next_out = out;
    u->z.avail_out = room;
    const int code = inflate(&u->z, Z_NO_FLUSH);
    u->at += in - u->z.avail_in;
    *got = room - u->z.avail_out;
    if (code == Z_STREAM_END) {
        u->ended = true;
        STK_TRY(see(u, err));
        return u->at == u->have ? STK_OK : damaged(u, STK_EFORMAT, "bytes behind its end", err);
    }
    if (code == Z_MEM_ERROR)
        return damaged(u, STK_ENOMEM, "no memory", err);
    return code == Z_OK || (code == Z_BUF_ERROR && !in)
               ? STK_OK
               : damaged(u, STK_EFORMAT, u->z.msg ? u->z.msg : "unknown damage", err);
}

/* Frames follow one another. */
static stk_status step_zstd(stk__unpack *u, unsigned char *out, uint64_t size, uint64_t *got,
                            stk_error *err)
{
    ZSTD_inBuffer in = {.src = u->room, .size = u->have, .pos = u->at};
    ZSTD_outBuffer to = {.dst = out, .size = size};

    const size_t code = ZSTD_decompressStream(u->zstd, &to, &in);
    u->at = in.pos;
    *got = to.pos;
    if (ZSTD_isError(code))
        return damaged(u, STK_EFORMAT, ZSTD_getErrorName(code), err);
    u->begun = code != 0;
    return STK_OK;
}

stk_status stk__unpack_read(stk__unpack *u, void *out, uint64_t size, uint64_t *got, stk_error *err)
{
    *got = 0;
    if (u->gzip)
        return stk__gzip_read(u->gzip, out, size, got, err);
    while (*got < size && !u->ended) {
        uint64_t more = 0;
        STK_TRY(see(u, err));
        const bool none = u->at == u->have;
        if (none && u->kind == STK__STREAM_ZSTD && !u->begun)
            break;
        STK_TRY((u->zstd ? step_zstd : step_zlib)(u, (unsigned char *)out + *got, size - *got,
                                                  &more, err));
        if (none && !more && !u->ended)
            return damaged(u, STK_ETRUNCATED, "it ends within them", err);
        *got += more;
    }
    return STK_OK;
}

void stk__unpack_destroy(stk__unpack **unpack)
{
    stk__unpack *u = *unpack;

    if (!u)
        return;
    stk__gzip_destroy(&u->gzip);
    ZSTD_freeDCtx(u->zstd);
    if (u->kind == STK__STREAM_ZLIB)
        inflateEnd(&u->z);
    stk__free(u->context, u);
    *unpack = NULL;
}
