/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: the files that a training goes on from. */
#ifndef STOKER_CHECKPOINT_H
#define STOKER_CHECKPOINT_H

#include <stoker/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Print what a checkpoint is, one "name: value" at a time; one of ours is verified first. Texts of
 * another's file are "__metadata__.NAME", a tensor that has the name of a line "tensor.NAME".
 * Blocks. Errors: STK_ENOENT, STK_ETRUNCATED, STK_ECHECKSUM (damaged), STK_EFORMAT. */
STK_API STK_NODISCARD stk_status stk_checkpoint_describe(stk_context *context, const char *path,
                                                         void (*line)(void *user, const char *name,
                                                                      const char *value),
                                                         void *user, stk_error *err);

/**
 * Write a checkpoint as one file. That of ranks that share a training out lies in parts beside it,
 * in a folder or a store, which every reader of `from` finds; the file `to` needs none. It is the
 * one that a single process would have written: tensors and texts are the same.
 *
 * Both are paths or URLs. The file has its name when it is whole and durable. All of it is in
 * memory meanwhile. Of `call` (may be NULL) `no_replace`, `canceled` and the deadline are taken.
 * Thread: any. Blocks.
 *
 * Errors: STK_ENOENT (also of a part), STK_ETRUNCATED, STK_ECHECKSUM, STK_EFORMAT (no checkpoint,
 * or a part of another one), STK_EBUDGET (more than this process may use), STK_EEXIST,
 * STK_ECANCELED.
 */
STK_API STK_NODISCARD stk_status stk_checkpoint_consolidate(stk_context *context, const char *from,
                                                            const char *to,
                                                            const stk_store_call *call,
                                                            stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
