/* SPDX-License-Identifier: Apache-2.0 */
/* Shards that are written while they are read. */
#include "dataset/records/records.h"
#include "dataset/watched.h"

typedef struct stk__records_watched {
    stk__watched_file one;
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

stk_status stk__records_unchanged(const stk__records *set, uint64_t shard, stk_error *err)
{
    const stk__records_shard *s = &set->table.shards[shard];
    const stk_object_info was = scanned(s);

    return stk__watched_look(&set->watched[shard].one, set->format->ops->name, "shard",
                             set->stores[s->store].store, set->table.text + s->key, &was, err);
}
