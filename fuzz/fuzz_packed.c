/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed pictures. Input: a byte of rows and layout, then the elements of the arrays one after the
 * other: of the ragged layout `label`, `offset` and `shape` of int64, the rest is `bytes`; of the
 * fixed one `label`, the rest are shards of `image`, of 2 x 2 pixels. The metadata is sound:
 * fuzz_zarr_group.c is about that.
 */
#include <stdio.h>

#include "dataset/packed.h"
#include "fuzz_support.h"

#define MOST_ROWS 7u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_array(const fuzz_room *room, const char *name, const char *type, const char *shape,
                      const char *chunk, const char *codecs)
{
    char text[1024], key[64];
    const int n = snprintf(text, sizeof text,
                           "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": %s, "
                           "\"data_type\": \"%s\", \"chunk_grid\": {\"name\": \"regular\", "
                           "\"configuration\": {\"chunk_shape\": %s}}, \"chunk_key_encoding\": "
                           "{\"name\": \"default\"}, \"fill_value\": 0, \"codecs\": [%s]}",
                           shape, type, chunk, codecs);

    snprintf(key, sizeof key, "%s/zarr.json", name);
    fuzz_put(room->store, key, (const uint8_t *)text, (size_t)n);
}

/* The next elements of the input, or as many as it has. */
static void put_some(const fuzz_room *room, const char *key, const uint8_t **data, size_t *size,
                     size_t bytes)
{
    const size_t n = bytes < *size ? bytes : *size;

    if (n == bytes)
        fuzz_put(room->store, key, *data, n);
    *data += n;
    *size -= n;
}

#define LITTLE "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}"
#define PLAIN  "{\"name\": \"bytes\"}"
#define SHARDS                                                                                     \
    "{\"name\": \"sharding_indexed\", \"configuration\": {\"chunk_shape\": [1, 2, 2, 3], "         \
    "\"codecs\": [" PLAIN ", {\"name\": \"crc32c\"}], \"index_codecs\": [" LITTLE "]}}"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char group[] =
        "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": {\"stoker_packed\": 1}}";
    char rows[32], three[32], all[32], sides[48];

    if (!size)
        return 0;
    /* As a user opens it and from a store that is waited for, too, with many threads. That takes
     * long: a quarter of all sizes, among them those of whole files of the corpus. */
    const bool whole = size % 8 == 1 || size % 8 == 4;
    const unsigned n = 1 + (data[0] & MOST_ROWS) % MOST_ROWS;
    const bool ragged = data[0] & 8, kept = data[0] & 16;
    data++;
    size--;
    fuzz_room room = fuzz_open("mem://packed");
    fuzz_put(room.store, "zarr.json", (const uint8_t *)group, sizeof group - 1);
    snprintf(rows, sizeof rows, "[%u]", n);
    snprintf(three, sizeof three, "[%u, 3]", n);
    snprintf(sides, sizeof sides, "[%u, 2, 2, 3]", n);
    put_array(&room, "label", "int64", rows, rows, LITTLE);
    put_some(&room, "label/c/0", &data, &size, 8 * n);
    if (kept) {
        put_array(&room, "kept", "uint8", rows, rows, PLAIN);
        put_some(&room, "kept/c/0", &data, &size, n);
    }
    if (ragged) {
        put_array(&room, "offset", "int64", rows, rows, LITTLE);
        put_some(&room, "offset/c/0", &data, &size, 8 * n);
        put_array(&room, "shape", "int64", three, three, LITTLE);
        put_some(&room, "shape/c/0/0", &data, &size, 24 * n);
        snprintf(all, sizeof all, "[%zu]", size + 1);
        put_array(&room, "bytes", "uint8", all, all, PLAIN);
        fuzz_put(room.store, "bytes/c/0", data, size);
    } else {
        put_array(&room, "image", "uint8", sides, "[2, 2, 2, 3]", SHARDS);
        for (unsigned i = 0; i < (n + 1) / 2; i++) {
            char key[64];
            const size_t bytes = size / ((n + 1) / 2 - i);
            snprintf(key, sizeof key, "image/c/%u/0/0/0", i);
            put_some(&room, key, &data, &size, bytes);
        }
    }
    fuzz_ready(&room);
    stk_dataset *d = NULL;
    stk_error err;
    stk_error_init(&err);
    const stk_status status = stk__packed_open(room.ctx, "mem://packed", &d, &err);
    fuzz_opened(status, d, &err);
    if (whole) {
        fuzz_dataset(room.ctx, "images:mem://packed");
        fuzz_dataset(room.ctx, "images:slow+mem://packed");
    }
    fuzz_close(&room);
    return 0;
}
