/* SPDX-License-Identifier: Apache-2.0 */
/* litdata: samples in chunks of litdata, read where they lie. */
#include "dataset/records/litdata.h"

#define FORMAT_VERSION 1u
#define MOST_BLOCK     (1u << 30)

static const stk_option option_list[] = {
    STK__TABLED_OPTIONS,
    {.name = "block_size",
     .type = STK_OPTION_UINT,
     .offset = offsetof(stk__litdata_options, block_size),
     .initial = "0",
     .max = MOST_BLOCK,
     .metavar = "N",
     .doc = "Of chunks of tokens: a sample is so many of them, whatever the items were; 0: a "
            "sample is an item."}};

static const stk_option_table litdata_table = {"litdata", "Samples in chunks of litdata.",
                                               sizeof(stk__litdata_options), option_list,
                                               STK_COUNT(option_list)};

static stk_status list(stk__records *set, const char *url, const void *options, stk_error *err)
{
    return stk__tabled_list(set, url, options, stk__litdata_index_parse, err);
}

static const stk__record_format format = {
    .ops = &stk__dataset_litdata,
    .suffix = ".bin",
    .version = FORMAT_VERSION,
    .list = list,
    .scan = stk__tabled_scan,
    .open = stk__tabled_fields,
    .close = stk__tabled_close,
    .bound = stk__tabled_bound,
    .describe = stk__tabled_describe,
};

/* Where blocks lie depends on block_size: no index of them is kept. */
static stk_status litdata_open(stk_context *ctx, const char *url, const void *options,
                               stk_dataset **out, stk_error *err)
{
    stk__litdata_options o = *(const stk__litdata_options *)options;

    if (o.block_size)
        o.tabled.common.index = "none";
    return stk__records_open(ctx, url, &format, &o, out, err);
}

static int recognise(stk_context *ctx, const char *url)
{
    return stk__tabled_recognise(ctx, url, "\"chunks\"", "\"chunk_size\"");
}

const stk_dataset_ops stk__dataset_litdata = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "litdata",
    .doc = "Samples in chunks of litdata, read in any order: the folder of index.json.",
    .options = &litdata_table,
    .open = litdata_open,
    .recognise = recognise,
    .close = stk__records_close,
    .locate = stk__records_locate,
    .object = stk__records_object,
    .prepare = stk__tabled_prepare,
    .describe = stk__records_describe,
};
