/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an index: the table of a tree, little endian.
 *
 *   header   magic, version, checksum (XXH3 of all that follows it), counts, times
 *   folders  of each: time of change, inode, hash of its entries, number of its pictures
 *   sizes    of each picture, 8 bytes
 *   identities of each picture in another store than a local folder, 8 bytes
 *   text     paths of all folders, then names of all pictures, each ended by a zero
 *
 * An index is never trusted: its length follows from its counts, every name is looked at, and what
 * is not exactly what listing a tree could have given is refused.
 */
#include "dataset/images.h"

#include <xxhash.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the index is written as it lies in memory, little endian"
#endif

#define VERSION          1u
#define VERSION_FOLLOWED 2u /* the same; links that lead out of the tree were followed */
#define VERSION_FAR      3u /* of another store: with identities */

static const char magic[8] = {'\x89', 'S', 'T', 'K', 'T', 'R', 'E', '\n'};

typedef struct index_header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t checksum; /* of all bytes behind this member */
    uint64_t num_folders, num_files, text_bytes;
    uint64_t ignored, unread;
    int64_t listed_ns;
    uint64_t elapsed_ns;
} index_header;

typedef struct index_folder {
    int64_t mtime_ns;
    uint64_t inode, entries, count;
} index_folder;

#define CHECKED_FROM (offsetof(index_header, checksum) + sizeof(uint64_t))

/* Bytes of an index of these counts; false when there can be none. */
static bool index_length(const index_header *h, uint64_t *length)
{
    const uint64_t folders = h->num_folders, files = h->num_files, text = h->text_bytes;
    const uint64_t each = sizeof(uint64_t) * (1 + (h->version == VERSION_FAR));
    uint64_t a, b;

    return folders <= STK__IMAGES_MAX_FOLDERS && files <= STK__IMAGES_MAX_FILES &&
           stk__mul_size(folders, sizeof(index_folder), &a) && stk__mul_size(files, each, &b) &&
           stk__add_size(a, b, &a) && stk__add_size(a, sizeof(index_header), &a) &&
           stk__add_size(a, text, length);
}

stk_status stk__images_index_make(const stk__images_table *table, void **data, uint64_t *length)
{
    index_header h = {.version = table->identities ? VERSION_FAR
                                 : table->followed ? VERSION_FOLLOWED
                                                   : VERSION,
                      .header_bytes = sizeof h,
                      .num_folders = table->num_folders,
                      .num_files = table->num_files,
                      .text_bytes = table->text_bytes,
                      .ignored = table->ignored,
                      .unread = table->unread,
                      .listed_ns = table->listed_ns,
                      .elapsed_ns = table->elapsed_ns};

    *data = NULL;
    if (!index_length(&h, length))
        return STK_ELIMIT;
    unsigned char *bytes = stk__alloc(table->context, *length);
    if (!bytes)
        return STK_ENOMEM;
    unsigned char *at = bytes + sizeof h;
    for (uint64_t i = 0; i < table->num_folders; i++, at += sizeof(index_folder)) {
        const stk__images_folder *f = &table->folders[i];
        index_folder row = {f->mtime_ns, f->inode, f->entries, f->count};
        memcpy(at, &row, sizeof row);
    }
    for (uint64_t i = 0; i < table->num_files; i++, at += sizeof(uint64_t))
        memcpy(at, &table->files[i].size, sizeof(uint64_t));
    if (table->identities) {
        memcpy(at, table->identities, table->num_files * sizeof(uint64_t));
        at += table->num_files * sizeof(uint64_t);
    }
    memcpy(at, table->text, table->text_bytes);
    memcpy(h.magic, magic, sizeof magic);
    memcpy(bytes, &h, sizeof h);
    h.checksum = XXH3_64bits(bytes + CHECKED_FROM, *length - CHECKED_FROM);
    memcpy(bytes, &h, sizeof h);
    *data = bytes;
    return STK_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A name that listing would give: of `length` bytes, none of them a '/', not hidden. */
static bool sound_name(const char *name, size_t length)
{
    return length > 0 && length <= STK__IMAGES_MAX_NAME && name[0] != '.' &&
           !memchr(name, '/', length);
}

static bool sound_path(const char *path, size_t length)
{
    uint32_t depth = 0;

    if (length > STK__IMAGES_MAX_PATH)
        return false;
    for (const char *end = path + length, *part = path; part <= end; depth++) {
        const char *stop = memchr(part, '/', (size_t)(end - part));
        size_t n = (size_t)((stop ? stop : end) - part);
        if (!sound_name(part, n))
            return false;
        part += n + 1;
    }
    return depth <= STK__IMAGES_MAX_DEPTH;
}

/* The length of the text at *at, which moves behind its end; false where it has none. */
static bool next_text(const stk__images_table *t, uint64_t *at, size_t *length)
{
    const char *from = t->text + *at;
    const char *end = *at < t->text_bytes ? memchr(from, 0, t->text_bytes - *at) : NULL;

    if (!end)
        return false;
    *length = (size_t)(end - from);
    *at += *length + 1;
    return true;
}

static bool read_folders(stk__images_table *t, const unsigned char *rows, uint64_t *at)
{
    uint64_t files = 0;

    for (uint64_t i = 0; i < t->num_folders; i++) {
        stk__images_folder *f = &t->folders[i];
        index_folder row;
        size_t length;
        memcpy(&row, rows + i * sizeof row, sizeof row);
        *f = (stk__images_folder){*at, files, row.count, row.mtime_ns, row.inode, row.entries};
        if (row.count > t->num_files - files || !next_text(t, at, &length))
            return false;
        files += row.count;
        const char *path = t->text + f->path;
        if (i == 0 ? length != 0 : !sound_path(path, length))
            return false;
        if (i && stk__images_compare_paths(t->text + f[-1].path, path) >= 0)
            return false;
    }
    return files == t->num_files;
}

static bool read_files(stk__images_table *t, const unsigned char *sizes, uint64_t *at)
{
    for (uint64_t i = 0; i < t->num_folders; i++) {
        const stk__images_folder *folder = &t->folders[i];
        for (uint64_t k = folder->first; k < folder->first + folder->count; k++) {
            stk__images_file *f = &t->files[k];
            size_t length;
            f->name = *at;
            f->folder = (uint32_t)i;
            memcpy(&f->size, sizes + k * sizeof f->size, sizeof f->size);
            if (!next_text(t, at, &length) || f->size > INT64_MAX)
                return false;
            const char *name = t->text + f->name;
            if (!sound_name(name, length) || stk__images_kind(name, length) < STK__IMAGES_JPEG ||
                (k > folder->first && strcmp(t->text + f[-1].name, name) >= 0))
                return false;
        }
    }
    return *at == t->text_bytes;
}

static stk_status check_header(const index_header *h, const unsigned char *bytes, uint64_t length)
{
    uint64_t expected;

    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->version < VERSION ||
        h->version > VERSION_FAR || h->header_bytes != sizeof *h)
        return STK_EFORMAT;
    if (!index_length(h, &expected) || expected != length || h->num_folders == 0 ||
        h->unread > h->ignored || h->elapsed_ns > INT64_MAX)
        return STK_EFORMAT;
    if (XXH3_64bits(bytes + CHECKED_FROM, length - CHECKED_FROM) != h->checksum)
        return STK_ECHECKSUM;
    return STK_OK;
}

stk_status stk__images_index_parse(stk_context *ctx, const void *data, uint64_t length,
                                   stk__images_table *out)
{
    const unsigned char *bytes = data;
    index_header h;
    uint64_t at = 0;

    *out = (stk__images_table){.context = ctx};
    if (length < sizeof h)
        return STK_EFORMAT;
    memcpy(&h, bytes, sizeof h);
    STK_TRY(check_header(&h, bytes, length));
    const unsigned char *folders = bytes + sizeof h;
    const unsigned char *sizes = folders + h.num_folders * sizeof(index_folder);
    const unsigned char *text = sizes + h.num_files * sizeof(uint64_t), *identities = text;
    const bool far = h.version == VERSION_FAR;
    text += far ? h.num_files * sizeof(uint64_t) : 0;
    *out = (stk__images_table){.context = ctx,
                               .text = stk__alloc(ctx, h.text_bytes),
                               .text_bytes = h.text_bytes,
                               .folders = stk__calloc(ctx, h.num_folders, sizeof *out->folders),
                               .num_folders = h.num_folders,
                               .files = stk__calloc(ctx, h.num_files, sizeof *out->files),
                               .num_files = h.num_files,
                               .identities =
                                   far ? stk__calloc(ctx, h.num_files, sizeof(uint64_t)) : NULL,
                               .ignored = h.ignored,
                               .unread = h.unread,
                               .followed = h.version == VERSION_FOLLOWED,
                               .listed_ns = h.listed_ns,
                               .elapsed_ns = h.elapsed_ns};
    stk_status status =
        out->text && out->folders && out->files && (!far || out->identities) ? STK_OK : STK_ENOMEM;
    if (status == STK_OK) {
        if (far)
            memcpy(out->identities, identities, h.num_files * sizeof(uint64_t));
        memcpy(out->text, text, h.text_bytes);
        if (!read_folders(out, folders, &at) || !read_files(out, sizes, &at))
            status = STK_EFORMAT;
    }
    if (status != STK_OK)
        stk__images_release(out);
    return status;
}
