/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A description and its weights -> an ONNX model, onnx.proto of https://github.com/onnx/onnx, with
 * operators of version 17 of its default domain. Everything but the numbers of the weights is small
 * and is made in memory; they are written from where they are. Fields come in the order of their
 * numbers, as protobuf's own writers have it.
 */
#include <math.h>
#include <stdio.h>

#include "base/proto.h"
#include "nn/layers.h"

enum { IR_VERSION = 8, OPSET_VERSION = 17 };

/* Numbers of fields and kinds, of onnx.proto. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_NUMBER = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_INTS = 8 };
enum { ATTRIBUTE_TYPE = 20, TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_DTYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, DTYPE_FLOAT = 1 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

#define NAME   (STK__MAX_NODE_NAME + 64) /* of a value, an operation or an initializer */
#define PIECE  1024                      /* numbers that are brought into float at a time */
#define PLACES 4                         /* constants of one layer at most */

/* Numbers of the file: of a tensor, or one value again and again. */
typedef struct numbers {
    const void *data; /* NULL: `fill` */
    stk_dtype dtype;
    uint64_t count;
    float fill;
    size_t head_end; /* in `heads` */
} numbers;

typedef struct onnx {
    const stk__graph *graph;
    const stk_state_tensor **fits; /* of each parameter */
    stk__bytes part;               /* being made; in the end what comes before the graph */
    stk__bytes body;               /* of the graph, before its initializers */
    stk__bytes heads;              /* of the initializers, each to be followed by its numbers */
    stk__bytes tail;               /* behind the initializers */
    numbers *list;
    size_t num_list;
    uint64_t data_bytes;
    bool good; /* false: no memory */
} onnx;

/* ---- Names ----------------------------------------------------------------------------------- */

/* The node whose value this is: dropout is none in an evaluation. */
static uint32_t source_of(const onnx *o, uint32_t i)
{
    while (o->graph->nodes[i].kind == STK__DROPOUT)
        i = o->graph->nodes[i].inputs[0];
    return i;
}

/* Name of the value that node `i` gives. */
static const char *value_name(const onnx *o, uint32_t i, char name[NAME])
{
    const uint32_t from = source_of(o, i), last = source_of(o, o->graph->num_nodes - 1);

    if (from == 0)
        return "input";
    if (from == last)
        return "output";
    snprintf(name, NAME, "/%s/output", o->graph->nodes[from].name);
    return name;
}

/* ---- Initializers ---------------------------------------------------------------------------- */

/* Announce numbers under a name; they come behind the graph's body. */
static void put_numbers(onnx *o, const char *name, const int64_t *shape, uint32_t rank, numbers n)
{
    stk__bytes *part = &o->part;

    part->length = 0;
    n.count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        n.count *= (uint64_t)shape[i];
        o->good = o->good && stk__proto_number(part, TENSOR_DIMS, (uint64_t)shape[i]);
    }
    const uint64_t bytes = n.count * sizeof(float);
    o->good = o->good && stk__proto_number(part, TENSOR_DTYPE, DTYPE_FLOAT) &&
              stk__proto_text(part, TENSOR_NAME, name) &&
              stk__proto_head(part, TENSOR_RAW, bytes) &&
              stk__proto_head(&o->heads, GRAPH_INITIALIZER, part->length + bytes) &&
              stk__bytes_put(&o->heads, part->data, part->length);
    n.head_end = o->heads.length;
    o->list[o->num_list++] = n;
    /* The weights are there: their bytes are far from the largest number. */
    o->data_bytes += bytes;
}

/* A constant of a node, the same number everywhere. */
static const char *constant(onnx *o, const stk__node *node, const char *what, float value,
                            const int64_t *shape, uint32_t rank, char name[NAME])
{
    snprintf(name, NAME, "/%s/%s", node->name, what);
    put_numbers(o, name, shape, rank, (numbers){.fill = value});
    return name;
}

/* A parameter of a node under its own name; NULL: it has none. */
static const char *parameter(onnx *o, const stk__node *node, stk__role role)
{
    for (uint32_t i = 0; i < node->num_params; i++) {
        const stk__param *p = &o->graph->params[node->first_param + i];
        const stk_state_tensor *t = o->fits[node->first_param + i];
        if (p->role != role)
            continue;
        put_numbers(o, p->name, p->shape, p->rank, (numbers){.data = t->data, .dtype = t->dtype});
        return p->name;
    }
    return NULL;
}

/* The weight or bias of a norm, which may have been made without. */
static const char *norm_parameter(onnx *o, const stk__node *node, stk__role role,
                                  const int64_t *shape, uint32_t rank, char name[NAME])
{
    const char *own = parameter(o, node, role);

    if (own)
        return own;
    return role == STK__WEIGHT ? constant(o, node, "ones", 1, shape, rank, name)
                               : constant(o, node, "zeros", 0, shape, rank, name);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Begin an operation of a layer, of up to `n` inputs; those that are NULL are left out. */
static size_t begin(onnx *o, const stk__node *node, const char *op, const char *part,
                    const char *const *inputs, size_t n, const char *output)
{
    char name[NAME];
    stk__bytes *to = &o->body;

    snprintf(name, sizeof name, "/%s/%s", node->name, part);
    const size_t begun = stk__proto_begin(to, GRAPH_NODE);
    o->good = o->good && begun;
    for (size_t i = 0; i < n; i++)
        if (inputs[i])
            o->good = o->good && stk__proto_text(to, NODE_INPUT, inputs[i]);
    o->good = o->good && stk__proto_text(to, NODE_OUTPUT, output) &&
              stk__proto_text(to, NODE_NAME, name) && stk__proto_text(to, NODE_OP, op);
    return begun;
}

static void end(onnx *o, size_t begun)
{
    o->good = o->good && stk__proto_end(&o->body, begun);
}

static void put_int(onnx *o, const char *name, int64_t value)
{
    stk__bytes *to = &o->body;
    const size_t begun = stk__proto_begin(to, NODE_ATTRIBUTE);

    o->good = o->good && stk__proto_text(to, ATTRIBUTE_NAME, name) &&
              stk__proto_number(to, ATTRIBUTE_I, (uint64_t)value) &&
              stk__proto_number(to, ATTRIBUTE_TYPE, TYPE_INT) && stk__proto_end(to, begun);
}

static void put_float(onnx *o, const char *name, double value)
{
    stk__bytes *to = &o->body;
    const size_t begun = stk__proto_begin(to, NODE_ATTRIBUTE);

    o->good = o->good && stk__proto_text(to, ATTRIBUTE_NAME, name) &&
              stk__proto_float(to, ATTRIBUTE_F, (float)value) &&
              stk__proto_number(to, ATTRIBUTE_TYPE, TYPE_FLOAT) && stk__proto_end(to, begun);
}

static void put_ints(onnx *o, const char *name, const int64_t *values, size_t n)
{
    stk__bytes *to = &o->body;
    const size_t begun = stk__proto_begin(to, NODE_ATTRIBUTE);

    o->good = o->good && stk__proto_text(to, ATTRIBUTE_NAME, name);
    for (size_t i = 0; i < n; i++)
        o->good = o->good && stk__proto_number(to, ATTRIBUTE_INTS, (uint64_t)values[i]);
    o->good =
        o->good && stk__proto_number(to, ATTRIBUTE_TYPE, TYPE_INTS) && stk__proto_end(to, begun);
}

/* The window of a convolution or pool. */
static void put_window(onnx *o, const stk__node *node)
{
    const int64_t pads[] = {node->padding[0], node->padding[1], node->padding[0], node->padding[1]};

    put_ints(o, "kernel_shape", node->kernel, 2);
    put_ints(o, "pads", pads, 4);
    put_ints(o, "strides", node->stride, 2);
}

/* Operations one after another that make a layer; each takes the value of the one before. */
typedef struct chain {
    onnx *o;
    const stk__node *node;
    const char *output; /* of the last one */
    char at[NAME];
    unsigned count;
} chain;

/* The next one, with a second input or NULL. */
static void then(chain *c, const char *op, const char *other, bool last)
{
    const char *const inputs[] = {c->at, other};
    char part[32], output[NAME];

    snprintf(part, sizeof part, "%s_%u", op, c->count++);
    snprintf(output, sizeof output, "/%s/%s_output", c->node->name, part);
    end(c->o, begin(c->o, c->node, op, part, inputs, 2, last ? c->output : output));
    snprintf(c->at, sizeof c->at, "%s", output);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static void put_linear(onnx *o, const stk__node *node, const char *x, const char *y)
{
    const int64_t turned[] = {1, 0};
    const char *weight = parameter(o, node, STK__WEIGHT), *bias = parameter(o, node, STK__BIAS);
    const char *const inputs[] = {x, weight, bias};
    chain c = {.o = o, .node = node, .output = y};
    char transposed[NAME];

    if (node->rank == 1) {
        const size_t begun = begin(o, node, "Gemm", "Gemm", inputs, 3, y);
        put_int(o, "transB", 1);
        end(o, begun);
        return;
    }
    snprintf(transposed, sizeof transposed, "/%s/Transpose_output", node->name);
    const size_t begun = begin(o, node, "Transpose", "Transpose", &weight, 1, transposed);
    put_ints(o, "perm", turned, 2);
    end(o, begun);
    snprintf(c.at, sizeof c.at, "%s", x);
    then(&c, "MatMul", transposed, !bias);
    if (bias)
        then(&c, "Add", bias, true);
}

static void put_conv2d(onnx *o, const stk__node *node, const char *x, const char *y)
{
    const char *weight = parameter(o, node, STK__WEIGHT), *bias = parameter(o, node, STK__BIAS);
    const char *const inputs[] = {x, weight, bias};
    const size_t begun = begin(o, node, "Conv", "Conv", inputs, 3, y);

    put_window(o, node);
    put_ints(o, "dilations", node->dilation, 2);
    put_int(o, "group", node->groups);
    end(o, begun);
}

static void put_batch_norm2d(onnx *o, const stk__node *node, const char *x, const char *y)
{
    char names[2][NAME];
    const char *weight = norm_parameter(o, node, STK__WEIGHT, &node->in, 1, names[0]);
    const char *bias = norm_parameter(o, node, STK__BIAS, &node->in, 1, names[1]);
    const char *mean = parameter(o, node, STK__RUNNING_MEAN);
    const char *var = parameter(o, node, STK__RUNNING_VAR);
    const char *const inputs[] = {x, weight, bias, mean, var};
    const size_t begun = begin(o, node, "BatchNormalization", "BatchNormalization", inputs, 5, y);

    put_float(o, "epsilon", node->eps);
    end(o, begun);
}

static void put_layer_norm(onnx *o, const stk__node *node, const char *x, const char *y)
{
    const uint32_t dims = (uint32_t)node->kernel[0];
    const int64_t *shape = node->shape + node->rank - dims;
    char name[NAME];
    const char *weight = norm_parameter(o, node, STK__WEIGHT, shape, dims, name);
    const char *bias = parameter(o, node, STK__BIAS);
    const char *const inputs[] = {x, weight, bias};
    const size_t begun = begin(o, node, "LayerNormalization", "LayerNormalization", inputs, 3, y);

    put_int(o, "axis", -(int64_t)dims);
    put_float(o, "epsilon", node->eps);
    end(o, begun);
}

/* Gelu is an operator since version 20 alone: here it is what that one stands for. */
static void put_gelu(onnx *o, const stk__node *node, const char *x, const char *y)
{
    char names[PLACES][NAME];
    const char *one = constant(o, node, "one", 1, NULL, 0, names[0]);
    const char *half = constant(o, node, "half", 0.5f, NULL, 0, names[1]);
    const char *scale = constant(
        o, node, "scale", (float)(node->tanh ? sqrt(2 / acos(-1)) : sqrt(0.5)), NULL, 0, names[2]);
    chain c = {.o = o, .node = node, .output = y};

    snprintf(c.at, sizeof c.at, "%s", x);
    if (node->tanh) {
        const char *cubed = constant(o, node, "cubed", 0.044715f, NULL, 0, names[3]);
        then(&c, "Mul", x, false);
        then(&c, "Mul", x, false);
        then(&c, "Mul", cubed, false);
        then(&c, "Add", x, false);
    }
    then(&c, "Mul", scale, false);
    then(&c, node->tanh ? "Tanh" : "Erf", NULL, false);
    then(&c, "Add", one, false);
    then(&c, "Mul", x, false);
    then(&c, "Mul", half, true);
}

static void put_silu(onnx *o, const stk__node *node, const char *x, const char *y)
{
    chain c = {.o = o, .node = node, .output = y};

    snprintf(c.at, sizeof c.at, "%s", x);
    then(&c, "Sigmoid", NULL, false);
    then(&c, "Mul", x, true);
}

static void put_pool(onnx *o, const stk__node *node, const char *x, const char *y)
{
    const char *op = node->kind == STK__MAX_POOL2D ? "MaxPool" : "AveragePool";
    const size_t begun = begin(o, node, op, op, &x, 1, y);

    put_window(o, node);
    if (node->kind == STK__AVG_POOL2D)
        put_int(o, "count_include_pad", node->padded);
    end(o, begun);
}

/* An operation without attributes. */
static void put_plain(onnx *o, const stk__node *node, const char *op, const char *x,
                      const char *other, const char *y)
{
    const char *const inputs[] = {x, other};

    end(o, begin(o, node, op, op, inputs, 2, y));
}

static stk_status put_layer(onnx *o, const stk__node *node, const char *x, const char *other,
                            const char *y, stk_error *err)
{
    switch (node->kind) {
    case STK__LINEAR:
        put_linear(o, node, x, y);
        return STK_OK;
    case STK__CONV2D:
        put_conv2d(o, node, x, y);
        return STK_OK;
    case STK__BATCH_NORM2D:
        put_batch_norm2d(o, node, x, y);
        return STK_OK;
    case STK__LAYER_NORM:
        put_layer_norm(o, node, x, y);
        return STK_OK;
    case STK__GELU:
        put_gelu(o, node, x, y);
        return STK_OK;
    case STK__SILU:
        put_silu(o, node, x, y);
        return STK_OK;
    case STK__MAX_POOL2D:
    case STK__AVG_POOL2D:
        put_pool(o, node, x, y);
        return STK_OK;
    case STK__RELU:
        put_plain(o, node, "Relu", x, NULL, y);
        return STK_OK;
    case STK__GLOBAL_AVG_POOL2D:
        put_plain(o, node, "GlobalAveragePool", x, NULL, y);
        return STK_OK;
    case STK__FLATTEN:
        put_plain(o, node, "Flatten", x, NULL, y);
        return STK_OK;
    case STK__ADD:
        put_plain(o, node, "Add", x, other, y);
        return STK_OK;
    default:
        return stk__fail(
            err, STK_ENOTSUP, STK_STAGE_TRAIN,
            "layer '%s' (%s) is a plug-in's, for which ONNX has no operator: write the "
            "weights as .safetensors, or leave the layer out",
            node->name, stk__node_kind(node));
    }
}

/* ---- The model ------------------------------------------------------------------------------- */

/* "input" or "output": rows of a node's shape, in any number. */
static void put_value(onnx *o, unsigned field, const char *name, const stk__node *node)
{
    stk__bytes *to = &o->tail;
    const size_t value = stk__proto_begin(to, field);

    o->good = o->good && value && stk__proto_text(to, VALUE_NAME, name);
    const size_t type = stk__proto_begin(to, VALUE_TYPE),
                 tensor = stk__proto_begin(to, TYPE_TENSOR);
    o->good = o->good && type && tensor && stk__proto_number(to, TENSOR_ELEMENT, DTYPE_FLOAT);
    const size_t shape = stk__proto_begin(to, TENSOR_SHAPE), rows = stk__proto_begin(to, SHAPE_DIM);
    o->good =
        o->good && shape && rows && stk__proto_text(to, DIM_PARAM, "N") && stk__proto_end(to, rows);
    for (uint32_t i = 0; i < node->rank; i++) {
        const size_t side = stk__proto_begin(to, SHAPE_DIM);
        o->good = o->good && stk__proto_number(to, DIM_VALUE, (uint64_t)node->shape[i]) &&
                  stk__proto_end(to, side);
    }
    o->good = o->good && stk__proto_end(to, shape) && stk__proto_end(to, tensor) &&
              stk__proto_end(to, type) && stk__proto_end(to, value);
}

static stk_status put_graph(onnx *o, stk_error *err)
{
    const stk__graph *g = o->graph;
    char names[3][NAME];

    for (uint32_t i = 1; i < g->num_nodes; i++) {
        const stk__node *node = &g->nodes[i];
        if (node->kind == STK__DROPOUT)
            continue;
        STK_TRY(put_layer(o, node, value_name(o, node->inputs[0], names[0]),
                          node->num_inputs > 1 ? value_name(o, node->inputs[1], names[1]) : NULL,
                          value_name(o, i, names[2]), err));
    }
    /* Nothing but dropouts. */
    if (source_of(o, g->num_nodes - 1) == 0)
        put_plain(o, &g->nodes[g->num_nodes - 1], "Identity", "input", NULL, "output");
    o->good = o->good && stk__proto_text(&o->body, GRAPH_NAME, "model");
    put_value(o, GRAPH_INPUT, "input", &g->nodes[0]);
    put_value(o, GRAPH_OUTPUT, "output", &g->nodes[g->num_nodes - 1]);
    return STK_OK;
}

/* What comes before and behind the graph. */
static stk_status put_model(onnx *o, stk_error *err)
{
    const uint64_t bytes = o->body.length + o->heads.length + o->data_bytes + o->tail.length;
    stk__bytes *to = &o->part, *tail = &o->tail;

    to->length = 0;
    o->good = o->good && stk__proto_number(to, MODEL_IR, IR_VERSION) &&
              stk__proto_text(to, MODEL_PRODUCER, "stoker") &&
              stk__proto_head(to, MODEL_GRAPH, bytes);
    const size_t opset = stk__proto_begin(tail, MODEL_OPSET);
    o->good = o->good && stk__proto_text(tail, OPSET_DOMAIN, "") &&
              stk__proto_number(tail, OPSET_NUMBER, OPSET_VERSION) && stk__proto_end(tail, opset);
    if (!o->good)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an ONNX model");
    if (bytes > STK__PROTO_MOST - to->length - tail->length)
        return stk__fail(
            err, STK_ELIMIT, STK_STAGE_TRAIN,
            "the ONNX model would have %llu bytes, and its readers take 2 GiB at most: "
            "write the weights as .safetensors",
            (unsigned long long)bytes);
    return STK_OK;
}

static stk_status write_numbers(const numbers *n, stk__write_fn *write, void *user, stk_error *err)
{
    float piece[PIECE];

    if (n->data && n->dtype == STK_FLOAT32)
        return n->count ? write(user, n->data, n->count * sizeof *piece, err) : STK_OK;
    for (uint64_t at = 0, k; at < n->count; at += k) {
        k = STK_MIN(n->count - at, (uint64_t)PIECE);
        for (uint64_t i = 0; i < k; i++)
            piece[i] = n->fill;
        if (n->data)
            stk__elements_to(piece, STK_FLOAT32,
                             (const char *)n->data + at * stk_dtype_size(n->dtype), n->dtype, k);
        STK_TRY(write(user, piece, k * sizeof *piece, err));
    }
    return STK_OK;
}

static stk_status write_all(const onnx *o, stk__write_fn *write, void *user, stk_error *err)
{
    size_t at = 0;

    STK_TRY(write(user, o->part.data, o->part.length, err));
    STK_TRY(write(user, o->body.data, o->body.length, err));
    for (size_t i = 0; i < o->num_list; i++) {
        STK_TRY(write(user, o->heads.data + at, o->list[i].head_end - at, err));
        STK_TRY(write_numbers(&o->list[i], write, user, err));
        at = o->list[i].head_end;
    }
    return write(user, o->tail.data, o->tail.length, err);
}

stk_status stk__onnx_write(const stk_model_builder *builder, const stk_state_tensor *tensors,
                           size_t n, stk__write_fn *write, void *user, size_t *written,
                           stk_error *err)
{
    const stk__graph *g = &builder->graph;
    stk_context *ctx = g->context;
    onnx o = {.graph = g,
              .part.ctx = ctx,
              .body.ctx = ctx,
              .heads.ctx = ctx,
              .tail.ctx = ctx,
              .good = true};
    size_t count;

    o.fits = stk__calloc(ctx, (uint64_t)g->num_params + 1, sizeof *o.fits);
    o.list =
        stk__calloc(ctx, (uint64_t)g->num_params + (uint64_t)PLACES * g->num_nodes, sizeof *o.list);
    stk_status status = STK_ENOMEM;
    if (!o.fits || !o.list)
        stk__fail(err, status, STK_STAGE_TRAIN, "no memory for an ONNX model");
    else
        status =
            stk__weights_match(g, STK_FLOAT32, tensors, n, true,
                               "give the layers that they are of (--layers)", o.fits, &count, err);
    if (status == STK_OK)
        status = put_graph(&o, err);
    if (status == STK_OK)
        status = put_model(&o, err);
    if (status == STK_OK)
        status = write_all(&o, write, user, err);
    *written = o.num_list;
    stk__bytes_release(&o.body);
    stk__bytes_release(&o.heads);
    stk__bytes_release(&o.part);
    stk__bytes_release(&o.tail);
    stk__free(ctx, o.fits);
    stk__free(ctx, o.list);
    return status;
}
