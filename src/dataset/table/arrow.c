/* SPDX-License-Identifier: Apache-2.0 */
/* arrow: files and streams of Arrow IPC, and Feather V2, which is such a file. */
#include "dataset/table/arrow.h"

#include "dataset/recognise.h"
#include "dataset/table/formats.h"

typedef struct arrow_options {
    stk__table_options table;
} arrow_options;

static const stk_option option_list[] = {STK__TABLE_OPTIONS};
static const stk_option_table arrow_table = {"arrow", "Rows of Arrow IPC and Feather V2.",
                                             sizeof(arrow_options), option_list,
                                             STK_COUNT(option_list)};
static const char *const suffixes[] = {".arrow", ".feather", ".ipc", ".arrows", NULL};

static stk_status arrow_open(stk_context *ctx, const char *url, const void *options,
                             stk_dataset **out, stk_error *err);

static bool is_arrow(const char *key, size_t length)
{
    (void)length;
    return stk__table_recognise(&stk__table_arrow, key);
}

/* By its first bytes; a stream, which has none of its own, by its name. */
static int arrow_recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "", head[STK__ARROW_MAGIC_BYTES];
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    int sure = 0;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    if (status == STK_OK && !key[0])
        sure = stk__folder_recognise(store, is_arrow);
    else if (status == STK_OK)
        status = stk_store_stat(store, key, NULL, &info, NULL);
    if (status == STK_OK && !info.is_folder && info.size >= sizeof head) {
        status = stk_store_read(store, key, 0, sizeof head, head, NULL);
        if (status == STK_OK && memcmp(head, STK__ARROW_MAGIC, sizeof head) == 0)
            sure = 2;
        else if (status == STK_OK && stk__table_recognise(&stk__table_arrow, key))
            sure = stk__ends_with(key, strlen(key), ".arrows") ? 2 : 1;
    }
    stk_store_close(&store);
    return sure ? sure : stk__dataset_unsure(status);
}

const stk_dataset_ops stk__dataset_arrow = {
    .struct_size = sizeof stk__dataset_arrow,
    .name = "arrow",
    .doc = "Rows of Arrow IPC files and streams, and of Feather V2.",
    .options = &arrow_table,
    .open = arrow_open,
    .recognise = arrow_recognise,
    .close = stk__table_close,
    .locate = stk__table_locate,
    .object = stk__table_object,
    .worker_open = stk__table_worker_open,
    .worker_close = stk__table_worker_close,
    .prepare = stk__table_prepare,
    .prepare_rows = stk__table_prepare_rows,
    .describe = stk__table_describe,
    .decode = stk__table_decode,
};

static stk_status worker_open(const stk__table *table, void **worker)
{
    stk__codec_state *state = NULL;
    const stk_status status =
        stk__codec_state_create(((const stk_dataset *)(const void *)table)->context, &state, NULL);

    *worker = state;
    return status;
}

static void worker_close(const stk__table *table, void *worker)
{
    stk__codec_state *state = worker;

    (void)table;
    stk__codec_state_destroy(&state);
}

const stk__table_format stk__table_arrow = {
    .ops = &stk__dataset_arrow,
    .suffixes = suffixes,
    .scan = stk__arrow_scan_file,
    .decode = stk__arrow_decode,
    .group = "record batch",
    .worker_open = worker_open,
    .worker_close = worker_close,
};

static stk_status arrow_open(stk_context *ctx, const char *url, const void *options,
                             stk_dataset **out, stk_error *err)
{
    return stk__table_open(ctx, url, &stk__table_arrow, options, out, err);
}
