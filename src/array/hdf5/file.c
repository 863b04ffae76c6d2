/* SPDX-License-Identifier: Apache-2.0 */
/* A file as bytes at addresses: blocks that are kept, and the superblock [HDF5 format II]. */
#include <stdio.h>

#include "array/hdf5/object.h"

#include "base/options.h"

#define NUM_BLOCKS  32u
#define LEAST_BLOCK UINT64_C(4096)
#define MOST_BLOCK  (UINT64_C(128) << 10)
#define SIGNATURE   "\x89HDF\r\n\x1a\n"
#define MOST_BASE   (UINT64_C(1) << 32) /* of a user block */
#define MOST_SUPER  128u                /* bytes of any superblock */
#define USUAL_LEAF  4u
#define USUAL_INNER 16u
#define USUAL_CHUNK 32u
#define STEP_BYTES  1024u /* that are read as one step of work */

struct stk__hdf5_block {
    uint64_t at, length; /* in the file */
    uint64_t used;       /* when it was */
    uint8_t *data;
};

/* ---- Failures ---- */

stk_status stk__hdf5_damaged(const stk__hdf5 *f, uint64_t address, const char *what)
{
    const uint64_t at = address == STK__HDF5_NONE ? 0 : f->base + address;

    return stk__fail_at(f->err, STK_EFORMAT, STK_STAGE_ARRAY, f->key, at,
                        "%.300s is a damaged HDF5 file: %s (byte %llu); copy or write it again",
                        f->key, what, (unsigned long long)at);
}

stk_status stk__hdf5_refuse(const stk__hdf5 *f, uint64_t address, const char *what)
{
    const uint64_t at = address == STK__HDF5_NONE ? 0 : f->base + address;

    return stk__fail_at(f->err, STK_EKIND, STK_STAGE_ARRAY, f->key, at,
                        "%.300s: %s (byte %llu); write it again without, as with h5repack", f->key,
                        what, (unsigned long long)at);
}

stk_status stk__hdf5_no_memory(const stk__hdf5 *f)
{
    return stk__fail_at(f->err, STK_ENOMEM, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                        "no memory to read the structure of %.300s", f->key);
}

static stk_status spend(stk__hdf5 *f, uint64_t steps)
{
    if (steps <= f->work) {
        f->work -= steps;
        return STK_OK;
    }
    f->work = 0;
    return stk__fail_at(f->err, STK_ELIMIT, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                        "%.300s: its structure has more than %llu parts, or KiB that are read for "
                        "them (STK__HDF5_MAX_WORK)",
                        f->key, (unsigned long long)STK__HDF5_MAX_WORK);
}

stk_status stk__hdf5_step(stk__hdf5 *f)
{
    return spend(f, 1);
}

/* ---- Memory ---- */

stk_status stk__hdf5_take(stk__hdf5 *f, uint64_t bytes, void **out)
{
    *out = NULL;
    if (bytes > f->memory)
        return stk__fail_at(f->err, STK_ELIMIT, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                            "%.300s: its structure takes %llu bytes more than a quarter of "
                            "memory_limit; raise it",
                            f->key, (unsigned long long)(bytes - f->memory));
    if (!(*out = stk__calloc(f->ctx, 1, bytes)))
        return stk__hdf5_no_memory(f);
    f->memory -= bytes;
    return STK_OK;
}

void stk__hdf5_give(stk__hdf5 *f, void *memory, uint64_t bytes)
{
    if (!memory)
        return;
    stk__free(f->ctx, memory);
    f->memory += bytes;
}

/* ---- Bytes ---- */

bool stk__hdf5_inside(const stk__hdf5 *f, uint64_t address, uint64_t length)
{
    return address <= f->end && length <= f->end - address;
}

/* The block of the file that holds byte `at`, read now or kept. */
static stk_status find_block(stk__hdf5 *f, uint64_t at, const stk__hdf5_block **out)
{
    const uint64_t begin = at - at % f->block_bytes;
    stk__hdf5_block *oldest = &f->blocks[0];

    for (uint32_t i = 0; i < NUM_BLOCKS; i++) {
        stk__hdf5_block *b = &f->blocks[i];
        if (b->length && b->at == begin) {
            b->used = ++f->clock;
            *out = b;
            return STK_OK;
        }
        if (b->used < oldest->used)
            oldest = b;
    }
    if (!oldest->data && !(oldest->data = stk__alloc(f->ctx, f->block_bytes)))
        return stk__hdf5_no_memory(f);
    const uint64_t length = STK_MIN(f->block_bytes, f->size - begin);
    oldest->length = 0;
    STK_TRY(stk_store_read(f->store, f->key, begin, length, oldest->data, f->err));
    *oldest =
        (stk__hdf5_block){.at = begin, .length = length, .used = ++f->clock, .data = oldest->data};
    *out = oldest;
    return STK_OK;
}

stk_status stk__hdf5_read(stk__hdf5 *f, uint64_t address, uint64_t length, void *out)
{
    const stk__hdf5_block *block = NULL;
    uint8_t *to = out;

    if (!stk__hdf5_inside(f, address, length))
        return stk__hdf5_damaged(f, address, "something points behind the end of the file");
    uint64_t at = f->base + address;
    if (length > f->block_bytes)
        return stk_store_read(f->store, f->key, at, length, out, f->err);
    while (length) {
        STK_TRY(find_block(f, at, &block));
        const uint64_t from = at - block->at, some = STK_MIN(length, block->length - from);
        memcpy(to, block->data + from, some);
        to += some;
        at += some;
        length -= some;
    }
    return STK_OK;
}

stk_status stk__hdf5_load(stk__hdf5 *f, uint64_t address, uint64_t length, uint8_t **out)
{
    void *data = NULL;

    *out = NULL;
    if (!stk__hdf5_inside(f, address, length)) /* before memory is taken for it */
        return stk__hdf5_damaged(f, address, "something points behind the end of the file");
    STK_TRY(spend(f, length / STEP_BYTES)); /* large blocks may be asked for again and again */
    STK_TRY(stk__hdf5_take(f, length, &data));
    const stk_status status = stk__hdf5_read(f, address, length, data);
    if (status != STK_OK)
        stk__hdf5_give(f, data, length);
    else
        *out = data;
    return status;
}

/* ---- Fields ---- */

stk__hdf5_fields stk__hdf5_fields_of(const void *data, uint64_t length)
{
    return (stk__hdf5_fields){.at = data, .end = (const uint8_t *)data + length};
}

const uint8_t *stk__hdf5_skip(stk__hdf5_fields *fields, uint64_t bytes)
{
    const uint8_t *at = fields->at;

    if (fields->failed || bytes > (uint64_t)(fields->end - at)) {
        fields->failed = true;
        return NULL;
    }
    fields->at += bytes;
    return at;
}

uint64_t stk__hdf5_field(stk__hdf5_fields *fields, unsigned bytes)
{
    const uint8_t *at = stk__hdf5_skip(fields, bytes);

    return at ? stk__little_endian(at, bytes) : 0;
}

uint64_t stk__hdf5_address(const stk__hdf5 *f, stk__hdf5_fields *fields)
{
    const uint64_t undefined = UINT64_MAX >> (64 - 8 * f->of_address);
    const uint64_t address = stk__hdf5_field(fields, f->of_address);

    return address == undefined ? STK__HDF5_NONE : address;
}

uint64_t stk__hdf5_length(const stk__hdf5 *f, stk__hdf5_fields *fields)
{
    return stk__hdf5_field(fields, f->of_length);
}

unsigned stk__hdf5_log2(uint64_t x)
{
    return 63u - (unsigned)__builtin_clzll(x | 1);
}

bool stk__hdf5_is_power(uint64_t x)
{
    return x && !(x & (x - 1));
}

unsigned stk__hdf5_width(uint64_t x)
{
    return stk__hdf5_log2(x) / 8 + 1;
}

stk_status stk__hdf5_whole(const stk__hdf5 *f, uint64_t address, const uint8_t *data,
                           uint64_t length, const char *signature, uint8_t version)
{
    char what[64];

    if (length < 9 || memcmp(data, signature, 4) != 0 || data[4] != version) {
        snprintf(what, sizeof what, "there is no %s of version %u", signature, version);
        return stk__hdf5_damaged(f, address, what);
    }
    if (stk__hdf5_checksum(data, length - 4) == stk__little_endian(data + length - 4, 4))
        return STK_OK;
    const uint64_t at = f->base + address;
    return stk__fail_at(f->err, STK_ECHECKSUM, STK_STAGE_ARRAY, f->key, at,
                        "%.300s is a damaged HDF5 file: the checksum of %s at byte %llu does not "
                        "match; copy or write it again",
                        f->key, signature, (unsigned long long)at);
}

/* ---- The superblock ---- */

static bool is_width(uint64_t bytes)
{
    return bytes == 2 || bytes == 4 || bytes == 8;
}

/* Versions 0 and 1: *end is the end of the file as it is told. */
static stk_status read_old_super(stk__hdf5 *f, stk__hdf5_fields *at, uint8_t version, uint64_t *end)
{
    stk__hdf5_skip(at, 4); /* versions of other parts */
    f->of_address = (uint8_t)stk__hdf5_field(at, 1);
    f->of_length = (uint8_t)stk__hdf5_field(at, 1);
    stk__hdf5_skip(at, 1);
    if (!is_width(f->of_address) || !is_width(f->of_length))
        return stk__hdf5_damaged(f, 0, "its addresses or lengths are not of 2, 4 or 8 bytes");
    f->group_leaf_k = (uint32_t)stk__hdf5_field(at, 2);
    f->group_internal_k = (uint32_t)stk__hdf5_field(at, 2);
    stk__hdf5_skip(at, 4);
    if (version == 1) {
        f->chunk_k = (uint32_t)stk__hdf5_field(at, 2);
        stk__hdf5_skip(at, 2);
    }
    const uint64_t base = stk__hdf5_address(f, at);
    stk__hdf5_address(f, at); /* of free space */
    *end = stk__hdf5_address(f, at) - base;
    const uint64_t driver = stk__hdf5_address(f, at);
    stk__hdf5_length(f, at); /* the root's name */
    f->root = stk__hdf5_address(f, at);
    return driver == STK__HDF5_NONE
               ? STK_OK
               : stk__hdf5_refuse(f, 0, "a file whose data lies in others is not read");
}

/* Messages behind the superblock. */
static stk_status read_extension(stk__hdf5 *f, uint64_t address)
{
    const stk__hdf5_message *m = NULL;
    stk__hdf5_object o;

    stk_status status = stk__hdf5_object_begin(f, address, &o);
    if (status == STK_OK && stk__hdf5_has(&o, STK__HDF5_DRIVER))
        status = stk__hdf5_refuse(f, address, "a file whose data lies in others is not read");
    if (status == STK_OK && stk__hdf5_has(&o, STK__HDF5_CACHE_IMAGE))
        status = stk__hdf5_refuse(f, address, "a file with an image of its cache is not read");
    if (status == STK_OK)
        status = stk__hdf5_message_find(f, &o, STK__HDF5_K_VALUES, &m);
    if (status == STK_OK && m) {
        stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
        stk__hdf5_skip(&at, 1);
        f->chunk_k = (uint32_t)stk__hdf5_field(&at, 2);
        f->group_internal_k = (uint32_t)stk__hdf5_field(&at, 2);
        f->group_leaf_k = (uint32_t)stk__hdf5_field(&at, 2);
    }
    if (status == STK_OK)
        status = stk__hdf5_message_find(f, &o, STK__HDF5_SHARED_TABLE, &m);
    if (status == STK_OK && m) {
        stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
        stk__hdf5_skip(&at, 1);
        f->shared_table = stk__hdf5_address(f, &at);
        f->shared_indexes = (uint32_t)stk__hdf5_field(&at, 1);
    }
    stk__hdf5_object_end(f, &o);
    return status;
}

/* Versions 2 and 3. */
static stk_status read_new_super(stk__hdf5 *f, const uint8_t *data, uint64_t length,
                                 uint64_t *extension, uint64_t *end)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);

    stk__hdf5_skip(&at, 9);
    f->of_address = (uint8_t)stk__hdf5_field(&at, 1);
    f->of_length = (uint8_t)stk__hdf5_field(&at, 1);
    stk__hdf5_skip(&at, 1); /* flags: a file that was not closed is as whole as its end says */
    if (!is_width(f->of_address) || !is_width(f->of_length))
        return stk__hdf5_damaged(f, 0, "its addresses or lengths are not of 2, 4 or 8 bytes");
    const uint64_t base = stk__hdf5_address(f, &at);
    *extension = stk__hdf5_address(f, &at);
    *end = stk__hdf5_address(f, &at) - base;
    f->root = stk__hdf5_address(f, &at);
    const uint64_t used = (uint64_t)(at.at - data);
    if (at.failed || length - used < 4)
        return stk__hdf5_damaged(f, 0, "the superblock is cut off");
    if (stk__hdf5_checksum(data, used) != stk__little_endian(data + used, 4))
        return stk__hdf5_damaged(f, 0, "the checksum of its superblock does not match");
    return STK_OK;
}

static stk_status read_super(stk__hdf5 *f)
{
    uint8_t data[MOST_SUPER] = {0};
    uint64_t end = 0, extension = STK__HDF5_NONE;
    const uint64_t length = STK_MIN(sizeof data, f->end);

    STK_TRY(stk__hdf5_read(f, 0, length, data));
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);
    stk__hdf5_skip(&at, 8);
    const uint8_t version = (uint8_t)stk__hdf5_field(&at, 1);
    if (version > 3)
        return stk__hdf5_refuse(f, 0, "a superblock of this version is not read");
    STK_TRY(version < 2 ? read_old_super(f, &at, version, &end)
                        : read_new_super(f, data, length, &extension, &end));
    if (at.failed)
        return stk__hdf5_damaged(f, 0, "the superblock is cut off");
    if (end > f->end)
        return stk__fail_at(f->err, STK_ETRUNCATED, STK_STAGE_ARRAY, f->key, f->size,
                            "%.300s has %llu bytes, and its superblock says %llu: it is cut off; "
                            "copy it again",
                            f->key, (unsigned long long)f->size,
                            (unsigned long long)(f->base + end));
    f->end = end;
    if (!f->group_leaf_k || !f->group_internal_k || !f->chunk_k)
        return stk__hdf5_damaged(f, 0, "nodes of its trees would hold nothing");
    return extension == STK__HDF5_NONE ? STK_OK : read_extension(f, extension);
}

/* Where the signature is: at byte 0, 512, 1024, doubling. */
static stk_status find_signature(stk_store *store, const char *key, uint64_t size, uint64_t *base,
                                 stk_error *err)
{
    char head[8];

    for (uint64_t at = 0; at <= MOST_BASE && size >= sizeof head && at <= size - sizeof head;
         at = at ? 2 * at : 512) {
        STK_TRY(stk_store_read(store, key, at, sizeof head, head, err));
        *base = at;
        if (memcmp(head, SIGNATURE, sizeof head) == 0)
            return STK_OK;
    }
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, 0,
                        "%.300s is no HDF5 file, as NetCDF-4 is, too: it does not begin as one; "
                        "copy or write it again",
                        key);
}

/* Whether the end of a name is one that HDF5 files have, in upper or lower case. */
static bool is_named(const char *key)
{
    static const char *const ends[] = {".nc", ".nc4", ".h5", ".hdf5", ".he5"};
    const size_t length = strlen(key);

    for (size_t i = 0; i < STK_COUNT(ends); i++) {
        const size_t n = strlen(ends[i]);
        if (length > n && stk__option_same(key + length - n, n, ends[i], n))
            return true;
    }
    return false;
}

int stk__hdf5_recognise(stk_store *store, const char *key)
{
    stk_object_info info = {.struct_size = sizeof info};
    char head[8];
    uint64_t base;

    if (!*key)
        return 0;
    if (stk_store_read(store, key, 0, sizeof head, head, NULL) == STK_OK &&
        memcmp(head, SIGNATURE, sizeof head) == 0)
        return 2;
    /* A user block is rare: other files are not searched for one, but those of these names, which
     * are HDF5 where nothing else knows them. */
    if (!is_named(key))
        return 0;
    return stk_store_stat(store, key, NULL, &info, NULL) == STK_OK &&
                   find_signature(store, key, info.size, &base, NULL) == STK_OK
               ? 2
               : 1;
}

static uint64_t block_size(stk_store *store)
{
    stk_store_limits limits;
    uint64_t bytes = LEAST_BLOCK;

    stk__store_limits(store, &limits);
    while (bytes < limits.coalesce_gap && bytes < MOST_BLOCK)
        bytes *= 2;
    return bytes;
}

stk_status stk__hdf5_open(stk__hdf5 *f, stk_store *store, const char *key, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    *f = (stk__hdf5){.ctx = store->context,
                     .store = store,
                     .key = key,
                     .err = err,
                     .shared_table = STK__HDF5_NONE,
                     .root = STK__HDF5_NONE,
                     .group_leaf_k = USUAL_LEAF,
                     .group_internal_k = USUAL_INNER,
                     .chunk_k = USUAL_CHUNK,
                     .of_address = 8,
                     .of_length = 8,
                     .work = STK__HDF5_MAX_WORK,
                     .memory = stk__context_memory_limit(store->context) / STK__HDF5_PART,
                     .block_bytes = block_size(store)};
    if (!*key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "a folder is no HDF5 file; name the file");
    STK_TRY(stk_store_stat(store, key, NULL, &info, err));
    f->size = info.size;
    f->identity = info.identity;
    f->mtime_ns = info.mtime_ns;
    STK_TRY(find_signature(store, key, info.size, &f->base, err));
    f->end = info.size - f->base;
    void *blocks = NULL;
    STK_TRY(stk__hdf5_take(f, NUM_BLOCKS * sizeof *f->blocks, &blocks));
    f->blocks = blocks;
    return read_super(f);
}

void stk__hdf5_close(stk__hdf5 *f)
{
    for (uint32_t i = 0; f->blocks && i < NUM_BLOCKS; i++)
        stk__free(f->ctx, f->blocks[i].data);
    stk__free(f->ctx, f->blocks);
    f->blocks = NULL;
}
