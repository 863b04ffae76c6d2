/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a tar: ustar, pax (path and size of extended headers) and GNU (names of 'L', sizes
 * of base 256). Files that follow one another and have the same path up to the first dot of the
 * last name are a sample, what follows the dot is the kind of the part. Nothing is extracted.
 */
#include <stdio.h>

#include "base/bytes.h"
#include "dataset/records/webdataset_fields.h"
#include "dataset/tar_header.h"

#define MAX_PAX (UINT64_C(1) << 20) /* bytes of an extended header */

/* A shard being walked. */
typedef struct walk {
    stk__shard *shard;
    uint64_t at; /* of the header */
    stk__tar_head head;
    uint64_t size;                           /* of the member */
    char name[STK__WEBDATASET_MAX_NAME + 1]; /* of the member, or of the next one where `named` */
    stk__webdataset_sample sample;
    bool named, sized;  /* by a header in front: name, size */
    uint64_t name_at;   /* where the name lies, of a header in front */
    const char *header; /* the bytes of an extended header */
} walk;

static stk_status damaged(const walk *w, stk_status status, const char *what, stk_error *err)
{
    return stk__shard_fail(w->shard, status, w->at, err,
                           "it is no tar that is whole: %s; copy or download it again", what);
}

/* ---- Headers in front of a member ------------------------------------------------------------ */

static stk_status read_long_name(walk *w, stk_error *err)
{
    const uint64_t size = w->head.size;

    if (size == 0 || size > STK__WEBDATASET_MAX_NAME + 1)
        return stk__shard_fail(w->shard, STK_ELIMIT, w->at, err,
                               "a name of %llu bytes; at most %u are read",
                               (unsigned long long)size, STK__WEBDATASET_MAX_NAME);
    STK_TRY(stk__shard_read(w->shard, w->at + STK__TAR_BLOCK, w->name, size, err));
    /* GNU ends it with a zero byte, others do not. */
    if (size > STK__WEBDATASET_MAX_NAME && w->name[size - 1])
        return damaged(w, STK_EFORMAT, "a name without its end", err);
    w->name[STK_MIN(size, STK__WEBDATASET_MAX_NAME)] = 0;
    if (strlen(w->name) + 1 < size)
        return damaged(w, STK_EFORMAT, "a zero byte in a name", err);
    w->named = true;
    w->name_at = w->at + STK__TAR_BLOCK;
    return STK_OK;
}

static bool is_key(const stk__tar_pax *record, const char *key)
{
    return record->key_length == strlen(key) && memcmp(record->key, key, record->key_length) == 0;
}

static stk_status take_path(walk *w, const stk__tar_pax *record, stk_error *err)
{
    if (record->value_length == 0 || record->value_length > STK__WEBDATASET_MAX_NAME)
        return stk__shard_fail(w->shard, STK_ELIMIT, w->at, err,
                               "a name of %zu bytes; at most %u are read", record->value_length,
                               STK__WEBDATASET_MAX_NAME);
    if (memchr(record->value, 0, record->value_length))
        return damaged(w, STK_EFORMAT, "a zero byte in a name", err);
    memcpy(w->name, record->value, record->value_length);
    w->name[record->value_length] = 0;
    w->named = true;
    w->name_at = w->at + STK__TAR_BLOCK + (uint64_t)(record->value - w->header);
    return STK_OK;
}

static stk_status take_size(walk *w, const stk__tar_pax *record, stk_error *err)
{
    uint64_t size = 0;
    bool is_number = record->value_length > 0 && record->value_length <= 18;

    for (size_t i = 0; is_number && i < record->value_length; i++) {
        is_number = record->value[i] >= '0' && record->value[i] <= '9';
        size = size * 10 + (uint64_t)(record->value[i] - '0');
    }
    if (!is_number)
        return damaged(w, STK_EFORMAT, "a size that is no number", err);
    w->size = size;
    w->sized = true;
    return STK_OK;
}

static stk_status take_records(walk *w, const char *at, const char *end, stk_error *err)
{
    stk__tar_pax record;

    while (at < end) {
        if (!stk__tar_pax_next(&at, end, &record))
            return damaged(w, STK_EFORMAT, "an extended header that is no list of records", err);
        if (record.key_length >= 10 && memcmp(record.key, "GNU.sparse", 10) == 0)
            return stk__shard_fail(w->shard, STK_EKIND, w->at, err,
                                   "a sparse member, whose bytes do not lie in a row; pack the "
                                   "shard again without --sparse");
        const bool path = is_key(&record, "path"), size = is_key(&record, "size");
        if ((path || size) && w->head.type == 'g')
            return stk__shard_fail(w->shard, STK_EKIND, w->at, err,
                                   "a name or size for all members; pack the shard again");
        if (path)
            STK_TRY(take_path(w, &record, err));
        if (size)
            STK_TRY(take_size(w, &record, err));
    }
    return STK_OK;
}

static stk_status read_pax(walk *w, stk_error *err)
{
    stk_context *ctx = stk__shard_context(w->shard);
    const uint64_t size = w->head.size;

    if (size > MAX_PAX)
        return stk__shard_fail(w->shard, STK_ELIMIT, w->at, err,
                               "an extended header of %llu bytes; at most %llu are read",
                               (unsigned long long)size, (unsigned long long)MAX_PAX);
    char *text = stk__alloc(ctx, size);
    if (!text)
        return stk__shard_fail(w->shard, STK_ENOMEM, w->at, err, "no memory for its header");
    stk_status status = stk__shard_read(w->shard, w->at + STK__TAR_BLOCK, text, size, err);
    w->header = text;
    if (status == STK_OK)
        status = take_records(w, text, text + size, err);
    stk__free(ctx, text);
    return status;
}

/* ---- Members --------------------------------------------------------------------------------- */

/* Make the name that of a file below the root; *is_folder where it ends as one. */
static stk_status check_name(walk *w, bool *is_folder, stk_error *err)
{
    char *name = w->name;

    while (name[0] == '.' && name[1] == '/') {
        name += 2;
        name += strspn(name, "/");
    }
    w->sample.name_at += (uint64_t)(name - w->name);
    if (name != w->name)
        memmove(w->name, name, strlen(name) + 1);
    name = w->name;
    size_t length = strlen(name);
    *is_folder = w->head.type == '5' || (w->head.type == 0 && length && name[length - 1] == '/');
    while (*is_folder && length > 0 && name[length - 1] == '/')
        name[--length] = 0;
    if (*is_folder && (length == 0 || strcmp(name, ".") == 0))
        return STK_OK;
    if (stk__tar_is_below(name))
        return STK_OK;
    return stk__shard_fail(w->shard, STK_EFORMAT, w->at, err,
                           "the member '%.200s' does not lie below the root of the shard; pack the "
                           "shard again with relative names",
                           name);
}

bool stk__webdataset_is_kind(const char *kind)
{
    for (const char *p = kind; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return false;
    return stk__utf8_valid(kind, strlen(kind));
}

/* A part that is the key of the sample whose first member has its header at `at`. */
static stk_status add_key(stk__shard *shard, const stk__webdataset_sample *sample, uint64_t at,
                          stk_error *err)
{
    if (!sample->keyed)
        return STK_OK;
    return sample->split
               ? stk__shard_part(shard, STK__WEBDATASET_KEY_HEADER, at, STK__TAR_BLOCK, err)
               : stk__shard_part(shard, STK__WEBDATASET_KEY, sample->name_at, sample->key_length,
                                 err);
}

stk_status stk__webdataset_member(stk__shard *shard, stk__webdataset_sample *sample,
                                  const char *name, uint64_t at, uint64_t size, stk_error *err)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    char kind[STK__RECORDS_MAX_KIND + 1];

    /* A name without an extension, or that begins with the dot, is none of a sample. */
    if (!dot || dot == base || !dot[1])
        return STK_OK;
    if (strlen(dot + 1) >= sizeof kind || !stk__webdataset_is_kind(dot + 1))
        return stk__shard_fail(shard, STK_EFORMAT, at, err,
                               "'%.200s' has an extension that is too long or no text", name);
    for (size_t i = 0; i <= strlen(dot + 1); i++)
        kind[i] = dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? (char)(dot[1 + i] + 32) : dot[1 + i];
    const size_t length = (size_t)(dot - name);
    if (!sample->begun || length != sample->key_length || memcmp(sample->key, name, length) != 0) {
        STK_TRY(stk__shard_record(shard, err));
        stk__shard_print(shard, name, length);
        memcpy(sample->key, name, length);
        sample->key_length = length;
        sample->begun = true;
        STK_TRY(add_key(shard, sample, at, err));
    }
    if (strcmp(kind, "npz") == 0 || stk__ends_with(kind, strlen(kind), ".npz"))
        return stk__webdataset_npz_scan(shard, kind, at + STK__TAR_BLOCK, size, err);
    return stk__shard_part(shard, kind, at + STK__TAR_BLOCK, size, err);
}

static stk_status refuse_type(const walk *w, stk_error *err)
{
    static const struct {
        unsigned char type;
        const char *what;
    } kinds[] = {{'1', "a hard link"}, {'2', "a symbolic link"},
                 {'3', "a device"},    {'4', "a device"},
                 {'6', "a pipe"},      {'S', "a sparse file, whose bytes do not lie in a row"}};
    const char *what = "of a type that is unknown";

    for (size_t i = 0; i < STK_COUNT(kinds); i++)
        if (kinds[i].type == w->head.type)
            what = kinds[i].what;
    return stk__shard_fail(w->shard, STK_EKIND, w->at, err,
                           "the member '%.200s' is %s; pack the shard again with plain files "
                           "(tar --dereference --hard-dereference)",
                           w->name, what);
}

/* A file or folder; *next is where the next header lies. */
static stk_status take_member(walk *w, uint64_t *next, stk_error *err)
{
    const unsigned char type = w->head.type;
    const uint64_t offset = w->at + STK__TAR_BLOCK;
    bool is_folder = false;

    w->sample.split = !w->named && w->head.split;
    w->sample.name_at = w->named ? w->name_at : w->at;
    if (!w->named)
        memcpy(w->name, w->head.name, sizeof w->head.name);
    if (!w->sized)
        w->size = w->head.size;
    w->named = w->sized = false;
    if (type != '0' && type != 0 && type != '7' && type != '5')
        return refuse_type(w, err);
    STK_TRY(check_name(w, &is_folder, err));
    if (is_folder && w->size)
        return damaged(w, STK_EFORMAT, "a folder with bytes", err);
    if (w->size > stk__shard_size(w->shard) - offset)
        return stk__shard_fail(
            w->shard, STK_ETRUNCATED, w->at, err,
            "the member '%.200s' has %llu bytes and the shard ends at %llu; copy "
            "or download it again",
            w->name, (unsigned long long)w->size, (unsigned long long)stk__shard_size(w->shard));
    *next = offset + stk__round_up(w->size, STK__TAR_BLOCK);
    return is_folder ? STK_OK
                     : stk__webdataset_member(w->shard, &w->sample, w->name, w->at, w->size, err);
}

/* What the header at `at` is of. */
static stk_status take_header(walk *w, uint64_t *next, stk_error *err)
{
    const unsigned char type = w->head.type;

    if (!w->head.sized)
        return damaged(w, STK_EFORMAT, "a size that is no number", err);
    if (type != 'x' && type != 'g' && type != 'L' && type != 'K')
        return take_member(w, next, err);
    if (w->head.size > stk__shard_size(w->shard) - w->at - STK__TAR_BLOCK)
        return damaged(w, STK_ETRUNCATED, "it ends in an extended header", err);
    *next = w->at + STK__TAR_BLOCK + stk__round_up(w->head.size, STK__TAR_BLOCK);
    return type == 'L' ? read_long_name(w, err) : type == 'K' ? STK_OK : read_pax(w, err);
}

/* ---- The shard ------------------------------------------------------------------------------- */

static stk_status refuse_compressed(const walk *w, const unsigned char *head, stk_error *err)
{
    static const struct {
        const char *magic, *name, *unpack;
    } kinds[] = {{"\x1f\x8b", "gzip", NULL},
                 {"\x28\xb5\x2f\xfd", "zstd", NULL},
                 {"BZh", "bzip2", "bunzip2"},
                 {"\xfd"
                  "7zXZ",
                  "xz", "unxz"},
                 {"\x04\x22\x4d\x18", "lz4", "lz4 -d"}};

    for (size_t i = 0; i < STK_COUNT(kinds); i++)
        if (memcmp(head, kinds[i].magic, strlen(kinds[i].magic)) == 0)
            return stk__shard_fail(w->shard, STK_ENOTSUP, 0, err,
                                   "it is compressed by %s, so that no record can be read without "
                                   "those before it; unpack it once: %s",
                                   kinds[i].name,
                                   kinds[i].unpack
                                       ? kinds[i].unpack
                                       : "stoker convert webdataset:SHARDS webdataset:DIR");
    return STK_OK;
}

/* The end: two blocks of zeros. */
static stk_status check_end(walk *w, stk_error *err)
{
    unsigned char block[STK__TAR_BLOCK];

    STK_TRY(stk__shard_read(w->shard, w->at + STK__TAR_BLOCK, block, sizeof block, err));
    if (!stk__all_zero(block, sizeof block))
        return damaged(w, STK_EFORMAT, "one block of zeros and not two", err);
    if (w->named || w->sized)
        return damaged(w, STK_EFORMAT, "an extended header without its member", err);
    return STK_OK;
}

static stk_status walk_shard(walk *w, stk_error *err)
{
    unsigned char block[STK__TAR_BLOCK];
    const char *what;
    uint64_t next = 0;

    for (;; w->at = next) {
        if (w->at >= stk__shard_size(w->shard))
            return damaged(w, STK_ETRUNCATED, "it ends without the two blocks of zeros", err);
        STK_TRY(stk__shard_read(w->shard, w->at, block, sizeof block, err));
        if (w->at == 0)
            STK_TRY(refuse_compressed(w, block, err));
        if (stk__all_zero(block, sizeof block))
            return check_end(w, err);
        const stk_status status = stk__tar_head_read(block, &w->head, &what);
        if (status != STK_OK)
            return damaged(w, status, what, err);
        STK_TRY(take_header(w, &next, err));
    }
}

stk_status stk__webdataset_scan(stk__shard *shard, const void *options, bool keyed, stk_error *err)
{
    stk_context *ctx = stk__shard_context(shard);
    bool listed = false;

    /* A list of members tells their names, and not where these lie. */
    if (!keyed)
        STK_TRY(stk__webdataset_list(shard, options, &listed, err));
    if (listed)
        return STK_OK;
    walk *w = stk__calloc(ctx, 1, sizeof *w);
    if (!w)
        return stk__shard_fail(shard, STK_ENOMEM, 0, err, "no memory to read it");
    w->shard = shard;
    w->sample.keyed = keyed;
    const stk_status status = walk_shard(w, err);
    stk__free(ctx, w);
    return status;
}
