/* options of a trainer -> numbers */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_SETTINGS_H
#define STK_SRC_TRAIN_SETTINGS_H

#include <stoker/trainer.h>

#include "base/base.h"

/* A count, or a fraction of a whole. */
typedef struct stk__limit {
    bool fraction;
    double share;
    uint64_t count;
} stk__limit;

stk_status stk__limit_parse(const char *option, const char *text, stk__limit *out, stk_error *err);
/* Batches of an epoch of `steps`. */
stk_status stk__limit_apply(const char *option, const stk__limit *limit, uint64_t steps,
                            uint64_t *out, stk_error *err);

/* What the options say, in numbers. */
typedef struct stk__settings {
    stk__limit train, val, test, predict, val_check;
    bool overfit;
    stk__limit overfit_limit;
    uint64_t val_check_ns; /* 0: not by time */
    uint64_t fast_dev_run; /* batches; 0: off */
    uint64_t max_time_ns;  /* 0: none */
    int64_t max_epochs;    /* -1: without end */
    int64_t max_steps;     /* of the optimizer; -1: as many as the epochs have */
    uint64_t check_val_every_n_epoch;
    int64_t num_sanity_val_steps;
    bool checkpointing, progress_bar, model_summary, logging;
} stk__settings;

/* Check the options against each other and fill the settings. (options_check.c) */
stk_status stk__settings_make(stk_context *ctx, const stk_trainer_options *o, stk__settings *out,
                              stk_error *err);

#endif
