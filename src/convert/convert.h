/* dataset in one form -> the same data in another */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_CONVERT_H
#define STK_SRC_CONVERT_CONVERT_H

#include <stoker/convert.h>

#include "base/base.h"

/* The built-in converters; to add one: a file src/convert/NAME.c with such a table, its declaration
 * here, and a row in the table of src/stoker.c. */
extern const stk_converter_ops stk__convert_netcdf4, stk__convert_kerchunk;
extern const stk_converter_ops stk__convert_images, stk__convert_idx, stk__convert_zarr,
    stk__convert_zarr2, stk__convert_packed, stk__convert_squashfs, stk__convert_webdataset,
    stk__convert_tfrecord, stk__convert_parquet, stk__convert_arrow, stk__convert_csv,
    stk__convert_tsv, stk__convert_jsonl, stk__convert_unpack;
extern const stk_option_table stk__convert_option_table, stk__convert_images_option_table,
    stk__convert_arrays_option_table, stk__convert_packed_option_table,
    stk__convert_squashfs_option_table, stk__convert_shards_option_table, stk__survey_option_table;
/* Whether an outsider's table of a converter is whole. */
stk_status stk__converter_kind_check(const void *table, stk_error *err);

/* `ignores` of converters that write in one go: all common options but overwrite. */
extern const char *const stk__convert_heeds_overwrite[];

/* `canceled` of a call to a store whose `user` is a stk_conversion_job. */
bool stk__convert_canceled(void *job);
/* Threads that convert: `num_workers`, of which `auto` is all usable cores, as nothing else
 * computes meanwhile. */
uint32_t stk__convert_workers(stk_context *ctx, const stk_convert_options *options);

/* The last name of a path of nodes, or a key. */
static inline const char *stk__convert_last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Bytes that a conversion may hold: the option memory_budget, or what is usual where that is 0. */
uint64_t stk__convert_budget(stk_context *ctx, const stk_convert_options *options);

/* A field of a dataset by name; NULL when there is none. */
const stk_field *stk__convert_field(const stk_dataset *dataset, const char *name);
/* Whether one of its fields is a mask. */
bool stk__convert_has_masks(const stk_dataset *dataset);

#endif
