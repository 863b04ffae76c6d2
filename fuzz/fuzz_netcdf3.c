/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NetCDF-3 files: all that is in one, and two joined. Input: two bytes of length, a file, another
 * file.
 */
#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_ARRAYS 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[64], url[2 * STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk_group *g = NULL;
    const stk_node *node;
    stk_error err;
    size_t length = 0;

    if (size < 2)
        return 0;
    stk_context *ctx = fuzz_context();
    const uint8_t *first = fuzz_take(&data, &size, &length);
    FUZZ_CHECK(stk_store_open(ctx, "mem://f", &store, key, sizeof key, &err) == STK_OK);
    fuzz_put(store, "a.nc", first, length);
    fuzz_put(store, "b.nc", data, size);
    const uint64_t held = fuzz_held(ctx);
    zarr_group(ctx, "mem://f/a.nc");
    if (stk_group_open(ctx, "mem://f/a.nc", &g, NULL) == STK_OK) {
        for (size_t i = 0; i < MOST_ARRAYS && (node = stk_group_node(g, i)); i++) {
            if (strpbrk(node->path, "%?#"))
                continue;
            snprintf(url, sizeof url, "mem://f/*.nc/%s?concat=0&format=netcdf3", node->path);
            zarr_array(ctx, url);
        }
        stk_group_close(&g);
    }
    zarr_group(ctx, "mem://f/b.nc");
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
