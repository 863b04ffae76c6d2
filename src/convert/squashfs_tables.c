/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands behind the content in an image: inodes, folders, where each inode is, one owner; and
 * the superblock in front of all.
 */
#define XXH_STATIC_LINKING_ONLY /* states */
#include <xxhash.h>

#include "convert/squashfs.h"
#include "convert/target.h"

#define ABSENT      UINT64_MAX
#define FOLDER_MODE 0755
#define FILE_MODE   0644
#define MOST_RUN    256   /* entries behind one header of a folder */
#define MOST_INDEX  65535 /* of a folder */
#define NO_XATTR    UINT32_MAX

/* Kinds of inodes in their other form. */
enum {
    LARGE_FOLDER = STK__SQUASHFS_FOLDER + STK__SQUASHFS_KINDS,
    LARGE_FILE = STK__SQUASHFS_FILE + STK__SQUASHFS_KINDS
};

/* Flags of the superblock. */
enum {
    RAW_INODES = 0x0001,
    RAW_DATA = 0x0002,
    RAW_FRAGMENTS = 0x0008,
    NO_FRAGMENTS = 0x0010,
    ONE_OF_COPIES = 0x0040,
    CAN_EXPORT = 0x0080,
    NO_XATTRS = 0x0200,
    HAS_OPTIONS = 0x0400,
    RAW_IDS = 0x0800
};

/* By stk__block_codec; of images without one that which every kernel has. */
static const uint16_t codec_numbers[] = {
    [STK__BLOCK_ZSTD] = STK__SQUASHFS_ZSTD, [STK__BLOCK_ZLIB] = STK__SQUASHFS_GZIP,
    [STK__BLOCK_LZ4] = STK__SQUASHFS_LZ4,   [STK__BLOCK_XZ] = STK__SQUASHFS_XZ,
    [STK__BLOCK_NONE] = STK__SQUASHFS_GZIP,
};

/* Numbers put behind each other, the least significant byte first. */
typedef struct fields {
    uint8_t at[STK__SQUASHFS_SUPER];
    size_t length;
} fields;

static void put(fields *b, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        b->at[b->length++] = (uint8_t)(value >> (8 * i));
}

/* ---- A table --------------------------------------------------------------------------------- */

/* Bytes in blocks of 8 KiB, each encoded where that makes it smaller. */
typedef struct table {
    stk__squashfs_run *s;
    stk__codec_state *state;
    uint8_t *out; /* blocks that are complete */
    size_t length, room;
    uint32_t used; /* of `block` */
    uint8_t block[STK__SQUASHFS_METADATA];
} table;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the tables of an image");
}

static stk_status end_block(table *t, stk_error *err)
{
    const stk__block_kind *kind = &t->s->kind;
    const uint64_t bound = 2 + stk__block_bound(kind, STK__SQUASHFS_METADATA);
    uint64_t got = t->used;
    const char *reason = "";

    if (!t->used)
        return STK_OK;
    uint8_t *out = stk__grow(t->s->context, t->out, &t->room, t->length + bound, 1);
    if (!out)
        return no_memory(err);
    t->out = out;
    out += t->length;
    const stk_status status = t->s->encodes ? stk__block_encode(kind, t->state, t->block, t->used,
                                                                out + 2, bound - 2, &got, &reason)
                                            : STK_OK;
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_CONVERT, "the tables of an image: %s", reason);
    const bool raw = got >= t->used;
    if (raw)
        memcpy(out + 2, t->block, got = t->used);
    out[0] = (uint8_t)got;
    out[1] = (uint8_t)((got | (raw ? STK__SQUASHFS_META_RAW : 0)) >> 8);
    t->length += 2 + got;
    t->used = 0;
    return STK_OK;
}

static stk_status add(table *t, const void *data, size_t length, stk_error *err)
{
    const uint8_t *at = data;

    while (length) {
        const size_t n = STK_MIN(length, STK__SQUASHFS_METADATA - t->used);
        memcpy(t->block + t->used, at, n);
        t->used += (uint32_t)n;
        at += n;
        length -= n;
        if (t->used == STK__SQUASHFS_METADATA)
            STK_TRY(end_block(t, err));
    }
    return STK_OK;
}

static stk_status add_fields(table *t, const fields *b, stk_error *err)
{
    return add(t, b->at, b->length, err);
}

/* ---- Inodes ---------------------------------------------------------------------------------- */

/* What is written of all nodes. */
typedef struct tables {
    stk__squashfs_run *s;
    stk__codec_state *state;
    table inodes, folders;
    struct index { /* of the folder in work */
        uint32_t node, offset, block;
    } * index;
    size_t num_index, room_index;
    XXH64_state_t hash;
    uint64_t from; /* where they begin in the image */
} tables;

static uint32_t seconds(int64_t mtime_ns)
{
    const int64_t s = mtime_ns / 1000000000;

    return (uint32_t)(s < 0 ? 0 : STK_MIN(s, (int64_t)UINT32_MAX));
}

/* Where the next inode will be; as references have it. */
static uint64_t here(const table *t)
{
    return (uint64_t)t->length << 16 | t->used;
}

static void begin_inode(tables *t, stk__squashfs_node *node, unsigned type, fields *b)
{
    *b = (fields){0};
    put(b, type, 2);
    put(b, node->is_folder ? FOLDER_MODE : FILE_MODE, 2);
    put(b, 0, 4); /* owner and group: the only one */
    put(b, seconds(node->mtime_ns), 4);
    put(b, node->number, 4);
    node->reference = here(&t->inodes);
}

static stk_status put_file(tables *t, stk__squashfs_node *node, stk_error *err)
{
    const stk__squashfs_run *s = t->s;
    const uint64_t blocks = stk__squashfs_blocks(s, node);
    const bool large = node->size > UINT32_MAX || node->at > UINT32_MAX || node->sparse;
    fields b;

    begin_inode(t, node, large ? LARGE_FILE : STK__SQUASHFS_FILE, &b);
    if (large) {
        put(&b, node->at, 8);
        put(&b, node->size, 8);
        put(&b, node->sparse, 8);
        put(&b, 1, 4); /* names */
        put(&b, STK__SQUASHFS_NO_FRAGMENT, 4);
        put(&b, 0, 4);
        put(&b, NO_XATTR, 4);
    } else {
        put(&b, node->at, 4);
        put(&b, STK__SQUASHFS_NO_FRAGMENT, 4);
        put(&b, 0, 4);
        put(&b, node->size, 4);
    }
    STK_TRY(add_fields(&t->inodes, &b, err));
    for (uint64_t i = 0; i < blocks; i++) {
        b.length = 0;
        put(&b, s->sizes[node->first + i], 4);
        STK_TRY(add_fields(&t->inodes, &b, err));
    }
    return STK_OK;
}

/* ---- Folders --------------------------------------------------------------------------------- */

static const char *name_of(const tables *t, const stk__squashfs_node *node)
{
    return stk__squashfs_path(&t->s->tree, node) + node->name;
}

/* A header is 12 bytes, an entry 8 and its name. */
static uint64_t entry_bytes(const tables *t, const stk__squashfs_node *node)
{
    return 8 + strlen(name_of(t, node));
}

/* Entries that one header holds: inodes in one block, numbers that are near, and no more bytes than
 * *left, where an index is to have a place. */
static uint32_t run_length(const tables *t, uint32_t first, uint64_t left)
{
    const stk__squashfs_node *nodes = t->s->tree.nodes, *one = &nodes[first];
    uint64_t bytes = 12;
    uint32_t count = 0;

    for (uint32_t i = first; i != STK__SQUASHFS_NONE && count < MOST_RUN; i = nodes[i].next) {
        bytes += entry_bytes(t, &nodes[i]);
        if (nodes[i].reference >> 16 != one->reference >> 16 ||
            nodes[i].number - one->number > INT16_MAX || (count && bytes > left))
            break;
        count++;
    }
    return count;
}

static stk_status put_run(tables *t, uint32_t first, uint32_t count, uint64_t *size, stk_error *err)
{
    const stk__squashfs_node *nodes = t->s->tree.nodes, *one = &nodes[first];
    const uint64_t block = one->reference >> 16;
    fields b = {0};

    if (block > UINT32_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "the inodes of so many files take more than 4 GiB; pack the folders one "
                         "by one");
    put(&b, count - 1, 4);
    put(&b, block, 4);
    put(&b, one->number, 4);
    STK_TRY(add_fields(&t->folders, &b, err));
    *size += b.length;
    for (uint32_t i = first; count--; i = nodes[i].next) {
        const char *name = name_of(t, &nodes[i]);
        const size_t length = strlen(name);
        b.length = 0;
        put(&b, nodes[i].reference & 0xffff, 2);
        put(&b, nodes[i].number - one->number, 2);
        put(&b, nodes[i].is_folder ? STK__SQUASHFS_FOLDER : STK__SQUASHFS_FILE, 2);
        put(&b, length - 1, 2);
        STK_TRY(add_fields(&t->folders, &b, err));
        STK_TRY(add(&t->folders, name, length, err));
        *size += b.length + length;
    }
    return STK_OK;
}

/* A place from which a reader may begin to look for a name. */
static stk_status note_place(tables *t, uint32_t node, uint64_t offset, stk_error *err)
{
    struct index *grown =
        stk__grow(t->s->context, t->index, &t->room_index, t->num_index + 1, sizeof *grown);

    if (!grown)
        return no_memory(err);
    t->index = grown;
    grown[t->num_index++] = (struct index){node, (uint32_t)offset, (uint32_t)t->folders.length};
    return STK_OK;
}

static stk_status put_list(tables *t, const stk__squashfs_node *folder, uint64_t *size,
                           stk_error *err)
{
    const stk__squashfs_node *nodes = t->s->tree.nodes;
    uint64_t since = 0;

    *size = 0;
    t->num_index = 0;
    for (uint32_t i = folder->child; i != STK__SQUASHFS_NONE;) {
        uint64_t left = STK__SQUASHFS_METADATA - STK_MIN(*size - since, STK__SQUASHFS_METADATA);
        if (*size && left < 12 + entry_bytes(t, &nodes[i])) {
            if (t->num_index < MOST_INDEX)
                STK_TRY(note_place(t, i, *size, err));
            since = *size;
            left = STK__SQUASHFS_METADATA;
        }
        uint32_t count = run_length(t, i, left);
        STK_TRY(put_run(t, i, count, size, err));
        while (count--)
            i = nodes[i].next;
    }
    return STK_OK;
}

static stk_status put_folder(tables *t, stk__squashfs_node *node, stk_error *err)
{
    const stk__squashfs_node *nodes = t->s->tree.nodes;
    const uint64_t from = here(&t->folders);
    uint32_t links = 2;
    uint64_t size;
    fields b;

    STK_TRY(put_list(t, node, &size, err));
    if (from >> 16 > UINT32_MAX || size > UINT32_MAX - 3)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT,
                         "the names of so many files take more than 4 GiB; pack the folders one by "
                         "one");
    for (uint32_t i = node->child; i != STK__SQUASHFS_NONE; i = nodes[i].next)
        links += nodes[i].is_folder;
    const uint32_t parent = node->parent == STK__SQUASHFS_NONE ? (uint32_t)t->s->tree.count + 1
                                                               : nodes[node->parent].number;
    const bool large = t->num_index || size + 3 > UINT16_MAX;
    begin_inode(t, node, large ? LARGE_FOLDER : STK__SQUASHFS_FOLDER, &b);
    if (large) {
        put(&b, links, 4);
        put(&b, size + 3, 4);
        put(&b, from >> 16, 4);
        put(&b, parent, 4);
        put(&b, t->num_index, 2);
        put(&b, from & 0xffff, 2);
        put(&b, NO_XATTR, 4);
    } else {
        put(&b, from >> 16, 4);
        put(&b, links, 4);
        put(&b, size + 3, 2);
        put(&b, from & 0xffff, 2);
        put(&b, parent, 4);
    }
    STK_TRY(add_fields(&t->inodes, &b, err));
    for (size_t i = 0; i < t->num_index; i++) {
        const char *name = name_of(t, &nodes[t->index[i].node]);
        b.length = 0;
        put(&b, t->index[i].offset, 4);
        put(&b, t->index[i].block, 4);
        put(&b, strlen(name) - 1, 4);
        STK_TRY(add_fields(&t->inodes, &b, err));
        STK_TRY(add(&t->inodes, name, strlen(name), err));
    }
    return STK_OK;
}

/* Backwards, what a folder holds is there before the folder. Its files follow each other. */
static stk_status put_nodes(tables *t, stk_error *err)
{
    stk__squashfs_node *nodes = t->s->tree.nodes;

    for (size_t i = t->s->tree.count; i-- > 0;) {
        if (!nodes[i].is_folder)
            continue;
        for (uint32_t k = nodes[i].child; k != STK__SQUASHFS_NONE; k = nodes[k].next)
            if (!nodes[k].is_folder)
                STK_TRY(put_file(t, &nodes[k], err));
        STK_TRY(put_folder(t, &nodes[i], err));
    }
    STK_TRY(end_block(&t->inodes, err));
    return end_block(&t->folders, err);
}

/* ---- In the image ---------------------------------------------------------------------------- */

static stk_status append(tables *t, const void *data, uint64_t length, stk_error *err)
{
    XXH64_update(&t->hash, data, length);
    return stk__squashfs_append(&t->s->file, data, length, err);
}

/* A table with a list of its blocks behind it, where *at then is. */
static stk_status append_list(tables *t, table *from, uint64_t *at, stk_error *err)
{
    const uint64_t begins = stk__squashfs_end(&t->s->file);

    STK_TRY(end_block(from, err));
    STK_TRY(append(t, from->out, from->length, err));
    *at = stk__squashfs_end(&t->s->file);
    for (size_t k = 0; k < from->length;) {
        fields b = {0};
        put(&b, begins + k, 8);
        STK_TRY(append(t, b.at, b.length, err));
        k += 2 + (stk__little_endian(from->out + k, 2) & STK__SQUASHFS_META_STORED);
    }
    return STK_OK;
}

/* By number, where each inode is: for what names files by it, as NFS does. */
static stk_status append_export(tables *t, uint64_t *at, stk_error *err)
{
    const stk__squashfs_tree *tree = &t->s->tree;
    table list = {.s = t->s, .state = t->state};
    uint64_t *references = stk__calloc(t->s->context, tree->count, sizeof *references);
    stk_status status = references ? STK_OK : no_memory(err);

    for (size_t i = 0; i < tree->count && references; i++)
        references[tree->nodes[i].number - 1] = tree->nodes[i].reference;
    for (size_t i = 0; i < tree->count && status == STK_OK; i++) {
        fields b = {0};
        put(&b, references[i], 8);
        status = add_fields(&list, &b, err);
    }
    if (status == STK_OK)
        status = append_list(t, &list, at, err);
    stk__free(t->s->context, list.out);
    stk__free(t->s->context, references);
    return status;
}

/* The one owner and group: root. */
static stk_status append_owners(tables *t, uint64_t *at, stk_error *err)
{
    table list = {.s = t->s, .state = t->state};

    stk_status status = add(&list, (uint8_t[4]){0}, 4, err);
    if (status == STK_OK)
        status = append_list(t, &list, at, err);
    stk__free(t->s->context, list.out);
    return status;
}

static unsigned flags_of(const stk__squashfs_run *s)
{
    unsigned flags = NO_FRAGMENTS | CAN_EXPORT | NO_XATTRS | ONE_OF_COPIES;

    if (!s->encodes)
        flags |= RAW_INODES | RAW_DATA | RAW_FRAGMENTS | RAW_IDS;
    return s->encodes && s->kind.codec == STK__BLOCK_LZ4 ? flags | HAS_OPTIONS : flags;
}

static unsigned log_of(uint64_t block)
{
    return 63 - (unsigned)__builtin_clzll(block);
}

static void fill_superblock(const stk__squashfs_run *s, const uint64_t starts[4], uint64_t end,
                            fields *b)
{
    const stk__squashfs_node *root = s->tree.nodes;

    put(b, STK__SQUASHFS_MAGIC, 4);
    put(b, s->tree.count, 4);
    put(b, seconds(root->mtime_ns), 4);
    put(b, s->block, 4);
    put(b, 0, 4); /* fragments */
    put(b, codec_numbers[s->encodes ? s->kind.codec : STK__BLOCK_NONE], 2);
    put(b, log_of(s->block), 2);
    put(b, flags_of(s), 2);
    put(b, 1, 2); /* owners */
    put(b, 4, 2);
    put(b, 0, 2); /* the version: 4.0 */
    put(b, root->reference, 8);
    put(b, end, 8);
    put(b, starts[3], 8); /* owners */
    put(b, ABSENT, 8);    /* extended attributes */
    put(b, starts[0], 8); /* inodes */
    put(b, starts[1], 8); /* folders */
    put(b, ABSENT, 8);    /* fragments */
    put(b, starts[2], 8); /* export */
}

/* Whether the tables and the superblock are there as they were written. */
static stk_status check(tables *t, const fields *head, stk_error *err)
{
    stk__squashfs_file *file = &t->s->file;
    uint8_t back[STK__SQUASHFS_METADATA];
    XXH64_state_t hash;
    uint64_t at = t->from;

    STK_TRY(stk__squashfs_read(file, 0, head->length, back, err));
    bool same = memcmp(back, head->at, head->length) == 0;
    XXH64_reset(&hash, 0);
    for (; same && at < stk__squashfs_end(file); at += sizeof back) {
        const uint64_t n = STK_MIN(sizeof back, stk__squashfs_end(file) - at);
        STK_TRY(stk__squashfs_read(file, at, n, back, err));
        XXH64_update(&hash, back, n);
    }
    same = same && XXH64_digest(&hash) == XXH64_digest(&t->hash);
    return same ? STK_OK : stk__convert_fail_check(t->s->job, err);
}

static stk_status append_all(tables *t, stk_error *err)
{
    static const uint8_t zeros[STK__SQUASHFS_PADDING];
    stk__squashfs_file *file = &t->s->file;
    uint64_t starts[4];
    fields head = {0};

    t->from = starts[0] = stk__squashfs_end(file);
    STK_TRY(append(t, t->inodes.out, t->inodes.length, err));
    starts[1] = stk__squashfs_end(file);
    STK_TRY(append(t, t->folders.out, t->folders.length, err));
    STK_TRY(append_export(t, &starts[2], err));
    STK_TRY(append_owners(t, &starts[3], err));
    const uint64_t end = stk__squashfs_end(file);
    STK_TRY(append(t, zeros, stk__round_up(end, STK__SQUASHFS_PADDING) - end, err));
    fill_superblock(t->s, starts, end, &head);
    STK_TRY(stk__squashfs_head(file, head.at, head.length, err));
    return t->s->verify ? check(t, &head, err) : STK_OK;
}

stk_status stk__squashfs_tables(stk__squashfs_run *s, stk_error *err)
{
    tables *t = stk__calloc(s->context, 1, sizeof *t); /* too large for some stacks */

    if (!t)
        return no_memory(err);
    t->s = t->inodes.s = t->folders.s = s;
    XXH64_reset(&t->hash, 0);
    stk_status status = stk__codec_state_create(s->context, &t->state, err);
    t->inodes.state = t->folders.state = t->state;
    if (status == STK_OK)
        status = put_nodes(t, err);
    if (status == STK_OK)
        status = append_all(t, err);
    stk__codec_state_destroy(&t->state);
    stk__free(s->context, t->inodes.out);
    stk__free(s->context, t->folders.out);
    stk__free(s->context, t->index);
    stk__free(s->context, t);
    return status;
}

stk_status stk__squashfs_front(stk__squashfs_run *s, stk_error *err)
{
    fields b = {0};

    /* The superblock, once it is known. */
    while (b.length < STK__SQUASHFS_SUPER)
        put(&b, 0, 4);
    STK_TRY(stk__squashfs_append(&s->file, b.at, b.length, err));
    if (!(flags_of(s) & HAS_OPTIONS))
        return STK_OK;
    /* The kernel wants them of LZ4: its version of blocks, and no flags. */
    b.length = 0;
    put(&b, STK__SQUASHFS_META_RAW | 8, 2);
    put(&b, 1, 4);
    put(&b, 0, 4);
    return stk__squashfs_append(&s->file, b.at, b.length, err);
}
