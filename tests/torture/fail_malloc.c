/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preloaded malloc that fails: the FAIL_AT-th call, and with FAIL_FOR_EVER all after it. It
 * reaches the allocations of libraries, which the library's own hook does not. The counter is on
 * the page that descriptor 198 maps, so that the children of the command count with it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COUNTER_FD 198

/* The names below are to stand before the C library's. */
#pragma GCC visibility push(default)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static atomic_long *calls;
static long fail_at;
static int for_ever;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_AT");

    fail_at = at ? atol(at) : 0;
    for_ever = getenv("FAIL_FOR_EVER") != NULL;
    void *page = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, COUNTER_FD, 0);
    calls = page == MAP_FAILED ? NULL : page;
}

static int strikes(void)
{
    if (!calls)
        return 0;
    long call = atomic_fetch_add(calls, 1) + 1;
    int hit = fail_at && (for_ever ? call >= fail_at : call == fail_at);
    if (hit)
        errno = ENOMEM;
    return hit;
}

void *malloc(size_t size)
{
    return strikes() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return strikes() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return strikes() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return strikes() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    if (strikes())
        return ENOMEM;
    *out = __libc_memalign(align, size);
    return *out ? 0 : ENOMEM;
}
