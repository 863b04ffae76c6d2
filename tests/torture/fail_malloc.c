/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preloaded malloc that fails: the FAIL_AT-th call, and with FAIL_FOR_EVER all after it. It
 * reaches the allocations of libraries, which the library's own hook does not. The counter is on
 * the page that descriptor 198 maps, so that the children of the command count with it. Beside it
 * are counted the failed calls that oneDNN made, and the crashes inside it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

#define COUNTER_FD 198

/* The names below are to stand before the C library's. */
#pragma GCC visibility push(default)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

/* As `counted` in cli/command.h. */
static struct {
    atomic_long calls;
    atomic_long refused;
    atomic_long crashed;
} * page;
static long fail_at;
static int for_ever;

/* Where a walk up the stack has come to. */
typedef struct walk {
    int first; /* only the first frame that is neither of this file nor of libstdc++ counts */
    int found;
} walk;

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *user)
{
    walk *w = user;
    Dl_info in, own;
    const void *at = (const void *)_Unwind_GetIP(context);

    if (!dladdr(at, &in) || !in.dli_fname)
        return w->first ? _URC_END_OF_STACK : _URC_NO_REASON;
    w->found = strstr(in.dli_fname, "/libdnnl.") != NULL;
    if (w->found)
        return _URC_END_OF_STACK;
    if (w->first && !strstr(in.dli_fname, "/libstdc++.") &&
        !(dladdr((const void *)(uintptr_t)look, &own) && own.dli_fbase == in.dli_fbase))
        return _URC_END_OF_STACK;
    return _URC_NO_REASON;
}

/* True: oneDNN is the caller, by itself or by operator new; not `first`: it is somewhere above. */
static int in_onednn(int first)
{
    walk w = {first, 0};

    _Unwind_Backtrace(look, &w);
    return w.found;
}

/* The handler is gone when it is called, so that the crash comes again. */
static void crash(int signal)
{
    if (page && in_onednn(0))
        atomic_fetch_add(&page->crashed, 1);
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_AT");
    struct sigaction act = {.sa_handler = crash, .sa_flags = SA_RESETHAND};

    fail_at = at ? atol(at) : 0;
    for_ever = getenv("FAIL_FOR_EVER") != NULL;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, COUNTER_FD, 0);
    if (page == MAP_FAILED)
        page = NULL;
    sigaction(SIGSEGV, &act, NULL);
}

static int strikes(void)
{
    if (!page)
        return 0;
    long call = atomic_fetch_add(&page->calls, 1) + 1;
    int hit = fail_at && (for_ever ? call >= fail_at : call == fail_at);
    if (hit) {
        if (in_onednn(1))
            atomic_fetch_add(&page->refused, 1);
        errno = ENOMEM;
    }
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
