/* SPDX-License-Identifier: Apache-2.0 */
/* What limits a training, and what to change: one paragraph. Layers are judged by the medians of
 * their calls, so that a few that were disturbed make no difference. */
#include <inttypes.h>

#include "train/profilers/profiler.h"

#define NEAR_PEAK 0.7 /* share of the peak from which on a layer does what the machine can */
#define FAR_BELOW 0.1 /* and up to which its shape does not suit the machine */
#define LOSES     1.5 /* times as much is lost by another layer: it is the one to look at, too */
#define SUITS     16  /* what divides numbers of channels and features that suit the machine */

/* ---- The parts of a batch -------------------------------------------------------------------- */

/* Whether a call is within a step, but neither in its forward nor in its backward pass. */
static bool is_rest(const stk_profile *p, uint32_t call)
{
    for (uint32_t i = p->calls[call].parent; i; i = p->calls[i].parent) {
        const enum stk__profile_role role = p->entries[p->calls[i].entry].role;
        if (role == STK__ROLE_FORWARD || role == STK__ROLE_BACKWARD)
            return false;
        if (role == STK__ROLE_BATCH)
            return true;
    }
    return false;
}

/* What an action takes itself of the rest of the batches. */
static stk_profile_action rest_of(const stk_profile *p, uint32_t entry)
{
    const enum stk__profile_role role = p->entries[entry].role;
    stk_profile_action found = {.name = p->entries[entry].name};

    for (uint32_t i = 1; i < p->num_calls; i++) {
        const stk__profile_call *call = &p->calls[i];
        if (call->entry != entry || role == STK__ROLE_FORWARD || role == STK__ROLE_BACKWARD ||
            !is_rest(p, i))
            continue;
        found.calls += call->calls;
        found.own_ns += call->total_ns - call->inner_ns;
    }
    return found;
}

static void say_rest(const stk_profile *p, stk__text *out)
{
    stk_profile_action most = {0};
    uint64_t all = 0;

    for (size_t i = 0; i < p->num_batches; i++)
        all += p->batches[i].other;
    for (uint32_t i = 0; i < p->num_entries; i++) {
        const stk_profile_action action = rest_of(p, i);
        if (action.own_ns > most.own_ns)
            most = action;
    }
    stk__text_add(out, " The model is not the limit");
    if (most.calls && all) {
        const double share = STK_MIN((double)most.own_ns / (double)all, 1.0);
        stk__text_add(out,
                      share > 0.5
                          ? ": most of the rest (%.0f %%) is %s, %.1f us a call"
                          : ": of the rest the largest part (%.0f %%) is %s, %.1f us a call",
                      100 * share, most.name, (double)most.own_ns * 1e-3 / (double)most.calls);
    }
    stk__text_add(out, ". A larger batch_size makes the rest rarer.");
}

static void say_data(const stk_profile *p, double share, const char *config, stk__text *out)
{
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};

    stk_trainer_get_loader_stats(p->trainer, &begin, &end);
    if (end.workers == 0)
        stk__text_add(out,
                      " Preparing the data limits: num_workers is 0, so that samples are prepared "
                      "between the steps. With num_workers 1 they are prepared during them, for up "
                      "to %.2f times the rate; 'stoker bench --step train:%s' measures it.",
                      1 / (1 - share), config);
    else
        stk__text_add(
            out,
            " Waiting for data limits: without it the rate would be %.2f times as high. "
            "'stoker bench --step train:%s' says whether reading or preparing is slow, and "
            "which settings help.",
            1 / (1 - share), config);
}

/* ", more compute_threads, precision bf16-mixed": what makes products faster and is not had. */
static const char *faster(const stk_profile *p)
{
    const stk_precision precision = stk_precision_of(p->peaks_key.precision);
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(p->ctx, &cores);
    if (p->peaks_key.threads < cores.usable)
        return precision == STK_PRECISION_BF16_MIXED
                   ? ", more compute_threads"
                   : ", more compute_threads, precision bf16-mixed";
    return precision == STK_PRECISION_BF16_MIXED ? "" : ", precision bf16-mixed";
}

static void advise(const stk_profile *p, const stk_profile_summary *s, const char *config,
                   stk__text *out)
{
    const double data = s->share[STK_PROFILE_DATA], other = s->share[STK_PROFILE_OTHER],
                 forward = s->share[STK_PROFILE_FORWARD], backward = s->share[STK_PROFILE_BACKWARD];
    const bool waits = data >= STK_JUDGE_WAIT;

    if (waits && data >= other && data >= forward && data >= backward) {
        say_data(p, data, config, out);
        return;
    }
    if (other > forward + backward)
        say_rest(p, out);
    else
        stk__text_add(out,
                      " The model limits. What may make the step faster: a larger batch_size%s.",
                      p->num_layers ? faster(p) : "");
    if (waits)
        stk__text_add(out,
                      " Next to it, without waiting for data the rate would be %.2f times as high: "
                      "'stoker bench --step train:%s'.",
                      1 / (1 - data), config);
    else
        stk__text_add(out, " There is next to nothing to gain from the loader.");
}

/* ---- The layers ------------------------------------------------------------------------------ */

/* A layer in one batch, by the medians of its calls. */
typedef struct typical {
    size_t at;
    stk_profile_layer layer;
    double ns, ideal_ns; /* `ideal_ns`: at the peak of what bounds it; 0: unknown */
} typical;

static double each(double sum, const stk_profile_pass *pass)
{
    return pass->calls ? sum / (double)pass->calls : 0;
}

static typical typical_of(const stk_profile *p, size_t i)
{
    typical t = {.at = i, .layer = {.struct_size = sizeof t.layer}};
    const stk_profile_layer *l = &t.layer;

    stk_profile_get_layer(p, i, &t.layer);
    t.ns = (double)l->forward_median_ns + (double)l->backward_median_ns;
    t.ideal_ns = each(l->forward_roof.of_peak * (double)l->forward.ns, &l->forward) +
                 each(l->backward_roof.of_peak * (double)l->backward.ns, &l->backward);
    return t;
}

/* Products come from no cache: what is faster than their peak was measured when that was lower. */
static double of_peak(const typical *t)
{
    const double share = t->ns > 0 ? t->ideal_ns / t->ns : 0;

    return t->layer.roof.bound == STK_PROFILE_BOUND_COMPUTE ? STK_MIN(share, 1.0) : share;
}

/* What it would take less at the peak; 0: nothing, or not known. */
static double lost_ns(const typical *t)
{
    return t->layer.roof.bound ? STK_MAX(t->ns - t->ideal_ns, 0.0) : 0;
}

/* Whether the numbers of channels or features that a layer gets and gives suit the machine. */
static bool suits(const stk_profile *p, size_t i)
{
    return p->layers[i].features % SUITS == 0 && (i == 0 || p->layers[i - 1].features % SUITS == 0);
}

static void say_compute(const stk_profile *p, const typical *t, stk__text *out)
{
    const bool groups = strncmp(t->layer.kind, "conv", 4) == 0;

    if (of_peak(t) >= NEAR_PEAK)
        stk__text_add(out, "that is what the machine can. What makes it faster: a smaller layer%s",
                      faster(p));
    else
        stk__text_add(out, "%s: more rows (batch_size)%s%s bring it nearer",
                      of_peak(t) >= FAR_BELOW ? "that is usual for layers of medium size"
                                              : "its shape does not suit the machine",
                      suits(p, t->at) ? "" : ", numbers of channels and features that 16 divides",
                      groups ? ", fewer groups" : "");
}

static void say_memory(const typical *t, stk__text *out)
{
    stk__text_add(out, "%s",
                  of_peak(t) > 1 ? "its bytes come from a cache: there is nothing to gain"
                  : of_peak(t) >= NEAR_PEAK
                      ? "that is as fast as its bytes come: a larger batch_size uses weights more "
                        "often, a layer without products is best left out or made smaller"
                  : of_peak(t) >= FAR_BELOW
                      ? "that is usual for layers of medium size: joined with others, or with more "
                        "rows (batch_size), it comes nearer"
                      : "it waits for neither products nor memory: its own arithmetic, or how "
                        "small or unusual its shape is, limits it");
}

static void say_most(const stk_profile *p, const typical *t, double sum_ns, stk__text *out)
{
    const stk_profile_layer *l = &t->layer;
    const double flops = each((double)l->forward.flops, &l->forward) +
                         each((double)l->backward.flops, &l->backward),
                 bytes = each((double)l->forward.bytes, &l->forward) +
                         each((double)l->backward.bytes, &l->backward);

    stk__text_add(out,
                  " Of all layers '%s' (%s) takes most: %.0f %% of their time, %.1f GFLOP/s, %.1f "
                  "GB/s",
                  l->name, l->kind, 100 * t->ns / sum_ns, flops / t->ns, bytes / t->ns);
    if (l->roof.bound) {
        stk__text_add(out, ", bound by %s, %.0f %% of the machine's peak; ",
                      stk_profile_bound_name(l->roof.bound), 100 * of_peak(t));
        if (l->roof.bound == STK_PROFILE_BOUND_COMPUTE)
            say_compute(p, t, out);
        else
            say_memory(t, out);
    }
    stk__text_add(out, ".");
}

/* The layer, or the loss, of the most time, and that of the most time that is lost. */
static void say_layers(const stk_profile *p, stk__text *out)
{
    typical most = {0}, loses = {0};
    double sum_ns = 0;

    /* The optimizer, the last, is no layer. */
    for (size_t i = 0; i + 1 < p->num_layers; i++) {
        const typical t = typical_of(p, i);
        sum_ns += t.ns;
        if (t.ns > most.ns)
            most = t;
        if (lost_ns(&t) > lost_ns(&loses))
            loses = t;
    }
    if (!(sum_ns > 0))
        return;
    say_most(p, &most, sum_ns, out);
    if (lost_ns(&loses) > LOSES * lost_ns(&most))
        stk__text_add(out,
                      " '%s' (%s) loses most: it reaches %.2g %% of the peak, and takes %.3g us a "
                      "batch instead of %.3g.",
                      loses.layer.name, loses.layer.kind, 100 * of_peak(&loses), loses.ns * 1e-3,
                      loses.ideal_ns * 1e-3);
}

void stk__profile_diagnose(const stk_profile *p, const char *config, stk_profile_summary *s)
{
    stk__text out = {.bytes = s->text, .room = sizeof s->text};

    stk__text_add(&out,
                  "A batch takes %.1f us (median of %" PRIu64
                  "; %.0f samples/s over all). Of the time: waiting for data %.1f %%, forward "
                  "%.1f %%, backward %.1f %%, the optimizer and all else %.1f %%.",
                  s->parts[STK_PROFILE_TOTAL].p50 * 1e6, s->batches, s->samples_per_s,
                  100 * s->share[STK_PROFILE_DATA], 100 * s->share[STK_PROFILE_FORWARD],
                  100 * s->share[STK_PROFILE_BACKWARD], 100 * s->share[STK_PROFILE_OTHER]);
    advise(p, s, config, &out);
    say_layers(p, &out);
}
