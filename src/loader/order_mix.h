/* position -> source, and index */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_ORDER_MIX_H
#define STK_SRC_LOADER_ORDER_MIX_H

#include "dataset/dataset.h"
#include "loader/order.h"

/* Orders of the sources of a mixture. One thread at a time. `order` has to outlive it. */
stk_status stk__order_mix_create(stk_context *ctx, const stk__order *order, stk__order_mix **out);
void stk__order_mix_destroy(stk_context *ctx, stk__order_mix *mix);
/* Another epoch begins. */
void stk__order_mix_epoch(stk__order_mix *mix);
uint64_t stk__order_mix_index(stk__order_mix *mix, uint64_t epoch, uint64_t position);

#endif
