/* SPDX-License-Identifier: Apache-2.0 */
/* Inflates gzip files, in memory or read piece by piece, with a bound on what comes out. */
#include "codec/codec.h"

#include <libdeflate.h>
#include <zlib.h>

#define WINDOW_BITS_GZIP (15 + 16)             /* largest window; a gzip header and nothing else */
#define PIECE_MAX        (1u << 30)            /* zlib counts in 32 bits */
#define READ_BYTES       (UINT64_C(256) << 10) /* of one read of a file that is not in memory */

struct stk__gzip {
    stk_context *context;
    stk__gzip_source *source; /* NULL: all of it is in memory */
    void *user;               /* of the source */
    unsigned char *room;      /* READ_BYTES for what it gives */
    const unsigned char
        *data; /* what is in memory: `have` bytes of the file, the first at `from` */
    uint64_t from, have;
    uint64_t length, at; /* compressed bytes in all; taken so far */
    uint64_t limit, out; /* bytes that may be given; given so far */
    const char *key;
    z_stream z;
    bool ended;
};

static void *zlib_alloc(void *ctx, unsigned count, unsigned size)
{
    return stk__calloc(ctx, count, size);
}

static void zlib_free(void *ctx, void *memory)
{
    stk__free(ctx, memory);
}

static stk_status create(stk_context *ctx, uint64_t length, uint64_t limit, const char *key,
                         uint64_t room, stk__gzip **out, stk_error *err)
{
    *out = NULL;
    stk__gzip *gzip = stk__calloc(ctx, 1, sizeof *gzip + room);
    if (!gzip)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CODEC, key, STK_NO_OFFSET,
                            "no memory to inflate %s", key);
    gzip->context = ctx;
    gzip->room = (unsigned char *)(gzip + 1);
    gzip->length = length;
    gzip->limit = limit;
    gzip->key = key;
    gzip->z.zalloc = zlib_alloc;
    gzip->z.zfree = zlib_free;
    gzip->z.opaque = ctx;
    if (inflateInit2(&gzip->z, WINDOW_BITS_GZIP) != Z_OK) {
        stk__free(ctx, gzip);
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CODEC, key, STK_NO_OFFSET,
                            "no memory to inflate %s", key);
    }
    *out = gzip;
    return STK_OK;
}

stk_status stk__gzip_create(stk_context *ctx, const void *data, uint64_t length, uint64_t limit,
                            const char *key, stk__gzip **out, stk_error *err)
{
    STK_TRY(create(ctx, length, limit, key, 0, out, err));
    (*out)->data = data;
    (*out)->have = length;
    return STK_OK;
}

stk_status stk__gzip_create_from(stk_context *ctx, stk__gzip_source *source, void *user,
                                 uint64_t length, uint64_t limit, const char *key, stk__gzip **out,
                                 stk_error *err)
{
    STK_TRY(create(ctx, length, limit, key, READ_BYTES, out, err));
    (*out)->source = source;
    (*out)->user = user;
    (*out)->data = (*out)->room;
    return STK_OK;
}

/* Have `wanted` of the next bytes in memory, or all that the file has left. */
static stk_status see(stk__gzip *gzip, uint64_t wanted, stk_error *err)
{
    const uint64_t left = gzip->length - gzip->at;

    if (!gzip->source || gzip->at - gzip->from + STK_MIN(wanted, left) <= gzip->have)
        return STK_OK;
    gzip->from = gzip->at;
    gzip->have = 0;
    const uint64_t length = STK_MIN(left, READ_BYTES);
    STK_TRY(gzip->source(gzip->user, gzip->from, length, gzip->room, err));
    gzip->have = length;
    return STK_OK;
}

static stk_status truncated(const stk__gzip *gzip, stk_error *err)
{
    return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_CODEC, gzip->key, gzip->at,
                        "%s ends after %llu bytes in the middle of its gzip data; copy or "
                        "download it again",
                        gzip->key, (unsigned long long)gzip->length);
}

static stk_status damaged(const stk__gzip *gzip, int code, stk_error *err)
{
    if (code == Z_MEM_ERROR)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CODEC, gzip->key, STK_NO_OFFSET,
                            "no memory to inflate %s", gzip->key);
    const char *what = gzip->z.msg ? gzip->z.msg : "unknown damage";
    bool check = !strcmp(what, "incorrect data check") || !strcmp(what, "incorrect length check");
    return stk__fail_at(
        err, check ? STK_ECHECKSUM : STK_EFORMAT, STK_STAGE_CODEC, gzip->key, gzip->at,
        "%s is not sound gzip data (%s at byte %llu of %llu); copy or "
        "download it again",
        gzip->key, what, (unsigned long long)gzip->at, (unsigned long long)gzip->length);
}

/* After the end of a member: another one, padding, or the end. */
static stk_status next_member(stk__gzip *gzip, stk_error *err)
{
    STK_TRY(see(gzip, 2, err));
    const unsigned char *next = gzip->data + (gzip->at - gzip->from);
    if (gzip->length - gzip->at >= 2 && next[0] == 0x1f && next[1] == 0x8b)
        return inflateReset(&gzip->z) == Z_OK ? STK_OK : damaged(gzip, Z_STREAM_ERROR, err);
    for (; gzip->at < gzip->length; gzip->at++) {
        STK_TRY(see(gzip, 1, err));
        if (gzip->data[gzip->at - gzip->from])
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_CODEC, gzip->key, gzip->at,
                                "%s has bytes after its gzip data, from byte %llu of %llu; copy "
                                "or download it again",
                                gzip->key, (unsigned long long)gzip->at,
                                (unsigned long long)gzip->length);
    }
    gzip->ended = true;
    return STK_OK;
}

/* Up to `size` more bytes; fewer only at the end. */
static stk_status fill(stk__gzip *gzip, unsigned char *out, uint64_t size, uint64_t *got,
                       stk_error *err)
{
    *got = 0;
    while (*got < size && !gzip->ended) {
        if (gzip->at == gzip->length)
            return truncated(gzip, err);
        STK_TRY(see(gzip, 1, err));
        const uint64_t seen = gzip->at - gzip->from;
        unsigned in = (unsigned)STK_MIN(gzip->have - seen, PIECE_MAX);
        unsigned room = (unsigned)STK_MIN(size - *got, PIECE_MAX);
        gzip->z.next_in = (unsigned char *)gzip->data + seen;
        gzip->z.avail_in = in;
        gzip->z.next_out = out + *got;
        gzip->z.avail_out = room;
        int code = inflate(&gzip->z, Z_NO_FLUSH);
        gzip->at += in - gzip->z.avail_in;
        *got += room - gzip->z.avail_out;
        if (code == Z_STREAM_END)
            STK_TRY(next_member(gzip, err));
        else if (code != Z_OK)
            return damaged(gzip, code, err);
    }
    return STK_OK;
}

stk_status stk__gzip_read(stk__gzip *gzip, void *out, uint64_t size, uint64_t *got, stk_error *err)
{
    uint64_t allowed = STK_MIN(size, gzip->limit - gzip->out);
    STK_TRY(fill(gzip, out, allowed, got, err));
    gzip->out += *got;
    if (allowed == size || *got < allowed)
        return STK_OK;
    /* All that is allowed has been given and more is wanted: only the end may follow. */
    unsigned char one;
    uint64_t more;
    STK_TRY(fill(gzip, &one, 1, &more, err));
    if (more)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_CODEC, gzip->key, gzip->at,
                            "%s inflates to more than the %llu bytes allowed; unpack it with "
                            "gunzip, or allow more memory",
                            gzip->key, (unsigned long long)gzip->limit);
    return STK_OK;
}

void stk__gzip_destroy(stk__gzip **gzip)
{
    if (!*gzip)
        return;
    inflateEnd(&(*gzip)->z);
    stk__free((*gzip)->context, *gzip);
    *gzip = NULL;
}

bool stk__gzip_whole(const void *data, uint64_t length, void *out, uint64_t size)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    size_t taken = 0;

    if (!d)
        return false;
    enum libdeflate_result result =
        libdeflate_gzip_decompress_ex(d, data, length, out, size, &taken, NULL);
    libdeflate_free_decompressor(d);
    return result == LIBDEFLATE_SUCCESS && taken == length;
}
