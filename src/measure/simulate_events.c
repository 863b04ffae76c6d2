/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of the model: what is due when, and threads that share cores. */
#include "measure/simulate.h"

#include <math.h>

static bool before(const stk__sim_event *a, const stk__sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static stk_status push(stk_context *ctx, stk__sim_heap *heap, const stk__sim_event *event)
{
    stk__sim_event *events = stk__grow(ctx, heap->events, &heap->room, heap->n + 1, sizeof *events);

    if (!events)
        return STK_ENOMEM;
    heap->events = events;
    uint64_t i = heap->n++;
    for (; i > 0 && before(event, &events[(i - 1) / 2]); i = (i - 1) / 2)
        events[i] = events[(i - 1) / 2];
    events[i] = *event;
    return STK_OK;
}

static stk__sim_event pop(stk__sim_heap *heap)
{
    stk__sim_event *events = heap->events;
    const stk__sim_event top = events[0], last = events[--heap->n];
    uint64_t i = 0;

    for (uint64_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && before(&events[child + 1], &events[child]))
            child++;
        if (!before(&events[child], &last))
            break;
        events[i] = events[child];
    }
    events[i] = last;
    return top;
}

stk_status stk__sim_after(stk__sim_clock *clock, double seconds, uint32_t what, uint32_t rank,
                          uint64_t number)
{
    const stk__sim_event event = {.at = clock->now + STK_MAX(seconds, 0.0),
                                  .order = clock->order++,
                                  .number = number,
                                  .what = what,
                                  .rank = rank};

    return push(clock->ctx, &clock->timed, &event);
}

stk_status stk__sim_compute(stk__sim_clock *clock, double seconds, double threads, uint32_t what,
                            uint32_t rank, uint64_t number)
{
    const stk__sim_event event = {.at = clock->shared + STK_MAX(seconds, 0.0),
                                  .order = clock->order++,
                                  .number = number,
                                  .what = what,
                                  .rank = rank,
                                  .weight = threads};

    clock->weight += threads;
    return push(clock->ctx, &clock->computing, &event);
}

bool stk__sim_next(stk__sim_clock *clock, stk__sim_event *out)
{
    const double rate = clock->weight > clock->cores ? clock->cores / clock->weight : 1;
    const stk__sim_heap *timed = &clock->timed, *computing = &clock->computing;

    if (timed->n == 0 && computing->n == 0)
        return false;
    const double due = timed->n ? timed->events[0].at : INFINITY;
    const double done =
        computing->n ? clock->now + (computing->events[0].at - clock->shared) / rate : INFINITY;
    if (done <= due) {
        *out = pop(&clock->computing);
        clock->now = STK_MAX(clock->now, done);
        clock->shared = STK_MAX(clock->shared, out->at);
        clock->weight -= out->weight;
        /* Sums of whole numbers: exact, so that nothing is left of the last. */
        return true;
    }
    *out = pop(&clock->timed);
    clock->shared += (due - clock->now) * rate;
    clock->now = due;
    return true;
}

void stk__sim_release(stk__sim_clock *clock)
{
    stk__free(clock->ctx, clock->timed.events);
    stk__free(clock->ctx, clock->computing.events);
}
