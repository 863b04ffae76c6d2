/* batches -> steps, metrics, checkpoints */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_TRAIN_H
#define STK_SRC_TRAIN_TRAIN_H

/* The way of a step is in stoker/trainer.h; here is what the room brings to the registry. */
#include "train/callbacks/callback.h"
#include "train/loggers/loggers.h"
#include "train/remote/remote.h"

extern const stk_option_table stk__trainer_option_table, stk__model_module_option_table,
    stk__profile_option_table, stk__weights_option_table;

/* Whether a table, the room's own or an outsider's, is whole. */
stk_status stk__callback_kind_check(const void *ops, stk_error *err);
stk_status stk__logger_kind_check(const void *ops, stk_error *err);

#endif
