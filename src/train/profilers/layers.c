/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the layers of a model, as its probe tells them. */
#include "train/profilers/profiler.h"

static const char *const ways[] = {"forward", "backward"};

static void release_layer(stk_context *ctx, stk__profile_layer *layer)
{
    stk__free(ctx, layer->name);
    stk__free(ctx, layer->kind);
    stk__free(ctx, layer->owner);
}

static bool add_layer(stk_profile *p, const stk_model *model)
{
    const size_t i = p->num_layers;
    stk_model_layer from = {.struct_size = sizeof from};

    if (!stk_model_get_layer(model, i, &from))
        return false;
    stk__profile_layer *list = stk__realloc(p->ctx, p->layers, (i + 1) * sizeof *list);
    if (!list)
        return false;
    p->layers = list;
    list[i] =
        (stk__profile_layer){.name = stk__strdup(p->ctx, from.name),
                             .kind = stk__strdup(p->ctx, from.kind),
                             .owner = stk__format(p->ctx, "[Layer]%s (%s)", from.name, from.kind)};
    if (!list[i].name || !list[i].kind || !list[i].owner) {
        release_layer(p->ctx, &list[i]);
        return false;
    }
    p->num_layers++;
    return true;
}

/* Between two passes of one call: the call is the trainer's action that is at work. */
static void on_pass(void *user, size_t number, bool backward, uint64_t start_ns, uint64_t end_ns,
                    uint64_t flops, uint64_t bytes)
{
    stk_profile *p = user;

    if (number >= p->num_layers)
        return;
    stk__profile_layer *layer = &p->layers[number];
    stk_profile_pass *pass = &layer->passes[backward];
    pass->calls++;
    pass->ns += end_ns - start_ns;
    pass->flops += flops;
    pass->bytes += bytes;
    const uint32_t call = stk__profile_add(p, layer->owner, ways[backward], start_ns, end_ns);
    if (!call)
        return;
    const uint32_t entry = p->calls[call].entry;
    p->entries[entry].layer = (uint32_t)number;
    p->entries[entry].backward = backward;
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

void stk__profile_layers_watch(stk_profile *p)
{
    const stk_module *module = stk_trainer_moment(p->trainer)->module;
    stk_model *model = module ? stk_model_module_model(module) : NULL;

    if (model == p->model)
        return;
    p->model = model;
    if (!model)
        return;
    /* A module that is made anew for other batches has the same layers. */
    stk_model_layer layer = {.struct_size = sizeof layer};
    while (stk_model_get_layer(model, p->num_layers, &layer))
        if (!add_layer(p, model)) {
            stk__profile_trouble(p, STK_ENOMEM, "no memory for the layers of a profile");
            break;
        }
    stk_model_set_probe(model, on_pass, p);
}

void stk__profile_layers_release(stk_profile *p)
{
    const stk_module *module = p->trainer ? stk_trainer_moment(p->trainer)->module : NULL;
    stk_model *model = p->model && module ? stk_model_module_model(module) : NULL;

    if (model && model == p->model)
        stk_model_set_probe(model, NULL, NULL);
    p->model = NULL;
    for (size_t i = 0; i < p->num_layers; i++)
        release_layer(p->ctx, &p->layers[i]);
    stk__free(p->ctx, p->layers);
    p->layers = NULL;
    p->num_layers = 0;
}
