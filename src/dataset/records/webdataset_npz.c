/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npz archives in shards: zip archives of npy files, as numpy.savez() and savez_compressed() write
 * them. Their local headers are walked, one file behind the other up to the central directory, so
 * that each array is a range of the shard; the sum of its bytes is compared when it is read.
 */
#include <stdio.h>

#include "dataset/records/webdataset_fields.h"

#define LOCAL_BYTES       30 /* of a local header without its name */
#define LOCAL_SIGNATURE   0x04034b50u
#define CENTRAL_SIGNATURE 0x02014b50u
#define END_SIGNATURE     0x06054b50u
#define EXTRA_ZIP64       1
#define ENCRYPTED         (1u << 0 | 1u << 5 | 1u << 6 | 1u << 13)
#define SIZES_BEHIND      (1u << 3)
#define STORED            0
#define DEFLATED          8
#define MOST_EXTRA        1024
#define MOST_LEAD         (LOCAL_BYTES + STK__RECORDS_MAX_KIND + MOST_EXTRA)

/* A local header. */
typedef struct local {
    uint64_t stored, size;
    uint32_t crc;
    uint16_t flags, method, name_length, extra_length;
} local;

static uint64_t number(const uint8_t *at, size_t offset, unsigned bytes)
{
    return stk__little_endian(at + offset, bytes);
}

static local take_local(const uint8_t head[LOCAL_BYTES])
{
    return (local){.flags = (uint16_t)number(head, 6, 2),
                   .method = (uint16_t)number(head, 8, 2),
                   .crc = (uint32_t)number(head, 14, 4),
                   .stored = number(head, 18, 4),
                   .size = number(head, 22, 4),
                   .name_length = (uint16_t)number(head, 26, 2),
                   .extra_length = (uint16_t)number(head, 28, 2)};
}

/* Sizes of 64 bits, where those of 32 are full. False: there are none. */
static bool take_zip64(local *l, const uint8_t *extra)
{
    const bool wide_size = l->size == UINT32_MAX, wide_stored = l->stored == UINT32_MAX;
    const unsigned wanted = 8 * ((unsigned)wide_size + wide_stored);

    for (size_t at = 0; wanted && at + 4 <= l->extra_length;) {
        const size_t length = number(extra, at + 2, 2);
        if (length > l->extra_length - at - 4)
            return false;
        if (number(extra, at, 2) == EXTRA_ZIP64) {
            if (length < wanted)
                return false;
            if (wide_size)
                l->size = number(extra, at + 4, 8);
            if (wide_stored)
                l->stored = number(extra, at + 4 + (wide_size ? 8 : 0), 8);
            return true;
        }
        at += 4 + length;
    }
    return !wanted;
}

/* Sizes that can be; STK_DEFLATE_RATIO bounds what deflate makes of bytes. */
static bool has_sound_sizes(const local *l)
{
    return l->method == STORED ? l->size == l->stored
                               : l->method == DEFLATED && l->size / STK_DEFLATE_RATIO <= l->stored;
}

/* ---- Scanning -------------------------------------------------------------------------------- */

/* An archive being walked. */
typedef struct archive {
    stk__shard *shard;
    const char *kind;
    uint64_t at, end;
    bool adds, refused;      /* arrays are added; it is no archive such as is read */
    uint8_t lead[MOST_LEAD]; /* the local header, the name, the extra field */
} archive;

/* It is not read array by array. */
static stk_status refuse(archive *a, stk_status status)
{
    a->refused = true;
    return status;
}

/* Add the file of the header if it is an array. */
static stk_status add_file(archive *a, const local *l, uint64_t lead, stk_error *err)
{
    const char *name = (const char *)a->lead + LOCAL_BYTES;
    char kind[2 * STK__RECORDS_MAX_KIND];

    if (!stk__ends_with(name, l->name_length, ".npy") || memchr(name, 0, l->name_length))
        return STK_OK;
    const int n = snprintf(kind, sizeof kind, "%s/%.*s", a->kind, (int)l->name_length, name);
    if (n < 0 || n > (int)STK__RECORDS_MAX_KIND || !stk__webdataset_is_kind(kind))
        return refuse(a, STK_EFORMAT);
    return a->adds ? stk__shard_part(a->shard, kind, a->at, lead + l->stored, err) : STK_OK;
}

static stk_status take_file(archive *a, stk_error *err)
{
    local l = take_local(a->lead);
    const uint64_t lead = (uint64_t)LOCAL_BYTES + l.name_length + l.extra_length;

    if (l.flags & ENCRYPTED)
        return refuse(a, STK_EKIND);
    if (l.flags & SIZES_BEHIND)
        return refuse(a, STK_EKIND);
    if (l.name_length > STK__RECORDS_MAX_KIND || l.extra_length > MOST_EXTRA)
        return refuse(a, STK_ELIMIT);
    if (lead > a->end - a->at)
        return refuse(a, STK_ETRUNCATED);
    STK_TRY(stk__shard_read(a->shard, a->at + LOCAL_BYTES, a->lead + LOCAL_BYTES,
                            (size_t)lead - LOCAL_BYTES, err));
    if (!take_zip64(&l, a->lead + LOCAL_BYTES + l.name_length))
        return refuse(a, STK_EFORMAT);
    if (l.method != STORED && l.method != DEFLATED)
        return refuse(a, STK_EKIND);
    if (l.stored > a->end - a->at - lead)
        return refuse(a, STK_ETRUNCATED);
    if (!has_sound_sizes(&l))
        return refuse(a, STK_EFORMAT);
    STK_TRY(add_file(a, &l, lead, err));
    a->at += lead + l.stored;
    return STK_OK;
}

static stk_status walk(archive *a, stk_error *err)
{
    for (;;) {
        if (a->end - a->at < LOCAL_BYTES)
            a->lead[0] = 0; /* of the end at least 22 bytes */
        STK_TRY(stk__shard_read(a->shard, a->at, a->lead,
                                STK_MIN(a->end - a->at, (uint64_t)LOCAL_BYTES), err));
        const uint64_t signature = a->end - a->at < 4 ? 0 : number(a->lead, 0, 4);
        if (signature == CENTRAL_SIGNATURE || signature == END_SIGNATURE)
            return STK_OK;
        if (signature != LOCAL_SIGNATURE || a->end - a->at < LOCAL_BYTES)
            return refuse(a, STK_EFORMAT);
        STK_TRY(take_file(a, err));
    }
}

stk_status stk__webdataset_npz_scan(stk__shard *shard, const char *kind, uint64_t offset,
                                    uint64_t size, stk_error *err)
{
    archive a = {.shard = shard, .kind = kind, .at = offset, .end = offset + size};

    stk_status status = walk(&a, err);
    if (a.refused)
        return stk__shard_part(shard, kind, offset, size, err);
    a.at = offset;
    a.adds = true;
    return status == STK_OK ? walk(&a, err) : status;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

bool stk__webdataset_unzip(const void *part, uint64_t length, stk__webdataset_zipped *out)
{
    const uint8_t *bytes = part;

    if (length < LOCAL_BYTES || number(bytes, 0, 4) != LOCAL_SIGNATURE)
        return false;
    local l = take_local(bytes);
    const uint64_t lead = (uint64_t)LOCAL_BYTES + l.name_length + l.extra_length;
    if (lead > length || (l.flags & (ENCRYPTED | SIZES_BEHIND)) ||
        !take_zip64(&l, bytes + LOCAL_BYTES + l.name_length) || l.stored != length - lead ||
        !has_sound_sizes(&l))
        return false;
    *out = (stk__webdataset_zipped){.data = bytes + lead,
                                    .stored = l.stored,
                                    .size = l.size,
                                    .crc = l.crc,
                                    .deflated = l.method == DEFLATED};
    return true;
}

const void *stk__webdataset_inflate(const stk__webdataset_zipped *zipped, stk__codec_state *state,
                                    void *room, stk_status *status, const char **reason)
{
    const void *file = zipped->data;

    *status = STK_OK;
    if (zipped->deflated) {
        *status =
            stk__deflate_decode(state, zipped->data, zipped->stored, room, zipped->size, reason);
        file = room;
    }
    if (*status == STK_OK && stk__crc32(file, zipped->size) != zipped->crc) {
        *status = STK_ECHECKSUM;
        *reason = "the checksum of an array in its npz does not match; copy or download the shard "
                  "again";
    }
    return *status == STK_OK ? file : NULL;
}
