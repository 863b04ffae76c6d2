/* SPDX-License-Identifier: Apache-2.0 */
/* Batches as arrays of Arrow: what pyarrow, Polars, DuckDB and others take without a copy. */
#ifndef STOKER_ARROW_H
#define STOKER_ARROW_H

#include <stoker/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The structs of the Arrow C data interface, https://arrow.apache.org/docs/format/
 * CDataInterface.html, byte for byte, under names of our own: a program may have those of the
 * specification as well, and casts. They are the specification's and never change.
 */

/** struct ArrowSchema: a Python capsule named "arrow_schema". */
typedef struct stk_arrow_schema stk_arrow_schema;
struct stk_arrow_schema {
    const char *format, *name, *metadata;
    int64_t flags;
    int64_t n_children;
    stk_arrow_schema **children, *dictionary;
    void (*release)(stk_arrow_schema *self);
    void *private_data;
};

/** struct ArrowArray: a Python capsule named "arrow_array". */
typedef struct stk_arrow_array stk_arrow_array;
struct stk_arrow_array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    stk_arrow_array **children, *dictionary;
    void (*release)(stk_arrow_array *self);
    void *private_data;
};

/**
 * All fields of a batch that is held, as a struct array of Arrow with a child for each, named as
 * the field, and stk_batch_count() rows. A FIXED field of no dimensions is its type, and one with
 * dimensions a fixed_size_list of their product; a RAGGED field is a large_list of its type, a
 * BYTES one a large_binary. No row is null. Nothing is copied but bools, which Arrow has as bits.
 *
 * Ownership: *schema and *array are filled, what they had is not looked at; each is the caller's,
 * or whose it is moved to, and is ended by its `release`, once, on any thread, also after the
 * loader is gone. Children may be moved out, as the specification says. The array, and each child
 * that was moved, holds the memory of the batch: that comes back to the loader when the batch and
 * all of them are released. `release` does nothing in a child of fork(). On failure `release` of
 * both is NULL. Thread: any. Does not block. Errors: STK_ENOTSUP (a field is of bfloat16 or complex
 * numbers), STK_ENOMEM.
 */
STK_API STK_NODISCARD stk_status stk_batch_export_arrow(const stk_batch *batch,
                                                        stk_arrow_schema *schema,
                                                        stk_arrow_array *array, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
