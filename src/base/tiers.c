/* SPDX-License-Identifier: Apache-2.0 */
/* Where bytes came from: memory, the disk of a cache, the store that it wraps. */
#include "base/tiers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/context.h"

#define MIB 1048576.0

void stk__tier_count(stk_context *ctx, stk_tier_kind tier, uint64_t bytes, uint64_t ns)
{
    atomic_fetch_add_explicit(&ctx->tiers[tier].reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&ctx->tiers[tier].bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&ctx->tiers[tier].ns, ns, memory_order_relaxed);
}

void stk__tiers_get(const stk_context *ctx, stk_tiers *out)
{
    for (int i = 0; i < STK_TIERS; i++)
        out->of[i] = (stk_tier){.reads = atomic_load(&ctx->tiers[i].reads),
                                .bytes = atomic_load(&ctx->tiers[i].bytes),
                                .ns = atomic_load(&ctx->tiers[i].ns)};
}

void stk__tiers_subtract(stk_tiers *tiers, const stk_tiers *earlier)
{
    for (int i = 0; i < STK_TIERS; i++) {
        tiers->of[i].reads -= earlier->of[i].reads;
        tiers->of[i].bytes -= earlier->of[i].bytes;
        tiers->of[i].ns -= earlier->of[i].ns;
    }
}

static bool any(const stk_tiers *tiers)
{
    return tiers->of[STK_TIER_DISK].reads || tiers->of[STK_TIER_REMOTE].reads;
}

void stk__tiers_members(const stk_tiers *tiers, char *text, size_t size)
{
    *text = 0;
    if (any(tiers))
        snprintf(text, size,
                 ", \"tiers\": {\"memory\": %" PRIu64 ", \"disk\": %" PRIu64
                 ", \"remote\": %" PRIu64 "}",
                 tiers->of[STK_TIER_MEMORY].bytes, tiers->of[STK_TIER_DISK].bytes,
                 tiers->of[STK_TIER_REMOTE].bytes);
}

/*
 * Seconds of reads that were spared: what came from the disk would have taken as long a byte as
 * what came from below, and what came from memory as long as a mean read. Negative: not known, as
 * nothing came from below.
 */
static double saved_seconds(const stk_tiers *tiers)
{
    const stk_tier *memory = &tiers->of[STK_TIER_MEMORY], *disk = &tiers->of[STK_TIER_DISK],
                   *remote = &tiers->of[STK_TIER_REMOTE];

    if (!remote->bytes)
        return -1;
    const double below = (double)remote->ns / (double)remote->bytes * (double)disk->bytes,
                 read = (double)(disk->ns + remote->ns) / (double)(disk->reads + remote->reads),
                 saved = below - (double)disk->ns + read * (double)memory->reads;
    return STK_MAX(saved, 0.0) * 1e-9;
}

int stk_tiers_format(const stk_tiers *tiers, char *text, size_t size)
{
    const stk_tier *memory = &tiers->of[STK_TIER_MEMORY], *disk = &tiers->of[STK_TIER_DISK],
                   *remote = &tiers->of[STK_TIER_REMOTE];
    char first[96] = "", last[64] = "";

    if (!any(tiers))
        return snprintf(text, size, "%s", "");
    if (memory->reads)
        snprintf(first, sizeof first, "%" PRIu64 " samples or ranges came from memory. ",
                 memory->reads);
    const double read = (double)disk->bytes + (double)remote->bytes, seconds = saved_seconds(tiers),
                 hits = read > 0 ? 100 * (double)disk->bytes / read : 0;
    if (seconds >= 0)
        snprintf(last, sizeof last, " and %.3g s of reads", seconds);
    return snprintf(text, size,
                    "%sOf %.4g MiB that were read, %.1f %% came from the disk of the cache and "
                    "%.1f %% from the store below it: the cache saved %.4g MiB of transfers%s.",
                    first, read / MIB, hits, 100 - hits, (double)disk->bytes / MIB, last);
}
