/* SPDX-License-Identifier: Apache-2.0 */
/* Batches as DLPack tensors: what NumPy, PyTorch, JAX and CuPy take without a copy. */
#ifndef STOKER_DLPACK_H
#define STOKER_DLPACK_H

#include <stoker/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The structs of the DLPack specification, https://dmlc.github.io/dlpack/latest/c_api.html, byte
 * for byte, under names of our own: a program may include <dlpack/dlpack.h> as well. They are the
 * specification's and never change.
 */

/** DLDataTypeCode. */
typedef enum stk_dlpack_code {
    STK_DLPACK_INT = 0,
    STK_DLPACK_UINT = 1,
    STK_DLPACK_FLOAT = 2,
    STK_DLPACK_BFLOAT = 4,
    STK_DLPACK_COMPLEX = 5,
    STK_DLPACK_BOOL = 6
} stk_dlpack_code;

#define STK_DLPACK_CPU 1 /**< DLDeviceType kDLCPU */

/** DLTensor. */
typedef struct stk_dlpack_tensor {
    void *data;
    int32_t device_type, device_id; /**< DLDevice */
    int32_t ndim;
    uint8_t code, bits; /**< DLDataType */
    uint16_t lanes;
    int64_t *shape, *strides; /**< strides in elements */
    uint64_t byte_offset;
} stk_dlpack_tensor;

/** DLManagedTensor: a Python capsule named "dltensor". */
typedef struct stk_dlpack stk_dlpack;
struct stk_dlpack {
    stk_dlpack_tensor tensor;
    void *manager;
    void (*deleter)(stk_dlpack *self);
};

/** DLManagedTensorVersioned: a Python capsule named "dltensor_versioned". */
typedef struct stk_dlpack_versioned stk_dlpack_versioned;
struct stk_dlpack_versioned {
    uint32_t major, minor; /**< DLPackVersion */
    void *manager;
    void (*deleter)(stk_dlpack_versioned *self);
    uint64_t flags; /**< 0: may be written, is no copy */
    stk_dlpack_tensor tensor;
};

/**
 * Field `i` of a batch that is held, as a DLPack tensor, without a copy. `major` is the version of
 * the specification that the taker knows: 0 gives a stk_dlpack, 1 a stk_dlpack_versioned. A FIXED
 * field has the shape [count, shape...]; of a RAGGED or BYTES one it is all values in a row, which
 * the offsets of stk_batch_field() part.
 *
 * Ownership: *out is the caller's, or whose it is handed to, and is ended by its `deleter`, once,
 * on any thread, also after the loader is gone. Each holds the memory of the batch: that comes back
 * to the loader when the batch is released and all its tensors are deleted. `deleter` does nothing
 * in a child of fork(). Thread: any. Does not block. Errors: STK_EINVAL (no such field),
 * STK_ENOTSUP (`major`), STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_batch_dlpack(const stk_batch *batch, uint32_t i,
                                                  uint32_t major, void **out, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
