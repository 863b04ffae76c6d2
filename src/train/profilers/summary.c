/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile found, in a few figures. */
#include <inttypes.h>

#include "base/sized.h"
#include "train/profilers/profiler.h"

const char *stk_profile_part_name(stk_profile_part part)
{
    static const char *const names[] = {"data", "forward", "backward", "other", "total"};

    return part >= 0 && part < STK_PROFILE_PARTS ? names[part] : "unknown";
}

static stk_status count(const stk_profile *profile, uint64_t warmup, stk_profile_summary *out,
                        stk_error *err)
{
    const uint64_t n = profile->num_batches;

    if (n <= warmup)
        return stk__fail(err, STK_ENOENT, STK_STAGE_TRAIN,
                         "only %" PRIu64 " batches were trained, and the first %" PRIu64
                         " are left out: raise steps or lower warmup_steps",
                         n, warmup);
    out->batches = n - warmup;
    double *values = stk__calloc(profile->ctx, out->batches, sizeof *values);
    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                         "no memory for the times of %" PRIu64 " batches", n);
    for (int part = 0; part < STK_PROFILE_PARTS; part++) {
        for (uint64_t i = 0; i < out->batches; i++)
            values[i] =
                stk_profile_part_seconds(&profile->batches[warmup + i], (stk_profile_part)part);
        stk_spread_of(values, out->batches, &out->parts[part]);
    }
    stk__free(profile->ctx, values);
    for (uint64_t i = warmup; i < n; i++)
        out->samples += profile->batches[i].samples;
    return STK_OK;
}

uint64_t stk_profile_warmup(const stk_profile *profile)
{
    uint64_t steps = 0, i = 0;

    while (i < profile->num_batches && steps < profile->options.warmup_steps)
        steps += profile->batches[i++].optimizer_steps;
    return i;
}

stk_status stk_profile_summarize(stk_profile *profile, uint64_t warmup, const char *config,
                                 stk_profile_summary *out, stk_error *err)
{
    stk_profile_summary summary = {.struct_size = sizeof summary, .warmup = warmup};

    STK_TRY(stk__context_check(profile->ctx, err));
    STK_TRY(stk__sized_check(out, "stk_profile_summary", STK_STAGE_TRAIN, err));
    STK_TRY(count(profile, warmup, &summary, err));
    stk__profile_find_peaks(profile);
    const double whole = summary.parts[STK_PROFILE_TOTAL].sum;
    for (int part = 0; part < STK_PROFILE_PARTS && whole > 0; part++)
        summary.share[part] = summary.parts[part].sum / whole;
    summary.peak_flops_per_s = profile->peaks.flops_per_s;
    summary.peak_bytes_per_s = profile->peaks.bytes_per_s;
    summary.batch_size = profile->batch_size;
    summary.peak_threads = profile->peaks_key.threads;
    summary.samples_per_s = whole > 0 ? (double)summary.samples / whole : 0;
    stk__profile_diagnose(profile, config ? config : "CONFIG.yaml", &summary);
    stk__sized_write(out, &summary);
    return STK_OK;
}
