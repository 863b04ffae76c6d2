/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's engine and stream, its products of matrices, and rounding to bfloat16. */
#include "nn/dnnl.h"

#ifdef STK_WITH_ONEDNN
#include "nn/ops.h"

stk_status stk__dnnl_check(dnnl_status_t status, const char *what, stk_error *err)
{
    if (status == dnnl_success)
        return STK_OK;
    if (status == dnnl_out_of_memory)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for oneDNN: %s", what);
    if (status == dnnl_unimplemented)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "oneDNN has nothing for %s on this processor", what);
    return stk__fail(err, STK_EINTERNAL, STK_STAGE_TRAIN, "oneDNN failed with status %d: %s",
                     (int)status, what);
}

stk_status stk__dnnl_create(stk_context *ctx, stk__dnnl **out, stk_error *err)
{
    stk__dnnl *d = stk__calloc(ctx, 1, sizeof *d);
    stk_status status;

    if (!d)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for oneDNN");
    *out = d;
    status = stk__dnnl_check(dnnl_engine_create(&d->engine, dnnl_cpu, 0), "its engine", err);
    if (status == STK_OK)
        status =
            stk__dnnl_check(dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags),
                            "its stream", err);
    return status; /* what there is goes with the model */
}

void stk__dnnl_destroy(stk_context *ctx, stk__dnnl **dnnl)
{
    if (!*dnnl)
        return;
    if ((*dnnl)->stream)
        dnnl_stream_destroy((*dnnl)->stream);
    if ((*dnnl)->engine)
        dnnl_engine_destroy((*dnnl)->engine);
    stk__free(ctx, *dnnl);
    *dnnl = NULL;
}

bool stk__dnnl_has_bf16(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

    /* Each set of instructions is a bit. */
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

stk_status stk__gemm(char ta, char tb, uint64_t m, uint64_t n, uint64_t k, const float *a,
                     const float *b, float beta, float *c, stk_error *err)
{
    dnnl_dim_t lda = (dnnl_dim_t)(ta == 'T' ? m : k), ldb = (dnnl_dim_t)(tb == 'T' ? k : n);

    return stk__dnnl_check(dnnl_sgemm(ta, tb, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                                      lda, b, ldb, beta, c, (dnnl_dim_t)n),
                           "a product of matrices", err);
}

/* ---- bfloat16 ---- */

typedef struct rounding {
    const stk__nn_kernels *kernels;
    void *to;
    const float *from;
} rounding;

static void round_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const rounding *r = argument;

    r->kernels->round_bf16((float *)r->to + from, r->from + from, to - from);
}

static void narrow_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const rounding *r = argument;

    r->kernels->to_bf16((uint16_t *)r->to + from, r->from + from, to - from);
}

void stk__round_bf16(const struct stk_model *m, float *to, const float *from, uint64_t n)
{
    rounding r = {m->kernels, to, from};

    stk__parallel(m->threads, n, STK__GRAIN, round_body, &r);
}

void stk__to_bf16(const struct stk_model *m, uint16_t *to, const float *from, uint64_t n)
{
    rounding r = {m->kernels, to, from};

    stk__parallel(m->threads, n, STK__GRAIN, narrow_body, &r);
}
#endif
