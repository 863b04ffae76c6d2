/* SPDX-License-Identifier: Apache-2.0 */
/* The only caller of the allocator. Each block is preceded by a head that knows its size. */
#include "base/context.h"
#include "base/wiped.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The head takes one cache line, so that what follows it keeps the block's alignment. */
typedef struct head {
    size_t total; /* bytes asked of the allocator, head and tail included */
    size_t size;  /* bytes the caller asked for */
    size_t align;
} head;

#define HEAD_SMALL 32 /* of blocks aligned to 16 */

/*
 * Large buffers are pages of their own, which go back to the system when they are freed. The C
 * library raises its bound for that to the largest block it has seen, and keeps beyond it what
 * threads have cut to pieces: twice the budget of a loader. Under a sanitizer it is asked for all
 * of them, as it sees more.
 */
#if defined(__SANITIZE_ADDRESS__)
#define MAPPED SIZE_MAX
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define MAPPED SIZE_MAX
#endif
#endif
#ifndef MAPPED
#define MAPPED ((size_t)128 << 10)
#endif

static bool is_mapped(size_t size, size_t align)
{
    return align == STK_CACHE_LINE && size >= MAPPED;
}

static void system_free(void *memory, size_t size, size_t align)
{
    if (is_mapped(size, align))
        munmap(memory, size);
    else
        free(memory);
}

/* `ctx` may be NULL: that is made. */
static void *system_alloc(const stk_context *ctx, size_t size, size_t align)
{
    void *memory = NULL;

    if (is_mapped(size, align)) {
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        if (ctx)
            stk__place_memory(ctx, memory, size);
        return memory;
    }
    if (align <= 16)
        return malloc(size);
    return posix_memalign(&memory, align, size) == 0 ? memory : NULL;
}

uint64_t stk__memory_left(const stk_context *ctx)
{
    uint64_t taken = atomic_load_explicit(&ctx->bytes, memory_order_relaxed);

    return taken < ctx->memory_limit ? ctx->memory_limit - taken : 0;
}

void stk__memory_note(stk_context *ctx, int64_t bytes)
{
    uint64_t more = (uint64_t)bytes;
    uint64_t now = atomic_fetch_add_explicit(&ctx->bytes, more, memory_order_relaxed) + more;
    uint64_t peak = atomic_load_explicit(&ctx->peak_bytes, memory_order_relaxed);

    while (bytes > 0 && now > peak &&
           !atomic_compare_exchange_weak_explicit(&ctx->peak_bytes, &peak, now,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

static void *alloc(stk_context *ctx, size_t size, size_t align, size_t tail)
{
    size_t front = align > 16 ? align : HEAD_SMALL;
    uint64_t total;

    if (!stk__add_size(size, front + tail, &total) || total > SIZE_MAX / 2)
        return NULL;
    char *base = ctx->allocator.alloc ? ctx->allocator.alloc(ctx->allocator.user, total, align)
                                      : system_alloc(ctx, total, align);
    if (!base)
        return NULL;
    head *h = (head *)(base + front) - 1;
    *h = (head){.total = total, .size = size, .align = align};
    memset(base + front + size, 0, tail);
    atomic_fetch_add_explicit(&ctx->allocations, 1, memory_order_relaxed);
    stk__memory_note(ctx, (int64_t)total);
    return base + front;
}

void *stk__alloc(stk_context *ctx, size_t size)
{
    return alloc(ctx, size, 16, 0);
}

void *stk__calloc(stk_context *ctx, size_t count, size_t size)
{
    uint64_t bytes;

    if (!stk__mul_size(count, size, &bytes) || bytes > SIZE_MAX)
        return NULL;
    void *memory = alloc(ctx, bytes, 16, 0);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void *stk__alloc_buffer(stk_context *ctx, size_t size)
{
    return alloc(ctx, size, STK_CACHE_LINE, STK_TAIL);
}

/* Of the whole pages of some memory; it may be refused. */
static void advise(void *memory, uint64_t bytes, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)memory,
                    first = stk__round_up(start, page), end = (start + bytes) / page * page;

    if (end > first)
        madvise((void *)first, end - first, advice);
}

void stk__use_large_pages(void *memory, uint64_t bytes)
{
    advise(memory, bytes, MADV_HUGEPAGE);
}

void stk__give_pages_back(void *memory, uint64_t bytes)
{
    advise(memory, bytes, MADV_DONTNEED);
}

void *stk__realloc(stk_context *ctx, void *memory, size_t size)
{
    if (!memory)
        return stk__alloc(ctx, size);
    const head *h = (const head *)memory - 1;
    void *grown = stk__alloc(ctx, size);
    if (!grown)
        return NULL;
    memcpy(grown, memory, STK_MIN(size, h->size));
    stk__free(ctx, memory);
    return grown;
}

#define LEAST_ROOM 16 /* elements of a list that has any */

void *stk__grow(stk_context *ctx, void *array, size_t *room, uint64_t wanted, size_t size)
{
    uint64_t more = 0, bytes = 0;

    if (array && wanted <= *room)
        return array;
    if (!stk__mul_size(*room, 2, &more))
        return NULL;
    more = STK_MAX(STK_MAX(more, wanted), (uint64_t)LEAST_ROOM);
    if (!stk__mul_size(more, size, &bytes) || bytes > stk__memory_left(ctx))
        return NULL;
    void *grown = stk__realloc(ctx, array, bytes);
    if (grown)
        *room = more;
    return grown;
}

void stk__free(stk_context *ctx, void *memory)
{
    if (!memory)
        return;
    head *h = (head *)memory - 1;
    size_t total = h->total, align = h->align;
    char *base = (char *)memory - (h->align > 16 ? h->align : HEAD_SMALL);

    stk__memory_note(ctx, -(int64_t)total);
    if (ctx->allocator.alloc)
        ctx->allocator.free(ctx->allocator.user, base, total);
    else
        system_free(base, total, align);
}

char *stk__strdup(stk_context *ctx, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = stk__alloc(ctx, size);

    return copy ? memcpy(copy, text, size) : NULL;
}

char *stk__format(stk_context *ctx, const char *format, ...)
{
    va_list arguments, again;

    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : stk__alloc(ctx, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

/* The context itself is outside its own accounts. */
stk_context *stk__context_memory_new(const stk_allocator *allocator)
{
    stk_context *ctx = allocator->alloc
                           ? allocator->alloc(allocator->user, sizeof *ctx, STK_CACHE_LINE)
                           : system_alloc(NULL, sizeof *ctx, STK_CACHE_LINE);

    if (ctx) {
        memset(ctx, 0, sizeof *ctx);
        ctx->allocator = *allocator;
    }
    return ctx;
}

void stk__context_memory_free(stk_context *ctx)
{
    stk_allocator allocator = ctx->allocator;

    if (allocator.alloc)
        allocator.free(allocator.user, ctx, sizeof *ctx);
    else
        system_free(ctx, sizeof *ctx, STK_CACHE_LINE);
}

/* ---- For a library that may hold secrets ---- */

#define WIPED_MOST ((size_t)32 << 10) /* bytes: larger blocks are buffers of data */

void *stk__wiped_alloc(size_t size)
{
    return malloc(size);
}

void *stk__wiped_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

void stk__wiped_free(void *memory)
{
    const size_t size = memory ? malloc_usable_size(memory) : 0;

    if (size > 0 && size <= WIPED_MOST)
        explicit_bzero(memory, size);
    free(memory);
}

void *stk__wiped_realloc(void *memory, size_t size)
{
    const size_t had = memory ? malloc_usable_size(memory) : 0;

    if (had == 0 || had > WIPED_MOST)
        return realloc(memory, size);
    void *moved = malloc(size);
    if (!moved)
        return NULL;
    memcpy(moved, memory, STK_MIN(had, size));
    stk__wiped_free(memory);
    return moved;
}

char *stk__wiped_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    return copy ? memcpy(copy, text, size) : NULL;
}
