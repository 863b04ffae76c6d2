/* SPDX-License-Identifier: Apache-2.0 */
#include "support/faults.h"

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

#define EACH 64 /* so many are struck everywhere: opening, small things */

bool fault_strikes(faults *f)
{
    const int64_t left = f->left--;

    return left == 0 || (left < 0 && f->for_good);
}

bool fault_struck(const faults *f)
{
    return f->left < 0;
}

int64_t fault_next(int64_t n)
{
    const char *wanted = getenv("STOKER_TEST_TORTURE");
    const bool whole = !TEST_SANITIZED || (wanted && strcmp(wanted, "whole") == 0);

    return n + (whole || n < EACH ? 1 : 3);
}

void *faulty_alloc(void *user, size_t size, size_t align)
{
    faults *f = user;
    void *memory = NULL;

    if (fault_strikes(f))
        return NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size ? size : 1))
        return NULL;
    f->held++;
    return memory;
}

void faulty_free(void *user, void *memory, size_t size)
{
    (void)size;
    if (memory)
        ((faults *)user)->held--;
    free(memory);
}
