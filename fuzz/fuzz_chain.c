/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes -> a random chain of codecs and a chunk: see fuzz_chain.h. */
#include "fuzz_chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stk_context *ctx;
    stk_error err;

    if (!ctx)
        FUZZ_CHECK(stk_context_create(NULL, &ctx, &err) == STK_OK);
    fuzz_chain_once(ctx, data, size);
    return 0;
}
