/* SPDX-License-Identifier: Apache-2.0 */
/* Models: options, parameters and their memory, what they need. */
#include <inttypes.h>

#include "base/sized.h"
#include "base/text.h"
#include "nn/dnnl.h"
#include "nn/kernels.h"
#include "nn/model.h"

#define OFFSET(member) offsetof(stk_model_options, member)

static const stk_option options[] = {
    {"layers", STK_OPTION_STRING, OFFSET(layers), NULL, 0, 0, NULL, "LAYERS",
     "The layers in PyTorch's words, or a known model: \"mlp(128, 64, 10)\"."},
    {"loss", STK_OPTION_ENUM, OFFSET(loss), "cross_entropy", 0, 0,
     "cross_entropy|mse|bce_with_logits|l1|huber|smooth_l1", NULL,
     "Loss; the mean over what counts of the batch."},
    {"delta", STK_OPTION_DOUBLE, OFFSET(delta), "1", 0, 1e30, NULL, NULL,
     "Where the parabola of huber ends; of smooth_l1 it is PyTorch's beta."},
    {"input_layout", STK_OPTION_ENUM, OFFSET(input_layout), "chw", 0, 0, "chw|hwc", NULL,
     "Layout of pictures in the batches."},
    {"label_smoothing", STK_OPTION_DOUBLE, OFFSET(label_smoothing), "0", 0, 1, NULL, NULL,
     "Share of the target that cross_entropy spreads over all classes."},
    {"ignore_index", STK_OPTION_INT, OFFSET(ignore_index), "-100", 0, 0, NULL, NULL,
     "Label that cross_entropy leaves out, of samples or of places of a mask."},
    {"top_k", STK_OPTION_UINT, OFFSET(top_k), "0", 0, 1000, NULL, "K",
     "Also report how often the label is among the K likeliest classes; 0: do not."},
    {"freeze", STK_OPTION_STRING, OFFSET(freeze), NULL, 0, 0, NULL, "PATTERNS",
     "Parameters that do not learn: \"conv1.*, layer1.*\"."},
};
const stk_option_table stk__model_option_table = {.name = "model",
                                                  .doc = "The model's computation",
                                                  .struct_size = sizeof(stk_model_options),
                                                  .options = options,
                                                  .count = STK_COUNT(options)};

static const struct {
    const char *name, *short_name;
} precisions[] = {[STK_PRECISION_32_TRUE] = {"32-true", "32"},
                  [STK_PRECISION_64_TRUE] = {"64-true", "64"},
                  [STK_PRECISION_BF16_MIXED] = {"bf16-mixed", "bf16"},
                  [STK_PRECISION_16_MIXED] = {"16-mixed", "16"}};

stk_precision stk_precision_of(const char *word)
{
    for (uint32_t i = 0; word && i < STK_COUNT(precisions); i++)
        if (strcmp(word, precisions[i].name) == 0 || strcmp(word, precisions[i].short_name) == 0)
            return (stk_precision)i;
    return STK_PRECISION_32_TRUE;
}

const char *stk_precision_name(int32_t precision)
{
    return precisions[precision > 0 && precision < (int32_t)STK_COUNT(precisions) ? precision : 0]
        .name;
}

static void place_params(struct stk_model *m)
{
    stk__graph *g = &m->graph;

    for (uint32_t i = 0; i < g->num_params; i++) {
        stk__param *p = &g->params[i];
        uint32_t size = p->role == STK__NUM_BATCHES ? sizeof(int64_t) : m->backend->itemsize;
        p->offset = m->weight_bytes;
        m->weight_bytes += stk__round_up(p->count * size, STK_CACHE_LINE);
        if (p->role <= STK__BIAS)
            m->summary.parameters += p->count;
    }
}

/* FLOPs of a step: a layer's backward pass costs its forward pass for each gradient it makes. */
static void count_flops(struct stk_model *m, const stk__plan *plan)
{
    m->summary.forward_flops = m->summary.step_flops = 0;
    for (uint32_t i = 1; i < m->graph.num_nodes; i++) {
        const stk__plan_step *step = &plan->steps[i];
        uint64_t flops = step->node->flops, passes = 1;
        if (step->backward)
            passes += (step->flow[0] != STK__FLOW_NONE) + stk__learns(m, step->node, STK__WEIGHT);
        m->summary.forward_flops += flops;
        m->summary.step_flops += flops * passes;
    }
}

static stk_status choose_backend(struct stk_model *m, stk_error *err)
{
    if (m->options.precision == STK_PRECISION_16_MIXED)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "precision 16-mixed is not for a CPU: use bf16-mixed");
    if (m->options.precision == STK_PRECISION_64_TRUE) {
        m->backend = &stk__backend_reference;
        m->kernels = &stk__nn_kernels_double;
        return STK_OK;
    }
#ifdef STK_WITH_ONEDNN
    m->backend = &stk__backend_cpu;
    m->kernels = stk__nn_kernels_of(m->graph.context);
    m->bf16 = m->options.precision == STK_PRECISION_BF16_MIXED;
    m->bf16_native = m->bf16 && stk__dnnl_has_bf16();
    if (m->bf16 && !m->bf16_native)
        stk__message(m->graph.context, STK_MESSAGE_WARNING,
                     "bf16-mixed: this processor has no bfloat16 (AVX512_BF16); values are rounded "
                     "alike and computed in float32, which is slower than 32-true");
    return stk__dnnl_create(m->graph.context, &m->dnnl, err);
#else
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                     "stoker was built without oneDNN: build it with -DSTOKER_WITH_ONEDNN=ON "
                     "(libdnnl-dev), or use precision 64-true (plain C, slow)");
#endif
}

static stk_status check(const struct stk_model *m, stk_error *err)
{
    const stk_model_options *o = &m->options;
    const stk__node *last = &m->graph.nodes[m->graph.num_nodes - 1];
    bool classes = o->loss == STK_LOSS_CROSS_ENTROPY;

    if (m->graph.num_nodes == 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS, "the model has no layers");
    if (!classes && (o->label_smoothing != 0 || o->top_k != 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "%s has an effect with loss cross_entropy only",
                         o->top_k ? "top_k" : "label_smoothing");
    if (o->delta != 1 && o->loss != STK_LOSS_HUBER && o->loss != STK_LOSS_SMOOTH_L1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "delta has an effect with loss huber or smooth_l1 only");
    if (!(o->delta > 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "delta is greater than 0: without a parabola the loss is l1");
    if (o->top_k > (uint64_t)last->shape[0] && classes)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "top_k is %llu, but '%s' gives %lld classes", (unsigned long long)o->top_k,
                         last->name, (long long)last->shape[0]);
    if (o->batch_size < 1 || o->batch_size > 1 << 24 || o->eval_batch_size > 1 << 24)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS, "batch_size is from 1 to %d", 1 << 24);
    return STK_OK;
}

static stk_status check_device(const stk_device *device, stk_error *err)
{
    if (!device || stk__device_is_host(device))
        return STK_OK;
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                     "the layers of a model are computed on the processor, which cannot reach "
                     "the memory of the device '%s': use accelerator cpu",
                     device->ops->name);
}

/* A thread more has to have this much of a step for itself, some milliseconds, or waking it and
 * waiting for it costs more than it gives. */
#define FLOPS_OF_A_THREAD 2e8

/* Training and evaluation each have their own, so that an evaluation adds up in the same order
 * whatever the training was. */
static void choose_threads(struct stk_model *m)
{
    const double rows[2] = {(double)m->options.eval_batch_size,
                            3 * (double)m->options.batch_size}; /* backward: two products more */
    double flops = 0;
    bool chosen = false;

    for (uint32_t i = 1; i < m->graph.num_nodes; i++)
        flops += (double)m->graph.nodes[i].flops;
    for (int training = 0; training < 2; training++) {
        const double wanted = STK_MIN(flops * rows[training] / FLOPS_OF_A_THREAD, UINT32_MAX);
        m->threads_of[training] =
            m->options.threads > 0
                ? (uint32_t)m->options.threads
                : stk__context_model_threads(m->graph.context, (uint32_t)wanted, &chosen);
    }
    if (chosen && m->threads_of[true] > 1)
        stk__message(m->graph.context, STK_MESSAGE_INFO,
                     "The model computes on %" PRIu32
                     " threads (compute_threads sets another number).",
                     m->threads_of[true]);
}

static stk_status first_plan(struct stk_model *m, uint64_t rows, bool training, stk__plan **out,
                             stk_error *err)
{
    m->threads = m->threads_of[training];
    const stk__compute before = stk__compute_begin(m->threads);
    const stk_status status = stk__model_plan(m, (uint32_t)rows, training, out, err);
    stk__compute_end(&before);
    return status;
}

stk_status stk__model_plans(struct stk_model *m, stk_error *err)
{
    stk__plan *plan;

    STK_TRY(first_plan(m, m->options.batch_size, true, &plan, err));
    m->summary.train_bytes = plan->bytes;
    count_flops(m, plan);
    STK_TRY(first_plan(m, m->options.eval_batch_size, false, &plan, err));
    m->summary.eval_bytes = plan->bytes;
    m->summary.parameter_bytes = m->weight_bytes;
    m->summary.gradient_bytes = m->gradient_bytes;
    m->summary.peak_bytes = m->weight_bytes + m->gradient_bytes +
                            STK_MAX(m->summary.train_bytes, m->summary.eval_bytes);
    return STK_OK;
}

static stk_status build(struct stk_model *m, stk_error *err)
{
    stk_model_options *o = &m->options;
    stk__node *output;

    STK_TRY(check(m, err));
    STK_TRY(check_device(o->device, err));
    STK_TRY(choose_backend(m, err));
    STK_TRY(stk__model_freeze(m, o->freeze, err));
    o->freeze = NULL; /* the caller's text */
    const stk__node last = m->graph.nodes[m->graph.num_nodes - 1];
    STK_TRY(stk__graph_add_node(&m->graph, STK__OUTPUT, "(output)", &output, err));
    output->rank = last.rank;
    memcpy(output->shape, last.shape, sizeof output->shape);
    if (o->eval_batch_size == 0)
        o->eval_batch_size = o->batch_size;
    choose_threads(m);
    place_params(m);
    stk__gradients_place(m);
    return stk__model_plans(m, err);
}

stk_status stk_model_create(const stk_model_builder *builder, const stk_model_options *given,
                            stk_model **out, stk_error *err)
{
    stk_context *ctx = builder->graph.context;
    stk_model_options o;

    *out = NULL;
    STK_TRY(stk__context_check(ctx, err));
    stk_model_options_init(&o);
    if (given)
        STK_TRY(stk__sized_read(&o, sizeof o, given, "stk_model_options", STK_STAGE_TRAIN, err));
    struct stk_model *m = stk__calloc(ctx, 1, sizeof *m);
    if (!m)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a model");
    m->options = o;
    stk_status status = stk__graph_copy(&builder->graph, &m->graph, err);
    if (status == STK_OK)
        status = build(m, err);
    if (status != STK_OK)
        stk_model_destroy(&m);
    *out = m;
    return status;
}

void stk_model_destroy(stk_model **model)
{
    struct stk_model *m = *model;

    if (!m)
        return;
    if (stk__context_forked(m->graph.context)) {
        *model = NULL;
        return;
    }
    stk_context *ctx = stk__context_ref(m->graph.context);
    for (size_t i = 0; m->backend && i < STK__MAX_PLANS; i++)
        stk__plan_destroy(&m->plans[i]);
#ifdef STK_WITH_ONEDNN
    stk__dnnl_destroy(ctx, &m->dnnl);
#endif
    stk__free(ctx, m->weights);
    stk__free(ctx, m->gradients);
    stk__free(ctx, m->arena);
    stk__graph_release(&m->graph);
    stk__free(ctx, m);
    stk__context_unref(ctx);
    *model = NULL;
}

void stk_model_get_plan(const stk_model *model, stk_model_plan *out)
{
    stk_model_plan plan = model->summary;

    plan.struct_size = sizeof plan;
    stk__sized_write(out, &plan);
}

bool stk_model_get_layer(const stk_model *model, size_t i, stk_model_layer *out)
{
    const stk__graph *g = &model->graph;

    if (i + 2 >= g->num_nodes)
        return false;
    const stk__node *node = &g->nodes[i + 1];
    stk_model_layer layer = {.struct_size = sizeof layer,
                             .name = node->name,
                             .kind = stk__node_kind(node),
                             .rank = node->rank,
                             .forward_flops = node->flops,
                             .fused = model->plans[0] && model->plans[0]->steps[i + 1].absent};
    memcpy(layer.shape, node->shape, node->rank * sizeof *node->shape);
    for (uint32_t k = 0; k < node->num_params; k++) {
        const stk__param *p = &g->params[node->first_param + k];
        layer.parameters += p->role <= STK__BIAS ? p->count : 0;
        layer.trainable += p->trainable ? p->count : 0;
    }
    stk__sized_write(out, &layer);
    return true;
}

const char *stk__model_text(const stk_model *m, char input[STK__INPUT_TEXT])
{
    const stk__node *node = &m->graph.nodes[0];
    stk__text text = {.bytes = input, .room = STK__INPUT_TEXT};

    for (uint32_t i = 0; i < node->rank; i++)
        stk__text_add(&text, "%s%lld", i ? "x" : "", (long long)node->shape[i]);
    return m->graph.text ? m->graph.text : "";
}

stk_status stk__model_need(stk_model *m, bool gradients, stk_error *err)
{
    stk_context *ctx = m->graph.context;
    uint64_t arena = STK_MAX(m->summary.train_bytes, m->summary.eval_bytes);

    if (!m->arena) {
        m->arena = stk__alloc_buffer(ctx, STK_MAX(arena, 1u));
        m->arena_bytes = m->arena ? arena : 0;
    }
    if (gradients && !m->gradients) {
        m->gradients = stk__alloc_buffer(ctx, STK_MAX(m->gradient_bytes, 1u));
        /* Of what the loss does not depend on no pass writes any. */
        if (m->gradients)
            memset(m->gradients, 0, m->gradient_bytes);
    }
    if (!m->weights && m->arena) {
        m->weights = stk__alloc_buffer(ctx, STK_MAX(m->weight_bytes, 1u));
        if (m->weights)
            stk__model_init_weights(m);
    }
    if (m->weights && (m->gradients || !gradients))
        return STK_OK;
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                     "no memory for the model: it needs %llu bytes",
                     (unsigned long long)m->summary.peak_bytes);
}

void stk_model_set_probe(stk_model *model, stk_model_probe_fn *probe, void *user)
{
    model->probe = probe;
    model->probe_user = user;
}
