/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the layers of a model, as its probe tells them; its loss and its optimizer. */
#include <stdlib.h>

#include "base/sized.h"
#include "train/profilers/profiler.h"

static const char *const ways[] = {"forward", "backward"};

static void release_layer(stk_context *ctx, stk__profile_layer *layer)
{
    stk__free(ctx, layer->name);
    stk__free(ctx, layer->kind);
    stk__free(ctx, layer->owner);
}

static bool add_layer(stk_profile *p, const char *name, const char *kind, uint64_t features)
{
    const size_t i = p->num_layers;

    stk__profile_layer *list = stk__grow(p->ctx, p->layers, &p->layer_room, i + 1, sizeof *list);
    if (!list)
        return false;
    p->layers = list;
    list[i] = (stk__profile_layer){.name = stk__strdup(p->ctx, name),
                                   .kind = stk__strdup(p->ctx, kind),
                                   .features = features,
                                   .owner = stk__format(p->ctx, "[Layer]%s (%s)", name, kind)};
    if (!list[i].name || !list[i].kind || !list[i].owner) {
        release_layer(p->ctx, &list[i]);
        return false;
    }
    p->num_layers++;
    return true;
}

static void release_layers(stk_profile *p)
{
    for (size_t i = 0; i < p->num_layers; i++)
        release_layer(p->ctx, &p->layers[i]);
    stk__free(p->ctx, p->layers);
    p->layers = NULL;
    p->num_layers = p->layer_room = 0;
}

static void count(const stk_profile *p, stk__profile_counts *counts, uint64_t ns, uint64_t flops,
                  uint64_t bytes)
{
    if (!p->steady.counting) {
        counts->left_out++;
        return;
    }
    counts->recent[counts->pass.calls++ % STK__PROFILE_RECENT] = ns;
    counts->pass.ns += ns;
    counts->pass.flops += flops;
    counts->pass.bytes += bytes;
}

/* Between two passes of one call: the call is the trainer's action that is at work. */
static void on_pass(void *user, size_t number, bool backward, uint64_t start_ns, uint64_t end_ns,
                    uint64_t flops, uint64_t bytes)
{
    stk_profile *p = user;

    if (number >= p->num_layers)
        return;
    stk__profile_layer *layer = &p->layers[number];
    count(p, &layer->passes[backward], end_ns - start_ns, flops, bytes);
    const uint32_t call = stk__profile_add(p, layer->owner, ways[backward], start_ns, end_ns);
    if (!call)
        return;
    const uint32_t entry = p->calls[call].entry;
    p->entries[entry].layer = true;
    if (!(p->kinds & STK__PROFILE_TRACE))
        return;
    const stk__trace_event event = {.start_ns = start_ns,
                                    .end_ns = end_ns,
                                    .a = flops,
                                    .b = bytes,
                                    .kind = STK__TRACE_LAYER,
                                    .lane = entry};
    stk__trace_add(p, &event);
}

void stk__profile_optimizer(stk_profile *p, uint64_t ns)
{
    if (p->num_layers)
        count(p, &p->layers[p->num_layers - 1].passes[0], ns, 0, p->optimizer_bytes);
}

/* Channels come first in a picture, features last in all else. */
static uint64_t features_of(const stk_model_layer *layer)
{
    const uint32_t at = layer->rank == 3 ? 0 : layer->rank ? layer->rank - 1 : 0;

    return layer->rank ? (uint64_t)layer->shape[at] : 1;
}

static bool add_layers(stk_profile *p, const stk_model *model)
{
    stk_model_layer layer = {.struct_size = sizeof layer};
    bool good = true;

    while (good && stk_model_get_layer(model, p->num_layers, &layer))
        good = add_layer(p, layer.name, layer.kind, features_of(&layer));
    return good && add_layer(p, "loss", "loss", 0) && add_layer(p, "optimizer", "optimizer", 0);
}

void stk__profile_find_peaks(stk_profile *p)
{
    stk_error err;

    if (!p->options.machine_dir || p->num_layers == 0)
        return;
    if (!p->sought_peaks &&
        stk__peaks_find(p->ctx, p->options.machine_dir, &p->peaks_key, &p->peaks, &err) != STK_OK) {
        p->peaks = (stk__peaks){0};
        stk__message(p->ctx, STK_MESSAGE_WARNING, "a profile without a roofline: %s", err.text);
    }
    p->sought_peaks = true;
    for (size_t i = 0; i < 2 * p->num_layers && p->peaks.flops_per_s > 0; i++) {
        const stk_profile_pass *pass = &p->layers[i / 2].passes[i % 2].pass;
        if (pass->ns)
            p->peaks.flops_per_s =
                STK_MAX(p->peaks.flops_per_s, (double)pass->flops / (double)pass->ns * 1e9);
    }
}

void stk__profile_layers_watch(stk_profile *p)
{
    const stk_module *module = stk_trainer_moment(p->trainer)->module;
    stk_model *model = module ? stk_model_module_model(module) : NULL;
    stk_model_plan plan = {.struct_size = sizeof plan};

    if (model == p->model)
        return;
    p->model = model;
    if (!model)
        return;
    /* Now it is known on how many threads the model computes. */
    if (!p->peaks_key.version)
        stk__peaks_key_of(p->ctx, stk_trainer_get_options(p->trainer)->precision, &p->peaks_key);
    /* A module that is made anew for other batches has the same layers. */
    if (p->num_layers == 0 && !add_layers(p, model)) {
        release_layers(p);
        stk__profile_trouble(p, STK_ENOMEM, "no memory for the layers of a profile");
    }
    /* Weights are read and written, gradients read. */
    stk_model_get_plan(model, &plan);
    p->optimizer_bytes = 3 * plan.gradient_bytes;
    stk_model_set_probe(model, on_pass, p);
}

void stk__profile_layers_reset(stk_profile *p)
{
    for (size_t i = 0; i < p->num_layers; i++)
        memset(p->layers[i].passes, 0, sizeof p->layers[i].passes);
}

void stk__profile_layers_release(stk_profile *p)
{
    const stk_module *module = p->trainer ? stk_trainer_moment(p->trainer)->module : NULL;
    stk_model *model = p->model && module ? stk_model_module_model(module) : NULL;

    if (model && model == p->model)
        stk_model_set_probe(model, NULL, NULL);
    p->model = NULL;
    release_layers(p);
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Of the last calls, so that a few that were disturbed make no difference. */
static uint64_t median_of(const stk__profile_counts *counts)
{
    const size_t n = (size_t)STK_MIN(counts->pass.calls, (uint64_t)STK__PROFILE_RECENT);
    uint64_t sorted[STK__PROFILE_RECENT];

    if (n == 0)
        return 0;
    memcpy(sorted, counts->recent, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return sorted[n / 2];
}

const char *stk_profile_bound_name(int32_t bound)
{
    return bound == STK_PROFILE_BOUND_COMPUTE  ? "compute"
           : bound == STK_PROFILE_BOUND_MEMORY ? "memory"
                                               : "-";
}

/* Of forward, backward or both calls; each is bound by one of its own. */
static stk_profile_roof roof_of(const stk_profile *p, const stk_profile_pass *passes, size_t n)
{
    const double peak_flops = p->peaks.flops_per_s, peak_bytes = p->peaks.bytes_per_s;
    double compute = 0, memory = 0, ideal = 0, flops = 0, bytes = 0, took = 0;
    stk_profile_roof roof = {0};

    for (size_t i = 0; i < n; i++) {
        flops += (double)passes[i].flops;
        bytes += (double)passes[i].bytes;
        took += (double)passes[i].ns * 1e-9;
        if (!(peak_flops > 0) || !(peak_bytes > 0))
            continue;
        const double c = (double)passes[i].flops / peak_flops,
                     m = (double)passes[i].bytes / peak_bytes;
        compute += c > m ? c : 0;
        memory += c > m ? 0 : m;
        ideal += STK_MAX(c, m);
    }
    if (!(took > 0))
        return roof;
    roof.flops_per_s = flops / took;
    roof.bytes_per_s = bytes / took;
    roof.of_peak = ideal / took;
    if (ideal > 0)
        roof.bound = compute > memory ? STK_PROFILE_BOUND_COMPUTE : STK_PROFILE_BOUND_MEMORY;
    return roof;
}

bool stk_profile_get_layer(const stk_profile *p, size_t i, stk_profile_layer *out)
{
    const uint64_t whole = p->steady.ns[STK_PROFILE_TOTAL];

    if (i >= p->num_layers)
        return false;
    const stk__profile_layer *layer = &p->layers[i];
    const stk__profile_counts *f = &layer->passes[0], *b = &layer->passes[1];
    const stk_profile_layer found = {
        .struct_size = sizeof found,
        .name = layer->name,
        .kind = layer->kind,
        .forward = f->pass,
        .backward = b->pass,
        .forward_left_out = f->left_out,
        .backward_left_out = b->left_out,
        .forward_median_ns = median_of(f),
        .backward_median_ns = median_of(b),
        .share = whole ? (double)(f->pass.ns + b->pass.ns) / (double)whole : 0,
        .forward_roof = roof_of(p, &f->pass, 1),
        .backward_roof = roof_of(p, &b->pass, 1),
        .roof = roof_of(p, (const stk_profile_pass[]){f->pass, b->pass}, 2)};
    stk__sized_write(out, &found);
    return true;
}
