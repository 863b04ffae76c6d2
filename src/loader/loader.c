/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a loader: making it, going to another place of the order, its figures, its end. */
#include <inttypes.h>
#include <stdio.h>

#include "base/probe.h"
#include "base/sized.h"
#include "base/tiers.h"
#include "loader/parts.h"

#define LOOK_NS UINT64_C(20000000)
#define ABANDON_NS                                                                                 \
    (UINT64_C(60) * 1000000000) /* a thread that has not ended by then is stuck for good */

/* A loader of which nothing is made yet; stk__loader_free() frees it. */
static stk_status begin(stk_dataset *dataset, const stk_loader_options *options, stk_loader **out,
                        stk_error *err)
{
    stk_loader_options o;

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
    loader->abandon_ns = ABANDON_NS;
    loader->look_ns = LOOK_NS;
    *out = loader;
    return STK_OK;
}

/* A failure that has no words yet gets some. */
static stk_status explain(const stk_loader *loader, stk_status status, stk_error *err)
{
    if (status == STK_OK || !err || err->status != STK_OK)
        return status;
    if (status == STK_ENOMEM)
        return stk__fail(err, status, STK_STAGE_LOADER,
                         "no memory for a loader of %u workers and batches of %" PRIu64,
                         loader->budget.workers, loader->budget.row_room);
    return stk__fail(err, status, STK_STAGE_LOADER,
                     "the dataset could not begin the work of a thread (worker_open): %s",
                     stk_status_text(status));
}

stk_status stk_loader_describe(stk_dataset *dataset, const stk_loader_options *options,
                               stk_loader_description *out, stk_field *fields, uint32_t room,
                               stk_error *err)
{
    stk_loader_description found = {.struct_size = sizeof found};
    stk_loader *loader = NULL;

    STK_TRY(stk__sized_check(out, "stk_loader_description", STK_STAGE_LOADER, err));
    if (room)
        STK_TRY(stk__sized_check(fields, "stk_field", STK_STAGE_LOADER, err));
    STK_TRY(begin(dataset, options, &loader, err));
    const stk_status status = explain(loader, stk__loader_outline(loader, err), err);
    const uint32_t num = loader->num_columns;
    if (status == STK_OK) {
        found.num_fields = num;
        found.steps = loader->order.steps;
        found.rows = stk__order_rows(&loader->order);
        found.memory_budget = loader->options.memory_budget;
        found.memory_bytes = stk__loader_need(loader);
        (void)stk__order_padding(loader->ctx, &loader->order, &found.padding,
                                 &found.padding_without);
        stk__sized_write(out, &found);
    }
    for (uint32_t i = 0; status == STK_OK && i < STK_MIN(num, room); i++) {
        stk_field *field = (stk_field *)stk_field_at(fields, i);
        field->struct_size = fields->struct_size;
        stk__sized_write(field, &loader->columns[i].field);
    }
    stk__loader_free(loader);
    return status;
}

stk_status stk_loader_create(stk_dataset *dataset, const stk_loader_options *options,
                             stk_loader **out, stk_error *err)
{
    stk_loader *loader = NULL;

    *out = NULL;
    STK_TRY(begin(dataset, options, &loader, err));
    stk_status status = explain(loader, stk__loader_build(loader, err), err);
    if (status == STK_OK) {
        status = stk__loader_start(loader, err);
        /* The threads that did start have planned. */
        if (status != STK_OK)
            stk__loader_reset(loader, 0);
    }
    if (status != STK_OK) {
        stk__loader_free(loader);
        return status;
    }
    /* What the caller gave as text may be gone tomorrow. */
    loader->options.transforms = loader->options.batch_transforms = loader->options.quarantine =
        loader->options.max_errors = NULL;
    stk__source_add(loader->ctx, STK__SOURCE_LOADER, loader);
    *out = loader;
    return STK_OK;
}

/* ---- Going elsewhere ---- */

/* Go on at `serial`; what was planned stays where it is the next step anyway. */
static void go_to(stk_loader *loader, uint64_t serial)
{
    loader->asked_ns = loader->watched_ns = 0;
    if (serial != loader->steps.first) {
        stk__loader_reset(loader, serial);
        return;
    }
    pthread_mutex_lock(&loader->ring->lock);
    stk__loader_limit_locked(loader);
    pthread_cond_broadcast(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
}

stk_status stk_loader_set_epoch(stk_loader *loader, uint64_t epoch, stk_error *err)
{
    uint64_t serial;

    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__call_check(loader->ring, "stk_loader_set_epoch()", err));
    if (!stk__mul_size(epoch, loader->order.steps, &serial) || serial > INT64_MAX)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "epoch %" PRIu64 " is beyond what can be counted", epoch);
    loader->eos_pending = false;
    go_to(loader, serial);
    return STK_OK;
}

/* The serial at which a state goes on. */
static stk_status place_of(const stk_loader *loader, const stk_loader_state *state,
                           uint64_t *serial, stk_error *err)
{
    const uint64_t steps = loader->order.steps;
    const bool warn = loader->options.on_state_mismatch == STK_MISMATCH_WARN;

    STK_TRY(stk__state_same(state, &loader->ring->state, err));
    STK_TRY(stk__state_same_values(state, &loader->ring->state, warn ? loader->ctx : NULL, err));
    if (state->step > steps || !stk__mul_size(state->epoch, steps, serial) ||
        !stk__add_size(*serial, state->step, serial) || *serial > INT64_MAX)
        return stk__fail(err, STK_EMISMATCH, STK_STAGE_LOADER,
                         "the state is at step %" PRIu64 " of epoch %" PRIu64
                         "; an epoch has %" PRIu64 " steps",
                         state->step, state->epoch, steps);
    return STK_OK;
}

stk_status stk_loader_compare(const stk_loader *loader, const stk_loader_state *state,
                              stk_error *err)
{
    const stk_loader_state *own = &loader->ring->state;
    const bool warn = loader->options.on_state_mismatch == STK_MISMATCH_WARN;
    stk_error differs;

    stk_error_init(err);
    stk_error_init(&differs);
    const stk_status status = stk__state_same(state, own, &differs);
    if (status == STK_OK)
        return stk__state_same_values(state, own, warn ? loader->ctx : NULL, err);
    if (!warn)
        return stk__fail(err, status, STK_STAGE_LOADER, "%s", differs.text);
    stk__message(loader->ctx, STK_MESSAGE_WARNING, "the epoch begins with other data: %s",
                 differs.text);
    return STK_OK;
}

stk_status stk_loader_restore(stk_loader *loader, const stk_loader_state *state, stk_error *err)
{
    uint64_t serial = 0;

    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__call_check(loader->ring, "stk_loader_restore()", err));
    STK_TRY(place_of(loader, state, &serial, err));
    go_to(loader, serial);
    /* A state saved at the end of an epoch goes on with telling that end. */
    loader->eos_pending = state->step == loader->order.steps;
    return STK_OK;
}

void stk_loader_get_state(const stk_loader *loader, stk_loader_state *out)
{
    const uint64_t steps = loader->order.steps;

    *out = loader->ring->state;
    out->epoch = loader->steps.first / steps;
    out->step = loader->steps.first % steps;
    if (loader->eos_pending) {
        out->epoch--;
        out->step = steps;
    }
}

/* ---- The end ---- */

void stk_loader_destroy(stk_loader **loader)
{
    stk_loader *l = loader ? *loader : NULL;

    if (!l)
        return;
    *loader = NULL;
    /* The threads of a loader made before fork() are in the parent: its memory here is left as it
     * is. */
    if (stk__context_forked(l->ctx))
        return;
    stk__source_remove(l->ctx, STK__SOURCE_LOADER, l);
    atomic_store(&l->canceled, true);
    if (!stk__loader_end(l))
        return;
    stk__loader_reset(l, l->steps.first);
    pthread_mutex_lock(&l->ring->lock);
    l->ring->returned_locked = NULL;
    pthread_mutex_unlock(&l->ring->lock);
    stk__loader_free(l);
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

/* What making it has fixed. */
static void take_claims(const stk_loader *l, stk_claims *out)
{
    const stk__budget *b = &l->budget;
    const stk__order *order = &l->order;

    *out = (stk_claims){.slab = b->slab,
                        .step = b->step,
                        .worker = b->worker,
                        .fixed = b->fixed,
                        .most_read = b->most_read,
                        /* Sources of a mixture are mixed each by itself. */
                        .shared = order->mixture ? 0 : l->dataset->decoded_bytes,
                        .block = stk__loader_block(l),
                        .mixed_blocks = stk__budget_blocks(b),
                        .mixed = stk__budget_mixed(b) / order->world,
                        .streams = order->shuffle == STK_SHUFFLE_BLOCK
                                       ? STK_MAX(order->streams / order->world, 1)
                                       : 0,
                        .samples = order->size,
                        .scattered = order->shuffle == STK_SHUFFLE_FULL,
                        .reads = b->reads,
                        .ragged = b->ragged != 0,
                        .caches = b->now.cache != 0,
                        .whole = l->planner.blocks};
    for (size_t i = 0; i < STK_CLAIM_KINDS && !order->mixture; i++)
        out->kinds[i] = l->dataset->kinds[i];
}

static void take_stats(stk_loader *l, stk_loader_stats *out)
{
    stk__ring *ring = l->ring;
    stk__read_figures reads;

    stk__reads_figures(&l->reads, &reads);
    *out = (stk_loader_stats){.struct_size = sizeof *out,
                              .memory_budget = l->options.memory_budget,
                              .slab_bytes = ring->slab_bytes,
                              .samples = l->order.size,
                              .batch_size = l->steps.row_room};
    take_claims(l, &out->claims);
    stk__tiers_get(l->ctx, &out->tiers);
    out->cache_bytes = l->keeping.cache ? stk__cache_bytes(l->keeping.cache) : 0;
    pthread_mutex_lock(&ring->pool.lock);
    out->memory_bytes = ring->pool.held + out->cache_bytes;
    out->memory_peak = ring->pool.peak + out->cache_bytes;
    pthread_mutex_unlock(&ring->pool.lock);
    pthread_mutex_lock(&ring->lock);
    const stk__units *units = &l->units;
    out->workers = l->workers.active;
    out->io_depth = l->depth;
    out->depth = ring->num_slabs - 1;
    out->pool_bytes = l->budget.now.pool;
    out->held = ring->num_held;
    /* Spare batches that are not there yet take nothing. */
    const uint64_t most = stk__shares_slabs(&l->budget.now),
                   unmade = most - STK_MIN(ring->num_slabs, most),
                   fixed = l->budget.now.fixed - unmade * ring->slab_bytes;
    out->memory_bytes += fixed;
    out->memory_peak += fixed;
    for (uint64_t serial = l->steps.first; serial < l->steps.located_end; serial++)
        out->ready += stk__step_at(&l->steps, serial)->complete;
    out->stages[STK_LOADER_ORDER] = (stk_stage_stats){
        .name = "order", .items = l->planner.shown.rows, .busy_ns = l->planner.shown.busy_ns};
    out->stages[STK_LOADER_READ] =
        (stk_stage_stats){.name = "read",
                          .items = reads.requests + l->workers.reads,
                          .bytes = reads.request_bytes + l->workers.read_bytes,
                          .failures = reads.failures,
                          .busy_ns = reads.busy_ns + l->workers.read_ns};
    out->stages[STK_LOADER_PREPARE] =
        (stk_stage_stats){.name = "prepare",
                          .items = l->workers.prepared,
                          .bytes = l->workers.prepared * (ring->slab_bytes / l->steps.row_room),
                          .failures = l->bad.counts.samples,
                          .busy_ns = l->workers.prepare_busy_ns + units->chunk_ns,
                          .wait_in_ns = l->workers.wait_in_ns,
                          .wait_out_ns = l->workers.wait_out_ns};
    out->stages[STK_LOADER_DELIVER] = (stk_stage_stats){
        .name = "deliver", .items = l->delivered, .wait_in_ns = l->stalls.waits.total_ns};
    out->requests = out->stages[STK_LOADER_READ].items;
    out->request_bytes = out->stages[STK_LOADER_READ].bytes;
    out->needed_bytes = units->needed_bytes + l->workers.read_bytes;
    out->cache_hits = l->planner.shown.cache_hits;
    out->cache_misses = l->planner.shown.cache_misses;
    out->bad_samples = l->bad.counts.samples;
    out->empty_batches = l->bad.counts.empty_batches;
    out->positions_evaluated = l->planner.shown.positions;
    out->pictures = l->workers.decode.pictures;
    out->picture_pixels = l->workers.decode.pixels;
    out->decode_ns = l->workers.decode.decode_ns;
    out->resize_ns = l->workers.decode.rest_ns;
    out->chunks_needed = units->chunks_needed;
    out->chunks_decoded = units->chunks_decoded;
    out->chunk_bytes_decoded = units->chunk_bytes;
    out->chunk_decode_ns = units->chunk_ns;
    out->waits = l->stalls.waits;
    out->budget_wait_ns = l->stalls.starved_ns;
    if (stk__stall_starves_locked(&l->stalls))
        out->budget_wait_ns += stk__now_ns() - l->stalls.starve_begin_ns;
    out->read_ns_per_byte = reads.ns_per_byte;
    out->read_transfer_share = reads.transfer_share;
    out->read_latency_ns = reads.latency_ns;
    out->tiers.of[STK_TIER_MEMORY] =
        (stk_tier){.reads = l->planner.shown.cache_hits, .bytes = l->planner.shown.cache_hit_bytes};
    pthread_mutex_unlock(&ring->lock);
}

void stk_loader_get_stats(const stk_loader *loader, stk_loader_stats *out)
{
    stk_loader *l = (stk_loader *)loader; /* its locks are written, nothing else */
    stk_loader_stats stats = {.struct_size = sizeof stats};

    if (!stk__context_forked(l->ctx)) {
        take_stats(l, &stats);
        if (stk__network_get)
            stk__network_get(l->ctx, &stats.network);
    }
    stk__sized_write(out, &stats);
}

/* ---- Bad samples ---- */

void stk_loader_get_bad_samples(const stk_loader *loader, stk_bad_samples *out)
{
    stk_loader *l = (stk_loader *)loader; /* its lock is written, nothing else */
    stk_bad_samples bad = {.struct_size = sizeof bad};

    if (!stk__context_forked(l->ctx))
        stk__bad_show(&l->bad, &bad);
    bad.struct_size = sizeof bad;
    stk__sized_write(out, &bad);
}

int stk_bad_samples_format(const stk_bad_samples *given, char *text, size_t size)
{
    stk_bad_samples known = {0}, *bad = &known;
    char counts[200], line[200 + STK_BAD_REASONS * (STK_ERROR_TEXT + 60) + STK_ERROR_KEY + 80];
    size_t n = 0;

    stk__sized_copy(&known, sizeof known, given);
    if (bad->samples == 0)
        return snprintf(text, size, "%s", "");
    snprintf(counts, sizeof counts,
             "%" PRIu64 " bad samples: %" PRIu64 " skipped, %" PRIu64 " replaced, %" PRIu64
             " failed; %" PRIu64 " empty batches",
             bad->samples, bad->skipped, bad->replaced, bad->failed, bad->empty_batches);
    n = (size_t)snprintf(line, sizeof line, "%s", counts);
    for (uint32_t i = 0; i < bad->num_reasons; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, "; %" PRIu64 " as %s",
                              bad->reasons[i].samples, bad->reasons[i].first.text);
    snprintf(line + n, sizeof line - n, "; %s%s",
             *bad->quarantine ? "all are in " : "the option quarantine lists all of them",
             bad->quarantine);
    return snprintf(text, size, "%s", line);
}
