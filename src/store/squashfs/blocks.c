/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a file lie, by inodes that were checked when the image was opened. */
#include "store/squashfs/image.h"

static uint32_t word_of(const stk__squashfs_inode *file, uint64_t block)
{
    return (uint32_t)stk__little_endian(file->blocks + block * 4, 4);
}

/* The nearest block before one whose stored bytes are summed, and that sum. */
static uint64_t nearest_sum(const stk__squashfs *i, uint64_t inode, uint64_t block, uint64_t *sum)
{
    size_t low = 0, high = i->num_large;

    *sum = 0;
    if (block < STK__SQUASHFS_SUM_EVERY)
        return 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (i->large[middle].inode < inode)
            low = middle + 1;
        else
            high = middle;
    }
    *sum = i->sums[i->large[low].first + block / STK__SQUASHFS_SUM_EVERY];
    return block / STK__SQUASHFS_SUM_EVERY * STK__SQUASHFS_SUM_EVERY;
}

static uint64_t decoded_of(const stk__squashfs *i, const stk__squashfs_inode *file, uint64_t block)
{
    return STK_MIN(i->block_size, file->size - block * i->block_size);
}

static void in_blocks(const stk__squashfs *i, const stk__squashfs_inode *file, uint64_t inode,
                      uint64_t offset, stk__container_run *out)
{
    const uint64_t block = offset / i->block_size;
    const uint32_t word = word_of(file, block);
    uint64_t sum = 0;

    for (uint64_t n = nearest_sum(i, inode, block, &sum); n < block; n++)
        sum += word_of(file, n) & STK__SQUASHFS_STORED;
    *out = (stk__container_run){.at = file->start + sum,
                                .stored = word & STK__SQUASHFS_STORED,
                                .decoded = decoded_of(i, file, block),
                                .skip = offset % i->block_size,
                                .raw = (word & STK__SQUASHFS_RAW) != 0};
    if (!out->stored)
        out->raw = false;
    /* What follows of the same kind belongs to it. */
    const uint64_t end = STK_MIN(file->num_blocks, block + STK__SQUASHFS_MOST_RUN);
    for (uint64_t n = block + 1; (out->raw || !out->stored) && n < end; n++) {
        const uint32_t next = word_of(file, n);
        if (out->raw ? !(next & STK__SQUASHFS_RAW) : (next & STK__SQUASHFS_STORED) != 0)
            break;
        out->decoded += decoded_of(i, file, n);
        out->stored += next & STK__SQUASHFS_STORED;
    }
    out->length = out->decoded - out->skip;
}

void stk__squashfs_find_run(const stk__squashfs *i, uint64_t inode, uint64_t offset,
                            stk__container_run *out)
{
    stk__squashfs_inode file = {0};

    *out = (stk__container_run){0};
    if (stk__squashfs_inode_at(i, inode, &file) || offset >= file.size)
        return;
    if (offset / i->block_size < file.num_blocks) {
        in_blocks(i, &file, inode, offset, out);
        return;
    }
    const uint8_t *entry = i->fragments.bytes + (uint64_t)file.fragment * STK__SQUASHFS_FRAGMENT;
    const uint64_t word = stk__little_endian(entry + 8, 4);
    const uint64_t tail = file.size % i->block_size, within = offset % i->block_size;
    *out = (stk__container_run){.at = stk__little_endian(entry, 8),
                                .stored = word & STK__SQUASHFS_STORED,
                                .decoded = i->fragment_ends[file.fragment],
                                .skip = file.fragment_offset + within,
                                .length = tail - within,
                                .raw = (word & STK__SQUASHFS_RAW) != 0};
    if (out->raw)
        out->decoded = out->stored;
}

stk_status stk__squashfs_decode(const stk__squashfs *image, stk__codec_state *state,
                                const stk__container_run *e, const void *stored, void *out,
                                const char **reason)
{
    uint64_t got = 0;

    STK_TRY(
        stk__block_decode(image->codec, state, stored, e->stored, out, e->decoded, &got, reason));
    if (got == e->decoded)
        return STK_OK;
    *reason = "a block decodes to fewer bytes than the file has in it";
    return STK_ETRUNCATED;
}
