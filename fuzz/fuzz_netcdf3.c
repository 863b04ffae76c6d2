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
    char url[2 * STK_MAX_OBJECT_KEY];
    stk_group *g = NULL;
    const stk_node *node;
    size_t length = 0;

    if (size < 2)
        return 0;
    fuzz_room room = fuzz_open("mem://f");
    const uint8_t *first = fuzz_take(&data, &size, &length);
    fuzz_put(room.store, "a.nc", first, length);
    fuzz_put(room.store, "b.nc", data, size);
    fuzz_ready(&room);
    zarr_group(room.ctx, "mem://f/a.nc");
    if (stk_group_open(room.ctx, "mem://f/a.nc", &g, NULL) == STK_OK) {
        for (size_t i = 0; i < MOST_ARRAYS && (node = stk_group_node(g, i)); i++) {
            if (strpbrk(node->path, "%?#"))
                continue;
            snprintf(url, sizeof url, "mem://f/*.nc/%s?concat=0&format=netcdf3", node->path);
            zarr_array(room.ctx, url);
        }
        stk_group_close(&g);
    }
    zarr_group(room.ctx, "mem://f/b.nc");
    fuzz_close(&room);
    return 0;
}
