/* SPDX-License-Identifier: Apache-2.0 */
/* The superblock, and opening and closing an image by it. */
#include "store/squashfs/image.h"

#define MAGIC_BIG UINT32_C(0x68737173) /* of images before 4.0 on big-endian machines */

static const struct {
    const char *name;
    stk__block_codec codec;
    bool is_read;
} compressors[] = {
    [0] = {"none", 0, false},
    [STK__SQUASHFS_GZIP] = {"gzip", STK__BLOCK_ZLIB, true},
    [STK__SQUASHFS_LZMA] = {"lzma", STK__BLOCK_LZMA, true},
    [STK__SQUASHFS_LZO] = {"lzo", 0, false},
    [STK__SQUASHFS_XZ] = {"xz", STK__BLOCK_XZ, true},
    [STK__SQUASHFS_LZ4] = {"lz4", STK__BLOCK_LZ4, true},
    [STK__SQUASHFS_ZSTD] = {"zstd", STK__BLOCK_ZSTD, true},
};

stk_status stk__squashfs_damaged(const stk__squashfs_opening *o, uint64_t at, const char *what)
{
    return stk__fail_at(o->err, STK_EFORMAT, STK_STAGE_STORE, o->key, at,
                        "%s: the SquashFS image is damaged at byte %llu: %s; copy or pack it again",
                        o->key, (unsigned long long)at, what);
}

stk_status stk__squashfs_no_memory(const stk__squashfs_opening *o)
{
    return stk__fail_at(o->err, STK_ENOMEM, STK_STAGE_STORE, o->key, STK_NO_OFFSET,
                        "no memory for the tables of the SquashFS image %s", o->key);
}

stk_status stk__squashfs_hold(const stk__squashfs_opening *o, uint64_t count, uint64_t size)
{
    const uint64_t most = stk__context_memory_limit(o->image->context) / STK__CONTAINER_PART;
    uint64_t bytes;

    if (!stk__mul_size(count, size, &bytes) || bytes > most - STK_MIN(most, *o->held))
        return stk__fail_at(o->err, STK_ELIMIT, STK_STAGE_STORE, o->key, STK_NO_OFFSET,
                            "%s: the tables of the SquashFS image take more than %llu bytes of "
                            "memory, a quarter of memory_limit; raise it",
                            o->key, (unsigned long long)most);
    *o->held += bytes;
    return STK_OK;
}

/* ---- The superblock ---- */

static uint64_t number(const uint8_t *bytes, unsigned at, unsigned size)
{
    return stk__little_endian(bytes + at, size);
}

static stk_status take_compressor(const stk__squashfs_opening *o, uint64_t id)
{
    if (id >= STK_COUNT(compressors) || !compressors[id].is_read)
        return stk__fail_at(o->err, STK_EKIND, STK_STAGE_STORE, o->key, 20,
                            "%s: the SquashFS image is compressed by %s (%llu), which is not read; "
                            "pack it again with -comp zstd",
                            o->key, id < STK_COUNT(compressors) ? compressors[id].name : "a method",
                            (unsigned long long)id);
    o->image->codec = compressors[id].codec;
    return STK_OK;
}

/* The tables lie behind the data, in the order of the format; one that is absent has all bits set.
 */
static stk_status check_order(const stk__squashfs_opening *o)
{
    const stk__squashfs *i = o->image;

    if (i->used > o->size)
        return stk__fail_at(o->err, STK_ETRUNCATED, STK_STAGE_STORE, o->key, o->size,
                            "%s: the SquashFS image ends too early: it has %llu bytes of %llu; "
                            "copy it again",
                            o->key, (unsigned long long)o->size, (unsigned long long)i->used);
    if (i->used < STK__SQUASHFS_SUPER || i->inode_table < STK__SQUASHFS_SUPER ||
        i->inode_table > i->used)
        return stk__squashfs_damaged(o, 64, "the table of inodes is not in the image");
    if (i->directory_table <= i->inode_table || i->directory_table > i->used)
        return stk__squashfs_damaged(o, 72, "the table of directories is not behind the inodes");
    if (i->num_fragments && (i->fragment_table < i->directory_table || i->fragment_table > i->used))
        return stk__squashfs_damaged(o, 80, "the table of fragments is not behind the directories");
    return STK_OK;
}

static stk_status take_superblock(const stk__squashfs_opening *o, const uint8_t *bytes)
{
    stk__squashfs *i = o->image;
    const uint64_t magic = number(bytes, 0, 4), major = number(bytes, 28, 2);

    if (magic != STK__SQUASHFS_MAGIC && magic != MAGIC_BIG)
        return stk__squashfs_damaged(o, 0, "it does not begin with \"hsqs\"");
    if (magic == MAGIC_BIG || major != 4 || number(bytes, 30, 2) != 0)
        return stk__fail_at(o->err, STK_EKIND, STK_STAGE_STORE, o->key, 28,
                            "%s: the SquashFS image is not of version 4.0, which alone is read; "
                            "pack it again",
                            o->key);
    i->num_inodes = (uint32_t)number(bytes, 4, 4);
    i->block_size = (uint32_t)number(bytes, 12, 4);
    i->num_fragments = (uint32_t)number(bytes, 16, 4);
    i->root = number(bytes, 32, 8);
    i->used = number(bytes, 40, 8);
    i->id_table = number(bytes, 48, 8);
    i->inode_table = number(bytes, 64, 8);
    i->directory_table = number(bytes, 72, 8);
    i->fragment_table = number(bytes, 80, 8);
    i->export_table = number(bytes, 88, 8);
    const uint64_t log = number(bytes, 22, 2);
    if (log < STK__SQUASHFS_MIN_LOG || log > STK__SQUASHFS_MAX_LOG ||
        i->block_size != UINT32_C(1) << log)
        return stk__squashfs_damaged(o, 12,
                                     "the size of blocks is not the power of two it is said "
                                     "to be, of 4 KiB to 1 MiB");
    STK_TRY(take_compressor(o, number(bytes, 20, 2)));
    return check_order(o);
}

/* ---- Opening ---- */

/* Where the table of directories ends: where the next begins. */
static stk_status find_end(const stk__squashfs_opening *o, uint64_t *end)
{
    const stk__squashfs *i = o->image;
    const uint64_t lists[] = {i->num_fragments ? i->fragment_table : UINT64_MAX, i->export_table,
                              i->id_table};

    *end = i->used;
    for (size_t n = 0; n < STK_COUNT(lists); n++) {
        uint64_t first = 0;
        if (lists[n] == UINT64_MAX)
            continue;
        STK_TRY(stk__squashfs_first_block(o, lists[n], &first));
        *end = STK_MIN(*end, first);
    }
    return STK_OK;
}

static stk_status load_fragments(const stk__squashfs_opening *o)
{
    stk__squashfs *i = o->image;
    stk__squashfs_table *t = &i->fragments;

    t->name = "fragments";
    if (!i->num_fragments)
        return STK_OK;
    STK_TRY(stk__squashfs_table_lookup(o, t, i->fragment_table,
                                       (uint64_t)i->num_fragments * STK__SQUASHFS_FRAGMENT));
    for (uint64_t n = 0; n < i->num_fragments; n++) {
        const uint8_t *entry = t->bytes + n * STK__SQUASHFS_FRAGMENT;
        const uint64_t start = number(entry, 0, 8), size = number(entry, 8, 4);
        const uint64_t stored = size & STK__SQUASHFS_STORED;
        const uint64_t at = stk__squashfs_table_at(t, n * STK__SQUASHFS_FRAGMENT);
        if (size & ~(uint64_t)(STK__SQUASHFS_STORED | STK__SQUASHFS_RAW) || !stored ||
            stored > i->block_size)
            return stk__squashfs_damaged(o, at, "a fragment is empty or larger than a block");
        if (start < STK__SQUASHFS_SUPER || start > i->inode_table ||
            stored > i->inode_table - start)
            return stk__squashfs_damaged(o, at, "a fragment does not lie before the inodes");
    }
    STK_TRY(stk__squashfs_hold(o, i->num_fragments, sizeof *i->fragment_ends));
    i->fragment_ends = stk__calloc(i->context, i->num_fragments, sizeof *i->fragment_ends);
    return i->fragment_ends ? STK_OK : stk__squashfs_no_memory(o);
}

/* A fragment that is stored as it is holds the tails that lie in it. */
static stk_status check_ends(const stk__squashfs_opening *o)
{
    const stk__squashfs *i = o->image;

    for (uint64_t n = 0; n < i->num_fragments; n++) {
        const uint64_t size = number(i->fragments.bytes + n * STK__SQUASHFS_FRAGMENT, 8, 4);
        if (size & STK__SQUASHFS_RAW && (size & STK__SQUASHFS_STORED) < i->fragment_ends[n])
            return stk__squashfs_damaged(
                o, stk__squashfs_table_at(&i->fragments, n * STK__SQUASHFS_FRAGMENT),
                "the end of a file lies behind its fragment");
    }
    return STK_OK;
}

static stk_status load(stk__squashfs_opening *o, stk_store *store)
{
    stk__squashfs *i = o->image;
    uint8_t super[STK__SQUASHFS_SUPER];
    uint64_t end = 0;

    if (o->size < sizeof super)
        return stk__fail_at(o->err, STK_ETRUNCATED, STK_STAGE_STORE, o->key, o->size,
                            "%s: a SquashFS image has at least %d bytes, and this has %llu; copy "
                            "it again",
                            o->key, STK__SQUASHFS_SUPER, (unsigned long long)o->size);
    STK_TRY(stk_store_read(store, o->key, 0, sizeof super, super, o->err));
    STK_TRY(take_superblock(o, super));
    o->tail_length = i->used - i->inode_table;
    STK_TRY(stk__squashfs_hold(o, o->tail_length, 1));
    o->tail = stk__alloc_buffer(i->context, o->tail_length);
    if (!o->tail)
        return stk__squashfs_no_memory(o);
    STK_TRY(stk_store_read(store, o->key, i->inode_table, o->tail_length, o->tail, o->err));
    STK_TRY(find_end(o, &end));
    i->inodes.name = "inodes";
    o->directories.name = "directories";
    STK_TRY(stk__squashfs_table_load(o, &i->inodes, i->inode_table, i->directory_table));
    STK_TRY(stk__squashfs_table_load(o, &o->directories, i->directory_table, end));
    STK_TRY(load_fragments(o));
    STK_TRY(stk__squashfs_walk(o));
    stk__squashfs_files_end(i);
    return check_ends(o);
}

stk_status stk__squashfs_open(stk_store *store, const char *key, uint64_t size, uint64_t *held,
                              stk__squashfs_entry_fn *each, void *user, stk__squashfs **out,
                              stk_error *err)
{
    stk__squashfs_opening o = {
        .key = key, .size = size, .held = held, .each = each, .user = user, .err = err};
    stk_context *ctx = store->context;

    *out = NULL;
    o.image = stk__calloc(ctx, 1, sizeof *o.image);
    if (!o.image)
        return stk__squashfs_no_memory(&o);
    o.image->context = ctx;
    const stk_status status = load(&o, store);
    stk__free(ctx, o.tail);
    stk__squashfs_table_release(ctx, &o.directories);
    if (status == STK_OK)
        *out = o.image;
    else
        stk__squashfs_close(&o.image);
    return status;
}

void stk__squashfs_close(stk__squashfs **image)
{
    stk__squashfs *i = *image;

    if (!i)
        return;
    stk__squashfs_table_release(i->context, &i->inodes);
    stk__squashfs_table_release(i->context, &i->fragments);
    stk__free(i->context, i->fragment_ends);
    stk__free(i->context, i->large);
    stk__free(i->context, i->sums);
    stk__free(i->context, i);
    *image = NULL;
}
