/* what stands in Zarr metadata, for json_mutator.h */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_FUZZ_ZARR_WORDS_H
#define STK_FUZZ_ZARR_WORDS_H

#include "json_mutator.h"

#define FUZZ_V3(name, configuration)                                                               \
    "{\"name\": \"" name "\", \"configuration\": {" configuration "}}"
#define FUZZ_TYPES(a, b) "\"dtype\": \"" a "\", \"astype\": \"" b "\""

/* Every codec of both versions; filters with types that are not the array's. */
static const char *const fuzz_zarr_texts[] = {
    FUZZ_V3("bytes", "\"endian\": \"little\""),
    FUZZ_V3("bytes", "\"endian\": \"big\""),
    FUZZ_V3("transpose", "\"order\": [1, 0]"),
    FUZZ_V3("transpose", "\"order\": \"F\""),
    FUZZ_V3("transpose", "\"order\": [2, 0, 1]"),
    FUZZ_V3("numcodecs.astype", "\"decode_dtype\": \"<f8\", \"encode_dtype\": \"|u1\""),
    FUZZ_V3("numcodecs.astype", "\"decode_dtype\": \"<i2\", \"encode_dtype\": \"<f8\""),
    FUZZ_V3("numcodecs.astype", "\"decode_dtype\": \"<f4\", \"encode_dtype\": \">f2\""),
    FUZZ_V3("numcodecs.delta", FUZZ_TYPES("<i4", "<i2")),
    FUZZ_V3("numcodecs.delta", FUZZ_TYPES("|u1", "<i8")),
    FUZZ_V3("numcodecs.fixedscaleoffset", FUZZ_TYPES("<f8", "|u1") ", \"scale\": 3, \"offset\": 1"),
    FUZZ_V3("numcodecs.quantize", FUZZ_TYPES("<f4", "<f8") ", \"digits\": 2"),
    FUZZ_V3("numcodecs.packbits", ""),
    FUZZ_V3("packbits", "\"padding_encoding\": \"first_byte\""),
    FUZZ_V3("bitround", "\"keepbits\": 3"),
    FUZZ_V3("numcodecs.shuffle", "\"elementsize\": 3"),
    FUZZ_V3("gzip", "\"level\": 1"),
    FUZZ_V3("zstd", "\"level\": 1, \"checksum\": true"),
    FUZZ_V3("blosc", "\"cname\": \"lz4\", \"shuffle\": \"shuffle\", \"typesize\": 3"),
    FUZZ_V3("numcodecs.lzma", "\"format\": 2"),
    FUZZ_V3("numcodecs.bz2", ""),
    "\"crc32c\"",
    FUZZ_V3("sharding_indexed",
            "\"chunk_shape\": [1, 1], \"index_codecs\": [" FUZZ_V3(
                "bytes", "\"endian\": \"little\"") "], \"codecs\": [" FUZZ_V3("bytes",
                                                                              "\"endian\": "
                                                                              "\"little\"") "]"),
    "{\"id\": \"astype\", \"decode_dtype\": \"<f8\", \"encode_dtype\": \"|u1\"}",
    "{\"id\": \"astype\", \"decode_dtype\": \"|u1\", \"encode_dtype\": \">i8\"}",
    "{\"id\": \"delta\", " FUZZ_TYPES("<i8", "<i2") "}",
    "{\"id\": \"delta\", " FUZZ_TYPES("<f4", "<f4") "}",
    "{\"id\": \"fixedscaleoffset\", " FUZZ_TYPES("<f8", "|u1") ", \"scale\": 1, \"offset\": 0}",
    "{\"id\": \"quantize\", " FUZZ_TYPES("<f8", "<f2") ", \"digits\": 1}",
    "{\"id\": \"packbits\"}",
    "{\"id\": \"bitround\", \"keepbits\": 3}",
    "{\"id\": \"shuffle\", \"elementsize\": 4}",
    "{\"id\": \"zstd\", \"level\": 1}",
    "{\"id\": \"lzma\", \"format\": 1}",
    "{\"id\": \"blosc\", \"cname\": \"blosclz\"}",
    "{\"id\": \"crc32\"}",
    "{\"id\": \"fletcher32\"}",
    "\"<f8\"",
    "\"|b1\"",
    "\">i2\"",
    "\"<c8\"",
    "\"|S7\"",
    "\"<U3\"",
    "\"<M8[ns]\"",
    "\"|O\"",
    "\"float32\"",
    "\"bool\"",
    "\"uint8\"",
    "\"complex128\"",
    "\"r24\"",
    "\"F\"",
    "\"C\"",
    "\"0x7fc00000\"",
    "[2, 3]",
    "[1, 2, 3, 4]",
    "[0, 1]",
    "[100000000]",
    "[1, 1000000000000]"};

static const fuzz_json_words fuzz_zarr_words = {fuzz_zarr_texts,
                                                sizeof fuzz_zarr_texts / sizeof *fuzz_zarr_texts};

/* Change the document that is part number `part` of an input. */
static inline size_t fuzz_zarr_mutate(uint8_t *data, size_t size, size_t most, unsigned part,
                                      unsigned seed)
{
    size_t at, length;

    if (!fuzz_json_find(data, size, part, &at, &length))
        return LLVMFuzzerMutate(data, size, most);
    return fuzz_json_part(data, size, most, at, length, true, &fuzz_zarr_words, seed);
}

#endif
