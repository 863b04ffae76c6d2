/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards that are written while they are read: old places in a new shard give bytes of anything.
 * Stores of other machines hold each read to the version that they were told; local files are
 * looked at before they are read, now and then.
 */
#include "dataset/records/records.h"

#define EVERY_NS UINT64_C(100000000) /* from look to look at one shard */

typedef struct stk__records_watched {
    atomic_uint_fast64_t due_ns; /* not looked at before */
    atomic_bool changed;         /* as seen last */
} stk__records_watched;

static stk_object_info scanned(const stk__records_shard *s)
{
    return (stk_object_info){.struct_size = sizeof(stk_object_info),
                             .size = s->size,
                             .identity = s->identity,
                             .mtime_ns = s->mtime_ns};
}

stk_status stk__records_watch(stk__records *set, stk_error *err)
{
    const stk__records_table *t = &set->table;

    for (size_t i = 0; i < t->num_shards; i++) {
        const stk__records_shard *s = &t->shards[i];
        const stk_object_info info = scanned(s);
        if (stk__file_root(set->stores[s->store].store) < 0 && s->identity)
            stk__store_know(set->stores[s->store].store, t->text + s->key, &info);
    }
    set->watched = stk__calloc(set->base.context, t->num_shards, sizeof *set->watched);
    return set->watched
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for %zu shards",
                           set->format->ops->name, t->num_shards);
}

/* One that is gone is no other one: reads say what fails. */
static stk_status look(const stk__records *set, uint64_t shard, stk_error *err)
{
    const stk__records_shard *s = &set->table.shards[shard];
    const char *key = set->table.text + s->key;
    const stk_store_call call = {.struct_size = sizeof call, .bare = true};
    const stk_object_info was = scanned(s);
    stk_object_info is = {.struct_size = sizeof is};

    if (stk_store_stat(set->stores[s->store].store, key, &call, &is, NULL) != STK_OK ||
        is.is_folder)
        return STK_OK;
    const bool changed = stk__store_is_other(&was, &is, false);
    atomic_store(&set->watched[shard].changed, changed);
    if (!changed)
        return STK_OK;
    return stk__fail_at(err, STK_ECHANGED, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "%s: the shard %.200s has changed since the dataset was opened (%llu bytes "
                        "then, %llu now); open it again when no program writes it",
                        set->format->ops->name, key, (unsigned long long)s->size,
                        (unsigned long long)is.size);
}

stk_status stk__records_unchanged(const stk__records *set, uint64_t shard, stk_error *err)
{
    stk__records_watched *w = &set->watched[shard];
    const uint64_t now = stk__now_ns();
    uint_fast64_t due = atomic_load_explicit(&w->due_ns, memory_order_relaxed);

    if (stk__file_root(set->stores[set->table.shards[shard].store].store) < 0)
        return STK_OK;
    if (!atomic_load_explicit(&w->changed, memory_order_relaxed) &&
        (now < due || !atomic_compare_exchange_strong(&w->due_ns, &due, now + EVERY_NS)))
        return STK_OK;
    return look(set, shard, err);
}
