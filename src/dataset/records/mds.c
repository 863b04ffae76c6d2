/* SPDX-License-Identifier: Apache-2.0 */
/* mds: samples in shards of Mosaic's streaming (MDS), read where they lie. */
#include "dataset/records/mds.h"

#define FORMAT_VERSION 1u

typedef struct mds_options {
    stk__tabled_options tabled;
} mds_options;

static const stk_option option_list[] = {STK__TABLED_OPTIONS};

static const stk_option_table mds_table = {"mds", "Samples in shards of MDS.", sizeof(mds_options),
                                           option_list, STK_COUNT(option_list)};

static stk_status list(stk__records *set, const char *url, const void *options, stk_error *err)
{
    return stk__tabled_list(set, url, options, stk__mds_index_parse, err);
}

static const stk__record_format format = {
    .ops = &stk__dataset_mds,
    .suffix = ".mds",
    .version = FORMAT_VERSION,
    .list = list,
    .scan = stk__tabled_scan,
    .open = stk__tabled_fields,
    .close = stk__tabled_close,
    .bound = stk__tabled_bound,
    .describe = stk__tabled_describe,
};

static stk_status mds_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    return stk__records_open(ctx, url, &format, options, out, err);
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
