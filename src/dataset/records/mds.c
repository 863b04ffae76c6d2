/* SPDX-License-Identifier: Apache-2.0 */
/* mds: samples in shards of Mosaic's streaming (MDS), read where they lie. */
#include "dataset/records/mds.h"

#define FORMAT_VERSION  1u
#define CHECKED_VERSION 2u /* of an index of shards whose hashes were right */

typedef enum mds_hashes { HASHES_NONE, HASHES_CHECK } mds_hashes;

typedef struct mds_options {
    stk__tabled_options tabled;
    int32_t hashes; /* mds_hashes */
} mds_options;

static const stk_option option_list[] = {
    STK__TABLED_OPTIONS,
    {.name = "hashes",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(mds_options, hashes),
     .initial = "none",
     .choices = "none|check",
     .doc = "check: read each shard whole when it is opened, and refuse one that does not have the "
            "hash which index.json says (" STK__SHARD_HASHES
            "). With index=auto once, as long as it does not change."},
};

static const stk_option_table mds_table = {"mds", "Samples in shards of MDS.", sizeof(mds_options),
                                           option_list, STK_COUNT(option_list)};

/* All shards have a hash that is known. */
static stk_status check_hashed(stk__tabled *t, stk_error *err)
{
    t->hashed = true;
    for (size_t i = 0; i < t->num_shards; i++)
        if (t->shards[i].hash == STK__HASH_NONE)
            return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, t->shards[i].name,
                                STK_NO_OFFSET,
                                "mds: %s has no hash of '%.200s' to check%s%s; known are %s: leave "
                                "hashes=check out",
                                STK__TABLED_INDEX, t->shards[i].name,
                                *t->unknown ? ", but for " : "", t->unknown, STK__SHARD_HASHES);
    return STK_OK;
}

static stk_status list(stk__records *set, const char *url, const void *options, stk_error *err)
{
    const mds_options *o = options;

    STK_TRY(stk__tabled_list(set, url, options, stk__mds_index_parse, err));
    return o->hashes == HASHES_CHECK ? check_hashed(set->state, err) : STK_OK;
}

static stk_status scan(stk__shard *shard, const void *options, stk_error *err)
{
    const mds_options *o = options;
    const stk__tabled *t = stk__shard_state(shard);
    const stk__tabled_shard *s = &t->shards[stk__shard_number(shard)];

    STK_TRY(stk__tabled_scan(shard, options, err));
    return o->hashes == HASHES_CHECK ? stk__shard_hash_check(shard, s->hash, s->told, err) : STK_OK;
}

#define FORMAT(number)                                                                             \
    {                                                                                              \
        .ops = &stk__dataset_mds, .suffix = ".mds", .version = (number), .list = list,             \
        .scan = scan, .open = stk__tabled_fields, .close = stk__tabled_close,                      \
        .bound = stk__tabled_bound, .describe = stk__tabled_describe                               \
    }

/* Their kept indexes are two: one does not say that hashes were right. */
static const stk__record_format format = FORMAT(FORMAT_VERSION), checked = FORMAT(CHECKED_VERSION);

static stk_status mds_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    const mds_options *o = options;

    return stk__records_open(ctx, url, o->hashes == HASHES_CHECK ? &checked : &format, options, out,
                             err);
}

static int recognise(stk_context *ctx, const char *url)
{
    return stk__tabled_recognise(ctx, url, "\"shards\"", "\"mds\"");
}

const stk_dataset_ops stk__dataset_mds = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "mds",
    .doc = "Samples in shards of Mosaic's streaming (MDS), read in any order: the folder of "
           "index.json.",
    .options = &mds_table,
    .open = mds_open,
    .recognise = recognise,
    .close = stk__records_close,
    .locate = stk__records_locate,
    .object = stk__records_object,
    .prepare = stk__tabled_prepare,
    .describe = stk__records_describe,
};
