/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: the files that a training goes on from. */
#ifndef STOKER_CHECKPOINT_H
#define STOKER_CHECKPOINT_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Print what a checkpoint is, one "name: value" at a time; one of ours is verified first. Blocks.
 * Errors: STK_ENOENT, STK_ETRUNCATED, STK_ECHECKSUM (damaged), STK_EFORMAT. */
STK_API STK_NODISCARD stk_status stk_checkpoint_describe(stk_context *context, const char *path,
                                                         void (*line)(void *user, const char *name,
                                                                      const char *value),
                                                         void *user, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
