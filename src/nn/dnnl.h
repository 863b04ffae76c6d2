/* calls of oneDNN -> status */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_DNNL_H
#define STK_SRC_NN_DNNL_H

#include "nn/model.h"

#ifdef STK_WITH_ONEDNN
#include "nn/dnnl_compat.h"

struct stk__dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

stk_status stk__dnnl_create(stk_context *ctx, stk__dnnl **out, stk_error *err);
void stk__dnnl_destroy(stk_context *ctx, stk__dnnl **dnnl);
/* Whether the processor multiplies bfloat16 itself. */
bool stk__dnnl_has_bf16(void);
/* Fill `err` when a call has failed. */
stk_status stk__dnnl_check(dnnl_status_t status, const char *what, stk_error *err);
/* C = A B + beta C, row major; A is m x k, B is k x n, 't' means the transposed one is stored. */
stk_status stk__gemm(char ta, char tb, uint64_t m, uint64_t n, uint64_t k, const float *a,
                     const float *b, float beta, float *c, stk_error *err);
/* One primitive with its arguments. Memory is set before each run. */
#define STK__MAX_CALL_ARGUMENTS 6
typedef struct stk__dnnl_call {
    dnnl_primitive_t primitive;
    dnnl_primitive_desc_t desc;
    dnnl_exec_arg_t args[STK__MAX_CALL_ARGUMENTS];
    int count;
    uint32_t scratch; /* buffer */
} stk__dnnl_call;

/* What an argument is, and which descriptor of the primitive says how it lies. */
typedef struct stk__call_argument {
    int which;
    dnnl_query_t query;
    int index;
} stk__call_argument;

/* Attributes of all primitives: scratch memory is ours; then relu, or adding to what is there. */
stk_status stk__call_attr(bool relu, bool sum, dnnl_primitive_attr_t *out, stk_error *err);
/* Make the primitive of c->desc, which runs at `time`, and its arguments. */
stk_status stk__call_make(stk__plan *plan, stk__dnnl_call *c, uint32_t time,
                          const stk__call_argument *arguments, int count, stk_error *err);
/* A change of order or type, run with the memory of source and result. */
stk_status stk__call_make_order(stk__plan *plan, stk__dnnl_call *c, stk__md_view from,
                                stk__md_view to, bool sum, uint32_t time, stk_error *err);
/* Run with the memory of each argument. */
stk_status stk__call_run(const stk__plan *plan, stk__dnnl_call *c, const void *const *memory,
                         stk_error *err);
void stk__call_release(stk__dnnl_call *c);
/* Round to bfloat16, kept as float or as itself. */
void stk__round_bf16(const struct stk_model *model, float *to, const float *from, uint64_t n);
void stk__to_bf16(const struct stk_model *model, uint16_t *to, const float *from, uint64_t n);
#endif

#endif
