/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics kept beside an array. The input is the file. What must hold whatever it says: it is
 * taken as statistics that the array can have, or as none; nothing
 * is left behind.
 */
#include "fuzz_support.h"
#include "json_mutator.h"

#include <math.h>
#include <stoker/array.h>

#define ELEMENTS 35

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char metadata[] =
    "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [7, 5], \"data_type\": \"float32\", "
    "\"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [3, 4]}}, "
    "\"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": {\"separator\": \"/\"}}, "
    "\"fill_value\": 0.0, \"codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": "
    "\"little\"}}], \"attributes\": {}}";

static bool is_number(double x)
{
    return isfinite(x) || isnan(x);
}

static void check(const stk_array_stats *s)
{
    FUZZ_CHECK(s->values <= ELEMENTS && s->nan <= ELEMENTS && s->missing <= ELEMENTS);
    FUZZ_CHECK(s->values + s->nan + s->missing == ELEMENTS);
    FUZZ_CHECK(is_number(s->mean) && is_number(s->min) && is_number(s->max));
    FUZZ_CHECK(isnan(s->std) || s->std >= 0);
    uint64_t binned = 0;
    FUZZ_CHECK(s->num_bins <= STK_ARRAY_BINS);
    for (uint32_t i = 0; i < s->num_bins; i++) {
        FUZZ_CHECK(s->bins[i] <= s->values);
        binned += s->bins[i];
    }
    FUZZ_CHECK(binned <= s->values && isfinite(s->bin_low) && s->bin_width >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_array *a = NULL;
    stk_array_stats stats = {.struct_size = sizeof stats};
    stk_error err;

    fuzz_room room = fuzz_open("mem://s");
    fuzz_put(room.store, "zarr.json", (const uint8_t *)metadata, sizeof metadata - 1);
    fuzz_put(room.store, ".stoker-stats.json", data, size);
    fuzz_ready(&room);
    FUZZ_CHECK(stk_array_open(room.ctx, "mem://s?num_threads=1", NULL, &a, &err) == STK_OK);
    stk_error_init(&err);
    stk_status status = stk_array_stats_load(a, NULL, &stats, &err);
    if (status == STK_OK)
        check(&stats);
    else
        FUZZ_CHECK(err.text[0] && status != STK_EINTERNAL);
    stk_array_close(&a);
    fuzz_close(&room);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return fuzz_json_part(data, size, most, 0, size, false, NULL, seed);
}
