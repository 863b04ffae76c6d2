/* SPDX-License-Identifier: Apache-2.0 */
/* The reads of one round of planning: what the rows admitted in it want, joined and sent. */
#include "loader/planner.h"

/* ---- Wants ---- */

static stk_status grow_seen(stk__planner *p)
{
    stk__round *round = &p->round;
    uint32_t room = 1024;

    while (room < 2 * round->room)
        room *= 2;
    if (room <= round->seen_room)
        return STK_OK;
    uint32_t *seen = stk__realloc(p->ctx, round->seen, room * sizeof *seen);
    if (!seen)
        return STK_ENOMEM;
    memset(seen, 0xff, room * sizeof *seen);
    round->seen = seen;
    round->seen_room = room;
    return STK_OK;
}

stk_status stk__round_grow(stk__planner *p, uint32_t more)
{
    stk__round *round = &p->round;
    const uint32_t room = round->num + more;
    const uint64_t n = STK_MAX(room, round->room * 2);

    if (room <= round->room)
        return STK_OK;
    stk__want *wants = stk__realloc(p->ctx, round->wants, n * sizeof *wants);
    if (wants)
        round->wants = wants;
    stk__need_entry **entries = stk__realloc(p->ctx, round->entries, n * sizeof *entries);
    if (entries)
        round->entries = entries;
    stk__request *requests = stk__realloc(p->ctx, round->requests, n * sizeof *requests);
    if (requests)
        round->requests = requests;
    uint32_t *by_tag = stk__realloc(p->ctx, round->by_tag, n * sizeof *by_tag);
    if (by_tag)
        round->by_tag = by_tag;
    if (!wants || !entries || !requests || !by_tag)
        return STK_ENOMEM;
    round->room = (uint32_t)n;
    return p->dataset->ops->decode ? grow_seen(p) : STK_OK;
}

void stk__round_release(stk_context *ctx, stk__round *round)
{
    stk__free(ctx, round->wants);
    stk__free(ctx, round->entries);
    stk__free(ctx, round->requests);
    stk__free(ctx, round->by_tag);
    stk__free(ctx, round->seen);
}

static uint32_t place_of(const stk_need *need)
{
    uint64_t h = (need->object * UINT64_C(0x9E3779B97F4A7C15)) ^
                 (need->offset * UINT64_C(0xBF58476D1CE4E5B9));

    return (uint32_t)(h >> 29);
}

/* The table is as good as empty once the round's wants are sent: a want it names has to be the
 * same. */
bool stk__round_shares(const stk__round *round, const stk_need *need)
{
    if (!need->decoded || !round->seen_room || !round->num)
        return false;
    const uint32_t want = round->seen[place_of(need) & (round->seen_room - 1)];
    return want < round->num && round->wants[want].object == need->object &&
           round->wants[want].offset == need->offset && round->wants[want].length == need->length;
}

void stk__round_add(stk__round *round, stk__need_entry *entry)
{
    const uint32_t want = round->num++;

    round->wants[want] = (stk__want){.object = entry->need.object,
                                     .offset = entry->need.offset,
                                     .length = entry->need.length,
                                     .tag = want};
    round->entries[want] = entry;
    if (entry->need.decoded && round->seen_room)
        round->seen[place_of(&entry->need) & (round->seen_room - 1)] = want;
}

/* ---- Bytes that are in memory ---- */

/* The object that was looked for last, and its bytes; NULL: its store does not have it there. */
typedef struct found_object {
    uint64_t object;
    const char *data;
    uint64_t size;
} found_object;

/* The bytes of a need where the store has its object in memory, as a mapped file; NULL: they are
 * read. */
static const void *mapped_bytes(stk_dataset *dataset, const stk_need *need, found_object *found)
{
    if (need->decoded) /* decoders are given bytes of their own alignment */
        return NULL;
    if (found->object != need->object) {
        char key[STK_MAX_OBJECT_KEY];
        const void *data = NULL;
        stk_store *store = NULL;

        *found = (found_object){.object = need->object};
        const size_t length = dataset->ops->object(dataset, need->object, &store, key, sizeof key);
        if (length < sizeof key && store->ops->map &&
            store->ops->map(store, key, &data, &found->size) == STK_OK)
            found->data = data;
    }
    if (!found->data || need->offset > found->size || need->length > found->size - need->offset)
        return NULL;
    return found->data + need->offset;
}

/* Tie a want to a unit that an earlier want of the round made. */
static bool join_live(stk__planner *p, stk__need_entry *entry)
{
    bool waits = true;

    pthread_mutex_lock(&p->ring->lock);
    const bool lives = stk__unit_join_locked(p->units, entry, &waits);
    if (!waits && --entry->step->rows[entry->row].pending == 0)
        stk__row_ready_locked(entry->step, entry->row);
    pthread_mutex_unlock(&p->ring->lock);
    return lives;
}

/* Turn wants whose bytes are in the cache as they were read, or in memory anyhow, into units; the
 * others stay. */
static void from_memory(stk__planner *p)
{
    stk__round *round = &p->round;
    found_object found = {.object = UINT64_MAX};
    uint32_t kept = 0;

    for (uint32_t i = 0; i < round->num; i++) {
        stk__need_entry *entry = round->entries[i];
        uint64_t size = entry->need.length;
        const void *kept_bytes = stk__kept_bytes(p->keeping, &entry->need, &size);
        const void *bytes =
            kept_bytes ? kept_bytes : mapped_bytes(p->dataset, &entry->need, &found);
        /* Without memory for the record it is read like any other, which then fails by name. */
        if (bytes && (join_live(p, entry) ||
                      stk__unit_from_memory(p->units, entry, bytes, size, kept_bytes) == STK_OK))
            continue;
        round->entries[kept] = entry;
        round->wants[kept] = round->wants[i];
        round->wants[kept].tag = kept;
        kept++;
    }
    round->num = kept;
}

/* ---- Sending ---- */

/* The reads of some wants failed before they began: their rows are told. */
static void fail_wants(stk__planner *p, const stk__want *wants, uint32_t n, stk_status status)
{
    pthread_mutex_lock(&p->ring->lock);
    for (uint32_t i = 0; i < n; i++) {
        stk__need_entry *entry = p->round.entries[wants[i].tag];
        stk__row *row = &entry->step->rows[entry->row];
        if (row->status == STK_OK) {
            row->status = status;
            row->stage = STK_STAGE_STORE;
        }
        if (--row->pending == 0)
            stk__row_ready_locked(entry->step, entry->row);
    }
    pthread_cond_broadcast(&p->ring->work);
    pthread_mutex_unlock(&p->ring->lock);
}

/* Store and key of the fetch's object. */
static stk_status name_object(stk_dataset *dataset, stk__bundle *bundle)
{
    stk_context *ctx = bundle->of->ctx;

    for (;;) {
        size_t length = dataset->ops->object(dataset, bundle->object, &bundle->range.transfer.store,
                                             bundle->key, bundle->key_room);
        bundle->range.transfer.key = bundle->key;
        if (length < bundle->key_room)
            return STK_OK;
        if (length >= STK_MAX_OBJECT_KEY)
            return STK_ELIMIT;
        stk__free(ctx, bundle->key);
        bundle->key_room = STK_MAX(length + 1, 128);
        bundle->key = stk__alloc(ctx, bundle->key_room);
        if (!bundle->key) {
            bundle->key_room = 0;
            return STK_ENOMEM;
        }
    }
}

/* A unit for each distinct range of a request, tied to all that wait for it. */
static stk_status make_units(const stk__round *round, stk__bundle *bundle, const stk__want *wants,
                             uint32_t n)
{
    stk__unit *unit = NULL;

    for (uint32_t i = 0; i < n; i++) {
        stk__need_entry *entry = round->entries[wants[i].tag];
        if (!unit || unit->offset != wants[i].offset || unit->length != wants[i].length)
            unit = stk__unit_new(bundle, &entry->need,
                                 (const char *)bundle->range.transfer.data +
                                     (wants[i].offset - bundle->range.transfer.offset),
                                 entry->step->serial);
        if (!unit)
            return STK_ENOMEM;
        stk__unit_wait(unit, entry);
    }
    return STK_OK;
}

static void send_request(stk__planner *p, const stk__request *request)
{
    const stk__want *wants = p->round.wants + request->first;
    stk_status status = STK_ENOMEM;
    stk__bundle *bundle = stk__bundle_new(p->units);

    if (!bundle)
        goto failed;
    bundle->object = request->object;
    bundle->range.transfer.offset = request->offset;
    bundle->range.transfer.length = request->length;
    bundle->range.transfer.data = stk__pool_take(&p->ring->pool, request->length);
    if (!bundle->range.transfer.data || (status = name_object(p->dataset, bundle)) != STK_OK ||
        (status = make_units(&p->round, bundle, wants, request->count)) != STK_OK)
        goto failed;
    /* Queued last: from there on the bundle may end at any moment. */
    pthread_mutex_lock(&p->ring->lock);
    stk__bundle_publish_locked(bundle);
    stk__reads_queue_locked(p->reads, &bundle->range);
    pthread_mutex_unlock(&p->ring->lock);
    return;
failed:
    if (bundle)
        stk__bundle_free(bundle);
    fail_wants(p, wants, request->count, status);
}

/* What the planner of reads asks of an object: the limits of its store. */
typedef struct store_limits {
    stk_dataset *dataset;
    bool gaps; /* bytes may be read in vain */
    bool any;  /* some store has a gap that is worth it */
} store_limits;

static void limits_of(void *user, uint64_t object, stk_store_limits *out)
{
    store_limits *l = user;
    stk_store *store = NULL;
    char key[1];

    l->dataset->ops->object(l->dataset, object, &store, key, sizeof key);
    stk__store_limits(store, out);
    l->any |= out->coalesce_gap != 0;
    if (!l->gaps)
        out->coalesce_gap = 0;
}

/* Bytes of the pool that the planned reads take, and what is decoded of them. */
static uint64_t cost_of(const stk__round *round, size_t num_requests)
{
    uint64_t cost = 0;

    for (size_t i = 0; i < num_requests; i++)
        cost += stk__pool_cost(round->requests[i].length);
    for (uint32_t i = 0; i < round->num; i++) {
        const stk__want *want = &round->wants[i], *last = i ? want - 1 : NULL;
        const uint64_t decoded = round->entries[want->tag]->need.decoded;
        const bool again = last && last->object == want->object && last->offset == want->offset &&
                           last->length == want->length;
        if (decoded && !again)
            cost += stk__pool_cost(decoded);
    }
    return cost;
}

/* Send the round's reads. */
static void send_reads(stk__planner *planner)
{
    stk__round *round = &planner->round;
    store_limits limits = {.dataset = planner->dataset, .gaps = true};

    size_t n = stk__plan_reads_of(round->wants, round->num, limits_of, &limits, round->requests);
    /* What the rows were admitted for has room; what is read in vain must have it, too. */
    if (limits.any && !stk__pool_fits(&planner->ring->pool, cost_of(round, n))) {
        limits.gaps = false;
        n = stk__plan_reads_of(round->wants, round->num, limits_of, &limits, round->requests);
    }
    /* Planned by place, sent by position: the oldest batch waits for its own reads alone. */
    for (uint32_t tag = 0; tag < round->num; tag++)
        round->by_tag[tag] = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const stk__want *wants = round->wants + round->requests[i].first;
        uint32_t oldest = UINT32_MAX;
        for (uint32_t k = 0; k < round->requests[i].count; k++)
            oldest = STK_MIN(oldest, wants[k].tag);
        round->by_tag[oldest] = (uint32_t)i;
    }
    for (uint32_t tag = 0; tag < round->num; tag++)
        if (round->by_tag[tag] != UINT32_MAX)
            send_request(planner, &round->requests[round->by_tag[tag]]);
}

bool stk__round_send(stk__planner *planner)
{
    stk__round *round = &planner->round;

    if (round->num)
        from_memory(planner);
    const bool any = round->num != 0;
    if (any)
        send_reads(planner);
    round->num = 0;
    round->cost = 0; /* what it promised are buffers now, also where all came from the cache */
    return any;
}
