/* SPDX-License-Identifier: Apache-2.0 */
/* Links of groups: symbol tables, link messages, and dense storage [HDF5 format III.A.1, B to D,
 * IV.A.2.g]. */
#include "array/hdf5/heap.h"

#define TREE_HEAD(f) (8u + 2u * (f)->of_address)
#define ENTRY(f)     (24u + (f)->of_length + (f)->of_address) /* of a symbol table */
#define SOFT_ENTRY   2u                                       /* its scratch is a soft link */
#define MOST_LEVEL   32u
#define DENSE_LINKS  5u /* type of a B-tree by name */
#define MOST_HEAP    (UINT64_C(256) << 20)

bool stk__hdf5_is_group(const stk__hdf5_object *o)
{
    return stk__hdf5_has(o, STK__HDF5_SYMBOLS) || stk__hdf5_has(o, STK__HDF5_LINK_INFO) ||
           stk__hdf5_has(o, STK__HDF5_GROUP_INFO) || stk__hdf5_has(o, STK__HDF5_LINK);
}

/* ---- Old groups ---- */

typedef struct symbols {
    stk__hdf5 *f;
    stk__hdf5_link_fn *each;
    void *user;
    const uint8_t *names; /* the local heap */
    uint64_t bytes;
} symbols;

/* A text of the local heap; NULL: it is none. */
static const char *heap_text(const symbols *s, uint64_t offset)
{
    if (offset >= s->bytes || !memchr(s->names + offset, 0, (size_t)(s->bytes - offset)))
        return NULL;
    return (const char *)s->names + offset;
}

static stk_status give_entry(const symbols *s, const uint8_t *data, uint64_t address)
{
    stk__hdf5 *f = s->f;
    stk__hdf5_fields at = stk__hdf5_fields_of(data, ENTRY(f));
    stk__hdf5_link link = {.kind = STK__HDF5_HARD};

    link.name = heap_text(s, stk__hdf5_length(f, &at));
    link.address = stk__hdf5_address(f, &at);
    const uint64_t cache = stk__hdf5_field(&at, 4);
    stk__hdf5_skip(&at, 4);
    if (cache == SOFT_ENTRY) {
        link.kind = STK__HDF5_SOFT;
        link.path = heap_text(s, stk__hdf5_field(&at, 4));
    }
    if (!link.name || (cache == SOFT_ENTRY && !link.path))
        return stk__hdf5_damaged(f, address, "a link has no name");
    return s->each(f, &link, s->user);
}

static stk_status give_node(const symbols *s, uint64_t address)
{
    stk__hdf5 *f = s->f;
    uint8_t head[8], *data = NULL;

    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_read(f, address, sizeof head, head));
    const uint64_t n = stk__little_endian(head + 6, 2);
    if (memcmp(head, "SNOD", 4) != 0 || head[4] != 1 || n > 2 * (uint64_t)f->group_leaf_k)
        return stk__hdf5_damaged(f, address, "there is no node of a symbol table");
    STK_TRY(stk__hdf5_load(f, address + sizeof head, n * ENTRY(f), &data));
    stk_status status = STK_OK;
    for (uint64_t i = 0; status == STK_OK && i < n; i++)
        if ((status = stk__hdf5_step(f)) == STK_OK)
            status = give_entry(s, data + i * ENTRY(f), address);
    stk__hdf5_give(f, data, n * ENTRY(f));
    return status;
}

/* `level`: what it must be, so that no tree contains itself; -1: that of a root. */
static stk_status give_tree(const symbols *s, uint64_t address, int level)
{
    stk__hdf5 *f = s->f;
    uint8_t head[8], *data = NULL;

    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_read(f, address, sizeof head, head));
    const uint64_t n = stk__little_endian(head + 6, 2);
    if (memcmp(head, "TREE", 4) != 0 || head[4] != 0 || (level >= 0 && head[5] != level) ||
        head[5] > MOST_LEVEL || n > 2 * (uint64_t)f->group_internal_k)
        return stk__hdf5_damaged(f, address, "there is no node of the B-tree of a group");
    const uint64_t pair = (uint64_t)f->of_length + f->of_address;
    STK_TRY(stk__hdf5_load(f, address + TREE_HEAD(f), n * pair, &data));
    stk_status status = STK_OK;
    for (uint64_t i = 0; status == STK_OK && i < n; i++) {
        stk__hdf5_fields at = stk__hdf5_fields_of(data + i * pair, pair);
        stk__hdf5_length(f, &at);
        const uint64_t child = stk__hdf5_address(f, &at);
        status = head[5] ? give_tree(s, child, head[5] - 1) : give_node(s, child);
    }
    stk__hdf5_give(f, data, n * pair);
    return status;
}

static stk_status old_links(stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_link_fn *each,
                            void *user)
{
    const uint64_t heap_head = 8 + 2u * f->of_length + f->of_address;
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    symbols s = {.f = f, .each = each, .user = user};
    uint8_t head[32], *names = NULL;

    const uint64_t tree = stk__hdf5_address(f, &at), heap = stk__hdf5_address(f, &at);
    if (at.failed)
        return stk__hdf5_damaged(f, m->address, "a symbol table is cut off");
    STK_TRY(stk__hdf5_read(f, heap, heap_head, head));
    at = stk__hdf5_fields_of(head, heap_head);
    const uint8_t *signature = stk__hdf5_skip(&at, 8);
    s.bytes = stk__hdf5_length(f, &at);
    stk__hdf5_length(f, &at); /* of the free list */
    const uint64_t data = stk__hdf5_address(f, &at);
    if (memcmp(signature, "HEAP", 4) != 0 || s.bytes > MOST_HEAP)
        return stk__hdf5_damaged(f, heap, "there is no heap of names");
    STK_TRY(stk__hdf5_load(f, data, s.bytes, &names));
    s.names = names;
    const stk_status status = give_tree(&s, tree, -1);
    stk__hdf5_give(f, names, s.bytes);
    return status;
}

/* ---- New groups ---- */

enum { HARD = 0, SOFT = 1, WITH_TYPE = 8, WITH_ORDER = 4, WITH_CHARSET = 16 };

/* A link message. Names and paths are copied, as they have no end in the file. */
static stk_status give_link(stk__hdf5 *f, const uint8_t *data, uint64_t bytes, uint64_t address,
                            stk__hdf5_link_fn *each, void *user)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(data, bytes);
    char name[STK_MAX_OBJECT_KEY], path[STK_MAX_OBJECT_KEY];
    stk__hdf5_link link = {.kind = STK__HDF5_FOREIGN, .name = name, .path = path};
    uint64_t path_length = 0;
    const uint8_t *target = NULL;

    STK_TRY(stk__hdf5_step(f));
    const uint64_t version = stk__hdf5_field(&at, 1), flags = stk__hdf5_field(&at, 1);
    const uint64_t type = flags & WITH_TYPE ? stk__hdf5_field(&at, 1) : HARD;
    stk__hdf5_skip(&at, (flags & WITH_ORDER ? 8 : 0) + (flags & WITH_CHARSET ? 1 : 0));
    const uint64_t length = stk__hdf5_field(&at, 1u << (flags & 3));
    const uint8_t *text = stk__hdf5_skip(&at, length);
    if (type == HARD) {
        link.kind = STK__HDF5_HARD;
        link.address = stk__hdf5_address(f, &at);
    } else if (type == SOFT) {
        link.kind = STK__HDF5_SOFT;
        path_length = stk__hdf5_field(&at, 2);
        target = stk__hdf5_skip(&at, path_length);
    }
    if (at.failed || version != 1 || length == 0 || memchr(text, 0, (size_t)length) ||
        (target && memchr(target, 0, (size_t)path_length)))
        return stk__hdf5_damaged(f, address, "a link is not sound");
    if (length >= sizeof name || path_length >= sizeof path)
        return stk__hdf5_refuse(f, address, "a name longer than a key may be is not read");
    memcpy(name, text, length);
    name[length] = 0;
    if (target)
        memcpy(path, target, path_length);
    path[path_length] = 0;
    return each(f, &link, user);
}

typedef struct dense_links {
    stk__hdf5_heap *heap;
    stk__hdf5_link_fn *each;
    void *user;
} dense_links;

static stk_status give_dense(stk__hdf5 *f, const uint8_t *record, uint32_t bytes, void *user)
{
    const dense_links *d = user;
    uint8_t *data = NULL;
    uint64_t length = 0;

    if (bytes != 4 + d->heap->id_bytes)
        return stk__hdf5_damaged(f, d->heap->address, "records of links are of another size");
    STK_TRY(stk__hdf5_heap_object(f, d->heap, record + 4, &data, &length));
    const stk_status status = give_link(f, data, length, d->heap->address, d->each, d->user);
    stk__hdf5_give(f, data, length);
    return status;
}

static stk_status dense(stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_link_fn *each,
                        void *user)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    stk__hdf5_heap heap;

    stk__hdf5_skip(&at, 1);
    const uint64_t flags = stk__hdf5_field(&at, 1);
    stk__hdf5_skip(&at, flags & 1 ? 8 : 0);
    const uint64_t address = stk__hdf5_address(f, &at), tree = stk__hdf5_address(f, &at);
    if (at.failed)
        return stk__hdf5_damaged(f, m->address, "what says where links are is cut off");
    if (address == STK__HDF5_NONE)
        return STK_OK;
    stk_status status = stk__hdf5_heap_open(f, address, &heap);
    if (status == STK_OK) {
        dense_links d = {.heap = &heap, .each = each, .user = user};
        status = stk__hdf5_btree2(f, tree, DENSE_LINKS, 0, give_dense, &d);
    }
    stk__hdf5_heap_close(f, &heap);
    return status;
}

stk_status stk__hdf5_links(stk__hdf5 *f, stk__hdf5_object *group, stk__hdf5_link_fn *each,
                           void *user)
{
    stk_status status = STK_OK;

    for (size_t i = 0; status == STK_OK && i < group->count; i++) {
        const stk__hdf5_message *m = &group->messages[i];
        if (m->type == STK__HDF5_SYMBOLS)
            status = old_links(f, m, each, user);
        else if (m->type == STK__HDF5_LINK)
            status = give_link(f, m->data, m->size, m->address, each, user);
        else if (m->type == STK__HDF5_LINK_INFO)
            status = dense(f, m, each, user);
    }
    return status == STK_EOS ? STK_OK : status;
}
