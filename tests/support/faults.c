/* SPDX-License-Identifier: Apache-2.0 */
#include "support/faults.h"

#include <stdlib.h>

bool fault_strikes(faults *f)
{
    const int64_t left = f->left--;

    return left == 0 || (left < 0 && f->for_good);
}

bool fault_struck(const faults *f)
{
    return f->left < 0;
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
