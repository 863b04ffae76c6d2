/* fields of a batch -> what a model of layers takes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_MODEL_FIELDS_H
#define STK_SRC_TRAIN_MODEL_FIELDS_H

#include <stoker/trainer.h>

/* Where input, target and mask are among the fields, and what the model gives. */
typedef struct stk__model_fields {
    stk_model_fields at;
    char wanted[64];             /* name of the target, for messages */
    int64_t shape[STK_MAX_RANK]; /* of an output, without the batch */
    uint32_t rank;
} stk__model_fields;

/* Find them by the names of the options, or the usual ones. Errors: STK_EINVAL, no input. */
stk_status stk__model_fields_find(stk__model_fields *fields,
                                  const stk_model_module_options *options,
                                  const stk_module_setup *setup, stk_error *err);
/* Check what the model reads of a batch, and with `targets` what its loss (stk_loss_kind) does, and
 * point `out` to it. Errors: STK_EINVAL naming the field, both types and shapes. */
stk_status stk__model_fields_take(const stk__model_fields *fields, const stk_model *model,
                                  int32_t loss, const stk_batch *batch, bool targets,
                                  stk_model_batch *out, stk_error *err);

#endif
