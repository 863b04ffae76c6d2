/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs in memory, by key. An epoch visits every sample once, so throwing out what is old to keep
 * what is new would lose every hit as soon as the data is larger than the cache: what came first
 * stays. Readers take no lock: an entry is published by its pointer, and nothing is ever removed.
 */
#include "loader/cache.h"

#define ARENA_BYTES       (UINT64_C(256) << 10)
#define LARGE_ARENA_BYTES (UINT64_C(16) << 20)

typedef struct entry {
    uint64_t a, b, size;
    _Atomic(char *) blob; /* NULL: free, or being filled */
} entry;

#define NO_KEY UINT64_MAX /* the `b` of a free entry */

typedef struct arena {
    struct arena *next;
    uint64_t used, room;
} arena;

struct stk__cache {
    stk_context *ctx;
    uint64_t limit;
    uint64_t mask; /* of the table */
    entry *table;
    pthread_mutex_t lock; /* guards the rest, and the keys of new entries */
    uint64_t bytes, entries, most_entries;
    arena *arenas;
    entry none; /* the table where there is no room for one: it is always free */
};

/* A table for so many entries, in a quarter of the limit at most; false: there is none. */
static bool make_table(stk__cache *cache, uint64_t most_entries)
{
    uint64_t slots = 64;
    /* It takes an eighth of the limit where that is enough. */
    const uint64_t entries = STK_MIN(most_entries, cache->limit / 8 / sizeof(entry) / 2);

    while (slots < entries * 2)
        slots *= 2;
    if (slots * sizeof(entry) > cache->limit / 4)
        slots /= 2;
    entry *table = cache->limit < 2 * ARENA_BYTES
                       ? NULL
                       : stk__calloc(cache->ctx, slots, sizeof *cache->table);
    if (!table)
        return false;
    for (uint64_t i = 0; i < slots; i++)
        table[i].b = NO_KEY;
    cache->table = table;
    cache->mask = slots - 1;
    cache->most_entries = slots / 2;
    cache->bytes = slots * sizeof(entry);
    return true;
}

stk_status stk__cache_create(stk_context *ctx, uint64_t limit, uint64_t most_entries,
                             stk__cache **out)
{
    *out = NULL;
    if (limit < 2 * ARENA_BYTES)
        return STK_EBUDGET;
    stk__cache *cache = stk__calloc(ctx, 1, sizeof *cache);
    if (!cache)
        return STK_ENOMEM;
    cache->ctx = ctx;
    cache->limit = limit;
    if (!make_table(cache, most_entries)) {
        stk__free(ctx, cache);
        return STK_ENOMEM;
    }
    pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return STK_OK;
}

static void free_all(stk__cache *c)
{
    for (arena *a = c->arenas, *next; a; a = next) {
        next = a->next;
        stk__free(c->ctx, a);
    }
    c->arenas = NULL;
    if (c->table != &c->none)
        stk__free(c->ctx, c->table);
    c->table = &c->none;
    c->mask = c->bytes = c->entries = c->most_entries = 0;
}

void stk__cache_shrink(stk__cache *cache, uint64_t limit)
{
    pthread_mutex_lock(&cache->lock);
    if (limit < cache->limit) {
        const uint64_t entries = cache->most_entries;
        free_all(cache);
        cache->limit = limit;
        make_table(cache, entries);
    }
    pthread_mutex_unlock(&cache->lock);
}

void stk__cache_destroy(stk__cache **cache)
{
    stk__cache *c = *cache;

    if (!c)
        return;
    free_all(c);
    pthread_mutex_destroy(&c->lock);
    stk__free(c->ctx, c);
    *cache = NULL;
}

static uint64_t hash(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);

    return h ^ h >> 29;
}

void stk__cache_prefetch(const stk__cache *cache, uint64_t a, uint64_t b)
{
    __builtin_prefetch(&cache->table[hash(a, b) & cache->mask]);
}

const void *stk__cache_get(stk__cache *cache, uint64_t a, uint64_t b, uint64_t *size)
{
    for (uint64_t i = hash(a, b);; i++) {
        entry *e = &cache->table[i & cache->mask];
        char *blob = atomic_load_explicit(&e->blob, memory_order_acquire);
        /* An entry that is being filled ends the search too: a miss, at worst of a blob that lies
         * behind it. */
        if (!blob)
            return NULL;
        if (e->a == a && e->b == b) {
            *size = e->size;
            return blob;
        }
    }
}

/* Room for `size` bytes and the tail that kernels may read; NULL when the limit is reached. */
static char *carve_locked(stk__cache *cache, uint64_t size)
{
    const uint64_t head = stk__round_up(sizeof(arena), 16),
                   room = stk__round_up(size + STK_TAIL, 16);
    arena *a = cache->arenas;

    if (!a || a->used + room > a->room) {
        /* Large arenas lie in large pages; near the limit small ones still fit. */
        uint64_t bytes = STK_MAX(STK_MIN(cache->limit / 8, LARGE_ARENA_BYTES), ARENA_BYTES);
        if (cache->bytes + bytes > cache->limit)
            bytes = ARENA_BYTES;
        bytes = STK_MAX(bytes, room + head);
        if (cache->bytes + bytes > cache->limit)
            return NULL;
        a = stk__alloc_buffer(cache->ctx, bytes);
        if (!a)
            return NULL;
        if (bytes >= LARGE_ARENA_BYTES)
            stk__use_large_pages(a, bytes);
        *a = (arena){.next = cache->arenas, .used = head, .room = bytes};
        cache->arenas = a;
        cache->bytes += bytes;
    }
    char *blob = (char *)a + a->used;
    a->used += room;
    return blob;
}

/* A new entry of a key, to be published with its blob; NULL: there is one, or no room. */
static entry *add_entry(stk__cache *cache, uint64_t a, uint64_t b, uint64_t size, char **out)
{
    uint64_t i = hash(a, b);
    char *blob = NULL;

    if (size > cache->limit)
        return NULL;
    pthread_mutex_lock(&cache->lock);
    if (cache->entries < cache->most_entries) {
        while (cache->table[i & cache->mask].b != NO_KEY &&
               !(cache->table[i & cache->mask].a == a && cache->table[i & cache->mask].b == b))
            i++;
        if (cache->table[i & cache->mask].b == NO_KEY && (blob = carve_locked(cache, size))) {
            cache->table[i & cache->mask].a = a;
            cache->table[i & cache->mask].b = b;
            cache->table[i & cache->mask].size = size;
            cache->entries++;
        }
    }
    pthread_mutex_unlock(&cache->lock);
    *out = blob;
    return blob ? &cache->table[i & cache->mask] : NULL;
}

static uint64_t size_of(const stk_slice *parts, size_t n)
{
    uint64_t size = 0;

    for (size_t k = 0; k < n; k++)
        size += parts[k].size;
    return size;
}

/* Write the parts one behind the other, and where each is. */
static void fill(char *to, const stk_slice *parts, size_t n, stk_slice *where)
{
    for (size_t k = 0; k < n; k++) {
        if (where)
            where[k] = (stk_slice){.data = parts[k].data ? to : NULL, .size = parts[k].size};
        if (parts[k].size)
            memcpy(to, parts[k].data, parts[k].size);
        to += parts[k].size;
    }
    memset(to, 0, STK_TAIL);
}

void stk__cache_put(stk__cache *cache, uint64_t a, uint64_t b, const stk_slice *parts, size_t n)
{
    char *blob;
    entry *e = add_entry(cache, a, b, size_of(parts, n), &blob);

    if (!e)
        return;
    fill(blob, parts, n, NULL);
    atomic_store_explicit(&e->blob, blob, memory_order_release);
}

void stk__cache_put_slices(stk__cache *cache, uint64_t a, uint64_t b, const stk_slice *parts,
                           size_t n)
{
    const uint64_t head = n * sizeof *parts;
    char *blob;
    entry *e = add_entry(cache, a, b, head + size_of(parts, n), &blob);

    if (!e)
        return;
    fill(blob + head, parts, n, (stk_slice *)(void *)blob);
    atomic_store_explicit(&e->blob, blob, memory_order_release);
}

uint64_t stk__cache_bytes(stk__cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    uint64_t bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}
