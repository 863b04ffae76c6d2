/* reads of stores -> how many bytes each tier gave */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_TIERS_H
#define STK_SRC_BASE_TIERS_H

#include <stoker/base.h>

/* Count a read of a tier, for all loaders of a context; and all until now. Any thread. */
void stk__tier_count(stk_context *ctx, stk_tier_kind tier, uint64_t bytes, uint64_t ns);
void stk__tiers_get(const stk_context *ctx, stk_tiers *out);
void stk__tiers_subtract(stk_tiers *tiers, const stk_tiers *earlier);
/* As members of an object of the log, bytes of each; "" where nothing was read through a cache. */
void stk__tiers_members(const stk_tiers *tiers, char *text, size_t size);

#endif
