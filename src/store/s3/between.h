/* two keys -> one between them, where about half of the keys lie on either side */
/* SPDX-License-Identifier: Apache-2.0 */
/* Pure: no clock, no lock, no memory. */
#ifndef STK_SRC_STORE_S3_BETWEEN_H
#define STK_SRC_STORE_S3_BETWEEN_H

#include "store/store.h"

#define STK__S3_PLACES 64 /* of a key behind the folder that are looked at */

/* The letters that keys of a folder have at each place, as far as they were seen: of ASCII, and not
 * '/'. */
typedef struct stk__s3_letters {
    bool seen[STK__S3_PLACES][128];
} stk__s3_letters;

/* See what a key has behind the first `from` bytes. */
void stk__s3_letters_see(stk__s3_letters *letters, const char *key, size_t from);
/*
 * A key between `low` and `high` ("": there is no bound) in the order of bytes, in a folder of
 * `from` bytes and with no '/' behind those, so that no folder of folders is cut; `first` is one
 * that was seen before `low`. Where a digit was seen, all may be, and so with letters. False: there
 * is none that can be guessed.
 */
bool stk__s3_between(const stk__s3_letters *letters, const char *first, const char *low,
                     const char *high, size_t from, char out[STK_MAX_OBJECT_KEY]);

#endif
