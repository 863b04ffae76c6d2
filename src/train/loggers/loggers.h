/* the built-in loggers */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOGGERS_LOGGERS_H
#define STK_SRC_TRAIN_LOGGERS_LOGGERS_H

#include <stoker/trainer.h>

extern const stk_logger_ops stk__logger_csv, stk__logger_tensorboard;

#endif
