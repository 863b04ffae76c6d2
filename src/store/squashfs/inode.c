/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes as the table has them, and files held against the image. */
#include <stdlib.h>

#include "store/squashfs/image.h"

#define HEADER       16 /* bytes that all inodes begin with */
#define WORD         4  /* bytes of the size of a block */
#define LISTING_MORE 3  /* that the size of a listing counts too many */
#define NS           INT64_C(1000000000)

static uint64_t take(const uint8_t *at, unsigned offset, unsigned size)
{
    return stk__little_endian(at + offset, size);
}

static void take_folder(const uint8_t *at, bool extended, stk__squashfs_inode *out)
{
    const uint64_t listing = extended ? take(at, 20, 4) : take(at, 24, 2);

    out->listing = listing - STK_MIN(listing, (uint64_t)LISTING_MORE);
    out->block = extended ? take(at, 24, 4) : take(at, 16, 4);
    out->offset = (uint32_t)(extended ? take(at, 34, 2) : take(at, 26, 2));
}

/* `left`: bytes of the table behind the fixed ones. */
static const char *take_file(const stk__squashfs *image, const uint8_t *at, bool extended,
                             uint64_t left, stk__squashfs_inode *out)
{
    const uint32_t size = image->block_size;

    out->start = extended ? take(at, 16, 8) : take(at, 16, 4);
    out->size = extended ? take(at, 24, 8) : take(at, 28, 4);
    out->fragment = (uint32_t)(extended ? take(at, 44, 4) : take(at, 20, 4));
    out->fragment_offset = (uint32_t)(extended ? take(at, 48, 4) : take(at, 24, 4));
    out->num_blocks = out->size / size;
    if (out->fragment == STK__SQUASHFS_NO_FRAGMENT && out->size % size)
        out->num_blocks++;
    if (out->num_blocks > left / WORD)
        return "a file has more blocks than its inode";
    out->blocks = at + out->length;
    out->length += out->num_blocks * WORD;
    return NULL;
}

const char *stk__squashfs_inode_at(const stk__squashfs *image, uint64_t place,
                                   stk__squashfs_inode *out)
{
    static const uint8_t lengths[2][STK__SQUASHFS_KINDS + 1] = {
        {0, 32, 32, 24, 24, 24, 20, 20},
        {0, 40, 56, 24, 28, 28, 24, 24},
    };
    const stk__squashfs_table *t = &image->inodes;
    const uint8_t *at = t->bytes + place;

    if (place > t->length || t->length - place < HEADER)
        return "an inode goes beyond the table";
    const uint64_t type = take(at, 0, 2);
    const bool extended = type > STK__SQUASHFS_KINDS;
    out->kind = (uint32_t)(extended ? type - STK__SQUASHFS_KINDS : type);
    if (out->kind < 1 || out->kind > STK__SQUASHFS_KINDS)
        return "an inode is of no kind that there is";
    out->length = lengths[extended][out->kind];
    if (t->length - place < out->length)
        return "an inode goes beyond the table";
    out->mtime_ns = (int64_t)take(at, 8, 4) * NS;
    out->number = (uint32_t)take(at, 12, 4);
    if (out->number < 1 || out->number > image->num_inodes)
        return "an inode has a number that there is not";
    if (out->kind == STK__SQUASHFS_FOLDER)
        take_folder(at, extended, out);
    if (out->kind == STK__SQUASHFS_FILE)
        return take_file(image, at, extended, t->length - place - out->length, out);
    return NULL;
}

/* ---- Files ---- */

/* Keep the sums of the bytes before every so many blocks. */
static stk_status keep_sums(const stk__squashfs_opening *o, uint64_t place,
                            const stk__squashfs_inode *file)
{
    stk__squashfs *i = o->image;
    const uint64_t count = stk__divide_up(file->num_blocks, STK__SQUASHFS_SUM_EVERY);
    uint64_t sum = 0;

    STK_TRY(stk__squashfs_hold(o, count + 2, sizeof *i->sums));
    stk__squashfs_large *large =
        stk__grow(i->context, i->large, &i->large_room, i->num_large + 1, sizeof *i->large);
    i->large = large ? large : i->large;
    uint64_t *sums =
        stk__grow(i->context, i->sums, &i->sums_room, i->num_sums + count, sizeof *i->sums);
    i->sums = sums ? sums : i->sums;
    if (!large || !sums)
        return stk__squashfs_no_memory(o);
    i->large[i->num_large++] = (stk__squashfs_large){.inode = place, .first = i->num_sums};
    for (uint64_t n = 0; n < file->num_blocks; n++) {
        if (n % STK__SQUASHFS_SUM_EVERY == 0)
            i->sums[i->num_sums++] = sum;
        sum += take(file->blocks + n * WORD, 0, WORD) & STK__SQUASHFS_STORED;
    }
    return STK_OK;
}

static const char *check_blocks(const stk__squashfs *i, const stk__squashfs_inode *file,
                                uint64_t *sum)
{
    uint64_t left = file->size;

    *sum = 0;
    for (uint64_t n = 0; n < file->num_blocks; n++) {
        const uint64_t word = take(file->blocks + n * WORD, 0, WORD);
        const uint64_t stored = word & STK__SQUASHFS_STORED;
        const uint64_t decoded = STK_MIN(left, i->block_size);
        if (word & ~(uint64_t)(STK__SQUASHFS_STORED | STK__SQUASHFS_RAW) || stored > i->block_size)
            return "a block of a file is larger than blocks are";
        if (word & STK__SQUASHFS_RAW && stored != decoded)
            return "a block that is stored as it is has another size than the file gives it";
        *sum += stored;
        left -= decoded;
    }
    return NULL;
}

static const char *check_tail(const stk__squashfs *i, const stk__squashfs_inode *file)
{
    const uint64_t tail = file->size % i->block_size;

    if (file->fragment == STK__SQUASHFS_NO_FRAGMENT)
        return NULL;
    if (file->fragment >= i->num_fragments)
        return "a file ends in a fragment that there is not";
    if (file->fragment_offset > i->block_size || tail > i->block_size - file->fragment_offset)
        return "the end of a file lies behind its fragment";
    uint32_t *end = &i->fragment_ends[file->fragment];
    *end = STK_MAX(*end, (uint32_t)(file->fragment_offset + tail));
    return NULL;
}

stk_status stk__squashfs_file_check(const stk__squashfs_opening *o, uint64_t place,
                                    const stk__squashfs_inode *file)
{
    const stk__squashfs *i = o->image;
    uint64_t sum = 0;

    const char *wrong = check_blocks(i, file, &sum);
    if (!wrong)
        wrong = check_tail(i, file);
    if (!wrong && sum &&
        (file->start < STK__SQUASHFS_SUPER || file->start > i->inode_table ||
         sum > i->inode_table - file->start))
        wrong = "a file does not lie before the inodes";
    if (wrong)
        return stk__squashfs_damaged(o, stk__squashfs_table_at(&i->inodes, place), wrong);
    return file->num_blocks > STK__SQUASHFS_SUM_EVERY ? keep_sums(o, place, file) : STK_OK;
}

static int by_inode(const void *a, const void *b)
{
    const stk__squashfs_large *x = a, *y = b;

    return (x->inode > y->inode) - (x->inode < y->inode);
}

void stk__squashfs_files_end(stk__squashfs *image)
{
    if (image->num_large)
        qsort(image->large, image->num_large, sizeof *image->large, by_inode);
}
