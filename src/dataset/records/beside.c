/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/records/beside.h"

#include "dataset/records/shard.h"

#define MOST_DIGITS 19 /* which 64 bits hold */

bool stk__beside_number(const char **at, const char *end, uint64_t *out)
{
    const char *begin = *at;

    for (*out = 0; *at < end && **at >= '0' && **at <= '9' && *at - begin < MOST_DIGITS; ++*at)
        *out = *out * 10 + (uint64_t)(**at - '0');
    return *at > begin;
}

void stk__beside_refuse(stk__shard *shard, const stk__brought *beside, const char *why)
{
    if (atomic_exchange(shard->told, true))
        return;
    stk__message(stk__shard_context(shard), STK_MESSAGE_WARNING,
                 "%s: %.200s %s, and the shard is read in its place; make it again, or remove it. "
                 "Further ones of this kind are not named",
                 shard->set->format->ops->name, beside->key, why);
}

static bool is_older(const stk__shard *shard, const stk_object_info *info)
{
    const int64_t written = shard->set->table.shards[shard->number].mtime_ns;

    return info->mtime_ns && written && info->mtime_ns < written;
}

stk_status stk__beside_load(stk__shard *shard, size_t length, uint64_t most,
                            const stk__records_options *options, stk__brought *out, stk_error *err)
{
    stk_context *ctx = stk__shard_context(shard);
    stk_object_info info = {.struct_size = sizeof info};

    *out = (stk__brought){.context = ctx};
    if (strcmp(options->index, "none") == 0)
        return STK_OK;
    out->key = stk__format(ctx, "%.*s" STK__BESIDE_ENDING, (int)length, stk__shard_key(shard));
    if (!out->key)
        return stk__shard_fail(shard, STK_ENOMEM, 0, err, "no memory for the name of its list");
    if (stk_store_stat(stk__shard_store(shard), out->key, NULL, &info, NULL) != STK_OK ||
        info.is_folder || !info.size || info.size > most || info.size > stk__memory_left(ctx) / 4)
        return STK_OK;
    if (is_older(shard, &info)) {
        stk__beside_refuse(shard, out, "is older than its shard");
        return STK_OK;
    }
    char *text = stk__alloc(ctx, info.size);
    if (text &&
        stk_store_read(stk__shard_store(shard), out->key, 0, info.size, text, NULL) != STK_OK) {
        stk__free(ctx, text);
        text = NULL;
    }
    out->text = text;
    out->length = info.size;
    return STK_OK;
}

void stk__beside_release(stk__brought *beside)
{
    stk__free(beside->context, beside->text);
    stk__free(beside->context, beside->key);
    *beside = (stk__brought){.context = beside->context};
}
