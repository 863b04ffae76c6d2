/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards. Input: a byte of bits (1: the index is at the start, 2: shards in shards, 4: gzip, 8: the
 * index has a checksum that is compared, 16: a transpose), the shard.
 */
#include <stdio.h>

#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int sharding(char *to, size_t size, const char *shape, int bits)
{
    return snprintf(to, size,
                    "{\"name\":\"sharding_indexed\",\"configuration\":{\"index_location\":\"%s\","
                    "\"chunk_shape\":%s,\"index_codecs\":[{\"name\":\"bytes\",\"configuration\":"
                    "{\"endian\":\"little\"}}%s],\"codecs\":[",
                    bits & 1 ? "start" : "end", shape, bits & 8 ? ",\"crc32c\"" : "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2048];

    if (size < 1)
        return 0;
    int bits = data[0], n = 0;
    fuzz_room room = fuzz_open("mem://z");
    n += snprintf(text, sizeof text,
                  "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[8,16],\"data_type\":"
                  "\"uint8\",\"fill_value\":1,\"chunk_grid\":{\"name\":\"regular\","
                  "\"configuration\":{\"chunk_shape\":[8,8]}},\"chunk_key_encoding\":\"default\","
                  "\"codecs\":[%s",
                  bits & 16 ? "{\"name\":\"transpose\",\"configuration\":{\"order\":[1,0]}}," : "");
    n += sharding(text + n, sizeof text - (size_t)n, "[4,4]", bits);
    if (bits & 2)
        n += sharding(text + n, sizeof text - (size_t)n, "[2,2]", bits);
    n += snprintf(text + n, sizeof text - (size_t)n, "\"bytes\"%s]}}%s]}",
                  bits & 4 ? ",{\"name\":\"gzip\",\"configuration\":{\"level\":1}}" : "",
                  bits & 2 ? "]}}" : "");
    fuzz_put(room.store, "zarr.json", (const uint8_t *)text, (size_t)n);
    fuzz_put(room.store, "c/0/0", data + 1, size - 1);
    fuzz_put(room.store, "c/0/1", data + 1, size - 1);
    fuzz_ready(&room);
    zarr_array(room.ctx, "mem://z?memory=1MB&num_threads=1");
    zarr_array(room.ctx, "mem://z?memory=1MB&num_threads=1&checksums=false&missing=error");
    fuzz_close(&room);
    return 0;
}
