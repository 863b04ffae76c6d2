/* command -> what it prints */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_CREDENTIALS_PROCESS_H
#define STK_SRC_STORE_S3_CREDENTIALS_PROCESS_H

#include "base/base.h"

#define STK__PROCESS_WORDS 32

/*
 * Part a command into words, in place: blanks part them but within "..." and '...'; a backslash
 * takes the next character as it is but within '...'. There is no shell: `$`, `|` and their like
 * are characters. False: a quote without an end, no word, or too many.
 */
bool stk__process_words(char *command, char *words[STK__PROCESS_WORDS + 1]);

/* Run it and wait: *length bytes of `text`, with an end, are what it printed. `command` is parted.
 * Errors: STK_EINVAL, STK_ESYSTEM, STK_ETIMEDOUT, STK_ELIMIT, STK_EACCES (it failed). */
stk_status stk__process_read(char *command, char *text, size_t size, size_t *length,
                             uint64_t patience_ns, stk_error *err);

#endif
