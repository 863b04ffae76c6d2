/* a loop's progress -> one line of text */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRAIN_CALLBACKS_PROGRESS_BAR_H
#define STK_SRC_TRAIN_CALLBACKS_PROGRESS_BAR_H

#include "train/callbacks/callback.h"

/* "Epoch 0:  42%|####      | 42/100 [00:01<00:01, 42.00it/s, postfix]" in `width` columns. */
void stk__bar_line(char *text, size_t size, int width, const char *what, uint64_t done,
                   uint64_t total, double seconds, const char *postfix);
/* A number in at least five characters, so that the line does not flicker: "0.5" -> "0.500". */
void stk__bar_number(char *text, size_t size, double value);

#endif
