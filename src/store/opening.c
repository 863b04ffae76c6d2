/* SPDX-License-Identifier: Apache-2.0 */
#include "store/opening.h"

#include "base/slot.h"

#define BELIEVED_NS  UINT64_C(10000000000)
#define MOST_OBJECTS 256
#define MOST_BYTES   (UINT64_C(16) << 20)
#define RANGES       2 /* the beginning of an object and its end */

typedef struct range {
    uint64_t offset, length;
    unsigned char *bytes; /* NULL: none */
} range;

typedef struct object object;
struct object {
    object *next;
    XXH128_hash_t name;
    uint64_t since_ns;
    stk__seen seen;
    range ranges[RANGES];
};

/* In the slot of the context. */
typedef struct openings {
    object *objects;
    size_t count;
    uint64_t bytes;
} openings;

static void release_object(stk_context *ctx, openings *o, object *gone)
{
    for (int i = 0; i < RANGES; i++) {
        o->bytes -= gone->ranges[i].length;
        stk__free(ctx, gone->ranges[i].bytes);
    }
    stk__free(ctx, gone);
    o->count--;
}

static void release_all(stk_context *ctx, void *data)
{
    openings *o = data;

    for (object *next; o && o->objects; o->objects = next) {
        next = o->objects->next;
        release_object(ctx, o, o->objects);
    }
    stk__free(ctx, o);
}

/* ---- Under the lock of the slot ---- */

typedef struct wish {
    XXH128_hash_t name;
    const stk__seen *seen;
    uint64_t offset, length;
    const void *data;
    bool up_to, found, bytes;
    void *to;
    uint64_t got;
    stk__seen out;
} wish;

static object *find(const openings *o, XXH128_hash_t name)
{
    object *at = o ? o->objects : NULL;

    while (at && !XXH128_isEqual(at->name, name))
        at = at->next;
    return at && stk__now_ns() - at->since_ns < BELIEVED_NS ? at : NULL;
}

/* Copy what is wanted out of a range that has it. */
static bool copy(const object *from, wish *w)
{
    const uint64_t size = from->seen.size;
    const uint64_t wanted =
        w->up_to ? STK_MIN(w->length, size - STK_MIN(size, w->offset)) : w->length;

    for (int i = 0; i < RANGES; i++) {
        const range *r = &from->ranges[i];
        if (!r->bytes || w->offset < r->offset || w->offset - r->offset > r->length ||
            wanted > r->length - (w->offset - r->offset))
            continue;
        memcpy(w->to, r->bytes + (w->offset - r->offset), wanted);
        w->got = wanted;
        return true;
    }
    return false;
}

static stk_status look(stk_context *ctx, stk__slot *slot, void *user)
{
    wish *w = user;
    const object *at = find(slot->data, w->name);

    (void)ctx;
    if (!at)
        return STK_OK;
    w->out = at->seen;
    w->found = !w->bytes || stk__seen_none(&at->seen) || copy(at, w);
    return STK_OK;
}

/* Take an object out, if it is there. */
static void drop(stk_context *ctx, openings *o, XXH128_hash_t name)
{
    for (object **at = o ? &o->objects : NULL; at && *at; at = &(*at)->next)
        if (XXH128_isEqual((*at)->name, name)) {
            object *gone = *at;
            *at = gone->next;
            release_object(ctx, o, gone);
            return;
        }
}

static void keep_range(stk_context *ctx, openings *o, object *at, const wish *w)
{
    range *r = at->ranges[0].bytes ? &at->ranges[1] : &at->ranges[0];

    if (!w->length || r->bytes || o->bytes + w->length > MOST_BYTES ||
        w->length > stk__memory_left(ctx) / 4)
        return;
    r->bytes = stk__alloc(ctx, w->length);
    if (!r->bytes)
        return;
    memcpy(r->bytes, w->data, w->length);
    r->offset = w->offset;
    r->length = w->length;
    o->bytes += w->length;
}

/* Without memory it is asked for again. */
static stk_status note(stk_context *ctx, stk__slot *slot, void *user)
{
    const wish *w = user;

    if (!stk__opening_is(ctx)) /* it ended meanwhile */
        return STK_OK;
    object *at = find(slot->data, w->name);
    /* What is known of an object serves, though more of it cannot be had. */
    if (at && w->seen->error.status != STK_OK)
        return STK_OK;
    if (at && (stk__seen_none(&at->seen) || at->seen.identity != w->seen->identity ||
               at->seen.size != w->seen->size))
        at = NULL;
    if (!at)
        drop(ctx, slot->data, w->name);
    if (!slot->data)
        slot->data = stk__calloc(ctx, 1, sizeof(openings));
    openings *o = slot->data;
    if (!o)
        return STK_OK;
    slot->destroy = release_all;
    if (!at && o->count < MOST_OBJECTS && (at = stk__calloc(ctx, 1, sizeof *at))) {
        at->name = w->name;
        at->since_ns = stk__now_ns();
        at->seen = *w->seen;
        at->next = o->objects;
        o->objects = at;
        o->count++;
    }
    if (at)
        keep_range(ctx, o, at, w);
    return STK_OK;
}

static stk_status take_all(stk_context *ctx, stk__slot *slot, void *user)
{
    (void)ctx;
    *(void **)user = slot->data;
    slot->data = NULL;
    return STK_OK;
}

/* Whoever began one meanwhile has what is there. */
static stk_status end(stk_context *ctx, stk__slot *slot, void *user)
{
    return atomic_fetch_sub(stk__context_openings(ctx), 1) == 1 ? take_all(ctx, slot, user)
                                                                : STK_OK;
}

/* ---- What the header says ---- */

void stk__opening_begin(stk_context *ctx)
{
    atomic_fetch_add(stk__context_openings(ctx), 1);
}

void stk__opening_end(stk_context *ctx)
{
    void *gone = NULL;

    (void)stk__context_slot(ctx, STK__SLOT_OPENING, end, &gone);
    release_all(ctx, gone);
}

bool stk__opening_is(stk_context *ctx)
{
    return atomic_load_explicit(stk__context_openings(ctx), memory_order_relaxed) > 0;
}

bool stk__opening_find(stk_context *ctx, XXH128_hash_t name, stk__seen *out)
{
    wish w = {.name = name};

    if (!stk__opening_is(ctx))
        return false;
    (void)stk__context_slot(ctx, STK__SLOT_OPENING, look, &w);
    *out = w.out;
    return w.found;
}

bool stk__opening_read(stk_context *ctx, XXH128_hash_t name, uint64_t offset, uint64_t length,
                       bool up_to, void *data, uint64_t *got, stk__seen *out)
{
    wish w = {.name = name,
              .offset = offset,
              .length = length,
              .up_to = up_to,
              .bytes = true,
              .to = data};

    if (!stk__opening_is(ctx))
        return false;
    (void)stk__context_slot(ctx, STK__SLOT_OPENING, look, &w);
    *out = w.out;
    *got = w.got;
    return w.found;
}

void stk__opening_note(stk_context *ctx, XXH128_hash_t name, const stk__seen *seen, uint64_t offset,
                       const void *data, uint64_t length)
{
    wish w = {.name = name, .seen = seen, .offset = offset, .data = data, .length = length};

    if (stk__opening_is(ctx))
        (void)stk__context_slot(ctx, STK__SLOT_OPENING, note, &w);
}

void stk__opening_forget(stk_context *ctx)
{
    void *gone = NULL;

    if (!stk__opening_is(ctx))
        return;
    (void)stk__context_slot(ctx, STK__SLOT_OPENING, take_all, &gone);
    release_all(ctx, gone);
}
