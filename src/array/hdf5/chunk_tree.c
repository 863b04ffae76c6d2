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

static stk_status visit(tree1 *t, const uint8_t *data, uint64_t address, int level);

/* The address behind key `i` of a node. */
static uint64_t child_at(const tree1 *t, const uint8_t *data, uint64_t i)
{
    const uint64_t head = 8 + 2u * t->c->f->of_address, pair = t->key_bytes + t->c->f->of_address;
    stk__hdf5_fields at =
        stk__hdf5_fields_of(data + head + i * pair + t->key_bytes, t->c->f->of_address);

    return stk__hdf5_address(t->c->f, &at);
}

/* All children of an inner node are read before the first is looked at. */
static stk_status visit_children(tree1 *t, const uint8_t *data, uint64_t n, int level)
{
    const uint64_t bytes = n * (t->node_bytes + sizeof(uint64_t));
    stk__hdf5 *f = t->c->f;
    void *memory = NULL;

    STK_TRY(stk__hdf5_take(f, bytes, &memory));
    uint64_t *addresses = memory;
    uint8_t *nodes = (uint8_t *)(addresses + n);
    for (uint64_t i = 0; i < n; i++)
        addresses[i] = child_at(t, data, i);
    stk_status status = stk__hdf5_load_all(f, addresses, n, t->node_bytes, nodes);
    for (uint64_t i = 0; status == STK_OK && i < n; i++)
        status = visit(t, nodes + i * t->node_bytes, addresses[i], level - 1);
    stk__hdf5_give(f, memory, bytes);
    return status;
}

/* A node, which has room for all that one may hold. `level`: what it must be, so that no tree
 * contains itself; -1: that of a root. */
static stk_status visit(tree1 *t, const uint8_t *data, uint64_t address, int level)
{
    const uint64_t head = 8 + 2u * t->c->f->of_address, pair = t->key_bytes + t->c->f->of_address;
    const uint64_t n = stk__little_endian(data + 6, 2);
    stk__hdf5 *f = t->c->f;

    if (t->nodes++ == t->most_nodes)
        return stk__hdf5_damaged(f, address, "the B-tree of chunks is no tree");
    if (memcmp(data, "TREE", 4) != 0 || data[4] != CHUNK_NODES ||
        (level >= 0 && data[5] != level) || n > 2 * (uint64_t)f->chunk_k ||
        !stk__hdf5_inside(f, address, head + n * pair))
        return stk__hdf5_damaged(f, address, "there is no node of the B-tree of chunks");
    if (data[5])
        return visit_children(t, data, n, data[5]);
    for (uint64_t i = 0; i < n; i++)
        STK_TRY(take_key(t, data + head + i * pair, child_at(t, data, i)));
    return STK_OK;
}

stk_status stk__hdf5_chunks_btree1(stk__hdf5_chunks *c)
{
    stk__hdf5 *f = c->f;
    void *root = NULL;
    tree1 t = {.c = c, .key_bytes = 8 + 8 * ((uint64_t)c->space->rank + 1)};

    const uint64_t pairs = 2 * (uint64_t)f->chunk_k;
    t.node_bytes = 8 + 2u * f->of_address + (pairs + 1) * t.key_bytes + pairs * f->of_address;
    t.most_nodes = f->end / t.node_bytes + 1;
    STK_TRY(stk__hdf5_take(f, t.node_bytes, &root));
    stk_status status = stk__hdf5_load_all(f, &c->layout->address, 1, t.node_bytes, root);
    if (status == STK_OK)
        status = visit(&t, root, c->layout->address, -1);
    stk__hdf5_give(f, root, t.node_bytes);
    return status;
}

static stk_status take_record(stk__hdf5 *f, const uint8_t *record, uint32_t bytes, void *user)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(record, bytes);
    stk__hdf5_chunks *c = user;
    uint64_t place[STK_ARRAY_MAX_RANK], stored;
    uint32_t mask;

    (void)f;
    const uint64_t address = stk__hdf5_chunks_stored(c, &at, &stored, &mask);
    for (uint32_t d = 0; d < c->space->rank; d++)
        place[d] = stk__hdf5_field(&at, 8);
    return stk__hdf5_chunks_add(c, place, address, stored, mask);
}

stk_status stk__hdf5_chunks_btree2(stk__hdf5_chunks *c)
{
    return stk__hdf5_btree2(c->f, c->layout->address, c->num_filters ? FILTERED : PLAIN,
                            c->element + 8 * c->space->rank, take_record, c);
}
