/* values -> messages and records of a TensorBoard event file */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOGGERS_EVENT_FILE_H
#define STK_SRC_TRAIN_LOGGERS_EVENT_FILE_H

#include <stoker/trainer.h>

#include "base/proto.h"

/* Append a record with its length and checksums. All of these: false where there is no memory. */
bool stk__event_record(stk__bytes *to, const void *message, size_t length);

/* Fields of Event. */
#define STK__EVENT_FILE_VERSION 3
#define STK__EVENT_SUMMARY      5

/* Time and step of an Event. */
bool stk__event_begin(stk__bytes *to, double wall_time, int64_t step);
/* A value of a Summary. */
bool stk__event_scalar(stk__bytes *to, const char *tag, double value);
/* A Summary of hyper-parameters: a table for the text page, and what the hparams page starts a
 * session with. */
bool stk__event_hparams_table(stk__bytes *to, const stk_hparam *params, size_t n);
bool stk__event_hparams_session(stk__bytes *to, const stk_hparam *params, size_t n,
                                double start_time);

#endif
