/* SPDX-License-Identifier: Apache-2.0 */
/* B-trees of version 2 [HDF5 format III.A.2]: all records in order. */
#include "array/hdf5/heap.h"

#define MOST_DEPTH  24u
#define MOST_NODE   (UINT32_C(1) << 26)
#define NODE_EXTRA  10u /* signature, version, type, checksum */
#define MOST_HEADER 64u

typedef struct tree {
    stk__hdf5 *f;
    stk__hdf5_record_fn *each;
    void *user;
    uint8_t type;
    uint32_t node_bytes, record_bytes, depth;
    uint64_t root, root_records, total, seen;
    /* By height above the leaves: records of a node and of all below it at most, and the bytes that
     * an internal node has for a child: its address and these two counts. */
    uint64_t most[MOST_DEPTH + 1], below[MOST_DEPTH + 1];
    uint32_t pointer[MOST_DEPTH + 1];
} tree;

static stk_status read_header(tree *t, uint64_t address)
{
    stk__hdf5 *f = t->f;
    const uint64_t length = 22 + (uint64_t)f->of_address + f->of_length;
    uint8_t data[MOST_HEADER];

    STK_TRY(stk__hdf5_read(f, address, length, data));
    STK_TRY(stk__hdf5_whole(f, address, data, length, "BTHD", 0));
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);
    stk__hdf5_skip(&at, 5);
    const uint64_t type = stk__hdf5_field(&at, 1);
    t->node_bytes = (uint32_t)stk__hdf5_field(&at, 4);
    t->record_bytes = (uint32_t)stk__hdf5_field(&at, 2);
    t->depth = (uint32_t)stk__hdf5_field(&at, 2);
    stk__hdf5_skip(&at, 2);
    t->root = stk__hdf5_address(f, &at);
    t->root_records = stk__hdf5_field(&at, 2);
    t->total = stk__hdf5_length(f, &at);
    if (type != t->type)
        return stk__hdf5_damaged(f, address, "a B-tree is of another type than it is used for");
    if (t->node_bytes > MOST_NODE || t->record_bytes == 0 || t->depth > MOST_DEPTH ||
        t->node_bytes < NODE_EXTRA + t->record_bytes)
        return stk__hdf5_damaged(f, address, "nodes of a B-tree are of no size that any have");
    if (t->total > f->end / t->record_bytes)
        return stk__hdf5_damaged(f, address, "a B-tree has more records than the file holds");
    return STK_OK;
}

static stk_status find_maxima(tree *t, uint64_t address)
{
    const uint64_t room = t->node_bytes - NODE_EXTRA;
    const unsigned width = stk__hdf5_width(room / t->record_bytes);

    t->most[0] = t->below[0] = room / t->record_bytes;
    for (uint32_t d = 1; d <= t->depth; d++) {
        t->pointer[d] = t->f->of_address + width + (d > 1 ? stk__hdf5_width(t->below[d - 1]) : 0);
        if (room <= t->pointer[d])
            return stk__hdf5_damaged(t->f, address, "nodes of a B-tree hold no child");
        t->most[d] = (room - t->pointer[d]) / (t->record_bytes + t->pointer[d]);
        if (!stk__mul_size(t->most[d] + 1, t->below[d - 1], &t->below[d]) ||
            !stk__add_size(t->below[d], t->most[d], &t->below[d]))
            return stk__hdf5_damaged(t->f, address, "a B-tree is deeper than any is");
    }
    return STK_OK;
}

static stk_status give(tree *t, const uint8_t *record)
{
    if (t->seen++ == t->total)
        return stk__hdf5_damaged(t->f, t->root, "a B-tree has more records than it says");
    return t->each(t->f, record, t->record_bytes, t->user);
}

static stk_status visit(tree *t, uint64_t address, uint64_t records, uint32_t height);

/* Records and children take turns. */
static stk_status visit_records(tree *t, const uint8_t *data, uint64_t records, uint32_t height)
{
    stk__hdf5 *f = t->f;
    const uint8_t *record = data + 6, *pointers = record + records * t->record_bytes;
    const unsigned width = stk__hdf5_width(t->most[0]);

    for (uint64_t i = 0; i <= records; i++) {
        if (height) {
            stk__hdf5_fields at =
                stk__hdf5_fields_of(pointers + i * t->pointer[height], t->pointer[height]);
            const uint64_t child = stk__hdf5_address(f, &at);
            STK_TRY(visit(t, child, stk__hdf5_field(&at, width), height - 1));
        }
        if (i < records)
            STK_TRY(give(t, record + i * t->record_bytes));
    }
    return STK_OK;
}

static stk_status visit(tree *t, uint64_t address, uint64_t records, uint32_t height)
{
    stk__hdf5 *f = t->f;
    uint8_t *data = NULL;

    STK_TRY(stk__hdf5_step(f));
    if (records > t->most[height])
        return stk__hdf5_damaged(f, address, "a node of a B-tree has more records than it holds");
    const uint64_t length =
        NODE_EXTRA + records * t->record_bytes + (height ? (records + 1) * t->pointer[height] : 0);
    STK_TRY(stk__hdf5_load(f, address, length, &data));
    stk_status status = stk__hdf5_whole(f, address, data, length, height ? "BTIN" : "BTLF", 0);
    if (status == STK_OK && data[5] != t->type)
        status = stk__hdf5_damaged(f, address, "a node of a B-tree is of another type");
    if (status == STK_OK)
        status = visit_records(t, data, records, height);
    stk__hdf5_give(f, data, length);
    return status;
}

stk_status stk__hdf5_btree2(stk__hdf5 *f, uint64_t address, uint8_t type, uint32_t bytes,
                            stk__hdf5_record_fn *each, void *user)
{
    tree t = {.f = f, .each = each, .user = user, .type = type};

    STK_TRY(read_header(&t, address));
    if (bytes && t.record_bytes != bytes)
        return stk__hdf5_damaged(f, address, "records of a B-tree are of another size");
    if (t.root == STK__HDF5_NONE || t.total == 0)
        return STK_OK;
    STK_TRY(find_maxima(&t, address));
    STK_TRY(visit(&t, t.root, t.root_records, t.depth));
    return t.seen == t.total
               ? STK_OK
               : stk__hdf5_damaged(f, address, "a B-tree has fewer records than it says");
}
