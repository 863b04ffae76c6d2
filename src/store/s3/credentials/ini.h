/* text of a profile file -> its values */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_CREDENTIALS_INI_H
#define STK_SRC_STORE_S3_CREDENTIALS_INI_H

#include "base/base.h"

/* A part of the text, which has no end of its own: nothing is copied, as it may be a secret. */
typedef struct stk__ini_span {
    const char *text;
    size_t length;
} stk__ini_span;

/*
 * The value of a key in the section "[name]", or "[kind name]" with blanks between, of a file as
 * `aws configure` writes them [AWS SDKs and Tools Reference Guide, Shared config and credentials
 * files]: the last one counts; lines that begin with a blank belong to the value before them and
 * are passed over, as are lines that begin with '#' or ';'. `kind` "": the name alone. False: there
 * is none.
 */
bool stk__ini_find(const char *text, size_t length, const char *kind, const char *name,
                   const char *key, stk__ini_span *out);
/* False: it does not fit. */
bool stk__ini_copy(stk__ini_span span, char *to, size_t size);
/* Whether there is such a section. */
bool stk__ini_has(const char *text, size_t length, const char *kind, const char *name);

#endif
