/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/reads.h"

#include <stdalign.h>

#include "store/opening.h"

/* What comes during one first byte of 20 ms at 25 MB/s. */
#define COALESCE_GAP (UINT64_C(512) << 10)
#define MAX_READ     (UINT64_C(8) << 20)

/* A read under way. */
struct stk__http_slot {
    stk__http_reads *reads;
    stk__http_slot *next; /* of the free ones */
    stk_read *read;
    uint32_t cancelers; /* threads that are about to cancel it: not to be used again */
    char etag[128];
    char target[STK__HTTP_TARGET];
    alignas(max_align_t) unsigned char request[]; /* of the store, its exchange first */
};

static stk__http_exchange *exchange_of(stk__http_slot *slot)
{
    return (stk__http_exchange *)slot->request;
}

static stk__http_slot *get_slot(stk__http_reads *reads)
{
    pthread_mutex_lock(&reads->mutex);
    stk__http_slot *slot = reads->free;
    if (slot)
        reads->free = slot->next;
    pthread_mutex_unlock(&reads->mutex);
    if (!slot)
        slot = stk__calloc(reads->context, 1, sizeof *slot + reads->request_bytes);
    if (slot) {
        slot->reads = reads;
        memset(slot->request, 0, reads->request_bytes);
    }
    return slot;
}

static void free_slot_locked(stk__http_reads *reads, stk__http_slot *slot)
{
    if (slot->read || slot->cancelers)
        return;
    slot->next = reads->free;
    reads->free = slot;
}

/* The read has ended, or never began. */
static void leave_slot(stk__http_reads *reads, stk__http_slot *slot)
{
    pthread_mutex_lock(&reads->mutex);
    slot->read = NULL;
    free_slot_locked(reads, slot);
    pthread_mutex_unlock(&reads->mutex);
}

static void set_slot(stk__http_reads *reads, stk_read *read, stk__http_slot *slot)
{
    pthread_mutex_lock(&reads->mutex);
    read->driver[0] = slot;
    pthread_mutex_unlock(&reads->mutex);
}

static void read_done(stk__http_exchange *x, stk_status status)
{
    stk__http_slot *slot = x->user;
    stk__http_reads *reads = slot->reads;
    stk_read *read = slot->read;

    /* What was there and has gone is no absence, which others may take for a fill value. */
    if (status == STK_ENOENT && x->pinned && x->up_to)
        status = x->error.status = STK_ECHANGED;
    if (x->length <= STK__OPENING_AHEAD || status != STK_OK)
        stk__http_note(x->client, x, status);
    if (status == STK_OK && !x->pinned)
        stk__http_pins_set(reads->pins, read->key, x->identity, x->etag, false);
    read->system_error = status == STK_OK ? 0 : -x->code;
    if (status != STK_OK && read->error)
        *read->error = x->error;
    if (read->identity && status == STK_OK)
        *read->identity = x->identity;
    if (read->up_to)
        read->got = x->got;
    if (read->from_end)
        read->size = x->size;
    set_slot(reads, read, NULL);
    read->done(read, status);
    leave_slot(reads, slot);
}

/* End it with what was seen while something is opened; false: it is to be sent. */
static bool recall(stk__http_reads *reads, const stk__http_client *client, stk_read *read,
                   const stk__http_exchange *x)
{
    uint64_t got = 0;
    stk__seen seen;

    if (read->from_end || !stk__opening_is(reads->context) ||
        !stk__opening_read(reads->context, stk__http_name(client, x->target), read->offset,
                           read->length, read->up_to, read->data, &got, &seen) ||
        (x->pinned && seen.error.status == STK_OK && (seen.absent || seen.identity != x->pinned)))
        return false;
    const bool none = stk__seen_none(&seen);
    if (!none && !x->pinned)
        stk__http_pins_set(reads->pins, read->key, seen.identity, seen.etag, false);
    if (read->identity && !none)
        *read->identity = seen.identity;
    if (read->up_to)
        read->got = got;
    if (seen.error.status != STK_OK && read->error)
        *read->error = seen.error;
    read->done(read, seen.absent ? STK_ENOENT : seen.error.status);
    return true;
}

stk_status stk__http_reads_submit(stk__http_reads *reads, stk__http_client *client, stk_read *read,
                                  stk_status (*target)(const void *store, const char *key,
                                                       char to[STK__HTTP_TARGET]),
                                  const void *store)
{
    uint64_t end;

    if (!read->key || !stk__add_size(read->from_end ? 0 : read->offset, read->length, &end))
        return STK_EINVAL;
    read->system_error = 0;
    if (!read->length && !read->from_end) {
        read->done(read, STK_OK);
        return STK_OK;
    }
    stk__http_slot *slot = get_slot(reads);
    if (!slot)
        return STK_ENOMEM;
    stk__http_exchange *x = exchange_of(slot);
    slot->read = read;
    x->method = "GET";
    x->target = slot->target;
    x->offset = read->offset;
    x->length = read->length;
    x->data = read->data;
    x->up_to = read->up_to;
    x->from_end = read->from_end;
    x->deadline_ns = read->deadline_ns;
    x->done = read_done;
    x->user = slot;
    x->pinned = stk__http_pins_find(reads->pins, read->key, slot->etag, sizeof slot->etag);
    if (slot->etag[0])
        x->if_match = slot->etag;
    stk_status status = target(store, read->key, slot->target);
    if (status == STK_OK && recall(reads, client, read, x)) {
        leave_slot(reads, slot);
        return STK_OK;
    }
    set_slot(reads, read, slot);
    if (status == STK_OK)
        status = stk__http_send(client, x);
    if (status != STK_OK) {
        set_slot(reads, read, NULL);
        leave_slot(reads, slot);
    }
    return status;
}

void stk__http_reads_cancel(stk__http_reads *reads, stk__http_client *client, stk_read *read)
{
    pthread_mutex_lock(&reads->mutex);
    stk__http_slot *slot = read->driver[0];
    if (slot)
        slot->cancelers++;
    pthread_mutex_unlock(&reads->mutex);
    if (!slot)
        return;
    stk__http_cancel(client, exchange_of(slot));
    pthread_mutex_lock(&reads->mutex);
    slot->cancelers--;
    free_slot_locked(reads, slot);
    pthread_mutex_unlock(&reads->mutex);
}

void stk__http_reads_init(stk__http_reads *reads, stk_context *ctx, stk__http_pins *pins,
                          size_t request_bytes)
{
    *reads = (stk__http_reads){.context = ctx, .pins = pins, .request_bytes = request_bytes};
    pthread_mutex_init(&reads->mutex, NULL);
}

void stk__http_reads_release(stk__http_reads *reads)
{
    for (stk__http_slot *slot = reads->free, *next; slot; slot = next) {
        next = slot->next;
        stk__free(reads->context, slot);
    }
    pthread_mutex_destroy(&reads->mutex);
}

void stk__http_limits(const stk__http_options *options, stk_store_limits *out)
{
    out->coalesce_gap = COALESCE_GAP;
    out->max_read = MAX_READ;
    out->io_depth = (uint32_t)STK_MAX(options->connections, UINT64_C(1));
    out->tries_again = true;
    out->ends = true;
}
