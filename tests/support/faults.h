/* An allocator that fails on purpose, for stk_context_options.allocator. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_FAULTS_H
#define STK_TESTS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fails the allocation that makes the count zero, and all later ones when `for_good`. Any number of
 * threads. */
typedef struct faults {
    _Atomic int64_t left;
    bool for_good;
    _Atomic int64_t held; /* blocks not freed */
} faults;

void *faulty_alloc(void *user, size_t size, size_t align);
void faulty_free(void *user, void *memory, size_t size);

#endif
