/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and memory go where numa.c says. What the system refuses is no error: it is slower. */
#include "base/numa.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/context.h"

/* Of <linux/mempolicy.h>; the last one since Linux 5.15, before which a thread on cores of several
 * nodes has memory of the nearest, as anybody. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, POLICY_PREFERRED_MANY = 5 };

#define NODE_BITS (STK__NODES + 1ul) /* the kernel counts one less */

/* The mask of the calling thread. False: it has one that does not fit. */
static bool get_mask(stk__cpus *out)
{
    *out = (stk__cpus){{0}};
    return sched_getaffinity(0, sizeof *out, (cpu_set_t *)out->bits) == 0;
}

static bool go_to(const stk__cpus *cpus)
{
    return sched_setaffinity(0, sizeof *cpus, (const cpu_set_t *)cpus->bits) == 0;
}

static long policy_of(const stk__place *place)
{
    return place->own > 1 ? POLICY_PREFERRED_MANY : POLICY_PREFERRED;
}

static bool prefer(const stk__place *place, void *memory, size_t size)
{
    return syscall(SYS_mbind, memory, size, policy_of(place), place->memory.bits, NODE_BITS, 0ul) ==
           0;
}

/* Whether it can be done, on a page of no other use. Else errno. */
static bool try_page(const stk__place *place)
{
    const size_t page = (size_t)STK_MAX(sysconf(_SC_PAGESIZE), 1);
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    const bool good = prefer(place, memory, page);
    const int error = errno;
    munmap(memory, page);
    errno = error;
    return good;
}

/* Whether the user has chosen a policy of memory, as numactl does. */
static bool has_policy(void)
{
    int policy = POLICY_DEFAULT;

    return syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul) == 0 &&
           policy != POLICY_DEFAULT;
}

/* What the system refuses of it is left out, and said. */
static void settle(stk_context *ctx)
{
    stk__place *place = &ctx->place;
    char text[128];

    if (place->bound) {
        stk__list_write(place->cpus.bits, STK__CPUS, text, sizeof text);
        stk__message(ctx, STK_MESSAGE_INFO, "this rank is on NUMA node%s %s: cores %s",
                     place->own == 1 ? "" : "s", place->list, text);
    }
    place->prefers &= !has_policy();
    if (!place->prefers || try_page(place))
        return;
    place->prefers = false;
    stk__message(ctx, STK_MESSAGE_INFO,
                 "the system does not let memory be taken from NUMA node%s %s first (mbind: %s): "
                 "it is where it is first written",
                 place->own == 1 ? "" : "s", place->list, strerrordesc_np(errno));
}

void stk__context_place(stk_context *ctx, const char *root)
{
    const stk_context_options *o = &ctx->options;
    const uint32_t compute = (uint32_t)STK_MIN(o->compute_threads, UINT32_MAX);
    stk__cpus mask;

    stk__cores_find(root, compute, (uint32_t)STK_MIN(o->local_ranks, UINT32_MAX), &ctx->cores);
    const stk__place_wish wish = {.ranks = ctx->cores.ranks,
                                  .machine_ranks = o->memory_ranks,
                                  .number = o->local_number,
                                  .anywhere = o->numa == STK_NUMA_OFF};
    ctx->place = (stk__place){.ranks = ctx->cores.ranks};
    if (get_mask(&mask))
        stk__numa_place(root, &mask, &wish, &ctx->place);
    stk__cores_take(&ctx->place, compute, &ctx->cores);
    settle(ctx);
}

void stk__place_thread(const stk_context *ctx)
{
    const stk__place *place = &ctx->place;

    if (place->bound)
        go_to(&place->cpus);
    if (place->prefers)
        syscall(SYS_set_mempolicy, policy_of(place), place->memory.bits, NODE_BITS);
}

void stk__place_memory(const stk_context *ctx, void *memory, size_t size)
{
    if (ctx->place.prefers)
        prefer(&ctx->place, memory, size);
}

void stk_context_bind(stk_context *context)
{
    if (stk__context_forked(context) || !get_mask(&context->unbound))
        return;
    stk__place_thread(context);
    context->entered = true;
}

void stk_context_unbind(stk_context *context)
{
    if (stk__context_forked(context) || !context->entered)
        return;
    context->entered = false;
    if (context->place.bound)
        go_to(&context->unbound);
    if (context->place.prefers)
        syscall(SYS_set_mempolicy, (long)POLICY_DEFAULT, NULL, 0ul);
}
