/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that stand elsewhere: committed datatypes, and those that headers share
 * [HDF5 format III.I, IV.A.2 "Shared Message"]. One step: what is shared shares nothing. */
#include "array/hdf5/heap.h"

#define ID_BYTES 8u

enum { IN_HEAP = 1, COMMITTED = 2 };

/* The message of a type in another object's header, copied to `o`. */
static stk_status take_committed(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type, uint64_t address,
                                 stk__hdf5_message *out)
{
    stk__hdf5_object other;
    void *copy = NULL;

    stk_status status = stk__hdf5_object_begin(f, address, &other);
    const stk__hdf5_message *m = NULL;
    for (size_t i = 0; status == STK_OK && i < other.count && !m; i++)
        if (other.messages[i].type == type)
            m = &other.messages[i];
    if (status == STK_OK && (!m || m->flags & STK__HDF5_IS_SHARED))
        status = stk__hdf5_damaged(f, address, "a shared message is not where it is said to be");
    if (status == STK_OK)
        status = stk__hdf5_take(f, m->size, &copy);
    if (status == STK_OK) {
        memcpy(copy, m->data, m->size);
        *out =
            (stk__hdf5_message){.data = copy, .address = m->address, .size = m->size, .type = type};
        status = stk__hdf5_object_hold(f, o, copy, STK__HDF5_NONE, m->size);
    }
    stk__hdf5_object_end(f, &other);
    return status;
}

/* The heap that holds shared messages of a type. */
static stk_status find_heap(stk__hdf5 *f, uint16_t type, uint64_t *heap)
{
    const uint64_t entry = 14 + 2u * f->of_address; /* version, type, flags, least, cutoffs */
    uint8_t *data = NULL;

    if (f->shared_table == STK__HDF5_NONE)
        return stk__hdf5_damaged(f, 0, "it has shared messages and no table of them");
    /* Eight indexes at most: the table says nothing of their number, the superblock's does. */
    const uint64_t most = 4 + 8 * entry + 4, room = f->end - STK_MIN(f->end, f->shared_table);
    const uint64_t length = STK_MIN(most, room);
    STK_TRY(stk__hdf5_load(f, f->shared_table, length, &data));
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);
    const uint8_t *signature = stk__hdf5_skip(&at, 4);
    *heap = STK__HDF5_NONE;
    bool sound = signature && memcmp(signature, "SMTB", 4) == 0;
    for (uint32_t i = 0; sound && i < f->shared_indexes && *heap == STK__HDF5_NONE; i++) {
        stk__hdf5_skip(&at, 2);
        const uint64_t types = stk__hdf5_field(&at, 2);
        stk__hdf5_skip(&at, 10);
        stk__hdf5_address(f, &at);
        const uint64_t address = stk__hdf5_address(f, &at);
        if (types >> type & 1)
            *heap = address;
    }
    sound = sound && !at.failed && *heap != STK__HDF5_NONE;
    stk__hdf5_give(f, data, length);
    return sound ? STK_OK
                 : stk__hdf5_damaged(f, f->shared_table, "the table of shared messages lacks one");
}

stk_status stk__hdf5_shared_id(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type, const uint8_t *id,
                               stk__hdf5_message *out)
{
    stk__hdf5_heap heap;
    uint64_t address = 0, bytes = 0;
    uint8_t *data = NULL;

    STK_TRY(find_heap(f, type, &address));
    stk_status status = stk__hdf5_heap_open(f, address, &heap);
    if (status == STK_OK && heap.id_bytes != ID_BYTES)
        status = stk__hdf5_damaged(f, address, "IDs of shared messages are not of 8 bytes");
    if (status == STK_OK)
        status = stk__hdf5_heap_object(f, &heap, id, &data, &bytes);
    stk__hdf5_heap_close(f, &heap);
    STK_TRY(status);
    STK_TRY(stk__hdf5_object_hold(f, o, data, STK__HDF5_NONE, bytes));
    if (bytes > UINT32_MAX)
        return stk__hdf5_damaged(f, address, "a shared message is larger than any is");
    *out = (stk__hdf5_message){
        .data = data, .address = address, .size = (uint32_t)bytes, .type = type};
    return STK_OK;
}

stk_status stk__hdf5_shared(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type,
                            const stk__hdf5_message *shared, stk__hdf5_message *out)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(shared->data, shared->size);
    const uint64_t version = stk__hdf5_field(&at, 1), kind = stk__hdf5_field(&at, 1);

    STK_TRY(stk__hdf5_step(f));
    if (version == 3 && kind == IN_HEAP) {
        const uint8_t *id = stk__hdf5_skip(&at, ID_BYTES);
        if (id)
            return stk__hdf5_shared_id(f, o, type, id, out);
    } else if (version == 1 || version == 2 || version == 3) {
        if (version == 1) {
            stk__hdf5_skip(&at, 6);
            stk__hdf5_length(f, &at);
        }
        const uint64_t address = stk__hdf5_address(f, &at);
        if (!at.failed && (version < 3 || kind == COMMITTED))
            return take_committed(f, o, type, address, out);
    }
    return stk__hdf5_damaged(f, shared->address, "a shared message is of no known kind");
}
