/* SPDX-License-Identifier: Apache-2.0 */
/* parquet: columns of Parquet files [apache/parquet-format 2.12]. */
#include <stddef.h>
#include <stdio.h>

#include "dataset/object.h"
#include "dataset/recognise.h"
#include "dataset/table/formats.h"
#include "dataset/table/inside.h"
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

static void worker_close(const stk__table *table, void *worker)
{
    stk__parquet_room *room = worker;

    stk__parquet_room_release(room);
    stk__codec_state_destroy(&room->codecs);
    stk__free(table->base.context, room);
}

static stk_status worker_open(const stk__table *table, void **worker)
{
    stk__parquet_room *room = stk__calloc(table->base.context, 1, sizeof *room);

    *worker = NULL;
    if (!room)
        return STK_ENOMEM;
    room->ctx = table->base.context;
    const stk_status status = stk__codec_state_create(room->ctx, &room->codecs, NULL);
    if (status == STK_OK)
        *worker = room;
    else
        worker_close(table, room);
    return status;
}

static stk_status decode(const stk__table *table, const stk__table_column *column,
                         const stk__table_piece *piece, const void *data, void *out, void *worker,
                         const char **reason)
{
    const stk__parquet_leaf leaf = stk__parquet_leaf_get(piece->own);
    void *own = NULL;

    (void)column;
    if (!worker && worker_open(table, &own) != STK_OK) {
        *reason = "no memory to decode a page; use fewer workers";
        return STK_ENOMEM;
    }
    stk__parquet_room *room = worker ? worker : own;
    const stk_status status = stk__parquet_decode(room, &leaf, piece, data, out, reason);
    if (own)
        worker_close(table, own);
    else if (stk__parquet_room_held(room) > table->base.worker_bytes - table->scratch)
        stk__parquet_room_release(room);
    return status;
}

/* ---- Description ---- */

/* Of the files' pieces: by column, what one row costs, and what the writer could do. */
typedef struct cost {
    uint64_t pieces, stored, decoded; /* sums over the pieces of a column */
    uint64_t rows, dictionary;        /* bytes of dictionaries */
    uint32_t codecs;                  /* bits */
    bool whole;
} cost;

static void add_piece(cost *c, const stk__table_kept *k, const stk__table_piece *p)
{
    const stk__parquet_leaf leaf = stk__parquet_leaf_get(p->own);

    if (p->kind == STK__PIECE_WHOLE || p->kind == STK__PIECE_SHEET)
        return;
    c->codecs |= UINT32_C(1) << leaf.codec;
    if (leaf.form == STK__PARQUET_DICTIONARY)
        return;
    /* A row is in its piece as surely as the piece has rows. */
    c->pieces++;
    c->rows += p->rows;
    c->stored += p->length * p->rows;
    c->decoded += p->decoded * p->rows;
    c->whole |= leaf.form == STK__PARQUET_CHUNK;
    if (p->dictionary != STK__TABLE_NO_PIECE)
        c->dictionary += k->pieces[p->dictionary].length * p->rows;
}

static void write_codecs(uint32_t bits, char *out, size_t size)
{
    size_t used = 0;

    *out = '\0';
    for (uint32_t i = 0; i < STK__PARQUET_CODECS && used + 16 < size; i++)
        if (bits >> i & 1)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "+" : "",
                                     stk__parquet_codec_name(i));
}

static const char *advice(const cost *c, uint64_t page)
{
    if (c->whole)
        return "; write_page_index=True would make pages of it readable";
    if (page > (UINT64_C(256) << 10))
        return "; data_page_size=65536 would make a row cheaper";
    return c->dictionary / STK_MAX(c->rows, 1) > (UINT64_C(256) << 10)
               ? "; use_dictionary=False would spare the dictionary"
               : "";
}

static cost cost_of(const stk__table *t, const char *name)
{
    cost c = {0};

    for (size_t f = 0; f < t->num_files; f++) {
        const stk__table_kept *k = &t->files[f];
        for (size_t i = 0; i < k->num_pieces; i++)
            if (!strcmp(k->layout->columns[k->pieces[i].column].name, name))
                add_piece(&c, k, &k->pieces[i]);
    }
    return c;
}

static stk_status describe(const stk__table *t,
                           void (*line)(void *user, const char *name, const char *value),
                           void *user, stk_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < t->num_reads; i++) {
        const char *name = t->reads[i].column.name;
        const cost c = cost_of(t, name);
        const uint64_t rows = STK_MAX(c.rows, 1), page = c.stored / rows;
        char what[160], codecs[96], text[400];
        write_codecs(c.codecs, codecs, sizeof codecs);
        snprintf(what, sizeof what, "a row of %.100s", name);
        snprintf(text, sizeof text,
                 "%llu bytes read and %llu decoded, with a dictionary of %llu; %llu pages, %s%s",
                 (unsigned long long)page, (unsigned long long)(c.decoded / rows),
                 (unsigned long long)(c.dictionary / rows), (unsigned long long)c.pieces, codecs,
                 advice(&c, page));
        line(user, what, text);
    }
    return STK_OK;
}

const stk__table_format stk__table_parquet = {
    .ops = &stk__dataset_parquet,
    .suffixes = suffixes,
    .scan = stk__parquet_scan_file,
    .decode = decode,
    .reasons = stk__parquet_reasons,
    .num_reasons = STK__PARQUET_REASONS,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .describe = describe,
    .group = "row group",
    .piece = "page",
};

static stk_status parquet_open(stk_context *ctx, const char *url, const void *options,
                               stk_dataset **out, stk_error *err)
{
    return stk__table_open(ctx, url, &stk__table_parquet, options, out, err);
}

static bool is_parquet(const char *key, size_t length)
{
    (void)length;
    return stk__table_recognise(&stk__table_parquet, key);
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
        found = status == STK_OK && found;
        /* One that is only called so is none that can be read, which opening it tells. */
        sure = found && stk__table_recognise(&stk__table_parquet, key) ? 1 : 0;
        found = found && file.size > 2 * sizeof magic;
        if (found)
            status = stk_store_read(store, key, 0, sizeof magic, magic, NULL);
        if (found && status == STK_OK && !memcmp(magic, MAGIC, sizeof magic))
            sure = 2;
    } else if (status == STK_OK) {
        sure = stk__folder_recognise(store, is_parquet);
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
    .worker_open = stk__table_worker_open,
    .worker_close = stk__table_worker_close,
    .prepare = stk__table_prepare,
    .prepare_rows = stk__table_prepare_rows,
    .describe = stk__table_describe,
};
