/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes: in headers, or dense in a heap [HDF5 format IV.A.2.m, IV.A.2.v]. */
#include "array/hdf5/heap.h"

#include <stdlib.h>

#define BY_NAME      8u /* types of B-trees, and bytes of their records: ID, flags, order, hash */
#define BY_ORDER     9u
#define NAME_RECORD  17u
#define ORDER_RECORD 13u
#define ID_BYTES     8u

enum { TYPE_SHARED = 1, SPACE_SHARED = 2 };

typedef struct parts {
    const uint8_t *name, *type, *space;
    uint64_t name_bytes, type_bytes, space_bytes;
    uint64_t flags;
    const uint8_t *data;
    uint64_t data_bytes;
} parts;

static stk_status split(const stk__hdf5 *f, const stk__hdf5_message *m, parts *out)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    const uint64_t version = stk__hdf5_field(&at, 1);

    *out = (parts){.flags = stk__hdf5_field(&at, 1)};
    if (version == 1)
        out->flags = 0;
    out->name_bytes = stk__hdf5_field(&at, 2);
    out->type_bytes = stk__hdf5_field(&at, 2);
    out->space_bytes = stk__hdf5_field(&at, 2);
    stk__hdf5_skip(&at, version == 3 ? 1 : 0);
    const uint64_t pad = version == 1 ? 8 : 1;
    out->name = stk__hdf5_skip(&at, stk__round_up(out->name_bytes, pad));
    out->type = stk__hdf5_skip(&at, stk__round_up(out->type_bytes, pad));
    out->space = stk__hdf5_skip(&at, stk__round_up(out->space_bytes, pad));
    out->data = at.at;
    out->data_bytes = (uint64_t)(at.end - at.at);
    if (version < 1 || version > 3 || at.failed || out->name_bytes == 0 ||
        !memchr(out->name, 0, (size_t)out->name_bytes))
        return stk__hdf5_damaged(f, m->address, "an attribute is not sound");
    return STK_OK;
}

/* A part of an attribute that may stand for a message elsewhere. */
static stk_status part(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type, const uint8_t *data,
                       uint64_t bytes, bool shared, uint64_t address, stk__hdf5_message *out)
{
    const stk__hdf5_message here = {
        .data = data, .address = address, .size = (uint32_t)bytes, .type = type};

    *out = here;
    return shared ? stk__hdf5_shared(f, o, type, &here, out) : STK_OK;
}

static stk_status give(stk__hdf5 *f, stk__hdf5_object *o, const stk__hdf5_message *m,
                       stk__hdf5_attribute_fn *each, void *user)
{
    stk__hdf5_attribute a = {0};
    stk__hdf5_message type, space;
    uint64_t bytes;
    parts p;

    STK_TRY(stk__hdf5_step(f));
    STK_TRY(split(f, m, &p));
    STK_TRY(part(f, o, STK__HDF5_DATATYPE, p.type, p.type_bytes, p.flags & TYPE_SHARED, m->address,
                 &type));
    STK_TRY(part(f, o, STK__HDF5_DATASPACE, p.space, p.space_bytes, p.flags & SPACE_SHARED,
                 m->address, &space));
    STK_TRY(stk__hdf5_type_read(f, &type, &a.type));
    STK_TRY(stk__hdf5_space_read(f, &space, &a.space));
    if (!stk__hdf5_space_count(&a.space, &a.count) ||
        !stk__mul_size(a.count, a.type.size, &bytes) || bytes > p.data_bytes)
        return stk__hdf5_damaged(f, m->address,
                                 "an attribute has fewer bytes than its type asks "
                                 "for");
    a.name = (const char *)p.name;
    a.data = p.data;
    return each(f, &a, user);
}

typedef struct dense_attributes {
    stk__hdf5_object *object;
    stk__hdf5_heap *heap;
    stk__hdf5_attribute_fn *each;
    void *user;
} dense_attributes;

static stk_status give_dense(stk__hdf5 *f, const uint8_t *record, uint32_t bytes, void *user)
{
    const dense_attributes *d = user;
    stk__hdf5_message m = {.address = d->heap->address, .type = STK__HDF5_ATTRIBUTE};
    uint8_t *data = NULL;
    uint64_t length = 0;

    (void)bytes;
    if (record[ID_BYTES] & STK__HDF5_IS_SHARED) {
        STK_TRY(stk__hdf5_shared_id(f, d->object, STK__HDF5_ATTRIBUTE, record, &m));
        return give(f, d->object, &m, d->each, d->user);
    }
    STK_TRY(stk__hdf5_heap_object(f, d->heap, record, &data, &length));
    m.data = data;
    m.size = (uint32_t)length;
    const stk_status status = give(f, d->object, &m, d->each, d->user);
    stk__hdf5_give(f, data, length);
    return status;
}

static stk_status dense(stk__hdf5 *f, stk__hdf5_object *o, const stk__hdf5_message *m,
                        stk__hdf5_attribute_fn *each, void *user)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    stk__hdf5_heap heap;

    stk__hdf5_skip(&at, 1);
    const uint64_t flags = stk__hdf5_field(&at, 1);
    stk__hdf5_skip(&at, flags & 1 ? 2 : 0);
    const uint64_t address = stk__hdf5_address(f, &at), by_name = stk__hdf5_address(f, &at);
    const uint64_t by_order = flags & 2 ? stk__hdf5_address(f, &at) : STK__HDF5_NONE;
    const bool ordered = by_order != STK__HDF5_NONE;
    if (at.failed)
        return stk__hdf5_damaged(f, m->address, "what says where attributes are is cut off");
    if (address == STK__HDF5_NONE)
        return STK_OK;
    stk_status status = stk__hdf5_heap_open(f, address, &heap);
    if (status == STK_OK && heap.id_bytes != ID_BYTES)
        status = stk__hdf5_damaged(f, address, "IDs of attributes are not of 8 bytes");
    if (status == STK_OK) {
        dense_attributes d = {.object = o, .heap = &heap, .each = each, .user = user};
        status = stk__hdf5_btree2(f, ordered ? by_order : by_name, ordered ? BY_ORDER : BY_NAME,
                                  ordered ? ORDER_RECORD : NAME_RECORD, give_dense, &d);
    }
    stk__hdf5_heap_close(f, &heap);
    return status;
}

static int by_order(const void *a, const void *b)
{
    const stk__hdf5_message *const *x = a, *const *y = b;

    if ((*x)->order != (*y)->order)
        return (*x)->order < (*y)->order ? -1 : 1;
    return (*x > *y) - (*x < *y);
}

/* Those in the header, in the order in which they were made where it is known. */
static stk_status give_listed(stk__hdf5 *f, stk__hdf5_object *o, stk__hdf5_attribute_fn *each,
                              void *user)
{
    const uint64_t bytes = o->count * sizeof(stk__hdf5_message *);
    void *memory = NULL;
    size_t count = 0;

    STK_TRY(stk__hdf5_take(f, bytes, &memory));
    stk__hdf5_message **list = memory;
    for (size_t i = 0; i < o->count; i++)
        if (o->messages[i].type == STK__HDF5_ATTRIBUTE)
            list[count++] = &o->messages[i];
    if (count)
        qsort(list, count, sizeof *list, by_order);
    stk_status status = STK_OK;
    for (size_t i = 0; status == STK_OK && i < count; i++) {
        stk__hdf5_message m = *list[i];
        if (m.flags & STK__HDF5_IS_SHARED)
            status = stk__hdf5_shared(f, o, m.type, list[i], &m);
        if (status == STK_OK)
            status = give(f, o, &m, each, user);
    }
    stk__hdf5_give(f, list, bytes);
    return status;
}

stk_status stk__hdf5_attributes(stk__hdf5 *f, stk__hdf5_object *o, stk__hdf5_attribute_fn *each,
                                void *user)
{
    stk_status status = give_listed(f, o, each, user);

    for (size_t i = 0; status == STK_OK && i < o->count; i++)
        if (o->messages[i].type == STK__HDF5_ATTRIBUTE_INFO)
            status = dense(f, o, &o->messages[i], each, user);
    return status == STK_EOS ? STK_OK : status;
}
