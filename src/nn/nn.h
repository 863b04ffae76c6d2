/* batch, parameters -> loss, gradients */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_NN_H
#define STK_SRC_NN_NN_H

#include <stoker/model.h>

#include "base/base.h"

/* The drivers of layers, NULL-ended (layers.c), and whether a table of others is whole. */
extern const void *const stk__layers[];
extern const stk_option_table stk__model_option_table, stk__optimizer_option_table,
    stk__schedule_option_table;
stk_status stk__layer_kind_check(const void *ops, stk_error *err);

/* What a module asks of a model besides. */
/* Have the memory of a pass; of gradients only where it is asked for: an evaluation has none. */
stk_status stk__model_need(struct stk_model *model, bool gradients, stk_error *err);
/* Whether tensor `i` of its state learns. */
bool stk__model_learns(const struct stk_model *model, size_t i);
/* Elements of one row of its input. */
uint64_t stk__model_row(const struct stk_model *model);
/* Gradients that the model has given up become zeros, so that they can be read, and what is written
 * into them counts. */
void stk__model_show_gradients(struct stk_model *model);

#endif
