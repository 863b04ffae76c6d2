/* nodes, a number of rows, a mode -> steps over one arena */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_PLAN_H
#define STK_SRC_NN_PLAN_H

#include "nn/graph.h"

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
    STK__FLOW_NONE,  /* not needed */
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
    double values; /* of each channel, that the statistics of the pass at hand are of */
    bool relu;     /* the relu after it is done here */
    bool absent;   /* a view, or done by the node before */
    bool backward; /* anything to do in the backward pass */
    const struct stk__ops *ops; /* what computes it */
    void *own;                  /* of that */
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
    /* (optional) FLOPs of a pass, where they are fewer than the layer's; else NULL. */
    uint64_t (*flops)(const stk__plan *plan, const stk__plan_step *step);
} stk__ops;

struct stk_backend {
    const char *name;
    uint32_t itemsize; /* of an element: float or double */
    const stk__ops *ops[STK__KIND_COUNT];
};

/* What computes a step. */
const stk__ops *stk__ops_of(const stk__plan *plan, const stk__plan_step *step);

extern const stk_backend stk__backend_reference; /* double, as PyTorch lays out */
#ifdef STK_WITH_ONEDNN
extern const stk_backend stk__backend_cpu; /* float */
#endif

#endif
