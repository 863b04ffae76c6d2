/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that are the rows of several arrays. They are windows of one step along a dimension that
 * all arrays have in front, and which fields then lack; what lies behind it is taken whole. So all
 * else is as of windows: where chunks lie, what is decoded once, what is read in part.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/random.h"
#include "dataset/window.h"

#define BLOCK_BYTES (UINT64_C(4) << 20) /* of neighbours that are worth reading together */

static stk_status fail_row(stk_error *err, stk_status status, const char *path, const char *what)
{
    return stk__fail_at(err, status, STK_STAGE_DATASET, path, STK_NO_OFFSET, "'%.200s' %s", path,
                        what);
}

/* ---- Dimensions ---- */

/* A dimension of this length that the variable has not yet: taken whole, it may be of several. */
static uint32_t dim_of(const stk__window *w, const stk__window_variable *v, uint32_t d)
{
    uint32_t i = 1;

    for (; i < w->num_dims; i++) {
        bool free = w->dims[i].size == v->info->shape[d];
        for (uint32_t e = 1; e < d; e++)
            free = free && v->dims[e] != i;
        if (free)
            break;
    }
    return i;
}

static stk_status tie_dims(stk__window *w, stk__window_variable *v, stk_error *err)
{
    for (uint32_t d = 0; d < v->info->rank; d++) {
        const uint32_t i = d ? dim_of(w, v, d) : 0;
        const int64_t size = v->info->shape[d];
        v->dims[d] = i;
        if (i < w->num_dims)
            continue;
        if (i == STK__WINDOW_DIMS)
            return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                             "the rows have dimensions of more than %d lengths; name fewer fields",
                             STK__WINDOW_DIMS - 1);
        w->dims[i] = (stk__window_dim){.size = size,
                                       .end = size,
                                       .window = i ? size : 1,
                                       .stride = i ? size : 1,
                                       .chunk = v->info->chunk_shape[d],
                                       .n = i ? 1 : (uint64_t)size,
                                       .k = 1,
                                       .tail = 1,
                                       .variable = w->num_variables - 1};
        w->num_dims++;
    }
    return STK_OK;
}

/* Rows of a block: those of a chunk of the array whose rows are the largest, or of longer chunks
 * where so many rows are not much. Of what is read in part a block is a run worth reading. */
static uint64_t block_rows(const stk__window *w)
{
    uint64_t row = 0, largest = 0, rows = 0;

    for (uint32_t i = 0; i < w->num_fields; i++)
        if (!stk__add_size(row, stk_field_bytes(&w->fields[i]), &row))
            row = UINT64_MAX;
    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        const uint64_t bytes = stk_field_bytes(&w->fields[i]);
        if (v->plain || bytes < largest)
            continue;
        largest = bytes;
        rows = (uint64_t)v->info->chunk_shape[0];
    }
    if (!largest)
        return STK_MAX(BLOCK_BYTES / STK_MAX(row, 1), 1);
    for (uint32_t i = 0; i < w->num_variables; i++) {
        const uint64_t chunk = (uint64_t)w->variables[i].info->chunk_shape[0];
        if (!w->variables[i].plain && chunk > rows && chunk <= BLOCK_BYTES / STK_MAX(row, 1))
            rows = chunk;
    }
    return rows;
}

/* ---- Fields ---- */

static void mark_picture(stk_field *f)
{
    f->picture = f->dtype == STK_UINT8 && f->rank == 3 &&
                 (f->shape[2] == 1 || f->shape[2] == 3 || f->shape[2] == 4);
}

static stk_status add_row(stk__window *w, stk__window_row *row, stk_error *err)
{
    stk__window_variable *v = &w->variables[w->num_variables++];
    const stk_array_info *info = stk_array_get_info(row->array);
    uint32_t field = 0;

    *v = (stk__window_variable){.array = row->array, .info = info, .scale = 1};
    row->array = NULL;
    snprintf(v->name, sizeof v->name, "%s", row->path);
    if (!info->rank || info->dtype == STK_DTYPE_NONE || !info->bytes)
        return fail_row(err, STK_EKIND, row->path, "has no rows of numbers");
    v->dtype = row->widened ? STK_INT64 : info->dtype;
    v->widen = v->dtype != info->dtype ? stk__widen_c(info->dtype) : NULL;
    v->converts = v->dtype != info->dtype;
    if (v->converts && !v->widen)
        return fail_row(err, STK_EKIND, row->path, "holds no integers that int64 has");
    v->chunk_bytes = info->itemsize;
    for (uint32_t d = 0; d < info->rank; d++)
        v->chunk_bytes *= (uint64_t)info->chunk_shape[d]; /* which the array has checked */
    STK_TRY(tie_dims(w, v, err));
    STK_TRY(stk__window_add_field(w, row->field, "", v->dtype, info->shape + 1, info->rank - 1,
                                  &field, err));
    mark_picture(&w->fields[field]);
    const uint64_t values = info->bytes / info->itemsize / (uint64_t)info->shape[0];
    if (v->converts)
        w->raw_bytes = STK_MAX(w->raw_bytes, values * info->itemsize);
    w->parts[w->num_parts++] = (stk__window_part){
        .variable = w->num_variables - 1, .field = field, .mask = -1, .values = values};
    return STK_OK;
}

/* ---- Opening ---- */

static stk_status open_all(stk__window *w, stk__window_row *rows, uint32_t n,
                           const stk_array_options *options, stk_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        STK_TRY(add_row(w, &rows[i], err));
    w->base.size = w->dims[0].n;
    if (w->base.size > STK_PERMUTATION_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET, "there are more than 2^48 rows");
    STK_TRY(stk__window_finish(w, options, err));
    for (uint32_t i = 0; i < w->num_variables; i++) {
        stk__window_variable *v = &w->variables[i];
        if (stk__array_is_run(v->array, &v->row_offset))
            v->row_bytes = v->info->bytes / (uint64_t)v->info->shape[0];
    }
    w->base.block_size = STK_MIN(block_rows(w), w->base.size);
    return STK_OK;
}

stk_status stk__window_open_rows(stk_context *ctx, const stk_dataset_ops *ops,
                                 stk__window_row *rows, uint32_t n,
                                 const stk_array_options *options, char *notes, stk_dataset **out,
                                 stk_error *err)
{
    stk_status status = STK_OK;

    *out = NULL;
    stk__window *w = stk__calloc(ctx, 1, sizeof *w);
    if (!w) {
        stk__free(ctx, notes);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open rows of arrays");
    }
    w->base.context = ctx;
    w->base.ops = ops;
    w->notes = notes;
    w->rows = true;
    stk_options_init(&stk__window_table, &w->options, sizeof w->options);
    status = open_all(w, rows, n, options, err);
    if (status != STK_OK) {
        stk__window_close(&w->base);
        return status;
    }
    *out = &w->base;
    return STK_OK;
}

/* ---- Describing ---- */

static void say_array(const stk__window_variable *v,
                      void (*line)(void *user, const char *name, const char *value), void *user)
{
    char text[512], name[300];

    int at = snprintf(text, sizeof text, "%s, %s, %s, ", v->info->format, v->info->type_name,
                      v->info->codecs);
    for (uint32_t d = 0; d < v->info->rank && at < (int)sizeof text; d++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%" PRId64, d ? "x" : "",
                       v->info->shape[d]);
    for (uint32_t d = 0; d < v->info->rank && !v->plain && at < (int)sizeof text; d++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%" PRId64,
                       d ? "x" : " in chunks of ", v->info->chunk_shape[d]);
    snprintf(name, sizeof name, "array %s", v->name);
    line(user, name, text);
}

/* What a row by itself costs: the chunks that it lies in, whole, and of other arrays itself. */
static void say_cost(const stk__window *w,
                     void (*line)(void *user, const char *name, const char *value), void *user)
{
    uint64_t own = 0, taken = 0, chunks = 0;
    char text[300];

    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        const uint64_t bytes = v->info->bytes / (uint64_t)v->info->shape[0];
        uint64_t across = 1;
        for (uint32_t d = 1; d < v->info->rank; d++)
            across *= (uint64_t)v->count[d]; /* at most the array's chunks */
        own += bytes;
        chunks += v->plain ? 0 : across;
        taken += v->plain ? bytes : across * v->chunk_bytes;
    }
    if (chunks)
        snprintf(text, sizeof text,
                 "%" PRIu64 " chunk%s, %" PRIu64 " bytes for %" PRIu64 "; in blocks of %" PRIu64
                 " rows (shuffle: block) a chunk is decoded once for all "
                 "of its rows",
                 chunks, chunks > 1 ? "s" : "", taken, own, w->base.block_size);
    else
        snprintf(text, sizeof text, "its %" PRIu64 " bytes and no more", own);
    line(user, "a row alone takes", text);
}

/* "name\tvalue\n", as often as it comes. */
static void say_notes(const char *at, void (*line)(void *user, const char *name, const char *value),
                      void *user)
{
    char name[64], value[512];

    while (at && *at) {
        const size_t first = strcspn(at, "\t"), second = strcspn(at + first + 1, "\n");
        snprintf(name, sizeof name, "%.*s", (int)STK_MIN(first, sizeof name - 1), at);
        snprintf(value, sizeof value, "%.*s", (int)STK_MIN(second, sizeof value - 1),
                 at + first + 1);
        line(user, name, value);
        at += first + 1 + second + 1;
    }
}

stk_status stk__window_rows_describe(stk_dataset *dataset,
                                     void (*line)(void *user, const char *name, const char *value),
                                     void *user, stk_error *err)
{
    const stk__window *w = (const stk__window *)dataset;

    (void)err;
    for (uint32_t i = 0; i < w->num_variables; i++)
        say_array(&w->variables[i], line, user);
    say_notes(w->notes, line, user);
    say_cost(w, line, user);
    stk__window_advise(w, line, user);
    return STK_OK;
}
