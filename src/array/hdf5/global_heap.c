/* SPDX-License-Identifier: Apache-2.0 */
/* Collections of the global heap [HDF5 format III.E]: objects of elements of variable length. */
#include "array/hdf5/heap.h"

#define COLLECTION_HEAD(f) (8u + (f)->of_length)
#define OBJECT_HEAD(f)     (8u + (f)->of_length)
#define MOST_COLLECTION    (UINT64_C(64) << 20)

static stk_status load(stk__hdf5 *f, uint64_t address, uint8_t **data, uint64_t *bytes)
{
    uint8_t head[16];

    *data = NULL;
    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_read(f, address, COLLECTION_HEAD(f), head));
    *bytes = stk__little_endian(head + 8, f->of_length);
    if (memcmp(head, "GCOL", 4) != 0 || head[4] != 1 || *bytes < COLLECTION_HEAD(f) ||
        *bytes > MOST_COLLECTION)
        return stk__hdf5_damaged(f, address, "there is no collection of a global heap");
    return stk__hdf5_load(f, address, *bytes, data);
}

/* A collection that was read before, or now. */
static stk_status find(stk__hdf5 *f, stk__hdf5_collections *kept, uint64_t address,
                       const uint8_t **data, uint64_t *bytes)
{
    for (size_t i = 0; i < STK_COUNT(kept->one); i++) {
        if (!kept->one[i].data || kept->one[i].address != address)
            continue;
        *data = kept->one[i].data;
        *bytes = kept->one[i].bytes;
        return STK_OK;
    }
    const uint32_t i = kept->next++ % STK_COUNT(kept->one);
    stk__hdf5_give(f, kept->one[i].data, kept->one[i].bytes);
    kept->one[i].data = NULL;
    STK_TRY(load(f, address, &kept->one[i].data, &kept->one[i].bytes));
    kept->one[i].address = address;
    *data = kept->one[i].data;
    *bytes = kept->one[i].bytes;
    return STK_OK;
}

stk_status stk__hdf5_vlen(stk__hdf5 *f, stk__hdf5_collections *kept, const uint8_t *element,
                          const uint8_t **data, uint64_t *bytes, uint32_t *count)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(element, 8u + f->of_address);
    const uint8_t *collection = NULL;
    uint64_t length = 0;

    *count = (uint32_t)stk__hdf5_field(&at, 4);
    const uint64_t address = stk__hdf5_address(f, &at), wanted = stk__hdf5_field(&at, 4);
    *data = (const uint8_t *)"";
    *bytes = 0;
    if (*count == 0)
        return STK_OK;
    STK_TRY(find(f, kept, address, &collection, &length));
    at = stk__hdf5_fields_of(collection, length);
    stk__hdf5_skip(&at, COLLECTION_HEAD(f));
    while ((uint64_t)(at.end - at.at) >= OBJECT_HEAD(f)) {
        const uint64_t index = stk__hdf5_field(&at, 2);
        stk__hdf5_skip(&at, 6);
        const uint64_t size = stk__hdf5_length(f, &at);
        STK_TRY(stk__hdf5_step(f));
        if (index == 0) /* the rest is free */
            break;
        const uint8_t *object = stk__hdf5_skip(&at, size);
        if (object && index == wanted) {
            *data = object;
            *bytes = size;
            return STK_OK;
        }
        const uint64_t pad = (8 - size % 8) % 8;
        stk__hdf5_skip(&at, STK_MIN(pad, (uint64_t)(at.end - at.at)));
        if (at.failed)
            return stk__hdf5_damaged(f, address, "an object is longer than its global heap");
    }
    return stk__hdf5_damaged(f, address, "a global heap lacks an object that is referred to");
}

void stk__hdf5_collections_drop(stk__hdf5 *f, stk__hdf5_collections *kept)
{
    for (size_t i = 0; i < STK_COUNT(kept->one); i++)
        stk__hdf5_give(f, kept->one[i].data, kept->one[i].bytes);
    *kept = (stk__hdf5_collections){0};
}
