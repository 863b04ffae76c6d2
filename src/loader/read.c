/* SPDX-License-Identifier: Apache-2.0 */
/* Reads on their way: at most `depth` of them at once, the oldest first, retried where another try
 * may help. */
#include "loader/loader.h"

static uint32_t bucket_of(uint64_t object, uint64_t offset)
{
    uint64_t h = (object ^ offset * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);

    return (uint32_t)(h >> 40) % STK__UNIT_BUCKETS;
}

stk__unit *stk__unit_find_locked(stk__reads *reads, const stk_need *need)
{
    for (stk__unit *u = reads->table[bucket_of(need->object, need->offset)]; u;
         u = u->next_in_table)
        if (u->object == need->object && u->offset == need->offset && u->length == need->length &&
            u->status == STK_OK &&
            (!u->decoding || u->wanted >= (need->wanted ? need->wanted : need->decoded))) {
            u->references++;
            u->shared = true;
            return u;
        }
    return NULL;
}

void stk__unit_publish_locked(stk__reads *reads, stk__unit *unit)
{
    stk__unit **bucket = &reads->table[bucket_of(unit->object, unit->offset)];

    unit->next_in_table = *bucket;
    *bucket = unit;
}

void stk__unit_hide_locked(stk__reads *reads, stk__unit *unit)
{
    stk__unit **at = &reads->table[bucket_of(unit->object, unit->offset)];

    while (*at && *at != unit)
        at = &(*at)->next_in_table;
    if (*at)
        *at = unit->next_in_table;
}

void stk__unit_unref_locked(stk_loader *loader, stk__unit *unit, stk__spent *spent)
{
    if (--unit->references == 0 && !stk__unit_idles_locked(loader, unit))
        stk__unit_retire_locked(&loader->reads, unit, spent);
}

void stk__unit_retire_locked(stk__reads *reads, stk__unit *unit, stk__spent *spent)
{
    stk__unit_hide_locked(reads, unit);
    stk__spend(spent, unit->decoded);
    unit->decoded = NULL;
    if (--unit->fetch->live_units == 0) {
        unit->fetch->next = spent->fetches;
        spent->fetches = unit->fetch;
    }
}

void stk__spend(stk__spent *spent, void *buffer)
{
    if (!buffer)
        return;
    memcpy(buffer, &spent->buffers, sizeof spent->buffers);
    spent->buffers = buffer;
}

stk__unit *stk__unit_new(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    stk__unit *unit = loader->reads.free_units;
    if (unit)
        loader->reads.free_units = unit->next_in_fetch;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!unit)
        unit = stk__alloc(loader->ctx, sizeof *unit);
    if (unit)
        memset(unit, 0, sizeof *unit);
    return unit;
}

stk__fetch *stk__fetch_new(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    stk__fetch *fetch = loader->reads.free_fetches;
    if (fetch)
        loader->reads.free_fetches = fetch->next;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!fetch)
        return stk__calloc(loader->ctx, 1, sizeof *fetch);
    *fetch = (stk__fetch){.key = fetch->key, .key_room = fetch->key_room};
    return fetch;
}

/* The buffer goes back to the pool; the planner may have waited for it. */
void stk__fetch_free(stk_loader *loader, stk__fetch *fetch)
{
    stk__reads *reads = &loader->reads;

    stk__pool_give(&loader->ring->pool, fetch->data);
    fetch->data = NULL;
    for (stk__unit *u = fetch->units; u; u = u->next_in_fetch)
        stk__pool_give(&loader->ring->pool, u->decoded);
    pthread_mutex_lock(&loader->ring->lock);
    for (stk__unit *u = fetch->units, *next; u; u = next) {
        next = u->next_in_fetch;
        u->next_in_fetch = reads->free_units;
        reads->free_units = u;
    }
    fetch->units = NULL;
    fetch->next = reads->free_fetches;
    reads->free_fetches = fetch;
    if (loader->planner.blocked) {
        loader->planner.blocked = false;
        pthread_cond_signal(&loader->ring->work);
    }
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__spent_free(stk_loader *loader, stk__spent *spent)
{
    const bool any = spent->buffers;

    for (void *buffer = spent->buffers, *next; buffer; buffer = next) {
        memcpy(&next, buffer, sizeof next);
        stk__pool_give(&loader->ring->pool, buffer);
    }
    for (stk__fetch *fetch = spent->fetches, *next; fetch; fetch = next) {
        next = fetch->next;
        stk__fetch_free(loader, fetch);
    }
    *spent = (stk__spent){0};
    if (!any)
        return;
    pthread_mutex_lock(&loader->ring->lock);
    if (loader->planner.blocked) {
        loader->planner.blocked = false;
        pthread_cond_signal(&loader->ring->work);
    }
    pthread_mutex_unlock(&loader->ring->lock);
}

/* ---- Completion ---- */

void stk__row_ready_locked(stk__step *step, uint32_t row)
{
    uint64_t at = (uint64_t)step->ready_first + step->num_ready++;

    step->ready[at < step->loader->row_room ? at : at - step->loader->row_room] = row;
}

static void op_done(stk_read *read, stk_status status);
static void send_waiting(stk_loader *loader);

stk_slice stk__unit_slice(const stk__unit *unit)
{
    if (unit->absent)
        return (stk_slice){.data = NULL, .size = 0};
    if (unit->decoded_size)
        return (stk_slice){.data = unit->place ? unit->place : unit->decoded,
                           .size = unit->decoded_size};
    return (stk_slice){.data = unit->data, .size = unit->length};
}

bool stk__unit_arrived_locked(stk__unit *unit, stk_status status)
{
    bool any = false;

    unit->arrived = true;
    unit->status = status;
    stk__need_entry *entry = unit->waiting;
    unit->waiting = NULL;
    for (stk__need_entry *next; entry; entry = next) {
        next = entry->next;
        stk__row *row = &entry->step->rows[entry->row];
        const uint32_t need = (uint32_t)(entry - row->needs);
        /* Of several that fail the first need tells, whichever arrives first. */
        if (status != STK_OK && (row->status == STK_OK || need < row->bad_need)) {
            row->status = status;
            row->stage = unit->decoding ? STK_STAGE_CODEC : STK_STAGE_STORE;
            row->reason = unit->reason;
            row->bad_need = need;
        }
        if (unit->absent)
            row->slices[entry - row->needs] = stk__unit_slice(unit);
        if (--row->pending == 0) {
            stk__row_ready_locked(entry->step, entry->row);
            any = true;
        }
    }
    return any;
}

static void push_front_locked(stk__reads *reads, stk__op *op)
{
    op->previous = NULL;
    op->next = reads->first;
    reads->first = op;
    if (!reads->last)
        reads->last = op;
}

bool stk__unit_read_alone_locked(stk_loader *loader, stk__fetch *fetch, stk__unit *unit)
{
    stk__reads *reads = &loader->reads;
    stk__op *op = reads->free_ops;

    if (op)
        reads->free_ops = op->next;
    else
        op = stk__alloc(loader->ctx, sizeof *op);
    if (!op)
        return false;
    *op = (stk__op){.fetch = fetch, .unit = unit};
    op->read = (stk_read){.struct_size = sizeof op->read,
                          .key = fetch->key,
                          .offset = unit->offset,
                          .length = unit->length,
                          .data = fetch->data + (unit->offset - fetch->offset),
                          .done = op_done,
                          .user = op};
    fetch->pending++;
    push_front_locked(reads, op);
    return true;
}

/*
 * All reads of a fetch have ended. One that failed for good and served several ranges is taken
 * apart: how ranges were joined depends on timing, and which samples are bad must not.
 */
static void fetch_arrived_locked(stk_loader *loader, stk__fetch *fetch)
{
    const bool apart = fetch->status != STK_OK &&
                       stk_status_fault(fetch->status) == STK_FAULT_SAMPLE && fetch->units &&
                       fetch->units->next_in_fetch && !loader->draining;
    bool any = false;

    for (stk__unit *u = fetch->units; u; u = u->next_in_fetch)
        if (!apart)
            any = stk__unit_read_locked(loader, u, fetch->status) || any;
        else if (!stk__unit_read_alone_locked(loader, fetch, u))
            any = stk__unit_read_locked(loader, u, STK_ENOMEM) || any;
    if (any) {
        pthread_cond_signal(&loader->ring->work);
        if (loader->num_workers == 0)
            pthread_cond_signal(&loader->ring->finished);
    }
}

static void unlink_flying_locked(stk__reads *reads, stk__op *op)
{
    if (op->previous)
        op->previous->next = op->next;
    else
        reads->flying = op->next;
    if (op->next)
        op->next->previous = op->previous;
    op->in_flight = false;
    reads->in_flight--;
}

/* What the ledger of waits wants to know of a read that has ended. */
static void note_stamps_locked(stk__reads *reads, const stk__op *op, stk_status status,
                               uint64_t now_ns)
{
    const double took = (double)(now_ns - op->start_ns);
    stk__fetch *fetch = op->fetch;

    reads->under_way -= op->read.length;
    if (status == STK_OK)
        stk__trend_add(&reads->fit, (double)op->under_way, took);
    fetch->first_ns = op->unit ? fetch->first_ns : op->first_ns;
    fetch->sent_ns = op->start_ns;
    fetch->arrived_ns = now_ns;
    fetch->transfer = STK_MIN(1.0, reads->fit.slope * (double)op->under_way / STK_MAX(took, 1.0));
}

static void op_done(stk_read *read, stk_status status)
{
    stk__op *op = read->user;
    stk__fetch *fetch = op->fetch;
    stk_loader *loader = fetch->loader;
    stk__reads *reads = &loader->reads;
    stk__event event = {.kind = STK__EVENT_READ,
                        .status = status,
                        .worker = UINT32_MAX,
                        .start_ns = op->start_ns,
                        .end_ns = stk__stamp(),
                        .bytes = read->length};

    stk__emit(loader->ctx, &event);
    pthread_mutex_lock(&loader->ring->lock);
    unlink_flying_locked(reads, op);
    reads->busy_ns += event.end_ns - event.start_ns;
    note_stamps_locked(reads, op, status, event.end_ns);
    reads->failures += status != STK_OK;
    bool again = stk_status_fault(status) == STK_FAULT_MACHINE &&
                 op->tries < (uint32_t)loader->options.retries && !loader->draining;
    if (again) {
        op->tries++;
        push_front_locked(reads, op);
    } else {
        stk__unit *alone = op->unit;
        op->next = reads->free_ops;
        reads->free_ops = op;
        fetch->pending--;
        if (alone && stk__unit_read_locked(loader, alone, status)) {
            pthread_cond_signal(&loader->ring->work);
            pthread_cond_signal(&loader->ring->finished);
        }
        if (!alone && status != STK_OK && fetch->status == STK_OK)
            fetch->status = status;
        if (!alone && fetch->pending == 0)
            fetch_arrived_locked(loader, fetch);
    }
    /* Taken while (L) is held: the end of the loader waits for whoever sends. */
    bool pump = reads->first && !reads->pumping && !loader->draining;
    reads->pumping = reads->pumping || pump;
    if (reads->in_flight == 0 && loader->draining)
        pthread_cond_broadcast(&loader->ring->finished);
    pthread_mutex_unlock(&loader->ring->lock);
    if (pump)
        send_waiting(loader);
}

/* Send what waits. The caller has taken reads->pumping: one thread sends, and done() inside
 * submit() leaves what it freed to the loop. A read that could not even be submitted ends as one
 * that failed. */
static void send_waiting(stk_loader *loader)
{
    stk__reads *reads = &loader->reads;

    pthread_mutex_lock(&loader->ring->lock);
    while (reads->first && reads->in_flight < reads->depth && !loader->draining) {
        stk__op *op = reads->first;
        reads->first = op->next;
        if (!reads->first)
            reads->last = NULL;
        op->previous = NULL;
        op->next = reads->flying;
        if (op->next)
            op->next->previous = op;
        reads->flying = op;
        op->in_flight = true;
        reads->in_flight++;
        reads->requests++;
        reads->request_bytes += op->read.length;
        reads->under_way += op->read.length;
        op->under_way = reads->under_way;
        op->start_ns = stk__now_ns();
        if (op->tries == 0)
            op->first_ns = op->start_ns;
        pthread_mutex_unlock(&loader->ring->lock);
        stk_status status = op->fetch->store->ops->submit(op->fetch->store, &op->read);
        if (status != STK_OK)
            op_done(&op->read, status);
        pthread_mutex_lock(&loader->ring->lock);
    }
    reads->pumping = false;
    if (loader->draining)
        pthread_cond_broadcast(&loader->ring->finished);
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__reads_pump(stk_loader *loader)
{
    stk__reads *reads = &loader->reads;

    pthread_mutex_lock(&loader->ring->lock);
    bool pump = reads->first && !reads->pumping;
    reads->pumping = reads->pumping || pump;
    pthread_mutex_unlock(&loader->ring->lock);
    if (pump)
        send_waiting(loader);
}

static stk__op *op_new(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    stk__op *op = loader->reads.free_ops;
    if (op)
        loader->reads.free_ops = op->next;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!op)
        op = stk__alloc(loader->ctx, sizeof *op);
    if (op)
        memset(op, 0, sizeof *op);
    return op;
}

stk_status stk__fetch_queue(stk_loader *loader, stk__fetch *fetch,
                            void (*publish)(stk_loader *loader, stk__fetch *fetch))
{
    stk__reads *reads = &loader->reads;
    stk_store_limits limits;
    stk__op *first = NULL, *last = NULL;
    stk_status status = STK_OK;

    stk__store_limits(fetch->store, &limits);
    size_t pieces = stk__plan_pieces(fetch->length, limits.max_read);
    for (size_t i = 0; i < pieces; i++) {
        uint64_t offset, length;
        stk__op *op = op_new(loader);
        if (!op) {
            status = STK_ENOMEM;
            break;
        }
        stk__plan_split(fetch->offset, fetch->length, limits.max_read, i, &offset, &length);
        op->fetch = fetch;
        op->read = (stk_read){.struct_size = sizeof op->read,
                              .key = fetch->key,
                              .offset = offset,
                              .length = length,
                              .data = fetch->data + (offset - fetch->offset),
                              .done = op_done,
                              .user = op};
        if (last)
            last->next = op;
        else
            first = op;
        last = op;
    }
    pthread_mutex_lock(&loader->ring->lock);
    if (status == STK_OK) {
        publish(loader, fetch);
        fetch->queued_ns = stk__stamp();
        fetch->pending = (uint32_t)pieces;
        if (reads->last)
            reads->last->next = first;
        else
            reads->first = first;
        reads->last = last;
    } else if (first) {
        last->next = reads->free_ops;
        reads->free_ops = first;
    }
    pthread_mutex_unlock(&loader->ring->lock);
    return status;
}

void stk__reads_drop_locked(stk_loader *loader)
{
    stk__reads *reads = &loader->reads;

    while (reads->first) {
        stk__op *op = reads->first;
        reads->first = op->next;
        op->fetch->pending--;
        op->next = reads->free_ops;
        reads->free_ops = op;
    }
    reads->last = NULL;
}

void stk__reads_cancel(stk_loader *loader)
{
    stk__reads *reads = &loader->reads;

    pthread_mutex_lock(&loader->ring->lock);
    stk__reads_drop_locked(loader);
    /* cancel() may run done(), which changes the list: begin again after each, and mark whom was
     * asked. */
    for (stk__op *op = reads->flying; op;) {
        if (op->tries == UINT32_MAX) {
            op = op->next;
            continue;
        }
        op->tries = UINT32_MAX;
        stk_store *store = op->fetch->store;
        if (!store->ops->cancel) {
            op = op->next;
            continue;
        }
        pthread_mutex_unlock(&loader->ring->lock);
        store->ops->cancel(store, &op->read);
        pthread_mutex_lock(&loader->ring->lock);
        op = reads->flying;
    }
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__reads_destroy(stk_loader *loader)
{
    stk__reads *reads = &loader->reads;

    for (stk__unit *u = reads->free_units, *next; u; u = next) {
        next = u->next_in_fetch;
        stk__free(loader->ctx, u);
    }
    for (stk__fetch *f = reads->free_fetches, *next; f; f = next) {
        next = f->next;
        stk__free(loader->ctx, f->key);
        stk__free(loader->ctx, f);
    }
    for (stk__op *op = reads->free_ops, *next; op; op = next) {
        next = op->next;
        stk__free(loader->ctx, op);
    }
}
