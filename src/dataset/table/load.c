/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces decoded, and the cells of their vectors. */
#include "dataset/table/pieces.h"

/* Whether `count * size` bytes from `at` on lie within `decoded`, on a multiple of 8. */
static bool lies_within(uint64_t at, uint64_t count, uint64_t size, uint64_t decoded)
{
    uint64_t bytes;

    return at % 8 == 0 && stk__mul_size(count, size, &bytes) && at <= decoded &&
           bytes <= decoded - at;
}

static uint64_t item_size(const stk__table_vector *v, const stk__table_column *c)
{
    return v->codes ? sizeof(uint32_t) : stk_dtype_size(c->dtype);
}

/* What a vector points to is there. */
static bool is_sound(const void *base, const stk__table_vector *v, const stk__table_column *c,
                     const stk__table_piece *p)
{
    uint64_t count = (uint64_t)p->rows * (v->codes ? 1 : c->width);

    if (v->rows != p->rows || (v->nulls && !lies_within(v->nulls, p->rows, 1, p->decoded)) ||
        (v->lines && !lies_within(v->lines, p->rows, sizeof(uint32_t), p->decoded)) ||
        (v->codes && p->dictionary == STK__TABLE_NO_PIECE))
        return false;
    if (c->kind == STK__COLUMN_VALUES && v->apart)
        return false;
    const bool list = c->kind == STK__COLUMN_LIST && p->kind != STK__PIECE_DICTIONARY;
    if (list || (c->kind == STK__COLUMN_BYTES && !v->codes)) {
        if (!lies_within(v->offsets, (uint64_t)p->rows + 1, sizeof(uint32_t), p->decoded))
            return false;
        const uint32_t *offsets = (const void *)((const char *)base + v->offsets);
        uint32_t last = 0;
        for (uint32_t i = 0; i <= p->rows; i++) {
            if (offsets[i] < last)
                return false;
            last = offsets[i];
        }
        count = last;
    }
    return lies_within(v->values, count, item_size(v, c), p->decoded);
}

stk_status stk__table_decode_piece(const stk__table *t, const stk__table_kept *kept,
                                   const stk__table_piece *piece, const void *data, void *out,
                                   void *worker, const char **reason)
{
    const stk__table_column *columns = kept->layout->columns + piece->column;
    const stk__table_vector *vectors = out;

    STK_TRY(t->format->decode(t, columns, piece, data, out, worker, reason));
    for (uint32_t i = 0; i < piece->columns; i++)
        if (columns[i].kind != STK__COLUMN_REFUSED &&
            !is_sound(out, &vectors[i], &columns[i], piece)) {
            *reason = "the columns of the piece say what does not fit together";
            return STK_EFORMAT;
        }
    ((stk__table_vector *)out)->piece = (uint32_t)(piece - kept->pieces) & INT32_MAX;
    return STK_OK;
}

static void fail_piece(const stk__table *t, const stk__table_kept *kept, const stk__table_piece *p,
                       stk_status status, const char *reason, stk_error *err)
{
    const char *key = t->text + kept->key;
    char place[300];

    stk__table_piece_text(t, kept, p, place, sizeof place);
    stk__fail_at(err, status, STK_STAGE_DATASET, key, p->offset, "%s: %.200s, byte %llu: %s: %s",
                 stk__table_name(t), key, (unsigned long long)p->offset, place,
                 reason ? reason : stk_status_text(status));
}

stk_status stk__table_load(const stk__table *t, const stk__table_kept *kept, uint32_t piece,
                           void **out, stk_error *err)
{
    stk_context *ctx = t->base.context;
    const stk__table_piece *p = &kept->pieces[piece];
    const char *key = t->text + kept->key, *reason = NULL;

    *out = NULL;
    if (p->length > stk__memory_left(ctx) || p->decoded > stk__memory_left(ctx) - p->length)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, p->offset,
                            "%s: %.200s: a piece of %llu bytes does not fit what is left of "
                            "memory_limit",
                            stk__table_name(t), key, (unsigned long long)(p->length + p->decoded));
    void *data = stk__alloc_buffer(ctx, p->length);
    void *decoded = stk__alloc_buffer(ctx, p->decoded);
    stk_status status = data && decoded ? STK_OK : stk__table_no_memory(t, err);
    if (status == STK_OK)
        status = stk_store_read(t->stores.items[kept->store].store, key, p->offset, p->length, data,
                                err);
    if (status == STK_OK) {
        status = stk__table_decode_piece(t, kept, p, data, decoded, NULL, &reason);
        if (status != STK_OK)
            fail_piece(t, kept, p, status, reason, err);
    }
    stk__free(ctx, data);
    if (status == STK_OK)
        *out = decoded;
    else
        stk__free(ctx, decoded);
    return status;
}

uint8_t stk__table_cell(const stk__table_cells *cells, const stk__table_column *column,
                        uint64_t row, const void **data, uint64_t *size)
{
    const stk__table_vector *v = cells->vector;
    const char *base = cells->base;

    *data = NULL;
    *size = 0;
    const uint8_t null = v->nulls ? ((const uint8_t *)base + v->nulls)[row] : 0;
    if (null && null != STK__TABLE_HOLES)
        return null;
    const uint64_t item = stk_dtype_size(column->dtype);
    if (stk__table_is_coded_list(cells, column)) {
        const uint32_t *offsets = (const uint32_t *)(const void *)(base + v->offsets);
        *data = base + v->values + offsets[row] * sizeof(uint32_t);
        *size = (uint64_t)(offsets[row + 1] - offsets[row]) * item;
        return null;
    }
    if (v->codes) {
        const uint32_t code = ((const uint32_t *)(const void *)(base + v->values))[row];
        v = (const stk__table_vector *)(const void *)cells->dictionary;
        base = cells->dictionary;
        if (!v || v->codes || code >= v->rows)
            return UINT8_MAX;
        row = code;
    }
    if (column->kind == STK__COLUMN_VALUES) {
        *size = column->width * item;
        *data = base + v->values + row * (v->apart ? v->apart : *size);
        return null;
    }
    const uint32_t *offsets = (const uint32_t *)(const void *)(base + v->offsets);
    *data = base + v->values + offsets[row] * item;
    *size = (uint64_t)(offsets[row + 1] - offsets[row]) * item;
    return null;
}

#define LOOK_UP(bits)                                                                              \
    for (uint64_t i = 0; i < count; i++) {                                                         \
        static const uint##bits##_t zero = 0;                                                      \
        const bool null = list[i] == STK__TABLE_NO_PIECE;                                          \
        if (!null && list[i] >= d->rows)                                                           \
            return false;                                                                          \
        memcpy((char *)out + i * (bits) / 8,                                                       \
               null ? (const char *)&zero : values + (uint64_t)list[i] * (bits) / 8, (bits) / 8);  \
    }

bool stk__table_look_up(const stk__table_cells *cells, const stk__table_column *column,
                        const void *codes, uint64_t size, void *out)
{
    const stk__table_vector *d = (const stk__table_vector *)(const void *)cells->dictionary;
    const uint64_t item = stk_dtype_size(column->dtype), count = size / item;
    const uint32_t *list = codes;

    if (!d || d->codes)
        return false;
    const char *values = cells->dictionary + d->values;
    switch (item) {
    case 1:
        LOOK_UP(8)
        return true;
    case 2:
        LOOK_UP(16)
        return true;
    case 4:
        LOOK_UP(32)
        return true;
    default:
        LOOK_UP(64)
        return true;
    }
}
