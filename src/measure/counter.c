/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/measure.h"

#include "base/probe.h"

struct stk__counter {
    stk_context *ctx;
    stk__probe probe;
    atomic_uint_fast64_t samples, reads, read_ns;
};

static void add(atomic_uint_fast64_t *counter, uint64_t value)
{
    atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

static void on_event(void *user, const stk__event *event)
{
    stk__counter *c = user;

    if (event->kind == STK__EVENT_SAMPLE) {
        add(&c->samples, event->count);
    } else if (event->kind == STK__EVENT_READ) {
        add(&c->reads, 1);
        add(&c->read_ns, event->end_ns - event->start_ns);
    }
}

stk_status stk__counter_open(stk_context *context, stk__counter **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk__counter *c = stk__calloc(context, 1, sizeof *c);
    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a counter");
    c->ctx = context;
    c->probe = (stk__probe){.event = on_event, .user = c};
    stk_status status = stk__probe_add(context, &c->probe);
    if (status != STK_OK) {
        stk__free(context, c);
        return stk__fail(
            err, status, STK_STAGE_MEASURE,
            "the context has too many listeners for a counter: close another one or a log first");
    }
    stk__context_ref(context);
    *out = c;
    return STK_OK;
}

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void stk__counter_get(const stk__counter *c, stk__counts *out)
{
    *out = (stk__counts){
        .samples = get(&c->samples), .reads = get(&c->reads), .read_ns = get(&c->read_ns)};
}

void stk__counter_close(stk__counter **counter)
{
    if (!counter || !*counter)
        return;
    stk__counter *c = *counter;
    stk_context *ctx = c->ctx;

    *counter = NULL;
    if (!stk__context_forked(ctx))
        stk__probe_remove(ctx, &c->probe);
    stk__free(ctx, c);
    stk__context_unref(ctx);
}
