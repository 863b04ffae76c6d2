/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/planes.h"

void stk__planes_interleave3_c(const unsigned char *planes, size_t pixels, unsigned char *out)
{
    for (size_t i = 0; i < pixels; i++) {
        out[3 * i] = planes[i];
        out[3 * i + 1] = planes[pixels + i];
        out[3 * i + 2] = planes[2 * pixels + i];
    }
}

stk__planes_fn *stk__planes_interleave3(const stk_context *ctx)
{
#if defined(STK_WITH_AVX2)
    if (stk__cpu_has_avx2(ctx))
        return stk__planes_interleave3_avx2;
#endif
    return stk__planes_interleave3_c;
}
