/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over all directories. Its work is bounded by the tables, whatever these say: every inode
 * is looked into once, a folder that comes a second time is refused, and the inodes and listings
 * that are looked into have together no more bytes than their tables. So no loop and no overlap can
 * make it longer.
 */
#include "store/squashfs/image.h"

#define RUN      12  /* bytes of the head of a run of entries */
#define RUN_MOST 256 /* entries of a run */
#define ENTRY    8   /* bytes of an entry before its name */

/* A listing that is being read. */
typedef struct level {
    const uint8_t *at;
    uint64_t left;       /* bytes */
    uint32_t entries;    /* left of the run */
    uint64_t block;      /* of the run's inodes: where their metadata block begins in the table */
    uint32_t number;     /* the run's inode number */
    size_t length;       /* of the path of the folder, with its '/' */
    const uint8_t *name; /* of the entry before */
    size_t name_length;
} level;

typedef struct walk {
    const stk__squashfs_opening *o;
    uint8_t *seen;       /* a bit for each place of the table of inodes */
    uint64_t inode_work; /* bytes of inodes and listings that may still be looked into */
    uint64_t listing_work;
    size_t depth;
    level levels[STK__SQUASHFS_MAX_DEPTH];
    char path[STK_MAX_OBJECT_KEY];
} walk;

static uint64_t take(const uint8_t *at, unsigned offset, unsigned size)
{
    return stk__little_endian(at + offset, size);
}

/* Damage at a place of the table of directories. */
static stk_status wrong_listing(const walk *w, const uint8_t *at, const char *what)
{
    const stk__squashfs_table *t = &w->o->directories;

    return stk__squashfs_damaged(
        w->o, stk__squashfs_table_at(t, t->bytes ? (uint64_t)(at - t->bytes) : 0), what);
}

static stk_status wrong_inode(const walk *w, uint64_t place, const char *what)
{
    return stk__squashfs_damaged(w->o, stk__squashfs_table_at(&w->o->image->inodes, place), what);
}

/* Look into an inode; *first: nobody did before. */
static stk_status look(walk *w, uint64_t place, stk__squashfs_inode *out, bool *first)
{
    const uint8_t bit = (uint8_t)(1u << place % 8);
    const char *wrong = stk__squashfs_inode_at(w->o->image, place, out);

    if (wrong)
        return wrong_inode(w, place, wrong);
    *first = !(w->seen[place / 8] & bit);
    if (!*first)
        return STK_OK;
    w->seen[place / 8] |= bit;
    if (out->length > w->inode_work)
        return wrong_inode(w, place, "inodes lie over each other");
    w->inode_work -= out->length;
    return STK_OK;
}

/* Begin with the listing of a folder. */
static stk_status enter(walk *w, uint64_t place, const stk__squashfs_inode *folder, size_t length)
{
    const stk__squashfs_table *t = &w->o->directories;
    uint64_t from = 0;

    if (w->depth == STK__SQUASHFS_MAX_DEPTH)
        return stk__fail_at(w->o->err, STK_ELIMIT, STK_STAGE_STORE, w->o->key,
                            stk__squashfs_table_at(&w->o->image->inodes, place),
                            "%s: folders of the SquashFS image lie more than %d deep; pack them "
                            "higher up",
                            w->o->key, STK__SQUASHFS_MAX_DEPTH);
    level *l = &w->levels[w->depth++];
    *l = (level){.length = length};
    if (!folder->listing)
        return STK_OK;
    if (!stk__squashfs_table_find(t, folder->block, folder->offset, &from) ||
        folder->listing > t->length - from)
        return wrong_inode(w, place, "a listing goes beyond the table of directories");
    if (folder->listing > w->listing_work)
        return wrong_inode(w, place, "listings lie over each other");
    w->listing_work -= folder->listing;
    l->at = t->bytes + from;
    l->left = folder->listing;
    return STK_OK;
}

static stk_status take_run(walk *w, level *l)
{
    if (l->left < RUN)
        return wrong_listing(w, l->at, "a listing ends within a run of entries");
    const uint64_t count = take(l->at, 0, 4) + 1;
    if (count > RUN_MOST)
        return wrong_listing(w, l->at, "a run has more than 256 entries");
    l->entries = (uint32_t)count;
    l->block = take(l->at, 4, 4);
    l->number = (uint32_t)take(l->at, 8, 4);
    if (!stk__squashfs_table_find(&w->o->image->inodes, l->block, 0, &l->block))
        return wrong_listing(w, l->at, "a run names a block of inodes that there is not");
    l->at += RUN;
    l->left -= RUN;
    return STK_OK;
}

/* Names have no '/' and no zero byte, are not "." or "..", and lie in order: so none comes twice.
 */
static stk_status check_name(const walk *w, const level *l, const uint8_t *name, size_t length)
{
    const size_t both = STK_MIN(length, l->name_length);
    const int order = both ? memcmp(l->name, name, both) : 0;

    if (memchr(name, '/', length) || memchr(name, 0, length) ||
        (name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'))))
        return wrong_listing(w, name,
                             "a name is none: it holds '/' or a zero byte, or is \".\" or "
                             "\"..\"");
    if (l->name && (order > 0 || (order == 0 && l->name_length >= length)))
        return wrong_listing(w, name, "names are not in order, or one comes twice");
    return STK_OK;
}

/* The path of an entry; its length is without a '/'. */
static stk_status put_name(walk *w, const level *l, const uint8_t *name, size_t length,
                           size_t *path)
{
    if (length + 2 > sizeof w->path - l->length)
        return stk__fail_at(w->o->err, STK_ELIMIT, STK_STAGE_STORE, w->o->key, STK_NO_OFFSET,
                            "%s: a path in the SquashFS image is longer than %d bytes; pack it "
                            "with shorter names",
                            w->o->key, STK_MAX_OBJECT_KEY - 2);
    memcpy(w->path + l->length, name, length);
    *path = l->length + length;
    w->path[*path] = 0;
    return STK_OK;
}

static stk_status tell(walk *w, uint64_t place, const stk__squashfs_inode *inode)
{
    const stk__squashfs_entry entry = {.path = w->path,
                                       .kind = inode->kind,
                                       .size = inode->size,
                                       .mtime_ns = inode->mtime_ns,
                                       .inode = place};

    return w->o->each(w->o->user, &entry, w->o->err);
}

static stk_status visit(walk *w, uint64_t place, uint32_t kind, uint32_t number, size_t length)
{
    stk__squashfs_inode inode = {0};
    bool first = false;

    STK_TRY(look(w, place, &inode, &first));
    if (inode.kind != kind || inode.number != number)
        return wrong_inode(w, place, "an inode is not the one that its folder names");
    if (kind == STK__SQUASHFS_FILE && first)
        STK_TRY(stk__squashfs_file_check(w->o, place, &inode));
    if (kind == STK__SQUASHFS_FOLDER && !first)
        return wrong_inode(w, place, "a folder lies in two places, or in itself");
    STK_TRY(tell(w, place, &inode));
    if (kind != STK__SQUASHFS_FOLDER)
        return STK_OK;
    w->path[length] = '/';
    return enter(w, place, &inode, length + 1);
}

static stk_status take_entry(walk *w, level *l)
{
    if (l->left < ENTRY)
        return wrong_listing(w, l->at, "a listing ends within an entry");
    const uint32_t offset = (uint32_t)take(l->at, 0, 2), kind = (uint32_t)take(l->at, 4, 2);
    const uint32_t number = l->number + (uint32_t)(int32_t)(int16_t)take(l->at, 2, 2);
    const size_t length = take(l->at, 6, 2) + 1;
    const uint8_t *name = l->at + ENTRY;
    size_t path = 0;

    if (length > STK__SQUASHFS_NAME || length > l->left - ENTRY)
        return wrong_listing(w, l->at, "a name is longer than names are, or than its listing");
    STK_TRY(check_name(w, l, name, length));
    STK_TRY(put_name(w, l, name, length, &path));
    const uint64_t place = l->block + offset;
    if (offset >= STK__SQUASHFS_METADATA || kind < 1 || kind > STK__SQUASHFS_KINDS)
        return wrong_listing(w, l->at, "an entry names no inode");
    l->name = name;
    l->name_length = length;
    l->at += ENTRY + length;
    l->left -= ENTRY + length;
    l->entries--;
    return visit(w, place, kind, number, path);
}

static stk_status walk_all(walk *w)
{
    const uint64_t root = w->o->image->root;
    stk__squashfs_inode inode = {0};
    uint64_t place = 0;
    bool first;

    if (!stk__squashfs_table_find(&w->o->image->inodes, root >> 16, root & 0xffff, &place))
        return stk__squashfs_damaged(w->o, 32, "the root is not in the table of inodes");
    STK_TRY(look(w, place, &inode, &first));
    if (inode.kind != STK__SQUASHFS_FOLDER)
        return stk__squashfs_damaged(w->o, 32, "the root is no folder");
    STK_TRY(enter(w, place, &inode, 0));
    while (w->depth) {
        level *l = &w->levels[w->depth - 1];
        if (l->entries)
            STK_TRY(take_entry(w, l));
        else if (l->left)
            STK_TRY(take_run(w, l));
        else
            w->depth--;
    }
    return STK_OK;
}

stk_status stk__squashfs_walk(const stk__squashfs_opening *o)
{
    stk_context *ctx = o->image->context;
    const uint64_t bits = o->image->inodes.length / 8 + 1;

    STK_TRY(stk__squashfs_hold(o, bits, 1));
    walk *w = stk__calloc(ctx, 1, sizeof *w);
    uint8_t *seen = stk__calloc(ctx, bits, 1);
    stk_status status = STK_ENOMEM;
    if (w && seen) {
        *w = (walk){.o = o,
                    .seen = seen,
                    .inode_work = o->image->inodes.length,
                    .listing_work = o->directories.length};
        status = walk_all(w);
    } else {
        stk__squashfs_no_memory(o);
    }
    stk__free(ctx, seen);
    stk__free(ctx, w);
    return status;
}
