/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "dataset/records/tfrecord.h"

#define ENDING    ".idx"
#define LINE_MOST 64u /* bytes of a line with its end: two numbers of 20 digits */

/* A number of at most 19 digits. */
static bool take_number(const char **at, const char *end, uint64_t *out)
{
    const char *begin = *at;

    for (*out = 0; *at < end && **at >= '0' && **at <= '9' && *at - begin < 19; ++*at)
        *out = *out * 10 + (uint64_t)(**at - '0');
    return *at > begin;
}

/* "offset size", ended by the end of the line or of the text. */
static bool take_line(const char **at, const char *end, uint64_t *offset, uint64_t *size)
{
    if (!take_number(at, end, offset) || *at == end || *(*at)++ != ' ' ||
        !take_number(at, end, size))
        return false;
    if (*at < end && **at == '\r')
        ++*at;
    return *at == end || *(*at)++ == '\n';
}

/* Whether the lines name the shard's bytes, all of them, one record after the other. */
static bool is_of_shard(const stk__shard *shard, const char *at, const char *end)
{
    uint64_t offset, size, all = 0;

    while (at < end) {
        if (!take_line(&at, end, &offset, &size) || offset != all || size < STK__TFRECORD_FRAME ||
            size - STK__TFRECORD_FRAME > STK__TFRECORD_MOST || size > stk__shard_size(shard) - all)
            return false;
        all += size;
    }
    return all == stk__shard_size(shard);
}

static stk_status add_records(stk__shard *shard, const char *at, const char *end, stk_error *err)
{
    uint64_t offset, size;

    while (at < end && take_line(&at, end, &offset, &size)) {
        STK_TRY(stk__shard_record(shard, err));
        STK_TRY(stk__shard_part(shard, STK__TFRECORD_KIND, offset, size, err));
    }
    return STK_OK;
}

/* All of the list, in new memory; NULL: there is none that is worth reading. */
static char *load(stk__shard *shard, const char *key, uint64_t *length)
{
    stk_context *ctx = stk__shard_context(shard);
    stk_store *store = stk__shard_store(shard);
    stk_object_info info = {.struct_size = sizeof info};
    const uint64_t most = stk__shard_size(shard) / STK__TFRECORD_FRAME * LINE_MOST;
    stk_error ignored;

    if (stk_store_stat(store, key, NULL, &info, &ignored) != STK_OK || info.is_folder ||
        !info.size || info.size > most || info.size > stk__memory_left(ctx) / 4)
        return NULL;
    char *text = stk__alloc(ctx, info.size);
    if (text && stk_store_read(store, key, 0, info.size, text, &ignored) != STK_OK) {
        stk__free(ctx, text);
        return NULL;
    }
    *length = info.size;
    return text;
}

stk_status stk__tfrecord_list(stk__shard *shard, bool *listed, stk_error *err)
{
    stk_context *ctx = stk__shard_context(shard);
    stk_status status = STK_OK;
    uint64_t length = 0;

    *listed = false;
    char *key = stk__format(ctx, "%s" ENDING, stk__shard_key(shard));
    if (!key)
        return stk__shard_fail(shard, STK_ENOMEM, 0, err, "no memory for the name of its list");
    char *text = load(shard, key, &length);
    if (text) {
        *listed = is_of_shard(shard, text, text + length);
        if (*listed)
            status = add_records(shard, text, text + length, err);
        else
            stk__message(
                ctx, STK_MESSAGE_WARNING,
                "tfrecord: %.200s does not name the records of its shard, which is read in "
                "its place; make it again, or remove it",
                key);
    }
    stk__free(ctx, text);
    stk__free(ctx, key);
    return status;
}
