/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of arrays. Input: two bytes of length and the options of the spec, two bytes of length
 * and a zarr.json (empty: a small array), the bytes of every chunk. A batch is taken where it
 * opens.
 */
#include "dataset/dataset.h"
#include "zarr_support.h"
#include "zarr_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char small[] =
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[5,4,6],\"data_type\":\"float32\","
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,4,3]}},"
    "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":\"NaN\",\"codecs\":[{\"name\":"
    "\"bytes\",\"configuration\":{\"endian\":\"little\"}},{\"name\":\"zstd\",\"configuration\":{"
    "\"level\":1,\"checksum\":false}}],\"dimension_names\":[\"time\",\"y\",\"x\"]}";

static void deliver(stk_dataset *dataset)
{
    stk_loader_options o;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = 3;
    o.num_workers = 0;
    o.memory_budget = 4 << 20;
    o.shuffle = (int32_t)(dataset->size % 3);
    o.cache = (int32_t)(dataset->size % 2) * STK_CACHE_DECODED;
    stk_error_init(&err);
    stk_status status = stk_loader_create(dataset, &o, &loader, &err);
    if (status == STK_OK)
        status = stk_loader_next(loader, -1, &batch, &err);
    for (uint32_t f = 0; f < dataset->num_fields && batch; f++) {
        stk_tensor t = {.struct_size = sizeof t};
        FUZZ_CHECK(stk_batch_field(batch, f, &t) == STK_OK);
        (void)fuzz_sum(t.data, stk_batch_count(batch) * stk_field_bytes(&dataset->fields[f]));
    }
    FUZZ_CHECK(status == STK_OK || (err.text[0] && status != STK_EINTERNAL));
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"c/0", "c/0/0/0", "c/1/0/0", "c/2/0/1", "c/1/0/1", NULL};
    stk_dataset *dataset = NULL;
    stk_error err;
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
    stk_error_init(&err);
    if (stk_dataset_open(room.ctx, spec, &dataset, &err) == STK_OK) {
        deliver(dataset);
        stk_dataset_close(&dataset);
    } else {
        FUZZ_CHECK(!dataset && err.text[0] && err.status != STK_EINTERNAL);
    }
    fuzz_close(&room);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return fuzz_zarr_mutate(data, size, most, 1, seed);
}
