/* Memory for a library that may hold secrets: what is given back is wiped before. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_WIPED_H
#define STK_SRC_BASE_WIPED_H

#include <stddef.h>

/* As malloc() and its like, of whose memory it is; blocks of more than 32 KiB are not wiped. */
void *stk__wiped_alloc(size_t size);
void *stk__wiped_calloc(size_t count, size_t size);
void *stk__wiped_realloc(void *memory, size_t size);
char *stk__wiped_strdup(const char *text);
/* Accepts NULL. */
void stk__wiped_free(void *memory);

#endif
