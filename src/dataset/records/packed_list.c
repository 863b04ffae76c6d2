/* SPDX-License-Identifier: Apache-2.0 */
/* Shards that are compressed as a whole, by the spec that names shards: they are no dataset. */
#include "dataset/records/records.h"

/* Of a folder: those whose names say so. */
static bool is_packed(const char *name, size_t length)
{
    static const char *const ends[] = {".tgz", ".gz", ".zst", ".zstd", ".zlib"};

    for (size_t i = 0; i < STK_COUNT(ends); i++)
        if (stk__ends_with(name, length, ends[i]))
            return true;
    return false;
}

static const stk_dataset_ops named = {.struct_size = sizeof named, .name = "unpack"};

static const stk__record_format format = {
    .ops = &named, .suffix = ".gz", .is_shard = is_packed, .version = 1};

stk_status stk__packed_shards(stk_context *ctx, const char *url, stk__packed_shard *each,
                              void *user, stk_error *err)
{
    stk__records *set = stk__calloc(ctx, 1, sizeof *set);

    if (!set)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to list %.200s", url);
    set->base.context = set->table.context = ctx;
    set->format = &format;
    stk_status status = stk__records_list(set, url, err);
    for (size_t i = 0; status == STK_OK && i < set->table.num_shards; i++) {
        const stk__records_shard *s = &set->table.shards[i];
        status = each(user, set->stores[s->store].store, set->table.text + s->key, err);
    }
    stk__records_close(&set->base);
    return status;
}
