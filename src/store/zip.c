/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip archives [APPNOTE 6.3.10]: files stored as they are, and deflated ones. The central directory
 * is read once and believed in nothing that it can be held against: members must not overlap, and
 * sizes are bounded by what their method can make of the data; the local header of a member is
 * compared with it before the member's first byte is given.
 */
#include "store/zip.h"

#include <stdlib.h>

#include "base/options.h"

#define ENTRY_BYTES     46
#define ENTRY_SIGNATURE 0x02014b50
#define LOCAL_SIGNATURE 0x04034b50
#define EXTRA_ZIP64     0x0001
#define SYSTEM_UNIX     3
#define KIND_OF_MODE    0170000
#define REFUSED         (STK__ZIP_ENCRYPTED | STK__ZIP_PATCHED | STK__ZIP_STRONG | STK__ZIP_MASKED)

static uint64_t number(const uint8_t *at, size_t offset, unsigned bytes)
{
    return stk__little_endian(at + offset, bytes);
}

/* ---- The central directory ------------------------------------------------------------------- */

/* An entry of it. */
typedef struct entry {
    const uint8_t *bytes;
    uint64_t at; /* where it stands in the object */
    uint64_t local, stored, size;
    uint16_t flags, method, name_length, extra_length, comment_length;
    char name[STK_MAX_OBJECT_KEY];
    size_t length; /* of `name` */
} entry;

/* Where an entry stands, and the member that it is about. */
typedef struct place {
    uint64_t local, at; /* from the start of the directory */
} place;

static stk_status damaged(const stk__container *c, const entry *e, const char *what, stk_error *err)
{
    return stk__container_fail(c, err, STK_EFORMAT, e->at,
                               "has a damaged central directory: %s, at byte %llu; copy or "
                               "download it again",
                               what, (unsigned long long)e->at);
}

/* Sizes and places of 64 bits, where those of 32 are full. False: it is damaged. */
static bool take_zip64(entry *e)
{
    const uint8_t *extra = e->bytes + ENTRY_BYTES + e->name_length, *field = NULL;
    uint64_t *const values[3] = {&e->size, &e->stored, &e->local};
    uint16_t left = e->extra_length, length = 0;

    if (e->size != UINT32_MAX && e->stored != UINT32_MAX && e->local != UINT32_MAX)
        return true;
    for (; left >= 4 && !field; extra += 4 + length, left = (uint16_t)(left - 4 - length)) {
        length = (uint16_t)number(extra, 2, 2);
        if (length > left - 4)
            return false;
        if (number(extra, 0, 2) == EXTRA_ZIP64)
            field = extra + 4;
    }
    for (size_t i = 0; i < STK_COUNT(values); i++) {
        if (*values[i] != UINT32_MAX)
            continue;
        if (!field || length < 8)
            return false;
        *values[i] = number(field, 0, 8);
        field += 8;
        length = (uint16_t)(length - 8);
    }
    return true;
}

/* The entry at `offset` of the directory of `length` bytes at `bytes`; without its name. */
static stk_status take_entry(const stk__container *c, const stk__zip_end *end, const uint8_t *bytes,
                             uint64_t offset, entry *out, stk_error *err)
{
    const uint8_t *at = bytes + offset;
    const uint64_t left = end->length - offset;

    out->bytes = at;
    out->at = end->at + offset;
    if (left < ENTRY_BYTES || number(at, 0, 4) != ENTRY_SIGNATURE)
        return damaged(c, out, "an entry is none", err);
    out->flags = (uint16_t)number(at, 8, 2);
    out->method = (uint16_t)number(at, 10, 2);
    out->stored = number(at, 20, 4);
    out->size = number(at, 24, 4);
    out->name_length = (uint16_t)number(at, 28, 2);
    out->extra_length = (uint16_t)number(at, 30, 2);
    out->comment_length = (uint16_t)number(at, 32, 2);
    out->local = number(at, 42, 4);
    if (left - ENTRY_BYTES < (uint64_t)out->name_length + out->extra_length + out->comment_length)
        return damaged(c, out, "an entry is cut short", err);
    if (!take_zip64(out))
        return damaged(c, out, "the sizes of an entry are missing", err);
    if (!stk__add_size(out->local, end->prefix, &out->local) || out->local > end->at)
        return damaged(c, out, "an entry lies beyond it", err);
    return STK_OK;
}

static uint64_t entry_bytes(const entry *e)
{
    return (uint64_t)ENTRY_BYTES + e->name_length + e->extra_length + e->comment_length;
}

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;

    return x->local < y->local ? -1 : x->local > y->local;
}

/* Where all entries stand, in the order of their members. */
static stk_status find_places(const stk__container *c, const stk__zip_end *end,
                              const uint8_t *bytes, place *places, stk_error *err)
{
    uint64_t offset = 0, before = 0;
    bool sorted = true;
    entry e;

    for (uint64_t i = 0; i < end->count; i++) {
        STK_TRY(take_entry(c, end, bytes, offset, &e, err));
        places[i] = (place){.local = e.local, .at = offset};
        sorted = sorted && before <= e.local;
        before = e.local;
        offset += entry_bytes(&e);
    }
    e.at = end->at + offset;
    if (offset != end->length)
        return damaged(c, &e, "it has more entries than it says", err);
    if (!sorted)
        qsort(places, end->count, sizeof *places, by_place);
    return STK_OK;
}

/* ---- Members --------------------------------------------------------------------------------- */

static const char *method_name(uint16_t method)
{
    static const struct {
        uint16_t method;
        const char *name;
    } names[] = {{1, "shrink"},   {6, "implode"}, {9, "deflate64"}, {12, "bzip2"},
                 {14, "lzma"},    {93, "zstd"},   {95, "xz"},       {96, "jpeg"},
                 {97, "wavpack"}, {98, "ppmd"},   {99, "encrypted"}};

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (names[i].method == method)
            return names[i].name;
    return "unknown";
}

/* Refuse what is not read, and sizes that cannot be. */
static stk_status check(const stk__container *c, const entry *e, stk_error *err)
{
    if (e->flags & REFUSED)
        return stk__container_fail(c, err, STK_EKIND, e->at,
                                   "holds '%.200s', which is encrypted: that is not read; write "
                                   "the archive anew without a password",
                                   e->name);
    if (e->method != STK__ZIP_STORED && e->method != STK__ZIP_DEFLATED)
        return stk__container_fail(c, err, STK_EKIND, e->at,
                                   "holds '%.200s', which is packed by method %u (%s): stored "
                                   "and deflated files are read; write the archive anew",
                                   e->name, e->method, method_name(e->method));
    if (number(e->bytes, 34, 2) != 0)
        return stk__container_fail(c, err, STK_EKIND, e->at,
                                   "is one of several parts of an archive, which is not read; "
                                   "join them, as by zip -s 0");
    if (e->method == STK__ZIP_STORED
            ? e->size != e->stored
            : (e->size && !e->stored) || e->size / STK_DEFLATE_RATIO > e->stored)
        return stk__container_fail(c, err, STK_EFORMAT, e->at,
                                   "says of '%.200s' that %llu bytes become %llu, which cannot "
                                   "be; copy or download it again",
                                   e->name, (unsigned long long)e->stored,
                                   (unsigned long long)e->size);
    return STK_OK;
}

static stk__contained kind_of(const entry *e, bool folder)
{
    const uint64_t mode = number(e->bytes, 38, 4) >> 16;

    if (number(e->bytes, 5, 1) == SYSTEM_UNIX && (mode & KIND_OF_MODE) &&
        (mode & KIND_OF_MODE) != S_IFREG && (mode & KIND_OF_MODE) != S_IFDIR)
        return STK__CONTAINED_OTHER;
    return folder ? STK__CONTAINED_FOLDER : STK__CONTAINED_FILE;
}

/* Add the member of an entry; `next`: where the member behind it begins. */
static stk_status add(stk__container *c, stk__zip_tables *zip, entry *e, uint64_t next,
                      stk_error *err)
{
    uint64_t end;

    if (!stk__zip_name(e->bytes + ENTRY_BYTES, e->name_length, e->flags, e->name, &e->length))
        return damaged(c, e, "a name is no UTF-8, or too long", err);
    STK_TRY(check(c, e, err));
    const uint64_t least = (uint64_t)STK__ZIP_LOCAL + e->name_length;
    if (!stk__add_size(e->local, least, &end) || !stk__add_size(end, e->stored, &end) || end > next)
        return stk__container_fail(c, err, STK_EFORMAT, e->at,
                                   "lays '%.200s' over what follows it, at byte %llu; it is "
                                   "damaged or made to deceive",
                                   e->name, (unsigned long long)next);
    zip->members[zip->count] = (stk__zip_member){.at = e->local,
                                                 .stored = e->stored,
                                                 .crc = (uint32_t)number(e->bytes, 16, 4),
                                                 .name_length = e->name_length,
                                                 .flags = e->flags,
                                                 .method = (uint8_t)e->method};
    const bool folder = e->length && e->name[e->length - 1] == '/';
    const stk__container_entry made = {.length = e->size,
                                       .payload = zip->count++,
                                       .mtime_ns = stk__zip_time((uint16_t)number(e->bytes, 14, 2),
                                                                 (uint16_t)number(e->bytes, 12, 2)),
                                       .is = kind_of(e, folder)};
    if (!e->length || (folder && e->length == 1))
        return damaged(c, e, "a name is empty", err);
    if (memchr(e->name, '\\', e->length))
        return stk__container_fail(c, err, STK_EFORMAT, STK_NO_OFFSET,
                                   "names '%.200s', which holds a backslash: it may part folders "
                                   "or belong to a name; write the archive anew with '/' alone",
                                   e->name);
    return stk__container_add(c, e->name, e->length - folder, &made, err);
}

static stk_status add_all(stk__container *c, stk__zip_tables *zip, const stk__zip_end *end,
                          const uint8_t *bytes, const place *places, stk_error *err)
{
    entry e;

    for (uint64_t i = 0; i < end->count; i++) {
        STK_TRY(take_entry(c, end, bytes, places[i].at, &e, err));
        STK_TRY(add(c, zip, &e, i + 1 < end->count ? places[i + 1].local : end->at, err));
    }
    zip->members[zip->count] = (stk__zip_member){.at = end->at};
    return STK_OK;
}

static void zip_close(stk__container *c, void *tables)
{
    stk__zip_tables *zip = tables;

    if (!zip)
        return;
    stk__free(c->context, zip->members);
    stk__free(c->context, zip);
}

/* What the directory takes while it is read, and what stays of it. */
static bool has_room(const stk__container *c, const stk__zip_end *end)
{
    const uint64_t each = sizeof(place) + sizeof(stk__zip_member) + sizeof(stk__container_entry);
    uint64_t bytes, names;

    return end->count <= end->length / ENTRY_BYTES && stk__mul_size(end->count + 1, each, &bytes) &&
           stk__mul_size(end->length, 2, &names) && stk__add_size(bytes, names, &bytes) &&
           bytes <= stk__memory_left(c->context);
}

static stk_status zip_open(stk__container *c, void **tables, stk_error *err)
{
    stk_context *const ctx = c->context;
    stk__zip_end end;
    place *places = NULL;

    STK_TRY(stk__zip_find_end(c, &end, err));
    if (end.count > end.length / ENTRY_BYTES)
        return stk__container_fail(c, err, STK_EFORMAT, end.at,
                                   "says that it holds %llu files, for which its central "
                                   "directory of %llu bytes has no room; copy or download it again",
                                   (unsigned long long)end.count, (unsigned long long)end.length);
    STK_TRY(stk__container_hold(c, end.count + 1, sizeof(stk__zip_member), err));
    stk__zip_tables *zip = *tables = stk__calloc(ctx, 1, sizeof *zip);
    uint8_t *bytes = NULL;
    if (zip && has_room(c, &end)) {
        zip->members = stk__calloc(ctx, end.count + 1, sizeof *zip->members);
        places = stk__calloc(ctx, end.count + 1, sizeof *places);
        bytes = stk__alloc(ctx, end.length + 1);
    }
    stk_status status = STK_OK;
    if (!bytes || !places || !zip->members)
        status = stk__container_fail(c, err, STK_ENOMEM, STK_NO_OFFSET,
                                     "cannot be opened: there is no memory for the %llu files that "
                                     "it says it holds",
                                     (unsigned long long)end.count);
    if (status == STK_OK)
        status = stk__container_read(c, end.at, end.length, bytes, err);
    if (status == STK_OK)
        status = find_places(c, &end, bytes, places, err);
    if (status == STK_OK)
        status = add_all(c, zip, &end, bytes, places, err);
    stk__free(ctx, places);
    stk__free(ctx, bytes);
    return status;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static stk_status zip_extent(const stk__container *c, const void *tables, uint64_t payload,
                             uint64_t size, uint64_t offset, stk__container_run *out)
{
    stk__zip_member *m = &((const stk__zip_tables *)tables)->members[payload];
    const unsigned lead = atomic_load_explicit(&m->lead, memory_order_acquire);

    (void)c;
    *out = (stk__container_run){.at = m->at + lead,
                                .stored = m->stored,
                                .decoded = size,
                                .skip = offset,
                                .length = size - offset,
                                .raw = m->method == STK__ZIP_STORED,
                                .has_sum = true,
                                .sum = m->crc,
                                .lead = lead ? 0 : (uint32_t)STK__ZIP_LOCAL + m->name_length};
    return STK_OK;
}

/* Whether a size of a local header is that of the central directory, or is not said there. */
static bool same_size(const stk__zip_member *m, uint64_t local, uint64_t central)
{
    return local == central || local == UINT32_MAX || ((m->flags & STK__ZIP_SUM_BEHIND) && !local);
}

static stk_status zip_settle(const stk__container *c, void *tables,
                             const stk__container_entry *file, const void *lead,
                             const char **reason)
{
    stk__zip_member *m = &((stk__zip_tables *)tables)->members[file->payload];
    const uint8_t *local = lead;
    char name[STK_MAX_OBJECT_KEY];
    uint64_t end;
    size_t length;

    *reason = "its local header is none, or another file's than the central directory says; the "
              "archive is damaged or made to deceive";
    if (number(local, 0, 4) != LOCAL_SIGNATURE || number(local, 26, 2) != m->name_length ||
        !stk__zip_name(local + STK__ZIP_LOCAL, m->name_length, m->flags, name, &length) ||
        strcmp(name, stk__container_path(c, file)) != 0)
        return STK_EFORMAT;
    *reason = "its local header and the central directory say different things of its size, sum or "
              "method; the archive is damaged or made to deceive";
    const uint64_t sum = number(local, 14, 4);
    if (number(local, 8, 2) != m->method || (number(local, 6, 2) & REFUSED) ||
        !same_size(m, number(local, 18, 4), m->stored) ||
        !same_size(m, number(local, 22, 4), file->length) ||
        (sum != m->crc && !((m->flags & STK__ZIP_SUM_BEHIND) && !sum)))
        return STK_EFORMAT;
    *reason = "it lies over what follows it; the archive is damaged or made to deceive";
    const uint32_t bytes = STK__ZIP_LOCAL + m->name_length + (uint32_t)number(local, 28, 2);
    if (!stk__add_size(m->at + bytes, m->stored, &end) || end > m[1].at)
        return STK_EFORMAT;
    *reason = NULL;
    atomic_store_explicit(&m->lead, bytes, memory_order_release);
    return STK_OK;
}

static stk_status zip_decode(const stk__container *c, const void *tables, stk__codec_state *state,
                             const stk__container_run *e, const void *stored, void *out,
                             const char **reason)
{
    (void)c, (void)tables;
    return stk__deflate_decode(state, stored, e->stored, out, e->decoded, reason);
}

/* One that begins with a file, or, behind other bytes, ends with a central directory. */
static stk_status zip_recognise(stk_store *store, const char *key, uint64_t size, bool *is)
{
    uint8_t bytes[STK__ZIP_END];
    bool got = false;

    *is = false;
    if (size < sizeof bytes)
        return STK_OK;
    STK_TRY(stk__container_peek(store, key, 0, 4, bytes, &got));
    *is = got &&
          (number(bytes, 0, 4) == LOCAL_SIGNATURE || number(bytes, 0, 4) == STK__ZIP_END_SIGNATURE);
    if (!got || *is)
        return STK_OK;
    STK_TRY(stk__container_peek(store, key, size - sizeof bytes, sizeof bytes, bytes, &got));
    *is = got && number(bytes, 0, 4) == STK__ZIP_END_SIGNATURE && number(bytes, 20, 2) == 0;
    return STK_OK;
}

const stk__container_format stk__zip_format = {.name = "zip",
                                               .word = "zip archive",
                                               .open = zip_open,
                                               .close = zip_close,
                                               .extent = zip_extent,
                                               .settle = zip_settle,
                                               .decode = zip_decode,
                                               .recognise = zip_recognise};

/* ---- The store ------------------------------------------------------------------------------- */

static const stk_option_table zip_option_table =
    STK__CONTAINER_OPTIONS("zip", "The store of the files in a zip archive.");

static stk_status open_store(stk_context *ctx, const char *url, const void *options,
                             stk_store **out, stk_error *err)
{
    return stk__container_open(&stk__zip_format, &stk__store_zip, ctx, url, options, out, err);
}

const stk_store_ops stk__store_zip = {
    STK__CONTAINER_OPS,
    .name = "zip",
    .doc = "the files in a zip archive: zip:URL!/PATH",
    .options = &zip_option_table,
    .open = open_store,
};
