/* SPDX-License-Identifier: Apache-2.0 */
/* Models: layers -> a planned graph -> loss and gradients; optimizers and schedules over it. */
#ifndef STOKER_MODEL_H
#define STOKER_MODEL_H

#include <stoker/base.h>
#include <stoker/device.h>
#include <stoker/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Describing a model ---- */

typedef struct stk_model_builder stk_model_builder;

/**
 * Begin the description of a model that takes samples of `shape`: [features], [length, features] or
 * [channels, height, width], without the batch.
 *
 * Ownership: *out is the caller's. Thread: one at a time. Errors: STK_EINVAL, STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_model_builder_create(stk_context *context,
                                                          const int64_t *shape, uint32_t rank,
                                                          stk_model_builder **out, stk_error *err);
STK_API void stk_model_builder_destroy(stk_model_builder **builder);

/**
 * Add layers, in PyTorch's words, each taking what the one before gives:
 *
 *     "conv1=conv2d(6, 5, padding=2), relu, max_pool2d(2), flatten, linear(120), relu, linear(10)"
 *
 * An item is [name=]layer(arguments). A layer without a name gets its number, as in
 * torch.nn.Sequential. `from=NAME` takes the output of an earlier layer instead, and
 * `add(NAME)` adds one. Sizes of inputs may be left out, and are checked where they are given
 * (`linear(784, 128)`, `conv2d(3, 64, 3)`). In place of all layers a known model may come:
 * `mlp(128, 64, 10)`, `lenet(num_classes=10)`, `resnet18(num_classes=10, stem=cifar)`, `resnet50`.
 * Shapes are checked here, and both sides are named where they do not meet.
 *
 * Errors: STK_EINVAL with the nearest known name of a layer or an option; STK_ELIMIT.
 */
STK_API STK_NODISCARD stk_status stk_model_builder_add(stk_model_builder *builder, const char *text,
                                                       stk_error *err);

/** Shape, without the batch, of what the last layer gives. Returns the rank. */
STK_API uint32_t stk_model_builder_shape(const stk_model_builder *builder,
                                         int64_t shape[STK_MAX_RANK]);

/* ---- Layers of others ---- */

/** A parameter of a layer: it begins with draws from [start - bound, start + bound]. */
typedef struct stk_layer_parameter {
    uint32_t rank; /**< 0: the layer has none */
    int64_t shape[4];
    double start, bound;
} stk_layer_parameter;

/** What a layer gives and has. */
typedef struct stk_layer_shape {
    uint32_t struct_size;
    uint32_t rank; /**< of a row of its output, 1 to 3: [features], [channels, height, width] */
    int64_t shape[STK_MAX_RANK];
    stk_layer_parameter weight, bias;
    uint64_t flops; /**< of a row, forward, of products alone */
} stk_layer_shape;

/**
 * One pass over a batch. All memory is that of the model's device, which is the host's today;
 * dense, of `dtype`, [rows, ...]; pictures are [height, width, channels] here, whatever the layout
 * of the input.
 */
typedef struct stk_layer_pass {
    uint32_t struct_size;
    stk_dtype dtype;        /**< STK_FLOAT32, or STK_FLOAT64 when 64-true */
    uint64_t rows, in, out; /**< `in`, `out`: elements of a row of input and output */
    bool training;
    const void *options; /**< the struct of the table; NULL where there is none */
    const void *x, *weight, *bias;
    void *y;                                    /**< forward: to be filled; backward: NULL */
    const void *dy;                             /**< backward: gradient of the output */
    void *dx, *weight_gradient, *bias_gradient; /**< to be added to; NULL: not wanted */
} stk_layer_pass;

/** A layer: the table of STK_DRIVER_LAYER. The functions are pure: what a layer remembers is in
 * its parameters. */
typedef struct stk_layer_ops {
    uint32_t struct_size; /* first, for ever */
    const char *name;     /* in the text of layers: "scale" */
    const char *doc;
    const stk_option_table *options; /* NULL: it takes no arguments */
    /* `out` comes with the shape of the input, and without parameters. */
    stk_status (*shape)(const void *options, stk_layer_shape *out, stk_error *err);
    stk_status (*forward)(const stk_layer_pass *pass, stk_error *err);
    stk_status (*backward)(const stk_layer_pass *pass, stk_error *err);
} stk_layer_ops;

/* ---- Models ---- */

typedef struct stk_model stk_model;

typedef enum stk_precision {
    STK_PRECISION_32_TRUE,
    STK_PRECISION_64_TRUE, /**< plain C, slow: for tests */
    STK_PRECISION_BF16_MIXED,
    STK_PRECISION_16_MIXED /**< refused on a CPU */
} stk_precision;

/** The precision that a trainer's word means: "64-true" or "64", "bf16-mixed" or "bf16",
 * "16-mixed" or "16"; 32-true of any other word and of NULL. Thread-safe. */
STK_API stk_precision stk_precision_of(const char *word);

/** Its word, "32-true" where there is no such precision. Static. */
STK_API const char *stk_precision_name(int32_t precision);

typedef enum stk_loss_kind {
    STK_LOSS_CROSS_ENTROPY, /**< output [N, C, ...], target: classes [N, ...], integers */
    STK_LOSS_MSE,           /**< target of this and the others: numbers, of the output's shape */
    STK_LOSS_BCE_WITH_LOGITS,
    STK_LOSS_L1,
    STK_LOSS_HUBER,    /**< d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2) */
    STK_LOSS_SMOOTH_L1 /**< huber / delta */
} stk_loss_kind;

typedef struct stk_model_options {
    uint32_t struct_size;
    int32_t precision;    /**< stk_precision */
    int32_t loss;         /**< stk_loss_kind; the mean over what counts of the batch */
    int32_t input_layout; /**< of pictures: 0 [C, H, W], 1 [H, W, C] */
    double label_smoothing;
    int64_t ignore_index;     /**< label of rows that do not count */
    uint64_t top_k;           /**< also count rows whose label is among the k likeliest */
    uint64_t batch_size;      /**< rows of a step; a shorter last batch gets a plan of its own */
    uint64_t eval_batch_size; /**< 0: batch_size */
    uint64_t threads;         /**< 0: those of the context (compute_threads) */
    uint64_t seed;            /**< of initial weights and dropout */
    const char *freeze;       /**< patterns of parameters that do not learn: "conv1.*, bn1.*" */
    const char *layers;       /**< of the configuration; a model is made of its builder */
    stk_device *device;       /**< computes, and holds all memory; NULL: the processor */
    double delta;             /**< of huber and smooth_l1 */
} stk_model_options;

static inline void stk_model_options_init(stk_model_options *options)
{
    stk_options_init(stk_option_table_find("model"), options, sizeof *options);
    options->batch_size = 64;
}

/**
 * Make a model of a description, which stays the caller's. Everything is decided here and nothing
 * big is allocated: see stk_model_get_plan(). The first use allocates, and draws the initial
 * weights (PyTorch's distributions).
 *
 * `options` may be NULL for the defaults. Ownership: *out is the caller's. Errors: STK_EINVAL,
 * STK_ENOTSUP (precision, a device whose memory is not the host's, or built without oneDNN),
 * STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_model_create(const stk_model_builder *builder,
                                                  const stk_model_options *options, stk_model **out,
                                                  stk_error *err);
STK_API void stk_model_destroy(stk_model **model);

/** What a model needs and does. Bytes are exact; FLOPs are those of products (linear, conv2d), a
 * multiply-add as two. */
typedef struct stk_model_plan {
    uint32_t struct_size;
    uint64_t parameters, trainable; /**< numbers */
    uint64_t parameter_bytes;       /**< with running statistics */
    uint64_t gradient_bytes;        /**< of the parameters */
    uint64_t train_bytes;           /**< arena of a training step of batch_size */
    uint64_t eval_bytes;            /**< arena of an evaluation of eval_batch_size */
    uint64_t peak_bytes;            /**< of all above: both modes share one arena */
    uint64_t forward_flops;         /**< of one sample */
    uint64_t step_flops;            /**< of one sample: forward and backward */
} stk_model_plan;

STK_API void stk_model_get_plan(const stk_model *model, stk_model_plan *out);

/** One layer as a summary shows it. */
typedef struct stk_model_layer {
    uint32_t struct_size;
    const char *name, *kind; /**< live as long as the model */
    uint32_t rank;
    int64_t shape[STK_MAX_RANK]; /**< of its output, without the batch */
    uint64_t parameters, trainable;
    uint64_t forward_flops; /**< of one sample */
    bool fused;             /**< done by the layer before it */
} stk_model_layer;

/** Layer `i` in the order of computation; false past the last. */
STK_API bool stk_model_get_layer(const stk_model *model, size_t i, stk_model_layer *out);

/* ---- Steps ---- */

/*
 * All of these give work to the stream of the model's device and return; on a processor the work is
 * done then. A failure on a device may come out of a later call, at the latest where a value is
 * wanted: stk_model_value(). Thread: one at a time.
 */

typedef struct stk_model_batch {
    uint32_t struct_size;
    uint32_t count;     /**< rows, at least 1 and at most the batch size of the mode */
    stk_dtype dtype;    /**< of `input`: STK_FLOAT32, or STK_FLOAT64 when 64-true */
    const void *input;  /**< rows of the builder's shape, in the memory of the device; kept until
                             the backward pass ends */
    const void *target; /**< there, too; NULL: no loss, for predictions */
    uint64_t step;      /**< what dropout draws from, with the seed and the layer */
    stk_dtype target_dtype; /**< of cross_entropy an integer, else any; STK_DTYPE_NONE: int64, and
                                 float32 */
    const uint8_t *target_mask; /**< where the target counts: not 0, an element for each of its;
                                     NULL: everywhere */
} stk_model_batch;

/** Numbers of a forward pass, in the memory of the model's device until the next one. Their weight
 * is `count`: rows, or places, of ignore_index and those without a value do not count. */
typedef struct stk_model_result {
    uint32_t struct_size;
    stk_scalar loss;           /**< mean over what counts; when nothing does, NaN of cross_entropy
                                    (as in PyTorch), 0 of the others */
    stk_scalar count;          /**< rows that count; of [N, C, ...] places; where a part of the
                                    elements counts, the same share of the rows */
    stk_scalar accuracy;       /**< of cross-entropy: share whose likeliest class is the label */
    stk_scalar accuracy_top_k; /**< the same for the `top_k` likeliest */
} stk_model_result;

/**
 * Compute outputs, loss and metrics. `training` keeps what stk_model_backward() needs and lets
 * batch norms learn their statistics.
 *
 * Uses `threads` OpenMP threads. Signals wait until the pass is over. Allocates only when a number
 * of rows is seen for the first time. Errors: STK_EINVAL (the batch), STK_EFORMAT naming row and
 * label outside of the classes.
 */
STK_API STK_NODISCARD stk_status stk_model_forward(stk_model *model, const stk_model_batch *batch,
                                                   bool training, stk_model_result *result,
                                                   stk_error *err);

/** The value of a number that the model gave: waits until the device has it. Errors: what the
 * device says, also of work given before. */
STK_API STK_NODISCARD stk_status stk_model_value(const stk_model *model, const stk_scalar *number,
                                                 double *value, stk_error *err);

/**
 * Add the gradients of scale * loss of the last training forward pass to the parameters' gradients
 * (after stk_model_zero_grad(): set them). Once for each forward pass.
 */
STK_API STK_NODISCARD stk_status stk_model_backward(stk_model *model, double scale, stk_error *err);

/** Forget the gradients. Costs nothing: the next backward pass writes instead of adding. */
STK_API STK_NODISCARD stk_status stk_model_zero_grad(stk_model *model, stk_error *err);

/** Outputs of the last forward pass, [rows, ...] in C order, in the memory of the device; float32,
 * or float64 when 64-true. Errors: STK_EINVAL before the first. */
STK_API STK_NODISCARD stk_status stk_model_output(const stk_model *model, stk_state_tensor *out,
                                                  stk_error *err);

/* ---- Weights ---- */

/**
 * Parameter or running statistic `i` under its PyTorch name ("layer1.0.bn1.running_mean") and in
 * PyTorch's layout; STK_EOS past the last. The memory is the device's, may be read and written
 * between steps and lives as long as the model. Allocates on first use. Errors: STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_model_get_state(stk_model *model, size_t i,
                                                     stk_state_tensor *out, stk_error *err);
/* ---- Optimizers ---- */

typedef struct stk_optimizer stk_optimizer;

typedef enum stk_optimizer_kind { STK_SGD, STK_ADAM, STK_ADAMW } stk_optimizer_kind;

typedef struct stk_optimizer_options {
    uint32_t struct_size;
    int32_t name; /**< stk_optimizer_kind */
    double lr;    /**< at least 0 */
    double momentum, dampening;
    bool nesterov;
    double weight_decay; /**< negative: the kind's default in PyTorch (0; AdamW 0.01) */
    double beta1, beta2, eps;
} stk_optimizer_options;

/** Parameters whose names match `pattern` ('*' is any text) learn with values of their own. */
typedef struct stk_parameter_group {
    const char *pattern;
    double lr, weight_decay; /**< NaN: those of the optimizer */
} stk_parameter_group;

static inline void stk_optimizer_options_init(stk_optimizer_options *options)
{
    stk_options_init(stk_option_table_find("optimizer"), options, sizeof *options);
}

/**
 * Make an optimizer of the parameters that learn. Group 0 has what no pattern matches; group i
 * matches groups[i - 1], the first that does.
 *
 * Ownership: *out is the caller's, and is destroyed before the model. Errors: STK_EINVAL, also for
 * a pattern that matches nothing; STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_optimizer_create(stk_model *model,
                                                      const stk_optimizer_options *options,
                                                      const stk_parameter_group *groups,
                                                      size_t num_groups, stk_optimizer **out,
                                                      stk_error *err);
STK_API void stk_optimizer_destroy(stk_optimizer **optimizer);

/** Change the parameters by their gradients, as the other calls of a step. Does nothing when there
 * are none since stk_model_zero_grad(). */
STK_API STK_NODISCARD stk_status stk_optimizer_step(stk_optimizer *optimizer, stk_error *err);
STK_API size_t stk_optimizer_num_groups(const stk_optimizer *optimizer);
STK_API double stk_optimizer_get_lr(const stk_optimizer *optimizer, size_t group);
STK_API void stk_optimizer_set_lr(stk_optimizer *optimizer, size_t group, double lr);
/** Tensor `i` of its state ("fc.weight.exp_avg", and "step", int64); false past the last. Written
 * before a step, it is what the step continues from. */
STK_API bool stk_optimizer_get_state(stk_optimizer *optimizer, size_t i, stk_state_tensor *out);

/* ---- Schedules of the learning rate: numbers of the host ---- */

typedef enum stk_schedule_kind {
    STK_SCHEDULE_CONSTANT,
    STK_SCHEDULE_STEP,
    STK_SCHEDULE_MULTI_STEP,
    STK_SCHEDULE_EXPONENTIAL,
    STK_SCHEDULE_COSINE,
    STK_SCHEDULE_ONE_CYCLE,
    STK_SCHEDULE_PLATEAU,
    STK_SCHEDULE_LINEAR,
    STK_SCHEDULE_POLYNOMIAL
} stk_schedule_kind;

#define STK_MAX_MILESTONES 16

/** A schedule. Its steps are whatever the caller counts: optimizer steps, or epochs. */
typedef struct stk_schedule {
    uint32_t struct_size;
    int32_t name;           /**< stk_schedule_kind */
    uint64_t step_size;     /**< step */
    double gamma;           /**< step, multi_step, exponential */
    const char *milestones; /**< multi_step: "30, 80", at most STK_MAX_MILESTONES */
    uint64_t t_max;         /**< cosine */
    double eta_min;         /**< cosine */
    uint64_t total_steps;   /**< one_cycle */
    double max_lr;          /**< one_cycle; 0: the optimizer's lr */
    double pct_start, div_factor, final_div_factor; /**< one_cycle, annealed by cosine */
    int32_t mode;                                   /**< plateau: 0 min, 1 max */
    double factor, threshold, min_lr;               /**< plateau; a relative threshold */
    uint64_t patience, cooldown;                    /**< plateau */
    uint64_t warmup_steps; /**< before any of them: linear, from lr * warmup_start on */
    double warmup_start;
    uint64_t total_iters;            /**< linear, polynomial */
    double start_factor, end_factor; /**< linear */
    double power;                    /**< polynomial: lr * (1 - step / total_iters)^power */
} stk_schedule;

static inline void stk_schedule_init(stk_schedule *schedule)
{
    stk_options_init(stk_option_table_find("lr_scheduler"), schedule, sizeof *schedule);
}

/* ---- Timing of layers ---- */

/** Called after each layer's pass; `flops` and `bytes` (touched at least) are of the whole batch.
 * The loss comes as the layer behind the last. */
typedef void stk_model_probe_fn(void *user, size_t layer, bool backward, uint64_t start_ns,
                                uint64_t end_ns, uint64_t flops, uint64_t bytes);

/** Install a probe, or remove it with NULL. Costs nothing while there is none. */
STK_API void stk_model_set_probe(stk_model *model, stk_model_probe_fn *probe, void *user);

#ifdef __cplusplus
}
#endif
#endif
