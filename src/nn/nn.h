/* batch, parameters -> loss, gradients */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_NN_H
#define STK_SRC_NN_NN_H

#include <signal.h>

#include <stoker/model.h>

#include "base/base.h"
#include "nn/text.h"

#define STK__MAX_NODES     4096
#define STK__MAX_NODE_NAME 128
#define STK__NODE_RANK     3                  /* of a value, without the batch */
#define STK__MAX_SIDE      (INT64_C(1) << 24) /* of anything a layer is asked for */

/* The drivers of layers, NULL-ended (layers.c). */
extern const void *const stk__layers[];

/* ---- The description: nodes in the order of computation (builder.c, layers.c) ---- */

typedef enum stk__kind {
    STK__INPUT, /* node 0: the batch, brought into the plan's own layout */
    STK__LINEAR,
    STK__CONV2D,
    STK__BATCH_NORM2D,
    STK__LAYER_NORM,
    STK__RELU,
    STK__GELU,
    STK__SILU,
    STK__DROPOUT,
    STK__MAX_POOL2D,
    STK__AVG_POOL2D,
    STK__GLOBAL_AVG_POOL2D,
    STK__FLATTEN,
    STK__ADD,
    STK__OUTPUT, /* the last node: the result in the caller's layout */
    STK__KIND_COUNT
} stk__kind;

/* One layer, its arguments resolved and its output's shape known. */
typedef struct stk__node {
    stk__kind kind;
    char name[STK__MAX_NODE_NAME];
    uint32_t inputs[2], num_inputs; /* numbers of nodes */
    uint32_t rank;
    int64_t shape[STK__NODE_RANK]; /* of one row of the output */
    int64_t in, out;               /* features or channels */
    int64_t kernel[2], stride[2], padding[2], dilation[2], groups;
    bool bias;    /* of norms: weight and bias */
    bool tanh;    /* of gelu: the approximation */
    bool padded;  /* of avg_pool2d: padding counts */
    bool fan_out; /* weights begin as torchvision's resnets */
    double eps, momentum, p;
    uint32_t first_param, num_params;
    uint64_t flops; /* of one row, forward; of products alone, as usual */
} stk__node;

typedef enum stk__role {
    STK__WEIGHT,
    STK__BIAS,
    STK__RUNNING_MEAN,
    STK__RUNNING_VAR,
    STK__NUM_BATCHES
} stk__role;

/* A parameter or a running statistic. */
typedef struct stk__param {
    char *name;
    uint32_t node;
    stk__role role;
    uint32_t rank;
    int64_t shape[4];
    uint64_t count;
    uint64_t offset; /* bytes, in the weights */
    bool trainable;
    uint64_t gradient; /* bytes, in the gradients; of trainable ones */
} stk__param;

typedef struct stk__graph {
    stk_context *context;
    stk__node *nodes;
    stk__param *params;
    uint32_t num_nodes, num_params;
    size_t capacity, params_capacity;
} stk__graph;

struct stk_model_builder {
    stk__graph graph;
};

void stk__graph_release(stk__graph *graph);
stk_status stk__graph_copy(const stk__graph *from, stk__graph *to, stk_error *err);
/* Room for one more node, zeroed, its name set; NULL after an error. */
stk_status stk__graph_add_node(stk__graph *graph, stk__kind kind, const char *name, stk__node **out,
                               stk_error *err);
stk_status stk__graph_add_param(stk__graph *graph, uint32_t node, stk__role role, uint32_t rank,
                                const int64_t *shape, stk_error *err);
/* Number of the node of a name; UINT32_MAX when there is none. */
uint32_t stk__graph_find(const stk__graph *graph, const char *name);
/* Elements of one row of a node's output. */
uint64_t stk__node_count(const stk__node *node);
/* "[N, 16, 5, 5]" */
void stk__shape_format(const stk__node *node, char *text, size_t size);
/* Complete a node whose kind, name, inputs and arguments are set: shape, parameters, FLOPs. */
stk_status stk__node_finish(stk__graph *graph, stk__node *node, stk_error *err);
const char *stk__kind_name(stk__kind kind);

/* Known models (named.c): whether `item` is one, and what came of adding its layers. */
bool stk__named_is(const char *layer);
stk_status stk__named_add(stk_model_builder *builder, stk__item *item, stk_error *err);
const stk_option_table *stk__named_table(size_t i);

/* ---- Threads (parallel.c) ---- */

/* Part `part` of `parts` works on [from, to). */
typedef void stk__body(void *argument, uint64_t from, uint64_t to, uint32_t part);
/* Cut [0, n) into at most `threads` parts of at least `grain`, always in the same way, and do them
 * at once. Returns the number of parts. */
uint32_t stk__parallel(uint32_t threads, uint64_t n, uint64_t grain, stk__body *body,
                       void *argument);
/* How many parts that would be. */
uint32_t stk__parallel_parts(uint32_t threads, uint64_t n, uint64_t grain);
/*
 * What the calling thread is while it computes, from begin to end. Threads of OpenMP that are made
 * meanwhile inherit all of it.
 *   threads   so many compute.
 *   mode      Subnormal numbers are taken for zero. They carry nothing a step could use, and each
 *             costs a hundred times a normal one: moments of weights that get no gradients decay
 *             into them within a thousand steps.
 *   signals   They wait until the end. The matrix products that oneDNN generates keep an address in
 *             the stack pointer, so the frame of a handler would be written into the heap.
 */
typedef struct stk__compute {
    int threads;
    unsigned mode;
    sigset_t signals;
} stk__compute;

stk__compute stk__compute_begin(uint32_t threads);
void stk__compute_end(const stk__compute *before);

/* ---- The plan of one batch size and mode (plan.c) ---- */

#define STK__NO_BUFFER UINT32_MAX
#define STK__EXTERNAL  (UINT32_MAX - 1) /* the caller's input */

/* A piece of the arena, in use from one time to another. Times: node i forward is i, backward is
 * 2 * num_nodes - i; the loss is num_nodes. */
typedef struct stk__buffer {
    uint64_t bytes, offset;
    uint32_t first, last;
} stk__buffer;

/* How a node's gradient reaches one of its inputs. */
typedef enum stk__flow {
    STK__FLOW_NONE,  /* nobody needs it */
    STK__FLOW_WRITE, /* the first to arrive */
    STK__FLOW_ADD,   /* later ones */
    STK__FLOW_ALIAS  /* it is the same memory */
} stk__flow;

typedef struct stk_backend stk_backend;

/* One node of a plan. */
typedef struct stk__plan_step {
    const stk__node *node;
    uint32_t x[2], y;   /* buffers of values */
    uint32_t dx[2], dy; /* of gradients */
    stk__flow flow[2];
    uint32_t work;    /* what the backward pass needs besides; STK__NO_BUFFER: nothing */
    uint32_t scratch; /* of the forward pass */
    uint32_t backward_scratch;
    bool relu;     /* the relu after it is done here */
    bool absent;   /* a view, or done by the node before */
    bool backward; /* anything to do in the backward pass */
    void *own;     /* of the back end */
} stk__plan_step;

typedef struct stk__plan {
    struct stk_model *model;
    uint32_t rows;
    bool training;
    stk__plan_step *steps; /* one for each node */
    stk__buffer *buffers;
    uint32_t num_buffers;
    size_t buffers_capacity;
    uint64_t bytes;                 /* of the arena */
    uint32_t output, loss_gradient; /* buffers */
    uint64_t used;                  /* when: the least recently used plan goes */
} stk__plan;

stk_status stk__plan_create(struct stk_model *model, uint32_t rows, bool training, stk__plan **out,
                            stk_error *err);
void stk__plan_destroy(stk__plan **plan);
/* A buffer used from `first` to `last`; *out is its number. */
stk_status stk__plan_buffer(stk__plan *plan, uint64_t count, uint64_t itemsize, uint32_t first,
                            uint32_t last, uint32_t *out, stk_error *err);
/* When node `i` is done, forward or backward. */
uint32_t stk__plan_time(const stk__plan *plan, const stk__plan_step *step, bool backward);

/* What computes. Pictures are [N, H, W, C] inside. Functions of a kind may be NULL where there is
 * nothing to do. */
typedef struct stk__ops {
    /* Ask for work and scratch memory, make what is made once. */
    stk_status (*plan)(stk__plan *plan, stk__plan_step *step, stk_error *err);
    stk_status (*forward)(stk__plan *plan, stk__plan_step *step, stk_error *err);
    stk_status (*backward)(stk__plan *plan, stk__plan_step *step, stk_error *err);
    void (*release)(stk__plan *plan, stk__plan_step *step); /* of `own` */
} stk__ops;

struct stk_backend {
    const char *name;
    uint32_t itemsize; /* of an element: float or double */
    const stk__ops *ops[STK__KIND_COUNT];
};

extern const stk_backend stk__backend_reference; /* double, as PyTorch lays out */
#ifdef STK_WITH_ONEDNN
extern const stk_backend stk__backend_cpu; /* float */
#endif

/* ---- The model (model.c, run.c) ---- */

#define STK__MAX_PLANS 6

typedef struct stk__dnnl stk__dnnl; /* engine and stream (dnnl.c) */

struct stk_model {
    stk__graph graph;
    stk_model_options options;
    const stk_backend *backend;
    const struct stk__nn_kernels *kernels;
    bool bf16; /* inputs and outputs of products are rounded to bfloat16 */
    bool bf16_native;
    uint32_t threads;
    stk__dnnl *dnnl;
    void *weights, *gradients, *arena;
    uint64_t weight_bytes, gradient_bytes, arena_bytes;
    bool has_gradients; /* the next backward pass adds */
    stk__plan *plans[STK__MAX_PLANS];
    uint64_t clock; /* of the plans' use */
    stk_model_plan summary;
    /* The last forward pass. */
    stk__plan *current;
    stk_model_batch batch;
    bool awaits_backward;
    stk_model_probe_fn *probe;
    void *probe_user;
};

/* Memory of a buffer of the plan that runs. Nobody writes to the caller's input. */
static inline void *stk__at(const stk__plan *plan, uint32_t buffer)
{
    if (buffer == STK__EXTERNAL)
        return (void *)(uintptr_t)plan->model->batch.input;
    return buffer == STK__NO_BUFFER ? NULL
                                    : (char *)plan->model->arena + plan->buffers[buffer].offset;
}

/* Have the memory of a pass; of gradients only where it is asked for: an evaluation has none. */
stk_status stk__model_need(struct stk_model *model, bool gradients, stk_error *err);
/* Whether tensor `i` of its state learns. */
bool stk__model_learns(const struct stk_model *model, size_t i);
/* Elements of one row of its input. */
uint64_t stk__model_row(const struct stk_model *model);
/* Gradients that the model has given up become zeros, so that they can be read, and what is written
 * into them counts. */
void stk__model_show_gradients(struct stk_model *model);
/* Memory of a node's parameter of a role; NULL when it has none. */
void *stk__weight(const struct stk_model *model, const stk__node *node, stk__role role);
/* The same of its gradient; NULL also when it does not learn. */
void *stk__gradient(const struct stk_model *model, const stk__node *node, stk__role role);
/* Whether a node's parameter learns. */
bool stk__learns(const struct stk_model *model, const stk__node *node, stk__role role);
/* The tensor of a parameter's shape at `data`. */
void stk__param_tensor(const struct stk_model *model, const stk__param *param, void *data,
                       stk_state_tensor *out);
/* Multiply `n` elements of the model's type (elements.c). */
void stk__scale(const struct stk_model *model, void *x, uint64_t n, double scale);
/* Copy or add the gradient of a step to that of input `k`, as its flow says. */
void stk__pass_on(stk__plan *plan, stk__plan_step *step, uint32_t k);
/* Pick or make the plan of a number of rows. */
stk_status stk__model_plan(struct stk_model *model, uint32_t rows, bool training, stk__plan **out,
                           stk_error *err);
/* Whether a pattern list ("a.*, b") matches a name. */
bool stk__pattern_match(const char *patterns, const char *name);
/* Whether the pattern of `length` bytes matches. */
bool stk__glob(const char *pattern, size_t length, const char *text);

/* Initial weights (init.c). */
void stk__model_init_weights(struct stk_model *model);

/* Loss and metrics of the output; with `gradient` also its derivative, of the mean loss (loss.c).
 */
stk_status stk__loss(struct stk_model *model, const void *output, const void *target, uint32_t rows,
                     void *gradient, stk_model_result *result, stk_error *err);

/* Keys of Philox for the draws of models: not those of the data. */
#define STK__NN_DROPOUT UINT32_C(0x44524f50)
#define STK__NN_INIT    UINT32_C(0x494e4954)

#endif
