/* a journal that grows -> its lines on a server, by a thread of its own */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_REMOTE_SENDER_H
#define STK_SRC_TRAIN_REMOTE_SENDER_H

#include "train/remote/mlflow.h"

/* While the server does not answer it is asked again after a second, and twice as long after each
 * failure, a minute at most; the first of them is a warning. Nobody waits but the end. */
typedef struct stk__sender stk__sender;

stk_status stk__sender_create(stk_context *ctx, const stk__mlflow_place *place, stk__sender **out,
                              stk_error *err);
/* So many bytes of the journal are whole lines. Does not wait. */
void stk__sender_publish(stk__sender *sender, uint64_t end);
/* Wait until all is sent, `timeout` seconds at most; a server that did not answer last time is
 * asked once more. Says what became of it. *NULL afterwards. Accepts NULL. */
void stk__sender_destroy(stk__sender **sender, double timeout);

#endif
