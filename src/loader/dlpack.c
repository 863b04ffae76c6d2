/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a batch for other libraries: DLPack tensors, each of which holds the batch. */
#include <stoker/dlpack.h>

#include "loader/ring.h"

/* One tensor, in the form that was asked for. */
typedef struct exported {
    union {
        stk_dlpack plain;
        stk_dlpack_versioned versioned;
    } as;
    stk_batch *batch;
    int64_t shape[STK_MAX_RANK + 1], strides[STK_MAX_RANK + 1];
} exported;

static void set_type(stk_dtype dtype, stk_dlpack_tensor *out)
{
    static const uint8_t codes[STK_DTYPE_COUNT] = {
        [STK_BOOL] = STK_DLPACK_BOOL,         [STK_UINT8] = STK_DLPACK_UINT,
        [STK_INT8] = STK_DLPACK_INT,          [STK_UINT16] = STK_DLPACK_UINT,
        [STK_INT16] = STK_DLPACK_INT,         [STK_UINT32] = STK_DLPACK_UINT,
        [STK_INT32] = STK_DLPACK_INT,         [STK_UINT64] = STK_DLPACK_UINT,
        [STK_INT64] = STK_DLPACK_INT,         [STK_FLOAT16] = STK_DLPACK_FLOAT,
        [STK_BFLOAT16] = STK_DLPACK_BFLOAT,   [STK_FLOAT32] = STK_DLPACK_FLOAT,
        [STK_FLOAT64] = STK_DLPACK_FLOAT,     [STK_COMPLEX64] = STK_DLPACK_COMPLEX,
        [STK_COMPLEX128] = STK_DLPACK_COMPLEX};

    out->code = codes[dtype];
    out->bits = (uint8_t)(8 * stk_dtype_size(dtype));
    out->lanes = 1;
}

/* The tensor of a field: compact, in C order; without memory where it has no element. */
static void describe(exported *e, const stk_tensor *from, stk_dlpack_tensor *to)
{
    int64_t stride = 1;
    bool empty = false;

    memcpy(e->shape, from->shape, from->rank * sizeof *from->shape);
    if (from->layout != STK_FIXED)
        e->shape[0] = (int64_t)from->offsets[from->shape[0]];
    for (uint32_t d = from->rank; d-- > 0;) {
        e->strides[d] = stride;
        stride *= e->shape[d];
        empty |= e->shape[d] == 0;
    }
    set_type(from->dtype, to);
    to->data = empty ? NULL : from->data;
    to->device_type = STK_DLPACK_CPU;
    to->ndim = (int32_t)from->rank;
    to->shape = e->shape;
    to->strides = e->strides;
}

static void delete_exported(exported *e)
{
    stk_batch *batch = e->batch;
    stk_context *ctx = batch->ring->ctx;

    if (stk__context_forked(ctx))
        return;
    stk__free(ctx, e); /* the ring, which goes with the last of them, holds the context */
    stk__batch_unshare(batch);
}

static void delete_plain(stk_dlpack *self)
{
    delete_exported(self->manager);
}

static void delete_versioned(stk_dlpack_versioned *self)
{
    delete_exported(self->manager);
}

stk_status stk_batch_dlpack(const stk_batch *batch, uint32_t i, uint32_t major, void **out,
                            stk_error *err)
{
    stk_batch *b = (stk_batch *)batch; /* its count of users is written, nothing else */
    stk_tensor from = {.struct_size = sizeof from};

    *out = NULL;
    stk_context *ctx = b->ring->ctx;
    STK_TRY(stk__context_check(ctx, err));
    if (major > 1)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_LOADER,
                         "DLPack of version %u is not known: ask for 1 or 0", major);
    if (stk_batch_field(batch, i, &from) != STK_OK)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER, "a batch has no field %u", i);
    exported *e = stk__calloc(ctx, 1, sizeof *e);
    if (!e)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER, "no memory for a DLPack tensor");
    stk__batch_share(b);
    e->batch = b;
    stk_dlpack_tensor to = {0};
    describe(e, &from, &to);
    if (major)
        e->as.versioned = (stk_dlpack_versioned){
            .major = 1, .manager = e, .deleter = delete_versioned, .tensor = to};
    else
        e->as.plain = (stk_dlpack){.tensor = to, .manager = e, .deleter = delete_plain};
    *out = &e->as;
    return STK_OK;
}
