/* Calls that fail on purpose; and an allocator of them, for stk_context_options.allocator. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_FAULTS_H
#define STK_TESTS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `left` of a call that never fails. */
#define FAULTS_NONE INT64_MAX

/* The call that finds `left` at zero fails, and all later ones when `for_good`. Any number of
 * threads. */
typedef struct faults {
    _Atomic int64_t left;
    bool for_good;
    _Atomic int64_t held; /* blocks not freed */
} faults;

/* Count a call, and say whether it is to fail. */
bool fault_strikes(faults *f);
/* Whether one has failed since `left` was set. */
bool fault_struck(const faults *f);

/* The call that fails after the n-th did: the next one. Under a sanitizer one of three behind the
 * first, as each is struck without; each in ./dev torture (STOKER_TEST_TORTURE=whole). */
int64_t fault_next(int64_t n);

void *faulty_alloc(void *user, size_t size, size_t align);
void faulty_free(void *user, void *memory, size_t size);

#endif
