/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile found, in a few figures and a paragraph. */
#include <inttypes.h>
#include <stdio.h>

#include "base/sized.h"
#include "train/profilers/profiler.h"

const char *stk_profile_part_name(stk_profile_part part)
{
    static const char *const names[] = {"data", "forward", "backward", "other", "total"};

    return part >= 0 && part < STK_PROFILE_PARTS ? names[part] : "unknown";
}

/* ---- The diagnosis --------------------------------------------------------------------------- */

/* The layer that takes most of forward and backward; its share of all layers. */
static bool find_layer(const stk_profile *profile, stk_profile_layer *most, double *share)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    uint64_t sum = 0, best = 0;

    for (size_t i = 0; stk_profile_get_layer(profile, i, &layer); i++) {
        const uint64_t ns = layer.forward.ns + layer.backward.ns;
        sum += ns;
        if (ns > best) {
            best = ns;
            *most = layer;
        }
    }
    *share = sum ? (double)best / (double)sum : 0;
    return best > 0;
}

/* The call that takes most of what is neither data nor model. */
static bool find_call(const stk_profile *profile, stk_profile_action *most)
{
    static const char *const kinds[] = {"[Callback]", "[LightningModule]",
                                        "[Strategy]SingleDeviceStrategy.optimizer",
                                        "save_checkpoint"};
    stk_profile_action action;

    *most = (stk_profile_action){0};
    for (size_t i = 0; stk_profile_get_action(profile, i, &action); i++)
        for (size_t k = 0; k < STK_COUNT(kinds); k++)
            if (strncmp(action.name, kinds[k], strlen(kinds[k])) == 0 &&
                action.own_ns > most->own_ns)
                *most = action;
    return most->own_ns > 0;
}

static size_t advise(const stk_profile *profile, const stk_profile_summary *s, const char *config,
                     char *text, size_t size)
{
    const double data = s->share[STK_PROFILE_DATA], other = s->share[STK_PROFILE_OTHER];
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};
    stk_profile_action call;
    int n;

    stk_trainer_get_loader_stats(profile->trainer, &begin, &end);
    if (data >= STK_JUDGE_WAIT && end.workers == 0)
        n = snprintf(text, size,
                     " Preparing the data limits: num_workers is 0, so that samples are prepared "
                     "between the steps. With num_workers 1 they are prepared during them, for up "
                     "to %.2f times the rate; 'stoker bench --step train:%s' measures it.",
                     1 / (1 - data), config);
    else if (data >= STK_JUDGE_WAIT)
        n = snprintf(
            text, size,
            " Waiting for data limits: without it the rate would be %.2f times as high. "
            "'stoker bench --step train:%s' says whether reading or preparing is slow, and "
            "which settings help.",
            1 / (1 - data), config);
    else if (other > s->share[STK_PROFILE_FORWARD] + s->share[STK_PROFILE_BACKWARD] &&
             find_call(profile, &call))
        n = snprintf(
            text, size,
            " The model is not the limit: most of the rest is %s, %.1f us a call. A larger "
            "batch_size makes that rarer.",
            call.name, (double)call.own_ns * 1e-3 / (double)(call.calls ? call.calls : 1));
    else
        n = snprintf(
            text, size,
            " The model limits: there is next to nothing to gain from the loader. A larger "
            "batch_size, more compute threads (compute_threads) or precision bf16-mixed "
            "may make the step faster.");
    return n > 0 ? (size_t)n : 0;
}

static void diagnose(const stk_profile *profile, const stk_profile_summary *s, const char *config,
                     char *text, size_t size)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    double share;

    int n = snprintf(text, size,
                     "A batch takes %.1f us (median of %" PRIu64
                     "; %.0f samples/s). Of the time: waiting for data %.1f %%, forward %.1f %%, "
                     "backward %.1f %%, the optimizer and all else %.1f %%.",
                     s->parts[STK_PROFILE_TOTAL].p50 * 1e6, s->batches, s->samples_per_s,
                     100 * s->share[STK_PROFILE_DATA], 100 * s->share[STK_PROFILE_FORWARD],
                     100 * s->share[STK_PROFILE_BACKWARD], 100 * s->share[STK_PROFILE_OTHER]);
    size_t used = n > 0 ? (size_t)n : 0;
    if (used < size)
        used += advise(profile, s, config, text + used, size - used);
    if (used >= size || !find_layer(profile, &layer, &share))
        return;
    const uint64_t ns = layer.forward.ns + layer.backward.ns;
    const uint64_t flops = layer.forward.flops + layer.backward.flops;
    const uint64_t bytes = layer.forward.bytes + layer.backward.bytes;
    n = snprintf(text + used, size - used,
                 " Of all layers '%s' (%s) takes most: %.0f %% of their time, %.1f GFLOP/s, %.1f "
                 "GB/s.",
                 layer.name, layer.kind, 100 * share, (double)flops / (double)ns,
                 (double)bytes / (double)ns);
}

/* ---- The summary ----------------------------------------------------------------------------- */

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

stk_status stk_profile_summarize(const stk_profile *profile, uint64_t warmup, const char *config,
                                 stk_profile_summary *out, stk_error *err)
{
    stk_profile_summary summary = {.struct_size = sizeof summary, .warmup = warmup};

    STK_TRY(stk__context_check(profile->ctx, err));
    STK_TRY(stk__sized_check(out, "stk_profile_summary", STK_STAGE_TRAIN, err));
    STK_TRY(count(profile, warmup, &summary, err));
    const double whole = summary.parts[STK_PROFILE_TOTAL].sum;
    for (int part = 0; part < STK_PROFILE_PARTS && whole > 0; part++)
        summary.share[part] = summary.parts[part].sum / whole;
    summary.peak_flops_per_s = stk__profile_peak_flops(profile);
    summary.peak_bytes_per_s = profile->peaks.bytes_per_s;
    summary.peak_threads = profile->peaks_key.threads;
    summary.samples_per_s = whole > 0 ? (double)summary.samples / whole : 0;
    diagnose(profile, &summary, config ? config : "CONFIG.yaml", summary.text, sizeof summary.text);
    stk__sized_write(out, &summary);
    return STK_OK;
}
