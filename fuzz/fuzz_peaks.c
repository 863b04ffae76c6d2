/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kept text of a machine's peaks. What must hold whatever it says: it is taken whole, with rates
 * that are finite and above 0, or not at all.
 */
#include "fuzz_support.h"

#include <math.h>

#include "train/profilers/peaks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const stk__peaks_key key = {
        .cpu = "a cpu, 2 cores", .version = "0.1.0", .precision = "32-true", .threads = 2};
    stk__peaks peaks = {1, 2};
    stk_context *ctx = fuzz_context();
    const uint64_t held = fuzz_held(ctx);

    if (stk__peaks_parse(ctx, (const char *)data, size, &key, &peaks))
        FUZZ_CHECK(isfinite(peaks.flops_per_s) && peaks.flops_per_s > 0 &&
                   isfinite(peaks.bytes_per_s) && peaks.bytes_per_s > 0);
    else
        FUZZ_CHECK(peaks.flops_per_s == 1 && peaks.bytes_per_s == 2);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
