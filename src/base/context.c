/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/options.h"
#include "base/probe.h"
#include "base/sized.h"

/* Counts the forks above this process: a handle of another generation belongs to an ancestor. */
static atomic_uint fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

#define MAX_STORES 64 /* items of the option `stores` */

static const stk__items_kind stores_kind = {.stage = STK_STAGE_OPTIONS,
                                            .list = "stores",
                                            .item = "store",
                                            .form = "PREFIX(option=value)",
                                            .most = MAX_STORES,
                                            .patterns = true,
                                            .quiet = true};

/* What is known without the drivers: no secret is written down. */
static stk_status check_store(const stk__item *item, stk_error *err)
{
    STK_TRY(stk__secret_refuse(item->name, err));
    for (uint32_t i = 0; i < item->count; i++) {
        const stk__argument *a = &item->arguments[i];
        if (!a->name)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "stores", STK_NO_OFFSET,
                                "stores: an argument of '%.100s' has no name; write option=value",
                                item->name);
        if (stk__secret_name(a->name, strlen(a->name)) && !stk__secret_named(a->value))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "stores", STK_NO_OFFSET,
                                "stores: %.60s of '%.100s' is a secret, which is not written down: "
                                "give env:NAME, the name of an environment variable that holds it",
                                a->name, item->name);
    }
    return STK_OK;
}

static stk_status take_stores(stk_context *ctx, const char *text, stk_error *err)
{
    stk_status status = stk__items_parse(ctx, &stores_kind, text, &ctx->stores, err);

    for (uint32_t i = 0; i < ctx->stores.count && status == STK_OK; i++)
        status = check_store(&ctx->stores.items[i], err);
    return status;
}

stk_status stk_context_create(const stk_context_options *options, stk_context **out, stk_error *err)
{
    stk_context_options defaults;

    *out = NULL;
    stk_context_options_init(&defaults);
    if (options)
        STK_TRY(stk__sized_read(&defaults, sizeof defaults, options, "stk_context_options",
                                STK_STAGE_NONE, err));
    if (!defaults.allocator.alloc != !defaults.allocator.free)
        return stk__fail(err, STK_EINVAL, STK_STAGE_NONE,
                         "the allocator has one of alloc and free: give both or none");
    pthread_once(&fork_once, watch_forks);
    stk_context *ctx = stk__context_memory_new(&defaults.allocator);
    if (!ctx)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_NONE, "no memory for a context");
    ctx->options = defaults;
    ctx->options.stores = NULL;
    atomic_store(&ctx->references, 1);
    ctx->fork_generation = atomic_load(&fork_generation);
    pthread_rwlock_init(&ctx->probe_lock, NULL);
    pthread_rwlock_init(&ctx->source_lock, NULL);
    pthread_mutex_init(&ctx->progress_lock, NULL);
    pthread_mutex_init(&ctx->registry_lock, NULL);
    pthread_mutex_init(&ctx->slot_lock, NULL);
    stk__context_place(ctx, "");
    ctx->memory_limit = stk__memory_find("");
    if (defaults.memory_limit)
        ctx->memory_limit = STK_MIN(ctx->memory_limit, defaults.memory_limit);
    ctx->memory_ranks = defaults.memory_ranks ? defaults.memory_ranks : ctx->cores.all_ranks;
#if defined(__x86_64__)
    ctx->avx2 = defaults.instructions == STK_INSTRUCTIONS_ALL && __builtin_cpu_supports("avx2");
#endif
    const stk_status status = take_stores(ctx, defaults.stores, err);
    if (status != STK_OK)
        stk_context_destroy(&ctx);
    *out = ctx;
    return status;
}

stk_context *stk__context_ref(stk_context *ctx)
{
    atomic_fetch_add(&ctx->references, 1);
    return ctx;
}

void stk__context_unref(stk_context *ctx)
{
    /* What others hold of it in the parent is left as it is. */
    if (stk__context_forked(ctx))
        return;
    if (atomic_fetch_sub(&ctx->references, 1) != 1)
        return;
    for (int i = 0; i < STK__SLOTS; i++)
        if (ctx->slots[i].destroy)
            ctx->slots[i].destroy(ctx, ctx->slots[i].data);
    stk__items_release(ctx, &ctx->stores);
    pthread_mutex_destroy(&ctx->slot_lock);
    pthread_mutex_destroy(&ctx->registry_lock);
    pthread_mutex_destroy(&ctx->progress_lock);
    pthread_rwlock_destroy(&ctx->source_lock);
    pthread_rwlock_destroy(&ctx->probe_lock);
    stk__context_memory_free(ctx);
}

void stk_context_destroy(stk_context **context)
{
    if (!context || !*context)
        return;
    stk__context_unref(*context);
    *context = NULL;
}

void stk_context_cores(const stk_context *context, stk_cores *out)
{
    stk_cores cores = context->cores;

    cores.compute = STK_MAX(cores.compute, atomic_load(&context->model_threads));
    stk__sized_write(out, &cores);
}

uint32_t stk__context_model_threads(stk_context *ctx, uint32_t wanted, bool *chosen)
{
    *chosen = ctx->options.compute_threads == 0;
    if (!*chosen)
        return ctx->cores.compute;
    const unsigned threads =
        STK_MIN(STK_MAX(wanted, 1), STK_MAX(ctx->cores.usable / ctx->cores.ranks, 1));
    unsigned most = atomic_load(&ctx->model_threads);
    while (most < threads && !atomic_compare_exchange_weak(&ctx->model_threads, &most, threads)) {
    }
    return threads;
}

uint64_t stk__context_memory_limit(const stk_context *context)
{
    return context->memory_limit;
}

uint64_t stk__context_memory_share(const stk_context *context)
{
    return context->memory_limit / context->memory_ranks;
}

uint64_t stk__context_memory_room(const stk_context *context)
{
    const uint64_t system = stk__memory_room("");

    return STK_MIN(stk__memory_left(context), system - system / 8);
}

void stk_context_memory(const stk_context *context, stk_memory_stats *out)
{
    const stk_memory_stats stats = {
        .struct_size = sizeof stats,
        .allocations = atomic_load_explicit(&context->allocations, memory_order_relaxed),
        .bytes = atomic_load_explicit(&context->bytes, memory_order_relaxed),
        .peak_bytes = atomic_load_explicit(&context->peak_bytes, memory_order_relaxed),
    };

    stk__sized_write(out, &stats);
}

bool stk__context_forked(const stk_context *ctx)
{
    return ctx->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

stk_status stk__context_check(const stk_context *ctx, stk_error *err)
{
    if (!stk__context_forked(ctx))
        return STK_OK;
    return stk__fail(err, STK_EFORK, STK_STAGE_NONE,
                     "this handle was made before fork() and its threads are in the parent: "
                     "make the context and all that hangs on it in the child");
}

stk_io_engine stk__context_io_engine(const stk_context *ctx)
{
    return ctx->options.io_engine;
}

const stk__items *stk__context_stores(const stk_context *ctx)
{
    return &ctx->stores;
}

bool stk__cpu_has_avx2(const stk_context *ctx)
{
    return ctx->avx2;
}

void stk__message(stk_context *ctx, stk_message_level level, const char *format, ...)
{
    char message[1024];
    va_list arguments;

    if (!ctx->options.on_message)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ctx->options.on_message(ctx->options.on_message_user, level, message);
}

void stk__progress(stk_context *ctx, const char *what, uint64_t done, uint64_t total)
{
    stk__progress_keep(ctx, what, done, total);
    if (ctx->options.progress)
        ctx->options.progress(ctx->options.progress_user, what, done, total);
}

stk_status stk__probe_add(stk_context *ctx, const stk__probe *probe)
{
    stk_status status = STK_EBUSY;

    pthread_rwlock_wrlock(&ctx->probe_lock);
    for (int i = 0; i < STK_MAX_PROBES && status != STK_OK; i++) {
        if (ctx->probes[i].event)
            continue;
        ctx->probes[i] = *probe;
        atomic_fetch_add(&ctx->num_probes, 1);
        status = STK_OK;
    }
    pthread_rwlock_unlock(&ctx->probe_lock);
    return status;
}

void stk__probe_remove(stk_context *ctx, const stk__probe *probe)
{
    pthread_rwlock_wrlock(&ctx->probe_lock);
    for (int i = 0; i < STK_MAX_PROBES; i++) {
        if (ctx->probes[i].event != probe->event || ctx->probes[i].user != probe->user)
            continue;
        ctx->probes[i] = (stk__probe){0};
        atomic_fetch_sub(&ctx->num_probes, 1);
        break;
    }
    pthread_rwlock_unlock(&ctx->probe_lock);
}

bool stk__probed(const stk_context *ctx)
{
    return atomic_load_explicit(&ctx->num_probes, memory_order_relaxed) != 0;
}

void stk__emit(stk_context *ctx, const stk__event *event)
{
    if (!stk__probed(ctx))
        return;
    pthread_rwlock_rdlock(&ctx->probe_lock);
    for (int i = 0; i < STK_MAX_PROBES; i++)
        if (ctx->probes[i].event)
            ctx->probes[i].event(ctx->probes[i].user, event);
    pthread_rwlock_unlock(&ctx->probe_lock);
}

atomic_uint *stk__context_openings(stk_context *ctx)
{
    return &ctx->openings;
}

stk_status stk__context_slot(stk_context *ctx, stk__slot_of which,
                             stk_status (*use)(stk_context *ctx, stk__slot *slot, void *user),
                             void *user)
{
    pthread_mutex_lock(&ctx->slot_lock);
    stk_status status = use(ctx, &ctx->slots[which], user);
    pthread_mutex_unlock(&ctx->slot_lock);
    return status;
}
