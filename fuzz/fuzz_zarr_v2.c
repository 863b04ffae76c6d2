/* SPDX-License-Identifier: Apache-2.0 */
/* Zarr v2 arrays. Input: two bytes of length, a .zarray, the same for a .zattrs, the bytes of every
 * chunk. */
#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"0", "0.0", "1.0", "0/0", "0.0.0", NULL};
    stk_store *store = NULL;
    stk_error err;
    size_t length = 0;

    stk_context *ctx = fuzz_context();
    FUZZ_CHECK(stk_store_open(ctx, "mem://z", &store, NULL, 0, &err) == STK_OK);
    const uint8_t *part = fuzz_take(&data, &size, &length);
    fuzz_put(store, ".zarray", part, length);
    part = fuzz_take(&data, &size, &length);
    if (length)
        fuzz_put(store, ".zattrs", part, length);
    zarr_put_chunks(store, keys, data, size);
    uint64_t held = fuzz_held(ctx);
    zarr_array(ctx, "mem://z?memory=1MB&num_threads=1");
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
