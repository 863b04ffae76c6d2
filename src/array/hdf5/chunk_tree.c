/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks in B-trees of both versions [HDF5 format III.A.1, III.A.2]. */
#include "array/hdf5/chunks.h"

#define CHUNK_NODES 1u
#define PLAIN       10u /* types of B-tree 2 */
#define FILTERED    11u

typedef struct tree1 {
    stk__hdf5_chunks *c;
    uint64_t key_bytes, node_bytes;
    uint64_t nodes, most_nodes; /* seen; that the file has room for: each is seen once */
} tree1;

static stk_status take_key(const tree1 *t, const uint8_t *key, uint64_t child)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(key, t->key_bytes);
    const uint32_t rank = t->c->space->rank;
    uint64_t place[STK_ARRAY_MAX_RANK];

    const uint64_t bytes = stk__hdf5_field(&at, 4);
    const uint32_t mask = (uint32_t)stk__hdf5_field(&at, 4);
    for (uint32_t d = 0; d < rank; d++) {
        const uint64_t offset = stk__hdf5_field(&at, 8), size = (uint64_t)t->c->layout->chunk[d];
        if (offset % size)
            return stk__hdf5_damaged(t->c->f, child, "a chunk is not where chunks begin");
        place[d] = offset / size;
    }
    return stk__hdf5_chunks_add(t->c, place, child, bytes, mask);
}

/* `level`: what it must be, so that no tree contains itself; -1: that of a root. */
static stk_status visit(tree1 *t, uint64_t address, int level)
{
    stk__hdf5 *f = t->c->f;
    uint8_t *data = NULL;

    if (address > f->end || t->nodes++ == t->most_nodes)
        return stk__hdf5_damaged(f, address, "the B-tree of chunks is no tree");
    const uint64_t length = STK_MIN(t->node_bytes, f->end - address);
    const uint64_t head = 8 + 2u * f->of_address, pair = t->key_bytes + f->of_address;
    STK_TRY(stk__hdf5_load(f, address, length, &data));
    const uint64_t n = length >= head ? stk__little_endian(data + 6, 2) : 0;
    stk_status status = STK_OK;
    if (length < head || memcmp(data, "TREE", 4) != 0 || data[4] != CHUNK_NODES ||
        (level >= 0 && data[5] != level) || n > 2 * (uint64_t)f->chunk_k ||
        head + n * pair > length)
        status = stk__hdf5_damaged(f, address, "there is no node of the B-tree of chunks");
    for (uint64_t i = 0; status == STK_OK && i < n; i++) {
        const uint8_t *key = data + head + i * pair;
        stk__hdf5_fields at = stk__hdf5_fields_of(key + t->key_bytes, f->of_address);
        const uint64_t child = stk__hdf5_address(f, &at);
        status = data[5] ? visit(t, child, data[5] - 1) : take_key(t, key, child);
    }
    stk__hdf5_give(f, data, length);
    return status;
}

stk_status stk__hdf5_chunks_btree1(stk__hdf5_chunks *c)
{
    const stk__hdf5 *f = c->f;
    tree1 t = {.c = c, .key_bytes = 8 + 8 * ((uint64_t)c->space->rank + 1)};

    const uint64_t pairs = 2 * (uint64_t)f->chunk_k;
    t.node_bytes = 8 + 2u * f->of_address + (pairs + 1) * t.key_bytes + pairs * f->of_address;
    t.most_nodes = f->end / t.node_bytes + 1;
    return visit(&t, c->layout->address, -1);
}

static stk_status take_record(stk__hdf5 *f, const uint8_t *record, uint32_t bytes, void *user)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(record, bytes);
    stk__hdf5_chunks *c = user;
    uint64_t place[STK_ARRAY_MAX_RANK], stored = c->bytes;
    uint32_t mask = 0;

    const uint64_t address = stk__hdf5_address(f, &at);
    if (c->num_filters) {
        stored = stk__hdf5_field(&at, c->of_size);
        mask = (uint32_t)stk__hdf5_field(&at, 4);
    }
    for (uint32_t d = 0; d < c->space->rank; d++)
        place[d] = stk__hdf5_field(&at, 8);
    return stk__hdf5_chunks_add(c, place, address, stored, mask);
}

stk_status stk__hdf5_chunks_btree2(stk__hdf5_chunks *c)
{
    const uint32_t filtered = c->num_filters ? c->of_size + 4 : 0;

    return stk__hdf5_btree2(c->f, c->layout->address, c->num_filters ? FILTERED : PLAIN,
                            c->f->of_address + filtered + 8 * c->space->rank, take_record, c);
}
