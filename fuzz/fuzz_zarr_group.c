/* SPDX-License-Identifier: Apache-2.0 */
/* Consolidated metadata. Input: a byte (0: version 3, 1: version 2), the document. */
#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_store *store = NULL;
    stk_error err;

    if (size < 1)
        return 0;
    stk_context *ctx = fuzz_context();
    FUZZ_CHECK(stk_store_open(ctx, "mem://z", &store, NULL, 0, &err) == STK_OK);
    fuzz_put(store, data[0] & 1 ? ".zmetadata" : "zarr.json", data + 1, size - 1);
    uint64_t held = fuzz_held(ctx);
    zarr_group(ctx, "mem://z");
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
