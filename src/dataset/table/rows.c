/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are taken: by where, and without those that have nulls. */
#include <stdio.h>

#include "base/counted.h"
#include "dataset/lookers.h"
#include "dataset/table/pieces.h"
#include "dataset/table/where.h"

/* Rows of a piece of the first column that is looked at. */
typedef struct task {
    uint32_t file;
    uint64_t first, end; /* rows of the file */
} task;

typedef struct job {
    const stk__table *table;
    const stk__where *where;           /* NULL: all */
    const stk__table_column **columns; /* those of where, then those that may not be null */
    uint32_t num_where, num_columns;
    task *tasks;
    size_t num_tasks, tasks_room;
    atomic_uint_fast64_t *bits; /* of each row of the table */
    atomic_uint_fast64_t taken, passed;
    stk__counted pieces; /* the tasks */
} job;

/* A column as one thread reads it: the piece that it has. */
typedef struct column {
    const stk__table_key *key; /* it is in no piece; NULL: it is */
    uint32_t at, chain, piece, dictionary;
    void *data, *codes;
} column;

typedef struct reader {
    const job *job;
    uint32_t file;
    const stk__table_kept *kept;
    column *columns;
} reader;

/* ---- One thread ------------------------------------------------------------------------------ */

static void forget(const reader *r, column *c)
{
    stk_context *ctx = r->job->table->base.context;

    stk__free(ctx, c->data);
    stk__free(ctx, c->codes);
    c->data = c->codes = NULL;
    c->piece = c->dictionary = STK__TABLE_NONE;
}

static void enter_file(reader *r, uint32_t file)
{
    if (r->kept && r->file == file)
        return;
    r->file = file;
    r->kept = &r->job->table->files[file];
    for (uint32_t i = 0; i < r->job->num_columns; i++) {
        column *c = &r->columns[i];
        forget(r, c);
        c->key = stk__table_key_by_name(r->job->table, r->job->columns[i]->name);
        if (c->key)
            continue;
        c->at = 0;
        while (strcmp(r->kept->layout->columns[c->at].name, r->job->columns[i]->name) != 0)
            c->at++; /* it is there: see tie() */
        c->chain = r->kept->layout->chain_of[c->at];
    }
}

/* Have the pieces that hold a row; *end is where the first of them ends. */
static stk_status seek(reader *r, uint64_t row, uint64_t *end, stk_error *err)
{
    const stk__table *t = r->job->table;

    for (uint32_t i = 0; i < r->job->num_columns; i++) {
        column *c = &r->columns[i];
        if (c->key)
            continue;
        const uint32_t number = stk__table_piece_at(r->kept, c->chain, row);
        const stk__table_piece *p = &r->kept->pieces[number];
        *end = STK_MIN(*end, p->first_row + p->rows);
        if (c->piece == number)
            continue;
        stk__free(t->base.context, c->data);
        c->data = NULL;
        c->piece = STK__TABLE_NONE;
        STK_TRY(stk__table_load(t, r->kept, number, &c->data, err));
        c->piece = number;
        if (p->dictionary == STK__TABLE_NO_PIECE || p->dictionary == c->dictionary)
            continue;
        stk__free(t->base.context, c->codes);
        c->codes = NULL;
        c->dictionary = STK__TABLE_NONE;
        STK_TRY(stk__table_load(t, r->kept, p->dictionary, &c->codes, err));
        c->dictionary = p->dictionary;
    }
    return STK_OK;
}

static uint8_t cell(const reader *r, uint32_t i, uint64_t row, const void **data, uint64_t *size)
{
    const column *c = &r->columns[i];
    if (c->key) {
        *data = stk__table_key_value(r->job->table, c->key, r->file, size);
        return !*data;
    }
    const stk__table_piece *p = &r->kept->pieces[c->piece];
    const stk__table_cells cells = {.base = c->data,
                                    .vector =
                                        (const stk__table_vector *)c->data + (c->at - p->column),
                                    .dictionary = c->codes};

    return stk__table_cell(&cells, &r->kept->layout->columns[c->at], row - p->first_row, data,
                           size);
}

/* What is no value of its type is as null. */
static const void *where_cell(void *user, uint32_t i, uint64_t row, uint64_t *size)
{
    const void *data;

    const uint8_t null = cell(user, i, row, &data, size);
    return null && null != STK__TABLE_HOLES ? NULL : data;
}

static bool is_taken(reader *r, uint64_t row)
{
    const job *j = r->job;
    const void *data;
    uint64_t size;

    if (j->where && !stk__where_holds(j->where, j->columns, where_cell, r, row))
        return false;
    for (uint32_t i = j->num_where; i < j->num_columns; i++) {
        const uint8_t null = cell(r, i, row, &data, &size);
        if (null == 1 || null == STK__TABLE_HOLES)
            return false;
    }
    return true;
}

typedef struct span {
    const reader *reader;
    uint64_t first, end;
} span;

/* Bounds of a column whose piece holds all rows of a task. */
static bool bounds_of(void *user, uint32_t i, stk__table_bound *least, stk__table_bound *most)
{
    const span *s = user;
    const stk__table_kept *k = s->reader->kept;
    if (s->reader->columns[i].key)
        return false;
    const uint32_t number = stk__table_piece_at(k, s->reader->columns[i].chain, s->first);
    size_t low = 0, high = k->num_limits;

    if (k->pieces[number].first_row + k->pieces[number].rows < s->end ||
        k->pieces[number].columns != 1)
        return false;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (k->limits[middle].piece < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == k->num_limits || k->limits[low].piece != number)
        return false;
    *least = k->limits[low].least;
    *most = k->limits[low].most;
    return true;
}

static stk_status do_task(job *j, reader *r, const task *t, stk_error *err)
{
    enter_file(r, t->file);
    span s = {r, t->first, t->end};
    if (j->where && !stk__where_may_hold(j->where, bounds_of, &s)) {
        atomic_fetch_add_explicit(&j->passed, 1, memory_order_relaxed);
        return STK_OK;
    }
    for (uint64_t row = t->first; row < t->end;) {
        uint64_t end = t->end, taken = 0;
        STK_TRY(seek(r, row, &end, err));
        for (; row < end; row++) {
            const uint64_t all = r->kept->first_row + row;
            if (!is_taken(r, row))
                continue;
            atomic_fetch_or_explicit(&j->bits[all / 64], UINT64_C(1) << all % 64,
                                     memory_order_relaxed);
            taken++;
        }
        atomic_fetch_add_explicit(&j->taken, taken, memory_order_relaxed);
    }
    return STK_OK;
}

static void work(void *argument)
{
    job *j = argument;
    stk_context *ctx = j->table->base.context;
    reader r = {.job = j, .columns = stk__calloc(ctx, j->num_columns, sizeof *r.columns)};
    uint64_t i, end;
    stk_error err;

    stk_error_init(&err);
    if (!r.columns)
        stk__counted_fail(&j->pieces, 0, stk__table_no_memory(j->table, &err), &err);
    for (uint32_t c = 0; r.columns && c < j->num_columns; c++)
        r.columns[c].piece = r.columns[c].dictionary = STK__TABLE_NONE;
    while (stk__counted_take(&j->pieces, &i, &end)) {
        const stk_status status = do_task(j, &r, &j->tasks[i], &err);
        if (status != STK_OK)
            stk__counted_fail(&j->pieces, i, status, &err);
        atomic_fetch_add_explicit(&j->pieces.done, 1, memory_order_relaxed);
    }
    for (uint32_t c = 0; r.columns && c < j->num_columns; c++)
        forget(&r, &r.columns[c]);
    stk__free(ctx, r.columns);
}

/* ---- All ------------------------------------------------------------------------------------- */

static const stk__table_column *column_of(const stk__table_layout *l, const char *name)
{
    const uint32_t i = stk__table_column_by_name(l, name);

    return i != STK__TABLE_NONE && l->chain_of[i] != STK__TABLE_NONE ? &l->columns[i] : NULL;
}

/* Columns of where are in all files, and of one type. */
static stk_status tie_where(job *j, stk_error *err)
{
    const stk__table *t = j->table;

    for (uint32_t i = 0; j->where && i < j->where->num_columns; i++) {
        const char *name = j->where->columns[i];
        const stk__table_key *key = stk__table_key_by_name(t, name);
        if (key) {
            j->columns[j->num_columns++] = &key->column;
            continue;
        }
        const stk__table_column *first = column_of(t->files[0].layout, name);
        if (stk__table_column_by_name(t->files[0].layout, name) == STK__TABLE_NONE)
            return stk__table_no_column(t, "where", name, err);
        for (size_t f = 0; f < t->num_files; f++) {
            const stk__table_column *c = column_of(t->files[f].layout, name);
            if (!c || !first || c->kind != first->kind || c->dtype != first->dtype ||
                c->width != first->width)
                return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "where", STK_NO_OFFSET,
                                    "%s: where=%.150s: %.150s has no column '%.60s'%s",
                                    stk__table_name(t), j->where->text, t->text + t->files[f].key,
                                    name, c ? " of the same type as the first file" : "");
        }
        j->columns[j->num_columns++] = first;
    }
    j->num_where = j->num_columns;
    for (uint32_t i = 0; t->nulls == STK__NULLS_DROP && i < t->num_reads; i++)
        if (t->reads[i].column.nullable || t->reads[i].column.holes)
            j->columns[j->num_columns++] = &t->reads[i].column;
    return j->where ? stk__where_check(j->where, j->columns, err) : STK_OK;
}

static stk_status make_tasks(job *j, stk_error *err)
{
    const stk__table *t = j->table;
    stk_context *ctx = t->base.context;

    uint32_t first = 0;

    /* One that is in the files: where of keys alone was decided before. */
    while (first + 1 < j->num_columns && stk__table_key_by_name(t, j->columns[first]->name))
        first++;
    for (size_t f = 0; f < t->num_files; f++) {
        const stk__table_kept *k = &t->files[f];
        for (uint64_t row = 0; row < k->rows;) {
            const stk__table_layout *l = k->layout;
            const stk__table_column *c = column_of(l, j->columns[first]->name);
            const stk__table_piece *p =
                &k->pieces[stk__table_piece_at(k, l->chain_of[c - l->columns], row)];
            task *tasks =
                stk__grow(ctx, j->tasks, &j->tasks_room, (uint64_t)j->num_tasks + 1, sizeof *tasks);
            if (!tasks)
                return stk__table_no_memory(t, err);
            j->tasks = tasks;
            j->tasks[j->num_tasks++] = (task){(uint32_t)f, row, p->first_row + p->rows};
            row = p->first_row + p->rows;
        }
    }
    return STK_OK;
}

static stk_status make_list(stk__table *t, const job *j, stk_error *err)
{
    const uint64_t taken = atomic_load(&j->taken);
    uint64_t bytes, n = 0;

    if (!taken)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, j->where ? "where" : "nulls",
                            STK_NO_OFFSET, "%s: of %llu rows none is left by %s%.200s",
                            stk__table_name(t), (unsigned long long)t->num_rows,
                            j->where ? "where=" : "nulls=drop", j->where ? j->where->text : "");
    if (!stk__mul_size(taken, sizeof *t->rows, &bytes) ||
        bytes > stk__memory_left(t->base.context) / 2)
        return stk__table_no_memory(t, err);
    t->rows = stk__alloc(t->base.context, bytes);
    if (!t->rows)
        return stk__table_no_memory(t, err);
    for (uint64_t w = 0; w < stk__divide_up(t->num_rows, 64); w++)
        for (uint64_t bits = atomic_load_explicit(&j->bits[w], memory_order_relaxed); bits;
             bits &= bits - 1)
            t->rows[n++] = w * 64 + (uint64_t)__builtin_ctzll(bits);
    t->num_taken = taken;
    t->num_passed = atomic_load(&j->passed);
    return STK_OK;
}

static stk_status run(stk__table *t, job *j, stk_error *err)
{
    stk_context *ctx = t->base.context;
    char what[64];

    STK_TRY(tie_where(j, err));
    if (!j->num_columns)
        return STK_OK; /* no column may be null */
    STK_TRY(make_tasks(j, err));
    const uint64_t words = stk__divide_up(t->num_rows, 64);
    if (words * sizeof *j->bits > stk__memory_left(ctx) / 2)
        return stk__table_no_memory(t, err);
    j->bits = stk__calloc(ctx, words, sizeof *j->bits);
    if (!j->bits)
        return stk__table_no_memory(t, err);
    snprintf(what, sizeof what, "rows of %s", stk__table_name(t));
    const uint64_t threads = STK_MIN(stk__lookers(ctx), j->num_tasks);
    stk__counted_init(&j->pieces, j->num_tasks, 1);
    stk__lookers_run(ctx, (uint32_t)threads, work, j, what, &j->pieces.done, j->num_tasks);
    STK_TRY(stk__counted_end(&j->pieces, err));
    return make_list(t, j, err);
}

stk_status stk__table_choose_rows(stk__table *t, const stk__where *where, stk_error *err)
{
    stk_context *ctx = t->base.context;
    job j = {.table = t, .where = where};
    const size_t most = (size_t)t->num_reads + (where ? where->num_columns : 0);

    j.columns = stk__calloc(ctx, most, sizeof *j.columns);
    const stk_status status = j.columns ? run(t, &j, err) : stk__table_no_memory(t, err);
    stk__free(ctx, j.columns);
    stk__free(ctx, j.tasks);
    stk__free(ctx, (void *)j.bits);
    return status;
}
