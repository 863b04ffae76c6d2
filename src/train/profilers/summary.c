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

/* What a layer takes of one batch, ns: of its median calls, so that one that was disturbed makes no
 * difference. */
static double typical_ns(const stk_profile_layer *layer)
{
    return (double)layer->forward_median_ns + (double)layer->backward_median_ns;
}

/* What it would take less at the peak of what bounds it; 0: nothing, or not known. */
static double lost_ns(const stk_profile_layer *layer)
{
    if (!layer->roof.bound || layer->roof.of_peak >= 1)
        return 0;
    return typical_ns(layer) * (1 - layer->roof.of_peak);
}

/* The layers, or the loss, of the most time, and of the most time that is lost. */
typedef struct layers_found {
    stk_profile_layer most, loses;
    double sum_ns;
} layers_found;

static bool find_layers(const stk_profile *profile, layers_found *f)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};

    *f = (layers_found){.sum_ns = 0};
    /* The optimizer, the last, is no layer. */
    for (size_t i = 0; i + 1 < profile->num_layers; i++) {
        if (!stk_profile_get_layer(profile, i, &layer))
            break;
        f->sum_ns += typical_ns(&layer);
        if (typical_ns(&layer) > typical_ns(&f->most))
            f->most = layer;
        if (lost_ns(&layer) > lost_ns(&f->loses))
            f->loses = layer;
    }
    return f->sum_ns > 0;
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

static void advise(const stk_profile *profile, const stk_profile_summary *s, const char *config,
                   stk__text *out)
{
    const double data = s->share[STK_PROFILE_DATA], other = s->share[STK_PROFILE_OTHER];
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};
    stk_profile_action call;

    stk_trainer_get_loader_stats(profile->trainer, &begin, &end);
    if (data >= STK_JUDGE_WAIT && end.workers == 0)
        stk__text_add(out,
                      " Preparing the data limits: num_workers is 0, so that samples are prepared "
                      "between the steps. With num_workers 1 they are prepared during them, for up "
                      "to %.2f times the rate; 'stoker bench --step train:%s' measures it.",
                      1 / (1 - data), config);
    else if (data >= STK_JUDGE_WAIT)
        stk__text_add(
            out,
            " Waiting for data limits: without it the rate would be %.2f times as high. "
            "'stoker bench --step train:%s' says whether reading or preparing is slow, and "
            "which settings help.",
            1 / (1 - data), config);
    else if (other > s->share[STK_PROFILE_FORWARD] + s->share[STK_PROFILE_BACKWARD] &&
             find_call(profile, &call))
        stk__text_add(
            out,
            " The model is not the limit: most of the rest is %s, %.1f us a call. A larger "
            "batch_size makes that rarer.",
            call.name, (double)call.own_ns * 1e-3 / (double)(call.calls ? call.calls : 1));
    else
        stk__text_add(
            out, " The model limits: there is next to nothing to gain from the loader. A larger "
                 "batch_size, more compute threads (compute_threads) or precision bf16-mixed "
                 "may make the step faster.");
}

#define AT_PEAK 0.7 /* share of the peak from which on a layer does what the machine can */
#define LOSES   1.5 /* times as much is lost by another layer: it is the one to look at, too */

/* What it means that a layer takes most, and what to do. */
static const char *meaning_of(const stk_profile_layer *layer)
{
    const bool at_peak = layer->roof.of_peak >= AT_PEAK;

    if (layer->roof.bound == STK_PROFILE_BOUND_COMPUTE)
        return at_peak ? "that is what the machine can: only a smaller layer, precision bf16-mixed "
                         "or more compute_threads make it faster"
                       : "its shape does not suit the machine: more rows (batch_size), and numbers "
                         "of channels and features that 16 divides, fewer groups, bring it nearer";
    if (layer->roof.bound == STK_PROFILE_BOUND_MEMORY)
        return at_peak ? "that is as fast as its bytes come: a larger batch_size uses weights more "
                         "often, a layer without products is best left out or made smaller"
                       : "it waits for neither products nor memory: its own arithmetic, or how "
                         "small or unusual its shape is, limits it";
    return NULL;
}

static void put_layers(const stk_profile *profile, stk__text *out)
{
    layers_found f;

    if (!find_layers(profile, &f))
        return;
    const stk_profile_layer *most = &f.most, *loses = &f.loses;
    stk__text_add(out,
                  " Of all layers '%s' (%s) takes most: %.0f %% of their time, %.1f GFLOP/s, %.1f "
                  "GB/s",
                  most->name, most->kind, 100 * typical_ns(most) / f.sum_ns,
                  most->roof.flops_per_s * 1e-9, most->roof.bytes_per_s * 1e-9);
    const char *meaning = meaning_of(most);
    if (meaning)
        stk__text_add(out, ", bound by %s, %.0f %% of the machine's peak; %s",
                      stk_profile_bound_name(most->roof.bound), 100 * most->roof.of_peak, meaning);
    stk__text_add(out, ".");
    if (lost_ns(loses) > LOSES * lost_ns(most))
        stk__text_add(out,
                      " '%s' (%s) loses most: it reaches %.0f %% of the peak, and takes %.1f us a "
                      "batch instead of %.1f.",
                      loses->name, loses->kind, 100 * loses->roof.of_peak, typical_ns(loses) * 1e-3,
                      (typical_ns(loses) - lost_ns(loses)) * 1e-3);
}

static void diagnose(const stk_profile *profile, const stk_profile_summary *s, const char *config,
                     char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};

    stk__text_add(&out,
                  "A batch takes %.1f us (median of %" PRIu64
                  "; %.0f samples/s). Of the time: waiting for data %.1f %%, forward %.1f %%, "
                  "backward %.1f %%, the optimizer and all else %.1f %%.",
                  s->parts[STK_PROFILE_TOTAL].p50 * 1e6, s->batches, s->samples_per_s,
                  100 * s->share[STK_PROFILE_DATA], 100 * s->share[STK_PROFILE_FORWARD],
                  100 * s->share[STK_PROFILE_BACKWARD], 100 * s->share[STK_PROFILE_OTHER]);
    advise(profile, s, config, &out);
    put_layers(profile, &out);
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
    diagnose(profile, &summary, config ? config : "CONFIG.yaml", summary.text, sizeof summary.text);
    stk__sized_write(out, &summary);
    return STK_OK;
}
