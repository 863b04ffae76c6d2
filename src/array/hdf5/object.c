/* SPDX-License-Identifier: Apache-2.0 */
/* Object headers, versions 1 and 2, with their continuations [HDF5 format IV.A.1]. */
#include "array/hdf5/object.h"

#define MOST_PIECES  1024u
#define MOST_HEADER  (UINT64_C(16) << 20) /* bytes of all blocks of a header */
#define PREFIX_1     16u
#define MOST_PREFIX  34u /* of version 2: signature, version, flags, times, counts, size */
#define KNOW_OR_FAIL 0x80

enum { ORDERED = 0x04, PHASES = 0x10, TIMES = 0x20 }; /* flags of version 2 */

/* How the messages of a header lie. */
typedef struct lay {
    bool second; /* version 2 */
    bool ordered;
    unsigned head; /* bytes in front of a message's data */
} lay;

stk_status stk__hdf5_object_hold(stk__hdf5 *f, stk__hdf5_object *o, uint8_t *data, uint64_t address,
                                 uint64_t bytes)
{
    stk__hdf5_piece *grown =
        stk__grow(f->ctx, o->pieces, &o->room_pieces, o->num_pieces + 1, sizeof *grown);

    if (!grown) {
        stk__hdf5_give(f, data, bytes);
        return stk__hdf5_no_memory(f);
    }
    o->pieces = grown;
    o->pieces[o->num_pieces++] =
        (stk__hdf5_piece){.data = data, .address = address, .bytes = bytes};
    return STK_OK;
}

static stk_status add_message(stk__hdf5 *f, stk__hdf5_object *o, const stk__hdf5_message *m)
{
    stk__hdf5_message *grown =
        stk__grow(f->ctx, o->messages, &o->room, o->count + 1, sizeof *grown);

    if (!grown)
        return stk__hdf5_no_memory(f);
    o->messages = grown;
    o->messages[o->count++] = *m;
    return STK_OK;
}

/* Read a block, which must lie apart from all others of the header, so that none is read twice. */
static stk_status load_block(stk__hdf5 *f, stk__hdf5_object *o, uint64_t address, uint64_t bytes,
                             uint8_t **data)
{
    uint64_t sum = bytes;

    STK_TRY(stk__hdf5_step(f));
    for (size_t i = 0; i < o->num_pieces; i++) {
        const stk__hdf5_piece *p = &o->pieces[i];
        sum += p->bytes;
        if (address < p->address + p->bytes && p->address < address + bytes)
            return stk__hdf5_damaged(f, address, "blocks of an object header overlap");
    }
    if (o->num_pieces == MOST_PIECES || bytes > MOST_HEADER || sum > MOST_HEADER)
        return stk__hdf5_damaged(f, address, "an object header is larger than any is");
    STK_TRY(stk__hdf5_load(f, address, bytes, data));
    return stk__hdf5_object_hold(f, o, *data, address, bytes);
}

static bool is_known(uint16_t type)
{
    return type <= 0x18;
}

/* The messages of `bytes` bytes at `data`, which are those at `address` of the file. */
static stk_status take_messages(stk__hdf5 *f, stk__hdf5_object *o, lay form, const uint8_t *data,
                                uint64_t bytes, uint64_t address)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(data, bytes);

    while ((uint64_t)(at.end - at.at) >= form.head) {
        stk__hdf5_message m = {0};
        STK_TRY(stk__hdf5_step(f));
        m.type = (uint16_t)stk__hdf5_field(&at, form.second ? 1 : 2);
        m.size = (uint32_t)stk__hdf5_field(&at, 2);
        m.flags = (uint8_t)stk__hdf5_field(&at, 1);
        if (form.ordered)
            m.order = (uint16_t)stk__hdf5_field(&at, 2);
        else
            stk__hdf5_skip(&at, form.second ? 0 : 3);
        m.address = address + (uint64_t)(at.at - data);
        m.data = stk__hdf5_skip(&at, m.size);
        if (at.failed)
            return stk__hdf5_damaged(f, m.address, "a message is longer than its object header");
        if (!is_known(m.type) && m.flags & KNOW_OR_FAIL)
            return stk__hdf5_refuse(f, m.address,
                                    "an object has a message of an unknown type that must be "
                                    "understood, which is not read");
        if (m.type)
            STK_TRY(add_message(f, o, &m));
    }
    return STK_OK;
}

/* Continuations may lie in any block, and each leads to one block more. */
static stk_status follow(stk__hdf5 *f, stk__hdf5_object *o, lay form)
{
    for (size_t i = 0; i < o->count; i++) {
        const stk__hdf5_message m = o->messages[i];
        uint8_t *data = NULL;
        if (m.type != STK__HDF5_CONTINUATION)
            continue;
        stk__hdf5_fields at = stk__hdf5_fields_of(m.data, m.size);
        const uint64_t address = stk__hdf5_address(f, &at), bytes = stk__hdf5_length(f, &at);
        if (at.failed || !stk__hdf5_inside(f, address, bytes))
            return stk__hdf5_damaged(f, m.address, "an object header goes on outside the file");
        STK_TRY(load_block(f, o, address, bytes, &data));
        if (!form.second) {
            STK_TRY(take_messages(f, o, form, data, bytes, address));
            continue;
        }
        if (bytes < 8 || memcmp(data, "OCHK", 4) != 0 ||
            stk__hdf5_checksum(data, bytes - 4) != stk__little_endian(data + bytes - 4, 4))
            return stk__hdf5_damaged(f, address,
                                     "the checksum of a part of an object header does not match");
        STK_TRY(take_messages(f, o, form, data + 4, bytes - 8, address + 4));
    }
    return STK_OK;
}

static stk_status begin_1(stk__hdf5 *f, stk__hdf5_object *o)
{
    uint8_t head[PREFIX_1], *data = NULL;

    STK_TRY(stk__hdf5_read(f, o->address, sizeof head, head));
    const uint64_t bytes = stk__little_endian(head + 8, 4);
    STK_TRY(load_block(f, o, o->address + PREFIX_1, bytes, &data));
    const lay form = {.head = 8};
    STK_TRY(take_messages(f, o, form, data, bytes, o->address + PREFIX_1));
    return follow(f, o, form);
}

static stk_status begin_2(stk__hdf5 *f, stk__hdf5_object *o)
{
    const uint64_t length = STK_MIN(MOST_PREFIX, f->end - o->address);
    uint8_t head[MOST_PREFIX] = {0}, *data = NULL;
    uint64_t whole;

    STK_TRY(stk__hdf5_read(f, o->address, length, head));
    stk__hdf5_fields at = stk__hdf5_fields_of(head, length);
    stk__hdf5_skip(&at, 4);
    const uint64_t version = stk__hdf5_field(&at, 1), flags = stk__hdf5_field(&at, 1);
    stk__hdf5_skip(&at, (flags & TIMES ? 16 : 0) + (flags & PHASES ? 4 : 0));
    const uint64_t bytes = stk__hdf5_field(&at, 1u << (flags & 3));
    const uint64_t prefix = (uint64_t)(at.at - head);
    if (at.failed || version != 2)
        return stk__hdf5_damaged(f, o->address, "an object header is of no known version");
    if (!stk__add_size(bytes, prefix + 4, &whole) || whole > MOST_HEADER)
        return stk__hdf5_damaged(f, o->address, "an object header is larger than any is");
    STK_TRY(load_block(f, o, o->address, whole, &data));
    STK_TRY(stk__hdf5_whole(f, o->address, data, whole, "OHDR", 2));
    const lay form = {
        .second = true, .ordered = (flags & ORDERED) != 0, .head = flags & ORDERED ? 6 : 4};
    STK_TRY(take_messages(f, o, form, data + prefix, bytes, o->address + prefix));
    return follow(f, o, form);
}

stk_status stk__hdf5_object_begin(stk__hdf5 *f, uint64_t address, stk__hdf5_object *out)
{
    uint8_t head[4];

    *out = (stk__hdf5_object){.address = address};
    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_read(f, address, sizeof head, head));
    if (memcmp(head, "OHDR", 4) == 0)
        return begin_2(f, out);
    if (head[0] == 1)
        return begin_1(f, out);
    return stk__hdf5_damaged(f, address, "there is no object header");
}

void stk__hdf5_object_end(stk__hdf5 *f, stk__hdf5_object *o)
{
    for (size_t i = 0; i < o->num_pieces; i++)
        stk__hdf5_give(f, o->pieces[i].data, o->pieces[i].bytes);
    stk__free(f->ctx, o->pieces);
    stk__free(f->ctx, o->messages);
    *o = (stk__hdf5_object){0};
}

bool stk__hdf5_has(const stk__hdf5_object *o, uint16_t type)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->messages[i].type == type)
            return true;
    return false;
}

stk_status stk__hdf5_message_find(stk__hdf5 *f, stk__hdf5_object *o, uint16_t type,
                                  const stk__hdf5_message **out)
{
    *out = NULL;
    for (size_t i = 0; i < o->count; i++) {
        const stk__hdf5_message m = o->messages[i];
        if (m.type != type)
            continue;
        if (m.flags & STK__HDF5_IS_SHARED)
            STK_TRY(stk__hdf5_shared(f, o, type, &m, &o->messages[i]));
        *out = &o->messages[i];
        return STK_OK;
    }
    return STK_OK;
}
