/* what the built-in callbacks share, and their tables */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_CALLBACKS_CALLBACK_H
#define STK_SRC_TRAIN_CALLBACKS_CALLBACK_H

#include <stoker/trainer.h>

#include "base/base.h"
#include "base/lines.h"
#include "base/text.h"

/* A callback's memory: `size` bytes that begin with its stk_callback. NULL: none. */
void *stk__callback_new(stk_context *ctx, const stk_callback_ops *ops, size_t size);
stk_status stk__callback_no_memory(const char *name, stk_error *err);
/* Copy a text of the options, which may be NULL; false: no memory. */
bool stk__callback_text(stk_context *ctx, const char *text, char **out);
/* The number of an option that may be left out; NaN: it is. False: the text is no finite number. */
bool stk__callback_number(const char *text, double *out);
/* Put "key value" lines into a checkpoint as `state`; releases the text. */
stk_status stk__callback_save_text(stk_saver *to, stk__text *text, stk_error *err);
/* A line of the console. */
void stk__callback_say(stk_trainer *t, const char *format, ...) STK_PRINTF(2, 3);
/* "`a`, `b`": the metrics that there are, for messages. */
void stk__callback_metric_names(stk_trainer *t, char *text, size_t size);
/* Whether log_every_n_steps wants the step at hand logged. */
bool stk__callback_logs(const stk_trainer *t, const stk_moment *at);
stk_trainer_info stk__callback_info(const stk_trainer *t);
/* What rank 0 says, for all: its clock and its values of a step are its own. */
stk_status stk__callback_decide(stk_trainer *t, bool *yes, stk_error *err);

/* "epoch=0-step=100" of a template with {name} and {name:02d} or {name:.2f} (filename.c).
 * STK_EINVAL: what is wrong with the template. */
stk_status stk__filename_format(stk_trainer *t, const char *format, bool insert_names, char *out,
                                size_t size, stk_error *err);
stk_status stk__filename_check(const char *format, stk_error *err);

typedef struct stk__timer_options {
    uint32_t struct_size;
    const char *duration; /* "DD:HH:MM:SS" */
    int32_t interval;     /* 0: step, 1: epoch */
    bool verbose;
} stk__timer_options;

extern const stk_callback_ops stk__callback_model_checkpoint, stk__callback_early_stopping,
    stk__callback_lr_monitor, stk__callback_timer, stk__callback_ema, stk__callback_accumulation,
    stk__callback_throughput, stk__callback_device_stats, stk__callback_progress_bar,
    stk__callback_model_summary, stk__callback_prediction_writer, stk__callback_on_exception,
    stk__callback_spike_detection, stk__callback_lr_find, stk__callback_weight_averaging,
    stk__callback_backbone_finetuning;

#endif
