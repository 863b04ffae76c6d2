/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of arrays. Input: two bytes of length and the options of the spec, two bytes of length
 * and a zarr.json (empty: a small array), the bytes of every chunk. A batch is taken where it
 * opens.
 */
#include "fuzz_deliver.h"
#include "zarr_support.h"
#include "zarr_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char small[] =
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[5,4,6],\"data_type\":\"float32\","
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,4,3]}},"
    "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":\"NaN\",\"codecs\":[{\"name\":"
    "\"bytes\",\"configuration\":{\"endian\":\"little\"}},{\"name\":\"zstd\",\"configuration\":{"
    "\"level\":1,\"checksum\":false}}],\"dimension_names\":[\"time\",\"y\",\"x\"]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"c/0", "c/0/0/0", "c/1/0/0", "c/2/0/1", "c/1/0/1", NULL};
    size_t length = 0;
    char spec[512];

    fuzz_room room = fuzz_open("mem://w");
    const uint8_t *options = fuzz_take(&data, &size, &length);
    snprintf(spec, sizeof spec, "array:mem://w?%.*s", (int)(length < 400 ? length : 400),
             (const char *)options);
    const uint8_t *metadata = fuzz_take(&data, &size, &length);
    if (length)
        fuzz_put(room.store, "zarr.json", metadata, length);
    else
        fuzz_put(room.store, "zarr.json", (const uint8_t *)small, sizeof small - 1);
    zarr_put_chunks(room.store, keys, data, size);
    fuzz_ready(&room);
    fuzz_try(room.ctx, spec);
    fuzz_close(&room);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return fuzz_zarr_mutate(data, size, most, 1, seed);
}
