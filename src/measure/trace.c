/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of the loader for Chrome and Perfetto, written as it happens: lanes of the step, of
 * workers and of batches in the making, reads as spans of their own, and an arrow from the samples
 * that completed a batch to the batch and on to its step. Of all batches every n-th is kept, whole.
 * Times are microseconds of the monotonic clock.
 */
#include "measure/measure.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/chrome.h"
#include "base/probe.h"

enum { PROCESS = 1, LANES = 64, LINE = 512 };

#define CATEGORY "stoker"

#define MOST_EVENTS 1000000

/* What a worker did last; written by its own thread alone. */
typedef struct task {
    uint64_t epoch, step, start_ns, end_ns;
} task;

struct stk__event_trace {
    stk_context *ctx;
    stk__probe probe;
    stk__writer *writer;
    uint64_t every;
    atomic_uint_fast64_t events, reads;
    atomic_bool full, seen[LANES]; /* workers */
    task tasks[LANES];
};

static bool kept(stk__event_trace *t, uint64_t step)
{
    return step % t->every == 0 && !atomic_load_explicit(&t->full, memory_order_relaxed);
}

/* An event of a lane that begins; put() follows, once it is whole. */
static stk__text begin(char line[LINE], const char *name, char phase, uint32_t lane,
                       uint64_t when_ns)
{
    stk__text text = {.bytes = line, .room = LINE};

    stk__chrome_begin(&text, name, CATEGORY, phase, (stk__chrome_place){PROCESS, lane, when_ns});
    return text;
}

static void put(stk__event_trace *t, stk__text *text)
{
    stk__text_put(text, ",\n", 2);
    if (text->length >= LINE)
        return;
    stk__writer_put(t->writer, text->bytes, text->length);
    if (atomic_fetch_add(&t->events, 1) == MOST_EVENTS && !atomic_exchange(&t->full, true))
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "the trace ends after %d events: keep fewer batches (trace_every)",
                     MOST_EVENTS);
}

static void put_span(stk__event_trace *t, const char *name, uint32_t lane, uint64_t start_ns,
                     uint64_t end_ns, uint64_t epoch, uint64_t step, uint64_t count)
{
    char line[LINE];
    stk__text text = {.bytes = line, .room = LINE};

    stk__chrome_begin_span(&text, name, CATEGORY, (stk__chrome_place){PROCESS, lane, start_ns},
                           end_ns);
    stk__chrome_batch(&text, epoch, step, count);
    stk__text_put(&text, "}", 1);
    put(t, &text);
}

/* One stop of the arrow of a batch: 's' begins, 't' goes on, 'f' ends it. */
static void put_arrow(stk__event_trace *t, char phase, uint32_t lane, uint64_t when_ns,
                      uint64_t epoch, uint64_t step)
{
    char line[LINE];
    stk__text text = begin(line, "sample to batch to step", phase, lane, when_ns);

    stk__text_add(&text, ",\"bp\":\"e\",\"id\":\"%" PRIu64 ".%" PRIu64 "\"}", epoch, step);
    put(t, &text);
}

static void put_read(stk__event_trace *t, const stk__event *event)
{
    const uint64_t id = atomic_fetch_add(&t->reads, 1);
    char line[LINE];

    if (!kept(t, id))
        return;
    stk__text text = begin(line, "read", 'b', STK__LANE_STEP, event->start_ns);
    stk__text_add(&text, ",\"id\":%" PRIu64 ",\"args\":{\"bytes\":%" PRIu64 ",\"status\":\"%s\"}}",
                  id, event->bytes, stk_status_name(event->status));
    put(t, &text);
    text = begin(line, "read", 'e', STK__LANE_STEP, event->end_ns);
    stk__text_add(&text, ",\"id\":%" PRIu64 "}", id);
    put(t, &text);
}

static uint32_t lane_of(const stk__event *event)
{
    return event->worker < LANES ? STK__LANE_WORKERS + event->worker : STK__LANE_STEP;
}

static void put_sample(stk__event_trace *t, const stk__event *event)
{
    if (event->worker < LANES) {
        t->tasks[event->worker] = (task){event->epoch, event->step, event->start_ns, event->end_ns};
        atomic_store_explicit(&t->seen[event->worker], true, memory_order_relaxed);
    }
    put_span(t, "prepare", lane_of(event), event->start_ns, event->end_ns, event->epoch,
             event->step, event->count);
}

static void put_batch(stk__event_trace *t, const stk__event *event)
{
    const uint32_t lane = STK__LANE_BATCHES + (uint32_t)(event->step / t->every % LANES);

    put_span(t, "batch", lane, event->start_ns, event->end_ns, event->epoch, event->step,
             event->count);
    if (event->worker >= LANES)
        return;
    const task *last = &t->tasks[event->worker];
    if (last->epoch != event->epoch || last->step != event->step)
        return;
    put_arrow(t, 's', STK__LANE_WORKERS + event->worker, last->start_ns, event->epoch, event->step);
    put_arrow(t, 't', lane, last->end_ns, event->epoch, event->step);
}

static void on_event(void *user, const stk__event *event)
{
    stk__event_trace *t = user;

    if (event->kind == STK__EVENT_READ && event->start_ns) {
        put_read(t, event);
        return;
    }
    if (!kept(t, event->step) || event->end_ns < event->start_ns)
        return;
    if (event->kind == STK__EVENT_SAMPLE)
        put_sample(t, event);
    else if (event->kind == STK__EVENT_BATCH)
        put_batch(t, event);
    else if (event->kind == STK__EVENT_DELIVER)
        put_span(t, "data wait", STK__LANE_STEP, event->start_ns, event->end_ns, event->epoch,
                 event->step, event->count);
}

void stk__event_trace_step(stk__event_trace *t, uint64_t epoch, uint64_t step, uint64_t start_ns,
                           uint64_t end_ns)
{
    if (!t || !kept(t, step) || end_ns < start_ns)
        return;
    if (stk__context_forked(t->ctx))
        return;
    put_span(t, "step", STK__LANE_STEP, start_ns, end_ns, epoch, step, 0);
    put_arrow(t, 'f', STK__LANE_STEP, start_ns, epoch, step);
}

stk_status stk__event_trace_open(stk_context *context, const char *path, uint64_t every,
                                 stk__event_trace **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk__event_trace *t = stk__calloc(context, 1, sizeof *t);
    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a trace");
    t->ctx = context;
    t->every = STK_MAX(every, (uint64_t)1);
    /* What is there is of another run. */
    stk_status status = stk__writer_open(context, path, true, &t->writer, err);
    if (status != STK_OK) {
        stk__free(context, t);
        return status;
    }
    stk__writer_put(t->writer, "[\n", 2);
    stk__writer_flush(t->writer);
    t->probe = (stk__probe){.event = on_event, .user = t};
    status = stk__probe_add(context, &t->probe);
    if (status != STK_OK) {
        stk__writer_close(&t->writer, NULL);
        stk__free(context, t);
        return stk__fail(err, status, STK_STAGE_MEASURE,
                         "the context has too many listeners for a trace: close a log or a counter "
                         "first");
    }
    stk__context_ref(context);
    *out = t;
    return STK_OK;
}

static stk__text name_lane(char line[LINE], uint32_t lane, const char *name)
{
    stk__text text = {.bytes = line, .room = LINE};

    stk__chrome_name(&text, "thread_name", (stk__chrome_place){PROCESS, lane, 0}, name);
    return text;
}

/* Of the lanes that were used, and the end of the list. */
static void put_names(stk__event_trace *t)
{
    char name[32], line[LINE];
    stk__text text;

    for (uint32_t i = 0; i < LANES; i++) {
        snprintf(name, sizeof name, "worker %" PRIu32, i);
        text = name_lane(line, STK__LANE_WORKERS + i, name);
        if (atomic_load(&t->seen[i]))
            put(t, &text);
        snprintf(name, sizeof name, "batches %" PRIu32, i);
        text = name_lane(line, STK__LANE_BATCHES + i, name);
        put(t, &text);
    }
    stk__writer_flush(t->writer);
    text = name_lane(line, STK__LANE_STEP, "step");
    stk__text_put(&text, "\n]\n", 3);
    stk__writer_put(t->writer, text.bytes, text.length);
}

stk_status stk__event_trace_close(stk__event_trace **trace, stk_error *err)
{
    if (!trace || !*trace)
        return STK_OK;
    stk__event_trace *t = *trace;
    stk_context *ctx = t->ctx;
    *trace = NULL;
    if (!stk__context_forked(ctx)) {
        stk__probe_remove(ctx, &t->probe);
        stk__writer_flush(t->writer);
        put_names(t);
    }
    stk_status status = stk__writer_close(&t->writer, err);
    stk__free(ctx, t);
    stk__context_unref(ctx);
    return status;
}
