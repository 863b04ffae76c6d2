/* Files of numbers, of which each is a sample that says which it is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_NUMBERED_H
#define STK_TESTS_NUMBERED_H

#include <stdio.h>
#include <stdlib.h>

#include "support/support.h"

/* Write the numbers first, first + 1, ... to FOLDER/NAME. */
static inline void numbered_write(const char *folder, const char *name, uint64_t first, uint64_t n)
{
    int64_t *numbers = malloc((n + 1) * sizeof *numbers);

    assert_non_null(numbers);
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = (int64_t)(first + i);
    test_write(folder, name, numbers, n * sizeof *numbers);
    free(numbers);
}

/* A spec of which sample i is number i of the file. */
#define NUMBERED "tokens:%s/%s?length=1&stride=1&dtype=int64"

static inline void numbered_spec(const char *folder, const char *name, char *spec, size_t size)
{
    snprintf(spec, size, NUMBERED, folder, name);
}

static inline stk_dataset *numbered_open(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

#endif
