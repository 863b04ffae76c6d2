/* loggers of a trainer -> one queue that calls them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_LOGS_H
#define STK_SRC_TRAIN_LOGS_H

#include <stoker/trainer.h>

#include "train/loggers/log_queue.h"

enum { STK__MAX_LOGGERS = 8 };

typedef struct stk__logger_entry {
    const stk_logger_ops *ops;
    void *options;
} stk__logger_entry;

typedef struct stk__logs {
    stk__logger_entry loggers[STK__MAX_LOGGERS];
    size_t num_loggers;
    stk_hparam *hparams;
    size_t num_hparams, hparam_room;
    stk__log_queue *queue; /* NULL: nothing is logged, or not yet */
    char *dir;             /* of the first logger, made or to be made; NULL: none */
    char *version;         /* "3", likewise */
} stk__logs;

/* Fail for a name that trainer.logger may not have. */
stk_status stk__loggers_check(const stk_context *ctx, const char *names, stk_error *err);
/* Note the folder of the run that they will make; nothing is made. One of others, which knows its
 * folder when it is open, is opened. */
stk_status stk__loggers_name(stk_trainer *t, stk_error *err);
/* Open them, once: from here on the run has a folder. Where another process was faster it has the
 * next number. */
stk_status stk__loggers_open(stk_trainer *t, stk_error *err);
/* The folder in which the first of them makes the folders of runs, opened or not, that of the
 * defaults where nothing is logged; *out is the caller's. NULL: a logger of others, who knows. */
stk_status stk__loggers_runs(const stk_trainer *t, char **out, stk_error *err);
void stk__loggers_release(stk_context *ctx, stk__logs *logs);
/* Whether lines of metrics go anywhere. */
bool stk__logs_lines(const stk_trainer *t);
stk_status stk__log_line(stk_trainer *t, const stk_metric *metrics, size_t n, int64_t step,
                         stk_error *err);

#endif
