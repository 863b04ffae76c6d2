/* SPDX-License-Identifier: Apache-2.0 */
/* What of a context is at work and can be asked, by a thread that looks on. */
#include <stdio.h>

#include "base/context.h"

void stk__source_add(stk_context *ctx, stk__source_kind kind, const void *object)
{
    pthread_rwlock_wrlock(&ctx->source_lock);
    for (size_t i = 0; i < STK__SOURCES; i++)
        if (!ctx->sources[i].object) {
            ctx->sources[i].kind = kind;
            ctx->sources[i].object = object;
            break;
        }
    pthread_rwlock_unlock(&ctx->source_lock);
}

void stk__source_remove(stk_context *ctx, stk__source_kind kind, const void *object)
{
    size_t to = 0;

    pthread_rwlock_wrlock(&ctx->source_lock);
    for (size_t i = 0; i < STK__SOURCES; i++)
        if (ctx->sources[i].object &&
            (ctx->sources[i].object != object || ctx->sources[i].kind != kind))
            ctx->sources[to++] = ctx->sources[i];
    for (; to < STK__SOURCES; to++)
        ctx->sources[to].object = NULL;
    pthread_rwlock_unlock(&ctx->source_lock);
}

void stk__sources_each(stk_context *ctx, stk__source_kind kind,
                       void (*each)(void *user, const void *object), void *user)
{
    pthread_rwlock_rdlock(&ctx->source_lock);
    for (size_t i = 0; i < STK__SOURCES && ctx->sources[i].object; i++)
        if (ctx->sources[i].kind == kind)
            each(user, ctx->sources[i].object);
    pthread_rwlock_unlock(&ctx->source_lock);
}

void stk__progress_keep(stk_context *ctx, const char *what, uint64_t done, uint64_t total)
{
    pthread_mutex_lock(&ctx->progress_lock);
    snprintf(ctx->progressed.what, sizeof ctx->progressed.what, "%s", what);
    ctx->progressed.done = done;
    ctx->progressed.total = total;
    ctx->progressed.at_ns = stk__now_ns();
    pthread_mutex_unlock(&ctx->progress_lock);
}

void stk__progress_last(stk_context *ctx, stk__progressed *out)
{
    pthread_mutex_lock(&ctx->progress_lock);
    *out = ctx->progressed;
    pthread_mutex_unlock(&ctx->progress_lock);
}
