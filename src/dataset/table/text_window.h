/* a file of lines -> the bytes of some of them at a time */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_TABLE_TEXT_WINDOW_H
#define STK_SRC_DATASET_TABLE_TEXT_WINDOW_H

#include "dataset/table/table.h"

#define STK__TEXT_WINDOW (UINT64_C(1) << 20) /* bytes read at a time, and looked at to learn */

typedef struct stk__text_window {
    stk__table_file *file;
    stk_error *err;
    char *bytes; /* of the file from `at` on */
    uint64_t at, length, room;
    uint64_t most;         /* bytes of a line, or of what one may be within quotes */
    const char *if_longer; /* what is said behind that a line is longer */
} stk__text_window;

/* `file`, `err`, `most` and `if_longer` are set. */
stk_status stk__text_window_open(stk__text_window *w);
/* Have the bytes from `at` on, as many as there is room for. Blocks. */
stk_status stk__text_window_fill(stk__text_window *w, uint64_t at);
/* A line that does not fit gets more room; what was there is to be read again. `line` counts from
 * 0. */
stk_status stk__text_window_grow(stk__text_window *w, uint64_t line);
stk_status stk__text_window_no_memory(const stk__text_window *w);
void stk__text_window_close(stk__text_window *w);

#endif
