/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a loader: its threads, going to another place of the order, its end. */
#include "loader/loader.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/sized.h"

#define ABANDON_NS                                                                                 \
    (UINT64_C(60) * 1000000000) /* a thread that has not ended by then is stuck for good */

stk_status stk_loader_create(stk_dataset *dataset, const stk_loader_options *options,
                             stk_loader **out, stk_error *err)
{
    stk_loader_options o;
    stk__column columns[STK__MAX_FIELDS] = {0};
    uint32_t num_columns = 0;

    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__dataset_check(dataset, err));
    STK_TRY(stk__context_check(dataset->context, err));
    stk_loader_options_init(&o);
    if (options)
        STK_TRY(
            stk__sized_read(&o, sizeof o, options, "stk_loader_options", STK_STAGE_LOADER, err));
    STK_TRY(stk__loader_options_check(&o, err));
    stk_loader *loader = stk__calloc(dataset->context, 1, sizeof *loader);
    if (!loader)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER, "no memory for a loader");
    loader->ctx = stk__context_ref(dataset->context);
    loader->dataset = dataset;
    loader->options = o;
    loader->quarantine = -1;
    loader->abandon_ns = ABANDON_NS;
    pthread_mutex_init(&loader->finish_lock, NULL);
    stk_status status = stk__loader_build(loader, columns, &num_columns, err);
    if (status == STK_ENOMEM && err && err->status == STK_OK)
        stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER,
                  "no memory for a loader of %u workers and batches of %" PRIu64,
                  loader->num_workers, loader->row_room);
    if (status == STK_OK) {
        loader->plan_limit = stk__plan_limit(loader);
        loader->stalls.cold = STK_WAIT_STARTUP;
        status = stk__loader_start_threads(loader, err);
        /* The threads that did start have planned. */
        if (status != STK_OK)
            stk__loader_reset(loader, 0);
    }
    if (status != STK_OK) {
        if (loader->ring)
            loader->ring->loader = NULL;
        stk__loader_free(loader, columns, num_columns);
        return status;
    }
    /* What the caller gave as text may be gone tomorrow. */
    loader->options.transforms = loader->options.batch_transforms = loader->options.quarantine =
        loader->options.max_errors = NULL;
    *out = loader;
    return STK_OK;
}

/* ---- Threads ---- */

/* No new work, or on again. (L) held. */
static void drain_begin_locked(stk_loader *loader, bool draining)
{
    loader->draining = draining;
    stk__reads_stop_locked(&loader->reads, draining);
}

stk_status stk__loader_start_threads(stk_loader *loader, stk_error *err)
{
    pthread_mutex_lock(&loader->ring->lock);
    loader->stopping = false;
    drain_begin_locked(loader, false);
    loader->plan_limit = stk__plan_limit(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    for (uint32_t i = 0; i < loader->num_workers; i++) {
        char name[24];
        snprintf(name, sizeof name, "stk-worker-%u", i);
        pthread_mutex_lock(&loader->ring->lock);
        loader->running++;
        pthread_mutex_unlock(&loader->ring->lock);
        stk_status status = stk__thread_start(loader->ctx, &loader->workers[i].thread, name,
                                              stk__worker_main, &loader->workers[i], err);
        if (status == STK_OK)
            continue;
        pthread_mutex_lock(&loader->ring->lock);
        loader->running--;
        pthread_mutex_unlock(&loader->ring->lock);
        stk__loader_stop_threads(loader);
        return status;
    }
    return stk__watch_start(loader, err);
}

/* Wait for the end of a round of planning, and of sending: from then on nothing is queued, and no
 * record is reused. (L) held. */
static bool senders_idle_locked(stk_loader *loader, uint64_t until)
{
    while (loader->planner.busy)
        if (!stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock, until))
            return false;
    return stk__reads_wait_sent_locked(&loader->reads, until);
}

/* Wait until no thread touches a step: tasks, planning and reads have ended. (L) held. */
static bool drain_locked(stk_loader *loader, uint64_t until)
{
    while (loader->tasks || loader->planner.busy)
        if (!stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock, until))
            return false;
    return stk__reads_wait_locked(&loader->reads, until);
}

/* False when a thread is stuck in something that does not end; it is named, and what it uses is
 * left to it. */
static bool stop_threads(stk_loader *loader)
{
    uint64_t until = stk__now_ns() + loader->abandon_ns;

    pthread_mutex_lock(&loader->ring->lock);
    loader->stopping = true;
    drain_begin_locked(loader, true);
    pthread_cond_broadcast(&loader->ring->work);
    bool ended = senders_idle_locked(loader, until);
    pthread_mutex_unlock(&loader->ring->lock);
    stk__reads_cancel(&loader->reads);
    pthread_mutex_lock(&loader->ring->lock);
    ended = ended && drain_locked(loader, until);
    while (ended && loader->running)
        ended = stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock, until) ||
                !loader->running;
    uint32_t running = loader->running, reads = stk__reads_in_flight_locked(&loader->reads);
    pthread_mutex_unlock(&loader->ring->lock);
    if (!ended) {
        for (uint32_t i = 0; i < loader->num_workers; i++) {
            char text[120];
            if (stk__call_describe(&loader->workers[i], "it", stk__now_ns(), text, sizeof text))
                stk__log(loader->ctx, STK_LOG_ERROR, "%s does not end: %s; it is abandoned",
                         loader->workers[i].thread.name, text);
        }
        stk__log(loader->ctx, STK_LOG_ERROR,
                 "%u threads and %u reads are abandoned, with their memory", running, reads);
        return false;
    }
    for (uint32_t i = 0; i < loader->num_workers; i++)
        stk__thread_join(&loader->workers[i].thread);
    stk__watch_stop(loader);
    return true;
}

bool stk__loader_stop_threads(stk_loader *loader)
{
    if (!stop_threads(loader))
        return false;
    /* Steps whose reads were canceled are worth nothing. */
    stk__loader_reset(loader, loader->first);
    pthread_mutex_lock(&loader->ring->lock);
    drain_begin_locked(loader, false);
    pthread_mutex_unlock(&loader->ring->lock);
    return true;
}

/* ---- Going elsewhere ---- */

uint64_t stk__plan_limit(const stk_loader *loader)
{
    const uint64_t steps = loader->order.steps;
    uint64_t limit = UINT64_MAX;

    if (!loader->options.epochs || !stk__mul_size(loader->options.epochs, steps, &limit))
        limit = UINT64_MAX;
    if (!loader->options.persistent_workers)
        limit = STK_MIN(limit, (loader->first / steps + 1) * steps);
    if (loader->num_workers == 0)
        limit = STK_MIN(limit, loader->first + 1);
    return limit;
}

void stk__attach_slabs_locked(stk_loader *loader)
{
    stk__ring *ring = loader->ring;

    while (loader->slab_end < loader->located_end && ring->free) {
        stk__step *step = stk__step_at(loader, loader->slab_end++);
        step->slab = ring->free;
        ring->free = step->slab->next;
        ring->num_free--;
        if (step->num_rows)
            continue;
        /* A rank may have no row in the last step: it gets an empty batch, so that all ranks take
         * every step. */
        step->slab->epoch = step->epoch;
        step->slab->step = step->step;
        step->slab->count = 0;
        for (uint32_t c = 0; c < ring->num_columns; c++)
            if (ring->columns[c].field.layout != STK_FIXED) {
                step->slab->offsets[c][0] = 0;
                step->slab->data[c] = step->slab->memory;
            }
        step->complete = true;
        step->complete_ns = step->planned_ns;
        pthread_cond_signal(&ring->finished);
    }
}

/* Give up a step that will not be delivered. (L) held. */
static void drop_step_locked(stk_loader *loader, stk__step *step, stk__spent *spent)
{
    stk__ring *ring = loader->ring;

    for (uint32_t r = 0; r < step->num_rows; r++)
        for (uint32_t k = 0; k < step->rows[r].num_needs; k++) {
            stk__unit *unit = step->rows[r].needs[k].unit;
            step->rows[r].needs[k].unit = NULL;
            if (unit)
                stk__unit_unref_locked(loader, unit, spent);
        }
    if (step->slab) {
        if (step->slab->ragged)
            step->ragged = step->slab->ragged;
        step->slab->ragged = NULL;
        step->slab->next = ring->free;
        ring->free = step->slab;
        ring->num_free++;
        step->slab = NULL;
    }
}

/* Free what a dropped step held besides its slab. Nobody else knows the step any more. */
static void clear_step(stk_loader *loader, stk__step *step)
{
    for (uint32_t r = 0; r < step->num_rows; r++)
        stk__row_return(loader, &step->rows[r]);
    stk__pool_give(&loader->ring->pool, step->ragged);
    step->ragged = NULL;
    for (stk__extra *e = step->extras, *next; e; e = next) {
        next = e->next;
        stk__free(loader->ctx, e);
    }
    for (stk__bad_sample *b = step->bad, *next; b; b = next) {
        next = b->next;
        stk__free(loader->ctx, b);
    }
    step->extras = NULL;
    step->bad = NULL;
    step->num_bad = 0;
}

void stk__loader_reset(stk_loader *loader, uint64_t serial)
{
    stk__ring *ring = loader->ring;
    stk__spent spent = {0};

    pthread_mutex_lock(&ring->lock);
    drain_begin_locked(loader, true);
    senders_idle_locked(loader, UINT64_MAX);
    pthread_mutex_unlock(&ring->lock);
    stk__reads_cancel(&loader->reads);
    pthread_mutex_lock(&ring->lock);
    drain_locked(loader, UINT64_MAX);
    loader->units.decode_first = NULL;
    const uint64_t first = loader->first, end = loader->located_end;
    for (uint64_t s = first; s < end; s++)
        drop_step_locked(loader, stk__step_at(loader, s), &spent);
    stk__idle_reclaim_locked(loader, true, &spent);
    loader->first = loader->located_end = loader->slab_end = loader->planner.admit_serial = serial;
    stk__stall_cold_locked(loader);
    loader->planner.passed = serial;
    loader->planner.num_replace = loader->planner.num_wants = 0;
    loader->planner.wanted = 0;
    loader->planner.waits_late = false;
    loader->planner.round_cost = 0;
    pthread_mutex_unlock(&ring->lock);

    /* Still draining: nobody begins anything before what is left is free. */
    stk__spent_free(loader, &spent);
    for (uint64_t s = first; s < end; s++)
        clear_step(loader, stk__step_at(loader, s));
    pthread_mutex_lock(&ring->lock);
    loader->planner.blocked = false;
    loader->plan_limit = stk__plan_limit(loader);
    drain_begin_locked(loader, loader->stopping);
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->lock);
}

/* Go on at `serial`; what was planned stays where it is the next step anyway. */
static void go_to(stk_loader *loader, uint64_t serial)
{
    if (serial != loader->first) {
        stk__loader_reset(loader, serial);
        return;
    }
    pthread_mutex_lock(&loader->ring->lock);
    loader->plan_limit = stk__plan_limit(loader);
    pthread_cond_broadcast(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
}

stk_status stk_loader_set_epoch(stk_loader *loader, uint64_t epoch, stk_error *err)
{
    uint64_t serial;

    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__call_check(loader, "stk_loader_set_epoch()", err));
    if (!stk__mul_size(epoch, loader->order.steps, &serial) || serial > INT64_MAX)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "epoch %" PRIu64 " is beyond what can be counted", epoch);
    loader->eos_pending = false;
    go_to(loader, serial);
    return STK_OK;
}

stk_status stk_loader_restore(stk_loader *loader, const stk_state *state, stk_error *err)
{
    uint64_t serial;

    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__call_check(loader, "stk_loader_restore()", err));
    STK_TRY(stk__state_check(loader, state, &serial, err));
    go_to(loader, serial);
    /* A state saved at the end of an epoch goes on with telling that end. */
    loader->eos_pending = state->step == loader->order.steps;
    return STK_OK;
}

void stk_loader_state(const stk_loader *loader, stk_state *out)
{
    const uint64_t steps = loader->order.steps;

    *out = loader->ring->state;
    out->epoch = loader->first / steps;
    out->step = loader->first % steps;
    if (loader->eos_pending) {
        out->epoch--;
        out->step = steps;
    }
}

/* ---- The end ---- */

void stk_loader_destroy(stk_loader **loader)
{
    stk__column columns[STK__MAX_FIELDS];
    stk_loader *l = loader ? *loader : NULL;

    if (!l)
        return;
    *loader = NULL;
    /* The threads of a loader made before fork() are in the parent: its memory here is left as it
     * is. */
    if (stk__context_forked(l->ctx))
        return;
    atomic_store(&l->canceled, true);
    if (!stop_threads(l))
        return;
    stk__loader_reset(l, l->first);
    pthread_mutex_lock(&l->ring->lock);
    l->ring->loader = NULL;
    uint32_t n = l->ring->num_columns;
    memcpy(columns, l->ring->columns, n * sizeof *columns);
    pthread_mutex_unlock(&l->ring->lock);
    stk__loader_free(l, columns, n);
}

/* ---- Figures ---- */

uint64_t stk_loader_steps(const stk_loader *loader)
{
    return loader->order.steps;
}

const stk_field *stk_loader_fields(const stk_loader *loader, uint32_t *num_fields)
{
    *num_fields = loader->ring->num_columns;
    return loader->ring->fields;
}

static void take_stats(stk_loader *l, stk_loader_stats *out)
{
    stk__ring *ring = l->ring;

    *out = (stk_loader_stats){.struct_size = sizeof *out,
                              .io_depth = l->io_depth,
                              .memory_budget = l->options.memory_budget,
                              .slab_bytes = ring->slab_bytes};
    out->cache_bytes = l->cache ? stk__cache_bytes(l->cache) : 0;
    pthread_mutex_lock(&ring->pool.lock);
    out->memory_bytes = ring->pool.held + out->cache_bytes;
    out->memory_peak = ring->pool.peak + out->cache_bytes;
    pthread_mutex_unlock(&ring->pool.lock);
    pthread_mutex_lock(&ring->lock);
    const stk__units *units = &l->units;
    stk__read_figures reads;
    stk__reads_figures_locked(&l->reads, &reads);
    out->workers = l->num_workers;
    out->depth = l->depth;
    out->memory_bytes += l->fixed_bytes;
    out->memory_peak += l->fixed_bytes;
    for (uint64_t serial = l->first; serial < l->located_end; serial++)
        out->ready += stk__step_at(l, serial)->complete;
    out->stages[STK_LOADER_ORDER] = (stk_stage_stats){
        .name = "order", .items = l->planner.shown.rows, .busy_ns = l->planner.shown.busy_ns};
    out->stages[STK_LOADER_READ] = (stk_stage_stats){.name = "read",
                                                     .items = reads.requests,
                                                     .bytes = reads.request_bytes,
                                                     .failures = reads.failures,
                                                     .busy_ns = reads.busy_ns};
    out->stages[STK_LOADER_PREPARE] =
        (stk_stage_stats){.name = "prepare",
                          .items = l->prepared,
                          .bytes = l->prepared * (ring->slab_bytes / l->row_room),
                          .failures = l->bad.samples,
                          .busy_ns = l->prepare_busy_ns + units->chunk_ns,
                          .wait_in_ns = l->wait_in_ns,
                          .wait_out_ns = l->wait_out_ns};
    out->stages[STK_LOADER_DELIVER] = (stk_stage_stats){
        .name = "deliver", .items = l->delivered, .wait_in_ns = l->stalls.waits.total_ns};
    out->requests = reads.requests;
    out->request_bytes = reads.request_bytes;
    out->needed_bytes = units->needed_bytes;
    out->cache_hits = l->planner.shown.cache_hits;
    out->cache_misses = l->planner.shown.cache_misses;
    out->bad_samples = l->bad.samples;
    out->empty_batches = l->bad.empty_batches;
    out->positions_evaluated = l->planner.shown.positions;
    out->pictures = l->decode.pictures;
    out->picture_pixels = l->decode.pixels;
    out->decode_ns = l->decode.decode_ns;
    out->resize_ns = l->decode.rest_ns;
    out->chunks_needed = units->chunks_needed;
    out->chunks_decoded = units->chunks_decoded;
    out->chunk_bytes_decoded = units->chunk_bytes;
    out->chunk_decode_ns = units->chunk_ns;
    out->waits = l->stalls.waits;
    out->budget_wait_ns = l->stalls.starved_ns;
    if (l->stalls.starve_end_ns == UINT64_MAX)
        out->budget_wait_ns += stk__now_ns() - l->stalls.starve_begin_ns;
    out->read_ns_per_byte = reads.ns_per_byte;
    out->read_transfer_share = reads.transfer_share;
    out->read_latency_ns = reads.latency_ns;
    pthread_mutex_unlock(&ring->lock);
}

void stk_loader_get_stats(const stk_loader *loader, stk_loader_stats *out)
{
    stk_loader *l = (stk_loader *)loader; /* its locks are written, nothing else */
    stk_loader_stats stats = {.struct_size = sizeof stats};

    if (!stk__context_forked(l->ctx))
        take_stats(l, &stats);
    stk__sized_write(out, &stats);
}
