/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of references, followed wherever they lead in memory. Input: the document. */
#include "zarr_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const arrays[] = {"", "a", "rows", "sub/b", "whole"};
    unsigned char bytes[256];
    char key[64], url[128];
    stk_store *store = NULL;
    stk_error err;

    stk_context *ctx = fuzz_context();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    FUZZ_CHECK(stk_store_open(ctx, "mem://f", &store, key, sizeof key, &err) == STK_OK);
    fuzz_put(store, "parts.bin", bytes, sizeof bytes);
    fuzz_put(store, "half.bin", bytes, 48);
    fuzz_put(store, "r.json", data, size);
    const uint64_t held = fuzz_held(ctx);
    zarr_group(ctx, "mem://f/r.json?format=kerchunk");
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        snprintf(url, sizeof url, "mem://f/r.json/%s?format=kerchunk", arrays[i]);
        zarr_array(ctx, url);
    }
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return 0;
}
