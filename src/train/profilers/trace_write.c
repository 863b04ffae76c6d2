/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a file for Chrome and Perfetto. The process is the rank. The lane of steps is the
 * trainer's with its layers. Each loader has lanes of its own: its workers, and batches in the
 * making and reads, which overlap, and share a lane only where they do not. Times are since the
 * first event.
 */
#include "train/profilers/profiler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <stoker/store.h>

#include "base/chrome.h"

enum {
    LANES = 512,
    FLUSH = 1 << 16,
    LOADER = 10000 /* lanes from those of one loader to the next */
};

/* Lanes of what overlaps: when each is free. */
typedef struct free_lanes {
    uint64_t ends[LANES];
    uint32_t used;
} free_lanes;

typedef struct lanes {
    free_lanes batches, reads;
    bool workers[LANES];
} lanes;

typedef struct writer {
    const stk_profile *p;
    stk_put *file;
    stk__text text;
    const stk__trace_event **events; /* by their starts */
    size_t n;
    const stk__trace_event **joins; /* batches and steps, by their numbers */
    size_t num_joins;
    uint64_t zero_ns;
    lanes *loaders; /* STK__TRACE_LOADERS, and one of events that name none */
    bool comma;
} writer;

/* ---- Pieces ---------------------------------------------------------------------------------- */

static stk_status flush(writer *w, size_t least, stk_error *err)
{
    if (w->text.failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to write a trace");
    if (w->text.length <= least)
        return STK_OK;
    STK_TRY(w->file->ops->write(w->file, w->text.bytes, w->text.length, err));
    w->text.length = 0;
    return STK_OK;
}

static stk__chrome_place place(const writer *w, uint32_t lane, uint64_t when_ns)
{
    return (stk__chrome_place){stk__profile_rank(w->p), lane, when_ns - w->zero_ns};
}

static void next(writer *w)
{
    stk__text_add(&w->text, w->comma ? ",\n" : "\n");
    w->comma = true;
}

/* What every event has; the caller goes on with members and the closing brace. */
static void begin(writer *w, const char *name, const char *category, char phase, uint32_t lane,
                  uint64_t when_ns)
{
    next(w);
    stk__chrome_begin(&w->text, name, category, phase, place(w, lane, when_ns));
}

static void begin_span(writer *w, const char *name, const char *category, uint32_t lane,
                       const stk__trace_event *event)
{
    next(w);
    stk__chrome_begin_span(&w->text, name, category, place(w, lane, event->start_ns),
                           event->end_ns - w->zero_ns);
}

static void put_name(writer *w, const char *what, uint32_t lane, const char *name)
{
    next(w);
    stk__chrome_name(&w->text, what, place(w, lane, w->zero_ns), name);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void put_call(writer *w, const stk__trace_event *event)
{
    const stk__profile_entry *entry = &w->p->entries[event->lane];

    begin_span(w, entry->name, entry->role == STK__ROLE_BATCH ? "step" : "call", STK__LANE_STEP,
               event);
    if (entry->role == STK__ROLE_BATCH)
        stk__chrome_batch(&w->text, event->a, event->b, event->c);
    stk__text_add(&w->text, "}");
}

static void put_layer(writer *w, const stk__trace_event *event)
{
    const stk__profile_entry *entry = &w->p->entries[event->lane];
    const uint64_t ns = STK_MAX(event->end_ns - event->start_ns, (uint64_t)1);

    begin_span(w, entry->name, "layer", STK__LANE_STEP, event);
    stk__text_add(&w->text,
                  ",\"args\":{\"flops\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"gflop_per_s\":",
                  event->a, event->b);
    stk__text_add_thousandths(&w->text, (uint64_t)((double)event->a / (double)ns * 1e3));
    stk__text_add(&w->text, ",\"gb_per_s\":");
    stk__text_add_thousandths(&w->text, (uint64_t)((double)event->b / (double)ns * 1e3));
    stk__text_add(&w->text, "}}");
}

static uint32_t lane_of(const stk__trace_event *event, uint32_t kind, uint32_t lane)
{
    return event->loader * LOADER + kind + lane;
}

static void put_sample(writer *w, const stk__trace_event *event)
{
    const bool worker = event->lane < LANES;

    if (worker)
        w->loaders[event->loader].workers[event->lane] = true;
    begin_span(w, "prepare", "sample",
               worker ? lane_of(event, STK__LANE_WORKERS, event->lane) : STK__LANE_STEP, event);
    stk__text_add(&w->text,
                  ",\"args\":{\"epoch\":%" PRIu64 ",\"position\":%" PRIu64 ",\"samples\":%" PRIu64
                  "}}",
                  event->a, event->b, event->c);
}

static void put_bad(writer *w, const stk__trace_event *event)
{
    begin(w, "bad sample", "sample", 'i', STK__LANE_STEP, event->start_ns);
    stk__text_add(&w->text,
                  ",\"s\":\"p\",\"args\":{\"index\":%" PRIu64 ",\"position\":%" PRIu64
                  ",\"status\":",
                  event->a, event->b);
    stk__text_add_json(&w->text, stk_status_name((stk_status)(int64_t)event->c));
    stk__text_add(&w->text, "}}");
}

/* The lowest lane that is free when an event begins. */
static uint32_t take_lane(free_lanes *of, const stk__trace_event *event)
{
    uint32_t lane = 0;

    while (lane < of->used && of->ends[lane] > event->start_ns)
        lane++;
    lane = STK_MIN(lane, (uint32_t)LANES - 1);
    of->used = STK_MAX(of->used, lane + 1);
    of->ends[lane] = event->end_ns;
    return lane;
}

static void put_read(writer *w, const stk__trace_event *event)
{
    const uint32_t lane = take_lane(&w->loaders[event->loader].reads, event);

    begin_span(w, "read", "read", lane_of(event, STK__LANE_READS, lane), event);
    stk__text_add(&w->text,
                  ",\"args\":{\"bytes\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"status\":", event->a,
                  event->b);
    stk__text_add_json(&w->text, stk_status_name((stk_status)(int64_t)event->c));
    stk__text_add(&w->text, "}}");
}

/* ---- Arrows ---------------------------------------------------------------------------------- */

static bool is_step(const writer *w, const stk__trace_event *event)
{
    return event->kind == STK__TRACE_CALL && event->c &&
           w->p->entries[event->lane].role == STK__ROLE_BATCH;
}

/* Of batches and steps: by what they are called, then by time. */
static int compare_numbers(const void *a, const void *b)
{
    const stk__trace_event *x = *(const stk__trace_event *const *)a;
    const stk__trace_event *y = *(const stk__trace_event *const *)b;

    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b < y->b ? -1 : 1;
    if (x->c != y->c)
        return x->c < y->c ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Whether it is of a loader of the phase; the loaders of others make batches of the same numbers.
 */
static bool is_of(const writer *w, const stk__trace_event *event, stk_phase phase)
{
    return event->loader < STK__TRACE_LOADERS &&
           atomic_load(&w->p->trace.loaders[event->loader].phase) == (uint_fast32_t)phase;
}

static stk_status find_joins(writer *w, stk_error *err)
{
    w->joins = stk__calloc(w->p->ctx, w->n + 1, sizeof *w->joins);
    if (!w->joins)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to write a trace");
    for (size_t i = 0; i < w->n; i++)
        if (is_step(w, w->events[i]) ||
            (w->events[i]->kind == STK__TRACE_BATCH && is_of(w, w->events[i], STK_PHASE_TRAIN)))
            w->joins[w->num_joins++] = w->events[i];
    qsort(w->joins, w->num_joins, sizeof *w->joins, compare_numbers);
    return STK_OK;
}

static bool same_numbers(const stk__trace_event *x, const stk__trace_event *y)
{
    return x->a == y->a && x->b == y->b && x->c == y->c;
}

/* The step that took a batch of training; where two fit there is none. */
static const stk__trace_event *find_step(const writer *w, const stk__trace_event *made)
{
    const stk__trace_event *found = NULL;
    size_t first = 0, end = w->num_joins;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const stk__trace_event *e = w->joins[middle];
        if (compare_numbers(&e, &made) < 0 && !same_numbers(e, made))
            first = middle + 1;
        else
            end = middle;
    }
    for (; first < w->num_joins && same_numbers(w->joins[first], made); first++) {
        const stk__trace_event *e = w->joins[first];
        if (e->kind == STK__TRACE_BATCH && e != made)
            return NULL;
        if (e->kind == STK__TRACE_CALL && !found && e->start_ns >= made->end_ns)
            found = e;
    }
    return found;
}

static void put_batch(writer *w, const stk__trace_event *event, uint64_t *arrow)
{
    const uint32_t lane =
        lane_of(event, STK__LANE_BATCHES, take_lane(&w->loaders[event->loader].batches, event));

    begin_span(w, "batch", "batch", lane, event);
    stk__chrome_batch(&w->text, event->a, event->b, event->c);
    stk__text_add(&w->text, "}");
    const stk__trace_event *step = is_of(w, event, STK_PHASE_TRAIN) ? find_step(w, event) : NULL;
    if (!step)
        return;
    const uint64_t id = ++*arrow;
    begin(w, "batch to step", "flow", 's', lane, event->start_ns);
    stk__text_add(&w->text, ",\"id\":%" PRIu64 "}", id);
    begin(w, "batch to step", "flow", 'f', STK__LANE_STEP, step->start_ns);
    stk__text_add(&w->text, ",\"bp\":\"e\",\"id\":%" PRIu64 "}", id);
}

/* ---- Counters -------------------------------------------------------------------------------- */

typedef struct change {
    uint64_t when_ns;
    int by;
} change;

static int compare_changes(const void *a, const void *b)
{
    const change *x = a, *y = b;

    if (x->when_ns != y->when_ns)
        return x->when_ns < y->when_ns ? -1 : 1;
    return y->by - x->by;
}

/* "validation 1: worker 0": what a loader is for goes before the names of its lanes. */
static void name_of(const writer *w, size_t loader, const char *what, char *out, size_t size)
{
    static const char *const phases[] = {[STK_PHASE_TRAIN] = "training",
                                         [STK_PHASE_SANITY] = "validation",
                                         [STK_PHASE_VALIDATE] = "validation",
                                         [STK_PHASE_TEST] = "test",
                                         [STK_PHASE_PREDICT] = "prediction"};
    const stk__trace_loader *of = loader < STK__TRACE_LOADERS ? &w->p->trace.loaders[loader] : NULL;
    const uint_fast32_t phase = of ? atomic_load(&of->phase) : 0;

    if (phase == 0 || phase >= STK_COUNT(phases))
        snprintf(out, size, "%s", what);
    else if (of->dataloader_idx)
        snprintf(out, size, "%s %" PRIu32 ": %s", phases[phase], of->dataloader_idx, what);
    else
        snprintf(out, size, "%s: %s", phases[phase], what);
}

/* Batches of a loader that are ready and wait for the trainer. */
static stk_status put_ready(writer *w, size_t loader, stk_error *err)
{
    char name[64];

    change *changes = stk__calloc(w->p->ctx, w->n + 1, sizeof *changes);
    stk_status status = STK_OK;
    int64_t ready = 0;
    size_t n = 0;

    if (!changes)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to write a trace");
    name_of(w, loader, "batches ready", name, sizeof name);
    for (size_t i = 0; i < w->n; i++)
        if (w->events[i]->loader == loader &&
            (w->events[i]->kind == STK__TRACE_BATCH || w->events[i]->kind == STK__TRACE_DELIVER))
            changes[n++] =
                (change){w->events[i]->end_ns, w->events[i]->kind == STK__TRACE_BATCH ? 1 : -1};
    qsort(changes, n, sizeof *changes, compare_changes);
    for (size_t i = 0; i < n && status == STK_OK; i++) {
        ready = STK_MAX(ready + changes[i].by, (int64_t)0);
        begin(w, name, "loader", 'C', STK__LANE_STEP, changes[i].when_ns);
        stk__text_add(&w->text, ",\"args\":{\"batches\":%" PRId64 "}}", ready);
        status = flush(w, FLUSH, err);
    }
    stk__free(w->p->ctx, changes);
    return status;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int compare_events(const void *a, const void *b)
{
    const stk__trace_event *x = *(const stk__trace_event *const *)a;
    const stk__trace_event *y = *(const stk__trace_event *const *)b;

    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    /* What encloses others comes first. */
    return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static stk_status put_events(writer *w, stk_error *err)
{
    uint64_t arrow = 0;

    for (size_t i = 0; i < w->n; i++) {
        const stk__trace_event *event = w->events[i];
        switch (event->kind) {
        case STK__TRACE_CALL:
            put_call(w, event);
            break;
        case STK__TRACE_LAYER:
            put_layer(w, event);
            break;
        case STK__TRACE_SAMPLE:
            put_sample(w, event);
            break;
        case STK__TRACE_READ:
            put_read(w, event);
            break;
        case STK__TRACE_BATCH:
            put_batch(w, event, &arrow);
            break;
        case STK__TRACE_BAD:
            put_bad(w, event);
            break;
        default:
            break;
        }
        STK_TRY(flush(w, FLUSH, err));
    }
    for (size_t i = 0; i <= STK__TRACE_LOADERS; i++)
        if (w->loaders[i].batches.used)
            STK_TRY(put_ready(w, i, err));
    return STK_OK;
}

static void put_lane(writer *w, size_t loader, uint32_t kind, uint32_t lane, const char *what)
{
    char text[32], name[64];

    snprintf(text, sizeof text, "%s %" PRIu32, what, lane);
    name_of(w, loader, text, name, sizeof name);
    put_name(w, "thread_name", (uint32_t)loader * LOADER + kind + lane, name);
}

static void put_names(writer *w)
{
    char name[48];

    snprintf(name, sizeof name, "stoker, rank %" PRIu64, stk__profile_rank(w->p));
    put_name(w, "process_name", STK__LANE_STEP, name);
    put_name(w, "thread_name", STK__LANE_STEP, "trainer");
    for (size_t k = 0; k <= STK__TRACE_LOADERS; k++) {
        const lanes *of = &w->loaders[k];
        for (uint32_t i = 0; i < LANES; i++)
            if (of->workers[i])
                put_lane(w, k, STK__LANE_WORKERS, i, "worker");
        for (uint32_t i = 0; i < of->batches.used; i++)
            put_lane(w, k, STK__LANE_BATCHES, i, "batches");
        for (uint32_t i = 0; i < of->reads.used; i++)
            put_lane(w, k, STK__LANE_READS, i, "reads");
    }
}

static stk_status put_all(writer *w, size_t happened, stk_error *err)
{
    stk__text_add(&w->text,
                  "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"stage\":\"%s\",\"events\":\"%zu\","
                  "\"lost_events\":\"%zu\"},\n\"traceEvents\":[",
                  stk__profile_stage(w->p, false), w->n, happened - w->n);
    STK_TRY(find_joins(w, err));
    STK_TRY(put_events(w, err));
    put_names(w);
    stk__text_add(&w->text, "\n]}\n");
    return flush(w, 0, err);
}

stk_status stk__trace_write(const stk_profile *p, const char *path, stk_error *err)
{
    const size_t happened = atomic_load(&p->trace.count);
    writer w = {.p = p, .text = {.ctx = p->ctx}, .n = STK_MIN(happened, p->trace.room)};

    w.events = stk__calloc(p->ctx, w.n + 1, sizeof *w.events);
    w.loaders = stk__calloc(p->ctx, STK__TRACE_LOADERS + 1, sizeof *w.loaders);
    if (!w.events || !w.loaders) {
        stk__free(p->ctx, w.events);
        stk__free(p->ctx, w.loaders);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to write a trace");
    }
    for (size_t i = 0; i < w.n; i++)
        w.events[i] = &p->trace.events[i];
    qsort(w.events, w.n, sizeof *w.events, compare_events);
    w.zero_ns = w.n ? w.events[0]->start_ns : 0;
    stk_status status = stk_put_open(p->ctx, path, NULL, &w.file, err);
    if (status == STK_OK) {
        status = put_all(&w, happened, err);
        if (status == STK_OK)
            status = w.file->ops->commit(w.file, err);
        else
            w.file->ops->abandon(w.file);
    }
    stk__text_release(&w.text);
    stk__free(p->ctx, w.joins);
    stk__free(p->ctx, w.loaders);
    stk__free(p->ctx, w.events);
    return status;
}
