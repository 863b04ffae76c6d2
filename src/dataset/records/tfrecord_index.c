/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/records/beside.h"
#include "dataset/records/tfrecord.h"

#define LINE_MOST 64u /* bytes of a line with its end: two numbers of 20 digits */

/* "offset size", ended by the end of the line or of the text. */
static bool take_line(const char **at, const char *end, uint64_t *offset, uint64_t *size)
{
    if (!stk__beside_number(at, end, offset) || *at == end || *(*at)++ != ' ' ||
        !stk__beside_number(at, end, size))
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

/* The records of the list whose name begins with `length` bytes of the shard's. */
static stk_status take_list(stk__shard *shard, size_t length, const stk__records_options *options,
                            bool *listed, stk_error *err)
{
    const uint64_t most = stk__shard_size(shard) / STK__TFRECORD_FRAME * LINE_MOST;
    stk__brought list;

    stk_status status = stk__beside_load(shard, length, most, options, &list, err);
    if (list.text) {
        *listed = is_of_shard(shard, list.text, list.text + list.length);
        if (*listed)
            status = add_records(shard, list.text, list.text + list.length, err);
        else
            stk__beside_refuse(shard, &list, "does not name the records of its shard");
    }
    stk__beside_release(&list);
    return status;
}

stk_status stk__tfrecord_list(stk__shard *shard, const stk__records_options *options, bool *listed,
                              stk_error *err)
{
    const char *key = stk__shard_key(shard), *slash = strrchr(key, '/');
    const char *name = slash ? slash + 1 : key, *dot = strrchr(name, '.');
    /* Of train.tfrecord-00000-of-00128 it would be one for all shards. */
    const bool ends = dot && dot > name && strncmp(dot, ".tfrec", 6) == 0 && !strchr(dot, '-');

    *listed = false;
    STK_TRY(take_list(shard, strlen(key), options, listed, err));
    if (*listed || !ends)
        return STK_OK;
    return take_list(shard, (size_t)(dot - key), options, listed, err);
}
