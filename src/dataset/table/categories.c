/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of text as numbers of names: `categories=color,size:small|large`. Names are given, or
 * learnt from all rows of all files when the dataset is opened, and then in the order of their
 * bytes: which rows `where` takes does not change them.
 */
#include <inttypes.h>

#include "dataset/table/listed.h"
#include "dataset/table/pieces.h"

#define SHOWN 60 /* bytes of a name in a message */

/* ---- What is asked for ----------------------------------------------------------------------- */

static stk_status wrong(const stk__table *t, const char *text, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "categories", STK_NO_OFFSET,
                        "%s: categories=%.150s: %s", stk__table_name(t), text, what);
}

/* "a|b|c" in this order. */
static stk_status take_given(stk__table *t, stk__names *names, const char *at, size_t length,
                             const char *text, stk_error *err)
{
    const char *end = at + length;
    uint32_t number;

    for (;; at++) {
        const char *stop = memchr(at, '|', (size_t)(end - at));
        const size_t part = (size_t)((stop ? stop : end) - at);
        const uint32_t before = names->count;
        const stk_status status = stk__names_add(names, at, part, &number);
        if (status == STK_ENOMEM)
            return stk__table_no_memory(t, err);
        if (status != STK_OK || !part || names->count == before)
            return wrong(t, text, "a name is empty or given twice; write COLUMN:NAME|NAME|...",
                         err);
        at += part;
        if (at == end)
            return stk__names_list(names) == STK_OK ? STK_OK : stk__table_no_memory(t, err);
    }
}

static stk__table_read *read_of(stk__table *t, const char *name, size_t length)
{
    for (uint32_t i = 0; i < t->num_reads; i++)
        if (strlen(t->reads[i].column.name) == length &&
            memcmp(t->reads[i].column.name, name, length) == 0)
            return &t->reads[i];
    return NULL;
}

/* One of the names of folders. */
static stk__table_key *key_of(stk__table *t, const char *name, size_t length)
{
    for (uint32_t k = 0; k < t->num_keys; k++)
        if (strlen(t->keys[k].column.name) == length &&
            memcmp(t->keys[k].column.name, name, length) == 0)
            return &t->keys[k];
    return NULL;
}

/* One column, "color" or "size:small|large"; *at is behind it then. */
static stk_status take_column(stk__table *t, const char **at, const char *text, stk_error *err)
{
    const char *name;
    size_t length;

    if (!stk__table_take_name(at, ":,", &name, &length))
        return wrong(t, text, "a name in backticks ends with one, before ':' or ','", err);
    stk__table_read *r = read_of(t, name, length);
    stk__table_key *key = r ? NULL : key_of(t, name, length);
    stk__names **names = r ? &r->names : key ? &key->names : NULL;

    if (!names)
        return wrong(t, text, "a column of this name is not read; name those that are", err);
    if ((r ? r->column.kind : key->column.kind) != STK__COLUMN_BYTES || *names)
        return wrong(t, text, "a column is no text, or named twice", err);
    *names = stk__calloc(t->base.context, 1, sizeof **names);
    if (!*names)
        return stk__table_no_memory(t, err);
    (*names)->context = t->base.context;
    if (**at != ':')
        return STK_OK;
    const char *given = *at + 1;
    *at += strcspn(*at, ",");
    return take_given(t, *names, given, (size_t)(*at - given), text, err);
}

/* ---- What is there --------------------------------------------------------------------------- */

/* A piece of the column, and which of its codes were met. */
typedef struct piece {
    void *data, *dictionary;
    uint8_t *met;
    uint64_t codes;
    uint32_t number; /* of the dictionary */
} piece;

static void drop(const stk__table *t, piece *p, bool all)
{
    stk_context *ctx = t->base.context;

    stk__free(ctx, p->data);
    p->data = NULL;
    if (!all)
        return;
    stk__free(ctx, p->dictionary);
    stk__free(ctx, p->met);
    *p = (piece){.number = STK__TABLE_NO_PIECE};
}

static stk_status load(const stk__table *t, const stk__table_kept *k, uint32_t number, piece *p,
                       stk_error *err)
{
    const stk__table_piece *of = &k->pieces[number];

    drop(t, p, of->dictionary == STK__TABLE_NO_PIECE || of->dictionary != p->number);
    STK_TRY(stk__table_load(t, k, number, &p->data, err));
    if (of->dictionary == STK__TABLE_NO_PIECE || of->dictionary == p->number)
        return STK_OK;
    STK_TRY(stk__table_load(t, k, of->dictionary, &p->dictionary, err));
    p->codes = ((const stk__table_vector *)p->dictionary)->rows;
    p->met = stk__calloc(t->base.context, STK_MAX(p->codes, 1), 1);
    p->number = of->dictionary;
    return p->met ? STK_OK : stk__table_no_memory(t, err);
}

/* A code that was met before is no new name. */
static bool is_met(const piece *p, const stk__table_cells *cells, uint64_t row)
{
    const stk__table_vector *v = cells->vector;

    if (!v->codes || (v->nulls && ((const uint8_t *)cells->base + v->nulls)[row]))
        return false;
    const uint32_t code = ((const uint32_t *)(const void *)(cells->base + v->values))[row];
    if (code >= p->codes || p->met[code])
        return code < p->codes;
    p->met[code] = 1;
    return false;
}

static stk_status learn_piece(const stk__table *t, const stk__table_read *r,
                              const stk__table_kept *k, const stk__table_piece *of, uint32_t column,
                              const piece *p, stk_error *err)
{
    const stk__table_cells cells = {.base = p->data,
                                    .vector =
                                        (const stk__table_vector *)p->data + (column - of->column),
                                    .dictionary = p->dictionary};
    const void *data;
    uint64_t size;
    uint32_t number;

    for (uint64_t row = 0; row < of->rows; row++) {
        if (is_met(p, &cells, row) || stk__table_cell(&cells, &r->column, row, &data, &size))
            continue;
        const stk_status status = stk__names_add(r->names, data, size, &number);
        if (status == STK_ENOMEM)
            return stk__table_no_memory(t, err);
        if (status != STK_OK)
            return stk__fail_at(err, status, STK_STAGE_DATASET, t->text + k->key, of->offset,
                                "%s: %.150s: the column '%.60s' has %s; it is none of categories",
                                stk__table_name(t), t->text + k->key, r->column.name,
                                status == STK_ELIMIT ? "more than 2^24 texts"
                                                     : "a text with a zero byte");
    }
    return STK_OK;
}

static stk_status learn_file(const stk__table *t, uint32_t read, const stk__table_kept *k,
                             stk_error *err)
{
    const uint32_t column = k->layout->column_of[read], chain = k->layout->chain_of[column];
    piece p = {.number = STK__TABLE_NO_PIECE};
    stk_status status = STK_OK;

    for (uint64_t row = 0; status == STK_OK && row < k->rows;) {
        const uint32_t number = stk__table_piece_at(k, chain, row);
        const stk__table_piece *of = &k->pieces[number];
        status = load(t, k, number, &p, err);
        if (status == STK_OK)
            status = learn_piece(t, &t->reads[read], k, of, column, &p, err);
        row = of->first_row + of->rows;
    }
    drop(t, &p, true);
    return status;
}

static stk_status learn(const stk__table *t, uint32_t read, stk_error *err)
{
    stk__table_read *r = &t->reads[read];

    for (size_t f = 0; f < t->num_files; f++)
        STK_TRY(learn_file(t, read, &t->files[f], err));
    return stk__names_sort(r->names, NULL) == STK_OK ? STK_OK : stk__table_no_memory(t, err);
}

/* The texts of folders, also of files that were left out. */
static stk_status learn_key(stk__table *t, const stk__table_key *key, stk_error *err)
{
    uint32_t number;

    for (uint32_t i = 0; i < key->num_met; i++) {
        const char *value = t->key_values.list[i];
        if (key->met[i] && stk__names_add(key->names, value, strlen(value), &number) != STK_OK)
            return stk__table_no_memory(t, err);
    }
    return stk__names_sort(key->names, NULL) == STK_OK ? STK_OK : stk__table_no_memory(t, err);
}

stk_status stk__table_categories(stk__table *t, const char *text, stk_error *err)
{
    for (const char *at = text; at; at++) {
        STK_TRY(take_column(t, &at, text, err));
        if (!*at)
            break;
    }
    for (uint32_t i = 0; i < t->num_reads; i++)
        if (t->reads[i].names && !t->reads[i].names->list)
            STK_TRY(learn(t, i, err));
    for (uint32_t k = 0; k < t->num_keys; k++) {
        stk__table_key *key = &t->keys[k];
        if (key->names && !key->names->list)
            STK_TRY(learn_key(t, key, err));
        if (key->names)
            STK_TRY(stk__table_key_number(t, key, err));
    }
    return STK_OK;
}
