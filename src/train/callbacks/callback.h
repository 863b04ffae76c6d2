/* what the built-in callbacks share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_CALLBACKS_CALLBACK_H
#define STK_SRC_TRAIN_CALLBACKS_CALLBACK_H

#include "train/train.h"

/* A callback's memory: `size` bytes that begin with its stk_callback. NULL: none. */
void *stk__callback_new(stk_context *ctx, const stk_callback_ops *ops, size_t size);
stk_status stk__callback_no_memory(const char *name, stk_error *err);
/* Copy a text of the options, which may be NULL; false: no memory. */
bool stk__callback_text(stk_context *ctx, const char *text, char **out);
/* Put "key value" lines into a checkpoint as `state`; releases the text. */
stk_status stk__callback_save_text(stk_saver *to, stk__text *text, stk_error *err);

/* "epoch=0-step=100" of a template with {name} and {name:02d} or {name:.2f} (filename.c). The
 * `extra` metrics come first. STK_EINVAL: what is wrong with the template. */
stk_status stk__filename_format(stk_trainer *t, const char *format, bool insert_names, char *out,
                                size_t size, stk_error *err);
stk_status stk__filename_check(const char *format, stk_error *err);

#endif
