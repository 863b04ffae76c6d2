/* SPDX-License-Identifier: Apache-2.0 */
/* parquet: columns of Parquet files [apache/parquet-format 2.12]. */
#include <stddef.h>

#include "dataset/object.h"
#include "dataset/table/parquet.h"

#define MAGIC "PAR1"

typedef struct parquet_options {
    stk__table_options table;
} parquet_options;

static const stk_option option_list[] = {STK__TABLE_OPTIONS};

static const stk_option_table parquet_table = {"parquet", "Columns of Parquet files.",
                                               sizeof(parquet_options), option_list,
                                               STK_COUNT(option_list)};

static const char *const suffixes[] = {".parquet", ".parq", ".pq", NULL};

static stk_status decode(const stk__table *table, const stk__table_column *column,
                         const stk__table_piece *piece, const void *data, void *out,
                         const char **reason)
{
    const stk__parquet_leaf leaf = stk__parquet_leaf_get(piece->own);
    stk__parquet_room room = {.ctx = ((const stk_dataset *)table)->context};

    (void)column;
    stk_status status = stk__codec_state_create(room.ctx, &room.codecs, NULL);
    if (status == STK_OK)
        status = stk__parquet_decode(&room, &leaf, piece, data, out, reason);
    else
        *reason = "no memory to decode a page; use fewer workers";
    stk__parquet_room_release(&room);
    stk__codec_state_destroy(&room.codecs);
    return status;
}

static const stk__table_format format = {
    .ops = &stk__dataset_parquet,
    .suffixes = suffixes,
    .scan = stk__parquet_scan_file,
    .decode = decode,
};

static stk_status parquet_open(stk_context *ctx, const char *url, const void *options,
                               stk_dataset **out, stk_error *err)
{
    return stk__table_open(ctx, url, &format, options, out, err);
}

static int recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "", magic[sizeof MAGIC - 1];
    stk_store *store = NULL;
    stk__object file;
    bool found = false;
    int sure = 0;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    if (status == STK_OK && key[0]) {
        status = stk__object_find(store, key, &file, &found, NULL);
        found = status == STK_OK && found && file.size > 2 * sizeof magic;
        if (found)
            status = stk_store_read(store, key, 0, sizeof magic, magic, NULL);
        sure = found && status == STK_OK && !memcmp(magic, MAGIC, sizeof magic) ? 2 : 0;
    }
    stk_store_close(&store);
    return sure ? sure : stk__dataset_unsure(status);
}

const stk_dataset_ops stk__dataset_parquet = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "parquet",
    .doc = "Columns of Parquet files, read in any order: a file, or a folder of them.",
    .options = &parquet_table,
    .open = parquet_open,
    .recognise = recognise,
    .close = stk__table_close,
    .locate = stk__table_locate,
    .object = stk__table_object,
    .decode = stk__table_decode,
    .prepare = stk__table_prepare,
    .describe = stk__table_describe,
};
