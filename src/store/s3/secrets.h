/* memory for credentials */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_SECRETS_H
#define STK_SRC_STORE_S3_SECRETS_H

#include "base/base.h"

/*
 * Pages that neither core dumps nor children have, and that are wiped before they go. What lies in
 * them is of the type stk__secret, which no format of a message takes.
 */

#define STK__SECRET_ROOM 4096

typedef struct stk__secret {
    char text[STK__SECRET_ROOM]; /* "": none */
} stk__secret;

/* Zeroed; NULL: no memory. */
void *stk__secrets_alloc(size_t size);
/* Accepts NULL. */
void stk__secrets_free(void *memory, size_t size);
/* False: it does not fit, and the secret is "". NULL is "". */
bool stk__secret_set(stk__secret *secret, const char *text, size_t length);
bool stk__secret_has(const stk__secret *secret);

#endif
