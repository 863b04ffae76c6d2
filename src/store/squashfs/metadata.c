/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of metadata blocks: each block begins with 2 bytes, its stored size and, in the top bit,
 * whether it is stored as it is. All of a table but the last hold 8 KiB, so that a place in the
 * decoded table follows from the number of the block.
 */
#include "base/counted.h"
#include "store/squashfs/image.h"

#define HEADER   2
#define LOCATION 8  /* bytes of an entry of a list of blocks */
#define BATCH    16 /* blocks that a thread takes at a time */

/* ---- Decoding ---- */

/* A table that threads decode. */
typedef struct decoding {
    const stk__squashfs_opening *opening;
    const stk__squashfs_table *table;
    const uint8_t *stored; /* the table as it is stored */
    uint64_t last;         /* bytes of the last block, by whom decodes it */
    stk__counted blocks;
} decoding;

static stk_status decode_block(decoding *d, stk__codec_state *state, uint64_t n,
                               const char **reason)
{
    const uint8_t *block = d->stored + d->table->blocks[n];
    const unsigned header = (unsigned)stk__little_endian(block, HEADER);
    const uint64_t stored = header & STK__SQUASHFS_META_STORED;
    uint8_t *out = d->table->bytes + n * STK__SQUASHFS_METADATA;
    uint64_t got = stored;

    if (header & STK__SQUASHFS_META_RAW)
        memcpy(out, block + HEADER, stored);
    else
        STK_TRY(stk__block_decode(d->opening->image->codec, state, block + HEADER, stored, out,
                                  STK__SQUASHFS_METADATA, &got, reason));
    if (n + 1 == d->table->num_blocks && got)
        d->last = got;
    else if (got != STK__SQUASHFS_METADATA) {
        *reason = "a metadata block is not the last and has less than 8 KiB; copy or pack it again";
        return STK_EFORMAT;
    }
    return STK_OK;
}

static void note_failure(decoding *d, uint64_t n, stk_status status, const char *reason)
{
    const stk__squashfs_opening *o = d->opening;
    const uint64_t at = d->table->at + d->table->blocks[n];
    stk_error err;

    /* The reason ends in what to do. */
    stk__fail_at(&err, status, STK_STAGE_STORE, o->key, at,
                 "%s: the SquashFS image is damaged at byte %llu: %s", o->key,
                 (unsigned long long)at, reason);
    stk__counted_fail(&d->blocks, n, status, &err);
}

static void decode_some(void *argument)
{
    decoding *d = argument;
    stk__codec_state *state = NULL;
    uint64_t first, end;

    if (stk__codec_state_create(d->opening->image->context, &state, NULL) != STK_OK) {
        note_failure(d, 0, STK_ENOMEM, "no memory");
        return;
    }
    while (stk__counted_take(&d->blocks, &first, &end))
        for (uint64_t n = first; n < end; n++) {
            const char *reason = NULL;
            const stk_status status = decode_block(d, state, n, &reason);
            if (status == STK_OK)
                continue;
            note_failure(d, n, status, reason);
            break;
        }
    stk__codec_state_destroy(&state);
}

static stk_status decode(const stk__squashfs_opening *o, stk__squashfs_table *t)
{
    decoding d = {.opening = o, .table = t, .stored = o->tail + (t->at - o->image->inode_table)};
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(o->image->context, &cores);
    const uint64_t wanted = STK_MIN(cores.usable, t->num_blocks / STK__SQUASHFS_THREAD_WORTH);
    stk__counted_init(&d.blocks, t->num_blocks, BATCH);
    stk__thread_share(o->image->context, "stk-squashfs",
                      STK_MAX(STK_MIN(wanted, STK__SQUASHFS_MOST_THREADS), 1) - 1, decode_some, &d);
    const stk_status status = stk__counted_end(&d.blocks, o->err);
    if (status == STK_ENOMEM)
        return stk__squashfs_no_memory(o);
    if (status == STK_OK)
        t->length = (t->num_blocks - 1) * STK__SQUASHFS_METADATA + d.last;
    return status;
}

/* ---- Finding the blocks ---- */

/* The next block of a table that ends at `end`; *at moves behind it. */
static stk_status step_over(const stk__squashfs_opening *o, uint64_t *at, uint64_t end)
{
    if (end - *at < HEADER)
        return stk__squashfs_damaged(o, *at, "a table ends within a metadata block");
    const uint64_t stored = stk__little_endian(o->tail + (*at - o->image->inode_table), HEADER) &
                            STK__SQUASHFS_META_STORED;
    if (!stored || stored > STK__SQUASHFS_METADATA)
        return stk__squashfs_damaged(o, *at, "a metadata block is empty or larger than 8 KiB");
    if (stored > end - *at - HEADER)
        return stk__squashfs_damaged(o, *at, "a metadata block goes beyond its table");
    *at += HEADER + stored;
    return STK_OK;
}

stk_status stk__squashfs_table_load(const stk__squashfs_opening *o, stk__squashfs_table *t,
                                    uint64_t from, uint64_t end)
{
    stk_context *ctx = o->image->context;
    uint64_t count = 0;

    t->at = from;
    if (from > end || from < o->image->inode_table || end > o->image->used)
        return stk__squashfs_damaged(o, STK_MIN(from, o->image->used), "a table has no room");
    for (uint64_t at = from; at < end; count++)
        STK_TRY(step_over(o, &at, end));
    if (!count)
        return STK_OK;
    STK_TRY(stk__squashfs_hold(o, count, STK__SQUASHFS_METADATA + sizeof *t->blocks));
    t->bytes = stk__alloc_buffer(ctx, count * STK__SQUASHFS_METADATA);
    t->blocks = stk__calloc(ctx, count, sizeof *t->blocks);
    if (!t->bytes || !t->blocks)
        return stk__squashfs_no_memory(o);
    for (uint64_t at = from; at < end;) {
        t->blocks[t->num_blocks++] = at - from;
        STK_TRY(step_over(o, &at, end));
    }
    return decode(o, t);
}

stk_status stk__squashfs_first_block(const stk__squashfs_opening *o, uint64_t list, uint64_t *out)
{
    const stk__squashfs *i = o->image;

    if (list < i->directory_table || list > i->used || i->used - list < LOCATION)
        return stk__squashfs_damaged(o, STK_MIN(list, i->used),
                                     "a list of metadata blocks is not in the image");
    *out = stk__little_endian(o->tail + (list - i->inode_table), LOCATION);
    if (*out < i->directory_table || *out > list)
        return stk__squashfs_damaged(o, list, "a metadata block does not lie before its list");
    return STK_OK;
}

stk_status stk__squashfs_table_lookup(const stk__squashfs_opening *o, stk__squashfs_table *t,
                                      uint64_t list, uint64_t bytes)
{
    const uint64_t count = stk__divide_up(bytes, STK__SQUASHFS_METADATA);
    uint64_t first = 0;

    STK_TRY(stk__squashfs_first_block(o, list, &first));
    if (count > (o->image->used - list) / LOCATION)
        return stk__squashfs_damaged(o, list, "a list of metadata blocks goes beyond the image");
    STK_TRY(stk__squashfs_table_load(o, t, first, list));
    if (t->num_blocks != count || t->length != bytes)
        return stk__squashfs_damaged(o, list, "a table has another number of entries than is said");
    for (uint64_t n = 0; n < count; n++)
        if (stk__little_endian(o->tail + (list - o->image->inode_table) + n * LOCATION, LOCATION) !=
            first + t->blocks[n])
            return stk__squashfs_damaged(o, list + n * LOCATION,
                                         "a metadata block is not where its list says");
    return STK_OK;
}

/* ---- Using it ---- */

bool stk__squashfs_table_find(const stk__squashfs_table *t, uint64_t block, uint64_t offset,
                              uint64_t *out)
{
    uint64_t low = 0, high = t->num_blocks;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (t->blocks[middle] < block)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == t->num_blocks || t->blocks[low] != block || offset >= STK__SQUASHFS_METADATA)
        return false;
    *out = low * STK__SQUASHFS_METADATA + offset;
    return *out < t->length;
}

uint64_t stk__squashfs_table_at(const stk__squashfs_table *t, uint64_t place)
{
    return t->num_blocks
               ? t->at + t->blocks[STK_MIN(place / STK__SQUASHFS_METADATA, t->num_blocks - 1)]
               : t->at;
}

void stk__squashfs_table_release(stk_context *ctx, stk__squashfs_table *t)
{
    stk__free(ctx, t->bytes);
    stk__free(ctx, t->blocks);
    *t = (stk__squashfs_table){0};
}
