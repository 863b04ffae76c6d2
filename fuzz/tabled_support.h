/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets of mds: and litdata: share. Input: two bytes of length, index.json, a shard
 * that has the names "a" and "b". Opening reads the index and the table of offsets; then samples
 * are taken as the loader does it, with as much room for each value as locate() says.
 */
#ifndef STK_FUZZ_TABLED_SUPPORT_H
#define STK_FUZZ_TABLED_SUPPORT_H

#include "rows_support.h"

/* The folder "mem://t" of an input. */
static inline fuzz_room tabled_room(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://t");
    size_t length = 0;

    const uint8_t *index = fuzz_take(&data, &size, &length);
    fuzz_put(room.store, "index.json", index, length);
    fuzz_put(room.store, "a", data, size);
    fuzz_put(room.store, "b", data, size);
    fuzz_ready(&room);
    return room;
}

#endif
