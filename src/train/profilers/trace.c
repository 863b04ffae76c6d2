/* SPDX-License-Identifier: Apache-2.0 */
/* Recording of a trace: events of all threads into slots that each takes for itself. */
#include "base/probe.h"
#include "train/profilers/profiler.h"

void stk__trace_add(stk_profile *p, const stk__trace_event *event)
{
    const size_t slot = atomic_fetch_add_explicit(&p->trace.count, 1, memory_order_relaxed);

    if (slot < p->trace.room)
        p->trace.events[slot] = *event;
}

/* The number of a loader. Any thread: whoever meets it first takes the next place. */
static uint16_t number_of(stk__trace *trace, const void *loader)
{
    uint16_t i = 0;

    for (; loader && i < STK__TRACE_LOADERS; i++) {
        const void *there = atomic_load(&trace->loaders[i].loader);
        if (there == loader ||
            (!there && atomic_compare_exchange_strong(&trace->loaders[i].loader, &there, loader)) ||
            there == loader)
            return i;
    }
    return STK__TRACE_LOADERS;
}

/* A loader delivers to the trainer: what it is for is what the trainer is at. */
static void name_loader(stk_profile *p, uint16_t number)
{
    const stk_moment *at;

    if (number == STK__TRACE_LOADERS || !pthread_equal(pthread_self(), p->trace.trainer))
        return;
    stk__trace_loader *loader = &p->trace.loaders[number];
    if (atomic_load(&loader->phase))
        return;
    at = stk_trainer_moment(p->trainer);
    loader->dataloader_idx = at->dataloader_idx;
    atomic_store(&loader->phase, (uint_fast32_t)at->phase);
}

/* What the rooms below say. Any thread. */
static void on_event(void *user, const stk__event *from)
{
    stk_profile *p = user;
    stk__trace_event event = {.start_ns = from->start_ns,
                              .end_ns = from->end_ns,
                              .loader = number_of(&p->trace, from->loader)};

    switch (from->kind) {
    case STK__EVENT_SAMPLE:
        event.kind = STK__TRACE_SAMPLE;
        event.lane = from->worker;
        event.a = from->epoch;
        event.b = from->position;
        event.c = from->count;
        break;
    case STK__EVENT_READ:
        event.kind = STK__TRACE_READ;
        event.a = from->bytes;
        event.b = from->count;
        event.c = (uint64_t)(int64_t)from->status;
        break;
    case STK__EVENT_BATCH:
    case STK__EVENT_DELIVER:
        event.kind = from->kind == STK__EVENT_BATCH ? STK__TRACE_BATCH : STK__TRACE_DELIVER;
        if (from->kind == STK__EVENT_DELIVER)
            name_loader(p, event.loader);
        event.a = from->epoch;
        event.b = from->step;
        event.c = from->count;
        break;
    case STK__EVENT_BAD_SAMPLE:
        event.kind = STK__TRACE_BAD;
        event.start_ns = event.end_ns = stk__now_ns();
        event.a = from->index;
        event.b = from->position;
        event.c = (uint64_t)(int64_t)from->status;
        break;
    default:
        return;
    }
    /* Where no probe was set as it began, it has no stamps. */
    if (event.start_ns && event.end_ns >= event.start_ns)
        stk__trace_add(p, &event);
}

stk_status stk__trace_open(stk_profile *p, stk_error *err)
{
    p->trace.events = stk__calloc(p->ctx, (size_t)p->options.max_events, sizeof *p->trace.events);
    if (!p->trace.events)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                         "no memory for the %llu events of a trace; lower profile.max_events",
                         (unsigned long long)p->options.max_events);
    p->trace.room = (size_t)p->options.max_events;
    p->trace.probe = (stk__probe){.event = on_event, .user = p};
    stk__trace_listen(p);
    if (!p->trace.listening)
        return stk__fail(err, STK_EBUSY, STK_STAGE_TRAIN,
                         "the context has too many listeners for a trace: close a log or a counter "
                         "first");
    return STK_OK;
}

void stk__trace_listen(stk_profile *p)
{
    if (!p->trace.events)
        return;
    atomic_store(&p->trace.count, 0);
    p->trace.trainer = pthread_self();
    for (size_t i = 0; i < STK__TRACE_LOADERS; i++) {
        atomic_store(&p->trace.loaders[i].loader, NULL);
        atomic_store(&p->trace.loaders[i].phase, 0);
    }
    p->trace.listening = stk__probe_add(p->ctx, &p->trace.probe) == STK_OK;
    if (!p->trace.listening)
        stk__profile_trouble(p, STK_EBUSY, "a trace has no workers: too many listeners");
}

void stk__trace_stop(stk_profile *p)
{
    /* From its return on no thread writes a slot. */
    if (p->trace.listening)
        stk__probe_remove(p->ctx, &p->trace.probe);
    p->trace.listening = false;
}

void stk__trace_close(stk_profile *p)
{
    stk__trace_stop(p);
    stk__free(p->ctx, p->trace.events);
    p->trace.events = NULL;
}
