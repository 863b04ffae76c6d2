/* metrics -> loggers, off the training thread */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOGGERS_LOG_QUEUE_H
#define STK_SRC_TRAIN_LOGGERS_LOG_QUEUE_H

#include <stoker/trainer.h>

#include "base/base.h"

/* One thread that calls all loggers. A logger that fails is named in the context's log, once, and
 * called no more but for its close(). */
typedef struct stk__log_queue stk__log_queue;

/* The loggers belong to the queue from STK_OK on; on a failure they stay the caller's. */
stk_status stk__log_queue_create(stk_context *ctx, stk_logger *const *loggers, size_t n,
                                 stk__log_queue **out, stk_error *err);
/*
 * Copies names and values. Does not wait for a slow disk: what is not written yet is kept, up to 64
 * MiB. Beyond that the call waits, so that nothing is lost, and after a minute without any progress
 * it gives STK_ETIMEDOUT naming the logger that is stuck. Any thread.
 */
stk_status stk__log_queue_metrics(stk__log_queue *queue, const stk_metric *metrics, size_t n,
                                  int64_t step, stk_error *err);
stk_status stk__log_queue_hyperparams(stk__log_queue *queue, const stk_hparam *params, size_t n,
                                      stk_error *err);
/* Whether loggers are flushed `now`: the first line since the last flush was written at
 * `dirty_since` (0: none was), the last flush was at `flushed_at`. */
bool stk__log_queue_due(uint64_t dirty_since, uint64_t flushed_at, uint64_t now);
/* How the task has ended, before the flush at its end. */
void stk__log_queue_ended(stk__log_queue *queue, stk_status how);
/* Wait until all that was given before is written and finalized; the first failure of a logger that
 * was not told yet. */
stk_status stk__log_queue_flush(stk__log_queue *queue, stk_error *err);
/* Time that calls have waited for room, with that of one that waits now. */
uint64_t stk__log_queue_waited_ns(const stk__log_queue *queue);
/* Writes all, closes the loggers, joins. *NULL afterwards. Accepts NULL. */
void stk__log_queue_destroy(stk__log_queue **queue);

/* Both have the options save_dir, name, version and prefix. Two loggers share the folder of a run
 * when the second is given the `version` of the first. */
#endif
