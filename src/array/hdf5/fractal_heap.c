/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fractal heaps [HDF5 format III.G]: blocks that double in size from row to row, found by offset;
 * huge objects through a B-tree; tiny ones within their ID.
 */
#include "array/hdf5/heap.h"

#define MOST_BLOCK  (UINT64_C(1) << 30)
#define MOST_OBJECT (UINT64_C(64) << 20)
#define MOST_WIDTH  1024u
#define MOST_BITS   63u
#define MOST_ID     64u
#define KEPT_PART   4u /* of the memory that is left: what blocks may take that are kept */

enum { CHECKSUMS = 2, MANAGED = 0, HUGE_OBJECT = 1, TINY = 2 };

static stk_status damaged(const stk__hdf5 *f, const stk__hdf5_heap *h)
{
    return stk__hdf5_damaged(f, h->address, "a fractal heap is not sound");
}

static stk_status check_header(const stk__hdf5 *f, stk__hdf5_heap *h, uint64_t most_object)
{
    if (!stk__hdf5_is_power(h->start) || !stk__hdf5_is_power(h->most_direct) ||
        !stk__hdf5_is_power(h->width) || h->start > h->most_direct || h->most_direct > MOST_BLOCK ||
        h->width > MOST_WIDTH || h->bits == 0 || h->bits > MOST_BITS || h->id_bytes < 2 ||
        h->id_bytes > MOST_ID)
        return damaged(f, h);
    h->of_offset = (h->bits + 7) / 8;
    h->of_object = STK_MIN((stk__hdf5_log2(h->most_direct) + 7) / 8, stk__hdf5_width(most_object));
    return STK_OK;
}

static stk_status parse_header(stk__hdf5 *f, const uint8_t *data, uint64_t length,
                               stk__hdf5_heap *h)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);

    stk__hdf5_skip(&at, 5);
    h->id_bytes = (uint32_t)stk__hdf5_field(&at, 2);
    stk__hdf5_skip(&at, 2);
    h->checksums = (stk__hdf5_field(&at, 1) & CHECKSUMS) != 0;
    const uint64_t most_object = stk__hdf5_field(&at, 4);
    stk__hdf5_length(f, &at); /* the next ID of a huge object */
    h->huge_tree = stk__hdf5_address(f, &at);
    stk__hdf5_length(f, &at); /* free space, and its manager */
    stk__hdf5_address(f, &at);
    stk__hdf5_skip(&at, 8u * f->of_length); /* how full it is */
    h->width = (uint32_t)stk__hdf5_field(&at, 2);
    h->start = stk__hdf5_length(f, &at);
    h->most_direct = stk__hdf5_length(f, &at);
    h->bits = (uint32_t)stk__hdf5_field(&at, 2);
    stk__hdf5_skip(&at, 2);
    h->root = stk__hdf5_address(f, &at);
    h->rows = (uint32_t)stk__hdf5_field(&at, 2);
    return check_header(f, h, most_object);
}

stk_status stk__hdf5_heap_open(stk__hdf5 *f, uint64_t address, stk__hdf5_heap *out)
{
    /* All lengths and addresses, then what is of a fixed size, with the checksum. */
    const uint64_t length = 26 + 12u * f->of_length + 3u * f->of_address;
    uint8_t head[9], *data = NULL;

    *out = (stk__hdf5_heap){.address = address,
                            .huge_tree = STK__HDF5_NONE,
                            .least = f->memory - f->memory / KEPT_PART};
    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_read(f, address, sizeof head, head));
    if (stk__little_endian(head + 7, 2))
        return stk__hdf5_refuse(f, address,
                                "a group whose links or attributes are compressed is "
                                "not read");
    STK_TRY(stk__hdf5_load(f, address, length, &data));
    stk_status status = stk__hdf5_whole(f, address, data, length, "FRHP", 0);
    if (status == STK_OK)
        status = parse_header(f, data, length - 4, out);
    stk__hdf5_give(f, data, length);
    return status;
}

static void drop_blocks(stk__hdf5 *f, stk__hdf5_heap *h)
{
    for (size_t i = 0; i < h->num_blocks; i++)
        stk__hdf5_give(f, h->blocks[i].data, h->blocks[i].bytes);
    h->num_blocks = 0;
}

void stk__hdf5_heap_close(stk__hdf5 *f, stk__hdf5_heap *h)
{
    drop_blocks(f, h);
    stk__free(f->ctx, h->blocks);
    h->blocks = NULL;
}

/* ---- Managed objects ---- */

/* Bytes of a block in row `row` of an indirect block. */
static uint64_t row_block(const stk__hdf5_heap *h, uint32_t row)
{
    return row < 2 ? h->start : h->start << (row - 1);
}

/* Rows of direct blocks; those after them are of indirect blocks. */
static uint32_t direct_rows(const stk__hdf5_heap *h)
{
    return stk__hdf5_log2(h->most_direct) - stk__hdf5_log2(h->start) + 2;
}

typedef struct block_place {
    uint64_t address, offset, bytes; /* in the file; in the heap */
} block_place;

/* Kept blocks that begin at heap offset `x` or before it. */
static size_t blocks_until(const stk__hdf5_heap *h, uint64_t x)
{
    size_t low = 0, high = h->num_blocks;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (h->blocks[middle].offset <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static stk_status insert_block(stk__hdf5 *f, stk__hdf5_heap *h, const stk__hdf5_heap_block *block,
                               const stk__hdf5_heap_block **out)
{
    const size_t at = blocks_until(h, block->offset);
    stk__hdf5_heap_block *grown =
        stk__grow(f->ctx, h->blocks, &h->room, h->num_blocks + 1, sizeof *grown);

    if (!grown) {
        stk__hdf5_give(f, block->data, block->bytes);
        return stk__hdf5_no_memory(f);
    }
    memmove(grown + at + 1, grown + at, (h->num_blocks++ - at) * sizeof *grown);
    grown[at] = *block;
    h->blocks = grown;
    *out = &grown[at];
    return STK_OK;
}

static stk_status read_block(stk__hdf5 *f, stk__hdf5_heap *h, const block_place *p,
                             const stk__hdf5_heap_block **out)
{
    uint8_t *data = NULL;

    STK_TRY(stk__hdf5_step(f));
    if (f->memory < h->least || f->memory - h->least < p->bytes)
        drop_blocks(f, h);
    STK_TRY(stk__hdf5_load(f, p->address, p->bytes, &data));
    const uint64_t head = 5u + f->of_address;
    stk__hdf5_fields at = stk__hdf5_fields_of(data, p->bytes);
    stk__hdf5_skip(&at, 5);
    const uint64_t owner = stk__hdf5_address(f, &at), offset = stk__hdf5_field(&at, h->of_offset);
    bool sound = !at.failed && memcmp(data, "FHDB", 4) == 0 && data[4] == 0 &&
                 owner == h->address && offset == p->offset;
    if (sound && h->checksums) {
        const uint8_t *sum = stk__hdf5_skip(&at, 4);
        const uint64_t place = head + h->of_offset;
        const uint32_t told = sum ? (uint32_t)stk__little_endian(sum, 4) : 0;
        sound = sum != NULL;
        if (sound) {
            memset(data + place, 0, 4);
            sound = stk__hdf5_checksum(data, p->bytes) == told;
        }
    }
    if (!sound) {
        stk__hdf5_give(f, data, p->bytes);
        return stk__hdf5_damaged(f, p->address, "a block of a fractal heap is not sound");
    }
    return insert_block(
        f, h, &(stk__hdf5_heap_block){.data = data, .offset = p->offset, .bytes = p->bytes}, out);
}

/* An indirect block of the heap. */
typedef struct indirect {
    uint64_t address, offset;
    uint32_t rows;
} indirect;

/* The entry of an indirect block that holds heap offset `x`: *child is an indirect block, or *found
 * a direct one. */
static stk_status descend(stk__hdf5 *f, stk__hdf5_heap *h, const indirect *in, uint64_t x,
                          bool *direct, indirect *child, block_place *found)
{
    const uint64_t within = x - in->offset, first = h->width * h->start;
    const uint32_t row = within < first ? 0 : stk__hdf5_log2(within / first) + 1;
    uint8_t *data = NULL;

    if (row >= in->rows || in->rows > MOST_BITS + 1)
        return damaged(f, h);
    const uint64_t size = row_block(h, row), begin = row ? first << (row - 1) : 0;
    const uint64_t column = (within - begin) / size;
    const uint64_t length = 5 + (uint64_t)f->of_address + h->of_offset +
                            (uint64_t)in->rows * h->width * f->of_address + 4;
    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_load(f, in->address, length, &data));
    stk_status status = stk__hdf5_whole(f, in->address, data, length, "FHIB", 0);
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);
    stk__hdf5_skip(&at, 5);
    if (status == STK_OK && (stk__hdf5_address(f, &at) != h->address ||
                             stk__hdf5_field(&at, h->of_offset) != in->offset))
        status = stk__hdf5_damaged(f, in->address, "a block of a fractal heap is not sound");
    const uint64_t number = (uint64_t)row * h->width + column;
    *direct = row < direct_rows(h);
    stk__hdf5_skip(&at, number * f->of_address);
    const uint64_t address = stk__hdf5_address(f, &at), offset = in->offset + begin + column * size;
    *found = (block_place){.address = address, .offset = offset, .bytes = size};
    *child = (indirect){.address = address,
                        .offset = offset,
                        .rows = stk__hdf5_log2(size) - stk__hdf5_log2(first) + 1};
    if (status == STK_OK && address == STK__HDF5_NONE)
        status = stk__hdf5_damaged(f, in->address, "a fractal heap lacks a block");
    stk__hdf5_give(f, data, length);
    return status;
}

/* The direct block that holds heap offset `x`, kept or read now. */
static stk_status find_block(stk__hdf5 *f, stk__hdf5_heap *h, uint64_t x,
                             const stk__hdf5_heap_block **out)
{
    indirect in = {.address = h->root, .rows = h->rows}, child;
    block_place place = {.address = h->root, .bytes = h->start};
    bool direct = h->rows == 0;

    const size_t until = blocks_until(h, x);
    *out = until ? &h->blocks[until - 1] : NULL;
    if (until && x - (*out)->offset < (*out)->bytes)
        return STK_OK;
    if (h->root == STK__HDF5_NONE)
        return damaged(f, h);
    while (!direct) {
        const uint32_t rows = in.rows;
        STK_TRY(descend(f, h, &in, x, &direct, &child, &place));
        if (!direct && child.rows >= rows) /* a child is smaller than its parent */
            return damaged(f, h);
        in = child;
    }
    return read_block(f, h, &place, out);
}

static stk_status copy_out(stk__hdf5 *f, const uint8_t *from, uint64_t length, uint8_t **data)
{
    void *memory = NULL;

    STK_TRY(stk__hdf5_take(f, length, &memory));
    memcpy(memory, from, length);
    *data = memory;
    return STK_OK;
}

static stk_status managed(stk__hdf5 *f, stk__hdf5_heap *h, stk__hdf5_fields *at, uint8_t **data,
                          uint64_t *bytes)
{
    const uint64_t offset = stk__hdf5_field(at, h->of_offset);
    const uint64_t length = stk__hdf5_field(at, h->of_object);
    const stk__hdf5_heap_block *block = NULL;

    if (at->failed || length == 0)
        return damaged(f, h);
    STK_TRY(find_block(f, h, offset, &block));
    const uint64_t from = offset - block->offset;
    const uint64_t head = 5u + f->of_address + h->of_offset + (h->checksums ? 4 : 0);
    if (offset < block->offset || from < head || from > block->bytes ||
        length > block->bytes - from)
        return stk__hdf5_damaged(f, h->address, "an object lies outside its fractal heap");
    *bytes = length;
    return copy_out(f, block->data + from, length, data);
}

/* ---- Huge objects ---- */

typedef struct huge_search {
    uint64_t key, address, length;
    bool found;
} huge_search;

static stk_status match_huge(stk__hdf5 *f, const uint8_t *record, uint32_t bytes, void *user)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(record, bytes);
    huge_search *s = user;

    const uint64_t address = stk__hdf5_address(f, &at), length = stk__hdf5_length(f, &at);
    if (stk__hdf5_length(f, &at) != s->key || at.failed)
        return STK_OK;
    s->address = address;
    s->length = length;
    s->found = true;
    return STK_OK;
}

static stk_status huge(stk__hdf5 *f, stk__hdf5_heap *h, stk__hdf5_fields *at, uint8_t **data,
                       uint64_t *bytes)
{
    const uint64_t direct = (uint64_t)f->of_address + f->of_length;
    huge_search s = {.found = true};

    if (h->id_bytes - 1 >= direct) {
        s.address = stk__hdf5_address(f, at);
        s.length = stk__hdf5_length(f, at);
    } else {
        s.found = false;
        s.key = stk__hdf5_field(at, STK_MIN(8, h->id_bytes - 1));
        STK_TRY(stk__hdf5_btree2(f, h->huge_tree, 1, 0, match_huge, &s));
    }
    if (!s.found || s.length == 0 || s.length > MOST_OBJECT)
        return stk__hdf5_damaged(f, h->address, "a fractal heap lacks a huge object");
    *bytes = s.length;
    return stk__hdf5_load(f, s.address, s.length, data);
}

static stk_status tiny(stk__hdf5 *f, stk__hdf5_heap *h, stk__hdf5_fields *at, uint8_t first,
                       uint8_t **data, uint64_t *bytes)
{
    *bytes = (first & 15u) + 1u;
    if (h->id_bytes > 17)
        *bytes = ((first & 15u) << 8 | stk__hdf5_field(at, 1)) + 1;
    const uint8_t *from = stk__hdf5_skip(at, *bytes);
    return from ? copy_out(f, from, *bytes, data) : damaged(f, h);
}

stk_status stk__hdf5_heap_object(stk__hdf5 *f, stk__hdf5_heap *h, const uint8_t *id, uint8_t **data,
                                 uint64_t *bytes)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(id, h->id_bytes);
    const uint8_t first = (uint8_t)stk__hdf5_field(&at, 1);

    *data = NULL;
    *bytes = 0;
    STK_TRY(stk__hdf5_step(f));
    if (first >> 6)
        return damaged(f, h);
    switch (first >> 4 & 3) {
    case MANAGED:
        return managed(f, h, &at, data, bytes);
    case HUGE_OBJECT:
        return huge(f, h, &at, data, bytes);
    case TINY:
        return tiny(f, h, &at, first, data, bytes);
    default:
        return damaged(f, h);
    }
}
