/* SPDX-License-Identifier: Apache-2.0 */
/* A spec -> shards, by the listing that datasets of files share. */
#include "dataset/listing.h"
#include "dataset/records/records.h"

stk_status stk__records_add_store(stk__records *set, const char *folder, uint32_t *store,
                                  stk_error *err)
{
    stk__listed_stores list = {.context = set->base.context,
                               .items = set->stores,
                               .count = set->num_stores,
                               .room = set->stores_room};
    const stk_status status =
        stk__listed_store(&list, set->format->ops->name, "shard", folder, store, err);

    set->stores = list.items;
    set->num_stores = list.count;
    set->stores_room = list.room;
    return status;
}

stk_status stk__records_add_shard(stk__records *set, uint32_t store, const char *key,
                                  stk_error *err)
{
    stk__records_table *t = &set->table;
    const size_t length = strlen(key) + 1;

    if (t->num_shards == STK__RECORDS_MAX_SHARDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: more than %llu shards; name fewer", set->format->ops->name,
                         (unsigned long long)STK__RECORDS_MAX_SHARDS);
    char *text = stk__grow(t->context, t->text, &t->text_room, (uint64_t)t->text_bytes + length, 1);
    if (!text)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the list of shards",
                         set->format->ops->name);
    t->text = text;
    stk__records_shard *shards = stk__grow(t->context, t->shards, &t->shards_room,
                                           (uint64_t)t->num_shards + 1, sizeof *shards);
    if (!shards)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the list of shards",
                         set->format->ops->name);
    t->shards = shards;
    t->shards[t->num_shards++] = (stk__records_shard){.key = t->text_bytes, .store = store};
    memcpy(t->text + t->text_bytes, key, length);
    t->text_bytes += length;
    return STK_OK;
}

/* ---- A spec ---- */

static bool is_file(const void *user, const char *name)
{
    const stk__records *set = user;
    const size_t length = strlen(name);

    return set->format->is_shard ? set->format->is_shard(name, length)
                                 : stk__ends_with(name, length, set->format->suffix);
}

static stk_status add_store(void *user, const char *folder, bool whole, uint32_t *store,
                            stk_store **out, stk_error *err)
{
    stk__records *set = user;

    set->of_folder |= whole;
    STK_TRY(stk__records_add_store(set, folder, store, err));
    *out = set->stores[*store].store;
    return STK_OK;
}

static stk_status add_file(void *user, uint32_t store, const char *key, stk_error *err)
{
    return stk__records_add_shard(user, store, key, err);
}

stk_status stk__records_list(stk__records *set, const char *url, stk_error *err)
{
    const stk__listing to = {.context = set->base.context,
                             .who = set->format->ops->name,
                             .noun = "shard",
                             .suffix = set->format->suffix,
                             .user = set,
                             .is_file = is_file,
                             .add_store = add_store,
                             .add_file = add_file};

    return stk__listing_read(&to, url, err);
}
