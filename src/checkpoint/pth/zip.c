/* SPDX-License-Identifier: Apache-2.0 */
/* The list of entries at the end of a zip [APPNOTE.TXT 4.3], with the records of zip64. */
#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>

#include "checkpoint/pth/pth.h"

enum {
    END_BYTES = 22,     /* end of central directory record [4.3.16] */
    LOCATOR_BYTES = 20, /* [4.3.15] */
    END64_BYTES = 56,   /* [4.3.14] */
    ENTRY_BYTES = 46,   /* [4.3.12] */
    LOCAL_BYTES = 30,   /* [4.3.7] */
    COMMENT_BYTES = 65535
};
#define END_SIGN     UINT32_C(0x06054b50)
#define LOCATOR_SIGN UINT32_C(0x07064b50)
#define END64_SIGN   UINT32_C(0x06064b50)
#define ENTRY_SIGN   UINT32_C(0x02014b50)
#define LOCAL_SIGN   UINT32_C(0x04034b50)
#define EXTRA_64     1 /* number of the extra field with sizes of 64 bits [4.5.3] */

static stk_status damaged(const char *path, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "the zip '%.300s' is damaged: %s; copy it again", path, what);
}

static stk_status no_memory(const char *path, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "no memory for the entries of '%.300s'", path);
}

/* Where the list is. */
typedef struct place {
    uint64_t offset, bytes, count;
} place;

/* The record in front of the end that has 64 bits for what the end has 32 for. */
static stk_status read_end64(const stk__checkpoint_source *source, const char *path,
                             uint64_t end_at, place *out, stk_error *err)
{
    uint8_t locator[LOCATOR_BYTES], end[END64_BYTES];

    if (end_at < LOCATOR_BYTES)
        return STK_OK;
    STK_TRY(stk__checkpoint_source_read(source, path, end_at - LOCATOR_BYTES, locator,
                                        sizeof locator, err));
    if (stk__little_endian(locator, 4) != LOCATOR_SIGN)
        return STK_OK;
    const uint64_t at = stk__little_endian(locator + 8, 8);
    if (source->size < END64_BYTES || at > source->size - END64_BYTES)
        return damaged(path, "its end is not where it says", err);
    STK_TRY(stk__checkpoint_source_read(source, path, at, end, sizeof end, err));
    if (stk__little_endian(end, 4) != END64_SIGN)
        return damaged(path, "its end is not where it says", err);
    *out = (place){.offset = stk__little_endian(end + 48, 8),
                   .bytes = stk__little_endian(end + 40, 8),
                   .count = stk__little_endian(end + 32, 8)};
    return STK_OK;
}

/* The last record, which a comment may follow. */
static stk_status find_directory(stk_context *ctx, const stk__checkpoint_source *source,
                                 const char *path, place *out, stk_error *err)
{
    const uint64_t bytes = STK_MIN(source->size, (uint64_t)END_BYTES + COMMENT_BYTES);
    uint64_t at = bytes;

    uint8_t *tail = stk__alloc(ctx, STK_MAX(bytes, 1u));
    if (!tail)
        return no_memory(path, err);
    stk_status status =
        stk__checkpoint_source_read(source, path, source->size - bytes, tail, bytes, err);
    if (status != STK_OK)
        at = 0;
    while (at >= END_BYTES && !(stk__little_endian(tail + at - END_BYTES, 4) == END_SIGN &&
                                stk__little_endian(tail + at - 2, 2) == bytes - at))
        at--;
    if (status == STK_OK && at < END_BYTES) {
        status = stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, source->size,
                              "'%.300s' is cut off: a zip has its list of entries at its end; copy "
                              "it again",
                              path);
    } else if (status == STK_OK) {
        const uint8_t *end = tail + at - END_BYTES;
        *out = (place){.offset = stk__little_endian(end + 16, 4),
                       .bytes = stk__little_endian(end + 12, 4),
                       .count = stk__little_endian(end + 10, 2)};
        status = read_end64(source, path, source->size - bytes + at - END_BYTES, out, err);
    }
    stk__free(ctx, tail);
    if (status != STK_OK)
        return status;
    if (out->offset > source->size || out->bytes > source->size - out->offset ||
        out->count > out->bytes / ENTRY_BYTES)
        return damaged(path, "its list of entries is not within it", err);
    if (out->bytes > STK__PTH_MAX_DIRECTORY)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_TRAIN, path, out->offset,
                            "the list of entries of '%.300s' has %" PRIu64 " bytes; %" PRIu64
                            " are the most",
                            path, out->bytes, STK__PTH_MAX_DIRECTORY);
    return STK_OK;
}

/* Sizes and places that do not fit 32 bits come in an extra field, in this order, each only where
 * it is needed. */
static bool take_64(const uint8_t *extra, uint64_t length, uint64_t *size, uint64_t *stored,
                    uint64_t *header)
{
    uint64_t *const wanted[] = {size, stored, header};

    for (uint64_t bytes; length >= 4; extra += bytes, length -= bytes) {
        const uint64_t kind = stk__little_endian(extra, 2);
        bytes = stk__little_endian(extra + 2, 2) + 4;
        if (bytes > length)
            return false;
        if (kind != EXTRA_64)
            continue;
        const uint8_t *at = extra + 4, *end = extra + bytes;
        for (size_t i = 0; i < STK_COUNT(wanted); i++) {
            if (*wanted[i] != UINT32_MAX)
                continue;
            if (end - at < 8)
                return false;
            *wanted[i] = stk__little_endian(at, 8);
            at += 8;
        }
        return true;
    }
    return *size != UINT32_MAX && *stored != UINT32_MAX && *header != UINT32_MAX;
}

/* Entry at `at`, of which `left` bytes are there; *bytes: its length. */
static stk_status take_entry(const uint8_t *at, uint64_t left, const char *path,
                             stk__zip_entry *out, uint64_t *bytes, stk_error *err)
{
    if (left < ENTRY_BYTES || stk__little_endian(at, 4) != ENTRY_SIGN)
        return damaged(path, "an entry of its list is none", err);
    const uint64_t name = stk__little_endian(at + 28, 2), extra = stk__little_endian(at + 30, 2);
    uint64_t stored = stk__little_endian(at + 20, 4);

    *bytes = ENTRY_BYTES + name + extra + stk__little_endian(at + 32, 2);
    if (*bytes > left)
        return damaged(path, "an entry of its list is none", err);
    *out = (stk__zip_entry){.name = {(const char *)at + ENTRY_BYTES, (uint32_t)name},
                            .crc = (uint32_t)stk__little_endian(at + 16, 4),
                            .size = stk__little_endian(at + 24, 4),
                            .header = stk__little_endian(at + 42, 4)};
    if (!take_64(at + ENTRY_BYTES + name, extra, &out->size, &stored, &out->header))
        return damaged(path, "an entry has no size", err);
    if ((stk__little_endian(at + 8, 2) & 1) || stk__little_endian(at + 10, 2) != 0 ||
        stored != out->size)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "'%.300s' is a zip with compressed or encrypted entries, which "
                            "torch.save does not write: save it again with torch",
                            path);
    return STK_OK;
}

int stk__pth_text_compare(const void *a, const void *b)
{
    const stk__pickle_text *x = a, *y = b;
    const int order = memcmp(x->at, y->at, STK_MIN(x->length, y->length));

    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static stk_status take_entries(stk__zip *zip, const place *list, uint64_t file_bytes,
                               const char *path, stk_error *err)
{
    uint64_t at = 0, all = 0, bytes = 0;

    for (uint64_t i = 0; i < list->count; i++, at += bytes) {
        stk__zip_entry *entry = &zip->entries[zip->num_entries++];
        STK_TRY(take_entry(zip->directory + at, list->bytes - at, path, entry, &bytes, err));
        /* They lie one behind the other: together they are never more than the file. */
        if (!stk__add_size(all, entry->size, &all) || all > file_bytes)
            return damaged(path, "its entries overlap, or are not within it", err);
    }
    qsort(zip->entries, zip->num_entries, sizeof *zip->entries, stk__pth_text_compare);
    for (size_t i = 1; i < zip->num_entries; i++)
        if (stk__pth_text_compare(&zip->entries[i - 1], &zip->entries[i]) == 0)
            return damaged(path, "two entries have one name", err);
    return STK_OK;
}

stk_status stk__zip_open(stk_context *ctx, const stk__checkpoint_source *source, const char *path,
                         stk__zip *out, stk_error *err)
{
    place list = {0};

    *out = (stk__zip){.ctx = ctx};
    STK_TRY(find_directory(ctx, source, path, &list, err));
    out->directory = stk__alloc(ctx, list.bytes + 1);
    out->entries = stk__calloc(ctx, list.count + 1, sizeof *out->entries);
    stk_status status = out->directory && out->entries ? STK_OK : no_memory(path, err);
    if (status == STK_OK)
        status =
            stk__checkpoint_source_read(source, path, list.offset, out->directory, list.bytes, err);
    if (status == STK_OK)
        status = take_entries(out, &list, source->size, path, err);
    if (status != STK_OK)
        stk__zip_release(out);
    return status;
}

const stk__zip_entry *stk__zip_find(const stk__zip *zip, const char *name, size_t length)
{
    const stk__zip_entry key = {.name = {name, (uint32_t)length}};

    if (zip->num_entries == 0 || length > UINT32_MAX)
        return NULL;
    return bsearch(&key, zip->entries, zip->num_entries, sizeof key, stk__pth_text_compare);
}

stk_status stk__zip_read(const stk__checkpoint_source *source, const char *path,
                         const stk__zip_entry *entry, void *to, uint64_t room, stk_error *err)
{
    uint8_t local[LOCAL_BYTES];
    char name[STK__PICKLE_SHOWN];
    uint32_t crc = 0;

    if (source->size < LOCAL_BYTES || entry->header > source->size - LOCAL_BYTES)
        return damaged(path, "an entry is not within it", err);
    STK_TRY(stk__checkpoint_source_read(source, path, entry->header, local, sizeof local, err));
    const uint64_t at = entry->header + LOCAL_BYTES + stk__little_endian(local + 26, 2) +
                        stk__little_endian(local + 28, 2);
    if (stk__little_endian(local, 4) != LOCAL_SIGN || at > source->size ||
        entry->size > source->size - at)
        return damaged(path, "an entry is not where its list says", err);
    for (uint64_t n, done = 0; done < entry->size; done += n) {
        n = STK_MIN(entry->size - done, room);
        STK_TRY(stk__checkpoint_source_read(source, path, at + done, to, n, err));
        crc = libdeflate_crc32(crc, to, (size_t)n);
    }
    if (crc == entry->crc)
        return STK_OK;
    return stk__fail_at(
        err, STK_ECHECKSUM, STK_STAGE_TRAIN, path, at,
        "'%.300s' is damaged: the entry '%s' is not what was written; copy it again", path,
        stk__pickle_show(entry->name, name));
}

void stk__zip_release(stk__zip *zip)
{
    stk__free(zip->ctx, zip->directory);
    stk__free(zip->ctx, zip->entries);
    *zip = (stk__zip){.ctx = zip->ctx};
}
