/* a struct of the caller's version -> the same of this one, and back */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_SIZED_H
#define STK_SRC_BASE_SIZED_H

#include "base/base.h"

/*
 * Structs that cross the interface begin with `uint32_t struct_size`, which whoever allocates one
 * has set to its size. The library was built with a size of its own: of a caller's struct it reads
 * and writes no more than both have. New members are added at the end, and zero means what was
 * before.
 */

#define STK__SIZED_MOST 65536 /* no struct of a later version is larger */

/*
 * Read a caller's struct over `out`, which holds `size` bytes with the defaults; its struct_size
 * becomes `size`. STK_EINVAL: the caller's is not set, or what lies beyond `size` is not zero, so
 * that it asks for something that this version does not know. `type` names it in messages.
 */
stk_status stk__sized_read(void *out, size_t size, const void *theirs, const char *type,
                           stk_stage stage, stk_error *err);
/* The same where nothing can fail: what this version does not know is left out. */
void stk__sized_copy(void *out, size_t size, const void *theirs);
/* Entry `i` of a caller's array: they lie as far apart as the caller's size says. */
const void *stk__sized_at(const void *array, size_t i);
/* STK_EINVAL where the struct_size of a result that is asked for is not set. */
stk_status stk__sized_check(const void *theirs, const char *type, stk_stage stage, stk_error *err);
/* Write a struct of this version, whose struct_size is set, into the caller's. */
void stk__sized_write(void *theirs, const void *ours);

#endif
