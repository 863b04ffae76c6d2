/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that need the same, as those of a table that lie in the same pieces: the dataset writes all
 * of their values by one call, straight to the slab, where nothing else is to become of them.
 */
#include "loader/workers.h"

bool stk__many_may(const stk__workers *w)
{
    if (!w->dataset->ops->prepare_rows || stk__keeps_samples(w->keeping))
        return false;
    for (uint32_t c = 0; c < w->ring->num_columns; c++) {
        const stk__column *column = &w->ring->columns[c];
        if (column->source >= 0 && (column->pipeline || column->field.layout != STK_FIXED))
            return false;
    }
    return true;
}

uint32_t stk__many_run(const stk__worker *worker, uint32_t first)
{
    const stk__row *rows = worker->step->rows;
    const uint32_t leader = worker->rows[first];
    uint32_t n = 1;

    if (!worker->team->many || !rows[leader].group || rows[leader].status != STK_OK)
        return 0;
    while (first + n < worker->num_rows && n < rows[leader].group &&
           rows[worker->rows[first + n]].follows == leader + 1)
        n++;
    return n;
}

void stk__many_prepare(stk__worker *worker, const uint32_t *rows, uint32_t n)
{
    stk__workers *w = worker->team;
    stk__step *step = worker->step;
    stk_rows many = {.struct_size = sizeof many,
                     .num = n,
                     .indices = worker->indices,
                     .needs = step->rows[rows[0]].slices,
                     .places = rows,
                     .fields = worker->many_fields,
                     .statuses = worker->many_statuses,
                     .reasons = worker->many_reasons,
                     .lines = worker->many_lines,
                     .worker = worker->state};

    /* The dataset's fields are the first columns, in order. */
    for (uint32_t f = 0; f < w->dataset->num_fields; f++)
        worker->many_fields[f] =
            (stk_rows_field){.out = step->slab->data[f], .stride = w->ring->columns[f].row_bytes};
    for (uint32_t i = 0; i < n; i++) {
        worker->indices[i] = step->rows[rows[i]].index;
        worker->many_statuses[i] = STK_OK;
        worker->many_reasons[i] = NULL;
        worker->many_lines[i] = 0;
    }
    w->dataset->ops->prepare_rows(w->dataset, &many);
    for (uint32_t i = 0; i < n; i++) {
        const char *reason = worker->many_reasons[i];
        if (worker->many_statuses[i] == STK_OK)
            continue;
        const stk_status status = stk__dataset_failure(worker->many_statuses[i], &reason);
        stk__row_is_bad(&step->rows[rows[i]], status, STK_STAGE_DATASET, reason);
        step->rows[rows[i]].line = worker->many_lines[i];
        worker->num_bad++;
    }
}
