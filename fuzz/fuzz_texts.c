/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of varying length. Input: a byte of bits (1: version 2 of Zarr, 2: bytes, 4: compressed,
 * 8: a checksum or order F, 16: shards), the chunk.
 */
#include <stdio.h>

#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int version_2(char *to, size_t size, int bits)
{
    return snprintf(to, size,
                    "{\"zarr_format\":2,\"shape\":[3,4],\"chunks\":[2,3],\"dtype\":\"|O\","
                    "\"fill_value\":\"QQ==\",\"order\":\"%s\",\"filters\":[{\"id\":\"%s\"}],"
                    "\"compressor\":%s}",
                    bits & 8 ? "F" : "C", bits & 2 ? "vlen-bytes" : "vlen-utf8",
                    bits & 4 ? "{\"id\":\"zlib\",\"level\":1}" : "null");
}

static int version_3(char *to, size_t size, int bits)
{
    const char *type = bits & 2 ? "bytes" : "string",
               *codec = bits & 2 ? "vlen-bytes" : "vlen-utf8";
    char codecs[256];

    snprintf(codecs, sizeof codecs, "[\"%s\"%s%s]", codec, bits & 4 ? ",\"zstd\"" : "",
             bits & 8 ? ",\"crc32c\"" : "");
    return snprintf(to, size,
                    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[3,4],\"data_type\":"
                    "\"%s\",\"fill_value\":\"QQ==\",\"chunk_grid\":{\"name\":\"regular\","
                    "\"configuration\":{\"chunk_shape\":[2,%d]}},\"chunk_key_encoding\":"
                    "{\"name\":\"v2\"},\"codecs\":%s%s%s}",
                    type, bits & 16 ? 6 : 3,
                    bits & 16
                        ? "[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":"
                          "[2,3],\"index_codecs\":[{\"name\":\"bytes\",\"configuration\":"
                          "{\"endian\":\"little\"}}],\"codecs\":"
                        : "",
                    codecs, bits & 16 ? "}}]" : "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"0.0", "0.1", "1.1", NULL};
    char text[2048];

    if (size < 1)
        return 0;
    fuzz_room room = fuzz_open("mem://z");
    const int bits = data[0];
    const int n =
        bits & 1 ? version_2(text, sizeof text, bits) : version_3(text, sizeof text, bits);
    fuzz_put(room.store, bits & 1 ? ".zarray" : "zarr.json", (const uint8_t *)text, (size_t)n);
    zarr_put_chunks(room.store, keys, data + 1, size - 1);
    fuzz_ready(&room);
    zarr_array(room.ctx, "mem://z?memory=1MB&num_threads=1");
    zarr_array(room.ctx, "mem://z?memory=1MB&num_threads=1&checksums=false");
    fuzz_close(&room);
    return 0;
}
