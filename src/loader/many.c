/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that need the same, as those of a table that lie in the same pieces: the dataset writes all
 * of their values by one call, straight to the slab, where nothing else is to become of them. They
 * are a group, wherever they stand in the batch, or a run, one behind the other.
 */
#include "loader/workers.h"

uint32_t stk__many_rows(const stk_dataset *dataset, const stk__column *columns, uint32_t n,
                        bool in_order)
{
    for (uint32_t c = 0; c < n; c++)
        if (columns[c].source >= 0 && (columns[c].pipeline || columns[c].field.layout != STK_FIXED))
            return 0;
    return !dataset->ops->prepare_rows ? 0 : in_order ? STK__RUN_ROWS : STK__GROUP_ROWS;
}

uint32_t stk__many_next(const stk__worker *worker, uint32_t first)
{
    const stk__row *leader = &worker->step->rows[worker->rows[first]];

    if (worker->run)
        return 1;
    /* A group is taken whole. */
    return worker->team->many_rows && leader->status == STK_OK ? leader->group : 0;
}

/* Let the dataset prepare `n` rows from row `first` of the batch on, or those at `places`. */
static void prepare(stk__worker *worker, uint32_t first, const uint32_t *places,
                    const uint64_t *indices, uint32_t n)
{
    stk__workers *w = worker->team;
    const stk__step *step = worker->step;
    stk_rows many = {.struct_size = sizeof many,
                     .num = n,
                     .indices = indices,
                     .needs = step->rows[first].slices,
                     .places = places,
                     .place = first,
                     .fields = worker->many_fields,
                     .statuses = worker->many_statuses,
                     .reasons = worker->many_reasons,
                     .lines = worker->many_lines,
                     .worker = worker->state};

    /* The dataset's fields are the first columns, in order. */
    for (uint32_t f = 0; f < w->dataset->num_fields; f++)
        worker->many_fields[f] =
            (stk_rows_field){.out = step->slab->data[f], .stride = w->ring->columns[f].row_bytes};
    memset(worker->many_statuses, 0, n * sizeof *worker->many_statuses);
    memset(worker->many_reasons, 0, n * sizeof *worker->many_reasons);
    memset(worker->many_lines, 0, n * sizeof *worker->many_lines);
    w->dataset->ops->prepare_rows(w->dataset, &many);
}

/* What came of row `i` of those that were prepared. */
static void judge(const stk__worker *worker, stk__row *row, uint32_t i)
{
    const char *reason = worker->many_reasons[i];

    if (worker->many_statuses[i] == STK_OK)
        return;
    const stk_status status = stk__dataset_failure(worker->many_statuses[i], &reason);
    stk__row_is_bad(row, status, STK_STAGE_DATASET, reason);
    row->line = worker->many_lines[i];
}

void stk__many_prepare(stk__worker *worker, const uint32_t *rows, uint32_t n)
{
    stk__step *step = worker->step;

    if (worker->run) {
        n = worker->run;
        prepare(worker, rows[0], NULL, step->indices + rows[0], n);
    } else {
        for (uint32_t i = 0; i < n; i++)
            worker->indices[i] = step->rows[rows[i]].index;
        prepare(worker, rows[0], rows, worker->indices, n);
        for (uint32_t i = 0; i < n; i++)
            judge(worker, &step->rows[rows[i]], i);
    }
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++)
        bad += worker->many_statuses[i] != STK_OK;
    worker->num_bad += bad;
}

void stk__many_part_locked(stk__worker *worker)
{
    const uint32_t first = worker->rows[0];

    stk__row_part_locked(worker->step, first);
    for (uint32_t i = 0; i < worker->run; i++)
        judge(worker, &worker->step->rows[first + i], i);
}
