/* The head of an npy file [numpy/lib/format, version 1.0], for those that write one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_NPY_HEAD_H
#define STK_SRC_BASE_NPY_HEAD_H

#include "base/base.h"

#define STK__NPY_HEAD 1024u /* bytes of a head at most */

/* NumPy's code of a type, little endian: "<f4"; NULL: it has none. */
const char *stk__npy_code(stk_dtype dtype);

/* Write the head of an array in C order, which ends at a multiple of 64 bytes. Its length; 0: NumPy
 * has no such type. */
size_t stk__npy_head(char out[STK__NPY_HEAD], stk_dtype dtype, const int64_t *shape, uint32_t rank);

/* Whether bytes begin as an npy file. */
bool stk__npy_begins(const void *data, uint64_t length);

#endif
